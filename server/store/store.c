/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing: the lock, the file, the threads, what is known of the
 * sessions at start. Everything else has a file of its own. */
#include "store/db.h"
#include "store/int.h"
#include "store/reader.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "crypto/random.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static void
defaults(struct store_cfg *c)
{
	if (c->readers == 0)
		c->readers = 2;
	c->readers = SLI_MIN(c->readers, STORE_READERS_MAX);
	if (c->budget == 0)
		c->budget = UINT64_C(64) << 20;
	if (c->session_budget == 0)
		c->session_budget = UINT64_C(2) << 20;
	if (c->cache_bytes == 0)
		c->cache_bytes = UINT64_C(64) << 20;
	if (c->tail_bytes == 0)
		c->tail_bytes = STORE_TAIL_BYTES;
	if (c->tails_bytes == 0)
		c->tails_bytes = UINT64_C(16) << 20;
	if (c->page_bytes == 0)
		c->page_bytes = STORE_PAGE_BYTES;
	if (c->wal_warn_bytes == 0)
		c->wal_warn_bytes = UINT64_C(256) << 20;
	if (c->ballast_bytes == 0)
		c->ballast_bytes = UINT64_C(16) << 20;
}

/* Ours alone from the first byte: SQLite gives its other files the mode of the
 * first. Before any connection: closing a descriptor of the file would drop
 * the locks of all of them. */
static enum sli_err
touch(struct store *st, struct sli_errinfo *ei)
{
	int fd = openat(st->dirfd, "history.db",
	    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "store.open",
		    "cannot open %s", st->path);
	sli_fd_close(&fd);
	return SLI_OK;
}

