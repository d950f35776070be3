/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* Cursors, case by case: edges of a walk, long bodies, damage, deletion, and
 * going away with a read in flight. The random schedules are in
 * tests/sim/test_sim_store.c. */
#include "unit.h"

#include "base/str.h"
#include "store/cursor.h"
#include "store/int.h"
#include "t_store.h"

#include <stdlib.h>

/* What came out, as text: "1 2 3[40000] gap4-5:trimmed ". */
struct out {
	struct store_cursor c;
	char text[2048];
	size_t len;
	int woken, room; /* items; -1 = any */
	uint64_t part_of, part_bytes;
};

static struct t_store t;

#define NOTE(o, ...)               \
	((o)->len += sli_snprintf( \
	     (o)->text + (o)->len, sizeof((o)->text) - (o)->len, __VA_ARGS__))

static int
emit(void *ctx, const struct store_item *it)
{
	struct out *o = ctx;

	if (o->room == 0)
		return 0;
	o->room -= o->room > 0;
	if (it->kind == STORE_ITEM_GAP) {
		NOTE(o, "gap%llu-%llu:%s ", (unsigned long long)it->first_lost,
		    (unsigned long long)it->last_lost, it->reason);
	} else if (it->kind == STORE_ITEM_EVENT) {
		NOTE(o, "%llu ", (unsigned long long)it->ev->seq);
		o->part_bytes = 0;
	} else {
		assert_int_equal(it->offset, o->part_bytes);
		o->part_bytes += it->bytes.n;
		if (it->last)
			NOTE(o, "[%llu] ", (unsigned long long)o->part_bytes);
	}
	return 1;
}

static void
wake(void *ctx)
{
	struct out *o = ctx;

	o->woken = 1;
}

static void
begin(struct out *o, const char *sid, struct store_cursor_cfg cfg)
{
	memset(o, 0, sizeof(*o));
	o->room = -1;
	cfg.wake = wake;
	cfg.ctx = o;
	assert_int_equal(
	    store_cursor_init(&o->c, t.st, sid, &cfg, NULL), SLI_OK);
}

/* Pump until it says something other than "reading". */
static enum store_pump
run(struct out *o, size_t credit)
{
	enum store_pump why;

	for (;;) {
		o->woken = 0;
		why = store_cursor_pump(&o->c, credit, emit, o);
		if (why != STORE_PUMP_READING)
			return why;
		t_store_wait(&t, &o->woken);
	}
}

static int
setup(void **state)
{
	(void)state;
	t_store_new(&t, 0);
	t_store_open(&t);
	assert_int_equal(t_store_session(&t, "s"), SLI_OK);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	t_store_free(&t);
	return 0;
}

static void
add(unsigned n, size_t len)
{
	static uint8_t body[SLI_EVENT_INLINE_MAX];

	for (unsigned i = 0; i < n; i++)
		assert_int_equal(t_store_add(&t, "s", body, len), SLI_OK);
}

static uint64_t
add_parts(size_t len)
{
	static uint8_t body[300000];
	struct sli_record r = t_store_event(NULL, 0);

	r.ev.parts = store_part_begin(t.st, "s");
	r.ev.length = len;
	store_part_append(t.st, r.ev.parts, sli_slice_of(body, len));
	assert_int_equal(t_store_commit(&t, "s", &r, 1), SLI_OK);
	return r.ev.parts;
}

/* Without what is in memory: as after a restart. */
static void
forget_tail(void)
{
	store_tail_drop(t.st, store_session_find(t.st, "s"), UINT64_MAX);
}

static void
unknown_sessions_have_no_cursor(void **state)
{
	struct store_cursor_cfg cfg = {0};
	struct store_cursor c;
	struct sli_errinfo ei;

	(void)state;
	assert_int_equal(
	    store_cursor_init(&c, t.st, "x", &cfg, &ei), SLI_E_NOT_FOUND);
	store_cursor_fini(&c);
	store_cursor_fini(&c);
}

static void
bounded_walks(void **state)
{
	static const struct {
		struct store_cursor_cfg cfg;
		const char *want;
	} cases[] = {
	    {{.from = 1, .end = 5},                  "1 2 3 4 5 "},
	    {{.from = 3, .end = 3},                  "3 "        },
	    {{.from = 2, .end = 5, .limit = 2},      "2 3 "      },
	    {{.from = 6, .end = 5},                  ""          },
	    {{.backward = 1},                        "5 4 3 2 1 "},
	    {{.from = 9, .backward = 1},             "5 4 3 2 1 "},
	    {{.from = 4, .end = 2, .backward = 1},   "4 3 2 "    },
	    {{.from = 4, .limit = 2, .backward = 1}, "4 3 "      },
	};

	(void)state;
	add(5, 10);
	for (unsigned k = 0; k < 2 * SLI_ARRAY_LEN(cases); k++) {
		unsigned i = k / 2;
		struct out o;

		begin(&o, "s", cases[i].cfg);
		assert_int_equal(run(&o, 100000), STORE_PUMP_END);
		assert_string_equal(o.text, cases[i].want);
		assert_int_equal(run(&o, 100000), STORE_PUMP_END);
		store_cursor_fini(&o.c);
		if (k % 2 == 0)
			forget_tail();
	}
}

