/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* How streams end before their time, seen from one end: STOP, RESET, GAP; who
 * is told what, and when a stream is gone. And the table of legal moves. */
#include "unit.h"
#include "wirekit.h"

#include "wire/limits.h"
#include "wire/stream.h"

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

/* --- stop, reset ----------------------------------------------------------*/

static void
stop_by_client(void **state)
{
	struct kit k, c;
	struct sli_slice p;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	give(&k, 1, 9, 60000);
	assert_int_equal(kit_drain(&k, 1), 262144);
	assert_int_equal(
	    kit_num(&k, SLI_FT_STOP, SLI_E_CANCELED, 1, 0), SLI_OK);
	kit_log_is(&k, "call:1 m7 '' end;stop:1 CANCELED;");
	sli_mux_ready(k.m, 1);
	assert_int_equal(kit_ack(&k, 1, 262144, 262144), SLI_OK);
	kit_expect_none(&k);
	assert_int_equal(result(&k, 1, SLI_E_CANCELED, ""), SLI_OK);
	(void)kit_expect(&k, SLI_FT_RESULT, 1, NULL);
	kit_log_is(&k, "acked:1 262144;gone:1;");

	/* the other end: what comes after is discarded and acknowledged */
	kit_start(&c, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&c, 7, 1), 1);
	assert_int_equal(kit_in(&c, SLI_FT_OPENED, 0, 0, 1, 0, "", 0), SLI_OK);
	assert_int_equal(kit_data(&c, 1, SLI_FF_EOM, 0, 50), SLI_OK);
	sli_mux_stop(c.m, 1, SLI_E_CANCELED);
	sli_mux_release(c.m, 1, 50); /* too late to matter */
	p = kit_expect(&c, SLI_FT_STOP, 1, &f);
	assert_int_equal(f.aux16, SLI_E_CANCELED);
	assert_int_equal(sli_get64(p.p), 50);
	p = kit_expect(&c, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 8), 50);
	assert_int_equal(kit_data(&c, 1, 0, 50, 1000), SLI_OK);
	p = kit_expect(&c, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 8), 1050);
	assert_int_equal(
	    kit_in(&c, SLI_FT_RESULT, 0, SLI_E_CANCELED, 1, 0, "", 0), SLI_OK);
	kit_log_is(&c, "opened:1 0 0;data:1 0+50;result:1 1 t0 '';gone:1;");
	kit_fini(&c);
	kit_fini(&k);
}

static void
stop_by_server(void **state)
{
	struct kit k, c;
	struct sli_frame f;

	(void)state;
	kit_start(&c, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&c, 7, 0), 1);
	give(&c, 1, 9, 60000);
	assert_int_equal(kit_drain(&c, 1), 262144);
	assert_int_equal(kit_num(&c, SLI_FT_STOP, 0, 1, 0), SLI_OK);
	kit_log_is(&c, "stop:1 OK;");
	(void)kit_expect(&c, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.flags, SLI_FF_END);
	kit_expect_none(&c);

	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	sli_mux_stop(k.m, 1, 0);
	(void)kit_expect(&k, SLI_FT_STOP, 1, NULL);
	/* half a message, then END: that is what STOP asked for */
	assert_int_equal(kit_data(&k, 1, 0, 0, 100), SLI_OK);
	assert_int_equal(kit_data(&k, 1, SLI_FF_END, 100, 0), SLI_OK);
	kit_log_is(&k, "call:1 m7 '';");
	(void)kit_expect(&k, SLI_FT_ACK, 0, NULL);
	assert_int_equal(result(&k, 1, 0, ""), SLI_OK);
	(void)kit_expect(&k, SLI_FT_RESULT, 1, NULL);
	kit_log_is(&k, "gone:1;");
	kit_fini(&k);
	kit_fini(&c);
}

/* The owner's last release of what the end of the call had released anyway: it
 * comes after the peer's END, or after a result that followed END. */
static void
released_after_the_end(void **state)
{
	struct kit k;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 0, 1000), SLI_OK);
	/* An answer under way keeps the stream. */
	give(&k, 1, 1, 100);
	assert_int_equal(kit_drain(&k, 1), 100);
	assert_int_equal(result(&k, 1, 0, ""), SLI_OK);
	assert_int_equal(kit_data(&k, 1, SLI_FF_END, 1000, 0), SLI_OK);
	sli_mux_release(k.m, 1, 1000);

	assert_int_equal(kit_call(&k, 3, "", 0), SLI_OK);
	assert_int_equal(
	    kit_data(&k, 3, SLI_FF_EOM | SLI_FF_END, 0, 500), SLI_OK);
	give(&k, 3, 1, 100);
	assert_int_equal(kit_drain(&k, 3), 100);
	assert_int_equal(result(&k, 3, 0, ""), SLI_OK);
	sli_mux_release(k.m, 3, 500);
	kit_fini(&k);
}

