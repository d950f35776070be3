/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The life of VMs: what can fail, in what order it can end, who is told. The
 * test plays spawner, opener and pid 1. */
#include "unit.h"

#include "t_sock.h"
#include "t_vm.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct answers {
	int n;
	struct vm *vm;
	struct sli_errinfo ei;
};

static void
note(void *ctx, struct vm *vm, const struct sli_errinfo *ei)
{
	struct answers *a = ctx;

	a->n++;
	a->vm = vm;
	a->ei = ei ? *ei : (struct sli_errinfo){0};
}

static unsigned fds_before;

static int
before(void **state)
{
	struct t_vm *t = sli_zalloc(sizeof(*t));

	fds_before = t_fds();
	t_vm_init(t);
	*state = t;
	return 0;
}

static int
after(void **state)
{
	t_vm_fini(*state);
	sli_free(*state);
	assert_int_equal(t_fds(), fds_before);
	return 0;
}

static void
a_refused_create_leaves_nothing(void **state)
{
	struct t_vm *t = *state;

	t_vm_create(t, "vm_1");
	t_vm_failed(
	    t, t_vm_request(t, SPAWNER_CREATE, NULL, 0), ENOSPC, "mount");
	t_vm_until(t, &t->done);
	assert_null(t->vm);
	assert_int_equal(t->ei.code, SLI_E_PERMISSION_DENIED);
	assert_string_equal(t->ei.reason, "mount");
	assert_null(vm_find(t->e, &t->me, "vm_1"));
	assert_int_equal(t->states[VM_FAILED], 1);
	assert_int_equal(t->states[VM_DELETED], 1);
}

static void
a_pid_1_that_never_is_ready_fails_the_create(void **state)
{
	struct t_vm *t = *state;
	struct t_pid1 p;

	t_vm_fini(t);
	t_vm_init_with(t, SLI_L_VM_START, 100);
	t_vm_create(t, "vm_1");
	t_vm_made(t, t_vm_request(t, SPAWNER_CREATE, NULL, 0), &p);
	t_vm_deleted(t);
	t_vm_until(t, &t->done);
	assert_null(t->vm);
	assert_string_equal(t->ei.reason, "start_timeout");
	assert_null(vm_find(t->e, &t->me, "vm_1"));
	t_pid1_close(&p);
}

static void
deletion_during_creation(void **state)
{
	struct t_vm *t = *state;
	struct answers a = {0};
	struct t_pid1 p;
	uint64_t req;

	/* Before the spawner has answered. */
	t_vm_create(t, "vm_1");
	req = t_vm_request(t, SPAWNER_CREATE, NULL, 0);
	vm_delete(vm_find(t->e, &t->me, "vm_1"), note, &a);
	assert_null(vm_find(t->e, &t->me, "vm_1"));
	t_vm_turns(t);
	assert_int_equal(a.n, 0);
	t_vm_made(t, req, &p);
	t_vm_deleted(t);
	t_vm_until(t, &a.n);
	assert_int_equal(a.ei.code, SLI_OK);
	assert_true(t->done);
	assert_null(t->vm);
	assert_int_equal(t->ei.code, SLI_E_NOT_FOUND);
	t_pid1_close(&p);
	/* Before pid 1 is ready; and the spawner says no. */
	a.n = 0;
	t_vm_create(t, "vm_1");
	t_vm_made(t, t_vm_request(t, SPAWNER_CREATE, NULL, 0), &p);
	t_vm_turns(t);
	vm_delete(vm_find(t->e, &t->me, "vm_1"), note, &a);
	t_vm_deleted(t);
	t_vm_until(t, &a.n);
	t_pid1_close(&p);
	a.n = 0;
	t_vm_create(t, "vm_1");
	req = t_vm_request(t, SPAWNER_CREATE, NULL, 0);
	vm_delete(vm_find(t->e, &t->me, "vm_1"), note, &a);
	t_vm_failed(t, req, ENOMEM, "clone");
	t_vm_until(t, &a.n);
	assert_int_equal(a.ei.code, SLI_OK);
	assert_int_equal(t->states[VM_DELETED], 3);
}

static void
ids_of_other_tenants_never_existed(void **state)
{
	struct t_vm *t = *state;
	struct sli_principal other = {.tenant = 2, .role = SLI_ROLE_ADMIN};
	struct sli_principal nobody = {0};
	struct t_pid1 p;
	uint32_t pos = 0;

	t_vm_running(t, "vm_1", &p);
	assert_non_null(vm_find(t->e, &t->me, "vm_1"));
	assert_null(vm_find(t->e, &other, "vm_1"));
	assert_null(vm_find(t->e, &nobody, "vm_1"));
	assert_null(vm_next(t->e, &other, &pos));
	pos = 0;
	assert_ptr_equal(vm_next(t->e, &t->me, &pos), t->vm);
	assert_null(vm_next(t->e, &t->me, &pos));
	/* And the id is taken, whoever asks. */
	t_vm_create(t, "vm_1");
	assert_true(t->done);
	assert_int_equal(t->ei.code, SLI_E_ALREADY_EXISTS);
	t_pid1_close(&p);
}

