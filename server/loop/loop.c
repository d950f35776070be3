/* SPDX-License-Identifier: Apache-2.0 */
/* The turn of the one loop thread, in its numbered phases; see loop.h and
 * docs/internals/loop.md. Knows descriptors, deadlines and posts, and nothing
 * of what they are for. */
#include "loop/loop.h"
#include "loop/timer.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#define BATCH 64

struct loop {
	int ep;
	int64_t now_ms;
	pthread_t thread;
	struct timers timers;
	struct sli_mailbox *mb;
	struct loop_fd mb_fd;
	int mb_ready;
	struct sli_list hooks;
	struct sli_list reaps;
	/* The batch being delivered; loop_fd_del strikes its entries out. */
	struct epoll_event ev[BATCH];
	int nev;
	int at;
	atomic_int stop;
	atomic_flag stop_posted;
	struct sli_post stop_post;
};

static void
on_mailbox(struct loop_fd *self, uint32_t events)
{
	(void)events;
	self->loop->mb_ready = 1;
}

/* Only to end epoll_wait: the flag is set already. */
static void
on_stop(struct sli_post *self)
{
	(void)self;
}

struct loop *
loop_new(struct sli_errinfo *ei)
{
	struct loop *l = sli_zalloc(sizeof(*l));

	if (!l) {
		sli_fail(ei, SLI_E_NOMEM, 0, "loop.new", "no memory");
		return NULL;
	}
	l->mb_fd = (struct loop_fd)LOOP_FD_INIT;
	sli_list_init(&l->hooks);
	sli_list_init(&l->reaps);
	atomic_init(&l->stop, 0);
	atomic_flag_clear(&l->stop_posted);
	l->stop_post.fn = on_stop;
	l->thread = pthread_self();
	l->now_ms = sli_mono_ms();
	l->ep = epoll_create1(EPOLL_CLOEXEC);
	if (l->ep < 0) {
		sli_fail(ei, SLI_E_SYS, errno, "loop.new", "epoll_create1");
		goto fail;
	}
	l->mb = sli_mailbox_new();
	if (!l->mb) {
		sli_fail(ei, SLI_E_SYS, errno, "loop.new", "no mailbox");
		goto fail;
	}
	if (loop_fd_add(l, &l->mb_fd, sli_mailbox_fd(l->mb), EPOLLIN,
		on_mailbox) != SLI_OK) {
		sli_fail(ei, SLI_E_SYS, errno, "loop.new", "epoll_ctl");
		goto fail;
	}
	return l;
fail:
	loop_free(l);
	return NULL;
}

static void
run_reaps(struct loop *l)
{
	while (!sli_list_empty(&l->reaps)) {
		struct loop_reap *r =
		    SLI_LIST_ENTRY(l->reaps.next, struct loop_reap, node);

		sli_list_del(&r->node);
		r->fn(r);
	}
}

void
loop_free(struct loop *l)
{
	if (!l)
		return;
	run_reaps(l);
	loop_fd_del(&l->mb_fd);
	if (l->mb)
		sli_mailbox_free(l->mb);
	sli_fd_close(&l->ep);
	sli_free(l);
}

void
loop_assert(const struct loop *l)
{
	SLI_ASSERT(pthread_equal(l->thread, pthread_self()));
}

int64_t
loop_now_ms(const struct loop *l)
{
	return l->now_ms;
}

struct sli_mailbox *
loop_mailbox(struct loop *l)
{
	return l->mb;
}

void
loop_stop(struct loop *l)
{
	atomic_store(&l->stop, 1);
	if (!atomic_flag_test_and_set(&l->stop_posted))
		sli_mailbox_post(l->mb, &l->stop_post);
}

/* How long epoll may sleep: not at all when a hook, reap or post waits. */
static int
sleep_ms(struct loop *l, int cap_ms)
{
	int64_t due = timers_next(&l->timers), ms;

	if (!sli_list_empty(&l->hooks) || !sli_list_empty(&l->reaps) ||
	    l->mb_ready)
		return 0;
	if (due == INT64_MAX)
		return cap_ms;
	ms = due - sli_mono_ms();
	if (ms < 0)
		ms = 0;
	if (ms > INT_MAX)
		ms = INT_MAX;
	return cap_ms >= 0 && ms > cap_ms ? cap_ms : (int)ms;
}

/* A timer that sets itself again for now waits for the next turn. */
static void
run_timers(struct loop *l)
{
	struct loop_timer *t;

	for (unsigned left = l->timers.n; left > 0; left--) {
		t = timers_pop(&l->timers, l->now_ms);
		if (!t)
			break;
		t->fn(t);
	}
}

static void
run_fds(struct loop *l)
{
	for (l->at = 0; l->at < l->nev; l->at++) {
		struct loop_fd *w = l->ev[l->at].data.ptr;

		if (w)
			w->fn(w, l->ev[l->at].events);
	}
	l->nev = 0;
}

