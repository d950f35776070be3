/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The life of streams, seen from one end: unary, streaming, half-close, stop,
 * reset; who is told what, and when a stream is gone. */
#include "unit.h"
#include "wirekit.h"

#include <string.h>

static struct sli_slice
str(const char *s)
{
	return sli_slice_str(s);
}

static void
unary_server(void **state)
{
	struct kit k;
	struct sli_frame f;
	struct sli_slice p;

	(void)state;
	kit_start(&k, SLI_SERVER, NULL);
	assert_int_equal(kit_call(&k, 1, "ping", 1), SLI_OK);
	kit_log_is(&k, "call:1 m7 'ping' end;");
	assert_int_equal(
	    sli_mux_result(k.m, 1, 0, str(""), str("pong")), SLI_OK);
	kit_log_is(&k, "");
	p = kit_expect(&k, SLI_FT_RESULT, 1, &f);
	unit_slice_is(p, "pong");
	assert_int_equal(f.aux16, 0);
	kit_log_is(&k, "gone:1;");
	kit_expect_none(&k);
	kit_fini(&k);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unary_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
