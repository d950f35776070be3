/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* The nng backend against raw sockets: every way a peer can leave, sends that
 * are written in parts, closing with everything in flight, and churn. */
#include "link/link_nng.h"
#include "loop/loop.h"
#include "t_sock.h"

#include "base/clock.h"
#include "base/mem.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* One server end: echoes what it gets, or only counts it. */
struct end {
	struct server *srv;
	struct sli_link *link;
	uint8_t *out;
	size_t got;
	int echo;
	int rude; /* closes at its first bytes */
	int sent;
	int closed;
	enum sli_err why;
	struct end *next;
};

struct server {
	struct loop *loop;
	struct sli_listener *lis;
	struct end *ends;
	char dir[64];
	unsigned accepted;
	unsigned alive;
	unsigned failed;
	int hold; /* do not arm accept again after a failure */
	int echo;
	int rude_each; /* every n-th end is rude */
	int lis_closed;
};

static void
end_recv(void *ctx, struct sli_slice b)
{
	struct end *e = ctx;

	e->got += b.n;
	if (e->rude) {
		sli_link_close(e->link);
		return;
	}
	if (e->echo && !sli_link_sending(e->link)) {
		struct sli_iov v;

		sli_free(e->out);
		e->out = sli_memdup(b.p, b.n);
		v = (struct sli_iov){e->out, b.n};
		sli_link_send(e->link, &v, 1);
	}
	sli_link_recv(e->link);
}

static void
end_sent(void *ctx)
{
	struct end *e = ctx;

	e->sent++;
}

static void
end_closed(void *ctx, const struct sli_errinfo *ei)
{
	struct end *e = ctx;

	assert_false(e->closed);
	e->closed = 1;
	e->why = ei->code;
	e->link = NULL;
	e->srv->alive--;
}

static const struct sli_link_sink end_sink = {end_recv, end_sent, end_closed};

static void
on_accepted(void *ctx, struct sli_link *l)
{
	struct server *s = ctx;
	struct end *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->srv = s;
	e->link = l;
	e->echo = s->echo;
	e->next = s->ends;
	s->ends = e;
	s->accepted++;
	s->alive++;
	e->rude = s->rude_each && s->accepted % (unsigned)s->rude_each == 0;
	sli_link_set_sink(l, &end_sink, e);
	sli_link_recv(l);
	sli_listener_accept(s->lis);
}

static void
on_failed(void *ctx, const struct sli_errinfo *ei)
{
	struct server *s = ctx;

	assert_int_equal(ei->code, SLI_E_RESOURCE_EXHAUSTED);
	s->failed++;
	if (!s->hold)
		sli_listener_accept(s->lis);
}

static void
on_lis_closed(void *ctx)
{
	((struct server *)ctx)->lis_closed = 1;
}

static const struct sli_listener_sink lis_sink = {
    on_accepted, on_failed, on_lis_closed};

static void
server_start(struct server *s, int tcp)
{
	struct sli_addr a = {
	    .kind = SLI_ADDR_TCP, .host = "127.0.0.1", .loopback = 1};
	struct sli_errinfo ei;

	memset(s, 0, sizeof(*s));
	s->loop = loop_new(NULL);
	assert_non_null(s->loop);
	t_tmpdir(s->dir);
	if (!tcp)
		a = t_unix(s->dir, "s");
	assert_int_equal(sli_listener_new(&a, loop_mailbox(s->loop), &lis_sink,
			     s, &s->lis, &ei),
	    SLI_OK);
	sli_listener_accept(s->lis);
}

/* Turn the loop until *flag >= want, at most 10 s. */
static void
turn_until(struct server *s, const unsigned *flag, unsigned want)
{
	int64_t end = sli_mono_ms() + 10000;

	while (*flag < want) {
		assert_true(sli_mono_ms() < end);
		loop_turn(s->loop, 100);
	}
}

static void
turn_until_flag(struct server *s, const int *flag)
{
	int64_t end = sli_mono_ms() + 10000;

	while (!*flag) {
		assert_true(sli_mono_ms() < end);
		loop_turn(s->loop, 100);
	}
}

