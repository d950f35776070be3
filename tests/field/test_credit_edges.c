/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan timeout=300 */
/* Credit at its edges (B34), by frames made by hand: grants from nothing to
 * one short of a floor with messages larger than that, sixteen blocked streams
 * released by one write in any order and with any cut, and grants that make no
 * sense. Never a byte over what was granted (raw.c checks each frame), never a
 * grant lost, nonsense refused by name or clamped, nobody else disturbed. */
#include "raw.h"
#include "watch.h"

#include "sluice/v1/server.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define KIB 1024u
#define N   16u

struct place {
	struct world w;
	char vm[64];
	sluice_client *other; /* another connection, not to be disturbed */
	struct watch_ping ping;
};

static int
setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	world_init(&p->w);
	world_start(&p->w);
	world_vm(&p->w, p->vm, sizeof(p->vm));
	p->other = watch_open(&p->w, 0);
	p->ping.c = p->other;
	*state = p;
	return 0;
}

static int
teardown(void **state)
{
	struct place *p = *state;
	sluice_close(p->other);
	free(SLUICE_OK_OUT(&p->w, "vm", "delete", p->vm));
	world_stop(&p->w);
	world_done(&p->w);
	free(p);
	return 0;
}

static int
answered(void *ctx)
{
	const struct watch_ping *p = ctx;
	return !p->waiting;
}

/* The other connection answers, and the server is the same. */
static void
others_fine(struct place *p)
{
	p->ping.n = 0;
	p->ping.due_us = 0;
	watch_ping(&p->ping);
	watch_until(
	    &p->other, 1, answered, &p->ping, 1000, "another connection");
	assert_true(world_alive(&p->w));
}

static const char *const yes[] = {"yes", NULL};

/* --- small grants ---------------------------------------------------------*/

static int
is_opened(void *ctx)
{
	return ((const struct raw *)ctx)->s[1].opened > 0;
}

/* The sender waits for room for min(4 KiB, rest of the message): with less, no
 * more comes (and nothing over); with that much, it goes on at once. */
static void
one_grant(struct place *p, uint64_t window, unsigned rounds)
{
	unsigned waited = 0;
	struct raw r;
	raw_open(&r, &p->w, NULL);
	raw_exec(&r, 1, window, p->vm, yes);
	raw_until(&r, is_opened, &r, 5000, "OPENED");
	for (unsigned i = 0; i < rounds; i++) {
		struct raw_grant g = {1, r.s[1].got, window};
		uint64_t got = r.s[1].got;
		raw_grant(&r, &g, 1);
		if (window < SLI_DRIBBLE) {
			(void)raw_turn(&r, 2);
			if (r.s[1].got > got)
				continue;
			waited++;
			g = (struct raw_grant){1, got, SLI_DRIBBLE};
			raw_grant(&r, &g, 1);
		}
		raw_until_got(&r, 1, got + 1, 500);
	}
	print_message("grant %llu: %u frames, %llu bytes, raised %u times\n",
	    (unsigned long long)window, r.s[1].frames,
	    (unsigned long long)r.s[1].got, waited);
	raw_close(&r);
}

static void
small_grants(void **state)
{
	struct place *p = *state;
	unsigned few = world_long() ? 2000 : 200;
	unsigned many = world_long() ? 500000 : 3000;
	print_message("rounds %u of 500000\n", many);
	one_grant(p, 1, few);
	one_grant(p, 100, few);
	one_grant(p, 1000, few);
	one_grant(p, 4096, many);
	one_grant(p, 65535, many);
	others_fine(p);
}

static int
is_blocked(void *ctx)
{
	return ((const struct raw *)ctx)->s[1].blocked > 0;
}

static int
has_pong(void *ctx)
{
	return ((const struct raw *)ctx)->pongs > 0;
}

static void
no_grant_no_data(void **state)
{
	struct place *p = *state;
	struct raw r;
	static const uint8_t eight[8] = {0};
	raw_open(&r, &p->w, NULL);
	raw_exec(&r, 1, 100, p->vm, yes);
	raw_until_got(&r, 1, 1, 5000);
	/* Takes the window away: what is under way is under the old limit. */
	for (unsigned i = 0; i < 4; i++) {
		struct raw_grant g = {1, r.s[1].got, 0};
		raw_grant(&r, &g, 1);
		(void)raw_turn(&r, 50);
	}
	uint64_t got = r.s[1].got;
	r.s[1].blocked = 0;
	/* It says that it waits; control goes both ways; no data comes. */
	raw_until(&r, is_blocked, &r, 5000, "BLOCKED");
	assert_true(raw_send(&r, SLI_FT_PING, 0, 0, 0, 0, eight, 8));
	raw_until(&r, has_pong, &r, 1000, "PONG");
	assert_true(r.s[1].got == got);
	struct raw_grant g = {1, got, 4096};
	raw_grant(&r, &g, 1);
	raw_until_got(&r, 1, got + 1, 500);
	raw_close(&r);
	others_fine(p);
}

