/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking walks over the rows, for the start of the server, on a connection
 * of their own. Column order is that of sql.h. */
#include "store/db.h"
#include "store/int.h"
#include "store/reader.h"

#include "base/str.h"

void
store_turn_read(sqlite3_stmt *q, struct store_turn_row *row)
{
	struct sli_slice hash = store_db_blob(q, 2);

	*row = (struct store_turn_row){
	    .turn = store_db_u64(q, 0),
	    .key = store_db_blob(q, 1),
	    .outcome = sqlite3_column_int(q, 3),
	    .reason_code = store_db_text(q, 4),
	    .created_ms = sqlite3_column_int64(q, 5),
	    .started_ms = sqlite3_column_int64(q, 6),
	    .completed_ms = sqlite3_column_int64(q, 7),
	    .first_seq = store_db_u64(q, 8),
	    .last_seq = store_db_u64(q, 9),
	};
	if (hash.n == sizeof(row->prompt_hash))
		memcpy(row->prompt_hash, hash.p, hash.n);
}

static void
session_read(sqlite3_stmt *q, struct store_session_row *row)
{
	struct sli_slice chain = store_db_blob(q, 16);

	*row = (struct store_session_row){
	    .tenant = store_db_u64(q, 2),
	    .agent = store_db_text(q, 4),
	    .open_req = store_db_blob(q, 5),
	    .agent_session = store_db_text(q, 6),
	    .generation = (uint32_t)store_db_u64(q, 7),
	    .state = sqlite3_column_int(q, 8),
	    .reason_code = store_db_text(q, 9),
	    .reason = store_db_text(q, 10),
	    .epoch = store_db_u64(q, 11),
	    .low = store_db_u64(q, 12),
	    .created_ms = sqlite3_column_int64(q, 13),
	    .head = store_db_u64(q, 14),
	    .bytes = store_db_u64(q, 15),
	    .turn = store_db_u64(q, 17),
	    .outcome = sqlite3_column_int(q, 18),
	    .updated_ms = sqlite3_column_int64(q, 19),
	};
	(void)sli_strlcpy(row->id, store_db_text(q, 1), sizeof(row->id));
	(void)sli_strlcpy(row->vm, store_db_text(q, 3), sizeof(row->vm));
	if (chain.n == sizeof(row->chain))
		memcpy(row->chain, chain.p, chain.n);
}

static enum sli_err
finish(struct store *st, sqlite3_stmt *q, int rc, struct sli_errinfo *ei)
{
	enum sli_err e = SLI_OK;

	if (rc != SQLITE_DONE)
		e = store_db_fail(st->front, rc, "store.load", ei);
	store_db_reset(q);
	return e;
}

enum sli_err
store_load_vms(struct store *st,
    void (*fn)(void *ctx, const struct store_vm_row *row), void *ctx,
    struct sli_errinfo *ei)
{
	struct store_vm_row row;
	sqlite3_stmt *q;
	int rc;

	q = store_db_query(st->front, &rc, SQL_VM_ALL, "");
	while (q && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		row = (struct store_vm_row){
		    .tenant = store_db_u64(q, 1),
		    .state = sqlite3_column_int(q, 2),
		    .reason = store_db_text(q, 3),
		    .spec = store_db_blob(q, 4),
		    .created_ms = sqlite3_column_int64(q, 5),
		};
		(void)sli_strlcpy(row.id, store_db_text(q, 0), sizeof(row.id));
		fn(ctx, &row);
	}
	return finish(st, q, rc, ei);
}

enum sli_err
store_load_sessions(struct store *st,
    void (*fn)(void *ctx, const struct store_session_row *row), void *ctx,
    struct sli_errinfo *ei)
{
	struct store_session_row row;
	sqlite3_stmt *q;
	int rc;

	q = store_db_query(st->front, &rc, SQL_SESSION_ALL, "");
	while (q && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		session_read(q, &row);
		fn(ctx, &row);
	}
	return finish(st, q, rc, ei);
}

enum sli_err
store_load_turns(struct store *st, const char *sid, unsigned limit,
    void (*fn)(void *ctx, const struct store_turn_row *row), void *ctx,
    struct sli_errinfo *ei)
{
	const struct store_session *s = store_session_find(st, sid);
	struct store_turn_row row;
	sqlite3_stmt *q;
	int rc;

	if (!s)
		return sli_fail(
		    ei, SLI_E_NOT_FOUND, 0, "store.load", "no such session");
	q = store_db_query(st->front, &rc, SQL_TURN_NEWEST, "ii",
	    (int64_t)s->sno, (int64_t)limit);
	while (q && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		store_turn_read(q, &row);
		fn(ctx, &row);
	}
	return finish(st, q, rc, ei);
}

enum sli_err
store_load_perms(struct store *st, const char *sid,
    void (*fn)(void *ctx, const struct store_perm_row *row), void *ctx,
    struct sli_errinfo *ei)
{
	const struct store_session *s = store_session_find(st, sid);
	struct store_perm_row row;
	sqlite3_stmt *q;
	int rc;

	if (!s)
		return sli_fail(
		    ei, SLI_E_NOT_FOUND, 0, "store.load", "no such session");
	q = store_db_query(
	    st->front, &rc, SQL_PERM_PENDING, "i", (int64_t)s->sno);
	while (q && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		row = (struct store_perm_row){
		    .request = store_db_u64(q, 0),
		    .turn = store_db_u64(q, 1),
		    .generation = (uint32_t)store_db_u64(q, 2),
		    .state = sqlite3_column_int(q, 3),
		    .rpc_id = store_db_blob(q, 4),
		    .option = store_db_blob(q, 5),
		    .answer_key = store_db_blob(q, 6),
		    .created_ms = sqlite3_column_int64(q, 7),
		    .expires_ms = sqlite3_column_int64(q, 8),
		};
		fn(ctx, &row);
	}
	return finish(st, q, rc, ei);
}
