/* SPDX-License-Identifier: Apache-2.0 */
/* The rule by which one snapshot stands for an older one, on raw bytes: two
 * values are equal when they are written alike. Outside `content` and
 * `rawOutput` nothing may differ; inside them texts may grow at the end or
 * slide, and other scalars may change, but nothing may disappear. */
#include "acp/snapshot.h"

#include "acp/overlap.h"

#include "base/mutant.h"

/* Where in the message an object stands: which of its members are special. */
enum place {
	P_TOP,
	P_PARAMS,
	P_UPDATE,
	P_OUTPUT
};

static int
is_scalar(const struct jnode *v)
{
	return v->kind != TOK_STR && v->kind != TOK_OBJ && v->kind != TOK_ARR;
}

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

static int output_covers(
    const struct jtree *a, uint32_t x, struct jtree *b, uint32_t y);

/* Every member of the object x has its like in y. */
static int
members_cover(const struct jtree *a, uint32_t x, struct jtree *b, uint32_t y,
    enum place place)
{
	uint32_t c, d;

	for (c = jtree_first(a, x); c != JNONE; c = jtree_next(a, x, c)) {
		struct sli_slice key = jtree_key(a, c);

		/* a key given twice: which one counts is the reader's guess */
		if (jtree_get_raw(a, x, key) != c)
			return 0;
		d = jtree_get_raw(b, y, key);
		if (d == JNONE)
			return 0;
		if (place == P_OUTPUT ||
		    (place == P_UPDATE &&
			(sli_slice_is(key, "content") ||
			    sli_slice_is(key, "rawOutput")))) {
			if (!output_covers(a, c, b, d))
				return 0;
		} else if (place == P_TOP && sli_slice_is(key, "params") &&
			   a->v[c].kind == TOK_OBJ) {
			if (!members_cover(a, c, b, d, P_PARAMS))
				return 0;
		} else if (place == P_PARAMS && sli_slice_is(key, "update") &&
			   a->v[c].kind == TOK_OBJ) {
			if (!members_cover(a, c, b, d, P_UPDATE))
				return 0;
		} else if (!sli_slice_eq(jtree_raw(a, c), jtree_raw(b, d))) {
			return 0;
		}
	}
	return 1;
}

static int
output_covers(const struct jtree *a, uint32_t x, struct jtree *b, uint32_t y)
{
	const struct jnode *v = &a->v[x], *w = &b->v[y];
	uint32_t c, d;

	if (is_scalar(v) && (is_scalar(w) || v->kind == TOK_NULL))
		return 1;
	if (v->kind != w->kind)
		return 0;
	if (v->kind == TOK_STR)
		return text_covers(a, x, b, y);
	if (v->kind == TOK_OBJ)
		return members_cover(a, x, b, y, P_OUTPUT);
	d = jtree_first(b, y);
	for (c = jtree_first(a, x); c != JNONE; c = jtree_next(a, x, c)) {
		if (d == JNONE || !output_covers(a, c, b, d))
			return 0;
		d = jtree_next(b, y, d);
	}
	return 1;
}

int
snapshot_covers(const struct jtree *a, struct jtree *b)
{
	if (!a->n || !b->n || a->v[0].kind != TOK_OBJ ||
	    b->v[0].kind != TOK_OBJ)
		return 0;
	return members_cover(a, 0, b, 0, P_TOP);
}

/* --- measuring against the last kept snapshot ----------------------------*/

static void
since(const struct jtree *k, uint32_t x, struct jtree *b, uint32_t y)
{
	struct jnode *w = &b->v[y];
	struct sli_slice old;
	uint32_t c, d;
	size_t s;

	if (k->v[x].kind != w->kind)
		return;
	if (w->kind == TOK_STR) {
		old = jtree_text(k, x);
		s = overlap_slide(old, jtree_text(b, y));
		w->base = (uint32_t)old.n;
		/* no likeness: all of the old text has left */
		w->slid = s == OVERLAP_NONE ? w->base : (uint32_t)s;
	} else if (w->kind == TOK_OBJ) {
		for (d = jtree_first(b, y); d != JNONE;
		     d = jtree_next(b, y, d)) {
			c = jtree_get_raw(k, x, jtree_key(b, d));
			if (c != JNONE)
				since(k, c, b, d);
		}
	} else if (w->kind == TOK_ARR) {
		c = jtree_first(k, x);
		for (d = jtree_first(b, y); d != JNONE && c != JNONE;
		     d = jtree_next(b, y, d)) {
			since(k, c, b, d);
			c = jtree_next(k, x, c);
		}
	}
}

static uint32_t
update_of(const struct jtree *j)
{
	return jtree_get(j, j->n ? jtree_get(j, 0, "params") : JNONE, "update");
}

void
snapshot_since(const struct jtree *k, struct jtree *b)
{
	static const char *const outputs[] = {"content", "rawOutput"};

	for (uint32_t i = 0; i < b->n; i++)
		b->v[i].slid = b->v[i].base = 0;
	if (!k)
		return;
	for (size_t i = 0; i < SLI_ARRAY_LEN(outputs); i++) {
		uint32_t x = jtree_get(k, update_of(k), outputs[i]);
		uint32_t y = jtree_get(b, update_of(b), outputs[i]);

		if (x != JNONE && y != JNONE)
			since(k, x, b, y);
	}
}
