/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The plain socket backend and the in-memory pair: refused, silent and slow
 * servers, every way a peer can leave, sends in parts. */
#include "link/link_mem.h"
#include "link/link_sock.h"
#include "t_sock.h"

#include "base/clock.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

struct end {
	struct sli_link *link;
	uint8_t *buf;
	size_t cap;
	size_t got;
	int sent;
	int closed;
	int close_on_recv;
	enum sli_err why;
};

static void
end_recv(void *ctx, struct sli_slice b)
{
	struct end *e = ctx;

	assert_true(e->got + b.n <= e->cap);
	memcpy(e->buf + e->got, b.p, b.n);
	e->got += b.n;
	if (e->close_on_recv)
		sli_link_close(e->link);
	sli_link_recv(e->link);
}

static void
end_sent(void *ctx)
{
	((struct end *)ctx)->sent++;
}

static void
end_closed(void *ctx, const struct sli_errinfo *ei)
{
	struct end *e = ctx;

	assert_false(e->closed);
	e->closed = 1;
	e->why = ei->code;
	e->link = NULL;
}

static const struct sli_link_sink sink = {end_recv, end_sent, end_closed};

static void
end_use(struct end *e, struct sli_link *l, size_t cap)
{
	*e = (struct end){.link = l, .cap = cap, .buf = malloc(cap)};
	assert_non_null(e->buf);
	sli_link_set_sink(l, &sink, e);
	sli_link_recv(l);
}

/* Poll as an owner does, until *flag or 10 s; with a descriptor to drain. */
static void
run(struct end *e, const int *flag, int drain)
{
	int64_t end = sli_mono_ms() + 10000, now;
	char b[65536];

	while (!*flag && e->link) {
		struct pollfd pf = {.fd = sli_sock_fd(e->link),
		    .events = sli_sock_events(e->link)};
		int64_t due = sli_sock_due_ms(e->link), ms;

		now = sli_mono_ms();
		assert_true(now < end);
		ms = due > now ? SLI_MIN(due - now, 20) : 0;
		(void)poll(&pf, 1, (int)ms);
		if (drain >= 0)
			(void)!recv(drain, b, sizeof(b), MSG_DONTWAIT);
		(void)sli_sock_process(e->link, sli_mono_ms());
	}
	assert_true(*flag);
}

static int
listen_unix(const struct sli_addr *a, int backlog)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sli_strlcpy(un.sun_path, a->path, sizeof(un.sun_path));
	assert_int_equal(
	    bind(fd, (struct sockaddr *)(void *)&un, sizeof(un)), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static int
listen_tcp(struct sli_addr *a)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	socklen_t n = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(
	    bind(fd, (struct sockaddr *)(void *)&in, sizeof(in)), 0);
	assert_int_equal(listen(fd, 8), 0);
	getsockname(fd, (struct sockaddr *)(void *)&in, &n);
	*a = (struct sli_addr){.kind = SLI_ADDR_TCP,
	    .host = "127.0.0.1",
	    .port = ntohs(in.sin_port),
	    .loopback = 1};
	return fd;
}

static void
nobody_there(void **state)
{
	struct sli_link *l = NULL;
	struct sli_errinfo ei;
	struct sli_addr a;
	struct end e;
	char dir[64];
	enum sli_err rc;
	int fd;

	(void)state;
	t_tmpdir(dir);
	a = t_unix(dir, "none");
	assert_int_equal(
	    sli_sock_dial(&a, sli_mono_ms(), 1000, &l, &ei), SLI_E_UNAVAILABLE);
	assert_non_null(strstr(ei.text, "none"));
	fd = listen_unix(&a, 1);
	close(fd);
	assert_int_equal(
	    sli_sock_dial(&a, sli_mono_ms(), 1000, &l, &ei), SLI_E_UNAVAILABLE);
	assert_null(l);
	fd = listen_tcp(&a);
	close(fd);
	rc = sli_sock_dial(&a, sli_mono_ms(), 1000, &l, &ei);
	if (rc == SLI_OK) {
		end_use(&e, l, 1);
		run(&e, &e.closed, -1);
		assert_int_equal(e.why, SLI_E_UNAVAILABLE);
		free(e.buf);
	} else {
		assert_int_equal(rc, SLI_E_UNAVAILABLE);
	}
	t_rmdir(dir);
}

/* A backlog that is full: tried again, given up in time, or let in late. */
static void
backlog_full(void **state)
{
	struct sli_errinfo ei;
	struct sli_addr a;
	struct sli_link *l;
	struct end e;
	struct sli_iov v = {"hi", 2};
	char dir[64], b[2];
	int lfd, first, fd;

	(void)state;
	t_tmpdir(dir);
	a = t_unix(dir, "s");
	lfd = listen_unix(&a, 0);
	first = t_connect(&a);
	assert_int_equal(sli_sock_dial(&a, sli_mono_ms(), 30, &l, &ei), SLI_OK);
	assert_int_equal(sli_link_state(l), SLI_LINK_CONNECTING);
	assert_int_equal(sli_sock_events(l), 0);
	end_use(&e, l, 1);
	run(&e, &e.closed, -1);
	assert_int_equal(e.why, SLI_E_UNAVAILABLE);
	free(e.buf);

	assert_int_equal(
	    sli_sock_dial(&a, sli_mono_ms(), 9000, &l, &ei), SLI_OK);
	end_use(&e, l, 1);
	sli_link_send(l, &v, 1);
	fd = accept(lfd, NULL, NULL);
	assert_true(fd >= 0);
	run(&e, &e.sent, -1);
	close(fd);
	fd = accept(lfd, NULL, NULL);
	t_recv(fd, b, 2);
	assert_memory_equal(b, "hi", 2);
	close(fd);
	run(&e, &e.closed, -1);
	assert_int_equal(e.why, SLI_OK);
	free(e.buf);
	close(first);
	close(lfd);
	t_rmdir(dir);
}

