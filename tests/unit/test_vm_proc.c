/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Ends of processes: the exit comes once and after the last byte, whoever holds
 * the pipes. The test plays spawner and pid 1. */
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
a_process_that_could_not_start_says_what_failed(void **state)
{
	static const struct {
		int step, sys;
		enum sli_err want;
	} c[] = {
	    {GUEST_STEP_EXEC, ENOENT,  SLI_E_NOT_FOUND          },
	    {GUEST_STEP_EXEC, EACCES,  SLI_E_PERMISSION_DENIED  },
	    {GUEST_STEP_EXEC, ENOEXEC, SLI_E_PERMISSION_DENIED  },
	    {GUEST_STEP_CWD,  ENOENT,  SLI_E_FAILED_PRECONDITION},
	    {GUEST_STEP_FORK, EAGAIN,  SLI_E_RESOURCE_EXHAUSTED },
	    {GUEST_STEP_USER, EPERM,   SLI_E_INVALID_ARGUMENT   },
	    {-7,              1 << 30, SLI_E_SANDBOX            },
	};
	struct t_world *w = *state;
	uint32_t pos = 0;

	for (unsigned i = 0; i < SLI_ARRAY_LEN(c); i++) {
		struct t_vmc cl;
		struct t_exec x;

		t_vmc_exec(w->vm, &cl, 0, 0);
		t_pid1_exec(&w->t, &w->pid1, &x);
		t_exec_close(&x);
		t_pid1_say(&w->pid1, GUEST_ERR, x.id, c[i].step, c[i].sys);
		t_vm_until(&w->t, &cl.answered);
		assert_null(cl.proc);
		assert_int_equal(cl.ei.code, c[i].want);
		assert_non_null(strstr(cl.ei.text, "cmd"));
	}
	assert_null(vm_proc_next(w->vm, &pos));
	assert_int_equal(vm_process_count(w->vm), 0);
}

static void
a_fast_exit_loses_nothing(void **state)
{
	struct t_world *w = *state;

	for (int i = 0; i < 200; i++) {
		struct t_vmc c;
		struct t_exec x;

		t_vmc_exec(w->vm, &c, 0, 0);
		t_pid1_exec(&w->t, &w->pid1, &x);
		t_vmc_put(&x, 1, "out");
		t_vmc_put(&x, 2, "err");
		t_exec_close(&x);
		t_pid1_say(&w->pid1, GUEST_STARTED, x.id, 77, 0);
		t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 7, 0);
		t_pid1_say(&w->pid1, GUEST_CLOSED, x.id, 0, 0);
		t_vm_until(&w->t, &c.exited);
		t_vmc_is(&c, "outerr");
		assert_int_equal(c.exited, 1);
		assert_int_equal(c.exit.code, 7);
		assert_int_equal(c.exit.signal, 0);
		assert_false(c.exit.truncated);
		t_vmc_free(&c);
	}
}

static void
a_child_that_holds_the_pipe_is_cut_after_the_grace(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c;
	struct t_exec x;
	int64_t t0;

	t_vmc_start(w, &c, &x, 0, 0);
	t_vmc_put(&x, 1, "done\n");
	sli_fd_close(&x.fds[2]);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, 0);
	t0 = sli_mono_ms();
	t_vm_until(&w->t, &c.exited);
	assert_true(sli_mono_ms() - t0 >= T_DRAIN_MS - 2);
	t_vmc_is(&c, "done\n");
	assert_true(c.exit.truncated);
	assert_int_equal(c.exit.code, 0);
	/* Closed: the child learns that nobody listens. */
	assert_int_equal(write(x.fds[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	t_exec_close(&x);
	t_vmc_free(&c);
}

static void
a_child_that_prints_for_ever_does_not_delay_the_exit(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c;
	struct t_exec x;
	char buf[4096];
	int64_t t0;

	memset(buf, 'y', sizeof(buf));
	t_vmc_start(w, &c, &x, 0, 0);
	assert_return_code(fcntl(x.fds[1], F_SETFL, O_NONBLOCK), errno);
	t_vmc_put(&x, 1, "done\n");
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, 0);
	t0 = sli_mono_ms();
	while (!c.exited) {
		(void)write(x.fds[1], buf, sizeof(buf));
		loop_turn(w->t.l, 0);
		assert_true(sli_mono_ms() - t0 < 5000);
	}
	assert_true(c.n > 5);
	assert_memory_equal(c.data, "done\n", 5);
	assert_true(c.exit.truncated);
	t_exec_close(&x);
	t_vmc_free(&c);
}

/* The owner reads nothing until long after the grace. What the process itself
 * had printed is not the grace's to cut. */
static void
a_slow_owner_still_gets_everything(void **state)
{
	struct t_world *w = *state;

	for (int held = 0; held < 2; held++) {
		struct t_vmc c;
		struct t_exec x;
		char buf[4096];
		size_t n = 0;
		ssize_t k;

		memset(buf, 'z', sizeof(buf));
		t_vmc_start(w, &c, &x, 0, 0);
		c.idle = 1;
		assert_return_code(fcntl(x.fds[1], F_SETFL, O_NONBLOCK), errno);
		for (int idle = 0; idle < 20;) {
			k = write(x.fds[1], buf, sizeof(buf));
			n += k > 0 ? (size_t)k : 0;
			idle = k > 0 ? 0 : idle + 1;
			loop_turn(w->t.l, 0);
		}
		assert_true(n > 512 * 1024);
		if (!held)
			t_exec_close(&x);
		t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 5, 0);
		for (int64_t end = sli_mono_ms() + 3 * T_DRAIN_MS;
		     sli_mono_ms() < end;)
			loop_turn(w->t.l, 10);
		assert_int_equal(c.exited, 0);
		assert_null(vm_proc_exit(c.proc));
		c.idle = 0;
		t_vmc_pull(&c);
		t_vm_until(&w->t, &c.exited);
		assert_int_equal(c.n, n);
		assert_int_equal(c.gaps, 0);
		assert_int_equal(c.exit.code, 5);
		assert_int_equal(c.exit.truncated, held);
		t_exec_close(&x);
		t_vmc_free(&c);
	}
}

