/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The context ladder: every way that giving context back can fail is an event
 * before the first text of the fresh agent, and what an agent replays is not
 * stored twice. */
#include "t_acp.h"

#include <stdio.h>
#include <string.h>

static int
setup(void **state)
{
	struct rig *r = sli_zalloc(sizeof(*r));

	assert_non_null(r);
	rig_init(r);
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

/* A session with two turns whose agent is gone; the third prompt waits. */
static void
with_history(struct rig *r)
{
	unsigned id;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "the word is \\\"plum\\\"");
	id = peer_prompt(r, "plum");
	peer_update(r,
	    "\"sessionUpdate\":\"agent_thought_chunk\",\"content\":{\"type\":"
	    "\"text\",\"text\":\"secret thought\"}");
	peer_chunk(r, "I will\\n");
	peer_update(r,
	    "\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t\",\"title\":"
	    "\"write it down\"");
	peer_chunk(r, "remember it");
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	(void)rig_prompt(r, "and go on");
	(void)peer_prompt(r, "and go on");
	peer_chunk(r, "partly");
	rig_settle(r);
	peer_exits(r, 1, 0);
	rig_wait_end(r, 2, SLI_TO_FAILED);
	(void)rig_prompt(r, "what was the word?");
}

static void
answer_load(struct rig *r, const char *json)
{
	peer_gets(r, "\"method\":\"session/load\",\"params\":{\"sessionId\":"
		     "\"S\",\"cwd\":\"/work\",\"mcpServers\":[]}");
	peer_says(r, "{\"id\":1,%s}", json);
}

/* The fresh session of an agent that could not load: a preamble comes. */
static void
expect_preamble(struct rig *r, unsigned id)
{
	unsigned started;
	const char *l;

	peer_gets(r, "session/new");
	peer_says(r, "{\"id\":%u,\"result\":{\"sessionId\":\"S2\"}}", id);
	l = peer_gets(r, "session/prompt");
	assert_non_null(strstr(l, "\"_meta\":{\"sluice\":{\"preamble\":true"));
	assert_non_null(strstr(l, "\"text\":\"[Sluice: "));
	assert_non_null(strstr(l,
	    "User: the word is \\\"plum\\\"\\n\\nAgent: I will\\n\\n[used a "
	    "tool: write it down]\\nremember it"));
	assert_non_null(strstr(l, "partly\\n[this turn ended: failed]"));
	assert_null(strstr(l, "secret thought"));
	/* the prompt itself stands behind it, once */
	l = strstr(l, "what was the word?");
	assert_non_null(l);
	assert_null(strstr(l + 1, "what was the word?"));
	rig_settle(r);
	started =
	    (unsigned)rig_find(r, SLI_EV_AGENT_STARTED, "\"rung\":\"preamble\"")
		->ev.seq;
	assert_true(
	    started < rig_find(r, SLI_EV_CLIENT, "session/prompt")->ev.seq);
	assert_string_equal(r->agent_session, "S2");
}

static void
load_refused_is_an_event_and_a_preamble(void **state)
{
	struct rig *r = *state;

	with_history(r);
	peer_init(r, "\"loadSession\":true");
	answer_load(r, "\"error\":{\"code\":-32002,\"message\":\"not found\"}");
	expect_preamble(r, 2);
	assert_int_equal(rig_count(r, SLI_EV_SESSION, "not found"), 1);
	assert_true(rig_find(r, SLI_EV_SESSION, "not found")->ev.seq <
		    rig_find(r, SLI_EV_AGENT_STARTED, NULL)->ev.seq);
}

static void
load_of_another_session_is_no_load(void **state)
{
	struct rig *r = *state;

	with_history(r);
	peer_init(r, "\"loadSession\":true");
	answer_load(r, "\"result\":{\"sessionId\":\"other\"}");
	expect_preamble(r, 2);
}

