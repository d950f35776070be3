/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* What may be done inside a callback of libsluice, and what a lost connection
 * does to what runs: no call back after a free, every end exactly once. */
#include "unit.h"

#include "fakesrv.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SUBSCRIBE "sluice.v1.Sessions/Subscribe" /* server stream */
#define ECHO      "sluice.v1.Server/Echo"        /* unary */

struct seen {
	sluice_stream *s;
	int n;
	int ended;
	int32_t code;
	void (*in_message)(struct seen *x, sluice_stream *s, sluice_msg *m);
	void (*in_result)(struct seen *x, sluice_stream *s);
	sluice_client *c;
	int seen_busy;
	int closed;
	int32_t why;
};

static void
on_message(void *arg, sluice_stream *s, sluice_msg *m)
{
	struct seen *x = arg;

	x->n++;
	if (x->in_message)
		x->in_message(x, s, m);
	else
		sluice_msg_done(m);
}

static void
on_result(void *arg, sluice_stream *s, const struct sluice_error *err,
    const void *body, size_t n)
{
	struct seen *x = arg;

	(void)body;
	(void)n;
	assert_int_equal(x->ended, 0);
	x->ended = 1;
	x->code = err ? err->code : 0;
	if (x->in_result)
		x->in_result(x, s);
}

static const struct sluice_handler handler = {
    .size = sizeof(struct sluice_handler),
    .on_message = on_message,
    .on_result = on_result,
};

static void
begin(struct fake *f, struct seen *x, const char *method)
{
	assert_int_equal(
	    sluice_call(x->c, method, "req", 3, NULL, &handler, x, &x->s, NULL),
	    SLUICE_OK);
	fake_turn(f, x->c, NULL);
}

static void
finish(struct fake *f, struct seen *x)
{
	sluice_stream_free(x->s);
	sluice_close(x->c);
	fake_stop(f);
}

static void
start(struct fake *f, struct seen *x)
{
	memset(x, 0, sizeof(*x));
	fake_start(f);
	x->c = fake_client(f, NULL);
}

/* --- inside callbacks ----------------------------------------------------*/

static void
try_all_that_waits(struct seen *x, sluice_stream *s, sluice_msg *m)
{
	void *body;
	size_t n;

	assert_int_equal(sluice_process(x->c, NULL), SLUICE_E_BUSY);
	assert_int_equal(sluice_wait(x->c, 0, NULL), SLUICE_E_BUSY);
	assert_int_equal(sluice_stream_wait(s, 0, NULL), SLUICE_E_BUSY);
	assert_int_equal(
	    sluice_call_wait(x->c, ECHO, "", 0, NULL, &body, &n, NULL),
	    SLUICE_E_BUSY);
	assert_int_equal(
	    sluice_echo(x->c, "", 0, NULL, NULL, NULL, NULL), SLUICE_E_BUSY);
	sluice_msg_done(m);
	x->seen_busy = 1;
}

static void
busy_inside_a_callback(void **state)
{
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	x.in_message = try_all_that_waits;
	begin(&f, &x, SUBSCRIBE);
	fake_send(&f, f.call[0].sid, "x", 1);
	fake_turn(&f, x.c, &x.seen_busy);
	finish(&f, &x);
}

static void
free_stream_inside(struct seen *x, sluice_stream *s, sluice_msg *m)
{
	sluice_stream_free(s);
	x->s = NULL;
	sluice_msg_done(m);
}

static void
free_stream_in_its_callback(void **state)
{
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	x.in_message = free_stream_inside;
	begin(&f, &x, SUBSCRIBE);
	for (int i = 0; i < 5; i++)
		fake_send(&f, f.call[0].sid, "x", 1);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(x.n, 1);
	assert_int_equal(x.ended, 0);
	assert_int_equal(f.st[f.call[0].sid].reset, 1);
	finish(&f, &x);
}

static void
close_client_inside(struct seen *x, sluice_stream *s, sluice_msg *m)
{
	sluice_close(x->c);
	assert_int_equal(
	    sluice_call(x->c, ECHO, "", 0, NULL, &handler, x, &x->s, NULL),
	    SLUICE_E_CLOSED);
	sluice_stream_cancel(s);
	sluice_msg_done(m);
}

static void
close_client_in_a_callback(void **state)
{
	struct sluice_error err = {.size = sizeof(err)};
	struct fake f;
	struct seen x;
	int e = SLUICE_OK;

	(void)state;
	start(&f, &x);
	x.in_message = close_client_inside;
	begin(&f, &x, SUBSCRIBE);
	for (int i = 0; i < 5; i++)
		fake_send(&f, f.call[0].sid, "x", 1);
	while (fake_step(&f))
		continue;
	while (e == SLUICE_OK)
		e = sluice_wait(x.c, 1000, &err);
	assert_int_equal(e, SLUICE_E_CLOSED);
	assert_int_equal(x.n, 1);
	assert_int_equal(x.ended, 0);
	/* The orphan is still ours to free. */
	assert_int_equal(
	    sluice_stream_send(x.s, "x", 1, NULL), SLUICE_E_CLOSED);
	sluice_stream_free(x.s);
	fake_stop(&f);
}