static void
two_deletes_and_one_that_fails(void **state)
{
	struct t_vm *t = *state;
	struct answers a = {0}, b = {0}, c = {0};
	struct spawner_handle h;
	struct t_pid1 p;
	struct vm *vm = t_vm_running(t, "vm_1", &p);

	vm_delete(vm, note, &a);
	vm_delete(vm, note, &b);
	t_vm_failed(
	    t, t_vm_request(t, SPAWNER_DELETE, &h, sizeof(h)), EBUSY, "cgroup");
	t_vm_until(t, &a.n);
	assert_int_equal(h.handle, p.handle);
	assert_int_equal(a.n, 1);
	assert_int_equal(b.n, 1);
	assert_int_equal(a.ei.code, SLI_E_SANDBOX);
	/* It did not go, so it is there, and may be deleted again. */
	assert_ptr_equal(vm_find(t->e, &t->me, "vm_1"), vm);
	assert_int_equal(vm_state(vm), VM_FAILED);
	vm_delete(vm, note, &c);
	t_vm_deleted(t);
	t_vm_until(t, &c.n);
	assert_int_equal(c.ei.code, SLI_OK);
	assert_null(vm_find(t->e, &t->me, "vm_1"));
	t_pid1_close(&p);
}

static void
pid_1_dies_and_the_vm_is_started_again(void **state)
{
	struct t_vm *t = *state;
	struct answers a = {0};
	struct t_pid1 p, q;
	struct vm *vm = t_vm_running(t, "vm_1", &p);
	int failed = 0;

	assert_int_equal(vm_init_pid(vm), p.child);
	assert_return_code(kill(p.child, SIGKILL), errno);
	for (int i = 0; i < 100 && !failed; i++) {
		loop_turn(t->l, 100);
		failed = vm_state(vm) == VM_FAILED;
	}
	assert_true(failed);
	assert_non_null(strstr(vm_reason(vm), "signal 9"));
	assert_int_equal(vm_init_pid(vm), 0);
	/* Asked while the old one is being removed: waits for that. */
	vm_start(vm, note, &a);
	t_vm_turns(t);
	assert_int_equal(a.n, 0);
	t_vm_deleted(t);
	t_vm_made(t, t_vm_request(t, SPAWNER_CREATE, NULL, 0), &q);
	t_pid1_say(&q, GUEST_READY, 0, GUEST_VERSION, 0);
	t_vm_until(t, &a.n);
	assert_int_equal(a.ei.code, SLI_OK);
	assert_int_equal(vm_state(vm), VM_RUNNING);
	assert_string_equal(vm_reason(vm), "");
	t_pid1_close(&p);
	t_pid1_close(&q);
}

static void
a_stopped_vm_starts_or_says_why_not(void **state)
{
	struct t_vm *t = *state;
	struct vm_spec s = {.id = "vm_old", .name = "n", .owner = t->me};
	struct answers a = {0}, b = {0};
	struct t_pid1 p;
	struct vm *vm = vm_adopt_stopped(t->e, &s, "server_restarted");

	assert_non_null(vm);
	assert_int_equal(vm_state(vm), VM_STOPPED);
	assert_string_equal(vm_reason(vm), "server_restarted");
	vm_start(vm, note, &a);
	vm_start(vm, note, &b);
	t_vm_failed(
	    t, t_vm_request(t, SPAWNER_CREATE, NULL, 0), EAGAIN, "queue");
	t_vm_until(t, &a.n);
	assert_int_equal(a.ei.code, SLI_E_UNAVAILABLE);
	assert_ptr_equal(a.vm, vm);
	assert_int_equal(b.n, 1);
	assert_int_equal(vm_state(vm), VM_FAILED);
	a.n = 0;
	vm_start(vm, note, &a);
	t_vm_made(t, t_vm_request(t, SPAWNER_CREATE, NULL, 0), &p);
	t_pid1_say(&p, GUEST_READY, 0, GUEST_VERSION, 0);
	t_vm_until(t, &a.n);
	assert_int_equal(vm_state(vm), VM_RUNNING);
	a.n = 0;
	vm_start(vm, note, &a);
	assert_int_equal(a.n, 1);
	t_pid1_close(&p);
}

static void
losing_a_helper_stops_the_server(void **state)
{
	struct t_vm *t = *state;
	struct spawner_msg junk = {.op = 999, .len = sizeof(junk), .req = 1};
	struct t_pid1 p;

	t_vm_running(t, "vm_1", &p);
	assert_int_equal(
	    send(t->spawner, &junk, sizeof(junk), 0), sizeof(junk));
	t_vm_turns(t);
	assert_int_equal(t->fatals, 1);
	/* What is asked now is refused, not lost. */
	t_vm_create(t, "vm_2");
	t_vm_until(t, &t->done);
	assert_null(t->vm);
	assert_int_equal(t->ei.code, SLI_E_UNAVAILABLE);
	sli_fd_close(&t->opener);
	t_vm_turns(t);
	assert_int_equal(t->fatals, 2);
	t_pid1_close(&p);
}

