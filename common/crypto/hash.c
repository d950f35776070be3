/* SPDX-License-Identifier: Apache-2.0 */
/* The library's generic hash behind our own struct, so that its types stay in
 * this room. */
#include "crypto/hash.h"

#include "base/attr.h"

#include <sodium.h>

_Static_assert(sizeof(struct sli_hash) >= sizeof(crypto_generichash_state),
    "sli_hash is too small for the library's state");
_Static_assert(_Alignof(struct sli_hash) == 64, "the library's state wants 64");

static crypto_generichash_state *
state(struct sli_hash *h)
{
	return (crypto_generichash_state *)(void *)h->state;
}

void
sli_hash_init(struct sli_hash *h)
{
	int bad = crypto_generichash_init(state(h), NULL, 0, SLI_HASH_BYTES);

	SLI_ASSERT(bad == 0);
}

void
sli_hash_update(struct sli_hash *h, const void *p, size_t n)
{
	int bad = n != 0 ? crypto_generichash_update(state(h), p, n) : 0;

	SLI_ASSERT(bad == 0);
}

void
sli_hash_final(struct sli_hash *h, uint8_t ret_hash[SLI_HASH_BYTES])
{
	int bad = crypto_generichash_final(state(h), ret_hash, SLI_HASH_BYTES);

	SLI_ASSERT(bad == 0);
}

void
sli_hash_once(struct sli_slice s, uint8_t ret_hash[SLI_HASH_BYTES])
{
	struct sli_hash h;

	sli_hash_init(&h);
	sli_hash_update(&h, s.p, s.n);
	sli_hash_final(&h, ret_hash);
}
