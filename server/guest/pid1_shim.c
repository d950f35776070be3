/* SPDX-License-Identifier: Apache-2.0 */
/* The shim of one exec, and the few steps between it and the command.
 * Shares memory with pid 1: raw system calls only, nothing global is written.
 */
#include "guest/pid1.h"
#include "guest/pid1_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

long
pid1_send(uint32_t op, uint32_t id, int a, int b, int flags)
{
	struct guest_event ev = {.op = op, .id = id, .a = a, .b = b};

	return SYS6(SYS_sendto, GUEST_CTL_FD, &ev, sizeof(ev),
	    MSG_NOSIGNAL | flags, 0, 0);
}

static const char *
path_of(char *const *envp)
{
	for (; *envp; envp++)
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	return GUEST_DEFAULT_PATH;
}

/* As execvp does it, but a file without a magic number is not handed to sh:
 * ENOEXEC says so. Returns -errno: EACCES when something was found that may
 * not be run and nothing else was found. */
static long
exec_search(struct exec *e)
{
	const char *name = e->argv[0], *p, *end;
	size_t nlen = strlen(name), plen;
	long r, best = -ENOENT;

	if (nlen == 0)
		return -ENOENT;
	if (strchr(name, '/'))
		return SYS3(SYS_execve, name, e->argv, e->envp);
	for (p = path_of(e->envp);; p = end + 1) {
		end = p;
		while (*end && *end != ':')
			end++;
		plen = (size_t)(end - p);
		if (plen + nlen + 3 <= sizeof(e->path)) {
			memcpy(e->path, p, plen);
			if (plen == 0)
				e->path[plen++] = '.';
			e->path[plen] = '/';
			memcpy(e->path + plen + 1, name, nlen + 1);
			r = SYS3(SYS_execve, e->path, e->argv, e->envp);
			if (r == -EACCES)
				best = r;
			else if (r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		if (!*end)
			return best;
	}
}

static int
fail(struct exec *e, int step, long r)
{
	e->err = (int)-r;
	e->step = step;
	return 127;
}

/* Runs on memory shared with pid 1, the shim suspended until exec or exit. */
static int
command(void *arg)
{
	struct exec *e = arg;
	uint64_t none = 0;
	long r;
	int i;

	SYS0(SYS_setsid);
	for (i = 0; i < 3; i++) {
		r = SYS3(SYS_dup3, e->fds[i], i, 0);
		if (r < 0)
			return fail(e, GUEST_STEP_REQUEST, r);
	}
	SYS3(SYS_close_range, 3, ~0u, 0);
	if (e->uid || e->gid) {
		r = SYS2(SYS_setgroups, 0, 0);
		if (r == 0)
			r = SYS3(SYS_setresgid, e->gid, e->gid, e->gid);
		if (r == 0)
			r = SYS3(SYS_setresuid, e->uid, e->uid, e->uid);
		if (r < 0)
			return fail(e, GUEST_STEP_USER, r);
	}
	r = SYS1(SYS_chdir, e->cwd);
	if (r < 0)
		return fail(e, GUEST_STEP_CWD, r);
	SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof(none));
	return fail(e, GUEST_STEP_EXEC, exec_search(e));
}

static void
report_exit(struct exec *e, int status)
{
	e->pid = 0;
	if (WIFSIGNALED(status))
		pid1_send(GUEST_EXIT, e->id, 0, WTERMSIG(status), 0);
	else
		pid1_send(GUEST_EXIT, e->id, WEXITSTATUS(status), 0, 0);
	e->exited = 1;
}

int
pid1_shim(void *arg)
{
	struct exec *e = arg;
	int status = 0, i;
	long pid, r;

	SYS6(SYS_prctl, PR_SET_NAME, "sluice-shim", 0, 0, 0, 0);
	SYS6(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0);
	pid = sys_clone_run(
	    CLONE_VM | CLONE_VFORK | SIGCHLD, e->cmd_top, command, e);
	/* The command has its own copies; ours would hold its pipes open. */
	for (i = 0; i < 3; i++)
		SYS1(SYS_close, e->fds[i]);
	if (pid < 0) {
		fail(e, GUEST_STEP_FORK, pid);
		return 0;
	}
	if (e->step) {
		SYS4(SYS_wait4, pid, &status, 0, 0);
		return 0;
	}
	e->pid = (int)pid;
	pid1_send(GUEST_STARTED, e->id, (int)pid, 0, 0);
	e->started = 1;
	for (;;) {
		r = SYS4(SYS_wait4, -1, &status, 0, 0);
		if (r == pid)
			report_exit(e, status);
		else if (r < 0 && r != -EINTR)
			return 0;
	}
}
