/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan user timeout=120 */
/* The engine on the real spawner and pid 1: real processes, real pipes. What a
 * client would see must be exact, and nothing may be left behind. */
#include "unit.h"

#include "t_host.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct t_vm *T;

static unsigned
rounds(unsigned few, unsigned many)
{
	const char *lng = getenv("SLUICE_LONG");
	unsigned n = lng && *lng ? many : few;

	print_message("# %u rounds\n", n);
	return n;
}

static void
start_failures_say_what_failed(void **state)
{
	static const struct {
		const char *argv0, *cwd;
		enum sli_err want;
		int sys;
	} bad[] = {
	    {"no-such-command", NULL,           SLI_E_NOT_FOUND,           ENOENT},
	    {"/no/such/file",   NULL,           SLI_E_NOT_FOUND,           ENOENT},
	    {"/etc/passwd",     NULL,           SLI_E_PERMISSION_DENIED,   EACCES},
	    {"/etc",            NULL,           SLI_E_PERMISSION_DENIED,   EACCES},
	    {"true",            "/no/such/dir", SLI_E_FAILED_PRECONDITION, ENOENT},
	};
	struct vm *vm = t_host_vm(T, "vm_fail");

	(void)state;
	for (unsigned i = 0; i < SLI_ARRAY_LEN(bad); i++) {
		const char *argv[] = {bad[i].argv0, NULL};
		struct vm_exec_spec s = {.argv = argv, .cwd = bad[i].cwd};
		int64_t t0 = sli_mono_ms();
		struct t_vmc c;

		t_vmc_exec_spec(vm, &c, &s);
		t_vm_until(T, &c.answered);
		assert_null(c.proc);
		assert_int_equal(c.ei.code, bad[i].want);
		assert_int_equal(c.ei.sys, bad[i].sys);
		assert_true(sli_mono_ms() - t0 < 1000);
	}
	t_host_delete(T, vm);
}

static void
statuses_are_the_processes_own(void **state)
{
	static const struct {
		const char *cmd;
		int code, signal;
	} want[] = {
	    {"exit 0",        0,   0      },
	    {"exit 1",        1,   0      },
	    {"exit 255",      255, 0      },
	    {"kill -SEGV $$", 0,   SIGSEGV},
	    {"kill -KILL $$", 0,   SIGKILL},
	    {"kill -TERM $$", 0,   SIGTERM},
	};
	struct vm *vm = t_host_vm(T, "vm_exit");

	(void)state;
	for (unsigned i = 0; i < SLI_ARRAY_LEN(want); i++) {
		struct t_vmc c;

		t_host_run_sh(T, vm, &c, want[i].cmd);
		assert_int_equal(c.exit.code, want[i].code);
		assert_int_equal(c.exit.signal, want[i].signal);
		assert_false(c.exit.truncated || c.exit.timed_out);
		t_vmc_free(&c);
	}
	t_host_delete(T, vm);
}

/* B31 */
static void
a_fast_exit_never_loses_the_last_bytes(void **state)
{
	unsigned n = rounds(120, 1000), sent = 0, done = 0;
	struct vm *vm = t_host_vm(T, "vm_echo");
	struct t_vmc *c[8] = {0};
	unsigned no[8];
	char text[64];

	(void)state;
	while (done < n) {
		for (int i = 0; i < 8; i++) {
			const char *argv[] = {"/bin/echo", text, NULL};
			struct vm_exec_spec s = {.argv = argv};

			if (c[i] && c[i]->exited) {
				sli_snprintf(
				    text, sizeof(text), "marker-%u\n", no[i]);
				t_vmc_is(c[i], text);
				assert_int_equal(c[i]->exit.code, 0);
				assert_int_equal(c[i]->exit.signal, 0);
				assert_false(c[i]->exit.truncated);
				t_vmc_free(c[i]);
				sli_free(c[i]);
				c[i] = NULL;
				done++;
			}
			if (c[i] || sent == n)
				continue;
			c[i] = sli_zalloc(sizeof(*c[i]));
			assert_non_null(c[i]);
			no[i] = sent;
			sli_snprintf(text, sizeof(text), "marker-%u", sent++);
			t_vmc_exec_spec(vm, c[i], &s);
		}
		loop_turn(T->l, 1000);
	}
	assert_int_equal(vm_process_count(vm), 0);
	t_host_delete(T, vm);
}

