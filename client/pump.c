/* SPDX-License-Identifier: Apache-2.0 */
/* Between the link and the mux: the preamble, bytes in and out, timers; and
 * from the mux's sink to the streams. Makes no policy of its own. */
#include "client.h"

#include "base/str.h"
#include "link/link_sock.h"
#include "wire/limits.h"

#include <errno.h>
#include <string.h>

/* Receives and sends of one sluice_process: enough to keep a fast stream
 * going, few enough that the caller's loop gets its turn. */
#define PUMP_ROUNDS 8

static void
lost(struct sluice_client *c, const struct sli_errinfo *ei)
{
	sli_pump_stop(c);
	sli_cl_lost(c, ei);
}

/* --- the mux's sink --------------------------------------------------------
 * ctx is the client. While it is closing (sluice_close inside a callback) or
 * the user has freed the stream, sli_stream_mute() keeps callbacks away. */

static void
on_hello(void *ctx, const struct sli_peer_hello *peer)
{
	struct sluice_client *c = ctx;

	(void)peer;
	sli_cl_move(c, SLI_CL_READY);
	sli_pump_start_calls(c);
	if (c->on_ready && !c->closing)
		c->on_ready(c->arg, c);
}

static void
on_call(void *ctx, uint32_t sid, const struct sli_call *call)
{
	/* The mux lets no CALL through to a client. */
	(void)ctx;
	(void)sid;
	(void)call;
}

static void
on_end(void *ctx, uint32_t sid)
{
	(void)ctx;
	(void)sid;
}

static void
on_acked(void *ctx, uint32_t sid, uint64_t acked)
{
	(void)ctx;
	(void)sid;
	(void)acked;
}

static void
on_opened(void *ctx, uint32_t sid, uint64_t start, uint64_t received)
{
	struct sluice_stream *s = sli_stream_find(ctx, sid);

	(void)received; /* 0: nothing is resumed */
	if (!s || sli_stream_mute(s) || !s->ops->opened)
		return;
	sli_stream_ref(s);
	s->ops->opened(s, start);
	sli_stream_unref(s);
}

static void
on_data(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes)
{
	struct sluice_client *c = ctx;
	struct sluice_stream *s = sli_stream_find(c, sid);

	if (!s) {
		sli_mux_release(c->mux, sid, bytes.n);
		return;
	}
	s->received += bytes.n;
	if (sli_stream_mute(s) || s->ended || s->ending) {
		sli_stream_release(s, bytes.n);
		return;
	}
	sli_stream_ref(s);
	s->ops->data(s, offset, bytes);
	sli_stream_unref(s);
}

static void
on_result(void *ctx, uint32_t sid, uint16_t status, struct sli_slice trailers,
    struct sli_slice body)
{
	struct sluice_stream *s = sli_stream_find(ctx, sid);
	struct sluice_error e;

	if (!s)
		return;
	if (status == SLI_E_OK) {
		sli_stream_end_now(s, NULL, body);
		return;
	}
	sli_err_from_wire(&e, status, trailers);
	sli_stream_end_now(s, &e, sli_slice_of(NULL, 0));
}

static void
on_reset(void *ctx, uint32_t sid, uint16_t code)
{
	struct sluice_stream *s = sli_stream_find(ctx, sid);
	struct sluice_error e;

	if (!s)
		return;
	sli_err_from_wire(
	    &e, code ? code : SLI_E_CANCELED, sli_slice_of(NULL, 0));
	sli_stream_end_now(s, &e, sli_slice_of(NULL, 0));
}

static void
on_stop(void *ctx, uint32_t sid, uint16_t code)
{
	struct sluice_stream *s = sli_stream_find(ctx, sid);

	(void)code;
	if (!s)
		return;
	s->no_more = 1;
	sli_buf_free(&s->up);
	/* Who waits for room must learn that there never will be any. */
	sli_stream_made_room(s);
}

static void
on_gap(void *ctx, uint32_t sid, uint64_t offset, uint64_t n)
{
	struct sluice_stream *s = sli_stream_find(ctx, sid);

	if (!s || sli_stream_mute(s) || !s->ops->gap)
		return;
	sli_stream_ref(s);
	s->ops->gap(s, offset, n);
	sli_stream_unref(s);
}

static void
on_goaway(void *ctx, uint32_t last_stream, uint32_t grace_ms, uint16_t code,
    struct sli_slice text)
{
	struct sluice_client *c = ctx;
	char q[160];

