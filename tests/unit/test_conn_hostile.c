/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Peers that mean harm or are broken: junk, slow handshakes, frames that are
 * too long, too many connections, no descriptors left; what an unknown peer
 * can make us hold, and what an idle one costs. */
#include "t_conn.h"
#include "t_sock.h"
#include "unit.h"

#include "base/clock.h"
#include "conn/conn.h"
#include "link/link_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAGIC "\x89SLU"

/* Turns the loop until the peer of fd has ended; what came is in buf. */
static size_t
until_end(struct t_conn *w, int fd, uint8_t *buf, size_t cap)
{
	int64_t end = sli_mono_ms() + 10000;
	size_t n = 0;

	for (;;) {
		ssize_t r = recv(fd, buf + n, cap - n, MSG_DONTWAIT);

		if (r == 0 || (r < 0 && errno != EAGAIN))
			return n;
		if (r > 0)
			n += (size_t)r;
		assert_true(n < cap && sli_mono_ms() < end);
		t_conn_turns(w, 1);
	}
}

/* Sends bytes to a fresh connection and returns what came until its end. */
static size_t
say(struct t_conn *w, const void *p, size_t n, uint8_t *buf, size_t cap)
{
	int fd = t_connect(&w->addr);
	size_t got;

	t_send(fd, p, n);
	got = until_end(w, fd, buf, cap);
	close(fd);
	return got;
}

static void
junk_preambles(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		size_t answer;
		uint8_t status;
	} t[] = {
	    {"GET / HTTP/1.1\r\n\r\n",           18, 0, 0              },
	    {"\x89XLU",			  4,  0, 0              },
	    {"\x16\x03\x01\x02\x00\x01\x00\x01", 8,  0, 0              },
	    {MAGIC "\x02\x07\x00\x00",           8,  8, SLI_E_VERSION  },
	    {MAGIC "\x01\x01\x01\x00",           8,  8, SLI_E_HANDSHAKE},
	};
	struct t_conn w = {0};
	uint8_t buf[256];

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	for (size_t i = 0; i < SLI_ARRAY_LEN(t); i++) {
		assert_int_equal(
		    say(&w, t[i].bytes, t[i].n, buf, sizeof(buf)), t[i].answer);
		if (t[i].answer)
			assert_int_equal(buf[6], t[i].status);
	}
	while (conns_count(w.conns) > 0)
		t_conn_turns(&w, 1);
	t_conn_stop(&w);
}

static void
slow_handshakes(void **state)
{
	static const uint8_t pre[8] = {0x89, 'S', 'L', 'U', 1, 1, 0, 0};
	struct t_conn w = {0};
	uint8_t buf[4096];
	int fd[3];
	int64_t t0;

	(void)state;
	sli_limits_init(&w.limits);
	w.limits.v[SLI_L_WIRE_HANDSHAKE] = 150;
	t_conn_start(&w);
	t0 = sli_mono_ms();
	/* Nothing; half a preamble; a preamble and then a HELLO that never
	 * gets to its end though bytes keep coming. */
	for (unsigned i = 0; i < 3; i++)
		fd[i] = t_connect(&w.addr);
	t_send(fd[1], pre, 5);
	t_send(fd[2], pre, 8);
	t_send(fd[2], "\x64\0\0\0\1\0\0\0", 8);
	for (int i = 0; i < 10; i++) {
		(void)send(fd[2], "\0", 1, MSG_NOSIGNAL);
		t_conn_turns(&w, 2);
	}
	for (unsigned i = 0; i < 3; i++) {
		(void)until_end(&w, fd[i], buf, sizeof(buf));
		close(fd[i]);
	}
	assert_in_range(sli_mono_ms() - t0, 140, 3000);
	while (conns_count(w.conns) > 0)
		t_conn_turns(&w, 1);
	t_conn_stop(&w);
}

