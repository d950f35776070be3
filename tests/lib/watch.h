/* SPDX-License-Identifier: Apache-2.0 */
/* libsluice clients of a world, and execs on them that are watched as they go:
 * output offsets without a gap or a repetition, no data behind the exit, one
 * exit, one end. What breaks that fails the test at once. Also an echo at a
 * steady pace that keeps its times. One thread drives any number of clients:
 * watch_turn. */
#ifndef SLUICE_TEST_WATCH_H
#define SLUICE_TEST_WATCH_H

#include "world.h"

#include <sluice.h>

#define WATCH_CLIENTS 4
#define WATCH_PINGS   4096

struct watch {
	sluice_stream *s;
	/* Set before the start. */
	int stall;   /* do not release: kept until watch_resume */
	size_t keep; /* so many bytes of output are kept in `out` */
	int may_gap;
	/* Seen. */
	uint32_t pid;
	uint64_t next;        /* offset that must come next */
	uint64_t bytes, wire; /* of output; of messages, encoding included */
	uint64_t hash;        /* FNV-1a of all output */
	char *out;
	size_t out_len;
	uint64_t gaps, lost;
	int64_t begun_ms, last_ms, exit_ms; /* last: of a data message */
	int64_t idle_ms; /* longest time between two; set it to 0 to start */
	int started, exits, ended;
	int32_t err;
	char text[256];
	struct sluice_exit exit;
	sluice_msg **kept;
	unsigned nkept, cap;
	/* stdin: `feed` bytes made by watch_byte(), then the end of file. */
	uint64_t feed, fed;
	uint64_t seed;
	int64_t fed_ms; /* last progress of stdin */
	int eof_sent;
};

/* Connected when it returns; window 0: the default. */
sluice_client *watch_open(struct world *w, uint32_t window);
/* Begin an exec; x is zeroed apart from what is "set before". */
void watch_exec(sluice_client *c, struct watch *x, const char *vm,
    uint64_t timeout_ms, const char *const *argv);
#define WATCH_EXEC(c, x, vm, ...) \
	watch_exec(c, x, vm, 0, (const char *const[]){__VA_ARGS__, NULL})
void watch_attach(sluice_client *c, struct watch *x, const char *vm,
    uint32_t pid, uint64_t from);
/* Release what was kept, and what comes from now on. */
void watch_resume(struct watch *x);
/* It ended well: one exit with this code, nothing lost, output as given. */
void watch_is(const struct watch *x, int code, const char *out);
/* Cancels if it still runs. */
void watch_free(struct watch *x);

/* The hash that a watch has after n bytes of feed with this seed. */
uint64_t watch_feed_hash(uint64_t seed, uint64_t n);

/* Wait for any of the clients at most timeout_ms and process what came. */
void watch_turn(sluice_client *const *c, unsigned n, int timeout_ms);
/* Turns until fn(ctx) is true; fails the test after timeout_ms. */
void watch_until(sluice_client *const *c, unsigned n, int (*fn)(void *ctx),
    void *ctx, int timeout_ms, const char *what);
/* Until this one has ended. */
void watch_end(sluice_client *c, struct watch *x, int timeout_ms);

struct watch_ping {
	sluice_client *c;
	int64_t every_us, due_us, sent_us;
	int waiting;
	unsigned n;
	int32_t us[WATCH_PINGS];
};

/* Call it between turns: sends an echo when one is due and none is out. */
void watch_ping(struct watch_ping *p);
/* The p-th percentile in ms; one that is still out counts. */
double watch_ping_pct(struct watch_ping *p, unsigned pct);
int64_t watch_now_us(void);

/* RSS of the server in KiB. */
long watch_rss(const struct world *w);
/* 1 in a sanitized build, whose memory and time tell nothing. */
int watch_sanitized(void);

#endif
