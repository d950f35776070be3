/* SPDX-License-Identifier: Apache-2.0 */
/* RAW: a client on a real server's unix socket that speaks frames by hand. It
 * withholds or forges credit, cuts frames at any byte, puts several in one
 * write, counts payload per stream, and checks all the time that no stream is
 * sent more than it was granted, nor all of them more than floors and pool.
 * It is not meant to be polite; libsluice is. Thread: one. */
#ifndef SLUICE_TEST_RAW_H
#define SLUICE_TEST_RAW_H

#include "wirekit.h"
#include "world.h"

#include <protobuf-c/protobuf-c.h>

#define RAW_STREAMS 64

#define RAW_ECHO 1u  /* Server/Echo */
#define RAW_EXEC 32u /* Processes/Exec */

struct raw_stream {
	uint64_t got;   /* payload bytes of DATA */
	uint64_t limit; /* highest offset granted */
	uint64_t acked;
	unsigned frames, blocked, opened;
	int ended; /* RESULT or RESET came */
	unsigned status;
};

struct raw {
	int fd; /* -1: the server closed */
	struct sli_buf in;
	uint64_t floor, pool;             /* as promised in HELLO, or raised */
	struct raw_stream s[RAW_STREAMS]; /* by sid */
	unsigned hellos, pongs, goaways;
	unsigned goaway_code;
	uint64_t frames;
	int lax;  /* forged credit: do not check limits */
	int mute; /* what comes may be anything: preambles, unknown streams */
};

struct raw_grant {
	uint32_t sid;
	uint64_t acked, window;
};

/* A connected socket and nothing more; closed by raw_close. */
void raw_connect(struct raw *r, const struct world *w);
/* The same with preamble and HELLO exchanged. cfg: zero fields are defaults;
 * NULL = all. */
void raw_open(
    struct raw *r, const struct world *w, const struct sli_mux_cfg *cfg);
void raw_close(struct raw *r);

/* All of it in one write (waits when the socket is full). 0: the server has
 * closed. */
int raw_write(struct raw *r, const void *p, size_t n);
/* Bytes that the server has not read yet become 0. */
void raw_taken(struct raw *r, int timeout_ms);
/* One frame in one write. */
int raw_send(struct raw *r, unsigned type, unsigned flags, unsigned aux16,
    uint32_t sid, uint32_t aux32, const void *p, size_t n);
/* CALL; window 0 = HELLO's. The credit of the stream is noted. */
void raw_call(struct raw *r, uint32_t sid, uint32_t method, uint64_t window,
    const ProtobufCMessage *req, int end);
/* Exec of argv in a VM. */
void raw_exec(struct raw *r, uint32_t sid, uint64_t window, const char *vm,
    const char *const *argv);
/* Append one ACK frame with these records to b, and note what they grant. */
void raw_grant_put(
    struct raw *r, struct sli_buf *b, const struct raw_grant *g, unsigned n);
/* The same in one write. */
void raw_grant(struct raw *r, const struct raw_grant *g, unsigned n);

/* Take what comes within timeout_ms. 0: nothing came. */
int raw_turn(struct raw *r, int timeout_ms);
/* Turns until fn(ctx); fails the test after timeout_ms. */
void raw_until(struct raw *r, int (*fn)(void *ctx), void *ctx, int timeout_ms,
    const char *what);
/* Until a stream has got that much in all. */
void raw_until_got(struct raw *r, uint32_t sid, uint64_t n, int timeout_ms);
/* Until the server has closed; it must have said why with this GOAWAY code
 * (0: any, or none). */
void raw_until_closed(struct raw *r, unsigned code, int timeout_ms);

#endif