/* The last frame in what the server said must be a GOAWAY with this code. */
static void
assert_goaway(const uint8_t *buf, size_t n, enum sli_err code)
{
	size_t at = SLI_PREAMBLE_LEN;
	uint8_t type = 0;
	unsigned aux = 0;

	while (at + 16 <= n) {
		type = buf[at + 4];
		aux = buf[at + 6] | (unsigned)buf[at + 7] << 8;
		at += 16u + (buf[at] | (unsigned)buf[at + 1] << 8 |
				(unsigned)buf[at + 2] << 16);
	}
	assert_int_equal(at, n);
	assert_int_equal(type, 11);
	assert_int_equal(aux, code);
}

static void
broken_frames(void **state)
{
	static const struct {
		uint8_t frame[16];
		enum sli_err code;
	} t[] = {
  /* HELLO of 16 MiB; unknown type; DATA before HELLO. */
	    {{0, 0, 0, 1, 1},             SLI_E_FRAME_SIZE},
	    {{0, 0, 0, 0, 99},            SLI_E_PROTOCOL  },
	    {{4, 0, 0, 0, 4, 1, 0, 0, 1}, SLI_E_PROTOCOL  },
	};
	struct t_conn w = {0};
	uint8_t buf[4096], msg[24] = {0x89, 'S', 'L', 'U', 1, 1, 0, 0};

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	for (size_t i = 0; i < SLI_ARRAY_LEN(t); i++) {
		size_t n;

		memcpy(msg + 8, t[i].frame, 16);
		n = say(&w, msg, sizeof(msg), buf, sizeof(buf));
		assert_true(n >= 8);
		assert_int_equal(buf[6], 0);
		assert_goaway(buf, n, t[i].code);
	}
	t_conn_stop(&w);
}

/* A peer that auth does not know: links in memory have no uid. */
static struct sli_slice heard;
static uint8_t heard_mem[64];
static int heard_end;

static void
mem_recv(void *ctx, struct sli_slice b)
{
	assert_true(b.n <= sizeof(heard_mem));
	memcpy(heard_mem, b.p, b.n);
	heard = sli_slice_of(heard_mem, b.n);
	sli_link_recv(*(struct sli_link **)ctx);
}

static void
mem_sent(void *ctx)
{
	(void)ctx;
}

static void
mem_closed(void *ctx, const struct sli_errinfo *ei)
{
	(void)ei;
	*(struct sli_link **)ctx = NULL;
	heard_end = 1;
}

static void
unknown_peer(void **state)
{
	static const uint8_t pre[8] = {0x89, 'S', 'L', 'U', 1, 1, 0, 0};
	static const struct sli_link_sink sink = {
	    mem_recv, mem_sent, mem_closed};
	struct sli_link *mine, *theirs;
	struct t_conn w = {0};
	struct conn *c;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	assert_int_equal(sli_mem_pair(&mine, &theirs), SLI_OK);
	sli_link_set_sink(mine, &sink, &mine);
	sli_link_recv(mine);
	c = conn_new(w.conns, theirs);
	assert_non_null(c);
	sli_list_add_tail(&w.conns->conns, &c->node);
	w.conns->nconns++;
	sli_link_send(mine, &(struct sli_iov){pre, 8}, 1);
	while (!heard_end) {
		sli_mem_step(theirs, 64);
		loop_turn(w.loop, 1);
	}
	assert_int_equal(heard.n, 8);
	assert_int_equal(heard.p[6], SLI_E_UNAUTHENTICATED);
	t_conn_stop(&w);
}

