/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: timeout=300 */
/* Turns that end oddly, on a real server with a real agent process: a dead
 * agent is not kept (B05), cancel answers what was asked (B06), cancel on an
 * idle session does nothing (B08), nothing overtakes the end of a turn (B10),
 * noise on stdout does no harm (B13). Numbers: shared field cases of the
 * project's trackers. */
#include "world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DONE "on prompt ; text hello ; end"

static int
setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	world_init(w);
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

static void
prompt_ok(struct world *w, const char *s, const char *want)
{
	char *out = SLUICE_OK_OUT(w, "prompt", s, "go");
	assert_string_equal(out, want);
	free(out);
}

static unsigned
in_history(struct world *w, const char *s, const char *needle)
{
	char *all = world_history(w, s);
	unsigned n = world_count(all, needle);
	free(all);
	return n;
}

static uint64_t
agent_pid(struct world *w, const char *s)
{
	uint64_t pid = 0;
	char *out = SLUICE_OK_OUT(w, "--json", "session", "get", s);
	(void)world_json_u64(out, "pid", &pid);
	free(out);
	return pid;
}

struct who {
	struct world *w;
	const char *s;
	const char *needle;
	unsigned n;
};

static int
seen(void *ctx)
{
	struct who *k = ctx;
	return in_history(k->w, k->s, k->needle) >= k->n;
}

static void
until_history(struct world *w, const char *s, const char *needle, unsigned n)
{
	struct who k = {w, s, needle, n};
	world_until(seen, &k, 20000, needle);
}

/* --- B05 ------------------------------------------------------------------*/

