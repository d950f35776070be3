/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Permissions: never a yes that nobody gave, one resolution each, commits
 * before showing and before telling, the exact option back to the agent. */
#include "t_acp.h"

#include <stdio.h>
#include <string.h>

static int
setup(void **state)
{
	struct rig *r = sli_zalloc(sizeof(*r));

	assert_non_null(r);
	rig_init(r);
	r->limits.v[SLI_L_ACP_CANCEL_GRACE] = 200;
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

/* A running turn; the id of its prompt. */
static unsigned
running(struct rig *r)
{
	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "hi");
	return peer_prompt(r, "hi");
}

static void
ask_raw(struct rig *r, const char *id, const char *options)
{
	peer_says(r,
	    "{\"params\":{\"options\":%s,\"toolCall\":{\"toolCallId\":\"c\"},"
	    "\"sessionId\":\"S\"},\"method\":\"session/request_permission\","
	    "\"id\":%s}",
	    options, id);
}

static void
wait_pending(struct rig *r, unsigned n)
{
	for (int i = 0; i < 1000 && !rig_pending(r, n - 1); i++)
		rig_turns(r, 1);
	assert_true(rig_pending(r, n - 1) > 0);
}

static void
no_answer_is_cancelled_at_the_deadline(void **state)
{
	struct rig *r = *state;
	uint64_t req;

	r->limits.v[SLI_L_ACP_PERMISSION] = 40;
	(void)running(r);
	peer_asks(r, "5");
	wait_pending(r, 1);
	req = rig_pending(r, 0);
	peer_gets(r, "\"id\":5,\"result\":{\"outcome\":{\"outcome\":"
		     "\"cancelled\"}}");
	rig_settle(r);
	assert_int_equal(r->perm[0].state, SLI_PS_EXPIRED);
	assert_int_equal(rig_state(r), SLI_SS_RUNNING);
	/* a yes that comes too late is refused by name */
	rig_permit(r, req, "yes", "k");
	assert_int_equal(r->ei.code, SLI_E_ABORTED);
	assert_int_equal(rig_count(r, SLI_EV_PERMISSION, NULL), 2);
}

static void
an_option_never_offered_leaves_it_open(void **state)
{
	struct rig *r = *state;
	uint64_t req;

	(void)running(r);
	peer_asks(r, "5");
	wait_pending(r, 1);
	req = rig_pending(r, 0);
	rig_permit(r, req, "YES", "k");
	assert_int_equal(r->ei.code, SLI_E_INVALID_ARGUMENT);
	rig_permit(r, req + 1, "yes", "k");
	assert_int_equal(r->ei.code, SLI_E_NOT_FOUND);
	rig_permit(r, 0, "yes", "k");
	assert_int_equal(r->ei.code, SLI_E_NOT_FOUND);
	peer_gets_nothing(r);
	assert_int_equal(rig_pending(r, 0), req);
}

static void
shown_and_told_only_when_committed(void **state)
{
	struct rig *r = *state;

	(void)running(r);
	r->manual = 1;
	peer_asks(r, "5");
	rig_turns(r, 10);
	assert_int_equal(rig_pending(r, 0), 0);
	assert_int_equal(rig_state(r), SLI_SS_RUNNING);
	rig_commit(r, 1);
	assert_int_equal(rig_state(r), SLI_SS_WAITING_PERMISSION);
	assert_int_equal(rig_pending(r, 0), r->perm[0].request);
	rig_permit(r, rig_pending(r, 0), "yes", "k1");
	r->answers = 0;
	/* another answer while the first is on its way */
	rig_permit(r, r->perm[0].request, "no", "k2");
	assert_int_equal(r->ei.code, SLI_E_ABORTED);
	/* the same one again waits with it */
	rig_permit(r, r->perm[0].request, "yes", "k1");
	assert_int_equal(r->answers, 1);
	peer_gets_nothing(r);
	rig_commit(r, 1);
	assert_int_equal(r->answers, 3);
	assert_string_equal(r->option, "yes");
	peer_gets(r, "\"id\":5,\"result\":{\"outcome\":{\"outcome\":"
		     "\"selected\",\"optionId\":\"yes\"}}");
	assert_int_equal(r->perm[0].state, SLI_PS_ANSWERED);
	rig_commit(r, 0);
	assert_int_equal(r->perm[0].state, SLI_PS_DELIVERED);
	assert_int_equal(rig_state(r), SLI_SS_RUNNING);
	/* and later still */
	rig_permit(r, r->perm[0].request, NULL, "k1");
	assert_int_equal(r->ei.code, SLI_OK);
	assert_true(r->repeated);
	assert_string_equal(r->option, "yes");
	assert_int_equal(
	    rig_count(r, SLI_EV_PERMISSION, "\"by\":\"tester\""), 1);
}

