/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan alone timeout=240 */
/* Readers that do not read cost themselves only (B32): unread streams stop at
 * their windows, everything else on the same connection and on others goes on,
 * the server's memory is flat, and what was held comes without a gap or a
 * repetition. When the windows of the unread add up to more than the pool of
 * the connection, each has its floor and a live stream goes on on its own. */
#include "watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB    1024
#define WINDOW (256 * KIB) /* wire.init_window_bytes, libsluice's default */
#define FLOOR  (64 * KIB)  /* wire.floor_bytes */
#define POOL   (4096 * KIB)
#define RING   (512 * KIB) /* vm.output_ring_bytes */
/* A sender waits for so much room rather than cut messages small. */
#define DRIBBLE (4 * KIB)

#define STALLED 7
#define CROWD   30 /* (WINDOW - FLOOR) * CROWD > POOL */

struct scene {
	struct world *w;
	sluice_client *c[2]; /* the second runs normally */
	char vm[64];
	struct watch live, other;
	struct watch still[CROWD];
	unsigned nstill;
	struct watch_ping ping;
	int64_t until;
	unsigned others; /* execs that the second connection has seen end */
	long rss, rss_early, rss_max;
};

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
begin(struct scene *k, struct world *w, unsigned nstill)
{
	memset(k, 0, sizeof(*k));
	k->w = w;
	k->nstill = nstill;
	world_vm(w, k->vm, sizeof(k->vm));
	k->c[0] = watch_open(w, 0);
	k->c[1] = watch_open(w, 0);
	k->rss = watch_rss(w);
	k->ping.c = k->c[0];
	k->ping.every_us = 100000;
	for (unsigned i = 0; i < nstill; i++) {
		k->still[i].stall = 1;
		WATCH_EXEC(k->c[0], &k->still[i], k->vm, "yes");
	}
}

/* Between turns: pings, and one exec after the other on the second. */
static void
tend(struct scene *k)
{
	watch_ping(&k->ping);
	if (k->other.s && k->other.ended) {
		watch_is(&k->other, 0, "ok\n");
		watch_free(&k->other);
		k->others++;
	}
	if (!k->other.s) {
		k->other.keep = 16;
		WATCH_EXEC(k->c[1], &k->other, k->vm, "echo", "ok");
	}
	long rss = watch_rss(k->w);
	if (rss > k->rss_max)
		k->rss_max = rss;
}

static int
hold_over(void *ctx)
{
	struct scene *k = ctx;
	tend(k);
	return world_now_ms() > k->until;
}

/* Every stalled stream has got what it may and no more comes. */
static int
all_full(void *ctx)
{
	struct scene *k = ctx;
	int64_t now = world_now_ms();
	tend(k);
	for (unsigned i = 0; i < k->nstill; i++) {
		const struct watch *x = &k->still[i];
		if (!x->started || x->wire < FLOOR - 2 * DRIBBLE ||
		    now - x->last_ms < 300)
			return 0;
	}
	return 1;
}

static void
hold(struct scene *k, int64_t ms)
{
	k->live.idle_ms = 0;
	k->live.last_ms = world_now_ms();
	k->until = world_now_ms() + ms;
	watch_until(k->c, 2, hold_over, k, (int)ms + 20000, "the hold to end");
}

static int
all_move(void *ctx)
{
	struct scene *k = ctx;
	tend(k);
	for (unsigned i = 0; i < k->nstill; i++)
		if (k->still[i].bytes < 8u * WINDOW)
			return 0;
	return 1;
}

static void
finish(struct scene *k)
{
	for (unsigned i = 0; i < k->nstill; i++)
		watch_free(&k->still[i]);
	watch_free(&k->live);
	watch_free(&k->other);
	sluice_close(k->c[0]);
	sluice_close(k->c[1]);
	free(SLUICE_OK_OUT(k->w, "vm", "delete", k->vm));
}