static void
dead_agent_is_not_kept(void **state)
{
	struct world *w = *state;
	char vm[64], s[64], more[3][64], pid[24];
	uint64_t pids[3];
	struct run r;
	world_vm(w, vm, sizeof(vm));
	world_fake(w, vm, DONE, NULL, s, sizeof(s));
	(void)snprintf(
	    pid, sizeof(pid), "%llu", (unsigned long long)agent_pid(w, s));
	SLUICE(w, &r, "kill", vm, pid, "9");
	assert_int_equal(r.status, 0);
	run_free(&r);
	until_history(w, s, "\"kind\":\"agent_exited\"", 1);

	/* (a) and (c): the old session is restored by its next prompt. */
	int64_t t = world_now_ms();
	prompt_ok(w, s, "hello");
	assert_true(world_now_ms() - t < 5000);
	/* (b): new ones are alive. */
	for (unsigned i = 0; i < 3; i++) {
		world_fake(w, vm, DONE, NULL, more[i], sizeof(more[i]));
		pids[i] = agent_pid(w, more[i]);
		assert_true(pids[i] > 0);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(pids[i], pids[k]);
		prompt_ok(w, more[i], "hello");
	}
	assert_int_equal(in_history(w, s, "\"kind\":\"agent_exited\""), 1);
	assert_int_equal(in_history(w, s, "\"signal\":9"), 1);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

/* --- B06 ------------------------------------------------------------------*/

static void
cancel_round(struct world *w, const char *vm, unsigned asked)
{
	static const char *const scripts[] = {
	    "on prompt 1 ; ask 100 a tool ; wait ; end cancelled ; "
	    "on prompt ; text fine ; end",
	    "on prompt 1 ; ask 100 a ; ask 101 b ; ask 102 c ; wait ; "
	    "end cancelled ; on prompt ; text fine ; end"};
	char s[64], req[24], needle[40];
	struct run r;
	const char *script = scripts[asked > 1];
	world_fake(w, vm, script, NULL, s, sizeof(s));
	pid_t p = world_bg(
	    w, NULL, NULL, (const char *const[]){"prompt", s, "go", NULL});
	uint64_t first = world_pending(w, s, asked);
	int64_t t = world_now_ms();
	free(SLUICE_OK_OUT(w, "cancel", s));
	(void)snprintf(req, sizeof(req), "%llu", (unsigned long long)first);
	/* The late answer is refused. */
	SLUICE(w, &r, "permit", s, req, "allow");
	assert_int_not_equal(r.status, 0);
	run_free(&r);
	assert_int_equal(world_wait_bg(w, p, 5000), 1);
	assert_true(world_now_ms() - t < 2000);
	(void)world_pending(w, s, 0);
	char *log = world_fake_log(w, vm);
	for (unsigned i = 0; i < asked; i++) {
		(void)snprintf(needle, sizeof(needle), "\"id\":10%u,", i);
		char *at = strstr(log, needle);
		assert_non_null(at);
		char *nl = strchr(at, '\n');
		if (nl)
			*nl = '\0';
		assert_non_null(strstr(at, "\"cancelled\""));
		if (nl)
			*nl = '\n';
	}
	assert_int_equal(world_count(log, "\"selected\""), 0);
	free(log);
	assert_int_equal(in_history(w, s, "\"outcome\":\"canceled\""), 1);
	prompt_ok(w, s, "fine");
	free(SLUICE_OK_OUT(w, "session", "delete", s));
	free(SLUICE_OK_OUT(w, "exec", vm, "--", "rm", "/root/fake.log"));
}

static void
cancel_answers_what_was_asked(void **state)
{
	struct world *w = *state;
	char vm[64];
	unsigned rounds = world_long() ? 100 : 10;
	print_message("rounds %u of 100\n", rounds);
	world_vm(w, vm, sizeof(vm));
	for (unsigned i = 0; i < rounds; i++)
		cancel_round(w, vm, i % 2 ? 3 : 1);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

/* --- B08 ------------------------------------------------------------------*/

static void
idle_cancel_does_nothing(void **state)
{
	struct world *w = *state;
	char vm[64], s[64];
	unsigned rounds = world_long() ? 100 : 10;
	print_message("rounds %u of 100\n", rounds);
	world_vm(w, vm, sizeof(vm));
	world_fake(w, vm, DONE, NULL, s, sizeof(s));
	for (unsigned i = 0; i < rounds; i++) {
		for (unsigned k = 0; k < 5; k++)
			free(SLUICE_OK_OUT(w, "cancel", s));
		prompt_ok(w, s, "hello");
		/* At once after the end. */
		free(SLUICE_OK_OUT(w, "cancel", s));
		prompt_ok(w, s, "hello");
	}
	assert_int_equal(in_history(w, s, "canceled"), 0);
	assert_int_equal(in_history(w, s, "session/cancel"), 0);
	assert_int_equal(
	    in_history(w, s, "\"kind\":\"turn_ended\""), 2 * rounds);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

/* --- cancel while it opens ------------------------------------------------*/

static int
undone(void *ctx)
{
	struct who *k = ctx;
	struct run r;
	SLUICE(k->w, &r, "session", "get", k->s);
	int yes = r.status == 4 || r.status == 1;
	run_free(&r);
	return yes;
}

static void
cancel_while_opening_leaves_nothing(void **state)
{
	struct world *w = *state;
	char vm[64], s[64];
	struct run r;
	world_vm(w, vm, sizeof(vm));
	world_fake(w, vm, "on initialize ; hang",
	    (const char *const[]){"--no-wait", NULL}, s, sizeof(s));
	struct who k = {w, s, "", 0};
	SLUICE(w, &r, "cancel", s);
	assert_int_equal(r.status, 0);
	run_free(&r);
	world_until(undone, &k, 5000, "the session to be gone");
	char *ps = SLUICE_OK_OUT(w, "--json", "ps", vm);
	assert_null(strstr(ps, "\"running\""));
	free(ps);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

/* --- B10 ------------------------------------------------------------------*/

static void
fifty_lines(char *dst, size_t cap)
{
	size_t n = 0;
	for (unsigned i = 1; i <= 50; i++)
		n += (size_t)snprintf(dst + n, cap - n, "c %u", i);
}

static void
nothing_overtakes_the_end(void **state)
{
	struct world *w = *state;
	char vm[64], s[64], late[64], want[512];
	unsigned rounds = world_long() ? 200 : 30;
	print_message("rounds %u of 200\n", rounds);
	fifty_lines(want, sizeof(want));
	world_vm(w, vm, sizeof(vm));
	world_fake(w, vm, "on prompt ; chunks 50 c ; end", NULL, s, sizeof(s));
	for (unsigned i = 0; i < rounds; i++)
		prompt_ok(w, s, want);
	assert_int_equal(in_history(w, s, "agent_message_chunk"), 50 * rounds);

	/* Stragglers: kept once, outside the turn, and the next is whole. */
	world_fake(w, vm,
	    "on prompt 1 ; text first ; end ; delay 200 ; chunks 3 late ; "
	    "on prompt ; text second ; end",
	    NULL, late, sizeof(late));
	prompt_ok(w, late, "first");
	until_history(w, late, "late 3", 1);
	prompt_ok(w, late, "second");
	for (unsigned i = 1; i <= 3; i++) {
		char needle[16];
		(void)snprintf(needle, sizeof(needle), "late %u", i);
		assert_int_equal(in_history(w, late, needle), 1);
	}
	/* No prompt active at all. */
	world_fake(w, vm,
	    "on start ; delay 500 ; text alone ; on prompt ; "
	    "text mine ; end",
	    NULL, late, sizeof(late));
	until_history(w, late, "alone", 1);
	prompt_ok(w, late, "mine");
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

/* --- B13 ------------------------------------------------------------------*/

static void
noise_does_no_harm(void **state)
{
	struct world *w = *state;
	char vm[64], s[64];
	world_vm(w, vm, sizeof(vm));
	int64_t t = world_now_ms();
	world_fake(w, vm,
	    "on start ; raw Banner 1.0\\n\\x1b[31mred\\x1b[0m\\n\\n\\r\\n ; "
	    "raw \\xff\\xfe bad\\n ; "
	    "on initialize ; raw \\xef\\xbb\\xbf ; "
	    "line {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{"
	    "\"protocolVersion\":1}}\r ; "
	    "on prompt 1 ; line update available! ; text hello ; "
	    "line 42 ; line \"x\" ; line null ; line [1,2] ; end ; "
	    "on prompt ; raw {\"jsonrpc\":\"2.0\",\"method\":"
	    "\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":"
	    "\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":"
	    "\"unterminated\"}}}} ; delay 200 ; exit 3",
	    NULL, s, sizeof(s));
	assert_true(world_now_ms() - t < 5000);
	prompt_ok(w, s, "hello");
	assert_true(in_history(w, s, "\"kind\":\"noise\"") >= 2);
	/* What is no JSON: as a string, every byte of it. */
	assert_int_equal(
	    in_history(w, s, "\"payload_text\":\"Banner 1.0\"}"), 1);
	assert_int_equal(in_history(w, s, "\\u001b[31mred\\u001b[0m"), 1);
	/* And what is no text either. */
	assert_int_equal(in_history(w, s, "\"payload_b64\":\"//4gYmFk\"}"), 1);
	/* The last line without a newline counts; the exit is told. */
	struct run r;
	SLUICE(w, &r, "prompt", s, "again");
	assert_int_equal(r.status, 1);
	run_free(&r);
	assert_int_equal(in_history(w, s, "unterminated"), 1);
	assert_int_equal(in_history(w, s, "\"code\":3"), 1);
	free(SLUICE_OK_OUT(w, "vm", "delete", vm));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(dead_agent_is_not_kept),
	    cmocka_unit_test(cancel_answers_what_was_asked),
	    cmocka_unit_test(idle_cancel_does_nothing),
	    cmocka_unit_test(cancel_while_opening_leaves_nothing),
	    cmocka_unit_test(nothing_overtakes_the_end),
	    cmocka_unit_test(noise_does_no_harm),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
