/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Appends, commits, reads, trims, evictions and subscribers with small windows
 * in random order, one seed one schedule, against a model that knows what has
 * been committed. The store runs without threads: the writer, the readers and
 * the loop's posts move only when the schedule says so, so that every order of
 * "committed", "read" and "told" comes up. A subscriber is pumped only when it
 * was woken or has got credit: a lost wake-up stays lost. */
#include "unit.h"

#include "base/str.h"
#include "store/cursor.h"
#include "store/int.h"
#include "t_sim.h"

#include <stdio.h>
#include <stdlib.h>

#define SUBS     4u
#define JOBS     1000u
#define STEPS    260u
#define HELD_MAX (STORE_PAGE_BYTES + 2 * SLI_EVENT_INLINE_MAX)

/* One queued call. */
struct ask {
	struct t_sim_ev ev[6];
	unsigned n;
	int fails;
	uint64_t trim;  /* != 0: a trim to this */
	uint64_t first; /* expected answer, once committed */
	int committed, answered;
};

struct sub {
	struct store_cursor c;
	int runnable, alive;
	size_t window, inflight;
	uint64_t next;   /* what must come */
	uint64_t offset; /* inside the body of next */
	int in_body;
};

static struct {
	uint64_t parks, wakes, reads, gaps, parts, bodies, blocked, evicted;
	uint64_t failed, histories, restarts, events;
} seen;

static struct t_store store;
static struct t_sim m;
static struct ask asks[JOBS];
static unsigned asked, answers;
static struct sub subs[SUBS];

#define CHECK(cond) T_SIM_CHECK(&m, cond)

static uint32_t
rnd(uint32_t n)
{
	return t_sim_rnd(&m, n);
}

/* --- what a subscriber sees -----------------------------------------------*/

static void
see_event(struct sub *s, const struct store_item *it)
{
	const struct sli_event *ev = it->ev;
	const struct t_sim_ev *e = t_sim_at(&m, ev->seq);

	CHECK(!s->in_body);
	CHECK(ev->seq == s->next);
	CHECK(ev->seq <= m.head);
	CHECK(ev->length == e->len);
	CHECK((ev->parts != 0) == (e->set != 0));
	seen.events++;
	if (e->len > 0 && (e->len > STORE_PART_MAX || e->set)) {
		CHECK(ev->body.n == 0);
		s->in_body = 1;
		s->offset = 0;
		return;
	}
	CHECK(ev->body.n == e->len);
	t_sim_bytes(&m, e, 0, ev->body);
	s->next++;
}

static void
see_part(struct sub *s, const struct store_item *it)
{
	const struct t_sim_ev *e = t_sim_at(&m, s->next);

	CHECK(s->in_body);
	CHECK(it->ev->seq == s->next);
	CHECK(it->offset == s->offset);
	CHECK(it->bytes.n > 0 && it->bytes.n <= STORE_PART_MAX);
	t_sim_bytes(&m, e, it->offset, it->bytes);
	s->offset += it->bytes.n;
	CHECK(it->last == (s->offset == e->len));
	seen.parts++;
	if (it->last) {
		s->in_body = 0;
		s->next++;
		seen.bodies++;
	}
}

static int
emit(void *ctx, const struct store_item *it)
{
	struct sub *s = ctx;
	size_t n = 64 + it->bytes.n;

	if (it->kind == STORE_ITEM_EVENT)
		n += it->ev->body.n;
	/* A big one goes alone into an empty window. */
	if (s->inflight > 0 && s->inflight + n > s->window) {
		seen.blocked++;
		return 0;
	}
	s->inflight += n;
	if (it->kind == STORE_ITEM_EVENT) {
		see_event(s, it);
	} else if (it->kind == STORE_ITEM_PART) {
		see_part(s, it);
	} else {
		CHECK(strcmp(it->reason, "trimmed") == 0);
		CHECK(it->first_lost == s->next);
		CHECK(it->last_lost >= it->first_lost);
		CHECK(it->last_lost < m.low);
		s->next = it->last_lost + 1;
		s->in_body = 0;
		seen.gaps++;
	}
	return 1;
}

static void
wake(void *ctx)
{
	struct sub *s = ctx;

	s->runnable = 1;
	seen.wakes++;
}

static void
attach(struct sub *s, uint64_t from)
{
	struct store_cursor_cfg cfg = {.from = from, .wake = wake, .ctx = s};

	if (s->alive)
		store_cursor_fini(&s->c);
	*s = (struct sub){.alive = 1, .runnable = 1, .next = from};
	s->window = 300 + rnd(rnd(3) ? 4000 : 90000);
	CHECK(store_cursor_init(&s->c, store.st, m.sid, &cfg, NULL) == 0);
}