	(void)last_stream;
	(void)grace_ms;
	/* What the server says is a better reason than the end of file that
	 * follows it. */
	if (code != SLI_E_OK)
		(void)sli_fail(&c->why, (enum sli_err)code, 0, "client.goaway",
		    "the server says: %s", sli_quote(q, sizeof(q), text));
}

static void
on_gone(void *ctx, uint32_t sid)
{
	struct sluice_stream *s = sli_stream_find(ctx, sid);

	if (s)
		sli_stream_gone(s);
}

static size_t
on_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	struct sluice_client *c = ctx;
	struct sluice_stream *s = sli_stream_find(c, sid);

	if (!s || s->freed || s->ended || s->ending || s->no_more)
		return SLI_PULL_NOTHING;
	if (s->ops->pull)
		return s->ops->pull(s, dst, room);
	return sli_stream_pull_queue(s, dst);
}

static const struct sli_mux_sink mux_sink = {
    .hello = on_hello,
    .call = on_call,
    .opened = on_opened,
    .data = on_data,
    .end = on_end,
    .acked = on_acked,
    .result = on_result,
    .reset = on_reset,
    .stop = on_stop,
    .gap = on_gap,
    .goaway = on_goaway,
    .gone = on_gone,
    .pull = on_pull,
};

/* --- the link's sink -----------------------------------------------------*/

static void
make_mux(struct sluice_client *c, struct sli_errinfo *ei)
{
	struct sli_mux_cfg cfg = {
	    .role = SLI_CLIENT,
	    .keepalive_s = c->keepalive_s,
	    .init_window = c->window,
	};

	(void)sli_strlcpy(cfg.agent, c->agent, sizeof(cfg.agent));
	c->mux = sli_mux_new(&cfg, &mux_sink, c);
	if (!c->mux)
		(void)sli_fail(
		    ei, SLI_E_NOMEM, 0, "client.mux", "out of memory");
}

/* Take the answer to our preamble from the front of bytes. */
static struct sli_slice
take_preamble(
    struct sluice_client *c, struct sli_slice b, struct sli_errinfo *ei)
{
	size_t n = SLI_MIN(b.n, sizeof(c->pre) - c->npre);
	struct sli_preamble_answer a;

	memcpy(c->pre + c->npre, b.p, n);
	c->npre += n;
	if (c->npre == sizeof(c->pre)) {
		if (sli_preamble_answer_get(c->pre, &c->sent_pre, &a, ei) ==
		    SLI_OK)
			make_mux(c, ei);
		if (ei->code == SLI_OK)
			sli_cl_move(c, SLI_CL_HELLO);
	}
	return sli_slice_of(b.p + n, b.n - n);
}

static void
link_recv(void *ctx, struct sli_slice bytes)
{
	struct sluice_client *c = ctx;
	struct sli_errinfo ei = {0};

	if (c->state == SLI_CL_PREAMBLE)
		bytes = take_preamble(c, bytes, &ei);
	if (ei.code == SLI_OK && c->mux && bytes.n != 0) {
		c->moved = c->got = 1;
		if (sli_mux_input(c->mux, sli_cl_now(), bytes, &ei) != SLI_OK)
			c->fault = ei;
	} else if (ei.code != SLI_OK) {
		c->fault = ei;
	}
	if (c->fault.code == SLI_OK)
		sli_link_recv(c->link);
}

static void
link_sent(void *ctx)
{
	struct sluice_client *c = ctx;

	c->moved = 1;
	sli_buf_reset(&c->out);
}

static void
link_closed(void *ctx, const struct sli_errinfo *ei)
{
	struct sluice_client *c = ctx;
	struct sli_errinfo why = *ei;

	c->link = NULL; /* freed by its backend after this call */
	if (c->why.code != SLI_OK)
		why = c->why; /* a GOAWAY said more */
	else if (why.sys == EACCES || why.sys == EPERM)
		(void)sli_fail(&why, SLI_E_PERMISSION_DENIED, ei->sys,
		    "client.connect", "not allowed to connect to %s", c->url);
	sli_pump_stop(c);
	sli_cl_lost(c, &why);
}

static const struct sli_link_sink link_sink = {
    .recv = link_recv,
    .sent = link_sent,
    .closed = link_closed,
};

/* --- the pump ------------------------------------------------------------*/

