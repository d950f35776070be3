/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's loop: one epoll over the server's socket, the opener's, and
 * three descriptors of each VM. Answers that the server does not take are
 * queued, and no request is read while any waits: a server that floods stops
 * itself. When the server's socket ends, every VM ends, then the spawner. */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "opener/proto.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX   64
#define REQUESTS_MAX 32 /* read in one turn */
#define STOP_WAIT_MS 10000
/* A server that ends closes both sockets within microseconds. */
#define SERVER_END_MS 100
#define OUT_FDS_MAX   2

struct out {
	struct sli_list node;
	int fds[OUT_FDS_MAX], nfds;
	struct spawner_msg h; /* the whole message follows */
};

int64_t
serve_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int
serve_watch(struct spawner *s, struct spawner_watch *w, uint32_t events,
    void (*fn)(struct spawner *, struct spawner_vm *), struct spawner_vm *vm)
{
	struct epoll_event ev = {.events = events, .data = {.ptr = w}};

	w->fn = fn;
	w->vm = vm;
	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, w->fd, &ev);
}

void
serve_unwatch(struct spawner *s, struct spawner_watch *w)
{
	if (w->fd < 0)
		return;
	/* A duplicate may be queued for the server: closing is not enough. */
	(void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	sli_fd_close(&w->fd);
}

/* --- to the server --------------------------------------------------------*/

static int
send_now(
    struct spawner *s, const struct spawner_msg *h, const int *fds, int nfds)
{
	return sli_fd_send(s->server, h, h->len, fds, nfds) < 0 ? -1 : 0;
}

static void
server_interest(struct spawner *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data = {.ptr = NULL}};

	(void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->server, &ev);
}

static void
queue_out(
    struct spawner *s, const struct spawner_msg *h, const int *fds, int nfds)
{
	struct out *o;
	int i;

	o = sli_alloc(sizeof(*o) + h->len);
	/* An answer that is lost would hang the server: better to stop. */
	if (!o) {
		s->failed = 1;
		return;
	}
	memcpy(&o->h, h, h->len);
	o->nfds = nfds;
	for (i = 0; i < nfds; i++)
		o->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
	sli_list_add_tail(&s->out, &o->node);
	server_interest(s, EPOLLOUT);
}

void
serve_send(struct spawner *s, const void *msg, const int *fds, int nfds)
{
	const struct spawner_msg *h = msg;

	if (s->stopping)
		return;
	if (sli_list_empty(&s->out)) {
		if (send_now(s, h, fds, nfds) == 0)
			return;
		if (errno != EAGAIN) {
			s->failed = 1;
			return;
		}
	}
	queue_out(s, h, fds, nfds);
}

void
serve_fault(
    struct spawner *s, uint64_t req, const struct spawner_fault *f, int fd)
{
	struct spawner_failed m = {
	    .h = {SPAWNER_FAILED, sizeof(m), req},
              .sys = f->sys
        };

	memcpy(m.step, f->step, sizeof(m.step));
	memcpy(m.text, f->text, sizeof(m.text));
	serve_send(s, &m, &fd, fd >= 0);
}

static void
flush(struct spawner *s)
{
	struct out *o;
	int i;

	while (!sli_list_empty(&s->out)) {
		o = SLI_LIST_ENTRY(s->out.next, struct out, node);
		if (send_now(s, &o->h, o->fds, o->nfds) < 0) {
			if (errno != EAGAIN)
				s->failed = 1;
			return;
		}
		for (i = 0; i < o->nfds; i++)
			sli_fd_close(&o->fds[i]);
		sli_list_del(&o->node);
		sli_free(o);
	}
	server_interest(s, EPOLLIN);
}

/* --- to the opener --------------------------------------------------------*/

int
serve_opener(struct spawner *s, uint64_t handle, const int *fds)
{
	struct opener_vm m = {
	    .h = {fds ? OPENER_ADD : OPENER_DEL, sizeof(m), 0},
	    .handle = handle
        };

	if (sli_fd_send(s->opener, &m, sizeof(m), fds, fds ? 2 : 0) >= 0)
		return 0;
	/* It must hear of every end, or a root would outlive its VM. */
	if (!fds)
		s->failed = 1;
	return -1;
}

/* --- from the server ------------------------------------------------------*/

