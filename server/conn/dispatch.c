/* SPDX-License-Identifier: Apache-2.0 */
/* Mux events to handlers; see dispatch.h. Knows methods by the generated table
 * only, and no engine. Answers leave through outbox.c. */
#include "conn/dispatch.h"
#include "conn/outbox.h"

#include "base/limits.h"
#include "wire/guard.h"
#include "wire/limits.h"

#include <string.h>

#define CALLS_MAX 65536u
#define ARENA_CAP (1u << 20)

/* What svc_unpack gave is valid until the handler returns. Not cleared before
 * the turn ends, the messages of one turn would share one bound. */
static void
give_message(struct call *c, struct sli_slice bytes)
{
	struct svc_calls *t = c->calls;

	c->ops->message(c->ctx, bytes);
	sli_arena_reset(&t->arena);
}

/* The method of a call that may go on; NULL: ei says why it is refused. */
static const struct method *
admit(const struct svc_calls *t, const struct conn *conn,
    const struct sli_call *in, struct sli_errinfo *ei)
{
	const struct method *m = NULL;

	if (in->method < t->nmethods)
		m = &t->methods[in->method];
	if (!m || !m->handle)
		sli_fail(ei, SLI_E_UNIMPLEMENTED, 0, "conn.dispatch",
		    "no method has number %u", in->method);
	else if (conn->who.role < m->role)
		sli_fail(ei, SLI_E_PERMISSION_DENIED, 0, "conn.dispatch",
		    "%s is not for your role", m->name);
	else if (in->idempotency_key.n > CALL_KEY_MAX)
		sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "conn.dispatch",
		    "the idempotency key is longer than %d bytes",
		    CALL_KEY_MAX);
	else if (conn->ncalls >= t->max_per_conn)
		/* Handlers whose clients gave up count until they are done. */
		(void)sli_limit_refuse(ei, SLI_L_WIRE_MAX_STREAMS, conn->ncalls,
		    1, t->max_per_conn, "conn.dispatch");
	else
		return m;
	return NULL;
}

static void
on_call(void *ctx, uint32_t sid, const struct sli_call *in)
{
	struct conn *conn = ctx;
	struct svc_calls *t = conn->set->calls;
	const struct method *m;
	ProtobufCMessage *req;
	struct sli_errinfo ei;
	struct call *c;

	conn_touch(conn);
	m = admit(t, conn, in, &ei);
	if (!m) {
		outbox_abort(conn, sid, &ei);
		return;
	}
	sli_arena_reset(&t->arena);
	req = sli_msg_unpack(m->request, in->request, &t->arena, &ei);
	if (!req) {
		outbox_abort(conn, sid, &ei);
		return;
	}
	c = call_new(t, conn, sid, in, m);
	if (!c) {
		sli_fail(&ei, SLI_E_RESOURCE_EXHAUSTED, 0, "conn.dispatch",
		    "the server has %u calls in work", sli_ids_count(t->ids));
		outbox_abort(conn, sid, &ei);
		return;
	}
	m->handle(t->svc, (struct svc_call){t, c->id}, req);
	sli_arena_reset(&t->arena);
}

/* --- what comes for a call --- */

static void
refuse_message(struct call *c)
{
	struct sli_errinfo ei;

	sli_fail(&ei, SLI_E_INVALID_ARGUMENT, 0, "conn.dispatch",
	    "%s takes one message", c->m->name);
	outbox_abort(c->conn, c->sid, &ei);
	call_abandon(c, SLI_E_CANCELED);
}

static void
keep_early(struct call *c, struct sli_slice bytes)
{
	uint32_t n = (uint32_t)bytes.n;
	uint8_t *p = sli_buf_reserve(&c->early, sizeof(n) + bytes.n);
	struct sli_errinfo ei;

	if (!p) {
		sli_fail(&ei, SLI_E_NOMEM, 0, "conn.dispatch",
		    "no memory for what came before the stream was open");
		outbox_abort(c->conn, c->sid, &ei);
		call_abandon(c, SLI_E_NOMEM);
		return;
	}
	memcpy(p, &n, sizeof(n));
	memcpy(p + sizeof(n), bytes.p, bytes.n);
	sli_buf_added(&c->early, sizeof(n) + bytes.n);
}

static void
on_data(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes)
{
	struct conn *conn = ctx;
	struct call *c = call_by_sid(conn, sid);

	(void)offset;
	conn_touch(conn);
	if (!c || c->state == CALL_ENDED) {
		sli_mux_release(conn->mux, sid, bytes.n);
	} else if (!c->m->client_streams) {
		refuse_message(c);
	} else if (c->state == CALL_WAITING ||
		   !sli_list_empty(&c->early_node)) {
		keep_early(c, bytes);
	} else if (!c->ops->message) {
		refuse_message(c);
	} else {
		give_message(c, bytes);
	}
}

static void
on_end(void *ctx, uint32_t sid)
{
	struct conn *conn = ctx;
	struct call *c = call_by_sid(conn, sid);

	conn_touch(conn);
	if (!c)
		return;
	if (c->state == CALL_WAITING || !sli_list_empty(&c->early_node))
		c->early_end = 1;
	else if (c->state == CALL_OPEN && c->ops->end)
		c->ops->end(c->ctx);
}

