/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* What goes into a batch and in which order: control first, calls, then data by
 * class, stream and credit; who waits for what; and what happens when the peer
 * does not read. */
#include "unit.h"
#include "wirekit.h"

#include "wire/limits.h"

#include <string.h>

static const struct sli_slice none;

static void
give(struct kit *k, uint32_t sid, unsigned msgs, size_t size)
{
	k->src[sid].msgs = msgs;
	k->src[sid].size = size;
	sli_mux_ready(k->m, sid);
}

static void
open_streams(struct kit *k, uint32_t n)
{
	for (uint32_t sid = 1; sid <= n; sid++) {
		assert_int_equal(kit_call(k, sid, "", 0), SLI_OK);
		assert_int_equal(sli_mux_opened(k->m, sid, 0), SLI_OK);
	}
	(void)kit_drain(k, 0);
	sli_buf_reset(&k->log);
}

static void
control_goes_first(void **state)
{
	struct kit k;
	size_t size;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	open_streams(&k, 3);
	give(&k, 1, 100, 60000);
	assert_int_equal(kit_call(&k, 4, "", 1), SLI_OK);
	assert_int_equal(sli_mux_result(k.m, 4, 0, none, none), SLI_OK);
	assert_int_equal(kit_data(&k, 2, SLI_FF_EOM, 0, 10), SLI_OK);
	sli_mux_release(k.m, 2, 10);
	assert_int_equal(kit_data(&k, 3, SLI_FF_EOM, 0, 10), SLI_OK);
	sli_mux_release(k.m, 3, 10);
	assert_int_equal(kit_num(&k, SLI_FT_PING, 0, 0, 42), SLI_OK);
	sli_mux_stop(k.m, 1, 0);
	assert_int_equal(sli_mux_output(k.m, k.now, &k.out), SLI_OK);
	size = sli_buf_len(&k.out);
	assert_true(size <= SLI_MUX_BATCH_MAX);
	assert_int_equal(sli_get64(kit_expect(&k, SLI_FT_PONG, 0, NULL).p), 42);
	/* both ACKs in one frame */
	assert_int_equal(kit_expect(&k, SLI_FT_ACK, 0, NULL).n, 48);
	(void)kit_expect(&k, SLI_FT_STOP, 1, NULL);
	(void)kit_expect(&k, SLI_FT_RESULT, 4, NULL);
	(void)kit_expect(&k, SLI_FT_DATA, 1, NULL);
	kit_fini(&k);
}

static void
acks_share_frames(void **state)
{
	struct kit k;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	open_streams(&k, 100);
	for (uint32_t sid = 1; sid <= 100; sid++) {
		assert_int_equal(kit_data(&k, sid, SLI_FF_EOM, 0, 9), SLI_OK);
		sli_mux_release(k.m, sid, 9);
	}
	assert_int_equal(kit_expect(&k, SLI_FT_ACK, 0, NULL).n, 64 * 24);
	assert_int_equal(kit_expect(&k, SLI_FT_ACK, 0, NULL).n, 36 * 24);
	kit_expect_none(&k);
	kit_fini(&k);
}

/* Bytes of each stream in one batch. */
static void
one_batch(struct kit *k, uint64_t *by_sid, size_t n)
{
	struct sli_frame f;
	struct sli_slice p;

	memset(by_sid, 0, n * sizeof(*by_sid));
	assert_int_equal(sli_mux_output(k->m, k->now, &k->out), SLI_OK);
	while (sli_buf_len(&k->out) != 0) {
		assert_true(kit_next(k, &f, &p));
		if (f.type == SLI_FT_DATA && f.sid < n)
			by_sid[f.sid] += f.len;
	}
}

