/* SPDX-License-Identifier: Apache-2.0 */
/* A byte queue: append at the end, consume at the front, contiguous view.
 * Bounded at birth. Not thread-safe. */
#ifndef SLI_BASE_BUF_H
#define SLI_BASE_BUF_H

#include "base/err.h"
#include "base/slice.h"

/* pos <= len <= cap <= max; bytes [pos, len) are the content. */
struct sli_buf {
	uint8_t *mem;
	size_t pos;
	size_t len;
	size_t cap;
	size_t max;
};

void sli_buf_init(struct sli_buf *b, size_t max);
void sli_buf_free(struct sli_buf *b);
/* Forget the content, keep the memory. */
void sli_buf_reset(struct sli_buf *b);
/* Give the memory back when empty (idle connections hold nothing). */
void sli_buf_trim(struct sli_buf *b);

static inline size_t
sli_buf_len(const struct sli_buf *b)
{
	return b->len - b->pos;
}

static inline const uint8_t *
sli_buf_data(const struct sli_buf *b)
{
	return b->mem != NULL ? b->mem + b->pos : NULL;
}

static inline struct sli_slice
sli_buf_slice(const struct sli_buf *b)
{
	return sli_slice_of(sli_buf_data(b), b->len - b->pos);
}

/* Room for n more bytes at the returned place, or NULL (over max or out of
 * memory). Commit with sli_buf_added(). */
SLI_MUST uint8_t *sli_buf_reserve(struct sli_buf *b, size_t n);
void sli_buf_added(struct sli_buf *b, size_t n);
/* NOMEM, or RESOURCE_EXHAUSTED when max would be passed; then unchanged. */
SLI_MUST enum sli_err sli_buf_append(
    struct sli_buf *b, const void *p, size_t n);
SLI_MUST enum sli_err sli_buf_printf(struct sli_buf *b, const char *fmt, ...)
    SLI_PRINTF(2, 3);
/* Drop n <= len bytes from the front. */
void sli_buf_consume(struct sli_buf *b, size_t n);

#endif
