/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one agent process as seen from here: asked for, started, ended
 * by itself or by us, gone. Gone is one moment: it has exited and its stdout
 * was read to the end, or to a bound when an orphan holds the pipe. */
#include "acp/engine.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#include <string.h>

#define EOF_MS   1500 /* from closing stdin to SIGTERM */
#define TERM_MS  1500 /* from SIGTERM to the kill */
#define KILL_MS  5000 /* from the kill to giving it up as lost */
#define DRAIN_MS 500  /* from its exit to the end of what is read */
#define MUTE_MS  2000 /* from the end of stdout to the kill */

static void end_due(struct loop_timer *timer);
static void step_due(struct loop_timer *timer);
static void on_line(void *ctx, const struct line *ln);
static void on_over(void *ctx, uint64_t length);
static uint64_t part_begin(void *ctx);
static void part_append(void *ctx, uint64_t set, struct sli_slice bytes);
static void part_drop(void *ctx, uint64_t set);

struct agent *
agent_new(struct acp_session *s)
{
	static const struct lines_ops ops = {
	    on_line, on_over, part_begin, part_append, part_drop};
	struct agent *g = sli_zalloc(sizeof(*g));

	if (!g)
		return NULL;
	g->s = s;
	g->generation = s->generation;
	g->fd[0] = g->fd[1] = g->fd[2] = -1;
	g->in = g->out = g->err = (struct loop_fd)LOOP_FD_INIT;
	sli_list_init(&g->outq);
	sli_list_init(&g->early);
	loop_timer_init(&g->step_timer, step_due);
	loop_timer_init(&g->end_timer, end_due);
	lines_init(&g->lines, &ops, g, limit(s, SLI_L_ACP_MAX_LINE),
	    SLI_EVENT_INLINE_MAX, (unsigned)limit(s, SLI_L_ACP_NESTING));
	return g;
}

void
agent_free(struct agent *g)
{
	if (!g)
		return;
	loop_timer_del(g->s->a->loop, &g->step_timer);
	loop_timer_del(g->s->a->loop, &g->end_timer);
	io_detach(g);
	lines_fini(&g->lines);
	while (!sli_list_empty(&g->early)) {
		struct sli_list *it = g->early.next;

		sli_list_del(it);
		sli_free(SLI_LIST_ENTRY(it, struct early, node));
	}
	sli_free(g->tail);
	sli_free(g);
}

static void
agent_reap(struct loop_reap *r)
{
	agent_free(SLI_CONTAINER_OF(r, struct agent, reap));
}

static void
gone(struct agent *g)
{
	struct acp_session *s = g->s;

	if (s->ag != g || g->gone)
		return;
	g->gone = 1;
	io_read(g);
	/* What stands before an exit that was bounded is a last line too. */
	lines_eof(&g->lines);
	lines_stop(&g->lines);
	io_detach(g);
	loop_timer_del(s->a->loop, &g->step_timer);
	loop_timer_del(s->a->loop, &g->end_timer);
	early_drop(g);
	exit_told(s, g);
	s->ag = NULL;
	loop_reap(s->a->loop, &g->reap, agent_reap);
	session_settle(s);
}

void
agent_check_gone(struct agent *g)
{
	struct loop *l = g->s->a->loop;

	if (g->exited && (g->out_eof || !g->attached))
		gone(g);
	else if (g->exited)
		loop_timer_after(l, &g->end_timer, DRAIN_MS);
	else if (g->out_eof && !g->ending)
		loop_timer_after(l, &g->end_timer, MUTE_MS);
}

void
agent_kill(struct agent *g)
{
	const struct acp *a = g->s->a;

	if (g->ending >= 3 || g->exited)
		return;
	g->ending = 3;
	loop_timer_del(a->loop, &g->step_timer);
	loop_timer_after(a->loop, &g->end_timer, KILL_MS);
	a->sink->kill(a->ctx, g->s, g->generation);
}

void
agent_stop(struct agent *g)
{
	if (g->ending || g->exited)
		return;
	if (!g->attached) {
		agent_kill(g);
		return;
	}
	g->ending = 1;
	loop_timer_del(g->s->a->loop, &g->step_timer);
	io_close_stdin(g);
	loop_timer_after(g->s->a->loop, &g->end_timer, EOF_MS);
}

