/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* What stands before protobuf-c: hostile messages end in an error, a bounded
 * amount of memory and never a crash; honest ones come through. */
#include "unit.h"

#include "base/str.h"
#include "sluice/v1/core.pb-c.h"
#include "sluice/v1/processes.pb-c.h"
#include "wire/guard.h"
#include "wire/hello.h"
#include "wire/limits.h"

#include <string.h>

static uint8_t big[SLI_MUX_MSG_MAX + 1];

static enum sli_err
unpack_n(const ProtobufCMessageDescriptor *desc, const void *p, size_t n)
{
	struct sli_errinfo ei = {0};
	struct sli_arena a;
	ProtobufCMessage *msg;

	sli_arena_init(&a, 1 << 20);
	msg = sli_msg_unpack(desc, sli_slice_of(p, n), &a, &ei);
	assert_true(a.used <= SLI_MAX((size_t)SLI_MSG_ARENA_MIN, 8 * n));
	sli_arena_free(&a);
	assert_true((msg == NULL) == (ei.code != SLI_OK));
	return ei.code;
}

#define STATUS   (&sluice__v1__status__descriptor)
#define OUTPUT   (&sluice__v1__exec_output__descriptor)
#define EXECSPEC (&sluice__v1__exec_spec__descriptor)

static void
broken(void **state)
{
	(void)state;
#define BAD(desc, bytes)  \
	assert_int_equal( \
	    unpack_n((desc), (bytes), sizeof(bytes) - 1), SLI_E_MALFORMED)
	BAD(STATUS, "\x0a");                     /* no length */
	BAD(STATUS, "\x12\x05hell");             /* cut */
	BAD(STATUS, "\x12\xff\xff\xff\xff\x0f"); /* 4 GiB */
	BAD(STATUS, "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	BAD(STATUS, "\x00\x01"); /* field 0 */
	BAD(STATUS, "\x08");     /* no varint */
	BAD(STATUS, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	BAD(STATUS, "\x0b\x0c");                         /* groups */
	BAD(STATUS, "\x0f\x01");                         /* wire type 7 */
	BAD(STATUS, "\xff\xff\xff\xff\xff\xff\x01\x01"); /* long tag */
	BAD(STATUS, "\x11\x01\x02\x03");                 /* cut fixed64 */
	BAD(STATUS, "\x12\x02\xc3\x28");                 /* not UTF-8 */
	BAD(STATUS, "\x12\x03\xed\xa0\x80");             /* a surrogate */
	BAD(STATUS, "\x12\x03"
		    "a\0b");                     /* NUL */
	BAD(STATUS, "\x2a\x04\x12\x02\xff\xfe"); /* inside a LimitHit */
	BAD(STATUS, "\x2a\x03\x0a\x05x");        /* inner passes outer */
#undef BAD
	assert_int_equal(unpack_n(STATUS, big, sizeof(big)), SLI_E_FRAME_SIZE);
}

/* 64 KiB of empty sub-messages: many allocations for few bytes. */
static void
amplification(void **state)
{
	size_t n;

	(void)state;
	for (n = 0; n + 2 <= SLI_MUX_MSG_MAX; n += 2)
		memcpy(big + n, "\x2a\x00", 2);
	assert_int_equal(unpack_n(STATUS, big, n), SLI_E_MALFORMED);
	/* within the field budget, the arena's bound holds */
	n = 2 * (SLI_MSG_FIELDS - 1);
	assert_int_equal(unpack_n(STATUS, big, n), SLI_E_RESOURCE_EXHAUSTED);
	/* unknown fields */
	for (n = 0; n + 3 <= SLI_MUX_MSG_MAX; n += 3)
		memcpy(big + n, "\xf8\x07\x01", 3);
	assert_int_equal(unpack_n(STATUS, big, n), SLI_E_MALFORMED);
	memset(big, 0, sizeof(big));
}

static const ProtobufCMessageDescriptor self;

static const ProtobufCFieldDescriptor self_field[1] = {
    {"self", 1, PROTOBUF_C_LABEL_NONE, PROTOBUF_C_TYPE_MESSAGE, 0,
     sizeof(ProtobufCMessage), &self, NULL, 0, 0, NULL, NULL}
};
static const ProtobufCIntRange self_range[2] = {
    {1, 0},
    {0, 1}
};
static const unsigned self_name[1] = {0};

static void
self_init(ProtobufCMessage *msg)
{
	memset(msg, 0, sizeof(ProtobufCMessage) + sizeof(void *));
	msg->descriptor = &self;
}

/* A message that holds itself. No message of ours does today; the guard must
 * not depend on that. */
static const ProtobufCMessageDescriptor self = {
    PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC, "Self", "Self", "Self", "",
    sizeof(ProtobufCMessage) + sizeof(void *), 1, self_field, self_name, 1,
    self_range, self_init, NULL, NULL, NULL};

static size_t
nest(unsigned depth)
{
	size_t at = sizeof(big) - 1, len = 0;

	for (unsigned i = 0; i < depth; i++) {
		size_t head = len < 128 ? 2 : len < 16384 ? 3 : 4;

		at -= head;
		big[at] = 0x0a;
		big[at + 1] = (uint8_t)(len & 0x7f);
		if (head > 2) {
			big[at + 1] |= 0x80;
			big[at + 2] = (uint8_t)(len >> 7 & 0x7f);
		}
		if (head > 3) {
			big[at + 2] |= 0x80;
			big[at + 3] = (uint8_t)(len >> 14);
		}
		len += head;
	}
	memmove(big, big + at, len);
	return len;
}

static void
depth(void **state)
{
	(void)state;
	assert_int_equal(unpack_n(&self, big, nest(31)), SLI_OK);
	assert_int_equal(unpack_n(&self, big, nest(32)), SLI_E_MALFORMED);
	assert_int_equal(unpack_n(&self, big, nest(10000)), SLI_E_MALFORMED);
	memset(big, 0, sizeof(big));
}

static void
honest(void **state)
{
	Sluice__V1__ExecData data;
	Sluice__V1__ExecOutput out, *back;
	struct sli_buf b;
	struct sli_arena a;
	uint8_t small[10];

	(void)state;
	sluice__v1__exec_data__init(&data);
	sluice__v1__exec_output__init(&out);
	data.fd = 2;
	data.offset = 1234567890123;
	data.data = (ProtobufCBinaryData){32768, big};
	out.kind_case = SLUICE__V1__EXEC_OUTPUT__KIND_DATA;
	out.data = &data;
	sli_buf_init(&b, 1 << 20);
	assert_int_equal(sli_msg_pack(&out.base, 100, &b), SLI_E_FRAME_SIZE);
	assert_int_equal(sli_msg_pack(&out.base, 65536, &b), SLI_OK);
	assert_int_equal(sli_msg_pack_to(&out.base, small, sizeof(small)), 0);
	sli_arena_init(&a, 1 << 20);
	back = (Sluice__V1__ExecOutput *)sli_msg_unpack(
	    OUTPUT, sli_buf_slice(&b), &a, NULL);
	assert_non_null(back);
	assert_int_equal(back->kind_case, SLUICE__V1__EXEC_OUTPUT__KIND_DATA);
	assert_int_equal(back->data->offset, 1234567890123);
	assert_int_equal(back->data->data.len, 32768);
	/* it does not point into its input */
	sli_buf_free(&b);
	assert_int_equal(back->data->data.data[32767], 0);
	/* an empty message is one */
	assert_non_null(
	    sli_msg_unpack(OUTPUT, sli_slice_of(NULL, 0), &a, NULL));
	/* a cap of the caller's binds too */
	sli_arena_free(&a);
	sli_arena_init(&a, 64);
	assert_null(sli_msg_unpack(
	    OUTPUT, sli_slice_of("\x12\x02\x08\x01", 4), &a, NULL));
	sli_arena_free(&a);
}

/* Flip bytes of a good message: an error or a message, within bounds. */
static void
random_flips(void **state)
{
	Sluice__V1__ExecSpec spec;
	char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"echo ok"}};
	uint8_t raw[200];
	size_t n;
	uint64_t x = 7;

	(void)state;
	sluice__v1__exec_spec__init(&spec);
	spec.vm = (char[]){"vm-1"};
	spec.n_argv = 3;
	spec.argv = argv;
	spec.cwd = (char[]){"/root"};
	n = sli_msg_pack_to(&spec.base, raw, sizeof(raw));
	assert_true(n > 20);
	for (int i = 0; i < 100000; i++) {
		uint8_t m[200];

		memcpy(m, raw, n);
		for (int k = 0; k < 3; k++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			m[(x >> 33) % n] ^= (uint8_t)(1u << (x >> 60 & 7));
		}
		(void)unpack_n(EXECSPEC, m, n);
	}
}

