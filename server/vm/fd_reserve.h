/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors kept back, so that those which an answer brings always find a
 * place: a message whose descriptors do not fit is cut by the kernel, and with
 * it the only hold on a VM that exists already. Thread: loop. */
#ifndef SLUICE_VM_FD_RESERVE_H
#define SLUICE_VM_FD_RESERVE_H

#include "base/err.h"

struct fd_reserve {
	int *fds;
	unsigned n, want, max;
};

SLI_MUST enum sli_err fd_reserve_init(struct fd_reserve *r, unsigned max);
void fd_reserve_fini(struct fd_reserve *r);
/* Keep `more` descriptors back from now on (duplicates of fd).
 * RESOURCE_EXHAUSTED: there are none left; then nothing has changed. */
SLI_MUST enum sli_err fd_reserve_add(
    struct fd_reserve *r, int fd, unsigned more);
/* Keep `less` fewer back. */
void fd_reserve_drop(struct fd_reserve *r, unsigned less);
/* Around a receive: free places for n; take back what is still wanted. */
void fd_reserve_open(struct fd_reserve *r, unsigned n);
void fd_reserve_shut(struct fd_reserve *r, int fd);

#endif
