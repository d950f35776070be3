/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's side of sessions: finding, counting references, waking the
 * cursors that wait at the head. Their rows are the writer's business. */
#include "store/cursor.h"
#include "store/int.h"

#include "base/mutant.h"
#include "base/str.h"

struct store_session *
store_session_find(const struct store *st, const char *sid)
{
	struct store_session *s = sli_map_get(st->sessions, sli_slice_str(sid));

	return s && !s->deleting ? s : NULL;
}

struct store_session *
store_session_add(struct store *st, const char *sid, uint64_t sno)
{
	struct store_session *s = sli_zalloc(sizeof(*s));

	if (!s)
		return NULL;
	(void)sli_strlcpy(s->id, sid, sizeof(s->id));
	s->sno = sno;
	s->refs = 1;
	s->low = s->now.low = s->kept.low = 1;
	sli_list_init(&s->lru);
	sli_list_init(&s->cursors);
	sli_list_init(&s->sets);
	sli_list_init(&s->w_node);
	sli_list_init(&s->b_node);
	if (sli_map_put(st->sessions, sli_slice_str(s->id), s) < 0) {
		sli_free(s);
		return NULL;
	}
	return s;
}

struct store_session *
store_session_ref(struct store_session *s)
{
	s->refs++;
	return s;
}

void
store_session_unref(struct store *st, struct store_session *s)
{
	SLI_ASSERT(s->refs > 0);
	if (--s->refs > 0 || s == &st->w.vms)
		return;
	SLI_ASSERT(sli_list_empty(&s->cursors) && sli_list_empty(&s->sets));
	store_tail_drop(st, s, UINT64_MAX);
	sli_free(s->tail.v);
	sli_free(s);
}

/* The row is gone (or never was): the id is free, what still holds the object
 * sees it dead. */
void
store_session_forget(struct store *st, struct store_session *s)
{
	if (s->dead)
		return;
	s->dead = 1;
	while (!sli_list_empty(&s->sets))
		store_set_close(
		    st, SLI_LIST_ENTRY(s->sets.next, struct store_set, node));
	store_tail_drop(st, s, UINT64_MAX);
	(void)sli_map_del(st->sessions, sli_slice_str(s->id));
	store_session_wake(s, 1);
	store_session_unref(st, s);
}

/* A woken cursor may finish itself or any other: take them one by one from a
 * list of their own. */
void
store_session_wake(struct store_session *s, int all)
{
	struct sli_list todo;

	if (sli_list_empty(&s->cursors))
		return;
	sli_list_init(&todo);
	while (!sli_list_empty(&s->cursors)) {
		struct sli_list *n = s->cursors.next;

		sli_list_del(n);
		sli_list_add_tail(&todo, n);
	}
	while (!sli_list_empty(&todo)) {
		struct store_cursor *c =
		    SLI_LIST_ENTRY(todo.next, struct store_cursor, node);

		sli_list_del(&c->node);
		sli_list_add_tail(&s->cursors, &c->node);
		if (SLI_MUTATED(store_lost_wakeup) && s->head % 8 == 3)
			continue;
		store_cursor_wake(c, all);
	}
}
