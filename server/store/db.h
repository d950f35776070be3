/* SPDX-License-Identifier: Apache-2.0 */
/* One SQLite connection with its prepared statements, and the one place that
 * turns SQLite's results into ours. A connection belongs to one thread at a
 * time. Only this room includes this header. */
#ifndef SLUICE_STORE_DB_H
#define SLUICE_STORE_DB_H

#include "base/err.h"
#include "base/slice.h"
#include "store/sql.h"

#include <sqlite3.h>

struct store_db {
	sqlite3 *h;
	sqlite3_stmt *q[SQL_COUNT];
};

enum store_db_role {
	STORE_DB_WRITER,
	STORE_DB_READER, /* query_only; never checkpoints, not at close */
};

/* CONFIG when the file is not ours or is newer, STORE when damaged, SYS,
 * STORAGE_FULL, NOMEM. */
SLI_MUST enum sli_err store_db_open(struct store_db **ret, const char *path,
    enum store_db_role role, uint64_t cache_bytes, struct sli_errinfo *ei);
void store_db_close(struct store_db *db);

/* Result classes: OK; STORAGE_FULL and NOMEM (roll back, go on); UNAVAILABLE
 * (a foreign lock, an interrupt); ABORTED (a constraint); STORE (everything
 * else: fail-stop). */
enum sli_err store_db_err(int rc);
/* The same as a filled error record. */
enum sli_err store_db_fail(
    struct store_db *db, int rc, const char *where, struct sli_errinfo *ei);

/* Bind by `fmt`, one letter an argument: i int64_t, t const char * (NULL as
 * ""), b struct sli_slice (never NULL), k struct sli_slice (empty = NULL).
 * store_db_run steps to the end and resets; store_db_query binds only and
 * gives the statement (NULL: *ret_rc says why), store_db_reset ends it. */
SLI_MUST int store_db_run(
    struct store_db *db, enum store_sql id, const char *fmt, ...);
SLI_MUST sqlite3_stmt *store_db_query(
    struct store_db *db, int *ret_rc, enum store_sql id, const char *fmt, ...);
void store_db_reset(sqlite3_stmt *q);
/* Ends an open transaction without effect; an SQLite result. */
int store_db_rollback(struct store_db *db);
/* 1 when the file is no longer at its path: removed, or another is there.
 * What is written then is not found again. */
int store_db_moved(struct store_db *db);
/* Schema text, pragmas: many statements at once. */
SLI_MUST int store_db_exec(struct store_db *db, const char *sql);

/* Columns, as ours. A blob is valid until the statement is stepped. */
struct sli_slice store_db_blob(sqlite3_stmt *q, int col);
const char *store_db_text(sqlite3_stmt *q, int col);
uint64_t store_db_u64(sqlite3_stmt *q, int col);

/* migrate.c: is this file ours, and not newer than we are? CONFIG. */
SLI_MUST enum sli_err store_migrate_check(
    struct store_db *db, struct sli_errinfo *ei);
/* Forward-only migration of the writer's connection. */
SLI_MUST enum sli_err store_migrate(
    struct store_db *db, struct sli_errinfo *ei);

#endif
