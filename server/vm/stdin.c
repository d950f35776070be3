/* SPDX-License-Identifier: Apache-2.0 */
/* Our end of a process's stdin. No buffer: the pipe takes what it takes, the
 * rest stays with the caller, who is told when the pipe takes more. */
#include "base/fd.h"
#include "vm/proc.h"
#include "vm/vm_internal.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

static void
unwatch(struct proc_stdin *in)
{
	if (in->watching)
		loop_fd_del(&in->w);
	in->watching = 0;
}

static void
tell(struct proc_stdin *in)
{
	if (in->fn)
		in->fn(in->ctx);
}

static void
on_room(struct loop_fd *w, uint32_t events)
{
	struct proc_stdin *in = SLI_CONTAINER_OF(w, struct proc_stdin, w);

	unwatch(in);
	if (events & (EPOLLERR | EPOLLHUP))
		sli_fd_close(&in->fd);
	tell(in);
}

void
stdin_start(struct vm_proc *p, int fd)
{
	p->in.fd = fd;
}

void
stdin_stop(struct vm_proc *p)
{
	if (p->in.fd == -1)
		return;
	unwatch(&p->in);
	sli_fd_close(&p->in.fd);
	tell(&p->in);
}

long
vm_stdin_write(struct vm_proc *p, const void *b, size_t n)
{
	struct proc_stdin *in = &p->in;
	const uint8_t *at = b;
	size_t done = 0;
	ssize_t w;

	while (in->fd != -1 && done < n) {
		w = write(in->fd, at + done, n - done);
		if (w > 0) {
			done += (size_t)w;
			continue;
		}
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			break;
		unwatch(in);
		sli_fd_close(&in->fd);
	}
	if (in->fd == -1)
		return -1;
	if (done < n && !in->watching) {
		/* Without an event the caller would wait for ever. */
		if (loop_fd_add(p->engine->loop, &in->w, in->fd, EPOLLOUT,
			on_room) != SLI_OK) {
			sli_fd_close(&in->fd);
			return -1;
		}
		in->watching = 1;
	}
	return (long)done;
}

void
vm_stdin_close(struct vm_proc *p)
{
	unwatch(&p->in);
	sli_fd_close(&p->in.fd);
}

void
vm_stdin_on_drain(struct vm_proc *p, void (*fn)(void *ctx), void *ctx)
{
	p->in.fn = fn;
	p->in.ctx = ctx;
}
