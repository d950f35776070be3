/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan timeout=300 */
/* No bytes stop the server (P8, the connection's side of B34 and B51): junk
 * before and after HELLO, frames cut at any byte, junk for every method, a
 * message nested deep, a peer that asks and never reads, peers that dribble.
 * Each is refused or closed in time, for itself alone: another connection
 * answers all along, and the server's memory returns. */
#include "raw.h"
#include "watch.h"

#include "sluice/v1/server.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define KIB          1024
#define HANDSHAKE_MS 1000

struct place {
	struct world w;
	sluice_client *other;
	struct watch_ping ping;
	uint32_t rnd;
	long rss;
};

static int
setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));
	world_init(&p->w);
	world_conf(&p->w, "wire.handshake_ms %dms", HANDSHAKE_MS);
	world_start(&p->w);
	p->other = watch_open(&p->w, 0);
	p->ping.c = p->other;
	p->rnd = (uint32_t)world_now_ms();
	print_message("seed %u\n", p->rnd);
	p->rss = watch_rss(&p->w);
	*state = p;
	return 0;
}

static int
teardown(void **state)
{
	struct place *p = *state;
	sluice_close(p->other);
	world_stop(&p->w);
	world_done(&p->w);
	free(p);
	return 0;
}

static uint32_t
rnd(struct place *p)
{
	p->rnd = p->rnd * 1664525u + 1013904223u;
	return p->rnd >> 8;
}

static void
junk(struct place *p, uint8_t *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)rnd(p);
}

static int
answered(void *ctx)
{
	return !((const struct watch_ping *)ctx)->waiting;
}

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

static void
memory_is_flat(struct place *p)
{
	long now = watch_rss(&p->w);
	print_message("RSS +%ld KiB\n", now - p->rss);
	if (!watch_sanitized())
		assert_true(now - p->rss < 16L * KIB);
}

/* --- junk -----------------------------------------------------------------*/

static void
junk_before_hello(void **state)
{
	struct place *p = *state;
	unsigned rounds = world_long() ? 2000 : 200;
	uint8_t b[4096];
	struct raw r;
	print_message("rounds %u of 2000\n", rounds);
	for (unsigned i = 0; i < rounds; i++) {
		size_t n = 1 + rnd(p) % sizeof(b);
		junk(p, b, n);
		if (i % 4 == 1) /* the right magic */
			memcpy(b, "\x89SLU", 4);
		if (i % 4 == 2 && n > 8) /* the whole preamble */
			memcpy(b, "\x89SLU\x01\x01\x00\x00", 8);
		raw_connect(&r, &p->w);
		r.lax = r.mute = 1;
		(void)raw_write(&r, b, n);
		raw_until_closed(&r, 0, HANDSHAKE_MS + 1000);
		raw_close(&r);
	}
	others_fine(p);
	memory_is_flat(p);
}

static void
junk_after_hello(void **state)
{
	struct place *p = *state;
	unsigned rounds = world_long() ? 5000 : 400;
	uint8_t b[8192];
	unsigned closed = 0;
	struct raw r;
	print_message("rounds %u of 5000\n", rounds);
	for (unsigned i = 0; i < rounds; i++) {
		size_t n = 1 + rnd(p) % sizeof(b);
		junk(p, b, n);
		if (i % 2 && n >= SLI_FRAME_HDR) {
			/* A header that could be one. */
			sli_put32(b, rnd(p) % (uint32_t)n);
			b[4] = (uint8_t)(1 + rnd(p) % 13);
			b[5] &= 3;
			sli_put16(b + 6, (uint16_t)(rnd(p) % 64));
			sli_put32(b + 8, rnd(p) % 3);
			sli_put32(b + 12, rnd(p) % 60);
		}
		raw_open(&r, &p->w, NULL);
		r.lax = r.mute = 1;
		(void)raw_write(&r, b, n);
		if (r.fd >= 0)
			(void)raw_turn(&r, 2);
		closed += r.fd < 0 || r.goaways > 0;
		raw_close(&r); /* in the middle of whatever it was */
	}
	print_message("%u closed by the server\n", closed);
	assert_true(closed > rounds / 4);
	others_fine(p);
	memory_is_flat(p);
}

