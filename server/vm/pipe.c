/* SPDX-License-Identifier: Apache-2.0 */
/* From a process's stdout and stderr into its ring: bounded reads, pause when
 * the ring is full of held bytes, and the end of a pipe after the exit. Knows
 * nothing of readers beyond waking them. */
#include "base/fd.h"
#include "base/log.h"
#include "base/mutant.h"
#include "vm/proc.h"
#include "vm/vm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

/* Most that one pipe gets of one turn of the loop, so that no process starves
 * the others. */
#define PIPE_TURN ((size_t)256 * 1024)
/* What the kernel gives a pipe; a pipe found this full twice in a row gets
 * PIPE_BIG, from a budget: past its per-user soft limit (64 MiB) the kernel
 * would give every new pipe of ours 8 KiB only. */
#define PIPE_DEFAULT ((size_t)64 * 1024)
#define PIPE_BIG     ((size_t)512 * 1024)
#define PIPE_BUDGET  ((size_t)32 * 1024 * 1024)
/* A paused pipe goes on when a read is worth its system calls. */
#define PIPE_WORTH ((size_t)64 * 1024)

void
pipe_close(struct proc_pipe *pp)
{
	if (!pp->open)
		return;
	loop_fd_del(&pp->w);
	loop_hook_cancel(&pp->again);
	sli_fd_close(&pp->fd);
	pp->open = pp->paused = 0;
	pp->proc->engine->pipe_bytes -= pp->size;
	pp->size = 0;
}

/* The process's own bytes have been read. Is the rest worth waiting for? With
 * no writer left the end is near; else somebody else holds it: cut. */
static void
close_or_finish(struct proc_pipe *pp)
{
	struct pollfd pf = {.fd = pp->fd, .events = POLLIN};

	if (poll(&pf, 1, 0) == 1 && (pf.revents & (POLLHUP | POLLERR)))
		return;
	pp->proc->exit.truncated = 1;
	pipe_close(pp);
}

static void
enlarge(struct proc_pipe *pp, size_t got)
{
	struct vm_engine *e = pp->proc->engine;

	if (pp->size || got < PIPE_DEFAULT) {
		pp->full = 0;
		return;
	}
	if (++pp->full < 2 || e->pipe_bytes + PIPE_BIG > PIPE_BUDGET)
		return;
	/* Refused once, refused for good: there is no use in asking again. */
	if (fcntl(pp->fd, F_SETPIPE_SZ, (int)PIPE_BIG) > 0)
		pp->size = PIPE_BIG;
	else
		pp->size = 1;
	e->pipe_bytes += pp->size;
}

static void
pause_pipe(struct proc_pipe *pp)
{
	pp->paused = 1;
	loop_fd_set(&pp->w, 0);
}

/* It is empty, or has had its share: the loop tells when there is more. */
static void
watch(struct proc_pipe *pp)
{
	pp->paused = 0;
	loop_fd_set(&pp->w, EPOLLIN);
}

/* One pipe's share of a turn. A pipe that fills the ring stays paused from one
 * share to the next, and costs no change of the epoll set. */
static void
pump(struct proc_pipe *pp)
{
	struct vm_proc *p = pp->proc;
	struct iovec iov[2];
	size_t left = PIPE_TURN, room;
	ssize_t n;
	int niov;

	while (pp->open && left > 0) {
		room = vm_ring_room(&p->ring, pp->fdno, left, iov, &niov);
		if (room == 0) {
			pause_pipe(pp);
			return;
		}
		n = readv(pp->fd, iov, niov);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			pipe_close(pp);
			return;
		}
		vm_ring_added(&p->ring, pp->fdno, (size_t)n);
		enlarge(pp, (size_t)n);
		left -= (size_t)n;
		pp->must -= SLI_MIN(pp->must, (uint64_t)n);
		if (p->grace_over && pp->must == 0)
			close_or_finish(pp);
		/* A short read has emptied it; after the exit the end of file
		 * is wanted now, not in the next turn. */
		if ((size_t)n < room && p->state != PROC_DRAINING)
			break;
	}
	if (pp->open)
		watch(pp);
}

static void
after_pump(struct vm_proc *p)
{
	proc_account(p);
	readers_wake(p);
	proc_maybe_done(p);
}

static void
on_readable(struct loop_fd *w, uint32_t events)
{
	struct proc_pipe *pp = SLI_CONTAINER_OF(w, struct proc_pipe, w);

	(void)events;
	pump(pp);
	after_pump(pp->proc);
}

static void
on_again(struct loop_hook *h)
{
	struct proc_pipe *pp = SLI_CONTAINER_OF(h, struct proc_pipe, again);

	if (!pp->paused)
		return;
	pump(pp);
	after_pump(pp->proc);
}

static int
worth(const struct vm_proc *p, const struct proc_pipe *pp)
{
	size_t space = vm_ring_space(&p->ring, pp->fdno);

	if (space == 0)
		return 0;
	/* An owner who has everything and waits for more must get it, however
	 * little the bytes that he keeps leave room for. */
	return space >= SLI_MIN(PIPE_WORTH, p->ring.max / 4) || !p->owner ||
	       p->owner->next == p->ring.end;
}

void
pipe_resume(struct vm_proc *p)
{
	for (int i = 0; i < 2; i++) {
		struct proc_pipe *pp = &p->out[i];

		if (pp->open && pp->paused && worth(p, pp))
			loop_hook_schedule(p->engine->loop, &pp->again);
	}
}

static void
start_one(struct vm_proc *p, int i, int fd)
{
	struct proc_pipe *pp = &p->out[i];

	pp->fd = fd;
	pp->open = 1;
	loop_hook_init(&pp->again, on_again);
	if (loop_fd_add(p->engine->loop, &pp->w, fd, EPOLLIN, on_readable) ==
	    SLI_OK)
		return;
	/* Not to be watched: the process still runs, its output is lost, and
	 * its exit says so. */
	sli_log(SLI_LOG_WARN, "vm", "pipe_unwatched", "pid=%u fd=%d", p->pid,
	    pp->fdno);
	p->exit.truncated = 1;
	pipe_close(pp);
}

void
pipe_start(struct vm_proc *p, int out_fd, int err_fd)
{
	start_one(p, 0, out_fd);
	start_one(p, 1, err_fd);
}

void
pipe_drain(struct vm_proc *p)
{
	for (int i = 0; i < 2; i++) {
		struct proc_pipe *pp = &p->out[i];
		int n = 0;

		if (!pp->open)
			continue;
		if (ioctl(pp->fd, FIONREAD, &n) == 0 && n > 0)
			pp->must = (uint64_t)n;
		if (!pp->paused)
			pump(pp);
	}
	after_pump(p);
}

void
pipe_grace_over(struct vm_proc *p)
{
	p->grace_over = 1;
	for (int i = 0; i < 2; i++) {
		if (SLI_MUTATED(vm_drain_cut))
			p->out[i].must = 0;
		if (p->out[i].open && p->out[i].must == 0)
			close_or_finish(&p->out[i]);
	}
	after_pump(p);
}
