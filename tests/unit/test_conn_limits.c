/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The wire limits that a configuration may set reach the connections: a peer
 * that takes no bytes, one that is dead, and a HELLO that is too long, each
 * with a small value over a real socket. */
#include "t_conn.h"
#include "t_sock.h"
#include "unit.h"

#include "base/clock.h"

#include <unistd.h>

/* Turns until no connection is left; 0 when one still is after ms. */
static int
all_leave(struct t_conn *w, int64_t ms)
{
	int64_t end = sli_mono_ms() + ms;

	while (conns_count(w->conns) > 0 && sli_mono_ms() < end)
		t_conn_turns(w, 1);
	return conns_count(w->conns) == 0;
}

/* More than socket and link take: output is wanted from then on. */
static void
ask_and_never_read(struct t_client *cl)
{
	for (unsigned i = 0; i < 8; i++)
		(void)t_client_call(cl, M_STATS, NULL, 1, 0);
	cl->deaf = 1;
}

static void
write_stall(void **state)
{
	struct t_conn w = {.stream_total = 100000, .stream_pad = 2000};
	struct t_client cl = {.keepalive_s = 20};
	int64_t t0;

	(void)state;
	sli_limits_init(&w.limits);
	w.limits.v[SLI_L_WIRE_WRITE_STALL] = 300;
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	ask_and_never_read(&cl);
	t0 = sli_mono_ms();
	assert_true(all_leave(&w, 10000));
	assert_true(sli_mono_ms() - t0 >= 250);
	t_conn_stop(&w);
}

/* A blocking handle says keepalive_s 0: it may take as long as it likes. */
static void
no_write_stall(void **state)
{
	struct t_conn w = {.stream_total = 100000, .stream_pad = 2000};
	struct t_client cl = {.keepalive_s = 0};

	(void)state;
	sli_limits_init(&w.limits);
	w.limits.v[SLI_L_WIRE_WRITE_STALL] = 300;
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	ask_and_never_read(&cl);
	assert_false(all_leave(&w, 1200));
	assert_int_equal(conns_count(w.conns), 1);
	t_conn_stop(&w);
}

static void
dead_peer(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {.keepalive_s = 1};

	(void)state;
	sli_limits_init(&w.limits);
	w.limits.v[SLI_L_WIRE_KEEPALIVE_DEAD] = 300;
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	cl.deaf = 1; /* hears no PING */
	assert_true(all_leave(&w, 8000));
	t_conn_stop(&w);
}

/* Preamble, and a HELLO padded with a field that nobody knows. */
static int
hello_of_600(struct t_conn *w)
{
	uint8_t b[8 + 16 + 600] = {
	    0x89, 'S', 'L', 'U', 1, 1, 0, 0, 600 & 255, 600 >> 8, 0, 0, 1};
	int fd = t_connect(&w->addr);

	/* version 1; field 15, 595 bytes */
	memcpy(b + 24, "\x08\x01\x7a\xd3\x04", 5);
	t_send(fd, b, sizeof(b));
	while (conns_count(w->conns) == 0)
		t_conn_turns(w, 1);
	return fd;
}

static void
long_hello(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct t_conn w = {0};
		int fd;

		sli_limits_init(&w.limits);
		w.limits.v[SLI_L_WIRE_HELLO] = i ? 512 : 4096;
		t_conn_start(&w);
		fd = hello_of_600(&w);
		assert_int_equal(all_leave(&w, i ? 5000 : 500), i);
		close(fd);
		t_conn_stop(&w);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(write_stall),
	    cmocka_unit_test(no_write_stall),
	    cmocka_unit_test(dead_peer),
	    cmocka_unit_test(long_hello),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
