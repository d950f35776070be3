/* SPDX-License-Identifier: Apache-2.0 */
/* The handle: open, close, and its face towards an event loop. Moves no bytes
 * (pump.c) and knows no calls (stream.c, call.c). */
#include "client.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "link/link_sock.h"
#include "wire/limits.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TO(s) (1u << SLI_CL_##s)

static const unsigned legal[SLI_CL__N] = {
    [SLI_CL_PREAMBLE] = TO(HELLO) | TO(CLOSED),
    [SLI_CL_HELLO] = TO(READY) | TO(CLOSED),
    [SLI_CL_READY] = TO(CLOSED),
    [SLI_CL_CLOSED] = 0,
};

static const char *const names[SLI_CL__N] = {
    [SLI_CL_PREAMBLE] = "preamble",
    [SLI_CL_HELLO] = "hello",
    [SLI_CL_READY] = "ready",
    [SLI_CL_CLOSED] = "closed",
};

void
sli_cl_move(struct sluice_client *c, enum sli_cl_state to)
{
	SLI_ASSERT(legal[c->state] & (1u << to));
	sli_debug("client", "state", "url=%s from=%s to=%s", c->url,
	    names[c->state], names[to]);
	c->state = to;
}

int64_t
sli_cl_now(void)
{
	return sli_mono_ms();
}

const char *
sluice_version(void)
{
	return SLUICE_VERSION;
}

int
sluice_has_feature(const char *name)
{
	static const char *const have[] = {"unix", "tcp-insecure", "vm", "exec",
	    "attach", "session", "permission", "history", "subscribe"};

	for (size_t i = 0; i < SLI_ARRAY_LEN(have); i++)
		if (strcmp(name, have[i]) == 0)
			return 1;
	return 0;
}

static enum sli_err
take_options(struct sluice_client *c, const struct sluice_options *opt,
    struct sli_errinfo *ei)
{
	struct sluice_options o;
	enum sli_err e;

	e = sli_take_struct(&o, sizeof(o), opt, "struct sluice_options", ei);
	if (e != SLI_OK)
		return e;
	if (o.keepalive_s > (int32_t)SLI_KEEPALIVE_S_MOST || o.keepalive_s < -1)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "client.open",
		    "keepalive_s must be between -1 and %u",
		    SLI_KEEPALIVE_S_MOST);
	if (o.keepalive_s > 0)
		c->keepalive_s = (uint32_t)o.keepalive_s;
	else if (o.keepalive_s == 0 && o.loop)
		c->keepalive_s = SLI_KEEPALIVE_S;
	c->connect_timeout_ms =
	    o.connect_timeout_ms ? o.connect_timeout_ms : SLI_CL_CONNECT_MS;
	c->window = o.window;
	c->upload_max = o.upload_max ? o.upload_max : SLI_CL_UPLOAD_MAX;
	/* One message must always fit. */
	c->upload_max =
	    SLI_MAX(c->upload_max, SLI_MUX_MSG_MAX + sizeof(uint32_t));
	c->on_ready = o.on_ready;
	c->on_closed = o.on_closed;
	c->arg = o.arg;
	(void)sli_strlcpy(c->agent,
	    o.agent ? o.agent : "libsluice/" SLUICE_VERSION, sizeof(c->agent));
	return SLI_OK;
}

static enum sli_err
take_url(struct sluice_client *c, const char *url, struct sli_errinfo *ei)
{
	enum sli_err e;

	if (!url)
		url = getenv("SLUICE_URL");
	if (!url || url[0] == '\0') {
		e = sli_addr_default(c->url, ei);
		if (e != SLI_OK)
			return e;
	} else if (sli_strlcpy(c->url, url, sizeof(c->url)) != strlen(url)) {
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "client.open",
		    "the address is longer than %d bytes", SLI_URL_MAX - 1);
	}
	return sli_addr_parse(c->url, &c->addr, ei);
}

static struct sluice_client *
client_new(void)
{
	struct sluice_client *c = sli_zalloc(sizeof(*c));

	if (!c)
		return NULL;
	c->state = SLI_CL_PREAMBLE;
	c->pid = getpid();
	c->mux_ms = INT64_MAX;
	sli_list_init(&c->streams);
	sli_list_init(&c->todo);
	sli_buf_init(&c->out, SLI_MUX_BATCH_MAX);
	return c;
}

