/* SPDX-License-Identifier: Apache-2.0 */
/* sluice.v1.Sessions: opening, looking, ending. Prompts are svc_prompt.c,
 * permissions svc_permissions.c, events svc_history.c. */
#include "service/list_stream.h"
#include "service/room.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "crypto/random.h"

#include <string.h>

#define LIST_MAX (8u << 20)

static_assert(
    (int)SLI_SS_DELETED == SLUICE__V1__SESSION_STATE__SESSION_STATE_DELETED,
    "states are the .proto's");
static_assert((int)SLI_TO_BUDGET_EXCEEDED ==
		  SLUICE__V1__TURN_OUTCOME__TURN_OUTCOME_BUDGET_EXCEEDED,
    "outcomes are the .proto's");
static_assert((int)SLI_PS_CANCELED ==
		  SLUICE__V1__PERMISSION_STATE__PERMISSION_STATE_CANCELED,
    "permission states are the .proto's");
static_assert((int)SLI_PP_ALLOW_ALL ==
		  SLUICE__V1__PERMISSION_POLICY__PERMISSION_POLICY_ALLOW_ALL,
    "policies are the .proto's");
static_assert((int)SLI_EV_PROMPT == SLUICE__V1__EVENT_KIND__EVENT_KIND_PROMPT,
    "kinds are the .proto's");

void
svc_session_info(struct svc *svc, struct acp_session *s,
    Sluice__V1__SessionInfo *ret, uint8_t chain[32])
{
	struct acp_info in;
	uint64_t low = 0, head = 0;
	acp_session_info(s, &in);
	sluice__v1__session_info__init(ret);
	if (store_range(svc->store, in.id, &low, &head) != SLI_OK)
		low = head = 0;
	ret->session = svc_str(in.id);
	ret->vm = svc_str(in.vm);
	ret->agent = svc_str(in.agent);
	ret->state = (Sluice__V1__SessionState)in.state;
	ret->reason_code = svc_str(in.reason_code);
	ret->reason = svc_str(in.reason);
	ret->head = head;
	ret->low = low;
	ret->epoch = 1;
	ret->turn = in.turn;
	ret->outcome = (Sluice__V1__TurnOutcome)in.outcome;
	ret->created_ms = (uint64_t)in.created_ms;
	ret->updated_ms = (uint64_t)in.updated_ms;
	ret->agent_session = svc_str(in.agent_session);
	ret->generation = in.generation;
	ret->pid = in.pid;
	ret->bytes = store_bytes(svc->store, in.id);
	ret->policy = (Sluice__V1__PermissionPolicy)in.policy;
	ret->pending_permissions = in.pending;
	ret->cwd = svc_str(in.cwd);
	if (store_chain(svc->store, in.id, chain) == SLI_OK) {
		ret->chain.data = chain;
		ret->chain.len = 32;
	}
}

static void
reply_info(struct svc *svc, struct svc_call c, struct acp_session *s)
{
	Sluice__V1__SessionInfo m;
	uint8_t chain[32];
	svc_session_info(svc, s, &m, chain);
	svc_reply(c, &m.base);
}

/* --- open -----------------------------------------------------------------*/

struct opening {
	struct svc *svc;
	struct svc_call call;
	struct sli_principal who;
	struct svc_session *user;
	struct sli_limits limits;
	int64_t created_ms;
};

static enum sli_err
id_check(const char *id, struct sli_errinfo *ei)
{
	size_t n = strlen(id);
	if (n >= SLI_ID_MAX || n < 3 ||
	    strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		       "0123456789_-") != n)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "session",
		    "session id: 3 to %d letters, digits, '_' or '-'",
		    SLI_ID_MAX - 1);
	return SLI_OK;
}

static int
agent_known(const struct svc *svc, const char *name)
{
	for (unsigned i = 0; i < svc->cfg.nagents; i++)
		if (strcmp(svc->cfg.agents[i].name, name) == 0)
			return 1;
	return 0;
}

