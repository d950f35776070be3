/* SPDX-License-Identifier: Apache-2.0 */
/* sluice exec, attach-process: the process's bytes and its exit status pass
 * through unchanged. Output is acknowledged to the server when it has been
 * written, stdin is read when the server takes it, INT and TERM are forwarded;
 * none of the three waits for another. */
#include "cmd.h"
#include "out.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define STDIN_PIECE 32768

/* What one of stdout and stderr has still to write. */
struct lane {
	int fd;
	const char *name;
	sluice_msg **msg; /* [first, first + n); the window bounds them */
	size_t first, n, cap;
	size_t done; /* bytes of the first message */
	int broken;
};

struct run {
	struct tool *t;
	sluice_stream *s;
	struct lane out[2];
	int detach, attached;
	uint32_t pid;
	uint64_t offset; /* where an attach would go on */
	/* stdin */
	char in[STDIN_PIECE];
	size_t in_n, in_done;
	int in_open; /* more may be read */
	int in_wait; /* the library has no room */
	/* the end */
	int exited, ended, leave;
	struct sluice_exit exit;
	struct sluice_error err;
	int status; /* of our own, when it is not the process's */
};

/* --- output --------------------------------------------------------------*/

static void
lane_drop(struct lane *l)
{
	while (l->n) {
		sluice_msg_done(l->msg[l->first]);
		l->first++;
		l->n--;
	}
	l->done = 0;
}

static void
lane_push(struct lane *l, sluice_msg *m)
{
	if (l->first + l->n == l->cap && l->first != 0) {
		memmove(l->msg, l->msg + l->first, l->n * sizeof(m));
		l->first = 0;
	} else if (l->first + l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		sluice_msg **grown = need(cap, sizeof(m));

		if (l->n)
			memcpy(grown, l->msg, l->n * sizeof(m));
		free(l->msg);
		l->msg = grown;
		l->cap = cap;
	}
	l->msg[l->first + l->n++] = m;
}

static void
lane_broken(struct run *r, struct lane *l, int sys)
{
	char text[80];

	note("%s: %s; output is incomplete", l->name,
	    strerror_r(sys, text, sizeof(text)));
	l->broken = 1;
	r->status = EXIT_FAILED;
	lane_drop(l);
	/* As in a pipeline of this machine: who writes for nobody ends. But a
	 * process that we only watch is none of our business. */
	if (r->attached)
		r->leave = 1;
	else if (!r->exited && r->s)
		(void)sluice_exec_signal(r->s, SIGPIPE, NULL);
}

static void
lane_write(struct run *r, struct lane *l)
{
	while (l->n) {
		sluice_msg *m = l->msg[l->first];
		const char *p = sluice_msg_data(m);
		size_t n = sluice_msg_len(m);
		long w = out_try(l->fd, p + l->done, n - l->done);

		if (w < 0) {
			lane_broken(r, l, errno);
			return;
		}
		l->done += (size_t)w;
		if (l->done < n) {
			if (w == 0)
				return;
			continue;
		}
		sluice_msg_done(m);
		l->first++;
		l->n--;
		l->done = 0;
	}
}

static void
on_data(void *arg, sluice_stream *s, int32_t fd, uint64_t offset, const void *p,
    size_t n, sluice_msg *m)
{
	struct run *r = arg;
	struct lane *l = &r->out[fd == 2];

	(void)s;
	(void)p;
	r->offset = offset + n;
	if (l->broken || r->leave || n == 0) {
		sluice_msg_done(m);
		return;
	}
	lane_push(l, m);
	/* An empty lane takes it at once, without a turn of the loop. */
	if (l->n == 1)
		lane_write(r, l);
}

/* --- the process ---------------------------------------------------------*/

static void
on_started(void *arg, sluice_stream *s, uint32_t pid, uint64_t start)
{
	struct run *r = arg;

	(void)s;
	r->pid = pid;
	r->offset = start;
	if (!r->detach)
		return;
	if (r->t->json) {
		out_open();
		out_ku64("pid", pid);
		out_close();
	} else {
		out_fmt("%u\n", pid);
	}
	r->status = out_end();
	r->leave = 1;
}

static void
on_gap(void *arg, sluice_stream *s, uint64_t offset, uint64_t lost)
{
	(void)arg;
	(void)s;
	note("%llu bytes of output were overwritten before offset %llu",
	    (unsigned long long)lost, (unsigned long long)offset);
}

static void
on_exit_event(void *arg, sluice_stream *s, const struct sluice_exit *e)
{
	struct run *r = arg;

	(void)s;
	r->exit = *e;
	r->exited = 1;
}

