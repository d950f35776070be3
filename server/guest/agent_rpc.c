/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-RPC 2.0 and the methods of ACP version 1 that this agent has:
 * initialize, session/new, session/load, session/prompt, session/cancel. */
#include "guest/agent_shell.h"

#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* One message; the JSON below is built in a buffer of its own first, so a
 * message that does not fit is left out whole. */
static void
send_line(struct agent *a, struct sli_buf *line)
{
	if (sli_buf_append(line, "\n", 1) != SLI_OK ||
	    sli_buf_append(&a->out, sli_buf_data(line), sli_buf_len(line)) !=
		SLI_OK)
		exit(1); /* the client stopped reading long ago */
	sli_buf_free(line);
}

static void
begin(struct sli_buf *line, struct sli_jw *w)
{
	sli_buf_init(line, AGENT_LINE_MAX);
	sli_jw_init(w, line);
	sli_jw_object(w);
	sli_jw_kcstr(w, "jsonrpc", "2.0");
}

static void
finish(struct agent *a, struct sli_buf *line, struct sli_jw *w)
{
	sli_jw_end(w);
	if (sli_jw_done(w) == SLI_OK)
		send_line(a, line);
	else
		sli_buf_free(line);
}

void
agent_result(struct agent *a, const char *id, struct sli_slice json)
{
	struct sli_buf line;
	struct sli_jw w;
	begin(&line, &w);
	sli_jw_key(&w, "id");
	sli_jw_raw(&w, sli_slice_str(id));
	sli_jw_key(&w, "result");
	sli_jw_raw(&w, json);
	finish(a, &line, &w);
}

void
agent_error(struct agent *a, const char *id, int code, const char *message)
{
	struct sli_buf line;
	struct sli_jw w;
	begin(&line, &w);
	sli_jw_key(&w, "id");
	sli_jw_raw(&w, sli_slice_str(id));
	sli_jw_key(&w, "error");
	sli_jw_object(&w);
	sli_jw_key(&w, "code");
	sli_jw_i64(&w, code);
	sli_jw_kcstr(&w, "message", message);
	sli_jw_end(&w);
	finish(a, &line, &w);
}

static void
send_update(struct agent *a, const struct session *s, struct sli_slice json)
{
	struct sli_buf line;
	struct sli_jw w;
	begin(&line, &w);
	sli_jw_kcstr(&w, "method", "session/update");
	sli_jw_key(&w, "params");
	sli_jw_object(&w);
	sli_jw_kcstr(&w, "sessionId", s->id);
	sli_jw_key(&w, "update");
	sli_jw_raw(&w, json);
	sli_jw_end(&w);
	finish(a, &line, &w);
}

void
agent_update(struct agent *a, struct session *s, struct sli_slice json)
{
	history_add(s, json);
	send_update(a, s, json);
}

static void
option(struct sli_jw *w, const char *id, const char *name, const char *kind)
{
	sli_jw_object(w);
	sli_jw_kcstr(w, "optionId", id);
	sli_jw_kcstr(w, "name", name);
	sli_jw_kcstr(w, "kind", kind);
	sli_jw_end(w);
}

void
agent_ask(struct agent *a, struct session *s)
{
	struct sli_buf line;
	struct sli_jw w;
	s->ask_id = a->next_id++;
	begin(&line, &w);
	sli_jw_ku64(&w, "id", s->ask_id);
	sli_jw_kcstr(&w, "method", "session/request_permission");
	sli_jw_key(&w, "params");
	sli_jw_object(&w);
	sli_jw_kcstr(&w, "sessionId", s->id);
	sli_jw_key(&w, "toolCall");
	sli_jw_object(&w);
	sli_jw_kcstr(&w, "toolCallId", s->call_id);
	sli_jw_kcstr(&w, "title", s->command);
	sli_jw_kcstr(&w, "kind", "execute");
	sli_jw_end(&w);
	sli_jw_key(&w, "options");
	sli_jw_array(&w);
	option(&w, "allow", "Run it", "allow_once");
	option(&w, "always", "Run it, and do not ask again", "allow_always");
	option(&w, "reject", "Do not run it", "reject_once");
	sli_jw_end(&w);
	sli_jw_end(&w);
	finish(a, &line, &w);
}

/* --- methods --------------------------------------------------------------*/

static struct session *
find(struct agent *a, const struct sli_json *params)
{
	struct sli_slice id = {0};
	if (!sli_json_str(sli_json_get(params, "sessionId"), &id))
		return NULL;
	for (unsigned i = 0; i < AGENT_SESSIONS; i++)
		if (a->sessions[i].used && sli_slice_is(id, a->sessions[i].id))
			return &a->sessions[i];
	return NULL;
}

static void
initialize(struct agent *a, const char *id)
{
	static const char answer[] =
	    "{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":"
	    "true,"
	    "\"promptCapabilities\":{\"image\":false,\"audio\":false,"
	    "\"embeddedContext\":false}},\"authMethods\":[],\"agentInfo\":{"
	    "\"name\":\"sluice-agent-shell\",\"title\":\"Shell\","
	    "\"version\":\"" SLUICE_VERSION "\"}}";
	agent_result(a, id, sli_slice_str(answer));
}

static struct session *
fresh(struct agent *a, const struct sli_json *params)
{
	struct sli_slice cwd = {0};
	if (!sli_json_str(sli_json_get(params, "cwd"), &cwd) || cwd.n == 0 ||
	    cwd.p[0] != '/' || cwd.n >= sizeof(a->sessions[0].cwd))
		return NULL;
	for (unsigned i = 0; i < AGENT_SESSIONS; i++) {
		struct session *s = &a->sessions[i];
		if (s->used)
			continue;
		memset(s, 0, sizeof(*s));
		s->out = s->history = -1;
		memcpy(s->cwd, cwd.p, cwd.n);
		sli_buf_init(&s->rest, 64);
		sli_buf_init(&s->tail, 4 * AGENT_TAIL + 65536);
		s->used = 1;
		return s;
	}
	return NULL;
}

