/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in a VM as its root (static): one attempt to get out, or to reach what
 * is not the VM's, per line: "NN refused NAME (errno)" or "NN ALLOWED NAME".
 * Every one of them must be refused. The host side of some of them (a
 * listening socket) is made by the test, which passes its names:
 *
 *   guest_esc ABSTRACT-SOCKET TCP-PORT RO-DIR
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *abstract_name, *ro_dir;
static int tcp_port;

struct attempt {
	const char *name;
	long (*fn)(void);
};

/* Every attempt adds itself to a table of the linker's. */
#define ENTRY(f)                                \
	static const struct attempt attempt_##f \
	    __attribute__((used, section("attempts"))) = {#f, f};
#define TRY(name, expr)              \
	static long name(void)       \
	{                            \
		return (long)(expr); \
	}                            \
	ENTRY(name)

extern const struct attempt __start_attempts[], __stop_attempts[];

static long
write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), e;
	long r;

	if (fd < 0)
		return -1;
	r = write(fd, text, strlen(text));
	e = errno;
	(void)close(fd);
	errno = e;
	return r;
}

/* An empty file says as much as a refused one. */
static long
read_from(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), e;
	char b[64];
	long r;

	if (fd < 0)
		return -1;
	r = read(fd, b, sizeof(b));
	e = r == 0 ? ENODATA : errno;
	(void)close(fd);
	errno = e;
	return r > 0 ? r : -1;
}

/* --- mounts and roots -----------------------------------------------------*/

TRY(mount_tmpfs, mount("t", "/tmp/m", "tmpfs", 0, NULL))
TRY(mount_proc, mount("proc", "/tmp/m", "proc", 0, NULL))
TRY(mount_sysfs, mount("sysfs", "/tmp/m", "sysfs", 0, NULL))
TRY(mount_cgroup1, mount("c", "/tmp/m", "cgroup", 0, "memory"))
TRY(mount_cgroup2, mount("c", "/tmp/m", "cgroup2", 0, NULL))
TRY(mount_overlay,
    mount("o", "/tmp/m", "overlay", 0, "lowerdir=/usr,upperdir=/tmp"))
TRY(bind_proc1_root, mount("/proc/1/root", "/tmp/m", NULL, MS_BIND, NULL))
TRY(remount_ro_dir_rw, mount(NULL, ro_dir, NULL, MS_REMOUNT | MS_BIND, NULL))
TRY(remount_usr_rw, mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL))
TRY(umount_proc_sys, umount2("/proc/sys", MNT_DETACH))
TRY(umount_mask, umount2("/proc/kallsyms", MNT_DETACH))
TRY(call_fsopen, syscall(SYS_fsopen, "tmpfs", 0))
TRY(call_open_tree, syscall(SYS_open_tree, AT_FDCWD, "/", 1))
TRY(call_open_tree_attr, syscall(467, AT_FDCWD, "/", 1, NULL, 0))
TRY(call_move_mount,
    syscall(SYS_move_mount, AT_FDCWD, "/usr", AT_FDCWD, "/tmp/m", 0))
TRY(call_mount_setattr,
    syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, NULL, 0))
TRY(call_pivot_root, syscall(SYS_pivot_root, "/tmp/m", "/tmp/m"))
TRY(write_usr, open("/usr/pwn", O_CREAT | O_WRONLY | O_CLOEXEC, 0644))
TRY(write_guest_bin,
    open("/opt/sluice/bin/pwn", O_CREAT | O_WRONLY | O_CLOEXEC, 0644))

static long
write_ro_dir(void)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/pwn", ro_dir);
	return open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
}
ENTRY(write_ro_dir)

static long
chmod_ro_dir(void)
{
	return chmod(ro_dir, 0777);
}
ENTRY(chmod_ro_dir)

