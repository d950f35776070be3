/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan user timeout=120 */
/* A child in the background that holds the pipe delays nothing (B23): the exit
 * of the command is told after vm.exec_drain_ms at the latest, once, after the
 * last data, and says when output was cut. The variant through an ACP terminal
 * waits for terminals. */
#include "watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DRAIN_MS 500 /* vm.exec_drain_ms as documented */

static int
setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	world_init(w);
	world_start(w);
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;
	world_stop(w);
	world_done(w);
	free(w);
	return 0;
}

static void
the_command_returns(void **state)
{
	struct world *w = *state;
	char vm[64];
	struct run r;
	world_vm(w, vm, sizeof(vm));
	SLUICE(w, &r, "exec", vm, "--", "sh", "-c", "sleep 60 & echo done");
	assert_int_equal(r.status, 0);
	assert_string_equal(r.out, "done\n");
	assert_true(r.ms < 2000);
	run_free(&r);
	/* A limit that is longer than the command does not matter. */
	SLUICE(w, &r, "exec", "--timeout", "1s", vm, "--", "sh", "-c",
	    "sleep 60 & echo done");
	assert_int_equal(r.status, 0);
	assert_string_equal(r.out, "done\n");
	assert_true(r.ms < 2500);
	run_free(&r);
	/* A limit that the command itself reaches takes the child as well. */
	SLUICE(w, &r, "exec", "--timeout", "1s", vm, "--", "sh", "-c",
	    "sleep 61 & echo done; sleep 62");
	assert_int_not_equal(r.status, 0);
	assert_string_equal(r.out, "done\n");
	assert_true(r.ms < 2500);
	run_free(&r);
	SLUICE(w, &r, "exec", vm, "--", "sh", "-c",
	    "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 6[12]'");
	assert_string_equal(r.out, "0\n");
	run_free(&r);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

static void
one_exit_after_the_data(void **state)
{
	struct world *w = *state;
	char vm[64];
	static const uint64_t limits[] = {0, 1000};
	world_vm(w, vm, sizeof(vm));
	sluice_client *c = watch_open(w, 0);
	for (unsigned i = 0; i < 2; i++) {
		struct watch x = {.keep = 64};
		watch_exec(c, &x, vm, limits[i],
		    (const char *const[]){
			"sh", "-c", "sleep 60 & echo done", NULL});
		watch_end(c, &x, 5000);
		watch_is(&x, 0, "done\n");
		assert_true(x.exit_ms - x.begun_ms < DRAIN_MS + 1500);
		assert_int_equal(x.exit.timed_out, 0);
		/* Somebody still held the pipe: that is said. */
		assert_int_equal(x.exit.truncated, 1);
		watch_free(&x);
	}
	/* Nobody holds it: nothing is said, and nothing is waited for. */
	struct watch x = {.keep = 64};
	WATCH_EXEC(c, &x, vm, "sh", "-c",
	    "sleep 60 >/dev/null 2>&1 </dev/null & echo done");
	watch_end(c, &x, 5000);
	watch_is(&x, 0, "done\n");
	assert_int_equal(x.exit.truncated, 0);
	watch_free(&x);
	sluice_close(c);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

/* The child prints for ever: slowly, and as fast as it can, to a reader that
 * reads. */
static void
a_child_that_prints(void **state)
{
	struct world *w = *state;
	char vm[64];
	static const char *const children[] = {
	    "(while :; do echo tick; sleep 0.1; done) & echo done",
	    "yes & echo done", "yes >&2 & echo done"};
	world_vm(w, vm, sizeof(vm));
	sluice_client *c = watch_open(w, 0);
	for (unsigned i = 0; i < 3; i++) {
		struct watch x = {.keep = 4096};
		WATCH_EXEC(c, &x, vm, "sh", "-c", children[i]);
		watch_end(c, &x, 5000);
		assert_int_equal(x.err, 0);
		assert_int_equal(x.exits, 1);
		assert_int_equal(x.exit.code, 0);
		assert_int_equal(x.exit.truncated, 1);
		assert_true(x.exit_ms - x.begun_ms < DRAIN_MS + 1500);
		if (i < 1)
			assert_non_null(strstr(x.out, "done\n"));
		watch_free(&x);
		(void)snprintf(x.text, sizeof(x.text), "%u", x.pid);
		free(SLUICE_OK_OUT(w, "kill", vm, x.text));
	}
	sluice_close(c);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

static int
later(void *ctx)
{
	return world_now_ms() > *(int64_t *)ctx;
}

/* The same with a reader that comes late: what was printed before the exit is
 * there, then the exit. */
static void
a_child_and_a_late_reader(void **state)
{
	struct world *w = *state;
	char vm[64];
	struct watch x = {.stall = 1};
	int64_t until = world_now_ms() + 2 * DRAIN_MS;
	world_vm(w, vm, sizeof(vm));
	sluice_client *c = watch_open(w, 0);
	WATCH_EXEC(
	    c, &x, vm, "sh", "-c", "head -c 400000 /dev/zero; yes & exit 7");
	watch_until(&c, 1, later, &until, 5000, "the grace to pass");
	watch_resume(&x);
	watch_end(c, &x, 2000);
	assert_int_equal(x.err, 0);
	assert_int_equal(x.exits, 1);
	assert_int_equal(x.exit.code, 7);
	assert_int_equal(x.exit.truncated, 1);
	assert_true(x.bytes >= 400000);
	watch_free(&x);
	sluice_close(c);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_command_returns),
	    cmocka_unit_test(one_exit_after_the_data),
	    cmocka_unit_test(a_child_that_prints),
	    cmocka_unit_test(a_child_and_a_late_reader),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
