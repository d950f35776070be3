/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-spawner: started by sluiced before anything else, with
 *
 *   sluice-spawner STATE LIBEXEC UID GID [MOUNT_ALLOW]...
 *
 * and the sockets of spawner/proto.h. Reads what it needs from the disk once,
 * gives up what it does not need, says that it stands, serves. */
#include "base/fd.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_TRIES   70 /* a dying predecessor gets 1.4 s */
#define LOCK_WAIT_MS 20
#define PID1_MAX     (1024 * 1024)

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Clone and namespaces; the VM's and the peers' ids; reaching what belongs to
 * others (mount sources, /proc of the new VM); cgroups; killing VMs. */
static const unsigned kept[] = {CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID,
    CAP_SETPCAP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE,
    CAP_KILL, CAP_SYS_RESOURCE, CAP_NET_ADMIN};

static SLI_NORETURN void
refuse(const struct spawner_fault *f)
{
	char b[400];
	size_t n;

	n = sli_snprintf(
	    b, sizeof(b), "%s (errno %d, %s)", f->text, f->sys, f->step);
	(void)!write(SPAWNER_START_FD, b, n);
	_exit(1);
}

/* --- rights ---------------------------------------------------------------*/

static int
keep_caps(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	uint64_t keep = 0;
	unsigned long c;
	size_t i;

	for (i = 0; i < SLI_ARRAY_LEN(kept); i++)
		keep |= UINT64_C(1) << kept[i];
	for (c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		if (!(keep >> c & 1) && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			return -1;
	if (syscall(SYS_capget, &h, d) < 0)
		return -1;
	for (i = 0; i < 2; i++) {
		d[i].permitted &= (uint32_t)(keep >> (32 * i));
		d[i].effective = d[i].permitted;
		d[i].inheritable = 0;
	}
	return (int)syscall(SYS_capset, &h, d);
}

static void
raise_limit(int what)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)what, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit((__rlimit_resource_t)what, &r);
	}
}

static int
harden(const struct spawner_conf *c, struct spawner_fault *f)
{
	struct rlimit none = {0, 0};

	if (c->privileged) {
		/* Ids are changed around a clone without losing rights; and
		 * nobody, the server's uid included, may look into us. */
		if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 ||
		    setgroups(0, NULL) < 0 || keep_caps() < 0)
			return spawner_fail(f, errno, "privileges",
			    "root lacks a capability the spawner needs");
		(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    setrlimit(RLIMIT_CORE, &none) < 0)
		return spawner_fail(f, errno, "privileges", "prctl failed");
	/* VMs count against it: the server's uid is what clones them. */
	raise_limit(RLIMIT_NPROC);
	raise_limit(RLIMIT_NOFILE);
	(void)umask(022);
	return 0;
}

/* ^C at a terminal and a service manager's SIGTERM are the server's business:
 * its end is ours. */
static void
hold_signals(void)
{
	sigset_t set;

	(void)setsid();
	(void)sigfillset(&set);
	(void)sigdelset(&set, SIGSEGV);
	(void)sigdelset(&set, SIGBUS);
	(void)sigdelset(&set, SIGFPE);
	(void)sigdelset(&set, SIGILL);
	(void)sigdelset(&set, SIGABRT);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
}

/* --- what it needs --------------------------------------------------------*/