/* The classic: chroot below, then climb above the old root. */
static long
chroot_climb(void)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), i;
	struct stat a, b;

	if (fstat(fd, &a) < 0 || chroot("/tmp/m") < 0)
		return -1;
	for (i = 0; i < 64; i++)
		(void)!chdir("..");
	(void)!chroot(".");
	(void)stat("/", &b);
	(void)!fchdir(fd);
	(void)!chroot(".");
	(void)close(fd);
	errno = EXDEV;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino ? -1 : 0;
}
ENTRY(chroot_climb)

/* --- namespaces -----------------------------------------------------------*/

TRY(unshare_user, unshare(CLONE_NEWUSER))
TRY(unshare_mount, unshare(CLONE_NEWNS))
TRY(unshare_net, unshare(CLONE_NEWNET))
TRY(unshare_pid, unshare(CLONE_NEWPID))
TRY(unshare_time, unshare(0x80))

static long
clone_user(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return pid;
}
ENTRY(clone_user)

static long
clone3_user(void)
{
	struct clone_args a = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, &a, sizeof(a));

	if (pid == 0)
		_exit(0);
	return pid;
}
ENTRY(clone3_user)

static long
setns_of_pid1(void)
{
	int fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : setns(fd, 0);
}
ENTRY(setns_of_pid1)

static long
setns_own(void)
{
	int fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : setns(fd, CLONE_NEWUSER);
}
ENTRY(setns_own)

TRY(rewrite_uid_map, write_to("/proc/self/uid_map", "0 0 1"))
TRY(become_unmapped, syscall(SYS_setresuid, 70000, 70000, 70000))

/* --- the kernel and the host ----------------------------------------------*/

TRY(core_pattern, write_to("/proc/sys/kernel/core_pattern", "|/tmp/x"))
TRY(drop_caches, write_to("/proc/sys/vm/drop_caches", "1"))
TRY(modprobe_path, write_to("/proc/sys/kernel/modprobe", "/tmp/x"))
TRY(sysrq, write_to("/proc/sysrq-trigger", "h"))
TRY(read_kcore, read_from("/proc/kcore"))
TRY(read_kmsg, read_from("/proc/kmsg"))
TRY(read_kallsyms, read_from("/proc/kallsyms"))
TRY(read_keys, read_from("/proc/keys"))
TRY(read_timer_list, read_from("/proc/timer_list"))
TRY(access_sys_fs, access("/sys/fs/cgroup", F_OK))
TRY(access_firmware, access("/sys/firmware", F_OK))
TRY(call_syslog, klogctl(3, (char[64]){0}, 64))
TRY(call_keyctl, syscall(SYS_keyctl, 0, -3, 1))
TRY(call_add_key, syscall(SYS_add_key, "user", "a", "b", 1, -3))
TRY(call_request_key, syscall(SYS_request_key, "user", "a", NULL, -3))
TRY(call_bpf, syscall(SYS_bpf, 5, (char[128]){0}, 128))
TRY(call_perf, syscall(SYS_perf_event_open, (char[128]){0}, 0, -1, -1, 0))
TRY(call_io_uring, syscall(SYS_io_uring_setup, 4, (char[256]){0}))
TRY(call_userfaultfd, syscall(SYS_userfaultfd, 0))
TRY(call_memfd_secret, syscall(447, 0))
TRY(call_init_module, syscall(SYS_init_module, "x", 1, ""))
TRY(call_finit_module, syscall(SYS_finit_module, 0, "", 0))
TRY(call_kexec, syscall(SYS_kexec_load, 0, 0, NULL, 0))
TRY(call_swapon, syscall(SYS_swapon, "/tmp/x", 0))
TRY(call_acct, syscall(SYS_acct, "/tmp/x"))
TRY(call_quotactl, syscall(SYS_quotactl, 0, "/", 0, NULL))
TRY(call_fanotify, syscall(SYS_fanotify_init, 0, 0))
TRY(call_sethostname, sethostname("evil", 4))
TRY(call_reboot,
    syscall(SYS_reboot, 0xfee1deadL, 672274793L, 0x89abcdefL, NULL))

static long
call_settimeofday(void)
{
	struct timeval tv;

	(void)gettimeofday(&tv, NULL);
	return settimeofday(&tv, NULL);
}
ENTRY(call_settimeofday)