static void
reset_by_client(void **state)
{
	struct kit k;
	struct sli_slice p;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	give(&k, 1, 3, 60000);
	assert_int_equal(kit_drain(&k, 1), 180000);
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 0, 10), SLI_OK);
	assert_int_equal(
	    kit_num(&k, SLI_FT_RESET, SLI_E_CANCELED, 1, 10), SLI_OK);
	kit_log_is(&k, "call:1 m7 '';data:1 0+10;reset:1 CANCELED;");
	/* it counts until the handler has really ended */
	kit_expect_none(&k);
	assert_int_equal(k.calls_live, 1);
	sli_mux_release(k.m, 1, 10);
	assert_int_equal(result(&k, 1, SLI_E_CANCELED, ""), SLI_OK);
	p = kit_expect(&k, SLI_FT_RESET, 1, &f);
	assert_int_equal(sli_get64(p.p), 180000);
	kit_log_is(&k, "gone:1;");
	/* frames that were under way are ignored */
	assert_int_equal(kit_data(&k, 1, 0, 10, 10), SLI_OK);
	assert_int_equal(kit_ack(&k, 1, 10, 10), SLI_OK);
	kit_expect_none(&k);
	kit_fini(&k);
}

static void
reset_by_owner_client(void **state)
{
	struct kit k;
	struct sli_slice p;
	struct sli_call c = {.method = 1};
	uint32_t sid;

	(void)state;
	kit_start(&k, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&k, 7, 0), 1);
	assert_int_equal(kit_in(&k, SLI_FT_OPENED, 0, 0, 1, 0, "", 0), SLI_OK);
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 0, 10), SLI_OK);
	give(&k, 1, 1, 40);
	assert_int_equal(kit_drain(&k, 1), 40);
	sli_mux_reset(k.m, 1, SLI_E_CANCELED);
	p = kit_expect(&k, SLI_FT_RESET, 1, NULL);
	assert_int_equal(sli_get64(p.p), 40);
	kit_log_is(&k, "opened:1 0 0;data:1 0+10;");
	/* a tombstone: late data is dropped without an ACK, a late RESULT
	 * ends it */
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 10, 60000), SLI_OK);
	kit_expect_none(&k);
	assert_int_equal(kit_in(&k, SLI_FT_RESULT, 0, 0, 1, 0, "", 0), SLI_OK);
	kit_log_is(&k, "gone:1;");
	/* a RESET does not overtake its CALL */
	assert_int_equal(sli_mux_call(k.m, &c, 0, &sid, NULL), SLI_OK);
	sli_mux_reset(k.m, sid, 1);
	(void)kit_expect(&k, SLI_FT_CALL, sid, NULL);
	(void)kit_expect(&k, SLI_FT_RESET, sid, NULL);
	kit_expect_none(&k);
	assert_int_equal(kit_num(&k, SLI_FT_RESET, 0, sid, 0), SLI_OK);
	kit_log_is(&k, "gone:2;");
	kit_fini(&k);
}

static void
reset_by_server(void **state)
{
	struct kit k, c;
	struct sli_frame f;
	struct sli_slice p;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	give(&k, 1, 1, 500);
	assert_int_equal(kit_drain(&k, 1), 500);
	sli_mux_reset(k.m, 1, SLI_E_INTERNAL);
	p = kit_expect(&k, SLI_FT_RESET, 1, &f);
	assert_int_equal(f.aux16, SLI_E_INTERNAL);
	assert_int_equal(sli_get64(p.p), 500);
	kit_log_is(&k, "call:1 m7 '';");
	assert_int_equal(kit_num(&k, SLI_FT_RESET, 0, 1, 0), SLI_OK);
	kit_log_is(&k, "gone:1;");

	kit_start(&c, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&c, 7, 0), 1);
	assert_int_equal(
	    kit_num(&c, SLI_FT_RESET, SLI_E_INTERNAL, 1, 0), SLI_OK);
	kit_log_is(&c, "reset:1 INTERNAL;");
	(void)kit_expect(&c, SLI_FT_RESET, 1, NULL);
	kit_log_is(&c, "gone:1;");
	kit_fini(&c);
	kit_fini(&k);
}

static void
gaps(void **state)
{
	struct kit k, c;
	struct sli_slice p;
	struct sli_frame f;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	kit_start(&c, SLI_CLIENT, NULL);
	assert_int_equal(kit_make_call(&c, 7, 1), 1);
	assert_int_equal(kit_in(&c, SLI_FT_OPENED, 0, 0, 1, 0, "", 0), SLI_OK);
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	give(&k, 1, 3, 100000 / 2);
	assert_int_equal(kit_drain(&k, 1), 150000);
	sli_mux_gap(k.m, 1, 1000000, 850000);
	p = kit_expect(&k, SLI_FT_GAP, 1, &f);
	assert_int_equal(sli_get64(p.p), 1000000);
	assert_int_equal(kit_data(&c, 1, SLI_FF_EOM, 0, 50000), SLI_OK);
	assert_int_equal(kit_in(&c, SLI_FT_GAP, 0, 0, 1, 0, p.p, p.n), SLI_OK);
	kit_log_is(&c, "opened:1 0 0;data:1 0+50000;gap:1 1000000 850000;");
	/* an ACK from below is ignored; all counts from the new offset */
	assert_int_equal(kit_ack(&k, 1, 150000, 262144), SLI_OK);
	assert_int_equal(sli_mux_room(k.m, 1), 262144);
	give(&k, 1, 1, 10);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.aux32, 1000000);
	assert_int_equal(kit_data(&c, 1, SLI_FF_EOM, 1000000, 10), SLI_OK);
	sli_mux_release(c.m, 1, 50000);
	kit_expect_none(&c);
	sli_mux_release(c.m, 1, 10);
	p = kit_expect(&c, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 8), 1000010);
	kit_fini(&c);
	kit_fini(&k);
}

