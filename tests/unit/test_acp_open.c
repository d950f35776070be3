/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Opening a session: each step and how it fails, told apart; noise; updates
 * that come too early. */
#include "t_acp.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int
setup(void **state)
{
	struct rig *r = sli_zalloc(sizeof(*r));

	assert_non_null(r);
	rig_init(r);
	r->limits.v[SLI_L_ACP_CANCEL_GRACE] = 60;
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

/* --- opening fails -------------------------------------------------------*/

static void
failed_with(struct rig *r, const char *code, const char *reason)
{
	rig_wait_state(r, SLI_SS_FAILED);
	assert_string_equal(r->reason_code, code);
	if (!strstr(r->reason, reason))
		fail_msg("reason is %s, wanted %s", r->reason, reason);
	rig_turns(r, 20);
	assert_int_equal(r->alive, 0);
}

static void
a_spawn_that_fails_is_named(void **state)
{
	struct rig *r = *state;

	r->spawn_fails = 1;
	rig_open(r);
	failed_with(r, "spawn_failed", "no sandbox");
}

static void
a_spawn_that_never_answers_times_out(void **state)
{
	struct rig *r = *state;

	r->no_spawn = 1;
	r->limits.v[SLI_L_ACP_SPAWN] = 30;
	rig_open(r);
	rig_wait_state(r, SLI_SS_FAILED);
	assert_string_equal(r->reason_code, "spawn_timeout");
	assert_int_equal(r->kills, 1);
}

static void
initialize_never_answered_times_out(void **state)
{
	struct rig *r = *state;

	r->limits.v[SLI_L_ACP_INITIALIZE] = 40;
	rig_open(r);
	peer_gets(r, "initialize");
	assert_int_equal(write(r->err, "hm\n", 3), 3);
	failed_with(r, "initialize_timeout", "stderr ends: hm");
}

static void
another_protocol_version_is_refused(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_gets(r, "\"protocolVersion\":1");
	peer_says(r, "{\"id\":0,\"result\":{\"protocolVersion\":2}}");
	failed_with(r, "protocol_version", "version 1");
}

static void
an_exit_during_initialize_tells_code_and_stderr(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_gets(r, "initialize");
	assert_int_equal(write(r->err, "no key\n", 7), 7);
	rig_settle(r);
	peer_exits(r, 3, 0);
	failed_with(
	    r, "agent_exited", "exited with code 3; stderr ends: no key");
	assert_non_null(strstr(r->reason, "during initialize"));
	assert_int_equal(rig_count(r, SLI_EV_AGENT_EXITED, "\"code\":3"), 1);
}

static void
session_new_never_answered_times_out(void **state)
{
	struct rig *r = *state;

	r->limits.v[SLI_L_ACP_NEW_SESSION] = 40;
	rig_open(r);
	peer_init(r, "");
	peer_gets(r, "session/new");
	failed_with(r, "new_session_timeout", "session/new");
}

static void
session_new_refused_is_told_with_its_text(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_says(
	    r, "{\"id\":1,\"error\":{\"code\":-32602,\"message\":\"cwd\"}}");
	failed_with(r, "new_session_failed", "error -32602: cwd");
}

static void
authentication_is_its_own_reason(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	/* a prompt may come before it is open; it shares the fate */
	rig_ask(r, "hi", "", 0);
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_says(r,
	    "{\"id\":1,\"error\":{\"code\":-32000,\"message\":\"sign in\"}}");
	failed_with(r, "auth_required", "sign in");
	assert_int_equal(rig_outcome(r, 1), SLI_TO_AUTH_REJECTED);
}

static void
answers_that_are_none_fail_their_step(void **state)
{
	static const char *const bad[] = {"{\"id\":1}",
	    "{\"id\":1,\"result\":null}", "{\"id\":1,\"result\":{}}",
	    "{\"id\":1,\"result\":{\"sessionId\":\"\"}}",
	    "{\"id\":1,\"result\":{\"sessionId\":\"\xff\"}}"};
	struct rig *r = *state;

	for (size_t i = 0; i < SLI_ARRAY_LEN(bad); i++) {
		if (i == 0)
			rig_open(r);
		else
			rig_ask(r, "again", "", 0);
		peer_init(r, "");
		peer_gets(r, "session/new");
		peer_says(r, "%s", bad[i]);
		failed_with(r, "new_session_failed", "");
	}
	/* and after all that it can be opened */
	rig_ask(r, "again", "", 0);
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S\"}}");
	peer_ends(r, peer_prompt(r, "again"), "end_turn");
	rig_wait_end(r, 5, SLI_TO_COMPLETED);
}

/* --- opening works -------------------------------------------------------*/

