/* SPDX-License-Identifier: Apache-2.0 */
/* struct vm and struct vm_engine, for the files of this room only. */
#ifndef SLUICE_VM_VM_INTERNAL_H
#define SLUICE_VM_VM_INTERNAL_H

#include "base/ids.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/mem.h"
#include "vm/guest_link.h"
#include "vm/proc.h"
#include "vm/vm_backend.h"

#define VM_REASON_MAX 240

/* Memory of one VM's copied spec; the parts are bounded by vm.* limits. */
#define VM_SPEC_MEM ((size_t)512 * 1024)

/* Deleting takes milliseconds; then somebody should know why it does not. */
#define VM_STOP_MS 10000
/* vm_engine_free waits so long for all VMs together. */
#define VM_FREE_MS 5000

struct vm_engine {
	struct loop *loop;
	const struct vm_sink *sink;
	void *ctx;
	struct vm_backend *backend;
	int opener_fd;
	struct loop_fd opener_w;
	struct sli_limits lim;
	struct sli_map *by_id; /* every VM, also one that is being deleted */
	struct sli_ids *keys;
	struct vm_stats sum;
	uint64_t mem_total;      /* of this host */
	uint64_t committed;      /* memory + disk of VMs that exist */
	size_t pipe_bytes;       /* of enlarged pipes */
	struct sli_list orphans; /* processes without a VM, with readers */
	struct sli_list refused; /* execs to be refused at the end of turn */
	struct loop_hook refuse;
};

/* One caller of vm_create, vm_start or vm_delete that waits. */
struct vm_wait {
	struct sli_list node;
	vm_done_fn *fn;
	void *ctx;
};

struct vm {
	struct vm_engine *e;
	uint64_t key; /* names it to the backend */
	struct sli_arena mem;
	struct vm_spec spec; /* its strings are in mem */
	struct sli_limits lim;
	enum vm_state state;
	char reason[VM_REASON_MAX];
	const char *miss[SPAWNER_MISS__N + 1]; /* vm_missing */
	int fresh;    /* vm_create's: fails without a trace */
	int deleting; /* asked for; not found any more */
	int restart;  /* make it again once the old instance is gone */
	struct sli_errinfo error; /* why the last start failed */

	/* The instance: there is one while any of these is set. */
	int making;      /* create asked, not answered */
	int removing;    /* remove asked, not answered */
	uint64_t handle; /* the backend's; 0 = none */
	struct loop_fd pidfd_w;
	int pidfd; /* -1 = reaped */
	struct guest_link link;
	int init_pid;
	uint32_t missing;
	uint8_t enforced[SPAWNER_LIM__N];
	uint64_t committed;
	uint64_t oom_kills;      /* told by the kernel */
	uint64_t oom_open;       /* of those, not matched with an exit yet */
	int64_t oom_ms;          /* when the last one was told */
	struct loop_timer start; /* not running in time */
	struct loop_timer stop;  /* not gone in time */

	struct sli_list procs; /* by id */
	uint32_t next_exec;
	unsigned nlive;  /* not EXITED */
	unsigned nended; /* EXITED and listed */
	struct vm_stats sum;
	struct sli_list starts;  /* struct vm_wait: of create and start */
	struct sli_list deletes; /* struct vm_wait */
	struct loop_reap reap;
};

/* --- vm_spec.c: pure ------------------------------------------------------*/

/* Everything a spec can violate, in one answer; fills ret_lim. */
SLI_MUST enum sli_err vm_spec_check(const struct vm_engine *e,
    const struct vm_spec *spec, struct sli_limits *ret_lim,
    struct sli_errinfo *ei);
/* The server's limits with what of the spec can be read; checks nothing. */
void vm_spec_limits(const struct vm_engine *e, const struct vm_spec *spec,
    struct sli_limits *ret_lim);
/* Deep copy into mem. NOMEM. */
SLI_MUST enum sli_err vm_spec_copy(
    struct vm_spec *dst, const struct vm_spec *src, struct sli_arena *mem);
/* What a VM with these limits takes of the host. */
uint64_t vm_spec_memory(const struct sli_limits *lim);
/* HOST_CAPACITY when `more` does not fit beside what is committed. */
SLI_MUST enum sli_err vm_host_fits(
    const struct vm_engine *e, uint64_t more, struct sli_errinfo *ei);

/* --- exec_msg.c: pure -----------------------------------------------------*/

/* Check the spec against the VM's limits and encode EXEC for pid 1. */
SLI_MUST enum sli_err exec_encode(const struct vm *vm, uint32_t id,
    const struct vm_exec_spec *spec, struct sli_buf *ret_msg,
    struct sli_errinfo *ei);
/* Why pid 1 could not start it. */
void exec_error(
    const struct vm_proc *p, int step, int sys, struct sli_errinfo *ret);

/* --- vm.c -----------------------------------------------------------------*/

/* Ask the backend for an instance; state creating. */
void vm_make(struct vm *vm);
/* Answers of the backend; m's descriptors are taken. */
void vm_made(
    struct vm *vm, const struct vm_made *m, const struct sli_errinfo *ei);
void vm_removed(struct vm *vm, const struct sli_errinfo *ei);
/* Kill pid 1, have the rest removed; vm_settle when it is all gone. */
void vm_teardown(struct vm *vm);
/* Go on with what waits for the end of the instance, if it has ended. */
void vm_settle(struct vm *vm);
int vm_has_instance(const struct vm *vm);
/* All processes of the VM are dead, or will never start: ei. */
void vm_procs_died(struct vm *vm, const struct sli_errinfo *ei);
void vm_on_start_late(struct loop_timer *t);
void vm_on_stop_late(struct loop_timer *t);

/* --- oom.c ----------------------------------------------------------------*/

/* p has ended by a SIGKILL that nobody here asked for. */
void oom_judge(struct vm_proc *p);
void oom_late(struct loop_timer *t);
/* The kernel has killed something in the VM; kills in all, or 0. */
void vm_oom(struct vm *vm, uint64_t kills);

/* --- vm_ops.c -------------------------------------------------------------*/

/* State creating, in no table, nothing asked of the backend. NULL: memory. */
struct vm *vm_new(struct vm_engine *e, const struct vm_spec *spec,
    const struct sli_limits *lim);
/* Free at once, call nobody. For one in no table. */
void vm_destroy(struct vm *vm);

/* --- proc_view.c ----------------------------------------------------------*/

/* Tell its caller at the end of the turn that p, STARTING, does not start;
 * p->refusal says why. */
void proc_refuse(struct vm_proc *p);
void engine_refuse(struct loop_hook *h);
/* The VM runs: give pid 1 what has waited for that. */
void procs_launch(struct vm *vm);
struct vm_proc *proc_by_id(struct vm *vm, uint32_t id);

/* --- vm_engine.c ----------------------------------------------------------*/

/* A new VM in the tables, or NULL: ei. */
struct vm *engine_add(struct vm_engine *e, const struct vm_spec *spec,
    const struct sli_limits *lim, struct sli_errinfo *ei);
/* The VM exists no more: out of the tables. */
void engine_forget(struct vm_engine *e, struct vm *vm);

#endif
