/* SPDX-License-Identifier: Apache-2.0 */
/* Which process the kernel killed for memory. It tells of kills in a VM, pid 1
 * tells of a process that ended by SIGKILL, in either order and by different
 * ways; here the two meet. A kill that nobody here asked for waits a moment for
 * the other half. */
#include "base/log.h"
#include "base/str.h"
#include "vm/vm_internal.h"

/* How long an exit waits for news of a kill; they come within a millisecond or
 * two of each other on an idle machine. */
#define OOM_WAIT_MS 100
/* A kill that no process of ours has claimed by then was of a child. */
#define OOM_KEEP_MS 1000

void
oom_judge(struct vm_proc *p)
{
	struct vm *vm = p->vm;
	int64_t now = loop_now_ms(p->engine->loop);

	if (vm->enforced[SPAWNER_LIM_MEMORY] != SPAWNER_ENF_CGROUP ||
	    (vm->missing & SPAWNER_MISS_OOM_EVENTS))
		return;
	if (vm->oom_open > 0 && now - vm->oom_ms < OOM_KEEP_MS) {
		vm->oom_open--;
		p->exit.oom = 1;
		return;
	}
	/* With its pid 1 dead the whole VM was killed. */
	if (vm->pidfd == -1)
		return;
	p->oom_wait = 1;
	loop_timer_after(p->engine->loop, &p->oom, OOM_WAIT_MS);
}

static void
judged(struct vm_proc *p)
{
	p->oom_wait = 0;
	loop_timer_del(p->engine->loop, &p->oom);
	proc_maybe_done(p);
}

void
oom_late(struct loop_timer *t)
{
	judged(SLI_CONTAINER_OF(t, struct vm_proc, oom));
}

static struct vm_proc *
waiting(struct vm *vm)
{
	struct sli_list *it;

	sli_list_for_each (it, &vm->procs) {
		struct vm_proc *p = SLI_LIST_ENTRY(it, struct vm_proc, node);

		if (p->oom_wait)
			return p;
	}
	return NULL;
}

void
vm_oom(struct vm *vm, uint64_t kills)
{
	uint64_t more = kills > vm->oom_kills ? kills - vm->oom_kills : 1;
	int64_t now = loop_now_ms(vm->e->loop);
	struct vm_proc *p;
	char text[64];

	if (now - vm->oom_ms >= OOM_KEEP_MS)
		vm->oom_open = 0;
	vm->oom_kills += more;
	vm->sum.oom_kills += more;
	vm->e->sum.oom_kills += more;
	vm->oom_open += more;
	vm->oom_ms = now;
	while (vm->oom_open > 0 && (p = waiting(vm)) != NULL) {
		vm->oom_open--;
		p->exit.oom = 1;
		judged(p);
	}
	sli_snprintf(text, sizeof(text), "kills=%llu",
	    (unsigned long long)vm->oom_kills);
	sli_debug("vm", "oom", "vm=%s %s", vm->spec.id, text);
	if (vm->e->sink->notice)
		vm->e->sink->notice(vm->e->ctx, vm, "oom", text);
}
