/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user timeout=400 */
/* Work belongs to the server, clients come and go (B20): a turn whose client
 * is killed goes on and is read on from the last seen event; what an agent
 * asks while nobody is there waits and is never allowed by itself; a process
 * that was left is listed, read on without a gap, and killed while another
 * waits for it. Writing to the stdin of a process that was left is not offered:
 * a detached one has none. */
#include "watch.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int
setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	world_init(w);
	world_conf(w, "acp.permission_ms 3s");
	world_start(w);
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;
	world_stop(w);
	world_done(w);
	free(w);
	return 0;
}

struct file {
	const char *path;
	const char *needle;
	unsigned n;
};

static int
file_has(void *ctx)
{
	struct file *f = ctx;
	char *text = world_read(f->path, NULL);
	int yes = text && world_count(text, f->needle) >= f->n;
	free(text);
	return yes;
}

/* Cut behind the last whole line; the sequence number of that line, having
 * checked that every line's is one more than the one before. */
static uint64_t
check_seqs(char *text, uint64_t first)
{
	uint64_t seq = 0, want = first;
	char *end = strrchr(text, '\n');
	assert_non_null(end);
	*end = '\0';
	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		assert_true(world_json_u64(line, "seq", &seq));
		assert_true(seq == want);
		want++;
	}
	return want - 1;
}

