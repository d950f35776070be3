/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of FAKE share. */
#ifndef SLUICE_TEST_FAKE_H
#define SLUICE_TEST_FAKE_H

#include <stddef.h>

enum {
	HANDLERS = 64,
	STEPS = 1024,
	TASKS = 32,
	ASKS = 16
};

struct handler {
	const char *name;
	unsigned first, count; /* steps */
};

/* A handler that runs. Repeating steps keep their place in `left`. */
struct task {
	int on, prompt, hang, waiting;
	unsigned pc, end, n;
	long long wake;
	char id[128];
	char asks[ASKS][128];
	unsigned nasks, open_asks;
	unsigned left, done; /* of a repeating step */
};

struct fake {
	struct handler handlers[HANDLERS];
	unsigned nhandlers;
	char *steps[STEPS];
	unsigned nsteps;
	struct task tasks[TASKS];
	char sid[64];
	unsigned prompts, counter;
	size_t split;
	int split_ms;
	int log, loadable, deaf, undying;
	long long t0;
};

long long now_ms(void);
__attribute__((noreturn)) void die(const char *what);
/* Write to stdout, all of it. */
void emit_bytes(const char *p, size_t n);
__attribute__((format(printf, 1, 2))) void emit(const char *fmt, ...);
/* Run the task's next step, or the next round of a repeating one. */
void step(struct fake *f, struct task *t);

#endif
