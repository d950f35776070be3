/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* A hostile or broken peer, case by case: what it sends and what answers it.
 * Each fault stops at its scope: frame, stream or connection. */
#include "unit.h"
#include "wirekit.h"

#include "wire/limits.h"

#include <string.h>

static const struct sli_slice none;

/* The connection ends with this code, and a GOAWAY says so. */
static void
closed_with(struct kit *k, enum sli_err code)
{
	struct sli_slice p;
	struct sli_frame f = {0};

	assert_string_equal(sli_err_name(k->ei.code), sli_err_name(code));
	assert_true(k->ei.text[0] != '\0');
	assert_true(kit_next(k, &f, &p));
	if (f.type == SLI_FT_HELLO)
		assert_true(kit_next(k, &f, &p));
	assert_int_equal(f.type, SLI_FT_GOAWAY);
	assert_int_equal(f.aux16, code);
	assert_true(p.n > 8);
	kit_expect_none(k);
	assert_false(sli_mux_wants_output(k->m));
	/* and stays so */
	assert_int_equal(kit_num(k, SLI_FT_PING, 0, 0, 1), code);
	kit_expect_none(k);
}

#define KILLED(k, code, call)                           \
	do {                                            \
		assert_int_equal((call), SLI_E_##code); \
		closed_with((k), SLI_E_##code);         \
		kit_fini(k);                            \
	} while (0)

/* A server with stream 1 open both ways. */
static void
server(struct kit *k)
{
	kit_start(k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(k, 1, "", 0), SLI_OK);
	kit_log_is(k, "call:1 m7 '';");
}

static void
client(struct kit *k)
{
	kit_start(k, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(k, 7, 0), 1);
	assert_int_equal(kit_in(k, SLI_FT_OPENED, 0, 0, 1, 0, "", 0), SLI_OK);
	kit_log_is(k, "opened:1 0 0;");
}

static void
before_hello(void **state)
{
	struct kit k;

	(void)state;
	kit_init(&k, SLI_SERVER, NULL);
	KILLED(&k, PROTOCOL, kit_call(&k, 1, "", 1));
	kit_init(&k, SLI_CLIENT, NULL);
	KILLED(&k, PROTOCOL, kit_num(&k, SLI_FT_PING, 0, 0, 0));
	kit_init(&k, SLI_SERVER, NULL);
	KILLED(
	    &k, VERSION, kit_in(&k, SLI_FT_HELLO, 0, 0, 0, 0, "\x08\x63", 2));
	kit_init(&k, SLI_SERVER, NULL);
	KILLED(
	    &k, MALFORMED, kit_in(&k, SLI_FT_HELLO, 0, 0, 0, 0, "\x08\xff", 2));
	/* and twice */
	kit_start(&k, SLI_SERVER, NULL);
	KILLED(
	    &k, PROTOCOL, kit_in(&k, SLI_FT_HELLO, 0, 0, 0, 0, "\x08\x01", 2));
	/* nothing but HELLO leaves before the peer's has come */
	kit_init(&k, SLI_SERVER, NULL);
	(void)kit_expect(&k, SLI_FT_HELLO, 0, NULL);
	kit_expect_none(&k);
	kit_fini(&k);
}

static void
bad_frames(void **state)
{
	struct kit k;

	(void)state;
	server(&k);
	KILLED(&k, PROTOCOL, kit_in(&k, 14, 0, 0, 1, 0, "", 0));
	server(&k);
	KILLED(&k, PROTOCOL, kit_in(&k, SLI_FT_RESULT, 0, 0, 1, 0, "", 0));
	server(&k);
	KILLED(&k, PROTOCOL, kit_in(&k, SLI_FT_DATA, 4, 0, 1, 0, "x", 1));
	server(&k);
	KILLED(&k, FRAME_SIZE, kit_data(&k, 1, 0, 0, SLI_MAX_FRAME + 1));
	server(&k);
	KILLED(
	    &k, MALFORMED, kit_in(&k, SLI_FT_CALL, 0, 2, 2, 0, "\x08\xff", 2));
	client(&k);
	KILLED(&k, MALFORMED, kit_in(&k, SLI_FT_OPENED, 0, 0, 1, 0, "\xff", 1));
}

static void
beyond_credit(void **state)
{
	struct sli_mux_cfg cfg = {.pool = 100000, .init_window = 200000};
	struct kit k;

	(void)state;
	/* the stream's limit, to the byte */
	server(&k);
	for (uint32_t at = 0; at < 262144; at += 32768)
		assert_int_equal(
		    kit_data(&k, 1, SLI_FF_EOM, at, 32768), SLI_OK);
	KILLED(&k, FLOW, kit_data(&k, 1, SLI_FF_EOM, 262144, 1));
	/* released, but not yet written: not granted */
	server(&k);
	for (uint32_t at = 0; at < 262144; at += 32768)
		assert_int_equal(
		    kit_data(&k, 1, SLI_FF_EOM, at, 32768), SLI_OK);
	sli_mux_release(k.m, 1, 262144);
	KILLED(&k, FLOW, kit_data(&k, 1, SLI_FF_EOM, 262144, 1));
	/* the pool, to the byte */
	kit_start(&k, SLI_SERVER, &cfg);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	assert_int_equal(kit_call(&k, 2, "", 0), SLI_OK);
	for (uint32_t at = 0; at < 160000; at += 32000)
		assert_int_equal(
		    kit_data(&k, 1, SLI_FF_EOM, at, 32000), SLI_OK);
	assert_int_equal(
	    kit_data(&k, 1, SLI_FF_EOM, 160000, 65536 + 100000 - 160000),
	    SLI_OK);
	assert_int_equal(kit_data(&k, 2, SLI_FF_EOM, 0, 60000), SLI_OK);
	assert_int_equal(kit_data(&k, 2, SLI_FF_EOM, 60000, 5536), SLI_OK);
	KILLED(&k, FLOW, kit_data(&k, 2, SLI_FF_EOM, 65536, 1));
}

static void
wrong_offset(void **state)
{
	struct kit k;

	(void)state;
	server(&k);
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 0, 10), SLI_OK);
	KILLED(&k, DESYNC, kit_data(&k, 1, SLI_FF_EOM, 9, 10));
	server(&k);
	KILLED(&k, DESYNC, kit_num(&k, SLI_FT_RESET, 0, 1, 1));
	client(&k);
	KILLED(&k, DESYNC,
	    kit_in(&k, SLI_FT_GAP, 0, 0, 1, 0, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
		16));
	client(&k);
	KILLED(&k, DESYNC,
	    kit_in(&k, SLI_FT_GAP, 0, 0, 1, 0,
		"\x05\0\0\0\0\0\0\x80\0\0\0\0\0\0\0", 16));
}

