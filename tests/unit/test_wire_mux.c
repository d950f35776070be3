/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The life of streams, seen from one end: unary, streams down and up,
 * half-close; who is told what, in which order, and when a stream is gone. */
#include "unit.h"
#include "wire/limits.h"
#include "wirekit.h"

#include <string.h>

static const struct sli_slice none;

static enum sli_err
result(struct kit *k, uint32_t sid, uint16_t status, const char *body)
{
	return sli_mux_result(k->m, sid, status, none, sli_slice_str(body));
}

static void
give(struct kit *k, uint32_t sid, unsigned msgs, size_t size)
{
	k->src[sid].msgs = msgs;
	k->src[sid].size = size;
	sli_mux_ready(k->m, sid);
}

/* --- unary ----------------------------------------------------------------*/

static void
unary_server(void **state)
{
	struct kit k;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "ping", 1), SLI_OK);
	kit_log_is(&k, "call:1 m7 'ping' end;");
	/* too long: refused, and the call is still there */
	assert_int_equal(
	    sli_mux_result(k.m, 1, 0, none, sli_slice_of(&k, 49153)),
	    SLI_E_FRAME_SIZE);
	assert_int_equal(
	    sli_mux_result(k.m, 1, 5, sli_slice_str("tt"), sli_slice_str("b")),
	    SLI_OK);
	kit_log_is(&k, "");
	unit_slice_is(kit_expect(&k, SLI_FT_RESULT, 1, &f), "ttb");
	assert_int_equal(f.aux16, 5);
	assert_int_equal(f.aux32, 2);
	kit_log_is(&k, "gone:1;");
	kit_expect_none(&k);
	/* everything on a stream that is gone does nothing */
	assert_int_equal(result(&k, 1, 0, "again"), SLI_OK);
	sli_mux_ready(k.m, 1);
	sli_mux_release(k.m, 1, 99);
	sli_mux_reset(k.m, 1, 1);
	sli_mux_stop(k.m, 1, 1);
	sli_mux_end(k.m, 1);
	sli_mux_set_window(k.m, 1, 5);
	kit_expect_none(&k);
	kit_fini(&k);
}

static void
unary_client(void **state)
{
	struct kit k;
	uint32_t sid;

	(void)state;
	kit_start(&k, SLI_CLIENT, NULL);
	sid = kit_make_call(&k, 7, 1);
	assert_int_equal(sid, 1);
	assert_int_equal(
	    kit_in(&k, SLI_FT_RESULT, 0, 0, 1, 0, "pong", 4), SLI_OK);
	kit_log_is(&k, "result:1 0 t0 'pong';gone:1;");
	assert_int_equal(kit_make_call(&k, 7, 1), 2);
	kit_expect_none(&k);
	kit_fini(&k);
}

static void
calls_before_and_beyond(void **state)
{
	struct sli_mux_cfg peer = {.max_streams = 2};
	struct sli_call c = {.method = 1, .end = 1};
	static uint8_t huge[65536];
	struct kit k;
	uint32_t sid = 77;

	(void)state;
	kit_init(&k, SLI_CLIENT, NULL);
	assert_int_equal(sli_mux_call(k.m, &c, 0, &sid, NULL), SLI_E_AGAIN);
	kit_hello(&k, &peer);
	c.request = sli_slice_of(huge, 65504);
	assert_int_equal(
	    sli_mux_call(k.m, &c, 0, &sid, NULL), SLI_E_FRAME_SIZE);
	c.request = sli_slice_of(huge, 65503);
	assert_int_equal(sli_mux_call(k.m, &c, 0, &sid, NULL), SLI_OK);
	c.request = none;
	assert_int_equal(sli_mux_call(k.m, &c, 0, &sid, NULL), SLI_OK);
	assert_int_equal(
	    sli_mux_call(k.m, &c, 0, &sid, &k.ei), SLI_E_RESOURCE_EXHAUSTED);
	assert_int_equal(k.ei.nhits, 1);
	assert_int_equal(k.ei.hits[0].limit, 2);
	assert_int_equal(sid, 2);
	(void)kit_drain(&k, 0);
	assert_int_equal(kit_in(&k, SLI_FT_GOAWAY, 0, 0, 0, 0,
			     "\xff\xff\xff\xff\0\0\0\0bye", 11),
	    SLI_OK);
	kit_log_is(&k, "goaway:4294967295 0 OK 'bye';");
	assert_int_equal(
	    sli_mux_call(k.m, &c, 0, &sid, NULL), SLI_E_UNAVAILABLE);
	kit_fini(&k);
}

