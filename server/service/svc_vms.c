/* SPDX-License-Identifier: Apache-2.0 */
/* sluice.v1.Vms. A VM's row is stored before its creation is answered, so
 * that it is known after a restart; it is removed when nothing is left. */
#include "service/list_stream.h"
#include "service/room.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "crypto/random.h"

#include <string.h>

#define LIMITS_SHOWN 16
#define LIST_MAX     (8u << 20)
#define NAME_MAX_LEN 64

enum sli_err
svc_vm_spec(const Sluice__V1__VmCreateRequest *req,
    const struct sli_principal *owner, const char *id, int64_t created_ms,
    struct vm_spec *ret, void **ret_mem, struct sli_errinfo *ei)
{
	size_t nm = req->n_mounts, ne = req->n_env, nl = req->n_limits;
	size_t bytes =
	    nm * sizeof(struct vm_mount) + (ne + nl) * sizeof(struct vm_kv) + 1;
	struct vm_mount *m = sli_zalloc(bytes);
	if (!m)
		return sli_fail(ei, SLI_E_NOMEM, 0, "vm", "out of memory");
	struct vm_kv *env = (struct vm_kv *)(void *)(m + nm);
	struct vm_kv *lim = env + ne;
	for (size_t i = 0; i < nm; i++)
		m[i] = (struct vm_mount){req->mounts[i]->source,
		    req->mounts[i]->target, req->mounts[i]->read_only};
	for (size_t i = 0; i < ne; i++)
		env[i] = (struct vm_kv){req->env[i]->key, req->env[i]->value};
	for (size_t i = 0; i < nl; i++)
		lim[i] =
		    (struct vm_kv){req->limits[i]->key, req->limits[i]->value};
	*ret = (struct vm_spec){
	    .name = req->name,
	    .owner = *owner,
	    .mounts = m,
	    .nmounts = (unsigned)nm,
	    .env = env,
	    .nenv = (unsigned)ne,
	    .limits = lim,
	    .nlimits = (unsigned)nl,
	    .created_ms = created_ms,
	};
	sli_strlcpy(ret->id, id, sizeof(ret->id));
	*ret_mem = m;
	return SLI_OK;
}

/* --- VmInfo ---------------------------------------------------------------*/

struct info {
	Sluice__V1__VmInfo m;
	Sluice__V1__VmLimit limit[LIMITS_SHOWN];
	Sluice__V1__VmLimit *limits[LIMITS_SHOWN];
	Sluice__V1__VmMount *mounts;
	Sluice__V1__VmMount **mountp;
};

static unsigned
sessions_of(struct svc *svc, const char *vm)
{
	struct svc_session *u;
	size_t pos = 0;
	unsigned n = 0;
	while ((u = sli_map_next(svc->sessions, &pos)) != NULL)
		n += strcmp(u->vm, vm) == 0;
	return n;
}

static void
info_mounts(struct info *in, const struct vm_spec *spec)
{
	size_t n = spec->nmounts;
	in->mounts = sli_calloc(n + 1, sizeof(*in->mounts));
	in->mountp = sli_calloc(n + 1, sizeof(*in->mountp));
	if (!in->mounts || !in->mountp)
		return;
	for (size_t i = 0; i < n; i++) {
		sluice__v1__vm_mount__init(&in->mounts[i]);
		in->mounts[i].source = svc_str(spec->mounts[i].source);
		in->mounts[i].target = svc_str(spec->mounts[i].target);
		in->mounts[i].read_only = spec->mounts[i].read_only;
		in->mountp[i] = &in->mounts[i];
	}
	in->m.n_mounts = n;
	in->m.mounts = in->mountp;
}

