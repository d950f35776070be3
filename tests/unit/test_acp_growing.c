/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The case that this product exists for: a tool whose whole output so far is
 * resent with every line it prints. It must cost about what was printed, in
 * memory and in the history, and lose nothing; an agent that sends deltas in
 * _meta loses none either. */
#include "t_acp.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW ((size_t)50 << 10)

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

static unsigned
running(struct rig *r)
{
	rig_open(r);
	peer_hello(r);
	(void)rig_prompt(r, "hi");
	return peer_prompt(r, "hi");
}

/* The tail of what a command has printed, as the inside of a JSON string. */
struct tail {
	char text[WINDOW + 200];
	size_t n;
	unsigned lines;
};

static void
prints(struct tail *t)
{
	size_t k;

	t->lines++;
	t->n += (size_t)snprintf(t->text + t->n, 100,
	    "%08u something that a compiler said about it\\n", t->lines);
	while (t->n > WINDOW) {
		k = (size_t)(strstr(t->text, "\\n") - t->text) + 2;
		memmove(t->text, t->text + k, t->n - k + 1);
		t->n -= k;
	}
}

static void
resend(struct rig *r, const struct tail *t, const char *call, const char *more)
{
	peer_update(r,
	    "\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"%s\","
	    "\"status\":\"in_progress\",\"content\":[{\"type\":\"content\","
	    "\"content\":{\"type\":\"text\",\"text\":\"%s\"}}]%s",
	    call, t->text, more);
}

/* Every line printed stands in some event. */
static void
assert_all_lines(struct rig *r, unsigned lines)
{
	char *seen = calloc(lines + 1, 1);

	assert_non_null(seen);
	for (unsigned i = 0; i < r->nev; i++) {
		const char *p = strstr(r->ev[i].body, "\"text\":\"");

		if (r->ev[i].ev.kind != SLI_EV_AGENT)
			continue;
		for (; p; p = strstr(p + 1, " something")) {
			unsigned no = 0;

			if (*p != ' ')
				continue;
			no = (unsigned)strtoul(p - 8, NULL, 10);
			assert_in_range(no, 1, lines);
			seen[no] = 1;
		}
	}
	for (unsigned i = 1; i <= lines; i++)
		if (!seen[i])
			fail_msg("line %u is lost", i);
	free(seen);
}

static void
deltas_in_meta_are_all_kept(void **state)
{
	struct rig *r = *state;
	struct tail *t = sli_zalloc(sizeof(*t));
	unsigned id = running(r);

	assert_non_null(t);
	for (unsigned i = 0; i < 200; i++)
		prints(t);
	for (unsigned i = 1; i <= 300; i++) {
		char more[80];

		prints(t);
		(void)snprintf(
		    more, sizeof(more), ",\"_meta\":{\"delta\":\"d%u.\"}", i);
		resend(r, t, "t1", more);
	}
	/* and wherever _meta stands, whatever it holds */
	for (unsigned i = 1; i <= 20; i++)
		peer_update(r,
		    "\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":"
		    "\"t2\",\"content\":[{\"text\":\"%s\",\"_meta\":{\"n\":"
		    "%u}}]",
		    t->text, i);
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "\"t2\""), 20);
	for (unsigned i = 1; i <= 300; i++) {
		char want[16];

		(void)snprintf(want, sizeof(want), "\"d%u.\"", i);
		assert_int_equal(rig_count(r, SLI_EV_AGENT, want), 1);
	}
	sli_free(t);
}

static void
a_field_of_an_early_update_is_kept(void **state)
{
	struct rig *r = *state;
	struct tail *t = sli_zalloc(sizeof(*t));
	unsigned id = running(r);

	assert_non_null(t);
	for (unsigned i = 0; i < 300; i++)
		prints(t);
	for (unsigned i = 1; i <= 300; i++) {
		prints(t);
		resend(r, t, "t1",
		    i == 7   ? ",\"title\":\"early\""
		    : i == 9 ? ",\"rawOutput\":{\"exitCode\":3}"
			     : "");
	}
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "\"early\""), 1);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "exitCode"), 1);
	assert_in_range(rig_count(r, SLI_EV_AGENT, "tool_call_update"), 3, 8);
	assert_all_lines(r, 600);
	sli_free(t);
}

