/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Admission: every violation of a spec in one answer, and the host's memory. */
#include "unit.h"

#include "t_vm.h"

#include "base/limits.h"
#include "vm/vm_internal.h"

static struct t_vm T;

static int
before(void **state)
{
	(void)state;
	t_vm_init(&T);
	return 0;
}

static int
after(void **state)
{
	(void)state;
	t_vm_fini(&T);
	return 0;
}

static enum sli_err
ask(const struct vm_kv *kv, unsigned n, struct sli_errinfo *ei)
{
	struct vm_spec s = {
	    .id = "vm_1", .name = "x", .limits = kv, .nlimits = n};
	struct sli_limits lim;

	*ei = (struct sli_errinfo){0};
	return vm_spec_check(T.e, &s, &lim, ei);
}

static int
has(const struct sli_errinfo *ei, const char *key)
{
	for (unsigned i = 0; i < ei->nhits; i++)
		if (strcmp(ei->hits[i].key, key) == 0)
			return 1;
	return 0;
}

static void
keys_that_are_not_a_vms_are_refused(void **state)
{
	struct vm_kv a[] =
	    {
		{"vm.max_vms", "5"}
        },
		     b[] = {{"acp.spawn_ms", "5"}},
		     c[] = {{"vm.nonsense", "5"}}, d[] = {{"vm.pids", "many"}};
	struct vm_kv many[SLI_L__N + 1];
	struct sli_errinfo ei;

	(void)state;
	assert_int_equal(ask(a, 1, &ei), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(ask(b, 1, &ei), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(ask(c, 1, &ei), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(ask(d, 1, &ei), SLI_E_INVALID_ARGUMENT);
	assert_non_null(strstr(ei.text, "vm.pids"));
	for (int i = 0; i <= SLI_L__N; i++)
		many[i] = (struct vm_kv){"vm.pids", "100"};
	assert_int_equal(ask(many, SLI_L__N + 1, &ei), SLI_E_INVALID_ARGUMENT);
}

static void
all_violations_come_in_one_answer(void **state)
{
	struct vm_kv kv[] = {
	    {"vm.pids",       "1"        }, /* below the least */
	    {"vm.nofile",     "999999999"}, /* above the most */
	    {"vm.disk_bytes", "1GiB"     }, /* above its companion */
	};
	struct vm_kv env[] = {
	    {"A", "b"}
        };
	struct vm_mount m[20];
	struct vm_spec s = {.id = "vm_1",
	    .name = "0123456789012345678901234567890123456789"
		    "01234567890123456789012345678901234567890",
	    .limits = kv,
	    .nlimits = 3,
	    .mounts = m,
	    .nmounts = 20,
	    .env = env,
	    .nenv = 1};
	struct sli_limits lim;
	struct sli_errinfo ei;

	(void)state;
	for (int i = 0; i < 20; i++)
		m[i] = (struct vm_mount){"/usr", "/mnt/x", 1};
	assert_int_equal(
	    vm_spec_check(T.e, &s, &lim, &ei), SLI_E_RESOURCE_EXHAUSTED);
	assert_true(has(&ei, "vm.pids"));
	assert_true(has(&ei, "vm.nofile"));
	assert_true(has(&ei, "vm.disk_bytes"));
	assert_true(has(&ei, "vm.name_bytes"));
	assert_true(has(&ei, "vm.mounts"));
	assert_int_equal(ei.nhits, 5);
}

static void
mounts_and_variables_are_looked_at(void **state)
{
	static const struct vm_mount bad[] = {
	    {"usr",  "/x", 1},
            {"/usr", "x",  1},
            {"/usr", "/",  1},
	    {"",     "/x", 1}
        };
	struct vm_mount rw = {"/usr", "/x", 0};
	struct vm_kv env[] = {
	    {"", "b"}
        };
	struct vm_spec s = {.id = "vm_1", .nmounts = 1};
	struct sli_limits lim;
	struct sli_errinfo ei;

	(void)state;
	for (unsigned i = 0; i < SLI_ARRAY_LEN(bad); i++) {
		s.mounts = &bad[i];
		assert_int_equal(
		    vm_spec_check(T.e, &s, &lim, &ei), SLI_E_INVALID_ARGUMENT);
	}
	s.mounts = &rw;
	assert_int_equal(
	    vm_spec_check(T.e, &s, &lim, &ei), SLI_E_UNIMPLEMENTED);
	s.nmounts = 0;
	s.env = env;
	s.nenv = 1;
	assert_int_equal(
	    vm_spec_check(T.e, &s, &lim, &ei), SLI_E_INVALID_ARGUMENT);
}

static void
the_host_has_room_for_so_many(void **state)
{
	struct vm_kv half[] = {
	    {"vm.memory_bytes", "512MiB"},
            {"vm.disk_bytes",   "512MiB"}
        };
	struct sli_errinfo ei;

	(void)state;
	T.e->mem_total = 4 * SLI_GIB;
	T.e->lim.v[SLI_L_HOST_MEMORY_SHARE] = 50;
	assert_int_equal(ask(half, 2, &ei), SLI_OK);
	T.e->committed = 1 * SLI_GIB;
	assert_int_equal(ask(half, 2, &ei), SLI_OK);
	T.e->committed += 64 * SLI_MIB;
	assert_int_equal(ask(half, 2, &ei), SLI_E_HOST_CAPACITY);
	assert_int_equal(ei.nhits, 1);
	assert_string_equal(ei.hits[0].key, "host.memory_share");
	/* in percent of the host's memory, as the limit is */
	assert_int_equal(ei.hits[0].used, 27);
	assert_int_equal(ei.hits[0].requested, 26);
	assert_int_equal(ei.hits[0].limit, 50);
	half[0].value = "1KiB";
	assert_int_equal(ask(half, 2, &ei), SLI_E_RESOURCE_EXHAUSTED);
	assert_true(has(&ei, "vm.memory_bytes"));
	T.e->committed = 0;
}

/* What a VM takes is given back when it is gone, and not before. */
static void
capacity_comes_back(void **state)
{
	uint64_t one = 0;
	struct t_pid1 p, q;

	(void)state;
	t_vm_running(&T, "vm_1", &p);
	one = T.e->committed;
	assert_true(one > 0);
	T.e->lim.v[SLI_L_HOST_MEMORY_SHARE] = 100;
	T.e->mem_total = one / 2 * 3;
	t_vm_create(&T, "vm_2");
	assert_int_equal(T.ei.code, SLI_E_HOST_CAPACITY);
	vm_delete(vm_find(T.e, &T.me, "vm_1"), t_vm_note, &T);
	t_vm_turns(&T);
	t_vm_create(&T, "vm_2");
	assert_int_equal(T.ei.code, SLI_E_HOST_CAPACITY);
	t_vm_deleted(&T);
	t_vm_until(&T, &T.noted);
	assert_int_equal(T.e->committed, 0);
	t_vm_running(&T, "vm_2", &q);
	assert_int_equal(T.e->committed, one);
	T.e->lim.v[SLI_L_VM_MAX_VMS] = 1;
	T.e->mem_total *= 100;
	t_vm_create(&T, "vm_3");
	assert_string_equal(T.ei.hits[0].key, "vm.max_vms");
	t_pid1_close(&p);
	t_pid1_close(&q);
}

int
main(void)
{
#define T_(f) cmocka_unit_test_setup_teardown(f, before, after)
	const struct CMUnitTest tests[] = {
	    T_(keys_that_are_not_a_vms_are_refused),
	    T_(all_violations_come_in_one_answer),
	    T_(mounts_and_variables_are_looked_at),
	    T_(the_host_has_room_for_so_many),
	    T_(capacity_comes_back),
	};

	return cmocka_run_group_tests_name("vm_limits", tests, NULL, NULL);
}