static long
handle_of_host(void)
{
	struct {
		struct file_handle h;
		uint64_t ino[2];
	} x = {
	    .h = {.handle_bytes = 8, .handle_type = 1}
        };

	int fd = open("/usr", O_RDONLY | O_CLOEXEC);

	*(uint64_t *)(void *)x.h.f_handle = 2;
	return open_by_handle_at(fd, &x.h, O_RDONLY);
}
ENTRY(handle_of_host)

#if defined(__x86_64__)
TRY(call_iopl, syscall(SYS_iopl, 3))
TRY(call_modify_ldt, syscall(SYS_modify_ldt, 0, NULL, 0))
TRY(x32_mount, syscall(0x40000000L | SYS_mount, 0, 0, 0, 0, 0))

static long
int80_mount(void)
{
	int st = 0;
	long k = 0;
	pid_t p = fork();

	if (p == 0) {
		__asm__ volatile(
		    "int $0x80"
		    : "=a"(k)
		    : "a"(21), "b"(0), "c"(0), "d"(0), "S"(0), "D"(0)
		    : "r8", "r9", "r10", "r11", "memory");
		_exit((int)k == -ENOSYS ? 1 : 0);
	}
	(void)waitpid(p, &st, 0);
	errno = ENOSYS;
	return WIFEXITED(st) && WEXITSTATUS(st) == 0 ? 0 : -1;
}
ENTRY(int80_mount)
#endif

/* --- pid 1 ----------------------------------------------------------------*/

TRY(trace_pid1, ptrace(PTRACE_ATTACH, 1, 0, 0))
TRY(seize_shim, ptrace(PTRACE_SEIZE, getppid(), 0, 0))
TRY(pid1_mem, open("/proc/1/mem", O_RDWR | O_CLOEXEC))
TRY(pid1_root, open("/proc/1/root/etc", O_RDONLY | O_CLOEXEC))
TRY(pid1_cwd, open("/proc/1/cwd/etc", O_RDONLY | O_CLOEXEC))
TRY(pid1_exe_read, open("/proc/1/exe", O_RDONLY | O_CLOEXEC))
TRY(pid1_exe_write, open("/proc/1/exe", O_WRONLY | O_CLOEXEC))
TRY(pid1_ctl, open("/proc/1/fd/3", O_RDWR | O_CLOEXEC))
TRY(pid1_maps, read_from("/proc/1/maps"))
TRY(pid1_environ, read_from("/proc/1/environ"))

static long
pid1_vm_read(void)
{
	char b[8];
	struct iovec l = {b, sizeof(b)}, r = {(void *)0x400000, sizeof(b)};

	return process_vm_readv(1, &l, 1, &r, 1, 0);
}
ENTRY(pid1_vm_read)

static long
pid1_getfd(void)
{
	int p = (int)syscall(SYS_pidfd_open, 1, 0);

	return p < 0 ? -1 : syscall(SYS_pidfd_getfd, p, 3, 0);
}
ENTRY(pid1_getfd)

/* Must have no effect: we are still here afterwards. */
static long
kill_pid1(void)
{
	(void)kill(1, SIGKILL);
	(void)kill(1, SIGSTOP);
	(void)kill(1, SIGTERM);
	errno = EPERM;
	return -1;
}
ENTRY(kill_pid1)

/* --- devices, sockets -----------------------------------------------------*/

