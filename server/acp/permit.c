/* SPDX-License-Identifier: Apache-2.0 */
/* Permission requests from asked to answered. Shown only when committed;
 * answered once, by compare-and-set, and told to the agent only when that is
 * committed. No answer is never a yes: deadline, cancel, withdrawal, the end
 * of the turn and of the agent all answer `cancelled`. Reading the request is
 * permit_ask.c's. */
#include "acp/engine.h"

#include "base/log.h"

#include "base/mem.h"
#include "base/mutant.h"

#include <string.h>

#define B(phase) (1u << PERM_##phase)

static const unsigned legal[PERM__N] = {
    [PERM_ASKING] = B(PENDING) | B(EXPIRED) | B(CANCELED),
    [PERM_PENDING] = B(ANSWERING) | B(EXPIRED) | B(CANCELED),
    [PERM_ANSWERING] = B(ANSWERED),
    [PERM_ANSWERED] = B(DELIVERED),
    [PERM_DELIVERED] = 0,
    [PERM_EXPIRED] = 0,
    [PERM_CANCELED] = 0,
};

static const char *const names[PERM__N] = {"asking", "pending", "answering",
    "answered", "delivered", "expired", "canceled"};

void
perm_set(struct perm *p, enum perm_phase to)
{
	SLI_ASSERT(legal[p->phase] & 1u << to);
	sli_debug("acp", "permission", "session=%s request=%llu %s -> %s",
	    p->s->id, (unsigned long long)p->request, names[p->phase],
	    names[to]);
	p->phase = to;
}

void
perm_unref(struct perm *p)
{
	if (!p || --p->refs)
		return;
	while (p->waiters) {
		struct permit_waiter *w = p->waiters;

		p->waiters = w->next;
		sli_free(w);
	}
	sli_arena_free(&p->arena);
	sli_free(p);
}

/* --- the deadline --------------------------------------------------------*/

void
permit_timer(struct acp_session *s)
{
	int64_t due = INT64_MAX;
	struct sli_list *it;

	sli_list_for_each (it, &s->perms) {
		struct perm *p = SLI_LIST_ENTRY(it, struct perm, node);

		if (p->phase == PERM_PENDING)
			due = SLI_MIN(due, p->due_ms);
	}
	loop_timer_set(s->a->loop, &s->perm_timer, due);
}

/* --- resolving -----------------------------------------------------------*/

/* No longer one that waits. */
static void
retire(struct perm *p)
{
	struct acp_session *s = p->s;

	sli_list_del(&p->node);
	s->nperms--;
	perm_unref(s->resolved[s->resolved_at]);
	s->resolved[s->resolved_at] = p;
	s->resolved_at = (s->resolved_at + 1) % RESOLVED_KEPT;
	permit_timer(s);
}

static const char *
chosen_id(const struct perm *p)
{
	return p->chosen >= 0 ? p->options[p->chosen].id : "";
}

/* The event and the row; the answer to the agent unless say is 0. */
static void
resolve(struct perm *p, struct txn *t, enum perm_phase to, const char *by,
    int say, unsigned flags)
{
	static const int states[PERM__N] = {
	    [PERM_ANSWERING] = SLI_PS_ANSWERED,
	    [PERM_EXPIRED] = SLI_PS_EXPIRED,
	    [PERM_CANCELED] = SLI_PS_CANCELED,
	};
	struct sli_record *r = txn_add(t, SLI_EV_PERMISSION, p->turn);
	struct body b;

	body_begin(&b);
	sli_jw_ku64(&b.w, "request", p->request);
	sli_jw_kcstr(
	    &b.w, "state", names[to == PERM_ANSWERING ? PERM_ANSWERED : to]);
	if (to == PERM_ANSWERING)
		sli_jw_kcstr(&b.w, "option", chosen_id(p));
	if (*by)
		sli_jw_kcstr(&b.w, "by", by);
	body_put(&b, t, r);
	r->ch.what = SLI_CH_PERM_SET;
	r->ch.request = p->request;
	r->ch.perm_state = states[to];
	if (to == PERM_ANSWERING)
		r->ch.option = txn_dup(t, sli_slice_str(chosen_id(p)));
	r->ch.answer_key = txn_dup(t, p->answer_key);
	perm_set(p, to);
	/* its agent may be gone, and another one have its ids */
	if (say && p->s->ag && p->s->ag->generation == p->generation)
		say_permission(p->s, t, p->rpc_id,
		    p->chosen >= 0 ? p->raw[p->chosen] : sli_slice_of(NULL, 0),
		    to == PERM_ANSWERING ? p->request : 0, flags);
	retire(p);
}