static void
ids_come_back_byte_for_byte(void **state)
{
	static const char *const ids[] = {"\"5\"", "5", "0", "\"0\"",
	    "\"3f2c-UUID\"", "null", "1.5", "\"\\u0041\""};
	struct rig *r = *state;
	char want[80];

	(void)running(r); /* our own 0, 1 and 2 are in use: no mix-up */
	for (size_t i = 0; i < SLI_ARRAY_LEN(ids); i++)
		peer_asks(r, ids[i]);
	wait_pending(r, SLI_ARRAY_LEN(ids));
	for (size_t i = 0; i < SLI_ARRAY_LEN(ids); i++) {
		rig_permit(r, rig_pending(r, 0), "yes", "");
		(void)snprintf(
		    want, sizeof(want), "\"id\":%s,\"result\"", ids[i]);
		peer_gets(r, want);
	}
	assert_int_equal(rig_pending(r, 0), 0);
}

static void
the_exact_option_travels_back(void **state)
{
	struct rig *r = *state;
	struct acp_perm p;

	(void)running(r);
	ask_raw(r, "1",
	    "[{\"optionId\":\"o1\",\"name\":\"A\",\"kind\":\"allow_once\"},"
	    "{\"optionId\":\"o2\",\"kind\":\"allow_once\"},"
	    "{\"optionId\":\"o 3\\u00e4\\/\",\"kind\":\"allow_once\",\"x\":1},"
	    "{\"optionId\":\"o4\",\"kind\":\"later_maybe\"},"
	    "{\"optionId\":\"\\ud800\",\"kind\":\"allow_once\"},"
	    "{\"name\":\"no id\"},{\"optionId\":7}]");
	wait_pending(r, 1);
	assert_true(acp_perm_get(r->s, 0, &p));
	assert_int_equal(p.noptions, 7);
	assert_string_equal(p.options[2].id, "o 3\xc3\xa4/");
	assert_string_equal(p.options[3].kind, "later_maybe");
	assert_string_equal(p.options[5].name, "no id");
	/* what cannot be shown as it is cannot be chosen */
	rig_permit(r, p.request, "\xef\xbf\xbd", "");
	assert_int_equal(r->ei.code, SLI_E_INVALID_ARGUMENT);
	rig_permit(r, p.request, "", "");
	assert_int_equal(r->ei.code, SLI_E_INVALID_ARGUMENT);
	rig_permit(r, p.request, "o 3\xc3\xa4/", "");
	peer_gets(r, "\"optionId\":\"o 3\\u00e4\\/\"");
	rig_settle(r);
	assert_string_equal(r->perm[0].option, "o 3\xc3\xa4/");
}

