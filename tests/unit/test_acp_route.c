/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* What agents really do to a host: lines of every kind and size, requests that
 * are not served, streams that flood, pipes that nobody reads. */
#include "t_acp.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int
setup(void **state)
{
	struct rig *r = sli_zalloc(sizeof(*r));

	assert_non_null(r);
	rig_init(r);
	r->limits.v[SLI_L_ACP_CANCEL_GRACE] = 100;
	*state = r;
	return 0;
}

static int
teardown(void **state)
{
	rig_fini(*state);
	sli_free(*state);
	return 0;
}

static unsigned
running(struct rig *r)
{
	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "hi");
	return peer_prompt(r, "hi");
}

static char *
xs(size_t n)
{
	char *s = sli_zalloc(n + 1);

	assert_non_null(s);
	return memset(s, 'x', n);
}

static void
finish(struct rig *r, unsigned id)
{
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	rig_settle(r);
	assert_int_equal(acp_held(r->acp), 0);
	assert_int_equal(r->uncommitted, 0);
}

/* --- lines that cannot be stored as they are -----------------------------*/

static void
a_line_over_the_limit_is_skipped_and_the_session_lives(void **state)
{
	struct rig *r = *state;
	char *big = xs(300 << 10);
	unsigned id;

	r->limits.v[SLI_L_ACP_MAX_LINE] = 100 << 10;
	id = running(r);
	peer_chunk(r, big);
	peer_says(r, "{\"x\":\"%s\",\"method\":\"foo\",\"id\":8}", big);
	peer_gets(r, "\"id\":8,\"error\":{\"code\":-32600");
	peer_chunk(r, "after");
	finish(r, id);
	assert_int_equal(rig_count(r, SLI_EV_LIMIT, "acp.max_line_bytes"), 2);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "after"), 1);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "xxxx"), 0);
	sli_free(big);
}

static void
an_answer_over_the_limit_fails_the_turn(void **state)
{
	struct rig *r = *state;
	char *big = xs(300 << 10);
	unsigned id;

	r->limits.v[SLI_L_ACP_MAX_LINE] = 100 << 10;
	id = running(r);
	peer_says(r,
	    "{\"result\":{\"x\":\"%s\",\"stopReason\":\"end_turn\"},"
	    "\"id\":%u}",
	    big, id);
	rig_wait_end(r, 1, SLI_TO_FAILED);
	assert_string_equal(r->turn[0].reason, "invalid_response");
	sli_free(big);
}

static void
an_endless_line_is_named_while_it_lasts(void **state)
{
	struct rig *r = *state;
	char *big = xs(64 << 10);

	r->limits.v[SLI_L_ACP_MAX_LINE] = 1 << 20;
	(void)running(r);
	for (int i = 0; i < 256; i++)
		peer_writes(r, big, 64 << 10);
	rig_settle(r);
	assert_int_equal(rig_count(r, SLI_EV_LIMIT, "line too long"), 1);
	assert_true(r->max_held <= 512 << 10);
	sli_free(big);
}

static void
deep_nesting_is_noise(void **state)
{
	struct rig *r = *state;
	char *deep = xs(200000);
	unsigned id = running(r);

	memset(deep, '[', 100000);
	memset(deep + 100000, ']', 100000);
	peer_says(r, "{\"method\":\"x\",\"params\":%s}", deep);
	peer_says(r, "%s", deep);
	finish(r, id);
	assert_int_equal(rig_count(r, SLI_EV_NOISE, "[[[["), 2);
	sli_free(deep);
}

static void
without_room_for_parts_a_long_line_is_named(void **state)
{
	struct rig *r = *state;
	char *big = xs(300 << 10);
	unsigned id = running(r);

	r->no_parts = 1;
	peer_chunk(r, big);
	finish(r, id);
	assert_int_equal(rig_count(r, SLI_EV_LIMIT, "could not be stored"), 1);
	sli_free(big);
}

static void
invalid_utf8_is_kept_marked_and_not_acted_upon(void **state)
{
	struct rig *r = *state;
	unsigned id = running(r);
	const struct rig_event *e;

	peer_says(r, "{\"id\":4,\"method\":\"foo\",\"params\":\"\xff\"}");
	peer_gets_nothing(r);
	peer_says(r, "ban\xffner");
	peer_chunk(r, "fine");
	finish(r, id);
	e = rig_find(r, SLI_EV_AGENT, "foo");
	assert_int_equal(e->ev.flags, SLI_EVF_INVALID_UTF8);
	assert_non_null(strchr(e->body, 0xff));
	assert_int_equal(rig_find(r, SLI_EV_AGENT, "fine")->ev.flags, 0);
}

