/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server and the spawner. No code but name tables.
 *
 * One SOCK_SEQPACKET socket; one message = one packet = one of the structs
 * below in host byte order (both ends are of one build), followed by its
 * strings where it says so. Strings are packed back to back, each with its
 * NUL, and the last NUL is the last byte of the packet. Every message begins
 * with struct spawner_msg; `len` is the packet's length.
 *
 * The server sends requests, as many as it likes, each under a `req` of its
 * own choice (not 0). Each is answered exactly once, under the same `req`, in
 * any order, by the answer named beside it or by SPAWNER_FAILED. Creations
 * queue in the spawner (SPAWNER_QUEUE_MAX; beyond it they fail with EAGAIN).
 * Nothing that the server sends can block or end the spawner; a packet that
 * is not well formed is answered by SPAWNER_FAILED, step "request", errno
 * EBADMSG, under the `req` that it carried (0 if it had none). Descriptors
 * that the server sends along are closed unseen: nothing is named by one.
 *
 * The end of this socket is the end of every VM: the spawner kills them all,
 * removes what it made for them and exits. Loss of the spawner is fail-stop
 * for the server. */
#ifndef SLUICE_SPAWNER_PROTO_H
#define SLUICE_SPAWNER_PROTO_H

#include <stdint.h>

#define SPAWNER_VERSION 1u

/* Where a helper finds its sockets after exec. */
#define SPAWNER_SERVER_FD 3 /* to the server, both helpers */
#define SPAWNER_OPENER_FD 4 /* spawner <-> opener */
#define SPAWNER_START_FD  5 /* written once: "" or why it could not start */

/* Hard maxima. A request beyond one of them is refused, never cut. */
#define SPAWNER_MSG_MAX    65536u /* one packet */
#define SPAWNER_STR_MAX    4096u  /* one string with its NUL */
#define SPAWNER_NAME_MAX   64u    /* host name with its NUL */
#define SPAWNER_MOUNTS_MAX 32u    /* of one VM */
#define SPAWNER_VMS_MAX    4096u  /* VMs at one time; id ranges in the pool */
#define SPAWNER_QUEUE_MAX  1024u  /* creations not begun */
#define SPAWNER_PROBES_MAX 32u    /* lines of one doctor's answer */

enum spawner_op {
	/* server -> spawner */
	SPAWNER_CREATE = 1, /* struct spawner_create -> SPAWNER_CREATED */
	SPAWNER_DELETE = 2, /* struct spawner_handle -> SPAWNER_DELETED */
	SPAWNER_FREEZE = 3, /* struct spawner_freeze -> SPAWNER_FROZEN */
	SPAWNER_DOCTOR = 4, /* struct spawner_msg    -> SPAWNER_REPORT */
	/* spawner -> server */
	SPAWNER_HELLO = 32, /* struct spawner_hello: first, once, req 0 */
	SPAWNER_CREATED =
	    33, /* struct spawner_created, descriptors: ctl, pidfd */
	SPAWNER_DELETED = 34, /* struct spawner_handle */
	SPAWNER_FROZEN = 35,  /* struct spawner_handle */
	SPAWNER_REPORT = 36,  /* struct spawner_report */
	SPAWNER_FAILED = 37,  /* struct spawner_failed */
	SPAWNER_OOM = 38,     /* struct spawner_oom: event, req 0 */
};

struct spawner_msg {
	uint32_t op;  /* enum spawner_op */
	uint32_t len; /* of the whole packet */
	uint64_t req;
};

/* --- what this host cannot give -------------------------------------------*/

/* Bit, and the name that VmInfo.missing and `sluice doctor` show. */
#define SPAWNER_MISSES(X)                                                     \
	X(0, CGROUP_MEMORY, "cgroup.memory") /* memory is not limited hard */ \
	X(1, CGROUP_PIDS, "cgroup.pids")     /* pids by rlimit instead */     \
	X(2, CGROUP_CPU, "cgroup.cpu")       /* no CPU share */               \
	X(3, CGROUP_FREEZER, "cgroup.freezer") /* cannot be frozen */         \
	X(4, OOM_EVENTS, "oom.events")         /* SPAWNER_OOM never comes */  \
	X(5, SUBUID, "subuid")                 /* one uid only in the VM */

enum spawner_miss {
#define SPAWNER_MISS_(bit, name, text) SPAWNER_MISS_##name = 1 << (bit),
	SPAWNER_MISSES(SPAWNER_MISS_)
#undef SPAWNER_MISS_
};

#define SPAWNER_MISS__N 6

/* Names by bit number, for loops over a mask. */
#define SPAWNER_MISS_NAMES                         \
	{                                          \
		SPAWNER_MISSES(SPAWNER_MISS_NAME_) \
	}
#define SPAWNER_MISS_NAME_(bit, name, text) [bit] = (text),

/* --- how a limit is held --------------------------------------------------*/

enum spawner_limit {
	SPAWNER_LIM_MEMORY,
	SPAWNER_LIM_DISK,
	SPAWNER_LIM_PIDS,
	SPAWNER_LIM_CPU,
	SPAWNER_LIM_NOFILE,
	SPAWNER_LIM__N,
};

/* Text is VmLimit.enforcement. PROCESS, USER: it holds for each process, or
 * each uid in the VM, alone; the VM as a whole can pass it. */
