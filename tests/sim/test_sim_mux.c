/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan timeout=600 */
/* The real client core against the real server core, in one process, on virtual
 * time, under a seeded scheduler that delays, cuts, repeats and pauses. After
 * each step the invariants hold at both ends and across; at the end every
 * stream whose consumers live has finished, whatever the paused ones hold; and
 * when all is over nothing is left.
 *
 *   SIM_SEEDS=N   how many seeds (1,000; with SLUICE_LONG 20,000)
 *   SIM_SEED=N    only this one */
#include "simmux.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct totals {
	struct sli_mux_stats st;
	struct sim_seen seen;
	uint64_t live, paused, bytes, cut;
};

/* For the assertions inside the core, which end in abort(). */
static volatile sig_atomic_t current_seed;

static void
say_seed(int sig)
{
	char text[64];
	int n = snprintf(
	    text, sizeof(text), "simulation: seed %ld\n", (long)current_seed);

	(void)sig;
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(2);
}

static uint32_t
any_sid(struct sim *w)
{
	return 1 + (uint32_t)sim_rand(w, w->sids != 0 ? w->sids : 1);
}

static struct sim_side *
any_side(struct sim *w)
{
	return sim_chance(w, 50) ? &w->c : &w->s;
}

static size_t
some_length(struct sim *w)
{
	switch (sim_rand(w, 4)) {
	case 0:
		return 1;
	case 1:
		return 1 + sim_rand(w, 100);
	case 2:
		return 1 + sim_rand(w, 20000);
	default:
		return 1 << 20;
	}
}

static void
random_step(struct sim *w)
{
	unsigned what = (unsigned)sim_rand(w, 100);

	if (what < 8)
		sim_call(w);
	else if (what < 30)
		sim_produce(w, any_side(w), any_sid(w));
	else if (what < 50)
		sim_consume(w, any_side(w), any_sid(w), 0);
	else if (what < 55)
		sim_leave(w, any_side(w), any_sid(w));
	else if (what < 72)
		(void)sim_output(w, any_side(w));
	else if (what < 92)
		(void)sim_deliver(w, any_side(w), some_length(w));
	else if (what < 94)
		sim_release_late(w, any_side(w));
	else
		sim_tick(w, (int64_t)sim_rand(w, what == 99 ? 1500 : 50));
}

/* Until both have nothing to say. */
static void
pump(struct sim *w)
{
	do {
		while (sim_output(w, &w->c) + sim_output(w, &w->s) != 0)
			;
	} while (
	    sim_deliver(w, &w->c, 200000) + sim_deliver(w, &w->s, 200000) != 0);
}

/* Everybody does what he can, until nothing moves any more. */
static void
settle(struct sim *w, int leaving)
{
	uint64_t before;
	unsigned idle = 0;

	w->tricks = 0;
	while (idle < 4) {
		before = w->moved;
		sim_release_late(w, &w->c);
		sim_release_late(w, &w->s);
		for (uint32_t sid = 1; sid <= w->sids; sid++) {
			sim_produce(w, &w->c, sid);
			sim_produce(w, &w->s, sid);
			sim_consume(w, &w->c, sid, 1);
			sim_consume(w, &w->s, sid, 1);
			if (leaving) {
				sim_leave(w, &w->c, sid);
				sim_leave(w, &w->s, sid);
			}
		}
		pump(w);
		sim_check(w);
		idle = w->moved == before ? idle + 1 : 0;
		sim_tick(w, 1000);
	}
	pump(w); /* a PING of the last tick */
}

static void
live_ones_finished(struct sim *w, struct totals *t)
{
	for (uint32_t sid = 1; sid <= w->sids; sid++) {
		const struct sim_plan *p = &w->plan[sid];

		if (!sim_is_live(w, sid)) {
			t->paused++;
			continue;
		}
		t->live++;
		if (!sim_is_over(w, sid))
			SIM_FAIL(w,
			    "stream %u stalled: method %u, down %llu of %llu, "
			    "up %llu of %llu",
			    sid, p->method,
			    (unsigned long long)w->c.st[sid].seen,
			    (unsigned long long)p->down,
			    (unsigned long long)w->s.st[sid].seen,
			    (unsigned long long)p->up);
	}
}

/* I8: with no streams nothing is left. */
static void
nothing_left(struct sim *w, struct sim_side *side)
{
	struct sli_mux_stats st;

	sli_mux_stats(side->m, &st);
	SIM_ASSERT(w, st.streams == 0);
	SIM_ASSERT(w, st.inflight == 0 && st.held == 0 && st.unreleased == 0);
	SIM_ASSERT(w, st.pending_ctl == 0);
	SIM_ASSERT(w, !sli_mux_wants_output(side->m));
}

