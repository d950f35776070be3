/* SPDX-License-Identifier: Apache-2.0 */
/* Starting an agent: spawn, initialize, then a session of its own, each step
 * bounded by its timeout and told apart when it fails. Giving context back to
 * an agent of a session with history is ladder.c's. */
#include "acp/engine.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

static const struct {
	const char *name;
	enum sli_limit timeout;
	const char *timed_out, *failed; /* reason codes */
} steps[] = {
    [STEP_SPAWN] = {"spawn",          SLI_L_ACP_SPAWN,       "spawn_timeout",       "spawn_failed"},
    [STEP_INIT] = {"initialize",     SLI_L_ACP_INITIALIZE,  "initialize_timeout",
		    "initialize_failed"							   },
    [STEP_RESUME] = {"session/resume", SLI_L_ACP_LOAD,        "load_timeout",
		    "load_failed"								 },
    [STEP_LOAD] = {"session/load",   SLI_L_ACP_LOAD,        "load_timeout",
		    "load_failed"								 },
    [STEP_READ] = {"history",        SLI_L_ACP_LOAD,        "history_timeout",
		    "history_failed"							      },
    [STEP_NEW] = {"session/new",    SLI_L_ACP_NEW_SESSION, "new_session_timeout",
		    "new_session_failed"							  },
};

const char *
open_step_name(enum step step)
{
	return step < STEP_READY ? steps[step].name : "work";
}

/* An event for a step; the state stays opening. */
static struct sli_record *
step_event(struct agent *g, struct txn *t, const char *error)
{
	struct sli_record *r = txn_add(t, SLI_EV_SESSION, 0);
	struct body b;

	body_begin(&b);
	sli_jw_kcstr(&b.w, "state", "opening");
	sli_jw_kcstr(&b.w, "step", open_step_name(g->step));
	sli_jw_ku64(&b.w, "generation", g->generation);
	if (error)
		sli_jw_kcstr(&b.w, "error", error);
	body_put(&b, t, r);
	return r;
}

void
open_step_failed(struct agent *g, struct txn *t, const char *error)
{
	(void)step_event(g, t, error);
}

void
open_step(struct agent *g, enum step step)
{
	struct acp_session *s = g->s;
	struct txn *t = txn_new(s);
	struct sli_record *r;

	g->step = step;
	loop_timer_after(
	    s->a->loop, &g->step_timer, (int64_t)limit(s, steps[step].timeout));
	r = step_event(g, t, NULL);
	if (step == STEP_SPAWN) {
		/* a generation is never used twice, even by a later server */
		r->ch.what = SLI_CH_AGENT;
		r->ch.generation = g->generation;
		r->ch.agent_session = txn_str(t, s->agent_session);
	}
	if (step != STEP_SPAWN && step != STEP_READ)
		say_handshake(g, t, step);
	txn_submit(t, step == STEP_SPAWN, NULL);
}

/* --- starting ------------------------------------------------------------*/

/* Agents that exit by themselves are started again so often in an hour. */
static int
within_budget(struct acp_session *s)
{
	int64_t now = loop_now_ms(s->a->loop);

	if (!s->crashed)
		return 1;
	if (!s->restarts || now - s->restarts_since_ms > 3600000) {
		s->restarts_since_ms = now;
		s->restarts = 0;
	}
	if (s->restarts >= limit(s, SLI_L_ACP_RESTARTS))
		return 0;
	s->restarts++;
	return 1;
}

static void
fail(struct acp_session *s, struct txn *t, const char *reason_code,
    const char *reason)
{
	int outcome = strcmp(reason_code, "auth_required") == 0
			  ? SLI_TO_AUTH_REJECTED
			  : SLI_TO_DISPATCH_FAILED;

	turn_fail_queued(s, t, outcome, reason_code);
	session_set(s, SLI_SS_FAILED, reason_code, reason, t);
}

void
open_begin(struct acp_session *s, int no_native)
{
	const struct acp *a = s->a;
	struct txn *t;

	SLI_ASSERT(!s->ag);
	s->no_native = 0;
	if (!within_budget(s)) {
		t = txn_new(s);
		fail(s, t, "restart_budget",
		    "the agent exited too often in the last hour "
		    "(acp.restarts_per_hour)");
		txn_submit(t, 1, NULL);
		return;
	}
	s->generation++;
	t = txn_new(s);
	s->ag = agent_new(s);
	if (!s->ag) {
		fail(s, t, "out_of_memory", "no memory for the agent");
		txn_submit(t, 1, NULL);
		return;
	}
	s->ag->no_native = no_native;
	session_set(s, SLI_SS_OPENING, "", "", t);
	txn_submit(t, 1, NULL);
	open_step(s->ag, STEP_SPAWN);
	a->sink->spawn(a->ctx, s, s->generation);
}

void
open_failed(
    struct agent *g, struct txn *t, const char *reason_code, const char *reason)
{
	g->told = 1;
	loop_timer_del(g->s->a->loop, &g->step_timer);
	fail(g->s, t, reason_code, reason);
}