static void
header_comes_through(void **state)
{
	struct sli_call c = {.method = 0xfffffff0u, .timeout_ms = 1500};
	struct kit a, b;
	struct sli_slice p;
	struct sli_frame f;
	uint32_t sid;

	(void)state;
	kit_start(&a, SLI_CLIENT, NULL);
	kit_start(&b, SLI_SERVER, NULL);
	c.idempotency_key = sli_slice_of("k\0y", 3);
	c.traceparent = sli_slice_str("00-ab-cd-01");
	c.priority = 1;
	c.request = sli_slice_str("req");
	assert_int_equal(sli_mux_call(a.m, &c, 100000, &sid, NULL), SLI_OK);
	p = kit_expect(&a, SLI_FT_CALL, 1, &f);
	assert_true(f.aux16 > 20);
	assert_int_equal(f.flags, 0);
	assert_int_equal(
	    kit_in(&b, SLI_FT_CALL, 0, f.aux16, 1, f.aux32, p.p, p.n), SLI_OK);
	kit_log_is(&b, "call:1 m4294967280 'req';");
	assert_int_equal(sli_mux_room(b.m, 1), 100000);
	assert_int_equal(result(&b, 1, 0, ""), SLI_OK);
	kit_fini(&a);
	kit_fini(&b);
}

/* --- server stream --------------------------------------------------------*/

static void
server_stream(void **state)
{
	struct kit k;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	kit_log_is(&k, "call:1 m7 '' end;");
	give(&k, 1, 2, 100);
	/* the result waits for both messages */
	assert_int_equal(result(&k, 1, 0, "done"), SLI_OK);
	(void)kit_expect(&k, SLI_FT_OPENED, 1, NULL);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.len, 100);
	assert_int_equal(f.flags, SLI_FF_EOM);
	assert_int_equal(f.aux32, 0);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.aux32, 100);
	unit_slice_is(kit_expect(&k, SLI_FT_RESULT, 1, NULL), "done");
	kit_expect_none(&k);
	/* not gone before all is acknowledged */
	kit_log_is(&k, "");
	assert_int_equal(kit_ack(&k, 1, 100, 262144), SLI_OK);
	kit_log_is(&k, "acked:1 100;");
	assert_int_equal(kit_ack(&k, 1, 200, 262144), SLI_OK);
	kit_log_is(&k, "acked:1 200;gone:1;");
	/* a late one is ignored */
	assert_int_equal(kit_ack(&k, 1, 200, 262144), SLI_OK);
	kit_log_is(&k, "");
	kit_fini(&k);
}

static void
opened_at_offset(void **state)
{
	uint64_t start = (uint64_t)5 << 32;
	struct kit a, b;
	struct sli_slice p;
	struct sli_frame f;

	(void)state;
	kit_start(&a, SLI_SERVER, NULL);
	kit_start(&b, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&b, 7, 1), 1);
	assert_int_equal(kit_call(&a, 1, "", 1), SLI_OK);
	assert_int_equal(sli_mux_opened(a.m, 1, start), SLI_OK);
	give(&a, 1, 1, 10);
	p = kit_expect(&a, SLI_FT_OPENED, 1, NULL);
	assert_int_equal(
	    kit_in(&b, SLI_FT_OPENED, 0, 0, 1, 0, p.p, p.n), SLI_OK);
	(void)kit_expect(&a, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.aux32, 0);
	assert_int_equal(kit_data(&b, 1, SLI_FF_EOM, 0, 10), SLI_OK);
	kit_log_is(&b, "opened:1 21474836480 0;data:1 21474836480+10;");
	sli_mux_release(b.m, 1, 10);
	p = kit_expect(&b, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 8), start + 10);
	assert_int_equal(kit_in(&a, SLI_FT_ACK, 0, 0, 0, 0, p.p, p.n), SLI_OK);
	kit_log_is(&a, "call:1 m7 '' end;acked:1 21474836490;");
	kit_fini(&a);
	kit_fini(&b);
}

