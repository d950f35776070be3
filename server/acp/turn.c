/* SPDX-License-Identifier: Apache-2.0 */
/* Turns: accepted when committed, started when that is committed too, ended in
 * the same commit as the agent's answer. One at a time; the others wait in
 * order. docs/STATES.md has the page. */
#include "acp/engine.h"

#include "base/log.h"

#include "base/mem.h"
#include "base/mutant.h"
#include "base/str.h"

#include <string.h>

#define B(phase) (1u << TURN_##phase)

static const unsigned legal[TURN__N] = {
    [TURN_ACCEPTING] = B(QUEUED) | B(OVER),
    [TURN_QUEUED] = B(STARTING) | B(OVER),
    [TURN_STARTING] = B(RUNNING) | B(OVER),
    [TURN_RUNNING] = B(CANCELING) | B(OVER),
    [TURN_CANCELING] = B(OVER),
    [TURN_OVER] = 0,
};

static const char *const names[TURN__N] = {
    "accepting", "queued", "starting", "running", "canceling", "over"};

void
turn_set(struct turn *t, enum turn_phase to)
{
	SLI_ASSERT(legal[t->phase] & 1u << to);
	sli_debug("acp", "turn", "session=%s turn=%llu %s -> %s", t->s->id,
	    (unsigned long long)t->no, names[t->phase], names[to]);
	t->phase = to;
	if (to == TURN_OVER)
		t->s->a->busy--;
}

void
turn_unref(struct turn *t)
{
	if (!t || --t->refs)
		return;
	while (t->waiters) {
		struct prompt_waiter *w = t->waiters;

		t->waiters = w->next;
		sli_free(w);
	}
	sli_buf_free(&t->key);
	sli_buf_free(&t->content);
	sli_buf_free(&t->trace);
	sli_free(t);
}

uint64_t
turn_now(const struct acp_session *s)
{
	const struct turn *t = s->active;

	return t && (t->phase == TURN_RUNNING || t->phase == TURN_CANCELING)
		   ? t->no
		   : 0;
}

static struct turn *
head(const struct acp_session *s)
{
	if (sli_list_empty(&s->queue))
		return NULL;
	return SLI_LIST_ENTRY(s->queue.next, struct turn, node);
}

int
turn_waiting(const struct acp_session *s)
{
	const struct turn *t = head(s);

	return t && t->phase == TURN_QUEUED;
}

/* --- the end -------------------------------------------------------------*/

static const char *const outcomes[] = {
    [SLI_TO_NONE] = "none",
    [SLI_TO_COMPLETED] = "completed",
    [SLI_TO_FAILED] = "failed",
    [SLI_TO_LOST] = "lost",
    [SLI_TO_CANCELED] = "canceled",
    [SLI_TO_TIMED_OUT] = "timed_out",
    [SLI_TO_DISPATCH_FAILED] = "dispatch_failed",
    [SLI_TO_AUTH_REJECTED] = "auth_rejected",
    [SLI_TO_BUDGET_EXCEEDED] = "budget_exceeded",
};

static void
ended_event(struct turn *turn, struct txn *t, int outcome,
    const char *reason_code, struct sli_slice stop)
{
	struct sli_record *r = txn_add(t, SLI_EV_TURN_ENDED, turn->no);
	struct sli_buf text;
	struct body b;

	body_begin(&b);
	sli_jw_ku64(&b.w, "turn", turn->no);
	sli_jw_kcstr(&b.w, "outcome", outcomes[outcome]);
	sli_buf_init(&text, 256);
	if (stop.n && json_decode(&text, stop, 200) >= 0)
		sli_jw_kstr(&b.w, "stop_reason", sli_buf_slice(&text));
	sli_buf_free(&text);
	if (*reason_code)
		sli_jw_kcstr(&b.w, "reason", reason_code);
	body_put(&b, t, r);
	r->ch.what = SLI_CH_TURN_END;
	r->ch.turn = turn->no;
	r->ch.outcome = outcome;
	r->ch.reason_code = txn_str(t, reason_code);
}

/* Out of the session's hands, but known by its key for a while. */
static void
retire(struct turn *turn)
{
	struct acp_session *s = turn->s;

	if (s->active == turn) {
		s->active = NULL;
		cancel_done(s);
		if (!SLI_MUTATED(acp_response_first))
			sup_end(&s->sup, loop_now_ms(s->a->loop));
	} else {
		sli_list_del(&turn->node);
		s->nqueue--;
	}
	turn_unref(s->ended[s->ended_at]);
	s->ended[s->ended_at] = turn;
	s->ended_at = (s->ended_at + 1) % ENDED_KEPT;
	sli_buf_free(&turn->content);
	turn_set(turn, TURN_OVER);
}

void
turn_end(struct turn *turn, struct txn *t, int outcome, const char *reason_code,
    struct sli_slice stop)
{
	if (turn == turn->s->active)
		volume_report(turn->s, t, turn->no);
	ended_event(turn, t, outcome, reason_code, stop);
	retire(turn);
}

