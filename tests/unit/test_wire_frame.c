/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The frame header: what the table refuses, that what it accepts encodes to the
 * same bytes, and that frames come whole out of any cut of the input. */
#include "unit.h"

#include "wire/bytes.h"
#include "wire/frame.h"

#include <string.h>

static enum sli_err
get(enum sli_role from, struct sli_frame f)
{
	uint8_t raw[SLI_FRAME_HDR];
	struct sli_frame back;
	enum sli_err e;

	sli_frame_put(raw, &f);
	e = sli_frame_get(raw, from, SLI_MAX_FRAME, &back, NULL);
	if (e == SLI_OK) {
		uint8_t again[SLI_FRAME_HDR];

		sli_frame_put(again, &back);
		assert_memory_equal(again, raw, sizeof(raw));
	}
	return e;
}

#define F(...) ((struct sli_frame){__VA_ARGS__})
#define REFUSED(code, from, ...) \
	assert_int_equal(get((from), F(__VA_ARGS__)), SLI_E_##code)

static void
bad_headers(void **state)
{
	(void)state;
	/* types */
	REFUSED(PROTOCOL, SLI_CLIENT, .type = 0);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT__N, .sid = 1);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = 255);
	/* directions */
	REFUSED(PROTOCOL, SLI_SERVER, .type = SLI_FT_CALL, .sid = 1);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_OPENED, .sid = 1);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_RESULT, .sid = 1);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_GAP, .sid = 1, .len = 16);
	/* lengths */
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1,
	    .len = SLI_MAX_FRAME + 1);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1,
	    .len = 0x80000000u);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1,
	    .len = 0xffffffffu);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_HELLO, .len = 4097);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_HELLO, .len = 0);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_ACK, .len = 0);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_ACK, .len = 25);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_ACK, .len = 24 * 65);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_PING, .len = 7);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_RESET, .sid = 1);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_BLOCKED, .sid = 1,
	    .len = 16);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_GOAWAY, .len = 7);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_GOAWAY, .len = 1025);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_CALL, .sid = 1, .len = 5,
	    .aux16 = 6);
	REFUSED(FRAME_SIZE, SLI_CLIENT, .type = SLI_FT_CALL, .sid = 1,
	    .len = 10000, .aux16 = 8193);
	REFUSED(FRAME_SIZE, SLI_SERVER, .type = SLI_FT_RESULT, .sid = 1,
	    .len = 5, .aux32 = 6);
	REFUSED(FRAME_SIZE, SLI_SERVER, .type = SLI_FT_RESULT, .sid = 1,
	    .len = 10000, .aux32 = 8193);
	REFUSED(FRAME_SIZE, SLI_SERVER, .type = SLI_FT_RESULT, .sid = 1,
	    .len = 49153);
	/* streams */
	REFUSED(STREAM_ID, SLI_CLIENT, .type = SLI_FT_DATA, .len = 1);
	REFUSED(STREAM_ID, SLI_CLIENT, .type = SLI_FT_CALL);
	REFUSED(STREAM_ID, SLI_CLIENT, .type = SLI_FT_PING, .len = 8, .sid = 1);
	REFUSED(STREAM_ID, SLI_CLIENT, .type = SLI_FT_ACK, .len = 24, .sid = 9);
	/* flags: unknown, of other types, of the other side */
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1, .len = 1,
	    .flags = 4);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1, .len = 1,
	    .flags = 0x80);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_CALL, .sid = 1,
	    .flags = SLI_FF_EOM);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_PING, .len = 8,
	    .flags = SLI_FF_END);
	REFUSED(PROTOCOL, SLI_SERVER, .type = SLI_FT_DATA, .sid = 1, .len = 1,
	    .flags = SLI_FF_END);
	/* aux */
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1, .len = 1,
	    .aux16 = 1);
	REFUSED(
	    PROTOCOL, SLI_CLIENT, .type = SLI_FT_ACK, .len = 24, .aux32 = 1);
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_RESET, .sid = 1, .len = 8,
	    .aux32 = 1);
	/* the empty frame that says nothing */
	REFUSED(PROTOCOL, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1);
}

static void
good_headers(void **state)
{
	(void)state;
	REFUSED(OK, SLI_CLIENT, .type = SLI_FT_CALL, .sid = 1);
	REFUSED(OK, SLI_CLIENT, .type = SLI_FT_CALL, .sid = 0xffffffffu,
	    .flags = SLI_FF_END, .aux16 = 3, .len = 3, .aux32 = 0xffffffffu);
	REFUSED(OK, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1,
	    .flags = SLI_FF_END, .aux32 = 77);
	REFUSED(
	    OK, SLI_SERVER, .type = SLI_FT_DATA, .sid = 1, .flags = SLI_FF_EOM);
	REFUSED(OK, SLI_CLIENT, .type = SLI_FT_DATA, .sid = 1,
	    .len = SLI_MAX_FRAME);
	REFUSED(OK, SLI_SERVER, .type = SLI_FT_ACK, .len = 24 * 64);
	REFUSED(OK, SLI_SERVER, .type = SLI_FT_RESULT, .sid = 1,
	    .len = 49152 + 8192, .aux32 = 8192, .aux16 = 5);
	assert_string_equal(sli_frame_name(SLI_FT_BLOCKED), "BLOCKED");
	assert_string_equal(sli_frame_name(0), "?");
	assert_string_equal(sli_frame_name(99), "?");
}

