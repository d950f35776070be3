/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* Bodies in parts, the hash chain over everything, damage found on reading,
 * and what a start sweeps. */
#include "unit.h"

#include "crypto/hash.h"
#include "store/chain.h"
#include "store/int.h"
#include "t_store.h"

#include <stdlib.h>

#define BIG (8u << 20)

static int
setup(void **state)
{
	struct t_store *t = calloc(1, sizeof(*t));

	t_store_new(t, 0);
	t_store_open(t);
	assert_int_equal(t_store_session(t, "s"), SLI_OK);
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
noise(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		p[i] = (uint8_t)(seed >> 24);
	}
}

static struct sli_record
naming(uint64_t set, uint64_t length)
{
	struct sli_record r = t_store_event(NULL, 0);

	r.ev.parts = set;
	r.ev.length = length;
	return r;
}

static void
append_in(
    struct t_store *t, uint64_t set, const uint8_t *p, size_t n, size_t step)
{
	for (size_t at = 0; at < n; at += step)
		store_part_append(
		    t->st, set, sli_slice_of(p + at, SLI_MIN(step, n - at)));
}

static void
long_bodies_come_back(void **state)
{
	static const size_t steps[] = {1 << 20, 65536, 4096, 777777};
	struct t_store *t = *state;
	uint8_t *big = malloc(BIG), *got;
	struct sli_record r;
	uint64_t set;
	struct t_page p;
	size_t n;

	noise(big, BIG, 1);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(steps); i++) {
		set = store_part_begin(t->st, "s");
		assert_true(set > 0);
		append_in(t, set, big, BIG - i, steps[i]);
		/* Not before every byte is there. */
		r = naming(set, BIG);
		if (i > 0)
			assert_int_equal(t_store_commit(t, "s", &r, 1),
			    SLI_E_INVALID_ARGUMENT);
		r = naming(set, BIG - i);
		assert_int_equal(t_store_commit(t, "s", &r, 1), SLI_OK);
		assert_int_equal(t->seq, i + 1);
		got = t_store_body(t, set, &n);
		assert_int_equal(n, BIG - i);
		assert_memory_equal(got, big, n);
		free(got);
		t_store_page(t, "s", i + 1, 0, 1, 100, &p);
		assert_int_equal(p.n, 1);
		assert_int_equal(p.ev[0].parts, set);
		assert_int_equal(p.ev[0].length, BIG - i);
		assert_int_equal(p.ev[0].body.n, 0);
		t_page_free(&p);
		/* Named once only. */
		assert_int_equal(
		    t_store_commit(t, "s", &r, 1), SLI_E_INVALID_ARGUMENT);
	}
	assert_int_equal(store_bytes(t->st, "s"), 4 * BIG - 6);
	t_store_close(t);
	t_store_open(t);
	got = t_store_body(t, set, &n);
	assert_int_equal(n, BIG - 3);
	assert_memory_equal(got, big, n);
	free(got);
	free(big);
}

static void
no_body(void *ctx, struct sli_slice bytes, const struct sli_errinfo *ei)
{
	struct t_store *t = ctx;

	assert_int_equal(bytes.n, 0);
	t->answered = 1;
	t->code = ei->code;
}

static enum sli_err
body_code(struct t_store *t, uint64_t set)
{
	t->answered = 0;
	store_body(t->st, set, 0, 10, no_body, t);
	t_store_wait(t, &t->answered);
	return t->code;
}

