/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* What is appended comes back, byte for byte, from the tail and from the
 * file, before and after a restart; what is not allowed is refused alone. */
#include "unit.h"

#include "store/int.h"
#include "t_store.h"

#include <stdlib.h>

static int
setup(void **state)
{
	struct t_store *t = calloc(1, sizeof(*t));

	t_store_new(t, 0);
	t_store_open(t);
	*state = t;
	return 0;
}

static int
teardown(void **state)
{
	t_store_free(*state);
	free(*state);
	return 0;
}

static void
unknown_sessions_are_refused(void **state)
{
	struct t_store *t = *state;
	struct t_page p;
	uint64_t low, head;
	uint8_t chain[32];

	assert_int_equal(t_store_add(t, "s", "x", 1), SLI_E_NOT_FOUND);
	assert_int_equal(t_store_del(t, "s"), SLI_E_NOT_FOUND);
	assert_int_equal(t_store_trim(t, "s", 1), SLI_E_NOT_FOUND);
	assert_int_equal(store_range(t->st, "s", &low, &head), SLI_E_NOT_FOUND);
	assert_int_equal(store_chain(t->st, "s", chain), SLI_E_NOT_FOUND);
	assert_int_equal(store_part_begin(t->st, "s"), 0);
	t_store_page(t, "s", 1, 0, 10, 1000, &p);
	assert_int_equal(p.code, SLI_E_NOT_FOUND);
	assert_int_equal(store_held(t->st, NULL), 0);
}

static void
bad_records_are_refused_alone(void **state)
{
	struct t_store *t = *state;
	static uint8_t big[SLI_EVENT_INLINE_MAX + 1];
	struct sli_record r[2];

	assert_int_equal(t_store_session(t, "s"), SLI_OK);
	assert_int_equal(t_store_session(t, "s"), SLI_E_ALREADY_EXISTS);
	assert_int_equal(
	    t_store_add(t, "s", big, sizeof(big)), SLI_E_INVALID_ARGUMENT);
	r[0] = t_store_event("a", 1);
	r[1] = t_store_event(NULL, 0);
	r[1].ev.parts = 99;
	assert_int_equal(t_store_commit(t, "s", r, 2), SLI_E_INVALID_ARGUMENT);
	r[1] = t_store_event("b", 1);
	r[1].ev.flags = 0x40;
	assert_int_equal(t_store_commit(t, "s", r, 2), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(t_store_add(t, "s", "ok", 2), SLI_OK);
	assert_int_equal(t->seq, 1);
	assert_int_equal(t->moved_head, 1);
}

/* Bodies that text columns, C strings or JSON parsers would spoil. */
static void
make_body(unsigned i, uint8_t *dst, size_t *ret_n)
{
	static const uint8_t odd[] = "a\0b\xff\xfe\xc0\x80\xed\xa0\x80\"\n\0";

	*ret_n = i == 0 ? 0 : (i * 7919u) % 3000u;
	if (i % 97 == 5)
		*ret_n = SLI_EVENT_INLINE_MAX;
	for (size_t k = 0; k < *ret_n; k++)
		dst[k] = odd[(k + i) % sizeof(odd)] ^ (uint8_t)(k / 251);
}

static void
check_event(const struct sli_event *ev, unsigned i)
{
	static uint8_t want[SLI_EVENT_INLINE_MAX];
	size_t n;

	make_body(i, want, &n);
	assert_int_equal(ev->seq, i + 1);
	assert_int_equal(ev->kind, i % 12 + 1);
	assert_int_equal(ev->flags, i % 4);
	assert_int_equal(ev->turn, i / 10);
	assert_int_equal(ev->superseded, i % 5 ? 0 : i);
	assert_int_equal(ev->at_ms, i % 3 ? 1700000000000 + i : -1);
	assert_int_equal(ev->length, n);
	assert_int_equal(ev->body.n, n);
	assert_memory_equal(ev->body.p, want, n);
}

#define EVENTS 300u

static void
append_all(struct t_store *t)
{
	static uint8_t body[SLI_EVENT_INLINE_MAX];
	struct sli_record r;
	size_t n;

	for (unsigned i = 0; i < EVENTS; i++) {
		make_body(i, body, &n);
		r = t_store_event(body, n);
		r.ev.kind = (uint8_t)(i % 12 + 1);
		r.ev.flags = i % 4;
		r.ev.turn = i / 10;
		r.ev.superseded = i % 5 ? 0 : i;
		r.ev.at_ms = i % 3 ? 1700000000000 + i : -1;
		/* Some alone, most together. */
		if (i % 7 == 0) {
			assert_int_equal(t_store_commit(t, "s", &r, 1), SLI_OK);
			assert_int_equal(t->seq, i + 1);
		} else {
			store_commit(t->st, "s", &r, 1, 0, NULL, NULL);
		}
	}
	r = t_store_event("end", 3);
	assert_int_equal(t_store_commit(t, "s", &r, 1), SLI_OK);
	assert_int_equal(t->seq, EVENTS + 1);
}

/* Everything by pages of the given size; every page is checked as a model
 * says: dense, in order, and not past its bounds unless by one event. */
static void
check_pages(struct t_store *t, int back, unsigned max_events, size_t max_bytes)
{
	static struct t_page p;
	unsigned next = back ? EVENTS : 0, seen = 0;
	size_t bytes;

	while (seen < EVENTS) {
		t_store_page(t, "s", next + 1, back, max_events, max_bytes, &p);
		assert_int_equal(p.code, SLI_OK);
		assert_int_equal(p.first_lost, 0);
		assert_int_equal(p.low, 1);
		assert_in_range(p.n, 1, max_events);
		bytes = 0;
		for (unsigned k = 0; k < p.n; k++) {
			if (next < EVENTS) {
				check_event(&p.ev[k], next);
				seen++;
			}
			bytes += p.ev[k].body.n;
			next += back ? (unsigned)-1 : 1u;
		}
		assert_true(p.n == 1 || bytes <= max_bytes);
		assert_int_equal(p.more, back ? next + 1 > 0 : next <= EVENTS);
		t_page_free(&p);
	}
}

static void
bytes_come_back_verbatim(void **state)
{
	static const struct {
		unsigned events;
		size_t bytes;
	} sizes[] = {
	    {1,    1 << 20},
            {7,    1000   },
            {1000, 1      },
            {1000, 1 << 20},
            {1000, 5000   },
	    {50,   300000 }
        };
	struct t_store *t = *state;
	uint8_t chain[32], again[32];

	assert_int_equal(t_store_session(t, "s"), SLI_OK);
	append_all(t);
	assert_int_equal(store_held(t->st, NULL), 0);
	assert_int_equal(store_chain(t->st, "s", chain), SLI_OK);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(sizes); i++) {
		check_pages(t, 0, sizes[i].events, sizes[i].bytes);
		check_pages(t, 1, sizes[i].events, sizes[i].bytes);
	}
	t_store_close(t);
	t_store_open(t);
	check_pages(t, 0, 100, 100000);
	check_pages(t, 1, 100, 100000);
	assert_int_equal(store_chain(t->st, "s", again), SLI_OK);
	assert_memory_equal(chain, again, 32);
	assert_int_equal(t_store_add(t, "s", "x", 1), SLI_OK);
	assert_int_equal(t->seq, EVENTS + 2);
}

