/* SPDX-License-Identifier: Apache-2.0 */
/* Answers on their way out; see service/svc.h for the contract and
 * docs/internals/outbox.md for the picture. It packs and hands to the mux; it
 * keeps nothing, and writes nothing itself. */
#include "conn/outbox.h"
#include "conn/call.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "wire/guard.h"
#include "wire/limits.h"

#include "sluice/v1/core.pb-c.h"

#define COMPANIONS_MAX 4

/* --- Status --- */

struct status_room {
	Sluice__V1__Status st;
	Sluice__V1__LimitHit hit[SLI_LIMIT_HITS_MAX];
	Sluice__V1__LimitHit *hits[SLI_LIMIT_HITS_MAX];
	char *comp[SLI_LIMIT_HITS_MAX][COMPANIONS_MAX];
	char reason[sizeof(((struct sli_errinfo *)NULL)->reason)];
	char text[sizeof(((struct sli_errinfo *)NULL)->text)];
};

/* Generated structs hold char *, and packing only reads. */
static char *
str(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void
fill_hit(struct status_room *r, unsigned i, const struct sli_limit_hit *h)
{
	Sluice__V1__LimitHit *m = &r->hit[i];
	enum sli_limit l, comp;

	sluice__v1__limit_hit__init(m);
	m->key = str(h->key);
	m->used = h->used;
	m->requested = h->requested;
	m->limit = h->limit;
	if (sli_limit_find(h->key, &l) == SLI_OK) {
		m->scope = str(sli_limit_info(l)->scope);
		m->companions = r->comp[i];
		while (m->n_companions < COMPANIONS_MAX &&
		       sli_limit_companion(l, (unsigned)m->n_companions, &comp))
			r->comp[i][m->n_companions++] =
			    str(sli_limit_info(comp)->key);
	}
	r->hits[i] = m;
}

/* Errors quote what people wrote; a Status is UTF-8 whatever that was. */
static void
clean(char *dst, size_t cap, const char *src)
{
	struct sli_slice s = sli_slice_str(src);

	if (sli_utf8_valid(s))
		sli_strlcpy(dst, src, cap);
	else
		sli_quote(dst, cap, s);
}

/* Trailers of *ei into dst (SLI_RESULT_TRAILERS_MAX). */
static struct sli_slice
pack_status(const struct sli_errinfo *ei, uint8_t *dst)
{
	struct status_room r = {0};
	unsigned n = SLI_MIN(ei->nhits, SLI_LIMIT_HITS_MAX);

	sluice__v1__status__init(&r.st);
	clean(r.reason, sizeof(r.reason), ei->reason);
	clean(r.text, sizeof(r.text),
	    ei->text[0] ? ei->text : sli_err_text(ei->code));
	r.st.code = (uint32_t)ei->code;
	r.st.reason = r.reason;
	r.st.message = r.text;
	r.st.retryable = sli_err_retryable(ei->code);
	for (unsigned i = 0; i < n; i++)
		fill_hit(&r, i, &ei->hits[i]);
	r.st.n_limits = n;
	r.st.limits = r.hits;
	return sli_slice_of(
	    dst, sli_msg_pack_to(&r.st.base, dst, SLI_RESULT_TRAILERS_MAX));
}

/* An error without a code would read as success. */
static enum sli_err
code_of(const struct sli_errinfo *ei)
{
	return ei->code == SLI_OK ? SLI_E_INTERNAL : ei->code;
}

void
outbox_abort(struct conn *conn, uint32_t sid, const struct sli_errinfo *ei)
{
	uint8_t dst[SLI_RESULT_TRAILERS_MAX];
	enum sli_err code = code_of(ei);

	if (sli_mux_abort(
		conn->mux, sid, (uint16_t)code, pack_status(ei, dst)) != SLI_OK)
		conn_break(conn);
	conn_touch(conn);
}

/* --- ends --- */

/* The call of c if it can still be ended; settles what nobody waits for. */
static struct call *
endable(struct svc_call h)
{
	struct call *c = call_of(h);

	if (c && (c->state == CALL_WAITING || c->state == CALL_OPEN))
		return c;
	if (h.calls)
		h.calls->late++;
	if (c && c->state == CALL_ORPHAN)
		call_free(c, SLI_E_CANCELED);
	return NULL;
}

static void
end_call(struct call *c, enum sli_err status, struct sli_slice trailers,
    struct sli_slice body)
{
	if (sli_mux_result(c->conn->mux, c->sid, (uint16_t)status, trailers,
		body) != SLI_OK)
		conn_break(c->conn);
	conn_touch(c->conn);
	if (c->state == CALL_OPEN) {
		/* The mux says when it is gone; acks may come until then. */
		loop_timer_del(c->calls->loop, &c->deadline);
		call_move(c, CALL_ENDED);
	} else {
		call_free(c, SLI_OK);
	}
}

void
svc_reply(struct svc_call h, const ProtobufCMessage *body)
{
	const struct sli_slice none = {0};
	struct call *c = endable(h);
	struct sli_errinfo ei;
	enum sli_err rc;

	if (!c)
		return;
	sli_buf_reset(&h.calls->body);
	rc = sli_msg_pack(body, SLI_RESULT_BODY_MAX, &h.calls->body);
	if (rc == SLI_OK) {
		end_call(c, SLI_OK, none, sli_buf_slice(&h.calls->body));
		return;
	}
	sli_log(SLI_LOG_ERR, "conn", "reply", "method=%s err=%s, refused",
	    c->m->name, sli_err_name(rc));
	sli_fail(&ei, SLI_E_INTERNAL, 0, "conn.outbox",
	    "the answer of %s does not fit a result", c->m->name);
	svc_fail(h, &ei);
}

void
svc_fail(struct svc_call h, const struct sli_errinfo *ei)
{
	const struct sli_slice none = {0};
	uint8_t dst[SLI_RESULT_TRAILERS_MAX];
	struct call *c = endable(h);

	if (c)
		end_call(c, code_of(ei), pack_status(ei, dst), none);
}

void
svc_finish(struct svc_call h)
{
	const struct sli_slice none = {0};
	struct call *c = endable(h);

	if (c)
		end_call(c, SLI_OK, none, none);
}

/* --- what a call carries --- */

const struct sli_principal *
svc_principal(struct svc_call h)
{
	static const struct sli_principal nobody = {
	    .uid = (uint32_t)-1, .name = "nobody"};
	const struct call *c = call_of(h);

	return c ? &c->who : &nobody;
}

struct sli_slice
svc_key(struct svc_call h)
{
	const struct call *c = call_of(h);

	return c ? sli_slice_of(c->key, c->nkey) : (struct sli_slice){0};
}

struct sli_slice
svc_traceparent(struct svc_call h)
{
	const struct call *c = call_of(h);

	return c ? sli_slice_of(c->trace, c->ntrace) : (struct sli_slice){0};
}

int
svc_alive(struct svc_call h)
{
	const struct call *c = call_of(h);

	return c && (c->state == CALL_WAITING || c->state == CALL_OPEN);
}

ProtobufCMessage *
svc_unpack(struct svc_call h, const ProtobufCMessageDescriptor *desc,
    struct sli_slice bytes, struct sli_errinfo *ei)
{
	if (!h.calls) {
		sli_fail(ei, SLI_E_CLOSED, 0, "conn.unpack", "no call");
		return NULL;
	}
	loop_hook_schedule(h.calls->loop, &h.calls->tidy);
	return sli_msg_unpack(desc, bytes, &h.calls->arena, ei);
}

/* --- streams --- */

enum sli_err
svc_open(struct svc_call h, const struct svc_stream_ops *ops, void *ctx)
{
	struct call *c = endable(h);
	struct svc_calls *t = h.calls;

	if (!c)
		return SLI_E_CLOSED;
	if (c->state == CALL_OPEN)
		return SLI_E_FAILED_PRECONDITION;
	SLI_ASSERT(ops->gone);
	c->ops = ops;
	c->ctx = ctx;
	call_move(c, CALL_OPEN);
	if (sli_mux_opened(c->conn->mux, c->sid, 0) != SLI_OK)
		conn_break(c->conn);
	conn_touch(c->conn);
	if (sli_buf_len(&c->early) > 0 || (c->early_end && ops->end)) {
		sli_list_add_tail(&t->opened, &c->early_node);
		loop_hook_schedule(t->loop, &t->deliver);
	}
	return SLI_OK;
}

void
svc_ready(struct svc_call h)
{
	struct call *c = call_of(h);

	if (!c || c->state != CALL_OPEN)
		return;
	sli_mux_ready(c->conn->mux, c->sid);
	conn_touch(c->conn);
}

void
svc_release(struct svc_call h, uint64_t n)
{
	struct call *c = call_of(h);

	if (!c || !c->conn || !c->in_table)
		return;
	sli_mux_release(c->conn->mux, c->sid, n);
	conn_touch(c->conn);
}

void
svc_gap(struct svc_call h, uint64_t new_offset, uint64_t lost)
{
	struct call *c = call_of(h);

	if (!c || c->state != CALL_OPEN)
		return;
	sli_mux_gap(c->conn->mux, c->sid, new_offset, lost);
	conn_touch(c->conn);
}

/* --- gauges --- */

void
svc_each_conn(struct svc_call h,
    void (*fn)(void *ctx, const struct svc_conn_stats *st), void *ctx)
{
	const struct sli_principal *who = svc_principal(h);
	struct svc_conn_stats st;
	struct sli_list *it;

	if (!h.calls)
		return;
	sli_list_for_each (it, &h.calls->conns->conns) {
		const struct conn *c = SLI_LIST_ENTRY(it, struct conn, node);

		if (!sli_principal_sees(who, c->who.tenant))
			continue;
		conn_stats(c, &st);
		fn(ctx, &st);
	}
}

void
svc_conn_totals(
    struct svc_call h, struct svc_conn_stats *ret, uint32_t *ret_conns)
{
	*ret = (struct svc_conn_stats){0};
	*ret_conns = 0;
	if (h.calls)
		conns_totals(h.calls->conns, ret, ret_conns);
}
