/* SPDX-License-Identifier: Apache-2.0 */
/* The ACP engine: sessions, turns, permissions over an agent's stdio. The
 * server is the ACP client. Lines are kept byte for byte; nothing is shown
 * before it is committed. Knows neither VMs nor the store: it asks through
 * acp_sink and is told by acp_* calls. Thread: loop. */
#ifndef SLUICE_ACP_ACP_H
#define SLUICE_ACP_ACP_H

#include "base/err.h"
#include "base/event.h"
#include "base/limits.h"
#include "base/principal.h"
#include "base/slice.h"
#include "loop/loop.h"

struct acp;
struct acp_session;

/* Answer to sink.commit; first_seq as in the store. */
typedef void acp_commit_fn(
    void *ctx, uint64_t first_seq, const struct sli_errinfo *ei);

struct acp_page {
	const struct sli_event *ev;
	unsigned n; /* 0 = the beginning was reached */
};

typedef void acp_page_fn(
    void *ctx, const struct acp_page *page, const struct sli_errinfo *ei);

/* Answers come later, never from inside the call. Strings and slices given to
 * the sink are copied by it. */
struct acp_sink {
	/* Start an agent process for the session (its VM first, if stopped).
	 * Answer: acp_agent_started or acp_agent_failed with `generation`. */
	void (*spawn)(void *ctx, struct acp_session *s, uint32_t generation);
	/* Kill its whole tree, spawned or still being spawned;
	 * acp_agent_exited (or _failed) follows, unless it has been told. */
	void (*kill)(void *ctx, struct acp_session *s, uint32_t generation);
	/* SIGTERM to the agent itself. */
	void (*term)(void *ctx, struct acp_session *s, uint32_t generation);
	/* One atomic, ordered append; answered in the loop after COMMIT. */
	void (*commit)(void *ctx, struct acp_session *s,
	    const struct sli_record *recs, unsigned n, int barrier,
	    acp_commit_fn *done, void *done_ctx);
	uint64_t (*part_begin)(void *ctx, struct acp_session *s);
	void (*part_append)(void *ctx, struct acp_session *s, uint64_t set,
	    struct sli_slice bytes);
	void (*part_drop)(void *ctx, struct acp_session *s, uint64_t set);
	/* A page of history, newest first from `from` (0 = head). */
	void (*page_back)(void *ctx, struct acp_session *s, uint64_t from,
	    acp_page_fn *done, void *done_ctx);
	/* Remove the row, the history, and what hangs at acp_session_user;
	 * the session is freed right after `done`. */
	void (*purge)(void *ctx, struct acp_session *s, acp_commit_fn *done,
	    void *done_ctx);
	/* State or counters changed (for listings and waiting callers). What
	 * acp_session_info shows is committed by now. */
	void (*changed)(void *ctx, struct acp_session *s);
};

struct acp_open {
	char id[SLI_ID_MAX];
	char vm[SLI_ID_MAX];
	struct sli_principal owner;
	const char *agent; /* registered name, or "" */
	const char *cwd;
	int policy;               /* enum sli_perm_policy */
	struct sli_limits limits; /* "acp.*" are read */
	int64_t created_ms;
	void *user; /* acp_session_user, before the first call to the sink */
	/* what is already known when it is loaded from the store */
	int restored;
	int state;
	const char *reason_code, *reason;
	const char *agent_session;
	uint32_t generation;
	uint64_t head, turn;
	int outcome;
	int64_t updated_ms;
};

SLI_MUST struct acp *acp_new(
    struct loop *l, const struct acp_sink *sink, void *ctx);
/* Closes the agents' pipes; kills nothing, commits nothing. What the sink was
 * asked and has not answered may be answered later, to nobody. */
void acp_free(struct acp *a);

/* New: the service has inserted the row (committed, state opening); this
 * commits the first event, spawns, initializes, session/new. Restored: state
 * as stored; call acp_recover next. ALREADY_EXISTS, NOMEM. */
SLI_MUST enum sli_err acp_session_open(struct acp *a, const struct acp_open *o,
    struct acp_session **ret_s, struct sli_errinfo *ei);

struct acp_left { /* a turn without an outcome */
	uint64_t turn;
	int started; /* TURN_START was committed */
};

/* After a restart: a started turn becomes lost, one only accepted
 * dispatch_failed, pending permissions expired, opening/running/waiting
 * unloaded; each an event. */
void acp_recover(struct acp_session *s, const struct acp_left *turns,
    unsigned nturns, const uint64_t *pending, unsigned npending);

struct acp_session *acp_find(
    struct acp *a, const struct sli_principal *p, const char *id);
/* All sessions the principal sees; *pos = 0 first. */
struct acp_session *acp_next(
    struct acp *a, const struct sli_principal *p, uint32_t *pos);

/* As committed; strings live until the next call into this room. */
struct acp_info {
	const char *id, *vm, *agent, *cwd;
	int state, outcome, policy;
	const char *reason_code, *reason;
	const char *agent_session;
	uint64_t head, turn;
	uint32_t generation;
	uint32_t pid; /* of the agent in the VM; 0 = none */
	uint64_t tenant;
	int64_t created_ms, updated_ms;
	unsigned pending; /* permissions */
	unsigned queued;  /* turns accepted and not started */
	/* Bytes read and still in this room: a partial line, a held snapshot,
	 * lines waiting for a full disk. What was handed to commit and
	 * part_append is counted by store_held: the gauge `held` is the
	 * sum. */
	uint64_t held;
	uint64_t superseded; /* snapshots dropped since the session loaded */
};

