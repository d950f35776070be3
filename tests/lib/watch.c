/* SPDX-License-Identifier: Apache-2.0 */
/* See watch.h. */
#include "watch.h"

#include "base/str.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define FNV_START 1469598103934665603ull
#define FNV_PRIME 1099511628211ull
#define FEED_STEP 32768u

int64_t
watch_now_us(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* --- what comes -----------------------------------------------------------*/

static void
on_started(void *arg, sluice_stream *s, uint32_t pid, uint64_t start)
{
	struct watch *x = arg;
	(void)s;
	assert_int_equal(x->started, 0);
	assert_int_equal(x->bytes, 0);
	x->started = 1;
	x->pid = pid;
	assert_true(start == x->next);
}

static void
keep_bytes(struct watch *x, const void *p, size_t n)
{
	if (!x->out) {
		x->out = calloc(1, x->keep + 1);
		assert_non_null(x->out);
	}
	if (n > x->keep - x->out_len)
		n = x->keep - x->out_len;
	memcpy(x->out + x->out_len, p, n);
	x->out_len += n;
}

static void
keep_msg(struct watch *x, sluice_msg *m)
{
	if (x->nkept == x->cap) {
		x->cap = x->cap ? 2 * x->cap : 64;
		x->kept = realloc(x->kept, x->cap * sizeof(*x->kept));
		assert_non_null(x->kept);
	}
	x->kept[x->nkept++] = m;
}

static void
on_data(void *arg, sluice_stream *s, int32_t fd, uint64_t offset, const void *p,
    size_t n, sluice_msg *m)
{
	struct watch *x = arg;
	const unsigned char *b = p;
	int64_t now = world_now_ms();
	uint64_t h = x->hash;
	(void)s;
	assert_int_equal(x->exits, 0);
	assert_int_equal(x->ended, 0);
	assert_true(fd == 1 || fd == 2);
	assert_true(n > 0);
	if (offset != x->next)
		fail_msg("offset %llu came, %llu was due",
		    (unsigned long long)offset, (unsigned long long)x->next);
	if (now - x->last_ms > x->idle_ms)
		x->idle_ms = now - x->last_ms;
	x->last_ms = now;
	x->next += n;
	x->bytes += n;
	x->wire += sluice_msg_len(m);
	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * FNV_PRIME;
	x->hash = h;
	if (x->keep)
		keep_bytes(x, p, n);
	if (x->stall)
		keep_msg(x, m);
	else
		sluice_msg_done(m);
}

static void
on_gap(void *arg, sluice_stream *s, uint64_t offset, uint64_t lost)
{
	struct watch *x = arg;
	(void)s;
	if (!x->may_gap)
		fail_msg("a gap of %llu bytes", (unsigned long long)lost);
	assert_true(offset == x->next + lost);
	x->next = offset;
	x->gaps++;
	x->lost += lost;
}

static void
on_exit_msg(void *arg, sluice_stream *s, const struct sluice_exit *e)
{
	struct watch *x = arg;
	(void)s;
	assert_int_equal(x->exits, 0);
	x->exits++;
	x->exit = *e;
	x->exit_ms = world_now_ms();
}

static void
on_end(void *arg, sluice_stream *s, const struct sluice_error *err)
{
	struct watch *x = arg;
	(void)s;
	assert_int_equal(x->ended, 0);
	x->ended = 1;
	x->err = err ? err->code : 0;
	sli_strlcpy(x->text, err ? err->text : "", sizeof(x->text));
	assert_int_equal(x->exits, err ? 0 : 1);
}

/* --- stdin ----------------------------------------------------------------*/

static unsigned char
feed_byte(uint64_t seed, uint64_t at)
{
	uint64_t v = (at >> 3) * 6364136223846793005ull + seed;
	return (unsigned char)(v >> (at % 8 * 8));
}

uint64_t
watch_feed_hash(uint64_t seed, uint64_t n)
{
	uint64_t h = FNV_START;
	for (uint64_t i = 0; i < n; i++)
		h = (h ^ feed_byte(seed, i)) * FNV_PRIME;
	return h;
}

static void
feed(struct watch *x)
{
	unsigned char b[FEED_STEP];
	while (x->feed && x->fed < x->feed) {
		size_t n = sizeof(b), took = 0;
		if (n > x->feed - x->fed)
			n = (size_t)(x->feed - x->fed);
		for (size_t i = 0; i < n; i++)
			b[i] = feed_byte(x->seed, x->fed + i);
		int e = sluice_exec_stdin(x->s, b, n, &took, NULL);
		if (e == SLUICE_E_AGAIN || x->ended)
			return;
		assert_int_equal(e, 0);
		x->fed += took;
		x->fed_ms = world_now_ms();
	}
	if (x->feed && !x->eof_sent) {
		x->eof_sent = 1;
		assert_int_equal(sluice_exec_close_stdin(x->s, NULL), 0);
	}
}

static void
on_writable(void *arg, sluice_stream *s)
{
	struct watch *x = arg;
	(void)s;
	if (!x->ended)
		feed(x);
}

/* --- start and end --------------------------------------------------------*/

static void
handler(struct sluice_exec_handler *h)
{
	SLUICE_INIT(*h);
	h->on_started = on_started;
	h->on_data = on_data;
	h->on_gap = on_gap;
	h->on_exit = on_exit_msg;
	h->on_end = on_end;
	h->on_writable = on_writable;
}

static void
fresh(struct watch *x)
{
	struct watch n = {.stall = x->stall,
	    .keep = x->keep,
	    .may_gap = x->may_gap,
	    .feed = x->feed,
	    .seed = x->seed};
	*x = n;
	x->hash = FNV_START;
	x->begun_ms = x->last_ms = x->fed_ms = world_now_ms();
}

void
watch_exec(sluice_client *c, struct watch *x, const char *vm,
    uint64_t timeout_ms, const char *const *argv)
{
	struct sluice_exec_handler h;
	struct sluice_exec_spec spec;
	struct sluice_error err;
	SLUICE_INIT(spec);
	SLUICE_INIT(err);
	handler(&h);
	fresh(x);
	spec.vm = vm;
	spec.argv = argv;
	spec.timeout_ms = timeout_ms;
	if (sluice_exec(c, &spec, &h, x, &x->s, &err) != 0)
		fail_msg("exec: %s", err.text);
	feed(x);
}

void
watch_attach(sluice_client *c, struct watch *x, const char *vm, uint32_t pid,
    uint64_t from)
{
	struct sluice_exec_handler h;
	struct sluice_error err;
	SLUICE_INIT(err);
	handler(&h);
	fresh(x);
	x->next = from;
	if (sluice_attach(c, vm, pid, from, &h, x, &x->s, &err) != 0)
		fail_msg("attach: %s", err.text);
}

void
watch_resume(struct watch *x)
{
	x->stall = 0;
	for (unsigned i = 0; i < x->nkept; i++)
		sluice_msg_done(x->kept[i]);
	x->nkept = 0;
}

void
watch_is(const struct watch *x, int code, const char *out)
{
	assert_int_equal(x->ended, 1);
	if (x->err)
		fail_msg("exec: %s", x->text);
	assert_int_equal(x->exits, 1);
	assert_int_equal(x->exit.signal, 0);
	assert_int_equal(x->exit.code, code);
	assert_int_equal(x->bytes, strlen(out));
	assert_true(x->bytes == 0 || x->out);
	if (x->bytes)
		assert_string_equal(x->out, out);
}

void
watch_free(struct watch *x)
{
	watch_resume(x);
	sluice_stream_free(x->s);
	free(x->kept);
	free(x->out);
	x->s = NULL;
	x->kept = NULL;
	x->out = NULL;
	x->cap = 0;
}

/* --- clients --------------------------------------------------------------*/

static void
on_ready(void *arg, sluice_client *c)
{
	(void)c;
	*(int *)arg = 1;
}

static void
on_closed(void *arg, sluice_client *c, const struct sluice_error *why)
{
	(void)arg;
	(void)c;
	fail_msg("the connection is gone: %s", why ? why->text : "");
}

sluice_client *
watch_open(struct world *w, uint32_t window)
{
	static int ready; /* outlives the client, which keeps its address */
	struct sluice_options o;
	struct sluice_error err;
	sluice_client *c = NULL;
	int64_t until = world_now_ms() + 10000;
	SLUICE_INIT(o);
	SLUICE_INIT(err);
	ready = 0;
	o.loop = 1;
	o.window = window;
	o.on_ready = on_ready;
	o.on_closed = on_closed;
	o.arg = &ready;
	if (sluice_open(w->url, &o, &c, &err) != 0)
		fail_msg("open: %s", err.text);
	while (!ready) {
		assert_true(world_now_ms() < until);
		watch_turn(&c, 1, 100);
	}
	return c;
}

void
watch_turn(sluice_client *const *c, unsigned n, int timeout_ms)
{
	struct pollfd p[WATCH_CLIENTS];
	struct sluice_error err;
	assert_true(n <= WATCH_CLIENTS);
	for (unsigned i = 0; i < n; i++) {
		int64_t t = sluice_timeout_ms(c[i]);
		p[i].fd = sluice_fd(c[i]);
		p[i].events = (short)sluice_events(c[i]);
		if (t >= 0 && t < timeout_ms)
			timeout_ms = (int)t;
	}
	(void)poll(p, n, timeout_ms);
	for (unsigned i = 0; i < n; i++) {
		SLUICE_INIT(err);
		if (sluice_process(c[i], &err) != 0)
			fail_msg("process: %s", err.text);
	}
}

void
watch_until(sluice_client *const *c, unsigned n, int (*fn)(void *ctx),
    void *ctx, int timeout_ms, const char *what)
{
	int64_t until = world_now_ms() + timeout_ms;
	while (!fn(ctx)) {
		if (world_now_ms() > until)
			fail_msg("waited %d ms for: %s", timeout_ms, what);
		watch_turn(c, n, 20);
	}
}

static int
has_ended(void *ctx)
{
	return ((const struct watch *)ctx)->ended;
}

void
watch_end(sluice_client *c, struct watch *x, int timeout_ms)
{
	watch_until(&c, 1, has_ended, x, timeout_ms, "the end of an exec");
}

/* --- echo -----------------------------------------------------------------*/

static void
on_echo(void *arg, const void *b, size_t n, const struct sluice_error *err)
{
	struct watch_ping *p = arg;
	if (b) { /* the item; the end follows */
		assert_int_equal(n, 4);
		return;
	}
	if (err)
		fail_msg("echo: %s", err->text);
	assert_true(p->n < WATCH_PINGS);
	p->us[p->n++] = (int32_t)(watch_now_us() - p->sent_us);
	p->waiting = 0;
}

void
watch_ping(struct watch_ping *p)
{
	int64_t now = watch_now_us();
	struct sluice_error err;
	sluice_stream *s = NULL;
	if (p->waiting || now < p->due_us)
		return;
	p->due_us = now + p->every_us;
	p->sent_us = now;
	p->waiting = 1;
	SLUICE_INIT(err);
	if (sluice_echo(p->c, "ping", 4, on_echo, p, &s, &err) != 0)
		fail_msg("echo: %s", err.text);
	sluice_stream_detach(s);
}

static int
by_size(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

double
watch_ping_pct(struct watch_ping *p, unsigned pct)
{
	if (p->waiting && p->n < WATCH_PINGS) {
		p->us[p->n++] = (int32_t)(watch_now_us() - p->sent_us);
		p->waiting = 0;
	}
	assert_true(p->n > 0);
	qsort(p->us, p->n, sizeof(p->us[0]), by_size);
	unsigned at = (p->n * pct + 99) / 100;
	return p->us[at ? at - 1 : 0] / 1000.0;
}

/* --- the server -----------------------------------------------------------*/

long
watch_rss(const struct world *w)
{
	return world_proc_status(w->pid, "VmRSS");
}

int
watch_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 1;
#else
	return 0;
#endif
}