static void
bogus_acks(void **state)
{
	struct sli_mux_stats st;
	struct kit k;
	uint8_t rec[24] = {1, 0, 0, 0, 1};

	(void)state;
	server(&k);
	KILLED(&k, PROTOCOL, kit_ack(&k, 1, 1, 262144));
	server(&k);
	KILLED(&k, PROTOCOL, kit_ack(&k, 1, 0xffffffffu, 262144));
	server(&k);
	KILLED(&k, PROTOCOL, kit_ack(&k, 1, UINT64_MAX, 262144));
	server(&k);
	KILLED(&k, PROTOCOL, kit_ack(&k, 2, 0, 262144));
	server(&k);
	KILLED(&k, PROTOCOL, kit_ack(&k, 0, 1, 262144));
	server(&k);
	KILLED(&k, PROTOCOL, kit_in(&k, SLI_FT_ACK, 0, 0, 0, 0, rec, 24));
	/* going back is ignored */
	server(&k);
	k.src[1] = (struct kit_source){.msgs = 100, .size = 1000};
	sli_mux_ready(k.m, 1);
	assert_int_equal(kit_drain(&k, 1), 100000);
	assert_int_equal(kit_ack(&k, 1, 90000, 262144), SLI_OK);
	assert_int_equal(kit_ack(&k, 1, 10, 262144), SLI_OK);
	kit_log_is(&k, "acked:1 90000;");
	assert_int_equal(sli_mux_room(k.m, 1), 90000 + 262144 - 100000);
	sli_mux_stats(k.m, &st);
	assert_int_equal(st.inflight, 10000);
	kit_fini(&k);
}