static void
running_again(struct acp_session *s, struct txn *t)
{
	if (!s->nperms && s->state == SLI_SS_WAITING_PERMISSION)
		session_set(s, SLI_SS_RUNNING, "", "", t);
}

void
permit_drop_all(struct acp_session *s, struct txn *t, enum perm_phase to,
    int say, unsigned flags)
{
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &s->perms) {
		struct perm *p = SLI_LIST_ENTRY(it, struct perm, node);

		if (p->phase == PERM_PENDING)
			resolve(p, t, to, "", say, flags);
		else if (!p->withdrawn) /* its commit looks when it is back */
			p->withdrawn = (int)to;
	}
}

void
permit_drop(struct perm *p, enum perm_phase to)
{
	struct acp_session *s = p->s;
	struct txn *t = txn_new(s);

	resolve(p, t, to, "", 1, 0);
	running_again(s, t);
	txn_submit(t, 1, NULL);
}

static void
perm_due(struct loop_timer *timer)
{
	struct acp_session *s =
	    SLI_CONTAINER_OF(timer, struct acp_session, perm_timer);
	int64_t now = loop_now_ms(s->a->loop);
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &s->perms) {
		struct perm *p = SLI_LIST_ENTRY(it, struct perm, node);

		if (p->phase != PERM_PENDING || p->due_ms > now)
			continue;
		if (SLI_MUTATED(acp_permission_open))
			permit_answer(p, 0, "nobody");
		else
			permit_drop(p, PERM_EXPIRED);
	}
	permit_timer(s);
}

void
permit_init(struct acp_session *s)
{
	loop_timer_init(&s->perm_timer, perm_due);
}

void
permit_withdraw(struct acp_session *s, struct sli_slice rpc_id)
{
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &s->perms) {
		struct perm *p = SLI_LIST_ENTRY(it, struct perm, node);

		if (!sli_slice_eq(p->rpc_id, rpc_id))
			continue;
		if (p->phase == PERM_PENDING)
			permit_drop(p, PERM_CANCELED);
		else if (!p->withdrawn)
			p->withdrawn = PERM_CANCELED;
	}
}

/* --- answering -----------------------------------------------------------*/

static void
tell_waiters(struct perm *p, const struct sli_errinfo *ei)
{
	while (p->waiters) {
		struct permit_waiter *w = p->waiters;

		p->waiters = w->next;
		w->fn(w->ctx, sli_slice_str(chosen_id(p)), w->repeated, ei);
		sli_free(w);
	}
}

static void
delivered(struct perm *p)
{
	struct txn *t = txn_new_plain(p->s);
	struct sli_record *r = txn_add(t, 0, p->turn);

	perm_set(p, PERM_DELIVERED);
	r->ch.what = SLI_CH_PERM_SET;
	r->ch.request = p->request;
	r->ch.perm_state = SLI_PS_DELIVERED;
	txn_submit(t, 0, NULL);
}

static void
answered(struct txn *t, const struct sli_errinfo *ei)
{
	struct perm *p = t->perm;

	if (ei->code == SLI_OK) {
		perm_set(p, PERM_ANSWERED);
		if (p->written)
			delivered(p);
	}
	tell_waiters(p, ei);
}

void
permit_delivered(struct acp_session *s, uint64_t request)
{
	for (unsigned i = 0; i < RESOLVED_KEPT; i++) {
		struct perm *p = s->resolved[i];

		if (!p || p->request != request)
			continue;
		if (p->phase == PERM_ANSWERED)
			delivered(p);
		else
			p->written = 1;
	}
}

