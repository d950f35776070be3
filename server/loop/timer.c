/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing heap of deadlines; see timer.h. Only links: no clock, no callbacks.
 * A node's `back` is its elder sibling, or its parent when it is the first
 * child; the root has neither `back` nor `next`. */
#include "loop/timer.h"

static struct loop_timer *
meld(struct loop_timer *a, struct loop_timer *b)
{
	if (!a)
		return b;
	if (!b)
		return a;
	if (b->due_ms < a->due_ms) {
		struct loop_timer *t = a;

		a = b;
		b = t;
	}
	b->next = a->child;
	if (b->next)
		b->next->back = b;
	b->back = a;
	a->child = b;
	a->next = a->back = NULL;
	return a;
}

/* Melds a chain of siblings: pairs from the left, then all from the right.
 * The second pass walks the pairs by `back`, so nothing recurses. */
static struct loop_timer *
meld_all(struct loop_timer *first)
{
	struct loop_timer *pairs = NULL, *whole = NULL;

	while (first) {
		struct loop_timer *a = first, *b = first->next, *m;

		first = b ? b->next : NULL;
		a->next = a->back = NULL;
		if (b)
			b->next = b->back = NULL;
		m = meld(a, b);
		m->back = pairs;
		pairs = m;
	}
	while (pairs) {
		struct loop_timer *m = pairs;

		pairs = m->back;
		m->back = NULL;
		whole = meld(whole, m);
	}
	return whole;
}

static void
cut(struct timers *h, struct loop_timer *t)
{
	if (t == h->root) {
		h->root = NULL;
		return;
	}
	if (t->back->child == t)
		t->back->child = t->next;
	else
		t->back->next = t->next;
	if (t->next)
		t->next->back = t->back;
	t->next = t->back = NULL;
}

void
timers_del(struct timers *h, struct loop_timer *t)
{
	if (!t->set)
		return;
	cut(h, t);
	h->root = meld(h->root, meld_all(t->child));
	t->child = NULL;
	t->set = 0;
	t->due_ms = INT64_MAX;
	h->n--;
}

void
timers_set(struct timers *h, struct loop_timer *t, int64_t due_ms)
{
	if (t->set)
		timers_del(h, t);
	t->due_ms = due_ms;
	t->child = t->next = t->back = NULL;
	t->set = 1;
	h->root = meld(h->root, t);
	h->n++;
}

int64_t
timers_next(const struct timers *h)
{
	return h->root ? h->root->due_ms : INT64_MAX;
}

struct loop_timer *
timers_pop(struct timers *h, int64_t now_ms)
{
	struct loop_timer *t = h->root;

	if (!t || t->due_ms > now_ms)
		return NULL;
	timers_del(h, t);
	return t;
}