static void
out_of_memory_anywhere_is_an_answer(void **state)
{
	struct t_vm *t = *state;
	struct answers a = {0};
	struct t_pid1 p;
	int ok = 0;

	for (uint64_t n = 1; !ok; n++) {
		assert_true(n < 1000);
		sli_mem_fail_at(n);
		t_vm_create(t, "vm_1");
		sli_mem_fail_at(0);
		t_vm_turns(t);
		ok = !t->done;
		if (!ok) {
			assert_null(t->vm);
			assert_null(vm_find(t->e, &t->me, "vm_1"));
		}
	}
	t_vm_made(t, t_vm_request(t, SPAWNER_CREATE, NULL, 0), &p);
	t_pid1_say(&p, GUEST_READY, 0, GUEST_VERSION, 0);
	t_vm_until(t, &t->done);
	assert_non_null(t->vm);
	sli_mem_fail_at(1);
	vm_delete(t->vm, note, &a);
	sli_mem_fail_at(0);
	assert_int_equal(a.ei.code, SLI_E_NOMEM);
	assert_int_equal(vm_state(t->vm), VM_RUNNING);
	t_pid1_close(&p);
}

/* Every descriptor is taken after the request has gone out. */
static void
an_answer_always_finds_room_for_its_descriptors(void **state)
{
	struct t_vm *t = *state;
	struct rlimit was, now;
	struct t_pid1 p;
	uint64_t req;
	int taken[4096], n = 0;

	t_vm_create(t, "vm_1");
	req = t_vm_request(t, SPAWNER_CREATE, NULL, 0);
	t_vm_made(t, req, &p);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &was), errno);
	now = was;
	now.rlim_cur = 200;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &now), errno);
	while ((taken[n] = dup(t->spawner)) >= 0)
		n++;
	t_pid1_say(&p, GUEST_READY, 0, GUEST_VERSION, 0);
	t_vm_until(t, &t->done);
	assert_non_null(t->vm);
	assert_int_equal(t->fatals, 0);
	/* And without any no VM is asked for. */
	while ((taken[n] = dup(t->spawner)) >= 0)
		n++;
	t_vm_create(t, "vm_2");
	t_vm_until(t, &t->done);
	assert_null(t->vm);
	assert_int_equal(t->ei.code, SLI_E_UNAVAILABLE);
	assert_int_equal(t->ei.sys, EMFILE);
	while (n > 0)
		sli_fd_close(&taken[--n]);
	assert_return_code(setrlimit(RLIMIT_NOFILE, &was), errno);
	t_pid1_close(&p);
}

static void
doctor_and_oom_reach_the_service(void **state)
{
	struct t_vm *t = *state;
	struct spawner_oom o = {
	    .h = {.op = SPAWNER_OOM, .len = sizeof(o)},
              .handle = 1
        };
	struct vm_limit lim[16];
	struct vm_stats st;
	struct t_pid1 p;

	t_vm_running(t, "vm_1", &p);
	assert_string_equal(vm_missing(t->vm)[0], "cgroup.cpu");
	assert_null(vm_missing(t->vm)[1]);
	assert_true(vm_limits(t->vm, lim, 16) >= 5);
	assert_string_equal(lim[1].key, "vm.disk_bytes");
	assert_string_equal(lim[1].enforcement, "hard:tmpfs");
	t_vm_oom(t, p.handle, 0);
	t_vm_oom(t, p.handle + 70, 0);
	t_vm_turns(t);
	assert_int_equal(t->notices, 1);
	assert_int_equal(t->fatals, 0);
	vm_stats_of(t->vm, &st);
	assert_int_equal(st.oom_kills, 1);
	vm_stats(t->e, &st);
	assert_int_equal(st.oom_kills, 1);
	t_pid1_close(&p);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, before, after)
	const struct CMUnitTest tests[] = {
	    T(a_refused_create_leaves_nothing),
	    T(a_pid_1_that_never_is_ready_fails_the_create),
	    T(deletion_during_creation),
	    T(ids_of_other_tenants_never_existed),
	    T(two_deletes_and_one_that_fails),
	    T(pid_1_dies_and_the_vm_is_started_again),
	    T(a_stopped_vm_starts_or_says_why_not),
	    T(losing_a_helper_stops_the_server),
	    T(out_of_memory_anywhere_is_an_answer),
	    T(an_answer_always_finds_room_for_its_descriptors),
	    T(doctor_and_oom_reach_the_service),
	};

	return cmocka_run_group_tests_name("vm_life", tests, NULL, NULL);
}
