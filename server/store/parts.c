/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies in parts. The loop side hands out sets and queues their bytes; the
 * writer stores them as pieces while they arrive, keeps the running hash, and
 * lets an event name the set once every byte is there. */
#include "store/db.h"
#include "store/int.h"
#include "store/runs.h"

#include "base/log.h"

/* --- loop -----------------------------------------------------------------*/

static struct sli_slice
set_key(const uint64_t *id)
{
	return sli_slice_of(id, sizeof(*id));
}

void
store_set_unref(struct store *st, struct store_set *t)
{
	if (!t)
		return;
	SLI_ASSERT(t->refs > 0);
	if (--t->refs > 0)
		return;
	store_session_unref(st, t->s);
	sli_free(t);
}

struct store_set *
store_set_find(struct store *st, uint64_t id)
{
	return id ? sli_map_get(st->sets, set_key(&id)) : NULL;
}

/* Named and committed, or dropped: calls with its number find nothing. */
void
store_set_close(struct store *st, struct store_set *t)
{
	if (t->gone)
		return;
	t->gone = 1;
	(void)sli_map_del(st->sets, set_key(&t->id));
	sli_list_del(&t->node);
	store_set_unref(st, t);
}

uint64_t
store_part_begin(struct store *st, const char *sid)
{
	struct store_session *s = store_session_find(st, sid);
	struct store_set *t;

	if (!s || st->last_set >= STORE_SET_MAX)
		return 0;
	t = sli_zalloc(sizeof(*t));
	if (!t)
		return 0;
	t->id = st->last_set + 1;
	if (sli_map_put(st->sets, set_key(&t->id), t) < 0) {
		sli_free(t);
		return 0;
	}
	st->last_set++;
	t->s = store_session_ref(s);
	t->refs = 1;
	sli_list_add_tail(&s->sets, &t->node);
	sli_hash_init(&t->hash);
	return t->id;
}

void
store_part_append(struct store *st, uint64_t set, struct sli_slice bytes)
{
	struct store_set *t = store_set_find(st, set);
	struct store_job *j;
	uint8_t *p;

	if (!t || bytes.n == 0)
		return;
	j = store_job_pack(NULL, 0, bytes.n, &p);
	if (!j) {
		t->lost = 1;
		return;
	}
	memcpy(p, bytes.p, bytes.n);
	j->op = STORE_OP_PART;
	j->frames = p;
	j->frames_len = bytes.n;
	j->set = t;
	t->refs++;
	store_submit(st, j, t->s, NULL, NULL);
}

void
store_part_drop(struct store *st, uint64_t set)
{
	struct store_set *t = store_set_find(st, set);
	struct store_job *j;

	if (!t)
		return;
	j = store_job_pack(NULL, 0, 0, NULL);
	if (j) {
		j->op = STORE_OP_DROP;
		j->flags = STORE_BARRIER;
		j->set = t;
		t->refs++;
		store_submit(st, j, t->s, NULL, NULL);
	}
	store_set_close(st, t);
}

/* --- writer ---------------------------------------------------------------*/

/* Pieces of one set, filled up to their size across appends. */
struct fill {
	struct store_writer *w;
	struct store_set *t;
	size_t n;
};

static int
put_piece(struct fill *f)
{
	struct sli_slice body = sli_slice_of(f->w->piece, f->n);
	int64_t id;

	if (f->n == 0)
		return SQLITE_OK;
	f->t->len += f->n;
	id = store_piece_key(f->t->id, f->t->len);
	f->n = 0;
	return store_db_run(f->w->db, SQL_PIECE_ADD, "iib", id,
	    store_piece_sum(id, body), body);
}

static int
put_bytes(struct fill *f, struct sli_slice in)
{
	int rc = SQLITE_OK;

	while (rc == SQLITE_OK && in.n > 0) {
		size_t n = SLI_MIN(in.n, STORE_PIECE_MAX - f->n);

		memcpy(f->w->piece + f->n, in.p, n);
		f->n += n;
		in = sli_slice_of(in.p + n, in.n - n);
		if (f->n == STORE_PIECE_MAX)
			rc = put_piece(f);
	}
	return rc;
}

