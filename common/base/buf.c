/* SPDX-License-Identifier: Apache-2.0 */
/* The byte queue. Growth doubles up to the maximum given at birth; the front is
 * closed up only when that is cheaper than what has been consumed. */
#include "base/buf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BUF_MIN ((size_t)256)

static void
check(const struct sli_buf *b)
{
	SLI_ASSERT(b->pos <= b->len && b->len <= b->cap && b->cap <= b->max);
}

void
sli_buf_init(struct sli_buf *b, size_t max)
{
	*b = (struct sli_buf){.max = max};
}

void
sli_buf_free(struct sli_buf *b)
{
	sli_free(b->mem);
	*b = (struct sli_buf){.max = b->max};
}

void
sli_buf_reset(struct sli_buf *b)
{
	b->pos = b->len = 0;
}

void
sli_buf_trim(struct sli_buf *b)
{
	if (sli_buf_len(b) == 0)
		sli_buf_free(b);
}

static void
close_up(struct sli_buf *b)
{
	size_t n = sli_buf_len(b);

	if (b->mem != NULL && b->pos != 0)
		memmove(b->mem, b->mem + b->pos, n);
	b->pos = 0;
	b->len = n;
}

uint8_t *
sli_buf_reserve(struct sli_buf *b, size_t n)
{
	size_t have = sli_buf_len(b);
	size_t cap;
	uint8_t *mem;

	check(b);
	if (n > b->max - have)
		return NULL;
	if (b->mem != NULL && b->cap - b->len >= n)
		return b->mem + b->len;
	/* Moving no more bytes than were consumed costs O(1) a byte; else grow,
	 * unless the maximum leaves no choice. */
	if (b->mem != NULL && (b->pos >= have || b->cap == b->max)) {
		close_up(b);
		if (b->cap - b->len >= n)
			return b->mem + b->len;
	}
	cap = b->cap > BUF_MIN / 2 ? b->cap * 2 : BUF_MIN;
	while (cap < have + n && cap <= b->max / 2)
		cap *= 2;
	if (cap < have + n || cap > b->max)
		cap = b->max;
	close_up(b);
	mem = sli_realloc(b->mem, cap);
	if (mem == NULL)
		return NULL;
	b->mem = mem;
	b->cap = cap;
	return b->mem + b->len;
}

void
sli_buf_added(struct sli_buf *b, size_t n)
{
	SLI_ASSERT(n <= b->cap - b->len);
	b->len += n;
}

enum sli_err
sli_buf_append(struct sli_buf *b, const void *p, size_t n)
{
	uint8_t *d;

	if (n == 0)
		return SLI_OK;
	if (n > b->max - sli_buf_len(b))
		return SLI_E_RESOURCE_EXHAUSTED;
	d = sli_buf_reserve(b, n);
	if (d == NULL)
		return SLI_E_NOMEM;
	memcpy(d, p, n);
	b->len += n;
	return SLI_OK;
}

enum sli_err
sli_buf_printf(struct sli_buf *b, const char *fmt, ...)
{
	va_list ap;
	uint8_t *d;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return SLI_E_INTERNAL;
	/* One more than is kept: vsnprintf writes a NUL. */
	if ((size_t)n + 1 > b->max - sli_buf_len(b))
		return SLI_E_RESOURCE_EXHAUSTED;
	d = sli_buf_reserve(b, (size_t)n + 1);
	if (d == NULL)
		return SLI_E_NOMEM;
	va_start(ap, fmt);
	(void)vsnprintf((char *)d, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return SLI_OK;
}

void
sli_buf_consume(struct sli_buf *b, size_t n)
{
	SLI_ASSERT(n <= sli_buf_len(b));
	b->pos += n;
	if (b->pos == b->len)
		b->pos = b->len = 0;
}
