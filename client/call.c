/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by name: the method table, the start of a call, and the generic face
 * of a stream. Knows no message types. */
#include "client.h"

#include "wire/limits.h"

#include <string.h>

#define REQUEST_MAX (60u * 1024u)
#define KEY_MAX     64u
#define WAITING_MAX SLI_MAX_STREAMS

static const struct sli_method methods[] = {
#define SLI_METHOD(id, service, name, cs, ss, role, ms, req, rsp) \
	{(id), "sluice.v1." #service "/" #name, (cs), (ss), (ms)},
#include "methods.list.h"
#undef SLI_METHOD
};

const struct sli_method *
sli_method_find(const char *name)
{
	for (size_t i = 0; i < SLI_ARRAY_LEN(methods); i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	return NULL;
}

/* --- start ---------------------------------------------------------------*/

static enum sli_err
check(const struct sluice_client *c, struct sli_slice req,
    const struct sluice_call_options *o, struct sli_errinfo *ei)
{
	if (c->state == SLI_CL_CLOSED || c->closing) {
		if (c->why.code != SLI_OK)
			return sli_fail(ei, SLI_E_CLOSED, 0, "client.call",
			    "the connection is gone: %s", c->why.text);
		return sli_fail(ei, SLI_E_CLOSED, 0, "client.call",
		    "the connection is closed");
	}
	if (req.n > REQUEST_MAX)
		return sli_fail(ei, SLI_E_FRAME_SIZE, 0, "client.call",
		    "the request has %zu bytes, a request at most %u", req.n,
		    REQUEST_MAX);
	if (o->key_len > KEY_MAX)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "client.call",
		    "the key has %zu bytes, a key at most %u", o->key_len,
		    KEY_MAX);
	return SLI_OK;
}

static struct sli_start *
start_new(const struct sli_method *m, struct sli_slice req, int end,
    const struct sluice_call_options *o)
{
	size_t ntrace = o->traceparent ? strlen(o->traceparent) : 0;
	struct sli_start *st =
	    sli_zalloc(sizeof(*st) + o->key_len + ntrace + req.n);

	if (!st)
		return NULL;
	st->method = m->id;
	st->timeout_ms = o->timeout_ms;
	st->bulk = o->bulk;
	st->end = end;
	st->window = o->window;
	st->key_len = o->key_len;
	st->trace_len = ntrace;
	st->req_len = req.n;
	if (o->key_len)
		memcpy(st->bytes, o->key, o->key_len);
	if (ntrace)
		memcpy(st->bytes + o->key_len, o->traceparent, ntrace);
	if (req.n)
		memcpy(st->bytes + o->key_len + ntrace, req.p, req.n);
	return st;
}

enum sli_err
sli_call_begin(struct sluice_stream *s, struct sli_errinfo *ei)
{
	struct sli_start *st = s->start;
	const uint8_t *p = st->bytes;
	struct sli_call call = {
	    .method = st->method,
	    .timeout_ms = st->timeout_ms,
	    .priority = st->bulk ? 1 : 0,
	    .idempotency_key = sli_slice_of(p, st->key_len),
	    .traceparent = sli_slice_of(p + st->key_len, st->trace_len),
	    .request =
		sli_slice_of(p + st->key_len + st->trace_len, st->req_len),
	};
	int queued = s->ops->pull || sli_buf_len(&s->up) != 0;
	uint32_t sid;
	enum sli_err e;

	call.end = st->end || (s->half && !queued);
	e = sli_mux_call(s->c->mux, &call, st->window, &sid, ei);
	sli_free(st);
	s->start = NULL;
	if (e != SLI_OK)
		return e;
	sli_stream_set_sid(s, sid);
	if (call.end) {
		s->half = 1;
		return SLI_OK;
	}
	if (queued)
		sli_mux_ready(s->c->mux, sid);
	if (s->half)
		sli_mux_end(s->c->mux, sid);
	return SLI_OK;
}

static unsigned
waiting(const struct sluice_client *c)
{
	struct sli_list *it;
	unsigned n = 0;

	sli_list_for_each (it, &c->streams)
		n++;
	return n;
}

enum sli_err
sli_call_start(struct sluice_stream *s, const struct sli_method *m,
    struct sli_slice req, int end, const struct sluice_call_options *opt,
    struct sli_errinfo *ei)
{
	struct sluice_client *c = s->c;
	struct sluice_call_options o;
	uint64_t ms;
	enum sli_err e;

	e = sli_take_struct(
	    &o, sizeof(o), opt, "struct sluice_call_options", ei);
	if (e == SLI_OK)
		e = check(c, req, &o, ei);
	if (e != SLI_OK)
		return e;
	if (c->state != SLI_CL_READY && waiting(c) >= WAITING_MAX)
		return sli_fail(ei, SLI_E_RESOURCE_EXHAUSTED, 0, "client.call",
		    "%u calls wait for the connection already", WAITING_MAX);
	s->start = start_new(m, req, end, &o);
	if (!s->start)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "client.call", "out of memory");
	ms = o.timeout_ms ? o.timeout_ms : m->timeout_ms;
	if (c->state == SLI_CL_READY) {
		e = sli_call_begin(s, ei);
		if (e != SLI_OK)
			return e;
	}
	if (ms != 0)
		s->deadline_ms = sli_cl_now() + (int64_t)ms + SLI_CL_GRACE_MS;
	sli_stream_attach(s);
	return SLI_OK;
}

