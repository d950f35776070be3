/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: a link, a mux, a principal, and its life. What it carries is
 * dispatch's business. Private to conn/. States: docs/STATES.md, Handshake.
 * Thread: loop. */
#ifndef SLUICE_CONN_CONN_H
#define SLUICE_CONN_CONN_H

#include "conn/auth.h"
#include "conn/conns.h"

#include "base/buf.h"
#include "base/list.h"
#include "link/link.h"
#include "loop/loop.h"
#include "wire/mux.h"
#include "wire/preamble.h"

enum conn_state {
	CONN_PREAMBLE, /* fewer than 8 bytes seen */
	CONN_HELLO,    /* preamble answered; the peer's HELLO is due */
	CONN_OPEN,
	CONN_DRAINING, /* GOAWAY sent; what runs may end */
	CONN_CLOSING,  /* last words are being written, nothing is parsed */
	CONN_CLOSED,   /* the link is gone; memory goes at the reap point */
	CONN__N
};

/* Buckets of the table of calls by stream id. */
#define CONN_BUCKETS 64

struct call;
struct svc_calls;

/* The set that all connections belong to. */
struct conns {
	struct loop *loop;
	struct auth auth;
	struct sli_limits limits;
	struct sli_mux_cfg mux_cfg;
	struct svc_calls *calls;
	struct sli_list conns;
	unsigned nconns;
	unsigned max_conns;
	uint64_t next_number;
	struct listener *listeners[8];
	unsigned nlisteners;
	unsigned nlive;    /* listeners that have not said closed */
	unsigned nrefused; /* links being closed without a connection */
	int closing;
	void (*done)(void *ctx);
	void *done_ctx;
	struct loop_reap done_reap;
	int done_queued;
};

struct conn {
	struct conns *set;
	struct sli_list node;
	uint64_t number;
	struct sli_link *link; /* NULL once it has said closed */
	struct sli_mux *mux;   /* once the peer's HELLO is here */
	enum conn_state state;
	struct sli_principal who;
	int refused; /* auth said no; told after the preamble */
	int broken;  /* see conn_break */
	uint8_t pre[SLI_PREAMBLE_LEN];
	unsigned npre;
	struct sli_buf hello; /* the peer's, while it comes */
	struct sli_buf out;   /* the batch being written */
	struct loop_hook flush;
	struct loop_timer timer;
	struct loop_reap reap;
	int64_t give_up_ms; /* end of handshake, drain or last words */
	int64_t goaway_ms;  /* second phase of the drain */
	int64_t last_in_ms;
	int quiet;        /* receive buffer was given back */
	uint64_t written; /* of the link, when last looked at */
	struct sli_list calls;
	unsigned ncalls;      /* not yet ended by their handlers */
	struct call **bucket; /* CONN_BUCKETS; from the first call on */
};

/* Takes the link. NULL (link closed) when memory is out. */
SLI_MUST struct conn *conn_new(struct conns *set, struct sli_link *link);
/* Output may be due: flush at the end of this turn. */
void conn_touch(struct conn *c);
/* Two-phase GOAWAY; closes when the last call has ended, or at grace. */
void conn_drain(struct conn *c, uint32_t grace_ms);
/* Close now, without last words. Streams are gone before it returns. */
void conn_close(struct conn *c);
const char *conn_state_name(enum conn_state s);
/* Something of c could not be kept or said (no memory): close it at the end of
 * this turn. Safe from anywhere. */
void conn_break(struct conn *c);
/* A call of c has ended: a draining connection may be done. */
void conn_call_ended(struct conn *c);
/* Gauges of one connection. */
void conn_stats(const struct conn *c, struct svc_conn_stats *ret);

/* Sums over all connections; the sums are checked against the parts. */
void conns_totals(
    const struct conns *cs, struct svc_conn_stats *ret, uint32_t *ret_conns);
/* The set: a connection's memory is about to go. */
void conns_remove(struct conns *cs, struct conn *c);
/* Something has ended: maybe everything has. */
void conns_check_done(struct conns *cs);

#endif