static void
too_many_connections(void **state)
{
	struct t_conn w = {0};
	struct t_client cl[2] = {{0}};
	uint8_t buf[64];
	int fd;

	(void)state;
	sli_limits_init(&w.limits);
	w.limits.v[SLI_L_WIRE_MAX_CONNECTIONS_UID] = 2;
	t_conn_start(&w);
	t_conn_client(&w, &cl[0]);
	t_conn_client(&w, &cl[1]);
	fd = t_connect(&w.addr);
	/* Told why, though it says nothing. */
	assert_int_equal(until_end(&w, fd, buf, sizeof(buf)), 8);
	assert_memory_equal(buf, "\x89SLU", 4);
	assert_int_equal(buf[6], SLI_E_RESOURCE_EXHAUSTED);
	close(fd);
	/* The same for one that talks. */
	assert_int_equal(
	    say(&w, MAGIC "\x01\x01\0\0\x04\0\0\0", 12, buf, sizeof(buf)), 8);
	assert_int_equal(buf[6], SLI_E_RESOURCE_EXHAUSTED);
	assert_int_equal(conns_count(w.conns), 2);
	t_client_free(&cl[1]);
	w.nclients = 1;
	while (conns_count(w.conns) > 1)
		t_conn_turns(&w, 1);
	t_conn_client(&w, &cl[1]);
	t_conn_stop(&w);
}

static void
strangers_on_tcp(void **state)
{
	struct t_conn w = {.tcp = 1};
	struct t_client cl = {0};
	uint8_t buf[64];
	int fd[3];

	(void)state;
	sli_limits_init(&w.limits);
	w.limits.v[SLI_L_WIRE_MAX_UNAUTHENTICATED] = 2;
	t_conn_start(&w);
	for (unsigned i = 0; i < 3; i++) {
		fd[i] = t_connect(&w.addr);
		t_conn_turns(&w, 3);
	}
	assert_int_equal(until_end(&w, fd[2], buf, sizeof(buf)), 0);
	assert_int_equal(conns_count(w.conns), 2);
	close(fd[0]);
	while (conns_count(w.conns) > 1)
		t_conn_turns(&w, 1);
	t_conn_client(&w, &cl);
	close(fd[1]);
	close(fd[2]);
	t_conn_stop(&w);
}

static void
no_descriptors_no_spin(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {0};
	struct rlimit old, low;
	unsigned turns = 0;
	int64_t end;
	int fd[2], log[2], err = dup(2);
	char said[8192] = "";
	const char *again;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	assert_int_equal(pipe2(log, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(dup2(log[1], 2), 2);
	getrlimit(RLIMIT_NOFILE, &old);
	/* The first may have been accepted before the limit falls. */
	for (unsigned i = 0; i < 2; i++)
		fd[i] = t_connect(&w.addr);
	low = old;
	low.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &low);
	end = sli_mono_ms() + 200;
	while (sli_mono_ms() < end) {
		loop_turn(w.loop, 50);
		turns++;
	}
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(dup2(err, 2), 2);
	assert_true(read(log[0], said, sizeof(said) - 1) > 0);
	close(log[0]);
	close(log[1]);
	close(err);
	/* Said once, not at each try. */
	again = strstr(said, "conn accept");
	assert_non_null(again);
	assert_null(strstr(again + 1, "conn accept"));
	/* One failure and one timer per 20 ms; a spin makes thousands. */
	assert_in_range(turns, 4, 60);
	assert_in_range(conns_count(w.conns), 1, 2);
	while (conns_count(w.conns) < 3)
		t_conn_turns(&w, 1);
	for (unsigned i = 0; i < 2; i++)
		close(fd[i]);
	t_conn_stop(&w);
}

/* What a child that is exec'd would find open. */
static unsigned
fds_of_child(void)
{
	char *const argv[] = {(char *)(uintptr_t) "/bin/sh",
	    (char *)(uintptr_t) "-c",
	    (char *)(uintptr_t) "ls /proc/self/fd | wc -l >&3", NULL};
	char *const envp[] = {NULL};
	posix_spawn_file_actions_t fa;
	char out[16] = "";
	int p[2], st;
	pid_t pid;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, p[1], 3);
	assert_int_equal(posix_spawn(&pid, argv[0], &fa, NULL, argv, envp), 0);
	posix_spawn_file_actions_destroy(&fa);
	close(p[1]);
	assert_true(read(p[0], out, sizeof(out) - 1) > 0);
	close(p[0]);
	waitpid(pid, &st, 0);
	return (unsigned)(out[0] - '0') * (out[1] < '0' ? 1 : 10) +
	       (out[1] < '0' ? 0 : (unsigned)(out[1] - '0'));
}

