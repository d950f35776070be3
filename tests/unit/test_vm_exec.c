/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Exec and what hangs on it: stdin, raw stdio, detached output, listings,
 * limits, VMs that do not run yet. The test plays spawner and pid 1. */
#include "unit.h"

#include "t_sock.h"
#include "t_vmc.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static void
end(struct t_world *w, struct t_vmc *c, struct t_exec *x)
{
	t_exec_close(x);
	t_pid1_say(&w->pid1, GUEST_EXIT, x->id, 0, 0);
	t_vm_until(&w->t, &c->exited);
	t_vmc_free(c);
}

static void
refused(struct t_world *w, const struct vm_exec_spec *s, enum sli_err want)
{
	struct t_vmc c;

	t_vmc_exec_spec(w->vm, &c, s);
	t_vm_until(&w->t, &c.answered);
	assert_null(c.proc);
	assert_int_equal(c.ei.code, want);
}

static void
bad_specs_are_refused_by_name(void **state)
{
	static char big[70000], *argv_many[1100];
	const char *none[] = {NULL}, *empty[] = {"", NULL};
	const char *ok[] = {"x", NULL}, *huge[] = {"x", big, NULL};
	struct vm_kv env[] =
	    {
		{"A=B", "c"}
        },
		     bigenv[] = {{"A", big}};
	struct t_world *w = *state;
	struct vm_exec_spec s = {.argv = none};

	memset(big, 'a', sizeof(big) - 1);
	refused(w, &s, SLI_E_INVALID_ARGUMENT);
	s.argv = empty;
	refused(w, &s, SLI_E_INVALID_ARGUMENT);
	s.argv = ok;
	s.cwd = "relative";
	refused(w, &s, SLI_E_INVALID_ARGUMENT);
	s.cwd = NULL;
	s.env = env;
	s.nenv = 1;
	refused(w, &s, SLI_E_INVALID_ARGUMENT);
	s.env = bigenv;
	refused(w, &s, SLI_E_RESOURCE_EXHAUSTED);
	s.nenv = 0;
	s.argv = huge;
	refused(w, &s, SLI_E_RESOURCE_EXHAUSTED);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(argv_many) - 1; i++)
		argv_many[i] = big + sizeof(big) - 2;
	s.argv = (const char *const *)argv_many;
	refused(w, &s, SLI_E_INVALID_ARGUMENT);
	assert_int_equal(vm_state(w->vm), VM_RUNNING);
}

static void
the_environment_is_composed_and_later_ones_win(void **state)
{
	const char *argv[] = {"/bin/x", "a b", "", NULL};
	struct vm_kv env[] = {
	    {"LANG", "de"},
            {"X",    "1" },
            {"X",    "2" }
        };
	struct vm_exec_spec s = {.argv = argv,
	    .env = env,
	    .nenv = 3,
	    .cwd = "/tmp",
	    .traceparent = "00-aa"};
	struct t_world *w = *state;
	struct t_vmc c;
	struct t_exec x;

	t_vmc_exec_spec(w->vm, &c, &s);
	t_pid1_exec(&w->t, &w->pid1, &x);
	assert_string_equal(x.text,
	    "/tmp|/bin/x|a b||PATH=" GUEST_DEFAULT_PATH
	    "|HOME=/root|LANG=de|TRACEPARENT=00-aa|X=2|");
	/* The guest's ends block, as it expects. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(fcntl(x.fds[i], F_GETFL) & O_NONBLOCK, 0);
	t_pid1_say(&w->pid1, GUEST_STARTED, x.id, 9, 0);
	end(w, &c, &x);
}

static void
drained(void *ctx)
{
	(*(int *)ctx)++;
}

static void
stdin_takes_what_the_pipe_takes(void **state)
{
	struct t_world *w = *state;
	static char buf[300000];
	struct t_vmc c;
	struct t_exec x;
	int told = 0;
	long n;

	t_vmc_start(w, &c, &x, 0, 0);
	vm_stdin_on_drain(c.proc, drained, &told);
	n = vm_stdin_write(c.proc, buf, sizeof(buf));
	assert_true(n > 0 && n < (long)sizeof(buf));
	assert_int_equal(vm_stdin_write(c.proc, buf, 1), 0);
	t_vm_turns(&w->t);
	assert_int_equal(told, 0);
	assert_int_equal(read(x.fds[0], buf, sizeof(buf)), n);
	t_vm_until(&w->t, &told);
	assert_int_equal(told, 1);
	assert_int_equal(vm_stdin_write(c.proc, "ab", 2), 2);
	/* The end follows the last byte, and closes nothing else. */
	vm_stdin_close(c.proc);
	assert_int_equal(vm_stdin_write(c.proc, "c", 1), -1);
	assert_int_equal(read(x.fds[0], buf, sizeof(buf)), 2);
	assert_int_equal(read(x.fds[0], buf, sizeof(buf)), 0);
	t_vmc_put(&x, 1, "tail");
	end(w, &c, &x);

	/* A reader that goes away is noticed by who waits for it. */
	told = 0;
	t_vmc_start(w, &c, &x, 0, 0);
	vm_stdin_on_drain(c.proc, drained, &told);
	while (vm_stdin_write(c.proc, buf, sizeof(buf)) > 0)
		;
	sli_fd_close(&x.fds[0]);
	t_vm_until(&w->t, &told);
	assert_int_equal(vm_stdin_write(c.proc, "c", 1), -1);
	end(w, &c, &x);
}

