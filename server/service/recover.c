/* SPDX-License-Identifier: Apache-2.0 */
/* What a server finds when it starts: VMs are known but stopped (their
 * processes died with the last server), sessions are there with their history,
 * turns that were running are lost, permissions nobody can answer any more are
 * expired. Nothing is run again by itself. */
#include "service/room.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

#define TURNS_LOOKED_AT 64
#define PERMS_MAX       1024

struct walk {
	struct svc *svc;
	struct sli_errinfo *ei;
	enum sli_err err;
	unsigned vms, sessions;
};

static void
load_vm(void *ctx, const struct store_vm_row *row)
{
	struct walk *w = ctx;
	struct sli_principal self = svc_self(row->tenant);
	struct vm_spec spec;
	void *mem = NULL;
	Sluice__V1__VmCreateRequest *req =
	    sluice__v1__vm_create_request__unpack(
		NULL, row->spec.n, row->spec.p);
	if (!req) {
		sli_log(SLI_LOG_ERR, "service", "vm_row_damaged",
		    "vm=%s, left out", row->id);
		return;
	}
	if (svc_vm_spec(req, &self, row->id, row->created_ms, &spec, &mem,
		w->ei) != SLI_OK ||
	    !vm_adopt_stopped(w->svc->vms, &spec,
		"the server was restarted; "
		"its disk was in memory"))
		w->err = SLI_E_NOMEM;
	w->vms++;
	sli_free(mem);
	sluice__v1__vm_create_request__free_unpacked(req, NULL);
}

struct left {
	struct acp_left turns[TURNS_LOOKED_AT];
	unsigned nturns;
	uint64_t pending[PERMS_MAX];
	unsigned npending;
};

static void
left_turn(void *ctx, const struct store_turn_row *row)
{
	struct left *l = ctx;
	if (row->outcome != SLI_TO_NONE || l->nturns == TURNS_LOOKED_AT)
		return;
	l->turns[l->nturns++] =
	    (struct acp_left){row->turn, row->started_ms != 0};
}

static void
left_perm(void *ctx, const struct store_perm_row *row)
{
	struct left *l = ctx;
	int open = row->state == SLI_PS_PENDING;
	if (open && l->npending < PERMS_MAX)
		l->pending[l->npending++] = row->request;
}

static enum sli_err
load_one(struct svc *svc, const struct store_session_row *row,
    struct sli_errinfo *ei)
{
	struct svc_session *u =
	    svc_session_new(svc, row->id, row->tenant, row->open_req, ei);
	struct acp_session *s = NULL;
	if (!u)
		return ei->code;
	struct acp_open o = {
	    .owner = svc_self(row->tenant),
	    .agent = row->agent,
	    .cwd = u->open->cwd[0] ? u->open->cwd : "/root",
	    .policy = u->open->policy ? (int)u->open->policy : SLI_PP_ASK,
	    .created_ms = row->created_ms,
	    .restored = 1,
	    .state = row->state,
	    .reason_code = row->reason_code,
	    .reason = row->reason,
	    .agent_session = row->agent_session,
	    .generation = row->generation,
	    .head = row->head,
	    .turn = row->turn,
	    .outcome = row->outcome,
	    .updated_ms = row->updated_ms,
	    .user = u,
	};
	sli_strlcpy(o.id, row->id, sizeof(o.id));
	sli_strlcpy(o.vm, row->vm, sizeof(o.vm));
	/* Limits that the new configuration no longer allows: its own then. */
	if (svc_acp_limits(svc, u->open->limits, u->open->n_limits, &o.limits,
		ei) != SLI_OK &&
	    svc_acp_limits(svc, NULL, 0, &o.limits, ei) != SLI_OK)
		return ei->code;
	enum sli_err e = acp_session_open(svc->acp, &o, &s, ei);
	u->acp = s;
	return e;
}

static void
load_session(void *ctx, const struct store_session_row *row)
{
	struct walk *w = ctx;
	struct sli_errinfo ei = {0};
	if (load_one(w->svc, row, &ei) == SLI_OK) {
		w->sessions++;
		return;
	}
	sli_log(SLI_LOG_ERR, "service", "session_row", "session=%s err=\"%s\"",
	    row->id, ei.text);
	if (ei.code == SLI_E_NOMEM)
		w->err = ei.code;
}

/* Once all rows are loaded: the store may not be asked from inside a walk. */
static enum sli_err
settle(struct svc *svc, struct svc_session *u, struct left *l,
    struct sli_errinfo *ei)
{
	struct acp_session *s = svc_session_acp(svc, u->id);
	if (!s)
		return SLI_OK;
	l->nturns = l->npending = 0;
	enum sli_err e = store_load_turns(
	    svc->store, u->id, TURNS_LOOKED_AT, left_turn, l, ei);
	if (e == SLI_OK)
		e = store_load_perms(svc->store, u->id, left_perm, l, ei);
	if (e == SLI_OK)
		acp_recover(s, l->turns, l->nturns, l->pending, l->npending);
	return e;
}

enum sli_err
svc_recover(struct svc *svc, struct sli_errinfo *ei)
{
	struct walk w = {.svc = svc, .ei = ei};
	struct left *l = sli_zalloc(sizeof(*l));
	struct svc_session *u;
	size_t pos = 0;
	enum sli_err e = l ? SLI_OK : SLI_E_NOMEM;
	if (e == SLI_OK)
		e = store_load_vms(svc->store, load_vm, &w, ei);
	if (e == SLI_OK)
		e = store_load_sessions(svc->store, load_session, &w, ei);
	if (e == SLI_OK)
		e = w.err;
	while (e == SLI_OK && (u = sli_map_next(svc->sessions, &pos)) != NULL)
		e = settle(svc, u, l, ei);
	sli_free(l);
	if (e != SLI_OK)
		return ei->code != SLI_OK ? ei->code
					  : sli_fail(ei, e, 0, "recover", "%s",
						sli_err_text(e));
	if (w.vms || w.sessions)
		sli_log(SLI_LOG_NOTICE, "service", "recovered",
		    "vms=%u sessions=%u", w.vms, w.sessions);
	return SLI_OK;
}
