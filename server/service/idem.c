/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency keys of create-like calls: which object an earlier call with the
 * same (tenant, method, key) made. In memory and bounded: a repeat after a
 * restart of the server, or after many other creates, makes a new object.
 * Prompts do not use this; their keys are durable rows. */
#include "service/room.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

struct entry {
	struct sli_list node;
	uint8_t *name;
	size_t name_len;
	char id[SLI_ID_MAX];
};

struct svc_idem {
	struct sli_map *map;
	struct sli_list order; /* oldest first */
	unsigned count, max;
};

struct svc_idem *
svc_idem_new(unsigned max)
{
	struct svc_idem *t = sli_zalloc(sizeof(*t));
	if (!t)
		return NULL;
	t->map = sli_map_new();
	if (!t->map) {
		sli_free(t);
		return NULL;
	}
	sli_list_init(&t->order);
	t->max = max;
	return t;
}

static void
entry_free(struct svc_idem *t, struct entry *e)
{
	(void)sli_map_del(t->map, sli_slice_of(e->name, e->name_len));
	sli_list_del(&e->node);
	sli_free(e->name);
	sli_free(e);
	t->count--;
}

void
svc_idem_free(struct svc_idem *t)
{
	if (!t)
		return;
	while (!sli_list_empty(&t->order))
		entry_free(
		    t, SLI_LIST_ENTRY(t->order.next, struct entry, node));
	sli_map_free(t->map);
	sli_free(t);
}

/* "TENANT\0METHOD\0KEY" in one allocation. */
static uint8_t *
entry_name(
    uint64_t tenant, const char *method, struct sli_slice key, size_t *ret_len)
{
	size_t m = strlen(method) + 1;
	uint8_t *p = sli_alloc(sizeof(tenant) + m + key.n);
	if (!p)
		return NULL;
	memcpy(p, &tenant, sizeof(tenant));
	memcpy(p + sizeof(tenant), method, m);
	if (key.n)
		memcpy(p + sizeof(tenant) + m, key.p, key.n);
	*ret_len = sizeof(tenant) + m + key.n;
	return p;
}

const char *
svc_idem_get(const struct svc_idem *t, uint64_t tenant, const char *method,
    struct sli_slice key)
{
	size_t n = 0;
	uint8_t *name = key.n ? entry_name(tenant, method, key, &n) : NULL;
	if (!name)
		return NULL;
	const struct entry *e = sli_map_get(t->map, sli_slice_of(name, n));
	sli_free(name);
	return e ? e->id : NULL;
}

void
svc_idem_put(struct svc_idem *t, uint64_t tenant, const char *method,
    struct sli_slice key, const char *id)
{
	if (key.n == 0)
		return;
	if (t->count == t->max)
		entry_free(
		    t, SLI_LIST_ENTRY(t->order.next, struct entry, node));
	struct entry *e = sli_zalloc(sizeof(*e));
	if (!e)
		return;
	e->name = entry_name(tenant, method, key, &e->name_len);
	sli_strlcpy(e->id, id, sizeof(e->id));
	if (!e->name ||
	    sli_map_put(t->map, sli_slice_of(e->name, e->name_len), e) != 0) {
		sli_free(e->name);
		sli_free(e);
		return;
	}
	sli_list_add_tail(&t->order, &e->node);
	t->count++;
}
