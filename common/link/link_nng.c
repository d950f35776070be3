/* SPDX-License-Identifier: Apache-2.0 */
/* Links on nng streams (nng 1.5.2). It does not parse, decides nothing about
 * peers and does not listen (listen_nng.c).
 *
 * nng's callbacks run on its own threads. Here they do one thing: post. The
 * owner's thread reads the results, starts everything and closes everything,
 * so the state of a link needs no lock, and no send or receive can start after
 * a close (nng would never complete it). A link is freed when each aio that it
 * had started has been posted back and its own close has been too. */
#include "link/link_nng.h"
#include "link/nng_int.h"
#include "link/rbuf.h"

#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>

struct nng_link {
	struct sli_link link;
	struct sli_mailbox *mb;
	nng_stream *stream;
	nng_aio *raio;
	nng_aio *saio;
	nng_aio *now; /* without a callback: for what goes at once */
	struct sli_post rpost;
	struct sli_post spost;
	struct sli_post cpost;
	struct sli_rbuf rbuf;
	/* References: each is held until its post was delivered. */
	int rbusy;
	int sbusy;
	int cbusy;
	int by_callback; /* the send has not gone at once: saio has it */
	nng_iov iov[SLI_LINK_IOV_MAX]; /* what of the send is left */
	unsigned niov;
	/* Why it ended. */
	enum sli_err code;
	int rv;
	const char *what;
};

static void
link_fail(struct nng_link *l, enum sli_err code, int rv, const char *what)
{
	if (l->link.state == SLI_LINK_CLOSING)
		return;
	l->code = code;
	l->rv = rv;
	l->what = what;
	sli_link_close(&l->link);
}

static void
link_free(struct nng_link *l)
{
	/* Both are safe here and deferred: nng's reaper waits for its own
	 * threads, we do not. */
	if (l->stream)
		nng_stream_free(l->stream);
	nng_aio_reap(l->raio);
	nng_aio_reap(l->saio);
	nng_aio_reap(l->now);
	sli_rbuf_fini(&l->rbuf);
	sli_free(l);
}

/* Returns 1 when l is gone. */
static int
link_try_end(struct nng_link *l)
{
	struct sli_errinfo ei = {0};

	if (l->link.state != SLI_LINK_CLOSING || l->rbusy || l->sbusy ||
	    l->cbusy)
		return 0;
	if (l->code != SLI_OK)
		sli_fail(&ei, l->code, sli_nng_sys(l->rv), "link.nng", "%s: %s",
		    l->what, nng_strerror(l->rv));
	sli_link_ended(&l->link, &ei);
	link_free(l);
	return 1;
}

static void
start_recv(struct nng_link *l)
{
	nng_iov v;

	v.iov_buf = sli_rbuf_arm(&l->rbuf, l->link.recv_max, &v.iov_len);
	if (!v.iov_buf) {
		link_fail(l, SLI_E_NOMEM, NNG_ENOMEM, "receive buffer");
		return;
	}
	nng_aio_set_iov(l->raio, 1, &v);
	l->rbusy = 1;
	nng_stream_recv(l->stream, l->raio);
}

/* Drops n written bytes from the front; true when some are left. */
static int
advance(struct nng_link *l, size_t n)
{
	unsigned i = 0;

	while (i < l->niov && n >= l->iov[i].iov_len)
		n -= l->iov[i++].iov_len;
	if (i < l->niov) {
		l->iov[i].iov_buf = (uint8_t *)l->iov[i].iov_buf + n;
		l->iov[i].iov_len -= n;
	}
	for (unsigned k = i; k < l->niov; k++)
		l->iov[k - i] = l->iov[k];
	l->niov -= i;
	return l->niov > 0;
}

/* Write what the socket takes at once. An aio without a callback completes in
 * the caller's thread: no other thread is woken for a send that needs none. One
 * that has not completed is called off, and then has written nothing. Returns
 * 0, NNG_ECANCELED when the socket is full, or nng's error. */
static int
send_now(struct nng_link *l)
{
	int rv = 0;

	while (rv == 0 && l->niov > 0) {
		size_t n;

		nng_aio_set_iov(l->now, l->niov, l->iov);
		nng_stream_send(l->stream, l->now);
		nng_aio_abort(l->now, NNG_ECANCELED);
		nng_aio_wait(l->now);
		rv = (int)nng_aio_result(l->now);
		n = rv == 0 ? nng_aio_count(l->now) : 0;
		l->link.written += n;
		(void)advance(l, n);
	}
	return rv;
}

/* What cannot go now goes by callback, which also tells of any fault. */
static void
start_send(struct nng_link *l)
{
	l->sbusy = 1;
	if (send_now(l) == 0) {
		sli_mailbox_post(l->mb, &l->spost);
		return;
	}
	l->by_callback = 1;
	nng_aio_set_iov(l->saio, l->niov, l->iov);
	nng_stream_send(l->stream, l->saio);
}

static void
on_recv(struct sli_post *self)
{
	struct nng_link *l = SLI_CONTAINER_OF(self, struct nng_link, rpost);
	int rv = (int)nng_aio_result(l->raio);
	size_t n = nng_aio_count(l->raio);

	l->rbusy = 0;
	if (link_try_end(l) || l->link.state == SLI_LINK_CLOSING)
		return;
	if (rv == NNG_ECANCELED) {
		/* sli_link_idle: again, with a small buffer. */
		start_recv(l);
	} else if (rv == NNG_ECONNSHUT) {
		link_fail(l, SLI_OK, 0, "");
	} else if (rv != 0) {
		link_fail(l, SLI_E_CLOSED, rv, "receive");
	} else {
		sli_rbuf_took(&l->rbuf, n);
		sli_link_got(&l->link, sli_slice_of(l->rbuf.mem, n));
	}
}