static void
both_ways_and_in_parts(void **state)
{
	const size_t n = 4u << 20;
	uint8_t *big = malloc(n);
	struct sli_iov v[2] = {
	    {big,        1000    },
            {big + 1000, n - 1000}
        };
	struct sli_errinfo ei;
	struct sli_addr a;
	struct sli_link *l;
	struct end e;
	int lfd, fd;

	(void)state;
	memset(big, 'x', n);
	lfd = listen_tcp(&a);
	assert_int_equal(
	    sli_sock_dial(&a, sli_mono_ms(), 9000, &l, &ei), SLI_OK);
	end_use(&e, l, 16);
	fd = accept(lfd, NULL, NULL);
	t_send(fd, "welcome", 7);
	run(&e, (int *)(void *)&e.got, -1);
	assert_memory_equal(e.buf, "welcome", 7);
	assert_int_equal(sli_link_state(l), SLI_LINK_OPEN);
	sli_link_send(l, v, 2);
	assert_int_equal(e.sent, 0);
	run(&e, &e.sent, fd);
	assert_int_equal(sli_link_written(l), n);
	/* Small sends are written at once, but reported by process only. */
	sli_link_send(l, &(struct sli_iov){"y", 1}, 1);
	assert_int_equal(e.sent, 1);
	assert_int_equal(sli_sock_due_ms(l), 0);
	assert_int_equal(sli_sock_process(l, sli_mono_ms()), 1);
	assert_int_equal(e.sent, 2);
	sli_link_idle(l);
	/* Its end, with our bytes unread, is a reset; ours must not be hit by
	 * SIGPIPE when it writes. */
	t_reset(fd);
	sli_link_send(l, v, 2);
	run(&e, &e.closed, -1);
	assert_int_equal(e.why, SLI_E_CLOSED);
	free(e.buf);
	close(lfd);
	free(big);
}

static void
closing(void **state)
{
	struct sli_errinfo ei;
	struct sli_addr a;
	struct sli_link *l;
	struct end e;
	int lfd, fd;
	unsigned fds = t_fds();

	(void)state;
	lfd = listen_tcp(&a);
	/* From inside recv. */
	assert_int_equal(
	    sli_sock_dial(&a, sli_mono_ms(), 9000, &l, &ei), SLI_OK);
	end_use(&e, l, 16);
	e.close_on_recv = 1;
	fd = accept(lfd, NULL, NULL);
	t_send(fd, "bye", 3);
	run(&e, &e.closed, -1);
	assert_int_equal(e.why, SLI_OK);
	assert_true(t_ended(fd));
	close(fd);
	free(e.buf);
	/* While connecting, and without anybody who processes. */
	for (int drop = 0; drop < 2; drop++) {
		assert_int_equal(
		    sli_sock_dial(&a, sli_mono_ms(), 9000, &l, &ei), SLI_OK);
		end_use(&e, l, 16);
		if (drop) {
			sli_sock_drop(l);
		} else {
			sli_link_close(l);
			sli_link_close(l);
			assert_false(e.closed);
			assert_int_equal(sli_sock_process(l, 0), 0);
			assert_int_equal(e.why, SLI_OK);
			assert_true(e.closed);
		}
		free(e.buf);
	}
	close(lfd);
	assert_int_equal(t_fds(), fds);
}

static void
memory_pair(void **state)
{
	struct sli_link *a, *b;
	struct end x, y;
	struct sli_iov v[3] = {
	    {"abc",   3},
            {"defgh", 5},
            {"ij",    2}
        };

	(void)state;
	assert_int_equal(sli_mem_pair(&a, &b), SLI_OK);
	end_use(&x, a, 64);
	end_use(&y, b, 64);
	sli_link_send(a, v, 3);
	sli_link_send(b, v, 1);
	while (sli_mem_step(a, 2))
		;
	assert_int_equal(y.got, 10);
	assert_memory_equal(y.buf, "abcdefghij", 10);
	assert_memory_equal(x.buf, "abc", 3);
	assert_int_equal(x.sent + y.sent, 2);
	sli_link_close(a);
	assert_int_equal(x.closed, 0);
	while (!y.closed)
		sli_mem_step(b, 2);
	assert_true(x.closed);
	assert_int_equal(y.why, SLI_OK);
	free(x.buf);
	free(y.buf);

	assert_int_equal(sli_mem_pair(&a, &b), SLI_OK);
	end_use(&x, a, 64);
	end_use(&y, b, 64);
	sli_mem_cut(a);
	sli_mem_step(a, 2);
	assert_int_equal(x.why, SLI_E_CLOSED);
	assert_int_equal(y.why, SLI_E_CLOSED);
	free(x.buf);
	free(y.buf);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_there),
	    cmocka_unit_test(backlog_full),
	    cmocka_unit_test(both_ways_and_in_parts),
	    cmocka_unit_test(closing),
	    cmocka_unit_test(memory_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
