/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms above ask of processes: exec, find, look, signal. The life of
 * a process is proc.c's. */
#include "base/fd.h"
#include "base/log.h"
#include "vm/proc.h"
#include "vm/vm_internal.h"

#include <signal.h>

/* --- exec -----------------------------------------------------------------*/

/* Refusals come from the loop, as every answer does, so that a caller sees one
 * order only. */
void
proc_refuse(struct vm_proc *p)
{
	struct vm_engine *e = p->engine;

	if (!sli_list_empty(&p->node))
		p->vm->nlive--;
	p->vm = NULL;
	sli_list_del(&p->node);
	sli_list_add_tail(&e->refused, &p->node);
	loop_hook_schedule(e->loop, &e->refuse);
}

void
engine_refuse(struct loop_hook *h)
{
	struct vm_engine *e = SLI_CONTAINER_OF(h, struct vm_engine, refuse);
	struct sli_list now, *it;

	sli_list_init(&now);
	while (!sli_list_empty(&e->refused)) {
		it = e->refused.next;
		sli_list_del(it);
		sli_list_add_tail(&now, it);
	}
	while (!sli_list_empty(&now)) {
		struct vm_proc *p =
		    SLI_LIST_ENTRY(now.next, struct vm_proc, node);

		proc_on_failed(p, &p->refusal);
	}
}

static enum sli_err
check_state(const struct vm *vm, struct sli_errinfo *ei)
{
	uint64_t max = sli_limits_get(&vm->lim, SLI_L_VM_MAX_PROCESSES);

	if (vm->deleting || vm->state == VM_DELETED)
		return sli_fail(ei, SLI_E_NOT_FOUND, 0, "vm.exec",
		    "the VM is being deleted");
	if (vm->state == VM_FAILED)
		return sli_fail(ei, SLI_E_FAILED_PRECONDITION, 0, "vm.exec",
		    "the VM has failed: %s", vm->reason);
	if (vm->nlive >= max)
		return sli_limit_refuse(
		    ei, SLI_L_VM_MAX_PROCESSES, vm->nlive, 1, max, "vm.exec");
	return SLI_OK;
}

/* Failures of the start itself reach the processes by the VM's death. */
static void
started_for_exec(void *ctx, struct vm *vm, const struct sli_errinfo *ei)
{
	(void)ctx;
	if (ei && vm && vm->state == VM_STOPPED)
		vm_procs_died(vm, ei);
}

void
vm_exec(struct vm *vm, const struct vm_exec_spec *spec, vm_started_fn *fn,
    void *ctx)
{
	struct vm_proc *p = proc_new(vm, spec->flags, fn, ctx);
	struct sli_errinfo ei;
	enum sli_err e;

	if (!p) {
		sli_fail(
		    &ei, SLI_E_NOMEM, 0, "vm.exec", "no memory for a process");
		fn(ctx, NULL, &ei);
		return;
	}
	/* 0 is no id; ids that pid 1 still knows after 2^32 it refuses. */
	p->id = ++vm->next_exec ? vm->next_exec : ++vm->next_exec;
	e = check_state(vm, &p->refusal);
	if (e == SLI_OK)
		e = proc_prepare(p, spec, &p->refusal);
	if (e == SLI_OK && vm->state == VM_RUNNING)
		e = proc_launch(p, &p->refusal);
	if (e != SLI_OK) {
		proc_refuse(p);
		return;
	}
	sli_list_add_tail(&vm->procs, &p->node);
	vm->nlive++;
	if (vm->state == VM_STOPPED)
		vm_start(vm, started_for_exec, NULL);
}

void
procs_launch(struct vm *vm)
{
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &vm->procs) {
		struct vm_proc *p = SLI_LIST_ENTRY(it, struct vm_proc, node);

		if (p->state != PROC_STARTING || p->launched)
			continue;
		if (proc_launch(p, &p->refusal) != SLI_OK)
			proc_refuse(p);
	}
}

