/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and stopping the spawner and the opener: sockets, fork, exec, and
 * waiting until each says that it stands. Who the server becomes is decided in
 * helpers_user.c, how it gives up its rights in helpers_drop.c. */
#include "main/helpers.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "main/helpers_room.h"
#include "spawner/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_WAIT_MS 15000
#define STOP_WAIT_MS  5000
#define ALLOW_MAX     256u

/* One program to be started. */
struct program {
	char path[4200];
	const char *const *argv;
	int fds[3];   /* become 3, 4, 5; 5 is its end of `start` */
	int start[2]; /* pipe */
	int as_server;
	pid_t pid;
};

static enum sli_err
find_libexec(char *ret, size_t cap, struct sli_errinfo *ei)
{
	const char *env = secure_getenv("SLUICE_LIBEXEC");
	char exe[4096], path[4200], real[PATH_MAX], *slash;
	ssize_t n;

	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = 0;
	slash = strrchr(exe, '/');
	if (slash)
		*slash = 0;
	if (env)
		sli_strlcpy(path, env, sizeof(path));
	else
		sli_snprintf(path, sizeof(path), "%s/../libexec/sluice", exe);
	if (!realpath(path, real) || strlen(real) >= cap)
		return sli_fail(ei, SLI_E_CONFIG, ENOENT, "helpers.libexec",
		    "the helpers are not in %.150s", path);
	sli_strlcpy(ret, real, cap);
	return SLI_OK;
}

/* --- one program ----------------------------------------------------------*/

/* In the child. Descriptors first out of the way, then into their places. */
static SLI_NORETURN void
exec_program(const struct program *p, const struct helpers *h)
{
	static const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
	static const char text[] = "cannot be executed";
	int at[3], nul, i;

	nul = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (i = 0; i < 3; i++)
		at[i] = fcntl(p->fds[i], F_DUPFD_CLOEXEC, 10);
	if (nul < 0 || dup2(nul, 0) < 0 || dup2(nul, 1) < 0)
		_exit(2);
	for (i = 0; i < 3; i++)
		if (dup2(at[i], 3 + i) < 0)
			_exit(2);
	(void)close_range(6, ~0u, 0);
	if (p->as_server && h->privileged &&
	    (setgroups(0, NULL) < 0 || setresgid(h->gid, h->gid, h->gid) < 0 ||
		setresuid(h->uid, h->uid, h->uid) < 0))
		_exit(2);
	(void)execve(p->path, (char *const *)(uintptr_t)p->argv,
	    (char *const *)(uintptr_t)envp);
	(void)!write(SPAWNER_START_FD, text, sizeof(text) - 1);
	_exit(2);
}

static enum sli_err
start_program(
    struct program *p, const struct helpers *h, struct sli_errinfo *ei)
{
	if (pipe2(p->start, O_CLOEXEC) < 0)
		return sli_fail(
		    ei, SLI_E_SYS, errno, "helpers.start", "pipe failed");
	p->fds[2] = p->start[1];
	p->pid = fork();
	if (p->pid < 0)
		return sli_fail(
		    ei, SLI_E_SYS, errno, "helpers.start", "fork failed");
	if (p->pid == 0)
		exec_program(p, h);
	sli_fd_close(&p->start[1]);
	return SLI_OK;
}

/* One NUL byte: it stands. Text: why not. Nothing: it died. */
static enum sli_err
await_program(struct program *p, struct sli_errinfo *ei)
{
	struct pollfd pf = {.fd = p->start[0], .events = POLLIN};
	char b[400];
	ssize_t n;
	int r;

	do {
		r = poll(&pf, 1, START_WAIT_MS);
	} while (r < 0 && errno == EINTR);
	if (r == 0)
		return sli_fail(ei, SLI_E_SANDBOX, ETIMEDOUT, "helpers.start",
		    "%.100s does not start", p->path);
	n = read(p->start[0], b, sizeof(b) - 1);
	if (n == 1 && b[0] == 0)
		return SLI_OK;
	b[n > 0 ? n : 0] = 0;
	return sli_fail(ei, SLI_E_SANDBOX, 0, "helpers.start", "%s: %.180s",
	    p->argv[0], n > 0 ? b : "it died at once");
}

/* --- both -----------------------------------------------------------------*/

/* The paths of `mount_allow` without symlinks; one that is not there allows
 * nothing. Returns how many, to be freed; more than ALLOW_MAX: no memory. */
static unsigned
resolve_allow(const struct helpers_conf *conf, char *ret[ALLOW_MAX])
{
	char real[PATH_MAX];
	unsigned i, n = 0;

	for (i = 0; i < conf->nmount_allow && n < ALLOW_MAX; i++) {
		/* Lines that lead nowhere are still lines: with none left
		 * it must not look as if none had been given. */
		ret[n] = sli_strdup(realpath(conf->mount_allow[i], real)
					? real
					: "/nonexistent");
		if (!ret[n])
			return ALLOW_MAX + 1;
		n++;
	}
	return n;
}

