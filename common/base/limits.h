/* SPDX-License-Identifier: Apache-2.0 */
/* The table of limits (limits.def) as look-ups, and sets of effective values
 * made from "key = value" texts. A group of values is checked whole: one error
 * record names every violation (DESIGN P5). Thread: any; no state. */
#ifndef SLI_BASE_LIMITS_H
#define SLI_BASE_LIMITS_H

#include "base/err.h"

#define SLI_KIB ((uint64_t)1 << 10)
#define SLI_MIB ((uint64_t)1 << 20)
#define SLI_GIB ((uint64_t)1 << 30)
#define SLI_TIB ((uint64_t)1 << 40)

enum sli_limit {
#define SLI_LIMIT(key, id, unit, def, min, max, scope, comp, doc) SLI_L_##id,
#include "base/limits.def"
#undef SLI_LIMIT
	SLI_L__N
};

enum sli_unit {
	SLI_UNIT_BYTES,
	SLI_UNIT_COUNT,
	SLI_UNIT_MS,
	SLI_UNIT_SECONDS,
	SLI_UNIT_PERCENT,
	SLI_UNIT_BYTES_PER_S,
};

struct sli_limit_info {
	const char *key;
	enum sli_unit unit;
	uint64_t def, min, max;
	const char *scope;
	const char *companions; /* keys, space-separated; "" = none */
	const char *doc;
};

/* One row; static storage. */
const struct sli_limit_info *sli_limit_info(enum sli_limit l);
/* NOT_FOUND for a key that is not in the table. */
SLI_MUST enum sli_err sli_limit_find(const char *key, enum sli_limit *ret_l);
/* "bytes", "count", "ms", "s", "percent", "bytes/s". */
const char *sli_unit_name(enum sli_unit u);
/* The i-th companion (from 0): 1 and its number, or 0 when there is none. */
int sli_limit_companion(enum sli_limit l, unsigned i, enum sli_limit *ret_l);

/* "64MiB", "30s", "80" after the limit's unit. INVALID_ARGUMENT when it cannot
 * be read, OUT_OF_RANGE (with a hit) outside the bounds of the table. */
SLI_MUST enum sli_err sli_limit_parse(enum sli_limit l, const char *value,
    uint64_t *ret_v, struct sli_errinfo *ei);

/* Effective values. */
struct sli_limits {
	uint64_t v[SLI_L__N];
};

struct sli_limit_kv {
	const char *key;
	const char *value;
};

void sli_limits_init(struct sli_limits *ls); /* defaults */
uint64_t sli_limits_get(const struct sli_limits *ls, enum sli_limit l);
/* Set n values and check the result: bounds, and that no companion is lower.
 * Only keys that start with `prefix` ("vm."; "" = all) may be named. All or
 * nothing: on failure *ls is as before and ei has one hit per violation, code
 * RESOURCE_EXHAUSTED; a key or value that cannot be read is INVALID_ARGUMENT
 * at once. */
SLI_MUST enum sli_err sli_limits_apply(struct sli_limits *ls,
    const struct sli_limit_kv *kv, size_t n, const char *prefix,
    struct sli_errinfo *ei);

/* Refuse one thing by name: code RESOURCE_EXHAUSTED, one hit, a text that says
 * which key to raise. Returns the code. */
enum sli_err sli_limit_refuse(struct sli_errinfo *ei, enum sli_limit l,
    uint64_t used, uint64_t requested, uint64_t limit, const char *where);

#endif
