/* SPDX-License-Identifier: Apache-2.0 */
/* sluice session open|list|get|unload|delete */
#include "events.h"
#include "out.h"

#include <string.h>

/* --- printing ------------------------------------------------------------*/

static void
json_session(const struct sluice_session *s)
{
	out_open();
	out_kstr("session", s->session);
	out_kstr("vm", s->vm);
	out_kstr("agent", s->agent);
	out_kstr("state", sluice_session_state_name(s->state));
	out_kstr("reason_code", s->reason_code);
	out_kstr("reason", s->reason);
	out_ku64("head", s->head);
	out_ku64("low", s->low);
	out_ku64("epoch", s->epoch);
	out_ku64("turn", s->turn);
	out_kstr("outcome", sluice_outcome_name(s->outcome));
	out_ku64("created_ms", s->created_ms);
	out_ku64("updated_ms", s->updated_ms);
	out_kstr("agent_session", s->agent_session);
	out_ku64("generation", s->generation);
	out_ku64("pid", s->pid);
	out_ku64("bytes", s->bytes);
	out_kstr("chain", s->chain);
	out_kstr("policy", sluice_policy_name(s->policy));
	out_ku64("pending_permissions", s->pending_permissions);
	out_kstr("cwd", s->cwd);
	out_close();
}

static void
text_str(const char *key, const char *v)
{
	if (!v[0])
		return;
	out_fmt("%-14s ", key);
	out_safe(v);
	out_str("\n");
}

static void
text_u64(const char *key, uint64_t v)
{
	out_fmt("%-14s %llu\n", key, (unsigned long long)v);
}

static void
text_session(const struct sluice_session *s)
{
	text_str("session", s->session);
	text_str("vm", s->vm);
	text_str("agent", s->agent);
	text_str("state", sluice_session_state_name(s->state));
	text_str("reason_code", s->reason_code);
	text_str("reason", s->reason);
	text_str("cwd", s->cwd);
	text_str("policy", sluice_policy_name(s->policy));
	text_u64("turn", s->turn);
	text_str("outcome", sluice_outcome_name(s->outcome));
	text_u64("permissions", s->pending_permissions);
	text_u64("low", s->low);
	text_u64("head", s->head);
	text_u64("bytes", s->bytes);
	text_str("chain", s->chain);
	text_u64("generation", s->generation);
	text_u64("pid", s->pid);
	text_str("agent_session", s->agent_session);
}

static void
got(void *arg, const struct sluice_session *s, const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!s)
		return;
	if (t->json)
		json_session(s);
	else
		text_session(s);
}

static void
listed(
    void *arg, const struct sluice_session *s, const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!s)
		return;
	if (t->json) {
		json_session(s);
		return;
	}
	out_fmt("%-28s %-28s %-18s %6llu %8llu  ", s->session, s->vm,
	    sluice_session_state_name(s->state), (unsigned long long)s->turn,
	    (unsigned long long)s->head);
	out_safe(s->agent);
	out_str("\n");
}

/* --- open ----------------------------------------------------------------*/

/* How far an opening session has come; step: the last that was begun. */
struct opening {
	struct tool *t;
	char session[64];
	char step[64], code[64], reason[256];
	int state;
	int begun;
};

static void
opened(
    void *arg, const struct sluice_session *s, const struct sluice_error *err)
{
	struct opening *o = arg;

	(void)err;
	if (!s || strlen(s->session) >= sizeof(o->session))
		return;
	memcpy(o->session, s->session, strlen(s->session) + 1);
	o->state = s->state;
	if (o->t->json)
		json_session(s);
	else
		out_fmt("%s\n", s->session);
	(void)out_flush();
}

static int
settled(int state)
{
	return state != SLUICE_SESSION_OPENING;
}

static void
open_event(struct follow *f, const struct sluice_event *ev)
{
	struct opening *o = f->user;
	struct json st;

	if (ev->kind != SLUICE_EVENT_SESSION)
		return;
	st = json_path(event_body(ev), "state");
	if (json_is(st, "opening")) {
		event_text(ev, "step", o->step, sizeof(o->step));
		return;
	}
	if (json_is(st, "failed")) {
		event_text(ev, "reason_code", o->code, sizeof(o->code));
		event_text(ev, "reason", o->reason, sizeof(o->reason));
		o->state = SLUICE_SESSION_FAILED;
	} else if (st.p) {
		o->state = SLUICE_SESSION_IDLE;
	}
	f->done = 1;
}

static void
failed_state(
    void *arg, const struct sluice_session *s, const struct sluice_error *err)
{
	struct opening *o = arg;

	(void)err;
	if (!s)
		return;
	note("session %s failed while opening%s%s: %s%s%s%s%s", o->session,
	    o->step[0] ? ", step " : "", o->step,
	    s->reason[0] ? s->reason : o->reason,
	    s->reason_code[0] || o->code[0] ? " [" : "",
	    s->reason_code[0] ? s->reason_code : o->code,
	    s->reason_code[0] || o->code[0] ? "]" : "",
	    "; see: sluice history SESSION");
}

