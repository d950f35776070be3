/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The error list and the caller's error record. */
#include "unit.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

static void
foreign_numbers_have_a_name(void **state)
{
	(void)state;
	assert_string_equal(sli_err_name((enum sli_err)9999), "UNKNOWN");
	assert_string_equal(sli_err_text((enum sli_err)9999), "unknown error");
	assert_int_equal(sli_err_class((enum sli_err)9999), SLI_CLASS_ENV);
	assert_false(sli_err_retryable((enum sli_err)9999));
}

static void
numbers_are_unique_and_rise(void **state)
{
	static const int nums[] = {
#define SLI_ERR(num, name, cls, text) num,
#include "base/err.list.h"
#undef SLI_ERR
	};

	(void)state;
	for (size_t i = 1; i < SLI_ARRAY_LEN(nums); i++)
		assert_true(nums[i] > nums[i - 1]);
	assert_int_equal(SLI_E_UNAUTHENTICATED, 16);
	assert_int_equal(SLI_OK, 0);
}

static void
a_null_record_is_allowed(void **state)
{
	(void)state;
	assert_int_equal(sli_fail(NULL, SLI_E_NOT_FOUND, 0, "x", "%s", "y"),
	    SLI_E_NOT_FOUND);
	sli_errinfo_reason(NULL, "r");
	sli_errinfo_hit(NULL, "k", 1, 2, 3);
}

static void
long_texts_are_cut(void **state)
{
	struct sli_errinfo ei;
	char big[1024];

	(void)state;
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	(void)sli_fail(&ei, SLI_E_SYS, EPIPE, big, "%s", big);
	assert_int_equal(strlen(ei.text), sizeof(ei.text) - 1);
	assert_int_equal(strlen(ei.where), sizeof(ei.where) - 1);
	sli_errinfo_reason(&ei, big);
	assert_int_equal(strlen(ei.reason), sizeof(ei.reason) - 1);
}

static void
hits_beyond_the_most_are_counted(void **state)
{
	struct sli_errinfo ei;

	(void)state;
	(void)sli_fail(&ei, SLI_E_RESOURCE_EXHAUSTED, 0, "x", "many");
	for (unsigned i = 0; i < SLI_LIMIT_HITS_MAX + 3; i++)
		sli_errinfo_hit(&ei, "k", i, i, i);
	assert_int_equal(ei.nhits, SLI_LIMIT_HITS_MAX + 3);
	assert_int_equal(
	    ei.hits[SLI_LIMIT_HITS_MAX - 1].used, SLI_LIMIT_HITS_MAX - 1);
}

static void
the_text_has_name_and_errno(void **state)
{
	struct sli_errinfo ei;
	char s[128], tiny[8];

	(void)state;
	(void)sli_fail(&ei, SLI_E_SYS, ENOENT, "fd.open", "open %s", "f");
	assert_string_equal(sli_errinfo_str(&ei, s, sizeof(s)),
	    "SYS: open f (No such file or directory)");
	(void)sli_fail(&ei, SLI_E_CLOSED, 0, "x", "%s", "");
	assert_string_equal(
	    sli_errinfo_str(&ei, s, sizeof(s)), "CLOSED: connection closed");
	assert_string_equal(
	    sli_errinfo_str(&ei, tiny, sizeof(tiny)), "CLOSED:");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(foreign_numbers_have_a_name),
	    cmocka_unit_test(numbers_are_unique_and_rise),
	    cmocka_unit_test(a_null_record_is_allowed),
	    cmocka_unit_test(long_texts_are_cut),
	    cmocka_unit_test(hits_beyond_the_most_are_counted),
	    cmocka_unit_test(the_text_has_name_and_errno),
	};

	return cmocka_run_group_tests_name("base_err", tests, NULL, NULL);
}