static int
lock_state(struct spawner_conf *c, struct spawner_fault *f)
{
	int i;

	c->state_fd = open(c->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->state_fd < 0)
		return spawner_fail(f, errno, "state",
		    "the state directory %s cannot be opened", c->state_dir);
	for (i = 0; i < LOCK_TRIES; i++) {
		if (flock(c->state_fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		(void)poll(NULL, 0, LOCK_WAIT_MS);
	}
	return spawner_fail(f, EBUSY, "state",
	    "another server uses the state directory %s", c->state_dir);
}

/* pid 1 runs from memory: sealed, and not readable, so that it is undumpable
 * from its first instruction (root's file in a foreign user namespace). */
static int
load_pid1(struct spawner_conf *c, struct spawner_fault *f)
{
	char path[SPAWNER_STR_MAX];
	struct stat st;
	int in, mem = -1, e;

	sli_snprintf(path, sizeof(path), "%s/sluice-pid1", c->libexec);
	in = open(path, O_RDONLY | O_CLOEXEC);
	if (in < 0 || fstat(in, &st) < 0 || st.st_size > PID1_MAX)
		goto bad;
	mem = memfd_create(
	    "sluice-pid1", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	/* Before 6.3 there is no such flag and no need for it. */
	if (mem < 0 && errno == EINVAL)
		mem = memfd_create(
		    "sluice-pid1", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (mem < 0 ||
	    sendfile(mem, in, NULL, (size_t)st.st_size) != st.st_size)
		goto bad;
	if (fchmod(mem, 0111) < 0 ||
	    fcntl(mem, F_ADD_SEALS,
		F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		goto bad;
	(void)close(in);
	/* Executed while open for writing it would be "text busy". */
	sli_snprintf(path, sizeof(path), "/proc/self/fd/%d", mem);
	c->pid1_fd = open(path, O_PATH | O_CLOEXEC);
	(void)close(mem);
	return c->pid1_fd >= 0
		   ? 0
		   : spawner_fail(f, errno, "pid1", "/proc is not mounted");
bad:
	e = errno;
	sli_fd_close(&in);
	sli_fd_close(&mem);
	return spawner_fail(f, e, "pid1", "%s cannot be loaded", path);
}

static int
parse(struct spawner_conf *c, int argc, char **argv, struct spawner_fault *f)
{
	char path[SPAWNER_STR_MAX];
	uint64_t uid, gid;

	if (argc < 5 || sli_parse_u64(argv[3], &uid) != SLI_OK ||
	    sli_parse_u64(argv[4], &gid) != SLI_OK || argv[1][0] != '/' ||
	    argv[2][0] != '/')
		return spawner_fail(f, EINVAL, "start",
		    "sluice-spawner is started by sluiced, not by hand");
	c->state_dir = argv[1];
	c->libexec = argv[2];
	c->server_uid = (uid_t)uid;
	c->server_gid = (gid_t)gid;
	c->allow = (const char *const *)(argv + 5);
	c->nallow = (unsigned)(argc - 5);
	c->privileged = geteuid() == 0;
	if (sli_fd_read_file(
		AT_FDCWD, "/proc/self/oom_score_adj", path, sizeof(path)) > 0)
		c->oom_adj = path[0] == '-' ? -1 : 0;
	c->allow_any = !c->privileged && c->nallow == 0;
	sli_snprintf(path, sizeof(path), "%s/guest", c->libexec);
	c->guest_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static void
hello(struct spawner *s)
{
	struct spawner_hello m = {
	    .h = {SPAWNER_HELLO, sizeof(m), 0},
	    .version = SPAWNER_VERSION,
	    .privileged = (uint32_t)s->conf.privileged,
	    .missing = cg_missing(&s->cg),
	    .server_uid = s->conf.server_uid
        };

	if (!s->conf.privileged)
		m.missing |= SPAWNER_MISS_SUBUID;
	serve_send(s, &m, NULL, 0);
}

int
main(int argc, char **argv)
{
	static struct spawner s = {.server = SPAWNER_SERVER_FD,
	    .opener = SPAWNER_OPENER_FD,
	    .epoll = -1};
	struct spawner_fault f = {0};
	int fd, r;

	hold_signals();
	for (fd = SPAWNER_SERVER_FD; fd <= SPAWNER_START_FD; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return 2;
	sli_list_init(&s.vms);
	sli_list_init(&s.dead);
	sli_list_init(&s.queue);
	sli_list_init(&s.out);
	s.ids = sli_ids_new(SPAWNER_VMS_MAX);
	if (!s.ids)
		return 2;
	if (parse(&s.conf, argc, argv, &f) < 0 || harden(&s.conf, &f) < 0 ||
	    lock_state(&s.conf, &f) < 0 || load_pid1(&s.conf, &f) < 0 ||
	    skeleton_build(&s.skel, &f) < 0 || filter_build(&s.filter, &f) < 0)
		refuse(&f);
	cg_find(&s.cg, &s.conf);
	hello(&s);
	if (write(SPAWNER_START_FD, "", 1) != 1)
		return 2;
	(void)close(SPAWNER_START_FD);
	r = serve(&s);
	cg_leave(&s.cg);
	_exit(r < 0 ? 1 : 0);
}
