/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, turns, permissions and VMs as rows: the changes that travel with
 * events, each checked against what is stored. Writer thread, inside a
 * transaction and, for changes, inside the job's savepoint. */
#include "store/db.h"
#include "store/int.h"

#define BIT(s) (1u << SLI_PS_##s)

/* From which states a permission may get here. */
static const unsigned perm_from[] = {
    [SLI_PS_ANSWERED] = BIT(PENDING),
    [SLI_PS_DELIVERED] = BIT(ANSWERED),
    [SLI_PS_EXPIRED] = BIT(PENDING) | BIT(ANSWERED),
    [SLI_PS_CANCELED] = BIT(PENDING) | BIT(ANSWERED),
};

enum sli_err
store_rows_new(struct store_writer *w, const struct store_job *j)
{
	const struct store_session_row *r = j->row.session;
	int rc;

	if (r->state < SLI_SS_OPENING || r->state > SLI_SS_DELETED)
		return SLI_E_INVALID_ARGUMENT;
	rc = store_db_run(w->db, SQL_SESSION_ADD, "itittbtiittii",
	    (int64_t)j->s->sno, r->id, (int64_t)r->tenant, r->vm, r->agent,
	    r->open_req, r->agent_session, (int64_t)r->generation,
	    (int64_t)r->state, r->reason_code, r->reason, (int64_t)r->epoch,
	    r->created_ms);
	if ((rc & 0xff) == SQLITE_CONSTRAINT)
		return SLI_E_ALREADY_EXISTS;
	if (rc == SQLITE_OK)
		rc = store_db_run(
		    w->db, SQL_HEAD_ADD, "ii", (int64_t)j->s->sno, w->wall_ms);
	return store_db_err(rc);
}

/* ABORTED when the statement found no row that may be changed. */
static enum sli_err
one_row(struct store_writer *w, int rc)
{
	if (rc != SQLITE_OK)
		return store_db_err(rc);
	return sqlite3_changes(w->db->h) == 1 ? SLI_OK : SLI_E_ABORTED;
}

static enum sli_err
key_free(struct store_writer *w, uint64_t sno, const struct sli_change *c)
{
	enum sli_err e;
	sqlite3_stmt *q;
	int rc;

	if (c->key.n == 0)
		return SLI_OK;
	q = store_db_query(
	    w->db, &rc, SQL_TURN_KEY, "ib", (int64_t)sno, c->key);
	if (!q)
		return store_db_err(rc);
	rc = sqlite3_step(q);
	e = store_db_err(rc);
	if (rc == SQLITE_ROW)
		e = sli_slice_eq(store_db_blob(q, 0),
			sli_slice_of(c->prompt_hash, sizeof(c->prompt_hash)))
			? SLI_E_ALREADY_EXISTS
			: SLI_E_KEY_CONFLICT;
	store_db_reset(q);
	return e;
}

static enum sli_err
turn_new(struct store_writer *w, struct store_session *s,
    const struct sli_change *c, uint64_t seq, int64_t at_ms)
{
	enum sli_err e = key_free(w, s->sno, c);

	if (e != SLI_OK)
		return e;
	if (c->turn <= s->now.turn)
		return SLI_E_INVALID_ARGUMENT;
	e = store_db_err(store_db_run(w->db, SQL_TURN_ADD, "iikbiii",
	    (int64_t)s->sno, (int64_t)c->turn, c->key,
	    sli_slice_of(c->prompt_hash, sizeof(c->prompt_hash)),
	    c->deadline_ms, at_ms, (int64_t)seq));
	s->now.turn = c->turn;
	s->now.outcome = SLI_TO_NONE;
	return e;
}

static enum sli_err
turn_end(struct store_writer *w, struct store_session *s,
    const struct sli_change *c, uint64_t seq, int64_t at_ms)
{
	if (c->outcome <= SLI_TO_NONE || c->outcome > SLI_TO_BUDGET_EXCEEDED)
		return SLI_E_INVALID_ARGUMENT;
	if (c->turn == s->now.turn)
		s->now.outcome = c->outcome;
	return one_row(
	    w, store_db_run(w->db, SQL_TURN_END, "iiitii", (int64_t)s->sno,
		   (int64_t)c->turn, (int64_t)c->outcome, c->reason_code, at_ms,
		   (int64_t)seq));
}

static enum sli_err
perm_set(struct store_writer *w, const struct store_session *s,
    const struct sli_change *c, uint64_t request, int64_t at_ms)
{
	if (c->perm_state < SLI_PS_ANSWERED || c->perm_state > SLI_PS_CANCELED)
		return SLI_E_INVALID_ARGUMENT;
	return one_row(
	    w, store_db_run(w->db, SQL_PERM_SET, "iiikkii", (int64_t)s->sno,
		   (int64_t)request, (int64_t)c->perm_state, c->option,
		   c->answer_key, at_ms, (int64_t)perm_from[c->perm_state]));
}

