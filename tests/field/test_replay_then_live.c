/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: timeout=300 */
/* Subscribers that join at any point of a history that grows see one unbroken
 * sequence (B37), and all see the same bytes, which are those that a second
 * reading from the start gives (B39); a second server on the same state is
 * refused (B39). */
#include "world.h"

#include <sluice.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS 6000 /* what the agent says */
#define SEQS   (EVENTS + 64)
#define AHEAD  500

struct all {
	uint64_t sum[SEQS]; /* FNV-1a of each event's body, 0 = not seen */
	uint64_t end;       /* seq of the turn's end, 0 = not yet */
	uint64_t max;       /* highest seq seen */
	unsigned live, done;
};

struct sub {
	struct all *all;
	sluice_stream *s;
	uint64_t from, next;
	uint64_t head; /* when it joined */
	int states;
	int over;
};

static uint64_t
fnv(const void *p, size_t n, uint64_t kind)
{
	const unsigned char *b = p;
	uint64_t h = 1469598103934665603ull ^ kind;
	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 1099511628211ull;
	return h ? h : 1;
}

static void
on_state(void *arg, sluice_stream *s, const struct sluice_sub_state *state)
{
	struct sub *k = arg;
	(void)s;
	k->states++;
	k->head = state->head;
	assert_int_equal(k->next, k->from);
}

static void
on_event(
    void *arg, sluice_stream *s, const struct sluice_event *ev, sluice_msg *m)
{
	struct sub *k = arg;
	struct all *a = k->all;
	(void)s;
	/* The one that is expected: no gap, no repetition. */
	if (ev->seq != k->next)
		fail_msg("joined at %llu, head %llu: expected %llu, got %llu",
		    (unsigned long long)k->from, (unsigned long long)k->head,
		    (unsigned long long)k->next, (unsigned long long)ev->seq);
	k->next++;
	assert_true(ev->seq < SEQS);
	uint64_t h = fnv(ev->body, ev->body_len, (uint64_t)ev->kind);
	if (a->sum[ev->seq] == 0)
		a->sum[ev->seq] = h;
	assert_true(a->sum[ev->seq] == h);
	if (ev->seq > a->max)
		a->max = ev->seq;
	if (ev->kind == SLUICE_EVENT_TURN_ENDED)
		a->end = ev->seq;
	sluice_msg_done(m);
}

static void
on_end(void *arg, sluice_stream *s, const struct sluice_error *err)
{
	struct sub *k = arg;
	(void)s;
	(void)err;
	k->over = 1;
	k->all->live--;
	k->all->done++;
}

static void
join(sluice_client *c, const char *session, struct sub *k, struct all *a,
    uint64_t from)
{
	struct sluice_event_handler h;
	struct sluice_error err;
	SLUICE_INIT(h);
	SLUICE_INIT(err);
	h.on_state = on_state;
	h.on_event = on_event;
	h.on_end = on_end;
	memset(k, 0, sizeof(*k));
	k->all = a;
	k->from = k->next = from ? from : 1;
	if (sluice_subscribe(c, session, from, &h, k, &k->s, &err) != 0)
		fail_msg("subscribe: %s", err.text);
	a->live++;
}

static uint64_t
where(const struct all *a, uint32_t *rnd)
{
	*rnd = *rnd * 1664525u + 1013904223u;
	switch ((*rnd >> 24) % 5) {
	case 0:
		return 0;
	case 1:
		return a->max ? 1 + (*rnd >> 8) % a->max : 1;
	case 2:
		return a->max ? a->max : 1;
	case 3:
		return a->max + 1;
	default:
		return a->max + AHEAD; /* it waits until it is reached */
	}
}

static void
finish(struct sub *k, const struct all *a)
{
	if (!k->s || k->over || !a->end || k->next <= a->end)
		return;
	if (k->from <= a->end)
		assert_int_equal(k->states, 1);
	sluice_stream_free(k->s);
	k->s = NULL;
	k->over = 1;
}

static void
every_join_is_unbroken(void **state)
{
	struct world w;
	char vm[64], s[64], script[128];
	unsigned turns = world_long() ? 100 : 2;
	uint32_t rnd = (uint32_t)world_now_ms();
	struct sluice_error err;
	(void)state;
	SLUICE_INIT(err);
	print_message("seed %u\n", rnd);
	world_init(&w);
	world_start(&w);
	world_vm(&w, vm, sizeof(vm));
	(void)snprintf(script, sizeof(script),
	    "on prompt ; delay 200 ; flow %d 0 x ; end", EVENTS);
	unsigned joins = 0;
	for (unsigned t = 0; t < turns; t++) {
		static struct all a;
		static struct sub subs[100];
		sluice_client *c = NULL;
		memset(&a, 0, sizeof(a));
		memset(subs, 0, sizeof(subs));
		world_fake(&w, vm, script, NULL, s, sizeof(s));
		assert_int_equal(sluice_open(w.url, NULL, &c, &err), 0);
		join(c, s, &subs[0], &a, 0);
		pid_t p = world_bg(&w, NULL, NULL,
		    (const char *const[]){"prompt", s, "go", NULL});
		unsigned n = 1;
		uint64_t next_at = 40;
		while (!a.end) {
			(void)sluice_wait(c, 100, &err);
			while (n < 100 && a.max >= next_at) {
				join(c, s, &subs[n++], &a, where(&a, &rnd));
				next_at += EVENTS / 110;
			}
		}
		/* All that began at or below the end get there. */
		int64_t until = world_now_ms() + 60000;
		for (unsigned open = 1; open;) {
			open = 0;
			for (unsigned i = 0; i < n; i++) {
				finish(&subs[i], &a);
				open += subs[i].s && subs[i].from <= a.end;
			}
			assert_true(world_now_ms() < until);
			(void)sluice_wait(c, 10, &err);
		}
		joins += n;
		sluice_close(c);
		assert_int_equal(world_wait_bg(&w, p, 20000), 0);
		/* Read again from the start: the same. */
		static struct sub again;
		c = NULL;
		a.live = 0;
		assert_int_equal(sluice_open(w.url, NULL, &c, &err), 0);
		join(c, s, &again, &a, 1);
		while (again.next <= a.end)
			(void)sluice_wait(c, 1000, &err);
		sluice_close(c);
		free(SLUICE_OK_OUT(&w, "session", "delete", s));
	}
	print_message("%u joins\n", joins);
	world_stop(&w);
	world_done(&w);
}

static void
a_second_server_is_refused(void **state)
{
	struct world w, other;
	(void)state;
	world_init(&w);
	world_start(&w);
	other = w;
	other.pid = 0;
	int64_t t = world_now_ms();
	assert_int_not_equal(world_start_fails(&other), 0);
	assert_true(world_now_ms() - t < 2000);
	assert_true(
	    world_log_has(&w, "another server uses the state directory"));
	assert_true(world_alive(&w));
	/* Also when it would listen elsewhere. */
	(void)snprintf(other.conf, sizeof(other.conf),
	    "state %s/state\nlisten unix://%s/run2/s.sock\n", w.dir, w.dir);
	assert_int_not_equal(world_start_fails(&other), 0);
	assert_true(world_alive(&w));
	free(SLUICE_OK_OUT(&w, "vm", "create"));
	world_stop(&w);
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_second_server_is_refused),
	    cmocka_unit_test(every_join_is_unbroken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
