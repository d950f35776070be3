/* SPDX-License-Identifier: Apache-2.0 */
/* The error list as look-ups, and filling of the caller's error record. Never
 * allocates, never logs. */
#include "base/err.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct err_row {
	enum sli_err num;
	enum sli_err_class cls;
	const char *name;
	const char *text;
};

static const struct err_row rows[] = {
#define SLI_ERR(num, name, cls, text) \
	{SLI_E_##name, SLI_CLASS_##cls, #name, text},
#include "base/err.list.h"
#undef SLI_ERR
};

static const struct err_row *
find(enum sli_err e)
{
	for (size_t i = 0; i < SLI_ARRAY_LEN(rows); i++) {
		if (rows[i].num == e)
			return &rows[i];
	}
	return NULL;
}

const char *
sli_err_name(enum sli_err e)
{
	const struct err_row *r = find(e);

	return r ? r->name : "UNKNOWN";
}

const char *
sli_err_text(enum sli_err e)
{
	const struct err_row *r = find(e);

	return r ? r->text : "unknown error";
}

enum sli_err_class
sli_err_class(enum sli_err e)
{
	const struct err_row *r = find(e);

	return r ? r->cls : SLI_CLASS_ENV;
}

int
sli_err_retryable(enum sli_err e)
{
	return sli_err_class(e) == SLI_CLASS_RESOURCE || e == SLI_E_ABORTED ||
	       e == SLI_E_INTERRUPTED;
}

enum sli_err
sli_fail(struct sli_errinfo *ei, enum sli_err code, int sys, const char *where,
    const char *fmt, ...)
{
	va_list ap;

	if (ei == NULL)
		return code;
	memset(ei, 0, sizeof(*ei));
	ei->code = code;
	ei->sys = sys;
	sli_strlcpy(ei->where, where, sizeof(ei->where));
	va_start(ap, fmt);
	(void)vsnprintf(ei->text, sizeof(ei->text), fmt, ap);
	va_end(ap);
	return code;
}

void
sli_errinfo_reason(struct sli_errinfo *ei, const char *reason)
{
	if (ei != NULL)
		sli_strlcpy(ei->reason, reason, sizeof(ei->reason));
}

void
sli_errinfo_hit(struct sli_errinfo *ei, const char *key, uint64_t used,
    uint64_t requested, uint64_t limit)
{
	if (ei == NULL)
		return;
	if (ei->nhits < SLI_LIMIT_HITS_MAX) {
		ei->hits[ei->nhits] = (struct sli_limit_hit){
		    .key = key,
		    .used = used,
		    .requested = requested,
		    .limit = limit,
		};
	}
	ei->nhits++;
}

const char *
sli_errinfo_str(const struct sli_errinfo *ei, char *dst, size_t cap)
{
	const char *sys = ei->sys != 0 ? strerrordesc_np(ei->sys) : NULL;
	const char *text =
	    ei->text[0] != '\0' ? ei->text : sli_err_text(ei->code);

	if (ei->sys != 0 && sys == NULL)
		sys = "unknown errno";
	if (sys != NULL) {
		sli_snprintf(
		    dst, cap, "%s: %s (%s)", sli_err_name(ei->code), text, sys);
	} else {
		sli_snprintf(dst, cap, "%s: %s", sli_err_name(ei->code), text);
	}
	return dst;
}

void
sli_assert_failed(const char *cond, const char *file, int line)
{
	char msg[256];
	size_t n = sli_snprintf(msg, sizeof(msg),
	    "err base assert cond=\"%s\" at=%s:%d\n", cond, file, line);

	/* Straight to the descriptor: stdio's state may be what is broken. */
	if (write(STDERR_FILENO, msg, n) < 0) {
		/* nobody listens; abort all the same */
	}
	abort();
}
