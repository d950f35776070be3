/* SPDX-License-Identifier: Apache-2.0 */
/* Links on plain non-blocking sockets; see link_sock.h. Starts no thread,
 * never blocks, resolves no name, raises no SIGPIPE. */
#include "link/link_sock.h"
#include "link/rbuf.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

/* Unix backlog full: there is no event to wait for. The pause is random, so
 * that a crowd that was turned away does not come back at once. */
#define RETRY_MIN_MS 2
#define RETRY_MAX_MS 15

struct sock_link {
	struct sli_link link;
	int fd;
	int started; /* connect() is under way or done */
	int sent;    /* the send is complete, sink.sent is due */
	struct sockaddr_storage sa;
	socklen_t salen;
	int64_t give_up_ms;
	int64_t retry_ms;
	struct sli_rbuf rbuf;
	struct iovec iov[SLI_LINK_IOV_MAX]; /* what of the send is left */
	unsigned niov;
	struct sli_errinfo why;
};

static struct sock_link *
self(const struct sli_link *l)
{
	return SLI_CONTAINER_OF((void *)(uintptr_t)l, struct sock_link, link);
}

static void
fail(struct sock_link *s, enum sli_err code, int sys, const char *what)
{
	if (s->link.state == SLI_LINK_CLOSING)
		return;
	if (code != SLI_OK)
		sli_fail(&s->why, code, sys, "link.sock", "%s %s", what,
		    s->link.peer.addr);
	sli_link_close(&s->link);
}

/* Drops n written bytes from the front. */
static void
advance(struct sock_link *s, size_t n)
{
	unsigned i = 0;

	while (i < s->niov && n >= s->iov[i].iov_len)
		n -= s->iov[i++].iov_len;
	if (i < s->niov) {
		s->iov[i].iov_base = (uint8_t *)s->iov[i].iov_base + n;
		s->iov[i].iov_len -= n;
	}
	for (unsigned k = i; k < s->niov; k++)
		s->iov[k - i] = s->iov[k];
	s->niov -= i;
}