/* --- the generic stream --------------------------------------------------*/

struct generic {
	struct sluice_handler h;
	void *arg;
};

static void
generic_data(struct sluice_stream *s, uint64_t offset, struct sli_slice bytes)
{
	struct generic *g = s->self;
	struct sluice_msg *m;

	if (!g->h.on_message) {
		sli_stream_release(s, bytes.n);
		return;
	}
	m = sli_msg_new(s, offset, bytes, 1);
	if (m)
		g->h.on_message(g->arg, s, m);
}

static void
generic_result(struct sluice_stream *s, const struct sluice_error *err,
    struct sli_slice body)
{
	struct generic *g = s->self;

	if (g->h.on_result)
		g->h.on_result(g->arg, s, err, body.p, body.n);
}

static void
generic_opened(struct sluice_stream *s, uint64_t start)
{
	struct generic *g = s->self;

	if (g->h.on_opened)
		g->h.on_opened(g->arg, s, start);
}

static void
generic_writable(struct sluice_stream *s)
{
	struct generic *g = s->self;

	if (g->h.on_writable)
		g->h.on_writable(g->arg, s);
}

static void
generic_gap(struct sluice_stream *s, uint64_t offset, uint64_t lost)
{
	struct generic *g = s->self;

	if (g->h.on_gap)
		g->h.on_gap(g->arg, s, offset, lost);
}

static void
generic_fini(struct sluice_stream *s)
{
	sli_free(s->self);
}

static const struct sli_stream_ops generic_ops = {
    .data = generic_data,
    .result = generic_result,
    .opened = generic_opened,
    .writable = generic_writable,
    .gap = generic_gap,
    .fini = generic_fini,
};

int
sluice_call(sluice_client *c, const char *method, const void *req, size_t n,
    const struct sluice_call_options *opt, const struct sluice_handler *h,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	const struct sli_method *m = sli_method_find(method);
	struct sluice_stream *s = NULL;
	struct generic *g = NULL;
	struct sli_errinfo ei = {0};
	enum sli_err e;

	if (!m) {
		e = sli_fail(&ei, SLI_E_UNIMPLEMENTED, 0, "client.call",
		    "no such method: %s", method);
		goto out;
	}
	g = sli_zalloc(sizeof(*g));
	s = g ? sli_stream_new(c, &generic_ops, g) : NULL;
	if (!s) {
		sli_free(g);
		e = sli_fail(
		    &ei, SLI_E_NOMEM, 0, "client.call", "out of memory");
		goto out;
	}
	g->arg = arg;
	e = sli_take_struct(
	    &g->h, sizeof(g->h), h, "struct sluice_handler", &ei);
	if (e == SLI_OK)
		e = sli_call_start(
		    s, m, sli_slice_of(req, n), !m->client_streams, opt, &ei);
out:
	if (e != SLI_OK) {
		if (s)
			sluice_stream_free(s);
		return sli_err_give(err, &ei);
	}
	if (ret_s)
		*ret_s = s;
	else
		sluice_stream_detach(s);
	return SLUICE_OK;
}

/* --- waiting -------------------------------------------------------------*/

struct reply {
	void *body;
	size_t n;
	int nomem;
};

static void
keep_reply(void *arg, sluice_stream *s, const struct sluice_error *err,
    const void *body, size_t n)
{
	struct reply *r = arg;

	(void)s;
	if (err)
		return;
	r->body = sli_memdup(body, n);
	r->n = n;
	r->nomem = r->body == NULL;
}

int
sluice_call_wait(sluice_client *c, const char *method, const void *req,
    size_t n, const struct sluice_call_options *opt, void **ret_body,
    size_t *ret_n, struct sluice_error *err)
{
	struct sluice_handler h = {.size = sizeof(h), .on_result = keep_reply};
	struct reply r = {0};
	struct sli_errinfo ei;
	sluice_stream *s = NULL;
	int e;

	if (c->busy)
		return sluice_process(c, err); /* BUSY */
	e = sluice_call(c, method, req, n, opt, &h, &r, &s, err);
	if (e != SLUICE_OK)
		return e;
	e = sli_stream_run(s, -1, err);
	sluice_stream_free(s);
	if (e == SLUICE_OK && r.nomem) {
		(void)sli_fail(
		    &ei, SLI_E_NOMEM, 0, "client.call", "out of memory");
		return sli_err_give(err, &ei);
	}
	if (e != SLUICE_OK) {
		sli_free(r.body);
		return e;
	}
	*ret_body = r.body;
	*ret_n = r.n;
	return SLUICE_OK;
}

void
sluice_result_free(void *result)
{
	sli_free(result);
}