static void
a_detached_process_keeps_its_newest_output(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c;
	struct vm_stats st;
	struct t_exec x;
	char buf[4096];
	size_t n = 0;

	memset(buf, 'd', sizeof(buf));
	t_vmc_start(w, &c, &x, VM_EXEC_DETACH, 0);
	assert_true(vm_proc_detached(c.proc));
	assert_false(c.r.owner);
	assert_int_equal(read(x.fds[0], buf, 1), 0); /* no stdin */
	c.idle = 1;
	assert_return_code(fcntl(x.fds[1], F_SETFL, O_NONBLOCK), errno);
	while (n < 2 * 1024 * 1024) {
		ssize_t k = write(x.fds[1], buf, sizeof(buf));

		n += k > 0 ? (size_t)k : 0;
		loop_turn(w->t.l, 0);
	}
	vm_stats(w->t.e, &st);
	assert_int_equal(st.ring_held, 0);
	assert_true(st.ring_retained > 0 && st.ring_retained <= 512 * 1024);
	t_exec_close(&x);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, 0);
	t_vm_turns(&w->t);
	c.idle = 0;
	t_vmc_pull(&c);
	assert_int_equal(c.exited, 1);
	assert_int_equal(c.gaps, 1);
	assert_int_equal(c.n, 512 * 1024);
	assert_int_equal(c.r.next, n);
	t_vmc_free(&c);
	/* And again, from a place that is still kept, or from beyond. */
	memset(&c, 0, sizeof(c));
	vm_reader_attach(
	    vm_proc_find(w->vm, 40 + x.id), &c.r, n - 7, 1, t_vmc_ready);
	assert_int_equal(c.n, 7);
	assert_int_equal(c.exited, 1);
	t_vmc_free(&c);
	memset(&c, 0, sizeof(c));
	vm_reader_attach(
	    vm_proc_find(w->vm, 40 + x.id), &c.r, UINT64_MAX, 0, t_vmc_ready);
	assert_int_equal(c.n, 0);
	assert_int_equal(c.exited, 1);
	t_vmc_free(&c);
}

static void
raw_stdio_is_the_callers(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c;
	struct t_exec x;
	char b[8];

	t_vmc_start(w, &c, &x, VM_EXEC_RAW, 0);
	assert_int_equal(write(c.raw[0], "hi", 2), 2);
	assert_int_equal(read(x.fds[0], b, 8), 2);
	t_vmc_put(&x, 1, "abc");
	assert_int_equal(read(c.raw[1], b, 8), 3);
	t_vmc_put(&x, 2, "late");
	t_exec_close(&x);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 4, 0);
	t_vm_until(&w->t, &c.exited);
	assert_int_equal(c.exit.code, 4);
	assert_int_equal(read(c.raw[2], b, 8), 4);
	assert_int_equal(read(c.raw[2], b, 8), 0);
	t_vmc_free(&c);
}

