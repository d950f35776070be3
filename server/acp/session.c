/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a session and its ends: recovery after a restart of the server,
 * unload, delete, shutdown. docs/STATES.md has the page. */
#include "acp/engine.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#define B(state) (1u << SLI_SS_##state)

static const unsigned legal[] = {
    [SLI_SS_OPENING] =
	B(OPENING) | B(IDLE) | B(FAILED) | B(UNLOADED) | B(DELETED),
    [SLI_SS_IDLE] = B(OPENING) | B(RUNNING) | B(UNLOADED) | B(DELETED),
    [SLI_SS_RUNNING] =
	B(IDLE) | B(WAITING_PERMISSION) | B(UNLOADED) | B(DELETED),
    [SLI_SS_WAITING_PERMISSION] =
	B(RUNNING) | B(IDLE) | B(UNLOADED) | B(DELETED),
    [SLI_SS_FAILED] = B(OPENING) | B(FAILED) | B(UNLOADED) | B(DELETED),
    [SLI_SS_UNLOADED] = B(OPENING) | B(FAILED) | B(DELETED),
    [SLI_SS_DELETED] = 0,
};

static const char *const names[] = {
    [SLI_SS_OPENING] = "opening",
    [SLI_SS_IDLE] = "idle",
    [SLI_SS_RUNNING] = "running",
    [SLI_SS_WAITING_PERMISSION] = "waiting_permission",
    [SLI_SS_FAILED] = "failed",
    [SLI_SS_UNLOADED] = "unloaded",
    [SLI_SS_DELETED] = "deleted",
};

void
session_set(struct acp_session *s, int to, const char *reason_code,
    const char *reason, struct txn *t)
{
	struct sli_record *r;
	struct body b;

	SLI_ASSERT(to >= SLI_SS_OPENING && to <= SLI_SS_DELETED);
	SLI_ASSERT(legal[s->state] & 1u << to);
	sli_debug("acp", "session", "session=%s %s -> %s reason=%s", s->id,
	    names[s->state], names[to], reason_code);
	s->state = to;
	r = txn_add(t, SLI_EV_SESSION, s->active ? s->active->no : 0);
	body_begin(&b);
	sli_jw_kcstr(&b.w, "state", names[to]);
	if (*reason_code) {
		sli_jw_kcstr(&b.w, "reason_code", reason_code);
		sli_jw_kcstr(&b.w, "reason", reason);
	}
	body_put(&b, t, r);
	r->ch.what |= SLI_CH_STATE;
	r->ch.state = to;
	r->ch.reason_code = txn_str(t, reason_code);
	r->ch.reason = txn_str(t, reason);
}

void
session_break(struct acp_session *s, const char *reason_code)
{
	if (s->ag && !*s->broken) {
		sli_log(SLI_LOG_ERR, "acp", "broken",
		    "session=%s reason=%s, ending the agent", s->id,
		    reason_code);
		(void)sli_strlcpy(s->broken, reason_code, sizeof(s->broken));
	}
	if (s->ag)
		agent_kill(s->ag);
}

/* --- after a restart of the server ---------------------------------------*/

static void
recover_turn(struct acp_session *s, struct txn *t, const struct acp_left *left)
{
	int outcome = left->started ? SLI_TO_LOST : SLI_TO_DISPATCH_FAILED;
	struct sli_record *r = txn_add(t, SLI_EV_TURN_ENDED, left->turn);
	struct body b;

	body_begin(&b);
	sli_jw_ku64(&b.w, "turn", left->turn);
	sli_jw_kcstr(
	    &b.w, "outcome", left->started ? "lost" : "dispatch_failed");
	sli_jw_kcstr(&b.w, "reason", "server_restarted");
	body_put(&b, t, r);
	r->ch.what = SLI_CH_TURN_END;
	r->ch.turn = left->turn;
	r->ch.outcome = outcome;
	r->ch.reason_code = "server_restarted";
	s->last_turn = SLI_MAX(s->last_turn, left->turn);
}

static void
recover_perm(struct txn *t, uint64_t request)
{
	struct sli_record *r = txn_add(t, SLI_EV_PERMISSION, 0);
	struct body b;

	body_begin(&b);
	sli_jw_ku64(&b.w, "request", request);
	sli_jw_kcstr(&b.w, "state", "expired");
	sli_jw_kcstr(&b.w, "reason", "server_restarted");
	body_put(&b, t, r);
	r->ch.what = SLI_CH_PERM_SET;
	r->ch.request = request;
	r->ch.perm_state = SLI_PS_EXPIRED;
}

void
acp_recover(struct acp_session *s, const struct acp_left *turns,
    unsigned nturns, const uint64_t *pending, unsigned npending)
{
	int live = s->state == SLI_SS_OPENING || s->state == SLI_SS_IDLE ||
		   s->state == SLI_SS_RUNNING ||
		   s->state == SLI_SS_WAITING_PERMISSION;
	struct txn *t;

	loop_assert(s->a->loop);
	if (!live && !nturns && !npending)
		return;
	t = txn_new(s);
	for (unsigned i = 0; i < npending; i++)
		recover_perm(t, pending[i]);
	for (unsigned i = 0; i < nturns; i++)
		recover_turn(s, t, &turns[i]);
	if (live)
		session_set(s, SLI_SS_UNLOADED, "server_restarted",
		    "the server was restarted; the next prompt starts the "
		    "agent again",
		    t);
	txn_submit(t, 1, NULL);
}

