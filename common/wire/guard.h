/* SPDX-License-Identifier: Apache-2.0 */
/* What stands before protobuf-c: the only way to turn foreign bytes into a
 * message. protobuf-c recurses without limit, allocates for every field, and
 * does not look at UTF-8; so, in this order: length; a walk over the fields by
 * the descriptor (depth <= 32, a field budget, strings are UTF-8 without NUL);
 * unpack into a bounded arena. Ranges and enum values are the services'
 * business. */
#ifndef SLI_WIRE_GUARD_H
#define SLI_WIRE_GUARD_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>

/* Unpack `bytes` as a message of type `desc`. The message and all it points to
 * lie in the arena (its cap bounds them, besides the guard's own bound) and
 * copy what they need: they outlive `bytes` and die with the arena; never call
 * protobuf's free functions on it. NULL and *ei on failure: FRAME_SIZE (longer
 * than SLI_MUX_MSG_MAX), MALFORMED (not a message, too deep, too many fields,
 * a string that is not UTF-8), RESOURCE_EXHAUSTED (too big decoded), NOMEM. */
SLI_MUST ProtobufCMessage *sli_msg_unpack(
    const ProtobufCMessageDescriptor *desc, struct sli_slice bytes,
    struct sli_arena *arena, struct sli_errinfo *ei);

/* The walk over fields and strings alone: MALFORMED or OK. */
SLI_MUST enum sli_err sli_msg_check(const ProtobufCMessageDescriptor *desc,
    struct sli_slice bytes, struct sli_errinfo *ei);

/* Append the packed message to out. FRAME_SIZE when it is longer than `max`;
 * else the error of sli_buf_append. */
SLI_MUST enum sli_err sli_msg_pack(
    const ProtobufCMessage *msg, size_t max, struct sli_buf *out);
/* Pack to dst if it has at most `cap` bytes; returns the length, or 0 when it
 * is longer (or empty). For sink.pull. */
SLI_MUST size_t sli_msg_pack_to(
    const ProtobufCMessage *msg, uint8_t *dst, size_t cap);

#endif