static void
run_hooks(struct loop *l)
{
	struct sli_list now;

	/* What a hook schedules runs in the next turn, which will not sleep. */
	sli_list_init(&now);
	if (sli_list_empty(&l->hooks))
		return;
	sli_list_add(&l->hooks, &now);
	sli_list_del(&l->hooks);
	while (!sli_list_empty(&now)) {
		struct loop_hook *h =
		    SLI_LIST_ENTRY(now.next, struct loop_hook, node);

		sli_list_del(&h->node);
		h->fn(h);
	}
}

void
loop_turn(struct loop *l, int timeout_ms)
{
	int n;

	loop_assert(l);
	n = epoll_wait(l->ep, l->ev, BATCH, sleep_ms(l, timeout_ms));
	sli_mailbox_awake(l->mb);
	SLI_ASSERT(n >= 0 || errno == EINTR);
	l->nev = n > 0 ? n : 0;
	l->at = 0;

	l->now_ms = sli_mono_ms(); /* 1 time */
	run_timers(l);             /* 2 due timers */
	for (int i = 0; i < l->nev; i++)
		if (l->ev[i].data.ptr == &l->mb_fd) {
			l->ev[i].data.ptr = NULL;
			l->mb_ready = 1;
		}
	if (l->mb_ready) { /* 3 posts */
		l->mb_ready = 0;
		(void)sli_mailbox_drain(l->mb);
	}
	run_fds(l);   /* 4 descriptors */
	run_hooks(l); /* 5 end of turn */
	run_reaps(l); /* 6 death */
	l->mb_ready = sli_mailbox_doze(l->mb);
}

void
loop_run(struct loop *l)
{
	l->thread = pthread_self();
	while (!atomic_load(&l->stop))
		loop_turn(l, -1);
}

/* Entries of the batch that were not delivered yet must not reach w. */
static void
strike(struct loop *l, const struct loop_fd *w)
{
	for (int i = l->at; i < l->nev; i++)
		if (l->ev[i].data.ptr == w)
			l->ev[i].data.ptr = NULL;
}

static int
ctl(struct loop_fd *w, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};

	return epoll_ctl(w->loop->ep, op, w->fd, &ev);
}

enum sli_err
loop_fd_add(struct loop *l, struct loop_fd *w, int fd, uint32_t events,
    void (*fn)(struct loop_fd *, uint32_t))
{
	w->loop = l;
	w->fd = fd;
	w->fn = fn;
	w->events = events;
	if (events != 0 && ctl(w, EPOLL_CTL_ADD, events) != 0) {
		w->fd = -1;
		return SLI_E_SYS;
	}
	return SLI_OK;
}

void
loop_fd_set(struct loop_fd *w, uint32_t events)
{
	int op;

	if (w->fd < 0 || events == w->events)
		return;
	/* epoll reports a hang-up whatever was asked for; a paused descriptor
	 * must therefore leave the set, or the loop would spin on it. */
	if (events == 0) {
		op = EPOLL_CTL_DEL;
		strike(w->loop, w);
	} else {
		op = w->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
	}
	/* Only memory can be short here, and a watcher that is lost would be
	 * a hang that nobody can explain. */
	SLI_ASSERT(ctl(w, op, events) == 0);
	w->events = events;
}

void
loop_fd_del(struct loop_fd *w)
{
	if (w->fd < 0)
		return;
	if (w->events != 0 && ctl(w, EPOLL_CTL_DEL, 0) != 0)
		sli_log(SLI_LOG_ERR, "loop", "fd_del", "fd=%d errno=%d", w->fd,
		    errno);
	strike(w->loop, w);
	w->fd = -1;
	w->events = 0;
}

void
loop_timer_init(struct loop_timer *t, void (*fn)(struct loop_timer *))
{
	*t = (struct loop_timer){.due_ms = INT64_MAX, .fn = fn};
}

void
loop_timer_set(struct loop *l, struct loop_timer *t, int64_t due_ms)
{
	if (due_ms == INT64_MAX)
		timers_del(&l->timers, t);
	else
		timers_set(&l->timers, t, due_ms);
}

void
loop_timer_after(struct loop *l, struct loop_timer *t, int64_t ms)
{
	timers_set(&l->timers, t, l->now_ms + ms);
}

void
loop_timer_del(struct loop *l, struct loop_timer *t)
{
	timers_del(&l->timers, t);
}

void
loop_hook_init(struct loop_hook *h, void (*fn)(struct loop_hook *))
{
	sli_list_init(&h->node);
	h->fn = fn;
}

void
loop_hook_schedule(struct loop *l, struct loop_hook *h)
{
	if (sli_list_empty(&h->node))
		sli_list_add_tail(&l->hooks, &h->node);
}

void
loop_hook_cancel(struct loop_hook *h)
{
	sli_list_del(&h->node);
}

void
loop_reap(struct loop *l, struct loop_reap *r, void (*fn)(struct loop_reap *))
{
	r->fn = fn;
	sli_list_init(&r->node);
	sli_list_add_tail(&l->reaps, &r->node);
}
