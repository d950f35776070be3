/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls a second: 64 echo calls of 64 to 91 bytes in flight on one
 * connection, the server's real loop and connections in one process, a plain
 * socket client in another; and the same calls through gRPC C++ in the same
 * minutes (grpc_echo, when it was built), rounds interleaved.
 *
 *   bench_rpc [ROUNDS] [MS]      prints "name value unit" lines, medians
 *
 * This process never touches nng: it forks the servers. */
#include "conn/conns.h"
#include "link/link_nng.h"
#include "link/link_sock.h"
#include "wire/guard.h"
#include "wire/mux.h"
#include "wire/preamble.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include "sluice/v1/server.pb-c.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define IN_FLIGHT  64
#define WARM_MS    200
#define ROUNDS_MAX 31
#define ECHO       1u

static void
die(const char *what)
{
	fprintf(stderr, "bench_rpc: %s\n", what);
	exit(1);
}

/* --- server --- */

static void
do_echo(struct svc *svc, struct svc_call c, const ProtobufCMessage *req)
{
	const Sluice__V1__EchoRequest *r = (const void *)req;
	Sluice__V1__EchoResponse m = SLUICE__V1__ECHO_RESPONSE__INIT;

	(void)svc;
	m.body = r->body;
	svc_reply(c, &m.base);
}

/* Runs for ever; says its address on `out`. */
static void
serve(const char *url, int out)
{
	static const struct svc_method methods[] = {
	    {ECHO, do_echo},
            {0,    NULL   }
        };
	struct conns_cfg cfg = {
	    .methods = methods, .owner_uid = geteuid(), .insecure_loopback = 1};
	struct sli_limits limits;
	struct conns *cs;
	struct sli_errinfo ei;
	char real[SLI_URL_MAX];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sli_limits_init(&limits);
	cfg.limits = &limits;
	cfg.loop = loop_new(&ei);
	if (!cfg.loop || conns_new(&cfg, &cs, &ei) != SLI_OK ||
	    conns_listen(cs, url, &ei) != SLI_OK)
		die(ei.text);
	conns_url(cs, 0, real);
	if (write(out, real, sizeof(real)) < 0)
		die("cannot say where the server is");
	loop_run(cfg.loop);
}

static pid_t
start_server(const char *url, struct sli_addr *ret_a)
{
	char real[SLI_URL_MAX];
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) != 0 || (pid = fork()) < 0)
		die("fork");
	if (pid == 0) {
		serve(url, p[1]);
		_exit(1);
	}
	close(p[1]);
	if (read(p[0], real, sizeof(real)) != sizeof(real) ||
	    sli_addr_parse(real, ret_a, NULL) != SLI_OK)
		die("the server did not start");
	close(p[0]);
	return pid;
}

static void
end_process(pid_t pid)
{
	int st;

	kill(pid, SIGKILL);
	waitpid(pid, &st, 0);
}

/* --- client --- */

struct client {
	struct sli_link *link;
	struct sli_mux *mux;
	struct sli_buf out;
	struct sli_buf req;
	unsigned pre;
	unsigned seq;
	uint64_t calls;
	int stop;
	unsigned flying;
};

static void
call(struct client *c)
{
	static uint8_t body[128];
	Sluice__V1__EchoRequest r = SLUICE__V1__ECHO_REQUEST__INIT;
	struct sli_call call = {.method = ECHO, .end = 1};
	uint32_t sid;

	r.body.data = body;
	r.body.len = 64 + c->seq++ % 28;
	sli_buf_reset(&c->req);
	if (sli_msg_pack(&r.base, 256, &c->req) != SLI_OK)
		die("pack");
	call.request = sli_buf_slice(&c->req);
	if (sli_mux_call(c->mux, &call, 0, &sid, NULL) != SLI_OK)
		die("call");
	c->flying++;
}

static void
on_hello(void *ctx, const struct sli_peer_hello *peer)
{
	(void)peer;
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		call(ctx);
}

