/* SPDX-License-Identifier: Apache-2.0 */
/* What the writer does between transactions: checkpoints, giving back the
 * space of deleted history in small steps, and the ballast, a file that is
 * given up when the disk fills, so that what ends a turn can still commit. */
#include "store/db.h"
#include "store/int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Pages of the write-ahead log: when to checkpoint, when to insist. */
#define WAL_CHECKPOINT 4000u
#define WAL_RESTART    16384u
/* Wait for foreign readers when insisting. */
#define INSIST_MS 100
#define RETRY_NS  (INT64_C(1000) * 1000000)

/* One step stays within a few milliseconds and a few MiB. */
#define PURGE_RUNS   256
#define PURGE_PIECES 32

static void
checkpoint_failed(struct store_writer *w, int rc)
{
	enum sli_err e = store_db_err(rc);

	if (e == SLI_E_STORAGE_FULL)
		store_ballast_release(w);
	else if (e != SLI_E_UNAVAILABLE && e != SLI_E_NOMEM)
		store_writer_broke(w, rc, "store.checkpoint");
	/* Otherwise the log stays; the next one does it. */
}

/* A reader of another program holds an old snapshot; ours never do. */
static int
insist(struct store_writer *w)
{
	uint64_t bytes = (uint64_t)w->wal_pages * 4096;

	(void)sqlite3_busy_timeout(w->db->h, INSIST_MS);
	if (bytes < w->st->cfg.wal_warn_bytes)
		return SQLITE_CHECKPOINT_RESTART;
	sli_log(SLI_LOG_WARN, "store", "wal_long",
	    "bytes=%llu another program reads %s and holds up the checkpoint",
	    (unsigned long long)bytes, w->st->path);
	return SQLITE_CHECKPOINT_TRUNCATE;
}

void
store_checkpoint(struct store_writer *w)
{
	int mode = SQLITE_CHECKPOINT_PASSIVE, log = 0, done = 0, rc;
	int64_t now;

	if (w->broken || w->wal_pages < WAL_CHECKPOINT)
		return;
	now = sli_mono_ns();
	if (now < w->wal_try_ns)
		return;
	if (w->wal_pages >= WAL_RESTART)
		mode = insist(w);
	rc = sqlite3_wal_checkpoint_v2(w->db->h, NULL, mode, &log, &done);
	if (mode != SQLITE_CHECKPOINT_PASSIVE)
		(void)sqlite3_busy_timeout(w->db->h, 2000);
	if (rc != SQLITE_OK)
		checkpoint_failed(w, rc);
	if (rc == SQLITE_OK && log == done)
		w->wal_pages = 0; /* the next commit starts it anew */
	else
		w->wal_try_ns = now + RETRY_NS / 10;
}

/* --- giving space back ----------------------------------------------------*/

static int
step_run(struct store_writer *w, enum store_sql id, int64_t from, int64_t to,
    int64_t most, int *ret_n)
{
	int rc = store_db_run(w->db, id, "iii", from, to, most);

	*ret_n = rc == SQLITE_OK ? sqlite3_changes(w->db->h) : 0;
	return rc;
}

static int
step_set(struct store_writer *w, int64_t sno, int64_t last, int *ret_n)
{
	sqlite3_stmt *q;
	int64_t set;
	int rc;

	q = store_db_query(w->db, &rc, SQL_PURGE_SET, "ii", sno, last);
	if (!q)
		return rc;
	rc = sqlite3_step(q);
	set = rc == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
	store_db_reset(q);
	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? SQLITE_OK : rc;
	rc = step_run(w, SQL_PURGE_PIECES, store_piece_key((uint64_t)set, 0),
	    store_piece_key((uint64_t)set, STORE_OFF_MAX), PURGE_PIECES, ret_n);
	if (rc == SQLITE_OK && *ret_n == 0) {
		*ret_n = 1;
		rc = store_db_run(w->db, SQL_PURGE_SET_DONE, "i", set);
	}
	return rc;
}

/* Something of the first doomed row; *ret_more = there may be more. */
static int
step(struct store_writer *w, int *ret_more)
{
	int64_t sno = 0, last = 0;
	sqlite3_stmt *q;
	int rc, n = 0;

	q = store_db_query(w->db, &rc, SQL_DOOMED, "");
	if (!q)
		return rc;
	rc = sqlite3_step(q);
	*ret_more = rc == SQLITE_ROW;
	if (rc == SQLITE_ROW) {
		sno = sqlite3_column_int64(q, 0);
		last = sqlite3_column_int64(q, 1);
	}
	store_db_reset(q);
	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? SQLITE_OK : rc;
	rc = step_run(w, SQL_PURGE_RUNS, store_key((uint64_t)sno, 0),
	    store_key((uint64_t)sno, (uint64_t)last), PURGE_RUNS, &n);
	if (rc == SQLITE_OK && n == 0)
		rc = step_set(w, sno, last, &n);
	if (rc == SQLITE_OK && n == 0)
		rc = store_db_run(w->db, SQL_DOOMED_DONE, "i", sno);
	return rc;
}

