/* SPDX-License-Identifier: Apache-2.0 */
/* A borrowed run of bytes. Owns nothing; valid as long as its owner says. */
#ifndef SLI_BASE_SLICE_H
#define SLI_BASE_SLICE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sli_slice {
	const uint8_t *p;
	size_t n;
};

static inline struct sli_slice
sli_slice_of(const void *p, size_t n)
{
	return (struct sli_slice){(const uint8_t *)p, n};
}

static inline struct sli_slice
sli_slice_str(const char *s)
{
	return sli_slice_of(s, s ? strlen(s) : 0);
}

static inline int
sli_slice_eq(struct sli_slice a, struct sli_slice b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline int
sli_slice_is(struct sli_slice a, const char *s)
{
	return sli_slice_eq(a, sli_slice_str(s));
}

#endif
