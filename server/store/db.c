/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the one SQLite file: pragmas, prepared statements, binding,
 * classes of results. Knows nothing of what the rows mean. */
#include "store/db.h"

#include "base/mem.h"
#include "base/mutant.h"
#include "base/str.h"

#include <stdarg.h>

static const char *const sql_text[SQL_COUNT] = {
#define X(name, text) [SQL_##name] = (text),
    STORE_SQL(X)
#undef X
};

/* How long a foreign lock is waited for; the writer retries on top. */
#define BUSY_MS 2000

static const char writer_pragmas[] = "PRAGMA journal_mode=WAL;"
				     "PRAGMA synchronous=FULL;"
				     "PRAGMA wal_autocheckpoint=4000;"
				     "PRAGMA journal_size_limit=67108864;"
				     "PRAGMA temp_store=MEMORY;"
				     "PRAGMA foreign_keys=ON;"
				     "PRAGMA trusted_schema=OFF;"
				     "PRAGMA cell_size_check=ON;"
				     "PRAGMA mmap_size=0;";

static const char reader_pragmas[] = "PRAGMA query_only=ON;"
				     "PRAGMA wal_autocheckpoint=0;"
				     "PRAGMA temp_store=MEMORY;"
				     "PRAGMA trusted_schema=OFF;"
				     "PRAGMA cell_size_check=ON;"
				     "PRAGMA mmap_size=0;";

enum sli_err
store_db_err(int rc)
{
	if (rc == SQLITE_IOERR_NOMEM)
		return SLI_E_NOMEM;
	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return SLI_OK;
	case SQLITE_FULL:
		return SLI_E_STORAGE_FULL;
	case SQLITE_NOMEM:
		return SLI_E_NOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_INTERRUPT:
		return SLI_E_UNAVAILABLE;
	case SQLITE_CONSTRAINT:
		return SLI_E_ABORTED;
	default:
		return SLI_E_STORE;
	}
}

enum sli_err
store_db_fail(
    struct store_db *db, int rc, const char *where, struct sli_errinfo *ei)
{
	int sys = db && db->h ? sqlite3_system_errno(db->h) : 0;

	if (rc == SQLITE_READONLY_DBMOVED)
		return sli_fail(ei, store_db_err(rc), 0, where,
		    "the history file was removed or replaced while the server "
		    "ran; put it back, or start with a new state directory");
	return sli_fail(ei, store_db_err(rc), sys, where, "%s (SQLite %d): %s",
	    sqlite3_errstr(rc), rc,
	    db && db->h ? sqlite3_errmsg(db->h) : "no connection");
}

int
store_db_exec(struct store_db *db, const char *sql)
{
	return sqlite3_exec(db->h, sql, NULL, NULL, NULL);
}

/* journal_mode answers with a row and no error when WAL is refused. */
static int
is_wal(struct store_db *db)
{
	sqlite3_stmt *q = NULL;
	int ok = 0;

	if (sqlite3_prepare_v2(db->h, "PRAGMA journal_mode", -1, &q, NULL) ==
		SQLITE_OK &&
	    sqlite3_step(q) == SQLITE_ROW)
		ok = strcmp(store_db_text(q, 0), "wal") == 0;
	sqlite3_finalize(q);
	return ok;
}

