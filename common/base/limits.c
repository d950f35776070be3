/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in limits.def and checked sets of values. Decides nothing itself:
 * who may set what, and what happens at a limit, is the caller's. */
#include "base/limits.h"

#include "base/str.h"

#include <string.h>

static const struct sli_limit_info infos[SLI_L__N] = {
#define SLI_LIMIT(key, id, unit, def, min, max, scope, comp, doc) \
	[SLI_L_##id] = {key, SLI_UNIT_##unit, def, min, max, scope, comp, doc},
#include "base/limits.def"
#undef SLI_LIMIT
};

#define SLI_LIMIT(key, id, unit, def, min, max, scope, comp, doc) \
	_Static_assert((min) + 0 <= (def) && (def) <= (max), key);
#include "base/limits.def"
#undef SLI_LIMIT

const struct sli_limit_info *
sli_limit_info(enum sli_limit l)
{
	SLI_ASSERT(l < SLI_L__N);
	return &infos[l];
}

static int
find_n(const char *key, size_t n, enum sli_limit *ret_l)
{
	for (unsigned i = 0; i < SLI_L__N; i++) {
		if (strlen(infos[i].key) == n &&
		    memcmp(infos[i].key, key, n) == 0) {
			*ret_l = (enum sli_limit)i;
			return 1;
		}
	}
	return 0;
}

enum sli_err
sli_limit_find(const char *key, enum sli_limit *ret_l)
{
	return find_n(key, strlen(key), ret_l) ? SLI_OK : SLI_E_NOT_FOUND;
}

const char *
sli_unit_name(enum sli_unit u)
{
	static const char *const names[] = {
	    [SLI_UNIT_BYTES] = "bytes",
	    [SLI_UNIT_COUNT] = "count",
	    [SLI_UNIT_MS] = "ms",
	    [SLI_UNIT_SECONDS] = "s",
	    [SLI_UNIT_PERCENT] = "percent",
	    [SLI_UNIT_BYTES_PER_S] = "bytes/s",
	};

	return names[u];
}

int
sli_limit_companion(enum sli_limit l, unsigned i, enum sli_limit *ret_l)
{
	const char *p = sli_limit_info(l)->companions;

	for (;;) {
		size_t n = strcspn(p, " ");

		if (n == 0)
			return 0;
		if (i == 0) {
			int ok = find_n(p, n, ret_l);

			SLI_ASSERT(ok);
			return 1;
		}
		i--;
		p += n;
		p += *p == ' ';
	}
}

static enum sli_err
parse_unit(enum sli_unit u, const char *value, uint64_t *ret_v)
{
	enum sli_err e;
	uint64_t v;

	switch (u) {
	case SLI_UNIT_BYTES:
	case SLI_UNIT_BYTES_PER_S:
		return sli_parse_size(value, ret_v);
	case SLI_UNIT_MS:
		/* The key says ms: so does a bare number under it. */
		if (sli_parse_u64(value, ret_v) == SLI_OK)
			return SLI_OK;
		return sli_parse_duration_ms(value, ret_v);
	case SLI_UNIT_SECONDS:
		e = sli_parse_duration_ms(value, &v);
		if (e == SLI_OK)
			*ret_v = v / 1000;
		return e;
	case SLI_UNIT_COUNT:
	case SLI_UNIT_PERCENT:
		break;
	}
	return sli_parse_u64(value, ret_v);
}

static enum sli_err
unreadable(enum sli_limit l, const char *value, struct sli_errinfo *ei)
{
	static const char *const forms[] = {
	    [SLI_UNIT_BYTES] = "a size such as 64MiB",
	    [SLI_UNIT_COUNT] = "a number",
	    [SLI_UNIT_MS] = "a duration such as 500ms or 30s",
	    [SLI_UNIT_SECONDS] = "a duration such as 60s",
	    [SLI_UNIT_PERCENT] = "a number of percent",
	    [SLI_UNIT_BYTES_PER_S] = "bytes a second such as 128KiB",
	};
	char q[48];

	return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "limits.parse",
	    "%s takes %s, not \"%s\"", infos[l].key, forms[infos[l].unit],
	    sli_quote(q, sizeof(q), sli_slice_str(value)));
}

static int
in_bounds(enum sli_limit l, uint64_t v)
{
	return v >= infos[l].min && v <= infos[l].max;
}

static uint64_t
bound_of(enum sli_limit l, uint64_t v)
{
	return v < infos[l].min ? infos[l].min : infos[l].max;
}

