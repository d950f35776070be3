/* SPDX-License-Identifier: Apache-2.0 */
/* Reads done by the reader threads: one short transaction each, everything
 * copied out, no statement open when it is answered. */
#ifndef SLUICE_STORE_READER_H
#define SLUICE_STORE_READER_H

#include "store/db.h"
#include "store/int.h"

enum store_read_kind {
	STORE_READ_PAGE = 1,
	STORE_READ_BODY,
	STORE_READ_TURN,
};

/* Fields above the line are set before it is queued; those below are the
 * reader's until it is posted; `fn` and what it uses stay the loop's. */
struct store_read {
	struct sli_post post;
	struct store_read *next;
	struct store *st;
	struct store_session *s; /* loop: referenced; NULL for BODY by set */
	enum store_read_kind kind;
	uint64_t sno;
	uint64_t from, end; /* forward: end <= head; backward: lowest wanted */
	unsigned max_events;
	size_t max_bytes;
	int backward;
	uint64_t set, offset;
	struct sli_slice key; /* of TURN; in this allocation */
	/* ---- */
	enum sli_err code;
	struct sli_errinfo ei; /* when code is STORE */
	struct sli_arena mem;
	struct sli_event *ev;
	unsigned n, cap;
	size_t bytes;
	uint64_t first_lost, last_lost, low;
	int more;
	struct sli_slice body;
	struct store_turn_row turn;
	int found;
	/* ---- loop */
	void (*fn)(struct store_read *r); /* NULL = nobody waits any more */

	union {
		store_page_fn *page;
		store_body_fn *body;
		store_turn_fn *turn;
	} user;

	void *ctx;
};

/* A read for session s (may be NULL); NULL when out of memory. */
SLI_MUST struct store_read *store_read_new(struct store *st,
    struct store_session *s, enum store_read_kind kind, size_t extra);
void store_read_free(struct store_read *r);
/* fn is called in the loop with the read, which is then fn's to free; when fn
 * was set to NULL in between it is freed without a call. */
void store_read_submit(struct store_read *r, void (*fn)(struct store_read *r));

SLI_MUST enum sli_err store_readers_start(
    struct store *st, struct sli_errinfo *ei);
void store_readers_stop(struct store *st);

/* page.c: the transaction itself. */
enum sli_err store_read_do(struct store_db *db, struct store_read *r);
/* load.c */
void store_turn_read(sqlite3_stmt *q, struct store_turn_row *row);

#endif
