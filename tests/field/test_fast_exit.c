/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan user timeout=300 */
/* A command that prints and exits at once loses nothing (B31): the exit is
 * told after the last byte, whatever the output's length and end, and nobody
 * is left unburied. The variants with a PTY wait for terminals. */
#include "watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PARALLEL 8

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

struct place {
	struct world *w;
	const char *vm;
};

/* Dead and unburied in the VM, or children of the server itself. */
static int
no_zombies(void *ctx)
{
	struct place *p = ctx;
	struct run r;
	SLUICE(p->w, &r, "exec", p->vm, "--", "sh", "-c",
	    "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '");
	int ok = r.status == 1 && strcmp(r.out, "0\n") == 0;
	run_free(&r);
	return ok;
}

struct many {
	sluice_client *c;
	const char *vm;
	struct watch x[PARALLEL];
	unsigned of[PARALLEL]; /* its number; 0 = free */
	unsigned begun, done, all;
};

static void
begin_one(struct many *m, unsigned at)
{
	char marker[32];
	(void)snprintf(marker, sizeof(marker), "marker-%u", ++m->begun);
	m->of[at] = m->begun;
	m->x[at].keep = 64;
	WATCH_EXEC(m->c, &m->x[at], m->vm, "/bin/echo", marker);
}

static int
all_done(void *ctx)
{
	struct many *m = ctx;
	for (unsigned i = 0; i < PARALLEL; i++) {
		if (m->of[i] && m->x[i].ended) {
			char want[32];
			(void)snprintf(
			    want, sizeof(want), "marker-%u\n", m->of[i]);
			watch_is(&m->x[i], 0, want);
			assert_int_equal(m->x[i].exit.truncated, 0);
			watch_free(&m->x[i]);
			m->of[i] = 0;
			m->done++;
		}
		if (!m->of[i] && m->begun < m->all)
			begin_one(m, i);
	}
	return m->done == m->all;
}

static void
markers_come_whole(void **state)
{
	struct world *w = *state;
	char vm[64];
	struct many m = {0};
	m.all = world_long() ? 1000 : 300;
	print_message("rounds %u of 1000\n", m.all);
	world_vm(w, vm, sizeof(vm));
	m.vm = vm;
	m.c = watch_open(w, 0);
	watch_until(&m.c, 1, all_done, &m, 120000, "all markers");
	sluice_close(m.c);
	struct place p = {w, vm};
	world_until(no_zombies, &p, 5000, "no zombies");
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

static void
the_command_prints_all(void **state)
{
	struct world *w = *state;
	char vm[64], marker[32], want[32];
	unsigned rounds = world_long() ? 200 : 20;
	struct run r;
	print_message("rounds %u of 200\n", rounds);
	world_vm(w, vm, sizeof(vm));
	for (unsigned i = 0; i < rounds; i++) {
		(void)snprintf(marker, sizeof(marker), "marker-%u", i);
		(void)snprintf(want, sizeof(want), "marker-%u\n", i);
		SLUICE(w, &r, "exec", vm, "--", "/bin/echo", marker);
		assert_int_equal(r.status, 0);
		assert_string_equal(r.out, want);
		assert_string_equal(r.err, "");
		run_free(&r);
		SLUICE(w, &r, "exec", vm, "--", "printf", "x");
		assert_int_equal(r.status, 0);
		assert_string_equal(r.out, "x");
		run_free(&r);
	}
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

/* More than a pipe holds, then the exit, on either descriptor and with any
 * status. */
static void
long_output_then_exit(void **state)
{
	struct world *w = *state;
	char vm[64];
	unsigned rounds = world_long() ? 200 : 40;
	print_message("rounds %u of 200\n", rounds);
	world_vm(w, vm, sizeof(vm));
	sluice_client *c = watch_open(w, 0);
	for (unsigned i = 0; i < rounds; i++) {
		struct watch x = {0};
		WATCH_EXEC(c, &x, vm, "sh", "-c",
		    i % 2 ? "head -c 70000 /dev/zero; exit 3"
			  : "head -c 70000 /dev/zero >&2; exit 3");
		watch_end(c, &x, 10000);
		assert_int_equal(x.err, 0);
		assert_int_equal(x.exits, 1);
		assert_int_equal(x.exit.code, 3);
		assert_int_equal(x.exit.truncated, 0);
		assert_int_equal(x.bytes, 70000);
		watch_free(&x);
	}
	sluice_close(c);
	struct place p = {w, vm};
	world_until(no_zombies, &p, 5000, "no zombies");
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(markers_come_whole),
	    cmocka_unit_test(the_command_prints_all),
	    cmocka_unit_test(long_output_then_exit),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
