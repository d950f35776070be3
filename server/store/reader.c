/* SPDX-License-Identifier: Apache-2.0 */
/* The reader threads and their queue, and the three public calls that read.
 * What is done inside a read is in page.c. */
#include "store/reader.h"

#include "base/log.h"

/* Pages never hold more than this beyond what was asked: one event, and the
 * array of events. */
#define READ_SLACK (2 * (size_t)SLI_EVENT_INLINE_MAX)

struct store_read *
store_read_new(struct store *st, struct store_session *s,
    enum store_read_kind kind, size_t extra)
{
	struct store_read *r = sli_alloc(sizeof(*r) + extra);

	if (!r)
		return NULL;
	*r = (struct store_read){.st = st, .kind = kind};
	if (s) {
		r->s = store_session_ref(s);
		r->sno = s->sno;
	}
	return r;
}

void
store_read_free(struct store_read *r)
{
	if (!r)
		return;
	if (r->s)
		store_session_unref(r->st, r->s);
	sli_arena_free(&r->mem);
	sli_free(r->ev);
	sli_free(r);
}

static void
read_deliver(struct sli_post *p)
{
	struct store_read *r = SLI_CONTAINER_OF(p, struct store_read, post);
	struct store *st = r->st;

	st->outstanding--;
	if (r->code == SLI_E_STORE)
		store_fatal(st, &r->ei);
	/* Deleted while it was read: as if it had never been. */
	if (r->s && r->s->dead)
		r->code = SLI_E_NOT_FOUND;
	if (r->fn)
		r->fn(r);
	else
		store_read_free(r);
}

void
store_read_submit(struct store_read *r, void (*fn)(struct store_read *r))
{
	struct store *st = r->st;
	struct store_read_queue *q = &st->rq;

	r->fn = fn;
	r->post.fn = read_deliver;
	r->next = NULL;
	sli_arena_init(&r->mem, r->max_bytes + READ_SLACK);
	st->outstanding++;
	if (st->closing || st->fataled || (r->s && r->s->dead)) {
		r->code = st->closing   ? SLI_E_UNAVAILABLE
			  : st->fataled ? SLI_E_UNAVAILABLE
					: SLI_E_NOT_FOUND;
		sli_mailbox_post(st->cfg.mb, &r->post);
		return;
	}
	(void)pthread_mutex_lock(&q->mu);
	if (q->last)
		q->last->next = r;
	else
		q->first = r;
	q->last = r;
	(void)pthread_mutex_unlock(&q->mu);
	(void)pthread_cond_signal(&q->cv);
}

/* NULL when stopped (or, without waiting, when there is none). */
static struct store_read *
pop(struct store_read_queue *q, int wait)
{
	struct store_read *r;

	(void)pthread_mutex_lock(&q->mu);
	while (wait && !q->first && !q->stop)
		(void)pthread_cond_wait(&q->cv, &q->mu);
	r = q->stop ? NULL : q->first;
	if (r) {
		q->first = r->next;
		if (!q->first)
			q->last = NULL;
	}
	(void)pthread_mutex_unlock(&q->mu);
	return r;
}

static void
work(struct store *st, struct store_db *db, struct store_read *r)
{
	r->code = store_read_do(db, r);
	if (r->code == SLI_E_STORE)
		atomic_store(&st->broken, 1);
	sli_mailbox_post(st->cfg.mb, &r->post);
}

static void *
reader_main(void *arg)
{
	struct store_reader *me = arg;
	struct store_read *r;

	(void)pthread_setname_np(pthread_self(), "sluice-read");
	while ((r = pop(&me->st->rq, 1)))
		work(me->st, me->db, r);
	return NULL;
}

int
store_step_reader(struct store *st)
{
	struct store_read *r = pop(&st->rq, 0);

	if (!r)
		return 0;
	work(st, st->r[0].db, r);
	return 1;
}

enum sli_err
store_readers_start(struct store *st, struct sli_errinfo *ei)
{
	int rv;

	for (unsigned i = 0; i < st->cfg.readers; i++) {
		struct store_reader *me = &st->r[i];
		enum sli_err e;

		me->st = st;
		e = store_db_open(
		    &me->db, st->path, STORE_DB_READER, 4 << 20, ei);
		if (e != SLI_OK)
			return e;
		if (st->manual)
			continue;
		rv = pthread_create(&me->thread, NULL, reader_main, me);
		if (rv != 0)
			return sli_fail(ei, SLI_E_SYS, rv, "store.open",
			    "cannot start a reader thread");
		me->started = 1;
	}
	return SLI_OK;
}