static void
bytes_are_exact(void **state)
{
	struct vm *vm = t_host_vm(T, "vm_bytes");
	struct t_vmc c;
	const char *at;

	(void)state;
	t_host_run_sh(T, vm, &c, "printf x");
	t_vmc_is(&c, "x");
	t_vmc_free(&c);
	t_host_run_sh(T, vm, &c, "head -c 70000 /dev/zero; exit 3");
	assert_int_equal(c.n, 70000);
	assert_int_equal(c.exit.code, 3);
	t_vmc_free(&c);
	t_host_run_sh(T, vm, &c, "seq 1 2000000");
	assert_int_equal(c.n, 14888896);
	at = c.data;
	for (unsigned i = 1; i <= 2000000; i++) {
		char line[16];
		size_t k = sli_snprintf(line, sizeof(line), "%u\n", i);

		if (memcmp(at, line, k) != 0)
			fail_msg("line %u differs", i);
		at += k;
	}
	t_vmc_free(&c);
	t_host_run_sh(T, vm, &c,
	    "head -c 20000000 /dev/zero & head -c 20000000 /dev/zero >&2;"
	    "wait");
	assert_int_equal(c.n, 40000000);
	t_vmc_free(&c);
	t_host_delete(T, vm);
}

/* B23 */
static void
a_background_child_does_not_hold_the_exit(void **state)
{
	struct vm *vm = t_host_vm(T, "vm_bg");
	struct t_vmc c;
	int64_t t0 = sli_mono_ms();

	(void)state;
	t_host_run_sh(T, vm, &c, "sleep 60 & echo done");
	assert_true(sli_mono_ms() - t0 < 2000);
	t_vmc_is(&c, "done\n");
	assert_int_equal(c.exit.code, 0);
	assert_true(c.exit.truncated);
	t_vmc_free(&c);
	t0 = sli_mono_ms();
	t_host_run_sh(
	    T, vm, &c, "while :; do echo tick; sleep 0.1; done & echo done");
	assert_true(sli_mono_ms() - t0 < 2000);
	assert_true(c.exit.truncated);
	t_vmc_free(&c);
	t0 = sli_mono_ms();
	t_host_run_sh(T, vm, &c, "yes & echo done");
	assert_true(sli_mono_ms() - t0 < 3000);
	assert_true(c.exit.truncated);
	t_vmc_free(&c);
	t_host_delete(T, vm);
}

static unsigned
sleeps(struct vm *vm)
{
	struct t_vmc c;
	unsigned n;

	t_host_run_sh(T, vm, &c,
	    "n=0; for f in /proc/[0-9]*/comm; do"
	    " [ \"$(cat $f 2>/dev/null)\" = sleep ] && n=$((n + 1));"
	    " done; printf %s $n");
	assert_int_equal(c.n, 1);
	n = (unsigned)(c.data[0] - '0');
	t_vmc_free(&c);
	return n;
}

