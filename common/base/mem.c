/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that calls the C library's allocator. Holds one number of
 * global state: the countdown that lets a test fail the n-th allocation. */
#include "base/mem.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t fail_at;

void
sli_mem_fail_at(uint64_t n)
{
	atomic_store(&fail_at, n);
}

static int
must_fail(void)
{
	uint64_t n = atomic_load_explicit(&fail_at, memory_order_relaxed);

	while (n != 0) {
		if (atomic_compare_exchange_weak(&fail_at, &n, n - 1))
			return n == 1;
	}
	return 0;
}

void *
sli_alloc(size_t n)
{
	if (must_fail())
		return NULL;
	return malloc(n != 0 ? n : 1);
}

void *
sli_zalloc(size_t n)
{
	return sli_calloc(1, n);
}

void *
sli_calloc(size_t n, size_t size)
{
	size_t all;

	if (must_fail() || __builtin_mul_overflow(n, size, &all))
		return NULL;
	if (all == 0)
		n = size = 1;
	return calloc(n, size);
}

void *
sli_realloc(void *p, size_t n)
{
	if (must_fail())
		return NULL;
	return realloc(p, n != 0 ? n : 1);
}

void *
sli_memdup(const void *p, size_t n)
{
	void *d = sli_alloc(n);

	if (d != NULL && n != 0)
		memcpy(d, p, n);
	return d;
}

char *
sli_strdup(const char *s)
{
	return sli_memdup(s, strlen(s) + 1);
}

char *
sli_strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *d = sli_alloc(len + 1);

	if (d == NULL)
		return NULL;
	memcpy(d, s, len);
	d[len] = '\0';
	return d;
}

char *
sli_asprintf(const char *fmt, ...)
{
	va_list ap;
	char *d;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return NULL;
	d = sli_alloc((size_t)n + 1);
	if (d == NULL)
		return NULL;
	va_start(ap, fmt);
	n = vsnprintf(d, (size_t)n + 1, fmt, ap);
	va_end(ap);
	if (n < 0) {
		sli_free(d);
		return NULL;
	}
	return d;
}

void
sli_free(void *p)
{
	free(p);
}

/* --- arena ---------------------------------------------------------------*/

#define ARENA_ALIGN     16u
#define ARENA_BLOCK_MIN ((size_t)4096)
/* A reset keeps one block up to this size, so that an arena that is used per
 * message does not go to the allocator each time. */
#define ARENA_KEEP_MAX ((size_t)64 * 1024)

struct sli_arena_block {
	struct sli_arena_block *next;
	size_t size; /* of data */
	size_t used;
	size_t pad;
	unsigned char data[];
};

_Static_assert(sizeof(struct sli_arena_block) % ARENA_ALIGN == 0,
    "arena data must be aligned");

void
sli_arena_init(struct sli_arena *a, size_t cap)
{
	*a = (struct sli_arena){.cap = cap};
}

static struct sli_arena_block *
arena_grow(struct sli_arena *a, size_t n)
{
	size_t size = ARENA_BLOCK_MIN;
	struct sli_arena_block *b;

	if (a->head != NULL)
		size = SLI_MIN(a->head->size * 2, ARENA_KEEP_MAX);
	size = SLI_MAX(size, n);
	b = sli_alloc(sizeof(*b) + size);
	if (b == NULL)
		return NULL;
	b->size = size;
	b->used = 0;
	b->next = a->head;
	a->head = b;
	return b;
}

void *
sli_arena_alloc(struct sli_arena *a, size_t n)
{
	struct sli_arena_block *b = a->head;
	void *p;

	if (n > a->cap)
		return NULL;
	/* Empty pieces count too, or a message of millions of them is free. */
	n = n == 0 ? ARENA_ALIGN
		   : (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (n > a->cap - a->used)
		return NULL;
	if (b == NULL || b->size - b->used < n) {
		b = arena_grow(a, n);
		if (b == NULL)
			return NULL;
	}
	p = b->data + b->used;
	b->used += n;
	a->used += n;
	return p;
}

char *
sli_arena_strdup(struct sli_arena *a, const char *s)
{
	size_t n = strlen(s) + 1;
	char *d = sli_arena_alloc(a, n);

	if (d != NULL)
		memcpy(d, s, n);
	return d;
}

void
sli_arena_reset(struct sli_arena *a)
{
	struct sli_arena_block *keep = NULL;

	while (a->head != NULL) {
		struct sli_arena_block *b = a->head;

		a->head = b->next;
		if (keep == NULL && b->size <= ARENA_KEEP_MAX)
			keep = b;
		else
			sli_free(b);
	}
	if (keep != NULL) {
		keep->next = NULL;
		keep->used = 0;
	}
	a->head = keep;
	a->used = 0;
}

void
sli_arena_free(struct sli_arena *a)
{
	while (a->head != NULL) {
		struct sli_arena_block *b = a->head;

		a->head = b->next;
		sli_free(b);
	}
	a->used = 0;
}
