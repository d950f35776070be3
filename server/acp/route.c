/* SPDX-License-Identifier: Apache-2.0 */
/* Where each line of an agent goes, by its envelope alone: answers to what we
 * asked, requests, updates, and what is none of these. Every line is stored or
 * counted; none is parsed further here. */
#include "acp/engine.h"

#include "base/mutant.h"
#include "base/str.h"

#include <string.h>

#define STRAY_MAX ((size_t)16 << 10)

static void
drop_parts(struct acp_session *s, const struct line *ln)
{
	if (ln->parts)
		s->a->sink->part_drop(s->a->ctx, s, ln->parts);
}

void
route_over(struct agent *g, uint64_t length)
{
	struct acp_session *s = g->s;
	uint64_t max = limit(s, SLI_L_ACP_MAX_LINE);
	struct sli_record *r;
	struct body b;
	struct txn *t;

	if (s->deleting || g->told)
		return;
	t = txn_new(s);
	r = txn_add(t, SLI_EV_LIMIT, turn_now(s));
	body_begin(&b);
	sli_jw_kcstr(&b.w, "key", sli_limit_info(SLI_L_ACP_MAX_LINE)->key);
	sli_jw_ku64(&b.w, "limit", max);
	sli_jw_ku64(&b.w, "used", length);
	sli_jw_kcstr(&b.w, "text",
	    length > max ? "line too long: it is skipped to its end"
			 : "a long line could not be stored: it is skipped");
	body_put(&b, t, r);
	txn_submit(t, 0, NULL);
}

/* How long it was is known now. */
static void
skipped(const struct line *ln, struct sli_record *r, struct txn *t)
{
	struct body b;

	r->ev.kind = SLI_EV_DIAGNOSTIC;
	body_begin(&b);
	sli_jw_kcstr(&b.w, "text", "the line that was skipped has ended");
	sli_jw_ku64(&b.w, "length", ln->length);
	body_put(&b, t, r);
}

struct sli_record *
route_store(
    struct acp_session *s, const struct line *ln, struct txn *t, int kind)
{
	struct sli_record *r = txn_add(t, kind, turn_now(s));

	r->ev.at_ms = ln->at_ms;
	if (ln->too_long) {
		skipped(ln, r, t);
		return r;
	}
	if (ln->bad_utf8)
		r->ev.flags |= SLI_EVF_INVALID_UTF8;
	r->ev.length = ln->length;
	if (t->oom)
		drop_parts(s, ln);
	else if (ln->parts)
		r->ev.parts = ln->parts;
	else
		r->ev.body = txn_dup(t, ln->bytes);
	return r;
}

/* Noise and strays are bounded per process; beyond that they are counted. */
static int
noise_room(struct agent *g, const struct line *ln)
{
	/* of a skipped line only a note is stored */
	uint64_t n = ln->too_long ? 128 : ln->length;

	if (g->noise + n > limit(g->s, SLI_L_ACP_NOISE)) {
		g->noise_lost += n;
		drop_parts(g->s, ln);
		return 0;
	}
	g->noise += n;
	return 1;
}

void
route_stray(
    struct agent *g, struct txn *t, const char *text, const struct line *ln)
{
	struct sli_record *r;
	struct body b;

	if (!noise_room(g, ln))
		return;
	drop_parts(g->s, ln);
	r = txn_add(t, SLI_EV_DIAGNOSTIC, turn_now(g->s));
	body_begin(&b);
	sli_jw_kcstr(&b.w, "text", text);
	sli_jw_ku64(&b.w, "length", ln->length);
	if (ln->bytes.n && ln->bytes.n <= STRAY_MAX && !ln->bad_utf8) {
		sli_jw_key(&b.w, "line");
		sli_jw_raw(&b.w, ln->bytes);
	}
	body_put(&b, t, r);
}

static void
stray(struct agent *g, const char *text, const struct line *ln)
{
	struct txn *t = txn_new(g->s);

	route_stray(g, t, text, ln);
	if (t->n || t->oom)
		txn_submit(t, 0, NULL);
	else
		txn_free(t);
}

static void
noise(struct agent *g, const struct line *ln)
{
	struct acp_session *s = g->s;
	struct txn *t = txn_new(s);

	if (noise_room(g, ln))
		(void)route_store(s, ln, t, SLI_EV_NOISE);
	if (ln->cls == ENV_BATCH)
		say_error(s, t, sli_slice_of(NULL, 0), -32600,
		    "batches are not part of ACP", SAY_NOW | SAY_OPTIONAL);
	if (t->n || t->oom)
		txn_submit(t, 0, NULL);
	else
		txn_free(t);
}

/* A line of the session that is no update: stored as it is. */
static void
plain(struct acp_session *s, const struct line *ln)
{
	struct txn *t = txn_new(s);

	(void)route_store(s, ln, t, SLI_EV_AGENT);
	txn_submit(t, 0, NULL);
	volume_add(
	    s, ln->length, env_slice(&ln->env->method), sli_slice_of(NULL, 0));
}

/* --- updates -------------------------------------------------------------*/

static int
held_back(struct acp_session *s, const struct line *ln)
{
	const struct envelope *e = ln->env;
	int64_t now = loop_now_ms(s->a->loop);

	if (ln->parts || !env_is(&e->update, "tool_call_update") ||
	    (e->tok.meta && !SLI_MUTATED(acp_meta_ignored)) || e->call.cut ||
	    (e->status.set && !env_is(&e->status, "in_progress")))
		return 0;
	if (!sup_offer(&s->sup, ln->bytes, env_slice(&e->call), ln->at_ms, now))
		return 0;
	loop_timer_set(s->a->loop, &s->hold_timer, sup_due_ms(&s->sup));
	return 1;
}