static void
add(struct totals *t, const struct sim_side *side)
{
	struct sli_mux_stats st;

	sli_mux_stats(side->m, &st);
	t->st.acks_out += st.acks_out;
	t->st.blocked_out += st.blocked_out;
	t->st.parks += st.parks;
	t->st.pool_waits += st.pool_waits;
	t->st.window_waits += st.window_waits;
	t->st.dead_bytes += st.dead_bytes;
	t->st.calls_held += st.calls_held;
	t->st.resets_out += st.resets_out;
	t->bytes += st.data_out;
}

static void
run_seed(uint64_t seed, struct totals *t)
{
	static struct sim w; /* big */
	unsigned steps;

	sim_init(&w, seed, &t->seen);
	steps = 1000 + (unsigned)sim_rand(&w, 6000);
	current_seed = (sig_atomic_t)seed;
	for (unsigned i = 0; i < steps; i++) {
		random_step(&w);
		sim_check(&w);
	}
	if (sim_chance(&w, 4)) { /* cut: what is under way is given back */
		t->cut++;
		sim_fini(&w);
		return;
	}
	settle(&w, 0);
	live_ones_finished(&w, t);
	/* the paused ones wake up, and all comes to an end */
	for (uint32_t sid = 1; sid <= w.sids; sid++)
		w.plan[sid].client_paused = w.plan[sid].server_paused = 0;
	settle(&w, 1);
	for (uint32_t sid = 1; sid <= w.sids; sid++)
		SIM_ASSERT(&w, sim_is_over(&w, sid));
	nothing_left(&w, &w.c);
	nothing_left(&w, &w.s);
	add(t, &w.c);
	add(t, &w.s);
	sim_fini(&w);
}

/* A run that never met a thing has not tested it. */
static int
covered(const char *name, uint64_t n, uint64_t least)
{
	(void)printf("# %-24s %llu%s\n", name, (unsigned long long)n,
	    n < least ? "  TOO FEW" : "");
	return n >= least;
}

static int
coverage(const struct totals *t, uint64_t seeds)
{
	int ok = 1;

	ok &= covered("streams", t->seen.calls, seeds);
	ok &= covered("live at the end", t->live, seeds);
	ok &= covered("paused for ever", t->paused, seeds);
	ok &= covered("bytes", t->bytes, seeds * 100000);
	ok &= covered("parks", t->st.parks, seeds);
	ok &= covered("nothing, but ready", t->seen.spurious, seeds);
	ok &= covered("results inside pull", t->seen.in_pull, seeds / 10);
	ok &= covered("waits for the window", t->st.window_waits, seeds);
	ok &= covered("waits for the pool", t->st.pool_waits, seeds);
	ok &= covered("BLOCKED", t->st.blocked_out, seeds / 2);
	ok &= covered("ACK records", t->st.acks_out, seeds);
	ok &= covered("ACKs repeated", t->seen.repeated, seeds);
	ok &= covered("ACKs held back", t->seen.delayed, seeds);
	ok &= covered("reads cut", t->seen.partial_reads, seeds);
	ok &= covered("resets", t->seen.resets, seeds / 10);
	ok &= covered("RESET frames", t->st.resets_out, seeds / 10);
	ok &= covered("stops", t->seen.stops, seeds / 20);
	ok &= covered("aborts", t->seen.aborts, seeds / 20);
	ok &= covered("gaps", t->seen.gaps, seeds / 20);
	ok &= covered("bytes for dead streams", t->st.dead_bytes, seeds);
	ok &= covered("calls held", t->st.calls_held, seeds / 20);
	ok &= covered("connections cut", t->cut, seeds / 50);
	ok &= covered("calls at max_streams", t->seen.full, seeds / 10);
	return ok;
}

static uint64_t
number(const char *name, uint64_t def)
{
	const char *s = getenv(name);
	uint64_t v = 0;

	for (; s != NULL && *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (uint64_t)(*s - '0');
	return v != 0 ? v : def;
}

int
main(void)
{
	const char *l = getenv("SLUICE_LONG");
	uint64_t seeds =
	    number("SIM_SEEDS", l != NULL && *l != '\0' ? 20000 : 1000);
	uint64_t only = number("SIM_SEED", 0);
	struct sigaction sa = {.sa_handler = say_seed};
	static struct totals t;
	int ok = 1;

	(void)sigaction(SIGABRT, &sa, NULL);

	if (only != 0) {
		run_seed(only, &t);
	} else {
		for (uint64_t seed = 1; seed <= seeds; seed++)
			run_seed(seed, &t);
		ok = coverage(&t, seeds);
	}
	(void)printf("%s 1 - %llu seeds, %llu live streams, 0 stalled\n",
	    ok ? "ok" : "not ok", (unsigned long long)(only ? 1 : seeds),
	    (unsigned long long)t.live);
	return !ok;
}
