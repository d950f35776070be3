/* SPDX-License-Identifier: Apache-2.0 */
/* The walk before protobuf-c, and the bounded allocator below it. */
#include "wire/guard.h"

#include "base/str.h"
#include "wire/limits.h"
#include "wire/mux.h"

#include <string.h>

_Static_assert(SLI_MSG_DEPTH <= 32, "the walk's stack is on the C stack");

/* One open message of the walk. */
struct level {
	const uint8_t *end;
	const ProtobufCMessageDescriptor *desc;
};

struct walk {
	const uint8_t *p;
	const char *why;
	unsigned fields;
	unsigned depth; /* levels in use */
	struct level level[SLI_MSG_DEPTH];
};

/* Wire types of protobuf. */
enum {
	WT_VARINT = 0,
	WT_64 = 1,
	WT_LEN = 2,
	WT_32 = 5
};

/* At most `max` bytes long and before end; NULL when not. */
static const uint8_t *
varint(const uint8_t *p, const uint8_t *end, unsigned max, uint64_t *ret_v)
{
	uint64_t v = 0;
	unsigned i;

	for (i = 0; i < max && p + i < end; i++) {
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
		if ((p[i] & 0x80) == 0) {
			*ret_v = v;
			return p + i + 1;
		}
	}
	return NULL;
}

static int
text_ok(const uint8_t *p, size_t n)
{
	return n == 0 ||
	       (memchr(p, 0, n) == NULL && sli_utf8_valid(sli_slice_of(p, n)));
}

/* A length-delimited field at w->p: skip it, check it, or go down into it. */
static int
walk_len(struct walk *w, const struct level *l,
    const ProtobufCFieldDescriptor *field)
{
	uint64_t n;
	const uint8_t *p = varint(w->p, l->end, 10, &n);

	if (p == NULL || n > (size_t)(l->end - p)) {
		w->why = "a length passes the end";
		return 0;
	}
	w->p = p + n;
	if (field == NULL)
		return 1;
	if (field->type == PROTOBUF_C_TYPE_STRING && !text_ok(p, (size_t)n)) {
		w->why = "a string is not UTF-8";
		return 0;
	}
	if (field->type != PROTOBUF_C_TYPE_MESSAGE)
		return 1;
	if (w->depth == SLI_MSG_DEPTH) {
		w->why = "nested too deep";
		return 0;
	}
	w->p = p;
	w->level[w->depth++] = (struct level){p + n, field->descriptor};
	return 1;
}

static int
walk_field(struct walk *w)
{
	const struct level *l = &w->level[w->depth - 1];
	const ProtobufCFieldDescriptor *field;
	uint64_t tag, skip;
	const uint8_t *p = varint(w->p, l->end, 5, &tag);

	w->why = "a field is cut or has a bad tag";
	if (p == NULL || tag >> 3 == 0 || tag > UINT32_MAX)
		return 0;
	if (++w->fields > SLI_MSG_FIELDS) {
		w->why = "too many fields";
		return 0;
	}
	w->p = p;
	switch (tag & 7) {
	case WT_VARINT:
		w->p = varint(p, l->end, 10, &skip);
		return w->p != NULL;
	case WT_64:
	case WT_32:
		skip = (tag & 7) == WT_64 ? 8 : 4;
		if ((size_t)(l->end - p) < skip)
			return 0;
		w->p = p + skip;
		return 1;
	case WT_LEN:
		field = protobuf_c_message_descriptor_get_field(
		    l->desc, (unsigned)(tag >> 3));
		return walk_len(w, l, field);
	default:
		return 0;
	}
}

enum sli_err
sli_msg_check(const ProtobufCMessageDescriptor *desc, struct sli_slice bytes,
    struct sli_errinfo *ei)
{
	struct walk w;

