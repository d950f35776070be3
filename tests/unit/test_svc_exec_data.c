/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Bulk output as it is written by hand is what protobuf-c would write. */
#include "service/exec_data.h"

#include "base/mem.h"
#include "sluice/v1/processes.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MOST ((size_t)32 << 10)

static size_t
by_protobuf(uint8_t *dst, const struct vm_out *out)
{
	Sluice__V1__ExecOutput o = SLUICE__V1__EXEC_OUTPUT__INIT;
	Sluice__V1__ExecData d = SLUICE__V1__EXEC_DATA__INIT;

	d.fd = (uint32_t)out->fd;
	d.offset = out->offset;
	d.data.data = (uint8_t *)(uintptr_t)out->data.p;
	d.data.len = out->data.n;
	o.kind_case = SLUICE__V1__EXEC_OUTPUT__KIND_DATA;
	o.data = &d;
	return sluice__v1__exec_output__pack(&o, dst);
}

static void
same_as_protobuf(void **state)
{
	static const size_t lens[] = {1, 100, 127, 128, 4095, 16383, 16384,
	    (16 << 10) - 20, MOST - 1, MOST};
	static const uint64_t offsets[] = {0, 1, 127, 128, UINT32_MAX,
	    UINT64_C(1) << 32, (UINT64_C(1) << 62), UINT64_MAX};
	uint8_t *text = sli_alloc(MOST), *a, *b;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < MOST; i++)
		text[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		for (size_t k = 0; k < 2 * sizeof(offsets) / sizeof(offsets[0]);
		     k++) {
			struct vm_out out = {.kind = VM_OUT_DATA,
			    .fd = k % 2 ? 2 : 1,
			    .offset = offsets[k / 2],
			    .data = sli_slice_of(text, lens[i])};
			size_t n;

			/* Exactly what is promised, for the sanitizer. */
			a = sli_alloc(lens[i] + EXEC_DATA_HEAD);
			b = sli_alloc(lens[i] + EXEC_DATA_HEAD);
			assert_non_null(a);
			assert_non_null(b);
			n = exec_data_put(a, &out);
			assert_int_equal(n, by_protobuf(b, &out));
			assert_memory_equal(a, b, n);
			sli_free(a);
			sli_free(b);
		}
	sli_free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(same_as_protobuf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
