/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler attributes and the few macros every file may use. No code. */
#ifndef SLI_BASE_ATTR_H
#define SLI_BASE_ATTR_H

#include <assert.h>
#include <stddef.h>

#define SLI_MUST              __attribute__((warn_unused_result))
#define SLI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SLI_UNUSED            __attribute__((unused))
#define SLI_NORETURN          __attribute__((noreturn))
#define SLI_FALLTHROUGH       __attribute__((fallthrough))
#define SLI_ARRAY_LEN(a)      (sizeof(a) / sizeof((a)[0]))
#define SLI_CONTAINER_OF(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define SLI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define SLI_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Invariant checks that stay on in release builds: a broken invariant is our
 * bug, and going on would be worse than stopping. */
#define SLI_ASSERT(cond)                                              \
	do {                                                          \
		if (!(cond))                                          \
			sli_assert_failed(#cond, __FILE__, __LINE__); \
	} while (0)

SLI_NORETURN void sli_assert_failed(
    const char *cond, const char *file, int line);

#endif
