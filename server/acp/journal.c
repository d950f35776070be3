/* SPDX-License-Identifier: Apache-2.0 */
/* The way of records to the history. One txn is one atomic append; the sink
 * answers in order. When it says that the disk is full, what it refused waits
 * here and is handed over again; the agent is not read meanwhile. Also the
 * place where the committed view of a session (shown) moves on. */
#include "acp/journal.h"

#include "acp/engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "base/str.h"

#include <string.h>

#define RETRY_MS 1000

struct owned {
	struct sli_list node;
	uint8_t bytes[];
};

static void retry(struct loop_timer *timer);
static void hand_over(struct txn *t);

void
journal_init(struct acp_session *s)
{
	sli_list_init(&s->journal.txns);
	loop_timer_init(&s->journal.retry, retry);
}

int
journal_idle(const struct acp_session *s)
{
	return sli_list_empty(&s->journal.txns);
}

/* --- building ------------------------------------------------------------*/

struct txn *
txn_new_plain(struct acp_session *s)
{
	struct txn *t = sli_zalloc(sizeof(*t));

	if (!t) {
		SLI_ASSERT(!s->journal.spare_used);
		s->journal.spare_used = 1;
		t = &s->journal.spare;
		memset(t, 0, sizeof(*t));
		t->oom = 1;
	}
	t->s = s;
	sli_list_init(&t->node);
	sli_list_init(&t->owned);
	sli_list_init(&t->outs);
	return t;
}

struct txn *
txn_new(struct acp_session *s)
{
	if (!SLI_MUTATED(acp_response_first))
		sup_flush(&s->sup, loop_now_ms(s->a->loop));
	return txn_new_plain(s);
}

void
txn_free(struct txn *t)
{
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &t->owned)
		sli_free(SLI_LIST_ENTRY(it, struct owned, node));
	sli_list_for_each_safe (it, tmp, &t->outs)
		sli_free(SLI_LIST_ENTRY(it, struct out, node));
	turn_unref(t->turn);
	perm_unref(t->perm);
	sli_free(t->recs);
	if (t->s && t == &t->s->journal.spare)
		t->s->journal.spare_used = 0;
	else
		sli_free(t);
}

struct sli_record *
txn_add(struct txn *t, int kind, uint64_t turn)
{
	struct sli_record *r;

	if (t->n == t->cap && !t->oom) {
		unsigned cap = t->cap ? t->cap * 2 : 2;

		r = sli_realloc(t->recs, cap * sizeof(*r));
		if (r) {
			t->recs = r;
			t->cap = cap;
		} else {
			t->oom = 1;
		}
	}
	r = t->oom ? &t->scratch : &t->recs[t->n++];
	memset(r, 0, sizeof(*r));
	r->ev.kind = (uint8_t)kind;
	r->ev.turn = turn;
	r->ev.at_ms = sli_wall_ms();
	return r;
}

struct sli_slice
txn_dup(struct txn *t, struct sli_slice s)
{
	struct owned *o;

	if (!s.n)
		return sli_slice_of("", 0);
	o = sli_alloc(sizeof(*o) + s.n + 1);
	if (!o) {
		t->oom = 1;
		return sli_slice_of("", 0);
	}
	memcpy(o->bytes, s.p, s.n);
	o->bytes[s.n] = '\0';
	sli_list_add_tail(&t->owned, &o->node);
	t->bytes += s.n;
	return sli_slice_of(o->bytes, s.n);
}

const char *
txn_str(struct txn *t, const char *s)
{
	return (const char *)txn_dup(t, sli_slice_str(s)).p;
}

void
txn_body(struct txn *t, struct sli_record *r, struct sli_slice body)
{
	const struct acp *a = t->s->a;

	r->ev.length = body.n;
	if (t->oom)
		return;
	if (body.n <= SLI_EVENT_INLINE_MAX) {
		r->ev.body = txn_dup(t, body);
		return;
	}
	r->ev.parts = a->sink->part_begin(a->ctx, t->s);
	if (r->ev.parts)
		a->sink->part_append(a->ctx, t->s, r->ev.parts, body);
	else
		t->oom = 1;
}

void
txn_out(struct txn *t, struct out *o)
{
	if (SLI_MUTATED(acp_said_before_commit)) {
		io_send(t->s, o);
		return;
	}
	sli_list_add_tail(&t->outs, &o->node);
	t->bytes += o->n;
}

void
body_begin(struct body *b)
{
	sli_buf_init(&b->buf, SLI_EVENT_INLINE_MAX);
	sli_jw_init(&b->w, &b->buf);
	sli_jw_object(&b->w);
}

void
body_put(struct body *b, struct txn *t, struct sli_record *r)
{
	sli_jw_end(&b->w);
	if (sli_jw_done(&b->w) == SLI_OK)
		txn_body(t, r, sli_buf_slice(&b->buf));
	else
		t->oom = 1;
	sli_buf_free(&b->buf);
}

void
txn_note(struct txn *t, uint64_t turn, const char *text)
{
	struct sli_record *r = txn_add(t, SLI_EV_DIAGNOSTIC, turn);
	struct body b;

	body_begin(&b);
	sli_jw_kcstr(&b.w, "text", text);
	body_put(&b, t, r);
}

/* --- handing over --------------------------------------------------------*/

uint64_t
txn_seq(const struct txn *t, unsigned i)
{
	uint64_t seq = t->first_seq;

	for (unsigned k = 0; k < i; k++)
		seq += t->recs[k].ev.kind != 0;
	return seq;
}

