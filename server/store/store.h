/* SPDX-License-Identifier: Apache-2.0 */
/* Durable history: one SQLite file, one writer thread that also checkpoints,
 * a few reader threads. Everything is asked from the loop thread and answered
 * there by post; nothing is answered before its COMMIT (synchronous=FULL).
 * Only this room sees <sqlite3.h>; no SQL elsewhere.
 *
 * Unknown outcomes (I/O error on commit) are fail-stop: fatal() is called once
 * and nothing is acknowledged after it. A full disk is not: jobs fail with
 * STORAGE_FULL and later ones may succeed. Thread: loop, but where said. */
#ifndef SLUICE_STORE_STORE_H
#define SLUICE_STORE_STORE_H

#include "base/err.h"
#include "base/event.h"
#include "base/mailbox.h"
#include "base/slice.h"

struct store;

struct store_cfg {
	const char *dir;         /* state directory, ours, 0700 */
	struct sli_mailbox *mb;  /* the loop's */
	unsigned readers;        /* 2..4; 0 = 2 */
	unsigned linger_ms;      /* of what is no barrier; 0 = none */
	uint64_t budget;         /* uncommitted bytes, server; 0 = 64 MiB */
	uint64_t session_budget; /* uncommitted bytes, session; 0 = 2 MiB */
	uint64_t cache_bytes;    /* page cache of the writer; 0 = 64 MiB */
	uint64_t tail_bytes;     /* tail of one session; 0 = 256 KiB */
	uint64_t tails_bytes;    /* all tails; 0 = 16 MiB */
	uint64_t page_bytes;     /* read at once for a cursor; 0 = 64 KiB */
	uint64_t wal_warn_bytes; /* a longer log is reported; 0 = 256 MiB */
	uint64_t ballast_bytes;  /* given up when the disk fills; 0 = 16 MiB */
	void (*fatal)(void *ctx, const struct sli_errinfo *ei);
	/* The byte budget of a session (or of all, sid NULL) is full / has
	 * room again: pause / resume reading what fills it. "full" comes from
	 * inside store_commit and store_part_append, "room" by post; nothing
	 * is ever refused for it. May be NULL. */
	void (*pressure)(void *ctx, const char *sid, int full);
	/* Committed: the session's head moved and its tail is there; called
	 * after the done() of the commit. Cursors (store/cursor.h) are woken
	 * by the store itself. May be NULL. */
	void (*moved)(void *ctx, const char *sid, uint64_t head);
	void *ctx;
};

/* Opens or creates, takes the lock (a second server gets ALREADY_EXISTS with
 * the owner's pid in the text), migrates, sweeps parts without a row. Blocks;
 * called before the loop runs. */
SLI_MUST enum sli_err store_open(
    const struct store_cfg *cfg, struct store **ret, struct sli_errinfo *ei);
/* Commits what is queued, delivers what waits in the mailbox (all of it, so
 * that every answer is given), then closes. Jobs made from those answers get
 * UNAVAILABLE. Cursors must be gone. Blocks; loop thread, st may be NULL. */
void store_close(struct store *st);

/* Rows, as stored. Strings are the callee's during the callback only. */
struct store_vm_row {
	char id[SLI_ID_MAX];
	uint64_t tenant;
	int state; /* VmState of vms.proto */
	const char *reason;
	struct sli_slice spec; /* encoded VmCreateRequest */
	int64_t created_ms;
};

struct store_session_row {
	char id[SLI_ID_MAX];
	char vm[SLI_ID_MAX];
	uint64_t tenant;
	int state; /* enum sli_session_state */
	const char *reason_code, *reason;
	const char *agent;         /* registered name or "" */
	struct sli_slice open_req; /* encoded SessionOpenRequest */
	const char *agent_session; /* the agent's own id or "" */
	uint32_t generation;
	uint64_t epoch, head, low, bytes;
	uint64_t turn; /* last turn; 0 = none */
	int outcome;   /* of the last turn */
	int64_t created_ms, updated_ms;
	uint8_t chain[32];
};

