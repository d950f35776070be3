/* SPDX-License-Identifier: Apache-2.0 */
/* A VM engine whose spawner, opener and pid 1 are the test: it takes what the
 * engine sends and answers what it likes. A child that only waits stands in for
 * pid 1, so that killing and reaping are real. Every call fails the test on
 * error; waiting is bounded. */
#ifndef SLUICE_TESTS_T_VM_H
#define SLUICE_TESTS_T_VM_H

#include "vm/vm.h"

#include "guest/proto.h"
#include "spawner/proto.h"

struct t_vm {
	struct loop *l;
	struct vm_engine *e;
	int spawner; /* the spawner's end */
	int opener;
	uint64_t handles; /* given so far */
	/* what the sink was told */
	unsigned states[8]; /* by enum vm_state */
	unsigned notices, fatals;
	/* of the last vm_create */
	struct vm *vm;
	struct sli_errinfo ei;
	int done;
	int noted; /* calls of t_vm_note */
	struct sli_principal me;
	struct sli_limits *lim;
};

/* One VM's pid 1. */
struct t_pid1 {
	int ctl;
	int child; /* a process that waits to be killed */
	uint64_t handle;
};

/* A received EXEC: id and the guest's ends. */
struct t_exec {
	uint32_t id;
	int fds[3];
	char text[4096]; /* its strings, NULs shown as '|' */
};

void t_vm_init(struct t_vm *t);
/* The same with one limit set. */
void t_vm_init_with(struct t_vm *t, int limit, uint64_t value);
/* Engine, sockets, loop; asserts that no descriptor is left open. */
void t_vm_fini(struct t_vm *t);

/* Turn the loop until *what is not 0; fails after 10 s. */
void t_vm_until(struct t_vm *t, const int *what);
/* A few turns that do not wait. */
void t_vm_turns(struct t_vm *t);

/* A vm_done_fn; ctx is the t_vm. Counts, and wants success. */
void t_vm_note(void *ctx, struct vm *vm, const struct sli_errinfo *ei);
/* vm_create with id ("vm_1"); answers fill t->vm, t->ei, t->done. */
void t_vm_create(struct t_vm *t, const char *id);
/* The next request of the engine to the spawner, which must be op. */
uint64_t t_vm_request(struct t_vm *t, uint32_t op, void *ret, size_t cap);
/* Answer CREATE: a pid 1 that has not said READY. */
void t_vm_made(struct t_vm *t, uint64_t req, struct t_pid1 *ret);
/* CREATE, answered, READY: running. */
struct vm *t_vm_running(struct t_vm *t, const char *id, struct t_pid1 *ret);
/* Answer the DELETE that the engine has sent or will send. */
void t_vm_deleted(struct t_vm *t);
void t_vm_failed(struct t_vm *t, uint64_t req, int sys, const char *step);
/* The kernel has killed something for memory. */
void t_vm_oom(struct t_vm *t, uint64_t handle, uint64_t kills);

void t_pid1_say(const struct t_pid1 *p, uint32_t op, uint32_t id, int a, int b);
/* The next EXEC. */
void t_pid1_exec(struct t_vm *t, const struct t_pid1 *p, struct t_exec *ret);
/* The next KILL or KILL_TREE. */
void t_pid1_kill(struct t_vm *t, const struct t_pid1 *p, struct guest_kill *k);
/* Close what is open of pid 1 (its child is the engine's). */
void t_pid1_close(struct t_pid1 *p);
void t_exec_close(struct t_exec *x);

#endif
