/* SPDX-License-Identifier: Apache-2.0 */
/* The one thread that writes and checkpoints. It takes all that is queued,
 * makes batches that give every session its turn, commits each as one
 * transaction, and answers after the commit. What a batch does to the rows is
 * in apply.c. */
#include "store/db.h"
#include "store/int.h"
#include "store/runs.h"

#include "base/clock.h"
#include "base/log.h"

/* A foreign lock is waited for about 10 s (each try: BUSY_MS of db.c). */
#define BUSY_TRIES 5

static int
on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
	struct store_writer *w = arg;

	(void)h;
	(void)name;
	w->wal_pages = (unsigned)pages;
	atomic_store_explicit(&w->st->wal_bytes, (uint64_t)w->wal_pages * 4096,
	    memory_order_relaxed);
	return SQLITE_OK;
}

enum sli_err
store_writer_init(struct store *st, struct sli_errinfo *ei)
{
	struct store_writer *w = &st->w;
	struct store_session *s = &w->vms;

	w->st = st;
	sli_list_init(&w->waiting);
	sli_list_init(&w->batch);
	sli_list_init(&s->w_node);
	sli_list_init(&s->b_node);
	s->now.exists = s->kept.exists = 1;
	s->refs = 1;
	sli_list_init(&s->lru);
	sli_list_init(&s->cursors);
	sli_list_init(&s->sets);
	w->run = sli_zalloc(sizeof(*w->run));
	w->piece = sli_alloc(STORE_PIECE_MAX);
	/* The longest run, or one event and its frame's head. */
	if (w->run)
		w->run->scratch = sli_alloc(2 * (size_t)STORE_RUN_MAX);
	if (!w->run || !w->piece || !w->run->scratch)
		return sli_fail(ei, SLI_E_NOMEM, 0, "store.open", "no memory");
	w->run->db = w->db;
	/* Our own checkpoints, so that their errors are seen: the library's
	 * automatic ones, set off by the same hook, swallow them. */
	(void)sqlite3_wal_hook(w->db->h, on_wal, w);
	return SLI_OK;
}

void
store_writer_fini(struct store *st)
{
	struct store_writer *w = &st->w;

	store_db_close(w->db);
	w->db = NULL;
	if (w->run)
		sli_free(w->run->scratch);
	sli_free(w->run);
	sli_free(w->piece);
	w->run = NULL;
	w->piece = NULL;
}

static void
deliver_fatal(struct sli_post *p)
{
	struct store_writer *w =
	    SLI_CONTAINER_OF(p, struct store_writer, fatal_post);

	store_fatal(w->st, &w->fatal);
}

void
store_writer_broke(struct store_writer *w, int rc, const char *where)
{
	if (w->broken)
		return;
	w->broken = 1;
	(void)store_db_fail(w->db, rc, where, &w->fatal);
	w->fatal.code = SLI_E_STORE;
	sli_log(SLI_LOG_ERR, "store", "fatal", "where=%s text=\"%s\"", where,
	    w->fatal.text);
	w->fatal_post.fn = deliver_fatal;
	sli_mailbox_post(w->st->cfg.mb, &w->fatal_post);
}

/* --- batches --------------------------------------------------------------*/

static void
spread(struct store_writer *w, struct store_job *list)
{
	struct store_job *next;

	for (struct store_job *j = list; j; j = next) {
		struct store_session *s = j->s;

		next = j->next;
		j->next = NULL;
		if (s->w_last)
			s->w_last->next = j;
		else
			s->w_first = j;
		s->w_last = j;
		if (sli_list_empty(&s->w_node))
			sli_list_add_tail(&w->waiting, &s->w_node);
	}
}

static size_t
take_turn(struct store_session *s, size_t most)
{
	size_t taken = 0;
	struct store_job *j;

	do {
		j = s->w_first;
		s->w_first = j->next;
		if (!s->w_first)
			s->w_last = NULL;
		j->next = NULL;
		if (s->b_last)
			s->b_last->next = j;
		else
			s->b_first = j;
		s->b_last = j;
		store_job_set(j, STORE_JOB_TAKEN);
		taken += j->cost;
	} while (s->w_first && taken < most);
	return taken;
}

