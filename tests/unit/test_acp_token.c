/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The tokenizer: what it refuses, what it lets pass untouched, and that no
 * split of the bytes changes anything. */
#include "unit.h"

#include "acp/jtree.h"

#include <string.h>
#include <time.h>

/* A trace of tokens as text, to compare runs. */
struct trace {
	struct sli_buf b;
};

static void
note(void *ctx, struct tok *t, enum tok_kind kind, struct sli_slice s,
    uint64_t off, uint64_t len)
{
	struct trace *tr = ctx;

	assert_int_equal(
	    sli_buf_printf(&tr->b, "%u:%u@%llu+%llu ", t->depth, (unsigned)kind,
		(unsigned long long)off, (unsigned long long)len),
	    SLI_OK);
	assert_int_equal(
	    sli_buf_append(&tr->b, s.p, SLI_MIN(s.n, (size_t)TOK_CARRY)),
	    SLI_OK);
	assert_int_equal(sli_buf_append(&tr->b, "\n", 1), SLI_OK);
}

/* Feed in pieces of `step` bytes; returns the error. */
static enum tok_err
run(struct trace *tr, struct sli_slice doc, size_t step, struct tok *ret)
{
	struct tok t;
	enum tok_err err;

	sli_buf_reset(&tr->b);
	tok_init(&t, note, tr);
	for (size_t i = 0; i < doc.n; i += step)
		tok_feed(&t, doc.p + i, SLI_MIN(step, doc.n - i));
	err = tok_finish(&t);
	if (ret)
		*ret = t;
	return err;
}

static enum tok_err
check(const char *doc)
{
	struct trace tr;
	enum tok_err err;

	sli_buf_init(&tr.b, 1 << 20);
	err = run(&tr, sli_slice_str(doc), 1 << 20, NULL);
	sli_buf_free(&tr.b);
	return err;
}

static void
what_is_not_json_is_refused(void **state)
{
	static const char *const bad[] = {"", " ", "{", "}", "[", "]", "[1,]",
	    "[,1]", "{\"a\":}", "{\"a\"}", "{\"a\":1,}", "{a:1}", "{1:2}",
	    "{\"a\":1 \"b\":2}", "[1 2]", "1 2", "{}{}", "{} x", "tru", "truee",
	    "nul", "falsy", "NaN", "Infinity", "+1", "01", "-", "-a", "1.",
	    ".5", "1e", "1e+", "1.e1", "0x1", "\"", "\"a", "\"\\x\"",
	    "\"\\u12g4\"", "\"\\u123\"", "\"a\nb\"", "\"\t\"", "[}", "{]",
	    "'a'", "//", "{\"a\":1]", "\x01", "banner 1.0", "\xef\xbb\xbf{}"};

	(void)state;
	for (size_t i = 0; i < SLI_ARRAY_LEN(bad); i++)
		assert_int_equal(check(bad[i]), TOK_ERR_SYNTAX);
}

static void
nesting_of_100000_is_refused_cleanly(void **state)
{
	size_t n = 100000;
	uint8_t *deep = sli_alloc(2 * n);
	struct trace tr;
	struct tok t;

	(void)state;
	assert_non_null(deep);
	sli_buf_init(&tr.b, 1 << 20);
	memset(deep, '[', n);
	memset(deep + n, ']', n);
	assert_int_equal(
	    run(&tr, sli_slice_of(deep, 2 * n), 4096, NULL), TOK_ERR_DEEP);
	/* the most that is allowed, and one more */
	assert_int_equal(run(&tr,
			     sli_slice_of(deep + n - TOK_DEPTH_MAX,
				 (size_t)TOK_DEPTH_MAX * 2),
			     7, NULL),
	    TOK_ERR_NONE);
	assert_int_equal(run(&tr,
			     sli_slice_of(deep + n - TOK_DEPTH_MAX - 1,
				 (size_t)TOK_DEPTH_MAX * 2 + 2),
			     7, NULL),
	    TOK_ERR_DEEP);
	tok_init(&t, note, &tr);
	t.max_depth = 3;
	tok_feed(&t, deep + n - 4, 8);
	assert_int_equal(tok_finish(&t), TOK_ERR_DEEP);
	sli_buf_free(&tr.b);
	sli_free(deep);
}

static void
strange_values_pass_untouched(void **state)
{
	static const char *const good[] = {"{}", "[]", "0", "-0", "1e400",
	    "-1.5E-400", "9223372036854775808",
	    "123456789012345678901234567890", "\"\\ud800\"",
	    "\"\\udc00\\ud800\"", "\"\\u0000\"", "\"\"", "true", "false",
	    "null", " [ 1 , {\"a\" : [ ] } ] ", "{\"a\":1,\"a\":2}", "{\"\":0}",
	    "\"\xe2\x80\xa8\"", "\"\xf0\x9f\x98\x80\"",
	    "[[[[1]]],{\"a\":{\"b\":[]}}]", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""};

	(void)state;
	for (size_t i = 0; i < SLI_ARRAY_LEN(good); i++)
		assert_int_equal(check(good[i]), TOK_ERR_NONE);
}