static void
on_writable(void *arg, sluice_stream *s)
{
	struct run *r = arg;

	(void)s;
	r->in_wait = 0;
}

static void
on_end(void *arg, sluice_stream *s, const struct sluice_error *err)
{
	struct run *r = arg;

	(void)s;
	r->ended = 1;
	if (err)
		r->err = *err;
}

static const struct sluice_exec_handler handler = {
    .size = sizeof(handler),
    .on_started = on_started,
    .on_data = on_data,
    .on_gap = on_gap,
    .on_exit = on_exit_event,
    .on_writable = on_writable,
    .on_end = on_end,
};

/* --- input ---------------------------------------------------------------*/

static void
push_stdin(struct run *r)
{
	while (r->in_done < r->in_n && !r->in_wait) {
		size_t n;
		int e = sluice_exec_stdin(
		    r->s, r->in + r->in_done, r->in_n - r->in_done, &n, NULL);

		if (e == SLUICE_OK) {
			r->in_done += n;
		} else if (e == SLUICE_E_AGAIN) {
			r->in_wait = 1;
		} else {
			/* The process takes no more: so do we. */
			r->in_open = 0;
			r->in_done = r->in_n;
		}
	}
}

static void
read_stdin(struct run *r)
{
	ssize_t n = read(STDIN_FILENO, r->in, sizeof(r->in));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		/* End of file, or no stdin at all. */
		r->in_open = 0;
		(void)sluice_exec_close_stdin(r->s, NULL);
		return;
	}
	r->in_n = (size_t)n;
	r->in_done = 0;
}

