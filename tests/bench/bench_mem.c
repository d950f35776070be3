/* SPDX-License-Identifier: Apache-2.0 */
/* What stays in the server's memory, and what it costs the processor to do
 * nothing: an idle server, idle connections, idle VMs, idle sessions, each as
 * the growth of the resident set divided by their number. The VMs' own memory
 * is not the server's and is not in it. */
#include "world.h"

#include <sluice.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CONNS    100u
#define VMS      100u
#define SESSIONS 15u /* and the first: as many as a VM may have */
/* Longer than a quiet connection keeps its buffers. */
#define SETTLE_MS 2500
#define IDLE_MS   5000

static const char *const small[] = {
    "vm.memory_bytes=64MiB", "vm.disk_bytes=16MiB", NULL};

static void
pause_ms(int ms)
{
	int64_t end = world_now_ms() + ms;

	while (world_now_ms() < end)
		world_rest(100);
}

static long
rss_kb(const struct world *w)
{
	pause_ms(SETTLE_MS);
	return world_proc_status(w->pid, "VmRSS");
}

/* User and system time of the server so far, in ms. */
static double
cpu_ms(const struct world *w)
{
	char path[64];
	unsigned long long u = 0, s = 0;
	long hz;
	const char *p;
	char *text;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)w->pid);
	text = world_read(path, NULL);
	assert_non_null(text);
	p = strrchr(text, ')');
	assert_non_null(p);
	/* After the name: state is field 3, utime and stime are 14 and 15. */
	for (unsigned field = 2; field < 14 && p; field++)
		p = strchr(p + 1, ' ');
	assert_non_null(p);
	u = strtoull(p, (char **)(uintptr_t)&p, 10);
	s = strtoull(p, NULL, 10);
	free(text);
	hz = sysconf(_SC_CLK_TCK);
	return (double)(u + s) * 1000.0 / (double)hz;
}

static sluice_client *
dial(const struct world *w)
{
	sluice_client *c = NULL;
	struct sluice_options opt;
	struct sluice_error err;

	SLUICE_INIT(opt);
	SLUICE_INIT(err);
	if (sluice_open(w->url, &opt, &c, &err) != 0)
		fail_msg("cannot connect: %s", err.text);
	/* A connection is one when it has been spoken on. */
	if (sluice_echo(c, "x", 1, NULL, NULL, NULL, &err) != 0)
		fail_msg("%s", err.text);
	return c;
}

static void
on_vm(void *arg, const struct sluice_vm *vm, const struct sluice_error *err)
{
	if (err)
		fail_msg("%s", err->text);
	if (vm) /* the last call has none */
		(void)snprintf(arg, 64, "%s", vm->vm);
}

static void
new_vm(sluice_client *c, char *id)
{
	struct sluice_vm_spec spec;
	struct sluice_error err;

	SLUICE_INIT(spec);
	SLUICE_INIT(err);
	spec.limits = small;
	if (sluice_vm_create(c, &spec, on_vm, id, NULL, &err) != 0)
		fail_msg("%s", err.text);
}

static void
say(const char *what, long before, long after, unsigned n)
{
	(void)printf("mem.%s.kib %.1f KiB\n", what,
	    (double)(after - before) / (double)n);
	(void)fflush(stdout);
}

static void
bench(void **state)
{
	static sluice_client *conn[CONNS];
	static char vm[VMS][64];
	char session[64];
	struct world w;
	long at[4];
	double t;

	(void)state;
	world_init(&w);
	world_start(&w);
	at[0] = rss_kb(&w);
	(void)printf("mem.server.kib %ld KiB\n", at[0]);
	for (unsigned i = 0; i < CONNS; i++)
		conn[i] = dial(&w);
	at[1] = rss_kb(&w);
	say("connection", at[0], at[1], CONNS);
	for (unsigned i = 0; i < VMS; i++)
		new_vm(conn[0], vm[i]);
	at[2] = rss_kb(&w);
	say("vm", at[1], at[2], VMS);
	t = cpu_ms(&w);
	pause_ms(IDLE_MS);
	(void)printf("server.idle.cpu_ms_s %.2f ms/s\n",
	    (cpu_ms(&w) - t) * 1000.0 / IDLE_MS);
	/* The first pays for what all share. */
	for (unsigned i = 0; i <= SESSIONS; i++) {
		world_fake(&w, vm[0], "on prompt; text x; end", NULL, session,
		    sizeof(session));
		if (i == 0)
			at[2] = rss_kb(&w);
	}
	at[3] = rss_kb(&w);
	say("session", at[2], at[3], SESSIONS);
	for (unsigned i = 0; i < CONNS; i++)
		sluice_close(conn[i]);
	world_stop(&w);
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bench)};

	cmocka_set_message_output(CM_OUTPUT_STDOUT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
