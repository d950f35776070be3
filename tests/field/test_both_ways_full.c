/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan user timeout=240 */
/* Both directions full do not lock each other (B35): eight `cat` on one
 * connection, each with more on its stdin than all buffers hold, and a reader
 * that comes late. Echoes are answered throughout, one is canceled half way,
 * the others get back what they sent. Socket buffers are what the kernel
 * gives: libsluice has no way to make them small. */
#include "watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N      8
#define VICTIM 3

struct scene {
	sluice_client *c;
	struct watch x[N];
	struct watch_ping ping;
	int64_t until;
	uint64_t total;
	uint64_t moved;   /* sum of what went and came */
	int64_t moved_ms; /* when that last changed */
	int64_t still_ms; /* longest without a change */
	int64_t gone_ms;  /* the victim was canceled */
	int64_t settled_ms;
};

static void
tend(struct scene *k)
{
	uint64_t sum = 0;
	int64_t now = world_now_ms();
	watch_ping(&k->ping);
	for (unsigned i = 0; i < N; i++)
		sum += k->x[i].bytes + k->x[i].fed;
	if (sum != k->moved) {
		if (now - k->moved_ms > k->still_ms)
			k->still_ms = now - k->moved_ms;
		k->moved = sum;
		k->moved_ms = now;
	}
	if (k->gone_ms == 0 && k->x[VICTIM].bytes > k->total / 2) {
		sluice_stream_cancel(k->x[VICTIM].s);
		k->gone_ms = now;
	}
	if (k->gone_ms && !k->settled_ms && k->x[VICTIM].ended)
		k->settled_ms = now;
}

static int
late(void *ctx)
{
	struct scene *k = ctx;
	tend(k);
	return world_now_ms() > k->until;
}

static int
all_over(void *ctx)
{
	struct scene *k = ctx;
	tend(k);
	for (unsigned i = 0; i < N; i++)
		if (!k->x[i].ended)
			return 0;
	return 1;
}

static int
no_cat_left(void *ctx)
{
	void **a = ctx;
	char *out = SLUICE_OK_OUT(a[0], "--json", "ps", a[1]);
	int none = !strstr(out, "\"running\"");
	free(out);
	return none;
}

static void
judge(struct scene *k)
{
	for (unsigned i = 0; i < N; i++) {
		struct watch *x = &k->x[i];
		if (i == VICTIM) {
			assert_int_equal(x->err, SLUICE_E_CANCELED);
			continue;
		}
		if (x->err)
			fail_msg("cat %u: %s", i, x->text);
		assert_int_equal(x->exit.code, 0);
		assert_int_equal(x->exit.signal, 0);
		assert_true(x->bytes == k->total);
		assert_true(x->hash == watch_feed_hash(x->seed, k->total));
	}
	assert_true(k->settled_ms - k->gone_ms < 2000);
	if (!watch_sanitized()) {
		assert_true(k->still_ms < 2000);
		assert_true(watch_ping_pct(&k->ping, 100) < 500);
	}
}

static void
eight_cats(void **state)
{
	struct world w;
	struct scene k = {0};
	char vm[64];
	uint64_t mb = world_long() ? 200 : watch_sanitized() ? 4 : 20;
	int64_t wait_ms = world_long() ? 5000 : 2000;
	(void)state;
	print_message("%llu MB each of 200\n", (unsigned long long)mb);
	k.total = mb << 20;
	world_init(&w);
	world_start(&w);
	world_vm(&w, vm, sizeof(vm));
	k.c = watch_open(&w, 0);
	k.ping.c = k.c;
	k.ping.every_us = 100000;
	for (unsigned i = 0; i < N; i++) {
		k.x[i].stall = 1;
		k.x[i].feed = k.total;
		k.x[i].seed = i + 1;
		WATCH_EXEC(k.c, &k.x[i], vm, "cat");
	}
	k.until = world_now_ms() + wait_ms;
	watch_until(&k.c, 1, late, &k, 20000, "the readers to come");
	for (unsigned i = 0; i < N; i++) {
		/* Everything is full, and was so in good time. */
		if (k.x[i].ended)
			fail_msg("cat %u: %s", i, k.x[i].text);
		assert_true(k.x[i].started);
		assert_true(k.x[i].bytes > 0 && k.x[i].bytes < k.total);
		assert_true(k.x[i].fed < k.total);
	}
	k.still_ms = 0;
	k.moved_ms = world_now_ms();
	int64_t t = world_now_ms();
	for (unsigned i = 0; i < N; i++)
		watch_resume(&k.x[i]);
	watch_until(&k.c, 1, all_over, &k, 200000, "all to come back");
	t = world_now_ms() - t;
	judge(&k);
	print_message("%lld ms; longest pause %lld ms; canceled after %lld ms; "
		      "slowest of %u echoes %.1f ms\n",
	    (long long)t, (long long)k.still_ms,
	    (long long)(k.settled_ms - k.gone_ms), k.ping.n,
	    watch_ping_pct(&k.ping, 100));
	/* The canceled one saw the end of its input. */
	void *a[] = {&w, vm};
	world_until(no_cat_left, a, 5000, "every cat to end");
	for (unsigned i = 0; i < N; i++)
		watch_free(&k.x[i]);
	sluice_close(k.c);
	assert_true(world_alive(&w));
	world_stop(&w);
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(eight_cats),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
