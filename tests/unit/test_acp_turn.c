/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Turns: what is refused, commits before answers and before bytes, one end in
 * one commit, order, keys, queue, exits, a full disk. */
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

static void
refused(struct rig *r, const char *content, int code)
{
	struct acp_ask ask = {.content = sli_slice_str(content)};
	int before = r->answers;

	acp_prompt(r->s, &ask, rig_on_accepted, r);
	assert_int_equal(r->answers, before + 1);
	assert_int_equal(r->ei.code, code);
}

static void
bad_prompts_are_refused(void **state)
{
	struct rig *r = *state;
	char key[300] = {0};

	rig_open(r);
	peer_hello(r);
	refused(r, "", SLI_E_INVALID_ARGUMENT);
	refused(r, "[]", SLI_E_INVALID_ARGUMENT);
	refused(r, "{}", SLI_E_INVALID_ARGUMENT);
	refused(r, "[1]", SLI_E_INVALID_ARGUMENT);
	refused(r, "[{}", SLI_E_INVALID_ARGUMENT);
	refused(r, "[{}]x", SLI_E_INVALID_ARGUMENT);
	refused(r, "[{\"a\":\"\xff\"}]", SLI_E_INVALID_ARGUMENT);
	memset(key, 'k', 257);
	rig_ask(r, "x", key, 0);
	assert_int_equal(r->ei.code, SLI_E_INVALID_ARGUMENT);
	assert_int_equal(r->nturn, 0);
}

static void
newlines_between_tokens_do_not_end_our_line(void **state)
{
	struct rig *r = *state;
	struct acp_ask ask = {
	    .content = sli_slice_str(
		" [\n{\"type\":\"text\",\r\n\"text\":\"a\"}\n]\n")};

	rig_open(r);
	peer_hello(r);
	/* and the caller's trace reaches the agent */
	ask.traceparent = sli_slice_str("00-0af76519-b7ad6b71-01");
	acp_prompt(r->s, &ask, rig_on_accepted, r);
	(void)peer_prompt(r,
	    "{\"_meta\":{\"traceparent\":\"00-0af76519-b7ad6b71-01\"},"
	    "\"sessionId\":\"S\",\"prompt\":[ {\"type\":\"text\",  "
	    "\"text\":\"a\"} ]}}");
}

static void
nothing_is_answered_or_sent_before_its_commit(void **state)
{
	struct rig *r = *state;
	unsigned id;

	rig_open(r);
	peer_hello(r);
	r->manual = 1;
	rig_ask(r, "hi", "", 0);
	rig_turns(r, 20);
	assert_int_equal(r->answers, 0);
	rig_commit(r, 0); /* accepted */
	assert_int_equal(r->answers, 1);
	assert_int_equal(r->ei.code, SLI_OK);
	assert_int_equal(r->acc.first_seq, r->nev);
	/* the start is not committed: the agent knows nothing */
	peer_gets_nothing(r);
	assert_false(r->turn[0].started);
	rig_commit(r, 0);
	assert_true(r->turn[0].started);
	id = peer_prompt(r, "hi");
	assert_int_equal(rig_count(r, SLI_EV_CLIENT, "session/prompt"), 1);
	/* the end: one commit with the answer, the outcome and the state */
	peer_chunk(r, "text");
	peer_ends(r, id, "end_turn");
	rig_settle(r);
	assert_int_equal(rig_state(r), SLI_SS_RUNNING);
	rig_commit(r, 1); /* the chunk */
	assert_int_equal(rig_outcome(r, 1), 0);
	rig_commit(r, 1);
	assert_int_equal(rig_outcome(r, 1), SLI_TO_COMPLETED);
	assert_int_equal(rig_state(r), SLI_SS_IDLE);
	assert_non_null(strstr(r->ev[r->nev - 3].body, "stopReason"));
	assert_string_equal(r->ev[r->nev - 2].body,
	    "{\"turn\":1,\"outcome\":\"completed\",\"stop_reason\":"
	    "\"end_turn\"}");
	assert_string_equal(r->ev[r->nev - 1].body, "{\"state\":\"idle\"}");
}

