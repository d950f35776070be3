/* SPDX-License-Identifier: Apache-2.0 */
/* One stream of one connection: its record, and the two state machines (what
 * we send, what we receive) that docs/STATES.md describes under "Stream". Here
 * are the states, their legal moves and the one setter of each; who moves them
 * and when is the mux's business. */
#ifndef SLI_WIRE_STREAM_H
#define SLI_WIRE_STREAM_H

#include "base/buf.h"
#include "base/list.h"
#include "wire/credit.h"

/* What we send. */
enum sli_tx_state {
	SLI_TX_OPEN,    /* data may be sent */
	SLI_TX_ENDING,  /* the owner ended; its source is still asked */
	SLI_TX_STOPPED, /* nobody wants more; our last frame is still due */
	SLI_TX_ENDED,   /* the last frame (END, RESULT, RESET) is queued */
	SLI_TX_DONE,    /* and nothing is outstanding */
	SLI_TX__N,
};

/* What we receive. */
enum sli_rx_state {
	SLI_RX_OPEN,  /* data goes to the owner */
	SLI_RX_DEAD,  /* data is counted, discarded, released at once */
	SLI_RX_ENDED, /* the peer's last frame has come */
	SLI_RX_DONE,  /* and all is released and acknowledged */
	SLI_RX__N,
};

/* Where the scheduler has the stream. */
enum sli_sched_place {
	SLI_PLACE_NONE,   /* nothing to send */
	SLI_PLACE_READY,  /* in its class's list */
	SLI_PLACE_WINDOW, /* waits for an ACK of its own */
	SLI_PLACE_POOL,   /* waits for the pool, or an ACK of its own */
};

/* Control frames that are due. */
#define SLI_NEED_ACK     0x01u
#define SLI_NEED_RESET   0x02u
#define SLI_NEED_STOP    0x04u
#define SLI_NEED_BLOCKED 0x08u

/* A message of which a part is sent. */
struct sli_rest {
	uint8_t *mem;
	uint32_t pos;
	uint32_t len;
	uint32_t cap;
};

/* A RESULT that waits for the data before it. */
struct sli_late_result {
	uint8_t *mem; /* trailers, then body */
	uint32_t trailers;
	uint32_t len;
	uint16_t status;
};

/* Server: a CALL that is not dispatched yet, and what followed it. */
struct sli_held_call {
	struct sli_buf call; /* its payload */
	struct sli_buf data; /* records of mux_held.c */
	uint16_t header_len;
	uint16_t stop_code;
	int end;
	int stopped;
};

struct sli_stream {
	struct sli_stream *next; /* table chain, free list */
	uint32_t sid;
	uint32_t method;
	enum sli_tx_state tx_state; /* written by sli_stream_set_tx only */
	enum sli_rx_state rx_state; /* written by sli_stream_set_rx only */
	enum sli_sched_place place;
	struct sli_tx tx;
	struct sli_rx rx;

	struct sli_list sched;   /* ready or pool list */
	struct sli_list ctl;     /* streams with `need` */
	struct sli_list blocked; /* by blocked_due_ms */
	struct sli_list gone;
	struct sli_list held_node;
	int64_t blocked_due_ms;
	int64_t deficit;

	uint8_t need;     /* SLI_NEED_* */
	uint8_t bulk;     /* class C3 */
	uint8_t bytes_tx; /* byte stream in our direction */
	uint8_t bytes_rx; /* and in the peer's */
	uint8_t want;     /* the source may have something */
	uint8_t pulling;  /* inside sink.pull: its bytes go before a result */
	uint8_t opened;   /* OPENED is queued, or has come */
	uint8_t handler;  /* server: sink.call was made, not ended yet */
	uint8_t muted;    /* no sink call but gone */
	uint8_t waived;   /* all that came or comes counts as released */
	uint8_t untold;   /* server: sink.call was never made */
	uint8_t peer_reset;
	uint8_t reset_sent; /* RESET is written */
	uint8_t gap_due;
	uint8_t dying;   /* in the gone list */
	uint16_t queued; /* frames in the call queue */
	uint16_t reset_code;
	uint16_t stop_code;
	uint64_t gap_offset;
	uint64_t gap_lost;

	struct sli_buf partial; /* pieces of a message that came */
	struct sli_rest rest;
	struct sli_late_result late;
	struct sli_held_call *held;
};

const char *sli_tx_state_name(enum sli_tx_state s);
const char *sli_rx_state_name(enum sli_rx_state s);
int sli_tx_legal(enum sli_tx_state from, enum sli_tx_state to);
int sli_rx_legal(enum sli_rx_state from, enum sli_rx_state to);
/* The only writers of tx_state and rx_state: assert that the move is legal and
 * log it. */
void sli_stream_set_tx(struct sli_stream *s, enum sli_tx_state to);
void sli_stream_set_rx(struct sli_stream *s, enum sli_rx_state to);

/* No data of ours will be sent any more after what is queued now. */
static inline int
sli_stream_tx_over(const struct sli_stream *s)
{
	return s->tx_state >= SLI_TX_ENDED;
}

void sli_stream_init(struct sli_stream *s, uint32_t sid, uint32_t method);
/* Frees what it holds, not itself. */
void sli_stream_fini(struct sli_stream *s);

/* sid -> stream, O(1); and a small store of unused records, so that a call
 * costs no allocation. */
struct sli_table {
	struct sli_stream **slot;
	uint32_t mask;
	uint32_t count;
	struct sli_stream *free;
	uint32_t nfree;
};

/* Sized for `max` streams. */
SLI_MUST enum sli_err sli_table_init(struct sli_table *t, uint32_t max);
void sli_table_fini(struct sli_table *t);

static inline struct sli_stream *
sli_table_get(const struct sli_table *t, uint32_t sid)
{
	struct sli_stream *s = t->slot[sid & t->mask];

	while (s != NULL && s->sid != sid)
		s = s->next;
	return s;
}

/* NULL: out of memory. The sid must be new. */
SLI_MUST struct sli_stream *sli_table_add(
    struct sli_table *t, uint32_t sid, uint32_t method);
void sli_table_del(struct sli_table *t, struct sli_stream *s);
/* Any stream after `*pos` (start with 0); NULL at the end. Deleting during the
 * walk is not allowed. */
struct sli_stream *sli_table_next(
    const struct sli_table *t, struct sli_stream *prev);

#endif
