/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* Group commit: what shares a transaction, what does not wait, and that a
 * session with megabytes does not make its neighbours wait. */
#include "unit.h"

#include "base/clock.h"
#include "base/str.h"
#include "store/int.h"
#include "t_store.h"

#include <poll.h>
#include <stdlib.h>

static struct t_store t;

static struct {
	char order[64];
	unsigned n;
} answers;

static void
on_answer(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	const char *name = ctx;

	(void)first_seq;
	assert_int_equal(ei->code, SLI_OK);
	answers.order[answers.n++] = *name;
	answers.order[answers.n] = '\0';
	t.answered = 1;
}

static char names[] = "abcdefghij";

static void
start(unsigned linger_ms, int manual)
{
	memset(&answers, 0, sizeof(answers));
	t_store_new(&t, 0);
	t.cfg.linger_ms = linger_ms;
	if (manual)
		t_store_open_manual(&t);
	else
		t_store_open(&t);
	assert_int_equal(t_store_session(&t, "s"), SLI_OK);
	assert_int_equal(t_store_session(&t, "t"), SLI_OK);
	t.answered = 0;
}

static uint64_t
commits(void)
{
	struct store_stats s;

	store_stats(t.st, &s);
	return s.commits;
}

static void
a_barrier_takes_everybody_along(void **state)
{
	struct sli_record r = t_store_event("x", 1);
	struct pollfd p = {.events = POLLIN};
	uint64_t before;

	(void)state;
	start(60000, 0);
	before = commits();
	for (unsigned i = 0; i < 5; i++)
		store_commit(
		    t.st, i % 2 ? "s" : "t", &r, 1, 0, on_answer, &names[i]);
	p.fd = sli_mailbox_fd(t.mb);
	assert_int_equal(poll(&p, 1, 200), 0);
	assert_int_equal(store_held(t.st, NULL),
	    store_held(t.st, "s") + store_held(t.st, "t"));
	assert_true(store_held(t.st, NULL) > 0);
	store_commit(t.st, "s", &r, 1, STORE_BARRIER, on_answer, &names[5]);
	t_store_wait(&t, &t.answered);
	assert_int_equal(answers.n, 6);
	assert_int_equal(commits() - before, 1);
	assert_int_equal(store_held(t.st, NULL), 0);
	t_store_free(&t);
}

static void
the_rest_lingers_once(void **state)
{
	struct sli_record r = t_store_event("x", 1);
	int64_t begun;

	(void)state;
	start(300, 0);
	begun = sli_mono_ms();
	store_commit(t.st, "s", &r, 1, 0, on_answer, &names[0]);
	t_store_wait(&t, &t.answered);
	assert_in_range(sli_mono_ms() - begun, 290, 5000);
	t_store_free(&t);
	/* None asked for: none waited for. */
	start(0, 0);
	begun = sli_mono_ms();
	store_commit(t.st, "s", &r, 1, 0, on_answer, &names[0]);
	t_store_wait(&t, &t.answered);
	assert_in_range(sli_mono_ms() - begun, 0, 2000);
	t_store_free(&t);
}

static void
a_big_one_does_not_block_the_small(void **state)
{
	static uint8_t piece[1 << 20];
	struct sli_record r = t_store_event("x", 1), big;
	uint64_t before;

	(void)state;
	start(0, 1);
	before = commits();
	big = t_store_event(NULL, 0);
	big.ev.parts = store_part_begin(t.st, "s");
	big.ev.length = 24u << 20;
	for (unsigned i = 0; i < 24; i++)
		store_part_append(
		    t.st, big.ev.parts, sli_slice_of(piece, sizeof(piece)));
	store_commit(t.st, "s", &big, 1, 0, on_answer, &names[0]);
	store_commit(t.st, "t", &r, 1, 0, on_answer, &names[1]);
	store_commit(t.st, "s", &r, 1, 0, on_answer, &names[2]);
	t_store_spin(&t);
	/* Order stays within a session, not between them. */
	assert_string_equal(answers.order, "bac");
	assert_in_range(commits() - before, 3, 5);
	t_store_free(&t);
}

/* One row for what came together, whatever the number of calls. */
static void
a_commit_makes_one_row_a_session(void **state)
{
	static uint8_t body[60000];
	struct sli_record r = t_store_event("x", 1);

	(void)state;
	start(0, 1);
	for (unsigned i = 0; i < 500; i++)
		store_commit(t.st, i % 2 ? "s" : "t", &r, 1, 0, NULL, NULL);
	t_store_spin(&t);
	assert_int_equal(t_store_sql(&t, "SELECT count(*) FROM run"), 2);
	/* But pages stay small. */
	r = t_store_event(body, sizeof(body));
	for (unsigned i = 0; i < 10; i++)
		store_commit(t.st, "s", &r, 1, 0, NULL, NULL);
	t_store_spin(&t);
	assert_int_equal(t_store_sql(&t, "SELECT count(*) FROM run"), 5);
	assert_int_equal(
	    t_store_sql(&t, "SELECT max(length(body))<=262144 FROM run"), 1);
	t_store_free(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_barrier_takes_everybody_along),
	    cmocka_unit_test(the_rest_lingers_once),
	    cmocka_unit_test(a_big_one_does_not_block_the_small),
	    cmocka_unit_test(a_commit_makes_one_row_a_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