void
store_readers_stop(struct store *st)
{
	struct store_read_queue *q = &st->rq;
	struct store_read *r;

	(void)pthread_mutex_lock(&q->mu);
	q->stop = 1;
	(void)pthread_mutex_unlock(&q->mu);
	(void)pthread_cond_broadcast(&q->cv);
	for (unsigned i = 0; i < STORE_READERS_MAX; i++) {
		if (st->r[i].started)
			(void)pthread_join(st->r[i].thread, NULL);
		st->r[i].started = 0;
		store_db_close(st->r[i].db);
		st->r[i].db = NULL;
	}
	while ((r = q->first)) {
		q->first = r->next;
		r->code = SLI_E_UNAVAILABLE;
		sli_mailbox_post(st->cfg.mb, &r->post);
	}
	q->last = NULL;
}

/* --- public ---------------------------------------------------------------*/

static struct sli_errinfo
error_of(const struct store_read *r)
{
	struct sli_errinfo ei = {0};

	if (r->code != SLI_OK)
		(void)sli_fail(
		    &ei, r->code, 0, "store.read", "%s", sli_err_text(r->code));
	return ei;
}

static void
page_done(struct store_read *r)
{
	struct sli_errinfo ei = error_of(r);
	struct store_page p = {
	    .ev = r->ev,
	    .n = r->n,
	    .first_lost = r->first_lost,
	    .last_lost = r->last_lost,
	    .low = r->low,
	    .more = r->more,
	};

	r->user.page(r->ctx, r->code == SLI_OK ? &p : NULL, &ei);
	store_read_free(r);
}

void
store_page(struct store *st, const char *sid, uint64_t from, int backward,
    unsigned max_events, size_t max_bytes, store_page_fn *fn, void *ctx)
{
	struct store_session *s = store_session_find(st, sid);
	struct store_read *r = store_read_new(st, s, STORE_READ_PAGE, 0);
	struct sli_errinfo ei;

	if (!r) {
		(void)sli_fail(
		    &ei, SLI_E_NOMEM, 0, "store.page", "out of memory");
		fn(ctx, NULL, &ei);
		return;
	}
	r->from = s && backward ? SLI_MIN(from, s->head) : from;
	r->end = s && !backward ? s->head : 0;
	r->backward = backward;
	r->max_events = max_events;
	r->max_bytes = max_bytes;
	r->user.page = fn;
	r->ctx = ctx;
	/* sno 0 is nobody's: the read answers NOT_FOUND. */
	store_read_submit(r, page_done);
}

static void
body_done(struct store_read *r)
{
	struct sli_errinfo ei = error_of(r);

	r->user.body(r->ctx, r->body, &ei);
	store_read_free(r);
}

void
store_body(struct store *st, uint64_t set, uint64_t offset, size_t max,
    store_body_fn *fn, void *ctx)
{
	struct store_read *r = store_read_new(st, NULL, STORE_READ_BODY, 0);
	struct sli_errinfo ei;

	if (!r) {
		(void)sli_fail(
		    &ei, SLI_E_NOMEM, 0, "store.body", "out of memory");
		fn(ctx, sli_slice_of(NULL, 0), &ei);
		return;
	}
	r->set = set;
	r->offset = offset;
	r->max_bytes = max;
	r->user.body = fn;
	r->ctx = ctx;
	store_read_submit(r, body_done);
}

static void
turn_done(struct store_read *r)
{
	struct sli_errinfo ei = error_of(r);

	r->user.turn(r->ctx, r->found && !ei.code ? &r->turn : NULL, &ei);
	store_read_free(r);
}

void
store_find_turn(struct store *st, const char *sid, struct sli_slice key,
    store_turn_fn *fn, void *ctx)
{
	struct store_session *s = store_session_find(st, sid);
	struct store_read *r = store_read_new(st, s, STORE_READ_TURN, key.n);
	struct sli_errinfo ei;

	if (!r) {
		(void)sli_fail(
		    &ei, SLI_E_NOMEM, 0, "store.find_turn", "out of memory");
		fn(ctx, NULL, &ei);
		return;
	}
	if (key.n)
		memcpy(r + 1, key.p, key.n);
	r->key = sli_slice_of(r + 1, key.n);
	r->user.turn = fn;
	r->ctx = ctx;
	store_read_submit(r, turn_done);
}