/* Any 16 bytes are refused or encode back to the same bytes. */
static void
random_headers(void **state)
{
	uint64_t x = 88172645463325252u;
	unsigned accepted = 0;

	(void)state;
	for (int i = 0; i < 300000; i++) {
		uint8_t raw[SLI_FRAME_HDR], again[SLI_FRAME_HDR];
		struct sli_frame f;

		for (size_t j = 0; j < sizeof(raw); j++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			raw[j] = (uint8_t)(x >> 32);
		}
		raw[4] %= SLI_FT__N + 1;
		raw[5] &= 3;
		if (i & 1)
			raw[2] = raw[3] = raw[6] = raw[7] = 0;
		if (i & 2)
			memset(raw + 8, 0, 8);
		if (sli_frame_get(raw, (i & 4) ? SLI_CLIENT : SLI_SERVER,
			SLI_MAX_FRAME, &f, NULL) != SLI_OK)
			continue;
		accepted++;
		assert_true(f.len <= SLI_MAX_FRAME);
		sli_frame_put(again, &f);
		assert_memory_equal(again, raw, sizeof(raw));
	}
	assert_true(accepted > 1000);
}

/* Three frames, fed in two pieces cut at every place, and byte by byte. */
static void
any_cut(void **state)
{
	static const size_t len[3] = {8, 700, 0};
	uint8_t raw[3 * SLI_FRAME_HDR + 708];
	size_t total = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct sli_frame f =
		    F(.type = SLI_FT_DATA, .sid = 1u, .len = (uint32_t)len[i],
			.flags = SLI_FF_EOM, .aux32 = (uint32_t)i);

		sli_frame_put(raw + total, &f);
		total += SLI_FRAME_HDR;
		memset(raw + total, 'a' + i, len[i]);
		total += len[i];
	}
	for (size_t cut = 0; cut <= total + 1; cut++) {
		struct sli_frame_in in;
		struct sli_frame f;
		struct sli_slice p;
		uint32_t n = 0;
		size_t at = 0;

		sli_frame_in_init(&in, SLI_CLIENT, SLI_MAX_FRAME);
		while (at < total) {
			/* cut == total + 1: one byte at a time */
			size_t k = cut > total ? 1
				   : at < cut  ? cut - at
					       : total - at;
			struct sli_slice s = sli_slice_of(raw + at, k);

			while (
			    sli_frame_next(&in, &s, &f, &p, NULL) == SLI_OK) {
				assert_int_equal(f.aux32, n);
				assert_int_equal(p.n, len[n]);
				for (size_t i = 0; i < p.n; i++)
					assert_int_equal(p.p[i], 'a' + n);
				n++;
			}
			assert_int_equal(s.n, 0);
			at += k;
		}
		assert_int_equal(n, 3);
		assert_int_equal(sli_buf_len(&in.part), 0);
		sli_frame_in_fini(&in);
	}
}

/* The header alone is enough to refuse; nothing is allocated for the rest. */
static void
refused_before_the_payload(void **state)
{
	struct sli_frame f =
	    F(.type = SLI_FT_DATA, .sid = 1, .len = SLI_MAX_FRAME + 1);
	uint8_t raw[SLI_FRAME_HDR];
	struct sli_frame_in in;
	struct sli_slice s, p;

	(void)state;
	sli_frame_put(raw, &f);
	sli_frame_in_init(&in, SLI_CLIENT, SLI_MAX_FRAME);
	s = sli_slice_of(raw, 15);
	assert_int_equal(sli_frame_next(&in, &s, &f, &p, NULL), SLI_E_AGAIN);
	s = sli_slice_of(raw + 15, 1);
	assert_int_equal(
	    sli_frame_next(&in, &s, &f, &p, NULL), SLI_E_FRAME_SIZE);
	assert_true(in.part.cap <= 256);
	sli_frame_in_fini(&in);

	/* and a type that is not allowed yet */
	sli_frame_in_init(&in, SLI_CLIENT, SLI_MAX_FRAME);
	sli_frame_in_allow(&in, 1u << SLI_FT_HELLO);
	f = F(.type = SLI_FT_CALL, .sid = 1, .len = 60000);
	sli_frame_put(raw, &f);
	s = sli_slice_of(raw, sizeof(raw));
	assert_int_equal(sli_frame_next(&in, &s, &f, &p, NULL), SLI_E_PROTOCOL);
	sli_frame_in_fini(&in);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_headers),
	    cmocka_unit_test(good_headers),
	    cmocka_unit_test(random_headers),
	    cmocka_unit_test(any_cut),
	    cmocka_unit_test(refused_before_the_payload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
