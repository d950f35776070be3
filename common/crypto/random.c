/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes and ids, through the crypto library. */
#include "crypto/random.h"

#include "base/event.h"
#include "base/str.h"

#include <sodium.h>
#include <string.h>

enum sli_err
sli_crypto_init(struct sli_errinfo *ei)
{
	if (sodium_init() < 0)
		return sli_fail(ei, SLI_E_SYS, 0, "crypto.init",
		    "the crypto library found no random source");
	return SLI_OK;
}

void
sli_random(void *p, size_t n)
{
	randombytes_buf(p, n);
}

void
sli_id_make(char *dst, const char *prefix)
{
	uint8_t r[16];
	size_t n = strlen(prefix);

	SLI_ASSERT(n <= 16 && n + SLI_ID_RANDOM_CHARS + 1 <= SLI_ID_MAX);
	memcpy(dst, prefix, n);
	sli_random(r, sizeof(r));
	sli_base32(dst + n, r, sizeof(r));
}