void acp_session_info(const struct acp_session *s, struct acp_info *ret);
void *acp_session_user(const struct acp_session *s);
void acp_session_set_user(struct acp_session *s, void *user);
/* Sum of acp_info.held of all sessions. */
uint64_t acp_held(const struct acp *a);

struct acp_ask {
	/* JSON array of ACP content blocks, checked here, taken by copy */
	struct sli_slice content;
	struct sli_slice key; /* idempotency key, <= 256 bytes, may be "" */
	uint8_t hash[32];     /* of the content; the service made it */
	int queue;            /* wait for the running turn */
	int64_t deadline_ms;  /* duration; 0 = acp.turn_deadline_ms */
	struct sli_slice traceparent; /* W3C, or ""; into the prompt's _meta */
};

struct acp_accepted {
	uint64_t turn;
	uint64_t first_seq; /* of the turn's first event */
	int repeated;       /* the key was known; nothing was started */
	int outcome;        /* of a repeated turn that has ended */
};

/* Turn committed, or refused (then a is NULL). */
typedef void acp_prompt_fn(
    void *ctx, const struct acp_accepted *a, const struct sli_errinfo *ei);

/* The caller has asked acp_turn_by_key and then the store; a turn with this
 * key that is live here (even still committing) is answered again, with other
 * content KEY_CONFLICT. SESSION_BUSY when a turn runs, unless `queue` or that
 * turn is being canceled. A prompt on an unloaded or failed session starts
 * the agent again. fn may be called from inside when refused. */
void acp_prompt(struct acp_session *s, const struct acp_ask *ask,
    acp_prompt_fn *fn, void *ctx);
/* A committed turn with this key (queued, running, or just ended): 1 and its
 * number, hash and outcome, else 0. */
int acp_turn_by_key(const struct acp_session *s, struct sli_slice key,
    uint64_t *ret_turn, uint64_t *ret_first_seq, uint8_t ret_hash[32],
    int *ret_outcome);
/* Cancels the turn that is running or about to run and returns it; again
 * while it is being canceled: those queued behind it too. 0 when idle, and
 * then nothing happens. */
uint64_t acp_cancel(struct acp_session *s);

struct acp_option { /* UTF-8, decoded */
	const char *id, *name, *kind;
};

/* Valid until the next call into this room. */
struct acp_perm {
	uint64_t request, turn;
	int state;
	int64_t created_ms, expires_ms;
	const char *title, *call; /* of the tool call; "" = none given */
	const struct acp_option *options;
	unsigned noptions;
	struct sli_slice tool_call; /* raw JSON, cut at 16 KiB */
};

/* Pending requests; index from 0; 0 = no more. */
int acp_perm_get(const struct acp_session *s, unsigned i, struct acp_perm *ret);

/* option: what the agent will be told; empty = cancelled. repeated: this key
 * had answered it before. Called after COMMIT (may be inside when refused). */
typedef void acp_permit_fn(void *ctx, struct sli_slice option, int repeated,
    const struct sli_errinfo *ei);

/* option NULL = deny (the first reject option, else cancelled). NOT_FOUND,
 * INVALID_ARGUMENT (not offered; the request stays open), ABORTED (already
 * answered otherwise). */
void acp_permit(struct acp_session *s, uint64_t request, const char *option,
    struct sli_slice key, const char *by, acp_permit_fn *fn, void *ctx);

/* Unload: a running turn is canceled first. Delete: at once, at any time. fn
 * may be called from inside. */
typedef void acp_done_fn(void *ctx, const struct sli_errinfo *ei);
void acp_unload(struct acp_session *s, acp_done_fn *fn, void *ctx);
void acp_delete(struct acp_session *s, acp_done_fn *fn, void *ctx);
/* Stop reading the agent (store budget full) / go on. */
void acp_pressure(struct acp_session *s, int full);
/* No new prompts from now on (DRAINING). */
void acp_drain(struct acp *a);
/* Turns accepted and not ended. */
unsigned acp_busy(const struct acp *a);
/* After acp_drain, when patience ends: running turns become lost with this
 * reason, agents are killed. The commits are queued when it returns. */
void acp_shutdown(struct acp *a, const char *reason_code);

/* --- told by the service -------------------------------------------------*/

/* fds: stdin, stdout, stderr of the agent; now ours. */
void acp_agent_started(
    struct acp_session *s, uint32_t generation, const int fds[3], uint32_t pid);
/* Not started; ei->reason or the error's name is shown as the cause. */
void acp_agent_failed(
    struct acp_session *s, uint32_t generation, const struct sli_errinfo *ei);
/* Once, after the process is gone (stdout may still hold bytes: read to
 * EOF). signal 0 = exited with code. */
void acp_agent_exited(
    struct acp_session *s, uint32_t generation, int code, int signal);

#endif