/* B22 */
static void
a_timeout_and_a_kill_take_the_whole_tree(void **state)
{
	static const char cmd[] =
	    "setsid sh -c 'trap : TERM HUP; sleep 999; :' &"
	    "setsid setsid sleep 998 & wait";
	struct vm *vm = t_host_vm(T, "vm_tree");
	struct t_vmc other, c;
	int64_t t0;

	(void)state;
	t_host_sh(vm, &other, "exec sleep 997", 0);
	t_vm_until(T, &other.answered);
	t0 = sli_mono_ms();
	t_host_sh(vm, &c, cmd, 300);
	t_vm_until(T, &c.exited);
	assert_true(sli_mono_ms() - t0 < 3000);
	assert_true(c.exit.timed_out);
	assert_int_equal(c.exit.signal, SIGKILL);
	assert_false(c.exit.truncated);
	t_vmc_free(&c);
	assert_int_equal(sleeps(vm), 1);
	/* killed from outside; and what an ended command left behind */
	t_host_sh(vm, &c, cmd, 0);
	t_vm_until(T, &c.answered);
	while (sleeps(vm) != 3)
		loop_turn(T->l, 10);
	vm_proc_kill_tree(c.proc);
	t_vm_until(T, &c.exited);
	assert_false(c.exit.timed_out);
	t_vmc_free(&c);
	while (sleeps(vm) != 1)
		loop_turn(T->l, 10);
	t_host_run_sh(T, vm, &c, "setsid sleep 996 >/dev/null 2>&1 & :");
	assert_false(c.exit.truncated);
	assert_int_equal(sleeps(vm), 2);
	vm_proc_kill_tree(c.proc);
	t_vmc_free(&c);
	while (sleeps(vm) != 1)
		loop_turn(T->l, 10);
	assert_int_equal(other.exited, 0);
	assert_int_equal(vm_proc_signal(other.proc, SIGTERM), SLI_OK);
	t_vm_until(T, &other.exited);
	assert_int_equal(other.exit.signal, SIGTERM);
	t_vmc_free(&other);
	t_host_delete(T, vm);
}

/* B35, B36 */
static void
much_stdin_through_cat_with_a_late_reader(void **state)
{
	enum {
		TOTAL = 20 * 1000 * 1000
	};
	struct vm *vm = t_host_vm(T, "vm_cat");
	uint8_t buf[65536];
	size_t sent = 0;
	struct t_vmc c;
	int stuck = 0;

	(void)state;
	t_host_sh(vm, &c, "cat; echo tail; echo err >&2", 0);
	t_vm_until(T, &c.answered);
	c.idle = 1;
	while (sent < TOTAL) {
		size_t n = SLI_MIN(sizeof(buf), TOTAL - sent);
		long k;

		for (size_t i = 0; i < n; i++)
			buf[i] = (uint8_t)((sent + i) * 2654435761u >> 13);
		k = vm_stdin_write(c.proc, buf, n);
		assert_true(k >= 0);
		sent += (size_t)k;
		stuck = k == 0 ? stuck + 1 : 0;
		/* Everything is full: now the reader comes. */
		if (stuck == 5 && c.idle) {
			assert_true(sent < 2000000);
			c.idle = 0;
			t_vmc_pull(&c);
		}
		loop_turn(T->l, 20);
	}
	assert_int_equal(c.exited, 0);
	vm_stdin_close(c.proc);
	t_vm_until(T, &c.exited);
	assert_int_equal(c.n, TOTAL + 9);
	for (size_t i = 0; i < TOTAL; i++)
		if ((uint8_t)c.data[i] != (uint8_t)(i * 2654435761u >> 13))
			fail_msg("byte %zu differs", i);
	assert_memory_equal(c.data + TOTAL, "tail\nerr\n", 9);
	assert_int_equal(c.gaps, 0);
	t_vmc_free(&c);
	/* stdin that ends at once */
	t_host_sh(vm, &c, "cat", 0);
	t_vm_until(T, &c.answered);
	vm_stdin_close(c.proc);
	t_vm_until(T, &c.exited);
	assert_int_equal(c.exit.code, 0);
	t_vmc_free(&c);
	t_host_delete(T, vm);
}

/* B25: whatever runs, deletion is quick and complete, and everybody is told
 * the truth once. */