/* A whole connection of good frames, cut at each byte. */
static void
cut_at_every_byte(void **state)
{
	struct place *p = *state;
	Sluice__V1__EchoRequest e = SLUICE__V1__ECHO_REQUEST__INIT;
	uint8_t body[64] = {0}, req[128];
	struct sli_buf b;
	struct raw r;
	e.body.data = body;
	e.body.len = sizeof(body);
	size_t n = sluice__v1__echo_request__pack(&e, req);
	sli_buf_init(&b, 65536);
	kit_put(&b, SLI_FT_CALL, SLI_FF_END, 0, 1, RAW_ECHO, req, n);
	kit_put(&b, SLI_FT_PING, 0, 0, 0, 0, body, 8);
	kit_put(&b, SLI_FT_CALL, 0, 0, 2, RAW_EXEC, req, n);
	kit_put(&b, SLI_FT_DATA, SLI_FF_EOM, 0, 2, 0, body, sizeof(body));
	for (size_t cut = 1; cut < sli_buf_len(&b); cut++) {
		raw_open(&r, &p->w, NULL);
		assert_true(raw_write(&r, sli_buf_data(&b), cut));
		raw_close(&r);
	}
	sli_buf_free(&b);
	others_fine(p);
	memory_is_flat(p);
}

/* --- CALL -----------------------------------------------------------------*/

static int
has_ended(void *ctx)
{
	const struct raw *r = ctx;
	return r->s[1].ended > 0 || r->fd < 0;
}

/* Refused, or the connection is closed with a reason: in a second. */
static void
call_with(struct place *p, uint32_t method, const void *b, size_t n)
{
	struct raw r;
	raw_open(&r, &p->w, NULL);
	r.lax = r.mute = 1;
	(void)raw_send(&r, SLI_FT_CALL, SLI_FF_END, 0, 1, method, b, n);
	int64_t until = world_now_ms() + 1000;
	while (!has_ended(&r)) {
		/* Junk may happen to be a good request of a stream. */
		if (r.s[1].opened)
			break;
		assert_true(world_now_ms() < until);
		(void)raw_turn(&r, 20);
	}
	raw_close(&r);
}

static void
junk_for_every_method(void **state)
{
	struct place *p = *state;
	unsigned rounds = world_long() ? 50 : 4;
	uint8_t b[512];
	for (uint32_t m = 0; m < 64; m++) {
		for (unsigned i = 0; i < rounds; i++) {
			size_t n = rnd(p) % sizeof(b);
			junk(p, b, n);
			if (i % 2 && n > 2) { /* a field that could be one */
				b[0] = (uint8_t)((1 + rnd(p) % 12) << 3 | 2);
				b[1] = (uint8_t)(n - 2);
			}
			call_with(p, m, b, n);
		}
		call_with(p, m, "", 0);
	}
	others_fine(p);
	memory_is_flat(p);
}

/* 42 KiB of messages in messages: ExecInput.spec.env ... each a length and
 * its rest. And as many empty fields as fit. */
static void
nested_and_many(void **state)
{
	struct place *p = *state;
	static uint8_t b[60 * KIB];
	size_t n = 42 * KIB, at = n;
	/* Built from the inside: 0a LEN inner. */
	while (at > 4) {
		size_t inner = n - at;
		uint8_t head[6];
		size_t k = 0;
		head[k++] = 0x0a;
		do {
			head[k++] =
			    (uint8_t)((inner & 127) | (inner > 127 ? 128 : 0));
			inner >>= 7;
		} while (inner);
		at -= k;
		memcpy(b + at, head, k);
	}
	for (uint32_t m = 0; m < 64; m++)
		call_with(p, m, b + at, n - at);
	/* field 4 of ExecSpec, empty, thousands of times; and field 1. */
	for (unsigned field = 1; field < 6; field++) {
		for (size_t i = 0; i + 1 < sizeof(b); i += 2) {
			b[i] = (uint8_t)(field << 3 | 2);
			b[i + 1] = 0;
		}
		for (uint32_t m = 0; m < 64; m++)
			call_with(p, m, b, sizeof(b) - sizeof(b) % 2);
	}
	others_fine(p);
	memory_is_flat(p);
}

