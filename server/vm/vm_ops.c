/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms above ask of one VM: create, start, delete, look. Its life is
 * vm.c's, the table of VMs vm_engine.c's. */
#include "base/fd.h"
#include "base/str.h"
#include "vm/vm_internal.h"

struct vm *
vm_new(struct vm_engine *e, const struct vm_spec *spec,
    const struct sli_limits *lim)
{
	struct vm *vm = sli_zalloc(sizeof(*vm));

	if (!vm)
		return NULL;
	vm->e = e;
	vm->lim = *lim;
	vm->state = VM_CREATING;
	vm->pidfd = -1;
	vm->pidfd_w = (struct loop_fd)LOOP_FD_INIT;
	guest_link_init(&vm->link);
	loop_timer_init(&vm->start, vm_on_start_late);
	loop_timer_init(&vm->stop, vm_on_stop_late);
	sli_list_init(&vm->procs);
	sli_list_init(&vm->starts);
	sli_list_init(&vm->deletes);
	sli_arena_init(&vm->mem, VM_SPEC_MEM);
	if (vm_spec_copy(&vm->spec, spec, &vm->mem) != SLI_OK) {
		sli_arena_free(&vm->mem);
		sli_free(vm);
		return NULL;
	}
	return vm;
}

static int
wait_add(struct sli_list *waits, vm_done_fn *fn, void *ctx)
{
	struct vm_wait *w = sli_alloc(sizeof(*w));

	if (!w)
		return 0;
	w->fn = fn;
	w->ctx = ctx;
	sli_list_add_tail(waits, &w->node);
	return 1;
}

static void
no_memory(struct vm *vm, vm_done_fn *done, void *ctx)
{
	struct sli_errinfo ei;

	sli_fail(&ei, SLI_E_NOMEM, 0, "vm", "no memory for the request");
	done(ctx, vm, &ei);
}

void
vm_create(struct vm_engine *e, const struct vm_spec *spec, vm_done_fn *done,
    void *ctx)
{
	struct sli_limits lim;
	struct sli_errinfo ei;
	struct vm *vm = NULL;

	if (vm_spec_check(e, spec, &lim, &ei) != SLI_OK) {
		done(ctx, NULL, &ei);
		return;
	}
	vm = engine_add(e, spec, &lim, &ei);
	if (!vm) {
		done(ctx, NULL, &ei);
		return;
	}
	if (!wait_add(&vm->starts, done, ctx)) {
		engine_forget(e, vm);
		vm_destroy(vm);
		no_memory(NULL, done, ctx);
		return;
	}
	vm->fresh = 1;
	vm_make(vm);
}

struct vm *
vm_adopt_stopped(
    struct vm_engine *e, const struct vm_spec *spec, const char *reason)
{
	struct sli_limits lim;
	struct sli_errinfo ei;
	struct vm *vm;

	/* Limits that have become too small do not lose a VM that is known;
	 * vm_start will say what it lacks. */
	vm_spec_limits(e, spec, &lim);
	vm = engine_add(e, spec, &lim, &ei);
	if (!vm)
		return NULL;
	vm->state = VM_STOPPED;
	sli_strlcpy(vm->reason, reason, sizeof(vm->reason));
	return vm;
}

void
vm_start(struct vm *vm, vm_done_fn *done, void *ctx)
{
	struct sli_errinfo ei;

	if (vm->deleting || vm->state == VM_DELETED) {
		sli_fail(&ei, SLI_E_NOT_FOUND, 0, "vm.start",
		    "the VM is being deleted");
		done(ctx, vm, &ei);
		return;
	}
	if (vm->state == VM_RUNNING) {
		done(ctx, vm, NULL);
		return;
	}
	if (vm->state != VM_CREATING && !vm->restart &&
	    vm_host_fits(vm->e, vm_spec_memory(&vm->lim), &ei) != SLI_OK) {
		done(ctx, vm, &ei);
		return;
	}
	if (!wait_add(&vm->starts, done, ctx)) {
		no_memory(vm, done, ctx);
		return;
	}
	if (vm->state == VM_CREATING)
		return;
	if (vm_has_instance(vm))
		vm->restart = 1;
	else
		vm_make(vm);
}