/* --- HELLO ----------------------------------------------------------------*/

static enum sli_err
hello(void (*change)(Sluice__V1__Hello *), struct sli_peer_hello *ret)
{
	Sluice__V1__Hello h;
	struct sli_arena a;
	uint8_t raw[512];
	size_t n;
	enum sli_err e;

	sluice__v1__hello__init(&h);
	h.version = 1;
	change(&h);
	n = sli_msg_pack_to(&h.base, raw, sizeof(raw));
	sli_arena_init(&a, 65536);
	e = sli_hello_get(sli_slice_of(raw, n), &a, ret, NULL);
	sli_arena_free(&a);
	return e;
}

static void
h_none(Sluice__V1__Hello *h)
{
	(void)h;
}

static void
h_version(Sluice__V1__Hello *h)
{
	h->version = 2;
}

static void
h_no_version(Sluice__V1__Hello *h)
{
	h->version = 0;
}

static void
h_frame_small(Sluice__V1__Hello *h)
{
	h->max_frame = 1024;
}

static void
h_frame_big(Sluice__V1__Hello *h)
{
	h->max_frame = 0xffffffffu;
}

static void
h_floor(Sluice__V1__Hello *h)
{
	h->floor = 65535;
}

static void
h_pool(Sluice__V1__Hello *h)
{
	h->pool = 0xffffffffu;
}