static void
the_newest_ended_processes_stay_listed(void **state)
{
	struct t_world *w;
	struct t_vmc c, keep;
	struct t_exec x;
	struct vm_proc *p;
	uint32_t pos = 0, n = 0;

	t_world_free(state);
	t_world_new_with(state, SLI_L_VM_MAX_ENDED_PROCESSES, 3);
	w = *state;
	t_vmc_start(w, &keep, &x, 0, 0);
	t_vmc_put(&x, 1, "old");
	t_exec_close(&x);
	t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, 0);
	t_vm_until(&w->t, &keep.exited);
	for (int i = 0; i < 10; i++) {
		t_vmc_start(w, &c, &x, 0, 0);
		assert_int_equal(vm_process_count(w->vm), 1);
		end(w, &c, &x);
	}
	assert_int_equal(vm_process_count(w->vm), 0);
	while ((p = vm_proc_next(w->vm, &pos)) != NULL) {
		assert_int_equal(vm_proc_pid(p), 40 + 9 + n++);
		assert_string_equal(vm_proc_argv(p)[1], "arg");
		assert_null(vm_proc_argv(p)[2]);
	}
	assert_int_equal(n, 3);
	assert_null(vm_proc_find(w->vm, 41));
	/* Forgotten by the VM, but not by who still reads it. */
	assert_ptr_equal(keep.r.proc, keep.proc);
	assert_null(vm_proc_vm(keep.proc));
	t_vmc_free(&keep);
}

static void
the_newest_output_of_ended_processes_is_kept(void **state)
{
	struct t_world *w;
	struct t_vmc c[4], late = {0};
	struct vm_stats st;
	struct t_exec x;
	static char kib[1024];

	t_world_free(state);
	t_world_new_with(state, SLI_L_VM_ENDED_OUTPUT, 2500);
	w = *state;
	for (int i = 0; i < 4; i++) {
		t_vmc_start(w, &c[i], &x, 0, 0);
		/* The second one's owner takes nothing. */
		c[i].idle = i == 1;
		assert_int_equal(write(x.fds[1], kib, 1024), 1024);
		t_exec_close(&x);
		t_pid1_say(&w->pid1, GUEST_EXIT, x.id, 0, 0);
		while (!vm_proc_exit(c[i].proc))
			loop_turn(w->t.l, 100);
	}
	vm_stats(w->t.e, &st);
	assert_int_equal(st.ring_held, 1024);
	assert_int_equal(st.ring_retained, 2048);
	vm_reader_attach(c[0].proc, &late.r, 0, 0, t_vmc_ready);
	assert_int_equal(late.gaps, 1);
	assert_int_equal(late.r.lost, 1024);
	assert_int_equal(late.exited, 1);
	t_vmc_free(&late);
	t_vmc_pull(&c[1]);
	assert_int_equal(c[1].n, 1024);
	for (int i = 0; i < 4; i++)
		t_vmc_free(&c[i]);
}

static void
readers_outlive_a_deleted_vm(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c;
	struct t_exec x;

	t_vmc_start(w, &c, &x, 0, 0);
	c.idle = 1;
	t_vmc_put(&x, 1, "still to be read");
	t_exec_close(&x);
	vm_delete(w->vm, t_vm_note, &w->t);
	t_vm_deleted(&w->t);
	t_vm_until(&w->t, &w->t.noted);
	assert_null(vm_proc_vm(c.proc));
	t_vmc_pull(&c);
	t_vmc_is(&c, "still to be read");
	assert_int_equal(c.exit.signal, SIGKILL);
	assert_int_equal(vm_proc_signal(c.proc, 15), SLI_E_FAILED_PRECONDITION);
	vm_proc_kill_tree(c.proc);
	t_vmc_free(&c);
}

