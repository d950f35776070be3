/* SPDX-License-Identifier: Apache-2.0 */
/* The rule by which one snapshot stands for an older one, on raw bytes: two
 * values are equal when they are written alike. Outside `content` and
 * `rawOutput` nothing may differ; inside them texts may grow at the end or
 * slide, and other scalars may change, but nothing may disappear. Walks the
 * flat index in document order, so that no nesting can exhaust the stack. */
#include "acp/snapshot.h"

#include "acp/overlap.h"

#include "base/mutant.h"

/* What part of the message a value is, and so how it is compared. */
enum place {
	P_TOP,
	P_PARAMS,
	P_UPDATE,
	P_OUTPUT, /* content or rawOutput, or in one of them */
	P_ELSE,   /* must be the same */
};

/* A walk over one tree that finds the place of each value in another one. */
struct walk {
	const struct jtree *a, *b;
	uint32_t like[SNAPSHOT_NODES]; /* in b, of a's containers */
	uint32_t last[SNAPSHOT_NODES]; /* in b, of their last element met */
	uint8_t place[SNAPSHOT_NODES];
};

static void
enter(struct walk *w, uint32_t x, uint32_t y, enum place place)
{
	w->like[x] = y;
	w->last[x] = JNONE;
	w->place[x] = (uint8_t)place;
}

/* 0 when one of them is no object. */
static int
walk_init(struct walk *w, const struct jtree *a, const struct jtree *b)
{
	w->a = a;
	w->b = b;
	enter(w, 0, 0, P_TOP);
	return a->n && b->n && a->v[0].kind == TOK_OBJ &&
	       b->v[0].kind == TOK_OBJ;
}

/* The value of b that stands where x stands in a, or JNONE. */
static uint32_t
like(struct walk *w, uint32_t x)
{
	uint32_t p = w->a->v[x].parent, q = w->like[p];

	if (w->a->v[p].kind == TOK_OBJ)
		return jtree_get_raw(w->b, q, jtree_key(w->a, x));
	w->last[p] = w->last[p] == JNONE ? jtree_first(w->b, q)
					 : jtree_next(w->b, q, w->last[p]);
	return w->last[p];
}

static enum place
place_of(const struct walk *w, uint32_t x)
{
	const struct jnode *v = &w->a->v[x];
	struct sli_slice key = jtree_key(w->a, x);
	int object = v->kind == TOK_OBJ;

	switch (w->place[v->parent]) {
	case P_TOP:
		return object && sli_slice_is(key, "params") ? P_PARAMS
							     : P_ELSE;
	case P_PARAMS:
		return object && sli_slice_is(key, "update") ? P_UPDATE
							     : P_ELSE;
	case P_UPDATE:
		return sli_slice_is(key, "content") ||
			       sli_slice_is(key, "rawOutput")
			   ? P_OUTPUT
			   : P_ELSE;
	default:
		return P_OUTPUT;
	}
}

static int
is_scalar(const struct jnode *v)
{
	return v->kind != TOK_STR && v->kind != TOK_OBJ && v->kind != TOK_ARR;
}

/* A key given twice: which one counts is the reader's guess. */
static int
is_doubled(const struct jtree *a, uint32_t x)
{
	uint32_t p = a->v[x].parent;

	return a->v[p].kind == TOK_OBJ &&
	       jtree_get_raw(a, p, jtree_key(a, x)) != x;
}

/* --- does b stand for a? -------------------------------------------------*/

static int
text_covers(const struct jtree *a, uint32_t x, struct jtree *b, uint32_t y)
{
	const struct jnode *v = &a->v[x];
	size_t s = overlap_slide(jtree_text(a, x), jtree_text(b, y));

	if (s == OVERLAP_NONE)
		return 0;
	/* what leaves at the front must stand in the last kept snapshot */
	if (s > 0 && (size_t)v->slid + s > v->base &&
	    !SLI_MUTATED(acp_byte_dropped))
		return 0;
	b->v[y].slid = v->slid + (uint32_t)s;
	b->v[y].base = v->base;
	return 1;
}

static int
value_covers(const struct jtree *a, uint32_t x, struct jtree *b, uint32_t y,
    enum place place)
{
	const struct jnode *v = &a->v[x], *w = &b->v[y];

	if (place == P_ELSE)
		return sli_slice_eq(jtree_raw(a, x), jtree_raw(b, y));
	if (is_scalar(v) && (is_scalar(w) || v->kind == TOK_NULL))
		return 1;
	if (v->kind != w->kind)
		return 0;
	return v->kind != TOK_STR || text_covers(a, x, b, y);
}

int
snapshot_covers(const struct jtree *a, struct jtree *b)
{
	struct walk w;
	uint32_t x = 1, y;

	if (!walk_init(&w, a, b))
		return 0;
	while (x < a->n) {
		enum place place = place_of(&w, x);

		y = like(&w, x);
		if (y == JNONE || is_doubled(a, x) ||
		    !value_covers(a, x, b, y, place))
			return 0;
		enter(&w, x, y, place);
		x = place == P_ELSE ? a->v[x].end : x + 1;
	}
	return 1;
}

/* --- measuring against the last kept snapshot ----------------------------*/

static void
measure(const struct jtree *k, uint32_t x, struct jtree *b, uint32_t y)
{
	struct sli_slice old = jtree_text(k, x);
	size_t s = overlap_slide(old, jtree_text(b, y));

	b->v[y].base = (uint32_t)old.n;
	/* no likeness: all of the old text has left */
	b->v[y].slid = s == OVERLAP_NONE ? (uint32_t)old.n : (uint32_t)s;
}

void
snapshot_since(const struct jtree *k, struct jtree *b)
{
	struct walk w;
	uint32_t x, y = 1;

	for (uint32_t i = 0; i < b->n; i++)
		b->v[i].slid = b->v[i].base = 0;
	if (!k || !walk_init(&w, b, k))
		return;
	while (y < b->n) {
		enum place place = place_of(&w, y);

		x = like(&w, y);
		if (x == JNONE || place == P_ELSE ||
		    k->v[x].kind != b->v[y].kind) {
			y = b->v[y].end;
			continue;
		}
		if (b->v[y].kind == TOK_STR && place == P_OUTPUT)
			measure(k, x, b, y);
		enter(&w, y, x, place);
		y++;
	}
}
