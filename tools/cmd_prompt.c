/* SPDX-License-Identifier: Apache-2.0 */
/* sluice prompt, cancel. The prompt's text on stdout is
 * the agent's message text and nothing else; tools and permission requests are
 * notes on stderr; only end_turn exits 0. */
#include "events.h"
#include "out.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)64 * 1024 * 1024)

struct prompt {
	struct tool *t;
	const char *session;
	struct sluice_turn turn;
	int known;    /* turn is set */
	int canceled; /* SIGINT came once */
	int text;     /* stdout does not end with a newline */
	int policy;   /* who answers permission requests */
};

/* --- what the agent says -------------------------------------------------*/

static void
print_text(struct prompt *p, struct json v)
{
	char *text;
	size_t n;

	if (!v.p || v.p[0] != '"')
		return;
	text = need(v.n, 1);
	n = json_text(v, text);
	out_bytes(text, n);
	if (n)
		p->text = text[n - 1] != '\n';
	free(text);
	(void)out_flush();
}

/* A turn may well end with end_turn after it: the agent decides what it is
 * worth, but nobody should have to look for it. */
static void
tool_failed(const struct sluice_event *ev, struct json up)
{
	struct json code = json_path(up, "rawOutput.exitCode");
	char title[120];

	event_text(ev, "params.update.title", title, sizeof(title));
	if (!title[0])
		event_text(
		    ev, "params.update.toolCallId", title, sizeof(title));
	if (code.p && code.n < 12)
		note("tool failed: %s, exit code %.*s", title, (int)code.n,
		    code.p);
	else
		note("tool failed: %s", title);
}

static void
show_update(struct prompt *p, const struct sluice_event *ev, struct json line)
{
	struct json up = json_path(line, "params.update");
	struct json kind = json_member(up, "sessionUpdate");
	char title[120];

	if (json_is(kind, "agent_message_chunk")) {
		print_text(p, json_path(up, "content.text"));
	} else if (json_is(kind, "tool_call")) {
		event_text(ev, "params.update.title", title, sizeof(title));
		note("tool: %s", title[0] ? title : "(no title)");
	} else if (json_is(kind, "tool_call_update") &&
		   json_is(json_member(up, "status"), "failed")) {
		tool_failed(ev, up);
	}
}

/* The engine's record of a request, whose seq is what permit wants. */
static void
show_permission(struct prompt *p, const struct sluice_event *ev)
{
	struct json body = event_body(ev), o;
	struct json opts = json_member(body, "options");
	char title[120], ids[400] = "";
	size_t pos = 0, used = 0;

	if (!json_is(json_member(body, "state"), "pending"))
		return;
	event_text(ev, "title", title, sizeof(title));
	if (p->policy != SLUICE_POLICY_ASK) {
		note("permission: %s; the session's policy is %s",
		    title[0] ? title : "(no title)",
		    sluice_policy_name(p->policy));
		return;
	}
	while ((o = json_next(opts, &pos)).p) {
		struct json id = json_member(o, "option");

		if (!id.p || id.n < 2 || used + id.n >= sizeof(ids))
			continue;
		if (used)
			ids[used++] = '|';
		used += json_text(id, ids + used);
		ids[used] = '\0';
	}
	note("permission wanted: %s; answer with: sluice permit %s %llu %s",
	    title[0] ? title : "(no title)", p->session,
	    (unsigned long long)ev->seq, ids[0] ? ids : "--deny");
}

static void
show_agent(struct prompt *p, const struct sluice_event *ev)
{
	struct json line = event_body(ev);

	if (json_is(json_member(line, "method"), "session/update"))
		show_update(p, ev, line);
}

static void
turn_ended(struct follow *f, const struct sluice_event *ev)
{
	struct prompt *p = f->user;
	struct json body = event_body(ev);
	char outcome[40], stop[40], reason[160];
	int good;

	event_text(ev, "outcome", outcome, sizeof(outcome));
	event_text(ev, "stop_reason", stop, sizeof(stop));
	event_text(ev, "reason", reason, sizeof(reason));
	good = json_is(json_member(body, "outcome"), "completed") &&
	       json_is(json_member(body, "stop_reason"), "end_turn");
	if (!f->t->json && p->text)
		out_str("\n");
	if (!good)
		note("turn %llu: %s%s%s%s%s", (unsigned long long)p->turn.turn,
		    outcome, stop[0] ? ", stop reason " : "", stop,
		    reason[0] ? ": " : "", reason);
	f->done = (out_end() == EXIT_OK && good ? EXIT_OK : EXIT_FAILED) + 1;
}

static void
on_event(struct follow *f, const struct sluice_event *ev)
{
	struct prompt *p = f->user;

	if (ev->turn != p->turn.turn)
		return;
	if (f->t->json)
		event_line(ev);
	else if (ev->kind == SLUICE_EVENT_AGENT)
		show_agent(p, ev);
	else if (ev->kind == SLUICE_EVENT_PERMISSION)
		show_permission(p, ev);
	if (ev->kind == SLUICE_EVENT_TURN_ENDED)
		turn_ended(f, ev);
}