	if (bytes.n == 0)
		return SLI_OK;
	w.p = bytes.p;
	w.why = "";
	w.fields = 0;
	w.depth = 1;
	w.level[0] = (struct level){bytes.p + bytes.n, desc};
	while (w.depth != 0) {
		if (w.p == w.level[w.depth - 1].end) {
			w.depth--;
			continue;
		}
		if (!walk_field(&w))
			return sli_fail(ei, SLI_E_MALFORMED, 0, "wire.guard",
			    "%s: %s", desc->short_name, w.why);
	}
	return SLI_OK;
}

/* --- unpack ---------------------------------------------------------------*/

struct bounded {
	struct sli_arena *arena;
	size_t limit; /* of arena->used */
	int over;
	int nomem;
};

static void *
bounded_alloc(void *data, size_t n)
{
	struct bounded *b = data;
	void *p;

	if (b->arena->used > b->limit || n > b->limit - b->arena->used) {
		b->over = 1;
		return NULL;
	}
	p = sli_arena_alloc(b->arena, n);
	if (p == NULL) {
		if (n > b->arena->cap - b->arena->used)
			b->over = 1;
		else
			b->nomem = 1;
	}
	return p;
}

static void
bounded_free(void *data, void *p)
{
	(void)data;
	(void)p;
}

ProtobufCMessage *
sli_msg_unpack(const ProtobufCMessageDescriptor *desc, struct sli_slice bytes,
    struct sli_arena *arena, struct sli_errinfo *ei)
{
	struct bounded b = {.arena = arena};
	ProtobufCAllocator a = {bounded_alloc, bounded_free, &b};
	ProtobufCMessage *msg;

	if (bytes.n > SLI_MUX_MSG_MAX) {
		(void)sli_fail(ei, SLI_E_FRAME_SIZE, 0, "wire.guard",
		    "%s of %zu bytes; at most %u", desc->short_name, bytes.n,
		    SLI_MUX_MSG_MAX);
		return NULL;
	}
	if (sli_msg_check(desc, bytes, ei) != SLI_OK)
		return NULL;
	b.limit = arena->used +
		  SLI_MAX(bytes.n * SLI_MSG_BLOWUP, (size_t)SLI_MSG_ARENA_MIN);
	/* protobuf-c asserts that there are bytes, even for none. */
	msg = protobuf_c_message_unpack(
	    desc, &a, bytes.n, bytes.n != 0 ? bytes.p : (const uint8_t *)"");
	if (msg != NULL)
		return msg;
	if (b.nomem)
		(void)sli_fail(ei, SLI_E_NOMEM, 0, "wire.guard",
		    "no memory for %s", desc->short_name);
	else if (b.over)
		(void)sli_fail(ei, SLI_E_RESOURCE_EXHAUSTED, 0, "wire.guard",
		    "%s is too big decoded", desc->short_name);
	else
		(void)sli_fail(ei, SLI_E_MALFORMED, 0, "wire.guard",
		    "%s: not a valid message", desc->short_name);
	return NULL;
}

/* --- pack -----------------------------------------------------------------*/

enum sli_err
sli_msg_pack(const ProtobufCMessage *msg, size_t max, struct sli_buf *out)
{
	size_t n = protobuf_c_message_get_packed_size(msg);
	uint8_t *d;

	if (n > max)
		return SLI_E_FRAME_SIZE;
	if (n == 0)
		return SLI_OK;
	if (n > out->max - sli_buf_len(out))
		return SLI_E_RESOURCE_EXHAUSTED;
	d = sli_buf_reserve(out, n);
	if (d == NULL)
		return SLI_E_NOMEM;
	sli_buf_added(out, protobuf_c_message_pack(msg, d));
	return SLI_OK;
}

size_t
sli_msg_pack_to(const ProtobufCMessage *msg, uint8_t *dst, size_t cap)
{
	size_t n = protobuf_c_message_get_packed_size(msg);

	if (n > cap)
		return 0;
	return protobuf_c_message_pack(msg, dst);
}