static void
client_free(struct sluice_client *c)
{
	while (!sli_list_empty(&c->streams)) {
		struct sluice_stream *s = SLI_LIST_ENTRY(
		    c->streams.next, struct sluice_stream, in_client);

		sli_stream_orphan(s);
	}
	sli_pump_stop(c);
	sli_buf_free(&c->out);
	sli_free(c);
}

int
sluice_open(const char *url, const struct sluice_options *opt,
    sluice_client **ret_c, struct sluice_error *err)
{
	struct sluice_client *c = client_new();
	struct sli_errinfo ei = {0};
	enum sli_err e;

	if (!c) {
		e = sli_fail(
		    &ei, SLI_E_NOMEM, 0, "client.open", "out of memory");
		goto out;
	}
	e = take_options(c, opt, &ei);
	if (e == SLI_OK)
		e = take_url(c, url, &ei);
	if (e == SLI_OK) {
		int64_t now = sli_cl_now();

		c->deadline_ms = now + c->connect_timeout_ms;
		e = sli_pump_dial(c, now, &ei);
	}
out:
	if (e != SLI_OK) {
		if (c)
			client_free(c);
		return sli_err_give(err, &ei);
	}
	*ret_c = c;
	return SLUICE_OK;
}

void
sluice_close(sluice_client *c)
{
	if (!c)
		return;
	if (c->busy)
		c->closing = 1; /* freed when sluice_process returns */
	else
		client_free(c);
}

const char *
sluice_url(const sluice_client *c)
{
	return c->url;
}

void
sli_cl_lost(struct sluice_client *c, const struct sli_errinfo *ei)
{
	struct sli_errinfo each;
	struct sli_list *it, *tmp;
	int was_up = c->state == SLI_CL_READY;

	if (c->state == SLI_CL_CLOSED)
		return;
	c->why = *ei;
	if (c->why.code == SLI_OK)
		(void)sli_fail(&c->why, SLI_E_CLOSED, 0, "client.lost",
		    "the server closed the connection");
	each = c->why;
	if (was_up)
		(void)sli_fail(&each, SLI_E_INTERRUPTED, 0, "client.lost",
		    "connection lost, the work goes on in the server: %s",
		    c->why.text);
	sli_cl_move(c, SLI_CL_CLOSED);
	sli_list_for_each_safe (it, tmp, &c->streams) {
		struct sluice_stream *s =
		    SLI_LIST_ENTRY(it, struct sluice_stream, in_client);

		sli_stream_ref(s);
		sli_stream_end_later(s, &each);
		sli_stream_gone(s);
		sli_stream_unref(s);
	}
}

int
sluice_fd(const sluice_client *c)
{
	/* A socket that could not connect yet polls as hung up for ever. */
	if (!c->link || (sli_link_state(c->link) == SLI_LINK_CONNECTING &&
			    sli_sock_events(c->link) == 0))
		return -1;
	return sli_sock_fd(c->link);
}

int
sluice_events(const sluice_client *c)
{
	int ev;

	if (sluice_fd(c) == -1)
		return 0;
	ev = sli_sock_events(c->link);
	if (c->mux && !sli_link_sending(c->link) &&
	    sli_mux_wants_output(c->mux))
		ev |= POLLOUT;
	return ev;
}

static int64_t
next_deadline(const struct sluice_client *c)
{
	int64_t at = c->mux_ms;
	struct sli_list *it;

	if (c->state != SLI_CL_READY)
		at = SLI_MIN(at, c->deadline_ms);
	if (c->link)
		at = SLI_MIN(at, sli_sock_due_ms(c->link));
	sli_list_for_each (it, &c->streams) {
		const struct sluice_stream *s =
		    SLI_LIST_ENTRY(it, struct sluice_stream, in_client);

		at = SLI_MIN(at, s->deadline_ms);
	}
	return at;
}

int64_t
sluice_timeout_ms(const sluice_client *c)
{
	int64_t at, now;

	if (!sli_list_empty(&c->todo) ||
	    (c->state == SLI_CL_CLOSED && !c->told))
		return 0;
	if (c->state == SLI_CL_CLOSED)
		return -1;
	at = next_deadline(c);
	if (at == INT64_MAX)
		return -1;
	now = sli_cl_now();
	return at > now ? at - now : 0;
}

