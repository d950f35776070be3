/* SPDX-License-Identifier: Apache-2.0 */
/* What the protocol core costs: a client's and a server's core back to back in
 * memory, one thread, no sockets. Prints `name value unit`. The number of
 * rounds can be given; each round measures all, and medians are printed. */
#include "base/clock.h"
#include "base/mem.h"
#include "wire/mux.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 31
#define METRICS    5

enum {
	UNARY = 1,
	DOWN = 2,
	UP = 3
};

struct end {
	struct sli_mux *m;
	struct sli_buf out;
};

struct bench {
	struct end c, s;
	int64_t now;
	unsigned live; /* calls in flight */
	unsigned want; /* to keep in flight */
	uint64_t left; /* calls not yet started */
	uint64_t done;
	size_t msg;     /* message size */
	uint64_t bytes; /* still to give, per pull */
	uint64_t got;
	uint32_t timeout_ms;
};

static void
die(const char *what)
{
	(void)fprintf(stderr, "bench_mux: %s\n", what);
	exit(1);
}

static void
start_calls(struct bench *b)
{
	static const char request[64] = "0123456789";
	struct sli_call call = {.method = UNARY, .end = 1};
	uint32_t sid;

	call.timeout_ms = b->timeout_ms;
	call.request = sli_slice_of(request, sizeof(request));
	while (b->left != 0 && b->live < b->want) {
		if (sli_mux_call(b->c.m, &call, 0, &sid, NULL) != SLI_OK)
			die("call");
		b->left--;
		b->live++;
	}
}

static void
on_gone_client(void *ctx, uint32_t sid)
{
	struct bench *b = ctx;

	(void)sid;
	b->live--;
	b->done++;
	start_calls(b);
}

static void
on_call(void *ctx, uint32_t sid, const struct sli_call *call)
{
	struct bench *b = ctx;

	if (call->method == UNARY &&
	    sli_mux_result(
		b->s.m, sid, 0, sli_slice_of(NULL, 0), call->request) != SLI_OK)
		die("result");
	if (call->method == DOWN)
		sli_mux_ready(b->s.m, sid);
}

static size_t
pull(struct bench *b, uint8_t *dst)
{
	size_t n = b->msg < b->bytes ? b->msg : (size_t)b->bytes;

	memset(dst, 0x5a, n);
	b->bytes -= n;
	return n;
}

static size_t
on_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	(void)sid;
	(void)room;
	return pull(ctx, dst);
}

static void
take(struct bench *b, struct sli_mux *m, uint32_t sid, struct sli_slice bytes)
{
	b->got += bytes.n;
	sli_mux_release(m, sid, bytes.n);
}

static void
on_data_client(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes)
{
	struct bench *b = ctx;

	(void)offset;
	take(b, b->c.m, sid, bytes);
}

static void
on_data_server(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes)
{
	struct bench *b = ctx;

	(void)offset;
	take(b, b->s.m, sid, bytes);
}

static const struct sli_mux_sink client_sink = {
    .data = on_data_client, .gone = on_gone_client, .pull = on_pull};
static const struct sli_mux_sink server_sink = {
    .call = on_call, .data = on_data_server, .pull = on_pull};

static int
move(struct bench *b, struct end *from, struct end *to)
{
	sli_buf_reset(&from->out);
	if (sli_mux_output(from->m, b->now, &from->out) != SLI_OK)
		die("output");
	if (sli_buf_len(&from->out) == 0)
		return 0;
	if (sli_mux_input(to->m, b->now, sli_buf_slice(&from->out), NULL) !=
	    SLI_OK)
		die("input");
	return 1;
}

/* Turn until neither has anything to say. */
static void
turn(struct bench *b)
{
	int any;

	do {
		any = move(b, &b->c, &b->s);
		any |= move(b, &b->s, &b->c);
	} while (any);
}

static void
open_pair(struct bench *b, uint32_t window)
{
	struct sli_mux_cfg cfg = {.role = SLI_CLIENT, .init_window = window};

	memset(b, 0, sizeof(*b));
	b->c.m = sli_mux_new(&cfg, &client_sink, b);
	cfg.role = SLI_SERVER;
	b->s.m = sli_mux_new(&cfg, &server_sink, b);
	if (b->c.m == NULL || b->s.m == NULL)
		die("new");
	sli_buf_init(&b->c.out, SLI_MUX_BATCH_MAX);
	sli_buf_init(&b->s.out, SLI_MUX_BATCH_MAX);
	turn(b);
}

static void
close_pair(struct bench *b)
{
	sli_mux_free(b->c.m);
	sli_mux_free(b->s.m);
	sli_buf_free(&b->c.out);
	sli_buf_free(&b->s.out);
}

static double
unary(uint64_t calls, unsigned in_flight, uint32_t timeout_ms)
{
	struct bench b;
	int64_t t0;
	double s;

	open_pair(&b, 0);
	b.left = calls;
	b.want = in_flight;
	b.timeout_ms = timeout_ms;
	t0 = sli_mono_ns();
	start_calls(&b);
	turn(&b);
	s = (double)(sli_mono_ns() - t0) / 1e9;
	if (b.done != calls)
		die("calls were lost");
	close_pair(&b);
	return (double)calls / s;
}

/* Bytes per second through one stream. */
static double
stream(uint32_t method, uint64_t total, size_t msg, uint32_t window)
{
	struct sli_call call = {.method = method};
	struct bench b;
	uint32_t sid;
	int64_t t0;
	double s;

	open_pair(&b, window);
	b.bytes = total;
	b.msg = msg;
	t0 = sli_mono_ns();
	if (sli_mux_call(b.c.m, &call, 0, &sid, NULL) != SLI_OK)
		die("call");
	if (method == UP)
		sli_mux_ready(b.c.m, sid);
	turn(&b);
	s = (double)(sli_mono_ns() - t0) / 1e9;
	if (b.got != total)
		die("bytes were lost");
	close_pair(&b);
	return (double)total / s;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name, *unit;
	} rows[METRICS] = {
	    {"mux.unary64.calls_s",          "calls/s"},
	    {"mux.unary64_deadline.calls_s", "calls/s"},
	    {"mux.unary64_one.calls_s",      "calls/s"},
	    {"mux.stream_64k.mb_s",          "MB/s"   },
	    {"mux.stream_200b.msgs_s",       "msgs/s" },
	};

	static double v[METRICS][ROUNDS_MAX];
	int rounds = argc > 1 ? argv[1][0] - '0' : 5;

	if (rounds < 1 || rounds > 9)
		die("rounds: 1 to 9");
	for (int r = 0; r < rounds; r++) {
		v[0][r] = unary(1000000, 64, 0);
		v[1][r] = unary(1000000, 64, 30000);
		v[2][r] = unary(300000, 1, 0);
		v[3][r] = stream(DOWN, 2000000000, 65536, 0) / 1e6;
		v[4][r] = stream(UP, 200000000, 200, 0) / 200;
	}
	for (int i = 0; i < METRICS; i++) {
		qsort(v[i], (size_t)rounds, sizeof(double), by_value);
		(void)printf("%s %.0f %s\n", rows[i].name, v[i][rounds / 2],
		    rows[i].unit);
	}
	return 0;
}
