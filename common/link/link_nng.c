/* SPDX-License-Identifier: Apache-2.0 */
/* Links on nng streams (nng 1.5.2): the only file that sees <nng/...>. It does
 * not parse, and decides nothing about peers.
 *
 * nng's callbacks run on its own threads. Here they do one thing: post. The
 * owner's thread reads the results, starts everything and closes everything,
 * so the state of a link needs no lock, and no send or receive can start after
 * a close (nng would never complete it). A link is freed when each aio that it
 * had started has been posted back and its own close has been too. */
#include "link/link_nng.h"
#include "link/rbuf.h"
#include "link/sockdir.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <nng/nng.h>

#include <arpa/inet.h>
#include <errno.h>

struct nng_link {
	struct sli_link link;
	struct sli_mailbox *mb;
	nng_stream *stream;
	nng_aio *raio;
	nng_aio *saio;
	struct sli_post rpost;
	struct sli_post spost;
	struct sli_post cpost;
	struct sli_rbuf rbuf;
	/* References: each is held until its post was delivered. */
	int rbusy;
	int sbusy;
	int cbusy;
	nng_iov iov[SLI_LINK_IOV_MAX]; /* what of the send is left */
	unsigned niov;
	/* Why it ended. */
	enum sli_err code;
	int rv;
	const char *what;
};

struct sli_listener {
	const struct sli_listener_sink *sink;
	void *ctx;
	struct sli_mailbox *mb;
	nng_stream_listener *sl;
	nng_aio *aio;
	struct sli_post post;
	struct sli_post cpost;
	int busy;
	int cbusy;
	int closed;
	struct sli_addr addr;
};

