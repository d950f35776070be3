/* SPDX-License-Identifier: Apache-2.0 */
/* Packets to and from one pid 1; see guest_link.h. */
#include "vm/guest_link.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/epoll.h>

/* Events taken in one turn, so that a chattering pid 1 starves nobody. */
#define EVENTS_TURN 64

struct packet {
	struct sli_list node;
	size_t n;
	int fds[3];
	int nfds;
	uint8_t bytes[];
};

static void
packet_free(struct packet *k)
{
	for (int i = 0; i < k->nfds; i++)
		sli_fd_close(&k->fds[i]);
	sli_free(k);
}

static void
close_fds(int *fds, int nfds)
{
	for (int i = 0; i < nfds; i++)
		sli_fd_close(&fds[i]);
}

void
guest_link_init(struct guest_link *g)
{
	*g = (struct guest_link){.fd = -1, .w = LOOP_FD_INIT};
	sli_list_init(&g->queue);
}

void
guest_link_close(struct guest_link *g)
{
	while (!sli_list_empty(&g->queue)) {
		struct packet *k =
		    SLI_LIST_ENTRY(g->queue.next, struct packet, node);

		sli_list_del(&k->node);
		packet_free(k);
	}
	g->nqueued = 0;
	loop_fd_del(&g->w);
	sli_fd_close(&g->fd);
}

static void
fault(struct guest_link *g, const char *reason)
{
	guest_link_close(g);
	g->sink->fault(g->ctx, reason);
}

/* OK, AGAIN (the socket is full) or why it can not be sent at all. */
static enum sli_err
send_packet(
    struct guest_link *g, const void *p, size_t n, const int *fds, int nfds)
{
	if (sli_fd_send(g->fd, p, n, fds, nfds) == (long)n)
		return SLI_OK;
	if (errno == EAGAIN)
		return SLI_E_AGAIN;
	/* Too many descriptors in flight: pid 1 does not take them. */
	if (errno == ENOBUFS || errno == ETOOMANYREFS)
		return SLI_E_UNAVAILABLE;
	return SLI_E_CLOSED;
}

static void
flush(struct guest_link *g)
{
	while (!sli_list_empty(&g->queue)) {
		struct packet *k =
		    SLI_LIST_ENTRY(g->queue.next, struct packet, node);
		enum sli_err e =
		    send_packet(g, k->bytes, k->n, k->fds, k->nfds);

		if (e == SLI_E_AGAIN)
			break;
		if (e != SLI_OK) {
			fault(g, "pid 1 does not take what is sent to it");
			return;
		}
		sli_list_del(&k->node);
		packet_free(k);
		g->nqueued--;
	}
	loop_fd_set(
	    &g->w, g->nqueued ? (uint32_t)(EPOLLIN | EPOLLOUT) : EPOLLIN);
}

static enum sli_err
enqueue(struct guest_link *g, const void *p, size_t n, const int *fds, int nfds)
{
	struct packet *k;

	if (g->nqueued >= GUEST_LINK_QUEUE_MAX)
		return SLI_E_AGAIN;
	k = sli_alloc(sizeof(*k) + n);
	if (!k)
		return SLI_E_NOMEM;
	k->n = n;
	memcpy(k->bytes, p, n);
	k->nfds = nfds;
	for (int i = 0; i < nfds; i++)
		k->fds[i] = fds[i];
	sli_list_add_tail(&g->queue, &k->node);
	g->nqueued++;
	loop_fd_set(&g->w, EPOLLIN | EPOLLOUT);
	return SLI_OK;
}

/* Takes the descriptors, whatever happens. */
static enum sli_err
post(struct guest_link *g, const void *p, size_t n, int *fds, int nfds)
{
	enum sli_err e = SLI_E_AGAIN;

	if (g->fd == -1)
		e = SLI_E_CLOSED;
	else if (sli_list_empty(&g->queue))
		e = send_packet(g, p, n, fds, nfds);
	if (e == SLI_E_AGAIN) {
		e = enqueue(g, p, n, fds, nfds);
		if (e == SLI_OK)
			return SLI_OK;
	}
	close_fds(fds, nfds);
	return e;
}

enum sli_err
guest_link_exec(struct guest_link *g, struct sli_buf *msg, int fds[3])
{
	enum sli_err e = post(g, sli_buf_data(msg), sli_buf_len(msg), fds, 3);

	sli_buf_free(msg);
	return e;
}

enum sli_err
guest_link_kill(struct guest_link *g, enum guest_op op, uint32_t id, int sig)
{
	struct guest_kill k = {.op = op, .id = id, .sig = sig};

	return post(g, &k, sizeof(k), NULL, 0);
}

static void
on_socket(struct loop_fd *w, uint32_t events)
{
	struct guest_link *g = SLI_CONTAINER_OF(w, struct guest_link, w);
	struct guest_event ev;

	if (events & EPOLLOUT)
		flush(g);
	for (int i = 0; i < EVENTS_TURN && g->fd != -1; i++) {
		long n = sli_fd_recv(g->fd, &ev, sizeof(ev), NULL, 0, NULL);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n == (long)sizeof(ev)) {
			g->sink->event(g->ctx, &ev);
			continue;
		}
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			fault(g, "pid 1 has closed its control socket");
		else
			fault(g, "pid 1 broke the protocol");
		return;
	}
}

enum sli_err
guest_link_open(struct guest_link *g, struct loop *l, int fd,
    const struct guest_link_sink *sink, void *ctx)
{
	guest_link_init(g);
	g->loop = l;
	g->sink = sink;
	g->ctx = ctx;
	if (sli_fd_nonblock(fd, NULL) != SLI_OK ||
	    loop_fd_add(l, &g->w, fd, EPOLLIN, on_socket) != SLI_OK) {
		sli_fd_close(&fd);
		return SLI_E_SYS;
	}
	g->fd = fd;
	return SLI_OK;
}