static int
configure(struct store_db *db, enum store_db_role role, uint64_t cache_bytes)
{
	char cache[64];
	int rc;

	rc = sqlite3_extended_result_codes(db->h, 1);
	if (rc == SQLITE_OK && role == STORE_DB_READER)
		rc = sqlite3_db_config(
		    db->h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (rc == SQLITE_OK)
		rc = store_db_exec(db,
		    role == STORE_DB_WRITER ? writer_pragmas : reader_pragmas);
	if (rc == SQLITE_OK && SLI_MUTATED(store_not_flushed))
		rc = store_db_exec(db, "PRAGMA synchronous=NORMAL");
	/* Negative: KiB instead of pages. */
	sli_snprintf(cache, sizeof(cache), "PRAGMA cache_size=-%llu",
	    (unsigned long long)(cache_bytes >> 10));
	if (rc == SQLITE_OK)
		rc = store_db_exec(db, cache);
	return rc;
}

enum sli_err
store_db_open(struct store_db **ret, const char *path, enum store_db_role role,
    uint64_t cache_bytes, struct sli_errinfo *ei)
{
	struct store_db *db = sli_zalloc(sizeof(*db));
	enum sli_err e;
	int rc;

	if (!db)
		return sli_fail(ei, SLI_E_NOMEM, 0, "store.open", "no memory");
	/* A connection has one user at a time, so no mutex of its own. */
	rc = sqlite3_open_v2(path, &db->h,
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
		(role == STORE_DB_WRITER ? SQLITE_OPEN_CREATE : 0),
	    NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(db->h, BUSY_MS);
	if (rc == SQLITE_OK && role == STORE_DB_WRITER) {
		e = store_migrate_check(db, ei);
		if (e != SLI_OK)
			goto fail;
	}
	if (rc == SQLITE_OK)
		rc = configure(db, role, cache_bytes);
	if (rc != SQLITE_OK) {
		e = store_db_fail(db, rc, "store.open", ei);
		goto fail;
	}
	if (!is_wal(db)) {
		e = sli_fail(ei, SLI_E_CONFIG, 0, "store.open",
		    "%s: this file system cannot do a write-ahead log; put "
		    "the state directory on a local disk",
		    path);
		goto fail;
	}
	*ret = db;
	return SLI_OK;
fail:
	store_db_close(db);
	return e;
}

void
store_db_close(struct store_db *db)
{
	if (!db)
		return;
	for (unsigned i = 0; i < SQL_COUNT; i++)
		sqlite3_finalize(db->q[i]);
	sqlite3_close(db->h);
	sli_free(db);
}

static int
bind_slice(sqlite3_stmt *q, int col, struct sli_slice s)
{
	/* Static: a statement is reset before its arguments die. */
	return sqlite3_bind_blob64(
	    q, col, s.n ? (const void *)s.p : "", s.n, SQLITE_STATIC);
}

static int
bind(struct store_db *db, enum store_sql id, const char *fmt, va_list ap)
{
	sqlite3_stmt *q;
	int rc = SQLITE_OK;

	if (!db->q[id])
		rc = sqlite3_prepare_v3(db->h, sql_text[id], -1,
		    SQLITE_PREPARE_PERSISTENT, &db->q[id], NULL);
	q = db->q[id];
	for (int col = 1; rc == SQLITE_OK && *fmt; col++, fmt++) {
		struct sli_slice s;
		const char *t;

		switch (*fmt) {
		case 'i':
			rc = sqlite3_bind_int64(q, col, va_arg(ap, int64_t));
			break;
		case 't':
			t = va_arg(ap, const char *);
			rc = sqlite3_bind_text(
			    q, col, t ? t : "", -1, SQLITE_STATIC);
			break;
		case 'b':
			rc = bind_slice(q, col, va_arg(ap, struct sli_slice));
			break;
		default:
			SLI_ASSERT(*fmt == 'k');
			s = va_arg(ap, struct sli_slice);
			rc = s.n ? bind_slice(q, col, s)
				 : sqlite3_bind_null(q, col);
			break;
		}
	}
	return rc;
}

int
store_db_run(struct store_db *db, enum store_sql id, const char *fmt, ...)
{
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = bind(db, id, fmt, ap);
	va_end(ap);
	if (rc == SQLITE_OK) {
		do
			rc = sqlite3_step(db->q[id]);
		while (rc == SQLITE_ROW);
	}
	store_db_reset(db->q[id]);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

sqlite3_stmt *
store_db_query(
    struct store_db *db, int *ret_rc, enum store_sql id, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	*ret_rc = bind(db, id, fmt, ap);
	va_end(ap);
	if (*ret_rc == SQLITE_OK)
		return db->q[id];
	store_db_reset(db->q[id]);
	return NULL;
}

void
store_db_reset(sqlite3_stmt *q)
{
	if (!q)
		return;
	(void)sqlite3_reset(q);
	(void)sqlite3_clear_bindings(q);
}

struct sli_slice
store_db_blob(sqlite3_stmt *q, int col)
{
	const void *p = sqlite3_column_blob(q, col);

	return sli_slice_of(p, p ? (size_t)sqlite3_column_bytes(q, col) : 0);
}

const char *
store_db_text(sqlite3_stmt *q, int col)
{
	const void *t = sqlite3_column_text(q, col);

	return t ? t : "";
}

uint64_t
store_db_u64(sqlite3_stmt *q, int col)
{
	return (uint64_t)sqlite3_column_int64(q, col);
}

int
store_db_rollback(struct store_db *db)
{
	/* Some errors have rolled back already. */
	if (sqlite3_get_autocommit(db->h))
		return SQLITE_OK;
	return store_db_run(db, SQL_ROLLBACK, "");
}

int
store_db_moved(struct store_db *db)
{
	int moved = 0;

	if (sqlite3_file_control(
		db->h, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK)
		return 0;
	return moved != 0;
}