static int
sys_of(int rv)
{
	return rv & NNG_ESYSERR ? rv & ~NNG_ESYSERR : 0;
}

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
		sli_fail(&ei, l->code, sys_of(l->rv), "link.nng", "%s: %s",
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

static void
start_send(struct nng_link *l)
{
	nng_aio_set_iov(l->saio, l->niov, l->iov);
	l->sbusy = 1;
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

static void
on_send(struct sli_post *self)
{
	struct nng_link *l = SLI_CONTAINER_OF(self, struct nng_link, spost);
	int rv = (int)nng_aio_result(l->saio);
	size_t n = nng_aio_count(l->saio);

	l->sbusy = 0;
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

/* Takes the stream; NULL (stream freed) when memory is out. */
static struct nng_link *
link_new(nng_stream *stream, struct sli_mailbox *mb)
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
	    nng_aio_alloc(&l->saio, send_cb, l) != 0) {
		link_free(l);
		return NULL;
	}
	/* Every expiry scans all timed aios; our own timers do that work. */
	nng_aio_set_timeout(l->raio, NNG_DURATION_INFINITE);
	nng_aio_set_timeout(l->saio, NNG_DURATION_INFINITE);
	name_peer(l);
	return l;
}

/* --- listener --- */

static int
listener_try_end(struct sli_listener *l)
{
	if (!l->closed || l->busy || l->cbusy)
		return 0;
	if (l->sink)
		l->sink->closed(l->ctx);
	nng_stream_listener_free(l->sl);
	nng_aio_reap(l->aio);
	sli_free(l);
	return 1;
}

static void
on_accept(struct sli_post *self)
{
	struct sli_listener *l =
	    SLI_CONTAINER_OF(self, struct sli_listener, post);
	int rv = (int)nng_aio_result(l->aio);
	nng_stream *s = rv == 0 ? nng_aio_get_output(l->aio, 0) : NULL;
	struct nng_link *link;
	struct sli_errinfo ei;

	l->busy = 0;
	if (l->closed) {
		if (s)
			nng_stream_free(s);
		(void)listener_try_end(l);
		return;
	}
	link = s ? link_new(s, l->mb) : NULL;
	if (link) {
		l->sink->accepted(l->ctx, &link->link);
		return;
	}
	if (rv == 0)
		rv = NNG_ENOMEM;
	sli_fail(&ei, SLI_E_RESOURCE_EXHAUSTED, sys_of(rv), "link.accept", "%s",
	    nng_strerror(rv));
	l->sink->failed(l->ctx, &ei);
}

static void
on_listener_close(struct sli_post *self)
{
	struct sli_listener *l =
	    SLI_CONTAINER_OF(self, struct sli_listener, cpost);

	l->cbusy = 0;
	(void)listener_try_end(l);
}

/* Thread: nng's. */
static void
accept_cb(void *arg)
{
	struct sli_listener *l = arg;

	sli_mailbox_post(l->mb, &l->post);
}

static int
bind_unix(struct sli_listener *l)
{
	int rv;

	/* The mode is set between bind and listen: nobody gets in before. */
	rv = nng_stream_listener_set_int(l->sl, NNG_OPT_IPC_PERMISSIONS, 0600);
	if (rv == 0)
		rv = nng_stream_listener_listen(l->sl);
	return rv;
}

static int
bind_tcp(struct sli_listener *l)
{
	int rv, port = 0;

	/* Off by default on nng streams; a two-write exchange would meet
	 * Nagle and delayed acks. */
	rv = nng_stream_listener_set_bool(l->sl, NNG_OPT_TCP_NODELAY, true);
	if (rv == 0)
		rv = nng_stream_listener_listen(l->sl);
	if (rv == 0)
		rv = nng_stream_listener_get_int(
		    l->sl, NNG_OPT_TCP_BOUND_PORT, &port);
	l->addr.port = (uint16_t)port;
	return rv;
}

enum sli_err
sli_listener_new(const struct sli_addr *addr, struct sli_mailbox *mb,
    const struct sli_listener_sink *sink, void *ctx,
    struct sli_listener **ret_l, struct sli_errinfo *ei)
{
	struct sli_listener *l = NULL;
	char url[SLI_URL_MAX];
	enum sli_err rc = SLI_OK;
	int rv;

	if (addr->kind == SLI_ADDR_UNIX)
		rc = sli_sockdir_claim(addr->path, ei);
	if (rc != SLI_OK)
		return rc;
	l = sli_zalloc(sizeof(*l));
	if (!l)
		return sli_fail(ei, SLI_E_NOMEM, 0, "link.listen", "no memory");
	l->sink = sink;
	l->ctx = ctx;
	l->mb = mb;
	l->addr = *addr;
	l->post.fn = on_accept;
	l->cpost.fn = on_listener_close;
	/* nng's scheme for unix sockets is ipc. */
	if (addr->kind == SLI_ADDR_UNIX)
		sli_snprintf(url, sizeof(url), "ipc://%s", addr->path);
	else
		sli_addr_format(addr, url, sizeof(url));
	rv = nng_aio_alloc(&l->aio, accept_cb, l);
	if (rv == 0)
		rv = nng_stream_listener_alloc(&l->sl, url);
	if (rv == 0)
		rv = addr->kind == SLI_ADDR_UNIX ? bind_unix(l) : bind_tcp(l);
	if (rv != 0) {
		rc = sli_fail(ei,
		    rv == NNG_EADDRINUSE ? SLI_E_ALREADY_EXISTS : SLI_E_SYS,
		    sys_of(rv), "link.listen", "%s: %s", url, nng_strerror(rv));
		if (l->sl)
			nng_stream_listener_free(l->sl);
		nng_aio_reap(l->aio);
		sli_free(l);
		return rc;
	}
	*ret_l = l;
	return SLI_OK;
}

const struct sli_addr *
sli_listener_addr(const struct sli_listener *l)
{
	return &l->addr;
}

void
sli_listener_accept(struct sli_listener *l)
{
	if (l->closed || l->busy)
		return;
	l->busy = 1;
	nng_stream_listener_accept(l->sl, l->aio);
}

void
sli_listener_close(struct sli_listener *l)
{
	if (l->closed)
		return;
	l->closed = 1;
	nng_stream_listener_close(l->sl);
	l->cbusy = 1;
	sli_mailbox_post(l->mb, &l->cpost);
}

void
sli_link_nng_fini(void)
{
	nng_fini();
}
