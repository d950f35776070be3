/* SPDX-License-Identifier: Apache-2.0 */
/* How the server gives up what it was started with, and a check that it is
 * gone. The filter closes what an unprivileged process could still do with the
 * user namespaces of its VMs, which belong to its uid: enter them, trace what
 * runs in them, mount. A server starts no program either. */
#include "main/helpers_room.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the call filter knows x86_64 and aarch64 only"
#endif

#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif

/* Sanitizers trace us and start programs when they report: such a build has
 * neither the filter nor the dumpable flag off. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RET(what)   BPF_STMT(BPF_RET | BPF_K, (what))
#define REFUSE(err) RET(SECCOMP_RET_ERRNO | (err))
/* Skip the next instruction unless the accumulator is k. */
#define UNLESS_EQ(k) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), 0, 1)
#define DENY(nr)     UNLESS_EQ(nr), REFUSE(EPERM)

#define NEW_NAMESPACES                                               \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | \
	    CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

static const struct sock_filter code[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
    REFUSE(ENOSYS),
    LOAD(nr),
#if defined(__x86_64__)
    /* the x32 numbers */
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
    REFUSE(ENOSYS),
#endif
    DENY(SYS_execve),
    DENY(SYS_execveat),
    DENY(SYS_ptrace),
    DENY(SYS_process_vm_readv),
    DENY(SYS_process_vm_writev),
    DENY(SYS_pidfd_getfd),
    DENY(SYS_kcmp),
    DENY(SYS_setns),
    DENY(SYS_unshare),
    DENY(SYS_mount),
    DENY(SYS_umount2),
    DENY(SYS_pivot_root),
    DENY(SYS_chroot),
    DENY(SYS_open_tree),
    DENY(SYS_open_tree_attr),
    DENY(SYS_move_mount),
    DENY(SYS_fsopen),
    DENY(SYS_fspick),
    DENY(SYS_fsmount),
    DENY(SYS_mount_setattr),
    DENY(SYS_open_by_handle_at),
    DENY(SYS_bpf),
    DENY(SYS_perf_event_open),
    DENY(SYS_userfaultfd),
    DENY(SYS_keyctl),
    DENY(SYS_add_key),
    DENY(SYS_request_key),
    DENY(SYS_io_uring_setup),
    /* Its flags are in memory, out of sight; callers fall back on clone. */
    UNLESS_EQ(SYS_clone3),
    REFUSE(ENOSYS),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
    RET(SECCOMP_RET_ALLOW),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1),
    REFUSE(EPERM),
    RET(SECCOMP_RET_ALLOW),
};

int
helpers_filter(void)
{
	struct sock_fprog p = {
	    .len = sizeof(code) / sizeof(code[0]),
	    .filter = (struct sock_filter *)(uintptr_t)code,
	};

	if (SANITIZED)
		return 0;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p);
}

static int
drop_bounding(void)
{
	unsigned long c;

	for (c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			return -1;
	return 0;
}

static int
become(const struct helpers *h)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0}};

	if (drop_bounding() < 0 || setgroups(0, NULL) < 0 ||
	    setresgid(h->gid, h->gid, h->gid) < 0 ||
	    setresuid(h->uid, h->uid, h->uid) < 0)
		return -1;
	return (int)syscall(SYS_capset, &head, none);
}

/* Believe nothing: ask the kernel. */
static int
is_dropped(const struct helpers *h)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	uid_t r, e, s;

	if (getresuid(&r, &e, &s) < 0 || r != h->uid || e != h->uid ||
	    s != h->uid || syscall(SYS_capget, &head, d) < 0)
		return 0;
	if (d[0].permitted | d[1].permitted | d[0].effective | d[1].effective |
	    d[0].inheritable | d[1].inheritable)
		return 0;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
	       prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == SANITIZED && setuid(0) < 0;
}

enum sli_err
helpers_drop_privileges(const struct helpers *h, struct sli_errinfo *ei)
{
	struct rlimit none = {0, 0};

	if (h->uid == 0)
		return sli_fail(ei, SLI_E_INTERNAL, 0, "helpers.drop",
		    "the server would stay root");
	if (h->privileged && become(h) < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "helpers.drop",
		    "cannot become uid %u", (unsigned)h->uid);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, SANITIZED, 0, 0, 0) < 0 ||
	    setrlimit(RLIMIT_CORE, &none) < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "helpers.drop",
		    "prctl or setrlimit failed");
	if (!is_dropped(h))
		return sli_fail(ei, SLI_E_INTERNAL, 0, "helpers.drop",
		    "rights were not given up");
	if (helpers_filter() < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "helpers.drop",
		    "the kernel refuses the system-call filter");
	return SLI_OK;
}
