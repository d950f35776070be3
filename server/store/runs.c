/* SPDX-License-Identifier: Apache-2.0 */
/* Building run rows and checking them. The payload of a row is invisible to
 * SQLite's own integrity check, so every row carries a checksum over its name,
 * its numbers and its bytes. */
#include "store/runs.h"

#include "store/chain.h"
#include "store/frame.h"

static uint8_t *
le64(uint8_t *p, int64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		*p++ = (uint8_t)((uint64_t)v >> (8 * i));
	return p;
}

static int64_t
sum_of(struct sli_slice head, struct sli_slice chain, struct sli_slice body)
{
	struct sli_hash h;
	uint8_t sum[SLI_HASH_BYTES];
	uint64_t v = 0;

	sli_hash_init(&h);
	sli_hash_update(&h, head.p, head.n);
	sli_hash_update(&h, chain.p, chain.n);
	sli_hash_update(&h, body.p, body.n);
	sli_hash_final(&h, sum);
	for (unsigned i = 0; i < 8; i++)
		v |= (uint64_t)sum[i] << (8 * i);
	return (int64_t)v;
}

static int64_t
row_sum(const struct store_row *r)
{
	uint8_t head[5 * 8];
	uint8_t *p = head;

	p = le64(p, store_key(r->sno, r->last));
	p = le64(p, r->n);
	p = le64(p, r->codec);
	p = le64(p, r->at_ms);
	p = le64(p, r->raw_len);
	SLI_ASSERT(p == head + sizeof(head));
	return sum_of(sli_slice_of(head, sizeof(head)), r->chain, r->body);
}

int64_t
store_piece_sum(int64_t id, struct sli_slice body)
{
	uint8_t head[8];

	le64(head, id);
	return sum_of(
	    sli_slice_of(head, sizeof(head)), sli_slice_of(NULL, 0), body);
}

void
store_run_begin(struct store_run *r, uint64_t sno, uint64_t next_seq,
    const uint8_t chain[SLI_HASH_BYTES])
{
	r->sno = sno;
	r->first = next_seq;
	r->n = 0;
	r->p = NULL;
	r->len = 0;
	memcpy(r->chain, chain, sizeof(r->chain));
}

/* The seam for sealing: a codec chosen here, from the plain frames. */
int
store_run_flush(struct store_run *r)
{
	struct store_row row;
	int rc;

	if (r->n == 0)
		return SQLITE_OK;
	row = (struct store_row){
	    .sno = r->sno,
	    .last = r->first + r->n - 1,
	    .n = r->n,
	    .codec = STORE_CODEC_PLAIN,
	    .at_ms = r->at_ms,
	    .raw_len = (int64_t)r->len,
	    .chain = sli_slice_of(r->chain, sizeof(r->chain)),
	    .body = sli_slice_of(r->p, r->len),
	};
	row.sum = row_sum(&row);
	rc = store_db_run(r->db, SQL_RUN_ADD, "iiiiiibb",
	    store_key(row.sno, row.last), row.n, row.codec, row.at_ms,
	    row.raw_len, row.sum, row.chain, row.body);
	r->first += r->n;
	r->n = 0;
	r->p = NULL;
	r->len = 0;
	return rc;
}

int
store_run_add(struct store_run *r, const uint8_t *frame, size_t len,
    const struct sli_event *ev, const uint8_t body_hash[SLI_HASH_BYTES])
{
	int rc = SQLITE_OK;

	if (r->n > 0 && r->len + len > STORE_RUN_MAX)
		rc = store_run_flush(r);
	if (rc != SQLITE_OK)
		return rc;
	/* Frames of one job lie side by side: no copy until jobs mix. */
	if (r->n == 0) {
		r->p = frame;
	} else if (r->p == r->scratch || r->p + r->len != frame) {
		if (r->p != r->scratch)
			memcpy(r->scratch, r->p, r->len);
		memcpy(r->scratch + r->len, frame, len);
		r->p = r->scratch;
	}
	store_chain_step(r->chain, r->first + r->n, ev, body_hash);
	r->n++;
	r->len += len;
	r->at_ms = ev->at_ms;
	return SQLITE_OK;
}

void
store_row_read(sqlite3_stmt *q, struct store_row *row)
{
	uint64_t id = store_db_u64(q, 0);

	row->sno = id >> STORE_SEQ_BITS;
	row->last = id & STORE_SEQ_MAX;
	row->n = sqlite3_column_int64(q, 1);
	row->codec = sqlite3_column_int64(q, 2);
	row->at_ms = sqlite3_column_int64(q, 3);
	row->raw_len = sqlite3_column_int64(q, 4);
	row->sum = sqlite3_column_int64(q, 5);
	row->chain = store_db_blob(q, 6);
	row->body = store_db_blob(q, 7);
}

uint64_t
store_row_first(const struct store_row *row)
{
	if (row->n < 1 || (uint64_t)row->n > row->last)
		return 0;
	return row->last - (uint64_t)row->n + 1;
}

int
store_row_ok(const struct store_row *row)
{
	struct sli_event ev;
	size_t at = 0, len;

	if (store_row_first(row) == 0 || row_sum(row) != row->sum ||
	    row->codec != STORE_CODEC_PLAIN ||
	    row->raw_len != (int64_t)row->body.n)
		return 0;
	for (int64_t i = 0; i < row->n; i++) {
		len = store_frame_get(row->body.p + at, row->body.n - at, &ev);
		if (len == 0)
			return 0;
		at += len;
	}
	return at == row->body.n;
}
