/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* The nng backend against raw sockets: every way a peer can leave, sends that
 * are written in parts, closing with everything in flight. */
#include "link/sockdir.h"
#include "t_link.h"
#include "t_sock.h"

#include "base/clock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

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
	    sli_listener_new(&a, loop_mailbox(l), &t_server_sink, l, &lis, &ei),
	    SLI_E_FAILED_PRECONDITION);
	assert_int_equal(stat(a.path, &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(chmod(dir, 0755), 0);
	a = t_unix(dir, "s");
	assert_int_equal(
	    sli_listener_new(&a, loop_mailbox(l), &t_server_sink, l, &lis, &ei),
	    SLI_E_PERMISSION_DENIED);
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(symlink("/tmp", t_unix(dir, "link").path), 0);
	a = t_unix(dir, "link/s");
	assert_int_equal(
	    sli_listener_new(&a, loop_mailbox(l), &t_server_sink, l, &lis, &ei),
	    SLI_E_PERMISSION_DENIED);
	assert_int_equal(unlink(t_unix(dir, "link").path), 0);
	/* Shared: others may pass through, and no more. */
	a = t_unix(dir, "s");
	a.shared = 1;
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(
	    sli_listener_new(&a, loop_mailbox(l), &t_server_sink, l, &lis, &ei),
	    SLI_E_PERMISSION_DENIED);
	/* Not shared any more: closed again. */
	assert_int_equal(chmod(dir, 0711), 0);
	assert_int_equal(sli_sockdir_claim(t_unix(dir, "s").path, 0, &ei), 0);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(sli_sockdir_claim(t_unix(dir, "s").path, 1, &ei), 0);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0711);
	assert_int_equal(chmod(dir, 0700), 0);
	a = t_unix(dir, "no/such/s");
	assert_int_not_equal(
	    sli_listener_new(&a, loop_mailbox(l), &t_server_sink, l, &lis, &ei),
	    SLI_OK);
	assert_null(lis);
	loop_free(l);
	t_rmdir(dir);
}

static void
live_socket_is_kept_stale_is_replaced(void **state)
{
	struct t_server s;
	struct sli_listener *lis = NULL;
	struct sli_addr a;
	struct sli_errinfo ei;
	struct stat st;
	int fd;

	(void)state;
	t_server_start(&s, 0);
	a = *sli_listener_addr(s.lis);
	assert_int_equal(stat(a.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(sli_listener_new(&a, loop_mailbox(s.loop),
			     &t_server_sink, &s, &lis, &ei),
	    SLI_E_ALREADY_EXISTS);
	assert_int_equal(stat(a.path, &st), 0);
	fd = t_server_dial(&s);
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
	t_server_turn_flag(&s, &s.lis_closed);
	s.lis_closed = 0;
	assert_int_equal(sli_listener_new(&a, loop_mailbox(s.loop),
			     &t_server_sink, &s, &s.lis, &ei),
	    SLI_OK);
	sli_listener_accept(s.lis);
	fd = t_server_dial(&s);
	close(fd);
	t_server_stop(&s);
	assert_int_not_equal(stat(a.path, &st), 0);
}

/* --- one connection --- */

static void
echo_and_peer(void **state)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		struct t_server s;
		char buf[5];
		int fd;

		(void)state;
		t_server_start(&s, tcp);
		s.echo = 1;
		fd = t_server_dial(&s);
		if (tcp)
			assert_memory_equal(
			    s.ends->link->peer.addr, "127.0.0.1:", 10);
		assert_int_equal(sli_link_peer(s.ends->link)->uid,
		    tcp ? (uint32_t)-1 : geteuid());
		t_send(fd, "hello", 5);
		t_server_turn_flag(&s, &s.ends->sent);
		t_recv(fd, buf, 5);
		assert_memory_equal(buf, "hello", 5);
		assert_int_equal(sli_link_written(s.ends->link), 5);
		close(fd);
		t_server_turn_flag(&s, &s.ends->closed);
		assert_int_equal(s.ends->why, SLI_OK);
		t_server_stop(&s);
	}
}

static void
reset_by_peer(void **state)
{
	struct t_server s;
	int fd;

	(void)state;
	t_server_start(&s, 1);
	fd = t_server_dial(&s);
	t_send(fd, "half", 4);
	t_reset(fd);
	t_server_turn_flag(&s, &s.ends->closed);
	t_server_stop(&s);
}

/* A peer that never reads: the send is written in parts as it wakes up. */
static void
send_in_parts(void **state)
{
	const size_t n = 8u << 20;
	uint8_t *big = malloc(n), *back = malloc(n);
	struct t_server s;
	struct sli_iov v[2] = {
	    {big,         n / 2},
            {big + n / 2, n / 2}
        };
	int fd;

	(void)state;
	for (size_t i = 0; i < n; i++)
		big[i] = (uint8_t)(i * 2654435761u >> 13);
	for (int tcp = 0; tcp < 2; tcp++) {
		t_server_start(&s, tcp);
		fd = t_server_dial(&s);
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
		t_server_turn_flag(&s, &s.ends->sent);
		assert_memory_equal(big, back, n);
		assert_int_equal(sli_link_written(s.ends->link), n);
		close(fd);
		t_server_stop(&s);
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
	struct t_server s;
	struct sli_iov v = {big, n};
	int fd;

	(void)state;
	t_server_start(&s, 0);
	fd = t_server_dial(&s);
	sli_link_send(s.ends->link, &v, 1);
	loop_turn(s.loop, 10);
	sli_link_close(s.ends->link);
	sli_link_close(s.ends->link);
	/* Nothing starts any more, and nothing is lost for it. */
	sli_link_recv(s.ends->link);
	assert_false(s.ends->closed);
	t_server_turn_flag(&s, &s.ends->closed);
	assert_int_equal(s.ends->why, SLI_OK);
	assert_true(t_ended(fd));
	close(fd);
	t_server_stop(&s);
	free(big);
}

static void
big_then_idle(void **state)
{
	const size_t n = 2u << 20;
	uint8_t *big = calloc(1, n);
	struct t_server s;
	int64_t end = sli_mono_ms() + 10000;
	int fd;

	(void)state;
	t_server_start(&s, 0);
	fd = t_server_dial(&s);
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
	t_server_stop(&s);
	free(big);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