/* A limit was hit: what goes on coming is counted, and requests are answered
 * without a word in the history. */
static void
discard(struct acp_session *s, const struct line *ln)
{
	const struct envelope *e = ln->env;
	const struct sli_slice id = env_slice(&e->id), none = {0};

	s->discarded++;
	s->discarded_bytes += ln->length;
	drop_parts(s, ln);
	if (ln->cls != ENV_REQUEST || ln->bad_utf8)
		return;
	if (permit_is(e) && !e->id.cut)
		say_permission(s, NULL, id, none, 0, SAY_OPTIONAL);
	else
		say_error(
		    s, NULL, id, -32601, "Method not found", SAY_OPTIONAL);
}

static void
update(struct acp_session *s, const struct line *ln)
{
	const struct envelope *e = ln->env;
	struct txn *t;
	int edge;

	if (held_back(s, ln))
		return;
	/* beginnings and ends of tool calls are worth a commit of their own */
	edge = env_is(&e->update, "tool_call") ||
	       (env_is(&e->update, "tool_call_update") && e->status.set &&
		   !env_is(&e->status, "in_progress"));
	t = txn_new(s);
	(void)route_store(s, ln, t, SLI_EV_AGENT);
	txn_submit(t, edge, NULL);
	volume_add(s, ln->length, env_slice(&e->update),
	    env_slice(e->message_id.n ? &e->message_id : &e->call));
}

static void
session_update(struct agent *g, const struct line *ln)
{
	struct acp_session *s = g->s;
	const struct env_text *id = &ln->env->session;
	int ours = *s->agent_session && env_is(id, s->agent_session);

	if (!id->set) {
		stray(g, "an update without a session", ln);
	} else if (g->step == STEP_READY) {
		if (ours)
			update(s, ln);
		else
			stray(g, "an update of a foreign session", ln);
	} else if (ours && g->step != STEP_RESUME &&
		   !SLI_MUTATED(acp_replay_stored)) {
		/* loading, or what a failed load still sends */
		g->replayed++;
		g->replayed_bytes += ln->length;
		drop_parts(s, ln);
	} else if (g->step == STEP_LOAD) {
		stray(g, "an update of a foreign session", ln);
	} else {
		early_add(g, ln);
	}
}

/* --- messages ------------------------------------------------------------*/

static void
request(struct agent *g, const struct line *ln)
{
	struct acp_session *s = g->s;
	const struct envelope *e = ln->env;
	struct txn *t;

	if (permit_is(e) && !ln->too_long && !e->id.cut) {
		permit_asked(s, ln);
		return;
	}
	t = txn_new(s);
	(void)route_store(s, ln, t, SLI_EV_AGENT);
	if (e->id.cut || ln->too_long)
		say_error(s, t, env_slice(&e->id), -32600,
		    "the request is too long", SAY_NOW | SAY_OPTIONAL);
	else
		say_error(s, t, env_slice(&e->id), -32601, "Method not found",
		    SAY_NOW | SAY_OPTIONAL);
	txn_submit(t, 0, NULL);
	volume_add(s, ln->length, env_slice(&e->method), sli_slice_of(NULL, 0));
}

static int
id_is(const struct envelope *e, uint64_t id)
{
	char tmp[24];

	(void)sli_snprintf(tmp, sizeof(tmp), "%llu", (unsigned long long)id);
	return env_is(&e->id, tmp);
}

static void
response(struct agent *g, const struct line *ln)
{
	struct turn *turn = g->s->active;
	const struct envelope *e = ln->env;

	if (g->awaiting && id_is(e, g->await_id))
		open_answer(g, ln);
	else if (turn &&
		 (turn->phase == TURN_RUNNING ||
		     turn->phase == TURN_CANCELING) &&
		 id_is(e, turn->rpc_id))
		turn_answer(g->s, ln);
	else
		stray(g, "an answer to nothing that was asked", ln);
}

static void
notification(struct agent *g, const struct line *ln)
{
	const struct envelope *e = ln->env;

	if (env_is(&e->method, "session/update")) {
		session_update(g, ln);
		return;
	}
	plain(g->s, ln);
	if (env_is(&e->method, "$/cancel_request") && e->request_id.n)
		permit_withdraw(g->s, env_slice(&e->request_id));
}

void
route_line(struct agent *g, const struct line *ln)
{
	struct acp_session *s = g->s;

	/* Nobody asks any more what an agent says that was given up. */
	if (s->deleting || g->told) {
		drop_parts(s, ln);
		return;
	}
	/* Not UTF-8: kept, marked, and not acted upon, but that an answer to
	 * us must not leave us waiting. */
	if (ln->cls == ENV_RESPONSE)
		response(g, ln);
	else if (ln->cls == ENV_NOISE || ln->cls == ENV_BATCH ||
		 ln->cls == ENV_MALFORMED)
		noise(g, ln);
	else if (ln->cls == ENV_STRAY_ERROR)
		stray(g, "an error without an id", ln);
	else if (s->discard && !env_is(&ln->env->method, "$/cancel_request"))
		discard(s, ln);
	else if (ln->bad_utf8)
		plain(s, ln);
	else if (ln->cls == ENV_REQUEST)
		request(g, ln);
	else if (ln->too_long)
		plain(s, ln);
	else
		notification(g, ln);
}
