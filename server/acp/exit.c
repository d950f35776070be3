/* SPDX-License-Identifier: Apache-2.0 */
/* The agent has gone: one AGENT_EXITED event with its status and the end of
 * its stderr, and in the same commit the end of what depended on it (the
 * running turn, open permissions, the start that was under way). */
#include "acp/engine.h"

#include "base/mem.h"
#include "base/str.h"

static const char *
status_text(const struct agent *g, char *dst, size_t cap)
{
	if (g->lost)
		(void)sli_snprintf(dst, cap, "was killed and gave no sign");
	else if (g->signal)
		(void)sli_snprintf(
		    dst, cap, "was ended by signal %d", g->signal);
	else
		(void)sli_snprintf(dst, cap, "exited with code %d", g->code);
	return dst;
}

void
exit_text(const struct agent *g, char *dst, size_t cap)
{
	char tmp[64], quoted[400];
	struct sli_buf tail;
	struct sli_slice s;

	sli_buf_init(&tail, 256);
	agent_tail(g, &tail, 240);
	s = sli_buf_slice(&tail);
	while (s.p && s.n && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r'))
		s.n--;
	(void)sli_snprintf(dst, cap, "%s%s%s",
	    g->exited || g->lost ? status_text(g, tmp, sizeof(tmp)) : "",
	    s.n ? "; stderr ends: " : "; stderr is empty",
	    s.n ? sli_quote(quoted, sizeof(quoted), s) : "");
	sli_buf_free(&tail);
}

static void
exited_event(struct acp_session *s, struct agent *g, struct txn *t)
{
	struct sli_record *r =
	    txn_add(t, SLI_EV_AGENT_EXITED, s->active ? s->active->no : 0);
	struct sli_buf tail;
	struct body b;

	sli_buf_init(&tail, limit(s, SLI_L_ACP_STDERR_TAIL) + 1);
	agent_tail(g, &tail, SIZE_MAX);
	body_begin(&b);
	sli_jw_ku64(&b.w, "generation", g->generation);
	if (g->lost) {
		sli_jw_key(&b.w, "lost");
		sli_jw_bool(&b.w, 1);
	} else if (g->signal) {
		sli_jw_ku64(&b.w, "signal", (uint64_t)g->signal);
	} else {
		sli_jw_key(&b.w, "code");
		sli_jw_i64(&b.w, g->code);
	}
	/* "ended" says that we did it; else the next prompt starts it again,
	 * within the budget. */
	sli_jw_key(&b.w, "ended");
	sli_jw_bool(&b.w, g->ending > 0);
	sli_jw_kstr(&b.w, "stderr", sli_buf_slice(&tail));
	if (g->noise_lost)
		sli_jw_ku64(&b.w, "noise_not_stored", g->noise_lost);
	if (g->answers_lost)
		sli_jw_ku64(&b.w, "answers_not_read", g->answers_lost);
	body_put(&b, t, r);
	sli_buf_free(&tail);
}

static void
end_active(struct acp_session *s, struct txn *t)
{
	struct turn *turn = s->active;
	int outcome = SLI_TO_FAILED;
	const char *why = *s->broken ? s->broken : "agent_exited";

	if (turn->cause != CAUSE_NONE) {
		outcome = cancel_outcome(turn);
		why = "agent_ended";
	} else if (turn->phase == TURN_STARTING) {
		/* its bytes have not left: nothing was done */
		outcome = SLI_TO_DISPATCH_FAILED;
	}
	turn_end(turn, t, outcome, why, sli_slice_of(NULL, 0));
}

/* The start that was under way: tried once more without loading when loading
 * was what broke it, else failed. */
static void
end_opening(struct acp_session *s, struct agent *g, struct txn *t)
{
	char text[600], why[700];

	exit_text(g, text, sizeof(text));
	if (g->step == STEP_LOAD || g->step == STEP_RESUME) {
		(void)sli_snprintf(why, sizeof(why), "the agent %s", text);
		ladder_failed(g, t, why);
		s->want_open = 1;
		s->no_native = 1;
		return;
	}
	(void)sli_snprintf(why, sizeof(why), "during %s the agent %s",
	    open_step_name(g->step), text);
	open_failed(g, t, "agent_exited", why);
}

void
exit_told(struct acp_session *s, struct agent *g)
{
	const char *why = g->ending ? "agent_ended" : "agent_exited";
	char text[600];
	struct txn *t;

	if (s->deleting)
		return;
	t = txn_new(s);
	if (g->attached)
		exited_event(s, g, t);
	permit_drop_all(s, t, PERM_EXPIRED, 0, 0);
	if (s->active)
		end_active(s, t);
	if (s->state == SLI_SS_OPENING && !g->told && !s->on_unload) {
		end_opening(s, g, t);
	} else if (s->state != SLI_SS_FAILED && s->state != SLI_SS_UNLOADED &&
		   !(s->state == SLI_SS_OPENING && s->want_open)) {
		exit_text(g, text, sizeof(text));
		if (s->on_unload)
			why = "unloaded";
		else if (*s->broken)
			why = s->broken;
		session_set(s, SLI_SS_UNLOADED, why, text, t);
	}
	sup_end(&s->sup, loop_now_ms(s->a->loop));
	s->crashed = !g->ending;
	s->broken[0] = '\0';
	if (t->n)
		txn_submit(t, 1, NULL);
	else
		txn_free(t);
}