static void
call_from_message(struct seen *x, sluice_stream *s, sluice_msg *m)
{
	(void)s;
	sluice_msg_done(m);
	x->in_message = NULL;
	assert_int_equal(
	    sluice_call(x->c, ECHO, "two", 3, NULL, NULL, NULL, NULL, NULL),
	    SLUICE_OK);
}

/* A detached call made inside a callback leaves in the same turn, and its
 * stream is freed by the library. */
static void
call_in_a_callback(void **state)
{
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	x.in_message = call_from_message;
	begin(&f, &x, SUBSCRIBE);
	fake_send(&f, f.call[0].sid, "x", 1);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(f.calls, 2);
	assert_memory_equal(f.call[1].req, "two", 3);
	fake_ok(&f, f.call[1].sid, "", 0);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(f.st[f.call[1].sid].gone, 1);
	finish(&f, &x);
}

static void
free_in_result(struct seen *x, sluice_stream *s)
{
	sluice_stream_free(s);
	x->s = NULL;
}

static void
free_stream_in_its_result(void **state)
{
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	x.in_result = free_in_result;
	begin(&f, &x, ECHO);
	fake_ok(&f, f.call[0].sid, "", 0);
	fake_turn(&f, x.c, &x.ended);
	assert_null(x.s);
	begin(&f, &x, SUBSCRIBE);
	x.ended = 0;
	sluice_stream_cancel(x.s);
	fake_turn(&f, x.c, &x.ended);
	assert_null(x.s);
	finish(&f, &x);
}

/* --- lost connections ----------------------------------------------------*/

static void
on_closed(void *arg, sluice_client *c, const struct sluice_error *why)
{
	struct seen *x = arg;

	(void)c;
	assert_int_equal(x->closed, 0);
	/* The ends of all calls came before. */
	assert_int_equal(x->ended, 1);
	x->closed = 1;
	x->why = why->code;
}

static void
server_vanishes(void **state)
{
	struct sluice_options o;
	struct sluice_error err = {.size = sizeof(err)};
	struct fake f;
	struct seen x = {0};

	(void)state;
	fake_start(&f);
	SLUICE_INIT(o);
	o.on_closed = on_closed;
	o.arg = &x;
	x.c = fake_client(&f, &o);
	begin(&f, &x, SUBSCRIBE);
	fake_send(&f, f.call[0].sid, "last", 4);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(x.n, 1);
	fake_cut(&f);
	while (!x.closed)
		(void)sluice_wait(x.c, 1000, &err);
	assert_int_equal(x.code, SLUICE_E_INTERRUPTED);
	assert_int_equal(x.why, SLUICE_E_CLOSED);
	assert_int_equal(
	    sluice_stream_wait(x.s, 0, NULL), SLUICE_E_INTERRUPTED);
	assert_int_equal(sluice_process(x.c, NULL), SLUICE_E_CLOSED);
	assert_int_equal(sluice_fd(x.c), -1);
	assert_int_equal(sluice_timeout_ms(x.c), -1);
	assert_int_equal(
	    sluice_call(x.c, ECHO, "", 0, NULL, &handler, &x, NULL, NULL),
	    SLUICE_E_CLOSED);
	finish(&f, &x);
}

static void
close_on_result(struct seen *x, sluice_stream *s)
{
	(void)s;
	sluice_close(x->c);
}

static void
close_client_while_calls_end(void **state)
{
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	x.in_result = close_on_result;
	begin(&f, &x, SUBSCRIBE);
	assert_int_equal(
	    sluice_call(x.c, SUBSCRIBE, "", 0, NULL, &handler, &x, NULL, NULL),
	    SLUICE_OK);
	fake_turn(&f, x.c, NULL);
	fake_cut(&f);
	while (sluice_wait(x.c, 1000, NULL) == SLUICE_OK)
		continue;
	assert_int_equal(x.ended, 1); /* the second was muted */
	sluice_stream_free(x.s);
	fake_stop(&f);
}

static void
no_server(void **state)
{
	struct sluice_error err = {.size = sizeof(err)};
	struct fake f;
	sluice_client *c = NULL;

	(void)state;
	fake_start(&f);
	fake_stop(&f); /* the path is gone with it */
	assert_int_equal(
	    sluice_open(f.url, NULL, &c, &err), SLUICE_E_UNAVAILABLE);
	assert_null(c);
	assert_int_equal(err.code, SLUICE_E_UNAVAILABLE);
	assert_non_null(strstr(err.text, f.dir));
	assert_int_equal(sluice_open("tcp://example.org:1", NULL, &c, &err),
	    SLUICE_E_INVALID_ARGUMENT);
}