/* --- lines that pass untouched -------------------------------------------*/

static void
strange_values_are_stored_byte_for_byte(void **state)
{
	static const char *const lines[] = {
	    "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"S\","
	    "\"update\":{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t\","
	    "\"rawInput\":{\"a\":1e400,\"a\":9223372036854775808,\"b\":"
	    "\"\\ud800\\u0000\xe2\x80\xa8\"}}}}",
	    "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"S\","
	    "\"update\":{\"sessionUpdate\":\"never_heard_of\",\"content\":{"
	    "\"type\":\"hologram\"},\"_meta\":{\"x\":[1]}}},\"extra\":true}",
	    "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"S\","
	    "\"update\":{\"toolCallId\":\"never announced\",\"sessionUpdate\":"
	    "\"tool_call_update\",\"status\":\"completed\"}}}",
	    "{ \"method\" : \"_auth/status_update\" , \"params\" : [ ] }",
	};
	struct rig *r = *state;
	unsigned id = running(r);

	for (size_t i = 0; i < SLI_ARRAY_LEN(lines); i++)
		peer_says(r, "%s", lines[i]);
	finish(r, id);
	for (size_t i = 0; i < SLI_ARRAY_LEN(lines); i++)
		assert_int_equal(rig_count(r, SLI_EV_AGENT, lines[i]), 1);
}

static void
sizes_around_every_edge_are_exact(void **state)
{
	static const size_t sizes[] = {
	    65535, 65536, 65537, 262143, 262144, 262145, 1 << 20, 8 << 20};
	struct rig *r = *state;
	unsigned id = running(r);

	for (size_t i = 0; i < SLI_ARRAY_LEN(sizes); i++) {
		size_t over = strlen("{\"method\":\"_x\",\"p\":\"\"}");
		char *big = xs(sizes[i] - over);

		big[sizes[i] - over - 1] = (char)('a' + (int)i);
		peer_says(r, "{\"method\":\"_x\",\"p\":\"%s\"}", big);
		rig_settle(r);
		sli_free(big);
	}
	finish(r, id);
	for (size_t i = 0, k = 0; i < r->nev; i++) {
		const struct rig_event *e = &r->ev[i];

		if (e->ev.kind != SLI_EV_AGENT || !strstr(e->body, "_x"))
			continue;
		assert_int_equal(e->ev.length, sizes[k]);
		assert_int_equal(e->body[sizes[k] - 3], (char)('a' + (int)k));
		k++;
	}
}

static void
a_mebibyte_a_byte_at_a_time(void **state)
{
	struct rig *r = *state;
	char *big = xs(1 << 20), one;
	unsigned id = running(r);

	memcpy(big, "{\"method\":\"_x\",\"p\":\"", 20);
	memcpy(big + (1 << 20) - 3, "\"}\n", 3);
	for (size_t i = 0; i < 1 << 20; i++) {
		one = big[i];
		peer_writes(r, &one, 1);
		if (i % 4096 == 0)
			loop_turn(r->loop, 0);
	}
	finish(r, id);
	assert_int_equal(
	    rig_find(r, SLI_EV_AGENT, "_x")->ev.length, (1 << 20) - 1);
	sli_free(big);
}

/* --- requests ------------------------------------------------------------*/

static void
requests_we_do_not_serve_are_refused_at_once(void **state)
{
	static const char *const methods[] = {"foo/bar", "_x/y",
	    "fs/read_text_file", "fs/write_text_file", "terminal/create",
	    "terminal/output", "elicitation/create", "craft/drainMidTurnQueue"};
	struct rig *r = *state;
	char want[80];
	unsigned id = running(r);

	for (size_t i = 0; i < SLI_ARRAY_LEN(methods); i++) {
		peer_says(r,
		    "{\"jsonrpc\":\"2.0\",\"id\":\"%zu\",\"method\":\"%s\"}", i,
		    methods[i]);
		(void)snprintf(want, sizeof(want),
		    "{\"jsonrpc\":\"2.0\",\"id\":\"%zu\",\"error\":{\"code\":"
		    "-32601,",
		    i);
		peer_gets(r, want);
	}
	peer_says(r, "{\"method\":\"elicitation/complete\"}");
	peer_gets_nothing(r);
	finish(r, id);
	assert_int_equal(
	    rig_count(r, SLI_EV_CLIENT, "-32601"), SLI_ARRAY_LEN(methods));
}

