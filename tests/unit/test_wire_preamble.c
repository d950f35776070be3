/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The preamble: strangers, other versions, other security; and that the numbers
 * of wire/limits.h and base/limits.def agree. */
#include "unit.h"

#include "base/limits.h"
#include "wire/limits.h"
#include "wire/mux.h"
#include "wire/preamble.h"

#include <string.h>

static void
strangers(void **state)
{
	static const uint8_t http[8] = {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T'};
	uint8_t b[SLI_PREAMBLE_LEN];
	struct sli_preamble p;
	struct sli_preamble_answer a;

	(void)state;
	assert_false(sli_preamble_prefix(http, 1));
	assert_true(sli_preamble_prefix(http, 0));
	assert_int_equal(sli_preamble_get(http, &p, NULL), SLI_E_HANDSHAKE);
	sli_preamble_put(b, &(struct sli_preamble){1, 1, 0});
	for (size_t n = 0; n <= sizeof(b); n++)
		assert_true(sli_preamble_prefix(b, n));
	b[7] = 1;
	assert_int_equal(sli_preamble_get(b, &p, NULL), SLI_E_HANDSHAKE);
	sli_preamble_put(b, &(struct sli_preamble){2, 1, 0});
	assert_int_equal(sli_preamble_get(b, &p, NULL), SLI_E_HANDSHAKE);
	p = (struct sli_preamble){1, 1, 0};
	assert_int_equal(
	    sli_preamble_answer_get(http, &p, &a, NULL), SLI_E_HANDSHAKE);
}

static void
choosing(void **state)
{
	struct sli_preamble_answer a;
	struct sli_preamble p = {1, 9, SLI_SEC_NONE}, back;
	struct sli_errinfo ei;
	uint8_t b[SLI_PREAMBLE_LEN];

	(void)state;
	sli_preamble_put(b, &p);
	assert_int_equal(sli_preamble_get(b, &back, NULL), SLI_OK);
	assert_int_equal(back.ver_max, 9);
	assert_int_equal(sli_preamble_choose(&p, SLI_SEC_NONE, &a), SLI_OK);
	assert_int_equal(a.version, SLI_VERSION_MAX);
	sli_preamble_answer_put(b, &a);
	assert_int_equal(sli_preamble_answer_get(b, &p, &a, NULL), SLI_OK);
	/* no common version, and the client hears which there is */
	p.ver_min = 2;
	assert_int_equal(
	    sli_preamble_choose(&p, SLI_SEC_NONE, &a), SLI_E_VERSION);
	sli_preamble_answer_put(b, &a);
	assert_int_equal(
	    sli_preamble_answer_get(b, &p, &a, &ei), SLI_E_VERSION);
	assert_non_null(strstr(ei.text, "version 1"));
	/* plaintext where encryption is due */
	p = (struct sli_preamble){1, 1, SLI_SEC_NONE};
	assert_int_equal(
	    sli_preamble_choose(&p, SLI_SEC_NOISE, &a), SLI_E_HANDSHAKE);
	sli_preamble_answer_put(b, &a);
	assert_int_equal(
	    sli_preamble_answer_get(b, &p, &a, NULL), SLI_E_HANDSHAKE);
	/* a server that chooses what was not offered */
	sli_preamble_answer_put(b, &(struct sli_preamble_answer){2, 0, 0});
	assert_int_equal(
	    sli_preamble_answer_get(b, &p, &a, NULL), SLI_E_HANDSHAKE);
	sli_preamble_answer_put(b, &(struct sli_preamble_answer){1, 1, 0});
	assert_int_equal(
	    sli_preamble_answer_get(b, &p, &a, NULL), SLI_E_HANDSHAKE);
}

#define SAME(id, number) \
	assert_int_equal(sli_limit_info(SLI_L_##id)->def, (number))

static void
one_set_of_numbers(void **state)
{
	(void)state;
	SAME(WIRE_MAX_FRAME, SLI_MAX_FRAME);
	SAME(WIRE_MAX_STREAMS, SLI_MAX_STREAMS);
	SAME(WIRE_FLOOR, SLI_FLOOR);
	SAME(WIRE_POOL, SLI_POOL);
	SAME(WIRE_INIT_WINDOW, SLI_INIT_WINDOW);
	SAME(WIRE_WINDOW_CAP, SLI_WINDOW_CAP);
	SAME(WIRE_HELLO, SLI_HELLO_MAX);
	SAME(WIRE_CALL_HEADER, SLI_CALL_HEADER_MAX);
	SAME(WIRE_RESULT_BODY, SLI_RESULT_BODY_MAX);
	SAME(WIRE_MESSAGE, SLI_MUX_MSG_MAX);
	SAME(WIRE_ACK_RECORDS, SLI_ACK_RECORDS);
	SAME(WIRE_CONTROL_STOP, SLI_CTL_HOLD);
	SAME(WIRE_CONTROL_CLOSE, SLI_CTL_CALM);
	SAME(WIRE_KEEPALIVE, SLI_KEEPALIVE_S * 1000);
	SAME(WIRE_KEEPALIVE_DEAD, SLI_DEAD_MS);
	SAME(WIRE_WRITE_STALL, SLI_WRITE_STALL_MS);
	assert_int_equal(
	    sli_limit_info(SLI_L_WIRE_MAX_FRAME)->min, SLI_MAX_FRAME_LEAST);
	assert_int_equal(
	    sli_limit_info(SLI_L_WIRE_MAX_FRAME)->max, SLI_MAX_FRAME_MOST);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(strangers),
	    cmocka_unit_test(choosing),
	    cmocka_unit_test(one_set_of_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
