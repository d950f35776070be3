/* SPDX-License-Identifier: Apache-2.0 */
/* A VM from a client's call of Vms.Create to its answer, beside bubblewrap's
 * whole run of true, in interleaved rounds, medians. Deletes are not in it and
 * are told apart. What the spawner alone takes is bench_vm's. */
#include "world.h"

#include <sluice.h>

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 5
#define EACH   30

static double
now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

static void
on_vm(void *arg, const struct sluice_vm *vm, const struct sluice_error *err)
{
	if (err)
		fail_msg("%s", err->text);
	if (vm) /* the last call has none */
		(void)snprintf(arg, 64, "%s", vm->vm);
}

/* Returns how long the create took; *del the delete. */
static double
create_us(sluice_client *c, double *del)
{
	struct sluice_vm_spec spec;
	struct sluice_error err;
	char id[64] = "";
	double t0, t1;

	SLUICE_INIT(spec);
	SLUICE_INIT(err);
	t0 = now_us();
	assert_int_equal(sluice_vm_create(c, &spec, on_vm, id, NULL, &err), 0);
	while (!id[0])
		assert_int_equal(sluice_wait(c, 60000, &err), 0);
	t1 = now_us();
	if (sluice_vm_delete(c, id, NULL, NULL, NULL, &err) != 0)
		fail_msg("%s", err.text);
	*del = now_us() - t1;
	return t1 - t0;
}

/* Less than 0 when there is no bubblewrap. */
static double
bwrap_us(void)
{
	static const char *const argv[] = {"bwrap", "--unshare-all",
	    "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
	    "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
	    "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true",
	    NULL};
	static char *const env[] = {NULL};
	double t = now_us();
	int st = 0;
	pid_t p;

	if (posix_spawnp(&p, argv[0], NULL, NULL,
		(char *const *)(uintptr_t)argv, env) != 0 ||
	    waitpid(p, &st, 0) != p || st != 0)
		return -1;
	return now_us() - t;
}

static void
bench(void **state)
{
	double make[ROUNDS * EACH], gone[ROUNDS * EACH], peer[ROUNDS * EACH];
	struct sluice_options opt;
	struct sluice_error err;
	sluice_client *c = NULL;
	struct world w;
	unsigned n = 0;

	(void)state;
	SLUICE_INIT(opt);
	SLUICE_INIT(err);
	world_init(&w);
	world_start(&w);
	if (sluice_open(w.url, &opt, &c, &err) != 0)
		fail_msg("cannot connect: %s", err.text);
	(void)create_us(c, &gone[0]); /* warm */
	for (unsigned r = 0; r < ROUNDS; r++) {
		for (unsigned i = 0; i < EACH; i++)
			make[n + i] = create_us(c, &gone[n + i]);
		for (unsigned i = 0; i < EACH; i++)
			peer[n + i] = bwrap_us();
		n += EACH;
	}
	sluice_close(c);
	(void)printf("vm.create.p50_us %.0f us\n", median(make, n));
	(void)printf("vm.create.p99_us %.0f us\n", make[n * 99 / 100]);
	(void)printf("vm.delete.p50_us %.0f us\n", median(gone, n));
	(void)median(peer, n);
	if (peer[0] < 0) {
		(void)printf("missing bubblewrap.run_true.p50_us bubblewrap "
			     "is not installed or does not work here\n");
	} else {
		(void)printf(
		    "bubblewrap.run_true.p50_us %.0f us\n", peer[n / 2]);
		(void)printf("vm.create.vs_bubblewrap %.2f ratio\n",
		    make[n / 2] / peer[n / 2]);
	}
	(void)fflush(stdout);
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