struct tail {
	unsigned next, n, stop_after;
};

static int
on_tail(void *ctx, const struct sli_event *ev)
{
	struct tail *c = ctx;

	if (c->next < EVENTS)
		check_event(ev, c->next);
	c->next++;
	c->n++;
	return c->n != c->stop_after;
}

static void
tail_equals_log(void **state)
{
	struct t_store *t = *state;
	struct store_stats s;
	uint64_t low = 0;
	struct tail c;
	int n;

	assert_int_equal(t_store_session(t, "s"), SLI_OK);
	assert_int_equal(store_tail(t->st, "s", 1, on_tail, &c), 0);
	append_all(t);
	/* The big bodies do not fit with the rest: the tail is a suffix. */
	for (unsigned from = EVENTS + 1; from >= 1; from--) {
		c = (struct tail){from - 1, 0, 0};
		n = store_tail(t->st, "s", from, on_tail, &c);
		if (n < 0) {
			low = from + 1;
			break;
		}
		assert_int_equal(n, EVENTS + 2 - from);
		c = (struct tail){from - 1, 0, 2};
		n = store_tail(t->st, "s", from, on_tail, &c);
		assert_int_equal(n, SLI_MIN(2, EVENTS + 2 - from));
	}
	assert_in_range(low, 2, EVENTS);
	assert_int_equal(store_tail(t->st, "s", EVENTS + 2, on_tail, &c), 0);
	store_stats(t->st, &s);
	assert_in_range(s.tail_bytes, 1, 256 << 10);
	assert_int_equal(s.events, EVENTS + 1);
	assert_int_equal(s.damaged, 0);
	t_store_close(t);
	t_store_open(t);
	assert_int_equal(store_tail(t->st, "s", EVENTS + 1, on_tail, &c), -1);
}

/* The tails of all sessions together stay under the cap, and the one that
 * was quiet longest gives first. */
