/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of processes in a VM, and a world with one running VM whose pid 1 is
 * the test (t_vm.h). */
#ifndef SLUICE_TESTS_T_VMC_H
#define SLUICE_TESTS_T_VMC_H

#include "t_vm.h"

#define T_DRAIN_MS 60 /* vm.exec_drain_ms of a t_world */

/* A client that reads everything, or nothing until it is told to. */
struct t_vmc {
	struct vm_reader r;
	struct vm_proc *proc;
	struct sli_errinfo ei;
	int answered;
	int idle; /* do not read */
	char *data;
	size_t n, cap;
	uint64_t gaps;
	struct vm_exit exit;
	int exited; /* seen by the reader, or by on_exit */
	int raw[3];
	int drained;
};

/* Read and acknowledge all there is. */
void t_vmc_pull(struct t_vmc *c);
/* A reader's ready(): pulls unless idle. */
void t_vmc_ready(struct vm_reader *r);
void t_vmc_free(struct t_vmc *c);
/* vm_exec of "cmd arg"; the owner attaches and reads. RAW: takes the stdio. */
void t_vmc_exec(
    struct vm *vm, struct t_vmc *c, unsigned flags, uint64_t timeout_ms);
void t_vmc_exec_spec(
    struct vm *vm, struct t_vmc *c, const struct vm_exec_spec *s);
/* Its output is exactly this. */
void t_vmc_is(const struct t_vmc *c, const char *want);

struct t_world {
	struct t_vm t;
	struct t_pid1 pid1;
	struct vm *vm;
	unsigned fds; /* open before */
};

/* cmocka set-up and teardown; teardown asserts that no held byte and no
 * descriptor is left. */
int t_world_new(void **state);
int t_world_new_with(void **state, int limit, uint64_t value);
int t_world_free(void **state);
/* Exec, taken by pid 1, STARTED, attached. */
void t_vmc_start(struct t_world *w, struct t_vmc *c, struct t_exec *x,
    unsigned flags, uint64_t timeout_ms);
/* The process prints. */
void t_vmc_put(const struct t_exec *x, int fd, const char *s);
/* The VM must fail now, and c (or NULL), which runs in it, end by SIGKILL. */
void t_vmc_wants_death(struct t_world *w, struct t_vmc *c);

#endif