static void
on_send(struct sli_post *self)
{
	struct nng_link *l = SLI_CONTAINER_OF(self, struct nng_link, spost);
	int rv = l->by_callback ? (int)nng_aio_result(l->saio) : 0;
	size_t n = l->by_callback ? nng_aio_count(l->saio) : 0;

	l->sbusy = l->by_callback = 0;
	l->link.written += n;
	if (link_try_end(l) || l->link.state == SLI_LINK_CLOSING)
		return;
	if (rv != 0)
		link_fail(l, SLI_E_CLOSED, rv, "send");
	else if (advance(l, n))
		start_send(l); /* nng completes after a partial write */
	else
		sli_link_done(&l->link);
}

static void
on_close(struct sli_post *self)
{
	struct nng_link *l = SLI_CONTAINER_OF(self, struct nng_link, cpost);

	l->cbusy = 0;
	(void)link_try_end(l);
}

/* Thread: nng's. */
static void
recv_cb(void *arg)
{
	struct nng_link *l = arg;

	sli_mailbox_post(l->mb, &l->rpost);
}

/* Thread: nng's. */
static void
send_cb(void *arg)
{
	struct nng_link *l = arg;

	sli_mailbox_post(l->mb, &l->spost);
}

static void
op_recv(struct sli_link *link)
{
	start_recv(SLI_CONTAINER_OF(link, struct nng_link, link));
}

static void
op_send(struct sli_link *link, const struct sli_iov *iov, unsigned n)
{
	struct nng_link *l = SLI_CONTAINER_OF(link, struct nng_link, link);

	for (unsigned i = 0; i < n; i++) {
		/* nng's iovec is not const, but a send only reads it. */
		l->iov[i].iov_buf = (void *)(uintptr_t)iov[i].p;
		l->iov[i].iov_len = iov[i].n;
	}
	l->niov = n;
	start_send(l);
}

static void
op_idle(struct sli_link *link)
{
	struct nng_link *l = SLI_CONTAINER_OF(link, struct nng_link, link);

	sli_rbuf_shrink(&l->rbuf);
	if (l->rbusy && l->rbuf.cap > SLI_LINK_RECV_MIN)
		nng_aio_abort(l->raio, NNG_ECANCELED);
}

static void
op_close(struct sli_link *link)
{
	struct nng_link *l = SLI_CONTAINER_OF(link, struct nng_link, link);

	nng_stream_close(l->stream);
	l->cbusy = 1;
	sli_mailbox_post(l->mb, &l->cpost);
}

static const struct sli_link_ops nng_ops = {
    .recv = op_recv,
    .send = op_send,
    .idle = op_idle,
    .close = op_close,
};

static void
name_peer(struct nng_link *l)
{
	struct sli_link_peer *p = &l->link.peer;
	char ip[INET6_ADDRSTRLEN] = "?";
	nng_sockaddr sa;
	uint64_t uid, gid;

	if (nng_stream_get_uint64(l->stream, NNG_OPT_IPC_PEER_UID, &uid) == 0 &&
	    nng_stream_get_uint64(l->stream, NNG_OPT_IPC_PEER_GID, &gid) == 0) {
		p->uid = (uint32_t)uid;
		p->gid = (uint32_t)gid;
		sli_snprintf(p->addr, sizeof(p->addr), "uid:%u", p->uid);
		return;
	}
	if (nng_stream_get_addr(l->stream, NNG_OPT_REMADDR, &sa) != 0) {
		sli_strlcpy(p->addr, "?", sizeof(p->addr));
		return;
	}
	if (sa.s_family == NNG_AF_INET) {
		inet_ntop(AF_INET, &sa.s_in.sa_addr, ip, sizeof(ip));
		sli_snprintf(p->addr, sizeof(p->addr), "%s:%u", ip,
		    ntohs(sa.s_in.sa_port));
	} else if (sa.s_family == NNG_AF_INET6) {
		inet_ntop(AF_INET6, sa.s_in6.sa_addr, ip, sizeof(ip));
		sli_snprintf(p->addr, sizeof(p->addr), "[%s]:%u", ip,
		    ntohs(sa.s_in6.sa_port));
	}
}

struct sli_link *
sli_nng_link_new(nng_stream *stream, struct sli_mailbox *mb)
{
	struct nng_link *l = sli_zalloc(sizeof(*l));

	if (!l) {
		nng_stream_free(stream);
		return NULL;
	}
	sli_link_init(&l->link, &nng_ops, SLI_LINK_OPEN);
	l->mb = mb;
	l->stream = stream;
	l->rpost.fn = on_recv;
	l->spost.fn = on_send;
	l->cpost.fn = on_close;
	if (nng_aio_alloc(&l->raio, recv_cb, l) != 0 ||
	    nng_aio_alloc(&l->saio, send_cb, l) != 0 ||
	    nng_aio_alloc(&l->now, NULL, NULL) != 0) {
		link_free(l);
		return NULL;
	}
	/* Every expiry scans all timed aios; our own timers do that work. */
	nng_aio_set_timeout(l->raio, NNG_DURATION_INFINITE);
	nng_aio_set_timeout(l->saio, NNG_DURATION_INFINITE);
	nng_aio_set_timeout(l->now, NNG_DURATION_INFINITE);
	name_peer(l);
	return &l->link;
}

void
sli_link_nng_fini(void)
{
	nng_fini();
}