static void
load_never_answered_takes_a_fresh_process(void **state)
{
	struct rig *r = *state;

	r->limits.v[SLI_L_ACP_LOAD] = 40;
	with_history(r);
	peer_init(r, "\"loadSession\":true");
	peer_gets(r, "session/load");
	/* killed, started again, and not asked to load once more */
	peer_init(r, "\"loadSession\":true");
	expect_preamble(r, 1);
	assert_int_equal(r->generation, 3);
	assert_int_equal(rig_count(r, SLI_EV_SESSION, "no answer to"), 1);
}

static void
an_exit_in_load_takes_a_fresh_process(void **state)
{
	struct rig *r = *state;

	with_history(r);
	peer_init(r, "\"loadSession\":true");
	peer_gets(r, "session/load");
	peer_exits(r, 5, 0);
	peer_init(r, "\"loadSession\":true");
	expect_preamble(r, 1);
	assert_int_equal(rig_count(r, SLI_EV_SESSION, "exited with code 5"), 1);
}

static void
an_agent_that_cannot_load_gets_a_preamble(void **state)
{
	struct rig *r = *state;

	with_history(r);
	peer_init(r, "");
	expect_preamble(r, 1);
}

static void
resume_comes_first_and_load_second(void **state)
{
	struct rig *r = *state;

	with_history(r);
	peer_init(r, "\"loadSession\":true,\"sessionCapabilities\":{"
		     "\"resume\":{}}");
	peer_gets(r, "\"method\":\"session/resume\"");
	peer_says(
	    r, "{\"id\":1,\"error\":{\"code\":-32601,\"message\":\"n\"}}");
	peer_gets(r, "session/load");
	peer_says(r, "{\"id\":2,\"result\":null}");
	(void)peer_prompt(r, "\"prompt\":[{\"type\":\"text\",\"text\":\"what "
			     "was the word?\"}]");
	rig_settle(r);
	assert_int_equal(
	    rig_count(r, SLI_EV_AGENT_STARTED, "\"rung\":\"load\""), 1);
}

static void
resume_alone_needs_nothing_else(void **state)
{
	struct rig *r = *state;

	with_history(r);
	peer_init(r, "\"sessionCapabilities\":{\"resume\":{}}");
	peer_gets(r, "session/resume");
	/* no replay: what comes is new */
	peer_update(r, "\"sessionUpdate\":\"available_commands_update\"");
	peer_says(r, "{\"id\":1,\"result\":{}}");
	(void)peer_prompt(r, "what was the word?");
	rig_settle(r);
	assert_int_equal(
	    rig_count(r, SLI_EV_AGENT_STARTED, "\"rung\":\"resume\""), 1);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "available_commands"), 1);
	assert_int_equal(rig_count(r, SLI_EV_DIAGNOSTIC, "replayed"), 0);
}

static void
what_is_replayed_is_counted_not_stored(void **state)
{
	struct rig *r = *state;
	unsigned chunks, parts;
	char *big = sli_alloc((300 << 10) + 1);

	assert_non_null(big);
	memset(big, 'x', 300 << 10);
	big[300 << 10] = '\0';
	with_history(r);
	for (int round = 0; round < 5; round++) {
		unsigned id;

		chunks = rig_count(r, SLI_EV_AGENT, "chunk");
		peer_init(r, "\"loadSession\":true");
		peer_gets(r, "session/load");
		for (int i = 0; i < 10; i++) {
			peer_chunk(r, "I will");
			rig_turns(r, 1);
		}
		peer_chunk(r, big); /* even one that goes to parts */
		/* another session's is not ours, loading or not */
		peer_says(r,
		    "{\"method\":\"session/update\",\"params\":{\"sessionId\":"
		    "\"Z\",\"update\":{\"sessionUpdate\":\"plan\"}}}");
		peer_says(r, "{\"id\":1,\"result\":null}");
		id = peer_prompt(r, "");
		rig_settle(r);
		parts = (unsigned)rig_find(r, SLI_EV_DIAGNOSTIC, "replayed")
			    ->ev.flags;
		assert_int_equal(parts, SLI_EVF_REPLAY);
		assert_int_equal(
		    rig_count(r, SLI_EV_DIAGNOSTIC, "\"lines\":11"), round + 1);
		assert_int_equal(rig_count(r, SLI_EV_AGENT, "chunk"), chunks);
		assert_int_equal(
		    rig_count(r, SLI_EV_DIAGNOSTIC, "foreign"), round + 1);
		peer_ends(r, id, "end_turn");
		rig_wait_end(r, (uint64_t)round + 3, SLI_TO_COMPLETED);
		peer_exits(r, 0, 0);
		rig_wait_state(r, SLI_SS_UNLOADED);
		(void)rig_prompt(r, "again");
	}
	sli_free(big);
}

