/* SPDX-License-Identifier: Apache-2.0 */
/* The schema, as a list of steps that only goes forward. A file with a higher
 * version than this program knows is refused, never touched. */
#include "store/db.h"

#include "base/log.h"
#include "base/str.h"

#define APPLICATION_ID 0x534c5549 /* "SLUI" */

/* Numbers of states and outcomes are those of sessions.proto. */
static const char step1[] =
    "CREATE TABLE vm("
    "vm_id TEXT NOT NULL PRIMARY KEY, tenant INTEGER NOT NULL,"
    "state INTEGER NOT NULL, reason TEXT NOT NULL, spec BLOB NOT NULL,"
    "created_ms INTEGER NOT NULL) STRICT;"
    /* AUTOINCREMENT: a number is never given twice, so an event key never
     * means another session. */
    "CREATE TABLE session("
    "sno INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL UNIQUE,"
    "tenant INTEGER NOT NULL, vm_id TEXT NOT NULL, agent TEXT NOT NULL,"
    "open_req BLOB NOT NULL, agent_session TEXT NOT NULL,"
    "generation INTEGER NOT NULL,"
    "state INTEGER NOT NULL CHECK(state BETWEEN 1 AND 7),"
    "reason_code TEXT NOT NULL, reason TEXT NOT NULL,"
    "owner_epoch INTEGER NOT NULL, low_seq INTEGER NOT NULL DEFAULT 1,"
    "low_chain BLOB NOT NULL DEFAULT(zeroblob(32)),"
    "created_ms INTEGER NOT NULL) STRICT;"
    /* What changes with every commit, apart from the wide row above. */
    "CREATE TABLE head("
    "sno INTEGER PRIMARY KEY REFERENCES session, head_seq INTEGER NOT NULL,"
    "bytes INTEGER NOT NULL, chain BLOB NOT NULL CHECK(length(chain)=32),"
    "turn INTEGER NOT NULL, outcome INTEGER NOT NULL,"
    "updated_ms INTEGER NOT NULL) STRICT;"
    "CREATE TABLE turn("
    "sno INTEGER NOT NULL REFERENCES session, turn INTEGER NOT NULL,"
    "idem_key BLOB, prompt_hash BLOB NOT NULL,"
    "outcome INTEGER NOT NULL DEFAULT 0 CHECK(outcome BETWEEN 0 AND 8),"
    "reason_code TEXT NOT NULL DEFAULT '', deadline_ms INTEGER NOT NULL,"
    "created_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL DEFAULT 0,"
    "completed_ms INTEGER NOT NULL DEFAULT 0, first_seq INTEGER NOT NULL,"
    "last_seq INTEGER NOT NULL DEFAULT 0,"
    "PRIMARY KEY(sno,turn), UNIQUE(sno,idem_key)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE permission("
    "sno INTEGER NOT NULL REFERENCES session, request INTEGER NOT NULL,"
    "turn INTEGER NOT NULL, rpc_id BLOB NOT NULL,"
    "generation INTEGER NOT NULL,"
    "state INTEGER NOT NULL CHECK(state BETWEEN 1 AND 5), option BLOB,"
    "answer_key BLOB, created_ms INTEGER NOT NULL,"
    "expires_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL DEFAULT 0,"
    "PRIMARY KEY(sno,request)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE run("
    "id INTEGER PRIMARY KEY, n INTEGER NOT NULL, codec INTEGER NOT NULL,"
    "at_ms INTEGER NOT NULL, raw_len INTEGER NOT NULL, sum INTEGER NOT NULL,"
    "chain BLOB NOT NULL, body BLOB NOT NULL) STRICT;"
    "CREATE TABLE piece("
    "id INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL)"
    " STRICT;"
    "CREATE TABLE part_set("
    "pset INTEGER PRIMARY KEY, sno INTEGER NOT NULL, seq INTEGER NOT NULL,"
    "length INTEGER NOT NULL) STRICT;"
    "CREATE INDEX part_set_event ON part_set(sno,seq);"
    "CREATE TABLE doomed("
    "sno INTEGER PRIMARY KEY, last INTEGER NOT NULL) STRICT;";

static const char *const steps[] = {step1};

static int
read_number(struct store_db *db, const char *pragma, int64_t *ret)
{
	sqlite3_stmt *q = NULL;
	int rc = sqlite3_prepare_v2(db->h, pragma, -1, &q, NULL);

	if (rc == SQLITE_OK) {
		rc = sqlite3_step(q);
		if (rc == SQLITE_ROW)
			*ret = sqlite3_column_int64(q, 0);
	}
	sqlite3_finalize(q);
	return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int
apply(struct store_db *db, unsigned version)
{
	char pragma[96];
	int rc = store_db_exec(db, "BEGIN IMMEDIATE");

	if (rc == SQLITE_OK)
		rc = store_db_exec(db, steps[version]);
	sli_snprintf(pragma, sizeof(pragma),
	    "PRAGMA application_id=%d;PRAGMA user_version=%u", APPLICATION_ID,
	    version + 1);
	if (rc == SQLITE_OK)
		rc = store_db_exec(db, pragma);
	if (rc == SQLITE_OK)
		rc = store_db_exec(db, "COMMIT");
	if (rc != SQLITE_OK)
		(void)store_db_rollback(db);
	return rc;
}

/* Looks only: a file that is not ours must stay as it is. */
enum sli_err
store_migrate_check(struct store_db *db, struct sli_errinfo *ei)
{
	int64_t id = 0, have = 0, tables = 0;
	int rc = read_number(db, "PRAGMA application_id", &id);

	if (rc == SQLITE_OK)
		rc = read_number(db, "PRAGMA user_version", &have);
	if (rc == SQLITE_OK)
		rc = read_number(
		    db, "SELECT count(*) FROM sqlite_schema", &tables);
	if (rc != SQLITE_OK)
		return store_db_fail(db, rc, "store.open", ei);
	if (tables > 0 && id != APPLICATION_ID)
		return sli_fail(ei, SLI_E_CONFIG, 0, "store.open",
		    "the history file is an SQLite file of another program");
	if (have < 0 || have > (int64_t)SLI_ARRAY_LEN(steps))
		return sli_fail(ei, SLI_E_CONFIG, 0, "store.open",
		    "the history file has version %lld, this server knows up "
		    "to %zu: use a newer server",
		    (long long)have, SLI_ARRAY_LEN(steps));
	return SLI_OK;
}

enum sli_err
store_migrate(struct store_db *db, struct sli_errinfo *ei)
{
	int64_t have = 0;
	int rc = read_number(db, "PRAGMA user_version", &have);

	if (rc != SQLITE_OK)
		return store_db_fail(db, rc, "store.migrate", ei);
	if (have == (int64_t)SLI_ARRAY_LEN(steps))
		return SLI_OK;
	for (unsigned v = (unsigned)have; v < SLI_ARRAY_LEN(steps); v++) {
		rc = apply(db, v);
		if (rc != SQLITE_OK)
			return store_db_fail(db, rc, "store.migrate", ei);
		sli_log(
		    SLI_LOG_NOTICE, "store", "migrated", "version=%u", v + 1);
	}
	/* The schema itself shall not depend on the log. */
	rc = sqlite3_wal_checkpoint_v2(
	    db->h, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	if (rc != SQLITE_OK)
		return store_db_fail(db, rc, "store.migrate", ei);
	return SLI_OK;
}
