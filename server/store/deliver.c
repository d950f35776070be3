/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's end of a job's life: sending it to the writer and charging its
 * bytes; and, when the batch comes back, first the state of every session,
 * then the answers, then the wake-ups. */
#include "store/int.h"

#include "base/log.h"
#include "base/mutant.h"

/* --- going ----------------------------------------------------------------*/

static void
charge(struct store *st, struct store_session *s, size_t cost)
{
	st->held += cost;
	s->held += cost;
	if (!s->pressed && s->held >= st->cfg.session_budget && s->sno) {
		s->pressed = 1;
		if (st->cfg.pressure)
			st->cfg.pressure(st->cfg.ctx, s->id, 1);
	}
	if (!st->pressed && st->held >= st->cfg.budget) {
		st->pressed = 1;
		if (st->cfg.pressure)
			st->cfg.pressure(st->cfg.ctx, NULL, 1);
	}
}

static void
release(struct store *st, struct store_session *s, size_t cost)
{
	SLI_ASSERT(st->held >= cost && s->held >= cost);
	st->held -= cost;
	s->held -= cost;
}

/* Half, so that a pipe is not paused and resumed for every line. */
static void
relieve(struct store *st, struct store_session *s)
{
	if (s->pressed && !s->dead && s->held <= st->cfg.session_budget / 2) {
		s->pressed = 0;
		if (st->cfg.pressure)
			st->cfg.pressure(st->cfg.ctx, s->id, 0);
	}
	if (st->pressed && st->held <= st->cfg.budget / 2) {
		st->pressed = 0;
		if (st->cfg.pressure)
			st->cfg.pressure(st->cfg.ctx, NULL, 0);
	}
}

void
store_submit(struct store *st, struct store_job *j, struct store_session *s,
    store_done_fn *done, void *ctx)
{
	j->st = st;
	j->s = store_session_ref(s);
	j->done = done;
	j->ctx = ctx;
	st->outstanding++;
	charge(st, s, j->cost);
	if (st->closing || st->fataled) {
		store_job_refuse(
		    j, st->fataled ? SLI_E_STORE : SLI_E_UNAVAILABLE);
		return;
	}
	if (SLI_MUTATED(store_staged))
		s->head += j->nev;
	store_queue_push(&st->q, j);
}

/* --- coming back ----------------------------------------------------------*/

void
store_fatal(struct store *st, const struct sli_errinfo *ei)
{
	if (st->fataled)
		return;
	st->fataled = 1;
	atomic_store(&st->broken, 1);
	if (st->cfg.fatal)
		st->cfg.fatal(st->cfg.ctx, ei);
}

static const char *
why(enum sli_err e)
{
	if (e == SLI_E_STORAGE_FULL)
		return "the disk of the state directory is full; nothing of "
		       "this was kept";
	if (e == SLI_E_STORE)
		return "the history store has failed; whether this was kept "
		       "is known after a restart";
	if (e == SLI_E_UNAVAILABLE)
		return "the history store cannot be written now";
	return sli_err_text(e);
}

/* The answer; the end of the job unless the tail has it. */
static void
answer(struct store *st, struct store_job *j)
{
	store_done_fn *done = j->done;
	struct sli_errinfo ei = {0};
	uint64_t seq = j->code == SLI_OK ? j->first_seq : 0;
	void *ctx = j->ctx;

	if (j->code != SLI_OK)
		(void)sli_fail(&ei, j->code, 0, "store", "%s", why(j->code));
	store_job_set(j, STORE_JOB_ANSWERED);
	st->outstanding--;
	store_job_free(st, j);
	if (done)
		done(ctx, seq, &ei);
}

/* First step: bytes, sets, tail. Calls nobody. */
static void
settle(struct store *st, struct store_job *j)
{
	struct store_session *s = j->s;

	release(st, s, j->cost);
	if (j->code != SLI_OK)
		return;
	for (uint32_t i = 0; i < j->nrec; i++)
		if (j->rec[i].set)
			store_set_close(st, j->rec[i].set);
	if (j->nev > 0 && !s->dead)
		store_tail_add(st, s, j);
}

/* Second step: what became of the session, then the answer. */
static void
conclude(struct store *st, struct store_job *j)
{
	struct store_session *s = store_session_ref(j->s);

	if (j->op == STORE_OP_DEL)
		s->deleting = 0;
	if ((j->op == STORE_OP_DEL && j->code == SLI_OK) ||
	    (j->op == STORE_OP_NEW && j->code != SLI_OK))
		store_session_forget(st, s);
	answer(st, j);
	relieve(st, s);
	store_session_unref(st, s);
}

static void
deliver_one(struct sli_post *p)
{
	struct store_job *j = SLI_CONTAINER_OF(p, struct store_job, post);

	settle(j->st, j);
	conclude(j->st, j);
}

void
store_job_refuse(struct store_job *j, enum sli_err code)
{
	j->code = code;
	j->first_seq = 0;
	store_job_set(j, STORE_JOB_FAILED);
	j->post.fn = deliver_one;
	sli_mailbox_post(j->st->cfg.mb, &j->post);
}

static void
publish(struct store *st, struct store_batch *b)
{
	for (unsigned i = 0; i < b->nres; i++) {
		struct store_result *r = &b->res[i];
		struct store_session *s = store_session_ref(r->s);

		r->moved = r->kept.head != s->head || SLI_MUTATED(store_staged);
		s->head = r->kept.head;
		s->bytes = r->kept.bytes;
		memcpy(s->chain, r->kept.chain, sizeof(s->chain));
		if (r->kept.low != s->low) {
			s->low = r->kept.low;
			store_tail_drop(st, s, s->low);
		}
	}
}

/* Fail-stop became known after this batch: its outcome is unknown now. */
static void
disown(struct store_batch *b)
{
	b->nres = 0;
	b->events = b->bytes = 0;
	for (struct store_job *j = b->first; j; j = j->next) {
		if (j->state == STORE_JOB_COMMITTED)
			store_job_set(j, STORE_JOB_FAILED);
		j->code = SLI_E_STORE;
	}
}

void
store_deliver(struct sli_post *p)
{
	struct store_batch *b = SLI_CONTAINER_OF(p, struct store_batch, post);
	struct store *st = b->st;
	struct store_job *next;

	if (st->fataled)
		disown(b);
	publish(st, b);
	st->stats.commits += (uint64_t)b->committed;
	st->stats.events += b->events;
	st->stats.bytes += b->bytes;
	for (struct store_job *j = b->first; j; j = j->next)
		settle(st, j);
	for (struct store_job *j = b->first; j; j = next) {
		next = j->next;
		conclude(st, j);
	}
	for (unsigned i = 0; i < b->nres; i++) {
		struct store_session *s = b->res[i].s;

		if (b->res[i].moved && !s->dead) {
			if (st->cfg.moved)
				st->cfg.moved(st->cfg.ctx, s->id, s->head);
			store_session_wake(s, 0);
		}
		store_session_unref(st, s);
	}
	sli_free(b);
}