/* --- unload, delete, shutdown --------------------------------------------*/

static int
wait_for(struct done_waiter **list, acp_done_fn *fn, void *ctx)
{
	struct done_waiter *d = sli_alloc(sizeof(*d));
	struct sli_errinfo ei;

	if (!d) {
		sli_fail(&ei, SLI_E_NOMEM, 0, "acp.session", "no memory");
		fn(ctx, &ei);
		return 0;
	}
	*d = (struct done_waiter){*list, fn, ctx};
	*list = d;
	return 1;
}

static void
told(struct done_waiter **list, const struct sli_errinfo *ei)
{
	while (*list) {
		struct done_waiter *d = *list;

		*list = d->next;
		d->fn(d->ctx, ei);
		sli_free(d);
	}
}

static void
purged(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	struct acp_session **p = ctx, *s = *p;

	(void)first_seq;
	sli_free(p);
	if (!s)
		return;
	s->purge = NULL;
	told(&s->on_delete, ei);
	session_forget(s);
}

static void
purge(struct acp_session *s)
{
	const struct sli_errinfo oom = {.code = SLI_E_NOMEM};
	struct acp_session **p = sli_alloc(sizeof(*p));

	if (!p) {
		/* the row stays; deleting it again will do */
		told(&s->on_delete, &oom);
		s->deleting = 1;
		return;
	}
	*p = s;
	s->purge = p;
	s->a->sink->purge(s->a->ctx, s, purged, p);
}

void
session_settle(struct acp_session *s)
{
	const struct sli_errinfo ok = {.code = SLI_OK};
	int again = s->want_open;

	if (s->deleting == 1 && !s->ag && journal_idle(s)) {
		s->deleting = 2;
		told(&s->on_unload, &ok);
		purge(s);
		return;
	}
	if (s->deleting)
		return;
	if (s->on_unload && !s->active && s->ag)
		agent_stop(s->ag);
	if (s->ag)
		return;
	if (s->on_unload && !journal_idle(s))
		return;
	told(&s->on_unload, &ok);
	if (again || turn_waiting(s)) {
		s->want_open = 0;
		open_begin(s, again && s->no_native);
	}
}

void
acp_unload(struct acp_session *s, acp_done_fn *fn, void *ctx)
{
	struct txn *t;

	loop_assert(s->a->loop);
	if (!wait_for(&s->on_unload, fn, ctx) || s->deleting)
		return;
	if (s->nqueue) {
		t = txn_new(s);
		turn_fail_queued(s, t, SLI_TO_CANCELED, "unloaded");
		txn_submit(t, 1, NULL);
	}
	s->want_open = 0;
	if (s->active)
		cancel_turn(s->active, CAUSE_UNLOAD);
	session_settle(s);
}

void
acp_delete(struct acp_session *s, acp_done_fn *fn, void *ctx)
{
	loop_assert(s->a->loop);
	if (!wait_for(&s->on_delete, fn, ctx) || s->deleting == 2)
		return;
	if (s->deleting) {
		session_settle(s);
		return;
	}
	SLI_ASSERT(legal[s->state] & B(DELETED));
	sli_debug("acp", "session", "session=%s %s -> deleted", s->id,
	    names[s->state]);
	s->state = s->shown.state = SLI_SS_DELETED;
	s->deleting = 1;
	s->want_open = 0;
	permit_forget(s);
	turn_forget(s);
	if (s->ag) {
		lines_stop(&s->ag->lines);
		agent_kill(s->ag);
	}
	session_settle(s);
}

static void
shut(struct acp_session *s, const char *reason_code)
{
	struct txn *t = txn_new(s);

	s->want_open = 0;
	permit_drop_all(s, t, PERM_EXPIRED, 0, 0);
	if (s->active)
		turn_end(s->active, t, SLI_TO_LOST, reason_code,
		    sli_slice_of(NULL, 0));
	turn_fail_queued(s, t, SLI_TO_DISPATCH_FAILED, reason_code);
	if (s->state != SLI_SS_UNLOADED && s->state != SLI_SS_FAILED)
		session_set(s, SLI_SS_UNLOADED, reason_code,
		    "the server was stopped", t);
	if (t->n)
		txn_submit(t, 1, NULL);
	else
		txn_free(t);
	if (s->ag) {
		s->ag->told = 1;
		agent_kill(s->ag);
	}
}

void
acp_shutdown(struct acp *a, const char *reason_code)
{
	struct acp_session *s;
	uint32_t pos = 0;

	loop_assert(a->loop);
	a->draining = 1;
	while ((s = sli_ids_next(a->all, &pos)) != NULL)
		if (!s->deleting)
			shut(s, reason_code);
}