void
vm_delete(struct vm *vm, vm_done_fn *done, void *ctx)
{
	if (vm->state == VM_DELETED) {
		done(ctx, vm, NULL);
		return;
	}
	if (!wait_add(&vm->deletes, done, ctx)) {
		no_memory(vm, done, ctx);
		return;
	}
	if (!vm->deleting) {
		vm->deleting = 1;
		vm->restart = 0;
		loop_timer_after(vm->e->loop, &vm->stop, VM_STOP_MS);
		vm_teardown(vm);
	}
	vm_settle(vm);
}

void
vm_destroy(struct vm *vm)
{
	struct sli_list *lists[2] = {&vm->starts, &vm->deletes};

	for (int i = 0; i < 2; i++) {
		while (!sli_list_empty(lists[i])) {
			struct vm_wait *w = SLI_LIST_ENTRY(
			    lists[i]->next, struct vm_wait, node);

			sli_list_del(&w->node);
			sli_free(w);
		}
	}
	while (!sli_list_empty(&vm->procs))
		proc_destroy(
		    SLI_LIST_ENTRY(vm->procs.next, struct vm_proc, node));
	loop_timer_del(vm->e->loop, &vm->start);
	loop_timer_del(vm->e->loop, &vm->stop);
	guest_link_close(&vm->link);
	loop_fd_del(&vm->pidfd_w);
	sli_fd_close(&vm->pidfd);
	sli_arena_free(&vm->mem);
	sli_free(vm);
}

/* --- look -----------------------------------------------------------------*/

const char *
vm_id(const struct vm *vm)
{
	return vm->spec.id;
}

const char *
vm_name(const struct vm *vm)
{
	return vm->spec.name;
}

enum vm_state
vm_state(const struct vm *vm)
{
	return vm->state;
}

const char *
vm_reason(const struct vm *vm)
{
	return vm->reason;
}

uint64_t
vm_tenant(const struct vm *vm)
{
	return vm->spec.owner.tenant;
}

int64_t
vm_created_ms(const struct vm *vm)
{
	return vm->spec.created_ms;
}

int
vm_init_pid(const struct vm *vm)
{
	return vm->pidfd == -1 ? 0 : vm->init_pid;
}

unsigned
vm_process_count(const struct vm *vm)
{
	return (unsigned)vm->sum.processes;
}

const struct vm_spec *
vm_get_spec(const struct vm *vm)
{
	return &vm->spec;
}

const char *const *
vm_missing(const struct vm *vm)
{
	return vm->miss;
}

unsigned
vm_limits(const struct vm *vm, struct vm_limit *ret, unsigned n)
{
	static const char *const how[] = SPAWNER_ENF_NAMES;

	static const struct {
		enum sli_limit l;
		enum spawner_limit s; /* SPAWNER_LIM__N: this server holds it */
	} all[] = {
	    {SLI_L_VM_MEMORY,        SPAWNER_LIM_MEMORY},
	    {SLI_L_VM_DISK,          SPAWNER_LIM_DISK  },
	    {SLI_L_VM_PIDS,          SPAWNER_LIM_PIDS  },
	    {SLI_L_VM_CPU,           SPAWNER_LIM_CPU   },
	    {SLI_L_VM_NOFILE,        SPAWNER_LIM_NOFILE},
	    {SLI_L_VM_MAX_PROCESSES, SPAWNER_LIM__N    },
	    {SLI_L_VM_OUTPUT_RING,   SPAWNER_LIM__N    },
	};

	for (unsigned i = 0; i < SLI_ARRAY_LEN(all) && i < n; i++) {
		unsigned enf =
		    all[i].s == SPAWNER_LIM__N ? 0 : vm->enforced[all[i].s];

		ret[i].key = sli_limit_info(all[i].l)->key;
		ret[i].value = sli_limits_get(&vm->lim, all[i].l);
		ret[i].enforcement = all[i].s == SPAWNER_LIM__N ? "hard:server"
				     : enf < SLI_ARRAY_LEN(how) ? how[enf]
								: "none";
	}
	return SLI_ARRAY_LEN(all);
}

void
vm_stats_of(const struct vm *vm, struct vm_stats *ret)
{
	*ret = vm->sum;
	ret->vms = 1;
}
