/* SPDX-License-Identifier: Apache-2.0 */
/* Specs of VMs: checked whole (every violation in one answer), copied, and
 * counted against what the host has. Pure; makes nothing. */
#include "base/str.h"
#include "vm/vm_internal.h"

#include <string.h>

#define PATH_LEN_MAX (SPAWNER_STR_MAX - 1)

static enum sli_err
check_mounts(const struct vm_spec *s, struct sli_errinfo *ei)
{
	char q[80];

	for (unsigned i = 0; i < s->nmounts; i++) {
		const struct vm_mount *m = &s->mounts[i];
		const char *bad = NULL;

		if (m->source[0] != '/' || strlen(m->source) > PATH_LEN_MAX)
			bad = m->source;
		else if (m->target[0] != '/' || m->target[1] == '\0' ||
			 strlen(m->target) > PATH_LEN_MAX)
			bad = m->target;
		if (bad)
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "vm.spec", "a mount needs absolute paths, not %s",
			    sli_quote(q, sizeof(q), sli_slice_str(bad)));
		if (!m->read_only)
			return sli_fail(ei, SLI_E_UNIMPLEMENTED, 0, "vm.spec",
			    "mounts are read-only for now: SRC:DST:ro");
	}
	return SLI_OK;
}

static enum sli_err
check_env(const struct vm_kv *env, unsigned n, struct sli_errinfo *ei)
{
	char q[80];

	for (unsigned i = 0; i < n; i++) {
		if (env[i].key[0] == '\0' || strchr(env[i].key, '='))
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "vm.spec", "\"%s\" is no name of a variable",
			    sli_quote(q, sizeof(q), sli_slice_str(env[i].key)));
	}
	return SLI_OK;
}

/* Limits of the server have "vm." names too; a VM does not set those. */
static enum sli_err
check_limit_keys(const struct vm_spec *s, struct sli_errinfo *ei)
{
	enum sli_limit l;
	char q[64];

	for (unsigned i = 0; i < s->nlimits; i++) {
		const char *k = s->limits[i].key;

		if (sli_limit_find(k, &l) == SLI_OK &&
		    strcmp(sli_limit_info(l)->scope, "server") == 0)
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "vm.spec", "%s is set by the server, not by a VM",
			    sli_quote(q, sizeof(q), sli_slice_str(k)));
	}
	return SLI_OK;
}

uint64_t
vm_spec_memory(const struct sli_limits *lim)
{
	return sli_limits_get(lim, SLI_L_VM_MEMORY) +
	       sli_limits_get(lim, SLI_L_VM_DISK);
}

static uint64_t
share_bytes(const struct vm_engine *e)
{
	uint64_t share = sli_limits_get(&e->lim, SLI_L_HOST_MEMORY_SHARE);

	return e->mem_total / 100 * share + e->mem_total % 100 * share / 100;
}

static uint64_t
percent_of(const struct vm_engine *e, uint64_t bytes)
{
	uint64_t one = SLI_MAX(e->mem_total / 100, (uint64_t)1);

	return (bytes + one - 1) / one;
}

/* Adds a hit; the first one of all makes code and text. */
static void
hit(struct sli_errinfo *ei, enum sli_limit l, uint64_t used, uint64_t requested,
    uint64_t limit)
{
	if (ei->nhits == 0)
		(void)sli_limit_refuse(
		    ei, l, used, requested, limit, "vm.spec");
	else
		sli_errinfo_hit(
		    ei, sli_limit_info(l)->key, used, requested, limit);
}

enum sli_err
vm_host_fits(const struct vm_engine *e, uint64_t more, struct sli_errinfo *ei)
{
	uint64_t limit = share_bytes(e);
	const char *key = sli_limit_info(SLI_L_HOST_MEMORY_SHARE)->key;

	if (e->committed <= limit && more <= limit - e->committed)
		return SLI_OK;
	(void)sli_fail(ei, SLI_E_HOST_CAPACITY, 0, "vm.admission",
	    "memory and disk of this VM are %llu MiB, of the others %llu MiB; "
	    "%s allows %llu MiB in all: delete VMs or lower their limits",
	    (unsigned long long)(more >> 20),
	    (unsigned long long)(e->committed >> 20), key,
	    (unsigned long long)(limit >> 20));
	sli_errinfo_hit(ei, key, percent_of(e, e->committed),
	    percent_of(e, more),
	    sli_limits_get(&e->lim, SLI_L_HOST_MEMORY_SHARE));
	return SLI_E_HOST_CAPACITY;
}