static void
fair_shares(void **state)
{
	struct sli_mux_cfg cfg = {.window_cap = 1 << 30};
	struct sli_mux_cfg peer = {.init_window = 1 << 30, .pool = 1 << 30};
	uint8_t hdr[2] = {0x18, 1}; /* priority 1 */
	uint64_t n[5], sum[5] = {0};
	struct kit k;

	(void)state;
	kit_init(&k, SLI_SERVER, &cfg);
	kit_hello(&k, &peer);
	open_streams(&k, 3);
	assert_int_equal(kit_in(&k, SLI_FT_CALL, 0, 2, 4, 7, hdr, 2), SLI_OK);
	/* three interactive streams with messages of different sizes, one
	 * bulk stream */
	give(&k, 1, 1000000, 100);
	give(&k, 2, 1000000, 5000);
	give(&k, 3, 1000000, 65000);
	give(&k, 4, 1000000, 65000);
	for (int i = 0; i < 40; i++) {
		one_batch(&k, n, 5);
		for (int s = 1; s < 5; s++)
			sum[s] += n[s];
		assert_true(n[1] + n[2] + n[3] + n[4] <=
			    SLI_BATCH_DATA + SLI_MUX_MSG_MAX);
	}
	/* equal shares, headers apart: 100 bytes cost 116 */
	assert_true(sum[1] > sum[3] * 7 / 10 && sum[1] < sum[3]);
	assert_true(sum[2] > sum[3] * 9 / 10 && sum[2] < sum[3] * 11 / 10);
	/* 4:1 between the classes, no starvation */
	assert_true((sum[1] + sum[2] + sum[3]) > 3 * sum[4]);
	assert_true((sum[1] + sum[2] + sum[3]) < 5 * sum[4]);
	kit_fini(&k);
}

/* A call is answered beside a stream that has megabytes to send. */
static void
calls_beside_bulk(void **state)
{
	struct kit k;
	struct sli_frame f;
	struct sli_slice p;
	uint64_t before = 0;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	open_streams(&k, 20);
	for (uint32_t sid = 1; sid <= 20; sid++)
		give(&k, sid, 1000, 65536);
	assert_int_equal(kit_call(&k, 21, "", 1), SLI_OK);
	assert_int_equal(sli_mux_result(k.m, 21, 0, none, none), SLI_OK);
	while (kit_next(&k, &f, &p) && f.type != SLI_FT_RESULT)
		before += f.len;
	assert_int_equal(f.sid, 21);
	assert_int_equal(before, 0);
	kit_fini(&k);
}

/* 16 streams held by the pool; then all their ACKs and a new pool size come in
 * one write, in any order, cut anywhere: all 16 go on. */
static void
resume_from_one_write(void **state)
{
	struct sli_mux_cfg peer = {.pool = 100000};
	uint64_t x = 3;

	(void)state;
	for (int round = 0; round < 60; round++) {
		struct sli_buf b;
		struct kit k;
		uint8_t rec[17][24];
		uint64_t got[17] = {0}, used = 0;
		size_t cut;

		kit_init(&k, SLI_SERVER, NULL);
		kit_hello(&k, &peer);
		open_streams(&k, 16);
		for (uint32_t s = 1; s <= 16; s++)
			give(&k, s, 20, 30000);
		for (struct {
			     struct sli_frame f;
			     struct sli_slice p;
		     } v;
		     kit_next(&k, &v.f, &v.p);) {
			if (v.f.type == SLI_FT_DATA)
				got[v.f.sid] += v.f.len;
		}
		for (uint32_t s = 1; s <= 16; s++) {
			assert_true(got[s] >= 60000 && got[s] <= 262144);
			used += got[s] > 65536 ? got[s] - 65536 : 0;
		}
		assert_true(used <= 100000);
		for (uint32_t s = 0; s <= 16; s++) {
			memset(rec[s], 0, 24);
			sli_put32(rec[s], s);
			sli_put64(rec[s] + 8, s != 0 ? got[s] : 0);
			sli_put64(rec[s] + 16, s != 0 ? 262144 : 4 << 20);
		}
		sli_buf_init(&b, 65536);
		for (unsigned left = 17; left != 0; left--) {
			unsigned i;

			x = x * 6364136223846793005u + 1442695040888963407u;
			i = (unsigned)(x >> 33) % left;
			kit_put(&b, SLI_FT_ACK, 0, 0, 0, 0, rec[i], 24);
			memmove(rec[i], rec[left - 1], 24);
		}
		cut = (size_t)(x >> 20) % sli_buf_len(&b);
		assert_int_equal(kit_bytes(&k, sli_buf_data(&b), cut), SLI_OK);
		assert_int_equal(kit_bytes(&k, sli_buf_data(&b) + cut,
				     sli_buf_len(&b) - cut),
		    SLI_OK);
		memset(got, 0, sizeof(got));
		for (struct {
			     struct sli_frame f;
			     struct sli_slice p;
		     } v;
		     kit_next(&k, &v.f, &v.p);) {
			if (v.f.type == SLI_FT_DATA)
				got[v.f.sid] += v.f.len;
		}
		for (uint32_t s = 1; s <= 16; s++)
			assert_true(got[s] >= 200000);
		sli_buf_free(&b);
		kit_fini(&k);
	}
}