#define SPAWNER_ENFORCEMENTS(X)            \
	X(0, NONE, "none")                 \
	X(1, CGROUP, "hard:cgroup")        \
	X(2, RLIMIT, "hard:rlimit")        \
	X(3, TMPFS, "hard:tmpfs")          \
	X(4, PROCESS, "soft:each-process") \
	X(5, WATCHDOG, "soft:watchdog")    \
	X(6, USER, "soft:each-user")

enum spawner_enforcement {
#define SPAWNER_ENF_(num, name, text) SPAWNER_ENF_##name = (num),
	SPAWNER_ENFORCEMENTS(SPAWNER_ENF_)
#undef SPAWNER_ENF_
};

#define SPAWNER_ENF_NAMES                               \
	{                                               \
		SPAWNER_ENFORCEMENTS(SPAWNER_ENF_NAME_) \
	}
#define SPAWNER_ENF_NAME_(num, name, text) [num] = (text),

/* --- requests -------------------------------------------------------------*/

#define SPAWNER_MOUNT_RO 1u

/* Make a VM. Followed by its strings: host name, then for each mount its
 * source (absolute, on the host) and its target (absolute, in the VM).
 *
 * `flags` of mount i are mount_flags[i]; SPAWNER_MOUNT_RO is required.
 * A source is admitted when, symlinks resolved, it lies at or below a
 * `mount_allow` path of the operator (an ordinary user who lists none allows
 * all that he can read; root who lists none allows nothing), is a directory or
 * a regular file on an ordinary file system, is not at, above or below the
 * state directory, and can be opened with the rights of peer_uid/peer_gid (no
 * supplementary groups) when that is not 0. Mounts are always nosuid,nodev. */
struct spawner_create {
	struct spawner_msg h;
	uint64_t memory_bytes; /* 0 = no limit */
	uint64_t disk_bytes;   /* root file system; at least 1 MiB */
	uint64_t disk_inodes;  /* 0 = one for 8 KiB of disk_bytes */
	uint32_t pids;         /* 0 = no limit; counts pid 1 and the shims */
	uint32_t nofile;       /* of each process; 0 = 4096 */
	uint32_t cpu_millis;   /* 1000 = one core; 0 = no limit */
	uint32_t peer_uid;     /* who asks, on the host */
	uint32_t peer_gid;
	uint32_t nmounts;
	uint32_t mount_flags[SPAWNER_MOUNTS_MAX];
};

/* SPAWNER_DELETE: kill everything in the VM, wait until it is dead, remove
 * its cgroups, give its ids back. Answered when nothing is left but the
 * zombie of pid 1, which the server reaps: it is the server's child (waitid
 * by its pidfd with WEXITED | __WALL). The server may have killed and reaped
 * it before. After the answer the handle names nothing. */
struct spawner_handle {
	struct spawner_msg h;
	uint64_t handle;
};

struct spawner_freeze {
	struct spawner_msg h;
	uint64_t handle;
	uint32_t frozen; /* 1 = freeze, 0 = thaw */
	uint32_t pad;
};

/* --- answers and events ---------------------------------------------------*/

struct spawner_hello {
	struct spawner_msg h;
	uint32_t version;    /* SPAWNER_VERSION */
	uint32_t privileged; /* 1 = started as root: id ranges, idmaps */
	uint32_t missing; /* enum spawner_miss, for every VM of this server */
	uint32_t server_uid;
};

/* Two descriptors come along: [0] the server's end of the control socket of
 * pid 1 (server/guest/proto.h; its first message, READY, may already wait in
 * it), [1] a pidfd of pid 1. Both are blocking and CLOEXEC. */
struct spawner_created {
	struct spawner_msg h;
	uint64_t handle;   /* never 0, never given twice by one spawner */
	int32_t pid;       /* pid 1 as the host sees it */
	uint32_t uid_base; /* host uid of the VM's root */
	uint32_t missing;  /* enum spawner_miss, for what was asked here */
	uint8_t
	    enforced[8]; /* by enum spawner_limit: enum spawner_enforcement */
};

/* The answer to a CREATE may bring one descriptor: a pidfd of a pid 1 that was
 * begun and is dead by now. It is the server's child and must be reaped.
 * `step` names what was being done ("request", "handle", "queue", "pool",
 * "clone", "idmap", "cgroup", "mount", "root", "lockdown", "exec", "ready",
 * "timeout", ...), `text` is one sentence that says what to do. */
#define SPAWNER_STEP_MAX 24u
#define SPAWNER_TEXT_MAX 232u

struct spawner_failed {
	struct spawner_msg h;
	int32_t sys; /* errno */
	char step[SPAWNER_STEP_MAX];
	char text[SPAWNER_TEXT_MAX];
};

/* The kernel killed something in the VM because of its memory limit. */
struct spawner_oom {
	struct spawner_msg h;
	uint64_t handle;
	uint64_t kills; /* since the VM was made; 0 = the kernel does not say */
};

enum spawner_probe_state {
	SPAWNER_PROBE_OK = 0,
	SPAWNER_PROBE_MISSING = 1, /* works without it, with less */
	SPAWNER_PROBE_BROKEN = 2,  /* no VM can be made */
};

struct spawner_probe {
	uint32_t state;
	char name[28];    /* "user-namespaces", "cgroup.memory", ... */
	char detail[128]; /* what was found */
	char remedy[160]; /* what to do, "" when ok */
};

/* The packet ends after probes[n - 1]. */
struct spawner_report {
	struct spawner_msg h;
	uint32_t n;
	uint32_t pad;
	struct spawner_probe probes[SPAWNER_PROBES_MAX];
};

#endif