/* --- time -----------------------------------------------------------------*/

/* It asks for 40 KiB answers and never reads one. Calls are not taken up any
 * more when so much waits; memory stays below what is documented. */
static void
never_reads(void **state)
{
	struct place *p = *state;
	static uint8_t body[40 * KIB], req[41 * KIB];
	Sluice__V1__EchoRequest e = SLUICE__V1__ECHO_REQUEST__INIT;
	struct raw r[4];
	e.body.data = body;
	e.body.len = sizeof(body);
	size_t n = sluice__v1__echo_request__pack(&e, req);
	for (unsigned c = 0; c < 4; c++) {
		raw_open(&r[c], &p->w, NULL);
		r[c].lax = r[c].mute = 1;
		/* As many as there may be streams, then some. */
		for (uint32_t sid = 1; sid <= 400 && r[c].fd >= 0; sid++) {
			struct sli_buf b;
			sli_buf_init(&b, 65536);
			kit_put(&b, SLI_FT_CALL, SLI_FF_END, 0, sid, RAW_ECHO,
			    req, n);
			(void)raw_write(
			    &r[c], sli_buf_data(&b), sli_buf_len(&b));
			sli_buf_free(&b);
		}
		others_fine(p);
	}
	long now = watch_rss(&p->w);
	print_message("4 that never read: RSS +%ld KiB\n", now - p->rss);
	/* Each: answers up to wire.control_close_bytes, and held calls. */
	if (!watch_sanitized())
		assert_true(now - p->rss < 4L * (8 + 8) * KIB);
	for (unsigned c = 0; c < 4; c++)
		raw_close(&r[c]);
	others_fine(p);
}

/* One byte now and then, or nothing: closed when the handshake is over due,
 * whatever came meanwhile. */
static void
dribblers_are_closed(void **state)
{
	struct place *p = *state;
	static const uint8_t pre[] = "\x89SLU\x01\x01\x00\x00\x20\x00\x00\x00";
	struct raw r[24];
	unsigned n = sizeof(r) / sizeof(r[0]), left = n;
	int64_t t = world_now_ms(), next = t;
	for (unsigned i = 0; i < n; i++) {
		raw_connect(&r[i], &p->w);
		r[i].mute = 1;
	}
	for (unsigned at = 0; left > 0;) {
		left = 0;
		for (unsigned i = 0; i < n; i++) {
			if (r[i].fd >= 0)
				(void)raw_turn(&r[i], 1);
			left += r[i].fd >= 0;
		}
		assert_true(world_now_ms() - t < HANDSHAKE_MS + 2000);
		if (world_now_ms() < next || at >= 12)
			continue;
		next = world_now_ms() + HANDSHAKE_MS / 8;
		for (unsigned i = 0; i < n; i++)
			if (r[i].fd >= 0 && i % 3) /* some say nothing */
				(void)raw_write(&r[i], pre + at, 1);
		at++;
	}
	print_message(
	    "all closed after %lld ms\n", (long long)(world_now_ms() - t));
	assert_true(world_now_ms() - t >= HANDSHAKE_MS - 100);
	for (unsigned i = 0; i < n; i++)
		raw_close(&r[i]);
	others_fine(p);
	memory_is_flat(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(junk_before_hello),
	    cmocka_unit_test(junk_after_hello),
	    cmocka_unit_test(cut_at_every_byte),
	    cmocka_unit_test(junk_for_every_method),
	    cmocka_unit_test(nested_and_many),
	    cmocka_unit_test(dribblers_are_closed),
	    cmocka_unit_test(never_reads),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