enum sli_err
store_rows_change(struct store_writer *w, struct store_session *s,
    const struct store_rec *r, uint64_t seq, uint64_t *io_request)
{
	const struct sli_change *c = &r->ch;
	int64_t at = r->at_ms ? r->at_ms : w->wall_ms, sno = (int64_t)s->sno;
	enum sli_err e = SLI_OK;

	if (c->what & SLI_CH_STATE)
		e = c->state < SLI_SS_OPENING || c->state > SLI_SS_DELETED
			? SLI_E_INVALID_ARGUMENT
			: store_db_err(store_db_run(w->db, SQL_SESSION_STATE,
			      "iitt", sno, (int64_t)c->state, c->reason_code,
			      c->reason));
	if (e == SLI_OK && (c->what & SLI_CH_AGENT))
		e = store_db_err(store_db_run(w->db, SQL_SESSION_AGENT, "iti",
		    sno, c->agent_session, (int64_t)c->generation));
	if (e == SLI_OK && (c->what & SLI_CH_TURN_NEW))
		e = turn_new(w, s, c, seq, at);
	if (e == SLI_OK && (c->what & SLI_CH_TURN_START))
		e = one_row(w, store_db_run(w->db, SQL_TURN_START, "iii", sno,
				   (int64_t)c->turn, at));
	if (e == SLI_OK && (c->what & SLI_CH_TURN_END))
		e = turn_end(w, s, c, seq, at);
	if (e == SLI_OK && (c->what & SLI_CH_PERM_NEW)) {
		/* The request is named by its event. */
		e = !r->has_event
			? SLI_E_INVALID_ARGUMENT
			: store_db_err(
			      store_db_run(w->db, SQL_PERM_ADD, "iiibiii", sno,
				  (int64_t)seq, (int64_t)c->turn, c->rpc_id,
				  (int64_t)c->generation, at, c->expires_ms));
		*io_request = seq;
	}
	if (e == SLI_OK && (c->what & SLI_CH_PERM_SET))
		e = perm_set(
		    w, s, c, c->request ? c->request : *io_request, at);
	return e;
}

static enum sli_err
doom(struct store_writer *w, uint64_t sno, uint64_t last)
{
	w->purge = 1;
	return store_db_err(
	    store_db_run(w->db, SQL_DOOM, "ii", (int64_t)sno, (int64_t)last));
}

/* The rows that lead to the history go now, the history itself in steps. */
enum sli_err
store_rows_del(struct store_writer *w, struct store_session *s)
{
	static const enum store_sql steps[] = {
	    SQL_PERM_WIPE, SQL_TURN_WIPE, SQL_HEAD_DEL, SQL_SESSION_DEL};

	if (!s->now.exists)
		return SLI_E_NOT_FOUND;
	for (unsigned i = 0; i < SLI_ARRAY_LEN(steps); i++) {
		enum sli_err e = store_db_err(
		    store_db_run(w->db, steps[i], "i", (int64_t)s->sno));

		if (e != SLI_OK)
			return e == SLI_E_ABORTED ? SLI_E_STORE : e;
	}
	s->now.exists = 0;
	return doom(w, s->sno, STORE_SEQ_MAX);
}

/* Only whole runs go: the run before the new low keeps the link of the chain
 * that the rest hangs on. */
enum sli_err
store_rows_trim(
    struct store_writer *w, struct store_session *s, struct store_job *j)
{
	uint64_t want = SLI_MIN(j->low, s->now.head + 1), low = s->now.low;
	uint8_t link[SLI_HASH_BYTES] = {0};
	sqlite3_stmt *q;
	int rc;

	if (!s->now.exists)
		return SLI_E_NOT_FOUND;
	if (want > low) {
		q = store_db_query(w->db, &rc, SQL_RUN_LAST, "ii",
		    store_key(s->sno, want - 1), store_key(s->sno, low));
		if (!q)
			return store_db_err(rc);
		rc = sqlite3_step(q);
		if (rc == SQLITE_ROW && store_db_blob(q, 1).n == sizeof(link)) {
			low = (store_db_u64(q, 0) & STORE_SEQ_MAX) + 1;
			memcpy(link, store_db_blob(q, 1).p, sizeof(link));
		}
		store_db_reset(q);
		if (store_db_err(rc) != SLI_OK)
			return store_db_err(rc);
	}
	j->first_seq = low;
	if (low == s->now.low)
		return SLI_OK;
	s->now.low = low;
	rc = store_db_run(w->db, SQL_SESSION_LOW, "iib", (int64_t)s->sno,
	    (int64_t)low, sli_slice_of(link, sizeof(link)));
	if (rc != SQLITE_OK)
		return store_db_err(rc);
	return doom(w, s->sno, low - 1);
}

enum sli_err
store_rows_vm(struct store_writer *w, const struct store_job *j)
{
	const struct store_vm_row *r = j->row.vm;

	if (j->op == STORE_OP_VM_DEL)
		return store_db_err(
		    store_db_run(w->db, SQL_VM_DEL, "t", r->id));
	return store_db_err(
	    store_db_run(w->db, SQL_VM_PUT, "tiitbi", r->id, (int64_t)r->tenant,
		(int64_t)r->state, r->reason, r->spec, r->created_ms));
}
