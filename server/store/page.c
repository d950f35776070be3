/* SPDX-License-Identifier: Apache-2.0 */
/* One read: a page of events either way, a piece of a body, or a turn by its
 * key. Rows are checked before a byte of them is believed; a damaged one is
 * reported as a range, and what lies around it is served. Reader thread. */
#include "store/frame.h"
#include "store/reader.h"
#include "store/runs.h"

#include "base/log.h"

static void
lost(struct store_read *r, uint64_t first, uint64_t last)
{
	r->first_lost = first;
	r->last_lost = last;
	atomic_fetch_add_explicit(&r->st->damaged, 1, memory_order_relaxed);
	sli_log(SLI_LOG_ERR, "store", "damaged",
	    "sno=%llu first=%llu last=%llu", (unsigned long long)r->sno,
	    (unsigned long long)first, (unsigned long long)last);
}

static int
is_full(const struct store_read *r)
{
	return r->n >= r->max_events || r->bytes >= r->max_bytes;
}

static enum sli_err
room_for_events(struct store_read *r, size_t more)
{
	unsigned cap = r->cap ? r->cap : 16;
	struct sli_event *ev;

	while (cap < r->n + more)
		cap *= 2;
	if (cap == r->cap)
		return SLI_OK;
	ev = sli_realloc(r->ev, cap * sizeof(*ev));
	if (!ev)
		return SLI_E_NOMEM;
	r->ev = ev;
	r->cap = cap;
	return SLI_OK;
}

/* A stretch of frames inside a row. */
struct stretch {
	size_t from, to; /* offsets */
	uint64_t first;  /* seq of the first frame */
	unsigned n;
};

static size_t
frame_at(const struct store_row *row, size_t at, struct sli_event *ev)
{
	size_t len = store_frame_get(row->body.p + at, row->body.n - at, ev);

	SLI_ASSERT(len > 0); /* store_row_ok() has walked it */
	return len;
}

/* May this stretch grow by len bytes and still be part of the page? */
static int
fits(const struct store_read *r, const struct stretch *x, size_t len)
{
	if (r->n + x->n == 0)
		return 1;
	return r->n + x->n < r->max_events &&
	       r->bytes + (x->to - x->from) + len <= r->max_bytes;
}

/* The longest allowed stretch that starts at seq lo. */
static struct stretch
stretch_forward(const struct store_read *r, const struct store_row *row,
    uint64_t lo, uint64_t hi)
{
	struct stretch x = {.first = lo};
	struct sli_event ev;
	uint64_t seq = store_row_first(row);
	size_t at = 0, len;

	for (; seq <= hi; seq++, at += len) {
		len = frame_at(row, at, &ev);
		if (seq < lo)
			continue;
		if (x.n == 0)
			x.from = x.to = at;
		if (!fits(r, &x, len))
			break;
		x.to = at + len;
		x.n++;
	}
	return x;
}

/* The longest allowed stretch that ends at seq hi: a window that slides. */
static struct stretch
stretch_backward(const struct store_read *r, const struct store_row *row,
    uint64_t lo, uint64_t hi)
{
	struct stretch x = {.first = lo};
	struct sli_event ev;
	uint64_t seq = store_row_first(row);
	size_t at = 0, len;

	for (; seq <= hi; seq++, at += len) {
		len = frame_at(row, at, &ev);
		if (seq < lo)
			continue;
		if (x.n == 0)
			x.from = at;
		x.to = at;
		while (x.n > 0 && !fits(r, &x, len)) {
			x.from += frame_at(row, x.from, &ev);
			x.first++;
			x.n--;
		}
		x.to = at + len;
		x.n++;
	}
	/* Not even the last one, behind what the page has already. */
	if (r->n > 0 && r->bytes + (x.to - x.from) > r->max_bytes)
		x.n = 0;
	return x;
}

static enum sli_err
take(struct store_read *r, const struct store_row *row, struct stretch x)
{
	size_t n = x.to - x.from, at = 0, len;
	uint8_t *copy;
	enum sli_err e;

	if (x.n == 0)
		return SLI_OK;
	e = room_for_events(r, x.n);
	if (e != SLI_OK)
		return e;
	copy = sli_arena_alloc(&r->mem, n);
	if (!copy)
		return SLI_E_NOMEM;
	memcpy(copy, row->body.p + x.from, n);
	for (unsigned i = 0; i < x.n; i++, at += len) {
		unsigned slot = r->backward ? x.n - 1 - i : i;
		struct sli_event *ev = &r->ev[r->n + slot];

		len = store_frame_get(copy + at, n - at, ev);
		ev->seq = x.first + i;
	}
	r->n += x.n;
	r->bytes += n;
	return SLI_OK;
}