enum sli_err
sli_pump_dial(struct sluice_client *c, int64_t now, struct sli_errinfo *ei)
{
	struct sli_iov iov;
	enum sli_err e;
	uint8_t *p;

	e = sli_sock_dial(&c->addr, now, c->connect_timeout_ms, &c->link, ei);
	if (e != SLI_OK) {
		if (ei->sys == EACCES || ei->sys == EPERM)
			return sli_fail(ei, SLI_E_PERMISSION_DENIED, ei->sys,
			    "client.connect", "not allowed to connect to %s",
			    c->url);
		return e;
	}
	sli_link_set_sink(c->link, &link_sink, c);
	c->sent_pre = (struct sli_preamble){
	    .ver_min = SLI_VERSION_MIN,
	    .ver_max = SLI_VERSION_MAX,
	    .sec = SLI_SEC_NONE,
	};
	p = sli_buf_reserve(&c->out, SLI_PREAMBLE_LEN);
	if (!p)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "client.open", "out of memory");
	sli_preamble_put(p, &c->sent_pre);
	sli_buf_added(&c->out, SLI_PREAMBLE_LEN);
	iov = (struct sli_iov){p, SLI_PREAMBLE_LEN};
	sli_link_send(c->link, &iov, 1);
	sli_link_recv(c->link);
	return SLI_OK;
}

void
sli_pump_stop(struct sluice_client *c)
{
	struct sli_link *l = c->link;

	c->link = NULL;
	if (l)
		sli_sock_drop(l);
	sli_mux_free(c->mux);
	c->mux = NULL;
	c->mux_ms = INT64_MAX;
}

/* Hand the link the next batch, if it has none. */
static void
start_send(struct sluice_client *c, int64_t now)
{
	struct sli_iov iov;

	if (!c->link || !c->mux || sli_link_sending(c->link) ||
	    !sli_mux_wants_output(c->mux))
		return;
	if (sli_mux_output(c->mux, now, &c->out) != SLI_OK) {
		(void)sli_fail(
		    &c->fault, SLI_E_NOMEM, 0, "client.send", "out of memory");
		return;
	}
	if (sli_buf_len(&c->out) == 0)
		return;
	c->moved = 1;
	iov = (struct sli_iov){sli_buf_data(&c->out), sli_buf_len(&c->out)};
	sli_link_send(c->link, &iov, 1);
}

static void
tick(struct sluice_client *c, int64_t now)
{
	struct sli_errinfo ei;
	uint64_t w;

	if (!c->mux || !c->link || c->fault.code != SLI_OK)
		return;
	w = sli_link_written(c->link);
	if (w != c->written)
		sli_mux_progress(c->mux, now);
	c->written = w;
	if (sli_mux_tick(c->mux, now, &c->mux_ms, &ei) != SLI_OK)
		c->fault = ei;
}

/* A broken rule or no memory: say so to the server if that goes without
 * waiting, then end. */
static void
fail_out(struct sluice_client *c, int64_t now)
{
	struct sli_errinfo ei = c->fault;

	if (c->link && c->mux && !sli_link_sending(c->link)) {
		start_send(c, now);
		if (c->link)
			(void)sli_sock_process(c->link, now);
	}
	if (c->state != SLI_CL_CLOSED)
		lost(c, &ei);
}

void
sli_pump(struct sluice_client *c, int64_t now)
{
	if (c->state == SLI_CL_CLOSED)
		return;
	for (int i = 0; i < PUMP_ROUNDS && c->link; i++) {
		/* Bytes came: look once for more before they are acknowledged.
		 * A batch wakes us at its first piece, and one ACK for all of
		 * it costs the server one wake-up instead of two. */
		int hold = c->got && i % 2 == 1;

		c->moved = c->got = 0;
		if (!hold)
			start_send(c, now);
		if (!sli_sock_process(c->link, now))
			break; /* link_closed has run */
		if (c->fault.code != SLI_OK || (!c->moved && !hold))
			break;
	}
	tick(c, now);
	if (c->fault.code != SLI_OK && c->state != SLI_CL_CLOSED)
		fail_out(c, now);
}

void
sli_pump_flush(struct sluice_client *c, int64_t now)
{
	if (c->state == SLI_CL_CLOSED || !c->mux || !c->link)
		return;
	start_send(c, now);
	tick(c, now);
	if (c->fault.code != SLI_OK)
		fail_out(c, now);
}

void
sli_pump_start_calls(struct sluice_client *c)
{
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &c->streams) {
		struct sluice_stream *s =
		    SLI_LIST_ENTRY(it, struct sluice_stream, in_client);
		struct sli_errinfo ei = {0};

		if (s->start && sli_call_begin(s, &ei) != SLI_OK)
			sli_stream_end_later(s, &ei);
	}
}