static void
deletion_during_everything(void **state)
{
	static const char *const cmds[] = {"yes", "exec sleep 300", "cat",
	    "sleep 300 & sleep 299", "true", "yes >&2"};
	unsigned n = rounds(15, 200);

	(void)state;
	for (unsigned r = 0; r < n; r++) {
		struct t_vmc c[SLI_ARRAY_LEN(cmds)];
		struct vm *vm = t_host_vm(T, "vm_again");
		int64_t t0;

		for (unsigned i = 0; i < SLI_ARRAY_LEN(c); i++)
			t_host_sh(vm, &c[i], cmds[i], 0);
		c[5].idle = 1;
		for (unsigned i = 0; i < r * 3; i++)
			loop_turn(T->l, 1);
		t0 = sli_mono_ms();
		t_host_delete(T, vm);
		assert_true(sli_mono_ms() - t0 < 5000);
		for (unsigned i = 0; i < SLI_ARRAY_LEN(c); i++) {
			t_vm_until(T, &c[i].answered);
			if (!c[i].proc) {
				assert_int_not_equal(c[i].ei.code, SLI_OK);
				continue;
			}
			c[i].idle = 0;
			if (!c[i].exited)
				t_vmc_pull(&c[i]);
			t_vm_until(T, &c[i].exited);
			assert_int_equal(c[i].exited, 1);
			assert_true(i == 4 || c[i].exit.signal == SIGKILL);
			t_vmc_free(&c[i]);
		}
	}
}

static void
the_death_of_pid_1_is_the_end_of_its_vm_only(void **state)
{
	struct vm *a = t_host_vm(T, "vm_a"), *b = t_host_vm(T, "vm_b");
	struct t_vmc c, d;
	int failed = 0;

	(void)state;
	t_host_sh(a, &c, "echo before; exec sleep 300", 0);
	while (!c.n)
		loop_turn(T->l, 100);
	assert_return_code(kill(vm_init_pid(a), SIGKILL), errno);
	t_vm_until(T, &c.exited);
	t_vmc_is(&c, "before\n");
	assert_int_equal(c.exit.signal, SIGKILL);
	for (int i = 0; i < 100 && !failed; i++) {
		failed = vm_state(a) == VM_FAILED;
		loop_turn(T->l, 10);
	}
	assert_true(failed);
	t_vmc_free(&c);
	t_host_run_sh(T, b, &d, "true");
	assert_int_equal(d.exit.code, 0);
	t_vmc_free(&d);
	t_host_delete(T, a);
	t_host_delete(T, b);
}

static unsigned fds;

static int
note_fds(void **state)
{
	(void)state;
	fds = t_host_fds();
	return 0;
}

/* No descriptor, no zombie, no byte. */
static int
nothing_left(void **state)
{
	struct vm_stats st;
	siginfo_t si = {0};

	(void)state;
	t_vm_turns(T);
	vm_stats(T->e, &st);
	assert_int_equal(
	    st.vms + st.processes + st.ring_held + st.ring_retained, 0);
	assert_int_equal(t_host_fds(), fds);
	/* The helpers are children too, and live. */
	assert_return_code(
	    waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL), errno);
	assert_int_equal(si.si_pid, 0);
	return 0;
}

static int
body(struct t_vm *t)
{
#define U(f) cmocka_unit_test_setup_teardown(f, note_fds, nothing_left)
	const struct CMUnitTest tests[] = {
	    U(start_failures_say_what_failed),
	    U(statuses_are_the_processes_own),
	    U(a_fast_exit_never_loses_the_last_bytes),
	    U(bytes_are_exact),
	    U(a_background_child_does_not_hold_the_exit),
	    U(a_timeout_and_a_kill_take_the_whole_tree),
	    U(much_stdin_through_cat_with_a_late_reader),
	    U(deletion_during_everything),
	    U(the_death_of_pid_1_is_the_end_of_its_vm_only),
	};

	T = t;
	return cmocka_run_group_tests_name("vm_engine", tests, NULL, NULL);
}

int
main(void)
{
	return t_host_run(body);
}
