/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Checked allocation and the arena. */
#include "unit.h"

#include "base/buf.h"
#include "base/ids.h"
#include "base/mailbox.h"
#include "base/map.h"

#include <string.h>

static void
overflowing_products_are_refused(void **state)
{
	volatile size_t huge = SIZE_MAX / 2 + 2;

	(void)state;
	assert_null(sli_calloc(huge, 2));
}

static void
the_nth_allocation_fails_once(void **state)
{
	void *p;

	(void)state;
	sli_mem_fail_at(2);
	p = sli_alloc(1);
	assert_non_null(p);
	assert_null(sli_zalloc(1));
	sli_free(p);
	p = sli_alloc(0);
	assert_non_null(p);
	p = sli_realloc(p, 0);
	assert_non_null(p);
	sli_free(p);
}

static void
strings_are_copied(void **state)
{
	char *a = sli_strdup("abc"), *b = sli_strndup("abcdef", 2);
	char *c = sli_asprintf("%s-%d", "x", 7);

	(void)state;
	assert_string_equal(a, "abc");
	assert_string_equal(b, "ab");
	assert_string_equal(c, "x-7");
	sli_free(a);
	sli_free(b);
	sli_free(c);
}

static void
the_arena_stops_at_its_cap(void **state)
{
	struct sli_arena a;
	unsigned n = 0;

	(void)state;
	sli_arena_init(&a, 10000);
	assert_null(sli_arena_alloc(&a, 10001));
	assert_null(sli_arena_alloc(&a, SIZE_MAX));
	while (sli_arena_alloc(&a, 0) != NULL)
		n++;
	assert_int_equal(n, 10000 / 16);
	assert_true(a.used <= a.cap);
	sli_arena_reset(&a);
	assert_int_equal(a.used, 0);
	assert_non_null(sli_arena_alloc(&a, 9000));
	sli_arena_free(&a);
	assert_null(a.head);
}

static void
arena_pieces_are_aligned_and_apart(void **state)
{
	struct sli_arena a;
	char *s;

	(void)state;
	sli_arena_init(&a, 1 << 20);
	for (size_t i = 0; i < 300; i++) {
		char *p = sli_arena_alloc(&a, i);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 16, 0);
		memset(p, 0xaa, i);
	}
	s = sli_arena_strdup(&a, "keep");
	assert_non_null(sli_arena_alloc(&a, 70000));
	assert_string_equal(s, "keep");
	sli_arena_reset(&a);
	sli_arena_free(&a);
}

static int
use_everything(void *ctx)
{
	struct sli_buf b;
	struct sli_arena a;
	struct sli_map *m = sli_map_new();
	struct sli_ids *t = sli_ids_new(100);
	struct sli_mailbox *mb = sli_mailbox_new();
	char *s = sli_asprintf("%d", 1), *d = sli_strndup("abc", 3);
	int ok = m != NULL && t != NULL && mb != NULL && s && d;

	sli_buf_init(&b, 100000);
	sli_arena_init(&a, 100000);
	for (unsigned i = 0; ok && i < 50; i++) {
		struct sli_slice k = sli_slice_of(&i, sizeof(i));

		ok = sli_map_put(m, k, ctx) == 0 && sli_ids_add(t, ctx) != 0 &&
		     sli_buf_append(&b, &i, sizeof(i)) == SLI_OK &&
		     sli_buf_printf(&b, "%u", i) == SLI_OK &&
		     sli_arena_strdup(&a, "0123456789") != NULL &&
		     sli_arena_alloc(&a, 500) != NULL;
	}
	sli_buf_free(&b);
	sli_arena_free(&a);
	sli_map_free(m);
	sli_ids_free(t);
	sli_mailbox_free(mb);
	sli_free(s);
	sli_free(d);
	return ok;
}

static void
every_allocation_may_fail(void **state)
{
	int x = 0;

	(void)state;
	unit_fail_each_alloc(use_everything, &x);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(overflowing_products_are_refused),
	    cmocka_unit_test(the_nth_allocation_fails_once),
	    cmocka_unit_test(strings_are_copied),
	    cmocka_unit_test(the_arena_stops_at_its_cap),
	    cmocka_unit_test(arena_pieces_are_aligned_and_apart),
	    cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests_name("base_mem", tests, NULL, NULL);
}
