/* SPDX-License-Identifier: Apache-2.0 */
/* One VM's worker: a process in the VM's user namespace and root, with the
 * rights of the guest's root, in none of its other namespaces (the guest can
 * neither see nor signal it). Takes one request at a time. A path that blocks
 * blocks this process only; the supervisor kills it. */
#include "base/fd.h"
#include "opener/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define AGAIN_MAX 64 /* a guest that renames all the time */

/* The kernel's own faces: never opened for anybody. */
static const long kernel_fs[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,
    DEVPTS_SUPER_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
    TRACEFS_MAGIC, SECURITYFS_MAGIC, BPF_FS_MAGIC, NSFS_MAGIC, BINFMTFS_MAGIC};

struct place {
	int root; /* of the VM, O_PATH */
	int self; /* our own /proc/self/fd: the VM's /proc is another's */
};

/* A step that failed, for the reply. */
static int
fail(struct opener_reply *r, int sys, const char *step)
{
	r->sys = sys ? sys : EIO;
	(void)snprintf(r->step, sizeof(r->step), "%s", step);
	return -1;
}

/* An O_PATH descriptor of what `path` names in the VM; kernel file systems are
 * refused. */
static int
resolve(
    const struct place *p, const char *path, int flags, struct opener_reply *r)
{
	struct open_how how = {.flags = (unsigned)(O_PATH | O_CLOEXEC | flags),
	    .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	struct statfs fs;
	int fd, tries = 0;
	size_t i;

	do {
		fd =
		    (int)syscall(SYS_openat2, p->root, path, &how, sizeof(how));
	} while (fd < 0 && errno == EAGAIN && ++tries < AGAIN_MAX);
	if (fd < 0)
		return fail(r, errno, "resolve");
	if (fstatfs(fd, &fs) < 0) {
		fail(r, errno, "statfs");
		goto bad;
	}
	for (i = 0; i < SLI_ARRAY_LEN(kernel_fs); i++)
		if ((long)fs.f_type == kernel_fs[i]) {
			fail(r, EPERM, "file-system");
			goto bad;
		}
	return fd;
bad:
	(void)close(fd);
	return -1;
}

static int
fill_stat(int fd, struct opener_reply *r)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fail(r, errno, "stat");
	r->st = (struct opener_stat){.ino = st.st_ino,
	    .size = (uint64_t)st.st_size,
	    .mtime_ns =
		(int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
	    .mode = st.st_mode,
	    .uid = st.st_uid,
	    .gid = st.st_gid,
	    .nlink = (uint32_t)st.st_nlink};
	return 0;
}

/* From O_PATH to readable, when it is a file or a directory. */
static int
reopen(const struct place *p, int fd, struct opener_reply *r)
{
	char name[16];
	int got;

	if (!S_ISREG(r->st.mode) && !S_ISDIR(r->st.mode))
		return fail(r, EPERM, "type");
	(void)snprintf(name, sizeof(name), "%d", fd);
	got =
	    openat(p->self, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return got < 0 ? fail(r, errno, "open") : got;
}

/* The path as seen from our root, which is the VM's. */
static int
real_path(const struct place *p, int fd, struct opener_reply *r, char *ret)
{
	char name[16];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "%d", fd);
	n = readlinkat(p->self, name, ret, OPENER_PATH_MAX - 1);
	if (n <= 0 || n >= (ssize_t)OPENER_PATH_MAX - 1)
		return fail(r, n < 0 ? errno : ENAMETOOLONG, "realpath");
	ret[n] = 0;
	return ret[0] == '/' ? 0 : fail(r, ENOENT, "realpath");
}

/* Fills the reply; returns the descriptor to send along, or -1. */
static int
perform(const struct place *p, const struct opener_req *rq, const char *path,
    union opener_packet *out)
{
	struct opener_reply *r = &out->reply;
	char *text = out->b + sizeof(*r);
	int fd, got = -1;

	memset(r, 0, sizeof(*r));
	r->h = (struct opener_msg){OPENER_REPLY, sizeof(*r), rq->h.req};
	fd = resolve(p, path, rq->h.op == OPENER_STAT ? O_NOFOLLOW : 0, r);
	if (fd < 0)
		return -1;
	if (fill_stat(fd, r) == 0) {
		if (rq->h.op == OPENER_OPEN)
			got = reopen(p, fd, r);
		else if (rq->h.op == OPENER_REALPATH &&
			 real_path(p, fd, r, text) == 0)
			r->h.len += (uint32_t)strlen(text) + 1;
	}
	(void)close(fd);
	return got;
}

/* Reading other users' files is all that is needed of root's rights. */
static int
keep_caps(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0}};

	d[0].permitted = d[0].effective =
	    1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
	return (int)syscall(SYS_capset, &h, d);
}

static int
enter(struct place *p, int root, int userns)
{
	p->root = root;
	p->self = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->self < 0 || setns(userns, CLONE_NEWUSER) < 0 ||
	    setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return -1;
	if (fchdir(root) < 0 || chroot(".") < 0 || keep_caps() < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -1;
	(void)close(userns);
	return 0;
}

SLI_NORETURN void
worker_run(int sock, int root, int userns)
{
	static union opener_packet in, out;
	struct place p;
	int fd, bad;

	bad = enter(&p, root, userns) < 0 ? errno : 0;
	while (sli_fd_recv(sock, in.b, sizeof(in.b), NULL, 0, NULL) > 0) {
		fd = -1;
		if (bad) {
			memset(&out.reply, 0, sizeof(out.reply));
			out.h = (struct opener_msg){
			    OPENER_REPLY, sizeof(out.reply), in.h.req};
			(void)fail(&out.reply, bad, "enter");
		} else {
			fd = perform(&p, &in.rq, in.b + sizeof(in.rq), &out);
		}
		if (sli_fd_send(sock, out.b, out.h.len, &fd, fd >= 0) < 0)
			break;
		sli_fd_close(&fd);
	}
	_exit(0);
}
