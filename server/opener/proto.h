/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server and the opener, and between the spawner and the
 * opener. No code.
 *
 * Two SOCK_SEQPACKET sockets; one message = one packet = one of the structs
 * below in host byte order, followed by its string where it says so (the NUL
 * is the last byte of the packet). `len` is the packet's length.
 *
 * The server names a VM by the handle that the spawner gave it, and a file by
 * a path in that VM; nothing is ever named by a descriptor, and descriptors
 * that it sends are closed unseen. Each request is answered exactly once,
 * under its `req` (the server's choice, not 0), in any order over VMs, in
 * order for one VM. A request that takes longer than OPENER_TIMEOUT_MS is
 * answered with ETIMEDOUT. A packet that is not well formed is answered with
 * EBADMSG under the `req` it carried (0 if it had none). An unknown handle is
 * ENOENT with step "handle".
 *
 * Loss of the opener is fail-stop for the server. */
#ifndef SLUICE_OPENER_PROTO_H
#define SLUICE_OPENER_PROTO_H

#include <stdint.h>

#define OPENER_VERSION 1u

/* Where the opener finds its sockets after exec: as the spawner does. */
#define OPENER_SERVER_FD  3
#define OPENER_SPAWNER_FD 4
#define OPENER_START_FD   5

#define OPENER_MSG_MAX    8192u
#define OPENER_PATH_MAX   4096u /* with its NUL */
#define OPENER_QUEUE_MAX  256u  /* requests waiting, of one VM; else EAGAIN */
#define OPENER_TIMEOUT_MS 5000

enum opener_op {
	/* server -> opener: struct opener_req; -> struct opener_reply */
	OPENER_STAT = 1,     /* the last component, a symlink itself */
	OPENER_OPEN = 2,     /* a regular file or directory, for reading; the
				reply brings the descriptor */
	OPENER_REALPATH = 3, /* the reply brings the path in the VM */
	/* opener -> server */
	OPENER_REPLY = 32,
	/* spawner -> opener; no answer */
	OPENER_ADD =
	    64, /* struct opener_vm; descriptors: root, user namespace */
	OPENER_DEL = 65, /* struct opener_vm */
};

struct opener_msg {
	uint32_t op;
	uint32_t len;
	uint64_t req;
};

/* Followed by the path: absolute, resolved inside the VM's root whatever its
 * symlinks say. Refused: proc and other kernel file systems (EPERM), devices,
 * FIFOs and sockets (EPERM). */
struct opener_req {
	struct opener_msg h;
	uint64_t handle;
};

struct opener_stat {
	uint64_t ino, size;
	int64_t mtime_ns;
	uint32_t mode;     /* S_IFMT and permission bits */
	uint32_t uid, gid; /* in the VM; 65534 when it has none */
	uint32_t nlink;
};

#define OPENER_STEP_MAX 24u

/* sys 0 = done. STAT and OPEN fill st; OPEN brings one descriptor (CLOEXEC);
 * REALPATH is followed by the path. */
struct opener_reply {
	struct opener_msg h;
	int32_t sys; /* errno */
	char step[OPENER_STEP_MAX];
	uint32_t pad;
	struct opener_stat st;
};

struct opener_vm {
	struct opener_msg h;
	uint64_t handle;
};

#endif
