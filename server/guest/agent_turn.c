/* SPDX-License-Identifier: Apache-2.0 */
/* One turn: command, permission, run, stream, answer. The states are in
 * agent_shell.h; set_state is the only writer. */
#include "guest/agent_shell.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void
set_state(struct session *s, enum turn_state to)
{
	static const unsigned legal[] = {
	    [TURN_IDLE] = 1u << TURN_ASKING,
	    [TURN_ASKING] = 1u << TURN_RUNNING | 1u << TURN_IDLE,
	    [TURN_RUNNING] = 1u << TURN_IDLE,
	};
	SLI_ASSERT(legal[s->state] >> to & 1u);
	s->state = to;
}

/* --- updates --------------------------------------------------------------*/

static void
text_update(
    struct agent *a, struct session *s, const char *kind, struct sli_slice t)
{
	struct sli_buf b;
	struct sli_jw w;
	sli_buf_init(&b, AGENT_LINE_MAX);
	sli_jw_init(&w, &b);
	sli_jw_object(&w);
	sli_jw_kcstr(&w, "sessionUpdate", kind);
	sli_jw_key(&w, "content");
	sli_jw_object(&w);
	sli_jw_kcstr(&w, "type", "text");
	sli_jw_kstr(&w, "text", t);
	sli_jw_end(&w);
	sli_jw_end(&w);
	if (sli_jw_done(&w) == SLI_OK)
		agent_update(a, s, sli_buf_slice(&b));
	sli_buf_free(&b);
}

static void
say(struct agent *a, struct session *s, const char *text)
{
	text_update(a, s, "agent_message_chunk", sli_slice_str(text));
}

static void
call_update(struct agent *a, struct session *s, int first, const char *status,
    int exit_code, int with_output)
{
	struct sli_buf b;
	struct sli_jw w;
	sli_buf_init(&b, AGENT_LINE_MAX);
	sli_jw_init(&w, &b);
	sli_jw_object(&w);
	sli_jw_kcstr(
	    &w, "sessionUpdate", first ? "tool_call" : "tool_call_update");
	sli_jw_kcstr(&w, "toolCallId", s->call_id);
	sli_jw_kcstr(&w, "status", status);
	if (first) {
		sli_jw_kcstr(&w, "title", s->command);
		sli_jw_kcstr(&w, "kind", "execute");
		sli_jw_key(&w, "rawInput");
		sli_jw_object(&w);
		sli_jw_kcstr(&w, "command", s->command);
		sli_jw_kcstr(&w, "cwd", s->cwd);
		sli_jw_end(&w);
	}
	if (with_output) {
		sli_jw_key(&w, "content");
		sli_jw_array(&w);
		sli_jw_object(&w);
		sli_jw_kcstr(&w, "type", "content");
		sli_jw_key(&w, "content");
		sli_jw_object(&w);
		sli_jw_kcstr(&w, "type", "text");
		sli_jw_kstr(&w, "text", sli_buf_slice(&s->tail));
		sli_jw_end(&w);
		sli_jw_end(&w);
		sli_jw_end(&w);
		sli_jw_key(&w, "rawOutput");
		sli_jw_object(&w);
		sli_jw_key(&w, "exitCode");
		sli_jw_i64(&w, exit_code);
		sli_jw_end(&w);
	}
	sli_jw_end(&w);
	if (sli_jw_done(&w) == SLI_OK)
		agent_update(a, s, sli_buf_slice(&b));
	sli_buf_free(&b);
}

/* --- the end --------------------------------------------------------------*/

static void
answer(struct agent *a, struct session *s)
{
	char json[64];
	sli_snprintf(json, sizeof(json), "{\"stopReason\":\"%s\"}",
	    s->canceled ? "cancelled" : "end_turn");
	agent_result(a, s->prompt_id, sli_slice_str(json));
	sli_free(s->prompt_id);
	sli_free(s->command);
	s->prompt_id = s->command = NULL;
	s->canceled = 0;
	sli_buf_reset(&s->rest);
	sli_buf_reset(&s->tail);
	set_state(s, TURN_IDLE);
}

static void
not_run(struct agent *a, struct session *s, const char *why)
{
	call_update(a, s, 0, "failed", -1, 0);
	if (!s->canceled)
		say(a, s, why);
	answer(a, s);
}

/* --- running --------------------------------------------------------------*/

static int
spawn(struct session *s)
{
	int p[2];
	if (pipe2(p, O_CLOEXEC) != 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		int nul = open("/dev/null", O_RDONLY | O_CLOEXEC);
		(void)setpgid(0, 0);
		if (nul < 0 || dup2(nul, 0) < 0 || dup2(p[1], 1) < 0 ||
		    dup2(p[1], 2) < 0 || chdir(s->cwd) != 0)
			_exit(126);
		struct sigaction dfl = {.sa_handler = SIG_DFL};
		(void)sigaction(SIGPIPE, &dfl, NULL);
		execl("/bin/sh", "sh", "-c", s->command, (char *)NULL);
		_exit(127);
	}
	sli_fd_close(&p[1]);
	if (pid < 0) {
		sli_fd_close(&p[0]);
		return -1;
	}
	(void)setpgid(pid, pid);
	s->pid = pid;
	s->out = p[0];
	return 0;
}