static int
may_append(const struct store_job *j, size_t waiting)
{
	const struct store_set *t = j->set;

	return j->code == SLI_OK && !t->failed && j->s->now.exists &&
	       t->len + waiting + j->frames_len <= STORE_OFF_MAX;
}

enum sli_err
store_parts_append(
    struct store_writer *w, struct store_job *j, struct store_job **ret_next)
{
	struct fill f = {.w = w, .t = j->set};
	int rc = SQLITE_OK;

	for (; rc == SQLITE_OK && j && j->op == STORE_OP_PART && j->set == f.t;
	     j = j->next) {
		struct sli_slice in = sli_slice_of(j->frames, j->frames_len);

		if (!may_append(j, f.n)) {
			f.t->failed = 1;
			continue;
		}
		sli_hash_update(&f.t->hash, in.p, in.n);
		rc = put_bytes(&f, in);
	}
	if (rc == SQLITE_OK)
		rc = put_piece(&f);
	*ret_next = j;
	if ((rc & 0xff) == SQLITE_CONSTRAINT)
		return SLI_E_STORE;
	return store_db_err(rc);
}

enum sli_err
store_parts_name(
    struct store_writer *w, const struct store_rec *r, uint64_t seq)
{
	const struct store_set *t = r->set;

	if (t->failed)
		return SLI_E_DATA_LOSS;
	if (t->len != r->length)
		return SLI_E_INVALID_ARGUMENT;
	return store_db_err(store_db_run(w->db, SQL_SET_ADD, "iiii",
	    (int64_t)t->id, (int64_t)t->s->sno, (int64_t)seq, (int64_t)t->len));
}

/* A set that no event will name belongs to nobody: session 0, event 0. */
static enum sli_err
doom_set(struct store_writer *w, uint64_t id, uint64_t len)
{
	int rc = store_db_run(w->db, SQL_SET_ADD, "iiii", (int64_t)id,
	    (int64_t)0, (int64_t)0, (int64_t)len);

	if (rc == SQLITE_OK)
		rc =
		    store_db_run(w->db, SQL_DOOM, "ii", (int64_t)0, (int64_t)0);
	w->purge = 1;
	return store_db_err(rc);
}

enum sli_err
store_parts_drop(struct store_writer *w, const struct store_set *t)
{
	return t->len ? doom_set(w, t->id, t->len) : SLI_OK;
}

/* Seeks from set to set, never through the bytes. */
static int
next_orphan(struct store_writer *w, uint64_t *io_set)
{
	sqlite3_stmt *q;
	int rc;

	for (;;) {
		q = store_db_query(w->db, &rc, SQL_PIECE_NEXT, "i",
		    store_piece_key(*io_set, STORE_OFF_MAX));
		if (!q)
			return rc;
		rc = sqlite3_step(q);
		if (rc == SQLITE_ROW)
			*io_set = store_db_u64(q, 0) >> STORE_OFF_BITS;
		store_db_reset(q);
		if (rc != SQLITE_ROW)
			return rc;
		q = store_db_query(
		    w->db, &rc, SQL_SET_GET, "i", (int64_t)*io_set);
		if (!q)
			return rc;
		rc = sqlite3_step(q);
		store_db_reset(q);
		if (rc != SQLITE_ROW)
			return rc == SQLITE_DONE ? SQLITE_ROW : rc;
	}
}

enum sli_err
store_parts_sweep(struct store_writer *w)
{
	enum sli_err e = SLI_OK;
	uint64_t set = 0;
	unsigned n = 0;
	int rc = store_db_run(w->db, SQL_BEGIN, "");

	while (rc == SQLITE_OK && e == SLI_OK) {
		rc = next_orphan(w, &set);
		if (rc == SQLITE_ROW) {
			e = doom_set(w, set, 0);
			n++;
			rc = SQLITE_OK;
		}
	}
	if (rc == SQLITE_DONE)
		rc = SQLITE_OK;
	if (e == SLI_OK)
		e = store_db_err(rc);
	if (e == SLI_OK)
		e = store_db_err(store_db_run(w->db, SQL_COMMIT, ""));
	if (e != SLI_OK)
		(void)store_db_rollback(w->db);
	if (e == SLI_OK && n > 0)
		sli_log(SLI_LOG_NOTICE, "store", "swept",
		    "sets=%u left by an unclean end", n);
	return e;
}
