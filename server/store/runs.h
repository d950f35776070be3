/* SPDX-License-Identifier: Apache-2.0 */
/* A run: consecutive events of one session in one row of table `run`, named
 * by the last of them. Built by the writer, taken apart by the readers. */
#ifndef SLUICE_STORE_RUNS_H
#define SLUICE_STORE_RUNS_H

#include "store/db.h"
#include "store/int.h"

/* How `body` is stored. Sealing adds a compressed form; a reader that does not
 * know a codec reports the run as damaged, it never guesses. */
enum store_codec {
	STORE_CODEC_PLAIN = 0
};

/* A row as read; borrowed from the statement. */
struct store_row {
	uint64_t sno, last;
	int64_t n, codec, at_ms, raw_len, sum;
	struct sli_slice chain, body;
};

/* Under construction; one at a time, the writer's. */
struct store_run {
	struct store_db *db;
	uint8_t *scratch; /* STORE_RUN_MAX + a frame head */
	uint64_t sno, first;
	unsigned n;
	const uint8_t *p; /* in a job, or == scratch */
	size_t len;
	int64_t at_ms;
	uint8_t chain[SLI_HASH_BYTES]; /* after the last event */
};

void store_run_begin(struct store_run *r, uint64_t sno, uint64_t next_seq,
    const uint8_t chain[SLI_HASH_BYTES]);
/* Append one frame (must stay valid until the run is flushed); moves chain.
 * An SQLite result: a full run is written first. */
SLI_MUST int store_run_add(struct store_run *r, const uint8_t *frame,
    size_t len, const struct sli_event *ev,
    const uint8_t body_hash[SLI_HASH_BYTES]);
/* Write what is there. */
SLI_MUST int store_run_flush(struct store_run *r);

void store_row_read(sqlite3_stmt *q, struct store_row *row);
/* First seq of the row; 0 when n makes no sense. */
uint64_t store_row_first(const struct store_row *row);
/* 1 = checksum, length and codec are right. */
int store_row_ok(const struct store_row *row);
/* First 8 bytes of BLAKE2b over what names a piece, and its bytes. */
int64_t store_piece_sum(int64_t id, struct sli_slice body);

#endif
