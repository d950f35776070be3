/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsing of numbers, sizes and durations; printable quoting of bytes
 * that came from a peer; ids as text. No locale. */
#ifndef SLI_BASE_STR_H
#define SLI_BASE_STR_H

#include "base/err.h"
#include "base/slice.h"

/* Whole string must be one decimal number. INVALID_ARGUMENT or OUT_OF_RANGE. */
SLI_MUST enum sli_err sli_parse_u64(const char *s, uint64_t *ret_v);
SLI_MUST enum sli_err sli_parse_i64(const char *s, int64_t *ret_v);
/* "4096", "64KiB", "4MiB", "1GiB" (powers of two only). */
SLI_MUST enum sli_err sli_parse_size(const char *s, uint64_t *ret_bytes);
/* "500ms", "10s", "5m", "2h"; a bare number is seconds. */
SLI_MUST enum sli_err sli_parse_duration_ms(const char *s, uint64_t *ret_ms);

/* snprintf that never leaves dst unterminated; returns bytes written. */
size_t sli_snprintf(char *dst, size_t cap, const char *fmt, ...)
    SLI_PRINTF(3, 4);
/* Copy with truncation, always terminated. */
size_t sli_strlcpy(char *dst, const char *src, size_t cap);

/* Escape everything that is not printable ASCII as \xNN, cut with "..." at
 * cap. For logs and errors that quote a peer. Returns dst. */
const char *sli_quote(char *dst, size_t cap, struct sli_slice s);

/* True if the bytes are valid UTF-8 (no surrogates, no overlong forms). */
int sli_utf8_valid(struct sli_slice s);

/* Lower-case hex and RFC 4648 base32 without padding (lower case). dst must
 * hold 2n+1, or (n*8+4)/5+1 bytes. */
void sli_hex(char *dst, const uint8_t *p, size_t n);
void sli_base32(char *dst, const uint8_t *p, size_t n);

#endif
