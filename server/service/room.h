/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the service room share. Not for other rooms. */
#ifndef SLUICE_SERVICE_ROOM_H
#define SLUICE_SERVICE_ROOM_H

#include "base/map.h"
#include "service/service.h"
#include "sluice/v1/core.pb-c.h"
#include "sluice/v1/processes.pb-c.h"
#include "sluice/v1/server.pb-c.h"
#include "sluice/v1/sessions.pb-c.h"
#include "sluice/v1/vms.pb-c.h"

struct svc_idem;

struct svc {
	struct loop *loop;
	struct store *store;
	struct vm_engine *vms;
	struct acp *acp;
	struct service_cfg cfg;
	struct svc_idem *idem;
	struct sli_map *sessions; /* id -> struct svc_session */
	struct sli_list walks;    /* open event streams (svc_history.c) */
	int64_t started_ms;       /* monotonic */
	int draining;             /* 0 no, 1 waiting for turns, 2 ending them */
	int64_t drain_until_ms;
	struct loop_timer drain_timer;
	void (*drained)(void *ctx);
	void *drained_ctx;
};

/* --- per session, kept as acp's user pointer (session_user.c) ------------*/

struct svc_session {
	struct svc *svc;
	char id[SLI_ID_MAX];
	char vm[SLI_ID_MAX];
	uint64_t tenant;
	Sluice__V1__SessionOpenRequest *open; /* owned; protobuf-c heap */
	struct acp_session *acp; /* from its first word to the end of purge */
	uint32_t pid;            /* of the agent in its VM; 0 = none */
	uint32_t generation;     /* that pid belongs to */
	uint32_t unwanted;       /* generations up to this were killed */
};

/* Enters it into svc->sessions. open_req: an encoded SessionOpenRequest. */
SLI_MUST struct svc_session *svc_session_new(struct svc *svc, const char *id,
    uint64_t tenant, struct sli_slice open_req, struct sli_errinfo *ei);
void svc_session_free(struct svc_session *u);
/* By id, whoever's it is and also while it is being deleted: for the server's
 * own use. */
struct acp_session *svc_session_acp(struct svc *svc, const char *id);

/* The principal by which the server itself looks at a tenant's objects. */
struct sli_principal svc_self(uint64_t tenant);

/* --- joints ---------------------------------------------------------------*/

extern const struct acp_sink svc_acp_sink; /* glue_acp.c */
extern const struct vm_sink svc_vm_sink;   /* glue_vm.c */
void svc_store_pressure(void *ctx, const char *sid, int full);

/* Fill the engine's limits from the server's, then "acp.*" of the request. */
SLI_MUST enum sli_err svc_acp_limits(struct svc *svc, Sluice__V1__KeyValue **kv,
    size_t n, struct sli_limits *ret, struct sli_errinfo *ei);
/* A VmCreateRequest as the engine's spec; arrays live in *ret_mem (freed by
 * the caller with sli_free), strings in the request. */
SLI_MUST enum sli_err svc_vm_spec(const Sluice__V1__VmCreateRequest *req,
    const struct sli_principal *owner, const char *id, int64_t created_ms,
    struct vm_spec *ret, void **ret_mem, struct sli_errinfo *ei);
/* After service_new opened the store: VMs and sessions as they were. */
SLI_MUST enum sli_err svc_recover(struct svc *svc, struct sli_errinfo *ei);

/* --- create-like calls by idempotency key (idem.c) ------------------------*/

SLI_MUST struct svc_idem *svc_idem_new(unsigned max);
void svc_idem_free(struct svc_idem *t);
/* Id that an earlier call with this key made, or NULL. */
const char *svc_idem_get(const struct svc_idem *t, uint64_t tenant,
    const char *method, struct sli_slice key);
/* Remember; the oldest entry goes when full. An empty key is nothing. */
void svc_idem_put(struct svc_idem *t, uint64_t tenant, const char *method,
    struct sli_slice key, const char *id);

/* protobuf-c's strings are not const; what is packed is not written to. */
static inline char *
svc_str(const char *s)
{
	return s ? (char *)(uintptr_t)s : (char *)(uintptr_t) "";
}

/* Pages of history that open event streams hold in memory, of one session or
 * all (NULL): part of the gauge `held`. */
uint64_t svc_history_held(const struct svc *svc, const char *session);

/* --- shared encoders ------------------------------------------------------*/

/* Fill a SessionInfo that borrows from s and u; chain needs 32 bytes. */
void svc_session_info(struct svc *svc, struct acp_session *s,
    Sluice__V1__SessionInfo *ret, uint8_t chain[32]);
/* A Permission that borrows from the engine's record; opts and optp have room
 * for SVC_OPTIONS_MAX. */
#define SVC_OPTIONS_MAX 32

struct svc_perm_msg {
	Sluice__V1__Permission m;
	Sluice__V1__PermissionOption opt[SVC_OPTIONS_MAX];
	Sluice__V1__PermissionOption *optp[SVC_OPTIONS_MAX];
};

void svc_perm_fill(
    struct svc_perm_msg *out, const char *session, const struct acp_perm *p);
/* Fail the call with one sentence. */
void svc_refuse(struct svc_call c, enum sli_err code, const char *where,
    const char *fmt, ...) SLI_PRINTF(4, 5);
/* Session of the caller's tenant, or NULL after the call has been failed. */
struct acp_session *svc_find_session(
    struct svc *svc, struct svc_call c, const char *id);
struct vm *svc_find_vm(struct svc *svc, struct svc_call c, const char *id);

/* --- handlers -------------------------------------------------------------*/

#define SVC_HANDLER(name) \
	void name(        \
	    struct svc *svc, struct svc_call c, const ProtobufCMessage *req)

SVC_HANDLER(svc_server_echo);
SVC_HANDLER(svc_server_info);
SVC_HANDLER(svc_server_stats);
SVC_HANDLER(svc_server_doctor);
SVC_HANDLER(svc_vms_create);
SVC_HANDLER(svc_vms_get);
SVC_HANDLER(svc_vms_list);
SVC_HANDLER(svc_vms_delete);
SVC_HANDLER(svc_processes_exec);
SVC_HANDLER(svc_processes_attach);
SVC_HANDLER(svc_processes_list);
SVC_HANDLER(svc_processes_kill);
SVC_HANDLER(svc_sessions_open);
SVC_HANDLER(svc_sessions_get);
SVC_HANDLER(svc_sessions_list);
SVC_HANDLER(svc_sessions_prompt);
SVC_HANDLER(svc_sessions_cancel);
SVC_HANDLER(svc_sessions_permissions);
SVC_HANDLER(svc_sessions_permit);
SVC_HANDLER(svc_sessions_unload);
SVC_HANDLER(svc_sessions_delete);
SVC_HANDLER(svc_sessions_history);
SVC_HANDLER(svc_sessions_subscribe);

#endif
