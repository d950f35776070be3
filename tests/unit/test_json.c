/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The JSON writer and the bounded reader. */
#include "unit.h"

#include "base/buf.h"
#include "json/json.h"

#include <string.h>

static void
what_is_not_json_is_refused(void **state)
{
	static const char *const bad[] = {"", "{", "}", "{\"a\":}", "[1,]",
	    "{\"a\":1,\"a\":2}", "\"\xff\"", "nul", "1 2", "\"a", "[1e999]",
	    "99999999999999999999"};
	struct sli_json *j = NULL;
	struct sli_errinfo ei;

	(void)state;
	for (size_t i = 0; i < SLI_ARRAY_LEN(bad); i++) {
		assert_int_equal(
		    sli_json_parse(sli_slice_str(bad[i]), 1000, &j, &ei),
		    SLI_E_INVALID_ARGUMENT);
		assert_null(j);
	}
}

static void
size_and_depth_are_bounded(void **state)
{
	struct sli_json *j = NULL;
	char deep[300];

	(void)state;
	assert_int_equal(sli_json_parse(sli_slice_str("[1,2,3]"), 6, &j, NULL),
	    SLI_E_OUT_OF_RANGE);
	memset(deep, '[', 150);
	memset(deep + 150, ']', 150);
	assert_int_equal(
	    sli_json_parse(sli_slice_of(deep, 300), 1000, &j, NULL),
	    SLI_E_OUT_OF_RANGE);
	assert_int_equal(
	    sli_json_parse(sli_slice_of(deep + 90, 120), 1000, &j, NULL),
	    SLI_OK);
	sli_json_free(j);
	/* brackets in strings are not depth */
	memset(deep + 1, '[', 100);
	deep[0] = deep[101] = '"';
	assert_int_equal(
	    sli_json_parse(sli_slice_of(deep, 102), 1000, &j, NULL), SLI_OK);
	sli_json_free(j);
}

static void
values_are_found(void **state)
{
	const char *text = "{\"s\":\"a\\u0000b\",\"n\":-5,\"b\":true,"
			   "\"l\":[1,\"x\",{}],\"z\":null,\"r\":1.5}";
	struct sli_json *j = NULL;
	const struct sli_json *l, *v;
	struct sli_slice s;
	const char *key;
	void *pos = NULL;
	int64_t n;
	int b, members = 0;

	(void)state;
	assert_int_equal(
	    sli_json_parse(sli_slice_str(text), 1000, &j, NULL), SLI_OK);
	assert_true(sli_json_str(sli_json_get(j, "s"), &s));
	assert_true(sli_slice_eq(s, sli_slice_of("a\0b", 3)));
	assert_true(sli_json_i64(sli_json_get(j, "n"), &n) && n == -5);
	assert_true(sli_json_bool(sli_json_get(j, "b"), &b) && b == 1);
	l = sli_json_get(j, "l");
	assert_int_equal(sli_json_len(l), 3);
	assert_true(sli_json_str(sli_json_at(l, 1), &s));
	assert_int_equal(sli_json_type(sli_json_at(l, 2)), SLI_JSON_OBJECT);
	assert_int_equal(sli_json_type(sli_json_get(j, "r")), SLI_JSON_REAL);
	assert_null(sli_json_at(l, 3));
	assert_null(sli_json_get(sli_json_get(j, "none"), "deeper"));
	assert_false(sli_json_i64(sli_json_get(j, "s"), &n));
	assert_false(sli_json_str(NULL, &s));
	assert_int_equal(sli_json_len(j), 0);
	while (sli_json_next(j, &pos, &key, &v))
		members++;
	assert_int_equal(members, 6);
	sli_json_free(j);
	sli_json_free(NULL);
}

static void
written_text_is_exact(void **state)
{
	struct sli_buf b;
	struct sli_jw w;

	(void)state;
	sli_buf_init(&b, 4096);
	sli_jw_init(&w, &b);
	sli_jw_object(&w);
	sli_jw_kcstr(&w, "a", "q\"\\\n\t\x01\x7f/");
	sli_jw_ku64(&w, "u", UINT64_MAX);
	sli_jw_key(&w, "l");
	sli_jw_array(&w);
	sli_jw_i64(&w, INT64_MIN);
	sli_jw_bool(&w, 1);
	sli_jw_null(&w);
	sli_jw_object(&w);
	sli_jw_end(&w);
	sli_jw_raw(&w, sli_slice_str("[0]"));
	sli_jw_end(&w);
	sli_jw_kcstr(&w, "n", NULL);
	sli_jw_end(&w);
	assert_int_equal(sli_jw_done(&w), SLI_OK);
	unit_slice_is(sli_buf_slice(&b),
	    "{\"a\":\"q\\\"\\\\\\n\\t\\u0001\\u007f/\","
	    "\"u\":18446744073709551615,\"l\":[-9223372036854775808,true,"
	    "null,{},[0]],\"n\":null}");
	sli_buf_free(&b);
}

/* Whatever bytes go in, what comes out is JSON that the reader takes. */
static void
any_bytes_make_valid_json(void **state)
{
	unsigned rnd = 7;

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		struct sli_json *j = NULL;
		uint8_t in[40];
		struct sli_buf b;
		struct sli_jw w;

		for (size_t i = 0; i < sizeof(in); i++) {
			rnd = rnd * 1103515245u + 12345u;
			in[i] = (uint8_t)(rnd >> 16);
		}
		memcpy(in + round % 30, "\xf0\x9f\x98\x80", 4);
		sli_buf_init(&b, 4096);
		sli_jw_init(&w, &b);
		sli_jw_str(&w, sli_slice_of(in, round % 41));
		assert_int_equal(sli_jw_done(&w), SLI_OK);
		assert_int_equal(
		    sli_json_parse(sli_buf_slice(&b), 4096, &j, NULL), SLI_OK);
		sli_json_free(j);
		sli_buf_free(&b);
	}
}

static void
a_full_buffer_sticks(void **state)
{
	struct sli_buf b;
	struct sli_jw w;

	(void)state;
	sli_buf_init(&b, 10);
	sli_jw_init(&w, &b);
	sli_jw_array(&w);
	sli_jw_cstr(&w, "far too long for it");
	sli_jw_u64(&w, 1);
	sli_jw_end(&w);
	assert_int_equal(sli_jw_done(&w), SLI_E_RESOURCE_EXHAUSTED);
	sli_buf_free(&b);
}

static int
parse_one(void *ctx)
{
	struct sli_json *j = NULL;
	enum sli_err e = sli_json_parse(
	    sli_slice_str("{\"a\":[1,\"two\",{\"b\":null}]}"), 100, &j, ctx);

	if (e == SLI_OK)
		sli_json_free(j);
	return e == SLI_OK;
}

static void
every_allocation_may_fail(void **state)
{
	(void)state;
	unit_fail_each_alloc(parse_one, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_not_json_is_refused),
	    cmocka_unit_test(size_and_depth_are_bounded),
	    cmocka_unit_test(values_are_found),
	    cmocka_unit_test(written_text_is_exact),
	    cmocka_unit_test(any_bytes_make_valid_json),
	    cmocka_unit_test(a_full_buffer_sticks),
	    cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
