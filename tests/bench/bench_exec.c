/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in a VM, from a client's call to the exit event: latency of true
 * against posix_spawn on the host, and throughput of stdout against a relay of
 * the same bytes through a pipe and a unix socket under the same window. All
 * in one run, rounds interleaved, medians printed. */
#include "world.h"

#include <sluice.h>

#include <errno.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS    9
#define TRUES     200
#define BYTES     (256ull << 20)
#define BYTES_STR "268435456"
#define SMALL     (64u << 10)
#define DEFAULT   (256u << 10)

static double
now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int
cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double
median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), cmp);
	return v[n / 2];
}

/* --- through Sluice -------------------------------------------------------*/

struct one {
	uint64_t bytes;
	int ended, code;
};

static void
on_data(void *arg, sluice_stream *s, int32_t fd, uint64_t offset, const void *p,
    size_t n, sluice_msg *m)
{
	struct one *o = arg;
	(void)s;
	(void)fd;
	(void)offset;
	(void)p;
	o->bytes += n;
	sluice_msg_done(m);
}

static void
on_exit_event(void *arg, sluice_stream *s, const struct sluice_exit *e)
{
	struct one *o = arg;
	(void)s;
	o->ended = 1;
	o->code = e->signal ? 128 + e->signal : e->code;
}

static void
on_end(void *arg, sluice_stream *s, const struct sluice_error *err)
{
	struct one *o = arg;
	(void)s;
	if (err && !o->ended) {
		(void)fprintf(stderr, "bench_exec: %s\n", err->text);
		exit(1);
	}
	o->ended = 2;
}

/* Until the exit event (1) or the end of the call (2). */
static double
run(sluice_client *c, const char *vm, const char *const *argv, struct one *o,
    int until)
{
	struct sluice_exec_spec spec;
	struct sluice_exec_handler h;
	struct sluice_error err;
	SLUICE_INIT(spec);
	SLUICE_INIT(h);
	SLUICE_INIT(err);
	spec.vm = vm;
	spec.argv = argv;
	h.on_data = on_data;
	h.on_exit = on_exit_event;
	h.on_end = on_end;
	memset(o, 0, sizeof(*o));
	double t = now_us();
	assert_int_equal(sluice_exec(c, &spec, &h, o, NULL, &err), 0);
	while (o->ended < until)
		assert_int_equal(sluice_wait(c, 60000, &err), 0);
	t = now_us() - t;
	while (o->ended < 2)
		assert_int_equal(sluice_wait(c, 60000, &err), 0);
	assert_int_equal(o->code, 0);
	return t;
}

static sluice_client *
dial(const struct world *w, uint32_t window)
{
	sluice_client *c = NULL;
	struct sluice_options opt;
	struct sluice_error err;
	SLUICE_INIT(opt);
	SLUICE_INIT(err);
	opt.window = window;
	if (sluice_open(w->url, &opt, &c, &err) != 0)
		fail_msg("cannot connect: %s", err.text);
	return c;
}

static double
stdout_mb_s(sluice_client *c, const char *vm)
{
	static const char *const argv[] = {
	    "head", "-c", BYTES_STR, "/dev/zero", NULL};
	struct one o;
	double us = run(c, vm, argv, &o, 2);
	assert_int_equal(o.bytes, BYTES);
	return (double)BYTES / us;
}

/* --- peers ----------------------------------------------------------------*/

static double
host_true(void)
{
	char *argv[] = {(char[]){"true"}, NULL};
	pid_t pid;
	int st;
	double t = now_us();
	assert_int_equal(
	    posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	return now_us() - t;
}

static void
write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);
		if (k <= 0)
			_exit(1);
		p += k;
		n -= (size_t)k;
	}
}

/* Reads the pipe, writes the socket, never more than `window` beyond what the
 * other end has said it took. */
