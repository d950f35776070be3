/* SPDX-License-Identifier: Apache-2.0 */
/* The model of test_sim_store.c: what has been committed, where its bytes are,
 * and the random numbers of one schedule; and the bounded walks, which need
 * nothing else. */
#ifndef SLUICE_TESTS_T_SIM_H
#define SLUICE_TESTS_T_SIM_H

#include "unit.h"

#include "t_store.h"

#define T_SIM_EVENTS 6000u
#define T_SIM_NOISE  (1u << 20)

/* A body is a stretch of the noise. */
struct t_sim_ev {
	uint32_t off, len;
	uint64_t set;
};

struct t_sim {
	struct t_store *store;
	const uint8_t *noise;
	struct t_sim_ev log[T_SIM_EVENTS]; /* by seq % T_SIM_EVENTS */
	uint64_t head, low;                /* committed */
	char sid[16];
	unsigned seed, step;
	uint64_t rng;
};

#define T_SIM_CHECK(m, cond)                                                  \
	do {                                                                  \
		if (!(cond))                                                  \
			fail_msg("seed %u step %u: %s", (m)->seed, (m)->step, \
			    #cond);                                           \
	} while (0)

uint32_t t_sim_rnd(struct t_sim *m, uint32_t n);
const struct t_sim_ev *t_sim_at(const struct t_sim *m, uint64_t seq);
/* These are bytes `off`... of the body. */
void t_sim_bytes(const struct t_sim *m, const struct t_sim_ev *e, uint64_t off,
    struct sli_slice s);
/* A History call over a random range, run to its end at once; 0 = there was
 * too little to walk over. */
int t_sim_history(struct t_sim *m);

#endif