static enum sli_err
agent_check(const struct svc *svc, const Sluice__V1__SessionOpenRequest *r,
    struct sli_errinfo *ei)
{
	if (r->how_case == SLUICE__V1__SESSION_OPEN_REQUEST__HOW_COMMAND)
		return r->command->n_argv && r->command->argv[0][0]
			   ? SLI_OK
			   : sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "session",
				 "the agent command is empty");
	if (r->how_case != SLUICE__V1__SESSION_OPEN_REQUEST__HOW_AGENT)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "session",
		    "name an agent, or give its command after --");
	if (!agent_known(svc, r->agent))
		return sli_fail(ei, SLI_E_NOT_FOUND, 0, "session",
		    "no agent \"%.40s\": register it in the configuration, or "
		    "give its command after --",
		    r->agent);
	return SLI_OK;
}

static void
count_sessions(
    const struct svc *svc, const char *vm, uint64_t *ret_vm, uint64_t *ret_all)
{
	struct svc_session *u;
	size_t pos = 0;
	*ret_vm = 0;
	*ret_all = sli_map_count(svc->sessions);
	while ((u = sli_map_next(svc->sessions, &pos)) != NULL)
		*ret_vm += strcmp(u->vm, vm) == 0;
}

static enum sli_err
limits_check(const struct svc *svc, const char *vm, struct sli_errinfo *ei)
{
	uint64_t in_vm, all;
	uint64_t max_vm =
	    sli_limits_get(svc->cfg.limits, SLI_L_ACP_MAX_SESSIONS_VM);
	uint64_t max = sli_limits_get(svc->cfg.limits, SLI_L_ACP_MAX_SESSIONS);
	count_sessions(svc, vm, &in_vm, &all);
	enum sli_err e = SLI_OK;
	if (in_vm >= max_vm)
		e = sli_limit_refuse(
		    ei, SLI_L_ACP_MAX_SESSIONS_VM, in_vm, 1, max_vm, "session");
	if (all >= max) {
		if (e == SLI_OK)
			e = sli_limit_refuse(
			    ei, SLI_L_ACP_MAX_SESSIONS, all, 1, max, "session");
		else
			sli_errinfo_hit(ei,
			    sli_limit_info(SLI_L_ACP_MAX_SESSIONS)->key, all, 1,
			    max);
	}
	return e;
}

static enum sli_err
open_check(struct svc *svc, const Sluice__V1__SessionOpenRequest *r,
    struct sli_limits *limits, struct sli_errinfo *ei)
{
	enum sli_err e = agent_check(svc, r, ei);
	if (e == SLI_OK && r->session[0])
		e = id_check(r->session, ei);
	if (e == SLI_OK && r->cwd[0] && r->cwd[0] != '/')
		e = sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "session",
		    "cwd: must be absolute");
	if (e == SLI_OK &&
	    r->policy >
		SLUICE__V1__PERMISSION_POLICY__PERMISSION_POLICY_ALLOW_ALL)
		e = sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "session",
		    "policy: ask, reject_all or allow_all");
	if (e == SLI_OK)
		e = limits_check(svc, r->vm, ei);
	if (e == SLI_OK)
		e = svc_acp_limits(svc, r->limits, r->n_limits, limits, ei);
	return e;
}

static enum sli_err
open_engine(const struct opening *op, struct acp_session **ret_s,
    struct sli_errinfo *ei)
{
	struct svc_session *u = op->user;
	int named =
	    u->open->how_case == SLUICE__V1__SESSION_OPEN_REQUEST__HOW_AGENT;
	struct acp_open o = {
	    .owner = op->who,
	    .agent = named ? u->open->agent : "",
	    .cwd = u->open->cwd[0] ? u->open->cwd : "/root",
	    .policy = u->open->policy ? (int)u->open->policy : SLI_PP_ASK,
	    .limits = op->limits,
	    .created_ms = op->created_ms,
	    .user = u,
	};
	sli_strlcpy(o.id, u->id, sizeof(o.id));
	sli_strlcpy(o.vm, u->vm, sizeof(o.vm));
	enum sli_err e = acp_session_open(op->svc->acp, &o, ret_s, ei);
	u->acp = *ret_s;
	return e;
}

static void
open_stored(void *ctx, uint64_t seq, const struct sli_errinfo *ei)
{
	struct opening *op = ctx;
	struct acp_session *s = NULL;
	struct sli_errinfo mine = {0};
	(void)seq;
	if (ei->code != SLI_OK) {
		svc_fail(op->call, ei);
		svc_session_free(op->user);
	} else if (open_engine(op, &s, &mine) != SLI_OK) {
		svc_fail(op->call, &mine);
		store_del_session(op->svc->store, op->user->id, NULL, NULL);
		svc_session_free(op->user);
	} else {
		svc_idem_put(op->svc->idem, op->who.tenant, "session",
		    svc_key(op->call), op->user->id);
		reply_info(op->svc, op->call, s);
	}
	sli_free(op);
}