/* A window of 2^63 is worth our own cap, not more. */
static void
credit_inflation(void **state)
{
	struct sli_mux_cfg cfg = {.window_cap = 1 << 20};
	struct kit k;

	(void)state;
	kit_start(&k, SLI_SERVER, &cfg);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	k.src[1] = (struct kit_source){.msgs = 1000, .size = 50000};
	sli_mux_ready(k.m, 1);
	assert_int_equal(kit_ack(&k, 1, 0, 1ull << 63), SLI_OK);
	assert_int_equal(kit_drain(&k, 1), 1 << 20);
	assert_int_equal(kit_ack(&k, 1, 0, UINT64_MAX), SLI_OK);
	assert_int_equal(kit_drain(&k, 1), 0);
	kit_fini(&k);
}

/* Acknowledging what it has not seen only costs it the bytes. */
static void
optimistic_ack(void **state)
{
	struct sli_mux_stats st;
	struct kit k;

	(void)state;
	server(&k);
	k.src[1] = (struct kit_source){.msgs = 8, .size = 65536};
	sli_mux_ready(k.m, 1);
	assert_int_equal(kit_drain(&k, 1), 262144);
	assert_int_equal(kit_ack(&k, 1, 262144, 262144), SLI_OK);
	assert_int_equal(kit_drain(&k, 1), 262144);
	sli_mux_stats(k.m, &st);
	assert_int_equal(st.inflight, 262144);
	kit_fini(&k);
}

/* A window held at a few bytes makes no stream of tiny frames. */
static void
dribble(void **state)
{
	struct kit k;
	struct sli_mux_stats st;
	int64_t next;

	(void)state;
	server(&k);
	k.src[1] = (struct kit_source){.msgs = 10000, .size = 100};
	sli_mux_ready(k.m, 1);
	assert_int_equal(kit_drain(&k, 1), 258100); /* 4,044 left */
	for (uint64_t i = 1; i <= 50; i++) {
		assert_int_equal(kit_ack(&k, 1, i, 262143), SLI_OK);
		assert_int_equal(kit_drain(&k, 1), 0);
	}
	assert_int_equal(kit_ack(&k, 1, 4096, 262144), SLI_OK);
	assert_true(kit_drain(&k, 1) >= 4000);
	sli_mux_stats(k.m, &st);
	assert_true(st.held <= 100);
	kit_fini(&k);

	/* window 1 from the start: the message waits whole; no timer spins */
	server(&k);
	assert_int_equal(kit_ack(&k, 1, 0, 1), SLI_OK);
	k.src[1] = (struct kit_source){.msgs = 5, .size = 100};
	sli_mux_ready(k.m, 1);
	assert_int_equal(kit_drain(&k, 1), 500); /* the first window counts */
	assert_int_equal(kit_ack(&k, 1, 500, 1), SLI_OK);
	assert_int_equal(sli_mux_tick(k.m, k.now, &next, NULL), SLI_OK);
	assert_int_equal(next, INT64_MAX);
	kit_fini(&k);
}

/* A grant of 0, 1, 100 and 65,535 with messages larger than it: not a byte
 * over, and the stream goes on when the grant does. */
static void
small_grants(void **state)
{
	static const uint64_t grants[] = {0, 1, 100, 65535};
	struct sli_mux_cfg peer = {0};
	struct kit k;

	(void)state;
	for (size_t i = 0; i < SLI_ARRAY_LEN(grants); i++) {
		uint64_t used = 262144, w = grants[i], got;

		kit_init(&k, SLI_SERVER, NULL);
		kit_hello(&k, &peer);
		assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
		k.src[1] = (struct kit_source){.msgs = 9, .size = 65536};
		sli_mux_ready(k.m, 1);
		assert_int_equal(kit_drain(&k, 1), used);
		/* all is drained; from here on the grant is w */
		assert_int_equal(kit_ack(&k, 1, used, w), SLI_OK);
		got = kit_drain(&k, 1);
		/* a small one is used whole, but 33 bytes do not fit 32 */
		assert_int_equal(got, w == 65535 ? 65503 : w);
		assert_int_equal(sli_mux_room(k.m, 1), w - got);
		assert_int_equal(kit_ack(&k, 1, used, 65536), SLI_OK);
		assert_int_equal(kit_drain(&k, 1), 65536 - got);
		kit_fini(&k);
	}
}