static void
result_kept_until_credit(void **state)
{
	struct kit k;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	give(&k, 1, 5, 65536);
	assert_int_equal(result(&k, 1, 0, "r"), SLI_OK);
	assert_int_equal(kit_drain(&k, 1), 262144);
	kit_expect_none(&k);
	assert_int_equal(kit_ack(&k, 1, 65536, 262144), SLI_OK);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.len, SLI_MAX_FRAME);
	assert_int_equal(f.flags, 0);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.len, 33);
	assert_int_equal(f.flags, SLI_FF_EOM);
	/* the source is asked only when there is credit, even to hear that it
	 * has nothing more */
	kit_expect_none(&k);
	assert_int_equal(kit_ack(&k, 1, 5 * 65536, 262144), SLI_OK);
	(void)kit_expect(&k, SLI_FT_RESULT, 1, NULL);
	kit_log_is(&k, "call:1 m7 '' end;acked:1 65536;acked:1 327680;gone:1;");
	kit_fini(&k);
}

static void
abort_cuts_a_message(void **state)
{
	struct sli_mux_stats st;
	struct kit k, c;
	struct sli_slice p;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	give(&k, 1, 9, 60000);
	assert_int_equal(kit_drain(&k, 1), 262144);
	sli_mux_stats(k.m, &st);
	assert_int_equal(st.held, 5 * 60000 - 262144);
	assert_int_equal(
	    sli_mux_abort(k.m, 1, 4, sli_slice_str("late")), SLI_OK);
	p = kit_expect(&k, SLI_FT_RESULT, 1, &f);
	assert_int_equal(f.aux16, 4);
	sli_mux_stats(k.m, &st);
	assert_int_equal(st.held, 0);

	/* the client drops the piece; all it was handed is released by it */
	kit_start(&c, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&c, 7, 1), 1);
	assert_int_equal(kit_in(&c, SLI_FT_OPENED, 0, 0, 1, 0, "", 0), SLI_OK);
	assert_int_equal(kit_data(&c, 1, SLI_FF_EOM, 0, 500), SLI_OK);
	assert_int_equal(kit_data(&c, 1, 0, 500, 77), SLI_OK);
	assert_int_equal(
	    kit_in(&c, SLI_FT_RESULT, 0, 4, 1, f.aux32, p.p, p.n), SLI_OK);
	kit_log_is(&c, "opened:1 0 0;data:1 0+500;result:1 4 t4 '';");
	sli_mux_release(c.m, 1, 500);
	p = kit_expect(&c, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 8), 577);
	kit_log_is(&c, "gone:1;");
	kit_fini(&c);
	kit_fini(&k);
}

/* --- client stream --------------------------------------------------------*/

static void
upload_client(void **state)
{
	struct kit k;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&k, 7, 0), 1);
	give(&k, 1, 2, 10);
	sli_mux_end(k.m, 1);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.flags, SLI_FF_EOM);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.flags, SLI_FF_END);
	assert_int_equal(f.len, 0);
	assert_int_equal(f.aux32, 20);
	kit_expect_none(&k);
	assert_int_equal(kit_ack(&k, 1, 20, 262144), SLI_OK);
	assert_int_equal(kit_in(&k, SLI_FT_RESULT, 0, 0, 1, 0, "", 0), SLI_OK);
	kit_log_is(&k, "acked:1 20;result:1 0 t0 '';gone:1;");
	/* an end without any data, at once */
	assert_int_equal(kit_make_call(&k, 7, 0), 2);
	sli_mux_end(k.m, 2);
	(void)kit_expect(&k, SLI_FT_DATA, 2, &f);
	assert_int_equal(f.flags, SLI_FF_END);
	kit_fini(&k);
}