static void
relay(int in, int sock, size_t window)
{
	static char buf[1 << 16];
	uint64_t sent = 0, acked = 0;
	for (;;) {
		while (sent - acked >= window)
			if (read(sock, &acked, sizeof(acked)) !=
			    (ssize_t)sizeof(acked))
				_exit(1);
		size_t room = window - (size_t)(sent - acked);
		ssize_t n =
		    read(in, buf, room < sizeof(buf) ? room : sizeof(buf));
		if (n <= 0)
			_exit(n < 0);
		write_all(sock, buf, (size_t)n);
		sent += (uint64_t)n;
	}
}

static double
relay_mb_s(size_t window)
{
	static char buf[1 << 18];
	int p[2], s[2];
	uint64_t got = 0, told = 0;
	assert_int_equal(pipe(p), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	double t = now_us();
	pid_t head = fork();
	if (head == 0) {
		(void)dup2(p[1], 1);
		execlp(
		    "head", "head", "-c", BYTES_STR, "/dev/zero", (char *)NULL);
		_exit(127);
	}
	pid_t mid = fork();
	if (mid == 0) {
		(void)close(p[1]);
		(void)close(s[0]);
		relay(p[0], s[1], window);
	}
	(void)close(p[0]);
	(void)close(p[1]);
	(void)close(s[1]);
	for (;;) {
		ssize_t n = read(s[0], buf, sizeof(buf));
		if (n < 0 && errno == ECONNRESET)
			break; /* the relay left our last words unread */
		if (n <= 0)
			break;
		got += (uint64_t)n;
		if (got - told >= window / 4) {
			told = got;
			(void)!send(s[0], &told, sizeof(told), MSG_NOSIGNAL);
		}
	}
	t = now_us() - t;
	(void)close(s[0]);
	assert_int_equal(got, BYTES);
	(void)waitpid(head, NULL, 0);
	(void)waitpid(mid, NULL, 0);
	return (double)BYTES / t;
}

/* --- the run --------------------------------------------------------------*/

static void
true_round(sluice_client *c, const char *vm, double *vm_us, double *host_us)
{
	static const char *const argv[] = {"/bin/true", NULL};
	double a[TRUES], b[TRUES];
	struct one o;
	for (unsigned i = 0; i < TRUES; i++) {
		a[i] = run(c, vm, argv, &o, 1);
		b[i] = host_true();
	}
	*vm_us = median(a, TRUES);
	*host_us = median(b, TRUES);
}

static void
bench(void **state)
{
	struct world w;
	char vm[64];
	double v[7][ROUNDS];
	(void)state;
	world_init(&w);
	world_start(&w);
	world_vm(&w, vm, sizeof(vm));
	sluice_client *big = dial(&w, 0), *small = dial(&w, SMALL);
	for (unsigned i = 0; i < ROUNDS; i++) {
		true_round(big, vm, &v[0][i], &v[1][i]);
		v[2][i] = stdout_mb_s(big, vm);
		v[3][i] = relay_mb_s(DEFAULT);
		/* Before and after: the peer's rate drifts within seconds. */
		v[6][i] = relay_mb_s(SMALL);
		v[4][i] = stdout_mb_s(small, vm);
		v[5][i] = (v[6][i] + relay_mb_s(SMALL)) / 2;
		v[6][i] = v[4][i] / v[5][i];
	}
	sluice_close(big);
	sluice_close(small);
	double m[7];
	for (unsigned i = 0; i < 7; i++)
		m[i] = median(v[i], ROUNDS);
	(void)printf("vm.exec_true.p50_us %.0f us\n", m[0]);
	(void)printf("host.spawn_true.p50_us %.0f us\n", m[1]);
	(void)printf("vm.exec_true.vs_host %.2f ratio\n", m[0] / m[1]);
	(void)printf("exec.stdout.mb_s %.0f MB/s\n", m[2]);
	(void)printf("relay.mb_s %.0f MB/s\n", m[3]);
	(void)printf("exec.stdout.64k.mb_s %.0f MB/s\n", m[4]);
	(void)printf("relay.64k.mb_s %.0f MB/s\n", m[5]);
	(void)printf("exec.stdout.64k.vs_relay %.2f ratio\n", m[6]);
	(void)fflush(stdout);
	free(SLUICE_OK_OUT(&w, "vm", "delete", vm));
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
