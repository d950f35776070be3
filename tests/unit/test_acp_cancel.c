/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Ending a turn early: cancel in every state of a turn and when there is none,
 * the deadline, an agent that does not listen. */
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
	r->limits.v[SLI_L_ACP_CANCEL_GRACE] = 80;
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

/* --- cancel --------------------------------------------------------------*/

static void
an_idle_cancel_does_nothing(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	for (int round = 0; round < 20; round++) {
		uint64_t turn;
		unsigned id;

		for (int i = 0; i < 5; i++)
			assert_int_equal(acp_cancel(r->s), 0);
		turn = rig_prompt(r, "hi");
		id = peer_prompt(r, "hi");
		peer_ends(r, id, "end_turn");
		rig_wait_end(r, turn, SLI_TO_COMPLETED);
		assert_int_equal(acp_cancel(r->s), 0);
	}
	peer_gets_nothing(r);
	assert_int_equal(rig_count(r, SLI_EV_TURN_ENDED, "canceled"), 0);
}

static void
a_cancel_is_told_and_its_answer_ends_the_turn(void **state)
{
	struct rig *r = *state;
	unsigned id;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	id = peer_prompt(r, "one");
	assert_int_equal(acp_cancel(r->s), 1);
	assert_int_equal(acp_cancel(r->s), 1);
	peer_gets(r, "\"method\":\"session/cancel\"");
	/* the next prompt waits for the end without being asked to queue */
	rig_ask(r, "two", "", 0);
	peer_gets_nothing(r);
	for (int i = 0; i < 5; i++)
		peer_chunk(r, "more");
	peer_ends(r, id, "cancelled");
	rig_wait_end(r, 1, SLI_TO_CANCELED);
	assert_int_equal(rig_find(r, SLI_EV_AGENT, "more")->ev.turn, 1);
	peer_ends(r, peer_prompt(r, "two"), "end_turn");
	rig_wait_end(r, 2, SLI_TO_COMPLETED);
}

static void
an_agent_that_finished_first_has_finished(void **state)
{
	struct rig *r = *state;
	unsigned id;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	id = peer_prompt(r, "one");
	(void)acp_cancel(r->s);
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	/* and an error after a cancel is the cancel's doing */
	(void)rig_prompt(r, "two");
	peer_gets(r, "session/cancel");
	id = peer_prompt(r, "two");
	(void)acp_cancel(r->s);
	peer_says(r, "{\"id\":%u,\"error\":{\"code\":-32603}}", id);
	rig_wait_end(r, 2, SLI_TO_CANCELED);
}

static void
an_agent_that_does_not_listen_is_killed(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	(void)peer_prompt(r, "one");
	(void)acp_cancel(r->s);
	rig_ask(r, "two", "", 0);
	rig_wait_end(r, 1, SLI_TO_CANCELED);
	assert_int_equal(
	    rig_count(r, SLI_EV_AGENT_EXITED, "\"ended\":true"), 1);
	/* replaced; the next turn runs on a fresh one */
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S\"}}");
	peer_ends(r, peer_prompt(r, "two"), "end_turn");
	rig_wait_end(r, 2, SLI_TO_COMPLETED);
}

static void
cancel_before_the_start_sends_nothing(void **state)
{
	struct rig *r = *state;
	unsigned id;

	rig_open(r);
	/* accepted while opening */
	rig_ask(r, "one", "", 0);
	rig_settle(r);
	assert_int_equal(acp_cancel(r->s), 1);
	rig_wait_end(r, 1, SLI_TO_CANCELED);
	peer_hello(r);
	peer_gets_nothing(r);
	/* while its acceptance is being committed */
	r->manual = 1;
	rig_ask(r, "two", "", 0);
	assert_int_equal(acp_cancel(r->s), 2);
	r->manual = 0;
	rig_wait_end(r, 2, SLI_TO_CANCELED);
	assert_int_equal(r->ei.code, SLI_OK);
	peer_gets_nothing(r);
	/* a second cancel reaches those that wait */
	(void)rig_prompt(r, "three");
	id = peer_prompt(r, "three");
	rig_ask(r, "four", "", 1);
	rig_settle(r);
	assert_int_equal(acp_cancel(r->s), 3);
	assert_int_equal(rig_outcome(r, 4), 0);
	assert_int_equal(acp_cancel(r->s), 3);
	rig_wait_end(r, 4, SLI_TO_CANCELED);
	peer_gets(r, "session/cancel");
	peer_ends(r, id, "cancelled");
	rig_wait_end(r, 3, SLI_TO_CANCELED);
	/* while its start is being committed: told right behind the prompt */
	rig_ask(r, "five", "", 0);
	rig_moves(r);
	r->manual = 1;
	assert_int_equal(acp_cancel(r->s), 5);
	r->manual = 0;
	id = peer_prompt(r, "five");
	peer_gets(r, "session/cancel");
	peer_ends(r, id, "cancelled");
	rig_wait_end(r, 5, SLI_TO_CANCELED);
}

static void
a_deadline_is_never_an_end_turn(void **state)
{
	struct rig *r = *state;
	unsigned id;

	r->limits.v[SLI_L_ACP_TURN_DEADLINE] = 40;
	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	id = peer_prompt(r, "one");
	peer_gets(r, "session/cancel");
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_TIMED_OUT);
	assert_null(
	    strstr(rig_find(r, SLI_EV_TURN_ENDED, NULL)->body, "end_turn"));
	(void)rig_prompt(r, "two");
	(void)peer_prompt(r, "two");
	peer_gets(r, "session/cancel");
	rig_wait_end(r, 2, SLI_TO_TIMED_OUT); /* killed */
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(an_idle_cancel_does_nothing),
	    T(a_cancel_is_told_and_its_answer_ends_the_turn),
	    T(an_agent_that_finished_first_has_finished),
	    T(an_agent_that_does_not_listen_is_killed),
	    T(cancel_before_the_start_sends_nothing),
	    T(a_deadline_is_never_an_end_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
