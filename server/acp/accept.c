/* SPDX-License-Identifier: Apache-2.0 */
/* Taking prompts in: checks, idempotency by key, the commit that makes one a
 * turn. Nothing is answered before that commit; nothing is sent from here. */
#include "acp/engine.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/mutant.h"

#include <string.h>

#define KEY_MAX   256u
#define TRACE_MAX ((size_t)64)

/* --- content -------------------------------------------------------------*/

struct blocks {
	unsigned n;
	int bad;
};

static void
block_token(void *ctx, struct tok *t, enum tok_kind kind, struct sli_slice text,
    uint64_t off, uint64_t len)
{
	struct blocks *b = ctx;

	(void)text;
	(void)off;
	(void)len;
	t->watch = 1;
	if (kind == TOK_END)
		return;
	if (t->depth == 0)
		b->bad |= kind != TOK_ARR;
	else if (kind == TOK_OBJ)
		b->n++;
	else
		b->bad = 1;
}

/* A JSON array of objects, as one line: a newline between tokens is legal JSON
 * and would end our message to the agent. */
static enum sli_err
take_content(struct acp_session *s, struct sli_slice in, struct sli_buf *out,
    struct sli_errinfo *ei)
{
	uint64_t max = limit(s, SLI_L_ACP_PROMPT);
	struct blocks b = {0};
	struct tok t;
	size_t from = 0;

	if (in.n > max)
		return sli_limit_refuse(
		    ei, SLI_L_ACP_PROMPT, 0, in.n, max, "acp.prompt");
	while (in.n && memchr(" \t\r\n", in.p[in.n - 1], 4))
		in.n--;
	while (from < in.n && memchr(" \t\r\n", in.p[from], 4))
		from++;
	in = sli_slice_of(in.p + from, in.n - from);
	tok_init(&t, block_token, &b);
	t.max_depth = (unsigned)SLI_MIN(
	    limit(s, SLI_L_ACP_NESTING), (uint64_t)TOK_DEPTH_MAX);
	tok_feed(&t, in.p, in.n);
	if (tok_finish(&t) != TOK_ERR_NONE || b.bad || !b.n || t.bad_utf8)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "acp.prompt",
		    "the prompt must be a JSON array of one or more content "
		    "blocks");
	sli_buf_init(out, in.n);
	if (sli_buf_append(out, in.p, in.n) != SLI_OK)
		return sli_fail(ei, SLI_E_NOMEM, 0, "acp.prompt", "no memory");
	for (size_t i = 0; i < in.n; i++)
		if (out->mem[i] == '\n' || out->mem[i] == '\r')
			out->mem[i] = ' ';
	return SLI_OK;
}

/* --- keys ----------------------------------------------------------------*/

static struct turn *
by_key(const struct acp_session *s, struct sli_slice key)
{
	struct sli_list *it;

	if (!key.n)
		return NULL;
	if (s->active && sli_slice_eq(sli_buf_slice(&s->active->key), key))
		return s->active;
	sli_list_for_each (it, &s->queue) {
		struct turn *t = SLI_LIST_ENTRY(it, struct turn, node);

		if (sli_slice_eq(sli_buf_slice(&t->key), key))
			return t;
	}
	for (unsigned i = 0; i < ENDED_KEPT; i++)
		if (s->ended[i] &&
		    sli_slice_eq(sli_buf_slice(&s->ended[i]->key), key))
			return s->ended[i];
	return NULL;
}

int
acp_turn_by_key(const struct acp_session *s, struct sli_slice key,
    uint64_t *ret_turn, uint64_t *ret_first_seq, uint8_t ret_hash[32],
    int *ret_outcome)
{
	const struct turn *t = by_key(s, key);

	if (!t || t->phase == TURN_ACCEPTING)
		return 0;
	*ret_turn = t->no;
	*ret_first_seq = t->first_seq;
	memcpy(ret_hash, t->hash, sizeof(t->hash));
	*ret_outcome = t->outcome;
	return 1;
}

/* --- answers -------------------------------------------------------------*/

static void
refuse(acp_prompt_fn *fn, void *ctx, const struct sli_errinfo *ei)
{
	fn(ctx, NULL, ei);
}

static int
add_waiter(struct turn *t, acp_prompt_fn *fn, void *ctx, int repeated)
{
	struct prompt_waiter *w = sli_alloc(sizeof(*w));

	if (!w)
		return 0;
	*w = (struct prompt_waiter){t->waiters, fn, ctx, repeated};
	t->waiters = w;
	return 1;
}

static void
tell_waiters(struct turn *t, const struct sli_errinfo *ei)
{
	while (t->waiters) {
		struct prompt_waiter *w = t->waiters;
		struct acp_accepted a = {
		    .turn = t->no,
		    .first_seq = t->first_seq,
		    .repeated = w->repeated,
		    .outcome = t->outcome,
		};

		t->waiters = w->next;
		w->fn(w->ctx, ei->code == SLI_OK ? &a : NULL, ei);
		sli_free(w);
	}
}