static struct svc_session *
open_user(struct svc *svc, const struct sli_principal *p,
    const Sluice__V1__SessionOpenRequest *r, uint8_t **ret_enc, size_t *ret_len,
    struct sli_errinfo *ei)
{
	char id[SLI_ID_MAX];
	size_t n = protobuf_c_message_get_packed_size(&r->base);
	uint8_t *enc = sli_alloc(n + 1);
	if (!enc) {
		(void)sli_fail(ei, SLI_E_NOMEM, 0, "session", "out of memory");
		return NULL;
	}
	n = protobuf_c_message_pack(&r->base, enc);
	if (r->session[0])
		sli_strlcpy(id, r->session, sizeof(id));
	else
		sli_id_make(id, "s");
	struct svc_session *u =
	    svc_session_new(svc, id, p->tenant, sli_slice_of(enc, n), ei);
	if (!u) {
		sli_free(enc);
		return NULL;
	}
	*ret_enc = enc;
	*ret_len = n;
	return u;
}

static int
disk_full(const struct svc *svc)
{
	struct store_stats st;
	store_stats(svc->store, &st);
	return st.full;
}

SVC_HANDLER(svc_sessions_open)
{
	const Sluice__V1__SessionOpenRequest *r = (const void *)req;
	const struct sli_principal *p = svc_principal(c);
	struct sli_errinfo ei = {0};
	uint8_t *enc = NULL;
	size_t n = 0;
	const char *known =
	    svc_idem_get(svc->idem, p->tenant, "session", svc_key(c));
	struct acp_session *s = known ? acp_find(svc->acp, p, known) : NULL;
	if (s) {
		reply_info(svc, c, s);
		return;
	}
	if (!svc_find_vm(svc, c, r->vm))
		return;
	struct opening *op = sli_zalloc(sizeof(*op));
	if (!op) {
		svc_refuse(c, SLI_E_NOMEM, "session", "out of memory");
		return;
	}
	if (svc->draining)
		(void)sli_fail(&ei, SLI_E_DRAINING, 0, "session",
		    "the server is stopping");
	else if (disk_full(svc))
		(void)sli_fail(&ei, SLI_E_STORAGE_FULL, 0, "session",
		    "the disk of the server's state is full: make room, then "
		    "try again");
	else if (r->session[0] &&
		 sli_map_get(svc->sessions, sli_slice_str(r->session)))
		(void)sli_fail(&ei, SLI_E_ALREADY_EXISTS, 0, "session",
		    "this session id is taken; choose another, or none");
	else if (open_check(svc, r, &op->limits, &ei) == SLI_OK)
		op->user = open_user(svc, p, r, &enc, &n, &ei);
	if (!op->user) {
		svc_fail(c, &ei);
		sli_free(op);
		return;
	}
	op->svc = svc;
	op->call = c;
	op->who = *p;
	op->created_ms = sli_wall_ms();
	struct store_session_row row = {
	    .tenant = p->tenant,
	    .state = SLI_SS_OPENING,
	    .reason_code = "",
	    .reason = "",
	    .agent = r->how_case == SLUICE__V1__SESSION_OPEN_REQUEST__HOW_AGENT
			 ? r->agent
			 : "",
	    .open_req = sli_slice_of(enc, n),
	    .agent_session = "",
	    .epoch = 1,
	    .created_ms = op->created_ms,
	    .updated_ms = op->created_ms,
	};
	sli_strlcpy(row.id, op->user->id, sizeof(row.id));
	sli_strlcpy(row.vm, op->user->vm, sizeof(row.vm));
	store_new_session(svc->store, &row, NULL, 0, open_stored, op);
	sli_free(enc);
}

/* --- get, list ------------------------------------------------------------*/

SVC_HANDLER(svc_sessions_get)
{
	const Sluice__V1__SessionGetRequest *r = (const void *)req;
	struct acp_session *s = svc_find_session(svc, c, r->session);
	if (s)
		reply_info(svc, c, s);
}