/* Sessions in turn, a quantum of bytes each, so that a body of many MiB does
 * not make everybody wait; the order within a session stays. */
static void
form_batch(struct store_writer *w)
{
	size_t bytes = 0;

	while (!sli_list_empty(&w->waiting) && bytes < STORE_BATCH_MAX) {
		struct store_session *s = SLI_LIST_ENTRY(
		    w->waiting.next, struct store_session, w_node);

		sli_list_del(&s->w_node);
		bytes += take_turn(s, STORE_QUANTUM);
		if (s->w_first)
			sli_list_add_tail(&w->waiting, &s->w_node);
		if (sli_list_empty(&s->b_node)) {
			sli_list_add_tail(&w->batch, &s->b_node);
			w->nbatch++;
		}
	}
}

static struct store_session *
batch_next(struct store_writer *w, struct store_session *s)
{
	struct sli_list *n = s ? s->b_node.next : w->batch.next;

	if (n == &w->batch)
		return NULL;
	return SLI_CONTAINER_OF(n, struct store_session, b_node);
}

/* --- one transaction ------------------------------------------------------*/

static int
begin(struct store_writer *w)
{
	int rc = SQLITE_BUSY;

	for (unsigned i = 0; i < BUSY_TRIES && (rc & 0xff) == SQLITE_BUSY;
	     i++) {
		rc = store_db_run(w->db, SQL_BEGIN, "");
		if ((rc & 0xff) == SQLITE_BUSY)
			sli_log(SLI_LOG_WARN, "store", "busy",
			    "another program holds the write lock of %s",
			    w->st->path);
	}
	return rc;
}

static void
undo(struct store_writer *w)
{
	struct store_session *s = NULL;
	int rc = store_db_rollback(w->db);

	if (rc != SQLITE_OK)
		store_writer_broke(w, rc, "store.rollback");
	while ((s = batch_next(w, s)))
		s->now = s->kept;
}

static enum sli_err
transaction(struct store_writer *w)
{
	struct store_session *s = NULL;
	enum sli_err e;
	int rc = begin(w);

	e = store_db_err(rc);
	w->wall_ms = sli_wall_ms();
	while (e == SLI_OK && (s = batch_next(w, s)))
		e = store_apply_session(w, s);
	if (e == SLI_OK) {
		rc = store_db_run(w->db, SQL_COMMIT, "");
		e = store_db_err(rc);
		/* Nothing but "full" has a known outcome here. */
		if (e != SLI_OK && e != SLI_E_STORAGE_FULL)
			e = SLI_E_STORE;
		/* Into a file that nobody will open again: not on disk. */
		if (e == SLI_OK && store_db_moved(w->db)) {
			rc = SQLITE_READONLY_DBMOVED;
			e = SLI_E_STORE;
		}
	}
	if (e == SLI_E_STORE)
		store_writer_broke(w,
		    rc != SQLITE_OK ? rc : sqlite3_extended_errcode(w->db->h),
		    "store.commit");
	else if (e != SLI_OK)
		undo(w);
	return w->broken ? SLI_E_STORE : e;
}

/* Barriers keep `barrier`, the rest gets `other`; OK = try (again). Returns
 * how many are to be tried. */
static unsigned
mark(struct store_writer *w, enum sli_err barrier, enum sli_err other)
{
	struct store_session *s = NULL;
	unsigned n = 0;

	while ((s = batch_next(w, s))) {
		for (struct store_job *j = s->b_first; j; j = j->next) {
			j->code = j->flags & STORE_BARRIER ? barrier : other;
			j->first_seq = 0;
			if (j->code == SLI_OK)
				n++;
			else if (j->op == STORE_OP_PART)
				j->set->failed = 1;
		}
	}
	return n;
}

/* While the disk is full only barriers are tried: they are small, they end
 * things, and the ballast is kept for them. */