/* The live ones: parked at the head, woken by a commit, also when they ask
 * from far beyond it. */
static void
live_walks(void **state)
{
	struct store_cursor_cfg cfg = {.from = 1};
	struct out a, b;

	(void)state;
	begin(&a, "s", cfg);
	cfg.from = 4;
	begin(&b, "s", cfg);
	assert_int_equal(run(&a, 1000), STORE_PUMP_PARKED);
	assert_int_equal(run(&b, 1000), STORE_PUMP_PARKED);
	add(3, 10);
	assert_int_equal(a.woken, 1);
	assert_int_equal(run(&a, 1000), STORE_PUMP_PARKED);
	assert_string_equal(a.text, "1 2 3 ");
	assert_int_equal(run(&b, 1000), STORE_PUMP_PARKED);
	add(1, 10);
	assert_int_equal(run(&b, 1000), STORE_PUMP_PARKED);
	assert_string_equal(b.text, "4 ");
	/* Credit and room bound it; what did not fit comes next. */
	add(4, 500);
	a.room = 2;
	assert_int_equal(run(&a, 100000), STORE_PUMP_BLOCKED);
	assert_string_equal(a.text, "1 2 3 4 5 ");
	a.room = -1;
	assert_int_equal(run(&a, 1), STORE_PUMP_BLOCKED);
	assert_string_equal(a.text, "1 2 3 4 5 6 ");
	assert_int_equal(run(&a, 0), STORE_PUMP_BLOCKED);
	assert_int_equal(run(&a, 100000), STORE_PUMP_PARKED);
	assert_string_equal(a.text, "1 2 3 4 5 6 7 8 ");
	store_cursor_fini(&a.c);
	store_cursor_fini(&b.c);
}

static void
long_bodies_come_in_parts(void **state)
{
	struct store_cursor_cfg cfg = {.from = 1, .end = 5};
	struct out o;

	(void)state;
	add(1, 100);
	add(1, 40000);
	(void)add_parts(300000);
	add(1, SLI_EVENT_INLINE_MAX);
	add(1, STORE_PART_MAX);
	for (unsigned k = 0; k < 4; k++) {
		cfg.backward = k >= 2;
		cfg.from = cfg.backward ? 5 : 1;
		cfg.end = cfg.backward ? 1 : 5;
		begin(&o, "s", cfg);
		/* One item at a time, and what lies between. */
		while (run(&o, 1) == STORE_PUMP_BLOCKED)
			if (k == 1 && o.c.offset == STORE_PART_MAX)
				forget_tail();
		assert_string_equal(o.text,
		    cfg.backward ? "5 4 [262144] 3 [300000] 2 [40000] 1 "
				 : "1 2 [40000] 3 [300000] 4 [262144] 5 ");
		assert_in_range(store_cursor_held(&o.c), 0,
		    STORE_PAGE_BYTES + SLI_EVENT_INLINE_MAX + 100);
		store_cursor_fini(&o.c);
	}
}

static void
damage_is_a_gap(void **state)
{
	struct store_cursor_cfg cfg = {.from = 1, .end = 6};
	struct out o;
	uint64_t set;

	(void)state;
	add(2, 100);
	set = add_parts(200000);
	add(3, 100);
	t_store_close(&t);
	t_store_sql(&t, "UPDATE run SET sum=sum+1 WHERE id IN"
			" ((1<<36)|2,(1<<36)|5)");
	t_store_sql(&t, "UPDATE piece SET sum=sum+1 WHERE id=(SELECT max(id)"
			" FROM piece)");
	t_store_open(&t);
	assert_true(set > 0);
	begin(&o, "s", cfg);
	assert_int_equal(run(&o, 10000000), STORE_PUMP_END);
	assert_string_equal(o.text, "1 gap2-2:damaged 3 gap3-3:damaged 4 "
				    "gap5-5:damaged 6 ");
	store_cursor_fini(&o.c);
	cfg = (struct store_cursor_cfg){.backward = 1};
	begin(&o, "s", cfg);
	assert_int_equal(run(&o, 10000000), STORE_PUMP_END);
	assert_string_equal(o.text, "6 gap5-5:damaged 4 3 gap3-3:damaged "
				    "gap2-2:damaged 1 ");
	store_cursor_fini(&o.c);
}

