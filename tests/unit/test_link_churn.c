/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* The nng backend with many peers: descriptors that run out, descriptors that
 * must not be inherited, and some hundred connections that end in every way. */
#include "t_link.h"
#include "t_sock.h"

#include "base/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void
no_descriptor_survives_exec(void **state)
{
	struct t_server s;
	int fds[8], fl;
	char was[256];

	(void)state;
	/* What whoever started this test left open is not ours. */
	for (int fd = 3; fd < 256; fd++)
		was[fd] = fcntl(fd, F_GETFD) >= 0;
	t_server_start(&s, 0);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(fds); i++)
		fds[i] = t_server_dial(&s);
	for (int fd = 3; fd < 256; fd++) {
		fl = fcntl(fd, F_GETFD);
		assert_true(was[fd] || fl < 0 || (fl & FD_CLOEXEC));
	}
	for (unsigned i = 0; i < SLI_ARRAY_LEN(fds); i++)
		close(fds[i]);
	t_server_stop(&s);
}

static void
out_of_descriptors(void **state)
{
	struct t_server s;
	struct rlimit old, low;
	int fds[4];

	(void)state;
	t_server_start(&s, 0);
	s.hold = 1;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(fds); i++)
		fds[i] = t_connect(sli_listener_addr(s.lis));
	/* What is accepted already may go on; nothing new may be opened. */
	low = old;
	low.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	t_server_turn(&s, &s.failed, 1);
	for (int i = 0; i < 10; i++)
		loop_turn(s.loop, 5);
	assert_int_equal(s.failed, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	sli_listener_accept(s.lis);
	t_server_turn(&s, &s.accepted, SLI_ARRAY_LEN(fds));
	for (unsigned i = 0; i < SLI_ARRAY_LEN(fds); i++)
		close(fds[i]);
	t_server_stop(&s);
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
		struct t_server s;
		struct churn c[CHURNERS];
		pthread_t th[CHURNERS];
		unsigned before = t_fds(), zero = 0;
		int64_t end = sli_mono_ms() + 60000;

		(void)state;
		t_server_start(&s, tcp);
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
		t_server_stop(&s);
		assert_int_equal(t_fds(), before);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_descriptor_survives_exec),
	    cmocka_unit_test(out_of_descriptors),
	    cmocka_unit_test(many_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
