/* SPDX-License-Identifier: Apache-2.0 */
/* The one loop thread: epoll, timers, posts from other threads, and the one
 * point where objects die. Phases of a turn: 1 time, 2 due timers, 3 posts,
 * 4 descriptors, 5 end-of-turn hooks (output flush), 6 reap.
 * Thread: loop, but where said. */
#ifndef SLUICE_LOOP_LOOP_H
#define SLUICE_LOOP_LOOP_H

#include "base/err.h"
#include "base/list.h"
#include "base/mailbox.h"

struct loop;

SLI_MUST struct loop *loop_new(struct sli_errinfo *ei);
/* Runs what waits for the reap phase; hooks and posts are dropped. */
void loop_free(struct loop *l);
/* Run turns until loop_stop(). */
void loop_run(struct loop *l);
/* One turn; waits at most timeout_ms (-1 = for ever). For tests. */
void loop_turn(struct loop *l, int timeout_ms);
/* Thread: any. */
void loop_stop(struct loop *l);
/* For other threads to post into the loop. */
struct sli_mailbox *loop_mailbox(struct loop *l);
/* Aborts in debug builds when not in the loop thread. */
void loop_assert(const struct loop *l);
/* Monotonic ms, read once per turn. */
int64_t loop_now_ms(const struct loop *l);

/* Descriptor watcher, embedded in its owner. fn gets epoll event bits. Start
 * from LOOP_FD_INIT, so that loop_fd_del is right at any time. */
struct loop_fd {
	int fd; /* -1 = not watching */
	uint32_t events;
	void (*fn)(struct loop_fd *self, uint32_t events);
	struct loop *loop;
};

#define LOOP_FD_INIT              \
	{                         \
		-1, 0, NULL, NULL \
	}

SLI_MUST enum sli_err loop_fd_add(struct loop *l, struct loop_fd *w, int fd,
    uint32_t events, void (*fn)(struct loop_fd *, uint32_t));
/* Change interest; 0 pauses: nothing is delivered, not even a hang-up. */
void loop_fd_set(struct loop_fd *w, uint32_t events);
/* Stop watching; the descriptor stays the owner's. Safe from any callback;
 * no event for w is delivered after it. */
void loop_fd_del(struct loop_fd *w);

/* Timer, embedded in its owner. One shot. Setting one can not fail: the links
 * of the heap are in here (loop/timer.h owns them). */
struct loop_timer {
	int64_t due_ms; /* INT64_MAX = not set */
	void (*fn)(struct loop_timer *self);
	struct loop_timer *child;
	struct loop_timer *next;
	struct loop_timer *back;
	int set;
};

void loop_timer_init(struct loop_timer *t, void (*fn)(struct loop_timer *self));
/* Sets or moves; INT64_MAX takes it out. A time that has passed means the next
 * turn, never this one. */
void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t due_ms);
void loop_timer_after(struct loop *l, struct loop_timer *t, int64_t ms);
void loop_timer_del(struct loop *l, struct loop_timer *t);

/* Run fn once at the end of this turn (phase 5), e.g. to flush output.
 * Scheduling again before it ran is a no-op. */
struct loop_hook {
	struct sli_list node;
	void (*fn)(struct loop_hook *self);
};

void loop_hook_init(struct loop_hook *h, void (*fn)(struct loop_hook *));
void loop_hook_schedule(struct loop *l, struct loop_hook *h);
void loop_hook_cancel(struct loop_hook *h);

/* Deferred death: fn(obj) runs in phase 6, after every callback. */
struct loop_reap {
	struct sli_list node;
	void (*fn)(struct loop_reap *self);
};

void loop_reap(
    struct loop *l, struct loop_reap *r, void (*fn)(struct loop_reap *));

#endif
