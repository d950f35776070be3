/* SPDX-License-Identifier: Apache-2.0 */
/* What a VM costs at the spawner and at pid 1, beside bubblewrap's whole run
 * of true and a plain posix_spawn of true, in interleaved rounds. Prints
 * "name value unit" lines. Not the way through a client: that is bench_exec. */
#include "t_sbx.h"

#include "base/fd.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS   5
#define PER_PASS 40
#define N        (ROUNDS * PER_PASS)

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
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double
report(const char *name, double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	printf("%s.p50_us %.0f us\n%s.p99_us %.0f us\n", name, v[n / 2], name,
	    v[n * 99 / 100]);
	return v[n / 2];
}

/* --- the peers, in a process that may still start programs ----------------*/

static const char *const true_argv[] = {"/bin/true", NULL};
static const char *const bwrap_argv[] = {"bwrap", "--unshare-all", "--ro-bind",
    "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib",
    "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev",
    "/dev", "--tmpfs", "/tmp", "/bin/true", NULL};

static double
run_once(const char *const *argv)
{
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

/* Answers one byte with one pass: 'b' bubblewrap, 's' plain spawn. */
static void
peer(int sock)
{
	double v[PER_PASS];
	char c;
	int i;

	while (read(sock, &c, 1) == 1) {
		for (i = 0; i < PER_PASS; i++)
			v[i] = run_once(c == 'b' ? bwrap_argv : true_argv);
		if (write(sock, v, sizeof(v)) != (ssize_t)sizeof(v))
			break;
	}
	_exit(0);
}

static void
ask_peer(int sock, char what, double *v)
{
	if (write(sock, &what, 1) != 1 ||
	    recv(sock, v, sizeof(*v) * PER_PASS, MSG_WAITALL) !=
		(ssize_t)(sizeof(*v) * PER_PASS))
		v[0] = -1;
}

/* --- ours -----------------------------------------------------------------*/

static double create[N], first[N], delete[N], bwrap[N], spawn[N], execs[N];

static void
vm_pass(struct sbx *s, unsigned at)
{
	static struct sbx_result r;
	static const struct sbx_spec spec = {
	    .memory = 512u << 20, .disk = 64u << 20, .pids = 256, .cpu = 1000};
	struct sbx_vm vm;
	unsigned i;
	double t;

	for (i = at; i < at + PER_PASS; i++) {
		t = now_us();
		(void)sbx_create(s, &spec, &vm, NULL);
		create[i] = now_us() - t;
		sbx_run_as(&vm, 0, true_argv, &r);
		first[i] = now_us() - t;
		t = now_us();
		sbx_delete(s, &vm);
		delete[i] = now_us() - t;
	}
}

static void
exec_pass(struct sbx *s, unsigned at)
{
	static struct sbx_result r;
	struct sbx_vm vm;
	unsigned i;
	double t;

	(void)sbx_create(s, NULL, &vm, NULL);
	for (i = at; i < at + PER_PASS; i++) {
		t = now_us();
		sbx_run_as(&vm, 0, true_argv, &r);
		execs[i] = now_us() - t;
	}
	sbx_delete(s, &vm);
}

int
main(void)
{
	struct sbx s;
	double c, b, e, p;
	unsigned i;
	int sp[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sp) < 0)
		return 1;
	if (fork() == 0) {
		(void)close(sp[0]);
		peer(sp[1]);
	}
	(void)close(sp[1]);
	sbx_start(&s);
	for (i = 0; i < N; i += PER_PASS) {
		ask_peer(sp[0], 'b', bwrap + i);
		vm_pass(&s, i);
		ask_peer(sp[0], 's', spawn + i);
		exec_pass(&s, i);
	}
	sbx_stop(&s);
	c = report("vm.create", create, N);
	(void)report("vm.create_and_first_true", first, N);
	(void)report("vm.delete", delete, N);
	e = report("pid1.exec_true", execs, N);
	p = report("host.spawn_true", spawn, N);
	printf("pid1.exec_true.vs_host %.2f x\n", e / p);
	qsort(bwrap, N, sizeof(*bwrap), by_value);
	if (bwrap[0] < 0) {
		printf("missing bubblewrap not installed, or refuses to run\n");
		return 0;
	}
	b = report("bubblewrap.run_true", bwrap, N);
	printf("vm.create.vs_bwrap %.2f x\n", c / b);
	return 0;
}
