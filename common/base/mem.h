/* SPDX-License-Identifier: Apache-2.0 */
/* Checked allocation and a bounded arena. All heap memory of the product comes
 * from here, so that tests can fail the n-th allocation. */
#ifndef SLI_BASE_MEM_H
#define SLI_BASE_MEM_H

#include "base/attr.h"

#include <stdint.h>

/* Return NULL when memory is out or n * size overflows. Thread: any. */
SLI_MUST void *sli_alloc(size_t n);
SLI_MUST void *sli_zalloc(size_t n);
SLI_MUST void *sli_calloc(size_t n, size_t size);
SLI_MUST void *sli_realloc(void *p, size_t n);
SLI_MUST void *sli_memdup(const void *p, size_t n);
SLI_MUST char *sli_strdup(const char *s);
SLI_MUST char *sli_strndup(const char *s, size_t n);
SLI_MUST char *sli_asprintf(const char *fmt, ...) SLI_PRINTF(1, 2);
void sli_free(void *p);

/* Test hook: the n-th allocation from now fails once (0 = off). */
void sli_mem_fail_at(uint64_t n);

/* A bump allocator with a hard cap; one _reset or _free releases all. */
struct sli_arena {
	struct sli_arena_block *head;
	size_t used; /* bytes handed out */
	size_t cap;  /* most that may ever be handed out */
};

void sli_arena_init(struct sli_arena *a, size_t cap);
/* Size 0 gives a valid pointer; NULL past the cap. 16-byte aligned. */
SLI_MUST void *sli_arena_alloc(struct sli_arena *a, size_t n);
SLI_MUST char *sli_arena_strdup(struct sli_arena *a, const char *s);
void sli_arena_reset(struct sli_arena *a);
void sli_arena_free(struct sli_arena *a);

#endif
