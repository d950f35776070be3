/* SPDX-License-Identifier: Apache-2.0 */
/* sluice.v1.Sessions/Permissions and /Permit. */
#include "service/list_stream.h"
#include "service/room.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

#define LIST_MAX (8u << 20)

void
svc_perm_fill(
    struct svc_perm_msg *out, const char *session, const struct acp_perm *p)
{
	Sluice__V1__Permission *m = &out->m;
	sluice__v1__permission__init(m);
	m->session = svc_str(session);
	m->request = p->request;
	m->turn = p->turn;
	m->state = (Sluice__V1__PermissionState)p->state;
	m->created_ms = (uint64_t)p->created_ms;
	m->expires_ms = (uint64_t)p->expires_ms;
	m->title = svc_str(p->title);
	m->tool_call.data = (uint8_t *)(uintptr_t)p->tool_call.p;
	m->tool_call.len = p->tool_call.n;
	m->n_options = SLI_MIN(p->noptions, SVC_OPTIONS_MAX);
	for (size_t i = 0; i < m->n_options; i++) {
		sluice__v1__permission_option__init(&out->opt[i]);
		out->opt[i].option = svc_str(p->options[i].id);
		out->opt[i].name = svc_str(p->options[i].name);
		out->opt[i].kind = svc_str(p->options[i].kind);
		out->optp[i] = &out->opt[i];
	}
	m->options = out->optp;
}

static void
add_all(struct list_stream *out, struct acp_session *s)
{
	const struct svc_session *u = acp_session_user(s);
	struct svc_perm_msg *msg = sli_alloc(sizeof(*msg));
	struct acp_perm p;
	for (unsigned i = 0; msg && acp_perm_get(s, i, &p); i++) {
		svc_perm_fill(msg, u->id, &p);
		list_stream_add(out, &msg->m.base);
	}
	sli_free(msg);
}

SVC_HANDLER(svc_sessions_permissions)
{
	const Sluice__V1__PermissionsRequest *r = (const void *)req;
	struct acp_session *s = NULL;
	uint32_t pos = 0;
	if (r->session[0]) {
		s = svc_find_session(svc, c, r->session);
		if (!s)
			return;
	}
	struct list_stream *out = list_stream_new(LIST_MAX);
	if (!out) {
		svc_refuse(c, SLI_E_NOMEM, "permission", "out of memory");
		return;
	}
	if (s)
		add_all(out, s);
	else
		while ((s = acp_next(svc->acp, svc_principal(c), &pos)))
			add_all(out, s);
	list_stream_send(out, c);
}

struct permitting {
	struct svc_call call;
};

static void
permit_done(void *ctx, struct sli_slice option, int repeated,
    const struct sli_errinfo *ei)
{
	struct permitting *p = ctx;
	Sluice__V1__PermitResponse m = SLUICE__V1__PERMIT_RESPONSE__INIT;
	char *text = NULL;
	if (ei && ei->code != SLI_OK) {
		svc_fail(p->call, ei);
	} else if (option.n &&
		   !(text = sli_strndup((const char *)option.p, option.n))) {
		svc_refuse(p->call, SLI_E_NOMEM, "permission", "out of memory");
	} else {
		m.option = svc_str(text);
		m.repeated_key = repeated;
		svc_reply(p->call, &m.base);
	}
	sli_free(text);
	sli_free(p);
}

SVC_HANDLER(svc_sessions_permit)
{
	const Sluice__V1__PermitRequest *r = (const void *)req;
	struct acp_session *s = svc_find_session(svc, c, r->session);
	const char *option = NULL;
	if (!s)
		return;
	if (r->answer_case == SLUICE__V1__PERMIT_REQUEST__ANSWER_OPTION) {
		option = r->option;
	} else if (r->answer_case != SLUICE__V1__PERMIT_REQUEST__ANSWER_DENY ||
		   !r->deny) {
		svc_refuse(c, SLI_E_INVALID_ARGUMENT, "permission",
		    "name an option, or deny; no answer is never a yes");
		return;
	}
	struct permitting *p = sli_zalloc(sizeof(*p));
	if (!p) {
		svc_refuse(c, SLI_E_NOMEM, "permission", "out of memory");
		return;
	}
	p->call = c;
	acp_permit(s, r->request, option, svc_key(c), svc_principal(c)->name,
	    permit_done, p);
}