SVC_HANDLER(svc_sessions_list)
{
	const Sluice__V1__SessionListRequest *r = (const void *)req;
	struct list_stream *out = list_stream_new(LIST_MAX);
	uint32_t pos = 0;
	struct acp_session *s;
	if (!out) {
		svc_refuse(c, SLI_E_NOMEM, "session", "out of memory");
		return;
	}
	while ((s = acp_next(svc->acp, svc_principal(c), &pos)) != NULL) {
		const struct svc_session *u = acp_session_user(s);
		Sluice__V1__SessionInfo m;
		uint8_t chain[32];
		if (r->vm[0] && strcmp(r->vm, u->vm) != 0)
			continue;
		svc_session_info(svc, s, &m, chain);
		list_stream_add(out, &m.base);
	}
	list_stream_send(out, c);
}

/* --- cancel, unload, delete -----------------------------------------------*/

struct ending {
	struct svc *svc;
	struct svc_call call;
	struct sli_principal who;
	char id[SLI_ID_MAX];
};

static struct ending *
ending_new(struct svc *svc, struct svc_call c, const char *id)
{
	struct ending *e = sli_zalloc(sizeof(*e));
	if (!e) {
		svc_refuse(c, SLI_E_NOMEM, "session", "out of memory");
		return NULL;
	}
	e->svc = svc;
	e->call = c;
	e->who = *svc_principal(c);
	sli_strlcpy(e->id, id, sizeof(e->id));
	return e;
}

/* Canceled while it opened: nothing of it is left. */
static void
undone(void *ctx, const struct sli_errinfo *ei)
{
	struct ending *e = ctx;
	Sluice__V1__SessionCancelResponse m =
	    SLUICE__V1__SESSION_CANCEL_RESPONSE__INIT;
	if (ei && ei->code != SLI_OK)
		svc_fail(e->call, ei);
	else
		svc_reply(e->call, &m.base);
	sli_free(e);
}

SVC_HANDLER(svc_sessions_cancel)
{
	const Sluice__V1__SessionCancelRequest *r = (const void *)req;
	Sluice__V1__SessionCancelResponse m =
	    SLUICE__V1__SESSION_CANCEL_RESPONSE__INIT;
	struct acp_session *s = svc_find_session(svc, c, r->session);
	struct acp_info in;
	if (!s)
		return;
	acp_session_info(s, &in);
	if (in.state == SLI_SS_OPENING && in.turn == 0) {
		struct ending *e = ending_new(svc, c, r->session);
		if (e)
			acp_delete(s, undone, e);
		return;
	}
	m.turn = acp_cancel(s);
	svc_reply(c, &m.base);
}

static void
unload_done(void *ctx, const struct sli_errinfo *ei)
{
	struct ending *e = ctx;
	struct acp_session *s = acp_find(e->svc->acp, &e->who, e->id);
	if (ei && ei->code != SLI_OK)
		svc_fail(e->call, ei);
	else if (s)
		reply_info(e->svc, e->call, s);
	else
		svc_refuse(e->call, SLI_E_NOT_FOUND, "session",
		    "the session was deleted meanwhile");
	sli_free(e);
}

SVC_HANDLER(svc_sessions_unload)
{
	const Sluice__V1__SessionUnloadRequest *r = (const void *)req;
	struct acp_session *s = svc_find_session(svc, c, r->session);
	struct ending *e = s ? ending_new(svc, c, r->session) : NULL;
	if (e)
		acp_unload(s, unload_done, e);
}

static void
delete_done(void *ctx, const struct sli_errinfo *ei)
{
	struct ending *e = ctx;
	Sluice__V1__SessionDeleteResponse m =
	    SLUICE__V1__SESSION_DELETE_RESPONSE__INIT;
	if (ei && ei->code != SLI_OK)
		svc_fail(e->call, ei);
	else
		svc_reply(e->call, &m.base);
	sli_free(e);
}

SVC_HANDLER(svc_sessions_delete)
{
	const Sluice__V1__SessionDeleteRequest *r = (const void *)req;
	struct acp_session *s = svc_find_session(svc, c, r->session);
	struct ending *e = s ? ending_new(svc, c, r->session) : NULL;
	if (e)
		acp_delete(s, delete_done, e);
}
