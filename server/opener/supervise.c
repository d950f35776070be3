/* SPDX-License-Identifier: Apache-2.0 */
/* The opener's supervisor: roots by handle from the spawner, requests from the
 * server, one worker per VM on demand, one request at a time with each. A
 * worker that does not answer in time is killed; the next request gets a new
 * one. Touches no path itself. */
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "opener/opener.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 64
#define TURN_MAX   32 /* packets of the server read in one turn */
#define BUCKETS    1024u

struct waiting {
	struct sli_list node;
	long len;
	struct opener_req rq; /* path follows */
};

struct vm {
	struct sli_list bucket;
	struct sli_list dead;
	uint64_t handle;
	int root, userns;
	pid_t worker;
	int sock;     /* to the worker; -1 = none */
	uint64_t req; /* in its hands; 0 = idle */
	int64_t deadline_ms;
	struct sli_list queue; /* struct waiting */
	unsigned nqueue;
};

struct answer {
	struct sli_list node;
	int fd;
	union opener_packet m; /* as long as m.h.len */
};

static struct {
	int epoll, server, spawner;
	struct sli_list vms[BUCKETS];
	struct sli_list dead;
	struct sli_list out;
	unsigned nbusy;
} o;

static int64_t
now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static struct vm *
find(uint64_t handle)
{
	struct sli_list *b = &o.vms[handle % BUCKETS], *it;

	sli_list_for_each (it, b) {
		struct vm *vm = SLI_LIST_ENTRY(it, struct vm, bucket);

		if (vm->handle == handle)
			return vm;
	}
	return NULL;
}

static void
interest(int fd, uint32_t events, void *ptr, int op)
{
	struct epoll_event ev = {.events = events, .data = {.ptr = ptr}};

	if (epoll_ctl(o.epoll, op, fd, &ev) < 0)
		_exit(1);
}

/* --- answers --------------------------------------------------------------*/

/* Takes fd. Queued when the server does not read; then nothing is read from
 * it either. */
static void
answer(const union opener_packet *m, int fd)
{
	struct answer *a;

	if (sli_list_empty(&o.out) &&
	    sli_fd_send(o.server, m->b, m->h.len, &fd, fd >= 0) >= 0) {
		sli_fd_close(&fd);
		return;
	}
	a = sli_alloc(sizeof(*a));
	if (!a)
		_exit(1);
	memcpy(&a->m, m->b, m->h.len);
	a->fd = fd;
	sli_list_add_tail(&o.out, &a->node);
	interest(o.server, EPOLLOUT, &o.server, EPOLL_CTL_MOD);
}

static void
refuse(uint64_t req, int sys, const char *step)
{
	union opener_packet m;

	memset(&m.reply, 0, sizeof(m.reply));
	m.h = (struct opener_msg){OPENER_REPLY, sizeof(m.reply), req};
	m.reply.sys = sys;
	(void)snprintf(m.reply.step, sizeof(m.reply.step), "%s", step);
	answer(&m, -1);
}

static void
flush(void)
{
	struct answer *a;

	while (!sli_list_empty(&o.out)) {
		a = SLI_LIST_ENTRY(o.out.next, struct answer, node);
		if (sli_fd_send(
			o.server, a->m.b, a->m.h.len, &a->fd, a->fd >= 0) < 0)
			return;
		sli_fd_close(&a->fd);
		sli_list_del(&a->node);
		sli_free(a);
	}
	interest(o.server, EPOLLIN, &o.server, EPOLL_CTL_MOD);
}

/* --- workers --------------------------------------------------------------*/

static void
stop_worker(struct vm *vm)
{
	if (vm->sock >= 0) {
		(void)epoll_ctl(o.epoll, EPOLL_CTL_DEL, vm->sock, NULL);
		sli_fd_close(&vm->sock);
	}
	if (vm->worker > 0)
		(void)kill(vm->worker, SIGKILL);
	vm->worker = 0;
}

static int
start_worker(struct vm *vm)
{
	int sp[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sp) < 0)
		return -1;
	vm->worker = fork();
	if (vm->worker == 0) {
		/* Nothing of the other VMs, and not our own sockets. */
		if (dup2(sp[1], 3) < 0 || dup2(vm->root, sp[1]) < 0 ||
		    dup2(sp[1], 4) < 0 || dup2(vm->userns, 5) < 0)
			_exit(1);
		(void)close_range(6, ~0u, 0);
		worker_run(3, 4, 5);
	}
	(void)close(sp[1]);
	if (vm->worker < 0) {
		vm->worker = 0;
		(void)close(sp[0]);
		return -1;
	}
	vm->sock = sp[0];
	interest(vm->sock, EPOLLIN, vm, EPOLL_CTL_ADD);
	return 0;
}