static void
info_fill(struct svc *svc, const struct sli_principal *p, struct vm *vm,
    struct info *in)
{
	struct vm_limit lim[LIMITS_SHOWN];
	memset(in, 0, sizeof(*in));
	sluice__v1__vm_info__init(&in->m);
	in->m.vm = svc_str(vm_id(vm));
	in->m.name = svc_str(vm_name(vm));
	in->m.state = (Sluice__V1__VmState)vm_state(vm);
	in->m.reason = svc_str(vm_reason(vm));
	in->m.created_ms = (uint64_t)vm_created_ms(vm);
	in->m.processes = vm_process_count(vm);
	in->m.sessions = sessions_of(svc, vm_id(vm));
	unsigned n = vm_limits(vm, lim, LIMITS_SHOWN);
	n = SLI_MIN(n, LIMITS_SHOWN);
	for (unsigned i = 0; i < n; i++) {
		sluice__v1__vm_limit__init(&in->limit[i]);
		in->limit[i].key = svc_str(lim[i].key);
		in->limit[i].value = lim[i].value;
		in->limit[i].enforcement = svc_str(lim[i].enforcement);
		in->limits[i] = &in->limit[i];
	}
	in->m.n_limits = n;
	in->m.limits = in->limits;
	const char *const *miss = vm_missing(vm);
	while (miss && miss[in->m.n_missing])
		in->m.n_missing++;
	in->m.missing = (char **)(uintptr_t)miss;
	if (p->role == SLI_ROLE_ADMIN) {
		int pid = vm_init_pid(vm);
		in->m.init_pid = pid > 0 ? (uint32_t)pid : 0;
		info_mounts(in, vm_get_spec(vm));
	}
}

static void
info_free(struct info *in)
{
	sli_free(in->mounts);
	sli_free(in->mountp);
}

static void
reply_info(struct svc *svc, struct svc_call c, struct vm *vm)
{
	struct info in;
	info_fill(svc, svc_principal(c), vm, &in);
	svc_reply(c, &in.m.base);
	info_free(&in);
}

/* --- create ---------------------------------------------------------------*/

struct creating {
	struct svc *svc;
	struct svc_call call;
	struct sli_principal who;
	char id[SLI_ID_MAX];
	uint8_t *spec; /* encoded request */
	size_t spec_len;
	int64_t created_ms;
};

static void
creating_free(struct creating *cr)
{
	sli_free(cr->spec);
	sli_free(cr);
}

static void
create_stored(void *ctx, uint64_t seq, const struct sli_errinfo *ei)
{
	struct creating *cr = ctx;
	struct vm *vm = vm_find(cr->svc->vms, &cr->who, cr->id);
	(void)seq;
	if (ei->code != SLI_OK) {
		svc_fail(cr->call, ei);
		if (vm)
			vm_delete(vm, NULL, NULL);
	} else if (!vm) {
		svc_refuse(cr->call, SLI_E_ABORTED, "vm",
		    "the VM was deleted while it was made");
	} else {
		reply_info(cr->svc, cr->call, vm);
	}
	creating_free(cr);
}

static void
create_done(void *ctx, struct vm *vm, const struct sli_errinfo *ei)
{
	struct creating *cr = ctx;
	if (!vm) {
		svc_fail(cr->call, ei);
		creating_free(cr);
		return;
	}
	svc_idem_put(
	    cr->svc->idem, cr->who.tenant, "vm", svc_key(cr->call), cr->id);
	struct store_vm_row row = {
	    .tenant = cr->who.tenant,
	    .state = VM_RUNNING,
	    .reason = "",
	    .spec = sli_slice_of(cr->spec, cr->spec_len),
	    .created_ms = cr->created_ms,
	};
	sli_strlcpy(row.id, cr->id, sizeof(row.id));
	store_put_vm(cr->svc->store, &row, create_stored, cr);
}

static enum sli_err
create_check(const Sluice__V1__VmCreateRequest *r,
    const struct sli_principal *p, struct sli_errinfo *ei)
{
	if (strlen(r->name) > NAME_MAX_LEN)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "vm",
		    "name: at most %d bytes", NAME_MAX_LEN);
	if (r->n_mounts && p->role < SLI_ROLE_ADMIN)
		return sli_fail(ei, SLI_E_PERMISSION_DENIED, 0, "vm",
		    "mounts are for admins only");
	for (size_t i = 0; i < r->n_env; i++)
		if (r->env[i]->key[0] == '\0' || strchr(r->env[i]->key, '='))
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "vm",
			    "env: a name is empty or contains '='");
	return SLI_OK;
}