static void
on_acked(void *ctx, uint32_t sid, uint64_t acked)
{
	struct call *c = call_by_sid(ctx, sid);

	conn_touch(ctx);
	if (c && c->ops && c->ops->acked)
		c->ops->acked(c->ctx, acked);
}

/* The client gave the call up (RESET), or wants no more of it (STOP, which is
 * answered by an end that says canceled). */
static void
on_canceled(void *ctx, uint32_t sid, uint16_t code)
{
	struct conn *conn = ctx;
	struct call *c = call_by_sid(conn, sid);
	struct sli_errinfo ei;

	conn_touch(conn);
	if (!c)
		return;
	sli_fail(&ei, SLI_E_CANCELED, 0, "conn.dispatch",
	    "%s was canceled by its client (%u)", c->m->name, code);
	if (c->state != CALL_ENDED)
		outbox_abort(conn, sid, &ei);
	call_abandon(c, SLI_E_CANCELED);
}

static void
on_gone(void *ctx, uint32_t sid)
{
	struct call *c = call_by_sid(ctx, sid);

	if (c && c->state == CALL_ENDED)
		call_free(c, SLI_OK);
}

static size_t
on_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	struct call *c = call_by_sid(ctx, sid);

	if (!c || c->state != CALL_OPEN || !c->ops->pull)
		return SLI_PULL_NOTHING;
	return c->ops->pull(c->ctx, dst, room);
}

void
dispatch_sink(struct sli_mux_sink *ret)
{
	*ret = (struct sli_mux_sink){
	    .call = on_call,
	    .data = on_data,
	    .end = on_end,
	    .acked = on_acked,
	    .reset = on_canceled,
	    .stop = on_canceled,
	    .gone = on_gone,
	    .pull = on_pull,
	};
}

/* --- the table --- */

/* Delivers one early message, or the early end; a callback may end the call,
 * so it is looked up again each time. */
static void
deliver_one(struct call *c)
{
	struct sli_slice all = sli_buf_slice(&c->early), msg;
	uint64_t id = c->id;
	struct svc_calls *t = c->calls;
	uint32_t n;

	if (all.n == 0) {
		int end = c->early_end && c->state == CALL_OPEN;

		sli_list_del(&c->early_node);
		sli_buf_free(&c->early);
		if (end && c->ops->end)
			c->ops->end(c->ctx);
		return;
	}
	memcpy(&n, all.p, sizeof(n));
	msg = sli_slice_of(all.p + sizeof(n), n);
	if (c->state != CALL_OPEN) {
		sli_mux_release(c->conn->mux, c->sid, n);
	} else if (!c->ops->message) {
		refuse_message(c);
		return;
	} else {
		give_message(c, msg);
	}
	c = sli_ids_get(t->ids, id);
	if (c)
		sli_buf_consume(&c->early, sizeof(n) + n);
}

static void
on_deliver(struct loop_hook *h)
{
	struct svc_calls *t = SLI_CONTAINER_OF(h, struct svc_calls, deliver);

	while (!sli_list_empty(&t->opened))
		deliver_one(
		    SLI_LIST_ENTRY(t->opened.next, struct call, early_node));
}

static void
on_tidy(struct loop_hook *h)
{
	struct svc_calls *t = SLI_CONTAINER_OF(h, struct svc_calls, tidy);

	sli_arena_reset(&t->arena);
}

struct svc_calls *
dispatch_new(
    struct conns *set, const struct conns_cfg *cfg, struct sli_errinfo *ei)
{
	struct svc_calls *t = sli_zalloc(sizeof(*t));

	if (!t || !(t->ids = sli_ids_new(CALLS_MAX))) {
		sli_fail(ei, SLI_E_NOMEM, 0, "conn.dispatch", "no memory");
		goto fail;
	}
	if (methods_new(cfg->methods, &t->methods, &t->nmethods, ei) != SLI_OK)
		goto fail;
	t->conns = set;
	t->loop = cfg->loop;
	t->svc = cfg->svc;
	t->max_per_conn =
	    (uint32_t)sli_limits_get(cfg->limits, SLI_L_WIRE_MAX_STREAMS);
	sli_arena_init(&t->arena, ARENA_CAP);
	sli_buf_init(&t->body, SLI_RESULT_BODY_MAX);
	sli_list_init(&t->opened);
	loop_hook_init(&t->deliver, on_deliver);
	loop_hook_init(&t->tidy, on_tidy);
	return t;
fail:
	if (t)
		sli_ids_free(t->ids);
	sli_free(t);
	return NULL;
}

void
dispatch_free(struct svc_calls *t)
{
	uint32_t pos = 0;
	struct call *c;

	if (!t)
		return;
	while ((c = sli_ids_next(t->ids, &pos)) != NULL)
		call_free(c, SLI_E_CLOSED);
	loop_hook_cancel(&t->deliver);
	loop_hook_cancel(&t->tidy);
	sli_arena_free(&t->arena);
	sli_buf_free(&t->body);
	sli_free(t->methods);
	sli_ids_free(t->ids);
	sli_free(t);
}
