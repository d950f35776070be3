/* SPDX-License-Identifier: Apache-2.0 */
/* EXEC for pid 1: limits of arguments and environment, the environment itself
 * (defaults, the VM's, the command's, in this order, later ones win), and the
 * text of what pid 1 says when it could not start something. Pure. */
#include "base/str.h"
#include "vm/vm_internal.h"

#include <errno.h>
#include <string.h>

struct env {
	struct vm_kv kv[GUEST_ENVC_MAX];
	unsigned n;
	size_t bytes;
	int full;
};

static void
env_set(struct env *e, const char *key, const char *value)
{
	unsigned i;

	for (i = 0; i < e->n; i++)
		if (strcmp(e->kv[i].key, key) == 0)
			break;
	if (i == GUEST_ENVC_MAX) {
		e->full = 1;
		return;
	}
	if (i == e->n)
		e->n++;
	else
		e->bytes -= strlen(key) + strlen(e->kv[i].value) + 2;
	e->kv[i] = (struct vm_kv){key, value};
	e->bytes += strlen(key) + strlen(value) + 2;
}

static void
env_compose(struct env *e, const struct vm *vm, const struct vm_exec_spec *spec)
{
	e->n = 0;
	e->bytes = 0;
	e->full = 0;
	env_set(e, "PATH", GUEST_DEFAULT_PATH);
	env_set(e, "HOME", spec->uid == 0 ? "/root" : "/");
	env_set(e, "LANG", "C.UTF-8");
	if (spec->traceparent && *spec->traceparent)
		env_set(e, "TRACEPARENT", spec->traceparent);
	for (unsigned i = 0; i < vm->spec.nenv; i++)
		env_set(e, vm->spec.env[i].key, vm->spec.env[i].value);
	for (unsigned i = 0; i < spec->nenv; i++)
		env_set(e, spec->env[i].key, spec->env[i].value);
}

static enum sli_err
over(const struct vm *vm, enum sli_limit l, uint64_t n, struct sli_errinfo *ei)
{
	uint64_t max = sli_limits_get(&vm->lim, l);

	if (n <= max)
		return SLI_OK;
	return sli_limit_refuse(ei, l, 0, n, max, "vm.exec");
}

static enum sli_err
check(const struct vm *vm, const struct vm_exec_spec *s, const struct env *env,
    unsigned *ret_argc, struct sli_errinfo *ei)
{
	size_t bytes = 0;
	unsigned argc = 0;
	enum sli_err e;

	if (!s->argv || !s->argv[0] || !*s->argv[0])
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "vm.exec",
		    "no command: the first argument is empty");
	if (s->cwd && (*s->cwd != '/' || strlen(s->cwd) >= SPAWNER_STR_MAX))
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "vm.exec",
		    "the working directory must be an absolute path");
	for (unsigned i = 0; i < s->nenv; i++)
		if (!*s->env[i].key || strchr(s->env[i].key, '='))
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "vm.exec", "variable %u has no usable name", i);
	for (; s->argv[argc]; argc++)
		bytes += strlen(s->argv[argc]) + 1;
	if (argc > GUEST_ARGC_MAX)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "vm.exec",
		    "%u arguments, at most %u are possible", argc,
		    GUEST_ARGC_MAX);
	if (env->full)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "vm.exec",
		    "at most %u variables are possible", GUEST_ENVC_MAX);
	*ret_argc = argc;
	e = over(vm, SLI_L_VM_ARGV, bytes, ei);
	if (e == SLI_OK)
		e = over(vm, SLI_L_VM_ENV, env->bytes, ei);
	if (e == SLI_OK)
		e = over(vm, SLI_L_VM_ENV_VARS, env->n, ei);
	return e;
}

static enum sli_err
put(struct sli_buf *b, const char *s, size_t n)
{
	return sli_buf_append(b, s, n);
}

enum sli_err
exec_encode(const struct vm *vm, uint32_t id, const struct vm_exec_spec *spec,
    struct sli_buf *ret_msg, struct sli_errinfo *ei)
{
	struct guest_exec x = {.op = GUEST_EXEC, .id = id};
	struct env env;
	const char *cwd = spec->cwd && *spec->cwd ? spec->cwd : "/root";
	enum sli_err e;

	env_compose(&env, vm, spec);
	e = check(vm, spec, &env, &x.argc, ei);
	if (e != SLI_OK)
		return e;
	x.uid = spec->uid;
	x.gid = spec->gid;
	x.envc = env.n;
	sli_buf_init(ret_msg, GUEST_MSG_MAX);
	e = sli_buf_append(ret_msg, &x, sizeof(x));
	if (e == SLI_OK)
		e = put(ret_msg, cwd, strlen(cwd) + 1);
	for (unsigned i = 0; i < x.argc && e == SLI_OK; i++)
		e = put(ret_msg, spec->argv[i], strlen(spec->argv[i]) + 1);
	for (unsigned i = 0; i < env.n && e == SLI_OK; i++) {
		e = put(ret_msg, env.kv[i].key, strlen(env.kv[i].key));
		if (e == SLI_OK)
			e = put(ret_msg, "=", 1);
		if (e == SLI_OK)
			e = put(ret_msg, env.kv[i].value,
			    strlen(env.kv[i].value) + 1);
	}
	if (e != SLI_OK) {
		sli_buf_free(ret_msg);
		return sli_fail(ei, e, 0, "vm.exec",
		    "arguments and environment do not fit in one message");
	}
	return SLI_OK;
}

static void
exec_failed(const char *cmd, int sys, struct sli_errinfo *ret)
{
	if (sys == ENOENT || sys == ENOTDIR) {
		sli_fail(ret, SLI_E_NOT_FOUND, sys, "vm.exec",
		    "%s: command not found, or the interpreter that it names",
		    cmd);
		sli_errinfo_reason(ret, "exec_not_found");
	} else {
		sli_fail(ret, SLI_E_PERMISSION_DENIED, sys, "vm.exec",
		    "%s: cannot be executed", cmd);
		sli_errinfo_reason(ret, "exec_failed");
	}
}

/* The numbers come from pid 1 and may be anything. */
void
exec_error(const struct vm_proc *p, int step, int sys, struct sli_errinfo *ret)
{
	char cmd[96];

	sli_quote(cmd, sizeof(cmd), sli_slice_str(p->argv[0]));
	if (sys < 0 || sys > 4095)
		sys = 0;
	switch (step) {
	case GUEST_STEP_EXEC:
		exec_failed(cmd, sys, ret);
		return;
	case GUEST_STEP_CWD:
		sli_fail(ret, SLI_E_FAILED_PRECONDITION, sys, "vm.exec",
		    "%s: the working directory cannot be entered", cmd);
		sli_errinfo_reason(ret, "cwd");
		return;
	case GUEST_STEP_USER:
		sli_fail(ret, SLI_E_INVALID_ARGUMENT, sys, "vm.exec",
		    "%s: this VM has no such user or group", cmd);
		sli_errinfo_reason(ret, "user");
		return;
	case GUEST_STEP_FORK:
		sli_fail(ret, SLI_E_RESOURCE_EXHAUSTED, sys, "vm.exec",
		    "%s: the VM has no room for one more process (vm.pids)",
		    cmd);
		sli_errinfo_reason(ret, "fork");
		return;
	default:
		sli_fail(ret,
		    sys == EAGAIN ? SLI_E_RESOURCE_EXHAUSTED : SLI_E_SANDBOX,
		    sys, "vm.exec", "%s: pid 1 did not take the request", cmd);
		sli_errinfo_reason(ret, "request");
	}
}