void
store_purge_step(struct store_writer *w)
{
	int64_t now = sli_mono_ns();
	int more = 1, rc;

	if (w->broken || now < w->purge_try_ns)
		return;
	rc = store_db_run(w->db, SQL_BEGIN, "");
	if (rc == SQLITE_OK)
		rc = step(w, &more);
	if (rc == SQLITE_OK) {
		rc = store_db_run(w->db, SQL_COMMIT, "");
		/* As for any commit: only "full" has a known outcome. */
		if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_FULL)
			store_writer_broke(w, rc, "store.purge");
	}
	if (rc != SQLITE_OK && !w->broken) {
		if (store_db_rollback(w->db) != SQLITE_OK)
			rc = SQLITE_IOERR;
		if (store_db_err(rc) == SLI_E_STORE)
			store_writer_broke(w, rc, "store.purge");
		w->purge_try_ns = now + RETRY_NS;
		return;
	}
	w->purge = more;
	store_checkpoint(w);
}

/* --- ballast --------------------------------------------------------------*/

/* Real blocks, whatever the file system thinks of zeros. */
static int
fill(int fd, uint64_t want)
{
	uint64_t x = UINT64_C(0x9e3779b97f4a7c15), buf[1024];

	for (uint64_t at = 0; at < want; at += sizeof(buf)) {
		size_t n = (size_t)SLI_MIN(want - at, sizeof(buf));

		for (unsigned i = 0; i < SLI_ARRAY_LEN(buf); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			buf[i] = x;
		}
		if (pwrite(fd, buf, n, (off_t)at) != (ssize_t)n)
			return -1;
	}
	return fdatasync(fd);
}

static int
allocate(int fd, uint64_t want)
{
	struct stat sb;

	if (fstat(fd, &sb) < 0)
		return -1;
	if (sb.st_size == (off_t)want && (uint64_t)sb.st_blocks * 512 >= want)
		return 0;
	if (fallocate(fd, 0, 0, (off_t)want) < 0) {
		if (errno != EOPNOTSUPP)
			return -1;
		return fill(fd, want);
	}
	return ftruncate(fd, (off_t)want);
}

/* Back from "full" only with as much room again as the ballast takes, so that
 * the two states do not chase each other. */
static int
roomy(struct store_writer *w)
{
	struct statvfs v;

	if (fstatvfs(w->st->dirfd, &v) < 0)
		return 0;
	return (uint64_t)v.f_bavail * v.f_frsize >=
	       2 * w->st->cfg.ballast_bytes;
}

void
store_ballast_make(struct store_writer *w)
{
	int full = atomic_load(&w->st->full);
	int64_t now = sli_mono_ns();
	int fd;

	if (w->broken || now < w->ballast_try_ns)
		return;
	w->ballast_try_ns = now + RETRY_NS;
	if (full && !roomy(w))
		return;
	fd = openat(w->st->dirfd, "ballast",
	    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || allocate(fd, w->st->cfg.ballast_bytes) < 0) {
		if (fd >= 0 && ftruncate(fd, 0) < 0)
			sli_log(SLI_LOG_WARN, "store", "ballast",
			    "cannot be given back");
		sli_fd_close(&fd);
		atomic_store(&w->st->full, 1);
		return;
	}
	w->ballastfd = fd;
	atomic_store(&w->st->full, 0);
	if (full)
		sli_log(SLI_LOG_NOTICE, "store", "room",
		    "the disk has room again; history is accepted");
}

void
store_ballast_release(struct store_writer *w)
{
	if (!atomic_exchange(&w->st->full, 1))
		sli_log(SLI_LOG_WARN, "store", "full",
		    "the disk of %s is full: only what ends things is kept",
		    w->st->path);
	w->ballast_try_ns = sli_mono_ns() + RETRY_NS;
	if (w->ballastfd < 0)
		return;
	if (ftruncate(w->ballastfd, 0) < 0)
		sli_log(SLI_LOG_WARN, "store", "ballast", "cannot be given up");
	sli_fd_close(&w->ballastfd);
}

int64_t
store_upkeep_due(const struct store_writer *w)
{
	int64_t due = 0;

	if (w->broken)
		return 0;
	if (w->purge)
		due = w->purge_try_ns ? w->purge_try_ns : 1;
	if (atomic_load(&w->st->full) && (due == 0 || w->ballast_try_ns < due))
		due = w->ballast_try_ns;
	return due;
}
