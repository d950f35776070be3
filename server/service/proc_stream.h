/* SPDX-License-Identifier: Apache-2.0 */
/* The stream between one client and one process: Exec's two halves, Attach's
 * one. A cursor over the process's output ring; holds only what the client
 * sent and the process's stdin has not taken. */
#ifndef SLUICE_SERVICE_PROC_STREAM_H
#define SLUICE_SERVICE_PROC_STREAM_H

#include "service/room.h"

/* Starts the process and opens the stream when it runs; answers the call. */
void proc_stream_exec(
    struct svc_call c, struct vm *vm, const struct vm_exec_spec *spec);
/* Output from offset `from`, then live, then exit. */
void proc_stream_attach(struct svc_call c, struct vm_proc *p, uint64_t from);
/* Fill the message of an exit. */
void proc_stream_exit(const struct vm_exit *st, Sluice__V1__ExecExit *ret);

#endif
