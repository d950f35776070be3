/* SPDX-License-Identifier: Apache-2.0 */
/* pid 1 of a VM: takes requests from the server on one socket, starts each
 * command under a shim (pid1_shim.c), kills subtrees (pid1_tree.c), reaps.
 * Everything else was done before it was executed; it makes no mount, opens
 * no file and keeps no right that a guest's root does not have.
 *
 * It never blocks on the server: an event that does not fit into the socket
 * is owed by its record, and no request is read while an answer is owed. */
#include "guest/pid1.h"
#include "guest/pid1_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define KILL_PASS_MS 2
#define RECV_FDS_MAX 16

static struct exec *execs;
static unsigned nexecs;
/* The one answer to a request that could not be sent yet. */
static struct guest_event owed;

static union {
	struct guest_exec exec;
	struct guest_kill kill;
	uint32_t op;
	char bytes[GUEST_MSG_MAX];
} msg;

static void
answer(uint32_t op, uint32_t id, int a, int b)
{
	if (pid1_send(op, id, a, b, MSG_DONTWAIT) == -EAGAIN)
		owed = (struct guest_event){op, id, a, b};
}

static struct exec *
find(uint32_t id)
{
	struct exec *e;

	for (e = execs; e && e->id != id; e = e->next)
		;
	return e;
}

static void
forget(struct exec *e)
{
	struct exec **p;

	for (p = &execs; *p != e; p = &(*p)->next)
		;
	*p = e->next;
	nexecs--;
	SYS2(SYS_munmap, e, e->map_len);
}

/* --- starting -------------------------------------------------------------*/

static size_t
align16(size_t n)
{
	return (n + 15) & ~(size_t)15;
}

/* A record with room for the request, its pointers and both stacks. */
static struct exec *
record_new(size_t text_len)
{
	const struct guest_exec *x = &msg.exec;
	size_t ptrs = sizeof(char *) * (x->argc + x->envc + 2);
	size_t head = align16(sizeof(struct exec) + ptrs + text_len);
	size_t len = head + PID1_SHIM_STACK + PID1_CMD_STACK;
	struct exec *e;
	long m;

	m = SYS6(SYS_mmap, 0, len, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m < 0 && m > -4096)
		return NULL;
	e = (struct exec *)m; /* zeroed by the kernel */
	e->map_len = len;
	e->id = x->id;
	e->uid = x->uid;
	e->gid = x->gid;
	e->argv = (char **)(e + 1);
	e->envp = e->argv + x->argc + 1;
	e->cwd = (char *)(e->envp + x->envc + 1);
	e->shim_top = (char *)e + head + PID1_SHIM_STACK;
	e->cmd_top = e->shim_top + PID1_CMD_STACK;
	return e;
}

/* Copy the strings and point at them. 0 when there are not exactly as many as
 * the header says. */
static int
fill_strings(struct exec *e, const char *text, size_t len)
{
	const struct guest_exec *x = &msg.exec;
	char *p = (char *)(e->envp + x->envc + 1), *end = p + len;
	uint32_t i;

	memcpy(p, text, len);
	for (i = 0; i < 1 + x->argc + x->envc; i++) {
		if (p == end)
			return 0;
		if (i > x->argc)
			e->envp[i - 1 - x->argc] = p;
		else if (i > 0)
			e->argv[i - 1] = p;
		p += strlen(p) + 1;
	}
	return p == end;
}