static void
any_split_gives_the_same_tokens(void **state)
{
	static const char doc[] =
	    "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\",\"n\":-12.5e+10,"
	    "\"u\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\\ud83d\\ude00\","
	    "\"l\":[true,false,null,[],{}],\"_meta\":{\"x\":[1,2]},"
	    "\"long\":\"0123456789012345678901234567890123456789\"}";
	struct sli_slice d = sli_slice_of(doc, sizeof(doc) - 1);
	struct trace whole, part;
	struct tok t;

	(void)state;
	sli_buf_init(&whole.b, 1 << 20);
	sli_buf_init(&part.b, 1 << 20);
	assert_int_equal(run(&whole, d, d.n, &t), TOK_ERR_NONE);
	assert_true(t.meta);
	assert_false(t.bad_utf8);
	for (size_t step = 1; step < d.n; step++) {
		assert_int_equal(run(&part, d, step, &t), TOK_ERR_NONE);
		assert_true(sli_slice_eq(
		    sli_buf_slice(&whole.b), sli_buf_slice(&part.b)));
		assert_true(t.meta);
	}
	/* cut anywhere it is no document */
	for (size_t n = 0; n < d.n; n++)
		assert_int_equal(
		    run(&part, sli_slice_of(doc, n), 5, NULL), TOK_ERR_SYNTAX);
	sli_buf_free(&whole.b);
	sli_buf_free(&part.b);
}

static void
invalid_utf8_is_marked_and_does_not_stop(void **state)
{
	static const char *const bad[] = {"\"\xff\"", "\"\x80\"",
	    "\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xe2\x82\"", "\"\xe2\x28\xa1\"",
	    "\"\xed\xa0\x80\"", "\"\xe0\x80\x80\"", "\"\xf0\x80\x80\x80\"",
	    "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"a\xc3\"",
	    "{\"\xff\":1}", "\"\xe2\x82\\n\""};
	struct trace tr;
	struct tok t;

	(void)state;
	sli_buf_init(&tr.b, 1 << 20);
	for (size_t i = 0; i < SLI_ARRAY_LEN(bad); i++)
		for (size_t step = 1; step < 6; step++) {
			assert_int_equal(
			    run(&tr, sli_slice_str(bad[i]), step, &t),
			    TOK_ERR_NONE);
			assert_true(t.bad_utf8);
		}
	sli_buf_free(&tr.b);
}

static void
an_unwatched_part_is_checked_and_not_told(void **state)
{
	static const char doc[] =
	    "{\"a\":{\"b\":[1,{\"c\":\"_meta\"}]},\"d\":2}";
	struct trace tr;
	struct tok t;

	(void)state;
	sli_buf_init(&tr.b, 1 << 20);
	tok_init(&t, note, &tr);
	t.watch = 1;
	tok_feed(&t, (const uint8_t *)doc, sizeof(doc) - 1);
	assert_int_equal(tok_finish(&t), TOK_ERR_NONE);
	assert_null(memmem(tr.b.mem, tr.b.len, "b\n", 2));
	assert_non_null(memmem(tr.b.mem, tr.b.len, "d\n", 2));
	assert_false(t.meta); /* as a value it is only text */
	sli_buf_free(&tr.b);
}

static void
a_byte_at_a_time_costs_linear_time(void **state)
{
	size_t n = 1 << 20;
	uint8_t *doc = sli_alloc(n);
	struct trace tr;
	struct timespec a, b;
	struct tok t;
	int64_t ms;

	(void)state;
	assert_non_null(doc);
	memset(doc, 'x', n);
	doc[0] = doc[n - 1] = '"';
	sli_buf_init(&tr.b, 1 << 20);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	assert_int_equal(run(&tr, sli_slice_of(doc, n), 1, &t), TOK_ERR_NONE);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
	/* a rescan per byte would be 5 * 10^11 steps */
	assert_in_range(ms, 0, 5000);
	sli_buf_free(&tr.b);
	sli_free(doc);
}

static void
the_index_finds_values_and_decodes_strings(void **state)
{
	static const char doc[] =
	    "{\"a\":[10,{\"k\":\"v\\n\\u00e4\\ud83d\\ude00"
	    "\\ud800\"},[]],\"b\":{},\"a2\":null}";
	struct sli_buf out;
	struct jtree j;
	uint32_t a, k;

	(void)state;
	jtree_init(&j, 100);
	sli_buf_init(&out, 100);
	assert_int_equal(
	    jtree_parse(&j, sli_slice_of(doc, sizeof(doc) - 1)), 0);
	a = jtree_get(&j, 0, "a");
	unit_slice_is(jtree_raw(&j, jtree_at(&j, a, 0)), "10");
	unit_slice_is(jtree_raw(&j, jtree_at(&j, a, 2)), "[]");
	assert_int_equal(jtree_at(&j, a, 3), JNONE);
	k = jtree_get(&j, jtree_at(&j, a, 1), "k");
	assert_int_equal(json_decode(&out, jtree_text(&j, k), 50), 0);
	unit_slice_is(
	    sli_buf_slice(&out), "v\n\xc3\xa4\xf0\x9f\x98\x80\xef\xbf\xbd");
	assert_int_equal(jtree_get(&j, 0, "none"), JNONE);
	assert_int_equal(jtree_get(&j, JNONE, "a"), JNONE);
	unit_slice_is(jtree_raw(&j, jtree_get(&j, 0, "a2")), "null");
	jtree_fini(&j);
	jtree_init(&j, 3); /* too few */
	assert_int_equal(
	    jtree_parse(&j, sli_slice_of(doc, sizeof(doc) - 1)), -1);
	jtree_fini(&j);
	sli_buf_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_not_json_is_refused),
	    cmocka_unit_test(nesting_of_100000_is_refused_cleanly),
	    cmocka_unit_test(strange_values_pass_untouched),
	    cmocka_unit_test(any_split_gives_the_same_tokens),
	    cmocka_unit_test(invalid_utf8_is_marked_and_does_not_stop),
	    cmocka_unit_test(an_unwatched_part_is_checked_and_not_told),
	    cmocka_unit_test(a_byte_at_a_time_costs_linear_time),
	    cmocka_unit_test(the_index_finds_values_and_decodes_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