/* The other half does not grow when the peer opens and drops streams fast. */
static void
rapid_reset(void **state)
{
	struct sli_mux_cfg cfg = {.max_streams = 8};
	struct kit k;
	struct sli_frame f;
	unsigned refused = 0;
	uint32_t sid;

	(void)state;
	kit_start(&k, SLI_SERVER, &cfg);
	for (sid = 1; sid <= 1000; sid++) {
		struct sli_slice p;

		assert_int_equal(kit_call(&k, sid, "", 0), SLI_OK);
		assert_true(k.calls_live <= 8);
		assert_int_equal(kit_num(&k, SLI_FT_RESET, 1, sid, 0), SLI_OK);
		while (kit_next(&k, &f, &p)) {
			assert_int_equal(f.type, SLI_FT_RESET);
			assert_int_equal(f.aux16, SLI_E_RESOURCE_EXHAUSTED);
			refused++;
		}
	}
	assert_int_equal(refused, 1000 - 8);
	/* handlers end: there is room again */
	for (sid = 1; sid <= 8; sid++)
		assert_int_equal(
		    sli_mux_result(k.m, sid, 1, none, none), SLI_OK);
	(void)kit_drain(&k, 0);
	assert_int_equal(k.calls_live, 0);
	assert_int_equal(kit_call(&k, sid + 1000, "", 0), SLI_OK);
	assert_int_equal(k.calls_live, 1);
	kit_fini(&k);
}

static void
stream_ids(void **state)
{
	struct kit k;

	(void)state;
	server(&k);
	KILLED(&k, STREAM_ID, kit_call(&k, 1, "", 1));
	server(&k);
	assert_int_equal(kit_call(&k, 9, "", 1), SLI_OK);
	KILLED(&k, STREAM_ID, kit_call(&k, 8, "", 1));
	server(&k);
	KILLED(&k, STREAM_ID, kit_call(&k, 0xffffffffu, "", 1));
	server(&k);
	KILLED(&k, PROTOCOL, kit_data(&k, 2, 0, 0, 1));
	server(&k);
	KILLED(&k, PROTOCOL, kit_num(&k, SLI_FT_RESET, 0, 2, 0));
	server(&k);
	KILLED(&k, PROTOCOL, kit_num(&k, SLI_FT_STOP, 0, 2, 0));
	client(&k);
	KILLED(&k, PROTOCOL, kit_in(&k, SLI_FT_RESULT, 0, 0, 2, 0, "", 0));
	client(&k);
	KILLED(&k, PROTOCOL, kit_in(&k, SLI_FT_OPENED, 0, 0, 1, 0, "", 0));
}

static void
after_the_end(void **state)
{
	struct kit k;

	(void)state;
	server(&k);
	assert_int_equal(kit_data(&k, 1, SLI_FF_END, 0, 0), SLI_OK);
	KILLED(&k, PROTOCOL, kit_data(&k, 1, SLI_FF_END, 0, 0));
	server(&k);
	assert_int_equal(kit_num(&k, SLI_FT_RESET, 0, 1, 0), SLI_OK);
	KILLED(&k, PROTOCOL, kit_num(&k, SLI_FT_RESET, 0, 1, 0));
	server(&k);
	KILLED(&k, PROTOCOL, kit_num(&k, SLI_FT_STOP, 0, 1, 1));
	client(&k);
	assert_int_equal(kit_in(&k, SLI_FT_RESULT, 0, 0, 1, 0, "", 0), SLI_OK);
	KILLED(&k, PROTOCOL, kit_in(&k, SLI_FT_RESULT, 0, 0, 1, 0, "", 0));
	/* DATA before OPENED */
	kit_start(&k, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&k, 7, 0), 1);
	KILLED(&k, PROTOCOL, kit_data(&k, 1, 0, 0, 1));
}

