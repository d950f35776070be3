/* SPDX-License-Identifier: Apache-2.0 */
/* What the jobs of one session do inside the batch's transaction: run rows,
 * the head row, and, through rows.c and parts.c, everything else. A job that
 * does not fit is undone alone by a savepoint; an error of the database ends
 * the transaction. */
#include "store/db.h"
#include "store/frame.h"
#include "store/int.h"
#include "store/runs.h"

/* Does this result end the transaction, not just one job? */
static int
ends_all(enum sli_err e)
{
	return e == SLI_E_STORAGE_FULL || e == SLI_E_NOMEM ||
	       e == SLI_E_UNAVAILABLE || e == SLI_E_STORE;
}

/* Rows of the log are ours alone: a constraint there means the file and our
 * counters disagree. */
static enum sli_err
log_err(int rc)
{
	enum sli_err e = store_db_err(rc);

	return e == SLI_E_ABORTED ? SLI_E_STORE : e;
}

static const struct store_rec *
rec_of(const struct store_job *j, uint32_t ev_ix)
{
	for (uint32_t i = 0; i < j->nrec; i++)
		if (j->rec[i].set && j->rec[i].ev_ix == ev_ix)
			return &j->rec[i];
	return NULL;
}

static void
body_hash(const struct store_job *j, uint32_t ev_ix, const struct sli_event *ev,
    uint8_t ret[SLI_HASH_BYTES])
{
	const struct store_rec *r;
	struct sli_hash h;

	if (!ev->parts) {
		sli_hash_once(ev->body, ret);
		return;
	}
	r = rec_of(j, ev_ix);
	SLI_ASSERT(r != NULL);
	/* A copy: the commit may fail and be tried again. */
	h = r->set->hash;
	sli_hash_final(&h, ret);
}

static enum sli_err
add_events(
    struct store_writer *w, struct store_session *s, const struct store_job *j)
{
	uint8_t hash[SLI_HASH_BYTES];
	struct sli_event ev;
	size_t at = 0, len;
	int rc;

	for (uint32_t i = 0; i < j->nev; i++) {
		len = store_frame_get(j->frames + at, j->frames_len - at, &ev);
		SLI_ASSERT(len > 0);
		body_hash(j, i, &ev, hash);
		rc = store_run_add(w->run, j->frames + at, len, &ev, hash);
		if (rc != SQLITE_OK)
			return log_err(rc);
		s->now.head++;
		s->now.bytes += ev.length;
		at += len;
	}
	SLI_ASSERT(at == j->frames_len);
	return SLI_OK;
}

static enum sli_err
apply_changes(
    struct store_writer *w, struct store_session *s, struct store_job *j)
{
	enum sli_err e = SLI_OK;
	uint64_t request = 0, seq;

	if (j->op == STORE_OP_NEW) {
		e = store_rows_new(w, j);
		s->now.exists = e == SLI_OK;
	}
	for (uint32_t i = 0; e == SLI_OK && i < j->nrec; i++) {
		const struct store_rec *r = &j->rec[i];

		/* A change without an event belongs to the next one, or to
		 * the head when there is none. */
		seq = s->now.head + r->ev_ix + (r->has_event ? 1 : 0);
		if (r->set)
			e = store_parts_name(w, r, seq);
		if (e == SLI_OK)
			e = store_rows_change(w, s, r, seq, &request);
	}
	return e;
}

static enum sli_err
apply_commit(
    struct store_writer *w, struct store_session *s, struct store_job *j)
{
	struct store_wstate before = s->now;
	enum sli_err e = SLI_OK;
	int rc;

	if (s->now.exists == (j->op == STORE_OP_NEW)) {
		j->code =
		    s->now.exists ? SLI_E_ALREADY_EXISTS : SLI_E_NOT_FOUND;
		return SLI_OK;
	}
	if (s->now.head + j->nev > STORE_SEQ_MAX) {
		j->code = SLI_E_RESOURCE_EXHAUSTED;
		return SLI_OK;
	}
	if (j->nrec > 0 || j->op == STORE_OP_NEW) {
		rc = store_db_run(w->db, SQL_SAVE, "");
		if (rc != SQLITE_OK)
			return log_err(rc);
		e = apply_changes(w, s, j);
		if (ends_all(e))
			return e;
		if (e != SLI_OK) {
			rc = store_db_run(w->db, SQL_SAVE_UNDO, "");
			s->now = before;
			j->code = e;
		}
		if (rc == SQLITE_OK)
			rc = store_db_run(w->db, SQL_SAVE_DONE, "");
		if (rc != SQLITE_OK || e != SLI_OK)
			return log_err(rc);
	}
	if (j->nev > 0)
		j->first_seq = s->now.head + 1;
	return add_events(w, s, j);
}

static enum sli_err
flush(struct store_writer *w, struct store_session *s)
{
	int rc = store_run_flush(w->run);

	memcpy(s->now.chain, w->run->chain, sizeof(s->now.chain));
	return log_err(rc);
}

static enum sli_err
apply_job(struct store_writer *w, struct store_session *s, struct store_job *j,
    struct store_job **ret_next)
{
	enum sli_err e;

	switch (j->op) {
	case STORE_OP_VM_PUT:
	case STORE_OP_VM_DEL:
		e = store_rows_vm(w, j);
		break;
	case STORE_OP_NEW:
	case STORE_OP_COMMIT:
		return apply_commit(w, s, j);
	case STORE_OP_DEL:
		e = flush(w, s);
		if (e == SLI_OK)
			e = store_rows_del(w, s);
		break;
	case STORE_OP_TRIM:
		e = flush(w, s);
		if (e == SLI_OK)
			e = store_rows_trim(w, s, j);
		break;
	case STORE_OP_PART:
		return store_parts_append(w, j, ret_next);
	case STORE_OP_DROP:
	default:
		SLI_ASSERT(j->op == STORE_OP_DROP);
		e = store_parts_drop(w, j->set);
		break;
	}
	if (e != SLI_OK && !ends_all(e)) {
		j->code = e;
		e = SLI_OK;
	}
	return e;
}

enum sli_err
store_apply_session(struct store_writer *w, struct store_session *s)
{
	struct store_job *next;
	enum sli_err e = SLI_OK;
	int rc;

	store_run_begin(w->run, s->sno, s->now.head + 1, s->now.chain);
	for (struct store_job *j = s->b_first; e == SLI_OK && j; j = next) {
		next = j->next;
		if (j->code == SLI_OK)
			e = apply_job(w, s, j, &next);
	}
	if (e == SLI_OK)
		e = flush(w, s);
	if (e != SLI_OK || !s->now.exists || s->sno == 0 ||
	    memcmp(&s->now, &s->kept, sizeof(s->now)) == 0)
		return e;
	rc = store_db_run(w->db, SQL_HEAD_SET, "iiibiii", (int64_t)s->sno,
	    (int64_t)s->now.head, (int64_t)s->now.bytes,
	    sli_slice_of(s->now.chain, sizeof(s->now.chain)),
	    (int64_t)s->now.turn, (int64_t)s->now.outcome, w->wall_ms);
	return log_err(rc);
}