struct store_turn_row {
	uint64_t turn;
	struct sli_slice key;
	uint8_t prompt_hash[32];
	int outcome;
	const char *reason_code;
	int64_t created_ms, started_ms, completed_ms;
	uint64_t first_seq, last_seq;
};

struct store_perm_row {
	uint64_t request;
	uint64_t turn;
	uint32_t generation;
	int state;
	struct sli_slice rpc_id, option, answer_key;
	int64_t created_ms, expires_ms;
};

/* Walk all rows at start (blocking, before the loop runs). */
SLI_MUST enum sli_err store_load_vms(struct store *st,
    void (*fn)(void *ctx, const struct store_vm_row *row), void *ctx,
    struct sli_errinfo *ei);
SLI_MUST enum sli_err store_load_sessions(struct store *st,
    void (*fn)(void *ctx, const struct store_session_row *row), void *ctx,
    struct sli_errinfo *ei);
/* Turns of one session, newest first, at most limit; permissions pending. */
SLI_MUST enum sli_err store_load_turns(struct store *st, const char *sid,
    unsigned limit, void (*fn)(void *ctx, const struct store_turn_row *row),
    void *ctx, struct sli_errinfo *ei);
SLI_MUST enum sli_err store_load_perms(struct store *st, const char *sid,
    void (*fn)(void *ctx, const struct store_perm_row *row), void *ctx,
    struct sli_errinfo *ei);

/* --- writing: every call copies what it is given -------------------------*/

/* Always by post, in the order of the calls per session. ei->code OK =
 * committed. seq of the first event of the commit (they are consecutive), 0
 * when it had none. Not OK = nothing of this call was kept: NOT_FOUND,
 * ALREADY_EXISTS, KEY_CONFLICT, ABORTED, INVALID_ARGUMENT, STORAGE_FULL,
 * UNAVAILABLE (closing, or a foreign lock), NOMEM; STORE after fatal(): the
 * outcome is unknown. ei lives in the call only. */
typedef void store_done_fn(
    void *ctx, uint64_t first_seq, const struct sli_errinfo *ei);

/* Insert or update. done may be NULL. */
void store_put_vm(struct store *st, const struct store_vm_row *row,
    store_done_fn *done, void *ctx);
void store_del_vm(
    struct store *st, const char *id, store_done_fn *done, void *ctx);
/* New session row plus its first records, one transaction. Counters of the
 * row (head, low, bytes, turn, outcome, chain) are ignored: they start at
 * 0, 1, 0, 0, 0, zeros. ALREADY_EXISTS for a known id. Commits may be queued
 * behind it at once. A barrier. */
void store_new_session(struct store *st, const struct store_session_row *row,
    const struct sli_record *recs, unsigned n, store_done_fn *done, void *ctx);
/* Row, turns, permissions, events, parts: all gone for every reader once
 * done() is called; the space is given back in small steps afterwards. Calls
 * with this id get NOT_FOUND from now on. */
void store_del_session(
    struct store *st, const char *sid, store_done_fn *done, void *ctx);

#define STORE_BARRIER 1u /* commit at once, do not linger */

/* Append records to a session in one transaction. Order of calls is order of
 * seq, per session. A body over SLI_EVENT_INLINE_MAX must come as parts
 * (INVALID_ARGUMENT). Changes are checked against the rows before anything is
 * written (base/event.h says how); one that does not fit fails this call
 * alone. While the disk is full only barriers are tried. */
void store_commit(struct store *st, const char *sid,
    const struct sli_record *recs, unsigned n, unsigned flags,
    store_done_fn *done, void *ctx);

/* A body in parts: bytes are committed in transactions of their own while
 * they arrive; the event that names the set in `parts` makes them visible.
 * Its `length` must be the bytes appended, else INVALID_ARGUMENT; when an
 * append failed (a full disk) the naming commit fails too, with DATA_LOSS: a
 * stored body never has holes. Sets never named are swept at the next start or
 * by store_part_drop. begin: 0 for an unknown session or no memory; append and
 * drop on 0 do nothing. */
