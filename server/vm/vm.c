/* SPDX-License-Identifier: Apache-2.0 */
/* One VM: creating, running, stopped, failed, deleted (docs/STATES.md), and
 * its instance: what the backend has made for it, from the first request to
 * the last answer. A VM that has an instance is never freed. */
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "vm/vm_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[] = {
    [VM_CREATING] = "creating",
    [VM_RUNNING] = "running",
    [VM_STOPPED] = "stopped",
    [VM_FAILED] = "failed",
    [VM_DELETED] = "deleted",
};

#define TO(s) (1u << VM_##s)

static const unsigned legal[] = {
    [VM_CREATING] = TO(RUNNING) | TO(FAILED) | TO(DELETED),
    [VM_RUNNING] = TO(FAILED) | TO(DELETED),
    [VM_STOPPED] = TO(CREATING) | TO(DELETED),
    [VM_FAILED] = TO(CREATING) | TO(DELETED),
    [VM_DELETED] = 0,
};

/* The one place that moves vm->state. */
static void
set_state(struct vm *vm, enum vm_state to, const char *reason)
{
	SLI_ASSERT(legal[vm->state] & (1u << to));
	sli_debug("vm", "vm", "vm=%s %s->%s", vm->spec.id, names[vm->state],
	    names[to]);
	vm->state = to;
	sli_strlcpy(vm->reason, reason, sizeof(vm->reason));
	if (vm->e->sink->state)
		vm->e->sink->state(vm->e->ctx, vm, to);
}

int
vm_has_instance(const struct vm *vm)
{
	return vm->making || vm->removing || vm->handle || vm->pidfd != -1;
}

/* Each caller is taken out before it is called: it may add and delete. */
static void
answer(struct sli_list *waits, struct vm *vm, const struct sli_errinfo *ei)
{
	struct sli_list now;

	sli_list_init(&now);
	while (!sli_list_empty(waits)) {
		struct sli_list *it = waits->next;

		sli_list_del(it);
		sli_list_add_tail(&now, it);
	}
	while (!sli_list_empty(&now)) {
		struct vm_wait *p =
		    SLI_LIST_ENTRY(now.next, struct vm_wait, node);
		struct vm_wait w = *p;

		sli_list_del(&p->node);
		sli_free(p);
		w.fn(w.ctx, vm, ei);
	}
}

/* --- the end of an instance -----------------------------------------------*/

/* Callbacks may change the list: look again from its start each time. */
static struct vm_proc *
first_alive(struct vm *vm)
{
	struct sli_list *it;

	sli_list_for_each (it, &vm->procs) {
		struct vm_proc *p = SLI_LIST_ENTRY(it, struct vm_proc, node);

		if (p->state < PROC_DRAINING)
			return p;
	}
	return NULL;
}

void
vm_procs_died(struct vm *vm, const struct sli_errinfo *ei)
{
	struct vm_proc *p;

	while ((p = first_alive(vm)) != NULL)
		proc_on_vm_death(p, ei);
}

/* Out of the tables; freed at the reap point. */
static void
free_now(struct loop_reap *r)
{
	struct vm *vm = SLI_CONTAINER_OF(r, struct vm, reap);

	sli_arena_free(&vm->mem);
	sli_free(vm);
}

static void
finish_delete(struct vm *vm, const struct sli_errinfo *why, int fresh)
{
	struct vm *shown = fresh ? NULL : vm;

	loop_timer_del(vm->e->loop, &vm->stop);
	loop_timer_del(vm->e->loop, &vm->start);
	vm->deleting = 1;
	vm_procs_died(vm, why);
	while (!sli_list_empty(&vm->procs))
		proc_orphan(
		    SLI_LIST_ENTRY(vm->procs.next, struct vm_proc, node));
	engine_forget(vm->e, vm);
	set_state(vm, VM_DELETED, why->text);
	answer(&vm->starts, shown, why);
	answer(&vm->deletes, vm, NULL);
	loop_reap(vm->e->loop, &vm->reap, free_now);
}

static void
deleted_error(struct sli_errinfo *ei)
{
	sli_fail(
	    ei, SLI_E_NOT_FOUND, 0, "vm.delete", "the VM has been deleted");
	sli_errinfo_reason(ei, "vm_deleted");
}

/* Something of the instance has gone: is it all gone, and what then? */
void
vm_settle(struct vm *vm)
{
	struct sli_errinfo ei;

	if (vm_has_instance(vm) || vm->state == VM_DELETED)
		return;
	vm->e->committed -= vm->committed;
	vm->committed = 0;
	if (vm->deleting) {
		deleted_error(&ei);
		finish_delete(vm, &ei, vm->fresh);
	} else if (vm->state == VM_FAILED && vm->fresh) {
		finish_delete(vm, &vm->error, 1);
	} else if (vm->restart) {
		vm->restart = 0;
		vm_make(vm);
	}
}

/* Kill pid 1 ourselves, so that a busy spawner delays nobody's death; have the
 * rest removed. Repeating it is harmless. */
