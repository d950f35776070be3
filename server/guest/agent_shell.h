/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-agent-shell: a small real ACP agent (protocol version 1 on stdio)
 * that takes the text of a prompt as a shell command, asks permission, runs it
 * and streams what it prints. It remembers its sessions in files, so that
 * session/load works. One process, one thread, one poll loop. Needs no model,
 * no key and no network. */
#ifndef SLUICE_AGENT_SHELL_H
#define SLUICE_AGENT_SHELL_H

#include "base/buf.h"
#include "base/list.h"
#include "json/json.h"

#include <sys/types.h>

#define AGENT_LINE_MAX (1u << 20) /* longest line read from the client */
#define AGENT_OUT_MAX  (8u << 20) /* most that waits for a slow client */
#define AGENT_CHUNK    4096u      /* output bytes in one update */
#define AGENT_TAIL     4096u      /* of the output, in the last update */
#define AGENT_SESSIONS 16
#define AGENT_ID_LEN   32

/* States of a turn:
 *   IDLE -> ASKING          a prompt came, permission was asked
 *   ASKING -> RUNNING       allowed; the command runs
 *   ASKING -> IDLE          refused or canceled: answered
 *   RUNNING -> IDLE         it ended, or was killed by cancel: answered
 * The prompt is answered exactly once, on the way back to IDLE. */
enum turn_state {
	TURN_IDLE,
	TURN_ASKING,
	TURN_RUNNING
};

struct session {
	char id[AGENT_ID_LEN];
	char cwd[1024];
	int used;
	int allow_always;
	int history; /* descriptor of its file, -1 = none */
	/* the turn */
	enum turn_state state;
	char *prompt_id; /* JSON text of the request's id */
	char *command;
	char call_id[24];
	uint64_t ask_id; /* our permission request */
	int canceled;
	pid_t pid;
	int out;             /* its stdout and stderr, -1 = closed */
	struct sli_buf rest; /* bytes of a UTF-8 character not complete */
	struct sli_buf tail; /* last bytes it printed */
};

struct agent {
	struct session sessions[AGENT_SESSIONS];
	struct sli_buf in;
	struct sli_buf out; /* not yet written to stdout */
	int in_eof;
	int skipping; /* inside a line longer than AGENT_LINE_MAX */
	uint64_t next_id;
	uint64_t next_call;
};

/* --- agent_rpc.c: messages ------------------------------------------------*/

/* One line without its newline. */
void agent_line(struct agent *a, struct sli_slice line);
/* A result ({}-like JSON object or null) or an error for request `id`. */
void agent_result(struct agent *a, const char *id, struct sli_slice json);
void agent_error(
    struct agent *a, const char *id, int code, const char *message);
/* session/update; also kept in the session's file unless it is a replay. */
void agent_update(struct agent *a, struct session *s, struct sli_slice json);
/* session/request_permission for the session's command. */
void agent_ask(struct agent *a, struct session *s);

/* --- agent_turn.c: prompts ------------------------------------------------*/

void turn_prompt(struct agent *a, struct session *s, const char *id,
    const struct sli_json *prompt);
/* The client's answer to our permission request; option NULL = cancelled. */
void turn_answer(struct agent *a, struct session *s, const char *option);
void turn_cancel(struct agent *a, struct session *s);
/* The command's pipe is readable. */
void turn_output(struct agent *a, struct session *s);

/* --- agent_history.c: session files ---------------------------------------*/

/* A new session's file; s->id is set. 0, or -1 when it cannot be made (the
 * session then cannot be loaded later). */
int history_new(struct session *s);
/* Open the file of a known id for appending; -1 when there is none. */
int history_open(struct session *s, const char *id);
void history_add(struct session *s, struct sli_slice update);
/* Call fn for every kept update in order. */
int history_replay(struct session *s,
    void (*fn)(void *ctx, struct sli_slice update), void *ctx);

/* --- agent_utf8.c: text of a command's output -----------------------------*/

/* Copy to `out` the longest prefix of `in` that ends at a character boundary;
 * returns how many bytes of `in` that was. Bytes that are no UTF-8 are left
 * for the JSON writer to replace. */
size_t utf8_prefix(struct sli_slice in);

#endif