static void
deny_takes_a_reject_option_or_cancels(void **state)
{
	static const struct {
		const char *options, *want;
	} t[] = {
	    {"[{\"optionId\":\"a\",\"kind\":\"reject_always\"},"
	     "{\"optionId\":\"b\",\"kind\":\"reject_once\"}]",   "\"optionId\":\"b\""       },
	    {"[{\"optionId\":\"a\",\"kind\":\"allow_once\"},"
	     "{\"optionId\":\"b\",\"kind\":\"reject_always\"}]", "\"optionId\":\"b\""       },
	    {"[{\"optionId\":\"a\",\"kind\":\"allow_once\"}]",
             "\"outcome\":\"cancelled\""								 },
	    {"[]",							    "\"outcome\":\"cancelled\""},
	};
	struct rig *r = *state;

	(void)running(r);
	for (size_t i = 0; i < SLI_ARRAY_LEN(t); i++) {
		ask_raw(r, "1", t[i].options);
		wait_pending(r, 1);
		rig_permit(r, rig_pending(r, 0), NULL, "");
		peer_gets(r, t[i].want);
		assert_int_equal(r->ei.code, SLI_OK);
	}
}

static void
policies(void **state)
{
	static const struct {
		const char *options, *allow, *reject;
	} t[] = {
	    {"[{\"optionId\":\"n\",\"kind\":\"reject_once\"},"
	     "{\"optionId\":\"y\",\"kind\":\"allow_always\"},"
	     "{\"optionId\":\"1\",\"kind\":\"allow_once\"},"
	     "{\"optionId\":\"2\",\"kind\":\"allow_once\"}]", "\"optionId\":\"1\"", "\"optionId\":\"n\""},
	    {"[{\"optionId\":\"n\",\"kind\":\"reject_once\"}]",            "\"cancelled\"",
             "\"optionId\":\"n\""										    },
	    {"[{\"optionId\":\"x\",\"kind\":\"unheard_of\"}]",             "\"cancelled\"",
             "\"cancelled\""											 },
	    {"[]",							 "\"cancelled\"",      "\"cancelled\""     },
	};
	struct rig *r = *state;

	for (int policy = SLI_PP_REJECT_ALL; policy <= SLI_PP_ALLOW_ALL;
	     policy++) {
		if (policy == SLI_PP_ALLOW_ALL) {
			rig_fini(r);
			rig_init(r);
		}
		r->policy = policy;
		(void)running(r);
		for (size_t i = 0; i < SLI_ARRAY_LEN(t); i++) {
			ask_raw(r, "1", t[i].options);
			peer_gets(r, policy == SLI_PP_ALLOW_ALL ? t[i].allow
								: t[i].reject);
		}
		rig_settle(r);
		assert_int_equal(
		    rig_count(r, SLI_EV_PERMISSION, "\"by\":\"policy\""), 4);
	}
}

static void
bad_requests_are_refused_at_once(void **state)
{
	struct rig *r = *state;

	(void)running(r);
	ask_raw(r, "1", "7");
	peer_gets(r, "\"id\":1,\"error\":{\"code\":-32602");
	peer_says(r, "{\"id\":2,\"method\":\"session/request_permission\","
		     "\"params\":{\"sessionId\":\"S\"}}");
	peer_gets(r, "\"id\":2,\"error\":{\"code\":-32602");
	peer_says(r, "{\"id\":3,\"method\":\"session/request_permission\","
		     "\"params\":{\"sessionId\":\"T\",\"options\":[]}}");
	peer_gets(r, "\"id\":3,\"error\":{\"code\":-32602");
	/* an id that is open already */
	peer_asks(r, "4");
	wait_pending(r, 1);
	peer_asks(r, "4");
	peer_gets(r, "\"id\":4,\"error\":{\"code\":-32600");
	rig_permit(r, rig_pending(r, 0), "yes", "");
	peer_gets(r, "\"id\":4,\"result\"");
}

static void
too_many_are_cancelled_by_name(void **state)
{
	struct rig *r = *state;

	r->limits.v[SLI_L_ACP_PENDING_PERMISSIONS] = 2;
	(void)running(r);
	peer_asks(r, "1");
	peer_asks(r, "2");
	peer_asks(r, "3");
	peer_gets(r, "\"id\":3,\"result\":{\"outcome\":{\"outcome\":"
		     "\"cancelled\"}}");
	rig_settle(r);
	assert_int_equal(
	    rig_count(r, SLI_EV_LIMIT, "acp.pending_permissions"), 1);
	wait_pending(r, 2);
}

