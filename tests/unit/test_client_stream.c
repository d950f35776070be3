/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The generic streams of libsluice against a fake server: order of messages,
 * acknowledgement out of order, cancel, back-pressure of uploads, and the ways
 * in which a call ends. */
#include "unit.h"

#include "base/str.h"
#include "fakesrv.h"

#include <string.h>

#define SUBSCRIBE "sluice.v1.Sessions/Subscribe" /* server stream */
#define PROMPT    "sluice.v1.Sessions/Prompt"    /* client stream */
#define ECHO      "sluice.v1.Server/Echo"        /* unary */

struct seen {
	sluice_stream *s;
	sluice_msg *msg[64];
	int n;
	int hold; /* keep messages */
	int ended;
	int32_t code;
	char body[64];
	int writable;
	sluice_client *c;
};

static void
on_message(void *arg, sluice_stream *s, sluice_msg *m)
{
	struct seen *x = arg;

	(void)s;
	assert_true(x->n < 64);
	x->msg[x->n++] = m;
	if (!x->hold)
		sluice_msg_done(m);
}

static void
on_result(void *arg, sluice_stream *s, const struct sluice_error *err,
    const void *body, size_t n)
{
	struct seen *x = arg;

	(void)s;
	assert_int_equal(x->ended, 0);
	x->ended = 1;
	x->code = err ? err->code : 0;
	assert_true(n < sizeof(x->body));
	if (n)
		memcpy(x->body, body, n);
}

static void
on_writable(void *arg, sluice_stream *s)
{
	struct seen *x = arg;

	(void)s;
	x->writable++;
}

static const struct sluice_handler handler = {
    .size = sizeof(struct sluice_handler),
    .on_message = on_message,
    .on_result = on_result,
    .on_writable = on_writable,
};