static enum sli_err
commit_batch(struct store_writer *w)
{
	enum sli_err e = SLI_OK;
	int full = atomic_load_explicit(&w->st->full, memory_order_relaxed);

	if (w->broken || atomic_load(&w->st->broken)) {
		mark(w, SLI_E_STORE, SLI_E_STORE);
		return SLI_E_STORE;
	}
	if (mark(w, SLI_OK, full ? SLI_E_STORAGE_FULL : SLI_OK) > 0)
		e = transaction(w);
	if (e == SLI_E_STORAGE_FULL && !full) {
		store_ballast_release(w);
		e = SLI_OK;
		if (mark(w, SLI_OK, SLI_E_STORAGE_FULL) > 0)
			e = transaction(w);
	}
	if (e != SLI_OK)
		mark(w, e, e);
	return e;
}

/* --- answers --------------------------------------------------------------*/

static void
collect(struct store_batch *b, struct store_session *s, int committed)
{
	struct store_job *next;

	for (struct store_job *j = s->b_first; j; j = next) {
		next = j->next;
		j->next = NULL;
		store_job_set(j,
		    j->code == SLI_OK ? STORE_JOB_COMMITTED : STORE_JOB_FAILED);
		if (j->code == SLI_OK)
			b->events += j->nev;
		if (b->last)
			b->last->next = j;
		else
			b->first = j;
		b->last = j;
	}
	if (committed && s->sno) {
		b->bytes += s->now.bytes - s->kept.bytes;
		s->kept = s->now;
		b->res[b->nres++] = (struct store_result){s, s->kept, 0};
	}
	s->b_first = s->b_last = NULL;
}

/* No memory even to answer together: each by itself, nothing written. */
static void
refuse_batch(struct store_writer *w)
{
	struct store_session *s;
	struct store_job *next;

	mark(w, SLI_E_NOMEM, SLI_E_NOMEM);
	while ((s = batch_next(w, NULL))) {
		sli_list_del(&s->b_node);
		for (struct store_job *j = s->b_first; j; j = next) {
			next = j->next;
			store_job_refuse(j, SLI_E_NOMEM);
		}
		s->b_first = s->b_last = NULL;
	}
}

static void
run_batch(struct store_writer *w)
{
	struct store_session *s;
	struct store_batch *b;
	enum sli_err e;

	w->nbatch = 0;
	form_batch(w);
	b = sli_zalloc(sizeof(*b) + w->nbatch * sizeof(b->res[0]));
	if (!b) {
		refuse_batch(w);
		return;
	}
	b->st = w->st;
	b->post.fn = store_deliver;
	e = commit_batch(w);
	b->committed = e == SLI_OK;
	while ((s = batch_next(w, NULL))) {
		sli_list_del(&s->b_node);
		collect(b, s, b->committed);
	}
	sli_mailbox_post(w->st->cfg.mb, &b->post);
}

void
store_writer_turn(struct store_writer *w, struct store_job *list)
{
	int stop;

	spread(w, list);
	while (!sli_list_empty(&w->waiting)) {
		run_batch(w);
		/* After the answers: a checkpoint may take its time. */
		store_checkpoint(w);
		if (!sli_list_empty(&w->waiting))
			spread(w, store_queue_take(&w->st->q, 0, 1, &stop));
	}
}

void *
store_writer_main(void *arg)
{
	struct store_writer *w = arg;
	struct store_job *list;
	int stop = 0;

	(void)pthread_setname_np(pthread_self(), "sluice-store");
	while (!stop) {
		list = store_queue_take(&w->st->q, w->st->cfg.linger_ms,
		    store_upkeep_due(w), &stop);
		if (list) {
			store_writer_turn(w, list);
			stop = 0;
		}
		if (stop || w->broken)
			continue;
		if (w->purge)
			store_purge_step(w);
		if (atomic_load_explicit(&w->st->full, memory_order_relaxed))
			store_ballast_make(w);
	}
	return NULL;
}