static void
expire(struct sluice_client *c, int64_t now)
{
	struct sli_list *it, *tmp;
	struct sli_errinfo ei;

	if (c->state < SLI_CL_READY && now >= c->deadline_ms) {
		(void)sli_fail(&ei, SLI_E_UNAVAILABLE, 0, "client.connect",
		    "the server at %s does not answer", c->url);
		sli_pump_stop(c);
		sli_cl_lost(c, &ei);
	}
	sli_list_for_each_safe (it, tmp, &c->streams) {
		struct sluice_stream *s =
		    SLI_LIST_ENTRY(it, struct sluice_stream, in_client);

		if (now < s->deadline_ms)
			continue;
		(void)sli_fail(&ei, SLI_E_DEADLINE_EXCEEDED, 0, "client.call",
		    "the server did not answer in time; whether it acted is "
		    "unknown");
		sli_stream_fail(s, &ei);
	}
}

/* One turn; the caller has set c->busy. */
static void
turn(struct sluice_client *c)
{
	int64_t now = sli_cl_now();

	sli_pump(c, now);
	expire(c, now);
	sli_stream_run_todo(c);
	/* What the callbacks asked for leaves in the same turn. */
	sli_pump_flush(c, now);
	sli_stream_run_todo(c);
	if (c->state == SLI_CL_CLOSED && !c->told) {
		struct sluice_error e = {.size = sizeof(e)};

		c->told = 1;
		(void)sli_err_give(&e, &c->why);
		if (c->on_closed && !c->closing)
			c->on_closed(c->arg, c, &e);
	}
}

static int
refuse(struct sluice_error *err, enum sli_err code, const char *text)
{
	struct sli_errinfo ei;

	(void)sli_fail(&ei, code, 0, "client.process", "%s", text);
	return sli_err_give(err, &ei);
}

int
sluice_process(sluice_client *c, struct sluice_error *err)
{
	if (c->busy)
		return refuse(err, SLI_E_BUSY,
		    "called from inside a callback of the same connection");
	if (c->pid != getpid())
		return refuse(err, SLI_E_FAILED_PRECONDITION,
		    "the connection belongs to the parent process; open a new "
		    "one after fork");
	c->busy = 1;
	turn(c);
	c->busy = 0;
	if (c->closing) {
		client_free(c);
		return refuse(err, SLI_E_CLOSED,
		    "the connection was closed in a callback");
	}
	if (c->state == SLI_CL_CLOSED)
		return sli_err_give(err, &c->why);
	return SLUICE_OK;
}

int
sluice_wait(sluice_client *c, int64_t timeout_ms, struct sluice_error *err)
{
	int64_t t = sluice_timeout_ms(c);
	struct pollfd p = {.fd = sluice_fd(c), .events = 0};
	int ours = 1, n;

	if (c->busy || c->pid != getpid())
		return sluice_process(c, err); /* says why not */
	if (t < 0 || (timeout_ms >= 0 && timeout_ms < t)) {
		t = timeout_ms;
		ours = 0;
	}
	p.events = (short)sluice_events(c);
	n = poll(&p, 1, t < 0 ? -1 : (int)SLI_MIN(t, 60000));
	if (n < 0 && errno != EINTR) {
		struct sli_errinfo ei;

		(void)sli_fail(&ei, SLI_E_SYS, errno, "client.wait", "poll");
		return sli_err_give(err, &ei);
	}
	if (n < 0)
		return refuse(err, SLI_E_AGAIN, "a signal came");
	if (n == 0 && !ours && t >= 0 && t <= 60000)
		return refuse(err, SLI_E_AGAIN, "nothing came in time");
	return sluice_process(c, err);
}

void
sluice_get_counters(const sluice_client *c, struct sluice_counters *ret)
{
	struct sluice_counters full = {.size = sizeof(full)};
	size_t size = ret->size;
	struct sli_mux_stats st = {0};
	struct sli_list *it;

	if (c->mux)
		sli_mux_stats(c->mux, &st);
	full.bytes_in = st.bytes_in;
	full.bytes_out = st.bytes_out;
	full.inflight = st.inflight;
	full.unreleased = st.unreleased;
	full.buffered = st.held;
	full.streams = st.streams;
	sli_list_for_each (it, &c->streams) {
		const struct sluice_stream *s =
		    SLI_LIST_ENTRY(it, struct sluice_stream, in_client);

		full.buffered += sli_buf_len(&s->up);
	}
	if (size < sizeof(size))
		return;
	memcpy(ret, &full, SLI_MIN(size, sizeof(full)));
	ret->size = size;
}