/* Counts that limits bound beside the values of limits themselves. */
static void
check_counts(const struct vm_engine *e, const struct vm_spec *s,
    const struct sli_limits *lim, struct sli_errinfo *ei)
{
	uint64_t env_bytes = 0, vms = sli_map_count(e->by_id);

	const struct {
		enum sli_limit l;
		uint64_t used, requested;
	} c[] = {
	    {SLI_L_VM_MAX_VMS,  vms, 1                            },
	    {SLI_L_VM_NAME,     0,   s->name ? strlen(s->name) : 0},
	    {SLI_L_VM_MOUNTS,   0,   s->nmounts                   },
	    {SLI_L_VM_ENV_VARS, 0,   s->nenv                      },
	};

	for (unsigned i = 0; i < SLI_ARRAY_LEN(c); i++) {
		uint64_t max = sli_limits_get(lim, c[i].l);

		if (c[i].used + c[i].requested > max)
			hit(ei, c[i].l, c[i].used, c[i].requested, max);
	}
	for (unsigned i = 0; i < s->nenv; i++)
		env_bytes +=
		    strlen(s->env[i].key) + strlen(s->env[i].value) + 2;
	if (env_bytes > sli_limits_get(lim, SLI_L_VM_ENV))
		hit(ei, SLI_L_VM_ENV, 0, env_bytes,
		    sli_limits_get(lim, SLI_L_VM_ENV));
}

/* Capacity is the last line of the answer; alone it is the answer. */
static void
check_host(const struct vm_engine *e, const struct sli_limits *lim,
    struct sli_errinfo *ei)
{
	struct sli_errinfo h;

	if (vm_host_fits(e, vm_spec_memory(lim), &h) == SLI_OK)
		return;
	if (ei->nhits == 0)
		*ei = h;
	else
		sli_errinfo_hit(ei, h.hits[0].key, h.hits[0].used,
		    h.hits[0].requested, h.hits[0].limit);
}

enum sli_err
vm_spec_check(const struct vm_engine *e, const struct vm_spec *spec,
    struct sli_limits *ret_lim, struct sli_errinfo *ei)
{
	struct sli_limit_kv kv[SLI_L__N];
	struct sli_errinfo hits = {0};
	struct sli_limits lim = e->lim;
	enum sli_err err;

	if (spec->nlimits > SLI_L__N)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "vm.spec",
		    "%u limits are named, there are %d", spec->nlimits,
		    SLI_L__N);
	err = check_mounts(spec, ei);
	if (err == SLI_OK)
		err = check_env(spec->env, spec->nenv, ei);
	if (err == SLI_OK)
		err = check_limit_keys(spec, ei);
	if (err != SLI_OK)
		return err;
	for (unsigned i = 0; i < spec->nlimits; i++)
		kv[i] = (struct sli_limit_kv){
		    spec->limits[i].key, spec->limits[i].value};
	err = sli_limits_apply(&lim, kv, spec->nlimits, "vm.", &hits);
	if (err != SLI_OK && hits.nhits == 0) {
		if (ei)
			*ei = hits;
		return err;
	}
	check_counts(e, spec, &lim, &hits);
	check_host(e, &lim, &hits);
	if (hits.nhits > 0) {
		if (ei)
			*ei = hits;
		return hits.code;
	}
	*ret_lim = lim;
	return SLI_OK;
}

void
vm_spec_limits(const struct vm_engine *e, const struct vm_spec *spec,
    struct sli_limits *ret_lim)
{
	enum sli_limit l;
	uint64_t v;

	*ret_lim = e->lim;
	for (unsigned i = 0; i < spec->nlimits; i++)
		if (sli_limit_find(spec->limits[i].key, &l) == SLI_OK &&
		    sli_limit_parse(l, spec->limits[i].value, &v, NULL) ==
			SLI_OK)
			ret_lim->v[l] = v;
}

static const struct vm_kv *
copy_kv(const struct vm_kv *src, unsigned n, struct sli_arena *mem)
{
	struct vm_kv *kv = sli_arena_alloc(mem, n * sizeof(*kv));

	for (unsigned i = 0; kv && i < n; i++) {
		kv[i].key = sli_arena_strdup(mem, src[i].key);
		kv[i].value = sli_arena_strdup(mem, src[i].value);
		if (!kv[i].key || !kv[i].value)
			return NULL;
	}
	return kv;
}

enum sli_err
vm_spec_copy(
    struct vm_spec *dst, const struct vm_spec *src, struct sli_arena *mem)
{
	struct vm_mount *m;

	*dst = *src;
	dst->name = sli_arena_strdup(mem, src->name ? src->name : "");
	dst->env = copy_kv(src->env, src->nenv, mem);
	dst->limits = copy_kv(src->limits, src->nlimits, mem);
	m = sli_arena_alloc(mem, src->nmounts * sizeof(*m));
	if (!dst->name || !dst->env || !dst->limits || !m)
		return SLI_E_NOMEM;
	for (unsigned i = 0; i < src->nmounts; i++) {
		m[i] = src->mounts[i];
		m[i].source = sli_arena_strdup(mem, src->mounts[i].source);
		m[i].target = sli_arena_strdup(mem, src->mounts[i].target);
		if (!m[i].source || !m[i].target)
			return SLI_E_NOMEM;
	}
	dst->mounts = m;
	return SLI_OK;
}
