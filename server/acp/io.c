/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's stdio. stdout and stderr are always drained, whatever stdin
 * does; only the store's budget pauses stdout. Writing never waits: what the
 * agent does not read stays in a bounded queue. SIGPIPE must be ignored by the
 * program. Understands no byte of it. */
#include "acp/engine.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Chunks read from one agent before others get their turn. */
#define READS 4

static int
paused(const struct acp_session *s)
{
	return s->pressure || s->journal.stalled;
}

static void
on_stdout(struct loop_fd *w, uint32_t events)
{
	struct agent *g = SLI_CONTAINER_OF(w, struct agent, out);
	struct acp_session *s = g->s;
	ssize_t n = 0;

	(void)events;
	for (int i = 0; i < READS && !paused(s) && g->fd[1] >= 0; i++) {
		n = read(g->fd[1], s->a->chunk, READ_CHUNK);
		if (n <= 0)
			break;
		lines_feed(&g->lines, s->a->chunk, (size_t)n, sli_wall_ms());
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 || paused(s) || g->fd[1] < 0)
		return;
	/* the end, or an error that says the same */
	lines_eof(&g->lines);
	loop_fd_del(&g->out);
	sli_fd_close(&g->fd[1]);
	g->out_eof = 1;
	agent_check_gone(g);
}

static void
on_stderr(struct loop_fd *w, uint32_t events)
{
	struct agent *g = SLI_CONTAINER_OF(w, struct agent, err);
	ssize_t n = 0;

	(void)events;
	for (int i = 0; i < READS; i++) {
		n = read(g->fd[2], g->s->a->chunk, READ_CHUNK);
		if (n <= 0)
			break;
		agent_stderr(g, g->s->a->chunk, (size_t)n);
	}
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	loop_fd_del(&g->err);
	sli_fd_close(&g->fd[2]);
}

void
io_read(struct agent *g)
{
	if (g->fd[2] >= 0)
		on_stderr(&g->err, 0);
	if (g->fd[1] >= 0)
		on_stdout(&g->out, 0);
}

/* --- stdin ---------------------------------------------------------------*/

static void
out_done(struct agent *g, struct out *o)
{
	uint64_t request = o->off == o->n ? o->request : 0;

	sli_list_del(&o->node);
	if (o->optional)
		g->optional_bytes -= o->n;
	sli_free(o);
	if (request)
		permit_delivered(g->s, request);
}

static void
drop_outq(struct agent *g)
{
	while (!sli_list_empty(&g->outq))
		out_done(g, SLI_LIST_ENTRY(g->outq.next, struct out, node));
}

void
io_close_stdin(struct agent *g)
{
	loop_fd_del(&g->in);
	sli_fd_close(&g->fd[0]);
	drop_outq(g);
}

static void
write_some(struct agent *g)
{
	while (!sli_list_empty(&g->outq)) {
		struct out *o = SLI_LIST_ENTRY(g->outq.next, struct out, node);
		ssize_t n = write(g->fd[0], o->bytes + o->off, o->n - o->off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			/* it closed its stdin; its exit, if any, follows */
			g->in_broken = 1;
			io_close_stdin(g);
			return;
		}
		o->off += (size_t)n;
		if (o->off == o->n)
			out_done(g, o);
	}
	loop_fd_set(&g->in, sli_list_empty(&g->outq) ? 0 : EPOLLOUT);
}

static void
on_stdin(struct loop_fd *w, uint32_t events)
{
	(void)events;
	write_some(SLI_CONTAINER_OF(w, struct agent, in));
}

void
io_send(struct acp_session *s, struct out *o)
{
	struct agent *g = s->ag;

	if (!g || g->generation != o->generation || g->fd[0] < 0) {
		sli_free(o);
		return;
	}
	if (o->optional &&
	    g->optional_bytes + o->n > limit(s, SLI_L_ACP_ANSWERS)) {
		/* it asks and does not listen: nobody would read them */
		g->answers_lost++;
		sli_free(o);
		return;
	}
	if (o->optional)
		g->optional_bytes += o->n;
	sli_list_add_tail(&g->outq, &o->node);
	if (g->outq.next == &o->node)
		write_some(g);
}

/* --- attaching -----------------------------------------------------------*/

int
io_attach(struct agent *g, const int fds[3])
{
	struct loop *l = g->s->a->loop;

	for (int i = 0; i < 3; i++)
		g->fd[i] = fds[i];
	g->attached = 1;
	for (int i = 0; i < 3; i++)
		if (sli_fd_nonblock(fds[i], NULL) != SLI_OK)
			return 0;
	if (loop_fd_add(l, &g->in, fds[0], 0, on_stdin) != SLI_OK ||
	    loop_fd_add(l, &g->err, fds[2], EPOLLIN, on_stderr) != SLI_OK)
		return 0;
	return loop_fd_add(l, &g->out, fds[1], paused(g->s) ? 0 : EPOLLIN,
		   on_stdout) == SLI_OK;
}

void
io_detach(struct agent *g)
{
	loop_fd_del(&g->in);
	loop_fd_del(&g->out);
	loop_fd_del(&g->err);
	for (int i = 0; i < 3; i++)
		sli_fd_close(&g->fd[i]);
	drop_outq(g);
}

void
io_update(struct acp_session *s)
{
	if (s->ag)
		loop_fd_set(&s->ag->out, paused(s) ? 0 : EPOLLIN);
}

void
acp_pressure(struct acp_session *s, int full)
{
	s->pressure = full;
	io_update(s);
}
