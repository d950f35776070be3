/* SPDX-License-Identifier: Apache-2.0 */
/* The clone of a VM's first process, its id maps, and opening its root and
 * namespaces. The user namespace must belong to the server's uid, or the
 * server may not kill pid 1 and the parent-death signal does not fire: hence
 * the change of ids around the clone. Started by an ordinary user there is
 * nothing to change and one uid to map; the path is the same.
 *
 * A pid is only trusted while its pidfd still signals: the server, its parent,
 * may have reaped it, and the number may be somebody else's. */
#include "base/fd.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMESPACES                                                   \
	(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | \
	    CLONE_NEWIPC | CLONE_NEWUTS)
#define PROBE_TIMEOUT_S 2

static int
become(const struct spawner_conf *c, uid_t uid, gid_t gid)
{
	if (!c->privileged)
		return 0;
	/* Capabilities stay: SECBIT_NO_SETUID_FIXUP is set. */
	if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -1;
	return 0;
}

/* As fork(): 0 in the child. Exits when root cannot be taken back: nothing
 * may go on under the wrong ids. */
static pid_t
raw_clone(const struct spawner_conf *c, uint64_t flags,
    int *ret_pidfd) /* NOLINT(readability-non-const-parameter): kernel's */
{
	struct clone_args a = {
	    .flags = NAMESPACES | CLONE_PIDFD | flags,
	    .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
	    .exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD,
	};
	long pid;
	int e;

	if (become(c, c->server_uid, c->server_gid) < 0)
		return -1;
	pid = syscall(SYS_clone3, &a, sizeof(a));
	e = errno;
	if (pid != 0 && become(c, 0, 0) < 0)
		_exit(3);
	errno = e;
	return (pid_t)pid;
}

static int
alive(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0;
}

static int
write_proc(pid_t pid, int pidfd, const char *name, const char *text)
{
	char path[64];
	int fd, r = -1, e;

	sli_snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!alive(pidfd))
		errno = ESRCH;
	else if (write(fd, text, strlen(text)) == (ssize_t)strlen(text))
		r = 0;
	e = errno;
	(void)close(fd);
	errno = e;
	return r;
}

/* Where user namespaces are refused the kernel says so at one of several
 * steps; what helps is the same. */
void
clone_explain(struct spawner_fault *f)
{
	char remedy[160];

	if ((f->sys == EPERM || f->sys == EACCES || f->sys == ENOSPC) &&
	    spawner_userns_remedy(remedy, sizeof(remedy)))
		sli_snprintf(f->text, sizeof(f->text),
		    "user namespaces are refused here; allow them with: %s",
		    remedy);
}

static int
write_maps(const struct spawner_conf *c, pid_t pid, int pidfd, uid_t base,
    struct spawner_fault *f)
{
	char uids[64], gids[64];
	const char *bad = NULL;

	if (c->privileged) {
		sli_snprintf(uids, sizeof(uids), "0 %u 65536", base);
		sli_snprintf(gids, sizeof(gids), "0 %u 65536", base);
	} else {
		sli_snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)getuid());
		sli_snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getgid());
		if (write_proc(pid, pidfd, "setgroups", "deny") < 0)
			bad = "setgroups";
	}
	if (!bad && write_proc(pid, pidfd, "uid_map", uids) < 0)
		bad = "uid_map";
	if (!bad && write_proc(pid, pidfd, "gid_map", gids) < 0)
		bad = "gid_map";
	if (bad)
		return spawner_fail(
		    f, errno, "idmap", "the kernel refuses the VM's %s", bad);
	return 0;
}

static int
clone_failed(const struct spawner_conf *c, int err, struct spawner_fault *f)
{
	(void)spawner_fail(f, err, "clone", "%s",
	    c->privileged ? "the kernel refuses new namespaces"
			  : "the kernel refuses new namespaces to this user");
	clone_explain(f);
	return -1;
}

