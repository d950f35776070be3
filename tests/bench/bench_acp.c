/* SPDX-License-Identifier: Apache-2.0 */
/* How fast an agent's bytes are routed: tokenizer, envelope, and the whole way
 * of a resent snapshot through lines and supersede. Best of five rounds, in
 * processor time of one core; prints `name value unit` and the tokenizer's
 * target. */
#include "acp/lines.h"
#include "acp/supersede.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TOTAL ((size_t)128 << 20)
#define CHUNK ((size_t)64 << 10)

struct way {
	struct lines lines;
	struct sup sup;
	uint64_t kept;
};

static void
keep(void *ctx, struct sli_slice line, int64_t at_ms, uint64_t superseded)
{
	struct way *w = ctx;

	(void)at_ms;
	(void)superseded;
	w->kept += line.n;
}

static void
on_line(void *ctx, const struct line *ln)
{
	struct way *w = ctx;
	const struct envelope *e = ln->env;

	if (env_is(&e->update, "tool_call_update") &&
	    sup_offer(&w->sup, ln->bytes, env_slice(&e->call), 1, 1))
		return;
	sup_flush(&w->sup, 1);
	w->kept += ln->length;
}

static void
no_over(void *ctx, uint64_t length)
{
	(void)ctx;
	(void)length;
}

static uint64_t
no_parts(void *ctx)
{
	(void)ctx;
	return 0;
}

static void
no_token(void *ctx, struct tok *t, enum tok_kind kind, struct sli_slice text,
    uint64_t off, uint64_t len)
{
	(void)ctx;
	(void)t;
	(void)kind;
	(void)text;
	(void)off;
	(void)len;
}

static void
bench_tokens(const uint8_t *p, size_t n, unsigned watch)
{
	struct tok t;

	for (size_t i = 0; i < n; i += CHUNK) {
		const uint8_t *q = p + i, *e = q + SLI_MIN(CHUNK, n - i);

		while (q < e) {
			const uint8_t *nl = memchr(q, '\n', (size_t)(e - q));

			nl = nl ? nl : e;
			tok_init(&t, no_token, NULL);
			t.watch = watch;
			tok_feed(&t, q, (size_t)(nl - q));
			q = nl + 1;
		}
	}
}

static void
bench_lines(const uint8_t *p, size_t n)
{
	static const struct lines_ops ops = {
	    on_line, no_over, no_parts, NULL, NULL};
	const struct sup_cfg cfg = {
	    4096, 256 << 10, 1000, 128 << 10, 512 << 10};
	struct way w = {0};

	sup_init(&w.sup, &cfg, keep, &w);
	lines_init(&w.lines, &ops, &w, 64 << 20, 256 << 10, 128);
	for (size_t i = 0; i < n; i += CHUNK)
		lines_feed(&w.lines, p + i, SLI_MIN(CHUNK, n - i), 1);
	lines_fini(&w.lines);
	sup_end(&w.sup, 1);
	sup_fini(&w.sup);
}

/* Lines of a kind until the buffer is full; returns its length. */
static size_t
fill(uint8_t *p, int snapshots)
{
	static const char chunk[] =
	    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{"
	    "\"sessionId\":\"0190a1b2-c3d4-7000-8000-0123456789ab\",\"update\":"
	    "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":"
	    "\"text\",\"text\":\" some words of an answer\"}}}}\n";
	static const char head[] =
	    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{"
	    "\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":"
	    "\"tool_call_update\",\"toolCallId\":\"t1\",\"status\":"
	    "\"in_progress\",\"content\":[{\"type\":\"content\",\"content\":{"
	    "\"type\":\"text\",\"text\":\"";
	static const char tail[] = "\"}}]}}}\n";
	size_t n = 0, text = 1000, line;

	while (n + (256 << 10) < TOTAL) {
		if (!snapshots) {
			memcpy(p + n, chunk, sizeof(chunk) - 1);
			n += sizeof(chunk) - 1;
			continue;
		}
		memcpy(p + n, head, sizeof(head) - 1);
		n += sizeof(head) - 1;
		for (line = 0; line < text; line += 56)
			n += sli_snprintf((char *)p + n, 200,
			    "%08zu some line that a compiler printed, quite "
			    "long\\n",
			    line / 56 + (text > 51200 ? (text - 51200) : 0));
		memcpy(p + n, tail, sizeof(tail) - 1);
		n += sizeof(tail) - 1;
		if (text < 51200)
			text += 56;
	}
	return n;
}

/* Of this process alone: the machine may be busy with others. */
static int64_t
cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static double
best(const uint8_t *p, size_t n, int what)
{
	double mb_s = 0;

	for (int round = 0; round < 5; round++) {
		int64_t t0 = cpu_ns(), ns;
		double v;

		if (what < 2)
			bench_tokens(p, n, what ? TOK_DEPTH_MAX : 1);
		else
			bench_lines(p, n);
		ns = cpu_ns() - t0;
		v = (double)n * 1000.0 / (double)ns;
		mb_s = v > mb_s ? v : mb_s;
	}
	return mb_s;
}

int
main(void)
{
	static const char *const kind[] = {"chunk", "snapshot"};
	static const char *const what[] = {"token", "token_all", "route"};
	uint8_t *p = sli_alloc(TOTAL);
	double token = 1e9;

	if (!p)
		return 1;
	for (int k = 0; k < 2; k++) {
		size_t n = fill(p, k);

		for (int w = 0; w < 3; w++) {
			double v = best(p, n, w);

			printf(
			    "acp.%s.%s.mb_s %.0f MB/s\n", what[w], kind[k], v);
			if (w == 0 && v < token)
				token = v;
		}
	}
	printf("target acp.token.mb_s %.0f 500 %s\n", token,
	    token >= 500 ? "ok" : "short");
	sli_free(p);
	return 0;
}
