/* SPDX-License-Identifier: Apache-2.0 */
/* Typed calls on VMs. */
#include "typed.h"

static const struct sluice_mount *const *
convert_mounts(struct sli_arena *a, Sluice__V1__VmMount **v, size_t n)
{
	const struct sluice_mount **d =
	    sli_arena_alloc(a, (n + 1) * sizeof(*d));
	struct sluice_mount *m = sli_arena_alloc(a, n * sizeof(*m));

	if (!d || !m)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		m[i] = (struct sluice_mount){
		    .size = sizeof(m[i]),
		    .source = v[i]->source,
		    .target = v[i]->target,
		    .read_only = v[i]->read_only ? 1 : 0,
		};
		d[i] = &m[i];
	}
	d[n] = NULL;
	return d;
}

static const struct sluice_vm_limit *const *
convert_limits(struct sli_arena *a, Sluice__V1__VmLimit **v, size_t n)
{
	const struct sluice_vm_limit **d =
	    sli_arena_alloc(a, (n + 1) * sizeof(*d));
	struct sluice_vm_limit *l = sli_arena_alloc(a, n * sizeof(*l));

	if (!d || !l)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		l[i] = (struct sluice_vm_limit){
		    .size = sizeof(l[i]),
		    .key = v[i]->key,
		    .enforcement = v[i]->enforcement,
		    .value = v[i]->value,
		};
		d[i] = &l[i];
	}
	d[n] = NULL;
	return d;
}

static enum sli_err
give_vm(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__VmInfo *m = (const void *)pm;
	sluice_vm_fn *fn = (sluice_vm_fn *)t->fn;
	struct sluice_vm vm = {.size = sizeof(vm)};

	if (!m) {
		fn(t->arg, NULL, err);
		return SLI_OK;
	}
	vm.vm = m->vm;
	vm.name = m->name;
	vm.reason = m->reason;
	vm.state = (int32_t)m->state;
	vm.processes = m->processes;
	vm.sessions = m->sessions;
	vm.init_pid = m->init_pid;
	vm.created_ms = m->created_ms;
	vm.mounts = convert_mounts(a, m->mounts, m->n_mounts);
	vm.limits = convert_limits(a, m->limits, m->n_limits);
	vm.missing = sli_strs(a, m->missing, m->n_missing);
	if (!vm.mounts || !vm.limits || !vm.missing)
		return SLI_E_NOMEM;
	fn(t->arg, &vm, NULL);
	return SLI_OK;
}

static struct sli_typed
typed_vm(sluice_vm_fn *fn, void *arg)
{
	return (struct sli_typed){
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__vm_info__descriptor,
	    .give = give_vm,
	};
}

/* --- create --------------------------------------------------------------*/

static enum sli_err
take_mounts(struct sli_arena *a, const struct sluice_mount *const *list,
    Sluice__V1__VmCreateRequest *req, struct sli_errinfo *ei)
{
	size_t n = sli_list_len(list);
	Sluice__V1__VmMount **d = sli_arena_alloc(a, (n + 1) * sizeof(*d));
	Sluice__V1__VmMount *m = sli_arena_alloc(a, n * sizeof(*m));
	enum sli_err e;

	if (!d || !m)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "client.vm", "out of memory");
	for (size_t i = 0; i < n; i++) {
		struct sluice_mount in;

		e = sli_take_struct(
		    &in, sizeof(in), list[i], "struct sluice_mount", ei);
		if (e != SLI_OK)
			return e;
		sluice__v1__vm_mount__init(&m[i]);
		m[i].source = sli_pb_str(in.source);
		m[i].target = sli_pb_str(in.target);
		m[i].read_only = in.read_only != 0;
		d[i] = &m[i];
	}
	req->mounts = d;
	req->n_mounts = n;
	return SLI_OK;
}

static enum sli_err
take_spec(struct sli_arena *a, const struct sluice_vm_spec *sp,
    Sluice__V1__VmCreateRequest *req, struct sli_errinfo *ei)
{
	enum sli_err e;

	req->name = sli_pb_str(sp->name);
	e = take_mounts(a, sp->mounts, req, ei);
	if (e == SLI_OK)
		e = sli_take_pairs(
		    a, sp->env, "env", &req->env, &req->n_env, ei);
	if (e == SLI_OK)
		e = sli_take_pairs(
		    a, sp->limits, "limit", &req->limits, &req->n_limits, ei);
	return e;
}

int
sluice_vm_create(sluice_client *c, const struct sluice_vm_spec *spec,
    sluice_vm_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	Sluice__V1__VmCreateRequest req = SLUICE__V1__VM_CREATE_REQUEST__INIT;
	const struct sli_typed t = typed_vm(fn, arg);
	struct sluice_vm_spec sp;
	struct sli_errinfo ei = {0};
	struct sli_arena a;
	int rc;

	sli_arena_init(&a, SLI_TYPED_ARENA);
	if (sli_take_struct(&sp, sizeof(sp), spec, "struct sluice_vm_spec",
		&ei) != SLI_OK ||
	    take_spec(&a, &sp, &req, &ei) != SLI_OK)
		rc = sli_err_give(err, &ei);
	else
		rc = sli_typed_call(c, "sluice.v1.Vms/Create", &req.base,
		    sp.key, &t, ret_s, err);
	sli_arena_free(&a);
	return rc;
}

/* --- the rest ------------------------------------------------------------*/

int
sluice_vm_get(sluice_client *c, const char *vm, sluice_vm_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__VmGetRequest req = SLUICE__V1__VM_GET_REQUEST__INIT;
	const struct sli_typed t = typed_vm(fn, arg);

	req.vm = sli_pb_str(vm);
	return sli_typed_call(
	    c, "sluice.v1.Vms/Get", &req.base, NULL, &t, ret_s, err);
}

int
sluice_vm_list(sluice_client *c, sluice_vm_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__VmListRequest req = SLUICE__V1__VM_LIST_REQUEST__INIT;
	const struct sli_typed t = typed_vm(fn, arg);

	return sli_typed_call(
	    c, "sluice.v1.Vms/List", &req.base, NULL, &t, ret_s, err);
}

int
sluice_vm_delete(sluice_client *c, const char *vm, sluice_done_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__VmDeleteRequest req = SLUICE__V1__VM_DELETE_REQUEST__INIT;
	const struct sli_typed t = sli_typed_done(fn, arg);

	req.vm = sli_pb_str(vm);
	return sli_typed_call(
	    c, "sluice.v1.Vms/Delete", &req.base, NULL, &t, ret_s, err);
}