static void
a_small_budget_keeps_the_newest(void **state)
{
	struct rig *r = *state;
	const char *l;

	r->limits.v[SLI_L_ACP_PREAMBLE] = 60;
	with_history(r);
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S2\"}}");
	l = peer_gets(r, "session/prompt");
	assert_non_null(strstr(l, "Older parts are left out."));
	assert_non_null(strstr(l, "[this turn ended: failed]"));
	assert_null(strstr(l, "plum"));
}

static void
no_budget_or_no_history_is_the_task_alone(void **state)
{
	struct rig *r = *state;

	for (int round = 0; round < 2; round++) {
		if (round) {
			rig_fini(r);
			rig_init(r);
			r->page_error = 1;
		} else {
			r->limits.v[SLI_L_ACP_PREAMBLE] = 0;
		}
		with_history(r);
		peer_init(r, "");
		peer_gets(r, "session/new");
		peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S2\"}}");
		(void)peer_prompt(r, "could not be given back");
		rig_settle(r);
		assert_int_equal(
		    rig_count(r, SLI_EV_AGENT_STARTED, "\"rung\":\"task\""), 1);
	}
}

static void
a_page_that_never_comes_is_not_awaited(void **state)
{
	struct rig *r = *state;

	r->limits.v[SLI_L_ACP_LOAD] = 60;
	with_history(r);
	peer_gets(r, "initialize");
	peer_says(r, "{\"id\":0,\"result\":{\"protocolVersion\":1}}");
	r->no_pages = 1;
	peer_gets(r, "session/new");
	r->no_pages = 0;
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S2\"}}");
	(void)peer_prompt(r, "could not be given back");
}

static void
after_a_restart_of_the_server_the_ladder_is_climbed(void **state)
{
	struct rig *r = *state;

	with_history(r);
	rig_restart(r);
	(void)rig_prompt(r, "what was the word?");
	peer_init(r, "\"loadSession\":true");
	answer_load(r, "\"result\":{}");
	(void)peer_prompt(r, "what was the word?");
	rig_settle(r);
	assert_int_equal(
	    rig_count(r, SLI_EV_AGENT_STARTED, "\"rung\":\"load\""), 1);
}

static void
a_session_without_turns_needs_no_context(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	peer_exits(r, 0, 0);
	rig_wait_state(r, SLI_SS_UNLOADED);
	rig_restart(r);
	(void)rig_prompt(r, "first");
	peer_init(r, "\"loadSession\":true");
	peer_gets(r, "session/new");
}

static void
the_preamble_is_used_once(void **state)
{
	struct rig *r = *state;
	unsigned id;

	with_history(r);
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S\"}}");
	id = peer_prompt(r, "[Sluice: ");
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 3, SLI_TO_COMPLETED);
	(void)rig_prompt(r, "next");
	(void)peer_prompt(
	    r, "\"prompt\":[{\"type\":\"text\",\"text\":\"next\"}]");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(load_refused_is_an_event_and_a_preamble),
	    T(load_of_another_session_is_no_load),
	    T(load_never_answered_takes_a_fresh_process),
	    T(an_exit_in_load_takes_a_fresh_process),
	    T(an_agent_that_cannot_load_gets_a_preamble),
	    T(resume_comes_first_and_load_second),
	    T(resume_alone_needs_nothing_else),
	    T(what_is_replayed_is_counted_not_stored),
	    T(a_small_budget_keeps_the_newest),
	    T(no_budget_or_no_history_is_the_task_alone),
	    T(a_page_that_never_comes_is_not_awaited),
	    T(after_a_restart_of_the_server_the_ladder_is_climbed),
	    T(a_session_without_turns_needs_no_context),
	    T(the_preamble_is_used_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
