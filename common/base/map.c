/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with tombstones; SipHash-2-4 under a random key per map. A
 * walk is a position in the table, which deletion does not move. */
#include "base/map.h"

#include "base/mem.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

struct entry {
	uint64_t hash;
	void *value;
	size_t n;
	uint8_t key[];
};

struct sli_map {
	struct entry **tab;
	size_t cap;   /* power of two, or 0 */
	size_t count; /* live entries */
	size_t used;  /* live and tombstones */
	uint64_t k0, k1;
};

static struct entry tomb;

/* --- SipHash-2-4 ---------------------------------------------------------*/

struct sip {
	uint64_t a, b, c, d;
};

static uint64_t
rotl(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static void
sip_round(struct sip *s)
{
	s->a += s->b;
	s->b = rotl(s->b, 13) ^ s->a;
	s->a = rotl(s->a, 32);
	s->c += s->d;
	s->d = rotl(s->d, 16) ^ s->c;
	s->a += s->d;
	s->d = rotl(s->d, 21) ^ s->a;
	s->c += s->b;
	s->b = rotl(s->b, 17) ^ s->c;
	s->c = rotl(s->c, 32);
}

static void
sip_word(struct sip *s, uint64_t m)
{
	s->d ^= m;
	sip_round(s);
	sip_round(s);
	s->a ^= m;
}

static uint64_t
hash(const struct sli_map *m, struct sli_slice key)
{
	struct sip s = {
	    m->k0 ^ UINT64_C(0x736f6d6570736575),
	    m->k1 ^ UINT64_C(0x646f72616e646f6d),
	    m->k0 ^ UINT64_C(0x6c7967656e657261),
	    m->k1 ^ UINT64_C(0x7465646279746573),
	};
	uint64_t w;
	size_t i;

	for (i = 0; key.n - i >= sizeof(w); i += sizeof(w)) {
		memcpy(&w, key.p + i, sizeof(w));
		sip_word(&s, w);
	}
	w = 0;
	if (key.n > i)
		memcpy(&w, key.p + i, key.n - i);
	sip_word(&s, w | (uint64_t)key.n << 56);
	s.c ^= 0xff;
	for (int r = 0; r < 4; r++)
		sip_round(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}

/* --- table ---------------------------------------------------------------*/

struct sli_map *
sli_map_new(void)
{
	struct sli_map *m = sli_zalloc(sizeof(*m));
	uint64_t k[2];

	if (m == NULL)
		return NULL;
	if (getrandom(k, sizeof(k), 0) != (ssize_t)sizeof(k)) {
		/* No kernel we run on gets here; still better than 0. */
		k[0] = (uint64_t)sli_mono_ns();
		k[1] = (uint64_t)(uintptr_t)m;
	}
	m->k0 = k[0];
	m->k1 = k[1];
	return m;
}

void
sli_map_free(struct sli_map *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < m->cap; i++) {
		if (m->tab[i] != &tomb)
			sli_free(m->tab[i]);
	}
	sli_free(m->tab);
	sli_free(m);
}

/* Index of the key's entry, or of the place where a new one goes. */
static size_t
probe(const struct sli_map *m, uint64_t h, struct sli_slice key, int *found)
{
	size_t mask = m->cap - 1;
	size_t i = (size_t)h & mask;
	size_t hole = m->cap;

	for (;; i = (i + 1) & mask) {
		struct entry *e = m->tab[i];

		if (e == NULL) {
			*found = 0;
			return hole != m->cap ? hole : i;
		}
		if (e == &tomb) {
			if (hole == m->cap)
				hole = i;
			continue;
		}
		if (e->hash == h &&
		    sli_slice_eq(sli_slice_of(e->key, e->n), key)) {
			*found = 1;
			return i;
		}
	}
}

static int
rehash(struct sli_map *m)
{
	size_t cap = 16;
	struct entry **tab;

	while (cap * 3 / 4 <= m->count * 3 / 2)
		cap *= 2;
	tab = sli_calloc(cap, sizeof(struct entry *));
	if (tab == NULL)
		return -1;
	for (size_t i = 0; i < m->cap; i++) {
		struct entry *e = m->tab[i];
		size_t j;

		if (e == NULL || e == &tomb)
			continue;
		j = (size_t)e->hash & (cap - 1);
		while (tab[j] != NULL)
			j = (j + 1) & (cap - 1);
		tab[j] = e;
	}
	sli_free(m->tab);
	m->tab = tab;
	m->cap = cap;
	m->used = m->count;
	return 0;
}

int
sli_map_put(struct sli_map *m, struct sli_slice key, void *v)
{
	uint64_t h = hash(m, key);
	struct entry *e;
	int found;
	size_t i;

	SLI_ASSERT(v != NULL);
	if (m->used + 1 > m->cap * 3 / 4 && rehash(m) != 0)
		return -1;
	i = probe(m, h, key, &found);
	if (found) {
		m->tab[i]->value = v;
		return 0;
	}
	e = sli_alloc(sizeof(*e) + key.n);
	if (e == NULL)
		return -1;
	e->hash = h;
	e->value = v;
	e->n = key.n;
	if (key.n != 0)
		memcpy(e->key, key.p, key.n);
	if (m->tab[i] == NULL)
		m->used++;
	m->tab[i] = e;
	m->count++;
	return 0;
}

void *
sli_map_get(const struct sli_map *m, struct sli_slice key)
{
	int found;
	size_t i;

	if (m->count == 0)
		return NULL;
	i = probe(m, hash(m, key), key, &found);
	return found ? m->tab[i]->value : NULL;
}

void *
sli_map_del(struct sli_map *m, struct sli_slice key)
{
	void *v;
	int found;
	size_t i;

	if (m->count == 0)
		return NULL;
	i = probe(m, hash(m, key), key, &found);
	if (!found)
		return NULL;
	v = m->tab[i]->value;
	sli_free(m->tab[i]);
	m->tab[i] = &tomb;
	m->count--;
	return v;
}

size_t
sli_map_count(const struct sli_map *m)
{
	return m->count;
}

void *
sli_map_next(const struct sli_map *m, size_t *pos)
{
	while (*pos < m->cap) {
		struct entry *e = m->tab[(*pos)++];

		if (e != NULL && e != &tomb)
			return e->value;
	}
	return NULL;
}