static void
an_exec_waits_for_its_vm(void **state)
{
	struct t_world *w = *state;
	struct vm_spec s = {.id = "vm_2", .name = "n", .owner = w->t.me};
	struct vm *vm = vm_adopt_stopped(w->t.e, &s, "server_restarted");
	struct t_vmc c[3];
	struct t_pid1 p;
	struct t_exec x;

	/* Stopped: started for it. Not before it runs. */
	t_vmc_exec(vm, &c[0], 0, 0);
	t_vmc_exec(vm, &c[1], 0, 0);
	t_vm_made(&w->t, t_vm_request(&w->t, SPAWNER_CREATE, NULL, 0), &p);
	t_vm_turns(&w->t);
	t_pid1_say(&p, GUEST_READY, 0, GUEST_VERSION, 0);
	for (int i = 0; i < 2; i++) {
		t_pid1_exec(&w->t, &p, &x);
		t_exec_close(&x);
		t_pid1_say(&p, GUEST_STARTED, x.id, 5 + i, 0);
		t_pid1_say(&p, GUEST_EXIT, x.id, 0, 0);
		t_vm_until(&w->t, &c[i].exited);
		t_vmc_free(&c[i]);
	}
	/* In creation when it fails. */
	s = (struct vm_spec){.id = "vm_3", .name = "n", .owner = w->t.me};
	vm = vm_adopt_stopped(w->t.e, &s, "server_restarted");
	t_vmc_exec(vm, &c[2], 0, 0);
	t_vm_failed(&w->t, t_vm_request(&w->t, SPAWNER_CREATE, NULL, 0), ENOSPC,
	    "root");
	t_vm_until(&w->t, &c[2].answered);
	assert_null(c[2].proc);
	assert_int_equal(c[2].ei.code, SLI_E_SANDBOX);
	/* And afterwards. */
	t_vmc_exec(vm, &c[2], 0, 0);
	t_vm_until(&w->t, &c[2].answered);
	assert_int_equal(c[2].ei.code, SLI_E_FAILED_PRECONDITION);
	t_pid1_close(&p);
}

static void
more_processes_than_allowed_are_refused(void **state)
{
	struct t_world *w;
	struct t_vmc c[4];
	struct t_exec x[3];

	t_world_free(state);
	t_world_new_with(state, SLI_L_VM_MAX_PROCESSES, 3);
	w = *state;
	for (int i = 0; i < 3; i++)
		t_vmc_start(w, &c[i], &x[i], 0, 0);
	t_vmc_exec(w->vm, &c[3], 0, 0);
	t_vm_until(&w->t, &c[3].answered);
	assert_int_equal(c[3].ei.code, SLI_E_RESOURCE_EXHAUSTED);
	assert_string_equal(c[3].ei.hits[0].key, "vm.max_processes");
	end(w, &c[0], &x[0]);
	t_vmc_start(w, &c[0], &x[0], 0, 0);
	for (int i = 0; i < 3; i++)
		end(w, &c[i], &x[i]);
}

/* A pid 1 that reads nothing: what is asked of it is bounded, then refused,
 * and the VM can still be deleted. */
static void
a_pid_1_that_does_not_read(void **state)
{
	struct t_world *w = *state;
	struct t_vmc c;
	struct t_exec x;
	unsigned n = 0;

	t_vmc_start(w, &c, &x, 0, 0);
	t_exec_close(&x);
	while (n < 100000 && vm_proc_signal(c.proc, SIGUSR1) == SLI_OK)
		n++;
	assert_true(n >= 512 && n < 100000);
	assert_int_equal(vm_proc_signal(c.proc, SIGUSR1), SLI_E_UNAVAILABLE);
	vm_proc_kill_tree(c.proc);
	vm_delete(w->vm, t_vm_note, &w->t);
	t_vm_deleted(&w->t);
	t_vm_until(&w->t, &w->t.noted);
	assert_int_equal(c.exited, 1);
	t_vmc_free(&c);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, t_world_new, t_world_free)
	const struct CMUnitTest tests[] = {
	    T(bad_specs_are_refused_by_name),
	    T(the_environment_is_composed_and_later_ones_win),
	    T(stdin_takes_what_the_pipe_takes),
	    T(a_detached_process_keeps_its_newest_output),
	    T(raw_stdio_is_the_callers),
	    T(the_newest_ended_processes_stay_listed),
	    T(the_newest_output_of_ended_processes_is_kept),
	    T(readers_outlive_a_deleted_vm),
	    T(an_exec_waits_for_its_vm),
	    T(more_processes_than_allowed_are_refused),
	    T(a_pid_1_that_does_not_read),
	};

	return cmocka_run_group_tests_name("vm_exec", tests, NULL, NULL);
}