static void
turn_goes_on(void **state)
{
	struct world *w = *state;
	char vm[64], s[64], script[80], seen[300], rest[300], from[24];
	unsigned each = world_long() ? 100 : 50;
	(void)snprintf(script, sizeof(script),
	    "on prompt ; flow 100 %u chunk ; end", each);
	(void)snprintf(seen, sizeof(seen), "%s/seen", w->dir);
	(void)snprintf(rest, sizeof(rest), "%s/rest", w->dir);
	print_message("100 chunks in %u ms\n", 100 * each);
	world_vm(w, vm, sizeof(vm));
	world_fake(w, vm, script, NULL, s, sizeof(s));
	pid_t seer =
	    world_bg(w, seen, NULL, (const char *const[]){"attach", s, NULL});
	pid_t p = world_bg(
	    w, NULL, NULL, (const char *const[]){"prompt", s, "go", NULL});
	struct file f = {seen, "agent_message_chunk", 20};
	world_until(file_has, &f, 30000, "20 chunks");
	(void)kill(seer, SIGKILL);
	(void)kill(p, SIGKILL);
	(void)world_wait_bg(w, seer, 5000);
	(void)world_wait_bg(w, p, 5000);
	char *a = world_read(seen, NULL);
	assert_non_null(a);
	uint64_t last = check_seqs(a, 1);
	(void)snprintf(
	    from, sizeof(from), "%llu", (unsigned long long)last + 1);
	/* Somebody else reads on where that one was. */
	seer = world_bg(w, rest, NULL,
	    (const char *const[]){"attach", s, "--from", from, NULL});
	f = (struct file){rest, "\"turn_ended\"", 1};
	world_until(file_has, &f, 30000, "the end of the turn");
	(void)kill(seer, SIGKILL);
	(void)world_wait_bg(w, seer, 5000);
	char *b = world_read(rest, NULL);
	assert_non_null(b);
	(void)check_seqs(b, last + 1);
	assert_int_equal(world_count(a, "agent_message_chunk") +
			     world_count(b, "agent_message_chunk"),
	    100);
	assert_int_equal(world_count(b, "\"outcome\":\"completed\""), 1);
	assert_int_equal(world_count(b, "end_turn\",\"") +
			     world_count(b, "\"stop_reason\":\"end_turn\""),
	    1);
	/* Each once: all of them stand in what both saw. */
	for (unsigned i = 1; i <= 100; i++) {
		char chunk[32];
		(void)snprintf(chunk, sizeof(chunk), "chunk %u\"", i);
		unsigned n = world_count(a, chunk) + world_count(b, chunk);
		assert_int_equal(n, 1);
	}
	free(a);
	free(b);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

static unsigned
in_history(struct world *w, const char *s, const char *needle)
{
	char *all = world_history(w, s);
	unsigned n = world_count(all, needle);
	free(all);
	return n;
}

struct who {
	struct world *w;
	const char *s;
};

static int
turn_over(void *ctx)
{
	struct who *k = ctx;
	return in_history(k->w, k->s, "\"kind\":\"turn_ended\"") == 1;
}

static void
nobody_there_is_never_a_yes(void **state)
{
	struct world *w = *state;
	char vm[64], s[64], st[32];
	world_vm(w, vm, sizeof(vm));
	world_fake(w, vm,
	    "on prompt ; delay 300 ; ask 100 rm ; wait ; text after ; end",
	    NULL, s, sizeof(s));
	pid_t p = world_bg(
	    w, NULL, NULL, (const char *const[]){"prompt", s, "go", NULL});
	world_state(w, s, st, sizeof(st));
	int64_t until = world_now_ms() + 10000;
	while (strcmp(st, "running") != 0) {
		assert_true(world_now_ms() < until);
		world_state(w, s, st, sizeof(st));
	}
	(void)kill(p, SIGKILL); /* before it asks */
	(void)world_wait_bg(w, p, 5000);
	/* It waits; it was raised while nobody was there. */
	(void)world_pending(w, s, 1);
	world_state(w, s, st, sizeof(st));
	assert_string_equal(st, "waiting_permission");
	char *list = SLUICE_OK_OUT(w, "--json", "permissions", s);
	assert_non_null(strstr(list, "pending"));
	free(list);
	/* Its deadline (3 s here) passes: cancelled, not allowed. */
	struct who k = {w, s};
	world_until(turn_over, &k, 20000, "the end of the turn");
	(void)world_pending(w, s, 0);
	char *log = world_fake_log(w, vm);
	assert_int_equal(world_count(log, "\"selected\""), 0);
	assert_int_equal(world_count(log, "\"outcome\":\"cancelled\""), 1);
	free(log);
	assert_int_equal(in_history(w, s, "\"state\":\"answered\""), 0);
	assert_int_equal(in_history(w, s, "\"state\":\"expired\""), 1);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

/* --- processes ------------------------------------------------------------*/

static int
counted_to(void *ctx)
{
	return ((const struct watch *)ctx)->bytes > 200;
}

static int
exited(void *ctx)
{
	return ((const struct watch *)ctx)->ended;
}

/* The numbers go on by one each line from the first whole one. */
static void
check_count(const char *text, size_t skip_first)
{
	unsigned long want = 0;
	const char *line = skip_first ? strchr(text, '\n') : text;
	while (line && *line) {
		char *end;
		line += *line == '\n';
		unsigned long v = strtoul(line, &end, 10);
		if (*end != '\n')
			return; /* the last one is cut */
		if (want)
			assert_int_equal(v, want);
		want = v + 1;
		line = end;
	}
}

static void
process_is_found_again(void **state)
{
	struct world *w = *state;
	char vm[64], key[40];
	struct watch x = {.keep = 1 << 20}, y = {.keep = 1 << 20}, z = {0};
	uint64_t pid = 0;
	world_vm(w, vm, sizeof(vm));
	char *out = SLUICE_OK_OUT(w, "exec", "--detach", vm, "--", "sh", "-c",
	    "i=1; while :; do echo $i; i=$((i+1)); sleep 0.02; done");
	pid = strtoull(out, NULL, 10);
	assert_true(pid > 0);
	free(out);
	sluice_client *c = watch_open(w, 0);
	watch_attach(c, &x, vm, (uint32_t)pid, 0);
	watch_until(&c, 1, counted_to, &x, 20000, "some counting");
	uint64_t from = x.next;
	check_count(x.out, 0);
	watch_free(&x);
	sluice_close(c); /* left */
	if (world_long()) {
		print_message("away for 135 s\n");
		world_rest(135000); /* over every default timer of ours */
	}
	out = SLUICE_OK_OUT(w, "--json", "ps", vm);
	(void)snprintf(
	    key, sizeof(key), "\"pid\":%llu,", (unsigned long long)pid);
	assert_non_null(strstr(out, key));
	assert_non_null(strstr(out, "\"running\""));
	free(out);
	/* On from where that one was, and another that only waits. */
	c = watch_open(w, 0);
	watch_attach(c, &y, vm, (uint32_t)pid, from);
	sluice_client *d = watch_open(w, 0);
	sluice_client *cd[2] = {c, d};
	watch_attach(d, &z, vm, (uint32_t)pid, 0);
	watch_until(cd, 2, counted_to, &y, 20000, "more counting");
	assert_int_equal(y.gaps, 0);
	check_count(y.out, 1);
	assert_int_equal(z.ended, 0);
	int64_t t = world_now_ms();
	(void)snprintf(key, sizeof(key), "%llu", (unsigned long long)pid);
	free(SLUICE_OK_OUT(w, "kill", vm, key));
	watch_until(cd, 2, exited, &y, 2000, "the end, for the reader");
	watch_until(cd, 2, exited, &z, 2000, "the end, for the other");
	assert_true(world_now_ms() - t < 2000);
	assert_int_equal(y.exit.signal, SIGKILL);
	assert_int_equal(z.exit.signal, SIGKILL);
	out = SLUICE_OK_OUT(w, "--json", "ps", vm);
	assert_null(strstr(out, "\"running\""));
	free(out);
	watch_free(&y);
	watch_free(&z);
	sluice_close(c);
	sluice_close(d);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(turn_goes_on),
	    cmocka_unit_test(nobody_there_is_never_a_yes),
	    cmocka_unit_test(process_is_found_again),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