SVC_HANDLER(svc_vms_create)
{
	const Sluice__V1__VmCreateRequest *r = (const void *)req;
	const struct sli_principal *p = svc_principal(c);
	struct sli_errinfo ei = {0};
	struct vm_spec spec;
	void *mem = NULL;
	const char *known =
	    svc_idem_get(svc->idem, p->tenant, "vm", svc_key(c));
	struct vm *vm = known ? vm_find(svc->vms, p, known) : NULL;
	if (vm) {
		reply_info(svc, c, vm);
		return;
	}
	if (svc->draining) {
		svc_refuse(c, SLI_E_DRAINING, "vm", "the server is stopping");
		return;
	}
	if (create_check(r, p, &ei) != SLI_OK) {
		svc_fail(c, &ei);
		return;
	}
	struct creating *cr = sli_zalloc(sizeof(*cr));
	size_t n = protobuf_c_message_get_packed_size(req);
	if (cr)
		cr->spec = sli_alloc(n + 1);
	if (!cr || !cr->spec)
		goto nomem;
	cr->spec_len = protobuf_c_message_pack(req, cr->spec);
	cr->svc = svc;
	cr->call = c;
	cr->who = *p;
	cr->created_ms = sli_wall_ms();
	sli_id_make(cr->id, "vm");
	if (svc_vm_spec(r, p, cr->id, cr->created_ms, &spec, &mem, &ei) !=
	    SLI_OK)
		goto nomem;
	vm_create(svc->vms, &spec, create_done, cr);
	sli_free(mem);
	return;
nomem:
	svc_refuse(c, SLI_E_NOMEM, "vm", "out of memory");
	if (cr)
		creating_free(cr);
}

/* --- get, list, delete ----------------------------------------------------*/

SVC_HANDLER(svc_vms_get)
{
	const Sluice__V1__VmGetRequest *r = (const void *)req;
	struct vm *vm = svc_find_vm(svc, c, r->vm);
	if (vm)
		reply_info(svc, c, vm);
}

SVC_HANDLER(svc_vms_list)
{
	struct list_stream *out = list_stream_new(LIST_MAX);
	const struct sli_principal *p = svc_principal(c);
	uint32_t pos = 0;
	struct vm *vm;
	(void)req;
	if (!out) {
		svc_refuse(c, SLI_E_NOMEM, "vm", "out of memory");
		return;
	}
	while ((vm = vm_next(svc->vms, p, &pos)) != NULL) {
		struct info in;
		info_fill(svc, p, vm, &in);
		list_stream_add(out, &in.m.base);
		info_free(&in);
	}
	list_stream_send(out, c);
}

struct deleting {
	struct svc *svc;
	struct svc_call call;
	char id[SLI_ID_MAX];
};

static void
delete_stored(void *ctx, uint64_t seq, const struct sli_errinfo *ei)
{
	struct deleting *d = ctx;
	Sluice__V1__VmDeleteResponse m = SLUICE__V1__VM_DELETE_RESPONSE__INIT;
	(void)seq;
	if (ei->code == SLI_OK)
		svc_reply(d->call, &m.base);
	else
		svc_fail(d->call, ei);
	sli_free(d);
}

static void
delete_done(void *ctx, struct vm *vm, const struct sli_errinfo *ei)
{
	struct deleting *d = ctx;
	(void)vm;
	if (ei && ei->code != SLI_OK) {
		svc_fail(d->call, ei);
		sli_free(d);
		return;
	}
	store_del_vm(d->svc->store, d->id, delete_stored, d);
}

SVC_HANDLER(svc_vms_delete)
{
	const Sluice__V1__VmDeleteRequest *r = (const void *)req;
	struct vm *vm = svc_find_vm(svc, c, r->vm);
	if (!vm)
		return;
	struct deleting *d = sli_zalloc(sizeof(*d));
	if (!d) {
		svc_refuse(c, SLI_E_NOMEM, "vm", "out of memory");
		return;
	}
	d->svc = svc;
	d->call = c;
	sli_strlcpy(d->id, vm_id(vm), sizeof(d->id));
	vm_delete(vm, delete_done, d);
}

/* --- what the engine reports ----------------------------------------------*/

static void
vm_state_changed(void *ctx, struct vm *vm, enum vm_state now)
{
	(void)ctx;
	sli_log(SLI_LOG_INFO, "vm", "state", "vm=%s state=%d reason=\"%s\"",
	    vm_id(vm), (int)now, vm_reason(vm));
}

static void
vm_notice(void *ctx, struct vm *vm, const char *what, const char *detail)
{
	(void)ctx;
	sli_log(SLI_LOG_WARN, "vm", "notice",
	    "vm=%s what=%s detail=\"%s\", continuing", vm_id(vm), what, detail);
}

static void
vm_fatal(void *ctx, const struct sli_errinfo *ei)
{
	struct svc *svc = ctx;
	svc->cfg.fatal(svc->cfg.ctx, ei);
}

const struct vm_sink svc_vm_sink = {
    .state = vm_state_changed,
    .notice = vm_notice,
    .fatal = vm_fatal,
};
