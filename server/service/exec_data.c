/* SPDX-License-Identifier: Apache-2.0 */
/* See exec_data.h. Field numbers are those of processes.proto; a test compares
 * with what protobuf-c makes. */
#include "service/exec_data.h"

#include "base/attr.h"

#include <string.h>

/* Field number and wire type: 0 is a number, 2 is a length and bytes. */
#define TAG(field, type) ((uint8_t)((field) << 3 | (type)))

#define OUTPUT_DATA 2
#define DATA_FD     1
#define DATA_OFFSET 2
#define DATA_DATA   3

static size_t
put_number(uint8_t *d, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		d[n++] = (uint8_t)(v | 0x80);
	d[n++] = (uint8_t)v;
	return n;
}

/* A number field; proto3 leaves zero out. */
static size_t
put_field(uint8_t *d, uint8_t tag, uint64_t v)
{
	if (v == 0)
		return 0;
	d[0] = tag;
	return 1 + put_number(d + 1, v);
}

size_t
exec_data_put(uint8_t *dst, const struct vm_out *out)
{
	uint8_t head[EXEC_DATA_HEAD];
	size_t n, at = 0;

	n = put_field(head, TAG(DATA_FD, 0), (uint64_t)out->fd);
	n += put_field(head + n, TAG(DATA_OFFSET, 0), out->offset);
	n += put_field(head + n, TAG(DATA_DATA, 2), out->data.n);
	dst[at++] = TAG(OUTPUT_DATA, 2);
	at += put_number(dst + at, n + out->data.n);
	memcpy(dst + at, head, n);
	at += n;
	SLI_ASSERT(at <= EXEC_DATA_HEAD);
	memcpy(dst + at, out->data.p, out->data.n);
	return at + out->data.n;
}
