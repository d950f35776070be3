/* SPDX-License-Identifier: Apache-2.0 */
/* The context ladder: what a fresh agent process of a session with history is
 * given back. (1) its own session, by session/resume or session/load; (2) a
 * transcript of ours in front of the next prompt; (3) the next prompt alone,
 * with a note. The rung stands in AGENT_STARTED, before any text of the new
 * process; a rung that failed is an event too. */
#include "acp/engine.h"

#include "base/mem.h"
#include "base/mutant.h"
#include "base/str.h"

void
ladder_failed(struct agent *g, struct txn *t, const char *why)
{
	if (g->step == STEP_RESUME)
		g->can_resume = 0;
	else
		g->can_load = 0;
	if (!SLI_MUTATED(acp_load_failed_silently))
		open_step_failed(g, t, why);
}

/* The block that goes in front of the next prompt. Marked twice: for programs
 * in _meta and annotations, for the model in its first line. */
static void
preamble(struct agent *g, struct sli_slice text, int cut)
{
	static const char intro[] =
	    "[Sluice: the agent process was started anew. What follows is the "
	    "transcript of this conversation so far, given as context; it is "
	    "not a new request.";
	static const char older[] = " Older parts are left out.";
	static const char task[] =
	    "[Sluice: the agent process was started anew and what was said "
	    "before in this conversation could not be given back. The task "
	    "follows.]\\n\\n";
	struct acp_session *s = g->s;
	struct sli_buf *b = &s->preamble;
	enum sli_err err;

	g->rung = text.n ? "preamble" : "task";
	sli_buf_free(b);
	sli_buf_init(b, text.n + 2048);
	err = sli_buf_printf(b,
	    "{\"type\":\"text\",\"annotations\":{\"audience\":[\"assistant\"]},"
	    "\"_meta\":{\"sluice\":{\"preamble\":true,\"rung\":\"%s\"}},"
	    "\"text\":\"%s%s",
	    g->rung, text.n ? intro : task, text.n && cut ? older : "");
	if (err == SLI_OK && text.n)
		err = sli_buf_append(b, "]\\n\\n", 5);
	if (err == SLI_OK)
		err = sli_buf_append(b, text.p, text.n);
	if (err == SLI_OK)
		err = sli_buf_printf(b, "%s\"}",
		    text.n ? "\\n\\n[Sluice: end of the transcript]\\n\\n"
			   : "");
	if (err != SLI_OK) {
		session_break(s, "out_of_memory");
		return;
	}
	open_step(g, STEP_NEW);
}

void
ladder_start(struct agent *g)
{
	struct acp_session *s = g->s;
	size_t budget = limit(s, SLI_L_ACP_PREAMBLE);

	sli_buf_free(&s->preamble);
	if (!s->had_turns) {
		g->rung = "new";
		open_step(g, STEP_NEW);
	} else if (g->can_resume && *s->agent_session) {
		g->rung = "resume";
		open_step(g, STEP_RESUME);
	} else if (g->can_load && *s->agent_session) {
		g->rung = "load";
		open_step(g, STEP_LOAD);
	} else if (budget) {
		open_step(g, STEP_READ);
		transcript_read(g, budget, preamble);
	} else {
		preamble(g, sli_slice_of("", 0), 0);
	}
}

void
ladder_unread(struct agent *g)
{
	preamble(g, sli_slice_of("", 0), 0);
}

static void
started_event(struct agent *g, struct txn *t)
{
	struct acp_session *s = g->s;
	struct sli_record *r = txn_add(t, SLI_EV_AGENT_STARTED, 0);
	struct body b;

	body_begin(&b);
	sli_jw_ku64(&b.w, "generation", g->generation);
	sli_jw_ku64(&b.w, "pid", g->pid);
	sli_jw_kcstr(&b.w, "rung", g->rung);
	/* raw, as the agent wrote it: an id is compared by its bytes */
	sli_jw_kcstr(&b.w, "agent_session", s->agent_session);
	body_put(&b, t, r);
	r->ch.what = SLI_CH_AGENT;
	r->ch.agent_session = txn_str(t, s->agent_session);
	r->ch.generation = g->generation;
}

/* What an agent replays while it loads is ours already: counted, not stored. */
static void
replay_event(struct agent *g, struct txn *t)
{
	struct sli_record *r;
	struct body b;

	if (!g->replayed)
		return;
	r = txn_add(t, SLI_EV_DIAGNOSTIC, 0);
	r->ev.flags = SLI_EVF_REPLAY;
	body_begin(&b);
	sli_jw_kcstr(&b.w, "text", "updates replayed by the agent, not stored");
	sli_jw_ku64(&b.w, "lines", g->replayed);
	sli_jw_ku64(&b.w, "bytes", g->replayed_bytes);
	body_put(&b, t, r);
}

void
ladder_ready(struct agent *g, const struct line *ln)
{
	struct acp_session *s = g->s;
	struct txn *t = txn_new(s);

	loop_timer_del(s->a->loop, &g->step_timer);
	g->step = STEP_READY;
	started_event(g, t);
	replay_event(g, t);
	early_flush(g, t);
	(void)route_store(s, ln, t, SLI_EV_AGENT);
	session_set(s, SLI_SS_IDLE, "", "", t);
	txn_submit(t, 1, NULL);
	turn_kick(s);
}
