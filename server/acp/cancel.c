/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a turn early: by a caller, its deadline, a limit or an unload. The
 * agent is asked and given a grace, then its tree is killed. On an idle
 * session there is nothing to cancel and nothing is remembered. */
#include "acp/engine.h"

#include "base/log.h"
#include "base/mutant.h"

static void deadline_due(struct loop_timer *timer);
static void grace_due(struct loop_timer *timer);

void
cancel_init(struct acp_session *s)
{
	loop_timer_init(&s->deadline_timer, deadline_due);
	loop_timer_init(&s->grace_timer, grace_due);
}

void
cancel_done(struct acp_session *s)
{
	loop_timer_del(s->a->loop, &s->deadline_timer);
	loop_timer_del(s->a->loop, &s->grace_timer);
}

int
cancel_outcome(const struct turn *turn)
{
	if (turn->cause == CAUSE_DEADLINE)
		return SLI_TO_TIMED_OUT;
	if (turn->cause == CAUSE_BUDGET)
		return SLI_TO_BUDGET_EXCEEDED;
	return SLI_TO_CANCELED;
}

/* Its bytes are with the agent: permissions first, then the cancel. */
static void
tell_agent(struct turn *turn)
{
	struct acp_session *s = turn->s;
	struct txn *t = txn_new(s);
	/* a full disk must not keep us from stopping it; nothing that is said
	 * here lets the agent do anything */
	unsigned flags = s->journal.stalled ? SAY_NOW : 0;

	turn_set(turn, TURN_CANCELING);
	permit_drop_all(s, t, PERM_CANCELED, 1, flags);
	say_cancel(s, t, flags);
	if (s->state == SLI_SS_WAITING_PERMISSION)
		session_set(s, SLI_SS_RUNNING, "", "", t);
	txn_submit(t, 1, NULL);
	loop_timer_after(s->a->loop, &s->grace_timer,
	    (int64_t)limit(s, SLI_L_ACP_CANCEL_GRACE));
}

void
cancel_queued(struct turn *turn)
{
	struct acp_session *s = turn->s;
	struct txn *t = txn_new(s);

	turn_end(turn, t, cancel_outcome(turn), "not_started",
	    sli_slice_of(NULL, 0));
	txn_submit(t, 1, NULL);
	turn_kick(s);
}

void
cancel_turn(struct turn *turn, enum cause why)
{
	if (turn->cause != CAUSE_NONE || turn->phase == TURN_OVER)
		return;
	turn->cause = why;
	if (turn->phase == TURN_QUEUED)
		cancel_queued(turn);
	else if (turn->phase == TURN_RUNNING)
		tell_agent(turn);
	/* else its commit is under way and looks at cause when it is back */
}

void
cancel_started(struct turn *turn)
{
	struct acp_session *s = turn->s;

	loop_timer_after(s->a->loop, &s->deadline_timer, turn->deadline_ms);
	if (turn->cause != CAUSE_NONE)
		tell_agent(turn);
}

uint64_t
acp_cancel(struct acp_session *s)
{
	struct turn *turn = s->active;
	struct sli_list *it, *tmp;
	uint64_t no;

	loop_assert(s->a->loop);
	if (s->deleting)
		return 0;
	if (!turn && sli_list_empty(&s->queue)) {
		if (SLI_MUTATED(acp_idle_cancel_poisons))
			s->broken[0] = 'x';
		return 0;
	}
	if (!turn)
		turn = SLI_LIST_ENTRY(s->queue.next, struct turn, node);
	no = turn->no;
	if (turn->cause == CAUSE_NONE) {
		cancel_turn(turn, CAUSE_USER);
		return no;
	}
	/* asked again: whatever waits behind it is meant too */
	sli_list_for_each_safe (it, tmp, &s->queue)
		cancel_turn(SLI_LIST_ENTRY(it, struct turn, node), CAUSE_USER);
	return no;
}

static void
deadline_due(struct loop_timer *timer)
{
	struct acp_session *s =
	    SLI_CONTAINER_OF(timer, struct acp_session, deadline_timer);

	if (s->active)
		cancel_turn(s->active, CAUSE_DEADLINE);
}

static void
grace_due(struct loop_timer *timer)
{
	struct acp_session *s =
	    SLI_CONTAINER_OF(timer, struct acp_session, grace_timer);

	if (s->active && s->ag && !SLI_MUTATED(acp_grace_endless))
		agent_kill(s->ag);
}

void
cancel_budget(struct acp_session *s, enum sli_limit l, uint64_t used)
{
	struct txn *t = txn_new(s);
	struct sli_record *r = txn_add(t, SLI_EV_LIMIT, turn_now(s));
	struct body b;

	body_begin(&b);
	sli_jw_kcstr(&b.w, "key", sli_limit_info(l)->key);
	sli_jw_ku64(&b.w, "limit", limit(s, l));
	sli_jw_ku64(&b.w, "used", used);
	sli_jw_kcstr(&b.w, "text",
	    "the agent sent too much; further updates are not stored");
	body_put(&b, t, r);
	txn_submit(t, 1, NULL);
	s->discard = 1;
	if (s->active)
		cancel_turn(s->active, CAUSE_BUDGET);
}
