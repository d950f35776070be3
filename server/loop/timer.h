/* SPDX-License-Identifier: Apache-2.0 */
/* A pairing heap of deadlines, linked through the timers themselves: setting a
 * timer can not fail. It knows no clock: the loop says what time it is.
 * Private to loop/; owners use loop_timer_* of loop.h. */
#ifndef SLUICE_LOOP_TIMER_H
#define SLUICE_LOOP_TIMER_H

#include "loop/loop.h"

/* Every parent is due no later than its children. root->next is NULL. */
struct timers {
	struct loop_timer *root;
	unsigned n;
};

/* Sets or moves. */
void timers_set(struct timers *h, struct loop_timer *t, int64_t due_ms);
/* Does nothing when t is not set. */
void timers_del(struct timers *h, struct loop_timer *t);
/* The earliest deadline, INT64_MAX when there is none. */
int64_t timers_next(const struct timers *h);
/* Takes the earliest timer out if it is due at now_ms, else NULL. */
struct loop_timer *timers_pop(struct timers *h, int64_t now_ms);

#endif
