/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user timeout=240 */
/* An answer that comes after its VM has gone is refused by itself (B01): once
 * late, once more, and with a number that was never given. Nothing else on the
 * connection notices: it stays open, and another VM answers at once. */
#include "watch.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct answer {
	int ends;
	int32_t err;
};

static void
on_permit(void *arg, const char *option, int32_t repeated_key,
    const struct sluice_error *err)
{
	struct answer *a = arg;
	(void)repeated_key;
	assert_null(option); /* nothing was answered */
	a->ends++;
	a->err = err ? err->code : 0;
}

static int
answered(void *ctx)
{
	return ((const struct answer *)ctx)->ends > 0;
}

static void
exec_in_b(sluice_client *c, const char *b)
{
	struct watch x = {0};
	WATCH_EXEC(c, &x, b, "true");
	watch_end(c, &x, 1000);
	watch_is(&x, 0, "");
	watch_free(&x);
}

/* It is refused, quickly, and B goes on. */
static void
answer_late(sluice_client *c, const char *session, uint64_t request,
    const char *b, int64_t *slowest)
{
	struct sluice_error err;
	struct answer a = {0};
	sluice_stream *s = NULL;
	int64_t t = world_now_ms();
	SLUICE_INIT(err);
	if (sluice_permit(c, session, request, "allow", NULL, on_permit, &a, &s,
		&err) != 0)
		fail_msg("permit: %s", err.text);
	watch_until(&c, 1, answered, &a, 1000, "a refusal");
	assert_int_not_equal(a.err, 0);
	assert_int_not_equal(a.err, SLUICE_E_INTERNAL);
	assert_int_not_equal(a.err, SLUICE_E_INTERRUPTED);
	sluice_stream_free(s);
	exec_in_b(c, b);
	if (world_now_ms() - t > *slowest)
		*slowest = world_now_ms() - t;
}

static void
one_round(struct world *w, sluice_client *c, const char *b, int64_t *slowest)
{
	char a[64], s[64];
	world_vm(w, a, sizeof(a));
	world_fake(w, a, "on prompt ; ask 100 a tool ; wait ; text x ; end",
	    NULL, s, sizeof(s));
	pid_t p = world_bg(
	    w, NULL, NULL, (const char *const[]){"prompt", s, "go", NULL});
	uint64_t request = world_pending(w, s, 1);
	free(SLUICE_OK_OUT(w, "vm", "delete", a));
	answer_late(c, s, request, b, slowest);
	answer_late(c, s, request, b, slowest);
	answer_late(c, s, request + 1000000, b, slowest);
	answer_late(c, s, UINT64_MAX, b, slowest);
	answer_late(c, "s_none", 1, b, slowest);
	/* The turn has an end, and no answer was made up for it. */
	assert_int_not_equal(world_wait_bg(w, p, 5000), 0);
	char *all = world_history(w, s);
	assert_int_equal(world_count(all, "\"kind\":\"turn_ended\""), 1);
	assert_int_equal(world_count(all, "\"outcome\":\"completed\""), 0);
	assert_int_equal(world_count(all, "\"selected\""), 0);
	free(all);
	free(SLUICE_OK_OUT(w, "session", "delete", s));
}

static void
late_twice_and_never_issued(void **state)
{
	struct world w;
	char b[64];
	int64_t slowest = 0;
	unsigned rounds = world_long() ? 100 : 20;
	(void)state;
	world_init(&w);
	world_start(&w);
	world_vm(&w, b, sizeof(b));
	pid_t server = w.pid;
	sluice_client *c = watch_open(&w, 0); /* fails when it is lost */
	for (unsigned i = 0; i < rounds; i++)
		one_round(&w, c, b, &slowest);
	print_message("rounds %u of 100; slowest answer with an exec %lld ms\n",
	    rounds, (long long)slowest);
	assert_true(w.pid == server && world_alive(&w));
	sluice_close(c);
	world_stop(&w);
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(late_twice_and_never_issued),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