static enum sli_err
forward(struct store_db *db, struct store_read *r)
{
	uint64_t cur = SLI_MAX(r->from, r->low), hi, first;
	struct store_row row;
	enum sli_err e = SLI_OK;
	struct stretch x;
	sqlite3_stmt *q;
	int rc;

	q = store_db_query(db, &rc, SQL_RUN_FORWARD, "ii",
	    store_key(r->sno, cur), store_key(r->sno, STORE_SEQ_MAX));
	if (!q)
		return store_db_err(rc);
	while (e == SLI_OK && cur <= r->end && !is_full(r)) {
		rc = sqlite3_step(q);
		e = store_db_err(rc);
		if (rc == SQLITE_DONE)
			lost(r, cur, r->end);
		if (rc != SQLITE_ROW)
			break;
		store_row_read(q, &row);
		hi = SLI_MIN(row.last, r->end);
		first = store_row_first(&row);
		if (!store_row_ok(&row))
			lost(r, cur, hi);
		else if (first > cur)
			lost(r, cur, SLI_MIN(first - 1, r->end));
		if (r->first_lost)
			break;
		x = stretch_forward(r, &row, cur, hi);
		e = take(r, &row, x);
		cur += x.n;
		if (cur <= hi)
			break; /* full */
	}
	store_db_reset(q);
	r->more = cur <= r->end && (!r->first_lost || r->last_lost < r->end);
	return e;
}

/* Last seq of the row that holds `seq`; seq itself when none does. */
static enum sli_err
top_of(struct store_db *db, const struct store_read *r, uint64_t seq,
    uint64_t *ret_top)
{
	enum sli_err e;
	sqlite3_stmt *q;
	int rc;

	q = store_db_query(db, &rc, SQL_RUN_FORWARD, "ii",
	    store_key(r->sno, seq), store_key(r->sno, STORE_SEQ_MAX));
	if (!q)
		return store_db_err(rc);
	rc = sqlite3_step(q);
	e = store_db_err(rc);
	*ret_top = rc == SQLITE_ROW ? store_db_u64(q, 0) & STORE_SEQ_MAX : seq;
	store_db_reset(q);
	return e;
}

/* Where a damaged row begins only its older neighbour can tell. */
static enum sli_err
lost_backward(
    sqlite3_stmt *q, struct store_read *r, uint64_t cur, uint64_t bottom)
{
	int rc = sqlite3_step(q);
	uint64_t first = bottom;

	if (rc == SQLITE_ROW)
		first =
		    SLI_MAX((store_db_u64(q, 0) & STORE_SEQ_MAX) + 1, bottom);
	lost(r, first, cur);
	return store_db_err(rc);
}

static enum sli_err
backward_rows(
    sqlite3_stmt *q, struct store_read *r, uint64_t *io_cur, uint64_t bottom)
{
	enum sli_err e = SLI_OK;
	struct store_row row;
	struct stretch x;
	uint64_t lo;
	int rc;

	while (e == SLI_OK && *io_cur >= bottom && !is_full(r)) {
		rc = sqlite3_step(q);
		e = store_db_err(rc);
		if (rc == SQLITE_DONE)
			lost(r, bottom, *io_cur);
		if (rc != SQLITE_ROW)
			return e;
		store_row_read(q, &row);
		if (row.last < *io_cur)
			lost(r, SLI_MAX(row.last + 1, bottom), *io_cur);
		else if (!store_row_ok(&row))
			e = lost_backward(q, r, *io_cur, bottom);
		if (r->first_lost)
			return e;
		lo = SLI_MAX(store_row_first(&row), bottom);
		x = stretch_backward(r, &row, lo, *io_cur);
		e = take(r, &row, x);
		*io_cur -= x.n;
		if (*io_cur >= lo)
			return e; /* full */
	}
	return e;
}

static enum sli_err
backward(struct store_db *db, struct store_read *r)
{
	uint64_t bottom = SLI_MAX(r->end, r->low), cur = r->from, top = 0;
	enum sli_err e;
	sqlite3_stmt *q;
	int rc;

	if (cur < bottom)
		return SLI_OK;
	e = top_of(db, r, cur, &top);
	if (e != SLI_OK)
		return e;
	q = store_db_query(db, &rc, SQL_RUN_BACKWARD, "ii",
	    store_key(r->sno, top), store_key(r->sno, 0));
	if (!q)
		return store_db_err(rc);
	e = backward_rows(q, r, &cur, bottom);
	store_db_reset(q);
	r->more = cur >= bottom && (!r->first_lost || r->first_lost > bottom);
	return e;
}

