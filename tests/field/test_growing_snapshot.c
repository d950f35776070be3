/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan timeout=400 */
/* The bug that started this product: an agent resends its whole growing
 * output with every line, 75 MB of lines for 84 KB of text. The turn must end
 * end_turn, memory must stay flat, the history must cost about what was
 * printed, and nothing of it may be missing. */
#include "world.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define WINDOW 51200
#define STEP   22
#define LINES  1500

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define HELD_MAX    (4ull << 20)
#define RSS_MAX_KIB (32L << 10)
#define DB_MAX      (8ll << 20)

struct watch {
	struct world *w;
	pid_t prompt;
	uint64_t held_max;
	long rss_max;
};

static uint64_t
held_now(struct world *w)
{
	uint64_t v = 0;
	char *out = SLUICE_OK_OUT(w, "--json", "stats", "--buffers");
	char *rest = NULL;
	for (char *line = strtok_r(out, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		if (strstr(line, "\"held\"") && strstr(line, "\"server\"") &&
		    world_json_u64(line, "value", &v))
			break;
	free(out);
	return v;
}

static long long
db_bytes(struct world *w)
{
	char path[300];
	struct stat st;
	(void)snprintf(path, sizeof(path), "%s/state/history.db", w->dir);
	assert_int_equal(stat(path, &st), 0);
	return (long long)st.st_size;
}

static void
look(struct watch *v)
{
	uint64_t held = held_now(v->w);
	long rss = world_proc_status(v->w->pid, "VmRSS");
	if (held > v->held_max)
		v->held_max = held;
	if (rss > v->rss_max)
		v->rss_max = rss;
}

/* One turn in each of n sessions side by side, watched from outside. */
static void
turns(
    struct world *w, char (*s)[64], unsigned n, int timeout_ms, struct watch *v)
{
	pid_t pid[16];
	char err[16][300];
	int64_t until = world_now_ms() + timeout_ms;
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(err[i], sizeof(err[i]), "%s/err%u", w->dir, i);
		pid[i] = world_bg(w, NULL, err[i],
		    (const char *const[]){"prompt", s[i], "go", NULL});
	}
	for (unsigned left = n; left > 0;) {
		look(v);
		left = 0;
		for (unsigned i = 0; i < n; i++)
			left += world_proc_status(pid[i], "VmRSS") > 0;
		assert_true(world_now_ms() < until);
	}
	for (unsigned i = 0; i < n; i++) {
		int st = world_wait_bg(w, pid[i], 5000);
		if (st != 0) {
			char *text = world_read(err[i], NULL);
			fail_msg("prompt ended with %d: %s", st, text);
		}
	}
}

static void
check(struct world *w, struct watch *v, long rss0)
{
	print_message("held max %llu KiB, RSS +%ld KiB\n",
	    (unsigned long long)v->held_max >> 10, v->rss_max - rss0);
	assert_true(v->held_max <= HELD_MAX);
	if (!SANITIZED)
		assert_true(v->rss_max - rss0 < RSS_MAX_KIB);
	assert_int_equal(held_now(w), 0);
}

static void
open_sessions(struct world *w, const char *script, char (*s)[64], unsigned n)
{
	char vm[64];
	world_vm(w, vm, sizeof(vm));
	for (unsigned i = 0; i < n; i++)
		world_fake(w, vm, script, NULL, s[i], 64);
}

static void
rounds(unsigned n, unsigned sessions, const char *script, int timeout_ms)
{
	struct world w;
	char s[16][64];
	world_init(&w);
	world_conf(&w, "acp.message_total_bytes 64MiB");
	world_conf(&w, "acp.turn_total_bytes 256MiB");
	world_start(&w);
	open_sessions(&w, script, s, sessions);
	struct watch v = {.w = &w};
	turns(&w, s, sessions, timeout_ms, &v); /* warm-up: caches fill */
	long rss0 = world_proc_status(w.pid, "VmRSS");
	v = (struct watch){.w = &w};
	for (unsigned i = 0; i < n; i++)
		turns(&w, s, sessions, timeout_ms, &v);
	check(&w, &v, rss0);
	world_stop(&w);
	/* All of the WAL is in it by now. */
	long long each = db_bytes(&w) / (long long)(n + 1) / sessions;
	print_message("database %lld KiB a turn\n", each >> 10);
	assert_true(each < DB_MAX);
	world_done(&w);
}

static void
at_full_speed(void **state)
{
	char script[256];
	(void)state;
	(void)snprintf(script, sizeof(script),
	    "on prompt ; grow c1 %d %d %d 0 ; text done ; end", WINDOW, STEP,
	    LINES);
	rounds(world_long() ? 99 : 2, 1, script, 120000);
}

static void
paced_side_by_side(void **state)
{
	char script[256];
	(void)state;
	(void)snprintf(script, sizeof(script),
	    "on prompt 1 ; grow w 8192 %d 50 15 ; end ; "
	    "on prompt ; grow c1 %d %d %d 15 ; text done ; end",
	    STEP, WINDOW, STEP, 20000 / 15);
	rounds(1, world_long() ? 10 : 3, script, 120000);
}

/* Every byte that the agent printed stands in some kept snapshot: output is
 * the window's first bytes, then STEP more a line (see fake_steps.c). */
static void
nothing_is_missing(void **state)
{
	static const char abc[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	struct world w;
	char s[1][64], script[256], probe[65];
	(void)state;
	(void)snprintf(script, sizeof(script),
	    "on prompt ; grow c1 %d %d %d 0 field ; text done ; end", WINDOW,
	    STEP, LINES);
	world_init(&w);
	world_start(&w);
	open_sessions(&w, script, s, 1);
	struct watch v = {.w = &w};
	turns(&w, s, 1, 120000, &v);
	char *all = world_history(&w, s[0]);
	size_t total = WINDOW + (size_t)STEP * (LINES - 1);
	for (size_t at = 0; at + 64 <= total; at += 64) {
		for (size_t k = 0; k < 64; k++)
			probe[k] = abc[((at + k) * 7 + (at + k) / 37) % 37];
		probe[64] = '\0';
		if (!strstr(all, probe))
			fail_msg("bytes %zu.. of the output are lost", at);
	}
	assert_int_equal(world_count(all, "only in the first"), 1);
	assert_true(world_count(all, "\"superseded\"") > 0);
	assert_true(strlen(all) < (8u << 20));
	free(all);
	world_stop(&w);
	world_done(&w);
}

/* Deltas in _meta are not snapshots: each is kept. */
static void
meta_deltas_are_kept(void **state)
{
	struct world w;
	char s[1][64], want[32];
	(void)state;
	world_init(&w);
	world_start(&w);
	open_sessions(&w,
	    "on prompt ; grow c1 51200 22 100 0 meta ; text done ; end", s, 1);
	struct watch v = {.w = &w};
	turns(&w, s, 1, 120000, &v);
	char *all = world_history(&w, s[0]);
	for (unsigned i = 1; i <= 100; i++) {
		(void)snprintf(want, sizeof(want), "\"delta\":\"d%u\"", i);
		assert_int_equal(world_count(all, want), 1);
	}
	free(all);
	world_stop(&w);
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_missing),
	    cmocka_unit_test(meta_deltas_are_kept),
	    cmocka_unit_test(at_full_speed),
	    cmocka_unit_test(paced_side_by_side),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