static void
server_stop(struct server *s)
{
	int64_t end = sli_mono_ms() + 10000;

	sli_listener_close(s->lis);
	sli_listener_close(s->lis);
	for (struct end *e = s->ends; e; e = e->next)
		if (e->link)
			sli_link_close(e->link);
	while (!s->lis_closed || s->alive > 0) {
		assert_true(sli_mono_ms() < end);
		loop_turn(s->loop, 100);
	}
	while (s->ends) {
		struct end *e = s->ends;

		s->ends = e->next;
		sli_free(e->out);
		free(e);
	}
	sli_link_nng_fini();
	loop_free(s->loop);
	t_rmdir(s->dir);
}

static int
dial(struct server *s)
{
	unsigned want = s->accepted + 1;
	int fd = t_connect(sli_listener_addr(s->lis));

	turn_until(s, &s->accepted, want);
	return fd;
}

/* --- where to listen --- */

static void
refuses_bad_places(void **state)
{
	struct loop *l = loop_new(NULL);
	struct sli_listener *lis = NULL;
	struct sli_errinfo ei;
	struct sli_addr a;
	struct stat st;
	char dir[64];
	int fd;

	(void)state;
	t_tmpdir(dir);
	a = t_unix(dir, "file");
	fd = open(a.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "data", 4), 4);
	close(fd);
	assert_int_equal(
	    sli_listener_new(&a, loop_mailbox(l), &lis_sink, l, &lis, &ei),
	    SLI_E_FAILED_PRECONDITION);
	assert_int_equal(stat(a.path, &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(chmod(dir, 0755), 0);
	a = t_unix(dir, "s");
	assert_int_equal(
	    sli_listener_new(&a, loop_mailbox(l), &lis_sink, l, &lis, &ei),
	    SLI_E_PERMISSION_DENIED);
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(symlink("/tmp", t_unix(dir, "link").path), 0);
	a = t_unix(dir, "link/s");
	assert_int_equal(
	    sli_listener_new(&a, loop_mailbox(l), &lis_sink, l, &lis, &ei),
	    SLI_E_PERMISSION_DENIED);
	a = t_unix(dir, "no/such/s");
	assert_int_not_equal(
	    sli_listener_new(&a, loop_mailbox(l), &lis_sink, l, &lis, &ei),
	    SLI_OK);
	assert_null(lis);
	loop_free(l);
	t_rmdir(dir);
}

static void
live_socket_is_kept_stale_is_replaced(void **state)
{
	struct server s;
	struct sli_listener *lis = NULL;
	struct sli_addr a;
	struct sli_errinfo ei;
	struct stat st;
	int fd;

	(void)state;
	server_start(&s, 0);
	a = *sli_listener_addr(s.lis);
	assert_int_equal(stat(a.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(sli_listener_new(&a, loop_mailbox(s.loop), &lis_sink,
			     &s, &lis, &ei),
	    SLI_E_ALREADY_EXISTS);
	assert_int_equal(stat(a.path, &st), 0);
	fd = dial(&s);
	close(fd);
	/* A socket file that nobody listens on. */
	a = t_unix(s.dir, "stale");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	{
		struct sockaddr_un un = {.sun_family = AF_UNIX};

		memcpy(un.sun_path, a.path, sizeof(un.sun_path));
		assert_int_equal(
		    bind(fd, (struct sockaddr *)(void *)&un, sizeof(un)), 0);
	}
	close(fd);
	sli_listener_close(s.lis);
	turn_until_flag(&s, &s.lis_closed);
	s.lis_closed = 0;
	assert_int_equal(sli_listener_new(&a, loop_mailbox(s.loop), &lis_sink,
			     &s, &s.lis, &ei),
	    SLI_OK);
	sli_listener_accept(s.lis);
	fd = dial(&s);
	close(fd);
	server_stop(&s);
	assert_int_not_equal(stat(a.path, &st), 0);
}

/* --- one connection --- */

static void
echo_and_peer(void **state)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		struct server s;
		char buf[5];
		int fd;

		(void)state;
		server_start(&s, tcp);
		s.echo = 1;
		fd = dial(&s);
		if (tcp)
			assert_memory_equal(
			    s.ends->link->peer.addr, "127.0.0.1:", 10);
		assert_int_equal(sli_link_peer(s.ends->link)->uid,
		    tcp ? (uint32_t)-1 : geteuid());
		t_send(fd, "hello", 5);
		turn_until_flag(&s, &s.ends->sent);
		t_recv(fd, buf, 5);
		assert_memory_equal(buf, "hello", 5);
		assert_int_equal(sli_link_written(s.ends->link), 5);
		close(fd);
		turn_until_flag(&s, &s.ends->closed);
		assert_int_equal(s.ends->why, SLI_OK);
		server_stop(&s);
	}
}

static void
reset_by_peer(void **state)
{
	struct server s;
	int fd;

	(void)state;
	server_start(&s, 1);
	fd = dial(&s);
	t_send(fd, "half", 4);
	t_reset(fd);
	turn_until_flag(&s, &s.ends->closed);
	server_stop(&s);
}

/* A peer that never reads: the send is written in parts as it wakes up. */
static void
send_in_parts(void **state)
{
	const size_t n = 8u << 20;
	uint8_t *big = malloc(n), *back = malloc(n);
	struct server s;
	struct sli_iov v[2] = {
	    {big,         n / 2},
            {big + n / 2, n / 2}
        };
	int fd;

	(void)state;
	for (size_t i = 0; i < n; i++)
		big[i] = (uint8_t)(i * 2654435761u >> 13);
	for (int tcp = 0; tcp < 2; tcp++) {
		server_start(&s, tcp);
		fd = dial(&s);
		sli_link_send(s.ends->link, v, 2);
		assert_true(sli_link_sending(s.ends->link));
		for (int i = 0; i < 3; i++)
			loop_turn(s.loop, 10);
		assert_int_equal(s.ends->sent, 0);
		assert_true(sli_link_written(s.ends->link) > 0);
		assert_true(sli_link_written(s.ends->link) < n);
		for (size_t at = 0; at < n;) {
			ssize_t r = recv(fd, back + at, 65536, MSG_DONTWAIT);

			if (r > 0)
				at += (size_t)r;
			loop_turn(s.loop, r > 0 ? 0 : 10);
		}
		turn_until_flag(&s, &s.ends->sent);
		assert_memory_equal(big, back, n);
		assert_int_equal(sli_link_written(s.ends->link), n);
		close(fd);
		server_stop(&s);
	}
	free(big);
	free(back);
}

/* Closing while a receive is armed and a send can make no progress. */
static void
close_in_flight(void **state)
{
	const size_t n = 8u << 20;
	uint8_t *big = calloc(1, n);
	struct server s;
	struct sli_iov v = {big, n};
	int fd;

	(void)state;
	server_start(&s, 0);
	fd = dial(&s);
	sli_link_send(s.ends->link, &v, 1);
	loop_turn(s.loop, 10);
	sli_link_close(s.ends->link);
	sli_link_close(s.ends->link);
	/* Nothing starts any more, and nothing is lost for it. */
	sli_link_recv(s.ends->link);
	assert_false(s.ends->closed);
	turn_until_flag(&s, &s.ends->closed);
	assert_int_equal(s.ends->why, SLI_OK);
	assert_true(t_ended(fd));
	close(fd);
	server_stop(&s);
	free(big);
}

static void
big_then_idle(void **state)
{
	const size_t n = 2u << 20;
	uint8_t *big = calloc(1, n);
	struct server s;
	int64_t end = sli_mono_ms() + 10000;
	int fd;

	(void)state;
	server_start(&s, 0);
	fd = dial(&s);
	for (size_t at = 0; at < n; at += 65536) {
		t_send(fd, big + at, 65536);
		while (s.ends->got < at + 65536 && sli_mono_ms() < end)
			loop_turn(s.loop, 100);
	}
	assert_int_equal(s.ends->got, n);
	sli_link_idle(s.ends->link);
	loop_turn(s.loop, 20);
	sli_link_recv_max(s.ends->link, 1);
	t_send(fd, "x", 1);
	while (s.ends->got < n + 1 && sli_mono_ms() < end)
		loop_turn(s.loop, 100);
	assert_int_equal(s.ends->got, n + 1);
	close(fd);
	server_stop(&s);
	free(big);
}

/* --- many --- */

static void
no_descriptor_survives_exec(void **state)
{
	struct server s;
	int fds[8], fl;
	char was[256];

	(void)state;
	/* What whoever started this test left open is not ours. */
	for (int fd = 3; fd < 256; fd++)
		was[fd] = fcntl(fd, F_GETFD) >= 0;
	server_start(&s, 0);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(fds); i++)
		fds[i] = dial(&s);
	for (int fd = 3; fd < 256; fd++) {
		fl = fcntl(fd, F_GETFD);
		assert_true(was[fd] || fl < 0 || (fl & FD_CLOEXEC));
	}
	for (unsigned i = 0; i < SLI_ARRAY_LEN(fds); i++)
		close(fds[i]);
	server_stop(&s);
}

