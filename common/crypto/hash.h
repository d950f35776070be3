/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE2b-256, whole and in pieces: the hash chain of the history, checksums
 * of stored rows, prompt hashes. Only common/crypto sees <sodium.h>. */
#ifndef SLI_CRYPTO_HASH_H
#define SLI_CRYPTO_HASH_H

#include "base/err.h"
#include "base/slice.h"

#define SLI_HASH_LEN 32

/* Once before anything of this room; idempotent. SYS when the kernel gives no
 * randomness. Thread: any. */
SLI_MUST enum sli_err sli_crypto_init(void);

struct sli_hash {
	_Alignas(64) uint8_t state[384];
};

void sli_hash_init(struct sli_hash *h);
void sli_hash_update(struct sli_hash *h, struct sli_slice s);
/* h is spent after it. */
void sli_hash_final(struct sli_hash *h, uint8_t ret_sum[SLI_HASH_LEN]);
void sli_hash_once(struct sli_slice s, uint8_t ret_sum[SLI_HASH_LEN]);

#endif
