/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Ids with generations, and the string map. */
#include "unit.h"

#include "base/ids.h"
#include "base/map.h"

#include <string.h>

static void
stale_and_foreign_ids_find_nothing(void **state)
{
	struct sli_ids *t = sli_ids_new(4);
	int a, b;
	uint64_t ia, ib;

	(void)state;
	assert_non_null(t);
	assert_null(sli_ids_get(t, 0));
	assert_null(sli_ids_get(t, 1));
	assert_null(sli_ids_get(t, UINT64_MAX));
	ia = sli_ids_add(t, &a);
	sli_ids_del(t, ia);
	ib = sli_ids_add(t, &b);
	assert_true(ia != ib);
	assert_null(sli_ids_get(t, ia));
	assert_ptr_equal(sli_ids_get(t, ib), &b);
	sli_ids_del(t, ia); /* stale: must not remove b */
	assert_int_equal(sli_ids_count(t), 1);
	sli_ids_free(t);
}

static void
a_full_table_refuses(void **state)
{
	struct sli_ids *t = sli_ids_new(40);
	int x;

	(void)state;
	for (int i = 0; i < 40; i++)
		assert_true(sli_ids_add(t, &x) != 0);
	assert_true(sli_ids_add(t, &x) == 0);
	assert_int_equal(sli_ids_count(t), 40);
	sli_ids_free(t);
}

static void
objects_may_go_during_a_walk(void **state)
{
	struct sli_ids *t = sli_ids_new(100);
	uint64_t id[50];
	int seen = 0;
	uint64_t *p;
	uint32_t pos = 0;

	(void)state;
	for (int i = 0; i < 50; i++) {
		id[i] = sli_ids_add(t, &id[i]);
		assert_true(id[i] != 0);
	}
	while ((p = sli_ids_next(t, &pos)) != NULL) {
		sli_ids_del(t, *p);
		seen++;
	}
	assert_int_equal(seen, 50);
	assert_int_equal(sli_ids_count(t), 0);
	sli_ids_free(t);
}

static void
a_map_keeps_what_it_is_given(void **state)
{
	struct sli_map *m = sli_map_new();
	int v[2000];

	(void)state;
	assert_null(sli_map_get(m, sli_slice_str("x")));
	assert_null(sli_map_del(m, sli_slice_str("x")));
	for (int i = 0; i < 2000; i++)
		assert_int_equal(
		    sli_map_put(m, sli_slice_of(&i, sizeof(i)), &v[i]), 0);
	for (int i = 0; i < 2000; i += 2)
		assert_ptr_equal(
		    sli_map_del(m, sli_slice_of(&i, sizeof(i))), &v[i]);
	assert_int_equal(sli_map_count(m), 1000);
	for (int i = 0; i < 2000; i++)
		assert_ptr_equal(sli_map_get(m, sli_slice_of(&i, sizeof(i))),
		    i % 2 ? (void *)&v[i] : NULL);
	sli_map_free(m);
}

static void
a_key_is_any_bytes_and_is_copied(void **state)
{
	struct sli_map *m = sli_map_new();
	char key[] = "ab";
	int a, b;

	(void)state;
	assert_int_equal(sli_map_put(m, sli_slice_of(key, 2), &a), 0);
	key[0] = 'z';
	assert_ptr_equal(sli_map_get(m, sli_slice_str("ab")), &a);
	assert_int_equal(sli_map_put(m, sli_slice_of("a\0b", 3), &b), 0);
	assert_int_equal(sli_map_put(m, sli_slice_of(NULL, 0), &b), 0);
	assert_ptr_equal(sli_map_get(m, sli_slice_of("a\0b", 3)), &b);
	assert_ptr_equal(sli_map_get(m, sli_slice_str("")), &b);
	assert_null(sli_map_get(m, sli_slice_str("a")));
	assert_int_equal(sli_map_put(m, sli_slice_str("ab"), &b), 0);
	assert_ptr_equal(sli_map_get(m, sli_slice_str("ab")), &b);
	assert_int_equal(sli_map_count(m), 3);
	sli_map_free(m);
}

static void
entries_may_go_during_a_walk(void **state)
{
	struct sli_map *m = sli_map_new();
	int v[100], *p;
	size_t pos = 0;
	int seen = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		v[i] = i;
		assert_int_equal(
		    sli_map_put(m, sli_slice_of(&i, sizeof(i)), &v[i]), 0);
	}
	while ((p = sli_map_next(m, &pos)) != NULL) {
		assert_ptr_equal(
		    sli_map_del(m, sli_slice_of(p, sizeof(*p))), p);
		seen++;
	}
	assert_int_equal(seen, 100);
	assert_int_equal(sli_map_count(m), 0);
	sli_map_free(m);
}

/* Tombstones must not fill the table up. */
static void
churn_stays_bounded(void **state)
{
	struct sli_map *m = sli_map_new();
	int v;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct sli_slice k = sli_slice_of(&i, sizeof(i));

		assert_int_equal(sli_map_put(m, k, &v), 0);
		assert_ptr_equal(sli_map_del(m, k), &v);
	}
	assert_int_equal(sli_map_count(m), 0);
	sli_map_free(m);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stale_and_foreign_ids_find_nothing),
	    cmocka_unit_test(a_full_table_refuses),
	    cmocka_unit_test(objects_may_go_during_a_walk),
	    cmocka_unit_test(a_map_keeps_what_it_is_given),
	    cmocka_unit_test(a_key_is_any_bytes_and_is_copied),
	    cmocka_unit_test(entries_may_go_during_a_walk),
	    cmocka_unit_test(churn_stays_bounded),
	};

	return cmocka_run_group_tests_name("base_ids", tests, NULL, NULL);
}
