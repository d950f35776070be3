/* SPDX-License-Identifier: Apache-2.0 */
/* A server for tests of libsluice: the real preamble and the real mux in server
 * role on a unix socket in a temporary directory, stepped by hand in the test's
 * own thread; what it answers the test says. Knows no message types. */
#ifndef SLUICE_TESTS_FAKESRV_H
#define SLUICE_TESTS_FAKESRV_H

#include <sluice.h>

#include "base/buf.h"
#include "wire/mux.h"

#define FAKE_CALLS_MAX 64
#define FAKE_SIDS_MAX  256

struct fake_call {
	uint32_t sid;
	uint32_t method;
	int end; /* the client had no more to send */
	uint8_t req[4096];
	size_t req_len;
	char key[65];
};

/* One stream as the server sees it. */
struct fake_stream {
	struct sli_buf out; /* u32 length, bytes, ... to be pulled */
	struct sli_buf in;  /* the same, as received */
	uint64_t held;      /* received, not released */
	uint64_t acked;     /* by the client */
	uint64_t sent;      /* pulled */
	int ended, reset, stopped, gone;
	uint16_t reset_code;
};

struct fake {
	char dir[64];
	char url[128];
	int lfd, fd;
	int hold; /* do not release what comes */
	struct sli_mux *mux;
	struct sli_buf tx;
	size_t npre;
	uint8_t pre[8];
	uint32_t keepalive_s; /* from the client's HELLO */
	char agent[64];
	int calls;
	struct fake_call call[FAKE_CALLS_MAX];
	struct fake_stream st[FAKE_SIDS_MAX];
};

/* Everything fails the test on error. */
void fake_start(struct fake *f);
void fake_stop(struct fake *f);
/* Accept, read, write: what goes without waiting. Returns bytes moved. */
size_t fake_step(struct fake *f);
/* Turn both until *flag is not 0, or until nothing moves when flag is NULL. */
void fake_turn(struct fake *f, sluice_client *c, const int *flag);
/* A client of it that has said hello. */
sluice_client *fake_client(struct fake *f, const struct sluice_options *o);

/* One message to the client. */
void fake_send(struct fake *f, uint32_t sid, const void *p, size_t n);
/* End of the call. */
void fake_ok(struct fake *f, uint32_t sid, const void *body, size_t n);
void fake_fail(
    struct fake *f, uint32_t sid, uint16_t status, const void *tr, size_t n);
void fake_release(struct fake *f, uint32_t sid, uint64_t n);
/* The connection is cut without a word. */
void fake_cut(struct fake *f);
/* Next message received on sid, or -1; dst holds 64 KiB. */
long fake_take(struct fake *f, uint32_t sid, uint8_t *dst);

#endif
