/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Any bytes as a message of one of ours (first byte says which): refused, or
 * unpacked within the bound of the arena, with strings that are UTF-8; and then
 * it packs and unpacks again. */
#include "sluice/v1/core.pb-c.h"
#include "sluice/v1/processes.pb-c.h"
#include "sluice/v1/sessions.pb-c.h"
#include "sluice/v1/vms.pb-c.h"
#include "wire/guard.h"
#include "wire/limits.h"
#include "wire/mux.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const kinds[] = {
    &sluice__v1__hello__descriptor,
    &sluice__v1__call_header__descriptor,
    &sluice__v1__opened__descriptor,
    &sluice__v1__status__descriptor,
    &sluice__v1__exec_input__descriptor,
    &sluice__v1__exec_output__descriptor,
    &sluice__v1__process_info__descriptor,
    &sluice__v1__vm_create_request__descriptor,
    &sluice__v1__session_open_request__descriptor,
    &sluice__v1__event_message__descriptor,
};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const ProtobufCMessageDescriptor *desc;
	struct sli_errinfo ei = {0};
	ProtobufCMessage *msg;
	struct sli_arena a, b;
	struct sli_buf out;
	struct sli_slice in;

	if (size < 1)
		return 0;
	desc = kinds[data[0] % SLI_ARRAY_LEN(kinds)];
	in = sli_slice_of(data + 1, size - 1);
	sli_arena_init(&a, 1 << 20);
	sli_arena_init(&b, 4 << 20);
	sli_buf_init(&out, 4 << 20);
	msg = sli_msg_unpack(desc, in, &a, &ei);
	SLI_ASSERT(a.used <=
		   SLI_MAX((size_t)SLI_MSG_ARENA_MIN, in.n * SLI_MSG_BLOWUP));
	if (msg == NULL) {
		SLI_ASSERT(ei.code != SLI_OK && ei.text[0] != '\0');
	} else {
		SLI_ASSERT(in.n <= SLI_MUX_MSG_MAX);
		SLI_ASSERT(sli_msg_pack(msg, 4 << 20, &out) == SLI_OK);
		/* A packed message may be longer than it came (it was in other
		 * words), so only its shape is checked. */
		if (sli_buf_len(&out) <= SLI_MUX_MSG_MAX)
			SLI_ASSERT(sli_msg_check(desc, sli_buf_slice(&out),
				       NULL) == SLI_OK);
	}
	sli_buf_free(&out);
	sli_arena_free(&a);
	sli_arena_free(&b);
	return 0;
}
