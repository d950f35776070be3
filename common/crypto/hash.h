/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE2b-256, whole and in pieces. The hash of history chains, prompt
 * idempotency and state files. Not a password hash, not a MAC. */
#ifndef SLI_CRYPTO_HASH_H
#define SLI_CRYPTO_HASH_H

#include "base/attr.h"
#include "base/slice.h"

#define SLI_HASH_BYTES 32

/* In place; holds no heap. May be copied to fork a running hash. */
struct sli_hash {
	_Alignas(64) uint8_t state[384];
};

void sli_hash_init(struct sli_hash *h);
void sli_hash_update(struct sli_hash *h, const void *p, size_t n);
/* Ends it; sli_hash_init() before the next use. */
void sli_hash_final(struct sli_hash *h, uint8_t ret_hash[SLI_HASH_BYTES]);
void sli_hash_once(struct sli_slice s, uint8_t ret_hash[SLI_HASH_BYTES]);

#endif