void
vm_teardown(struct vm *vm)
{
	struct sli_errinfo ei;

	loop_timer_del(vm->e->loop, &vm->start);
	guest_link_close(&vm->link);
	if (vm->pidfd != -1 &&
	    syscall(SYS_pidfd_send_signal, vm->pidfd, SIGKILL, NULL, 0) != 0 &&
	    errno != ESRCH)
		sli_log(SLI_LOG_WARN, "vm", "kill",
		    "vm=%s errno=%d, the spawner will", vm->spec.id, errno);
	if (vm->handle && !vm->removing) {
		vm->removing = 1;
		if (vm->e->backend->ops->remove(
			vm->e->backend, vm->key, vm->handle, &ei) != SLI_OK) {
			vm->removing = 0;
			loop_timer_after(vm->e->loop, &vm->stop, 0);
		}
	}
}

/* It ends without having been asked to. */
static void
die(struct vm *vm, const struct sli_errinfo *ei)
{
	char text[VM_REASON_MAX];

	if (vm->state == VM_CREATING || vm->state == VM_RUNNING) {
		vm->error = *ei;
		sli_errinfo_str(ei, text, sizeof(text));
		if (!vm->deleting) {
			sli_log(SLI_LOG_NOTICE, "vm", "failed", "vm=%s %s",
			    vm->spec.id, text);
			set_state(vm, VM_FAILED, text);
		}
	}
	vm_teardown(vm);
	if (vm->state == VM_FAILED && !vm->fresh && !vm->restart)
		answer(&vm->starts, vm, ei);
	if (!vm->making && vm->pidfd == -1)
		vm_procs_died(vm, ei);
	vm_settle(vm);
}

/* It cannot be removed (now): found again, so that it can be deleted again. */
static void
stuck(struct vm *vm, const struct sli_errinfo *ei)
{
	sli_log(SLI_LOG_ERR, "vm", "remove", "vm=%s %s", vm->spec.id, ei->text);
	loop_timer_del(vm->e->loop, &vm->stop);
	vm->deleting = 0;
	if (vm->state == VM_RUNNING || vm->state == VM_CREATING)
		set_state(vm, VM_FAILED, ei->text);
	answer(&vm->starts, vm->fresh ? NULL : vm, ei);
	vm->fresh = 0;
	answer(&vm->deletes, vm, ei);
}

void
vm_removed(struct vm *vm, const struct sli_errinfo *ei)
{
	vm->removing = 0;
	if (ei) {
		stuck(vm, ei);
		return;
	}
	vm->handle = 0;
	vm_settle(vm);
}

void
vm_on_stop_late(struct loop_timer *t)
{
	struct vm *vm = SLI_CONTAINER_OF(t, struct vm, stop);
	struct sli_errinfo ei;

	sli_fail(&ei, SLI_E_DEADLINE_EXCEEDED, 0, "vm.delete",
	    "the VM is not gone after %d ms: %s; delete it again later",
	    VM_STOP_MS,
	    vm->pidfd != -1 ? "something in it cannot be killed"
			    : "its remains are not removed yet");
	stuck(vm, &ei);
}

/* --- pid 1 ----------------------------------------------------------------*/

static void
pid1_says(const siginfo_t *si, struct sli_errinfo *ei)
{
	if (si->si_code == CLD_EXITED)
		sli_fail(ei, SLI_E_SANDBOX, 0, "vm.pid1",
		    "pid 1 of the VM has exited with status %d", si->si_status);
	else
		sli_fail(ei, SLI_E_SANDBOX, 0, "vm.pid1",
		    "pid 1 of the VM was killed by signal %d", si->si_status);
	sli_errinfo_reason(ei, "pid1_died");
}

static void
on_pidfd(struct loop_fd *w, uint32_t events)
{
	struct vm *vm = SLI_CONTAINER_OF(w, struct vm, pidfd_w);
	siginfo_t si = {0};
	struct sli_errinfo ei;

	(void)events;
	if (waitid(P_PIDFD, (id_t)vm->pidfd, &si, WEXITED | WNOHANG | __WALL) !=
	    0) {
		/* Not our child: then it is its parent's to reap. */
		sli_log(SLI_LOG_WARN, "vm", "reap", "vm=%s errno=%d",
		    vm->spec.id, errno);
		si.si_code = CLD_KILLED;
		si.si_status = SIGKILL;
	} else if (si.si_pid == 0) {
		return;
	}
	loop_fd_del(&vm->pidfd_w);
	sli_fd_close(&vm->pidfd);
	/* All that lived in it is dead: the pipes hold what there will be. */
	pid1_says(&si, &ei);
	if (vm->deleting)
		deleted_error(&ei);
	die(vm, vm->state == VM_FAILED ? &vm->error : &ei);
}

static void
link_fault(void *ctx, const char *reason)
{
	struct vm *vm = ctx;
	struct sli_errinfo ei;

	sli_fail(&ei, SLI_E_SANDBOX, 0, "vm.pid1", "%s", reason);
	sli_errinfo_reason(&ei, "pid1_lost");
	die(vm, &ei);
}

