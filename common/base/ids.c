/* SPDX-License-Identifier: Apache-2.0 */
/* A table of slots, each with a generation that rises when it is emptied. An id
 * is generation << 32 | slot + 1; a slot whose generations are used up is left
 * out for ever, so no id comes twice. */
#include "base/ids.h"

#include "base/mem.h"

struct slot {
	void *obj; /* NULL = free */
	uint32_t gen;
	uint32_t next_free; /* slot + 1; 0 = end */
};

struct sli_ids {
	struct slot *slots;
	uint32_t n;   /* slots in use or once used */
	uint32_t cap; /* allocated */
	uint32_t max;
	uint32_t count;
	uint32_t free_head; /* slot + 1; 0 = none */
};

struct sli_ids *
sli_ids_new(uint32_t max)
{
	struct sli_ids *t = sli_zalloc(sizeof(*t));

	if (t != NULL)
		t->max = SLI_MIN(max, UINT32_MAX - 1);
	return t;
}

void
sli_ids_free(struct sli_ids *t)
{
	if (t == NULL)
		return;
	sli_free(t->slots);
	sli_free(t);
}

static int
grow(struct sli_ids *t)
{
	uint32_t cap = t->cap == 0 ? 16 : t->cap;
	struct slot *s;

	if (t->cap != 0)
		cap = t->cap > t->max / 2 ? t->max : t->cap * 2;
	cap = SLI_MIN(cap, t->max);
	if (cap <= t->cap)
		return -1;
	s = sli_realloc(t->slots, (size_t)cap * sizeof(*s));
	if (s == NULL)
		return -1;
	t->slots = s;
	t->cap = cap;
	return 0;
}

uint64_t
sli_ids_add(struct sli_ids *t, void *obj)
{
	struct slot *s;
	uint32_t i;

	SLI_ASSERT(obj != NULL);
	if (t->free_head != 0) {
		i = t->free_head - 1;
		t->free_head = t->slots[i].next_free;
	} else {
		if (t->n == t->cap && grow(t) != 0)
			return 0;
		i = t->n++;
		t->slots[i].gen = 0;
	}
	s = &t->slots[i];
	s->obj = obj;
	s->next_free = 0;
	t->count++;
	return (uint64_t)s->gen << 32 | (i + 1);
}

static struct slot *
lookup(const struct sli_ids *t, uint64_t id)
{
	uint32_t i = (uint32_t)id;
	struct slot *s;

	if (i == 0 || i > t->n)
		return NULL;
	s = &t->slots[i - 1];
	return s->obj != NULL && s->gen == (uint32_t)(id >> 32) ? s : NULL;
}

void *
sli_ids_get(const struct sli_ids *t, uint64_t id)
{
	struct slot *s = lookup(t, id);

	return s != NULL ? s->obj : NULL;
}

void
sli_ids_del(struct sli_ids *t, uint64_t id)
{
	struct slot *s = lookup(t, id);

	if (s == NULL)
		return;
	s->obj = NULL;
	t->count--;
	if (s->gen == UINT32_MAX)
		return;
	s->gen++;
	s->next_free = t->free_head;
	t->free_head = (uint32_t)id;
}

uint32_t
sli_ids_count(const struct sli_ids *t)
{
	return t->count;
}

void *
sli_ids_next(const struct sli_ids *t, uint32_t *pos)
{
	while (*pos < t->n) {
		void *obj = t->slots[(*pos)++].obj;

		if (obj != NULL)
			return obj;
	}
	return NULL;
}