/* It failed and its process lives: end both. */
static void
give_up(
    struct agent *g, struct txn *t, const char *reason_code, const char *reason)
{
	open_failed(g, t, reason_code, reason);
	txn_submit(t, 1, NULL);
	agent_kill(g);
}

void
open_refused(struct agent *g, const struct sli_errinfo *ei)
{
	struct acp_session *s = g->s;
	char text[400];
	struct txn *t;

	if (g->told || s->deleting || s->on_unload)
		return;
	t = txn_new(s);
	open_failed(g, t, *ei->reason ? ei->reason : "spawn_failed",
	    sli_errinfo_str(ei, text, sizeof(text)));
	txn_submit(t, 1, NULL);
}

void
open_timeout(struct agent *g)
{
	struct acp_session *s = g->s;
	char text[700], tail[500];
	struct txn *t;

	if (g->told || g->ending || s->deleting)
		return;
	if (g->step == STEP_READ) {
		ladder_unread(g);
		return;
	}
	exit_text(g, tail, sizeof(tail));
	(void)sli_snprintf(text, sizeof(text),
	    "no answer to %s within %llu ms%s", open_step_name(g->step),
	    (unsigned long long)limit(s, steps[g->step].timeout), tail);
	t = txn_new(s);
	if (g->step == STEP_LOAD || g->step == STEP_RESUME) {
		/* who knows what it is doing: take a fresh process */
		ladder_failed(g, t, text);
		txn_submit(t, 1, NULL);
		g->told = 1;
		s->want_open = 1;
		s->no_native = 1;
		agent_kill(g);
		return;
	}
	give_up(g, t, steps[g->step].timed_out, text);
}

/* --- answers -------------------------------------------------------------*/

/* The line of an answer, stored before what follows from it. */
static struct txn *
answer_txn(struct agent *g, const struct line *ln)
{
	struct txn *t = txn_new(g->s);

	(void)route_store(g->s, ln, t, SLI_EV_AGENT);
	return t;
}

static void
error_text(const struct envelope *e, const char *step, char *dst, size_t cap)
{
	char quoted[260];

	(void)sli_snprintf(dst, cap,
	    "the agent answered %s with error %lld: %s", step,
	    (long long)e->code,
	    e->error.n ? sli_quote(quoted, sizeof(quoted), env_slice(&e->error))
		       : "(no text)");
}

static void
answered_badly(struct agent *g, const struct line *ln)
{
	const struct envelope *e = ln->env;
	struct txn *t = answer_txn(g, ln);
	char text[600];

	if (e->has_error) {
		error_text(e, open_step_name(g->step), text, sizeof(text));
		if (e->code == -32000) {
			give_up(g, t, "auth_required", text);
			return;
		}
	} else {
		(void)sli_snprintf(text, sizeof(text),
		    "the agent's answer to %s is no answer",
		    open_step_name(g->step));
	}
	if (g->step != STEP_LOAD && g->step != STEP_RESUME) {
		give_up(g, t, steps[g->step].failed, text);
		return;
	}
	ladder_failed(g, t, text);
	txn_submit(t, 1, NULL);
	ladder_start(g);
}

static void
initialized(struct agent *g, const struct line *ln)
{
	const struct envelope *e = ln->env;
	struct txn *t = answer_txn(g, ln);

	if (!e->has_version || e->version != 1) {
		give_up(g, t, "protocol_version",
		    "the agent does not speak version 1 of ACP");
		return;
	}
	g->can_load = e->can_load && !g->no_native;
	g->can_resume = e->can_resume && !g->no_native;
	txn_submit(t, 0, NULL);
	ladder_start(g);
}

static void
session_made(struct agent *g, const struct line *ln)
{
	const struct env_text *id = &ln->env->new_session;
	struct acp_session *s = g->s;

	if (!id->set || id->cut || !id->n) {
		give_up(g, answer_txn(g, ln), "new_session_failed",
		    "the agent's answer to session/new has no usable "
		    "sessionId");
		return;
	}
	memcpy(s->agent_session, id->s, id->n);
	s->agent_session[id->n] = '\0';
	ladder_ready(g, ln);
}

void
open_answer(struct agent *g, const struct line *ln)
{
	const struct envelope *e = ln->env;
	int bad =
	    ln->bad_utf8 || ln->too_long || e->has_error || !e->has_result;

	g->awaiting = 0;
	loop_timer_del(g->s->a->loop, &g->step_timer);
	/* Only load and resume may be answered null. */
	if (bad || (e->result_null && g->step < STEP_RESUME) ||
	    (e->result_null && g->step == STEP_NEW))
		answered_badly(g, ln);
	else if (g->step == STEP_INIT)
		initialized(g, ln);
	else if (g->step == STEP_NEW)
		session_made(g, ln);
	else if (e->new_session.set &&
		 !env_is(&e->new_session, g->s->agent_session))
		/* it loaded another one: as bad as none */
		answered_badly(g, ln);
	else
		ladder_ready(g, ln);
}
