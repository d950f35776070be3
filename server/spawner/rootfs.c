/* SPDX-License-Identifier: Apache-2.0 */
/* The root file system of a VM, built by its first process inside its own user
 * and mount namespace, the same way for root and for an ordinary user:
 * one tmpfs (its size is the disk limit), the skeleton written into it, the
 * host's /usr and few other directories read-only, a small /dev, a fresh
 * /proc with masks. The host's tree is never a layer and is gone after
 * pivot_root. */
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the new root is mounted while it is built: a directory that is always
 * there and whose host contents have been cloned before. */
#define STAGE "/usr"

static const char *const devices[] = {
    "dev/null", "dev/zero", "dev/full", "dev/random", "dev/urandom", "dev/tty"};
#define NDEVICES SLI_ARRAY_LEN(devices)

struct trees {
	int bind[16];
	int device[NDEVICES];
	int mount[SPAWNER_PLAN_MOUNTS];
};

static int
fail(struct spawner_fault *f, const char *what, const char *which)
{
	return spawner_fail(f, errno, "root", "%s %s failed", what, which);
}

/* A detached copy of a mount, made at `path` or the mount `fd` itself. */
static int
clone_tree(const char *path, uint64_t attrs, unsigned flags)
{
	struct mount_attr a = {.attr_set = attrs};
	int t;

	t = (int)syscall(SYS_open_tree, AT_FDCWD, path,
	    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags);
	if (t < 0)
		return -1;
	if (attrs && syscall(SYS_mount_setattr, t, "", AT_EMPTY_PATH | flags,
			 &a, sizeof(a)) < 0) {
		int e = errno;

		(void)close(t);
		errno = e;
		return -1;
	}
	return t;
}

/* An ordinary user's mount is cloned here, by its path: it must still be what
 * the spawner has looked at. */
static int
clone_checked(const struct spawner_mount *m, uint64_t attrs)
{
	struct stat st;
	int t;

	t = clone_tree(m->source, attrs, AT_RECURSIVE);
	if (t < 0)
		return -1;
	if (fstat(t, &st) == 0 && st.st_dev == m->dev && st.st_ino == m->ino)
		return t;
	(void)close(t);
	errno = ESTALE;
	return -1;
}

static int
attach(int tree, const char *path)
{
	int r;

	r = (int)syscall(
	    SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
	(void)close(tree);
	return r;
}

/* Everything of the host that will be shown, before the stage covers it. */
static int
take_trees(
    const struct spawner_plan *p, struct trees *t, struct spawner_fault *f)
{
	const uint64_t ro =
	    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	char path[64];
	unsigned i;

	for (i = 0; i < p->skel->nbinds; i++) {
		sli_snprintf(path, sizeof(path), "/%s", p->skel->binds[i]);
		t->bind[i] = clone_tree(path, ro, AT_RECURSIVE);
		if (t->bind[i] < 0)
			return fail(f, "taking the host's", path);
	}
	for (i = 0; i < NDEVICES; i++) {
		sli_snprintf(path, sizeof(path), "/%s", devices[i]);
		t->device[i] =
		    clone_tree(path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0);
		if (t->device[i] < 0)
			return fail(f, "taking the host's", path);
	}
	for (i = 0; i < p->nmounts; i++) {
		t->mount[i] = p->mounts[i].tree;
		if (t->mount[i] < 0)
			t->mount[i] = clone_checked(&p->mounts[i], ro);
		if (t->mount[i] < 0)
			return spawner_fail(f, errno, "mount",
			    "%s cannot be mounted", p->mounts[i].source);
	}
	return 0;
}

static int
write_file(const char *path, const char *data, size_t len, mode_t mode)
{
	ssize_t n = 0;
	int fd;

	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
	if (fd < 0)
		return -1;
	if (len)
		n = write(fd, data, len);
	(void)close(fd);
	if (n >= 0 && (size_t)n != len) {
		errno = ENOSPC;
		return -1;
	}
	return n < 0 ? -1 : 0;
}

static int
write_entry(const struct skel_entry *e)
{
	int r;

	switch (e->kind) {
	case SKEL_DIR:
		r = mkdir(e->path, e->mode);
		break;
	case SKEL_FILE:
		r = write_file(e->path, e->data, e->len, e->mode);
		break;
	case SKEL_LINK:
	default:
		r = symlink(e->data, e->path);
		break;
	}
	/* With one uid in the VM everything belongs to root. */
	if (r == 0 && e->owner)
		(void)!chown(e->path, e->owner, e->owner);
	return r;
}

static int
populate(const struct spawner_plan *p, struct spawner_fault *f)
{
	char b[SPAWNER_NAME_MAX * 2 + 128];
	size_t n, i;

	(void)umask(0);
	for (i = 0; i < p->skel->n; i++)
		if (write_entry(&p->skel->v[i]) < 0)
			return fail(f, "writing", p->skel->v[i].path);
	n = sli_snprintf(b, sizeof(b), "%s\n", p->host);
	if (write_file("etc/hostname", b, n, 0644) < 0)
		return fail(f, "writing", "etc/hostname");
	n = sli_snprintf(b, sizeof(b),
	    "127.0.0.1 localhost\n127.0.1.1 %s\n"
	    "::1 localhost ip6-localhost ip6-loopback\n",
	    p->host);
	if (write_file("etc/hosts", b, n, 0644) < 0)
		return fail(f, "writing", "etc/hosts");
	for (i = 0; i < NDEVICES; i++)
		if (write_file(devices[i], "", 0, 0666) < 0)
			return fail(f, "writing", devices[i]);
	(void)umask(022);
	return 0;
}

static int
mount_root(const struct spawner_plan *p, struct spawner_fault *f)
{
	char opts[128];

	sli_snprintf(opts, sizeof(opts), "size=%llu,nr_inodes=%llu,mode=755",
	    (unsigned long long)p->disk_bytes,
	    (unsigned long long)p->disk_inodes);
	if (mount("root", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, opts) < 0)
		return fail(f, "mounting", "the root tmpfs");
	if (chdir(STAGE) < 0)
		return fail(f, "entering", "the root tmpfs");
	return 0;
}

static int
mount_inner(
    const struct spawner_plan *p, struct trees *t, struct spawner_fault *f)
{
	/* gid 5 is tty; it is not mapped when there is one id only. */
	const char *pts =
	    p->conf->privileged
		? "newinstance,ptmxmode=0666,mode=620,gid=5,max=64"
		: "newinstance,ptmxmode=0666,mode=620,max=64";
	unsigned i;

	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		NULL) < 0)
		return fail(f, "mounting", "/proc");
	if (mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, pts) <
	    0)
		return fail(f, "mounting", "/dev/pts");
	for (i = 0; i < NDEVICES; i++)
		if (attach(t->device[i], devices[i]) < 0)
			return fail(f, "mounting", devices[i]);
	for (i = 0; i < p->skel->nbinds; i++)
		if (attach(t->bind[i], p->skel->binds[i]) < 0)
			return fail(f, "mounting", p->skel->binds[i]);
	return 0;
}