static void
pump(struct sub *s)
{
	size_t room = s->window > s->inflight ? s->window - s->inflight : 0;
	enum store_pump why;

	if (!s->runnable || room == 0)
		return;
	room = 1 + rnd((uint32_t)room);
	why = store_cursor_pump(&s->c, room, emit, s);
	CHECK(why != STORE_PUMP_FAILED && why != STORE_PUMP_END);
	CHECK(store_cursor_held(&s->c) <= HELD_MAX);
	CHECK(s->in_body || s->c.next == s->next);
	s->runnable = why == STORE_PUMP_BLOCKED;
	seen.parks += why == STORE_PUMP_PARKED;
	seen.reads += why == STORE_PUMP_READING;
}

/* --- what the producer does -----------------------------------------------*/

static struct t_sim_ev
new_body(void)
{
	struct t_sim_ev e = {.off = rnd(T_SIM_NOISE / 2)};
	uint32_t kind = rnd(200);

	e.len = kind < 10 ? 0 : kind < 190 ? rnd(400) : rnd(6000);
	if (kind == 199)
		e.len = 32768 + rnd(60000);
	return e;
}

static void
answer(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	struct ask *a = ctx;

	CHECK(a->committed && !a->answered);
	CHECK((ei->code != SLI_OK) == a->fails);
	if (a->trim)
		CHECK(first_seq >= 1 && first_seq <= m.low);
	else
		CHECK(first_seq == (a->fails ? 0 : a->first));
	a->answered = 1;
	answers++;
}

static uint64_t
stage_parts(struct t_sim_ev *e)
{
	uint64_t set = store_part_begin(store.st, m.sid);
	uint32_t step;

	CHECK(set != 0);
	e->len = 1 + rnd(200000);
	for (uint32_t at = 0; at < e->len; at += step) {
		step = 1 + rnd(90000);
		step = SLI_MIN(step, e->len - at);
		store_part_append(
		    store.st, set, sli_slice_of(m.noise + e->off + at, step));
	}
	return set;
}

static void
append(void)
{
	struct sli_record r[6];
	struct ask *a = &asks[asked];

	if (asked == JOBS || m.head + 3000 > T_SIM_EVENTS)
		return;
	asked++;
	*a = (struct ask){.n = 1 + rnd(6), .fails = rnd(12) == 0};
	for (unsigned i = 0; i < a->n; i++) {
		a->ev[i] = new_body();
		if (rnd(150) == 0)
			a->ev[i].set = stage_parts(&a->ev[i]);
		r[i] = t_store_event(m.noise + a->ev[i].off, a->ev[i].len);
		if (a->ev[i].set) {
			r[i].ev.parts = a->ev[i].set;
			r[i].ev.body = sli_slice_of(NULL, 0);
		}
	}
	/* The end of a turn that was never begun. */
	if (a->fails) {
		r[a->n - 1].ch.what = SLI_CH_TURN_END;
		r[a->n - 1].ch.outcome = SLI_TO_COMPLETED;
		r[a->n - 1].ch.turn = 77;
	}
	store_commit(store.st, m.sid, r, a->n, 0, answer, a);
}

static void
trim(void)
{
	struct ask *a = &asks[asked];

	if (asked == JOBS || m.head < 20)
		return;
	asked++;
	*a = (struct ask){.trim = m.low + rnd(30)};
	store_trim(store.st, m.sid, a->trim, answer, a);
}

/* The model commits what was asked, in order. Where a trim ends depends on
 * the rows, so the writer is asked. */
static void
commit(void)
{
	if (!store_step_writer(store.st))
		return;
	for (unsigned i = answers; i < asked; i++) {
		struct ask *a = &asks[i];

		if (a->committed)
			continue;
		a->committed = 1;
		seen.failed += (uint64_t)a->fails;
		if (a->fails || a->trim)
			continue;
		a->first = m.head + 1;
		for (unsigned k = 0; k < a->n; k++)
			m.log[++m.head % T_SIM_EVENTS] = a->ev[k];
	}
	m.low = store_session_find(store.st, m.sid)->kept.low;
}

/* --- schedules ------------------------------------------------------------*/

static void
consume(struct sub *s)
{
	s->inflight -= s->inflight ? 1 + rnd((uint32_t)s->inflight) : 0;
	s->runnable = 1;
}

static void
restart(struct sub *s)
{
	uint64_t from = s->next;

	/* From where it was, or further back; an event half seen comes again
	 * whole. */
	if (rnd(3) == 0)
		from = 1 + rnd((uint32_t)from);
	attach(s, SLI_MAX(from, 1));
	seen.restarts++;
}

