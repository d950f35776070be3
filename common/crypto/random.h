/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes from the kernel, and text ids made of them. Thread: any. */
#ifndef SLI_CRYPTO_RANDOM_H
#define SLI_CRYPTO_RANDOM_H

#include "base/attr.h"
#include "base/err.h"

/* Initialize the crypto library; once at the start of a program, before any
 * sandbox hides the kernel's random source. May be called again. */
SLI_MUST enum sli_err sli_crypto_init(struct sli_errinfo *ei);

/* Never fails; stops the program when the kernel gives no random bytes. */
void sli_random(void *p, size_t n);

#define SLI_ID_RANDOM_CHARS 26 /* 128 bits in base32 */

/* "vm_" + 26 characters of a-z2-7, NUL-terminated. dst holds SLI_ID_MAX
 * (base/event.h) bytes; the prefix is at most 16 characters. */
void sli_id_make(char *dst, const char *prefix);

#endif