static void
children_inherit_nothing(void **state)
{
	struct t_conn w = {0};
	struct t_client cl[3] = {{0}};
	unsigned before = fds_of_child();

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	for (unsigned i = 0; i < 3; i++)
		t_conn_client(&w, &cl[i]);
	assert_int_equal(fds_of_child(), before);
	t_conn_stop(&w);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MEMORY 0
#else
#define COUNTS_MEMORY 1
#endif

static size_t
heap_now(void)
{
	struct mallinfo2 mi = mallinfo2();

	return mi.uordblks + mi.hblkhd;
}

#define STRANGERS 100

/* Per peer: nothing said; preamble said; all of the longest HELLO but its last
 * byte. */
static void
memory_of_peers(void **state)
{
	static uint8_t said[8 + 16 + 4095] = {
	    0x89, 'S', 'L', 'U', 1, 1, 0, 0, 0x00, 0x10, 0, 0, 1};
	static const size_t upto[] = {0, 8, sizeof(said)};
	struct t_conn w = {0};
	size_t before, each;
	int fd[STRANGERS];

	(void)state;
	sli_limits_init(&w.limits);
	w.limits.v[SLI_L_WIRE_HANDSHAKE] = 60000;
	t_conn_start(&w);
	for (unsigned k = 0; COUNTS_MEMORY && k < 3; k++) {
		before = heap_now();
		for (unsigned i = 0; i < STRANGERS; i++) {
			fd[i] = t_connect(&w.addr);
			t_send(fd[i], said, upto[k]);
		}
		while (conns_count(w.conns) < STRANGERS)
			t_conn_turns(&w, 1);
		t_conn_turns(&w, 20);
		each = (heap_now() - before) / STRANGERS;
		print_message(
		    "%zu bytes said: %zu bytes held a peer\n", upto[k], each);
		assert_in_range(each, 0, 8192);
		for (unsigned i = 0; i < STRANGERS; i++)
			close(fd[i]);
		while (conns_count(w.conns) > 0)
			t_conn_turns(&w, 1);
	}
	t_conn_stop(&w);
}

/* After megabytes both ways a connection that is quiet gives them back. */
static void
quiet_costs_little(void **state)
{
	struct t_conn w = {0};
	struct t_client cl[8] = {{0}};
	struct t_stream *s;
	struct sli_list *it;
	size_t before, each;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	for (unsigned i = 0; i < 8; i++)
		t_conn_client(&w, &cl[i]);
	before = heap_now();
	for (unsigned i = 0; i < 8; i++) {
		s = t_client_call(&cl[i], M_EXEC, NULL, 0, 0);
		t_client_send(&cl[i], s, 100, 40000, 1);
		t_conn_run(&w, &s->gone);
		assert_int_equal(s->nmsg, 100);
		sli_buf_free(&s->data);
		sli_buf_trim(&cl[i].out);
		sli_link_idle(cl[i].link);
	}
	sli_list_for_each (it, &w.conns->conns) {
		struct conn *c = SLI_LIST_ENTRY(it, struct conn, node);

		while (!c->quiet)
			t_conn_turns(&w, 10);
		assert_int_equal(c->out.cap, 0);
	}
	t_conn_turns(&w, 20);
	each = (heap_now() - before) / 8;
	if (COUNTS_MEMORY) {
		print_message("quiet: %zu more than new, both ends\n", each);
		assert_in_range(each, 0, 16384);
	}
	t_conn_stop(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(junk_preambles),
	    cmocka_unit_test(slow_handshakes),
	    cmocka_unit_test(broken_frames),
	    cmocka_unit_test(unknown_peer),
	    cmocka_unit_test(too_many_connections),
	    cmocka_unit_test(strangers_on_tcp),
	    cmocka_unit_test(no_descriptors_no_spin),
	    cmocka_unit_test(children_inherit_nothing),
	    cmocka_unit_test(memory_of_peers),
	    cmocka_unit_test(quiet_costs_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
