/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Sessions: exits of the agent, unload, delete, tenants, restart and shutdown
 * of the server. */
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

/* --- exits ---------------------------------------------------------------*/

static void
an_idle_exit_is_one_event_and_the_next_prompt_works(void **state)
{
	struct rig *r = *state;
	uint64_t turn;

	rig_open(r);
	peer_hello(r);
	peer_exits(r, 0, 9);
	rig_wait_state(r, SLI_SS_UNLOADED);
	assert_string_equal(r->reason_code, "agent_exited");
	assert_int_equal(rig_count(r, SLI_EV_AGENT_EXITED, "\"signal\":9"), 1);
	turn = rig_prompt(r, "hello");
	peer_hello(r);
	peer_ends(r, peer_prompt(r, "hello"), "end_turn");
	rig_wait_end(r, turn, SLI_TO_COMPLETED);
	assert_int_equal(r->generation, 2);
	assert_int_equal(rig_count(r, SLI_EV_AGENT_EXITED, NULL), 1);
}

static void
restarts_have_a_budget(void **state)
{
	struct rig *r = *state;

	r->limits.v[SLI_L_ACP_RESTARTS] = 2;
	rig_open(r);
	peer_hello(r);
	for (int i = 0; i < 2; i++) {
		peer_exits(r, 1, 0);
		rig_wait_state(r, SLI_SS_UNLOADED);
		rig_ask(r, "x", "", 0);
		peer_init(r, "");
		peer_gets(r, "session/new");
		peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S\"}}");
		peer_ends(r, peer_prompt(r, "x"), "end_turn");
		rig_wait_end(r, (uint64_t)i + 1, SLI_TO_COMPLETED);
	}
	peer_exits(r, 1, 0);
	rig_wait_state(r, SLI_SS_UNLOADED);
	(void)rig_prompt(r, "x");
	rig_wait_state(r, SLI_SS_FAILED);
	assert_string_equal(r->reason_code, "restart_budget");
	rig_wait_end(r, 3, SLI_TO_DISPATCH_FAILED);
	/* ends that we made do not count: unload goes on working */
}

static void
stdout_is_read_to_the_end_and_a_last_line_counts(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	peer_writes(r, "{\"method\":\"_last\"}", 18);
	peer_exits(r, 0, 0);
	rig_wait_state(r, SLI_SS_UNLOADED);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "_last"), 1);
	assert_true(rig_find(r, SLI_EV_AGENT, "_last")->ev.seq <
		    rig_find(r, SLI_EV_AGENT_EXITED, NULL)->ev.seq);
}

static void
an_orphan_that_holds_the_pipe_is_killed_and_not_awaited(void **state)
{
	struct rig *r = *state;
	int hold;

	rig_open(r);
	peer_hello(r);
	hold = dup(r->out);
	assert_true(hold >= 0);
	peer_exits(r, 0, 0);
	rig_wait_state(r, SLI_SS_UNLOADED);
	assert_int_equal(r->kills, 1);
	(void)close(hold);
}

static void
a_closed_stdout_ends_the_agent(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	(void)close(r->out);
	r->out = -1;
	rig_wait_state(r, SLI_SS_UNLOADED);
	assert_int_equal(rig_count(r, SLI_EV_AGENT_EXITED, NULL), 1);
}

/* --- unload and delete ---------------------------------------------------*/

static void
on_done(void *ctx, const struct sli_errinfo *ei)
{
	struct rig *r = ctx;

	r->answers += 100;
	r->ei = *ei;
}

static void
unload_ends_politely_then_by_force(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	acp_unload(r->s, on_done, r);
	rig_settle(r);
	assert_int_equal(r->answers, 0);
	/* it saw the end of its stdin and goes */
	peer_exits(r, 0, 0);
	rig_settle(r);
	assert_int_equal(r->answers, 100);
	assert_int_equal(r->ei.code, SLI_OK);
	assert_int_equal(rig_state(r), SLI_SS_UNLOADED);
	assert_int_equal(r->kills + r->terms, 0);
	/* again: nothing to do */
	acp_unload(r->s, on_done, r);
	assert_int_equal(r->answers, 200);
	/* one that ignores EOF and SIGTERM */
	(void)rig_prompt(r, "hi");
	peer_hello(r);
	(void)peer_prompt(r, "hi");
	acp_unload(r->s, on_done, r);
	peer_gets(r, "session/cancel");
	rig_wait_end(r, 1, SLI_TO_CANCELED);
	rig_wait_state(r, SLI_SS_UNLOADED);
	assert_int_equal(rig_count(r, SLI_EV_TURN_ENDED, NULL), 1);
}

static void
eof_and_sigterm_ignored_end_in_the_kill(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	acp_unload(r->s, on_done, r);
	for (int i = 0; i < 100 && !r->answers; i++)
		rig_turns(r, 50);
	assert_int_equal(r->answers, 100);
	assert_int_equal(r->terms, 1);
	assert_int_equal(r->kills, 1);
	assert_int_equal(rig_state(r), SLI_SS_UNLOADED);
	assert_string_equal(r->reason_code, "unloaded");
	assert_int_equal(
	    rig_count(r, SLI_EV_AGENT_EXITED, "\"ended\":true"), 1);
}