static int
wait_open(struct tool *t, struct opening *o)
{
	struct sluice_error err = {.size = sizeof(err)};
	struct follow f = {
	    .t = t,
	    .session = o->session,
	    .on_event = open_event,
	    .user = o,
	};
	int r = EXIT_OK;

	if (!settled(o->state))
		r = follow_run(&f);
	if (r != EXIT_OK || o->state != SLUICE_SESSION_FAILED)
		return r;
	if (sluice_session_get(t->c, o->session, failed_state, o, NULL, &err) !=
	    SLUICE_OK)
		(void)fail(t, &err);
	return EXIT_FAILED;
}

static int
parse_policy(const char *s)
{
	for (int p = SLUICE_POLICY_ASK; p <= SLUICE_POLICY_ALLOW_ALL; p++)
		if (strcmp(s, sluice_policy_name(p)) == 0)
			return p;
	(void)usage("--policy must be ask, reject_all or allow_all, not "
		    "\"%s\"",
	    s);
	return -1;
}

static int
check_pairs(const char *opt, const char **list)
{
	for (; *list; list++)
		if (!strchr(*list, '=') || (*list)[0] == '=')
			return usage(
			    "--%s wants KEY=VALUE, not \"%s\"", opt, *list);
	return -1;
}

static int
open_go(struct tool *t, const struct sluice_session_spec *spec)
{
	struct sluice_error err = {.size = sizeof(err)};
	struct opening o = {.t = t};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_session_open(t->c, spec, opened, &o, NULL, &err) !=
	    SLUICE_OK)
		return fail(t, &err);
	if (!args_has(&t->a, "no-wait")) {
		r = wait_open(t, &o);
		if (r != EXIT_OK)
			return r;
	}
	return out_end();
}

static int
session_open(struct tool *t)
{
	const char **env = args_all(&t->a, "env");
	const char **limits = args_all(&t->a, "limit");
	const char *policy = args_get(&t->a, "policy");
	struct sluice_session_spec spec;
	char key[33];
	int r;

	SLUICE_INIT(spec);
	spec.vm = t->a.pos[0];
	spec.agent = args_get(&t->a, "agent");
	spec.argv = t->a.rest;
	spec.cwd = args_get(&t->a, "cwd");
	spec.session = args_get(&t->a, "session");
	spec.env = env;
	spec.limits = limits;
	random_key(key);
	spec.key = key;
	r = check_pairs("env", env);
	if (r < 0)
		r = check_pairs("limit", limits);
	if (r < 0 && policy && (spec.policy = parse_policy(policy)) < 0)
		r = EXIT_USAGE;
	if (r < 0 && (spec.agent != NULL) == (spec.argv && spec.argv[0]))
		r = usage("session open wants either --agent NAME or -- "
			  "ARGV...");
	if (r < 0)
		r = open_go(t, &spec);
	return r;
}

/* --- by id ---------------------------------------------------------------*/

static int
session_list(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (!t->json)
		out_fmt("%-28s %-28s %-18s %6s %8s  %s\n", "SESSION", "VM",
		    "STATE", "TURN", "HEAD", "AGENT");
	if (sluice_session_list(t->c, t->a.npos ? t->a.pos[0] : NULL, listed, t,
		NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static int
session_get(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_session_get(t->c, t->a.pos[0], got, t, NULL, &err) !=
	    SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static int
session_unload(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_session_unload(t->c, t->a.pos[0], t->json ? got : NULL, t,
		NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static int
session_delete(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_session_delete(t->c, t->a.pos[0], NULL, NULL, NULL, &err) !=
	    SLUICE_OK)
		return fail(t, &err);
	return EXIT_OK;
}

static const struct opt open_opts[] = {
    OPT(0, "agent", "NAME", "a registered agent; or put a command after --"),
    OPT(0, "session", "ID", "id wished for"),
    OPT(0, "cwd", "DIR", "working directory in the VM; default /root"),
    OPT(0, "policy", "POLICY",
	"permission requests: ask, reject_all, allow_all"),
    OPT(0, "env", "K=V", "add to the agent's environment"),
    OPT(0, "limit", "KEY=VALUE", "a limit of this session"),
    OPT(0, "no-wait", NULL, "do not wait until it is idle or failed"), {0}};

const struct cmd session_cmds[] = {
    CMD("session", "open", "VM [-- ARGV...]", "open a session, print its id", 1,
	1, 1, open_opts, session_open),
    CMD("session", "list", "[VM]", "list the sessions", 0, 1, 0, NULL,
	session_list),
    CMD("session", "get", "SESSION", "show one session", 1, 1, 0, NULL,
	session_get),
    CMD("session", "unload", "SESSION", "end the agent, keep the history", 1, 1,
	0, NULL, session_unload),
    CMD("session", "delete", "SESSION", "end the agent, remove the history", 1,
	1, 0, NULL, session_delete),
    {0}};
