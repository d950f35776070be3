/* SPDX-License-Identifier: Apache-2.0 */
/* The world of the core's simulation: a client's and a server's mux in one
 * process, wires that hold, cut and repeat what is on them, virtual time, and
 * two applications that follow a plan per stream. All from one seed. The
 * scheduler is in tests/sim/test_sim_mux.c. */
#ifndef SLUICE_TESTS_SIMMUX_H
#define SLUICE_TESTS_SIMMUX_H

#include "wire/mux.h"

#define SIM_SIDS 512
#define SIM_HELD 64 /* messages a consumer holds at most */

/* Method bits: what a stream carries. */
#define SIM_DOWN       0x1u
#define SIM_UP         0x2u
#define SIM_DOWN_BYTES 0x4u
#define SIM_UP_BYTES   0x8u

/* How a side leaves before its time. */
enum sim_leave {
	SIM_STAYS,
	SIM_RESETS,
	SIM_STOPS,   /* client: STOP */
	SIM_ABORTS,  /* server: abort */
	SIM_RESULTS, /* server: result before the client's END */
	SIM_LEAVE__N,
};

/* Everything about a stream that was decided when it began. */
struct sim_plan {
	uint32_t method;
	uint64_t down, up; /* bytes to come */
	uint32_t msg_max;  /* longest message */
	int client_paused; /* its consumer never releases */
	int server_paused;
	enum sim_leave client_leaves, server_leaves;
	uint64_t leave_at; /* bytes it has seen by then */
	uint64_t gap_at;   /* down: skip here; 0 = nowhere */
	uint64_t gap_len;
};

struct sim_msg {
	uint64_t n;
	int done;
};

/* One side's view of a stream. */
struct sim_stream {
	int open;      /* told of it, not gone */
	unsigned gone; /* times sink.gone came */
	/* source */
	uint64_t total, made, at;
	int finished; /* end or result was called */
	/* consumer */
	uint64_t expect; /* offset */
	uint64_t lost;
	struct sim_msg held[SIM_HELD];
	unsigned first, nheld;
	uint64_t seen;
	uint64_t acked;
	int ended;     /* end (server), result (client) came */
	int was_reset; /* sink.reset came */
	int was_stopped;
	int left;    /* we left before the time */
	int stopped; /* we asked for no more */
	uint16_t status;
};

struct sim_side {
	struct sim *w;
	enum sli_role role;
	struct sli_mux *m;
	struct sli_buf wire; /* what it wrote and the other has not got */
	struct sli_buf late; /* its ACK frames that are held back */
	struct sim_stream st[SIM_SIDS];
};

struct sim {
	uint64_t seed;
	uint64_t rng;
	int64_t now;
	int ticks;  /* are timers run (BLOCKED)? */
	int tricks; /* ACK frames are held back and repeated */
	struct sim_side c, s;
	struct sim_plan plan[SIM_SIDS];
	uint32_t sids;  /* highest that was called */
	uint64_t moved; /* grows while something useful happens */

	/* what happened, over the whole life of the process */
	struct sim_seen {
		uint64_t calls, finished, resets, stops, aborts, gaps;
		uint64_t repeated, delayed, spurious, in_pull, full,
		    partial_reads;
	} * seen;
};

uint64_t sim_rand(struct sim *w, uint64_t n); /* 0 <= v < n */
/* 1 <= v <= most, or `have` when that is less. */
uint64_t sim_upto(struct sim *w, uint64_t have, uint64_t most);
int sim_chance(struct sim *w, unsigned percent);

void sim_init(struct sim *w, uint64_t seed, struct sim_seen *seen);
void sim_fini(struct sim *w);

/* --- steps ----------------------------------------------------------------*/
/* Client: begin a stream by a random plan, if there is room. */
void sim_call(struct sim *w);
/* Make more of what `side` has to send on sid, or finish. */
void sim_produce(struct sim *w, struct sim_side *side, uint32_t sid);
/* Server: result. */
void sim_finish(struct sim *w, struct sim_side *side, uint32_t sid, int status);
/* The consumer of `side` is done with some messages, in any order. `all`:
 * with all it holds. */
void sim_consume(struct sim *w, struct sim_side *side, uint32_t sid, int all);
/* Leave before the time if the plan says so. */
void sim_leave(struct sim *w, struct sim_side *side, uint32_t sid);
/* One batch to the wire. Returns bytes. */
size_t sim_output(struct sim *w, struct sim_side *side);
/* Deliver up to n bytes of what `side` wrote. Returns how many. */
size_t sim_deliver(struct sim *w, struct sim_side *side, size_t n);
/* Put ACK frames that were held back on the wire. */
void sim_release_late(struct sim *w, struct sim_side *side);
void sim_tick(struct sim *w, int64_t ms);
/* Invariants of both ends, and across. */
void sim_check(struct sim *w);

/* Both consumers of the stream live and nobody leaves it: it must finish. */
int sim_is_live(const struct sim *w, uint32_t sid);
/* Finished at both ends. */
int sim_is_over(const struct sim *w, uint32_t sid);

#define SIM_FAIL(w, ...) sim_fail((w), __FILE__, __LINE__, __VA_ARGS__)
#define SIM_ASSERT(w, cond)                         \
	do {                                        \
		if (!(cond))                        \
			SIM_FAIL((w), "%s", #cond); \
	} while (0)
/* Prints the seed and ends the process. */
SLI_NORETURN void sim_fail(const struct sim *w, const char *file, int line,
    const char *fmt, ...) SLI_PRINTF(4, 5);

#endif
