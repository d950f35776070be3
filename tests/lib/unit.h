/* SPDX-License-Identifier: Apache-2.0 */
/* What every cmocka test includes, in the order cmocka wants it, and the loop
 * that fails each allocation in turn. */
#ifndef SLUICE_TESTS_UNIT_H
#define SLUICE_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/slice.h"

/* Run `body` with the 1st, 2nd, ... allocation failing, until a run in which
 * none failed. body returns 1 when it got all the way through, 0 when some call
 * said that memory is out; it must release everything either way. */
static inline void
unit_fail_each_alloc(int (*body)(void *ctx), void *ctx)
{
	int done = 0;

	for (uint64_t n = 1; !done; n++) {
		assert_true(n < 100000);
		sli_mem_fail_at(n);
		done = body(ctx);
		sli_mem_fail_at(0);
	}
}

static inline void
unit_slice_is(struct sli_slice s, const char *want)
{
	assert_int_equal(s.n, strlen(want));
	assert_memory_equal(s.p, want, s.n);
}

#endif