/* What callers are shown is what is committed: here it moves. */
static void
show(struct txn *t)
{
	struct shown *v = &t->s->shown;

	for (unsigned i = 0; i < t->n; i++) {
		const struct sli_change *c = &t->recs[i].ch;

		if (t->recs[i].ev.kind)
			v->head = txn_seq(t, i);
		if (c->what & SLI_CH_STATE) {
			v->state = c->state;
			(void)sli_strlcpy(v->reason_code, c->reason_code,
			    sizeof(v->reason_code));
			(void)sli_strlcpy(
			    v->reason, c->reason, sizeof(v->reason));
		}
		if (c->what & SLI_CH_TURN_NEW) {
			v->turn = c->turn;
			v->outcome = SLI_TO_NONE;
		}
		if (c->what & SLI_CH_TURN_END) {
			turn_committed(t->s, c->turn, c->outcome);
			if (c->turn == v->turn)
				v->outcome = c->outcome;
		}
		if (c->what & SLI_CH_AGENT) {
			v->generation = c->generation;
			(void)sli_strlcpy(v->agent_session, c->agent_session,
			    sizeof(v->agent_session));
		}
	}
	v->updated_ms = sli_wall_ms();
}

static void
drop_parts(struct txn *t)
{
	const struct acp *a = t->s->a;

	for (unsigned i = 0; i < t->n; i++)
		if (t->recs[i].ev.parts)
			a->sink->part_drop(a->ctx, t->s, t->recs[i].ev.parts);
}

static void
finish(struct txn *t, const struct sli_errinfo *ei)
{
	struct acp_session *s = t->s;
	unsigned what = 0;

	sli_list_del(&t->node);
	if (ei->code == SLI_OK) {
		show(t);
		for (unsigned i = 0; i < t->n; i++)
			what |= t->recs[i].ch.what;
		while (!sli_list_empty(&t->outs)) {
			struct out *o =
			    SLI_LIST_ENTRY(t->outs.next, struct out, node);

			sli_list_del(&o->node);
			io_send(s, o);
		}
	} else {
		drop_parts(t);
	}
	if (t->done)
		t->done(t, ei);
	txn_free(t);
	if (what)
		s->a->sink->changed(s->a->ctx, s);
	if (s->deleting || s->on_unload)
		session_settle(s);
}

/* Bytes in parts are gone when the disk was full: say so in their place. */
static void
replace_parts(struct txn *t)
{
	const struct acp *a = t->s->a;

	for (unsigned i = 0; i < t->n; i++) {
		struct sli_event *ev = &t->recs[i].ev;
		uint64_t set = ev->parts;

		if (!set)
			continue;
		ev->parts = 0;
		ev->kind = SLI_EV_DIAGNOSTIC;
		ev->body = sli_slice_str(
		    "{\"text\":\"a long line was lost: the disk was full\"}");
		ev->length = ev->body.n;
		a->sink->part_drop(a->ctx, t->s, set);
	}
}

static void
answered(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	struct txn *t = ctx;
	struct acp_session *s = t->s;
	struct journal *j;

	if (!s) { /* acp_free did not wait for it */
		txn_free(t);
		return;
	}
	j = &s->journal;
	if (ei->code == SLI_E_STORAGE_FULL && !t->fail_fast && !s->deleting) {
		t->submitted = 0;
		j->waiting += t->bytes;
		replace_parts(t);
		if (!j->stalled) {
			sli_log(SLI_LOG_WARN, "acp", "stalled",
			    "session=%s the disk is full, waiting", s->id);
			j->stalled = 1;
			io_update(s);
		}
		loop_timer_after(s->a->loop, &j->retry, RETRY_MS);
		return;
	}
	if (ei->code != SLI_OK && !t->fail_fast && !s->deleting)
		sli_log(SLI_LOG_ERR, "acp", "commit",
		    "session=%s err=%s, given up", s->id,
		    sli_err_name(ei->code));
	t->first_seq = first_seq;
	finish(t, ei);
}

static void
hand_over(struct txn *t)
{
	const struct acp *a = t->s->a;

	t->submitted = 1;
	a->sink->commit(a->ctx, t->s, t->recs, t->n, t->barrier, answered, t);
}

static void
retry(struct loop_timer *timer)
{
	struct acp_session *s =
	    SLI_CONTAINER_OF(timer, struct acp_session, journal.retry);
	struct journal *j = &s->journal;
	struct sli_list *it;

	j->stalled = 0;
	j->waiting = 0;
	sli_list_for_each (it, &j->txns) {
		struct txn *t = SLI_LIST_ENTRY(it, struct txn, node);

		/* a store that is full tries nothing less than a barrier */
		if (!t->submitted) {
			t->barrier = 1;
			hand_over(t);
		}
	}
	io_update(s);
}

void
txn_submit(struct txn *t, int barrier, txn_fn *done)
{
	struct acp_session *s = t->s;
	struct journal *j = &s->journal;
	struct sli_errinfo ei;

	t->barrier = barrier;
	t->done = done;
	if (t->oom) {
		sli_fail(&ei, SLI_E_NOMEM, 0, "acp.journal", "no memory");
		if (!t->fail_fast)
			session_break(s, "out_of_memory");
		finish(t, &ei);
		return;
	}
	sli_list_add_tail(&j->txns, &t->node);
	if (j->stalled && !t->fail_fast) {
		j->waiting += t->bytes;
		return;
	}
	hand_over(t);
}

void
journal_fini(struct acp_session *s)
{
	struct journal *j = &s->journal;

	loop_timer_del(s->a->loop, &j->retry);
	while (!sli_list_empty(&j->txns)) {
		struct txn *t = SLI_LIST_ENTRY(j->txns.next, struct txn, node);

		sli_list_del(&t->node);
		/* the sink still has it, and will answer */
		if (t->submitted)
			t->s = NULL;
		else
			txn_free(t);
	}
}
