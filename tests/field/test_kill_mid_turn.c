/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: timeout=400 */
/* The server is killed with SIGKILL at a random point of a running turn. What
 * a subscriber had acknowledged is there again, byte for byte; the turn is
 * lost; the next prompt works; no process or mount is left. */
#include "world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Cut a file of lines behind its last whole line; returns the lines. */
static unsigned
whole_lines(char *text)
{
	char *nl = strrchr(text, '\n');
	if (!nl) {
		*text = '\0';
		return 0;
	}
	nl[1] = '\0';
	return world_count(text, "\n");
}

struct look {
	const char *path, *needle;
};

static int
shows(void *ctx)
{
	struct look *k = ctx;
	char *text = world_read(k->path, NULL);
	int yes = text && strstr(text, k->needle);
	free(text);
	return yes;
}

static void
one_round(struct world *w, unsigned round, unsigned rnd)
{
	char vm[64], s[64], seen_path[300], limit[16];
	(void)snprintf(
	    seen_path, sizeof(seen_path), "%s/seen%u", w->dir, round);
	world_start(w);
	world_vm(w, vm, sizeof(vm));
	world_fake(w, vm,
	    "on prompt ; flow 100000 1 tick ; end ; "
	    "on load ; error -32002 gone",
	    NULL, s, sizeof(s));
	pid_t seer = world_bg(
	    w, seen_path, NULL, (const char *const[]){"attach", s, NULL});
	pid_t prompt = world_bg(
	    w, NULL, NULL, (const char *const[]){"prompt", s, "go", NULL});
	struct look k = {seen_path, "tick"};
	world_until(shows, &k, 20000, "the first text");
	world_rest((int)(rnd % 400));
	world_kill(w);
	/* They would wait for the server to come back. */
	(void)kill(seer, SIGKILL);
	(void)kill(prompt, SIGKILL);
	(void)world_wait_bg(w, seer, 10000);
	assert_int_not_equal(world_wait_bg(w, prompt, 10000), 0);

	world_start(w);
	char *seen = world_read(seen_path, NULL);
	assert_non_null(seen);
	unsigned n = whole_lines(seen);
	(void)snprintf(limit, sizeof(limit), "%u", n);
	char *again = SLUICE_OK_OUT(w, "history", s, "--limit", limit);
	if (n > 0) {
		seen[strlen(seen) - 1] = '\0';
		assert_string_equal(seen, again);
	}
	free(again);
	free(seen);
	char *all = world_history(w, s);
	assert_int_equal(world_count(all, "\"outcome\":\"lost\""), 1);
	free(all);

	/* FAKE's file is gone with the disk of the VM: a new copy. */
	char prog[512];
	world_put(w, vm, world_built("t/fake-agent", prog, sizeof(prog)),
	    "/root/fake");
	pid_t next = world_bg(
	    w, NULL, NULL, (const char *const[]){"prompt", s, "go on", NULL});
	world_rest(50);
	(void)next;
	char *c = NULL;
	int64_t until = world_now_ms() + 20000;
	for (;;) {
		all = world_history(w, s);
		unsigned started = world_count(all, "\"turn_started\"");
		unsigned ticks = world_count(all, "tick");
		free(all);
		if (started == 2 && ticks > n / 2 + 1)
			break;
		assert_true(world_now_ms() < until);
		world_rest(20);
	}
	c = SLUICE_OK_OUT(w, "cancel", s);
	free(c);
	assert_int_equal(world_wait_bg(w, next, 20000), 1);
	all = world_history(w, s);
	assert_int_equal(world_count(all, "\"outcome\":\"canceled\""), 1);
	free(all);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
	world_stop(w);
}

static void
killed_at_a_random_point(void **state)
{
	struct world w;
	unsigned rounds = world_long() ? 50 : 10;
	uint32_t rnd = (uint32_t)world_now_ms();
	(void)state;
	print_message("rounds %u of 50, seed %u\n", rounds, rnd);
	world_init(&w);
	for (unsigned i = 0; i < rounds; i++) {
		rnd = rnd * 1664525u + 1013904223u;
		one_round(&w, i, rnd >> 16);
	}
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(killed_at_a_random_point),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