static void
one_step(void)
{
	struct sub *s = &subs[rnd(SUBS)];
	uint32_t k = rnd(100);

	if (k < 18)
		append();
	else if (k < 30)
		commit();
	else if (k < 45)
		(void)sli_mailbox_drain(store.mb);
	else if (k < 55)
		(void)store_step_reader(store.st);
	else if (k < 75)
		pump(s);
	else if (k < 90)
		consume(s);
	else if (k < 93)
		trim();
	else if (k < 95)
		restart(s);
	else if (k < 97)
		seen.histories += (uint64_t)t_sim_history(&m);
	else if (k < 99)
		for (unsigned i = 0; i < SUBS; i++)
			pump(&subs[i]);
	else {
		store_tail_drop(store.st, store_session_find(store.st, m.sid),
		    m.head - rnd(9));
		seen.evicted++;
	}
}

/* The producer stops and credit flows: everybody gets to the head. */
static void
settle(void)
{
	unsigned behind = SUBS;

	for (unsigned i = 0; i < 20000 && behind > 0; i++) {
		commit();
		while (store_step_reader(store.st))
			;
		(void)sli_mailbox_drain(store.mb);
		behind = 0;
		for (unsigned k = 0; k < SUBS; k++) {
			struct sub *s = &subs[k];

			/* Credit comes back only for what was sent. */
			if (s->inflight > 0) {
				s->inflight = 0;
				s->runnable = 1;
			}
			pump(s);
			behind += s->next != m.head + 1;
		}
	}
	CHECK(behind == 0);
	CHECK(answers == asked);
	CHECK(store_held(store.st, NULL) == 0);
}

static void
run_seed(unsigned seed)
{
	m = (struct t_sim){.store = &store, .noise = m.noise};
	asked = answers = 0;
	memset(asks, 0, sizeof(asks));
	memset(subs, 0, sizeof(subs));
	m.seed = seed;
	m.low = 1;
	m.rng = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	(void)rnd(1);
	(void)sli_snprintf(m.sid, sizeof(m.sid), "s%u", seed);
	assert_int_equal(t_store_session(&store, m.sid), SLI_OK);
	for (unsigned i = 0; i < SUBS; i++)
		attach(&subs[i], 1);
	for (m.step = 1; m.step <= STEPS; m.step++)
		one_step();
	settle();
	for (unsigned i = 0; i < SUBS; i++)
		store_cursor_fini(&subs[i].c);
	assert_int_equal(t_store_del(&store, m.sid), SLI_OK);
	store_step_purge(store.st);
}

static void
every_subscriber_sees_one_history(void **state)
{
	const char *one = getenv("SEED"), *lng = getenv("SLUICE_LONG");
	const char *few = getenv("SIM_SEEDS");
#ifdef __SANITIZE_ADDRESS__
	unsigned seeds = 300, first = 1; /* it takes its time */
#else
	unsigned seeds = lng && *lng ? 20000 : 2000, first = 1;
#endif
	uint8_t *noise;
	uint64_t v;

	(void)state;
	(void)lng;
	if (few && sli_parse_u64(few, &v) == SLI_OK && v > 0)
		seeds = (unsigned)v;
	if (one && sli_parse_u64(one, &v) == SLI_OK) {
		first = (unsigned)v;
		seeds = 1;
	}
	noise = malloc(T_SIM_NOISE);
	m.noise = noise;
	for (uint32_t i = 0, x = 1; i < T_SIM_NOISE; i++) {
		x = x * 1664525u + 1013904223u;
		noise[i] = (uint8_t)(x >> 24);
	}
	t_store_new(&store, 1);
	t_store_open_manual(&store);
	for (unsigned i = 0; i < seeds; i++)
		run_seed(first + i);
	t_store_free(&store);
	free(noise);
	print_message("seeds=%u events=%llu parks=%llu wakes=%llu reads=%llu "
		      "gaps=%llu parts=%llu bodies=%llu blocked=%llu "
		      "failed=%llu histories=%llu restarts=%llu evicted=%llu\n",
	    seeds, (unsigned long long)seen.events,
	    (unsigned long long)seen.parks, (unsigned long long)seen.wakes,
	    (unsigned long long)seen.reads, (unsigned long long)seen.gaps,
	    (unsigned long long)seen.parts, (unsigned long long)seen.bodies,
	    (unsigned long long)seen.blocked, (unsigned long long)seen.failed,
	    (unsigned long long)seen.histories,
	    (unsigned long long)seen.restarts,
	    (unsigned long long)seen.evicted);
	/* A schedule that never gets anywhere finds nothing. */
	if (seeds >= 100) {
		assert_true(seen.parks > seeds && seen.wakes > seeds);
		assert_true(seen.reads > seeds && seen.gaps > seeds / 10);
		assert_true(seen.bodies > seeds / 10 && seen.failed > seeds);
		assert_true(seen.histories > seeds && seen.blocked > seeds);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_subscriber_sees_one_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
