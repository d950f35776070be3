/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of one event; see frame.h for the layout. The decoder
 * takes any bytes: what it reads may be a damaged row. */
#include "store/frame.h"

#include "base/attr.h"

static size_t
varint_size(uint64_t v)
{
	size_t n = 1;

	while (v >= 0x80) {
		v >>= 7;
		n++;
	}
	return n;
}

static uint8_t *
varint_put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

/* NULL when the bytes end inside, or the value needs more than 64 bits. */
static const uint8_t *
varint_get(const uint8_t *p, const uint8_t *end, uint64_t *ret_v)
{
	uint64_t v = 0;

	for (unsigned shift = 0; p && p < end && shift < 64; shift += 7) {
		uint8_t b = *p++;

		if (shift == 63 && b > 1)
			return NULL;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80) {
			*ret_v = v;
			return p;
		}
	}
	return NULL;
}

int
store_frame_ok(const struct sli_event *ev)
{
	if (ev->kind == 0 || (ev->flags & ~STORE_FRAME_FLAGS))
		return 0;
	if (ev->parts)
		return ev->body.n == 0;
	return ev->body.n <= SLI_EVENT_INLINE_MAX;
}

static uint64_t
length_of(const struct sli_event *ev)
{
	return ev->parts ? ev->length : ev->body.n;
}

size_t
store_frame_size(const struct sli_event *ev)
{
	size_t n = 2 + varint_size(length_of(ev)) + varint_size(ev->turn) +
		   varint_size((uint64_t)ev->at_ms) + ev->body.n;

	if (ev->superseded)
		n += varint_size(ev->superseded);
	if (ev->parts)
		n += varint_size(ev->parts);
	return n;
}

uint8_t *
store_frame_put(uint8_t *dst, const struct sli_event *ev)
{
	unsigned bits = ev->flags;

	if (ev->superseded)
		bits |= STORE_FRAME_SUPERSEDED;
	if (ev->parts)
		bits |= STORE_FRAME_PARTS;
	*dst++ = ev->kind;
	*dst++ = (uint8_t)bits;
	dst = varint_put(dst, length_of(ev));
	dst = varint_put(dst, ev->turn);
	dst = varint_put(dst, (uint64_t)ev->at_ms);
	if (ev->superseded)
		dst = varint_put(dst, ev->superseded);
	if (ev->parts)
		return varint_put(dst, ev->parts);
	if (ev->body.n)
		memcpy(dst, ev->body.p, ev->body.n);
	return dst + ev->body.n;
}

size_t
store_frame_get(const uint8_t *p, size_t n, struct sli_event *ev)
{
	const uint8_t *at = p, *end = p + n;
	uint64_t at_ms = 0;
	uint8_t bits;

	*ev = (struct sli_event){0};
	if (n < 5 || p[0] == 0)
		return 0;
	ev->kind = *at++;
	bits = *at++;
	ev->flags = bits & STORE_FRAME_FLAGS;
	at = varint_get(at, end, &ev->length);
	at = varint_get(at, end, &ev->turn);
	at = varint_get(at, end, &at_ms);
	ev->at_ms = (int64_t)at_ms;
	if (bits & STORE_FRAME_SUPERSEDED)
		at = varint_get(at, end, &ev->superseded);
	if (bits & STORE_FRAME_PARTS) {
		at = varint_get(at, end, &ev->parts);
		if (!at || ev->parts == 0)
			return 0;
		return (size_t)(at - p);
	}
	if (!at || ev->length > (uint64_t)(end - at))
		return 0;
	ev->body = sli_slice_of(at, (size_t)ev->length);
	return (size_t)(at - p) + (size_t)ev->length;
}