/* --- ^C: first cancel the turn, then leave -------------------------------*/

static int
on_interrupt(struct follow *f)
{
	struct prompt *p = f->user;
	sluice_stream *s;

	if (p->canceled++)
		return 1;
	note("canceling the turn; once more to leave it running its course");
	if (sluice_cancel(f->t->c, p->session, NULL, NULL, &s, NULL) ==
	    SLUICE_OK)
		sluice_stream_detach(s);
	return 0;
}

/* --- prompt --------------------------------------------------------------*/

static void
got_turn(
    void *arg, const struct sluice_turn *turn, const struct sluice_error *err)
{
	struct prompt *p = arg;

	(void)err;
	if (!turn)
		return;
	p->turn = *turn;
	p->known = 1;
}

static void
got_session(
    void *arg, const struct sluice_session *ses, const struct sluice_error *err)
{
	struct prompt *p = arg;

	(void)err;
	if (ses)
		p->policy = ses->policy;
}

/* All of stdin; NULL after a line that says why. */
static char *
read_all(size_t *ret_n)
{
	size_t cap = 65536, n = 0;
	char *text = need(cap, 1);

	for (;;) {
		ssize_t r = read(STDIN_FILENO, text + n, cap - n);
		char *grown;

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 || n > TEXT_MAX) {
			note(r < 0 ? "standard input cannot be read"
				   : "the prompt is longer than 64 MiB");
			free(text);
			return NULL;
		}
		if (r == 0)
			break;
		n += (size_t)r;
		if (n < cap)
			continue;
		grown = need(cap * 2, 1);
		memcpy(grown, text, n);
		free(text);
		text = grown;
		cap *= 2;
	}
	*ret_n = n;
	return text;
}

/* Until the server has the turn: the key makes the same call harmless. */
static int
submit(struct prompt *p, const char *text, size_t n,
    const struct sluice_prompt_options *o)
{
	for (;;) {
		struct sluice_error err = {.size = sizeof(err)};
		int e = sluice_prompt(
		    p->t->c, p->session, text, n, o, got_turn, p, NULL, &err);
		int r;

		if (e == SLUICE_OK && p->known)
			return -1;
		if (e != SLUICE_E_INTERRUPTED && e != SLUICE_E_CLOSED)
			return fail(p->t, &err);
		r = follow_reconnect(p->t);
		if (r >= 0)
			return r;
	}
}

static int
prompt_go(struct tool *t, const char *text, size_t n)
{
	struct prompt p = {
	    .t = t, .session = t->a.pos[0], .policy = SLUICE_POLICY_ASK};
	struct sluice_prompt_options o;
	struct follow f = {
	    .t = t,
	    .session = p.session,
	    .on_event = on_event,
	    .on_interrupt = on_interrupt,
	    .user = &p,
	};
	char key[33];
	int r;

	SLUICE_INIT(o);
	random_key(key);
	o.key = args_get(&t->a, "key") ? args_get(&t->a, "key") : key;
	o.queue = args_has(&t->a, "queue");
	r = conn_open(t);
	/* Without it the notes are less exact, nothing else. */
	if (r < 0)
		(void)sluice_session_get(
		    t->c, p.session, got_session, &p, NULL, NULL);
	if (r < 0)
		r = submit(&p, text, n, &o);
	if (r >= 0)
		return r;
	f.next = p.turn.first_seq;
	return follow_run(&f);
}

static int
prompt(struct tool *t)
{
	const char *text = t->a.pos[1];
	size_t n = strlen(text);
	char *mine = NULL;
	int r;

	if (strcmp(text, "-") == 0) {
		mine = read_all(&n);
		if (!mine)
			return EXIT_FAILED;
		text = mine;
	}
	r = n ? prompt_go(t, text, n) : usage("the prompt is empty");
	free(mine);
	return r;
}

/* --- cancel --------------------------------------------------------------*/

static void
canceled(void *arg, const uint64_t *turn, const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!turn)
		return;
	if (t->json) {
		out_open();
		out_ku64("turn", *turn);
		out_close();
	} else if (*turn == 0) {
		note("no turn was running; an open that was under way is "
		     "undone");
	}
}

static int
cancel(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_cancel(t->c, t->a.pos[0], canceled, t, NULL, &err) !=
	    SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static const struct opt prompt_opts[] = {
    OPT(0, "key", "K", "idempotency key: the same key is the same turn"),
    OPT(0, "queue", NULL, "wait for the running turn"), {0}};

const struct cmd prompt_cmds[] = {
    CMD("prompt", NULL, "SESSION TEXT|-", "run a turn and print what it says",
	2, 2, 0, prompt_opts, prompt),
    CMD("cancel", NULL, "SESSION", "cancel the running turn", 1, 1, 0, NULL,
	cancel),
    {0}};
