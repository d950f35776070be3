/* SPDX-License-Identifier: Apache-2.0 */
/* The system-call filter of every process in every VM: compiled once at start
 * by libseccomp, loaded raw by each child. A deny-list: what is refused here
 * is either out of reach of a guest's capabilities anyway (second line) or is
 * not namespaced. Limits nothing that ordinary programs need. */
#include "base/mem.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLONE_NEWTIME_FLAG 0x80u
#define NR_OPEN_TREE_ATTR  467

static const char *const eperm[] = {
    /* mounts and namespaces */
    "mount",
    "umount",
    "umount2",
    "pivot_root",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "setns",
    /* keys are not namespaced */
    "keyctl",
    "add_key",
    "request_key",
    /* large kernel surfaces */
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "memfd_secret",
    "fanotify_init",
    "modify_ldt",
    "lookup_dcookie",
    /* kernel, clock, devices, disks */
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "query_module",
    "get_kernel_syms",
    "open_by_handle_at",
    "quotactl",
    "quotactl_fd",
    "swapon",
    "swapoff",
    "acct",
    "reboot",
    "syslog",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "stime",
    "iopl",
    "ioperm",
    "vhangup",
    "nfsservctl",
    "uselib",
    "ustat",
    "sysfs",
    "_sysctl",
    /* other processes' memory placement */
    "move_pages",
    "migrate_pages",
    "mbind",
    "set_mempolicy",
    "set_mempolicy_home_node",
};

/* Callers fall back on older calls when these do not exist. */
static const char *const enosys[] = {
    "clone3",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
};

static int
deny(scmp_filter_ctx c, int err, const char *const *names, size_t n)
{
	size_t i;
	int nr;

	for (i = 0; i < n; i++) {
		nr = seccomp_syscall_resolve_name(names[i]);
		/* Unknown to this library or not on this machine. */
		if (nr == __NR_SCMP_ERROR)
			continue;
		if (seccomp_rule_add(c, SCMP_ACT_ERRNO((unsigned)err), nr, 0) <
		    0)
			return -1;
	}
	return 0;
}

static int
deny_arg(scmp_filter_ctx c, int err, int nr, struct scmp_arg_cmp a)
{
	return seccomp_rule_add_array(
	    c, SCMP_ACT_ERRNO((unsigned)err), nr, 1, &a);
}

static int
deny_namespaces(scmp_filter_ctx c)
{
	static const unsigned flags[] = {CLONE_NEWUSER, CLONE_NEWNS,
	    CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS,
	    CLONE_NEWCGROUP};
	size_t i;

	for (i = 0; i < SLI_ARRAY_LEN(flags); i++)
		if (deny_arg(c, EPERM, SCMP_SYS(clone),
			SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i])) < 0 ||
		    deny_arg(c, EPERM, SCMP_SYS(unshare),
			SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i])) < 0)
			return -1;
	return deny_arg(c, EPERM, SCMP_SYS(unshare),
	    SCMP_A0(
		SCMP_CMP_MASKED_EQ, CLONE_NEWTIME_FLAG, CLONE_NEWTIME_FLAG));
}

/* Left: unix, IPv4, IPv6, and netlink for routes. AF_VSOCK reaches the
 * hypervisor, others are not namespaced or are rarely tried code. */
static int
deny_sockets(scmp_filter_ctx c)
{
	struct scmp_arg_cmp nl[2] = {
	    SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, 0)};
	unsigned d;

	for (d = 0; d < AF_NETLINK; d++)
		if (d != AF_UNIX && d != AF_INET && d != AF_INET6 &&
		    deny_arg(c, EAFNOSUPPORT, SCMP_SYS(socket),
			SCMP_A0(SCMP_CMP_EQ, d)) < 0)
			return -1;
	if (deny_arg(c, EAFNOSUPPORT, SCMP_SYS(socket),
		SCMP_A0(SCMP_CMP_GT, AF_NETLINK)) < 0 ||
	    deny_arg(c, EAFNOSUPPORT, SCMP_SYS(socketpair),
		SCMP_A0(SCMP_CMP_NE, AF_UNIX)) < 0)
		return -1;
	return seccomp_rule_add_array(
	    c, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2, nl);
}

/* Both push input into a terminal that the guest may share with a host. */
static int
deny_ioctls(scmp_filter_ctx c)
{
	static const unsigned cmds[] = {TIOCSTI, TIOCLINUX};
	size_t i;

	for (i = 0; i < SLI_ARRAY_LEN(cmds); i++)
		if (deny_arg(c, EPERM, SCMP_SYS(ioctl),
			SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, cmds[i])) < 0)
			return -1;
	return 0;
}

static int export(scmp_filter_ctx c, struct sock_fprog *ret)
{
	struct sock_filter *code = NULL;
	off_t n;
	int fd, r = -1;

	fd = memfd_create("sluice-filter", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if (seccomp_export_bpf(c, fd) < 0)
		goto out;
	n = lseek(fd, 0, SEEK_END);
	if (n <= 0 || n > (off_t)(BPF_MAXINSNS * sizeof(*code)))
		goto out;
	code = sli_alloc((size_t)n);
	if (!code || pread(fd, code, (size_t)n, 0) != n)
		goto out;
	ret->len = (unsigned short)((size_t)n / sizeof(*code));
	ret->filter = code;
	code = NULL;
	r = 0;
out:
	sli_free(code);
	(void)close(fd);
	return r;
}

int
filter_build(struct sock_fprog *ret, struct spawner_fault *f)
{
	scmp_filter_ctx c;
	int r = -1;

	c = seccomp_init(SCMP_ACT_ALLOW);
	if (!c)
		return spawner_fail(
		    f, ENOMEM, "filter", "no memory for the call filter");
	/* A binary tree: the cost of a call does not grow with the list. */
	(void)seccomp_attr_set(c, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (seccomp_attr_set(
		c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) < 0 ||
	    deny(c, EPERM, eperm, SLI_ARRAY_LEN(eperm)) < 0 ||
	    deny(c, ENOSYS, enosys, SLI_ARRAY_LEN(enosys)) < 0 ||
	    deny_namespaces(c) < 0 || deny_sockets(c) < 0 || deny_ioctls(c) < 0)
		goto out;
	(void)seccomp_rule_add(c, SCMP_ACT_ERRNO(ENOSYS), NR_OPEN_TREE_ATTR, 0);
	r = export(c, ret);
out:
	seccomp_release(c);
	return r == 0 ? 0
		      : spawner_fail(f, EINVAL, "filter",
			    "the system-call filter cannot be made: this "
			    "build of libseccomp refuses a rule");
}
