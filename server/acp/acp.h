/* SPDX-License-Identifier: Apache-2.0 */
/* The ACP engine: sessions, turns, permissions over an agent's stdio. The
 * server is the ACP client. Lines are kept byte for byte; nothing is shown
 * before it is committed. Knows neither VMs nor the store: it asks through
 * acp_sink and is told by acp_* calls. Thread: loop. */
#ifndef SLUICE_ACP_ACP_H
#define SLUICE_ACP_ACP_H

#include "base/err.h"
#include "base/event.h"
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
	unsigned n;
};

typedef void acp_page_fn(
    void *ctx, const struct acp_page *page, const struct sli_errinfo *ei);

struct acp_sink {
	/* Start an agent process for the session (its VM first, if stopped).
	 * Answer: acp_agent_started or acp_agent_failed with `generation`. */
	void (*spawn)(
	    void *ctx, struct acp_session *s, uint32_t generation);
	/* Kill its whole tree; acp_agent_exited follows. */
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
	void (*part_drop)(
	    void *ctx, struct acp_session *s, uint64_t set);
	/* A page of history, newest first from `from` (0 = head). */
	void (*page_back)(void *ctx, struct acp_session *s, uint64_t from,
	    acp_page_fn *done, void *done_ctx);
	/* Row removed and everything gone; then acp_session is freed. */
	void (*purge)(void *ctx, struct acp_session *s, acp_commit_fn *done,
	    void *done_ctx);
	/* State or counters changed (for listings and waiting callers). */
	void (*changed)(void *ctx, struct acp_session *s);
};

struct acp_limits { /* from limits.def, per session */
	uint64_t max_line_bytes;      /* 64 MiB */
	uint64_t message_total_bytes; /* 64 MiB */
	uint64_t turn_total_bytes;    /* 256 MiB */
	uint64_t initialize_ms, new_session_ms, load_ms, spawn_ms;
	uint64_t turn_deadline_ms, permission_ms, cancel_grace_ms;
	uint64_t preamble_bytes, stderr_tail_bytes, restarts_per_hour;
};

struct acp_open {
	char id[SLI_ID_MAX];
	char vm[SLI_ID_MAX];
	struct sli_principal owner;
	const char *agent; /* registered name, or "" */
	const char *cwd;
	int policy; /* enum sli_perm_policy */
	struct acp_limits limits;
	int64_t created_ms;
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
void acp_free(struct acp *a);

/* New: commits state opening through the sink (the service has inserted the
 * row), spawns, initializes, session/new. Restored: state as stored, except
 * that running or opening become unloaded or failed by acp_recover. */
SLI_MUST struct acp_session *acp_session_open(
    struct acp *a, const struct acp_open *o, struct sli_errinfo *ei);
/* After a restart: the interrupted turn becomes lost, pending permissions
 * expired, state unloaded; each an event. */
void acp_recover(struct acp_session *s, uint64_t running_turn,
    const uint64_t *pending, unsigned npending);

struct acp_session *acp_find(
    struct acp *a, const struct sli_principal *p, const char *id);
struct acp_session *acp_next(
    struct acp *a, const struct sli_principal *p, uint32_t *pos);

struct acp_info {
	const char *id, *vm, *agent, *cwd;
	int state, outcome, policy;
	const char *reason_code, *reason;
	const char *agent_session;
	uint64_t head, turn;
	uint32_t generation;
	uint64_t tenant;
	int64_t created_ms, updated_ms;
	unsigned pending;
	uint64_t held; /* bytes read and not committed */
};

void acp_session_info(const struct acp_session *s, struct acp_info *ret);
void *acp_session_user(const struct acp_session *s);
void acp_session_set_user(struct acp_session *s, void *user);

/* Turn accepted and committed (turn > 0), or refused. */
typedef void acp_prompt_fn(void *ctx, uint64_t turn, uint64_t first_seq,
    const struct sli_errinfo *ei);

/* content: JSON array of content blocks (checked), taken by copy. The caller
 * has already looked the key up (acp_turn_by_key first, then the store).
 * SESSION_BUSY unless queue. */
void acp_prompt(struct acp_session *s, struct sli_slice content,
    struct sli_slice key, int queue, int64_t deadline_ms, acp_prompt_fn *fn,
    void *ctx);
/* A live turn (queued, committing, running, or just ended) with this key:
 * 1 and its number/hash, else 0. */
int acp_turn_by_key(const struct acp_session *s, struct sli_slice key,
    uint64_t *ret_turn, uint64_t *ret_first_seq, uint8_t ret_hash[32],
    int *ret_outcome);
/* Returns the turn being canceled, 0 when idle (and then does nothing). */
uint64_t acp_cancel(struct acp_session *s);

struct acp_perm {
	uint64_t request, turn;
	int state;
	int64_t created_ms, expires_ms;
	struct sli_slice params; /* JSON of request_permission's params */
};

/* Pending requests; index from 0; 0 = no more. */
int acp_perm_get(
    const struct acp_session *s, unsigned i, struct acp_perm *ret);

typedef void acp_permit_fn(void *ctx, struct sli_slice option,
    const struct sli_errinfo *ei);

/* option NULL = deny. NOT_FOUND, ABORTED (already answered otherwise). */
void acp_permit(struct acp_session *s, uint64_t request, const char *option,
    struct sli_slice key, const char *by, acp_permit_fn *fn, void *ctx);
typedef void acp_done_fn(void *ctx, const struct sli_errinfo *ei);
void acp_unload(struct acp_session *s, acp_done_fn *fn, void *ctx);
void acp_delete(struct acp_session *s, acp_done_fn *fn, void *ctx);
/* Stop reading the agent (store budget full) / go on. */
void acp_pressure(struct acp_session *s, int full);
/* Drain for shutdown: no new prompts; running turns become lost. */
void acp_shutdown(struct acp *a, const char *reason_code);

/* --- told by the service -------------------------------------------------*/

/* fds: stdin, stdout, stderr of the agent; now ours. */
void acp_agent_started(struct acp_session *s, uint32_t generation,
    const int fds[3], uint32_t pid);
void acp_agent_failed(struct acp_session *s, uint32_t generation,
    const struct sli_errinfo *ei);
/* After the process is gone (stdout may still hold bytes: read to EOF). */
void acp_agent_exited(
    struct acp_session *s, uint32_t generation, int code, int signal);

#endif