/* A window below the least piece is slow, never dead: each acknowledgement
 * brings the next window of the message. */
static void
tiny_windows_go_on(void **state)
{
	static const uint64_t windows[] = {1, 100, 4095};
	struct kit k;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t w = windows[i], got = 0;

		kit_start(&k, SLI_SERVER, NULL);
		open_streams(&k, 1);
		/* What HELLO gave is used up first. */
		give(&k, 1, 4, SLI_FLOOR);
		while (kit_drain(&k, 1) > 0)
			;
		give(&k, 1, 1, 5000);
		assert_int_equal(kit_ack(&k, 1, SLI_INIT_WINDOW, w), SLI_OK);
		for (uint64_t acks = 0; got < 5000; acks++) {
			uint64_t n = kit_drain(&k, 1);

			assert_true(n > 0 && n <= w && acks <= 5000);
			got += n;
			assert_int_equal(
			    kit_ack(&k, 1, SLI_INIT_WINDOW + got, w), SLI_OK);
		}
		assert_int_equal(got, 5000);
		kit_fini(&k);
	}
}

/* Paused streams hold all of P; another still gets its floor, for ever. */
static void
floor_beside_paused(void **state)
{
	struct sli_mux_stats st;
	struct kit k;
	uint64_t n, acked = 0;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	open_streams(&k, 64);
	for (uint32_t s = 1; s < 64; s++)
		give(&k, s, 1000, 65536);
	(void)kit_drain(&k, 0);
	sli_mux_stats(k.m, &st);
	assert_true(st.pool_waits > 0);
	assert_true(st.inflight <= 64 * 65536 + SLI_POOL);
	assert_true(st.inflight > 63 * 65536 + SLI_POOL - 64 * SLI_DRIBBLE);
	give(&k, 64, 1000, 65536);
	for (int i = 0; i < 50; i++) {
		n = kit_drain(&k, 64);
		assert_true(n >= 60000);
		acked += n;
		assert_int_equal(kit_ack(&k, 64, acked, 262144), SLI_OK);
	}
	/* a reset gives its share of the pool to who waits for it */
	(void)kit_drain(&k, 0);
	assert_int_equal(kit_num(&k, SLI_FT_RESET, 0, 1, 0), SLI_OK);
	assert_int_equal(sli_mux_wants_output(k.m), 1);
	one_batch(&k, (uint64_t[2]){0}, 2);
	sli_mux_stats(k.m, &st);
	assert_true(st.inflight <= 64 * 65536 + SLI_POOL);
	kit_fini(&k);
}

/* The peer asks and does not read: no more calls are taken up, their data
 * waits, ACKs still work; at last it is cut off. */
