/* SPDX-License-Identifier: Apache-2.0 */
/* The committed tail of each live session in memory, shared by all its
 * subscribers: committed jobs themselves, in seq order. Bounded per session,
 * and over all sessions, where the one longest without a commit gives first.
 * A cache of what the log holds; losing it costs a read. Loop thread. */
#include "store/frame.h"
#include "store/int.h"

#include "base/mutant.h"

static struct store_job *
at(const struct store_tail *t, unsigned i)
{
	return t->v[(t->first + i) & (t->cap - 1)];
}

uint64_t
store_tail_low(const struct store_session *s)
{
	if (s->tail.n == 0)
		return s->head + 1;
	return at(&s->tail, 0)->first_seq;
}

static int
grow(struct store_tail *t)
{
	unsigned cap = t->cap ? t->cap * 2 : 8;
	struct store_job **v = sli_calloc(cap, sizeof(struct store_job *));

	if (!v)
		return -1;
	for (unsigned i = 0; i < t->n; i++)
		v[i] = at(t, i);
	sli_free(t->v);
	t->v = v;
	t->cap = cap;
	t->first = 0;
	return 0;
}

static void
drop_first(struct store *st, struct store_session *s)
{
	struct store_tail *t = &s->tail;
	struct store_job *j = at(t, 0);

	t->first = (t->first + 1) & (t->cap - 1);
	t->n--;
	t->bytes -= j->cost;
	st->tail_bytes -= j->cost;
	j->in_tail = 0;
	store_job_free(st, j);
	if (t->n == 0)
		sli_list_del(&s->lru);
}

void
store_tail_drop(struct store *st, struct store_session *s, uint64_t below)
{
	struct store_tail *t = &s->tail;

	while (t->n > 0 && at(t, 0)->first_seq + at(t, 0)->nev <= below)
		drop_first(st, s);
	if (t->n == 0 && t->cap > 64) {
		sli_free(t->v);
		*t = (struct store_tail){0};
	}
}

static void
shrink_all(struct store *st, const struct store_session *keep)
{
	while (
	    st->tail_bytes > st->cfg.tails_bytes && !sli_list_empty(&st->lru)) {
		struct store_session *s =
		    SLI_LIST_ENTRY(st->lru.next, struct store_session, lru);

		if (s == keep && s->tail.n == 1)
			break;
		drop_first(st, s);
	}
}

void
store_tail_add(struct store *st, struct store_session *s, struct store_job *j)
{
	struct store_tail *t = &s->tail;

	if (t->n > 0) {
		struct store_job *l = at(t, t->n - 1);

		SLI_ASSERT(l->first_seq + l->nev == j->first_seq);
	}
	if (j->cost > st->cfg.tail_bytes || (t->n == t->cap && grow(t) < 0)) {
		/* A tail has no holes: what came before goes as well. */
		store_tail_drop(st, s, UINT64_MAX);
		return;
	}
	t->v[(t->first + t->n) & (t->cap - 1)] = j;
	t->n++;
	t->bytes += j->cost;
	st->tail_bytes += j->cost;
	j->in_tail = 1;
	if (!sli_list_empty(&s->lru))
		sli_list_del(&s->lru);
	sli_list_add_tail(&st->lru, &s->lru);
	while (t->bytes > st->cfg.tail_bytes)
		drop_first(st, s);
	shrink_all(st, s);
}

/* Index of the job that holds seq; the caller knows that one does. */
static unsigned
find(const struct store_tail *t, uint64_t seq)
{
	unsigned lo = 0, hi = t->n - 1;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo + 1) / 2;

		if (at(t, mid)->first_seq <= seq)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

/* 0 when fn wants no more. */
static int
walk_job(const struct store_job *j, uint64_t from, int *io_n,
    int (*fn)(void *ctx, const struct sli_event *ev), void *ctx)
{
	struct sli_event ev;
	size_t pos = 0, len;

	for (uint32_t i = 0; i < j->nev; i++, pos += len) {
		len =
		    store_frame_get(j->frames + pos, j->frames_len - pos, &ev);
		SLI_ASSERT(len > 0);
		ev.seq = j->first_seq + i;
		if (ev.seq < from)
			continue;
		++*io_n;
		if (!fn(ctx, &ev))
			return 0;
	}
	return 1;
}

int
store_tail_walk(const struct store_session *s, uint64_t from,
    int (*fn)(void *ctx, const struct sli_event *ev), void *ctx)
{
	const struct store_tail *t = &s->tail;
	const struct store_job *last;
	uint64_t low = store_tail_low(s);
	int n = 0;

	if (SLI_MUTATED(store_tail_off_by_one) && low > 1 && low <= s->head)
		low--;
	if (from > s->head)
		return 0;
	if (from < low || from < s->low || t->n == 0)
		return -1;
	last = at(t, t->n - 1);
	SLI_ASSERT(last->first_seq + last->nev == s->head + 1);
	for (unsigned i = find(t, from); i < t->n; i++)
		if (!walk_job(at(t, i), from, &n, fn, ctx))
			break;
	return n;
}

int
store_tail(const struct store *st, const char *sid, uint64_t from,
    int (*fn)(void *ctx, const struct sli_event *ev), void *ctx)
{
	const struct store_session *s = store_session_find(st, sid);

	return s ? store_tail_walk(s, from, fn, ctx) : -1;
}
