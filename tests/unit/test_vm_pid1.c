/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* A pid 1 that lies harms nobody but its own VM. The test plays it. */
#include "unit.h"

#include "t_sock.h"
#include "t_vmc.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static void
events_out_of_order_end_the_vm(void **state)
{
	/* said of a process that runs */
	static const uint32_t bad[] = {GUEST_STARTED, GUEST_ERR, GUEST_CLOSED,
	    GUEST_READY, GUEST_EXEC, 0, UINT32_MAX};

	for (unsigned i = 0; i < SLI_ARRAY_LEN(bad); i++) {
		struct t_world *w;
		struct t_vmc c;
		struct t_exec x;

		if (i > 0)
			t_world_new(state);
		w = *state;
		t_vmc_start(w, &c, &x, 0, 0);
		t_exec_close(&x);
		t_pid1_say(&w->pid1, bad[i], x.id, 1, 1);
		t_vmc_wants_death(w, &c);
		if (i + 1 < SLI_ARRAY_LEN(bad))
			t_world_free(state);
	}
}

static void
an_exit_before_the_start_or_twice_ends_the_vm(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c, d;
	struct t_exec x;

	t_vmc_start(w, &c, &x, 0, 0);
	t_exec_close(&x);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 3, 0);
	t_vm_until(&w->t, &c.exited);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 4, 0);
	t_vmc_wants_death(w, NULL);
	/* The first exit stands. */
	assert_int_equal(c.exit.code, 3);
	assert_int_equal(c.exited, 1);
	assert_int_equal(vm_proc_exit(c.proc)->code, 3);
	t_vmc_free(&c);
	t_world_free(state);

	t_world_new(state);
	w = *state;
	t_vmc_exec(w->vm, &d, 0, 0);
	t_pid1_exec(&w->t, &w->pid1, &x);
	t_exec_close(&x);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, 0);
	t_vm_until(&w->t, &d.answered);
	assert_null(d.proc);
	assert_int_equal(d.ei.code, SLI_E_SANDBOX);
	t_vmc_wants_death(w, NULL);
}

static void
malformed_packets_end_the_vm(void **state)
{
	struct guest_event ev[2] = {{.op = GUEST_PONG}};
	size_t sizes[] = {1, sizeof(ev[0]) - 1, sizeof(ev[0]) + 1, sizeof(ev)};

	for (unsigned i = 0; i < SLI_ARRAY_LEN(sizes) + 1; i++) {
		struct t_world *w;
		int fd = STDERR_FILENO;

		if (i > 0)
			t_world_new(state);
		w = *state;
		if (i < SLI_ARRAY_LEN(sizes))
			assert_int_equal(
			    send(w->pid1.ctl, ev, sizes[i], 0), sizes[i]);
		else /* well formed, but with a descriptor */
			assert_int_equal(
			    sli_fd_send(w->pid1.ctl, ev, sizeof(ev[0]), &fd, 1),
			    sizeof(ev[0]));
		t_vmc_wants_death(w, NULL);
		if (i < SLI_ARRAY_LEN(sizes))
			t_world_free(state);
	}
}

static void
unknown_ids_are_ignored(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c;
	struct t_exec x;

	t_vmc_start(w, &c, &x, 0, 0);
	for (uint32_t op = GUEST_STARTED; op <= GUEST_PONG; op++) {
		t_pid1_say(&w->pid1, op, x.id + 1, 1, 1);
		t_pid1_say(&w->pid1, op, UINT32_MAX, -1, -1);
		t_pid1_say(&w->pid1, op, 0, 1, 1);
	}
	t_vmc_put(&x, 1, "alive");
	t_exec_close(&x);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, 0);
	t_vm_until(&w->t, &c.exited);
	t_vmc_is(&c, "alive");
	assert_int_equal(vm_state(w->vm), VM_RUNNING);
	t_vmc_free(&c);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, t_world_new, t_world_free)
	const struct CMUnitTest tests[] = {
	    T(events_out_of_order_end_the_vm),
	    T(an_exit_before_the_start_or_twice_ends_the_vm),
	    T(malformed_packets_end_the_vm),
	    T(unknown_ids_are_ignored),
	};

	return cmocka_run_group_tests_name("vm_pid1", tests, NULL, NULL);
}