static void
trimmed_is_a_gap(void **state)
{
	struct store_cursor_cfg cfg = {.from = 1};
	struct out o;

	(void)state;
	add(3, 100);
	(void)add_parts(200000);
	add(2, 100);
	begin(&o, "s", cfg);
	o.room = 7; /* 1 2 3, 4 and three parts of it */
	assert_int_equal(run(&o, 10000000), STORE_PUMP_BLOCKED);
	assert_int_equal(t_store_trim(&t, "s", 6), SLI_OK);
	assert_int_equal(t.seq, 6);
	o.room = -1;
	assert_int_equal(run(&o, 10000000), STORE_PUMP_PARKED);
	assert_string_equal(o.text, "1 2 3 4 gap4-5:trimmed 6 ");
	store_cursor_fini(&o.c);
	/* Asked for explicitly and no longer there: said so. From 0: the
	 * first one there is. */
	begin(&o, "s", cfg);
	assert_int_equal(run(&o, 10000000), STORE_PUMP_PARKED);
	assert_string_equal(o.text, "gap1-5:trimmed 6 ");
	store_cursor_fini(&o.c);
	cfg.from = 0;
	begin(&o, "s", cfg);
	assert_int_equal(run(&o, 10000000), STORE_PUMP_PARKED);
	assert_string_equal(o.text, "6 ");
	store_cursor_fini(&o.c);
	cfg = (struct store_cursor_cfg){.from = 2, .end = 3};
	begin(&o, "s", cfg);
	assert_int_equal(run(&o, 10000000), STORE_PUMP_END);
	assert_string_equal(o.text, "gap2-3:trimmed ");
	store_cursor_fini(&o.c);
}

static void
deletion_ends_every_cursor(void **state)
{
	struct store_cursor_cfg cfg = {.from = 1};
	struct out parked, blocked, reading;

	(void)state;
	add(3, 100);
	begin(&parked, "s", cfg);
	assert_int_equal(run(&parked, 10000), STORE_PUMP_PARKED);
	begin(&blocked, "s", cfg);
	assert_int_equal(run(&blocked, 1), STORE_PUMP_BLOCKED);
	forget_tail();
	begin(&reading, "s", cfg);
	assert_int_equal(store_cursor_pump(&reading.c, 10000, emit, &reading),
	    STORE_PUMP_READING);
	parked.woken = blocked.woken = reading.woken = 0;
	assert_int_equal(t_store_del(&t, "s"), SLI_OK);
	assert_int_equal(parked.woken, 1);
	assert_int_equal(blocked.woken, 1);
	assert_int_equal(run(&parked, 10000), STORE_PUMP_FAILED);
	assert_int_equal(parked.c.code, SLI_E_NOT_FOUND);
	assert_int_equal(run(&blocked, 10000), STORE_PUMP_FAILED);
	assert_int_equal(run(&reading, 10000), STORE_PUMP_FAILED);
	assert_int_equal(reading.c.code, SLI_E_NOT_FOUND);
	store_cursor_fini(&parked.c);
	store_cursor_fini(&blocked.c);
	store_cursor_fini(&reading.c);
}

/* Every cursor may finish any other from its wake. */
static struct out pair[3];

static void
wake_kill(void *ctx)
{
	(void)ctx;
	for (unsigned i = 0; i < 3; i++)
		store_cursor_fini(&pair[i].c);
}

static void
gone_with_a_read_in_flight(void **state)
{
	struct store_cursor_cfg cfg = {.from = 1};

	(void)state;
	add(3, 100);
	forget_tail();
	for (unsigned i = 0; i < 3; i++) {
		begin(&pair[i], "s", cfg);
		assert_int_equal(
		    store_cursor_pump(&pair[i].c, 1000, emit, &pair[i]),
		    STORE_PUMP_READING);
		store_cursor_fini(&pair[i].c);
	}
	add(1, 100);
	for (unsigned i = 0; i < 3; i++) {
		begin(&pair[i], "s", cfg);
		assert_int_equal(run(&pair[i], 10000), STORE_PUMP_PARKED);
		pair[i].c.cfg.wake = wake_kill;
	}
	add(1, 100);
	assert_null(pair[0].c.s);
	assert_null(pair[2].c.s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		unknown_sessions_have_no_cursor, setup, teardown),
	    cmocka_unit_test_setup_teardown(bounded_walks, setup, teardown),
	    cmocka_unit_test_setup_teardown(live_walks, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		long_bodies_come_in_parts, setup, teardown),
	    cmocka_unit_test_setup_teardown(damage_is_a_gap, setup, teardown),
	    cmocka_unit_test_setup_teardown(trimmed_is_a_gap, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		deletion_ends_every_cursor, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		gone_with_a_read_in_flight, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