struct vm_proc *
proc_by_id(struct vm *vm, uint32_t id)
{
	struct sli_list *it;

	/* Newest first: those are talked about. */
	for (it = vm->procs.prev; it != &vm->procs; it = it->prev) {
		struct vm_proc *p = SLI_LIST_ENTRY(it, struct vm_proc, node);

		if (p->id == id)
			return p;
	}
	return NULL;
}

/* --- look -----------------------------------------------------------------*/

struct vm_proc *
vm_proc_find(struct vm *vm, uint32_t pid)
{
	struct vm_proc *ended = NULL;
	struct sli_list *it;

	/* A number comes again in time: the living one, else the newest. */
	for (it = vm->procs.prev; it != &vm->procs; it = it->prev) {
		struct vm_proc *p = SLI_LIST_ENTRY(it, struct vm_proc, node);

		if (p->pid != pid || p->state == PROC_STARTING)
			continue;
		if (p->state != PROC_EXITED)
			return p;
		if (!ended)
			ended = p;
	}
	return ended;
}

struct vm_proc *
vm_proc_next(struct vm *vm, uint32_t *pos)
{
	struct sli_list *it;

	sli_list_for_each (it, &vm->procs) {
		struct vm_proc *p = SLI_LIST_ENTRY(it, struct vm_proc, node);

		if (p->state == PROC_STARTING || p->id <= *pos)
			continue;
		*pos = p->id;
		return p;
	}
	return NULL;
}

uint32_t
vm_proc_pid(const struct vm_proc *p)
{
	return p->pid;
}

struct vm *
vm_proc_vm(const struct vm_proc *p)
{
	return p->vm;
}

const char *const *
vm_proc_argv(const struct vm_proc *p)
{
	return (const char *const *)p->argv;
}

const char *
vm_proc_session(const struct vm_proc *p)
{
	return p->session;
}

int64_t
vm_proc_started_ms(const struct vm_proc *p)
{
	return p->started_ms;
}

int
vm_proc_detached(const struct vm_proc *p)
{
	return (p->flags & VM_EXEC_DETACH) != 0;
}

const struct vm_exit *
vm_proc_exit(const struct vm_proc *p)
{
	return p->state >= PROC_EXITED ? &p->exit : NULL;
}

/* --- touch ----------------------------------------------------------------*/

void
vm_proc_take_stdio(struct vm_proc *p, int ret_fds[3])
{
	SLI_ASSERT(p->flags & VM_EXEC_RAW);
	for (int i = 0; i < 3; i++) {
		ret_fds[i] = p->raw[i];
		p->raw[i] = -1;
	}
}

void
vm_proc_on_exit(struct vm_proc *p,
    void (*fn)(void *ctx, const struct vm_exit *st), void *ctx)
{
	SLI_ASSERT(p->flags & VM_EXEC_RAW);
	p->on_exit = fn;
	p->on_exit_ctx = ctx;
}

enum sli_err
vm_proc_signal(struct vm_proc *p, int sig)
{
	if (sig < 1 || sig > 64)
		return SLI_E_INVALID_ARGUMENT;
	if (p->state != PROC_RUNNING || !p->vm)
		return SLI_E_FAILED_PRECONDITION;
	if (guest_link_kill(&p->vm->link, GUEST_KILL, p->id, sig) != SLI_OK)
		return SLI_E_UNAVAILABLE;
	if (sig == SIGKILL)
		p->killed = 1;
	return SLI_OK;
}

void
vm_proc_kill_tree(struct vm_proc *p)
{
	enum sli_err e = proc_kill_tree(p);

	if (e != SLI_OK)
		sli_log(SLI_LOG_WARN, "vm", "kill_tree",
		    "vm=%s pid=%u err=%s, pid 1 does not take it", vm_id(p->vm),
		    p->pid, sli_err_name(e));
}