static void
try_write(struct sock_link *s)
{
	struct msghdr mh = {.msg_iov = s->iov, .msg_iovlen = s->niov};
	ssize_t n;

	do {
		n = sendmsg(s->fd, &mh, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		if (errno != EAGAIN)
			fail(s, SLI_E_CLOSED, errno, "send to");
		return;
	}
	s->link.written += (uint64_t)n;
	advance(s, (size_t)n);
	s->sent = s->niov == 0;
}

static void
op_recv(struct sli_link *l)
{
	(void)l; /* link.receiving is what sli_sock_process looks at */
}

static void
op_send(struct sli_link *l, const struct sli_iov *iov, unsigned n)
{
	struct sock_link *s = self(l);

	for (unsigned i = 0; i < n; i++) {
		s->iov[i].iov_base = (void *)(uintptr_t)iov[i].p;
		s->iov[i].iov_len = iov[i].n;
	}
	s->niov = n;
	if (l->state == SLI_LINK_OPEN)
		try_write(s);
}

static void
op_idle(struct sli_link *l)
{
	sli_rbuf_fini(&self(l)->rbuf);
}

static void
op_close(struct sli_link *l)
{
	/* The descriptor is closed when the link goes: until then its number
	 * must not name something else in the caller's poll set. */
	(void)shutdown(self(l)->fd, SHUT_RDWR);
}

static const struct sli_link_ops sock_ops = {
    .recv = op_recv,
    .send = op_send,
    .idle = op_idle,
    .close = op_close,
};

static void
set_addr(struct sock_link *s, const struct sli_addr *a)
{
	union {
		struct sockaddr_un un;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_storage ss;
	} u = {0};

	if (a->kind == SLI_ADDR_UNIX) {
		u.un.sun_family = AF_UNIX;
		sli_strlcpy(u.un.sun_path, a->path, sizeof(u.un.sun_path));
		s->salen = sizeof(u.un);
	} else if (inet_pton(AF_INET, a->host, &u.in.sin_addr) == 1) {
		u.in.sin_family = AF_INET;
		u.in.sin_port = htons(a->port);
		s->salen = sizeof(u.in);
	} else {
		(void)inet_pton(AF_INET6, a->host, &u.in6.sin6_addr);
		u.in6.sin6_family = AF_INET6;
		u.in6.sin6_port = htons(a->port);
		s->salen = sizeof(u.in6);
	}
	s->sa = u.ss;
	sli_addr_format(a, s->link.peer.addr, sizeof(s->link.peer.addr));
}

static void
connected(struct sock_link *s)
{
	struct ucred uc;
	socklen_t n = sizeof(uc);
	int one = 1;

	if (s->sa.ss_family != AF_UNIX) {
		/* Batches are made above; Nagle would only hold them. */
		(void)setsockopt(
		    s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		(void)setsockopt(
		    s->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	} else if (getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &uc, &n) == 0) {
		s->link.peer.uid = uc.uid;
		s->link.peer.gid = uc.gid;
	}
	sli_link_move(&s->link, SLI_LINK_OPEN);
	if (s->link.sending)
		try_write(s);
}

static int
retry_pause(void)
{
	uint8_t r = 0;

	(void)!getrandom(&r, sizeof(r), GRND_NONBLOCK);
	return RETRY_MIN_MS + r % (RETRY_MAX_MS - RETRY_MIN_MS + 1);
}

/* connect(), or again after a full backlog. */
static enum sli_err
start(struct sock_link *s, int64_t now_ms)
{
	int rv = connect(
	    s->fd, (const struct sockaddr *)(const void *)&s->sa, s->salen);

	if (rv == 0) {
		s->started = 1;
		connected(s);
		return SLI_OK;
	}
	if (errno == EINPROGRESS || errno == EINTR) {
		s->started = 1;
		return SLI_OK;
	}
	if (errno == EAGAIN && s->sa.ss_family == AF_UNIX) {
		s->retry_ms = now_ms + retry_pause();
		return SLI_OK;
	}
	return SLI_E_UNAVAILABLE;
}

enum sli_err
sli_sock_dial(const struct sli_addr *a, int64_t now_ms, int64_t timeout_ms,
    struct sli_link **ret_l, struct sli_errinfo *ei)
{
	struct sock_link *s = sli_zalloc(sizeof(*s));
	enum sli_err rc;

	if (!s)
		return sli_fail(ei, SLI_E_NOMEM, 0, "link.dial", "no memory");
	sli_link_init(&s->link, &sock_ops, SLI_LINK_CONNECTING);
	set_addr(s, a);
	s->give_up_ms = now_ms + timeout_ms;
	s->fd = socket(
	    s->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0) {
		rc = sli_fail(ei, SLI_E_SYS, errno, "link.dial", "socket");
		sli_free(s);
		return rc;
	}
	rc = start(s, now_ms);
	if (rc != SLI_OK) {
		sli_fail(ei, rc, errno, "link.dial", "no server at %s",
		    s->link.peer.addr);
		sli_fd_close(&s->fd);
		sli_free(s);
		return rc;
	}
	*ret_l = &s->link;
	return SLI_OK;
}

int
sli_sock_fd(const struct sli_link *l)
{
	return self(l)->fd;
}

short
sli_sock_events(const struct sli_link *l)
{
	const struct sock_link *s = self(l);
	short ev = 0;

	if (l->state == SLI_LINK_CONNECTING)
		return s->started ? POLLOUT : 0;
	if (l->receiving)
		ev |= POLLIN;
	if (l->sending && !s->sent)
		ev |= POLLOUT;
	return ev;
}

int64_t
sli_sock_due_ms(const struct sli_link *l)
{
	const struct sock_link *s = self(l);

	if (l->state == SLI_LINK_CLOSING || s->sent)
		return 0;
	if (l->state == SLI_LINK_OPEN)
		return INT64_MAX;
	return s->started ? s->give_up_ms : SLI_MIN(s->retry_ms, s->give_up_ms);
}

static void
check_connect(struct sock_link *s, int64_t now_ms)
{
	struct pollfd pf = {.fd = s->fd, .events = POLLOUT};
	socklen_t n = sizeof(int);
	int err = 0;

	if (!s->started && now_ms >= s->retry_ms) {
		if (start(s, now_ms) != SLI_OK)
			fail(s, SLI_E_UNAVAILABLE, errno, "no server at");
	} else if (s->started && poll(&pf, 1, 0) == 1) {
		if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &n) != 0)
			err = errno;
		if (err != 0)
			fail(s, SLI_E_UNAVAILABLE, err, "no server at");
		else
			connected(s);
	}
	if (s->link.state == SLI_LINK_CONNECTING && now_ms >= s->give_up_ms)
		fail(s, SLI_E_UNAVAILABLE, ETIMEDOUT, "no answer from");
}

static void
try_read(struct sock_link *s)
{
	size_t cap;
	uint8_t *mem = sli_rbuf_arm(&s->rbuf, s->link.recv_max, &cap);
	ssize_t n;

	if (!mem) {
		fail(s, SLI_E_NOMEM, 0, "receive buffer for");
		return;
	}
	do {
		n = recv(s->fd, mem, cap, 0);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		sli_rbuf_took(&s->rbuf, (size_t)n);
		sli_link_got(&s->link, sli_slice_of(mem, (size_t)n));
	} else if (n == 0) {
		fail(s, SLI_OK, 0, "");
	} else if (errno != EAGAIN) {
		fail(s, SLI_E_CLOSED, errno, "receive from");
	}
}

int
sli_sock_process(struct sli_link *l, int64_t now_ms)
{
	struct sock_link *s = self(l);

	if (l->state == SLI_LINK_CONNECTING)
		check_connect(s, now_ms);
	if (l->state == SLI_LINK_OPEN && l->sending && !s->sent)
		try_write(s);
	if (l->state == SLI_LINK_OPEN && s->sent) {
		s->sent = 0;
		sli_link_done(l);
	}
	if (l->state == SLI_LINK_OPEN && l->receiving)
		try_read(s);
	if (l->state != SLI_LINK_CLOSING)
		return 1;
	sli_link_ended(l, &s->why);
	sli_sock_drop(l);
	return 0;
}

void
sli_sock_drop(struct sli_link *l)
{
	struct sock_link *s = self(l);

	sli_fd_close(&s->fd);
	sli_rbuf_fini(&s->rbuf);
	sli_free(s);
}