uint64_t store_part_begin(struct store *st, const char *sid);
void store_part_append(struct store *st, uint64_t set, struct sli_slice bytes);
void store_part_drop(struct store *st, uint64_t set);

/* Retention: forget whole runs below `low` (inclusive lower end of what is
 * kept; the real one may be lower, never higher). The space is given back in
 * small steps. done's first_seq is the new low. */
void store_trim(struct store *st, const char *sid, uint64_t low,
    store_done_fn *done, void *ctx);

/* Bytes queued and not committed (P1 `held`), of one session or all (NULL).*/
uint64_t store_held(const struct store *st, const char *sid);

/* --- reading -------------------------------------------------------------*/

/* Last committed and first kept seq. NOT_FOUND for an unknown session. */
SLI_MUST enum sli_err store_range(const struct store *st, const char *sid,
    uint64_t *ret_low, uint64_t *ret_head);
/* Committed bytes of history of the session; 0 for an unknown one. */
uint64_t store_bytes(const struct store *st, const char *sid);
/* Head of the hash chain at `head` (32 bytes). */
SLI_MUST enum sli_err store_chain(
    const struct store *st, const char *sid, uint8_t ret_chain[32]);

/* Look in the shared ring of the committed tail: calls fn for events from
 * `from` on until it returns 0; returns how many, or -1 when `from` is not in
 * the ring (older): use store_page. */
int store_tail(const struct store *st, const char *sid, uint64_t from,
    int (*fn)(void *ctx, const struct sli_event *ev), void *ctx);

struct store_page {
	const struct sli_event *ev; /* in order of the request; the page owns */
	unsigned n;
	/* A damaged run, 0 = none. It comes after the events of this page (n
	 * may then be 0); go on at last_lost + 1, backward first_lost - 1. */
	uint64_t first_lost, last_lost;
	uint64_t low; /* first kept seq when it was read */
	int more;     /* something is left in the direction asked for */
};

/* One page by a reader thread: forward from `from` (inclusive), or backward
 * from `from` (inclusive) newest first. At most max_events and about
 * max_bytes, at least one event, none past the head at the time of the call.
 * `from` below low starts at low, above head (backward) at head. Answer by
 * post; page valid in the call, NULL on error (NOT_FOUND, UNAVAILABLE, NOMEM,
 * STORE). Prefer a cursor (store/cursor.h), which does the whole walk. */
typedef void store_page_fn(
    void *ctx, const struct store_page *page, const struct sli_errinfo *ei);
void store_page(struct store *st, const char *sid, uint64_t from, int backward,
    unsigned max_events, size_t max_bytes, store_page_fn *fn, void *ctx);
/* A piece of a body in parts: at most max bytes from offset, at least one
 * unless offset is at the end. NOT_FOUND when trimmed, DATA_LOSS. */
typedef void store_body_fn(
    void *ctx, struct sli_slice bytes, const struct sli_errinfo *ei);
void store_body(struct store *st, uint64_t set, uint64_t offset, size_t max,
    store_body_fn *fn, void *ctx);
/* The turn that used this idempotency key in this session. Answer by post;
 * row NULL when there is none. */
typedef void store_turn_fn(
    void *ctx, const struct store_turn_row *row, const struct sli_errinfo *ei);
void store_find_turn(struct store *st, const char *sid, struct sli_slice key,
    store_turn_fn *fn, void *ctx);

struct store_stats {
	uint64_t held, commits, events, bytes, wal_bytes, db_bytes, tail_bytes;
	uint64_t queue_jobs;
	uint64_t damaged; /* runs and parts found damaged since start */
	int full;         /* the disk is full: refuse new prompts */
};

void store_stats(const struct store *st, struct store_stats *ret);

#endif