/* Calls made before the server's hello wait for it, and end if it never
 * comes. */
static void
silent_server(void **state)
{
	struct sluice_options o;
	struct sluice_error err = {.size = sizeof(err)};
	struct fake f;
	struct seen x = {0};

	(void)state;
	fake_start(&f);
	SLUICE_INIT(o);
	o.connect_timeout_ms = 50;
	assert_int_equal(sluice_open(f.url, &o, &x.c, &err), SLUICE_OK);
	assert_int_equal(
	    sluice_call(x.c, ECHO, "", 0, NULL, &handler, &x, &x.s, &err),
	    SLUICE_OK);
	while (sluice_wait(x.c, 5000, &err) == SLUICE_OK)
		continue;
	assert_int_equal(err.code, SLUICE_E_UNAVAILABLE);
	assert_int_equal(x.ended, 1);
	assert_int_equal(x.code, SLUICE_E_UNAVAILABLE);
	finish(&f, &x);
}

static void
early_calls_run_after_hello(void **state)
{
	struct fake f;
	struct seen x = {0};

	(void)state;
	fake_start(&f);
	assert_int_equal(sluice_open(f.url, NULL, &x.c, NULL), SLUICE_OK);
	begin(&f, &x, ECHO);
	assert_int_equal(f.calls, 1);
	fake_ok(&f, f.call[0].sid, "", 0);
	fake_turn(&f, x.c, &x.ended);
	assert_int_equal(x.code, 0);
	finish(&f, &x);
}

/* A queue that is full is tried again, not given up. */
static void
crowded_server(void **state)
{
	sluice_client *c[40];
	struct fake f;

	(void)state;
	fake_start(&f);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(
		    sluice_open(f.url, NULL, &c[i], NULL), SLUICE_OK);
		(void)sluice_process(c[i], NULL);
	}
	/* The last one waits with a timeout and no descriptor to spin on. */
	assert_int_equal(sluice_fd(c[39]), -1);
	assert_in_range(sluice_timeout_ms(c[39]), 0, 1000);
	for (int i = 0; i < 40; i++)
		sluice_close(c[i]);
	fake_stop(&f);
}

static void
keepalive_by_kind_of_handle(void **state)
{
	struct sluice_options o;
	sluice_client *c;
	struct fake f;

	(void)state;
	fake_start(&f);
	c = fake_client(&f, NULL);
	fake_turn(&f, c, NULL);
	assert_int_equal(f.keepalive_s, 0);
	assert_memory_equal(f.agent, "libsluice/", 10);
	sluice_close(c);
	fake_cut(&f);
	SLUICE_INIT(o);
	o.loop = 1;
	o.agent = "me/1";
	c = fake_client(&f, &o);
	assert_int_equal(f.keepalive_s, 20);
	assert_string_equal(f.agent, "me/1");
	sluice_close(c);
	fake_cut(&f);
	o.keepalive_s = 90000;
	assert_int_equal(
	    sluice_open(f.url, &o, &c, NULL), SLUICE_E_INVALID_ARGUMENT);
	fake_stop(&f);
}

/* In the child the handle refuses to work, and closing it does not disturb
 * the parent's. */
static void
fork_is_harmless(void **state)
{
	struct fake f;
	struct seen x;
	int status;
	pid_t pid;

	(void)state;
	start(&f, &x);
	begin(&f, &x, ECHO);
	pid = fork();
	if (pid == 0) {
		int e = sluice_process(x.c, NULL);

		sluice_stream_free(x.s);
		sluice_close(x.c);
		_exit(e == SLUICE_E_FAILED_PRECONDITION ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fake_ok(&f, f.call[0].sid, "", 0);
	fake_turn(&f, x.c, &x.ended);
	assert_int_equal(x.code, 0);
	finish(&f, &x);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(busy_inside_a_callback),
	    cmocka_unit_test(free_stream_in_its_callback),
	    cmocka_unit_test(free_stream_in_its_result),
	    cmocka_unit_test(close_client_in_a_callback),
	    cmocka_unit_test(call_in_a_callback),
	    cmocka_unit_test(server_vanishes),
	    cmocka_unit_test(close_client_while_calls_end),
	    cmocka_unit_test(no_server),
	    cmocka_unit_test(silent_server),
	    cmocka_unit_test(early_calls_run_after_hello),
	    cmocka_unit_test(crowded_server),
	    cmocka_unit_test(keepalive_by_kind_of_handle),
	    cmocka_unit_test(fork_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