static void
fifty_chunks_and_the_answer_in_one_write_stay_in_order(void **state)
{
	struct rig *r = *state;
	struct sli_buf b;
	uint64_t end;
	unsigned id;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "hi");
	id = peer_prompt(r, "hi");
	sli_buf_init(&b, 1 << 20);
	for (int i = 0; i < 50; i++)
		assert_int_equal(
		    sli_buf_printf(&b,
			"{\"method\":\"session/update\",\"params\":{"
			"\"sessionId\":\"S\",\"update\":{\"sessionUpdate\":"
			"\"agent_message_chunk\",\"content\":{\"type\":"
			"\"text\",\"text\":\"c%d.\"}}}}\n",
			i),
		    SLI_OK);
	assert_int_equal(sli_buf_printf(&b,
			     "{\"id\":%u,\"result\":{\"stopReason\":"
			     "\"end_turn\"}}\n",
			     id),
	    SLI_OK);
	peer_writes(r, sli_buf_data(&b), sli_buf_len(&b));
	sli_buf_free(&b);
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	end = rig_find(r, SLI_EV_TURN_ENDED, NULL)->ev.seq;
	for (uint64_t i = 0; i < 50; i++) {
		char c[8];

		(void)snprintf(c, sizeof(c), "c%u.", (unsigned)i);
		assert_non_null(strstr(r->ev[end - 52 + i].body, c));
		assert_int_equal(r->ev[end - 52 + i].ev.turn, 1);
	}
	/* stragglers are kept, outside of the turn and of the next one */
	peer_chunk(r, "late");
	rig_settle(r);
	assert_int_equal(rig_find(r, SLI_EV_AGENT, "late")->ev.turn, 0);
	assert_int_equal(rig_outcome(r, 1), SLI_TO_COMPLETED);
}

static void
outcomes_are_what_the_agent_said(void **state)
{
	static const struct {
		const char *answer;
		int outcome;
		const char *event;
	} t[] = {
	    {"\"result\":{\"stopReason\":\"max_tokens\"}",                      SLI_TO_COMPLETED,
             "\"stop_reason\":\"max_tokens\""									},
	    {"\"result\":{\"stopReason\":\"max_turn_requests\"}",
             SLI_TO_COMPLETED,								    "max_turn_requests"},
	    {"\"result\":{\"stopReason\":\"refusal\"}",                         SLI_TO_COMPLETED,
             "refusal"											       },
	    {"\"result\":{\"stopReason\":\"bored\"}",                           SLI_TO_COMPLETED,
             "\"stop_reason\":\"bored\""									     },
	    {"\"result\":{\"stopReason\":\"cancelled\"}",                       SLI_TO_CANCELED,
             "cancelled"											     },
	    {"\"result\":{}",						   SLI_TO_FAILED,    "invalid_response" },
	    {"\"result\":null",						 SLI_TO_FAILED,    "invalid_response" },
	    {"\"x\":1",							 SLI_TO_FAILED,    "invalid_response" },
	    {"\"result\":{\"stopReason\":7}",                                   SLI_TO_FAILED,
             "invalid_response"										      },
	    {"\"result\":{\"stopReason\":\"end_turn\",\"x\":\"\xff\"}",
             SLI_TO_FAILED,								       "invalid_response" },
	    {"\"error\":{\"code\":-32603,\"message\":\"m\"}",                   SLI_TO_FAILED,
             "agent_error"											   },
	    {"\"error\":{\"code\":-32000,\"message\":\"m\"}",
             SLI_TO_AUTH_REJECTED,								"auth_required"    },
	    {"\"error\":{\"code\":-32800,\"message\":\"m\"}",                   SLI_TO_CANCELED,
             "agent_error"											   },
	    {"\"result\":{\"stopReason\":\"end_turn\"},\"error\":{\"code\":1}",
             SLI_TO_FAILED,								       "agent_error"      },
	};
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	for (size_t i = 0; i < SLI_ARRAY_LEN(t); i++) {
		uint64_t turn = rig_prompt(r, "hi");
		unsigned id = peer_prompt(r, "hi");

		peer_says(r, "{\"id\":%u,%s}", id, t[i].answer);
		rig_wait_end(r, turn, t[i].outcome);
		assert_non_null(strstr(
		    rig_find(r, SLI_EV_TURN_ENDED, NULL)->body, t[i].event));
		/* a second answer is for nobody */
		peer_ends(r, id, "end_turn");
		rig_settle(r);
		assert_int_equal(rig_outcome(r, turn), t[i].outcome);
	}
	assert_int_equal(
	    rig_count(r, SLI_EV_DIAGNOSTIC, "nothing"), SLI_ARRAY_LEN(t));
}

/* --- busy, queue, keys ---------------------------------------------------*/

static void
one_turn_at_a_time(void **state)
{
	struct rig *r = *state;
	unsigned id;

	r->limits.v[SLI_L_ACP_QUEUED_PROMPTS] = 2;
	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	id = peer_prompt(r, "one");
	rig_ask(r, "two", "", 0);
	assert_int_equal(r->ei.code, SLI_E_SESSION_BUSY);
	rig_ask(r, "two", "", 1);
	rig_ask(r, "three", "", 1);
	rig_settle(r);
	assert_int_equal(r->acc.turn, 3);
	rig_ask(r, "four", "", 1);
	assert_int_equal(r->ei.code, SLI_E_RESOURCE_EXHAUSTED);
	assert_string_equal(r->ei.hits[0].key, "acp.queued_prompts");
	peer_gets_nothing(r);
	peer_ends(r, id, "end_turn");
	id = peer_prompt(r, "two");
	peer_ends(r, id, "end_turn");
	id = peer_prompt(r, "three");
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 3, SLI_TO_COMPLETED);
	assert_int_equal(acp_busy(r->acp), 0);
}

