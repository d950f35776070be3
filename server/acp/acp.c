/* SPDX-License-Identifier: Apache-2.0 */
/* The engine object: its sessions by id, making and forgetting them, and what
 * concerns all of them. What happens inside a session stands elsewhere. */
#include "acp/engine.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

static void hold_due(struct loop_timer *timer);
static void keep_snapshot(
    void *ctx, struct sli_slice line, int64_t at_ms, uint64_t superseded);

struct acp *
acp_new(struct loop *l, const struct acp_sink *sink, void *ctx)
{
	struct acp *a = sli_zalloc(sizeof(*a));

	if (!a)
		return NULL;
	a->loop = l;
	a->sink = sink;
	a->ctx = ctx;
	sli_list_init(&a->readings);
	a->by_id = sli_map_new();
	a->all =
	    sli_ids_new((uint32_t)sli_limit_info(SLI_L_ACP_MAX_SESSIONS)->max);
	a->chunk = sli_alloc(READ_CHUNK);
	if (a->by_id && a->all && a->chunk)
		return a;
	acp_free(a);
	return NULL;
}

static void
session_free(struct acp_session *s)
{
	struct acp *a = s->a;
	struct sli_list *it, *tmp;

	loop_timer_del(a->loop, &s->hold_timer);
	loop_timer_del(a->loop, &s->deadline_timer);
	loop_timer_del(a->loop, &s->grace_timer);
	loop_timer_del(a->loop, &s->perm_timer);
	journal_fini(s);
	sup_fini(&s->sup);
	turn_unref(s->active);
	sli_list_for_each_safe (it, tmp, &s->queue) {
		sli_list_del(it);
		turn_unref(SLI_LIST_ENTRY(it, struct turn, node));
	}
	sli_list_for_each_safe (it, tmp, &s->perms) {
		sli_list_del(it);
		perm_unref(SLI_LIST_ENTRY(it, struct perm, node));
	}
	for (unsigned i = 0; i < ENDED_KEPT; i++)
		turn_unref(s->ended[i]);
	for (unsigned i = 0; i < RESOLVED_KEPT; i++)
		perm_unref(s->resolved[i]);
	while (s->on_unload || s->on_delete) {
		struct done_waiter **w =
		    s->on_unload ? &s->on_unload : &s->on_delete;
		struct done_waiter *d = *w;

		*w = d->next;
		sli_free(d);
	}
	sli_buf_free(&s->preamble);
	sli_free(s->agent_name);
	sli_free(s->cwd);
	sli_free(s);
}

static void
session_reap(struct loop_reap *r)
{
	session_free(SLI_CONTAINER_OF(r, struct acp_session, reap));
}

void
session_unlist(struct acp_session *s)
{
	if (sli_map_get(s->a->by_id, sli_slice_str(s->id)) == s)
		(void)sli_map_del(s->a->by_id, sli_slice_str(s->id));
	if (s->handle)
		sli_ids_del(s->a->all, s->handle);
	s->handle = 0;
}

void
session_forget(struct acp_session *s)
{
	session_unlist(s);
	loop_reap(s->a->loop, &s->reap, session_reap);
}

void
acp_free(struct acp *a)
{
	uint32_t pos = 0;
	struct acp_session *s;

	if (!a)
		return;
	transcript_orphan(a);
	while (a->all && (s = sli_ids_next(a->all, &pos)) != NULL) {
		session_unlist(s);
		if (s->purge)
			*s->purge = NULL;
		agent_free(s->ag);
		session_free(s);
	}
	sli_map_free(a->by_id);
	sli_ids_free(a->all);
	sli_free(a->chunk);
	sli_free(a);
}

static void
session_restore(struct acp_session *s, const struct acp_open *o)
{
	struct shown *v = &s->shown;

	v->state = o->restored ? o->state : SLI_SS_OPENING;
	v->outcome = o->outcome;
	v->head = o->head;
	v->turn = o->turn;
	v->generation = o->generation;
	v->updated_ms = o->restored ? o->updated_ms : o->created_ms;
	(void)sli_strlcpy(v->reason_code, o->reason_code ? o->reason_code : "",
	    sizeof(v->reason_code));
	(void)sli_strlcpy(
	    v->reason, o->reason ? o->reason : "", sizeof(v->reason));
	(void)sli_strlcpy(v->agent_session,
	    o->agent_session ? o->agent_session : "", sizeof(v->agent_session));
	(void)sli_strlcpy(
	    s->agent_session, v->agent_session, sizeof(s->agent_session));
	s->state = v->state;
	s->generation = o->generation;
	s->last_turn = o->turn;
	s->had_turns = o->turn > 0;
}

static void
session_init(struct acp_session *s, struct acp *a, const struct acp_open *o)
{
	const struct sup_cfg cfg = {
	    .min_bytes = o->limits.v[SLI_L_ACP_SNAPSHOT_MIN],
	    .max_bytes = o->limits.v[SLI_L_ACP_SNAPSHOT_MAX],
	    .hold_ms = (int64_t)o->limits.v[SLI_L_ACP_SUPERSEDE_HOLD],
	    .rate = o->limits.v[SLI_L_ACP_SUPERSEDE_RATE],
	    .depth = o->limits.v[SLI_L_ACP_SUPERSEDE_DEPTH],
	};

	s->a = a;
	(void)sli_strlcpy(s->id, o->id, sizeof(s->id));
	(void)sli_strlcpy(s->vm, o->vm, sizeof(s->vm));
	s->owner = o->owner;
	s->user = o->user;
	s->policy = o->policy ? o->policy : SLI_PP_ASK;
	s->user = o->user;
	s->limits = o->limits;
	s->created_ms = o->created_ms;
	sli_list_init(&s->queue);
	sli_list_init(&s->perms);
	sli_buf_init(&s->preamble, SIZE_MAX);
	journal_init(s);
	sup_init(&s->sup, &cfg, keep_snapshot, s);
	loop_timer_init(&s->hold_timer, hold_due);
	cancel_init(s);
	permit_init(s);
	session_restore(s, o);
}