static void
begin(struct fake *f, struct seen *x, const char *method)
{
	struct sluice_error err = {.size = sizeof(err)};
	int calls = f->calls;

	if (sluice_call(x->c, method, "req", 3, NULL, &handler, x, &x->s,
		&err) != SLUICE_OK)
		fail_msg("%s", err.text);
	fake_turn(f, x->c, NULL);
	assert_int_equal(f->calls, calls + 1);
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

static uint64_t
unreleased(sluice_client *c)
{
	struct sluice_counters n = {.size = sizeof(n)};

	sluice_get_counters(c, &n);
	return n.unreleased;
}

/* --- tests ---------------------------------------------------------------*/

static void
unknown_method(void **state)
{
	struct sluice_error err = {.size = sizeof(err)};
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	assert_int_equal(sluice_call(x.c, "sluice.v1.Vms/Make", NULL, 0, NULL,
			     &handler, &x, &x.s, &err),
	    SLUICE_E_UNIMPLEMENTED);
	assert_null(x.s);
	assert_non_null(strstr(err.text, "Vms/Make"));
	finish(&f, &x);
}

static void
too_long_a_request(void **state)
{
	static uint8_t big[60 * 1024 + 1];
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	assert_int_equal(sluice_call(x.c, ECHO, big, sizeof(big), NULL,
			     &handler, &x, &x.s, NULL),
	    SLUICE_E_FRAME_SIZE);
	assert_int_equal(x.ended, 0);
	finish(&f, &x);
}

static void
unary_answer(void **state)
{
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	begin(&f, &x, ECHO);
	assert_int_equal(f.call[0].end, 1);
	fake_ok(&f, f.call[0].sid, "answer", 6);
	fake_turn(&f, x.c, &x.ended);
	assert_int_equal(x.code, 0);
	assert_string_equal(x.body, "answer");
	assert_int_equal(f.call[0].method, 1);
	finish(&f, &x);
}

static void
messages_in_order_and_acks_of_the_prefix(void **state)
{
	struct fake f;
	struct seen x;
	char text[8];
	uint32_t sid;

	(void)state;
	start(&f, &x);
	x.hold = 1;
	begin(&f, &x, SUBSCRIBE);
	sid = f.call[0].sid;
	for (int i = 0; i < 5; i++) {
		(void)sli_snprintf(text, sizeof(text), "msg %d", i);
		fake_send(&f, sid, text, 5);
	}
	fake_turn(&f, x.c, NULL);
	assert_int_equal(x.n, 5);
	for (int i = 0; i < 5; i++) {
		(void)sli_snprintf(text, sizeof(text), "msg %d", i);
		assert_int_equal(sluice_msg_len(x.msg[i]), 5);
		assert_memory_equal(sluice_msg_data(x.msg[i]), text, 5);
		assert_int_equal(sluice_msg_offset(x.msg[i]), 5 * i);
	}
	assert_int_equal(f.st[sid].acked, 0);
	sluice_msg_done(x.msg[3]);
	sluice_msg_done(x.msg[1]);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(f.st[sid].acked, 0);
	assert_int_equal(unreleased(x.c), 25);
	sluice_msg_done(x.msg[0]);
	assert_int_equal(unreleased(x.c), 15);
	sluice_msg_done(x.msg[2]);
	sluice_msg_done(x.msg[4]);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(f.st[sid].acked, 25);
	finish(&f, &x);
}

static void
nothing_beyond_the_window_without_done(void **state)
{
	static uint8_t piece[32768];
	struct sluice_counters n = {.size = sizeof(n)};
	struct fake f;
	struct seen x;
	uint32_t sid;

	(void)state;
	start(&f, &x);
	x.hold = 1;
	begin(&f, &x, SUBSCRIBE);
	sid = f.call[0].sid;
	for (int i = 0; i < 32; i++)
		fake_send(&f, sid, piece, sizeof(piece));
	fake_turn(&f, x.c, NULL);
	assert_int_equal(x.n, 8); /* 256 KiB */
	sluice_get_counters(x.c, &n);
	assert_int_equal(n.unreleased, 8 * sizeof(piece));
	assert_int_equal(n.streams, 1);
	for (int i = 0; i < 32; i++) {
		assert_true(i < x.n);
		sluice_msg_done(x.msg[i]);
		fake_turn(&f, x.c, NULL);
	}
	assert_int_equal(x.n, 32);
	sluice_get_counters(x.c, &n);
	assert_int_equal(n.unreleased, 0);
	finish(&f, &x);
}

static void
cancel_before_and_after(void **state)
{
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	begin(&f, &x, SUBSCRIBE);
	sluice_stream_cancel(x.s);
	assert_int_equal(x.ended, 0); /* only from sluice_process */
	assert_int_equal(sluice_timeout_ms(x.c), 0);
	fake_turn(&f, x.c, &x.ended);
	assert_int_equal(x.code, SLUICE_E_CANCELED);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(f.st[f.call[0].sid].reset, 1);
	assert_int_equal(f.st[f.call[0].sid].reset_code, SLUICE_E_CANCELED);
	sluice_stream_cancel(x.s); /* again: nothing */
	assert_int_equal(sluice_stream_wait(x.s, 0, NULL), SLUICE_E_CANCELED);
	finish(&f, &x);
}

static void
a_held_message_outlives_its_stream(void **state)
{
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	x.hold = 1;
	begin(&f, &x, SUBSCRIBE);
	fake_send(&f, f.call[0].sid, "stay", 4);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(x.n, 1);
	sluice_stream_free(x.s);
	sluice_close(x.c);
	assert_memory_equal(sluice_msg_data(x.msg[0]), "stay", 4);
	sluice_msg_done(x.msg[0]);
	assert_int_equal(x.ended, 0);
	fake_stop(&f);
}

static void
upload_pushes_back(void **state)
{
	static uint8_t piece[32768];
	static uint8_t got[65536];
	struct sluice_error err = {.size = sizeof(err)};
	struct fake f;
	struct seen x;
	uint32_t sid;
	int sent = 0, taken = 0;

	(void)state;
	start(&f, &x);
	f.hold = 1;
	begin(&f, &x, PROMPT);
	sid = f.call[0].sid;
	assert_int_equal(f.call[0].end, 0);
	/* Window 256 KiB at the server, 256 KiB of buffer here. */
	for (int rounds = 0; rounds < 4; rounds++) {
		while (sluice_stream_send(x.s, piece, sizeof(piece), &err) ==
		       SLUICE_OK) {
			piece[0]++;
			sent++;
			assert_true(sent < 40);
		}
		assert_int_equal(err.code, SLUICE_E_AGAIN);
		fake_turn(&f, x.c, NULL);
	}
	assert_int_equal(f.st[sid].held, 256 * 1024);
	assert_in_range(sent, 14, 16);
	x.writable = 0;
	while (f.st[sid].held) {
		long n = fake_take(&f, sid, got);

		assert_int_equal(n, sizeof(piece));
		assert_int_equal(got[0], taken++);
		fake_release(&f, sid, (uint64_t)n);
		fake_turn(&f, x.c, NULL);
	}
	assert_int_equal(taken, sent);
	assert_int_equal(x.writable, 1);
	sluice_stream_end(x.s);
	assert_int_equal(
	    sluice_stream_send(x.s, piece, 1, NULL), SLUICE_E_CLOSED);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(f.st[sid].ended, 1);
	fake_ok(&f, sid, "", 0);
	fake_turn(&f, x.c, &x.ended);
	assert_int_equal(x.code, 0);
	finish(&f, &x);
}

static void
message_sizes(void **state)
{
	static uint8_t big[65537];
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	begin(&f, &x, PROMPT);
	assert_int_equal(
	    sluice_stream_send(x.s, big, 0, NULL), SLUICE_E_INVALID_ARGUMENT);
	assert_int_equal(sluice_stream_send(x.s, big, sizeof(big), NULL),
	    SLUICE_E_INVALID_ARGUMENT);
	assert_int_equal(
	    sluice_stream_send(x.s, big, sizeof(big) - 1, NULL), SLUICE_OK);
	fake_turn(&f, x.c, NULL);
	assert_int_equal(fake_take(&f, f.call[0].sid, big), sizeof(big) - 1);
	finish(&f, &x);
}

/* RESULT before the client's end: nothing more is taken, no stall. */
static void
early_result_stops_an_upload(void **state)
{
	static uint8_t piece[32768];
	struct fake f;
	struct seen x;

	(void)state;
	start(&f, &x);
	f.hold = 1;
	begin(&f, &x, PROMPT);
	while (sluice_stream_send(x.s, piece, sizeof(piece), NULL) == SLUICE_OK)
		continue;
	fake_fail(&f, f.call[0].sid, SLUICE_E_SESSION_BUSY, NULL, 0);
	fake_turn(&f, x.c, &x.ended);
	assert_int_equal(x.code, SLUICE_E_SESSION_BUSY);
	assert_int_equal(
	    sluice_stream_send(x.s, piece, 1, NULL), SLUICE_E_CLOSED);
	fake_turn(&f, x.c, NULL);
	finish(&f, &x);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unknown_method),
	    cmocka_unit_test(too_long_a_request),
	    cmocka_unit_test(message_sizes),
	    cmocka_unit_test(unary_answer),
	    cmocka_unit_test(messages_in_order_and_acks_of_the_prefix),
	    cmocka_unit_test(nothing_beyond_the_window_without_done),
	    cmocka_unit_test(cancel_before_and_after),
	    cmocka_unit_test(a_held_message_outlives_its_stream),
	    cmocka_unit_test(upload_pushes_back),
	    cmocka_unit_test(early_result_stops_an_upload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
