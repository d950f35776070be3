/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The byte queue: its bound, and that bytes come out as they went in. */
#include "unit.h"

#include "base/buf.h"

#include <string.h>

static void
the_maximum_holds(void **state)
{
	struct sli_buf b;
	char x[101] = {0};

	(void)state;
	sli_buf_init(&b, 100);
	assert_int_equal(sli_buf_append(&b, x, 101), SLI_E_RESOURCE_EXHAUSTED);
	assert_int_equal(sli_buf_append(&b, x, 100), SLI_OK);
	assert_null(sli_buf_reserve(&b, 1));
	assert_null(sli_buf_reserve(&b, SIZE_MAX));
	assert_int_equal(sli_buf_printf(&b, "y"), SLI_E_RESOURCE_EXHAUSTED);
	assert_int_equal(sli_buf_len(&b), 100);
	sli_buf_consume(&b, 60);
	assert_int_equal(sli_buf_append(&b, x, 60), SLI_OK);
	assert_int_equal(sli_buf_append(&b, x, 1), SLI_E_RESOURCE_EXHAUSTED);
	sli_buf_free(&b);
}

static void
an_empty_buffer_is_harmless(void **state)
{
	struct sli_buf b;

	(void)state;
	sli_buf_init(&b, 0);
	assert_int_equal(sli_buf_slice(&b).n, 0);
	assert_int_equal(sli_buf_append(&b, "", 0), SLI_OK);
	sli_buf_consume(&b, 0);
	sli_buf_trim(&b);
	sli_buf_reset(&b);
	sli_buf_free(&b);
	sli_buf_free(&b);
}

/* A sliding content under every ratio of appends to consumes. */
static void
bytes_keep_their_order(void **state)
{
	struct sli_buf b;
	uint8_t in = 0, out = 0;
	unsigned rnd = 1;

	(void)state;
	sli_buf_init(&b, 5000);
	for (unsigned i = 0; i < 20000; i++) {
		size_t add, take;
		uint8_t piece[300];

		rnd = rnd * 1103515245u + 12345u;
		add = (rnd >> 16) % sizeof(piece);
		take = (rnd >> 8) % 320;
		for (size_t k = 0; k < add; k++)
			piece[k] = (uint8_t)(in + k);
		if (sli_buf_append(&b, piece, add) == SLI_OK)
			in = (uint8_t)(in + add);
		take = SLI_MIN(take, sli_buf_len(&b));
		for (size_t k = 0; k < take; k++)
			assert_int_equal(
			    sli_buf_data(&b)[k], (uint8_t)(out + k));
		out = (uint8_t)(out + take);
		sli_buf_consume(&b, take);
	}
	sli_buf_free(&b);
}

static void
memory_comes_back_when_trimmed(void **state)
{
	struct sli_buf b;

	(void)state;
	sli_buf_init(&b, 1000);
	assert_int_equal(sli_buf_printf(&b, "%d-%s", 5, "x"), SLI_OK);
	unit_slice_is(sli_buf_slice(&b), "5-x");
	sli_buf_trim(&b);
	assert_non_null(b.mem);
	sli_buf_consume(&b, 3);
	sli_buf_trim(&b);
	assert_null(b.mem);
	assert_int_equal(sli_buf_append(&b, "z", 1), SLI_OK);
	sli_buf_free(&b);
}

static void
reserve_then_add(void **state)
{
	struct sli_buf b;
	uint8_t *p;

	(void)state;
	sli_buf_init(&b, 4096);
	p = sli_buf_reserve(&b, 4);
	assert_non_null(p);
	memcpy(p, "abcd", 4);
	sli_buf_added(&b, 2);
	unit_slice_is(sli_buf_slice(&b), "ab");
	sli_buf_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_maximum_holds),
	    cmocka_unit_test(an_empty_buffer_is_harmless),
	    cmocka_unit_test(bytes_keep_their_order),
	    cmocka_unit_test(memory_comes_back_when_trimmed),
	    cmocka_unit_test(reserve_then_add),
	};

	return cmocka_run_group_tests_name("base_buf", tests, NULL, NULL);
}