static void
foreign_updates_are_kept_apart(void **state)
{
	struct rig *r = *state;
	unsigned id = running(r);

	peer_says(r, "{\"method\":\"session/update\",\"params\":{"
		     "\"sessionId\":\"S2\",\"update\":{\"sessionUpdate\":"
		     "\"plan\"}}}");
	peer_says(r, "{\"method\":\"session/update\",\"params\":{\"update\":{"
		     "\"sessionUpdate\":\"plan\"}}}");
	finish(r, id);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "plan"), 0);
	assert_int_equal(
	    rig_count(r, SLI_EV_DIAGNOSTIC, "foreign session\""), 1);
	assert_int_equal(
	    rig_count(r, SLI_EV_DIAGNOSTIC, "without a session"), 1);
}

static void
noise_is_bounded_and_counted(void **state)
{
	struct rig *r = *state;
	unsigned id;

	r->limits.v[SLI_L_ACP_NOISE] = 1000;
	id = running(r);
	for (int i = 0; i < 100; i++)
		peer_says(r, "%099d", i);
	finish(r, id);
	assert_int_equal(rig_count(r, SLI_EV_NOISE, NULL), 10);
	peer_exits(r, 0, 0);
	rig_wait_state(r, SLI_SS_UNLOADED);
	assert_int_equal(
	    rig_count(r, SLI_EV_AGENT_EXITED, "\"noise_not_stored\":8910"), 1);
}

/* --- pipes ---------------------------------------------------------------*/

static void
a_stderr_flood_does_not_hold_up_stdout(void **state)
{
	struct rig *r = *state;
	char *big = xs(64 << 10);
	unsigned id = running(r);

	assert_int_equal(fcntl(r->err, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 400; i++) {
		(void)!write(r->err, big, 64 << 10);
		loop_turn(r->loop, 0);
	}
	peer_chunk(r, "text");
	finish(r, id);
	rig_settle(r);
	peer_exits(r, 0, 0);
	rig_wait_state(r, SLI_SS_UNLOADED);
	assert_in_range(
	    rig_find(r, SLI_EV_AGENT_EXITED, NULL)->ev.length, 8192, 8400);
	sli_free(big);
}

static void
an_agent_that_does_not_read_is_drained_all_the_same(void **state)
{
	struct rig *r = *state;
	char *big = xs(3 << 20);
	uint64_t turn;
	int before;

	(void)running(r);
	(void)acp_cancel(r->s);
	r->mute = 1;
	rig_wait_end(r, 1, SLI_TO_CANCELED);
	r->mute = 0;
	/* a 3 MiB prompt into a pipe that is full, while it talks */
	before = r->answers;
	rig_ask(r, big, "", 0);
	while (r->answers == before)
		rig_turns(r, 1);
	turn = r->acc.turn;
	peer_hello(r);
	r->mute = 1;
	for (int i = 0; i < 2000; i++)
		peer_chunk(r, "while it waits");
	rig_settle(r);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "while it waits"), 2000);
	r->mute = 0;
	peer_ends(r, peer_prompt(r, "xxxxxxxx"), "end_turn");
	rig_wait_end(r, turn, SLI_TO_COMPLETED);
	sli_free(big);
}

static void
answers_to_an_agent_that_does_not_listen_are_bounded(void **state)
{
	struct rig *r = *state;

	r->limits.v[SLI_L_ACP_ANSWERS] = 64 << 10;
	(void)running(r);
	r->mute = 1;
	for (int i = 0; i < 5000; i++)
		peer_says(r, "{\"id\":%d,\"method\":\"foo\"}", i);
	rig_settle(r);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "\"foo\""), 5000);
	peer_exits(r, 0, 0);
	rig_wait_state(r, SLI_SS_UNLOADED);
	assert_int_equal(
	    rig_count(r, SLI_EV_AGENT_EXITED, "answers_not_read"), 1);
}