static void
sets_belong_to_their_session(void **state)
{
	struct t_store *t = *state;
	struct sli_record r;
	uint64_t set;

	assert_int_equal(t_store_session(t, "t"), SLI_OK);
	set = store_part_begin(t->st, "s");
	store_part_append(t->st, set, sli_slice_str("abc"));
	r = naming(set, 3);
	assert_int_equal(t_store_commit(t, "t", &r, 1), SLI_E_INVALID_ARGUMENT);
	/* Not named yet: nobody reads it. */
	assert_int_equal(body_code(t, set), SLI_E_NOT_FOUND);
	assert_int_equal(body_code(t, 12345), SLI_E_NOT_FOUND);
	store_part_drop(t->st, set);
	store_part_append(t->st, set, sli_slice_str("late"));
	assert_int_equal(t_store_commit(t, "s", &r, 1), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(store_part_begin(t->st, "nobody"), 0);
	store_part_append(t->st, 0, sli_slice_str("x"));
	store_part_drop(t->st, 0);
	/* An empty set may be named: an empty body. */
	set = store_part_begin(t->st, "s");
	r = naming(set, 0);
	assert_int_equal(t_store_commit(t, "s", &r, 1), SLI_OK);
	assert_int_equal(body_code(t, set), SLI_OK);
	/* A session that goes takes its open sets with it. */
	set = store_part_begin(t->st, "s");
	store_part_append(t->st, set, sli_slice_str("abc"));
	assert_int_equal(t_store_del(t, "s"), SLI_OK);
	store_part_append(t->st, set, sli_slice_str("abc"));
	t_store_close(t);
	t_store_open_manual(t);
	store_step_purge(t->st);
	assert_int_equal(t_store_sql(t, "SELECT count(*) FROM piece"), 0);
	assert_int_equal(t_store_sql(t, "SELECT count(*) FROM part_set"), 0);
}

static void
a_start_sweeps_what_is_not_named(void **state)
{
	struct t_store *t = *state;
	uint8_t *big = malloc(BIG);
	struct sli_record r;
	uint64_t named, open;
	uint8_t *got;
	size_t n;

	noise(big, BIG, 2);
	named = store_part_begin(t->st, "s");
	open = store_part_begin(t->st, "s");
	append_in(t, named, big, 300000, 65536);
	append_in(t, open, big, BIG, 65536);
	r = naming(named, 300000);
	assert_int_equal(t_store_commit(t, "s", &r, 1), SLI_OK);
	t_store_close(t);
	assert_true(t_store_sql(t, "SELECT count(*) FROM piece") > 100);
	t_store_open_manual(t);
	store_step_purge(t->st);
	assert_int_equal(t_store_sql(t, "SELECT count(*) FROM piece"), 5);
	/* A new set never takes the number of an old one. */
	assert_true(store_part_begin(t->st, "s") > open);
	got = t_store_body(t, named, &n);
	assert_int_equal(n, 300000);
	assert_memory_equal(got, big, n);
	free(got);
	free(big);
}

/* --- the chain ------------------------------------------------------------*/

#define CHAIN_EVENTS 200u

/* The same events, cut into commits and batches by `seed`. */
static void
play(struct t_store *t, const char *sid, uint32_t seed, uint8_t ret[32])
{
	static uint8_t body[40000];
	struct sli_record r[8];
	uint64_t set;
	unsigned n;

	t_store_close(t);
	t->cfg.linger_ms = seed % 3;
	t_store_open(t);
	assert_int_equal(t_store_session(t, sid), SLI_OK);
	noise(body, sizeof(body), 3);
	for (unsigned i = 0; i < CHAIN_EVENTS; i += n) {
		seed = seed * 1664525u + 1013904223u;
		n = SLI_MIN(1 + (seed >> 16) % 8, CHAIN_EVENTS - i);
		for (unsigned k = 0; k < n; k++) {
			unsigned e = i + k;

			r[k] = t_store_event(body + e, e * 131 % 5000);
			r[k].ev.turn = e / 20;
			if (e % 50 != 9)
				continue;
			set = store_part_begin(t->st, sid);
			append_in(t, set, body, sizeof(body), 1 + (seed >> 20));
			r[k].ev = naming(set, sizeof(body)).ev;
		}
		if (seed & 1)
			assert_int_equal(t_store_commit(t, sid, r, n), SLI_OK);
		else
			store_commit(t->st, sid, r, n, 0, NULL, NULL);
	}
	r[0] = t_store_event("end", 3);
	assert_int_equal(t_store_commit(t, sid, r, 1), SLI_OK);
	assert_int_equal(t->seq, CHAIN_EVENTS + 1);
	assert_int_equal(store_chain(t->st, sid, ret), SLI_OK);
}

/* From the definition, with nothing of the writer. */
static void
chain_by_hand(uint8_t chain[32])
{
	static uint8_t body[40000];
	struct sli_event ev;
	uint8_t hash[32];

	noise(body, sizeof(body), 3);
	memset(chain, 0, 32);
	for (unsigned e = 0; e <= CHAIN_EVENTS; e++) {
		ev = t_store_event(body + e, e * 131 % 5000).ev;
		ev.turn = e / 20;
		if (e % 50 == 9) {
			ev = t_store_event(body, sizeof(body)).ev;
		} else if (e == CHAIN_EVENTS) {
			ev = t_store_event("end", 3).ev;
		}
		sli_hash_once(ev.body, hash);
		store_chain_step(chain, e + 1, &ev, hash);
	}
}

static void
chain_depends_on_events_alone(void **state)
{
	struct t_store *t = *state;
	uint8_t want[32], got[32];
	char sid[8] = "c0";

	chain_by_hand(want);
	for (unsigned i = 0; i < 6; i++) {
		sid[1] = (char)('0' + i);
		play(t, sid, i, got);
		assert_memory_equal(want, got, 32);
	}
}

/* --- damage ---------------------------------------------------------------*/

static void
damage_is_found_and_the_rest_served(void **state)
{
	struct t_store *t = *state;
	struct sli_record r[4];
	struct store_stats s;
	struct t_page p;

	assert_int_equal(t_store_session(t, "t"), SLI_OK);
	for (unsigned i = 0; i < 4; i++)
		r[i] = t_store_event("abcdefgh", 8);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(t_store_commit(t, "s", r, 4), SLI_OK);
	assert_int_equal(t_store_commit(t, "t", r, 4), SLI_OK);
	t_store_close(t);
	/* One bit in a body of the third run, 9..12. */
	t_store_sql(t,
	    "UPDATE run SET body=CAST(replace(body,x'62',x'63') AS BLOB)"
	    " WHERE id=(1<<36)|12");
	t_store_open(t);
	t_store_page(t, "s", 1, 0, 100, 10000, &p);
	assert_int_equal(p.code, SLI_OK);
	assert_int_equal(p.n, 8);
	assert_int_equal(p.first_lost, 9);
	assert_int_equal(p.last_lost, 12);
	assert_int_equal(p.more, 1);
	t_page_free(&p);
	t_store_page(t, "s", 11, 0, 100, 10000, &p);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.first_lost, 11);
	t_page_free(&p);
	t_store_page(t, "s", 13, 0, 100, 10000, &p);
	assert_int_equal(p.n, 8);
	assert_int_equal(p.first_lost, 0);
	t_page_free(&p);
	t_store_page(t, "s", 20, 1, 100, 10000, &p);
	assert_int_equal(p.n, 8);
	assert_int_equal(p.first_lost, 9);
	assert_int_equal(p.last_lost, 12);
	t_page_free(&p);
	t_store_page(t, "t", 1, 0, 100, 10000, &p);
	assert_int_equal(p.n, 4);
	t_page_free(&p);
	store_stats(t->st, &s);
	assert_int_equal(s.damaged, 3);
	/* Numbers count as well as bytes; a missing row is damage too. */
	t_store_close(t);
	t_store_sql(t, "UPDATE run SET at_ms=at_ms+1 WHERE id=(1<<36)|4");
	t_store_sql(t, "UPDATE run SET n=3 WHERE id=(1<<36)|8");
	t_store_sql(t, "DELETE FROM run WHERE id=(1<<36)|16");
	t_store_open(t);
	t_store_page(t, "s", 1, 0, 100, 10000, &p);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.last_lost, 4);
	t_store_page(t, "s", 8, 1, 100, 10000, &p);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.first_lost, 5);
	assert_int_equal(p.last_lost, 8);
	t_store_page(t, "s", 13, 0, 100, 10000, &p);
	assert_int_equal(p.n, 0);
	assert_int_equal(p.first_lost, 13);
	assert_int_equal(p.last_lost, 16);
	t_store_page(t, "s", 17, 1, 1, 10000, &p);
	assert_int_equal(p.n, 1);
	t_page_free(&p);
	t_store_page(t, "s", 16, 1, 1, 10000, &p);
	assert_int_equal(p.first_lost, 13);
	assert_int_equal(p.last_lost, 16);
	assert_int_equal(t->fatals, 0);
}

static void
damaged_pieces_are_found(void **state)
{
	struct t_store *t = *state;
	static uint8_t big[300000];
	struct sli_record r;
	uint64_t set = store_part_begin(t->st, "s");

	append_in(t, set, big, sizeof(big), 65536);
	r = naming(set, sizeof(big));
	assert_int_equal(t_store_commit(t, "s", &r, 1), SLI_OK);
	assert_int_equal(body_code(t, set + 1), SLI_E_NOT_FOUND);
	t_store_close(t);
	t_store_sql(t,
	    "UPDATE piece SET body=CAST(zeroblob(65535)||x'01' AS BLOB)"
	    " WHERE id=(SELECT min(id) FROM piece)");
	t_store_open(t);
	assert_int_equal(body_code(t, set), SLI_E_DATA_LOSS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		sets_belong_to_their_session, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		long_bodies_come_back, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		a_start_sweeps_what_is_not_named, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		chain_depends_on_events_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		damage_is_found_and_the_rest_served, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		damaged_pieces_are_found, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