/* Pull says nothing but is ready: it must be asked again. */
static void
ready_inside_pull(void **state)
{
	struct kit k;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	k.src[1].ready_again = 1;
	give(&k, 1, 1, 10);
	assert_int_equal(kit_drain(&k, 1), 10);
	kit_fini(&k);
}

static int
all_bytes(uint32_t method, enum sli_role sender)
{
	(void)method;
	(void)sender;
	return 1;
}

static void
byte_streams(void **state)
{
	struct sli_mux_cfg cfg = {.is_byte_stream = all_bytes};
	struct sli_frame f;
	struct kit k;

	(void)state;
	kit_start(&k, SLI_SERVER, &cfg);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	assert_int_equal(kit_data(&k, 1, 0, 0, 10), SLI_OK);
	assert_int_equal(kit_data(&k, 1, 0, 10, 60000), SLI_OK);
	assert_int_equal(kit_data(&k, 1, 0, 60010, 60000), SLI_OK);
	kit_log_is(
	    &k, "call:1 m7 '';data:1 0+10;data:1 10+60000;data:1 60010+60000;");
	k.src[1] = (struct kit_source){.msgs = 1, .size = 10};
	sli_mux_ready(k.m, 1);
	(void)kit_expect(&k, SLI_FT_OPENED, 1, NULL);
	(void)kit_expect(&k, SLI_FT_DATA, 1, &f);
	assert_int_equal(f.flags, 0);
	/* EOM has no place here */
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 120010, 1), SLI_OK);
	kit_log_is(&k, "reset:1 PROTOCOL;");
	(void)kit_expect(&k, SLI_FT_RESET, 1, NULL);
	kit_fini(&k);
}

/* --- the table of states --------------------------------------------------*/

static void
legal_moves(void **state)
{
	static const struct {
		enum sli_tx_state from, to;
	} tx[] = {
	    {SLI_TX_OPEN,    SLI_TX_ENDING },
	    {SLI_TX_OPEN,    SLI_TX_STOPPED},
	    {SLI_TX_OPEN,    SLI_TX_ENDED  },
	    {SLI_TX_ENDING,  SLI_TX_STOPPED},
	    {SLI_TX_ENDING,  SLI_TX_ENDED  },
	    {SLI_TX_STOPPED, SLI_TX_ENDED  },
	    {SLI_TX_ENDED,   SLI_TX_DONE   },
	};

	static const struct {
		enum sli_rx_state from, to;
	} rx[] = {
	    {SLI_RX_OPEN,  SLI_RX_DEAD },
	    {SLI_RX_OPEN,  SLI_RX_ENDED},
	    {SLI_RX_DEAD,  SLI_RX_ENDED},
	    {SLI_RX_ENDED, SLI_RX_DONE },
	};

	size_t n = 0;

	(void)state;
	for (unsigned a = 0; a < SLI_TX__N; a++)
		for (unsigned b = 0; b < SLI_TX__N; b++)
			n += (size_t)sli_tx_legal(
			    (enum sli_tx_state)a, (enum sli_tx_state)b);
	assert_int_equal(n, SLI_ARRAY_LEN(tx));
	for (size_t i = 0; i < SLI_ARRAY_LEN(tx); i++)
		assert_true(sli_tx_legal(tx[i].from, tx[i].to));
	n = 0;
	for (unsigned a = 0; a < SLI_RX__N; a++)
		for (unsigned b = 0; b < SLI_RX__N; b++)
			n += (size_t)sli_rx_legal(
			    (enum sli_rx_state)a, (enum sli_rx_state)b);
	assert_int_equal(n, SLI_ARRAY_LEN(rx));
	for (size_t i = 0; i < SLI_ARRAY_LEN(rx); i++)
		assert_true(sli_rx_legal(rx[i].from, rx[i].to));
	assert_string_equal(sli_tx_state_name(SLI_TX__N), "?");
	assert_string_equal(sli_rx_state_name(SLI_RX_DEAD), "dead");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stop_by_client),
	    cmocka_unit_test(stop_by_server),
	    cmocka_unit_test(released_after_the_end),
	    cmocka_unit_test(reset_by_client),
	    cmocka_unit_test(reset_by_owner_client),
	    cmocka_unit_test(reset_by_server),
	    cmocka_unit_test(gaps),
	    cmocka_unit_test(ready_inside_pull),
	    cmocka_unit_test(byte_streams),
	    cmocka_unit_test(legal_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