static void
a_key_is_one_turn(void **state)
{
	struct rig *r = *state;
	uint64_t turn, seq;
	uint8_t hash[32];
	int outcome;

	rig_open(r);
	peer_hello(r);
	r->manual = 1;
	/* ten at once, while the first is being committed */
	for (int i = 0; i < 10; i++)
		rig_ask(r, "hi", "K", 0);
	assert_int_equal(r->answers, 0);
	assert_int_equal(acp_turn_by_key(r->s, sli_slice_str("K"), &turn, &seq,
			     hash, &outcome),
	    0);
	rig_ask(r, "other", "K", 0);
	assert_int_equal(r->ei.code, SLI_E_KEY_CONFLICT);
	r->manual = 0;
	rig_settle(r);
	assert_int_equal(r->answers, 11);
	assert_int_equal(r->nturn, 1);
	assert_int_equal(r->acc.turn, 1);
	peer_ends(r, peer_prompt(r, "hi"), "end_turn");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	peer_gets_nothing(r);
	/* and after its end */
	rig_ask(r, "hi", "K", 0);
	assert_int_equal(r->acc.turn, 1);
	assert_true(r->acc.repeated);
	assert_int_equal(r->acc.outcome, SLI_TO_COMPLETED);
	assert_int_equal(acp_turn_by_key(r->s, sli_slice_str("K"), &turn, &seq,
			     hash, &outcome),
	    1);
	assert_int_equal(outcome, SLI_TO_COMPLETED);
}

/* --- exits in a turn -----------------------------------------------------*/

static void
an_exit_fails_the_turn_once(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	(void)peer_prompt(r, "one");
	peer_writes(r, "{\"half", 6);
	assert_int_equal(write(r->err, "boom\n", 5), 5);
	peer_exits(r, 0, 11);
	rig_wait_end(r, 1, SLI_TO_FAILED);
	assert_string_equal(r->turn[0].reason, "agent_exited");
	assert_int_equal(rig_count(r, SLI_EV_AGENT_EXITED, "boom"), 1);
	assert_int_equal(rig_count(r, SLI_EV_NOISE, "half"), 1);
	assert_int_equal(rig_state(r), SLI_SS_UNLOADED);
	/* history before it is kept; exit and end are one commit */
	assert_int_equal(rig_find(r, SLI_EV_AGENT_EXITED, NULL)->ev.seq + 1,
	    rig_find(r, SLI_EV_TURN_ENDED, NULL)->ev.seq);
}

static void
an_exit_before_the_bytes_left_is_a_dispatch_failure(void **state)
{
	struct rig *r = *state;

	rig_open(r);
	peer_hello(r);
	r->manual = 1;
	rig_ask(r, "one", "", 0);
	rig_commit(r, 0);
	peer_exits(r, 0, 9);
	rig_turns(r, 20);
	r->manual = 0;
	rig_wait_end(r, 1, SLI_TO_DISPATCH_FAILED);
}

/* --- the disk is full ----------------------------------------------------*/

static void
a_full_disk_refuses_and_keeps(void **state)
{
	struct rig *r = *state;
	unsigned id;

	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "one");
	id = peer_prompt(r, "one");
	r->full = 1;
	peer_chunk(r, "kept");
	rig_turns(r, 30);
	rig_ask(r, "two", "", 1);
	rig_settle(r);
	assert_int_equal(r->ei.code, SLI_E_STORAGE_FULL);
	/* it is not read meanwhile */
	for (int i = 0; i < 10; i++)
		peer_chunk(r, "later");
	peer_ends(r, id, "end_turn");
	rig_turns(r, 20);
	assert_true(acp_held(r->acp) > 0);
	r->full = 0;
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "kept"), 1);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "later"), 10);
	assert_int_equal(acp_held(r->acp), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(bad_prompts_are_refused),
	    T(newlines_between_tokens_do_not_end_our_line),
	    T(nothing_is_answered_or_sent_before_its_commit),
	    T(fifty_chunks_and_the_answer_in_one_write_stay_in_order),
	    T(outcomes_are_what_the_agent_said),
	    T(one_turn_at_a_time),
	    T(a_key_is_one_turn),
	    T(an_exit_fails_the_turn_once),
	    T(an_exit_before_the_bytes_left_is_a_dispatch_failure),
	    T(a_full_disk_refuses_and_keeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