/* Hand the next waiting request to the worker. */
static void
feed(struct vm *vm)
{
	struct waiting *w;

	while (!vm->req && vm->nqueue) {
		w = SLI_LIST_ENTRY(vm->queue.next, struct waiting, node);
		sli_list_del(&w->node);
		vm->nqueue--;
		if ((vm->sock < 0 && start_worker(vm) < 0) ||
		    sli_fd_send(vm->sock, &w->rq, (size_t)w->len, NULL, 0) <
			0) {
			stop_worker(vm);
			refuse(w->rq.h.req, EAGAIN, "worker");
		} else {
			vm->req = w->rq.h.req;
			vm->deadline_ms = now_ms() + OPENER_TIMEOUT_MS;
			o.nbusy++;
		}
		sli_free(w);
	}
}

static void
finish(struct vm *vm)
{
	vm->req = 0;
	o.nbusy--;
}

static void
on_worker(struct vm *vm)
{
	static union opener_packet m;
	int fd = -1, nfds = 0;
	long n;

	if (vm->sock < 0)
		return;
	n = sli_fd_recv(vm->sock, m.b, sizeof(m.b), &fd, 1, &nfds);
	if (n >= (long)sizeof(m.reply) && (long)m.h.len == n &&
	    m.h.op == OPENER_REPLY && vm->req && m.h.req == vm->req) {
		finish(vm);
		answer(&m, nfds ? fd : -1);
	} else {
		if (nfds)
			sli_fd_close(&fd);
		stop_worker(vm);
		if (vm->req) {
			refuse(vm->req, EIO, "worker");
			finish(vm);
		}
	}
	feed(vm);
}

/* --- from the spawner -----------------------------------------------------*/

static void
vm_add(uint64_t handle, const int fds[2])
{
	struct vm *vm = sli_zalloc(sizeof(*vm));

	if (!vm)
		_exit(1);
	vm->handle = handle;
	vm->root = fds[0];
	vm->userns = fds[1];
	vm->sock = -1;
	sli_list_init(&vm->queue);
	sli_list_init(&vm->dead);
	sli_list_add_tail(&o.vms[handle % BUCKETS], &vm->bucket);
}

/* Freed at the end of the turn: an event of it may still name it. */
static void
vm_del(struct vm *vm)
{
	struct waiting *w;

	stop_worker(vm);
	if (vm->req) {
		refuse(vm->req, ENOENT, "handle");
		finish(vm);
	}
	while (!sli_list_empty(&vm->queue)) {
		w = SLI_LIST_ENTRY(vm->queue.next, struct waiting, node);
		sli_list_del(&w->node);
		refuse(w->rq.h.req, ENOENT, "handle");
		sli_free(w);
	}
	sli_fd_close(&vm->root);
	sli_fd_close(&vm->userns);
	sli_list_del(&vm->bucket);
	sli_list_add_tail(&o.dead, &vm->dead);
}

/* 0 when the spawner has gone. */
static int
read_spawner(void)
{
	int fds[2], nfds;
	struct opener_vm m;
	struct vm *vm;
	long n;

	for (;;) {
		nfds = 0;
		n = sli_fd_recv(o.spawner, &m, sizeof(m), fds, 2, &nfds);
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n <= 0)
			return 0;
		vm = find(m.handle);
		if (m.h.op == OPENER_ADD && nfds == 2 && !vm) {
			vm_add(m.handle, fds);
			continue;
		}
		while (nfds > 0)
			sli_fd_close(&fds[--nfds]);
		if (m.h.op == OPENER_DEL && vm)
			vm_del(vm);
	}
}

/* --- from the server ------------------------------------------------------*/

int
opener_request_ok(const union opener_packet *p, long len)
{
	const struct opener_req *rq = &p->rq;
	size_t path;

	if (len <= (long)sizeof(*rq) || (long)rq->h.len != len ||
	    rq->h.req == 0 || rq->h.op < OPENER_STAT ||
	    rq->h.op > OPENER_REALPATH)
		return 0;
	path = (size_t)len - sizeof(*rq);
	return path <= OPENER_PATH_MAX && path >= 2 &&
	       strnlen(p->b + sizeof(*rq), path) == path - 1 &&
	       p->b[sizeof(*rq)] == '/';
}