static void
accepted(struct txn *txn, const struct sli_errinfo *ei)
{
	const struct sli_errinfo gone = {.code = SLI_E_NOT_FOUND};
	struct turn *t = txn->turn;
	struct acp_session *s = t->s;

	if (ei->code != SLI_OK || s->deleting) {
		sli_list_del(&t->node);
		s->nqueue--;
		turn_set(t, TURN_OVER);
		tell_waiters(t, ei->code == SLI_OK ? &gone : ei);
		turn_unref(t);
		return;
	}
	t->first_seq = txn->first_seq;
	turn_set(t, TURN_QUEUED);
	tell_waiters(t, ei);
	if (t->phase == TURN_QUEUED && t->cause != CAUSE_NONE)
		cancel_queued(t);
	turn_kick(s);
}

static struct turn *
turn_new(
    struct acp_session *s, const struct acp_ask *ask, struct sli_buf *content)
{
	struct turn *t = sli_zalloc(sizeof(*t));

	if (!t)
		return NULL;
	t->refs = 2; /* the queue's and its commit's */
	t->s = s;
	t->phase = TURN_ACCEPTING;
	t->content = *content;
	*content = (struct sli_buf){0};
	memcpy(t->hash, ask->hash, sizeof(t->hash));
	t->deadline_ms = ask->deadline_ms > 0
			     ? ask->deadline_ms
			     : (int64_t)limit(s, SLI_L_ACP_TURN_DEADLINE);
	sli_list_init(&t->node);
	sli_buf_init(&t->key, KEY_MAX);
	sli_buf_init(&t->trace, TRACE_MAX);
	if (sli_buf_append(&t->key, ask->key.p, ask->key.n) == SLI_OK &&
	    sli_buf_append(&t->trace, ask->traceparent.p,
		SLI_MIN(ask->traceparent.n, TRACE_MAX)) == SLI_OK)
		return t;
	t->refs = 1;
	turn_unref(t);
	return NULL;
}

/* OK: nothing hinders a new turn. */
static enum sli_err
may_start(
    struct acp_session *s, const struct acp_ask *ask, struct sli_errinfo *ei)
{
	uint64_t most = limit(s, SLI_L_ACP_QUEUED_PROMPTS);

	if (s->deleting)
		return sli_fail(
		    ei, SLI_E_NOT_FOUND, 0, "acp.prompt", "no such session");
	if (s->a->draining)
		return sli_fail(ei, SLI_E_DRAINING, 0, "acp.prompt",
		    "the server is shutting down");
	if (s->journal.stalled)
		return sli_fail(ei, SLI_E_STORAGE_FULL, 0, "acp.prompt",
		    "the disk is full");
	if (ask->key.n > KEY_MAX)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "acp.prompt",
		    "the key is longer than %u bytes", KEY_MAX);
	if ((s->nqueue || (s->active && s->active->cause == CAUSE_NONE)) &&
	    !ask->queue)
		return sli_fail(ei, SLI_E_SESSION_BUSY, 0, "acp.prompt",
		    "a turn is running in this session; queue the prompt or "
		    "wait");
	if (s->nqueue && s->nqueue >= most)
		return sli_limit_refuse(ei, SLI_L_ACP_QUEUED_PROMPTS, s->nqueue,
		    1, most, "acp.prompt");
	return SLI_OK;
}

static void
submit(struct acp_session *s, struct turn *t)
{
	struct txn *txn = txn_new(s);
	struct sli_record *r;

	t->no = ++s->last_turn;
	s->a->busy++;
	sli_list_add_tail(&s->queue, &t->node);
	s->nqueue++;
	r = txn_add(txn, SLI_EV_PROMPT, t->no);
	txn_body(txn, r, sli_buf_slice(&t->content));
	r->ch.what = SLI_CH_TURN_NEW;
	r->ch.turn = t->no;
	r->ch.key = txn_dup(txn, sli_buf_slice(&t->key));
	memcpy(r->ch.prompt_hash, t->hash, sizeof(t->hash));
	r->ch.deadline_ms = r->ev.at_ms + t->deadline_ms;
	txn->fail_fast = 1;
	if (SLI_MUTATED(acp_idle_cancel_poisons) && *s->broken)
		t->cause = CAUSE_USER;
	txn->turn = t;
	txn_submit(txn, 1, accepted);
}

void
acp_prompt(struct acp_session *s, const struct acp_ask *ask, acp_prompt_fn *fn,
    void *ctx)
{
	struct sli_buf content = {0};
	struct turn *t = by_key(s, ask->key);
	struct sli_errinfo ei = {.code = SLI_OK};

	loop_assert(s->a->loop);
	if (t && memcmp(t->hash, ask->hash, sizeof(t->hash)) != 0) {
		sli_fail(&ei, SLI_E_KEY_CONFLICT, 0, "acp.prompt",
		    "this key was used with another prompt");
		refuse(fn, ctx, &ei);
		return;
	}
	if (t && add_waiter(t, fn, ctx, 1)) {
		if (t->phase != TURN_ACCEPTING)
			tell_waiters(t, &ei);
		return;
	}
	if (t || may_start(s, ask, &ei) != SLI_OK ||
	    take_content(s, ask->content, &content, &ei) != SLI_OK)
		goto refused;
	t = turn_new(s, ask, &content);
	if (t && add_waiter(t, fn, ctx, 0)) {
		submit(s, t);
		return;
	}
	if (t) {
		t->refs = 1;
		turn_unref(t);
	}
refused:
	sli_buf_free(&content);
	if (ei.code == SLI_OK)
		sli_fail(&ei, SLI_E_NOMEM, 0, "acp.prompt", "no memory");
	refuse(fn, ctx, &ei);
}