static void
upload_server(void **state)
{
	struct kit k;
	struct sli_slice p;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "spec", 0), SLI_OK);
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 0, 100), SLI_OK);
	/* a message in three pieces is handed over once */
	assert_int_equal(kit_data(&k, 1, 0, 100, 10), SLI_OK);
	assert_int_equal(kit_data(&k, 1, 0, 110, 10), SLI_OK);
	kit_log_is(&k, "call:1 m7 'spec';data:1 0+100;");
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 120, 10), SLI_OK);
	kit_log_is(&k, "data:1 100+30;");
	kit_expect_none(&k);
	/* acknowledged when no complete message is held any more */
	sli_mux_release(k.m, 1, 100);
	kit_expect_none(&k);
	assert_int_equal(kit_data(&k, 1, 0, 130, 5), SLI_OK);
	sli_mux_release(k.m, 1, 30);
	p = kit_expect(&k, SLI_FT_ACK, 0, NULL);
	assert_int_equal(p.n, 24);
	assert_int_equal(sli_get64(p.p + 8), 130);
	assert_int_equal(
	    kit_data(&k, 1, SLI_FF_EOM | SLI_FF_END, 135, 0), SLI_OK);
	kit_log_is(&k, "data:1 130+5;end:1;");
	assert_int_equal(result(&k, 1, 0, "ok"), SLI_OK);
	p = kit_expect(&k, SLI_FT_RESULT, 1, NULL);
	kit_log_is(&k, "");
	/* the last ACK: bytes whose handler ended count as released */
	p = kit_expect(&k, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 8), 135);
	kit_log_is(&k, "gone:1;");
	kit_fini(&k);
}

/* RESULT before the client's END implies STOP. */
static void
result_before_end(void **state)
{
	struct kit k, c;
	struct sli_slice p;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	assert_int_equal(result(&k, 1, 0, ""), SLI_OK);
	(void)kit_expect(&k, SLI_FT_RESULT, 1, NULL);
	kit_log_is(&k, "call:1 m7 '';");
	/* what still comes is counted, discarded, released at once */
	assert_int_equal(kit_data(&k, 1, 0, 0, 60000), SLI_OK);
	assert_int_equal(kit_data(&k, 1, 0, 60000, 60000), SLI_OK);
	p = kit_expect(&k, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 8), 120000);
	/* END in the middle of a message is no fault now */
	assert_int_equal(kit_data(&k, 1, SLI_FF_END, 120000, 0), SLI_OK);
	kit_log_is(&k, "gone:1;");

	kit_start(&c, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&c, 7, 0), 1);
	give(&c, 1, 9, 60000);
	assert_int_equal(kit_drain(&c, 1), 262144);
	assert_int_equal(kit_in(&c, SLI_FT_RESULT, 0, 0, 1, 0, "", 0), SLI_OK);
	kit_log_is(&c, "result:1 0 t0 '';");
	(void)kit_expect(&c, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.flags, SLI_FF_END);
	assert_int_equal(f.len, 0);
	kit_expect_none(&c);
	/* gone only when nothing of it is outstanding */
	assert_int_equal(kit_ack(&c, 1, 200000, 262144), SLI_OK);
	kit_log_is(&c, "acked:1 200000;");
	assert_int_equal(kit_ack(&c, 1, 262144, 262144), SLI_OK);
	kit_log_is(&c, "acked:1 262144;gone:1;");
	kit_fini(&c);
	kit_fini(&k);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unary_server),
	    cmocka_unit_test(unary_client),
	    cmocka_unit_test(calls_before_and_beyond),
	    cmocka_unit_test(header_comes_through),
	    cmocka_unit_test(server_stream),
	    cmocka_unit_test(opened_at_offset),
	    cmocka_unit_test(result_kept_until_credit),
	    cmocka_unit_test(abort_cuts_a_message),
	    cmocka_unit_test(upload_client),
	    cmocka_unit_test(upload_server),
	    cmocka_unit_test(result_before_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
