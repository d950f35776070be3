/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server and pid 1 of a VM. No code.
 *
 * One SOCK_SEQPACKET socket; one message = one packet = one of the structs
 * below in host byte order, followed by strings where it says so (packed back
 * to back, each with its NUL, the last NUL is the last byte).
 *
 * The server trusts nothing that comes from here: every packet is exactly a
 * struct guest_event, else the VM is killed; it never carries descriptors. An
 * id that the server does not know is ignored. pid 1 closes descriptors that
 * it does not expect and ignores a packet that is not well formed, but for
 * EXEC, which it answers with ERR, step REQUEST.
 *
 * The end of this socket is the end of the VM. */
#ifndef SLUICE_GUEST_PROTO_H
#define SLUICE_GUEST_PROTO_H

#include <stdint.h>

#define GUEST_VERSION 1u
#define GUEST_CTL_FD  3 /* in pid 1 */

/* Hard maxima. */
#define GUEST_MSG_MAX   131072u /* one packet to pid 1 */
#define GUEST_ARGC_MAX  1024u
#define GUEST_ENVC_MAX  1024u
#define GUEST_EXECS_MAX 1024u /* started and not CLOSED */

/* Where the programs of libexec/sluice/guest are in every VM, and the PATH
 * with which argv[0] is searched when the environment has none. pid 1 adds
 * nothing to the environment: the server composes it. */
#define GUEST_BIN_DIR "/opt/sluice/bin"
#define GUEST_DEFAULT_PATH                                          \
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/" \
	"bin:" GUEST_BIN_DIR

enum guest_op {
	/* server -> pid 1 */
	GUEST_EXEC = 1, /* struct guest_exec; descriptors: 0, 1, 2 */
	GUEST_KILL = 2, /* struct guest_kill: signal to the process itself */
	GUEST_KILL_TREE = 3, /* struct guest_kill: SIGKILL to all of the exec */
	GUEST_PING = 4,      /* struct guest_kill -> GUEST_PONG */
	/* pid 1 -> server: struct guest_event */
	GUEST_READY = 32,   /* first, once; a = GUEST_VERSION */
	GUEST_STARTED = 33, /* a = pid in the VM */
	GUEST_ERR = 34,  /* a = enum guest_step, b = errno; id is free again */
	GUEST_EXIT = 35, /* a = exit status, b = signal (0 = it exited) */
	GUEST_CLOSED = 36, /* nothing of the exec lives; id is free again */
	GUEST_PONG = 37,
};

/* For one id the order is ERR, or STARTED, EXIT, CLOSED. EXIT comes when the
 * command itself ends, CLOSED when all that it left behind has ended too (at
 * once after EXIT when it left nothing). When something in the VM kills the
 * shim of an exec, all of the exec is killed and EXIT (if it had not come)
 * says signal 9. */
struct guest_event {
	uint32_t op; /* enum guest_op */
	uint32_t id;
	int32_t a;
	int32_t b;
};

enum guest_step {
	GUEST_STEP_REQUEST = 1, /* malformed, id in use, too many: EBADMSG,
				   EEXIST, EAGAIN, E2BIG */
	GUEST_STEP_FORK,        /* no process: EAGAIN (pids limit), ENOMEM */
	GUEST_STEP_USER,        /* uid, gid: EINVAL, EPERM */
	GUEST_STEP_CWD,         /* chdir: ENOENT, ENOTDIR, EACCES */
	GUEST_STEP_EXEC,        /* ENOENT = not found (the shell's 127); EACCES,
				   ENOEXEC, ... = cannot be executed (126) */
};

/* Start a command. `id` is the server's, free at this moment, not 0. Strings:
 * cwd, argv[argc], env[envc]. Exactly three descriptors come along: stdin,
 * stdout, stderr; the command gets them as 0, 1, 2 and no others. argv[0]
 * without a slash is searched in PATH of env, or GUEST_DEFAULT_PATH.
 * The command gets a session of its own, default signal actions, an empty
 * mask, umask 022, the VM's rlimits. */
struct guest_exec {
	uint32_t op; /* GUEST_EXEC */
	uint32_t id;
	uint32_t flags; /* 0 */
	uint32_t uid;   /* in the VM */
	uint32_t gid;
	uint32_t argc; /* 1..GUEST_ARGC_MAX */
	uint32_t envc; /* 0..GUEST_ENVC_MAX */
	uint32_t pad;
};

/* An id that is unknown or has ended is ignored: EXIT or CLOSED tells. */
struct guest_kill {
	uint32_t op;
	uint32_t id;
	int32_t sig; /* GUEST_KILL: 1..64 */
	uint32_t pad;
};

#endif