static enum sli_err
start_both(const struct helpers_conf *conf, const char *libexec,
    struct program p[2], struct helpers *h, struct sli_errinfo *ei)
{
	const char *argv[6 + ALLOW_MAX] = {"sluice-spawner"};
	const char *opener_argv[] = {"sluice-opener", NULL};
	char uid[16], gid[16], *allow[ALLOW_MAX];
	unsigned n = resolve_allow(conf, allow), i;
	enum sli_err e;

	if (n > ALLOW_MAX)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "helpers.start", "out of memory");
	sli_snprintf(uid, sizeof(uid), "%u", (unsigned)h->uid);
	sli_snprintf(gid, sizeof(gid), "%u", (unsigned)h->gid);
	argv[1] = h->state_dir;
	argv[2] = libexec;
	argv[3] = uid;
	argv[4] = gid;
	for (i = 0; i < n; i++)
		argv[5 + i] = allow[i];
	p[0].argv = argv;
	p[1].argv = opener_argv;
	for (i = 0; i < 2; i++)
		sli_snprintf(p[i].path, sizeof(p[i].path), "%s/%s", libexec,
		    p[i].argv[0]);
	e = start_program(&p[0], h, ei);
	if (e == SLI_OK)
		e = start_program(&p[1], h, ei);
	if (e == SLI_OK)
		e = await_program(&p[0], ei);
	if (e == SLI_OK)
		e = await_program(&p[1], ei);
	for (i = 0; i < n; i++)
		sli_free(allow[i]);
	return e;
}

static void
kill_program(pid_t pid)
{
	if (pid <= 0)
		return;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

enum sli_err
helpers_start(const struct helpers_conf *conf, struct helpers *ret,
    struct sli_errinfo *ei)
{
	int s[3][2] =
	    {
		{-1, -1},
                {-1, -1},
                {-1, -1}
        },
	    i;
	struct program p[2] = {
	    {.start = {-1, -1}},
            { .start = {-1, -1},   .as_server = 1}
        };
	struct helpers h = {.spawner_fd = -1, .opener_fd = -1};
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	char libexec[4096];
	enum sli_err e;

	/* Inherited as ignored, children would be reaped unseen: the helpers
	 * and every VM's pid 1. */
	(void)sigaction(SIGCHLD, &dfl, NULL);
	e = find_libexec(libexec, sizeof(libexec), ei);
	if (e == SLI_OK)
		e = helpers_prepare(conf, &h, ei);
	if (e != SLI_OK)
		return e;
	for (i = 0; i < 3; i++)
		if (socketpair(
			AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s[i]) < 0) {
			e = sli_fail(ei, SLI_E_SYS, errno, "helpers.start",
			    "socketpair failed");
			goto out;
		}
	/* 0: server-spawner, 1: server-opener, 2: spawner-opener */
	p[0].fds[0] = s[0][1];
	p[0].fds[1] = s[2][0];
	p[1].fds[0] = s[1][1];
	p[1].fds[1] = s[2][1];
	e = start_both(conf, libexec, p, &h, ei);
	if (e == SLI_OK) {
		h.spawner_fd = s[0][0];
		h.opener_fd = s[1][0];
		h.spawner_pid = p[0].pid;
		h.opener_pid = p[1].pid;
		s[0][0] = s[1][0] = -1;
		*ret = h;
	}
out:
	for (i = 0; i < 3; i++) {
		sli_fd_close(&s[i][0]);
		sli_fd_close(&s[i][1]);
	}
	for (i = 0; i < 2; i++) {
		sli_fd_close(&p[i].start[0]);
		sli_fd_close(&p[i].start[1]);
		if (e != SLI_OK)
			kill_program(p[i].pid);
	}
	return e;
}

/* Wait for a child that ends by itself: its socket has been closed. */
static void
await_end(pid_t *pid, int64_t *left_ms)
{
	struct timespec a, b;
	struct pollfd pf = {.events = POLLIN};

	if (*pid <= 0)
		return;
	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	pf.fd = (int)syscall(SYS_pidfd_open, *pid, 0);
	if (pf.fd >= 0 && poll(&pf, 1, (int)*left_ms) > 0)
		(void)waitpid(*pid, NULL, 0);
	if (pf.fd >= 0)
		(void)close(pf.fd);
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	*left_ms -=
	    (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
	if (*left_ms < 0)
		*left_ms = 0;
	*pid = 0;
}

void
helpers_stop(struct helpers *h)
{
	int64_t left_ms = STOP_WAIT_MS;

	sli_fd_close(&h->spawner_fd);
	sli_fd_close(&h->opener_fd);
	await_end(&h->spawner_pid, &left_ms);
	await_end(&h->opener_pid, &left_ms);
}