TRY(mknod_disk, mknod("/tmp/d", S_IFBLK | 0600, makedev(254, 0)))
TRY(mknod_mem, mknod("/tmp/c", S_IFCHR | 0600, makedev(1, 1)))
TRY(dev_kvm, open("/dev/kvm", O_RDWR | O_CLOEXEC))
TRY(dev_fuse, open("/dev/fuse", O_RDWR | O_CLOEXEC))
TRY(dev_tun, open("/dev/net/tun", O_RDWR | O_CLOEXEC))
TRY(dev_mem, open("/dev/mem", O_RDONLY | O_CLOEXEC))
TRY(dev_disk, open("/dev/vda", O_RDONLY | O_CLOEXEC))
TRY(dev_console, open("/dev/console", O_RDWR | O_NOCTTY | O_CLOEXEC))
TRY(sock_packet, socket(AF_PACKET, SOCK_RAW, 0))
TRY(sock_raw, socket(AF_INET, SOCK_RAW, 1))
TRY(sock_vsock, socket(40, SOCK_STREAM, 0))
TRY(sock_vsock_high_bits, syscall(SYS_socket, 0x100000028L, SOCK_STREAM, 0))
TRY(sock_alg, socket(38, SOCK_SEQPACKET, 0))
TRY(sock_audit, socket(AF_NETLINK, SOCK_RAW, 9))
TRY(sock_nfnl, socket(AF_NETLINK, SOCK_RAW, 12))
TRY(sockpair_tipc, socketpair(30, SOCK_DGRAM, 0, (int[2]){0}))
TRY(tiocsti, ioctl(0, TIOCSTI, "x"))
TRY(tiocsti_high_bits, syscall(SYS_ioctl, 0, 0x100000000L | TIOCSTI, "x"))

static long
host_abstract(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(abstract_name);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(a.sun_path + 1, abstract_name, n);
	return connect(s, (struct sockaddr *)&a,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
}
ENTRY(host_abstract)

static long
host_tcp(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)tcp_port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(s, (struct sockaddr *)&a, sizeof(a));
}
ENTRY(host_tcp)

static long
outside_tcp(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
	    .sin_port = htons(53),
	    .sin_addr.s_addr = htonl(0x08080808)};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(s, (struct sockaddr *)&a, sizeof(a));
}
ENTRY(outside_tcp)

/* --- limits, rights -------------------------------------------------------*/

static long
raise_limit(int what, rlim_t to)
{
	struct rlimit r = {to, to};

	return setrlimit((__rlimit_resource_t)what, &r);
}

TRY(raise_nofile, raise_limit(RLIMIT_NOFILE, 1 << 20))
TRY(raise_core, raise_limit(RLIMIT_CORE, 1 << 20))
TRY(raise_nproc, raise_limit(RLIMIT_NPROC, RLIM_INFINITY))
TRY(nice_up, setpriority(PRIO_PROCESS, 0, -20))

static long
realtime(void)
{
	struct sched_param p = {10};

	return sched_setscheduler(0, SCHED_FIFO, &p);
}
ENTRY(realtime)

static long
trusted_xattr(void)
{
	return setxattr("/tmp", "trusted.overlay.opaque", "y", 1, 0);
}
ENTRY(trusted_xattr)

static long
host_shadow(void)
{
	return read_from("/etc/shadow");
}
ENTRY(host_shadow)

static long
gain_by_setuid(void)
{
	/* sudo and su are setuid on the host; here nothing gains anything */
	struct stat st;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	char b[4096];
	long n = read(fd, b, sizeof(b) - 1);

	(void)close(fd);
	(void)stat("/usr/bin/su", &st);
	b[n > 0 ? n : 0] = 0;
	errno = EPERM;
	return strstr(b, "NoNewPrivs:\t1") ? -1 : 0;
}
ENTRY(gain_by_setuid)

int
main(int argc, char **argv)
{
	const struct attempt *t;
	unsigned n = 0, allowed = 0;
	long r;
	int e;

	if (argc != 4)
		return 2;
	abstract_name = argv[1];
	tcp_port = (int)strtol(argv[2], NULL, 10);
	ro_dir = argv[3];
	(void)mkdir("/tmp/m", 0755);
	for (t = __start_attempts; t < __stop_attempts; t++) {
		errno = 0;
		n++;
		r = t->fn();
		e = errno;
		allowed += r >= 0;
		if (r < 0)
			printf("%u refused %s (%d)\n", n, t->name, e);
		else
			printf("%u ALLOWED %s\n", n, t->name);
		(void)fflush(stdout);
	}
	printf("%u tried, %u allowed\n", n, allowed);
	return allowed != 0;
}
