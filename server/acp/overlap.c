/* SPDX-License-Identifier: Apache-2.0 */
/* The longest suffix of one text that is a prefix of another. The common case,
 * a window that moved by a line, is found by searching the first bytes of the
 * new text in the old one; texts that repeat themselves would make that
 * quadratic, so after some tries the failure function takes over. */
#include "acp/overlap.h"

#include "base/attr.h"
#include "base/mem.h"

#define PROBE 64
#define TRIES 32

/* Is there a boundary between characters of the JSON text before a[pos]? */
int
json_boundary(struct sli_slice a, size_t pos)
{
	size_t i = pos, n = 0;

	if (pos < a.n && (a.p[pos] & 0xc0) == 0x80)
		return 0;
	/* an odd run of backslashes just before pos escapes a[pos] */
	for (; i && a.p[i - 1] == '\\'; i--)
		n++;
	if (n % 2)
		return 0;
	/* \uXXXX: is there one that begins 2 to 5 bytes before? */
	for (size_t d = 2; d <= 5 && d <= pos; d++) {
		if (a.p[pos - d] != '\\' || a.p[pos - d + 1] != 'u')
			continue;
		for (i = pos - d, n = 0; i && a.p[i - 1] == '\\'; i--)
			n++;
		if (n % 2 == 0)
			return 0;
	}
	return 1;
}

/* Failure function of the first n bytes of b, then the run of a through it:
 * the state at the end is the longest match. 0 when out of memory. */
static size_t
longest(struct sli_slice a, struct sli_slice b)
{
	size_t n = SLI_MIN(a.n, b.n), k = 0;
	uint32_t *f;

	if (!n || n >= UINT32_MAX)
		return 0;
	f = sli_calloc(n, sizeof(*f));
	if (!f)
		return 0;
	for (size_t i = 1; i < n; i++) {
		while (k && b.p[i] != b.p[k])
			k = f[k - 1];
		k += b.p[i] == b.p[k];
		f[i] = (uint32_t)k;
	}
	k = 0;
	/* the first byte may not match: the whole of a is no suffix here */
	for (size_t i = 1; i < a.n; i++) {
		while (k && (k == n || a.p[i] != b.p[k]))
			k = f[k - 1];
		k += a.p[i] == b.p[k];
	}
	sli_free(f);
	return k;
}

size_t
overlap_slide(struct sli_slice a, struct sli_slice b)
{
	size_t min = a.n - a.n / 2, slide = OVERLAP_NONE;
	const uint8_t *p = a.p + 1, *end = a.p + a.n - min + 1, *hit;

	if (a.n <= b.n && (!a.n || memcmp(a.p, b.p, a.n) == 0))
		return 0;
	if (b.n < min || a.n < 2)
		return OVERLAP_NONE;
	if (min >= PROBE) {
		for (unsigned i = 0; i < TRIES; i++, p = hit + 1) {
			hit = p < end ? memmem(p, (size_t)(end - p) + PROBE - 1,
					    b.p, PROBE)
				      : NULL;
			if (!hit)
				return OVERLAP_NONE;
			slide = (size_t)(hit - a.p);
			if (a.n - slide <= b.n &&
			    memcmp(hit, b.p, a.n - slide) == 0)
				return json_boundary(a, slide) ? slide
							       : OVERLAP_NONE;
		}
	}
	slide = a.n - longest(a, b);
	if (a.n - slide < min || !json_boundary(a, slide))
		return OVERLAP_NONE;
	return slide;
}
