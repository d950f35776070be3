/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over one session's history: replay and live are the same loop, with
 * a lower or higher `next`. A cursor holds no queue: at most one page read
 * from disk, or nothing when it is fed from the shared tail. Serves Subscribe
 * (live, no end) and History (bounded, either way). It does not know frames,
 * streams or credit rules: emit() says whether there was room.
 * Thread: loop. */
#ifndef SLUICE_STORE_CURSOR_H
#define SLUICE_STORE_CURSOR_H

#include "base/list.h"
#include "store/store.h"

/* A longer body follows its event in PART items of at most this. */
#define STORE_PART_MAX (32u << 10)

enum store_item_kind {
	STORE_ITEM_EVENT = 1,
	STORE_ITEM_PART,
	STORE_ITEM_GAP,
};

struct store_item {
	enum store_item_kind kind;
	/* EVENT: body is empty when it follows in PARTs: when it is longer
	 * than STORE_PART_MAX, or stored in parts. PART: the event that it
	 * belongs to, without body. */
	const struct sli_event *ev;
	uint64_t offset; /* PART */
	struct sli_slice bytes;
	int last;
	/* GAP: these are not there; the walk goes on behind them. A gap of
	 * one event may follow its EVENT and some PARTs. */
	uint64_t first_lost, last_lost;
	const char *reason; /* "trimmed", "damaged" */
};

/* 1 = taken; 0 = no room, the same item comes again at the next pump. Must
 * not call into the cursor. */
typedef int store_emit_fn(void *ctx, const struct store_item *it);

struct store_cursor_cfg {
	uint64_t from;  /* inclusive; 0 = low, or head when backward */
	uint64_t end;   /* last one wanted, inclusive; 0 = live, for ever
			 * (backward: 0 = down to the first kept) */
	uint64_t limit; /* events; 0 = all */
	int backward;   /* newest first */
	/* Pump again: a page came, the head moved while parked, the session
	 * was deleted, or the store failed. May pump or _fini the cursor. */
	void (*wake)(void *ctx);
	void *ctx;
};

enum store_pump {
	STORE_PUMP_BLOCKED, /* credit used up or emit() had no room */
	STORE_PUMP_PARKED,  /* at the head; wake() will come */
	STORE_PUMP_READING, /* a page was asked for; wake() will come */
	STORE_PUMP_END,     /* bounded walk done */
	STORE_PUMP_FAILED,  /* c->code: NOT_FOUND, NOMEM, UNAVAILABLE, STORE */
};

struct store_session;
struct store_read;

/* docs/STATES.md, "Subscription". */
enum store_cursor_state {
	STORE_CURSOR_NONE,
	STORE_CURSOR_READY,   /* may be pumped */
	STORE_CURSOR_PARKED,  /* next > head; a commit wakes it */
	STORE_CURSOR_READING, /* one read in flight; its answer wakes it */
	STORE_CURSOR_ENDED,
	STORE_CURSOR_FAILED,
	STORE_CURSOR_STATES,
};

/* Embedded in its owner, who reads `next`, `state` and `code` and writes
 * nothing. */
struct store_cursor {
	struct store *st;
	struct store_session *s;
	struct store_cursor_cfg cfg;
	enum store_cursor_state state;
	enum sli_err code;
	uint64_t next;   /* the seq to deliver next */
	uint64_t offset; /* in its body, while in_body */
	uint64_t left;   /* events until the limit */
	int in_body;
	struct sli_event cur;      /* while in_body; without its bytes */
	struct store_read *flight; /* asked for, not yet answered */
	struct store_read *page;   /* answered, not yet emitted */
	struct store_read *piece;  /* the same, of a body in parts */
	unsigned page_at;
	uint64_t seen;        /* the head when the page was asked for */
	struct sli_list node; /* of the session's cursors */
};

/* NOT_FOUND for an unknown session. On failure nothing is to be undone. */
SLI_MUST enum sli_err store_cursor_init(struct store_cursor *c,
    struct store *st, const char *sid, const struct store_cursor_cfg *cfg,
    struct sli_errinfo *ei);
/* Also with a page in flight. Idempotent on a zeroed or finished cursor. */
void store_cursor_fini(struct store_cursor *c);
/* Emit what there is, at most about `credit` bytes (at least one item if
 * credit > 0) and one page; then says why it stopped. */
SLI_MUST enum store_pump store_cursor_pump(
    struct store_cursor *c, size_t credit, store_emit_fn *emit, void *ctx);
/* Bytes of history that this cursor holds in memory. */
size_t store_cursor_held(const struct store_cursor *c);

#endif