static void
cancel_answers_all_of_them_then_itself(void **state)
{
	struct rig *r = *state;
	uint64_t req[3];
	unsigned id = running(r);

	for (int round = 0; round < 30; round++) {
		for (unsigned i = 0; i < 3; i++) {
			char c[2] = {(char)('7' + (int)i % 3), '\0'};

			peer_asks(r, c);
		}
		wait_pending(r, 3);
		for (unsigned i = 0; i < 3; i++)
			req[i] = rig_pending(r, i);
		assert_true(acp_cancel(r->s) > 0);
		peer_gets(r, "\"id\":7,\"result\":{\"outcome\":{\"outcome\":"
			     "\"cancelled\"}}");
		peer_gets(r, "\"id\":8,");
		peer_gets(r, "\"id\":9,");
		peer_gets(r, "session/cancel");
		assert_int_equal(rig_pending(r, 0), 0);
		rig_permit(r, req[1], "yes", "k");
		assert_int_equal(r->ei.code, SLI_E_ABORTED);
		/* one that comes after the cancel is cancelled too */
		peer_asks(r, "10");
		peer_gets(r, "\"id\":10,\"result\":{\"outcome\":{\"outcome\":"
			     "\"cancelled\"}}");
		peer_ends(r, id, "cancelled");
		rig_wait_end(r, (uint64_t)round * 2 + 1, SLI_TO_CANCELED);
		(void)rig_prompt(r, "next");
		peer_ends(r, peer_prompt(r, "next"), "end_turn");
		rig_wait_end(r, (uint64_t)round * 2 + 2, SLI_TO_COMPLETED);
		(void)rig_prompt(r, "hi");
		id = peer_prompt(r, "hi");
	}
	assert_int_equal(rig_count(r, SLI_EV_PERMISSION, "\"canceled\""), 90);
}

static void
a_cancel_while_it_is_being_asked(void **state)
{
	struct rig *r = *state;
	unsigned id = running(r);

	r->manual = 1;
	peer_asks(r, "5");
	rig_turns(r, 10);
	assert_int_equal(acp_cancel(r->s), 1);
	r->manual = 0;
	peer_gets(r, "session/cancel");
	peer_gets(r, "\"id\":5,\"result\":{\"outcome\":{\"outcome\":"
		     "\"cancelled\"}}");
	peer_ends(r, id, "cancelled");
	rig_wait_end(r, 1, SLI_TO_CANCELED);
	assert_int_equal(r->perm[0].state, SLI_PS_CANCELED);
}

static void
an_answer_given_before_the_cancel_stands(void **state)
{
	struct rig *r = *state;

	(void)running(r);
	peer_asks(r, "5");
	wait_pending(r, 1);
	r->manual = 1;
	rig_permit(r, rig_pending(r, 0), "no", "");
	(void)acp_cancel(r->s);
	r->manual = 0;
	peer_gets(r, "\"optionId\":\"no\"");
	peer_gets(r, "session/cancel");
}

static void
the_agent_may_withdraw_its_request(void **state)
{
	struct rig *r = *state;

	(void)running(r);
	peer_asks(r, "\"a\"");
	peer_asks(r, "\"b\"");
	wait_pending(r, 2);
	peer_says(r, "{\"method\":\"$/cancel_request\",\"params\":{"
		     "\"requestId\":\"a\"}}");
	peer_gets(r, "\"id\":\"a\",\"result\":{\"outcome\":{\"outcome\":"
		     "\"cancelled\"}}");
	rig_settle(r);
	assert_int_equal(rig_state(r), SLI_SS_WAITING_PERMISSION);
	assert_int_equal(rig_pending(r, 1), 0);
	peer_says(r, "{\"method\":\"$/cancel_request\",\"params\":{"
		     "\"requestId\":\"x\"}}");
	peer_gets_nothing(r);
}