static void
session_new(struct agent *a, const char *id, const struct sli_json *params)
{
	uint8_t rnd[12];
	char json[AGENT_ID_LEN + 32];
	struct session *s = fresh(a, params);
	if (!s) {
		agent_error(a, id, -32602,
		    "cwd must be an absolute path; at most 16 sessions");
		return;
	}
	if (getrandom(rnd, sizeof(rnd), 0) != (ssize_t)sizeof(rnd)) {
		s->used = 0;
		agent_error(a, id, -32603, "no random bytes");
		return;
	}
	sli_hex(s->id, rnd, sizeof(rnd));
	(void)history_new(s);
	sli_snprintf(json, sizeof(json), "{\"sessionId\":\"%s\"}", s->id);
	agent_result(a, id, sli_slice_str(json));
}

struct replay {
	struct agent *a;
	struct session *s;
};

static void
replay_one(void *ctx, struct sli_slice update)
{
	struct replay *r = ctx;
	send_update(r->a, r->s, update);
}

static void
session_load(struct agent *a, const char *id, const struct sli_json *params)
{
	struct sli_slice want = {0};
	char name[AGENT_ID_LEN] = "";
	struct session *s = find(a, params);
	if (sli_json_str(sli_json_get(params, "sessionId"), &want) &&
	    want.n < sizeof(name))
		memcpy(name, want.p, want.n);
	if (!s) {
		s = fresh(a, params);
		if (s && history_open(s, name) != 0) {
			s->used = 0;
			s = NULL;
		}
	}
	if (!s) {
		agent_error(a, id, -32002, "no such session");
		return;
	}
	struct replay r = {a, s};
	(void)history_replay(s, replay_one, &r);
	agent_result(a, id, sli_slice_str("{}"));
}

static void
request(struct agent *a, struct sli_slice method, const char *id,
    const struct sli_json *params)
{
	struct session *s = find(a, params);
	if (sli_slice_is(method, "initialize"))
		initialize(a, id);
	else if (sli_slice_is(method, "session/new"))
		session_new(a, id, params);
	else if (sli_slice_is(method, "session/load"))
		session_load(a, id, params);
	else if (!sli_slice_is(method, "session/prompt"))
		agent_error(a, id, -32601, "no such method");
	else if (!s)
		agent_error(a, id, -32002, "no such session");
	else
		turn_prompt(a, s, id, sli_json_get(params, "prompt"));
}

/* An answer to our permission request. Anything but a clear selection is
 * not a yes. */
static void
response(struct agent *a, uint64_t id, const struct sli_json *result)
{
	const struct sli_json *o = sli_json_get(result, "outcome");
	struct sli_slice kind = {0}, opt = {0};
	char name[32] = "";
	for (unsigned i = 0; i < AGENT_SESSIONS; i++) {
		struct session *s = &a->sessions[i];
		if (!s->used || s->state != TURN_ASKING || s->ask_id != id)
			continue;
		if (sli_json_str(sli_json_get(o, "outcome"), &kind) &&
		    sli_slice_is(kind, "selected") &&
		    sli_json_str(sli_json_get(o, "optionId"), &opt) &&
		    opt.n < sizeof(name)) {
			memcpy(name, opt.p, opt.n);
			turn_answer(a, s, name);
		} else {
			turn_answer(a, s, NULL);
		}
		return;
	}
}

/* The id as JSON text: a number or a string. NULL: out of memory. */
static char *
id_text(const struct sli_json *v)
{
	struct sli_buf b;
	struct sli_jw w;
	struct sli_slice s;
	int64_t n;
	char *text = NULL;
	sli_buf_init(&b, 4096);
	sli_jw_init(&w, &b);
	if (sli_json_i64(v, &n))
		sli_jw_i64(&w, n);
	else if (sli_json_str(v, &s))
		sli_jw_str(&w, s);
	else
		sli_jw_null(&w);
	if (sli_jw_done(&w) == SLI_OK)
		text = sli_strndup(
		    (const char *)sli_buf_data(&b), sli_buf_len(&b));
	sli_buf_free(&b);
	return text;
}

static void
message(struct agent *a, const struct sli_json *m)
{
	const struct sli_json *id = sli_json_get(m, "id");
	const struct sli_json *params = sli_json_get(m, "params");
	struct sli_slice method = {0};
	int64_t n;
	if (!sli_json_str(sli_json_get(m, "method"), &method)) {
		if (sli_json_i64(id, &n) && n >= 0)
			response(a, (uint64_t)n, sli_json_get(m, "result"));
		return;
	}
	if (id) {
		char *text = id_text(id);
		request(a, method, text ? text : "null", params);
		sli_free(text);
		return;
	}
	if (sli_slice_is(method, "session/cancel")) {
		struct session *s = find(a, params);
		if (s)
			turn_cancel(a, s);
	}
}

void
agent_line(struct agent *a, struct sli_slice line)
{
	struct sli_json *root = NULL;
	while (
	    line.n && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' '))
		line.n--;
	if (line.n == 0)
		return;
	enum sli_err e = sli_json_parse(line, AGENT_LINE_MAX, &root, NULL);
	if (e != SLI_OK)
		agent_error(a, "null", -32700, "not valid JSON");
	else if (sli_json_type(root) != SLI_JSON_OBJECT)
		agent_error(a, "null", -32600, "not a JSON-RPC message");
	else
		message(a, root);
	sli_json_free(root);
}