static void
opening_is_a_row_of_events(void **state)
{
	struct rig *r = *state;
	const char *l;

	rig_open(r);
	assert_int_equal(rig_state(r), SLI_SS_OPENING);
	l = peer_gets(r, "\"method\":\"initialize\"");
	assert_non_null(
	    strstr(l, "\"clientCapabilities\":{\"fs\":{\"readTextFile\":false,"
		      "\"writeTextFile\":false},\"terminal\":false}"));
	assert_non_null(strstr(l, "\"id\":0,"));
	peer_says(r, "{\"id\":0,\"result\":{\"protocolVersion\":1}}");
	l = peer_gets(r, "\"method\":\"session/new\"");
	assert_non_null(strstr(l, "\"cwd\":\"/work\",\"mcpServers\":[]"));
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S\"}}");
	rig_wait_state(r, SLI_SS_IDLE);
	assert_string_equal(r->agent_session, "S");
	assert_int_equal(r->generation, 1);
	assert_int_equal(rig_count(r, SLI_EV_SESSION, "\"step\":"), 3);
	assert_int_equal(rig_count(r, SLI_EV_CLIENT, NULL), 2);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, NULL), 2);
	assert_int_equal(
	    rig_count(r, SLI_EV_AGENT_STARTED, "\"rung\":\"new\""), 1);
}

static void
noise_before_the_handshake_does_no_harm(void **state)
{
	struct rig *r = *state;
	static const char noise[] =
	    "\xef\xbb\xbfwelcome\n\x1b[32mready\x1b[0m\r\n\n42\nnull\n"
	    "[1]\n{\"error\":{\"code\":-32700,\"message\":\"x\"}}\n"
	    "{\"id\":null,\"error\":{\"code\":1,\"message\":\"y\"}}\n"
	    "{\"id\":77,\"result\":{}}\n";

	rig_open(r);
	peer_writes(r, noise, sizeof(noise) - 1);
	peer_gets(r, "initialize");
	peer_gets(r, "\"id\":null,\"error\":{\"code\":-32600");
	peer_says(r, "{\"id\":0,\"result\":{\"protocolVersion\":1}}\r");
	peer_gets(r, "session/new");
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S\"}}");
	rig_wait_state(r, SLI_SS_IDLE);
	assert_int_equal(rig_count(r, SLI_EV_NOISE, NULL), 5);
	assert_int_equal(rig_count(r, SLI_EV_NOISE, "welcome"), 1);
	assert_int_equal(rig_count(r, SLI_EV_DIAGNOSTIC, NULL), 3);
}

static void
updates_before_session_new_answers_come_in_order(void **state)
{
	struct rig *r = *state;
	unsigned started, first, last;

	rig_open(r);
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_chunk(r, "one");
	peer_says(r,
	    "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"T\","
	    "\"update\":{\"sessionUpdate\":\"plan\"}}}");
	peer_chunk(r, "two");
	rig_settle(r);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "one"), 0);
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S\"}}");
	rig_wait_state(r, SLI_SS_IDLE);
	started = (unsigned)rig_find(r, SLI_EV_AGENT_STARTED, NULL)->ev.seq;
	first = (unsigned)rig_find(r, SLI_EV_AGENT, "one")->ev.seq;
	last = (unsigned)rig_find(r, SLI_EV_AGENT, "two")->ev.seq;
	assert_true(started < first && first < last);
	/* the foreign one is kept apart */
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "plan"), 0);
	assert_int_equal(rig_count(r, SLI_EV_DIAGNOSTIC, "foreign"), 1);
}

static void
early_updates_are_bounded(void **state)
{
	struct rig *r = *state;

	r->limits.v[SLI_L_ACP_EARLY] = 4096;
	rig_open(r);
	peer_init(r, "");
	peer_gets(r, "session/new");
	for (int i = 0; i < 100; i++)
		peer_chunk(r, "early");
	rig_settle(r);
	assert_true(acp_held(r->acp) <= 4096);
	assert_in_range(rig_count(r, SLI_EV_DIAGNOSTIC, "too early"), 80, 100);
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S\"}}");
	rig_wait_state(r, SLI_SS_IDLE);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "early") +
			     rig_count(r, SLI_EV_DIAGNOSTIC, "too early"),
	    100);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(a_spawn_that_fails_is_named),
	    T(a_spawn_that_never_answers_times_out),
	    T(initialize_never_answered_times_out),
	    T(another_protocol_version_is_refused),
	    T(an_exit_during_initialize_tells_code_and_stderr),
	    T(session_new_never_answered_times_out),
	    T(session_new_refused_is_told_with_its_text),
	    T(authentication_is_its_own_reason),
	    T(answers_that_are_none_fail_their_step),
	    T(opening_is_a_row_of_events),
	    T(noise_before_the_handshake_does_no_harm),
	    T(updates_before_session_new_answers_come_in_order),
	    T(early_updates_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