static void
a_closed_stdin_is_no_death_of_ours(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	(void)close(r->in);
	r->in = -1;
	(void)rig_prompt(r, "hi");
	rig_settle(r);
	peer_exits(r, 7, 0);
	rig_wait_end(r, 1, SLI_TO_FAILED);
	assert_string_equal(r->turn[0].reason, "agent_exited");
}

static void
only_pressure_pauses_reading(void **state)
{
	struct rig *r = *state;
	char *big = xs(32 << 10);
	unsigned id = running(r);
	unsigned before;

	acp_pressure(r->s, 1);
	before = r->nev;
	assert_true(write(r->out, "{\"method\":\"_p\"}\n", 16) == 16);
	rig_turns(r, 20);
	assert_int_equal(r->nev, before);
	acp_pressure(r->s, 0);
	rig_settle(r);
	assert_int_equal(r->nev, before + 1);
	/* commits that stay away do not: the budget is the store's to judge */
	r->manual = 1;
	for (int i = 0; i < 30; i++)
		peer_chunk(r, big);
	rig_settle(r);
	assert_true(r->uncommitted > 30 * (32 << 10));
	r->manual = 0;
	finish(r, id);
	sli_free(big);
}

/* --- volume --------------------------------------------------------------*/

static void
limits_cancel_the_turn_and_the_session_lives(void **state)
{
	struct rig *r = *state;
	char *big = xs(10 << 10);
	unsigned id;

	r->limits.v[SLI_L_ACP_MESSAGE_TOTAL] = 40 << 10;
	r->limits.v[SLI_L_ACP_TURN_TOTAL] = 100 << 10;
	id = running(r);
	/* tools in between: several messages, each below its limit */
	for (int i = 0; i < 9; i++) {
		peer_chunk(r, big);
		peer_update(r, "\"sessionUpdate\":\"plan\",\"n\":%d", i);
	}
	rig_settle(r);
	assert_int_equal(rig_count(r, SLI_EV_LIMIT, NULL), 0);
	peer_chunk(r, big);
	peer_gets(r, "session/cancel");
	/* what it goes on sending is counted, not stored */
	for (int i = 0; i < 50; i++)
		peer_chunk(r, big);
	peer_asks(r, "4");
	peer_gets(r, "\"cancelled\"");
	peer_says(r, "{\"id\":5,\"method\":\"foo\"}");
	peer_gets(r, "-32601");
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_BUDGET_EXCEEDED);
	assert_int_equal(rig_count(r, SLI_EV_LIMIT, "acp.turn_total_bytes"), 1);
	assert_int_equal(rig_count(r, SLI_EV_DIAGNOSTIC, "\"lines\":52"), 1);
	/* one message alone */
	(void)rig_prompt(r, "two");
	id = peer_prompt(r, "two");
	for (int i = 0; i < 4; i++)
		peer_chunk(r, big);
	peer_gets(r, "session/cancel");
	peer_ends(r, id, "cancelled");
	rig_wait_end(r, 2, SLI_TO_BUDGET_EXCEEDED);
	assert_int_equal(
	    rig_count(r, SLI_EV_LIMIT, "acp.message_total_bytes"), 1);
	/* the session lives */
	(void)rig_prompt(r, "three");
	peer_ends(r, peer_prompt(r, "three"), "end_turn");
	rig_wait_end(r, 3, SLI_TO_COMPLETED);
	sli_free(big);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(a_line_over_the_limit_is_skipped_and_the_session_lives),
	    T(an_answer_over_the_limit_fails_the_turn),
	    T(an_endless_line_is_named_while_it_lasts),
	    T(deep_nesting_is_noise),
	    T(without_room_for_parts_a_long_line_is_named),
	    T(invalid_utf8_is_kept_marked_and_not_acted_upon),
	    T(strange_values_are_stored_byte_for_byte),
	    T(sizes_around_every_edge_are_exact),
	    T(a_mebibyte_a_byte_at_a_time),
	    T(requests_we_do_not_serve_are_refused_at_once),
	    T(foreign_updates_are_kept_apart),
	    T(noise_is_bounded_and_counted),
	    T(a_stderr_flood_does_not_hold_up_stdout),
	    T(an_agent_that_does_not_read_is_drained_all_the_same),
	    T(answers_to_an_agent_that_does_not_listen_are_bounded),
	    T(a_closed_stdin_is_no_death_of_ours),
	    T(only_pressure_pauses_reading),
	    T(limits_cancel_the_turn_and_the_session_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