enum sli_err
acp_session_open(struct acp *a, const struct acp_open *o,
    struct acp_session **ret_s, struct sli_errinfo *ei)
{
	struct acp_session *s;

	loop_assert(a->loop);
	if (sli_map_get(a->by_id, sli_slice_str(o->id)))
		return sli_fail(ei, SLI_E_ALREADY_EXISTS, 0, "acp.open",
		    "a session of this id is there already");
	s = sli_zalloc(sizeof(*s));
	if (!s)
		return sli_fail(ei, SLI_E_NOMEM, 0, "acp.open", "no memory");
	session_init(s, a, o);
	s->agent_name = sli_strdup(o->agent ? o->agent : "");
	s->cwd = sli_strdup(o->cwd && *o->cwd ? o->cwd : "/root");
	s->handle = sli_ids_add(a->all, s);
	if (!s->agent_name || !s->cwd || !s->handle ||
	    sli_map_put(a->by_id, sli_slice_str(s->id), s) != 0) {
		session_unlist(s);
		session_free(s);
		return sli_fail(ei, SLI_E_NOMEM, 0, "acp.open", "no memory");
	}
	*ret_s = s;
	if (!o->restored)
		open_begin(s, 0);
	return SLI_OK;
}

/* --- looking -------------------------------------------------------------*/

struct acp_session *
acp_find(struct acp *a, const struct sli_principal *p, const char *id)
{
	struct acp_session *s = sli_map_get(a->by_id, sli_slice_str(id));

	/* One that is being deleted is found until it is gone: the service
	 * must be able to tell it that its agent has ended. */
	return s && sli_principal_sees(p, s->owner.tenant) ? s : NULL;
}

struct acp_session *
acp_next(struct acp *a, const struct sli_principal *p, uint32_t *pos)
{
	struct acp_session *s;

	while ((s = sli_ids_next(a->all, pos)) != NULL)
		if (sli_principal_sees(p, s->owner.tenant) && !s->deleting)
			return s;
	return NULL;
}

static uint64_t
held(const struct acp_session *s)
{
	uint64_t n = sup_held(&s->sup) + s->journal.waiting;

	if (s->ag)
		n += lines_held(&s->ag->lines) + s->ag->early_bytes;
	return n;
}

uint64_t
acp_held(const struct acp *a)
{
	uint32_t pos = 0;
	uint64_t sum = 0;
	const struct acp_session *s;

	while ((s = sli_ids_next(a->all, &pos)) != NULL)
		sum += held(s);
	return sum;
}

void
acp_session_info(const struct acp_session *s, struct acp_info *ret)
{
	const struct shown *v = &s->shown;

	*ret = (struct acp_info){
	    .id = s->id,
	    .vm = s->vm,
	    .agent = s->agent_name,
	    .cwd = s->cwd,
	    .state = v->state,
	    .outcome = v->outcome,
	    .policy = s->policy,
	    .reason_code = v->reason_code,
	    .reason = v->reason,
	    .agent_session = v->agent_session,
	    .head = v->head,
	    .turn = v->turn,
	    .generation = v->generation,
	    .pid = s->ag ? s->ag->pid : 0,
	    .tenant = s->owner.tenant,
	    .created_ms = s->created_ms,
	    .updated_ms = v->updated_ms,
	    .pending = permit_pending(s),
	    .queued = s->nqueue,
	    .held = held(s),
	    .superseded = s->sup.total,
	};
}

void *
acp_session_user(const struct acp_session *s)
{
	return s->user;
}

void
acp_session_set_user(struct acp_session *s, void *user)
{
	s->user = user;
}

unsigned
acp_busy(const struct acp *a)
{
	return a->busy;
}

void
acp_drain(struct acp *a)
{
	a->draining = 1;
}

/* --- the held snapshot ---------------------------------------------------*/

static void
keep_snapshot(
    void *ctx, struct sli_slice line, int64_t at_ms, uint64_t superseded)
{
	struct acp_session *s = ctx;
	struct txn *t = txn_new_plain(s);
	struct sli_record *r = txn_add(t, SLI_EV_AGENT, turn_now(s));

	r->ev.at_ms = at_ms;
	r->ev.superseded = superseded;
	txn_body(t, r, line);
	txn_submit(t, 0, NULL);
	volume_add(s, line.n, sli_slice_str("tool_call_update"),
	    sli_slice_of(s->sup.call, s->sup.call_n));
}

static void
hold_due(struct loop_timer *timer)
{
	struct acp_session *s =
	    SLI_CONTAINER_OF(timer, struct acp_session, hold_timer);

	sup_tick(&s->sup, loop_now_ms(s->a->loop));
	loop_timer_set(s->a->loop, &s->hold_timer, sup_due_ms(&s->sup));
}
