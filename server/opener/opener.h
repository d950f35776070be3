/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the opener share. The opener does every operation on a
 * path in a VM, so that the server never resolves one. Its supervisor
 * (supervise.c) holds the roots, by handle, and has no rights: it runs as the
 * server's uid, which owns the VMs' user namespaces. For each VM that is asked
 * about it forks a worker (worker.c), which enters the VM's user namespace and
 * root, has the guest root's rights and nothing else, and can be killed when a
 * path blocks it. */
#ifndef SLUICE_OPENER_OPENER_H
#define SLUICE_OPENER_OPENER_H

#include "base/attr.h"
#include "opener/proto.h"

/* One request in memory, path behind it. */
union opener_packet {
	struct opener_msg h;
	struct opener_req rq;
	struct opener_reply reply;
	struct opener_vm vm;
	char b[OPENER_MSG_MAX];
};

/* A packet of the server: is it a request with one terminated path? */
int opener_request_ok(const union opener_packet *p, long len);

/* Serve one VM from `sock` until it ends. Takes root (O_PATH) and userns. */
SLI_NORETURN void worker_run(int sock, int root, int userns);

/* Returns when both sockets have ended; exit status. */
int supervise(int server, int spawner);

#endif
