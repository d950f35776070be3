/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one call: its states, its two tables (id, stream of a
 * connection), its deadline and its death. Knows nothing of messages. */
#include "conn/call.h"
#include "conn/conn.h"
#include "conn/outbox.h"

#include "base/log.h"

#include <string.h>

#define UNARY_MS 30000u
/* The peer's credit bounds it: floor and initial window, with room to spare
 * for the lengths in front. */
#define EARLY_MAX (2u << 20)

#define TO(s) (1u << CALL_##s)

static const unsigned legal[CALL__N] = {
    [CALL_WAITING] = TO(OPEN) | TO(ORPHAN) | TO(DONE),
    [CALL_OPEN] = TO(ENDED) | TO(DONE),
    [CALL_ENDED] = TO(DONE),
    [CALL_ORPHAN] = TO(DONE),
    [CALL_DONE] = 0,
};

static const char *const names[CALL__N] = {
    [CALL_WAITING] = "waiting",
    [CALL_OPEN] = "open",
    [CALL_ENDED] = "ended",
    [CALL_ORPHAN] = "orphan",
    [CALL_DONE] = "done",
};

const char *
call_state_name(enum call_state s)
{
	return s < CALL__N ? names[s] : "?";
}

void
call_move(struct call *c, enum call_state to)
{
	SLI_ASSERT(legal[c->state] & (1u << to));
	sli_debug("conn", "call", "conn=%llu sid=%u method=%s from=%s to=%s",
	    c->conn ? (unsigned long long)c->conn->number : 0ull, c->sid,
	    c->m->name, call_state_name(c->state), call_state_name(to));
	c->state = to;
}

struct call *
call_of(struct svc_call c)
{
	return c.calls ? sli_ids_get(c.calls->ids, c.id) : NULL;
}

struct call *
call_by_sid(const struct conn *conn, uint32_t sid)
{
	struct call *c = conn->bucket ? conn->bucket[sid % CONN_BUCKETS] : NULL;

	while (c && c->sid != sid)
		c = c->next_in_bucket;
	return c;
}

/* The stream no longer means this call. */
static void
forget_sid(struct call *c)
{
	struct call **at;

	if (!c->in_table)
		return;
	at = &c->conn->bucket[c->sid % CONN_BUCKETS];
	while (*at != c)
		at = &(*at)->next_in_bucket;
	*at = c->next_in_bucket;
	c->in_table = 0;
}

static void
leave_conn(struct call *c)
{
	struct conn *conn = c->conn;

	if (!conn)
		return;
	forget_sid(c);
	sli_list_del(&c->node);
	conn->ncalls--;
	c->conn = NULL;
	conn_call_ended(conn);
}

void
call_free(struct call *c, enum sli_err why)
{
	const struct svc_stream_ops *ops = c->ops;
	void *ctx = c->ctx;

	call_move(c, CALL_DONE);
	c->calls->ended++;
	loop_timer_del(c->calls->loop, &c->deadline);
	sli_list_del(&c->early_node);
	leave_conn(c);
	/* Stale before the handler's last callback hears of it. */
	sli_ids_del(c->calls->ids, c->id);
	sli_buf_free(&c->early);
	sli_free(c);
	if (ops)
		ops->gone(ctx, why);
}

void
call_abandon(struct call *c, enum sli_err why)
{
	if (c->state == CALL_WAITING) {
		forget_sid(c);
		loop_timer_del(c->calls->loop, &c->deadline);
		sli_buf_free(&c->early);
		call_move(c, CALL_ORPHAN);
	} else if (c->state != CALL_ORPHAN) {
		call_free(c, why);
	}
}

static void
on_deadline(struct loop_timer *t)
{
	struct call *c = SLI_CONTAINER_OF(t, struct call, deadline);
	struct sli_errinfo ei;

	sli_fail(&ei, SLI_E_DEADLINE_EXCEEDED, 0, "conn.call",
	    "no end of %s within its deadline", c->m->name);
	outbox_abort(c->conn, c->sid, &ei);
	call_abandon(c, SLI_E_DEADLINE_EXCEEDED);
}

static void
join_conn(struct call *c, struct conn *conn, uint32_t sid)
{
	struct call **at = &conn->bucket[sid % CONN_BUCKETS];

	c->conn = conn;
	c->sid = sid;
	c->who = conn->who;
	c->next_in_bucket = *at;
	*at = c;
	c->in_table = 1;
	sli_list_add_tail(&conn->calls, &c->node);
	conn->ncalls++;
}

struct call *
call_new(struct svc_calls *t, struct conn *conn, uint32_t sid,
    const struct sli_call *in, const struct method *m)
{
	struct call *c = sli_zalloc(sizeof(*c));
	uint32_t ms = in->timeout_ms ? in->timeout_ms : m->timeout_ms;

	if (!conn->bucket)
		conn->bucket = sli_calloc(CONN_BUCKETS, sizeof(struct call *));
	if (!c || !conn->bucket) {
		sli_free(c);
		return NULL;
	}
	c->id = sli_ids_add(t->ids, c);
	if (c->id == 0) {
		sli_free(c);
		return NULL;
	}
	c->calls = t;
	c->m = m;
	c->early_end = in->end;
	sli_buf_init(&c->early, EARLY_MAX);
	sli_list_init(&c->early_node);
	c->nkey = (uint8_t)SLI_MIN(in->idempotency_key.n, CALL_KEY_MAX);
	if (c->nkey)
		memcpy(c->key, in->idempotency_key.p, c->nkey);
	c->ntrace = (uint8_t)SLI_MIN(in->traceparent.n, CALL_TRACEPARENT_MAX);
	if (c->ntrace)
		memcpy(c->trace, in->traceparent.p, c->ntrace);
	join_conn(c, conn, sid);
	t->accepted++;
	loop_timer_init(&c->deadline, on_deadline);
	/* A call without a stream to its client never waits for ever. */
	if (ms == 0 && !m->server_streams)
		ms = UNARY_MS;
	if (ms != 0)
		loop_timer_after(t->loop, &c->deadline, ms);
	return c;
}

void
call_lost_all(struct conn *conn)
{
	/* A `gone` may end any other call, so the list is never walked, only
	 * its head is taken. */
	while (!sli_list_empty(&conn->calls)) {
		struct call *c =
		    SLI_LIST_ENTRY(conn->calls.next, struct call, node);

		if (c->state == CALL_WAITING)
			call_abandon(c, SLI_E_CLOSED);
		if (c->state == CALL_ORPHAN)
			leave_conn(c);
		else
			call_free(c, SLI_E_CLOSED);
	}
}