static void
request(const union opener_packet *m, long len)
{
	struct waiting *w;
	struct vm *vm;

	if (!opener_request_ok(m, len)) {
		refuse(len >= (long)sizeof(m->h) ? m->h.req : 0, EBADMSG,
		    "request");
		return;
	}
	vm = find(m->rq.handle);
	if (!vm) {
		refuse(m->h.req, ENOENT, "handle");
		return;
	}
	w = vm->nqueue < OPENER_QUEUE_MAX ? sli_alloc(sizeof(*w) + (size_t)len)
					  : NULL;
	if (!w) {
		refuse(m->h.req, EAGAIN, "queue");
		return;
	}
	w->len = len;
	memcpy(&w->rq, m->b, (size_t)len);
	sli_list_add_tail(&vm->queue, &w->node);
	vm->nqueue++;
	feed(vm);
}

static int
server_left(void)
{
	struct pollfd pf = {.fd = o.server, .events = POLLRDHUP};

	return poll(&pf, 1, 0) > 0;
}

/* 0 when the server has gone. */
static int
read_server(void)
{
	static union opener_packet m;
	int fds[SLI_FDS_MAX], nfds, i;
	long n;

	for (i = 0; i < TURN_MAX && sli_list_empty(&o.out); i++) {
		nfds = 0;
		n = sli_fd_recv(
		    o.server, m.b, sizeof(m.b), fds, SLI_FDS_MAX, &nfds);
		while (nfds > 0)
			sli_fd_close(&fds[--nfds]);
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0 && errno == EMSGSIZE) {
			refuse(0, EBADMSG, "request");
			continue;
		}
		/* An empty packet reads like the end. */
		if (n < 0 || (n == 0 && server_left()))
			return 0;
		request(&m, n);
	}
	return 1;
}

/* --- the loop -------------------------------------------------------------*/

/* Kill what is late; returns ms to the next deadline, or -1. */
static int
deadlines(void)
{
	int64_t now = now_ms(), next = INT64_MAX;
	struct sli_list *it;
	unsigned b;

	for (b = 0; o.nbusy && b < BUCKETS; b++) {
		sli_list_for_each (it, &o.vms[b]) {
			struct vm *vm = SLI_LIST_ENTRY(it, struct vm, bucket);

			if (vm->req && vm->deadline_ms <= now) {
				stop_worker(vm);
				refuse(vm->req, ETIMEDOUT, "worker");
				finish(vm);
				feed(vm);
			}
			if (vm->req && vm->deadline_ms < next)
				next = vm->deadline_ms;
		}
	}
	return next == INT64_MAX ? -1 : (int)(next - now) + 1;
}

/* A pid that was reaped must never be signalled again. */
static void
reaped(pid_t pid)
{
	struct sli_list *it;
	unsigned b;

	for (b = 0; b < BUCKETS; b++)
		sli_list_for_each (it, &o.vms[b]) {
			struct vm *vm = SLI_LIST_ENTRY(it, struct vm, bucket);

			if (vm->worker == pid)
				vm->worker = 0;
		}
}

static void
bury(void)
{
	struct sli_list *it, *tmp;
	pid_t pid;

	sli_list_for_each_safe (it, tmp, &o.dead) {
		sli_list_del(it);
		sli_free(SLI_LIST_ENTRY(it, struct vm, dead));
	}
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		reaped(pid);
}

/* The spawner first: what it said before the server knew a handle. 0 at the
 * end of either. */
static int
turn(int timeout)
{
	struct epoll_event ev[EVENTS_MAX];
	int n, i;

	n = epoll_wait(o.epoll, ev, EVENTS_MAX, timeout);
	if (!read_spawner())
		return 0;
	for (i = 0; i < n; i++) {
		if (ev[i].data.ptr == &o.spawner)
			continue;
		if (ev[i].data.ptr == &o.server) {
			if (ev[i].events & EPOLLOUT)
				flush();
			if (!read_server())
				return 0;
		} else {
			on_worker(ev[i].data.ptr);
		}
	}
	return 1;
}

int
supervise(int server, int spawner)
{
	unsigned b;

	o.server = server;
	o.spawner = spawner;
	o.epoll = epoll_create1(EPOLL_CLOEXEC);
	sli_list_init(&o.dead);
	sli_list_init(&o.out);
	for (b = 0; b < BUCKETS; b++)
		sli_list_init(&o.vms[b]);
	if (o.epoll < 0 || sli_fd_nonblock(server, NULL) != SLI_OK ||
	    sli_fd_nonblock(spawner, NULL) != SLI_OK)
		return 1;
	interest(server, EPOLLIN, &o.server, EPOLL_CTL_ADD);
	interest(spawner, EPOLLIN, &o.spawner, EPOLL_CTL_ADD);
	while (turn(deadlines()))
		bury();
	/* Workers end with their sockets, and by the parent-death signal. */
	return 0;
}
