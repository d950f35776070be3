/* SPDX-License-Identifier: Apache-2.0 */
/* The new process between the clone and pid 1: takes on root inside its own
 * namespaces, joins its cgroups, builds its root (rootfs.c), waits until the
 * spawner has opened it, gives up its rights (lockdown.c), becomes pid 1. It
 * lives on a copy of the spawner's memory and returns nowhere. */
#include "guest/proto.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static SLI_NORETURN void
die(const struct spawner_plan *p, const struct spawner_fault *f)
{
	struct spawner_word w = {.rooted = 0, .fault = *f};

	(void)send(p->setup_fd, &w, sizeof(w), MSG_NOSIGNAL);
	_exit(1);
}

/* The spawner says go, twice. Its end closed: it is gone, so are we. */
static void
wait_go(const struct spawner_plan *p)
{
	char c;
	ssize_t n;

	do {
		n = recv(p->setup_fd, &c, 1, 0);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(1);
}

static int
become_root(const struct spawner_plan *p, struct spawner_fault *f)
{
	/* With one uid only, the kernel forbids setgroups. */
	if (p->conf->privileged && setgroups(0, NULL) < 0)
		return spawner_fail(f, errno, "idmap", "setgroups failed");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return spawner_fail(
		    f, errno, "idmap", "root in the VM is not mapped");
	/* Changing ids has cleared it. The server is our parent. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return spawner_fail(f, errno, "idmap", "prctl failed");
	return 0;
}

/* The descriptors were opened by the spawner: the kernel asks for the rights
 * of who opened them. The cgroup namespace comes after, so that the VM sees
 * its own group as the root. */
static int
join_cgroups(const struct spawner_plan *p, struct spawner_fault *f)
{
	int i;

	for (i = 0; i < CG__N; i++)
		if (p->cgroups->procs[i] >= 0 &&
		    write(p->cgroups->procs[i], "0", 1) != 1)
			return spawner_fail(f, errno, "cgroup",
			    "the VM cannot join its cgroup (controller %d)", i);
	if (unshare(CLONE_NEWCGROUP) < 0)
		return spawner_fail(
		    f, errno, "cgroup", "no cgroup namespace to be had");
	return 0;
}

/* ctl becomes 3, the program 4 (gone at exec), 0-2 /dev/null, nothing else
 * survives the exec: every descriptor of the spawner is CLOEXEC, and made so
 * once more. */
static int
place_fds(const struct spawner_plan *p, struct spawner_fault *f)
{
	int ctl, prog, nul, i;

	ctl = fcntl(p->ctl_fd, F_DUPFD_CLOEXEC, 10);
	prog = fcntl(p->conf->pid1_fd, F_DUPFD_CLOEXEC, 10);
	nul = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (ctl < 0 || prog < 0 || nul < 0)
		return spawner_fail(f, errno, "exec", "out of descriptors");
	for (i = 0; i < 3; i++)
		if (dup2(nul, i) < 0)
			return spawner_fail(f, errno, "exec", "dup2 failed");
	if (dup2(ctl, GUEST_CTL_FD) < 0 || dup3(prog, 4, O_CLOEXEC) < 0)
		return spawner_fail(f, errno, "exec", "dup2 failed");
	(void)syscall(SYS_close_range, 4u, ~0u, CLOSE_RANGE_CLOEXEC);
	return 0;
}

SLI_NORETURN void
child_run(struct spawner_plan *p)
{
	static const char *const argv[] = {"sluice-pid1", NULL};
	static const char *const envp[] = {NULL};
	struct spawner_word ok = {.rooted = 1};
	struct spawner_fault f = {0};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	wait_go(p);
	(void)umask(022);
	if (become_root(p, &f) < 0 || join_cgroups(p, &f) < 0 ||
	    rootfs_build(p, &f) < 0)
		die(p, &f);
	if (send(p->setup_fd, &ok, sizeof(ok), MSG_NOSIGNAL) < 0)
		_exit(1);
	wait_go(p);
	if (lockdown(p, &f) < 0 || place_fds(p, &f) < 0)
		die(p, &f);
	(void)syscall(SYS_execveat, 4, "", argv, envp, AT_EMPTY_PATH);
	(void)spawner_fail(&f, errno, "exec",
	    "sluice-pid1 cannot be executed from memory "
	    "(sysctl vm.memfd_noexec must be 0 or 1)");
	die(p, &f);
}