static void
h_boot(Sluice__V1__Hello *h)
{
	h->boot_id = (ProtobufCBinaryData){15, big};
}

static void
hellos(void **state)
{
	struct sli_peer_hello p = {0};

	(void)state;
	assert_int_equal(hello(h_version, &p), SLI_E_VERSION);
	assert_int_equal(hello(h_no_version, &p), SLI_E_VERSION);
	assert_int_equal(hello(h_frame_small, &p), SLI_E_PROTOCOL);
	assert_int_equal(hello(h_frame_big, &p), SLI_E_PROTOCOL);
	assert_int_equal(hello(h_floor, &p), SLI_E_PROTOCOL);
	assert_int_equal(hello(h_pool, &p), SLI_E_PROTOCOL);
	assert_int_equal(hello(h_boot, &p), SLI_E_PROTOCOL);
	assert_int_equal(p.max_frame, 0);
	assert_int_equal(hello(h_none, &p), SLI_OK);
	assert_int_equal(p.max_frame, SLI_MAX_FRAME);
	assert_int_equal(p.max_streams, SLI_MAX_STREAMS);
	assert_int_equal(p.floor, SLI_FLOOR);
	assert_int_equal(p.pool, SLI_POOL);
	assert_int_equal(p.init_window, SLI_INIT_WINDOW);
	assert_int_equal(p.keepalive_s, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(broken),
	    cmocka_unit_test(amplification),
	    cmocka_unit_test(depth),
	    cmocka_unit_test(honest),
	    cmocka_unit_test(random_flips),
	    cmocka_unit_test(hellos),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
