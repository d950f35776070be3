/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The engine when memory is out: each allocation of a whole session fails in
 * turn. Nothing may crash or leak, no turn may have two ends, and the session
 * must come to rest and work again afterwards. */
#include "t_acp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned
id_of(const char *line)
{
	const char *p = strstr(line, "\"id\":");

	return p ? (unsigned)strtoul(p + 5, NULL, 10) : 0;
}

/* A peer that does all by itself: asks once per prompt, resends a snapshot,
 * says a long line, ends the turn when it is answered. */
static void
peer_acts(struct rig *r, const char *l, const char *big, unsigned *prompt)
{
	unsigned id = id_of(l);

	if (strstr(l, "\"initialize\"")) {
		peer_says(r,
		    "{\"id\":%u,\"result\":{\"protocolVersion\":1,"
		    "\"agentCapabilities\":{\"loadSession\":false}}}",
		    id);
	} else if (strstr(l, "session/new")) {
		peer_chunk(r, "early");
		peer_says(
		    r, "{\"id\":%u,\"result\":{\"sessionId\":\"S\"}}", id);
	} else if (strstr(l, "session/prompt")) {
		*prompt = id;
		for (int i = 1; i < 4; i++)
			peer_update(r,
			    "\"sessionUpdate\":\"tool_call_update\","
			    "\"toolCallId\":\"t\",\"content\":\"%.*s\"",
			    5000 + i, big);
		peer_chunk(r, big);
		peer_says(r, "noise");
		peer_says(r, "{\"id\":\"x\",\"method\":\"foo\"}");
		peer_asks(r, "7");
	} else if (strstr(l, "\"outcome\"") ||
		   strstr(l, "\"id\":7,\"error\"")) {
		peer_ends(r, *prompt, "end_turn");
	} else if (strstr(l, "session/cancel")) {
		peer_ends(r, *prompt, "cancelled");
	}
}

static int
quiet(struct rig *r)
{
	return acp_busy(r->acp) == 0 && !r->first &&
	       (rig_state(r) == SLI_SS_IDLE || rig_state(r) == SLI_SS_FAILED ||
		   rig_state(r) == SLI_SS_UNLOADED);
}

/* Turns of the world until everything has come to rest. */
static void
lives(struct rig *r, const char *big)
{
	unsigned prompt = 0;

	for (int i = 0; i < 3000; i++) {
		char *line;

		loop_turn(r->loop, 0);
		rig_moves(r);
		if (rig_pending(r, 0))
			rig_permit(r, rig_pending(r, 0), "yes", "k");
		if (r->alive && (line = peer_line(r)) != NULL)
			peer_acts(r, line, big, &prompt);
		else if (i > 20 && quiet(r))
			return;
	}
	for (unsigned i = 0; i < r->nev; i++)
		print_message("%d %.150s\n", r->ev[i].ev.kind, r->ev[i].body);
	fail_msg("it does not come to rest: state %d busy %u", rig_state(r),
	    acp_busy(r->acp));
}

static void
each_allocation_may_fail(void **state)
{
	char *big = malloc((300 << 10) + 1);
	unsigned survived = 0;

	(void)state;
	assert_non_null(big);
	memset(big, 'x', 300 << 10);
	big[300 << 10] = '\0';
	for (uint64_t n = 1; n < 2000; n++) {
		struct rig *r = malloc(sizeof(*r));
		uint64_t turns;

		assert_non_null(r);
		rig_init(r);
		r->loose = 1;
		rig_open(r);
		rig_settle(r);
		sli_mem_fail_at(n);
		lives(r, big);
		rig_ask(r, "hello", "key", 0);
		lives(r, big);
		sli_mem_fail_at(0);
		/* whatever happened: now it works */
		turns = r->nturn;
		rig_ask(r, "again", "", 0);
		lives(r, big);
		assert_int_equal(r->nturn, turns + 1);
		assert_int_equal(r->turn[turns].outcome, SLI_TO_COMPLETED);
		/* some failures do no harm; many in a row mean the end */
		if (r->turn[0].outcome == SLI_TO_COMPLETED && r->nturn == 2)
			survived++;
		else
			survived = 0;
		rig_fini(r);
		free(r);
		if (survived > 40)
			break;
	}
	free(big);
	assert_true(survived > 40); /* past the last allocation */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