static void
forward_signal(struct run *r, int sfd)
{
	struct signalfd_siginfo si;

	if (read(sfd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return;
	/* Detached, watching or ended: it means us. */
	if (r->detach || r->attached || r->exited ||
	    sluice_exec_signal(r->s, (int32_t)si.ssi_signo, NULL) !=
		SLUICE_OK) {
		r->status = 128 + (int)si.ssi_signo;
		r->leave = 1;
	}
}

/* --- loop ----------------------------------------------------------------*/

enum {
	P_CONN,
	P_IN,
	P_SIG,
	P_OUT,
	P_ERR,
	P__N
};

static int
to_wait(const struct run *r)
{
	int64_t t = sluice_timeout_ms(r->t->c);

	return t < 0 ? -1 : t > 60000 ? 60000 : (int)t;
}

static void
turn(struct run *r, int sfd)
{
	struct pollfd p[P__N] = {
	    {.fd = sluice_fd(r->t->c),              .events = (short)sluice_events(r->t->c)},
	    {.fd = r->in_open && r->in_done == r->in_n && !r->in_wait
		       ? STDIN_FILENO
		       : -1,
             .events = POLLIN							      },
	    {.fd = sfd,			     .events = POLLIN                       },
	    {.fd = r->out[0].n ? r->out[0].fd : -1, .events = POLLOUT                      },
	    {.fd = r->out[1].n ? r->out[1].fd : -1, .events = POLLOUT                      },
	};

	if (r->ended && p[P_CONN].fd >= 0)
		p[P_CONN].fd = -1; /* only the lanes are left */
	if (poll(p, P__N, r->ended ? -1 : to_wait(r)) < 0)
		return;
	if (p[P_SIG].revents)
		forward_signal(r, sfd);
	if (!r->ended)
		(void)sluice_process(r->t->c, NULL);
	for (int i = 0; i < 2; i++)
		if (p[P_OUT + i].revents)
			lane_write(r, &r->out[i]);
	if (p[P_IN].revents && !r->ended)
		read_stdin(r);
	if (!r->ended)
		push_stdin(r);
}

/* It did not run: as a shell says it, 127 when there is no such command and 126
 * when it cannot be executed; our own codes for everything else. */
static int
not_run(const struct run *r)
{
	int status = fail(r->t, &r->err);

	if (r->attached)
		return status;
	if (strcmp(r->err.reason, "exec_not_found") == 0)
		return EXIT_NO_COMMAND;
	return strcmp(r->err.reason, "exec_failed") == 0 ? EXIT_NO_EXEC
							 : status;
}

/* The process's status, or our own with a line that says why. */
static int
conclude(struct run *r)
{
	const struct sluice_exit *e = &r->exit;

	if (r->leave || r->status)
		return r->status;
	if (!r->exited && r->err.code == SLUICE_E_INTERRUPTED && r->pid)
		note("connection lost; pid %u goes on: sluice attach-process "
		     "VM %u --from %llu",
		    r->pid, r->pid, (unsigned long long)r->offset);
	if (!r->exited)
		return not_run(r);
	if (e->timed_out)
		note("the process was killed: its --timeout has passed");
	if (e->oom)
		note("the process was killed: the VM is out of memory; raise "
		     "its memory limit");
	if (e->truncated)
		note("output was cut: a child of the process kept the pipe "
		     "open after its exit");
	return e->signal ? 128 + e->signal : e->code;
}

static int
run(struct run *r)
{
	sigset_t set;
	int sfd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	sfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	while (!r->leave && (!r->ended || r->out[0].n || r->out[1].n))
		turn(r, sfd);
	lane_drop(&r->out[0]);
	lane_drop(&r->out[1]);
	free(r->out[0].msg);
	free(r->out[1].msg);
	sluice_stream_free(r->s);
	if (sfd >= 0)
		(void)close(sfd);
	return conclude(r);
}

static struct run *
new_run(struct tool *t)
{
	struct run *r = scratch(1, sizeof(*r));

	r->t = t;
	r->err.size = sizeof(r->err);
	r->out[0].fd = STDOUT_FILENO;
	r->out[0].name = "standard output";
	r->out[1].fd = STDERR_FILENO;
	r->out[1].name = "standard error";
	return r;
}

static int
exec_cmd(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	const char *timeout = args_get(&t->a, "timeout");
	const char **env = args_all(&t->a, "env");
	struct sluice_exec_spec spec;
	struct run *r;
	int e;

	if (args_has(&t->a, "tty")) {
		note("-t is not implemented: this version of Sluice has no "
		     "terminals in VMs; leave -t away");
		return EXIT_FAILED;
	}
	SLUICE_INIT(spec);
	spec.vm = t->a.pos[0];
	spec.cwd = args_get(&t->a, "dir");
	spec.argv = t->a.rest;
	spec.env = env;
	spec.detach = args_has(&t->a, "detach");
	spec.keep_awake = args_has(&t->a, "keep-awake");
	for (size_t i = 0; env[i]; i++)
		if (!strchr(env[i], '=') || env[i][0] == '=')
			return usage("-e wants K=V, not \"%s\"", env[i]);
	if (timeout &&
	    parse_duration_ms("--timeout", timeout, &spec.timeout_ms) != 0)
		return EXIT_USAGE;
	e = conn_open(t);
	if (e >= 0)
		return e;
	r = new_run(t);
	r->detach = spec.detach;
	r->in_open = !spec.detach;
	if (sluice_exec(t->c, &spec, &handler, r, &r->s, &err) != SLUICE_OK)
		return fail(t, &err);
	return run(r);
}

static int
attach_process(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	const char *from = args_get(&t->a, "from");
	uint64_t pid, start = 0;
	struct run *r;
	int e;

	if (parse_u64("PID", t->a.pos[1], &pid) != 0)
		return EXIT_USAGE;
	if (from && parse_u64("--from", from, &start) != 0)
		return EXIT_USAGE;
	if (pid == 0 || pid > UINT32_MAX)
		return usage("PID must be a number from 1 on");
	e = conn_open(t);
	if (e >= 0)
		return e;
	r = new_run(t);
	r->attached = 1;
	r->pid = (uint32_t)pid;
	r->offset = start;
	if (sluice_attach(t->c, t->a.pos[0], (uint32_t)pid, start, &handler, r,
		&r->s, &err) != SLUICE_OK)
		return fail(t, &err);
	return run(r);
}

static const struct opt exec_opts[] = {
    OPT('t', "tty", NULL, "a terminal (not implemented)"),
    OPT('w', "dir", "DIR", "working directory in the VM; default /root"),
    OPT('e', "env", "K=V", "add to the environment"),
    OPT(0, "timeout", "D", "kill its tree after this time"),
    OPT(0, "detach", NULL, "print the pid and leave it running"),
    OPT(0, "keep-awake", NULL, "counts as activity of the VM"), {0}};

static const struct opt attach_opts[] = {
    OPT(0, "from", "OFFSET", "output offset to start at; default 0"), {0}};

const struct cmd exec_cmds[] = {
    CMD("exec", NULL, "VM -- ARGV...", "run a process in a VM", 1, 1, 2,
	exec_opts, exec_cmd),
    CMD("attach-process", NULL, "VM PID",
	"follow the output of a process to its exit", 2, 2, 0, attach_opts,
	attach_process),
    {0}};