static void
run(struct agent *a, struct session *s)
{
	if (spawn(s) != 0) {
		not_run(a, s, "the command could not be started\n");
		return;
	}
	set_state(s, TURN_RUNNING);
	call_update(a, s, 0, "in_progress", 0, 0);
}

static void
keep_tail(struct session *s, struct sli_slice t)
{
	if (sli_buf_append(&s->tail, t.p, t.n) != SLI_OK)
		return;
	size_t have = sli_buf_len(&s->tail);
	if (have > AGENT_TAIL)
		sli_buf_consume(&s->tail, have - AGENT_TAIL);
}

static void
finished(struct agent *a, struct session *s)
{
	int st = 0, code;
	sli_fd_close(&s->out);
	while (waitpid(s->pid, &st, 0) < 0 && errno == EINTR)
		;
	code = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
	if (sli_buf_len(&s->rest))
		text_update(
		    a, s, "agent_message_chunk", sli_buf_slice(&s->rest));
	call_update(a, s, 0, code == 0 && !s->canceled ? "completed" : "failed",
	    code, 1);
	answer(a, s);
}

void
turn_output(struct agent *a, struct session *s)
{
	uint8_t b[AGENT_CHUNK + 64];
	struct sli_slice rest = sli_buf_slice(&s->rest);
	size_t have = SLI_MIN(rest.n, 64u);
	if (have)
		memcpy(b, rest.p, have);
	ssize_t n = read(s->out, b + have, AGENT_CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		finished(a, s);
		return;
	}
	struct sli_slice all = sli_slice_of(b, have + (size_t)n);
	size_t whole = utf8_prefix(all);
	keep_tail(s, sli_slice_of(b + have, (size_t)n));
	sli_buf_reset(&s->rest);
	if (whole < all.n &&
	    sli_buf_append(&s->rest, b + whole, all.n - whole) != SLI_OK)
		whole = all.n;
	if (whole)
		text_update(
		    a, s, "agent_message_chunk", sli_slice_of(b, whole));
}

/* --- what the client asks -------------------------------------------------*/

/* The text blocks of a prompt, joined. Blocks marked in _meta as context of an
 * earlier conversation are read, not run. */
static char *
command_of(const struct sli_json *prompt)
{
	struct sli_buf b;
	char *cmd = NULL;
	sli_buf_init(&b, AGENT_LINE_MAX);
	for (size_t i = 0; i < sli_json_len(prompt); i++) {
		const struct sli_json *blk = sli_json_at(prompt, i);
		const struct sli_json *mark =
		    sli_json_get(sli_json_get(blk, "_meta"), "sluice");
		struct sli_slice t;
		if (sli_json_get(mark, "preamble") ||
		    !sli_json_str(sli_json_get(blk, "text"), &t))
			continue;
		if (memchr(t.p, 0, t.n) ||
		    sli_buf_append(&b, t.p, t.n) != SLI_OK)
			goto out;
	}
	cmd = sli_strndup((const char *)sli_buf_data(&b), sli_buf_len(&b));
out:
	sli_buf_free(&b);
	return cmd;
}

void
turn_prompt(struct agent *a, struct session *s, const char *id,
    const struct sli_json *prompt)
{
	if (s->state != TURN_IDLE) {
		agent_error(a, id, -32600, "a turn is running");
		return;
	}
	s->command = command_of(prompt);
	s->prompt_id = sli_strdup(id);
	if (!s->command || !s->prompt_id || s->command[0] == '\0') {
		agent_error(a, id, -32602, "the prompt holds no command");
		sli_free(s->command);
		sli_free(s->prompt_id);
		s->command = s->prompt_id = NULL;
		return;
	}
	sli_snprintf(
	    s->call_id, sizeof(s->call_id), "call_%" PRIu64, ++a->next_call);
	set_state(s, TURN_ASKING);
	text_update(a, s, "user_message_chunk", sli_slice_str(s->command));
	call_update(a, s, 1, "pending", 0, 0);
	if (s->allow_always)
		run(a, s);
	else
		agent_ask(a, s);
}

void
turn_answer(struct agent *a, struct session *s, const char *opt)
{
	if (opt && strcmp(opt, "always") == 0)
		s->allow_always = 1;
	if (!s->canceled && opt &&
	    (strcmp(opt, "allow") == 0 || strcmp(opt, "always") == 0))
		run(a, s);
	else
		not_run(a, s, "not run: permission was not given\n");
}

/* While asking, the client answers the request itself (`cancelled`); should
 * it not, the turn must end all the same. */
void
turn_cancel(struct agent *a, struct session *s)
{
	if (s->state == TURN_IDLE)
		return;
	s->canceled = 1;
	if (s->state == TURN_ASKING)
		turn_answer(a, s, NULL);
	else
		(void)kill(-s->pid, SIGKILL);
}