static void
out_of_descriptors(void **state)
{
	struct server s;
	struct rlimit old, low;
	int fds[4];

	(void)state;
	server_start(&s, 0);
	s.hold = 1;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(fds); i++)
		fds[i] = t_connect(sli_listener_addr(s.lis));
	/* What is accepted already may go on; nothing new may be opened. */
	low = old;
	low.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	turn_until(&s, &s.failed, 1);
	for (int i = 0; i < 10; i++)
		loop_turn(s.loop, 5);
	assert_int_equal(s.failed, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	sli_listener_accept(s.lis);
	turn_until(&s, &s.accepted, SLI_ARRAY_LEN(fds));
	for (unsigned i = 0; i < SLI_ARRAY_LEN(fds); i++)
		close(fds[i]);
	server_stop(&s);
}

struct churn {
	struct sli_addr addr;
	unsigned seed;
};

#define CHURNERS 4
#define ROUNDS   100

static void *
churn(void *arg)
{
	struct churn *c = arg;
	uint8_t buf[2000] = {0};

	for (int i = 0; i < ROUNDS; i++) {
		int fd = t_connect(&c->addr);
		unsigned kind;

		c->seed = c->seed * 1103515245u + 12345u;
		kind = (c->seed >> 16) % 5;
		for (unsigned k = 0; k < kind * 3; k++)
			if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL) < 0)
				break;
		if (kind == 1)
			(void)!recv(fd, buf, sizeof(buf), 0);
		if (kind == 2 || kind == 3)
			t_reset(fd);
		else
			close(fd);
	}
	return NULL;
}

