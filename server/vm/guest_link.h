/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket of one VM's pid 1 (server/guest/proto.h). Sends requests
 * in order, bounded; hands on what pid 1 says after checking its shape, and
 * believes nothing. Knows ids, not processes. Thread: loop. */
#ifndef SLUICE_VM_GUEST_LINK_H
#define SLUICE_VM_GUEST_LINK_H

#include "base/buf.h"
#include "guest/proto.h"
#include "loop/loop.h"

/* Requests that wait because pid 1 does not read its socket. Beyond it the VM
 * is stuck, and what is asked of it is refused. */
#define GUEST_LINK_QUEUE_MAX 512u

struct guest_link_sink {
	/* One well-formed event; its id and order are not checked. */
	void (*event)(void *ctx, const struct guest_event *ev);
	/* End of the socket, or something malformed. Called once; nothing
	 * more comes. `reason` is static. */
	void (*fault)(void *ctx, const char *reason);
};

struct guest_link {
	struct loop *loop;
	struct loop_fd w;
	int fd; /* -1 = closed */
	struct sli_list queue;
	unsigned nqueued;
	const struct guest_link_sink *sink;
	void *ctx;
};

void guest_link_init(struct guest_link *g);
/* Takes fd. On failure it is closed. */
SLI_MUST enum sli_err guest_link_open(struct guest_link *g, struct loop *l,
    int fd, const struct guest_link_sink *sink, void *ctx);
void guest_link_close(struct guest_link *g);

/* Send an encoded EXEC with its three descriptors, which are taken (closed
 * after sending, or on failure). *msg is emptied. AGAIN: the queue is full.
 * CLOSED. */
SLI_MUST enum sli_err guest_link_exec(
    struct guest_link *g, struct sli_buf *msg, int fds[3]);
/* GUEST_KILL or GUEST_KILL_TREE. */
SLI_MUST enum sli_err guest_link_kill(
    struct guest_link *g, enum guest_op op, uint32_t id, int sig);

#endif