static void
does_not_read(void **state)
{
	static uint8_t body[49152];
	struct sli_mux_stats st;
	struct kit k;
	uint32_t sid;
	enum sli_err e = SLI_OK;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	for (sid = 1; sid <= 30 && k.calls_live == sid - 1; sid++) {
		assert_int_equal(kit_call(&k, sid, "q", sid != 23), SLI_OK);
		if (k.calls_live == sid)
			assert_int_equal(sli_mux_result(k.m, sid, 0, none,
					     sli_slice_of(body, sizeof(body))),
			    SLI_OK);
	}
	/* 22 results are over 1 MiB: call 23 waits, and what follows it */
	assert_int_equal(sid, 24);
	sli_buf_reset(&k.log);
	assert_int_equal(kit_data(&k, 23, SLI_FF_EOM, 0, 100), SLI_OK);
	assert_int_equal(
	    kit_data(&k, 23, SLI_FF_EOM | SLI_FF_END, 100, 50), SLI_OK);
	assert_int_equal(kit_num(&k, SLI_FT_STOP, 1, 23, 0), SLI_OK);
	assert_int_equal(kit_call(&k, 24, "r", 1), SLI_OK);
	assert_int_equal(kit_call(&k, 25, "never", 0), SLI_OK);
	assert_int_equal(kit_num(&k, SLI_FT_RESET, 1, 25, 0), SLI_OK);
	kit_log_is(&k, "");
	sli_mux_stats(k.m, &st);
	assert_int_equal(st.calls_held, 3);
	/* it reads: everything comes in order */
	(void)kit_drain(&k, 0);
	assert_int_equal(sli_mux_result(k.m, 23, 0, none, none), SLI_OK);
	assert_int_equal(sli_mux_result(k.m, 24, 0, none, none), SLI_OK);
	(void)kit_drain(&k, 0);
	assert_true(kit_log_has(&k,
	    "call:23 m7 'q';stop:23 CANCELED;data:23 0+100;data:23 100+50;"
	    "end:23;call:24 m7 'r' end;"));
	assert_false(kit_log_has(&k, ":25"));
	kit_fini(&k);

	/* 64 handlers answer at once what nobody reads */
	struct sli_mux_cfg cfg = {.ctl_close = 2 << 20};

	kit_start(&k, SLI_SERVER, &cfg);
	for (sid = 1; sid <= 64; sid++)
		assert_int_equal(kit_call(&k, sid, "", 1), SLI_OK);
	for (sid = 1; sid <= 64 && e == SLI_OK; sid++) {
		e = sli_mux_result(
		    k.m, sid, 0, none, sli_slice_of(body, sizeof(body)));
	}
	assert_int_equal(kit_num(&k, SLI_FT_PING, 0, 0, 1), SLI_E_CALM);
	(void)kit_expect(&k, SLI_FT_GOAWAY, 0, NULL);
	kit_expect_none(&k);
	kit_fini(&k);
}

static void
goaway_in_two_phases(void **state)
{
	struct kit k;
	struct sli_slice p;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	sli_mux_goaway(k.m, UINT32_MAX, 60000, SLI_E_DRAINING, "drain");
	p = kit_expect(&k, SLI_FT_GOAWAY, 0, &f);
	assert_int_equal(sli_get32(p.p), UINT32_MAX);
	assert_int_equal(sli_get32(p.p + 4), 60000);
	assert_int_equal(f.aux16, SLI_E_DRAINING);
	/* calls under way are taken */
	assert_int_equal(kit_call(&k, 2, "", 1), SLI_OK);
	sli_mux_goaway(k.m, 0, 60000, SLI_E_DRAINING, NULL);
	p = kit_expect(&k, SLI_FT_GOAWAY, 0, NULL);
	assert_int_equal(sli_get32(p.p), 2);
	assert_int_equal(kit_call(&k, 3, "", 0), SLI_OK);
	kit_log_is(&k, "call:1 m7 '' end;call:2 m7 '' end;");
	p = kit_expect(&k, SLI_FT_RESET, 3, &f);
	assert_int_equal(f.aux16, SLI_E_DRAINING);
	/* data that followed the refused call is ignored */
	assert_int_equal(kit_data(&k, 3, SLI_FF_EOM, 0, 10), SLI_OK);
	assert_int_equal(kit_num(&k, SLI_FT_RESET, 0, 3, 10), SLI_OK);
	/* the streams that were taken go on */
	assert_int_equal(sli_mux_result(k.m, 1, 0, none, none), SLI_OK);
	(void)kit_expect(&k, SLI_FT_RESULT, 1, NULL);
	kit_fini(&k);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(control_goes_first),
	    cmocka_unit_test(acks_share_frames),
	    cmocka_unit_test(fair_shares),
	    cmocka_unit_test(calls_beside_bulk),
	    cmocka_unit_test(resume_from_one_write),
	    cmocka_unit_test(tiny_windows_go_on),
	    cmocka_unit_test(floor_beside_paused),
	    cmocka_unit_test(does_not_read),
	    cmocka_unit_test(goaway_in_two_phases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