static void
a_timeout_kills_the_tree(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c;
	struct guest_kill k;
	struct t_exec x;

	t_vmc_start(w, &c, &x, 0, 30);
	t_pid1_kill(&w->t, &w->pid1, &k);
	assert_int_equal(k.op, GUEST_KILL_TREE);
	assert_int_equal(k.id, x.id);
	t_exec_close(&x);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, SIGKILL);
	t_vm_until(&w->t, &c.exited);
	assert_true(c.exit.timed_out);
	assert_int_equal(c.exit.signal, SIGKILL);
	t_vmc_free(&c);
}

static void
the_death_of_pid_1_ends_every_process_once(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c[3];
	struct t_exec x[3];

	t_vmc_start(w, &c[0], &x[0], 0, 0);
	t_vmc_start(w, &c[1], &x[1], VM_EXEC_RAW, 0);
	t_vmc_put(&x[0], 1, "last words");
	t_vmc_exec(w->vm, &c[2], 0, 0);
	t_pid1_exec(&w->t, &w->pid1, &x[2]);
	for (int i = 0; i < 3; i++)
		t_exec_close(&x[i]);
	assert_return_code(kill(w->pid1.child, SIGKILL), errno);
	t_vm_until(&w->t, &c[0].exited);
	t_vm_until(&w->t, &c[2].answered);
	t_vmc_is(&c[0], "last words");
	assert_int_equal(c[0].exit.signal, SIGKILL);
	assert_int_equal(c[1].exited, 1);
	assert_int_equal(c[1].exit.signal, SIGKILL);
	assert_null(c[2].proc);
	assert_int_equal(
	    vm_proc_signal(c[0].proc, SIGTERM), SLI_E_FAILED_PRECONDITION);
	t_vmc_wants_death(w, NULL);
	assert_int_equal(c[0].exited + c[1].exited, 2);
	t_vmc_free(&c[0]);
	t_vmc_free(&c[1]);
}

/* SIGKILL, as pid 1 tells it; the kernel's word comes before, after, or never.
 */
static void
a_kill_for_memory_is_told_as_one(void **state)
{
	enum {
		BEFORE,
		AFTER,
		NEVER,
		OURS,
		N
	};
	struct t_world *w = *state;
	uint64_t kills = 0;

	for (int when = 0; when < N; when++) {
		struct t_vmc c;
		struct t_exec x;
		int64_t t0 = sli_mono_ms();

		t_vmc_start(w, &c, &x, 0, 0);
		t_vmc_put(&x, 1, "out");
		t_exec_close(&x);
		if (when == BEFORE)
			t_vm_oom(&w->t, w->pid1.handle, ++kills);
		t_vm_turns(&w->t);
		if (when == OURS)
			vm_proc_kill_tree(c.proc);
		t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, SIGKILL);
		t_vm_turns(&w->t);
		assert_int_equal(c.exited, when == BEFORE || when == OURS);
		if (when == AFTER)
			t_vm_oom(&w->t, w->pid1.handle, ++kills);
		t_vm_until(&w->t, &c.exited);
		assert_int_equal(c.exit.oom, when == BEFORE || when == AFTER);
		assert_true(sli_mono_ms() - t0 < 2000);
		t_vmc_is(&c, "out");
		t_vmc_free(&c);
	}
	assert_int_equal(w->t.notices, kills);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, t_world_new, t_world_free)
	const struct CMUnitTest tests[] = {
	    T(a_process_that_could_not_start_says_what_failed),
	    T(a_fast_exit_loses_nothing),
	    T(a_child_that_holds_the_pipe_is_cut_after_the_grace),
	    T(a_child_that_prints_for_ever_does_not_delay_the_exit),
	    T(a_slow_owner_still_gets_everything),
	    T(a_timeout_kills_the_tree),
	    T(the_death_of_pid_1_ends_every_process_once),
	    T(a_kill_for_memory_is_told_as_one),
	};

	return cmocka_run_group_tests_name("vm_proc", tests, NULL, NULL);
}
