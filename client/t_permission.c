/* SPDX-License-Identifier: Apache-2.0 */
/* Typed calls on permission requests, and their struct, which subscriptions
 * give as well. */
#include "typed.h"

#include "t_permission.h"

static int
convert_options(struct sli_arena *a, const Sluice__V1__Permission *m,
    struct sluice_permission *p)
{
	size_t n = m->n_options;
	const struct sluice_permission_option **d =
	    sli_arena_alloc(a, (n + 1) * sizeof(*d));
	struct sluice_permission_option *o = sli_arena_alloc(a, n * sizeof(*o));

	if (!d || !o)
		return -1;
	for (size_t i = 0; i < n; i++) {
		o[i] = (struct sluice_permission_option){
		    .size = sizeof(o[i]),
		    .option = m->options[i]->option,
		    .name = m->options[i]->name,
		    .kind = m->options[i]->kind,
		};
		d[i] = &o[i];
	}
	d[n] = NULL;
	p->options = d;
	return 0;
}

struct sluice_permission *
sli_permission_convert(struct sli_arena *a, const Sluice__V1__Permission *m)
{
	struct sluice_permission *p = sli_arena_alloc(a, sizeof(*p));

	if (!p)
		return NULL;
	*p = (struct sluice_permission){
	    .size = sizeof(*p),
	    .session = m->session,
	    .title = m->title,
	    .request = m->request,
	    .turn = m->turn,
	    .created_ms = m->created_ms,
	    .expires_ms = m->expires_ms,
	    .tool_call = m->tool_call.data,
	    .tool_call_len = m->tool_call.len,
	    .state = (int32_t)m->state,
	};
	return convert_options(a, m, p) == 0 ? p : NULL;
}

static enum sli_err
give_permission(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	sluice_permission_fn *fn = (sluice_permission_fn *)t->fn;
	struct sluice_permission *p;

	if (!pm) {
		fn(t->arg, NULL, err);
		return SLI_OK;
	}
	p = sli_permission_convert(a, (const void *)pm);
	if (!p)
		return SLI_E_NOMEM;
	fn(t->arg, p, NULL);
	return SLI_OK;
}

int
sluice_permissions(sluice_client *c, const char *session,
    sluice_permission_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	Sluice__V1__PermissionsRequest req =
	    SLUICE__V1__PERMISSIONS_REQUEST__INIT;
	const struct sli_typed t = {
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__permission__descriptor,
	    .give = give_permission,
	};

	req.session = sli_pb_str(session);
	return sli_typed_call(c, "sluice.v1.Sessions/Permissions", &req.base,
	    NULL, &t, ret_s, err);
}

static enum sli_err
give_permit(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__PermitResponse *m = (const void *)pm;
	sluice_permit_fn *fn = (sluice_permit_fn *)t->fn;

	(void)a;
	if (m)
		fn(t->arg, m->option, m->repeated_key ? 1 : 0, NULL);
	else
		fn(t->arg, NULL, 0, err);
	return SLI_OK;
}

int
sluice_permit(sluice_client *c, const char *session, uint64_t request,
    const char *option, const char *key, sluice_permit_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__PermitRequest req = SLUICE__V1__PERMIT_REQUEST__INIT;
	const struct sli_typed t = {
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__permit_response__descriptor,
	    .give = give_permit,
	};

	req.session = sli_pb_str(session);
	req.request = request;
	if (option) {
		req.answer_case = SLUICE__V1__PERMIT_REQUEST__ANSWER_OPTION;
		req.option = sli_pb_str(option);
	} else {
		req.answer_case = SLUICE__V1__PERMIT_REQUEST__ANSWER_DENY;
		req.deny = 1;
	}
	return sli_typed_call(
	    c, "sluice.v1.Sessions/Permit", &req.base, key, &t, ret_s, err);
}