void
turn_committed(struct acp_session *s, uint64_t no, int outcome)
{
	for (unsigned i = 0; i < ENDED_KEPT; i++)
		if (s->ended[i] && s->ended[i]->no == no)
			s->ended[i]->outcome = outcome;
}

void
turn_fail_queued(
    struct acp_session *s, struct txn *t, int outcome, const char *reason_code)
{
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &s->queue) {
		struct turn *turn = SLI_LIST_ENTRY(it, struct turn, node);

		/* one whose acceptance is not committed gets its end then */
		if (turn->phase == TURN_QUEUED)
			turn_end(turn, t, outcome, reason_code,
			    sli_slice_of(NULL, 0));
		else if (turn->cause == CAUSE_NONE)
			turn->cause = CAUSE_USER;
	}
}

void
turn_forget(struct acp_session *s)
{
	struct sli_list *it, *tmp;

	if (s->active)
		retire(s->active);
	sli_list_for_each_safe (it, tmp, &s->queue) {
		struct turn *turn = SLI_LIST_ENTRY(it, struct turn, node);

		if (turn->phase != TURN_ACCEPTING)
			retire(turn);
	}
}

/* --- the start -----------------------------------------------------------*/

static void
started(struct txn *t, const struct sli_errinfo *ei)
{
	struct turn *turn = t->turn;
	struct acp_session *s = turn->s;

	if (turn->phase == TURN_STARTING && ei->code == SLI_OK) {
		turn_set(turn, TURN_RUNNING);
		cancel_started(turn);
	} else if (turn->phase == TURN_STARTING) {
		session_break(s, "store_failed");
	}
}

static void
start(struct acp_session *s, struct turn *turn)
{
	struct sli_record *r;
	struct body b;
	struct txn *t = txn_new(s);

	sli_list_del(&turn->node);
	s->nqueue--;
	s->active = turn;
	turn_set(turn, TURN_STARTING);
	volume_report(s, t, 0); /* of an idle agent that talked too much */
	volume_begin_turn(s);
	s->had_turns = 1;

	r = txn_add(t, SLI_EV_TURN_STARTED, turn->no);
	body_begin(&b);
	sli_jw_ku64(&b.w, "turn", turn->no);
	if (sli_buf_len(&turn->key))
		sli_jw_kstr(&b.w, "key", sli_buf_slice(&turn->key));
	body_put(&b, t, r);
	r->ch.what = SLI_CH_TURN_START;
	r->ch.turn = turn->no;
	say_prompt(s, t, turn);
	session_set(s, SLI_SS_RUNNING, "", "", t);
	sli_buf_free(&turn->content);
	sli_buf_free(&s->preamble);
	turn->refs++;
	t->turn = turn;
	txn_submit(t, 1, started);
}

void
turn_kick(struct acp_session *s)
{
	struct turn *t = head(s);

	if (s->active || s->deleting || !t || t->phase != TURN_QUEUED)
		return;
	if (session_ready(s) && s->state == SLI_SS_IDLE && !s->on_unload)
		start(s, t);
	else if (!s->ag)
		session_settle(s);
}

/* --- the agent's answer --------------------------------------------------*/

static int
outcome_of(const struct turn *turn, const struct line *ln,
    const char **ret_reason, struct sli_slice *ret_stop)
{
	const struct envelope *e = ln->env;

	*ret_reason = "";
	/* A limit of ours ended it, whatever the agent calls that. */
	if (turn->cause == CAUSE_DEADLINE || turn->cause == CAUSE_BUDGET)
		return cancel_outcome(turn);
	if (e->has_error) {
		*ret_reason = "agent_error";
		if (turn->cause != CAUSE_NONE || e->code == -32800)
			return SLI_TO_CANCELED;
		if (e->code != -32000)
			return SLI_TO_FAILED;
		*ret_reason = "auth_required";
		return SLI_TO_AUTH_REJECTED;
	}
	if (ln->bad_utf8 || ln->too_long || !e->stop.set || e->stop.cut) {
		*ret_reason = "invalid_response";
		return turn->cause != CAUSE_NONE ? SLI_TO_CANCELED
						 : SLI_TO_FAILED;
	}
	*ret_stop = env_slice(&e->stop);
	return env_is(&e->stop, "cancelled") ? SLI_TO_CANCELED
					     : SLI_TO_COMPLETED;
}

void
turn_answer(struct acp_session *s, const struct line *ln)
{
	struct turn *turn = s->active;
	struct sli_slice stop = sli_slice_of(NULL, 0);
	struct txn *t = txn_new(s);
	const char *reason;
	int outcome;

	permit_drop_all(s, t, PERM_CANCELED, 1, 0);
	(void)route_store(s, ln, t, SLI_EV_AGENT);
	outcome = outcome_of(turn, ln, &reason, &stop);
	turn_end(turn, t, outcome, reason, stop);
	session_set(s, SLI_SS_IDLE, "", "", t);
	txn_submit(t, 1, NULL);
	session_settle(s);
	turn_kick(s);
}