static void
delete_at_any_time_leaves_nothing(void **state)
{
	struct rig *r = *state;

	/* in the middle of opening, with a prompt waiting */
	rig_open(r);
	peer_gets(r, "initialize");
	rig_ask(r, "hi", "", 1);
	acp_delete(r->s, on_done, r);
	for (int i = 0; i < 200 && !r->purged; i++)
		rig_turns(r, 5);
	assert_true(r->purged);
	assert_int_equal(r->answers % 100, 1); /* the prompt: NOT_FOUND */
	assert_int_equal(r->answers / 100, 1);
	assert_int_equal(r->alive, 0);
	assert_null(acp_find(r->acp, &r->who, "s1"));
}

static void
delete_in_a_turn_with_a_permission(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "hi");
	(void)peer_prompt(r, "hi");
	peer_asks(r, "5");
	rig_wait_state(r, SLI_SS_WAITING_PERMISSION);
	rig_settle(r);
	r->manual = 1;
	rig_permit(r, rig_pending(r, 0), "yes", "k");
	acp_delete(r->s, on_done, r);
	r->manual = 0;
	for (int i = 0; i < 200 && !r->purged; i++)
		rig_turns(r, 5);
	assert_true(r->purged);
	assert_int_equal(acp_busy(r->acp), 0);
}

/* --- ids and tenants -----------------------------------------------------*/

static void
another_tenant_finds_nothing(void **state)
{
	struct rig *r = *state;
	struct sli_principal other = {.tenant = 8, .role = SLI_ROLE_ADMIN};
	uint32_t pos = 0;

	rig_open(r);
	assert_null(acp_find(r->acp, &other, "s1"));
	assert_null(acp_next(r->acp, &other, &pos));
	pos = 0;
	assert_ptr_equal(acp_next(r->acp, &r->who, &pos), r->s);
	assert_null(acp_next(r->acp, &r->who, &pos));
	assert_ptr_equal(acp_session_user(r->s), r);
}

/* --- restart of the server -----------------------------------------------*/

static void
a_restart_calls_the_started_turn_lost(void **state)
{
	struct rig *r = *state;
	uint64_t head;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	(void)peer_prompt(r, "one");
	peer_asks(r, "5");
	rig_wait_state(r, SLI_SS_WAITING_PERMISSION);
	rig_ask(r, "two", "", 1);
	rig_settle(r);
	head = r->nev;
	rig_restart(r);
	assert_true(r->nev > head);
	assert_int_equal(rig_state(r), SLI_SS_UNLOADED);
	assert_int_equal(rig_outcome(r, 1), SLI_TO_LOST);
	assert_int_equal(rig_outcome(r, 2), SLI_TO_DISPATCH_FAILED);
	assert_int_equal(r->perm[0].state, SLI_PS_EXPIRED);
	/* nothing is started by itself; the next prompt does it */
	rig_turns(r, 20);
	assert_int_equal(r->alive, 0);
	(void)rig_prompt(r, "three");
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_says(r, "{\"id\":1,\"result\":{\"sessionId\":\"S2\"}}");
	peer_ends(r, peer_prompt(r, "three"), "end_turn");
	rig_wait_end(r, 3, SLI_TO_COMPLETED);
}

static void
shutdown_calls_running_turns_lost(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	(void)peer_prompt(r, "one");
	acp_drain(r->acp);
	rig_ask(r, "two", "", 1);
	assert_int_equal(r->ei.code, SLI_E_DRAINING);
	assert_int_equal(acp_busy(r->acp), 1);
	acp_shutdown(r->acp, "server_stopped");
	assert_int_equal(acp_busy(r->acp), 0);
	rig_wait_end(r, 1, SLI_TO_LOST);
	assert_string_equal(r->turn[0].reason, "server_stopped");
	rig_turns(r, 20);
	assert_int_equal(rig_count(r, SLI_EV_TURN_ENDED, NULL), 1);
	assert_int_equal(rig_state(r), SLI_SS_UNLOADED);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(an_idle_exit_is_one_event_and_the_next_prompt_works),
	    T(restarts_have_a_budget),
	    T(stdout_is_read_to_the_end_and_a_last_line_counts),
	    T(an_orphan_that_holds_the_pipe_is_killed_and_not_awaited),
	    T(a_closed_stdout_ends_the_agent),
	    T(unload_ends_politely_then_by_force),
	    T(eof_and_sigterm_ignored_end_in_the_kill),
	    T(delete_at_any_time_leaves_nothing),
	    T(delete_in_a_turn_with_a_permission),
	    T(another_tenant_finds_nothing),
	    T(a_restart_calls_the_started_turn_lost),
	    T(shutdown_calls_running_turns_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