enum sli_err
sli_limit_parse(enum sli_limit l, const char *value, uint64_t *ret_v,
    struct sli_errinfo *ei)
{
	uint64_t v = UINT64_MAX;
	enum sli_err e = parse_unit(sli_limit_info(l)->unit, value, &v);

	if (e != SLI_OK && e != SLI_E_OUT_OF_RANGE)
		return unreadable(l, value, ei);
	if (!in_bounds(l, v)) {
		(void)sli_fail(ei, SLI_E_OUT_OF_RANGE, 0, "limits.parse",
		    "%s must be from %llu to %llu %s", infos[l].key,
		    (unsigned long long)infos[l].min,
		    (unsigned long long)infos[l].max,
		    sli_unit_name(infos[l].unit));
		sli_errinfo_hit(ei, infos[l].key, 0, v, bound_of(l, v));
		return SLI_E_OUT_OF_RANGE;
	}
	*ret_v = v;
	return SLI_OK;
}

void
sli_limits_init(struct sli_limits *ls)
{
	for (unsigned i = 0; i < SLI_L__N; i++)
		ls->v[i] = infos[i].def;
}

uint64_t
sli_limits_get(const struct sli_limits *ls, enum sli_limit l)
{
	SLI_ASSERT(l < SLI_L__N);
	return ls->v[l];
}

/* Add a violation to ei; the first one makes the text. */
static void
violate(struct sli_errinfo *ei, enum sli_limit l, uint64_t requested,
    uint64_t limit, const char *why)
{
	if (ei == NULL)
		return;
	if (ei->nhits == 0)
		(void)sli_fail(ei, SLI_E_RESOURCE_EXHAUSTED, 0, "limits.apply",
		    "%s is %llu, but %s %llu", infos[l].key,
		    (unsigned long long)requested, why,
		    (unsigned long long)limit);
	sli_errinfo_hit(ei, infos[l].key, 0, requested, limit);
}

/* Bounds of what was named, and companions of everything: lowering one can
 * break a limit that was not named. Returns the number of violations. */
static unsigned
check_all(const struct sli_limits *ls, struct sli_errinfo *ei)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < SLI_L__N; i++) {
		enum sli_limit l = (enum sli_limit)i, c;
		uint64_t v = ls->v[l];
		char why[80];

		if (!in_bounds(l, v)) {
			violate(ei, l, v, bound_of(l, v),
			    v < infos[l].min ? "the least is" : "the most is");
			bad++;
			continue;
		}
		for (unsigned k = 0; sli_limit_companion(l, k, &c); k++) {
			if (v <= ls->v[c])
				continue;
			sli_snprintf(
			    why, sizeof(why), "%s is only", infos[c].key);
			violate(ei, l, v, ls->v[c], why);
			bad++;
		}
	}
	return bad;
}

enum sli_err
sli_limits_apply(struct sli_limits *ls, const struct sli_limit_kv *kv, size_t n,
    const char *prefix, struct sli_errinfo *ei)
{
	struct sli_limits next = *ls;
	struct sli_errinfo hits = {0};
	unsigned bad;

	for (size_t i = 0; i < n; i++) {
		enum sli_limit l;
		uint64_t v = UINT64_MAX;
		enum sli_err e;
		char q[64];

		if (strncmp(kv[i].key, prefix, strlen(prefix)) != 0 ||
		    sli_limit_find(kv[i].key, &l) != SLI_OK) {
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "limits.apply", "no limit \"%s\" can be set here",
			    sli_quote(q, sizeof(q), sli_slice_str(kv[i].key)));
		}
		e = parse_unit(infos[l].unit, kv[i].value, &v);
		if (e != SLI_OK && e != SLI_E_OUT_OF_RANGE)
			return unreadable(l, kv[i].value, ei);
		next.v[l] = v;
	}
	bad = check_all(&next, &hits);
	if (bad == 0) {
		*ls = next;
		return SLI_OK;
	}
	if (ei != NULL)
		*ei = hits;
	return SLI_E_RESOURCE_EXHAUSTED;
}

enum sli_err
sli_limit_refuse(struct sli_errinfo *ei, enum sli_limit l, uint64_t used,
    uint64_t requested, uint64_t limit, const char *where)
{
	const struct sli_limit_info *in = sli_limit_info(l);

	(void)sli_fail(ei, SLI_E_RESOURCE_EXHAUSTED, 0, where,
	    "%s of this %s is %llu %s; %llu are used and %llu were asked for",
	    in->key, in->scope, (unsigned long long)limit,
	    sli_unit_name(in->unit), (unsigned long long)used,
	    (unsigned long long)requested);
	sli_errinfo_hit(ei, in->key, used, requested, limit);
	return SLI_E_RESOURCE_EXHAUSTED;
}
