/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Strict parsing and printable text. */
#include "unit.h"

#include "base/str.h"

#include <string.h>

static void
numbers_are_whole_or_refused(void **state)
{
	static const char *const bad[] = {
	    "", " 1", "1 ", "+1", "-1", "0x1", "1e3", "1.0", "a"};
	uint64_t v = 77;
	int64_t i = 77;

	(void)state;
	for (size_t k = 0; k < SLI_ARRAY_LEN(bad); k++)
		assert_int_equal(
		    sli_parse_u64(bad[k], &v), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(
	    sli_parse_u64("18446744073709551616", &v), SLI_E_OUT_OF_RANGE);
	assert_int_equal(
	    sli_parse_u64("99999999999999999999x", &v), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(sli_parse_i64("--1", &i), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(sli_parse_i64("-", &i), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(
	    sli_parse_i64("9223372036854775808", &i), SLI_E_OUT_OF_RANGE);
	assert_int_equal(v, 77);
	assert_int_equal(i, 77);
	assert_int_equal(sli_parse_u64("18446744073709551615", &v), SLI_OK);
	assert_true(v == UINT64_MAX);
	assert_int_equal(sli_parse_i64("-9223372036854775808", &i), SLI_OK);
	assert_true(i == INT64_MIN);
}

static void
sizes_and_durations(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_int_equal(sli_parse_size("1KB", &v), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(sli_parse_size("MiB", &v), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(
	    sli_parse_size("99999999999GiB", &v), SLI_E_OUT_OF_RANGE);
	assert_int_equal(sli_parse_size("64KiB", &v), SLI_OK);
	assert_int_equal(v, 65536);
	assert_int_equal(sli_parse_size("3", &v), SLI_OK);
	assert_int_equal(v, 3);
	assert_int_equal(
	    sli_parse_duration_ms("1d", &v), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(sli_parse_duration_ms("500ms", &v), SLI_OK);
	assert_int_equal(v, 500);
	assert_int_equal(sli_parse_duration_ms("2", &v), SLI_OK);
	assert_int_equal(v, 2000);
	assert_int_equal(sli_parse_duration_ms("2h", &v), SLI_OK);
	assert_int_equal(v, 7200000);
}

static void
copies_are_terminated(void **state)
{
	char d[4] = "zzz";

	(void)state;
	assert_int_equal(sli_strlcpy(d, "abcdef", sizeof(d)), 3);
	assert_string_equal(d, "abc");
	assert_int_equal(sli_snprintf(d, sizeof(d), "%d", 12345), 3);
	assert_string_equal(d, "123");
	assert_int_equal(sli_snprintf(d, 0, "x"), 0);
	assert_int_equal(sli_strlcpy(d, "x", 0), 0);
}

static void
peers_bytes_are_quoted(void **state)
{
	char d[16], one[1];

	(void)state;
	assert_string_equal(
	    sli_quote(d, 12, sli_slice_of("a\n\"\0", 4)), "a\\x0a...");
	assert_string_equal(
	    sli_quote(d, sizeof(d), sli_slice_str("plain")), "plain");
	assert_string_equal(
	    sli_quote(d, sizeof(d), sli_slice_str("0123456789abcdef")),
	    "0123456789ab...");
	assert_string_equal(
	    sli_quote(d, sizeof(d), sli_slice_str("0123456789abcde")),
	    "0123456789abcde");
	assert_string_equal(
	    sli_quote(one, sizeof(one), sli_slice_str("abc")), "");
	assert_string_equal(sli_quote(d, sizeof(d), sli_slice_of(NULL, 0)), "");
}

static void
utf8_is_checked(void **state)
{
	static const char *const bad[] = {"\x80", "\xc0\x80", "\xc1\xbf",
	    "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
	    "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc2", "\xe2\x82",
	    "\xf0\x9f\x98", "\xc2\x41", "\xe2\x41\xac", "12345678\xff",
	    "1234567\xc2\x41"};
	static const char *const good[] = {"", "abc", "\xc2\x80",
	    "\xe2\x82\xac", "\xed\x9f\xbf", "\xf0\x9f\x98\x80",
	    "\xf4\x8f\xbf\xbf", "1234567\xc2\xa9tail of ascii"};

	(void)state;
	for (size_t i = 0; i < SLI_ARRAY_LEN(bad); i++)
		assert_false(sli_utf8_valid(sli_slice_str(bad[i])));
	for (size_t i = 0; i < SLI_ARRAY_LEN(good); i++)
		assert_true(sli_utf8_valid(sli_slice_str(good[i])));
	assert_true(sli_utf8_valid(sli_slice_of("\0", 1)));
}

static void
hex_and_base32(void **state)
{
	const uint8_t b[] = {0xf0, 0x0d, 0xff};
	char d[64];

	(void)state;
	sli_hex(d, b, 3);
	assert_string_equal(d, "f00dff");
	/* RFC 4648 vectors, lower case, no padding */
	sli_base32(d, (const uint8_t *)"foobar", 6);
	assert_string_equal(d, "mzxw6ytboi");
	sli_base32(d, (const uint8_t *)"foob", 4);
	assert_string_equal(d, "mzxw6yq");
	sli_base32(d, b, 0);
	assert_string_equal(d, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_are_whole_or_refused),
	    cmocka_unit_test(sizes_and_durations),
	    cmocka_unit_test(copies_are_terminated),
	    cmocka_unit_test(peers_bytes_are_quoted),
	    cmocka_unit_test(utf8_is_checked),
	    cmocka_unit_test(hex_and_base32),
	};

	return cmocka_run_group_tests_name("base_str", tests, NULL, NULL);
}
