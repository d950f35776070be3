/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked ring list. A node that is in no list points at
 * itself (after sli_list_init or sli_list_del). */
#ifndef SLI_BASE_LIST_H
#define SLI_BASE_LIST_H

#include "base/attr.h"

struct sli_list {
	struct sli_list *prev;
	struct sli_list *next;
};

static inline void
sli_list_init(struct sli_list *l)
{
	l->prev = l->next = l;
}

static inline int
sli_list_empty(const struct sli_list *l)
{
	return l->next == l;
}

static inline void
sli_list_add_tail(struct sli_list *head, struct sli_list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

static inline void
sli_list_add(struct sli_list *head, struct sli_list *n)
{
	n->next = head->next;
	n->prev = head;
	head->next->prev = n;
	head->next = n;
}

static inline void
sli_list_del(struct sli_list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->prev = n->next = n;
}

#define SLI_LIST_ENTRY(ptr, type, member) SLI_CONTAINER_OF(ptr, type, member)
#define sli_list_for_each(it, head) \
	for ((it) = (head)->next; (it) != (head); (it) = (it)->next)
#define sli_list_for_each_safe(it, tmp, head)                         \
	for ((it) = (head)->next, (tmp) = (it)->next; (it) != (head); \
	     (it) = (tmp), (tmp) = (it)->next)

#endif