static void
on_ready(struct vm *vm, int32_t version)
{
	if (vm->state != VM_CREATING || version != (int32_t)GUEST_VERSION) {
		link_fault(vm, "pid 1 broke the protocol");
		return;
	}
	loop_timer_del(vm->e->loop, &vm->start);
	vm->fresh = 0;
	set_state(vm, VM_RUNNING, "");
	procs_launch(vm);
	answer(&vm->starts, vm, NULL);
}

/* What pid 1 may say of one process, by its state; anything else is a fault of
 * pid 1, and then nothing that it says can be believed. */
static int
proc_event(struct vm_proc *p, const struct guest_event *ev)
{
	struct sli_errinfo ei;

	switch (ev->op) {
	case GUEST_STARTED:
		if (p->state != PROC_STARTING || !p->launched || ev->a < 1)
			return 0;
		proc_on_started(p, (uint32_t)ev->a);
		return 1;
	case GUEST_ERR:
		if (p->state != PROC_STARTING || !p->launched)
			return 0;
		exec_error(p, ev->a, ev->b, &ei);
		proc_on_failed(p, &ei);
		return 1;
	case GUEST_EXIT:
		if (p->state != PROC_RUNNING || ev->a < 0 || ev->a > 255 ||
		    ev->b < 0 || ev->b > 64)
			return 0;
		proc_on_exit(p, ev->a, ev->b);
		return 1;
	case GUEST_CLOSED:
		if (p->state < PROC_DRAINING || p->closed)
			return 0;
		p->closed = 1;
		return 1;
	default:
		return 0;
	}
}

static void
link_event(void *ctx, const struct guest_event *ev)
{
	struct vm *vm = ctx;
	struct vm_proc *p;

	if (ev->op == GUEST_READY) {
		on_ready(vm, ev->a);
		return;
	}
	if (ev->op == GUEST_PONG)
		return;
	/* Forgotten ones are still closed. */
	p = proc_by_id(vm, ev->id);
	if (p && !proc_event(p, ev)) {
		guest_link_close(&vm->link);
		link_fault(vm, "pid 1 broke the protocol");
	}
}

/* --- the beginning of an instance -----------------------------------------*/

void
vm_on_start_late(struct loop_timer *t)
{
	struct vm *vm = SLI_CONTAINER_OF(t, struct vm, start);
	struct sli_errinfo ei = vm->error;

	if (ei.code == SLI_OK) {
		sli_fail(&ei, SLI_E_SANDBOX, 0, "vm.start",
		    "the VM was not running after vm.start_ms");
		sli_errinfo_reason(&ei, "start_timeout");
	}
	die(vm, &ei);
}

void
vm_made(struct vm *vm, const struct vm_made *m, const struct sli_errinfo *ei)
{
	static const struct guest_link_sink sink = {link_event, link_fault};
	static const char *const miss[] = SPAWNER_MISS_NAMES;
	struct sli_errinfo bad;
	unsigned n = 0;

	vm->making = 0;
	if (m == NULL) {
		die(vm, ei);
		return;
	}
	vm->handle = m->handle;
	vm->init_pid = m->pid;
	vm->missing = m->missing;
	for (unsigned i = 0; i < SPAWNER_MISS__N; i++)
		if (m->missing & 1u << i)
			vm->miss[n++] = miss[i];
	vm->miss[n] = NULL;
	memcpy(vm->enforced, m->enforced, sizeof(vm->enforced));
	vm->pidfd = m->pidfd;
	/* Only memory can be short here; a death that is not seen would be a
	 * VM that cannot be deleted. */
	SLI_ASSERT(loop_fd_add(vm->e->loop, &vm->pidfd_w, vm->pidfd, EPOLLIN,
		       on_pidfd) == SLI_OK);
	if (guest_link_open(&vm->link, vm->e->loop, m->ctl, &sink, vm) !=
	    SLI_OK) {
		sli_fail(&bad, SLI_E_SYS, 0, "vm.start",
		    "the control socket of pid 1 cannot be watched");
		die(vm, &bad);
	} else if (vm->deleting || vm->state != VM_CREATING) {
		vm_teardown(vm);
	}
}

void
vm_make(struct vm *vm)
{
	uint64_t ms = sli_limits_get(&vm->lim, SLI_L_VM_START);

	if (vm->state != VM_CREATING)
		set_state(vm, VM_CREATING, "");
	vm->committed = vm_spec_memory(&vm->lim);
	vm->e->committed += vm->committed;
	vm->oom_kills = vm->oom_open = 0;
	vm->error = (struct sli_errinfo){0};
	vm->making = 1;
	if (vm->e->backend->ops->create(vm->e->backend, vm->key, &vm->spec,
		&vm->lim, &vm->error) != SLI_OK) {
		/* Told from the loop, as every answer. */
		vm->making = 0;
		ms = 0;
	}
	loop_timer_after(vm->e->loop, &vm->start, (int64_t)ms);
}