/* --- sixteen at once ------------------------------------------------------*/

struct crowd {
	struct raw r;
	uint64_t mark[N + 1];
};

static int
all_full(void *ctx)
{
	struct crowd *k = ctx;
	uint64_t used = 0;
	for (unsigned i = 1; i <= N; i++) {
		const struct raw_stream *s = &k->r.s[i];
		uint64_t out = s->got - s->acked;
		if (out + SLI_DRIBBLE < k->r.floor)
			return 0;
		used += out > k->r.floor ? out - k->r.floor : 0;
	}
	return used + N * SLI_DRIBBLE > k->r.pool;
}

static int
all_moved(void *ctx)
{
	struct crowd *k = ctx;
	for (unsigned i = 1; i <= N; i++)
		if (k->r.s[i].got <= k->mark[i])
			return 0;
	return 1;
}

/* Records for all streams and for the pool, in a random order. */
static unsigned
shuffled(struct crowd *k, struct raw_grant *g, uint32_t *rnd)
{
	unsigned n = 0;
	for (unsigned i = 1; i <= N; i++) {
		k->mark[i] = k->r.s[i].got;
		g[n++] = (struct raw_grant){i, k->r.s[i].got, 256 * KIB};
	}
	g[n++] = (struct raw_grant){0, 0, k->r.pool};
	for (unsigned i = n - 1; i > 0; i--) {
		*rnd = *rnd * 1664525u + 1013904223u;
		unsigned j = (*rnd >> 16) % (i + 1);
		struct raw_grant t = g[i];
		g[i] = g[j];
		g[j] = t;
	}
	return n;
}

/* All at once, in one to three frames; cut: bytes of the first write. */
static void
release(struct crowd *k, uint32_t *rnd, size_t cut)
{
	struct raw_grant g[N + 1];
	unsigned n = shuffled(k, g, rnd), first = 1 + (*rnd >> 20) % (N - 1);
	struct sli_buf b;
	sli_buf_init(&b, 65536);
	raw_grant_put(&k->r, &b, g, first);
	raw_grant_put(&k->r, &b, g + first, n - first);
	const uint8_t *p = sli_buf_data(&b);
	size_t len = sli_buf_len(&b);
	if (cut) {
		cut = 1 + cut % (len - 1);
		assert_true(raw_write(&k->r, p, cut));
		raw_taken(&k->r, 1000);
	}
	assert_true(raw_write(&k->r, p + cut, len - cut));
	sli_buf_free(&b);
}

static void
sixteen_resume(void **state)
{
	struct place *p = *state;
	struct crowd k = {0};
	struct sli_mux_cfg cfg = {.pool = 128 * KIB};
	unsigned orders = world_long() ? 1000 : 100;
	uint32_t rnd = (uint32_t)world_now_ms();
	int64_t slowest = 0;
	print_message("orders %u of 1000, seed %u\n", orders, rnd);
	raw_open(&k.r, &p->w, &cfg);
	for (unsigned i = 1; i <= N; i++)
		raw_exec(&k.r, i, 0, p->vm, yes);
	raw_until(&k.r, all_full, &k, 20000, "sixteen full streams");
	for (unsigned i = 0; i < orders; i++) {
		/* In one write, then cut at byte i. */
		for (unsigned cut = 0; cut < 2; cut++) {
			int64_t t = world_now_ms();
			release(&k, &rnd, cut ? i + 1 : 0);
			raw_until(&k.r, all_moved, &k, 500, "all sixteen");
			if (world_now_ms() - t > slowest)
				slowest = world_now_ms() - t;
			raw_until(
			    &k.r, all_full, &k, 20000, "full streams again");
		}
	}
	print_message("slowest %lld ms, %llu frames\n", (long long)slowest,
	    (unsigned long long)k.r.frames);
	raw_close(&k.r);
	others_fine(p);
}

/* --- nonsense -------------------------------------------------------------*/

struct nonsense {
	const char *what;
	uint32_t sid;
	int64_t add; /* to what it got; or... */
	uint64_t acked, window;
	unsigned code; /* GOAWAY; 0 = goes on */
};