static enum sli_err
open_files(struct store *st, struct sli_errinfo *ei)
{
	enum sli_err e;

	st->dirfd = open(st->cfg.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (st->dirfd < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "store.open",
		    "cannot open the state directory %s", st->cfg.dir);
	st->path = sli_asprintf("%s/history.db", st->cfg.dir);
	if (!st->path)
		return sli_fail(ei, SLI_E_NOMEM, 0, "store.open", "no memory");
	e = store_lock(st->dirfd, st->cfg.dir, &st->lockfd, ei);
	if (e == SLI_OK)
		e = touch(st, ei);
	if (e == SLI_OK)
		e = store_db_open(&st->w.db, st->path, STORE_DB_WRITER,
		    st->cfg.cache_bytes, ei);
	if (e == SLI_OK)
		e = store_migrate(st->w.db, ei);
	if (e == SLI_OK)
		e = store_db_open(
		    &st->front, st->path, STORE_DB_READER, 2 << 20, ei);
	return e;
}

/* --- what is there --------------------------------------------------------*/

struct adding {
	struct store *st;
	int nomem;
};

static void
add_session(void *ctx, const struct store_session_row *row)
{
	struct adding *a = ctx;
	struct store_session *s;

	/* The number is filled in by number(): it is no business of callers. */
	s = a->nomem ? NULL : store_session_add(a->st, row->id, 0);
	if (!s) {
		a->nomem = 1;
		return;
	}
	s->head = row->head;
	s->low = row->low;
	s->bytes = row->bytes;
	memcpy(s->chain, row->chain, sizeof(s->chain));
	s->now = (struct store_wstate){
	    .head = row->head,
	    .low = row->low,
	    .bytes = row->bytes,
	    .turn = row->turn,
	    .outcome = row->outcome,
	    .exists = 1,
	};
	memcpy(s->now.chain, row->chain, sizeof(s->now.chain));
	s->kept = s->now;
}

static int
one_number(struct store_db *db, enum store_sql id, uint64_t *ret)
{
	sqlite3_stmt *q;
	int rc;

	q = store_db_query(db, &rc, id, "");
	if (!q)
		return rc;
	rc = sqlite3_step(q);
	if (rc == SQLITE_ROW)
		*ret = store_db_u64(q, 0);
	store_db_reset(q);
	return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int
number(struct store *st)
{
	sqlite3_stmt *q;
	int rc;

	q = store_db_query(st->front, &rc, SQL_SESSION_ALL, "");
	while (q && (rc = sqlite3_step(q)) == SQLITE_ROW) {
		struct store_session *s = sli_map_get(
		    st->sessions, sli_slice_str(store_db_text(q, 1)));

		if (s)
			s->sno = store_db_u64(q, 0);
	}
	store_db_reset(q);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static enum sli_err
load(struct store *st, struct sli_errinfo *ei)
{
	struct adding a = {st, 0};
	enum sli_err e;
	int rc;

	e = store_load_sessions(st, add_session, &a, ei);
	if (e != SLI_OK)
		return e;
	if (a.nomem)
		return sli_fail(ei, SLI_E_NOMEM, 0, "store.open", "no memory");
	rc = number(st);
	if (rc == SQLITE_OK)
		rc = one_number(st->front, SQL_SESSION_LAST, &st->last_sno);
	/* Before the sweep, so that no number names old and new pieces. */
	if (rc == SQLITE_OK)
		rc = one_number(st->front, SQL_SET_LAST, &st->last_set);
	if (rc != SQLITE_OK)
		return store_db_fail(st->front, rc, "store.open", ei);
	st->w.purge = 1; /* perhaps; the first step finds out */
	e = store_parts_sweep(&st->w);
	/* Full or busy: they stay unreachable until the next start. */
	if (e == SLI_E_STORE)
		return store_db_fail(st->w.db,
		    sqlite3_extended_errcode(st->w.db->h), "store.sweep", ei);
	return SLI_OK;
}

/* --- life -----------------------------------------------------------------*/

static enum sli_err
start_threads(struct store *st, struct sli_errinfo *ei)
{
	sigset_t all, old;
	enum sli_err e;
	int rv = 0;

	/* Signals are the loop's. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	e = store_readers_start(st, ei);
	if (e == SLI_OK && !st->manual) {
		rv = pthread_create(
		    &st->w.thread, NULL, store_writer_main, &st->w);
		st->writer_started = rv == 0;
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rv != 0)
		e = sli_fail(ei, SLI_E_SYS, rv, "store.open",
		    "cannot start the writer thread");
	return e;
}

/* What store_close() relies on; NULL = no memory. */
static struct store *
blank(const struct store_cfg *cfg, int manual)
{
	struct store *st = sli_zalloc(sizeof(*st));

	if (!st)
		return NULL;
	st->cfg = *cfg;
	st->manual = manual;
	st->dirfd = st->lockfd = st->w.ballastfd = -1;
	sli_list_init(&st->lru);
	defaults(&st->cfg);
	st->sessions = sli_map_new();
	st->sets = sli_map_new();
	if (st->sessions && st->sets && store_queue_init(&st->q) == SLI_OK) {
		if (pthread_mutex_init(&st->rq.mu, NULL) == 0 &&
		    pthread_cond_init(&st->rq.cv, NULL) == 0)
			return st;
		store_queue_fini(&st->q);
	}
	sli_map_free(st->sessions);
	sli_map_free(st->sets);
	sli_free(st);
	return NULL;
}

static enum sli_err
open_it(const struct store_cfg *cfg, int manual, struct store **ret,
    struct sli_errinfo *ei)
{
	struct store *st = blank(cfg, manual);
	enum sli_err e;

	if (!st)
		return sli_fail(ei, SLI_E_NOMEM, 0, "store.open", "no memory");
	e = sli_crypto_init(ei);
	if (e == SLI_OK)
		e = open_files(st, ei);
	if (e == SLI_OK)
		e = store_writer_init(st, ei);
	if (e == SLI_OK)
		e = load(st, ei);
	if (e == SLI_OK) {
		store_ballast_make(&st->w);
		e = start_threads(st, ei);
	}
	if (e != SLI_OK) {
		store_close(st);
		return e;
	}
	st->opened = 1;
	sli_log(SLI_LOG_NOTICE, "store", "open",
	    "path=%s sqlite=%s sessions=%zu", st->path, sqlite3_libversion(),
	    sli_map_count(st->sessions));
	*ret = st;
	return SLI_OK;
}

enum sli_err
store_open(
    const struct store_cfg *cfg, struct store **ret, struct sli_errinfo *ei)
{
	return open_it(cfg, 0, ret, ei);
}

enum sli_err
store_open_manual(
    const struct store_cfg *cfg, struct store **ret, struct sli_errinfo *ei)
{
	return open_it(cfg, 1, ret, ei);
}

static void
free_sessions(struct store *st)
{
	struct store_session *s;
	size_t pos = 0;

	while (st->sessions && (s = sli_map_next(st->sessions, &pos))) {
		while (!sli_list_empty(&s->sets))
			store_set_close(st, SLI_LIST_ENTRY(s->sets.next,
						struct store_set, node));
		store_tail_drop(st, s, UINT64_MAX);
		(void)sli_map_del(st->sessions, sli_slice_str(s->id));
		/* A cursor that is still there holds the last reference. */
		SLI_ASSERT(s->refs == 1);
		store_session_unref(st, s);
	}
	sli_map_free(st->sessions);
	sli_map_free(st->sets);
}

void
store_close(struct store *st)
{
	if (!st)
		return;
	st->closing = 1;
	store_queue_stop(&st->q);
	if (st->writer_started)
		(void)pthread_join(st->w.thread, NULL);
	while (st->manual && st->opened && store_step_writer(st))
		;
	store_readers_stop(st);
	/* Answers may ask again and are refused, by post as well. */
	while (st->opened &&
	       (sli_mailbox_drain(st->cfg.mb) > 0 || st->outstanding > 0))
		;
	free_sessions(st);
	sli_free(st->w.vms.tail.v);
	store_db_close(st->front);
	/* The last connection: this one checkpoints what is left. */
	store_writer_fini(st);
	store_queue_fini(&st->q);
	(void)pthread_cond_destroy(&st->rq.cv);
	(void)pthread_mutex_destroy(&st->rq.mu);
	sli_fd_close(&st->w.ballastfd);
	sli_fd_close(&st->lockfd);
	sli_fd_close(&st->dirfd);
	sli_free(st->path);
	sli_free(st);
}

static uint64_t
size_of(const struct store *st, const char *name)
{
	struct stat sb;

	if (fstatat(st->dirfd, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (uint64_t)sb.st_size;
}

void
store_stats(const struct store *st, struct store_stats *ret)
{
	*ret = st->stats;
	ret->held = st->held;
	ret->queue_jobs = st->outstanding;
	ret->tail_bytes = st->tail_bytes;
	ret->db_bytes = size_of(st, "history.db");
	ret->wal_bytes = size_of(st, "history.db-wal");
	ret->full = atomic_load(&st->full);
	ret->damaged = atomic_load(&st->damaged);
}

/* --- tests ----------------------------------------------------------------*/

int
store_step_writer(struct store *st)
{
	struct store_job *list;
	int stop;

	list = store_queue_take(&st->q, 0, 1, &stop);
	if (!list)
		return 0;
	store_writer_turn(&st->w, list);
	return 1;
}

void
store_step_purge(struct store *st)
{
	while (st->w.purge && !st->w.broken)
		store_purge_step(&st->w);
}
