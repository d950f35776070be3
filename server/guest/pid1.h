/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of pid 1 share: one record per exec.
 *
 * pid 1 starts each command under a shim: a process that shares pid 1's
 * address space (so it costs no copy and no exec), is a child subreaper, has
 * the command as its child and reaps whatever the command leaves behind. All
 * that an exec ever starts is below its shim, so it can be killed whole.
 *
 * Who writes what: `started`, `exited`, `pid`, `step`, `err` the shim (and the
 * command's first instructions before exec), everything else pid 1. pid 1
 * frees a record after it has reaped the shim. */
#ifndef SLUICE_GUEST_PID1_H
#define SLUICE_GUEST_PID1_H

#include "guest/proto.h"

#include <stddef.h>

#define PID1_SHIM_STACK 4096u
#define PID1_CMD_STACK  8192u

struct exec {
	struct exec *next;
	uint32_t id;
	int shim;    /* pid */
	int lost;    /* shim was killed; what it left is being killed */
	int killing; /* KILL_TREE was asked for */
	int owe_exit, owe_closed; /* could not be sent yet */
	/* written by the shim */
	volatile int pid;     /* of the command; 0 = not yet, or ended */
	volatile int started; /* STARTED sent */
	volatile int exited;  /* EXIT sent */
	volatile int step, err;
	/* the request, in the same mapping behind this struct */
	size_t map_len;
	uint32_t uid, gid;
	int fds[3];
	const char *cwd;
	char **argv, **envp;
	char *shim_top, *cmd_top;
	char path[4096]; /* scratch of the PATH search */
};

/* Thread: none here; shims run beside pid 1 and see only their own record. */

/* Entry of a shim. */
int pid1_shim(void *arg);
/* One event to the server; blocking. Returns 0 or -errno. */
long pid1_send(uint32_t op, uint32_t id, int a, int b, int flags);

/* One pass over /proc: SIGKILL everything below the shims of `list` that are
 * marked killing, and every child of pid 1 that is no shim of `list` (left by
 * a shim that was killed). Returns how many live processes it found. Must be
 * repeated until the shims are gone: what is born during a pass is found by
 * the next. */
unsigned pid1_kill_pass(const struct exec *list);

#endif