static void
on_result(void *ctx, uint32_t sid, uint16_t status, struct sli_slice trailers,
    struct sli_slice body)
{
	struct client *c = ctx;
	static struct sli_arena arena = {.cap = 1u << 20};

	(void)sid;
	(void)trailers;
	sli_arena_reset(&arena);
	if (status != 0 ||
	    !sli_msg_unpack(
		&sluice__v1__echo_response__descriptor, body, &arena, NULL))
		die("a call failed");
	c->calls++;
	c->flying--;
}

static void
on_gone(void *ctx, uint32_t sid)
{
	struct client *c = ctx;

	(void)sid;
	if (!c->stop)
		call(c);
}

static void
on_recv(void *ctx, struct sli_slice b)
{
	struct client *c = ctx;
	size_t skip = SLI_MIN(b.n, SLI_PREAMBLE_LEN - c->pre);
	struct sli_errinfo ei;

	c->pre += (unsigned)skip;
	if (b.n > skip &&
	    sli_mux_input(c->mux, sli_mono_ms(),
		sli_slice_of(b.p + skip, b.n - skip), &ei) != SLI_OK)
		die(ei.text);
	sli_link_recv(c->link);
}

static void
on_sent(void *ctx)
{
	sli_buf_reset(&((struct client *)ctx)->out);
}

static void
on_closed(void *ctx, const struct sli_errinfo *ei)
{
	(void)ctx;
	(void)ei;
	die("the connection was lost");
}

static void
push(struct client *c)
{
	struct sli_iov v;

	if (sli_link_sending(c->link))
		return;
	if (sli_mux_output(c->mux, sli_mono_ms(), &c->out) != SLI_OK)
		die("output");
	v = (struct sli_iov){sli_buf_data(&c->out), sli_buf_len(&c->out)};
	if (v.n > 0)
		sli_link_send(c->link, &v, 1);
}

static void
run_until(struct client *c, int64_t end_ns)
{
	while (sli_mono_ns() < end_ns) {
		struct pollfd pf = {.fd = sli_sock_fd(c->link)};

		push(c);
		pf.events = sli_sock_events(c->link);
		(void)poll(&pf, 1, sli_sock_due_ms(c->link) == 0 ? 0 : 100);
		(void)sli_sock_process(c->link, sli_mono_ms());
	}
}

static double
measure(const struct sli_addr *a, int ms)
{
	static const struct sli_link_sink lsink = {on_recv, on_sent, on_closed};
	static const struct sli_mux_sink msink = {
	    .hello = on_hello, .result = on_result, .gone = on_gone};
	const struct sli_preamble pre = {
	    SLI_VERSION_MIN, SLI_VERSION_MAX, SLI_SEC_NONE};
	struct sli_mux_cfg cfg = {.role = SLI_CLIENT};
	struct client c = {0};
	uint8_t bytes[SLI_PREAMBLE_LEN];
	int64_t t0, t1;
	uint64_t n0;
	double rate;

	sli_buf_init(&c.out, SLI_MUX_BATCH_MAX + 64);
	sli_buf_init(&c.req, 4096);
	sli_preamble_put(bytes, &pre);
	c.mux = sli_mux_new(&cfg, &msink, &c);
	if (!c.mux || sli_buf_append(&c.out, bytes, sizeof(bytes)) != SLI_OK ||
	    sli_sock_dial(a, sli_mono_ms(), 5000, &c.link, NULL) != SLI_OK)
		die("cannot connect");
	sli_link_set_sink(c.link, &lsink, &c);
	sli_link_recv(c.link);
	run_until(&c, sli_mono_ns() + WARM_MS * 1000000ll);
	t0 = sli_mono_ns();
	n0 = c.calls;
	run_until(&c, t0 + ms * 1000000ll);
	t1 = sli_mono_ns();
	rate = (double)(c.calls - n0) * 1e9 / (double)(t1 - t0);
	sli_sock_drop(c.link);
	sli_mux_free(c.mux);
	sli_buf_free(&c.out);
	sli_buf_free(&c.req);
	return rate;
}

