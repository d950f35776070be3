/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsing and printable text. No locale, no partial results: what is not
 * wholly understood is refused. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Digits from *s on; moves *s behind them. */
static enum sli_err
digits(const char **s, uint64_t *ret_v)
{
	const char *p = *s;
	uint64_t v = 0;

	if (*p < '0' || *p > '9')
		return SLI_E_INVALID_ARGUMENT;
	for (; *p >= '0' && *p <= '9'; p++) {
		unsigned d = (unsigned)(*p - '0');

		if (v > (UINT64_MAX - d) / 10) {
			/* The rest must still be a number to be "too big". */
			while (*p >= '0' && *p <= '9')
				p++;
			*s = p;
			return SLI_E_OUT_OF_RANGE;
		}
		v = v * 10 + d;
	}
	*s = p;
	*ret_v = v;
	return SLI_OK;
}

enum sli_err
sli_parse_u64(const char *s, uint64_t *ret_v)
{
	uint64_t v = 0;
	enum sli_err e = digits(&s, &v);

	if (e == SLI_E_INVALID_ARGUMENT || *s != '\0')
		return SLI_E_INVALID_ARGUMENT;
	if (e == SLI_OK)
		*ret_v = v;
	return e;
}

enum sli_err
sli_parse_i64(const char *s, int64_t *ret_v)
{
	int neg = *s == '-';
	uint64_t v = 0;
	enum sli_err e = sli_parse_u64(s + neg, &v);

	if (e != SLI_OK)
		return e;
	if (v > (uint64_t)INT64_MAX + (unsigned)neg)
		return SLI_E_OUT_OF_RANGE;
	*ret_v = neg ? (int64_t)(0 - v) : (int64_t)v;
	return SLI_OK;
}

struct suffix {
	const char *name;
	uint64_t factor;
};

/* A number and one of the suffixes; the table ends with a NULL name. */
static enum sli_err
parse_with_suffix(const char *s, const struct suffix *table, uint64_t *ret_v)
{
	uint64_t v = 0;
	enum sli_err e = digits(&s, &v);

	if (e == SLI_E_INVALID_ARGUMENT)
		return e;
	for (; table->name != NULL; table++) {
		if (strcmp(s, table->name) != 0)
			continue;
		if (e != SLI_OK || v > UINT64_MAX / table->factor)
			return SLI_E_OUT_OF_RANGE;
		*ret_v = v * table->factor;
		return SLI_OK;
	}
	return SLI_E_INVALID_ARGUMENT;
}

enum sli_err
sli_parse_size(const char *s, uint64_t *ret_bytes)
{
	static const struct suffix sizes[] = {
	    {"",    1                },
	    {"B",   1                },
	    {"KiB", (uint64_t)1 << 10},
	    {"MiB", (uint64_t)1 << 20},
	    {"GiB", (uint64_t)1 << 30},
	    {"TiB", (uint64_t)1 << 40},
	    {NULL,  0                },
	};

	return parse_with_suffix(s, sizes, ret_bytes);
}

enum sli_err
sli_parse_duration_ms(const char *s, uint64_t *ret_ms)
{
	static const struct suffix times[] = {
	    {"",   1000          },
	    {"ms", 1             },
	    {"s",  1000          },
	    {"m",  60 * 1000     },
	    {"h",  60 * 60 * 1000},
	    {NULL, 0             },
	};

	return parse_with_suffix(s, times, ret_ms);
}

size_t
sli_snprintf(char *dst, size_t cap, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (cap == 0)
		return 0;
	va_start(ap, fmt);
	n = vsnprintf(dst, cap, fmt, ap);
	va_end(ap);
	if (n < 0) {
		dst[0] = '\0';
		return 0;
	}
	return SLI_MIN((size_t)n, cap - 1);
}

size_t
sli_strlcpy(char *dst, const char *src, size_t cap)
{
	size_t n;

	if (cap == 0)
		return 0;
	n = strnlen(src, cap - 1);
	memcpy(dst, src, n);
	dst[n] = '\0';
	return n;
}

static size_t
quoted_len(uint8_t c)
{
	return c >= 0x20 && c < 0x7f && c != '\\' && c != '"' ? 1 : 4;
}

const char *
sli_quote(char *dst, size_t cap, struct sli_slice s)
{
	size_t at = 0, whole = 0, room, i;

	if (cap == 0)
		return dst;
	for (i = 0; i < s.n && whole < cap; i++)
		whole += quoted_len(s.p[i]);
	room = whole < cap ? cap - 1 : cap - SLI_MIN(cap, 4);
	for (i = 0; i < s.n && at + quoted_len(s.p[i]) <= room; i++) {
		if (quoted_len(s.p[i]) == 1) {
			dst[at++] = (char)s.p[i];
			continue;
		}
		dst[at++] = '\\';
		dst[at++] = 'x';
		sli_hex(dst + at, s.p + i, 1);
		at += 2;
	}
	for (int d = 0; i < s.n && d < 3 && at < cap - 1; d++)
		dst[at++] = '.';
	dst[at] = '\0';
	return dst;
}

/* Length of the UTF-8 sequence at p (n > 0 bytes there), 0 when it is bad. */
static size_t
utf8_step(const uint8_t *p, size_t n)
{
	uint8_t lo = 0x80, hi = 0xbf;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		len = 2;
	} else if (p[0] >= 0xe0 && p[0] <= 0xef) {
		len = 3;
		if (p[0] == 0xe0)
			lo = 0xa0; /* overlong */
		else if (p[0] == 0xed)
			hi = 0x9f; /* surrogates */
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		len = 4;
		if (p[0] == 0xf0)
			lo = 0x90; /* overlong */
		else if (p[0] == 0xf4)
			hi = 0x8f; /* above U+10FFFF */
	} else {
		return 0;
	}
	if (n < len || p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	return len;
}

int
sli_utf8_valid(struct sli_slice s)
{
	size_t i = 0;

	while (i < s.n) {
		uint64_t w;
		size_t n;

		/* Lines of many megabytes are mostly ASCII. */
		if (s.n - i >= sizeof(w)) {
			memcpy(&w, s.p + i, sizeof(w));
			if ((w & UINT64_C(0x8080808080808080)) == 0) {
				i += sizeof(w);
				continue;
			}
		}
		n = utf8_step(s.p + i, s.n - i);
		if (n == 0)
			return 0;
		i += n;
	}
	return 1;
}

void
sli_hex(char *dst, const uint8_t *p, size_t n)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*dst++ = hex[p[i] >> 4];
		*dst++ = hex[p[i] & 15];
	}
	*dst = '\0';
}

void
sli_base32(char *dst, const uint8_t *p, size_t n)
{
	static const char abc[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint32_t acc = 0;
	unsigned bits = 0;

	for (size_t i = 0; i < n; i++) {
		acc = (acc << 8 | p[i]) & 0xffff;
		bits += 8;
		while (bits >= 5) {
			bits -= 5;
			*dst++ = abc[(acc >> bits) & 31];
		}
	}
	if (bits > 0)
		*dst++ = abc[(acc << (5 - bits)) & 31];
	*dst = '\0';
}