static int
start(size_t len, const int *fds, int nfds)
{
	const struct guest_exec *x = &msg.exec;
	const char *text = msg.bytes + sizeof(*x);
	struct exec *e;
	long pid;
	int ok;

	if (len <= sizeof(*x) || nfds != 3 || x->id == 0 || x->flags != 0 ||
	    x->argc == 0 || x->argc > GUEST_ARGC_MAX ||
	    x->envc > GUEST_ENVC_MAX || msg.bytes[len - 1] != 0)
		return EBADMSG;
	if (find(x->id))
		return EEXIST;
	if (nexecs >= GUEST_EXECS_MAX)
		return EAGAIN;
	e = record_new(len - sizeof(*x));
	if (!e)
		return ENOMEM;
	ok = fill_strings(e, text, len - sizeof(*x));
	memcpy(e->fds, fds, sizeof(e->fds));
	pid = ok ? sys_clone_run(CLONE_VM | SIGCHLD, e->shim_top, pid1_shim, e)
		 : -EBADMSG;
	if (pid < 0) {
		SYS2(SYS_munmap, e, e->map_len);
		return (int)-pid;
	}
	e->shim = (int)pid;
	e->next = execs;
	execs = e;
	nexecs++;
	return 0;
}

/* --- ending ---------------------------------------------------------------*/

/* Send what a finished record owes; forget it when nothing is left. */
static void
settle(struct exec *e)
{
	if (e->owe_exit &&
	    pid1_send(GUEST_EXIT, e->id, 0, SIGKILL, MSG_DONTWAIT) != -EAGAIN)
		e->owe_exit = 0;
	if (e->owe_exit)
		return;
	if (e->owe_closed &&
	    (e->step && !e->started
		    ? pid1_send(GUEST_ERR, e->id, e->step, e->err, MSG_DONTWAIT)
		    : pid1_send(GUEST_CLOSED, e->id, 0, 0, MSG_DONTWAIT)) ==
		-EAGAIN)
		return;
	forget(e);
}

/* The shim of e is gone. Killed by the guest, it cannot tell what it left. */
static void
ended(struct exec *e, int status)
{
	if (WIFSIGNALED(status)) {
		e->lost = 1;
		return;
	}
	e->owe_closed = 1;
	settle(e);
}

static void
reap(void)
{
	struct exec *e;
	int status = 0;
	long pid;

	while (
	    (pid = SYS4(SYS_wait4, -1, &status, WNOHANG | WUNTRACED, 0)) > 0) {
		/* A shim that the guest stops would report nothing more. */
		if (WIFSTOPPED(status)) {
			SYS2(SYS_kill, pid, SIGCONT);
			continue;
		}
		for (e = execs; e; e = e->next)
			if (e->shim == pid && !e->lost && !e->owe_closed)
				break;
		if (e)
			ended(e, status);
	}
}

/* Records whose shim was killed: when a pass finds nothing of theirs alive
 * they end, as killed. */
static void
settle_lost(void)
{
	struct exec *e, *next;

	for (e = execs; e; e = next) {
		next = e->next;
		if (!e->lost || e->owe_closed)
			continue;
		if (!e->started && !e->step) {
			e->step = GUEST_STEP_FORK;
			e->err = EINTR;
		}
		e->owe_exit = e->started && !e->exited;
		e->owe_closed = 1;
		settle(e);
	}
}

static void
settle_owed(void)
{
	struct exec *e, *next;

	if (owed.op && pid1_send(owed.op, owed.id, owed.a, owed.b,
			   MSG_DONTWAIT) != -EAGAIN)
		owed.op = 0;
	for (e = execs; e; e = next) {
		next = e->next;
		if (e->owe_closed)
			settle(e);
	}
}

/* Returns 0 when no further pass is needed. */
static int
kill_trees(void)
{
	struct exec *e;
	int lost = 0, killing = 0;

	for (e = execs; e; e = e->next) {
		lost |= e->lost && !e->owe_closed;
		killing |= e->killing && !e->owe_closed;
	}
	if (!lost && !killing)
		return 0;
	if (pid1_kill_pass(execs) == 0 && lost)
		settle_lost();
	return 1;
}

/* --- requests -------------------------------------------------------------*/

