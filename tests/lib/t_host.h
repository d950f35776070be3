/* SPDX-License-Identifier: Apache-2.0 */
/* A VM engine on the real spawner and opener, in the process of the test, with
 * the rights that a server has: none. */
#ifndef SLUICE_TESTS_T_HOST_H
#define SLUICE_TESTS_T_HOST_H

#include "t_vmc.h"

/* Runs `body` as the server would run: helpers started, rights given up, an
 * engine in t->e, nothing else. In a child, because that is for good; the
 * parent then removes the state directory, asserts that nothing is left in it,
 * and returns the body's status. To be called first in main. */
int t_host_run(int (*body)(struct t_vm *t));

/* A running VM. */
struct vm *t_host_vm(struct t_vm *t, const char *id);
/* Deleted, and gone within 10 s. */
void t_host_delete(struct t_vm *t, struct vm *vm);
/* vm_exec of a shell command; c as in t_vmc.h. */
void t_host_sh(
    struct vm *vm, struct t_vmc *c, const char *cmd, uint64_t timeout_ms);
/* The same, to its end; frees nothing. */
void t_host_run_sh(
    struct t_vm *t, struct vm *vm, struct t_vmc *c, const char *cmd);
/* Open descriptors, counted without /proc: a server may not look there. */
unsigned t_host_fds(void);

#endif