int
clone_vm(
    struct spawner_vm *vm, struct spawner_plan *plan, struct spawner_fault *f)
{
	const struct spawner_conf *c = plan->conf;
	int setup[2] = {-1, -1}, ctl[2] = {-1, -1}, pidfd = -1, r = -1;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, setup) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0) {
		spawner_fail(f, errno, "clone", "out of descriptors");
		goto out;
	}
	plan->setup_fd = setup[1];
	plan->ctl_fd = ctl[1];
	pid = raw_clone(c, CLONE_PARENT, &pidfd);
	if (pid == 0) {
		/* Held here it would hide the spawner's end from us. */
		(void)close(setup[0]);
		child_run(plan);
	}
	if (pid < 0) {
		clone_failed(c, errno, f);
		goto out;
	}
	vm->pid = pid;
	vm->pidfd.fd = pidfd;
	vm->setup.fd = setup[0];
	vm->ctl = ctl[0];
	setup[0] = ctl[0] = -1;
	if (write_maps(c, pid, pidfd, vm->uid_base, f) < 0)
		goto out;
	if (send(vm->setup.fd, "g", 1, MSG_NOSIGNAL) != 1) {
		spawner_fail(f, errno, "clone", "the new process died");
		goto out;
	}
	r = 0;
out:
	sli_fd_close(&setup[0]);
	sli_fd_close(&setup[1]);
	sli_fd_close(&ctl[0]);
	sli_fd_close(&ctl[1]);
	return r;
}

int
clone_open(struct spawner_vm *vm, int ret_fds[2], struct spawner_fault *f)
{
	static const char *const names[3] = {"root", "ns/user", "ns/net"};
	int fds[3] = {-1, -1, -1}, i;
	char path[64];

	for (i = 0; i < 3; i++) {
		sli_snprintf(
		    path, sizeof(path), "/proc/%d/%s", (int)vm->pid, names[i]);
		fds[i] = open(path,
		    O_CLOEXEC | (i == 0 ? O_PATH | O_DIRECTORY : O_RDONLY));
		if (fds[i] < 0) {
			spawner_fail(f, errno, "rooted",
			    "the new VM's %s cannot be opened", names[i]);
			goto bad;
		}
	}
	/* Still ours, so these were its own and no other's. */
	if (!alive(vm->pidfd.fd)) {
		spawner_fail(f, ESRCH, "rooted", "the new VM died");
		goto bad;
	}
	ret_fds[0] = fds[0];
	ret_fds[1] = fds[1];
	vm->netns = fds[2];
	return 0;
bad:
	for (i = 0; i < 3; i++)
		sli_fd_close(&fds[i]);
	return -1;
}

static SLI_NORETURN void
probe_child(int fd)
{
	struct spawner_word w = {.rooted = 1};
	char c;

	if (recv(fd, &c, 1, 0) != 1)
		_exit(1);
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) {
		spawner_fail(&w.fault, errno, "idmap", "root is not mapped");
		w.rooted = 0;
	} else if (rootfs_probe(&w.fault) < 0) {
		w.rooted = 0;
	}
	(void)send(fd, &w, sizeof(w), MSG_NOSIGNAL);
	_exit(0);
}

int
clone_probe(const struct spawner_conf *c, struct spawner_fault *f)
{
	struct timeval tv = {.tv_sec = PROBE_TIMEOUT_S};
	struct spawner_word w = {0};
	int sp[2], pidfd = -1, r = -1;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sp) < 0)
		return spawner_fail(f, errno, "clone", "out of descriptors");
	(void)setsockopt(sp[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	pid = raw_clone(c, 0, &pidfd);
	if (pid == 0) {
		(void)close(sp[0]);
		probe_child(sp[1]);
	}
	(void)close(sp[1]);
	if (pid < 0) {
		clone_failed(c, errno, f);
		(void)close(sp[0]);
		return -1;
	}
	if (write_maps(c, pid, pidfd, spawner_uid_base(SPAWNER_VMS_MAX), f) < 0)
		goto out;
	if (send(sp[0], "g", 1, MSG_NOSIGNAL) != 1 ||
	    recv(sp[0], &w, sizeof(w), 0) != (ssize_t)sizeof(w)) {
		spawner_fail(f, errno, "probe", "the probe did not answer");
		goto out;
	}
	if (w.rooted)
		r = 0;
	else
		*f = w.fault;
out:
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	(void)waitpid(pid, NULL, 0);
	(void)close(pidfd);
	(void)close(sp[0]);
	return r;
}