static void
other_lines_and_other_calls_keep_their_order(void **state)
{
	struct rig *r = *state;
	struct tail *t = sli_zalloc(sizeof(*t));
	unsigned id = running(r);
	uint64_t a, b, c;

	assert_non_null(t);
	for (unsigned i = 0; i < 100; i++)
		prints(t);
	resend(r, t, "t1", "");
	prints(t);
	resend(r, t, "t1", "");
	peer_chunk(r, "between");
	prints(t);
	resend(r, t, "t2", "");
	resend(r, t, "t1", "");
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "\"t1\""), 2);
	a = rig_find(r, SLI_EV_AGENT, "between")->ev.seq;
	b = rig_find(r, SLI_EV_AGENT, "\"t2\"")->ev.seq;
	c = rig_find(r, SLI_EV_AGENT, "\"t1\"")->ev.seq;
	assert_int_equal(a + 1, b);
	assert_int_equal(b + 1, c);
	/* the first t1 stands for two, and just before the chunk */
	assert_int_equal(r->ev[a - 2].ev.superseded, 1);
	assert_int_equal(r->ev[a - 2].ev.turn, 1);
	sli_free(t);
}

static void
a_snapshot_without_successor_is_kept_after_a_while(void **state)
{
	struct rig *r = *state;
	struct tail *t = sli_zalloc(sizeof(*t));
	int64_t from;

	assert_non_null(t);
	r->limits.v[SLI_L_ACP_SUPERSEDE_HOLD] = 100;
	(void)running(r);
	for (unsigned i = 0; i < 100; i++)
		prints(t);
	from = sli_mono_ms();
	resend(r, t, "t1", "");
	rig_settle(r);
	assert_true(acp_held(r->acp) > 4096);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "t1"), 0);
	while (!rig_count(r, SLI_EV_AGENT, "t1"))
		rig_turns(r, 5);
	assert_in_range(sli_mono_ms() - from, 99, 2000);
	assert_int_equal(acp_held(r->acp), 0);
	/* and at once when the call has ended */
	peer_update(r,
	    "\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t1\","
	    "\"status\":\"completed\",\"content\":[{\"type\":\"content\","
	    "\"content\":{\"type\":\"text\",\"text\":\"%s\"}}]",
	    t->text);
	rig_settle(r);
	assert_int_equal(rig_count(r, SLI_EV_AGENT, "completed"), 1);
	sli_free(t);
}

static void
a_turn_of_75_megabytes_costs_what_was_printed(void **state)
{
	struct rig *r = *state;
	struct tail *t = sli_zalloc(sizeof(*t));
	uint64_t sent = 0, before;
	unsigned id, kept;
	struct acp_info info;

	assert_non_null(t);
	id = running(r);
	before = r->bytes;
	peer_update(r, "\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t1\","
		       "\"title\":\"make\",\"status\":\"in_progress\"");
	/* the window is full from the start, as in the report */
	while (t->n < WINDOW - 60)
		prints(t);
	for (unsigned i = 0; i < 1500; i++) {
		prints(t);
		resend(r, t, "t1", "");
		sent += t->n;
	}
	peer_ends(r, id, "end_turn");
	rig_wait_end(r, 1, SLI_TO_COMPLETED);
	rig_settle(r);
	assert_true(sent > 75000000);
	acp_session_info(r->s, &info);
	kept = rig_count(r, SLI_EV_AGENT, "tool_call_update");
	assert_int_equal(info.superseded + kept, 1500);
	assert_all_lines(r, t->lines);
	assert_int_equal(info.held, 0);
	assert_int_equal(r->uncommitted, 0);
	assert_int_equal(rig_count(r, SLI_EV_LIMIT, NULL), 0);
	print_message("sent %llu bytes, kept %u of 1500 in %llu bytes, held at "
		      "most %llu\n",
	    (unsigned long long)sent, kept,
	    (unsigned long long)(r->bytes - before),
	    (unsigned long long)r->max_held);
	assert_true(r->max_held <= 4 << 20);
	assert_true(r->bytes - before <= 2 << 20);
	sli_free(t);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(deltas_in_meta_are_all_kept),
	    T(a_field_of_an_early_update_is_kept),
	    T(other_lines_and_other_calls_keep_their_order),
	    T(a_snapshot_without_successor_is_kept_after_a_while),
	    T(a_turn_of_75_megabytes_costs_what_was_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
