/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Memory that runs out at every single place of the server, once, while a
 * connection is made and a unary call, a stream and an echo run over it. What
 * cannot be done ends that call or that connection; the next one works. The
 * clients are another process, so that only the server's memory fails. */
#include "t_conn.h"
#include "t_sock.h"
#include "unit.h"

#include "base/clock.h"

#include "sluice/v1/server.pb-c.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 120

/* --- the client's process --- */

static int
until(struct t_client *cl, const int *flag)
{
	int64_t end = sli_mono_ms() + 10000;

	while (!*flag && !cl->closed) {
		if (sli_mono_ms() > end)
			return 0;
		(void)t_client_step(cl);
	}
	return 1;
}

/* 'a': all answered; 'e': a call had an error; 'c': cut off; 'h': it hangs. */
static char
visit(const struct sli_addr *a)
{
	Sluice__V1__EchoRequest r = SLUICE__V1__ECHO_REQUEST__INIT;
	struct t_client cl = {0};
	struct t_stream *s[3] = {NULL};
	char got = 'a';

	t_client_dial(&cl, a);
	if (!until(&cl, &cl.hello))
		return 'h';
	if (cl.goaways > 0 && !until(&cl, &cl.closed))
		return 'h';
	if (!cl.closed) {
		s[0] = t_client_call(&cl, M_ECHO, &r.base, 1, 0);
		s[1] = t_client_call(&cl, M_STATS, NULL, 1, 0);
		s[2] = t_client_call(&cl, M_EXEC, NULL, 0, 0);
		t_client_send(&cl, s[2], 5, 3000, 1);
	}
	for (unsigned i = 0; i < 3 && s[i]; i++) {
		if (!until(&cl, &s[i]->gone))
			return 'h';
		if (s[i]->status != SLI_OK)
			got = 'e';
	}
	if (cl.closed)
		got = 'c';
	t_client_free(&cl);
	return got;
}

static void
visits(const struct sli_addr *a, int in, int out)
{
	char c;

	while (read(in, &c, 1) == 1) {
		c = visit(a);
		if (write(out, &c, 1) != 1)
			break;
	}
	_exit(0);
}

/* --- the server's --- */

struct answer {
	struct loop_fd w;
	int got;
};

static void
on_answer(struct loop_fd *w, uint32_t events)
{
	struct answer *a = SLI_CONTAINER_OF(w, struct answer, w);
	char c = 0;

	(void)events;
	assert_int_equal(read(w->fd, &c, 1), 1);
	a->got = c;
}

static int
round_with(struct t_conn *w, struct answer *a, int to, uint64_t fail_at)
{
	a->got = 0;
	assert_int_equal(write(to, "g", 1), 1);
	sli_mem_fail_at(fail_at);
	while (!a->got)
		loop_turn(w->loop, 100);
	sli_mem_fail_at(0);
	return a->got;
}

static void
every_place_once(void **state)
{
	struct t_conn w = {.stream_total = 50, .stream_pad = 2000};
	struct answer a = {.w = LOOP_FD_INIT};
	int to[2], from[2], counts[128] = {0};
	char dir[64];
	pid_t pid;

	(void)state;
	sli_limits_init(&w.limits);
	t_tmpdir(dir);
	w.addr = t_unix(dir, "s");
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	/* Before nng has a thread. */
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(to[1]);
		close(from[0]);
		visits(&w.addr, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	t_conn_start_in(&w, dir);
	assert_int_equal(
	    loop_fd_add(w.loop, &a.w, from[0], EPOLLIN, on_answer), SLI_OK);
	assert_int_equal(round_with(&w, &a, to[1], 0), 'a');
	for (uint64_t n = 1; n <= ROUNDS; n++) {
		counts[round_with(&w, &a, to[1], n) & 127]++;
		assert_int_equal(round_with(&w, &a, to[1], 0), 'a');
	}
	print_message("%d went well, %d with an error, %d cut off\n",
	    counts['a'], counts['e'], counts['c']);
	assert_int_equal(counts['h'], 0);
	assert_true(counts['a'] > 0 && counts['e'] + counts['c'] > 0);
	close(to[1]);
	loop_fd_del(&a.w);
	close(from[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	t_conn_stop(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_place_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