/* Faults of one stream end that stream; the next one does not notice. */
static void
stream_faults(void **state)
{
	struct sli_slice p;
	struct sli_frame f;
	struct kit k;

	(void)state;
	/* END in the middle of a message */
	server(&k);
	assert_int_equal(kit_call(&k, 2, "", 0), SLI_OK);
	assert_int_equal(kit_data(&k, 1, 0, 0, 10), SLI_OK);
	assert_int_equal(kit_data(&k, 1, SLI_FF_END, 10, 0), SLI_OK);
	kit_log_is(&k, "call:2 m7 '';reset:1 PROTOCOL;");
	p = kit_expect(&k, SLI_FT_RESET, 1, &f);
	assert_int_equal(f.aux16, SLI_E_PROTOCOL);
	assert_int_equal(sli_get64(p.p), 0);
	kit_log_is(&k, "");
	assert_int_equal(sli_mux_result(k.m, 1, 1, none, none), SLI_OK);
	assert_int_equal(sli_mux_wants_output(k.m), 1);
	kit_expect_none(&k);
	kit_log_is(&k, "gone:1;");
	assert_int_equal(kit_data(&k, 2, SLI_FF_EOM, 0, 10), SLI_OK);
	kit_log_is(&k, "data:2 0+10;");
	/* a message over 64 KiB, in pieces */
	assert_int_equal(kit_data(&k, 2, 0, 10, 60000), SLI_OK);
	assert_int_equal(kit_data(&k, 2, 0, 60010, 5536), SLI_OK);
	kit_log_is(&k, "");
	assert_int_equal(kit_data(&k, 2, 0, 65546, 1), SLI_OK);
	kit_log_is(&k, "reset:2 FRAME_SIZE;");
	(void)kit_expect(&k, SLI_FT_RESET, 2, NULL);
	/* what it goes on sending is counted and dropped */
	assert_int_equal(kit_data(&k, 2, SLI_FF_EOM, 65547, 9), SLI_OK);
	assert_int_equal(kit_num(&k, SLI_FT_RESET, 0, 2, 65556), SLI_OK);
	sli_mux_reset(k.m, 2, 0);
	kit_expect_none(&k);
	kit_log_is(&k, "gone:2;");
	kit_fini(&k);

	/* a server that says all is well in the middle of a message */
	client(&k);
	assert_int_equal(kit_data(&k, 1, 0, 0, 10), SLI_OK);
	assert_int_equal(kit_in(&k, SLI_FT_RESULT, 0, 0, 1, 0, "", 0), SLI_OK);
	kit_log_is(&k, "reset:1 PROTOCOL;");
	(void)kit_expect(&k, SLI_FT_RESET, 1, NULL);
	kit_log_is(&k, "gone:1;");
	kit_fini(&k);
}

/* Empty messages and empty ENDs are legal and cost nothing that grows. */
static void
empty_floods(void **state)
{
	struct sli_mux_stats st;
	struct kit k;

	(void)state;
	server(&k);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 0, 0), SLI_OK);
		assert_int_equal(kit_num(&k, SLI_FT_PING, 0, 0, 7), SLI_OK);
		assert_int_equal(kit_ack(&k, 1, 0, 262144), SLI_OK);
	}
	sli_mux_stats(k.m, &st);
	assert_int_equal(st.pending_ctl, 0);
	assert_int_equal(st.unreleased, 0);
	/* one PONG, the newest */
	(void)kit_expect(&k, SLI_FT_PONG, 0, NULL);
	kit_expect_none(&k);
	kit_fini(&k);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(before_hello),
	    cmocka_unit_test(bad_frames),
	    cmocka_unit_test(beyond_credit),
	    cmocka_unit_test(wrong_offset),
	    cmocka_unit_test(bogus_acks),
	    cmocka_unit_test(credit_inflation),
	    cmocka_unit_test(optimistic_ack),
	    cmocka_unit_test(dribble),
	    cmocka_unit_test(small_grants),
	    cmocka_unit_test(rapid_reset),
	    cmocka_unit_test(stream_ids),
	    cmocka_unit_test(after_the_end),
	    cmocka_unit_test(stream_faults),
	    cmocka_unit_test(empty_floods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
