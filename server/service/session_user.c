/* SPDX-License-Identifier: Apache-2.0 */
/* What the service keeps for a session beside the engine's own state: the
 * request that opened it (its command and environment) and the agent's
 * process. Found by id from callbacks of other engines. */
#include "service/room.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

struct svc_session *
svc_session_new(struct svc *svc, const char *id, uint64_t tenant,
    struct sli_slice open_req, struct sli_errinfo *ei)
{
	struct svc_session *u = sli_zalloc(sizeof(*u));
	if (!u)
		goto nomem;
	u->svc = svc;
	u->tenant = tenant;
	sli_strlcpy(u->id, id, sizeof(u->id));
	/* Our own encoding, from the database or just packed: no guard. */
	u->open = sluice__v1__session_open_request__unpack(
	    NULL, open_req.n, open_req.p);
	if (!u->open) {
		sli_free(u);
		(void)sli_fail(ei, SLI_E_DATA_LOSS, 0, "session",
		    "the stored request of session %s is damaged", id);
		return NULL;
	}
	sli_strlcpy(u->vm, u->open->vm, sizeof(u->vm));
	if (sli_map_put(svc->sessions, sli_slice_str(u->id), u) != 0)
		goto nomem;
	return u;
nomem:
	if (u)
		sluice__v1__session_open_request__free_unpacked(u->open, NULL);
	sli_free(u);
	(void)sli_fail(ei, SLI_E_NOMEM, 0, "session", "out of memory");
	return NULL;
}

void
svc_session_free(struct svc_session *u)
{
	if (!u)
		return;
	(void)sli_map_del(u->svc->sessions, sli_slice_str(u->id));
	sluice__v1__session_open_request__free_unpacked(u->open, NULL);
	sli_free(u);
}

struct acp_session *
svc_session_acp(struct svc *svc, const char *id)
{
	struct svc_session *u = sli_map_get(svc->sessions, sli_slice_str(id));
	return u ? u->acp : NULL;
}

enum sli_err
svc_acp_limits(struct svc *svc, Sluice__V1__KeyValue **kv, size_t n,
    struct sli_limits *ret, struct sli_errinfo *ei)
{
	struct sli_limits l = *svc->cfg.limits;
	struct sli_limit_kv *list = sli_calloc(n + 1, sizeof(*list));
	if (!list)
		return sli_fail(ei, SLI_E_NOMEM, 0, "session", "out of memory");
	for (size_t i = 0; i < n; i++)
		list[i] = (struct sli_limit_kv){kv[i]->key, kv[i]->value};
	enum sli_err e = sli_limits_apply(&l, list, n, "acp.", ei);
	sli_free(list);
	if (e == SLI_OK)
		*ret = l;
	return e;
}