static double
own_round(const char *url, int ms)
{
	struct sli_addr a;
	pid_t pid = start_server(url, &a);
	double rate = measure(&a, ms);

	end_process(pid);
	return rate;
}

/* --- gRPC --- */

static pid_t
spawn(const char *prog, char *const argv[], int out)
{
	posix_spawn_file_actions_t fa;
	char *const envp[] = {NULL};
	pid_t pid;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	if (posix_spawn(&pid, prog, &fa, NULL, argv, envp) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&fa);
	return pid;
}

/* Server in one process, client in another, both of grpc_echo. Each says one
 * line on its stdout: the server "ready", the client its calls a second. */
static double
grpc_round(const char *prog, const char *addr, int ms)
{
	char num[16], line[64] = "";
	char *sargv[] = {(char *)(uintptr_t)prog, (char *)(uintptr_t) "server",
	    (char *)(uintptr_t)addr, NULL};
	char *cargv[] = {(char *)(uintptr_t)prog, (char *)(uintptr_t) "client",
	    (char *)(uintptr_t)addr, num, NULL};
	pid_t server, client;
	int p[2], st;

	sli_snprintf(num, sizeof(num), "%d", ms);
	if (pipe2(p, O_CLOEXEC) != 0)
		die("pipe");
	server = spawn(prog, sargv, p[1]);
	if (server < 0 || read(p[0], line, sizeof(line)) <= 0)
		die("grpc_echo did not start");
	client = spawn(prog, cargv, p[1]);
	memset(line, 0, sizeof(line));
	if (client < 0 || read(p[0], line, sizeof(line) - 1) <= 0)
		die("grpc_echo gave no number");
	waitpid(client, &st, 0);
	end_process(server);
	close(p[0]);
	close(p[1]);
	return strtod(line, NULL);
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

int
main(int argc, char **argv)
{
	const char *grpc = SLUICE_BUILD_DIR "/t/bench/grpc_echo";
	uint64_t rounds = 5, ms = 1000;
	double own[ROUNDS_MAX], tcp[ROUNDS_MAX], rpc[ROUNDS_MAX];
	double ratio[ROUNDS_MAX];
	char dir[] = "/tmp/sluice-bench-XXXXXX";
	char url[96], addr[96], path[96];
	int have = access(grpc, X_OK) == 0, n;

	if ((argc > 1 && sli_parse_u64(argv[1], &rounds) != SLI_OK) ||
	    (argc > 2 && sli_parse_u64(argv[2], &ms) != SLI_OK) || rounds < 1 ||
	    rounds > ROUNDS_MAX || ms < 1 || ms > 60000)
		die("usage: bench_rpc [ROUNDS] [MS]");
	if (!mkdtemp(dir))
		die("mkdtemp");
	sli_snprintf(url, sizeof(url), "unix://%s/s", dir);
	sli_snprintf(addr, sizeof(addr), "unix:%s/g", dir);
	n = (int)rounds;
	for (int i = 0; i < n; i++) {
		own[i] = own_round(url, (int)ms);
		if (have) {
			rpc[i] = grpc_round(grpc, addr, (int)ms);
			ratio[i] = own[i] / rpc[i];
		}
		tcp[i] = own_round("tcp://127.0.0.1:0", (int)ms);
	}
	printf("rpc.echo64.calls_s %.0f calls/s\n", median(own, n));
	printf("rpc.echo64.tcp.calls_s %.0f calls/s\n", median(tcp, n));
	if (have) {
		printf("grpc.echo64.calls_s %.0f calls/s\n", median(rpc, n));
		printf("rpc.echo64.vs_grpc %.2f x\n", median(ratio, n));
	} else {
		printf("missing grpc.echo64.calls_s gRPC C++ is not installed "
		       "(make deps)\n");
	}
	for (int i = 0; i < 2; i++) {
		sli_snprintf(path, sizeof(path), "%s/%c", dir, "sg"[i]);
		(void)unlink(path);
	}
	(void)rmdir(dir);
	return 0;
}
