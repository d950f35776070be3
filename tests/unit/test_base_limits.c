/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The table of limits and checked groups of values. */
#include "unit.h"

#include "base/limits.h"

#include <string.h>

static const char *const scopes[] = {"server", "tenant", "vm", "session",
    "turn", "process", "connection", "stream"};

static void
the_table_is_sound(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SLI_L__N; i++) {
		const struct sli_limit_info *in =
		    sli_limit_info((enum sli_limit)i);
		enum sli_limit l, c;
		int known = 0;

		assert_int_equal(sli_limit_find(in->key, &l), SLI_OK);
		assert_int_equal(l, i); /* no key twice */
		assert_true(in->min <= in->def && in->def <= in->max);
		assert_true(strlen(in->doc) > 10);
		for (size_t k = 0; k < SLI_ARRAY_LEN(scopes); k++)
			known |= strcmp(in->scope, scopes[k]) == 0;
		assert_true(known);
		for (unsigned k = 0; sli_limit_companion(l, k, &c); k++) {
			/* Companions are limits of the same unit. */
			assert_true(c != l);
			assert_int_equal(sli_limit_info(c)->unit, in->unit);
			assert_true(in->def <= sli_limit_info(c)->def);
		}
	}
}

static void
unknown_keys_and_bad_values_are_refused(void **state)
{
	static const struct sli_limit_kv bad[] = {
	    {"vm.nonsense",        "1"   },
	    {"acp.max_line_bytes", "1MiB"}, /* not of this prefix */
	    {"vm.memory_bytes",    "lots"},
	    {"vm.memory_bytes",    ""    },
	    {"vm.pids",            "10s" },
	    {"vm.exec_drain_ms",   "1KiB"},
	};
	struct sli_limits ls, was;
	struct sli_errinfo ei;
	enum sli_limit l;

	(void)state;
	sli_limits_init(&ls);
	was = ls;
	assert_int_equal(sli_limit_find("vm.", &l), SLI_E_NOT_FOUND);
	for (size_t i = 0; i < SLI_ARRAY_LEN(bad); i++) {
		assert_int_equal(sli_limits_apply(&ls, &bad[i], 1, "vm.", &ei),
		    SLI_E_INVALID_ARGUMENT);
		assert_true(ei.text[0] != '\0');
	}
	assert_memory_equal(&ls, &was, sizeof(ls));
}

static void
all_violations_come_at_once(void **state)
{
	static const struct sli_limit_kv kv[] = {
	    {"vm.memory_bytes", "1MiB"                }, /* under the least */
	    {"vm.pids",         "99999999999999999999"}, /* over the most */
	    {"vm.mounts",       "3"                   },
	};
	struct sli_limits ls, was;
	struct sli_errinfo ei;

	(void)state;
	sli_limits_init(&ls);
	was = ls;
	assert_int_equal(
	    sli_limits_apply(&ls, kv, 3, "vm.", &ei), SLI_E_RESOURCE_EXHAUSTED);
	assert_memory_equal(&ls, &was, sizeof(ls));
	/* memory's bound, the disk that no longer fits in it, pids */
	assert_int_equal(ei.nhits, 3);
	assert_string_equal(ei.hits[0].key, "vm.memory_bytes");
	assert_int_equal(ei.hits[0].requested, 1 << 20);
	assert_int_equal(ei.hits[0].limit, 16 << 20);
	assert_string_equal(ei.hits[1].key, "vm.disk_bytes");
	assert_string_equal(ei.hits[2].key, "vm.pids");
	assert_int_equal(sli_limits_apply(&ls, kv, 3, "vm.", NULL),
	    SLI_E_RESOURCE_EXHAUSTED);
}

static void
companions_must_rise_too(void **state)
{
	static const struct sli_limit_kv alone[] = {
	    {"vm.disk_bytes", "1GiB"}
        };
	static const struct sli_limit_kv both[] = {
	    {"vm.disk_bytes",   "1GiB"},
            {"vm.memory_bytes", "2GiB"}
        };
	struct sli_limits ls;
	struct sli_errinfo ei;
	enum sli_limit l, c;

	(void)state;
	sli_limits_init(&ls);
	assert_int_equal(
	    sli_limits_apply(&ls, alone, 1, "", &ei), SLI_E_RESOURCE_EXHAUSTED);
	assert_int_equal(ei.nhits, 1);
	assert_string_equal(ei.hits[0].key, "vm.disk_bytes");
	assert_int_equal(sli_limit_find(ei.hits[0].key, &l), SLI_OK);
	assert_true(sli_limit_companion(l, 0, &c));
	assert_int_equal(c, SLI_L_VM_MEMORY);
	assert_non_null(strstr(ei.text, "vm.memory_bytes"));
	assert_int_equal(sli_limits_apply(&ls, both, 2, "", &ei), SLI_OK);
	assert_true(sli_limits_get(&ls, SLI_L_VM_DISK) == SLI_GIB);
}

static void
single_values(void **state)
{
	struct sli_errinfo ei;
	uint64_t v = 0;

	(void)state;
	assert_int_equal(sli_limit_parse(SLI_L_DRAIN, "90s", &v, &ei), SLI_OK);
	assert_int_equal(v, 90);
	assert_int_equal(
	    sli_limit_parse(SLI_L_VM_PIDS, "1", &v, &ei), SLI_E_OUT_OF_RANGE);
	assert_int_equal(ei.hits[0].limit, 4);
	assert_int_equal(sli_limit_parse(SLI_L_VM_PIDS, "x", &v, &ei),
	    SLI_E_INVALID_ARGUMENT);
	assert_int_equal(v, 90);
	assert_int_equal(
	    sli_limit_refuse(&ei, SLI_L_VM_MAX_VMS, 128, 1, 128, "vm.create"),
	    SLI_E_RESOURCE_EXHAUSTED);
	assert_string_equal(ei.hits[0].key, "vm.max_vms");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_table_is_sound),
	    cmocka_unit_test(unknown_keys_and_bad_values_are_refused),
	    cmocka_unit_test(all_violations_come_at_once),
	    cmocka_unit_test(companions_must_rise_too),
	    cmocka_unit_test(single_values),
	};

	return cmocka_run_group_tests_name("base_limits", tests, NULL, NULL);
}