static void
tails_share_a_cap(void **state)
{
	static uint8_t body[10000];
	struct t_store *t = *state;
	struct store_stats s;
	struct tail c;
	char sid[16] = "s0";

	t_store_close(t);
	t->cfg.tails_bytes = 100000;
	t_store_open(t);
	for (int k = '0'; k <= '9'; k++) {
		sid[1] = (char)k;
		assert_int_equal(t_store_session(t, sid), SLI_OK);
		assert_int_equal(
		    t_store_add(t, sid, body, sizeof(body)), SLI_OK);
		assert_int_equal(
		    t_store_add(t, sid, body, sizeof(body)), SLI_OK);
		store_stats(t->st, &s);
		assert_in_range(s.tail_bytes, 1, 100000);
	}
	c = (struct tail){EVENTS, 0, 0};
	assert_int_equal(store_tail(t->st, "s9", 1, on_tail, &c), 2);
	assert_int_equal(store_tail(t->st, "s0", 1, on_tail, &c), -1);
}

static void
deleted_is_gone(void **state)
{
	struct t_store *t = *state;
	struct t_page p;
	uint64_t low, head;

	assert_int_equal(t_store_session(t, "s"), SLI_OK);
	assert_int_equal(t_store_add(t, "s", "old", 3), SLI_OK);
	assert_int_equal(t_store_del(t, "s"), SLI_OK);
	assert_int_equal(store_range(t->st, "s", &low, &head), SLI_E_NOT_FOUND);
	assert_int_equal(t_store_add(t, "s", "x", 1), SLI_E_NOT_FOUND);
	/* The same id is another session. */
	assert_int_equal(t_store_session(t, "s"), SLI_OK);
	assert_int_equal(t_store_add(t, "s", "new", 3), SLI_OK);
	assert_int_equal(t->seq, 1);
	t_store_page(t, "s", 1, 0, 10, 1000, &p);
	assert_int_equal(p.n, 1);
	unit_slice_is(p.ev[0].body, "new");
	t_page_free(&p);
	/* A clean end waits for nothing: purging goes on at the next start. */
	t_store_close(t);
	t_store_open_manual(t);
	store_step_purge(t->st);
	assert_int_equal(t_store_sql(t, "SELECT count(*) FROM run"), 1);
	assert_int_equal(t_store_sql(t, "SELECT count(*) FROM doomed"), 0);
	assert_int_equal(t_store_sql(t, "SELECT count(*) FROM session"), 1);
}

static void
trimmed_at_a_run(void **state)
{
	struct t_store *t = *state;
	struct sli_record r[3];
	struct t_page p;
	uint64_t low, head;
	uint8_t before[32], after[32];

	assert_int_equal(t_store_session(t, "s"), SLI_OK);
	for (unsigned i = 0; i < 3; i++)
		r[i] = t_store_event("abc", 3);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(t_store_commit(t, "s", r, 3), SLI_OK);
	assert_int_equal(store_chain(t->st, "s", before), SLI_OK);
	assert_int_equal(t_store_trim(t, "s", 3), SLI_OK);
	assert_int_equal(t->seq, 1); /* 3 is inside the first run */
	assert_int_equal(t_store_trim(t, "s", 6), SLI_OK);
	assert_int_equal(t->seq, 4);
	assert_int_equal(store_range(t->st, "s", &low, &head), SLI_OK);
	assert_int_equal(low, 4);
	assert_int_equal(head, 12);
	t_store_page(t, "s", 1, 0, 100, 1000, &p);
	assert_int_equal(p.low, 4);
	assert_int_equal(p.n, 9);
	assert_int_equal(p.ev[0].seq, 4);
	assert_int_equal(p.first_lost, 0);
	t_page_free(&p);
	t_store_page(t, "s", 99, 1, 100, 1000, &p);
	assert_int_equal(p.n, 9);
	assert_int_equal(p.ev[8].seq, 4);
	assert_int_equal(p.more, 0);
	t_page_free(&p);
	/* All of it; the chain and the numbers go on. */
	assert_int_equal(t_store_trim(t, "s", 1000), SLI_OK);
	assert_int_equal(t->seq, 13);
	t_store_close(t);
	t_store_open(t);
	assert_int_equal(store_chain(t->st, "s", after), SLI_OK);
	assert_memory_equal(before, after, 32);
	assert_int_equal(t_store_add(t, "s", "x", 1), SLI_OK);
	assert_int_equal(t->seq, 13);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		unknown_sessions_are_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		bad_records_are_refused_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		bytes_come_back_verbatim, setup, teardown),
	    cmocka_unit_test_setup_teardown(tail_equals_log, setup, teardown),
	    cmocka_unit_test_setup_teardown(tails_share_a_cap, setup, teardown),
	    cmocka_unit_test_setup_teardown(deleted_is_gone, setup, teardown),
	    cmocka_unit_test_setup_teardown(trimmed_at_a_run, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