static const struct nonsense wrong[] = {
    {"one more than was sent",  1,   1, 0,             65536,         SLI_E_PROTOCOL},
    {"2^32-1 acked",            1,   0, 0xffffffffull, 65536,         SLI_E_PROTOCOL},
    {"2^63 acked",              1,   0, 1ull << 63,    65536,         SLI_E_PROTOCOL},
    {"2^64-1 acked",            1,   0, UINT64_MAX,    UINT64_MAX,    SLI_E_PROTOCOL},
    {"a stream that never was", 999, 0, 1,             65536,         SLI_E_PROTOCOL},
    {"a pool with an offset",   0,   0, 1,             65536,         SLI_E_PROTOCOL},
    {"2^32-1 wished",           1,   0, 0,             0xffffffffull, 0             },
    {"2^63 wished",             1,   0, 0,             1ull << 63,    0             },
    {"2^64-1 wished",           1,   0, 0,             UINT64_MAX,    0             },
    {"nothing",		 1,   0, 0,             0,             0             },
    {"no pool",		 0,   0, 0,             0,             0             },
    {"a pool of 2^63",          0,   0, 0,             1ull << 63,    0             },
};

static void
one_wrong(struct place *p, const struct nonsense *k)
{
	struct raw r;
	raw_open(&r, &p->w, NULL);
	raw_exec(&r, 1, 65536, p->vm, yes);
	raw_until_got(&r, 1, 65536 - 2 * SLI_DRIBBLE, 5000);
	r.lax = 1; /* judged here: the most that may be under way */
	struct raw_grant g = {k->sid, k->acked, k->window};
	if (k->add)
		g.acked = r.s[1].got + (uint64_t)k->add + SLI_DRIBBLE * 2;
	uint64_t acked = r.s[1].acked;
	raw_grant(&r, &g, 1);
	if (k->code) {
		raw_until_closed(&r, k->code, 1000);
	} else {
		/* Any window: never more under way than floor and pool. */
		while (raw_turn(&r, 300))
			assert_true(r.s[1].got - acked <= SLI_FLOOR + SLI_POOL);
		assert_true(r.fd >= 0 && r.goaways == 0);
		/* And an honest grant still counts. */
		struct raw_grant ok[2] = {
		    {0, 0,          SLI_POOL },
                    {1, r.s[1].got, 256 * KIB}
                };
		uint64_t got = r.s[1].got;
		raw_grant(&r, ok, 2);
		raw_until_got(&r, 1, got + 1, 500);
	}
	raw_close(&r);
	others_fine(p);
}

static void
nonsense_is_refused(void **state)
{
	struct place *p = *state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		print_message("%s\n", wrong[i].what);
		one_wrong(p, &wrong[i]);
	}
}

static int
echo_ended(void *ctx)
{
	return ((const struct raw *)ctx)->s[1].ended;
}

/* A stream that is over may still be acknowledged: it was under way. */
static void
late_acks_are_ignored(void **state)
{
	struct place *p = *state;
	struct raw r;
	static const uint8_t bad[SLI_ACK_RECORD] = {1, 0, 0, 0, 7};
	static const uint8_t eight[8] = {0};
	Sluice__V1__EchoRequest e = SLUICE__V1__ECHO_REQUEST__INIT;
	raw_open(&r, &p->w, NULL);
	raw_call(&r, 1, RAW_ECHO, 0, &e.base, 1);
	raw_until(&r, echo_ended, &r, 5000, "RESULT");
	assert_int_equal(r.s[1].status, 0);
	for (unsigned i = 0; i < 3; i++) {
		struct raw_grant g = {1, 1ull << (20 * i), 65536};
		raw_grant(&r, &g, 1);
	}
	assert_true(raw_send(&r, SLI_FT_PING, 0, 0, 0, 0, eight, 8));
	raw_until(&r, has_pong, &r, 1000, "PONG");
	/* Padding that is not 0, and half a record, are not. */
	assert_true(raw_send(&r, SLI_FT_ACK, 0, 0, 0, 0, bad, sizeof(bad)));
	raw_until_closed(&r, SLI_E_PROTOCOL, 1000);
	raw_close(&r);
	raw_open(&r, &p->w, NULL);
	(void)raw_send(&r, SLI_FT_ACK, 0, 0, 0, 0, bad, 12);
	raw_until_closed(&r, 0, 1000);
	assert_int_not_equal(r.goaway_code, 0);
	raw_close(&r);
	others_fine(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nonsense_is_refused),
	    cmocka_unit_test(late_acks_are_ignored),
	    cmocka_unit_test(no_grant_no_data),
	    cmocka_unit_test(small_grants),
	    cmocka_unit_test(sixteen_resume),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