void
permit_answer(struct perm *p, int chosen, const char *by)
{
	struct acp_session *s = p->s;
	struct txn *t = txn_new(s);

	p->chosen = chosen;
	p->refs++;
	t->perm = p;
	resolve(p, t, PERM_ANSWERING, by, 1, 0);
	running_again(s, t);
	txn_submit(t, 1, answered);
}

int
permit_reject_option(const struct perm *p)
{
	static const char *const kinds[] = {"reject_once", "reject_always"};

	for (size_t k = 0; k < SLI_ARRAY_LEN(kinds); k++)
		for (unsigned i = 0; i < p->n; i++)
			if (p->raw[i].n &&
			    strcmp(p->options[i].kind, kinds[k]) == 0)
				return (int)i;
	return -1;
}

static int
find_option(const struct perm *p, const char *id)
{
	for (unsigned i = 0; i < p->n; i++)
		if (p->raw[i].n && strcmp(p->options[i].id, id) == 0)
			return (int)i;
	return -1;
}

static int
add_waiter(struct perm *p, acp_permit_fn *fn, void *ctx, int repeated)
{
	struct permit_waiter *w = sli_alloc(sizeof(*w));

	if (!w)
		return 0;
	*w = (struct permit_waiter){p->waiters, fn, ctx, repeated};
	p->waiters = w;
	return 1;
}

/* The request is no longer open: the same key gets the same reply. */
static void
repeat(struct perm *p, struct sli_slice key, acp_permit_fn *fn, void *ctx)
{
	struct sli_errinfo ei = {.code = SLI_OK};
	int answered_so = p->phase >= PERM_ANSWERING &&
			  p->phase <= PERM_DELIVERED && key.n &&
			  sli_slice_eq(key, p->answer_key);

	if (!answered_so)
		sli_fail(&ei, SLI_E_ABORTED, 0, "acp.permit",
		    "the request has been resolved already: %s",
		    names[p->phase]);
	else if (p->phase == PERM_ANSWERING && add_waiter(p, fn, ctx, 1))
		return;
	fn(ctx, sli_slice_str(answered_so ? chosen_id(p) : ""), answered_so,
	    &ei);
}

static struct perm *
find(const struct acp_session *s, uint64_t request)
{
	struct sli_list *it;

	if (!request)
		return NULL;
	sli_list_for_each (it, &s->perms) {
		struct perm *p = SLI_LIST_ENTRY(it, struct perm, node);

		if (p->request == request && p->phase == PERM_PENDING)
			return p;
	}
	for (unsigned i = 0; i < RESOLVED_KEPT; i++)
		if (s->resolved[i] && s->resolved[i]->request == request)
			return s->resolved[i];
	return NULL;
}

void
acp_permit(struct acp_session *s, uint64_t request, const char *option,
    struct sli_slice key, const char *by, acp_permit_fn *fn, void *ctx)
{
	struct perm *p = s->deleting ? NULL : find(s, request);
	struct sli_errinfo ei = {.code = SLI_OK};
	void *copy;
	int chosen;

	loop_assert(s->a->loop);
	if (p && p->phase != PERM_PENDING) {
		repeat(p, key, fn, ctx);
		return;
	}
	if (!p) {
		sli_fail(&ei, SLI_E_NOT_FOUND, 0, "acp.permit",
		    "no such permission request");
		goto refused;
	}
	chosen = option ? find_option(p, option) : permit_reject_option(p);
	if (option && chosen < 0) {
		sli_fail(&ei, SLI_E_INVALID_ARGUMENT, 0, "acp.permit",
		    "the agent did not offer this option");
		goto refused;
	}
	copy = sli_arena_alloc(&p->arena, key.n);
	if (!copy || !add_waiter(p, fn, ctx, 0)) {
		sli_fail(&ei, SLI_E_NOMEM, 0, "acp.permit", "no memory");
		goto refused;
	}
	if (key.n)
		memcpy(copy, key.p, key.n);
	p->answer_key = sli_slice_of(copy, key.n);
	permit_answer(p, chosen, by ? by : "");
	return;
refused:
	fn(ctx, sli_slice_of("", 0), 0, &ei);
}
