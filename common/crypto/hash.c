/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE2b-256 over libsodium. Keyless: nothing here authenticates anybody. */
#include "crypto/hash.h"

#include <sodium.h>

static_assert(sizeof(struct sli_hash) >= sizeof(crypto_generichash_state),
    "room for the library's state");
static_assert(_Alignof(struct sli_hash) >= _Alignof(crypto_generichash_state),
    "aligned as the library's state");

enum sli_err
sli_crypto_init(void)
{
	return sodium_init() < 0 ? SLI_E_SYS : SLI_OK;
}

void
sli_hash_init(struct sli_hash *h)
{
	int rv = crypto_generichash_init(
	    (crypto_generichash_state *)(void *)h, NULL, 0, SLI_HASH_LEN);
	SLI_ASSERT(rv == 0);
}

void
sli_hash_update(struct sli_hash *h, struct sli_slice s)
{
	int rv = crypto_generichash_update(
	    (crypto_generichash_state *)(void *)h, s.p, s.n);
	SLI_ASSERT(rv == 0);
}

void
sli_hash_final(struct sli_hash *h, uint8_t ret_sum[SLI_HASH_LEN])
{
	int rv = crypto_generichash_final(
	    (crypto_generichash_state *)(void *)h, ret_sum, SLI_HASH_LEN);
	SLI_ASSERT(rv == 0);
}

void
sli_hash_once(struct sli_slice s, uint8_t ret_sum[SLI_HASH_LEN])
{
	int rv = crypto_generichash(ret_sum, SLI_HASH_LEN, s.p, s.n, NULL, 0);
	SLI_ASSERT(rv == 0);
}
