/* SPDX-License-Identifier: Apache-2.0 */
/* Error numbers, their names and texts, and the caller-owned error record. */
#ifndef SLI_BASE_ERR_H
#define SLI_BASE_ERR_H

#include "base/attr.h"

#include <stdint.h>

enum sli_err {
#define SLI_ERR(num, name, cls, text) SLI_E_##name = (num),
#include "base/err.list.h"
#undef SLI_ERR
};

/* SLI_E_OK reads badly after a return. */
#define SLI_OK SLI_E_OK

enum sli_err_class {
	SLI_CLASS_NONE,
	SLI_CLASS_BUG,
	SLI_CLASS_PEER,
	SLI_CLASS_RESOURCE,
	SLI_CLASS_ENV,
	SLI_CLASS_USER,
};

/* One limit that a request violates (DESIGN P5). `key` points at static
 * storage (limits.def). Units are the limit's own. */
struct sli_limit_hit {
	const char *key;
	uint64_t used;
	uint64_t requested;
	uint64_t limit;
};

#define SLI_LIMIT_HITS_MAX 8

/* Lives on the caller's stack; never allocates. Set only on failure. */
struct sli_errinfo {
	enum sli_err code;
	int sys;         /* errno, or 0 */
	char where[32];  /* room.function or step, for logs */
	char reason[40]; /* machine-readable reason code, or "" */
	char text[232];  /* one sentence for a person; says what to do */
	unsigned nhits;  /* all violations of a checked group of limits */
	struct sli_limit_hit hits[SLI_LIMIT_HITS_MAX];
};

/* Name without prefix, e.g. "NOT_FOUND"; "UNKNOWN" for a foreign number. */
const char *sli_err_name(enum sli_err e);
/* The list's one-line text. */
const char *sli_err_text(enum sli_err e);
enum sli_err_class sli_err_class(enum sli_err e);
/* True when the same call may succeed later without change. */
int sli_err_retryable(enum sli_err e);

/* Fill *ei (may be NULL) and return code. `sys` is errno or 0; its text is
 * appended by sli_errinfo_str(), not here. */
enum sli_err sli_fail(struct sli_errinfo *ei, enum sli_err code, int sys,
    const char *where, const char *fmt, ...) SLI_PRINTF(5, 6);

/* Set the machine-readable reason on a filled record. */
void sli_errinfo_reason(struct sli_errinfo *ei, const char *reason);

/* Add one violated limit; beyond SLI_LIMIT_HITS_MAX they are counted only. */
void sli_errinfo_hit(struct sli_errinfo *ei, const char *key, uint64_t used,
    uint64_t requested, uint64_t limit);

/* "NAME: text (errno text)" into dst, always NUL-terminated; returns dst. */
const char *sli_errinfo_str(
    const struct sli_errinfo *ei, char *dst, size_t cap);

#endif
