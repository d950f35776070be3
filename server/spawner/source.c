/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths of the host a VM may be shown, decided here and not by the
 * server: against the operator's list, given at start. A path is opened once,
 * with the rights of who asks, and all checks are made on what was opened. */
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* File systems that are the kernel's own face. */
static const long kernel_fs[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,
    DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC,
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC, EFIVARFS_MAGIC,
    SELINUX_MAGIC, SMACK_MAGIC, PSTOREFS_MAGIC, NSFS_MAGIC, BINFMTFS_MAGIC,
    HUGETLBFS_MAGIC, AUTOFS_SUPER_MAGIC};

/* Where a mount would take away what the VM's own set-up guarantees. */
static const char *const closed_targets[] = {
    "/proc", "/dev", "/sys", "/usr", "/opt/sluice"};

static int
refuse(struct spawner_fault *f, int sys, const char *path, const char *why)
{
	char q[128];

	return spawner_fail(f, sys, "mount", "%s %s",
	    sli_quote(q, sizeof(q), sli_slice_str(path)), why);
}

/* Is `path` at `dir` or below it? */
static int
within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1 && dir[0] == '/')
		return 1;
	return strncmp(path, dir, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static int
target_ok(const char *t)
{
	const char *p = t;
	size_t n, i;

	if (*p != '/' || p[1] == 0)
		return 0;
	while (*p) {
		p++;
		n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return 0;
		p += n;
	}
	for (i = 0; i < SLI_ARRAY_LEN(closed_targets); i++)
		if (within(t, closed_targets[i]))
			return 0;
	return 1;
}

/* Put all effective capabilities down, or up to what is permitted. */
static int
effective(int up)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	int i;

	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	for (i = 0; i < 2; i++)
		d[i].effective = up ? d[i].permitted : 0;
	return (int)syscall(SYS_capset, &h, d);
}

/* Open what the peer could open and read itself. */
static int
open_as(const struct spawner_conf *c, const struct spawner_create *rq,
    const char *path)
{
	struct open_how how = {
	    .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
	int lower = c->privileged && rq->peer_uid != 0;
	int fd, e;

	if (lower) {
		(void)setfsgid(rq->peer_gid);
		(void)setfsuid(rq->peer_uid);
		if (effective(0) < 0)
			_exit(3);
	}
	fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd >= 0 && syscall(SYS_faccessat2, fd, "", R_OK,
			   AT_EMPTY_PATH | AT_EACCESS) < 0) {
		e = errno;
		(void)close(fd);
		errno = e;
		fd = -1;
	}
	e = errno;
	if (lower) {
		/* Rights must come back, or nothing else may be done. */
		if (effective(1) < 0)
			_exit(3);
		(void)setfsuid(0);
		(void)setfsgid(0);
	}
	errno = e;
	return fd;
}

static int
allowed(const struct spawner_conf *c, const char *path)
{
	unsigned i;

	if (c->allow_any)
		return 1;
	for (i = 0; i < c->nallow; i++)
		if (within(path, c->allow[i]))
			return 1;
	return 0;
}

static int
check_opened(const struct spawner_conf *c, int fd, const char *source,
    char *ret_path, size_t cap, struct spawner_fault *f)
{
	char link[64];
	struct statfs fs;
	struct stat st;
	ssize_t n;
	size_t i;

	sli_snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret_path, cap - 1);
	if (n <= 0 || (size_t)n >= cap - 1 || ret_path[0] != '/')
		return refuse(f, ENAMETOOLONG, source, "has no plain path");
	ret_path[n] = 0;
	if (!allowed(c, ret_path))
		return refuse(f, EACCES, source,
		    "is not below any `mount_allow` path of this server; the "
		    "operator can add one to its configuration");
	if (within(ret_path, c->state_dir) || within(c->state_dir, ret_path))
		return refuse(f, EACCES, source,
		    "holds, or is in, the server's state directory");
	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return refuse(f, errno, source, "cannot be looked at");
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return refuse(f, ENOTDIR, source,
		    "is neither a directory nor a regular file");
	for (i = 0; i < SLI_ARRAY_LEN(kernel_fs); i++)
		if ((long)fs.f_type == kernel_fs[i])
			return refuse(f, EACCES, source,
			    "is on a file system of the kernel's own");
	return 0;
}

/* As root here; an ordinary user has the right inside the VM's namespaces
 * only, so there the child does it. */
static int
detach(const struct spawner_conf *c, int fd)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_RDONLY |
					   MOUNT_ATTR_NOSUID |
					   MOUNT_ATTR_NODEV};
	int t;

	if (!c->privileged)
		return -1;
	t = (int)syscall(SYS_open_tree, fd, "",
	    AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (t >= 0 && syscall(SYS_mount_setattr, t, "", AT_EMPTY_PATH, &a,
			  sizeof(a)) < 0) {
		int e = errno;

		(void)close(t);
		errno = e;
		return -1;
	}
	return t;
}

static int
keep(struct spawner_mount *m, int fd, int tree, const char *source,
    const char *target, struct spawner_fault *f)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return refuse(f, errno, source, "cannot be looked at");
	*m = (struct spawner_mount){.tree = tree,
	    .is_dir = S_ISDIR(st.st_mode),
	    .dev = st.st_dev,
	    .ino = st.st_ino};
	m->source = sli_strdup(source);
	m->target = sli_strdup(target);
	if (m->source && m->target)
		return 0;
	source_drop(m);
	return spawner_fail(f, ENOMEM, "mount", "out of memory");
}

int
source_take(const struct spawner_conf *c, const struct spawner_create *rq,
    const char *source, const char *target, struct spawner_mount *ret,
    struct spawner_fault *f)
{
	char path[SPAWNER_STR_MAX];
	int fd, tree, r = -1;

	if (source[0] != '/')
		return refuse(f, EINVAL, source, "is not an absolute path");
	if (!target_ok(target))
		return refuse(f, EINVAL, target,
		    "cannot be a mount target: an absolute path without . or "
		    "..., outside /proc, /dev, /sys, /usr and /opt/sluice");
	fd = open_as(c, rq, source);
	if (fd < 0)
		return refuse(f, errno, source,
		    "cannot be opened by the user who asks for it");
	if (check_opened(c, fd, source, path, sizeof(path), f) < 0)
		goto out;
	tree = detach(c, fd);
	if (c->privileged && tree < 0) {
		refuse(f, errno, source, "cannot be mounted");
		goto out;
	}
	r = keep(ret, fd, tree, path, target, f);
out:
	(void)close(fd);
	return r;
}

int
source_guest(const struct spawner_conf *c, struct spawner_mount *ret,
    struct spawner_fault *f)
{
	char path[SPAWNER_STR_MAX];
	int tree;

	sli_snprintf(path, sizeof(path), "%s/guest", c->libexec);
	tree = detach(c, c->guest_fd);
	if (c->privileged && tree < 0)
		return refuse(f, errno, path, "cannot be mounted");
	return keep(ret, c->guest_fd, tree, path, GUEST_BIN_DIR, f);
}

void
source_drop(struct spawner_mount *m)
{
	sli_fd_close(&m->tree);
	sli_free(m->source);
	sli_free(m->target);
	*m = (struct spawner_mount){.tree = -1};
}
