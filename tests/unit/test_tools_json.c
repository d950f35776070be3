/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The command's small JSON reader: what is no line of JSON, what is found at a
 * path, what a string says. The bytes come from agents, so every cut of a line
 * must be safe. */
#include "unit.h"

#include "../../tools/json.c"

#include <stdlib.h>
#include <string.h>

static int
ok(const char *s)
{
	/* On the heap, so that a read beyond the end is seen. */
	size_t n = strlen(s);
	char *p = malloc(n ? n : 1);
	int r;

	assert_non_null(p);
	memcpy(p, s, n);
	r = json_line_ok(p, n);
	free(p);
	return r;
}

static void
not_a_line(void **state)
{
	static const char *const bad[] = {"", " ", "x", "{", "}", "[", "]",
	    "{]", "[}", "[1,]", "[,1]", "{,}", "{\"a\"}", "{\"a\":}",
	    "{\"a\":1,}", "{a:1}", "{1:1}", "\"", "\"\\\"", "\"\\x\"",
	    "\"\\u12\"", "\"\\u12g4\"", "\"\t\"", "\"\n\"", "01", "-", "1.",
	    ".5", "1e", "1e+", "+1", "tru", "nul", "1 2", "{} {}", "{}\n",
	    "\n{}", "[1,\n2]", "\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"",
	    "\"\xf5\x80\x80\x80\"", "\"\xe2\x82\"", "\xef\xbb\xbf{}", "[1 2]",
	    "{\"a\" 1}", "{\"a\":1 \"b\":2}", "[[]", "[]]"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (ok(bad[i]))
			fail_msg("taken for JSON: %s", bad[i]);
}

static void
a_line(void **state)
{
	static const char *const good[] = {"{}", "[]", "null", "true", "false",
	    "0", "-0", "1e400", "9223372036854775808", "-1.5E-3", "\"\"",
	    "\"\\ud800\"", "\"\\u0000\"", "\"\xe2\x82\xac\"",
	    "\"\xf0\x9f\x98\x80\"", "{\"a\":[{\"b\":{}},[]],\"c\":\"}\"}",
	    " {\"a\" : 1 , \"b\":[ ] }\t", "{}\r", "[[[[[]]]]]",
	    "{\"a\":1,\"a\":2}"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!ok(good[i]))
			fail_msg("not taken for JSON: %s", good[i]);
}

static void
depth(void **state)
{
	static char deep[2 * JSON_DEPTH_MAX + 3];

	(void)state;
	memset(deep, '[', JSON_DEPTH_MAX);
	memset(deep + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
	assert_int_equal(ok(deep), 1);
	memset(deep, '[', JSON_DEPTH_MAX + 1);
	memset(deep + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
	assert_int_equal(ok(deep), 0);
}

/* The line of a real update, cut at every byte: never whole, never a read
 * beyond the end, and no search that runs away. */
static void
every_cut(void **state)
{
	static const char line[] =
	    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":"
	    "{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":"
	    "\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":"
	    "\"a\\u20ac\\n\\ud83d\\ude00\\\"\"}},\"n\":[1,-2.5e3,null,true]}}";
	size_t n = sizeof(line) - 1;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		char *p = malloc(i ? i : 1);
		struct json v;

		assert_non_null(p);
		memcpy(p, line, i);
		assert_int_equal(json_line_ok(p, i), 0);
		v = json_path((struct json){p, i}, "params.update.content");
		(void)json_path(v, "text");
		v = json_path((struct json){p, i}, "params.n");
		free(p);
	}
	assert_int_equal(json_line_ok(line, n), 1);
}

static struct json
doc(const char *s)
{
	return (struct json){s, strlen(s)};
}

static void
paths(void **state)
{
	struct json d = doc("{\"a\":{\"b\":[1,\"x\"],\"c\":null}, \"d\":{}}");
	struct json v;

	(void)state;
	v = json_path(d, "a.c");
	assert_int_equal(v.n, 4);
	assert_memory_equal(v.p, "null", 4);
	assert_null(json_path(d, "a.x").p);
	assert_null(json_path(d, "d.x").p);
	assert_null(json_path(d, "a.b.x").p);
	assert_null(json_path(d, "").p);
	assert_null(json_path((struct json){NULL, 0}, "a").p);
	assert_null(json_member(doc("[]"), "a").p);
	assert_null(json_member(doc("\"a\""), "a").p);
	v = json_path(d, "d");
	assert_int_equal(v.n, 2);
}

static void
items(void **state)
{
	struct json arr = doc("[ 1 , \"two\",[3,4],{} ]");
	static const char *const want[] = {"1", "\"two\"", "[3,4]", "{}"};
	size_t pos = 0, n = 0;
	struct json v;

	(void)state;
	while ((v = json_next(arr, &pos)).p) {
		assert_true(n < 4);
		assert_int_equal(v.n, strlen(want[n]));
		assert_memory_equal(v.p, want[n], v.n);
		n++;
	}
	assert_int_equal(n, 4);
	pos = 0;
	assert_null(json_next(doc("[]"), &pos).p);
	pos = 0;
	assert_null(json_next(doc("{}"), &pos).p);
}

static void
says(const char *lit, const char *want, size_t n)
{
	struct json v = doc(lit);
	char *dst = malloc(v.n);

	assert_non_null(dst);
	assert_int_equal(json_text(v, dst), n);
	assert_memory_equal(dst, want, n);
	free(dst);
}

static void
texts(void **state)
{
	(void)state;
	says("\"\"", "", 0);
	says("\"plain\"", "plain", 5);
	says("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
	says("\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac", 6);
	says("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4);
	says("\"\\ud83dx\"", "\xef\xbf\xbdx", 4);
	says("\"\\ude00\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd", 6);
	says("\"\\ud83d\\u0041\"", "\xef\xbf\xbd\x41", 4);
	says("\"\\u0000\"", "\0", 1);
	says("12", "", 0);
	assert_int_equal(json_is(doc("\"abc\""), "abc"), 1);
	assert_int_equal(json_is(doc("\"abc\""), "ab"), 0);
	assert_int_equal(json_is((struct json){NULL, 0}, ""), 0);
}

static void
utf8(void **state)
{
	(void)state;
	assert_true(json_utf8_ok("", 0));
	assert_true(json_utf8_ok("a\0b\x1b\xe2\x82\xac", 7));
	assert_false(json_utf8_ok("a\xe2\x82", 3));
	assert_false(json_utf8_ok("\xff", 1));
	assert_false(json_utf8_ok("\xc0\xaf", 2));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(not_a_line),
	    cmocka_unit_test(a_line),
	    cmocka_unit_test(depth),
	    cmocka_unit_test(every_cut),
	    cmocka_unit_test(paths),
	    cmocka_unit_test(items),
	    cmocka_unit_test(texts),
	    cmocka_unit_test(utf8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
