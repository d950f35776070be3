/* SPDX-License-Identifier: Apache-2.0 */
/* Typed calls on sessions: open, get, list, unload, delete, cancel. */
#include "typed.h"

#include "sluice/v1/sessions.pb-c.h"

static enum sli_err
give_session(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__SessionInfo *m = (const void *)pm;
	sluice_session_fn *fn = (sluice_session_fn *)t->fn;
	struct sluice_session d = {.size = sizeof(d)};

	if (!m) {
		fn(t->arg, NULL, err);
		return SLI_OK;
	}
	d.session = m->session;
	d.vm = m->vm;
	d.agent = m->agent;
	d.cwd = m->cwd;
	d.reason_code = m->reason_code;
	d.reason = m->reason;
	d.agent_session = m->agent_session;
	d.chain = sli_hex_str(a, m->chain.data, m->chain.len);
	d.state = (int32_t)m->state;
	d.outcome = (int32_t)m->outcome;
	d.policy = (int32_t)m->policy;
	d.generation = m->generation;
	d.pid = m->pid;
	d.pending_permissions = m->pending_permissions;
	d.head = m->head;
	d.low = m->low;
	d.epoch = m->epoch;
	d.turn = m->turn;
	d.bytes = m->bytes;
	d.created_ms = m->created_ms;
	d.updated_ms = m->updated_ms;
	if (!d.chain)
		return SLI_E_NOMEM;
	fn(t->arg, &d, NULL);
	return SLI_OK;
}

static struct sli_typed
typed_session(sluice_session_fn *fn, void *arg)
{
	return (struct sli_typed){
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__session_info__descriptor,
	    .give = give_session,
	};
}

/* --- open ----------------------------------------------------------------*/

static enum sli_err
take_how(struct sli_arena *a, const struct sluice_session_spec *in,
    Sluice__V1__SessionOpenRequest *req, Sluice__V1__AgentCommand *cmd,
    struct sli_errinfo *ei)
{
	int bare = in->argv && in->argv[0];

	if (bare == (in->agent != NULL))
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "client.session",
		    "give either an agent's name or a command");
	if (!bare) {
		req->how_case = SLUICE__V1__SESSION_OPEN_REQUEST__HOW_AGENT;
		req->agent = sli_pb_str(in->agent);
		return SLI_OK;
	}
	cmd->argv = sli_take_strs(a, in->argv, &cmd->n_argv);
	if (!cmd->argv)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "client.session", "out of memory");
	req->how_case = SLUICE__V1__SESSION_OPEN_REQUEST__HOW_COMMAND;
	req->command = cmd;
	return SLI_OK;
}

static enum sli_err
take_spec(struct sli_arena *a, const struct sluice_session_spec *in,
    Sluice__V1__SessionOpenRequest *req, struct sli_errinfo *ei)
{
	enum sli_err e;

	req->vm = sli_pb_str(in->vm);
	req->cwd = sli_pb_str(in->cwd);
	req->session = sli_pb_str(in->session);
	if (in->policy < SLUICE_POLICY_DEFAULT ||
	    in->policy > SLUICE_POLICY_ALLOW_ALL)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "client.session",
		    "no such permission policy: %d", in->policy);
	req->policy = (Sluice__V1__PermissionPolicy)in->policy;
	e = sli_take_pairs(a, in->env, "env", &req->env, &req->n_env, ei);
	if (e == SLI_OK)
		e = sli_take_pairs(
		    a, in->limits, "limit", &req->limits, &req->n_limits, ei);
	return e;
}

int
sluice_session_open(sluice_client *c, const struct sluice_session_spec *spec,
    sluice_session_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	Sluice__V1__SessionOpenRequest req =
	    SLUICE__V1__SESSION_OPEN_REQUEST__INIT;
	Sluice__V1__AgentCommand cmd = SLUICE__V1__AGENT_COMMAND__INIT;
	const struct sli_typed t = typed_session(fn, arg);
	struct sluice_session_spec in;
	struct sli_errinfo ei = {0};
	struct sli_arena a;
	int rc;

	sli_arena_init(&a, SLI_TYPED_ARENA);
	if (sli_take_struct(&in, sizeof(in), spec, "struct sluice_session_spec",
		&ei) != SLI_OK ||
	    take_how(&a, &in, &req, &cmd, &ei) != SLI_OK ||
	    take_spec(&a, &in, &req, &ei) != SLI_OK)
		rc = sli_err_give(err, &ei);
	else
		rc = sli_typed_call(c, "sluice.v1.Sessions/Open", &req.base,
		    in.key, &t, ret_s, err);
	sli_arena_free(&a);
	return rc;
}

/* --- by id ---------------------------------------------------------------*/

int
sluice_session_get(sluice_client *c, const char *session, sluice_session_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__SessionGetRequest req =
	    SLUICE__V1__SESSION_GET_REQUEST__INIT;
	const struct sli_typed t = typed_session(fn, arg);

	req.session = sli_pb_str(session);
	return sli_typed_call(
	    c, "sluice.v1.Sessions/Get", &req.base, NULL, &t, ret_s, err);
}

int
sluice_session_list(sluice_client *c, const char *vm, sluice_session_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__SessionListRequest req =
	    SLUICE__V1__SESSION_LIST_REQUEST__INIT;
	const struct sli_typed t = typed_session(fn, arg);

	req.vm = sli_pb_str(vm);
	return sli_typed_call(
	    c, "sluice.v1.Sessions/List", &req.base, NULL, &t, ret_s, err);
}

int
sluice_session_unload(sluice_client *c, const char *session,
    sluice_session_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	Sluice__V1__SessionUnloadRequest req =
	    SLUICE__V1__SESSION_UNLOAD_REQUEST__INIT;
	const struct sli_typed t = typed_session(fn, arg);

	req.session = sli_pb_str(session);
	return sli_typed_call(
	    c, "sluice.v1.Sessions/Unload", &req.base, NULL, &t, ret_s, err);
}

int
sluice_session_delete(sluice_client *c, const char *session, sluice_done_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__SessionDeleteRequest req =
	    SLUICE__V1__SESSION_DELETE_REQUEST__INIT;
	const struct sli_typed t = sli_typed_done(fn, arg);

	req.session = sli_pb_str(session);
	return sli_typed_call(
	    c, "sluice.v1.Sessions/Delete", &req.base, NULL, &t, ret_s, err);
}

/* --- cancel --------------------------------------------------------------*/

static enum sli_err
give_cancel(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__SessionCancelResponse *m = (const void *)pm;
	sluice_cancel_fn *fn = (sluice_cancel_fn *)t->fn;

	(void)a;
	if (m)
		fn(t->arg, &m->turn, NULL);
	else
		fn(t->arg, NULL, err);
	return SLI_OK;
}

int
sluice_cancel(sluice_client *c, const char *session, sluice_cancel_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__SessionCancelRequest req =
	    SLUICE__V1__SESSION_CANCEL_REQUEST__INIT;
	const struct sli_typed t = {
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__session_cancel_response__descriptor,
	    .give = give_cancel,
	};

	req.session = sli_pb_str(session);
	return sli_typed_call(
	    c, "sluice.v1.Sessions/Cancel", &req.base, NULL, &t, ret_s, err);
}