static void
many_come_and_go(void **state)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		struct server s;
		struct churn c[CHURNERS];
		pthread_t th[CHURNERS];
		unsigned before = t_fds(), zero = 0;
		int64_t end = sli_mono_ms() + 60000;

		(void)state;
		server_start(&s, tcp);
		s.echo = 1;
		s.rude_each = 7;
		for (unsigned i = 0; i < CHURNERS; i++) {
			c[i].addr = *sli_listener_addr(s.lis);
			c[i].seed = i + 1;
			assert_int_equal(
			    pthread_create(&th[i], NULL, churn, &c[i]), 0);
		}
		while (s.accepted < CHURNERS * ROUNDS || s.alive > zero) {
			assert_true(sli_mono_ms() < end);
			loop_turn(s.loop, 100);
		}
		for (unsigned i = 0; i < CHURNERS; i++)
			pthread_join(th[i], NULL);
		assert_int_equal(s.failed, 0);
		server_stop(&s);
		assert_int_equal(t_fds(), before);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(refuses_bad_places),
	    cmocka_unit_test(live_socket_is_kept_stale_is_replaced),
	    cmocka_unit_test(echo_and_peer),
	    cmocka_unit_test(reset_by_peer),
	    cmocka_unit_test(send_in_parts),
	    cmocka_unit_test(close_in_flight),
	    cmocka_unit_test(big_then_idle),
	    cmocka_unit_test(no_descriptor_survives_exec),
	    cmocka_unit_test(out_of_descriptors),
	    cmocka_unit_test(many_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