static enum sli_err
page(struct store_db *db, struct store_read *r)
{
	sqlite3_stmt *q;
	int rc;

	q = store_db_query(db, &rc, SQL_LOW_GET, "i", (int64_t)r->sno);
	if (!q)
		return store_db_err(rc);
	rc = sqlite3_step(q);
	if (rc == SQLITE_ROW)
		r->low = store_db_u64(q, 0);
	store_db_reset(q);
	if (rc == SQLITE_DONE)
		return SLI_E_NOT_FOUND;
	if (rc != SQLITE_ROW)
		return store_db_err(rc);
	return r->backward ? backward(db, r) : forward(db, r);
}

static enum sli_err
piece(struct store_db *db, struct store_read *r)
{
	enum sli_err e = SLI_OK;
	struct sli_slice b;
	sqlite3_stmt *q;
	uint64_t id, end;
	uint8_t *copy;
	size_t n;
	int rc;

	q = store_db_query(db, &rc, SQL_PIECE_AT, "ii",
	    store_piece_key(r->set, r->offset),
	    store_piece_key(r->set, STORE_OFF_MAX));
	if (!q)
		return store_db_err(rc);
	rc = sqlite3_step(q);
	if (rc != SQLITE_ROW) {
		e = rc == SQLITE_DONE ? SLI_E_DATA_LOSS : store_db_err(rc);
		goto out;
	}
	id = store_db_u64(q, 0);
	b = store_db_blob(q, 2);
	end = id & STORE_OFF_MAX;
	if (b.n > end || end - b.n > r->offset ||
	    store_piece_sum((int64_t)id, b) != sqlite3_column_int64(q, 1)) {
		e = SLI_E_DATA_LOSS;
		goto out;
	}
	n = (size_t)(end - r->offset);
	copy = sli_arena_alloc(&r->mem, SLI_MIN(n, r->max_bytes));
	if (!copy) {
		e = SLI_E_NOMEM;
		goto out;
	}
	r->body = sli_slice_of(copy, SLI_MIN(n, r->max_bytes));
	memcpy(copy, b.p + (b.n - n), r->body.n);
out:
	store_db_reset(q);
	if (e == SLI_E_DATA_LOSS) {
		atomic_fetch_add(&r->st->damaged, 1);
		sli_log(SLI_LOG_ERR, "store", "damaged", "set=%llu offset=%llu",
		    (unsigned long long)r->set, (unsigned long long)r->offset);
	}
	return e;
}

static enum sli_err
body(struct store_db *db, struct store_read *r)
{
	uint64_t length = 0;
	sqlite3_stmt *q;
	int rc;

	q = store_db_query(db, &rc, SQL_SET_LIVE, "i", (int64_t)r->set);
	if (!q)
		return store_db_err(rc);
	rc = sqlite3_step(q);
	if (rc == SQLITE_ROW)
		length = store_db_u64(q, 1);
	store_db_reset(q);
	if (rc == SQLITE_DONE)
		return SLI_E_NOT_FOUND;
	if (rc != SQLITE_ROW)
		return store_db_err(rc);
	return r->offset >= length ? SLI_OK : piece(db, r);
}

static enum sli_err
turn(struct store_db *db, struct store_read *r)
{
	struct store_turn_row *t = &r->turn;
	enum sli_err e;
	sqlite3_stmt *q;
	uint8_t *key;
	int rc;

	q = store_db_query(
	    db, &rc, SQL_TURN_FIND, "ib", (int64_t)r->sno, r->key);
	if (!q)
		return store_db_err(rc);
	rc = sqlite3_step(q);
	e = store_db_err(rc);
	if (rc == SQLITE_ROW) {
		store_turn_read(q, t);
		key = sli_arena_alloc(&r->mem, t->key.n);
		t->reason_code = sli_arena_strdup(&r->mem, t->reason_code);
		if (key && t->reason_code) {
			memcpy(key, t->key.p, t->key.n);
			t->key.p = key;
			r->found = 1;
		} else {
			e = SLI_E_NOMEM;
		}
	}
	store_db_reset(q);
	return e;
}

enum sli_err
store_read_do(struct store_db *db, struct store_read *r)
{
	enum sli_err e;
	int rc = store_db_run(db, SQL_BEGIN_READ, "");

	if (rc != SQLITE_OK)
		return store_db_fail(db, rc, "store.read", &r->ei);
	switch (r->kind) {
	case STORE_READ_PAGE:
		e = page(db, r);
		break;
	case STORE_READ_BODY:
		e = body(db, r);
		break;
	case STORE_READ_TURN:
	default:
		e = turn(db, r);
		break;
	}
	if (e == SLI_E_STORE)
		(void)store_db_fail(
		    db, sqlite3_extended_errcode(db->h), "store.read", &r->ei);
	r->ei.code = e;
	/* Ends the snapshot; there is nothing to lose in a read. */
	(void)store_db_rollback(db);
	return e;
}
