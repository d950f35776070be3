/* SPDX-License-Identifier: Apache-2.0 */
/* The first thing the server's main does: start the spawner and the opener
 * while the process is small, single-threaded and still has its rights, then
 * give those rights up for good. Knows nothing of configuration files; forks
 * nothing later. Thread: main, before any other thread exists. */
#ifndef SLUICE_MAIN_HELPERS_H
#define SLUICE_MAIN_HELPERS_H

#include "base/err.h"

#include <sys/types.h>

struct helpers_conf {
	const char *state_dir; /* absolute; made (0700) when it is missing */
	const char *user;      /* `user=` of the configuration, or NULL */
	/* `mount_allow PATH` lines: what --mount may show to a VM. Started as
	 * root with none: nothing. As an ordinary user with none: whatever that
	 * user can read. */
	const char *const *mount_allow;
	unsigned nmount_allow;
};

struct helpers {
	int spawner_fd;                /* server/spawner/proto.h */
	int opener_fd;                 /* server/opener/proto.h */
	pid_t spawner_pid, opener_pid; /* our children; for logs and tests */
	uid_t uid; /* what helpers_drop_privileges() becomes */
	gid_t gid;
	int privileged; /* started as root */
	char state_dir[4096];
};

/* Choose the server's uid, make and give away the state directory, start both
 * helpers and wait until they stand. Programs are looked for in
 * ../libexec/sluice/ beside the directory of this executable, or in
 * $SLUICE_LIBEXEC when that is set and this process is not setuid.
 * On failure nothing is left running. */
SLI_MUST enum sli_err helpers_start(const struct helpers_conf *conf,
    struct helpers *ret, struct sli_errinfo *ei);

/* Is it a uid that a server takes when it has no account? */
int helpers_free_uid(uid_t uid);

/* May the server that h describes get into dir? CONFIG names the directory that
 * stops it and `what` chooses another place. Before rights are given up. */
SLI_MUST enum sli_err helpers_check_reach(const struct helpers *h,
    const char *dir, const char *what, struct sli_errinfo *ei);

/* Become h->uid when started as root: no groups, no capabilities. Always:
 * no_new_privs, not dumpable, no core dumps, and a filter that refuses what a
 * server never needs (exec, ptrace, namespaces, mounts). Verified afterwards;
 * on failure the process must end. */
SLI_MUST enum sli_err helpers_drop_privileges(
    const struct helpers *h, struct sli_errinfo *ei);

/* Close both sockets and reap the helpers (bounded, 5 s). */
void helpers_stop(struct helpers *h);

#endif