static void
request(size_t len, const int *fds, int nfds)
{
	struct exec *e;
	int err;

	if (len < sizeof(msg.kill))
		return;
	if (msg.op == GUEST_EXEC) {
		err = start(len, fds, nfds);
		if (err)
			answer(GUEST_ERR, msg.exec.id,
			    err == EBADMSG || err == EEXIST ||
				    nexecs >= GUEST_EXECS_MAX
				? GUEST_STEP_REQUEST
				: GUEST_STEP_FORK,
			    err);
		return;
	}
	if (msg.op == GUEST_PING) {
		answer(GUEST_PONG, msg.kill.id, 0, 0);
		return;
	}
	e = find(msg.kill.id);
	if (!e)
		return;
	if (msg.op == GUEST_KILL_TREE)
		e->killing = 1;
	else if (msg.op == GUEST_KILL && e->pid > 0 && msg.kill.sig > 0)
		SYS2(SYS_kill, e->pid, msg.kill.sig);
}

/* All descriptors of one packet come in one control message. */
static int
take_fds(struct msghdr *mh, int *fds)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(mh);
	size_t n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), sizeof(int) * n);
	return (int)n;
}

static void
receive(void)
{
	static char control[CMSG_SPACE(sizeof(int) * RECV_FDS_MAX)];
	struct iovec iov = {msg.bytes, sizeof(msg.bytes)};
	struct msghdr mh = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control,
	    .msg_controllen = sizeof(control)};
	int fds[RECV_FDS_MAX], nfds, i;
	long n;

	n = SYS3(
	    SYS_recvmsg, GUEST_CTL_FD, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n == -EAGAIN || n == -EINTR)
		return;
	/* The server is gone: so is the VM. */
	if (n <= 0)
		SYS1(SYS_exit_group, 0);
	nfds = take_fds(&mh, fds);
	if (!(mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		request((size_t)n, fds, nfds);
	for (i = 0; i < nfds; i++)
		SYS1(SYS_close, fds[i]);
}

static int
owing(void)
{
	const struct exec *e;

	for (e = execs; e; e = e->next)
		if (e->owe_closed)
			return 1;
	return owed.op != 0;
}

int
main(void)
{
	struct signalfd_siginfo si;
	struct pollfd pf[2] = {{.fd = GUEST_CTL_FD}, {.events = POLLIN}};
	uint64_t all = ~(uint64_t)0, chld = 1ull << (SIGCHLD - 1);
	/* The kernel's struct of a default action, whatever its layout. */
	const uint64_t dfl[8] = {0};
	struct timespec ts = {0, KILL_PASS_MS * 1000000L};
	int again;

	SYS6(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
	SYS6(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
	SYS6(SYS_prctl, PR_SET_NAME, "sluice-pid1", 0, 0, 0, 0);
	SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, sizeof(all));
	/* What the server's starter ignores (a shell's & ignores INT) must not
	 * be ignored by commands: they inherit from here. */
	for (int sig = 1; sig <= 64; sig++)
		SYS4(SYS_rt_sigaction, sig, dfl, 0, sizeof(all));
	SYS3(SYS_fcntl, GUEST_CTL_FD, F_SETFD, FD_CLOEXEC);
	pf[1].fd = (int)SYS4(
	    SYS_signalfd4, -1, &chld, sizeof(chld), SFD_CLOEXEC | SFD_NONBLOCK);
	if (pf[1].fd < 0 || pid1_send(GUEST_READY, 0, GUEST_VERSION, 0, 0) < 0)
		return 1;
	for (;;) {
		again = kill_trees();
		pf[0].events = owing() ? POLLOUT : POLLIN;
		SYS6(SYS_ppoll, pf, 2, again ? &ts : NULL, NULL, 0, 0);
		if (pf[1].revents) {
			while (SYS3(SYS_read, pf[1].fd, &si, sizeof(si)) > 0)
				;
			reap();
		}
		if (pf[0].revents & (POLLIN | POLLHUP | POLLERR))
			receive();
		settle_owed();
	}
}