/* Something that had to end did not. */
static void
end_due(struct loop_timer *timer)
{
	struct agent *g = SLI_CONTAINER_OF(timer, struct agent, end_timer);
	struct acp_session *s = g->s;
	const struct acp *a = s->a;

	if (g->exited && (s->pressure || s->journal.stalled) && !s->deleting) {
		/* it is us who do not read */
		loop_timer_after(a->loop, timer, DRAIN_MS);
	} else if (g->exited) {
		/* an orphan holds the pipe: it is of the same tree */
		a->sink->kill(a->ctx, s, g->generation);
		gone(g);
	} else if (g->ending == 1) {
		g->ending = 2;
		loop_timer_after(a->loop, timer, TERM_MS);
		a->sink->term(a->ctx, s, g->generation);
	} else if (g->ending < 3) {
		agent_kill(g);
	} else {
		sli_log(SLI_LOG_ERR, "acp", "lost",
		    "session=%s generation=%u no exit after kill, giving up",
		    s->id, g->generation);
		g->lost = 1;
		gone(g);
	}
}

static void
step_due(struct loop_timer *timer)
{
	struct agent *g = SLI_CONTAINER_OF(timer, struct agent, step_timer);

	open_timeout(g);
}

/* --- stderr --------------------------------------------------------------*/

void
agent_stderr(struct agent *g, const uint8_t *p, size_t n)
{
	size_t cap = limit(g->s, SLI_L_ACP_STDERR_TAIL);

	if (!g->tail && cap) {
		g->tail = sli_alloc(cap);
		g->tail_cap = g->tail ? cap : 0;
	}
	if (!g->tail_cap)
		return;
	if (n > g->tail_cap) {
		p += n - g->tail_cap;
		n = g->tail_cap;
	}
	while (n) {
		size_t k = SLI_MIN(n, g->tail_cap - g->tail_at);

		memcpy(g->tail + g->tail_at, p, k);
		g->tail_at = (g->tail_at + k) % g->tail_cap;
		g->tail_n = SLI_MIN(g->tail_n + k, g->tail_cap);
		p += k;
		n -= k;
	}
}

void
agent_tail(const struct agent *g, struct sli_buf *to, size_t max)
{
	size_t n = SLI_MIN(g->tail_n, max), from, k;

	if (!n)
		return;
	from = (g->tail_at + g->tail_cap - n) % g->tail_cap;
	k = SLI_MIN(n, g->tail_cap - from);
	if (sli_buf_append(to, g->tail + from, k) == SLI_OK && k < n)
		(void)!sli_buf_append(to, g->tail, n - k);
}

/* --- what the line splitter asks for -------------------------------------*/

static void
on_line(void *ctx, const struct line *ln)
{
	route_line(ctx, ln);
}

static void
on_over(void *ctx, uint64_t length)
{
	route_over(ctx, length);
}

static uint64_t
part_begin(void *ctx)
{
	struct agent *g = ctx;

	return g->s->a->sink->part_begin(g->s->a->ctx, g->s);
}

static void
part_append(void *ctx, uint64_t set, struct sli_slice bytes)
{
	struct agent *g = ctx;

	g->s->a->sink->part_append(g->s->a->ctx, g->s, set, bytes);
}

static void
part_drop(void *ctx, uint64_t set)
{
	struct agent *g = ctx;

	g->s->a->sink->part_drop(g->s->a->ctx, g->s, set);
}

/* --- told by the service -------------------------------------------------*/

void
acp_agent_started(
    struct acp_session *s, uint32_t generation, const int fds[3], uint32_t pid)
{
	struct agent *g = s->ag;

	loop_assert(s->a->loop);
	if (!g || g->generation != generation || g->attached || g->ending) {
		/* too late: it was given up and is being killed */
		for (int i = 0; i < 3; i++) {
			int fd = fds[i];

			sli_fd_close(&fd);
		}
		return;
	}
	g->pid = pid;
	if (!io_attach(g, fds)) {
		session_break(s, "out_of_memory");
		return;
	}
	open_step(g, STEP_INIT);
}

void
acp_agent_failed(
    struct acp_session *s, uint32_t generation, const struct sli_errinfo *ei)
{
	struct agent *g = s->ag;

	loop_assert(s->a->loop);
	if (!g || g->generation != generation || g->attached)
		return;
	open_refused(g, ei);
	g->exited = 1;
	agent_check_gone(g);
}

void
acp_agent_exited(struct acp_session *s, uint32_t generation, int code, int sig)
{
	struct agent *g = s->ag;

	loop_assert(s->a->loop);
	if (!g || g->generation != generation || g->exited)
		return;
	g->exited = 1;
	g->code = code;
	g->signal = sig;
	g->pid = 0;
	agent_check_gone(g);
}
