/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: timeout=300 */
/* A retried prompt runs once (B40): one key, one turn, whatever is retried
 * when; other content under the key is a conflict; an acknowledged prompt is
 * never missing after a kill. */
#include "world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned
prompts_received(struct world *w, const char *vm)
{
	char *log = world_fake_log(w, vm);
	unsigned n = world_count(log, "\"session/prompt\"");
	free(log);
	return n;
}

static void
check_json(struct world *w, const char *s, const char *key, const char *text,
    char *ret, size_t cap)
{
	uint64_t turn = 0;
	struct run r;
	SLUICE(w, &r, "--json", "prompt", s, text, "--key", key);
	if (r.status != 0)
		fail_msg("prompt: %d %s", r.status, r.err);
	assert_true(world_json_u64(r.out, "turn", &turn));
	(void)snprintf(ret, cap, "%llu", (unsigned long long)turn);
	run_free(&r);
}

static void
retries_give_the_same_turn(void **state)
{
	struct world w;
	char vm[64], s[64], s2[64], first[24], again[24];
	pid_t p[10];
	(void)state;
	world_init(&w);
	world_start(&w);
	world_vm(&w, vm, sizeof(vm));
	world_fake(&w, vm, "on prompt ; delay 300 ; text once ; end", NULL, s,
	    sizeof(s));
	/* Ten at once, while it runs. */
	for (unsigned i = 0; i < 10; i++)
		p[i] = world_bg(&w, NULL, NULL,
		    (const char *const[]){
			"prompt", s, "work", "--key", "K1", NULL});
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(world_wait_bg(&w, p[i], 20000), 0);
	assert_int_equal(prompts_received(&w, vm), 1);
	/* Five more after its end. */
	check_json(&w, s, "K1", "work", first, sizeof(first));
	for (unsigned i = 0; i < 4; i++) {
		check_json(&w, s, "K1", "work", again, sizeof(again));
		assert_string_equal(first, again);
	}
	assert_int_equal(prompts_received(&w, vm), 1);
	/* Other text, same key. */
	struct run r;
	SLUICE(&w, &r, "prompt", s, "other work", "--key", "K1");
	assert_int_equal(r.status, 4);
	assert_non_null(strstr(r.err, "KEY_CONFLICT"));
	run_free(&r);
	/* Another session is another name space. */
	world_fake(&w, vm, "on prompt ; text two ; end", NULL, s2, sizeof(s2));
	char *out = SLUICE_OK_OUT(&w, "prompt", s2, "work", "--key", "K1");
	assert_string_equal(out, "two");
	free(out);
	assert_int_equal(prompts_received(&w, vm), 2);
	/* After kill -9 and restart. */
	world_kill(&w);
	world_start(&w);
	check_json(&w, s, "K1", "work", again, sizeof(again));
	assert_string_equal(first, again);
	SLUICE(&w, &r, "prompt", s, "other work", "--key", "K1");
	assert_int_equal(r.status, 4);
	run_free(&r);
	world_stop(&w);
	world_done(&w);
}

/* The client learns that the turn is accepted; then the server is killed. The
 * turn is there again with its prompt, and called what it is. */
static void
acknowledged_is_never_missing(void **state)
{
	struct world w;
	char vm[64], s[64], key[32], err[300];
	unsigned rounds = world_long() ? 50 : 8;
	(void)state;
	print_message("rounds %u of 50\n", rounds);
	world_init(&w);
	for (unsigned i = 0; i < rounds; i++) {
		world_start(&w);
		world_vm(&w, vm, sizeof(vm));
		world_fake(&w, vm,
		    "on prompt ; text begun ; hang ; on load ; error 1 no",
		    NULL, s, sizeof(s));
		(void)snprintf(key, sizeof(key), "key-%u", i);
		(void)snprintf(err, sizeof(err), "%s/out%u", w.dir, i);
		pid_t p = world_bg(&w, err, NULL,
		    (const char *const[]){
			"prompt", s, "work", "--key", key, NULL});
		int64_t until = world_now_ms() + 20000;
		for (;;) { /* its first text: surely acknowledged */
			char *text = world_read(err, NULL);
			int yes = text && strstr(text, "begun");
			free(text);
			if (yes)
				break;
			assert_true(world_now_ms() < until);
			world_rest(2);
		}
		world_kill(&w);
		(void)kill(p, SIGKILL);
		(void)world_wait_bg(&w, p, 5000);
		world_start(&w);
		char *all = world_history(&w, s);
		assert_int_equal(world_count(all, "\"kind\":\"prompt\""), 1);
		assert_int_equal(
		    world_count(all, "\"kind\":\"turn_ended\""), 1);
		assert_int_equal(world_count(all, "\"outcome\":\"lost\""), 1);
		free(all);
		struct run r;
		SLUICE(&w, &r, "prompt", s, "work", "--key", key);
		assert_int_equal(r.status, 1);
		assert_non_null(strstr(r.err, "lost"));
		run_free(&r);
		free(SLUICE_OK_OUT(&w, "vm", "delete", vm));
		world_stop(&w);
	}
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(retries_give_the_same_turn),
	    cmocka_unit_test(acknowledged_is_never_missing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