static int
pivot(struct spawner_fault *f)
{
	/* Old and new root on one spot: what is on top is the old one. */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return fail(f, "pivot_root", "");
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return fail(f, "leaving", "the host's root");
	return 0;
}

/* What /proc shows of the host and does not belong to this VM. */
static int
mask_proc(struct spawner_fault *f)
{
	static const char *const ro[] = {"/proc/sys", "/proc/sysrq-trigger",
	    "/proc/irq", "/proc/bus", "/proc/fs"};
	static const char *const hidden[] = {"/proc/kcore", "/proc/keys",
	    "/proc/timer_list", "/proc/sched_debug", "/proc/kmsg",
	    "/proc/kallsyms", "/proc/latency_stats"};
	static const char *const empty[] = {"/proc/acpi", "/proc/scsi"};
	size_t i;

	for (i = 0; i < SLI_ARRAY_LEN(ro); i++) {
		if (mount(ro[i], ro[i], NULL, MS_BIND | MS_REC, NULL) < 0) {
			if (errno == ENOENT)
				continue;
			return fail(f, "masking", ro[i]);
		}
		if (mount(NULL, ro[i], NULL,
			MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID |
			    MS_NODEV | MS_NOEXEC,
			NULL) < 0)
			return fail(f, "masking", ro[i]);
	}
	for (i = 0; i < SLI_ARRAY_LEN(hidden); i++)
		if (mount("/dev/null", hidden[i], NULL, MS_BIND, NULL) < 0 &&
		    errno != ENOENT)
			return fail(f, "masking", hidden[i]);
	for (i = 0; i < SLI_ARRAY_LEN(empty); i++)
		if (mount("none", empty[i], "tmpfs",
			MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
			"size=4k,nr_inodes=2") < 0 &&
		    errno != ENOENT)
			return fail(f, "masking", empty[i]);
	return 0;
}

/* mkdir -p, then the last component as what the source is. Runs after the
 * pivot: there is nothing but the VM's own tree for the path to lead to. */
static int
make_target(const char *target, int is_dir)
{
	char path[SPAWNER_STR_MAX], *s;
	int fd;

	sli_strlcpy(path, target, sizeof(path));
	for (s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -1;
		*s = '/';
	}
	if (is_dir)
		return mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0;
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -1;
	(void)close(fd);
	return 0;
}

static int
mount_shares(
    const struct spawner_plan *p, struct trees *t, struct spawner_fault *f)
{
	unsigned i;

	for (i = 0; i < p->nmounts; i++) {
		const struct spawner_mount *m = &p->mounts[i];

		if (make_target(m->target, m->is_dir) < 0)
			return spawner_fail(f, errno, "mount",
			    "the target %s cannot be made in the VM",
			    m->target);
		if (attach(t->mount[i], m->target) < 0)
			return spawner_fail(f, errno, "mount",
			    "%s cannot be mounted at %s", m->source, m->target);
	}
	return 0;
}

int
rootfs_build(const struct spawner_plan *p, struct spawner_fault *f)
{
	struct trees t;

	memset(&t, 0xff, sizeof(t)); /* -1 */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return fail(f, "making private", "the mount namespace");
	if (take_trees(p, &t, f) < 0 || mount_root(p, f) < 0 ||
	    populate(p, f) < 0 || mount_inner(p, &t, f) < 0 || pivot(f) < 0 ||
	    mask_proc(f) < 0 || mount_shares(p, &t, f) < 0)
		return -1;
	return 0;
}

int
rootfs_probe(struct spawner_fault *f)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("root", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0)
		return fail(f, "mounting", "a tmpfs");
	if (chdir(STAGE) < 0 || mkdir("proc", 0555) < 0)
		return fail(f, "writing", "a tmpfs");
	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		NULL) < 0)
		return spawner_fail(f, errno, "proc",
		    "/proc cannot be mounted: parts of the host's own /proc "
		    "are covered, as in a container");
	return 0;
}
