/* SPDX-License-Identifier: Apache-2.0 */
/* One link of the hash chain; chain.h has the formula. */
#include "store/chain.h"

#include "base/attr.h"

#include <string.h>

static uint8_t *
le64(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		*p++ = (uint8_t)(v >> (8 * i));
	return p;
}

void
store_chain_step(uint8_t chain[SLI_HASH_BYTES], uint64_t seq,
    const struct sli_event *ev, const uint8_t body_hash[SLI_HASH_BYTES])
{
	uint8_t in[SLI_HASH_BYTES + 5 * 8 + 2 + SLI_HASH_BYTES];
	uint8_t *p = in + SLI_HASH_BYTES;

	memcpy(in, chain, SLI_HASH_BYTES);
	p = le64(p, seq);
	*p++ = ev->kind;
	*p++ = ev->flags;
	p = le64(p, ev->turn);
	p = le64(p, ev->superseded);
	p = le64(p, (uint64_t)ev->at_ms);
	p = le64(p, ev->length);
	memcpy(p, body_hash, SLI_HASH_BYTES);
	p += SLI_HASH_BYTES;
	SLI_ASSERT(p == in + sizeof(in));
	sli_hash_once(sli_slice_of(in, sizeof(in)), chain);
}