static int
server_left(const struct spawner *s, int wait_ms)
{
	struct pollfd pf = {.fd = s->server, .events = POLLRDHUP};

	return poll(&pf, 1, wait_ms) > 0;
}

static void
read_requests(struct spawner *s)
{
	static union {
		struct spawner_msg h;
		char b[SPAWNER_MSG_MAX + 1];
	} m;

	int fds[SLI_FDS_MAX], nfds, i, k;
	long n;

	for (i = 0; i < REQUESTS_MAX && sli_list_empty(&s->out); i++) {
		nfds = 0;
		n = sli_fd_recv(
		    s->server, m.b, sizeof(m.b), fds, SLI_FDS_MAX, &nfds);
		for (k = 0; k < nfds; k++)
			sli_fd_close(&fds[k]);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0 && errno == EMSGSIZE) {
			/* Too long, or more descriptors than can be taken. */
			request_handle(s, m.b, 0);
			continue;
		}
		/* An empty packet reads like the end. */
		if (n < 0 || (n == 0 && server_left(s, 0))) {
			life_stop(s);
			return;
		}
		request_handle(
		    s, m.b, n > (long)SPAWNER_MSG_MAX ? 0 : (size_t)n);
	}
}

static void
on_server(struct spawner *s, uint32_t events)
{
	if (events & EPOLLOUT)
		flush(s);
	if (s->stopping)
		return;
	if (events & (EPOLLHUP | EPOLLERR) && !(events & EPOLLIN))
		life_stop(s);
	else if (events & EPOLLIN)
		read_requests(s);
}

/* The opener never speaks here; an event is its end. */
static void
on_opener(struct spawner *s)
{
	/* Both end with the server, and its end may reach the opener first. */
	if (s->stopping || server_left(s, SERVER_END_MS)) {
		if (!s->stopping)
			life_stop(s);
		return;
	}
	sli_log(SLI_LOG_ERR, "spawner", "opener",
	    "the opener is gone; stopping every VM");
	s->failed = 1;
}

static void
turn(struct spawner *s, int timeout)
{
	struct epoll_event ev[EVENTS_MAX];
	struct spawner_watch *w;
	int n, i;

	n = epoll_wait(s->epoll, ev, EVENTS_MAX, timeout);
	for (i = 0; i < n; i++) {
		w = ev[i].data.ptr;
		if (!w)
			on_server(s, ev[i].events);
		else if ((void *)w == (void *)s)
			on_opener(s);
		else if (w->fd >= 0)
			w->fn(s, w->vm);
	}
}

static int
nonblock(int fd)
{
	return sli_fd_nonblock(fd, NULL) == SLI_OK ? 0 : -1;
}

static void
drop_out(struct spawner *s)
{
	struct sli_list *it, *tmp;
	struct out *o;
	int i;

	sli_list_for_each_safe (it, tmp, &s->out) {
		o = SLI_LIST_ENTRY(it, struct out, node);
		for (i = 0; i < o->nfds; i++)
			sli_fd_close(&o->fds[i]);
		sli_list_del(it);
		sli_free(o);
	}
}

int
serve(struct spawner *s)
{
	struct epoll_event in = {.events = EPOLLIN, .data = {.ptr = NULL}};
	struct epoll_event op = {.events = EPOLLIN, .data = {.ptr = s}};
	int64_t end = INT64_MAX;
	int wait;

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0 || nonblock(s->server) < 0 ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->server, &in) < 0 ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->opener, &op) < 0)
		return -1;
	for (;;) {
		wait = life_tick(s);
		life_bury(s);
		if (s->failed && !s->stopping)
			life_stop(s);
		if (s->stopping && end == INT64_MAX) {
			/* The server must see the end at once. */
			drop_out(s);
			(void)epoll_ctl(
			    s->epoll, EPOLL_CTL_DEL, s->server, NULL);
			(void)epoll_ctl(
			    s->epoll, EPOLL_CTL_DEL, s->opener, NULL);
			sli_fd_close(&s->server);
			sli_fd_close(&s->opener);
			end = serve_now_ms() + STOP_WAIT_MS;
		}
		if (s->stopping &&
		    (sli_list_empty(&s->vms) || serve_now_ms() >= end))
			return s->failed ? -1 : 0;
		turn(s, s->stopping && wait < 0 ? 100 : wait);
	}
}
