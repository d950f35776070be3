/* SPDX-License-Identifier: Apache-2.0 */
/* sluice.v1.Processes: listing, signals, and the checks before Exec and Attach
 * hand over to a process stream (proc_stream.c). */
#include "service/list_stream.h"
#include "service/proc_stream.h"
#include "service/room.h"

#include "base/mem.h"

#include <string.h>

#define LIST_MAX (8u << 20)

static enum sli_err
exec_check(const Sluice__V1__ExecSpec *s, struct sli_errinfo *ei)
{
	if (s->n_argv == 0 || s->argv[0][0] == '\0')
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "exec",
		    "argv: a command is needed");
	if (s->cwd[0] != '\0' && s->cwd[0] != '/')
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "exec",
		    "cwd: must be absolute");
	for (size_t i = 0; i < s->n_env; i++)
		if (s->env[i]->key[0] == '\0' || strchr(s->env[i]->key, '='))
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "exec",
			    "env: a name is empty or contains '='");
	return SLI_OK;
}

SVC_HANDLER(svc_processes_exec)
{
	const Sluice__V1__ExecInput *in = (const void *)req;
	struct sli_errinfo ei = {0};
	if (in->kind_case != SLUICE__V1__EXEC_INPUT__KIND_SPEC) {
		svc_refuse(c, SLI_E_INVALID_ARGUMENT, "exec",
		    "the first message must be the spec");
		return;
	}
	const Sluice__V1__ExecSpec *s = in->spec;
	struct vm *vm = svc_find_vm(svc, c, s->vm);
	if (!vm)
		return;
	if (svc->draining) {
		svc_refuse(c, SLI_E_DRAINING, "exec", "the server is stopping");
		return;
	}
	if (exec_check(s, &ei) != SLI_OK) {
		svc_fail(c, &ei);
		return;
	}
	const char **argv = sli_calloc(s->n_argv + 1, sizeof(*argv));
	struct vm_kv *env = sli_calloc(s->n_env + 1, sizeof(*env));
	struct vm_exec_spec spec;
	struct sli_slice tp = svc_traceparent(c);
	char *trace = tp.n ? sli_strndup((const char *)tp.p, tp.n) : NULL;
	if (!argv || !env || (tp.n && !trace)) {
		svc_refuse(c, SLI_E_NOMEM, "exec", "out of memory");
		goto out;
	}
	memcpy(argv, s->argv, s->n_argv * sizeof(*argv));
	for (size_t i = 0; i < s->n_env; i++)
		env[i] = (struct vm_kv){s->env[i]->key, s->env[i]->value};
	spec = (struct vm_exec_spec){
	    .argv = argv,
	    .env = env,
	    .nenv = (unsigned)s->n_env,
	    .cwd = s->cwd[0] ? s->cwd : NULL,
	    .uid = s->uid,
	    .gid = s->gid,
	    .timeout_ms = s->timeout_ms,
	    .flags = (s->detach ? VM_EXEC_DETACH : 0u) |
		     (s->keep_awake ? VM_EXEC_AWAKE : 0u),
	    .traceparent = trace,
	};
	proc_stream_exec(c, vm, &spec);
out:
	sli_free(argv);
	sli_free(env);
	sli_free(trace);
}

static struct vm_proc *
find_proc(struct svc *svc, struct svc_call c, const char *vm_id, uint32_t pid)
{
	struct vm *vm = svc_find_vm(svc, c, vm_id);
	if (!vm)
		return NULL;
	struct vm_proc *p = vm_proc_find(vm, pid);
	if (!p)
		svc_refuse(c, SLI_E_NOT_FOUND, "process",
		    "no such process; see: sluice ps VM");
	return p;
}

SVC_HANDLER(svc_processes_attach)
{
	const Sluice__V1__ProcessAttachRequest *r = (const void *)req;
	struct vm_proc *p = find_proc(svc, c, r->vm, r->pid);
	if (!p)
		return;
	if (vm_proc_session(p)) {
		svc_refuse(c, SLI_E_FAILED_PRECONDITION, "process",
		    "this is an agent: its output is the session's history");
		return;
	}
	proc_stream_attach(c, p, r->from);
}

SVC_HANDLER(svc_processes_kill)
{
	const Sluice__V1__ProcessKillRequest *r = (const void *)req;
	Sluice__V1__ProcessKillResponse m =
	    SLUICE__V1__PROCESS_KILL_RESPONSE__INIT;
	struct vm_proc *p = find_proc(svc, c, r->vm, r->pid);
	if (!p)
		return;
	if (r->signal == 0) {
		vm_proc_kill_tree(p);
	} else {
		enum sli_err e = vm_proc_signal(p, r->signal);
		if (e != SLI_OK) {
			svc_refuse(c, e, "process", "%s",
			    e == SLI_E_INVALID_ARGUMENT
				? "no such signal"
				: "the process has ended");
			return;
		}
	}
	svc_reply(c, &m.base);
}

static void
add_info(struct list_stream *out, struct vm_proc *p)
{
	Sluice__V1__ProcessInfo m = SLUICE__V1__PROCESS_INFO__INIT;
	Sluice__V1__ExecExit ex = SLUICE__V1__EXEC_EXIT__INIT;
	const char *const *argv = vm_proc_argv(p);
	const struct vm_exit *st = vm_proc_exit(p);
	const char *session = vm_proc_session(p);
	m.pid = vm_proc_pid(p);
	while (argv[m.n_argv])
		m.n_argv++;
	m.argv = (char **)(uintptr_t)argv;
	m.state = svc_str(st ? "exited" : "running");
	if (st) {
		proc_stream_exit(st, &ex);
		m.exit = &ex;
	}
	m.started_ms = (uint64_t)vm_proc_started_ms(p);
	m.output_start = vm_output_start(p);
	m.output_end = vm_output_end(p);
	m.detached = vm_proc_detached(p);
	m.session = svc_str(session);
	list_stream_add(out, &m.base);
}

SVC_HANDLER(svc_processes_list)
{
	const Sluice__V1__ProcessListRequest *r = (const void *)req;
	struct vm *vm = svc_find_vm(svc, c, r->vm);
	if (!vm)
		return;
	struct list_stream *out = list_stream_new(LIST_MAX);
	if (!out) {
		svc_refuse(c, SLI_E_NOMEM, "process", "out of memory");
		return;
	}
	uint32_t pos = 0;
	struct vm_proc *p;
	while ((p = vm_proc_next(vm, &pos)) != NULL)
		add_info(out, p);
	list_stream_send(out, c);
}