/* p99 of the echo below the limit, or what it was. */
static double
one_hold(struct world *w, int64_t ms)
{
	struct scene k;
	begin(&k, w, STALLED);
	WATCH_EXEC(k.c[0], &k.live, k.vm, "yes");
	watch_until(k.c, 2, all_full, &k, 20000, "full windows");
	k.ping.n = 0;
	k.others = 0;
	k.rss_max = 0;
	hold(&k, ms / 4);
	k.rss_early = k.rss_max;
	hold(&k, ms - ms / 4);
	double p99 = watch_ping_pct(&k.ping, 99);
	print_message("held %lld ms: %u pings, p99 %.1f ms; live %llu MB, "
		      "longest pause %lld ms; %u other execs; RSS +%ld KiB, "
		      "late +%ld KiB\n",
	    (long long)ms, k.ping.n, p99,
	    (unsigned long long)k.live.bytes >> 20, (long long)k.live.idle_ms,
	    k.others, k.rss_max - k.rss, k.rss_max - k.rss_early);
	assert_true(k.live.idle_ms < 1000);
	assert_true(k.live.bytes > 16u * WINDOW);
	assert_true(k.others > 0);
	for (unsigned i = 0; i < STALLED; i++) {
		assert_true(k.still[i].wire <= WINDOW);
		assert_true(k.still[i].wire >= WINDOW - 2 * DRIBBLE);
	}
	if (!watch_sanitized()) {
		/* Sum of windows, and the ring behind each. */
		assert_true(k.rss_max - k.rss <
			    (STALLED + 1) * (WINDOW + RING) / KIB + 16 * KIB);
		assert_true(k.rss_max - k.rss_early < 2 * KIB);
	}
	for (unsigned i = 0; i < STALLED; i++)
		watch_resume(&k.still[i]);
	watch_until(k.c, 2, all_move, &k, 20000, "the stalled to go on");
	finish(&k);
	return p99;
}

static void
the_rest_goes_on(void **state)
{
	struct world *w = *state;
	int64_t ms = world_long() ? 60000 : 6000;
	double most = watch_sanitized() ? 2000 : 200;
	double p99 = one_hold(w, ms);
	if (p99 >= most) {
		print_message("p99 %.1f ms: once more\n", p99);
		p99 = one_hold(w, ms);
	}
	assert_true(p99 < most);
}

static void
more_windows_than_pool(void **state)
{
	struct world *w = *state;
	struct scene k;
	uint64_t beyond = 0;
	begin(&k, w, CROWD);
	watch_until(k.c, 2, all_full, &k, 30000, "full floors");
	for (unsigned i = 0; i < CROWD; i++) {
		uint64_t n = k.still[i].wire;
		assert_true(n <= WINDOW);
		beyond += n > FLOOR ? n - FLOOR : 0;
	}
	/* The pool is used up, and is not overdrawn. */
	assert_true(beyond <= POOL);
	assert_true(beyond > POOL - FLOOR);
	/* A stream that is read goes on with its floor alone, and a new call
	 * is answered. */
	k.ping.n = 0;
	WATCH_EXEC(k.c[0], &k.live, k.vm, "yes");
	hold(&k, 1000);
	hold(&k, world_long() ? 20000 : 3000);
	print_message("live %llu MB with its floor, longest pause %lld ms, "
		      "echo p99 %.1f ms\n",
	    (unsigned long long)k.live.bytes >> 20, (long long)k.live.idle_ms,
	    watch_ping_pct(&k.ping, 99));
	assert_true(k.live.bytes > 16u * WINDOW);
	assert_true(k.live.idle_ms < 1000);
	for (unsigned i = 0; i < CROWD; i++)
		watch_resume(&k.still[i]);
	watch_until(k.c, 2, all_move, &k, 60000, "the stalled to go on");
	finish(&k);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_rest_goes_on),
	    cmocka_unit_test(more_windows_than_pool),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