static void
outside_of_a_turn_the_answer_is_cancelled(void **state)
{
	struct rig *r = *state;
	unsigned id = running(r);

	/* the turn ends with a request still open */
	peer_asks(r, "4");
	wait_pending(r, 1);
	peer_ends(r, id, "end_turn");
	peer_gets(r, "\"id\":4,\"result\":{\"outcome\":{\"outcome\":"
		     "\"cancelled\"}}");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	assert_int_equal(rig_state(r), SLI_SS_IDLE);
	peer_asks(r, "5");
	peer_gets(r, "\"id\":5,\"result\":{\"outcome\":{\"outcome\":"
		     "\"cancelled\"}}");
	rig_settle(r);
	assert_int_equal(r->nperm, 1);
}

static void
an_exit_expires_them_and_a_new_agent_hears_nothing(void **state)
{
	struct rig *r = *state;
	uint64_t req;

	(void)running(r);
	peer_asks(r, "5");
	wait_pending(r, 1);
	req = rig_pending(r, 0);
	peer_asks(r, "6");
	rig_settle(r);
	r->manual = 1;
	peer_asks(r, "7");
	rig_turns(r, 10);
	peer_exits(r, 1, 0);
	rig_turns(r, 10);
	r->manual = 0;
	rig_wait_end(r, 1, SLI_TO_FAILED);
	rig_settle(r);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(r->perm[i].state, SLI_PS_EXPIRED);
	rig_permit(r, req, "yes", "");
	assert_int_equal(r->ei.code, SLI_E_ABORTED);
	(void)rig_prompt(r, "again");
	peer_init(r, "");
	peer_gets(r, "session/new");
	peer_gets_nothing(r);
}

static void
a_huge_request_shows_what_can_be_shown(void **state)
{
	struct rig *r = *state;
	struct acp_perm p;
	size_t n = (size_t)600 << 10;
	char *big = sli_alloc(n + 1);

	assert_non_null(big);
	memset(big, 'x', n);
	big[n] = '\0';
	(void)running(r);
	peer_says(r,
	    "{\"params\":{\"toolCall\":{\"toolCallId\":\"c\",\"rawInput\":"
	    "\"%s\",\"title\":\"Big\"},\"sessionId\":\"S\",\"options\":[{"
	    "\"optionId\":\"y\",\"kind\":\"allow_once\"}]},\"method\":"
	    "\"session/request_permission\",\"id\":3}",
	    big);
	sli_free(big);
	wait_pending(r, 1);
	assert_true(acp_perm_get(r->s, 0, &p));
	assert_string_equal(p.title, "Big");
	assert_int_equal(p.tool_call.n, 16 << 10);
	assert_true(rig_find(r, SLI_EV_AGENT, "rawInput")->ev.length > n);
	rig_permit(r, p.request, "y", "");
	peer_gets(r, "\"optionId\":\"y\"");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(no_answer_is_cancelled_at_the_deadline),
	    T(an_option_never_offered_leaves_it_open),
	    T(shown_and_told_only_when_committed),
	    T(ids_come_back_byte_for_byte),
	    T(the_exact_option_travels_back),
	    T(deny_takes_a_reject_option_or_cancels),
	    T(policies),
	    T(bad_requests_are_refused_at_once),
	    T(too_many_are_cancelled_by_name),
	    T(cancel_answers_all_of_them_then_itself),
	    T(a_cancel_while_it_is_being_asked),
	    T(an_answer_given_before_the_cancel_stands),
	    T(the_agent_may_withdraw_its_request),
	    T(outside_of_a_turn_the_answer_is_cancelled),
	    T(an_exit_expires_them_and_a_new_agent_hears_nothing),
	    T(a_huge_request_shows_what_can_be_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
