/* SPDX-License-Identifier: Apache-2.0 */
/* Credit of one direction of one stream, and the pool that all streams of a
 * connection share: arithmetic only, both ends. Offsets never fall; windows
 * are clamped before they are added, so no sum can overflow. There is no
 * counter that could leak: the pool's `used` is the sum of the streams' terms
 * max(0, outstanding - floor), kept up to date at every change. */
#ifndef SLI_WIRE_CREDIT_H
#define SLI_WIRE_CREDIT_H

#include "base/err.h"

/* No offset ever passes this. */
#define SLI_OFFSET_MAX (UINT64_C(1) << 62)

struct sli_pool {
	uint64_t floor; /* F */
	uint64_t size;  /* P */
	uint64_t used;  /* sum of max(0, outstanding - F) */
};

/* Sender: acked <= sent <= limit. */
struct sli_tx {
	uint64_t sent;
	uint64_t acked;
	uint64_t limit;
	uint64_t window; /* the peer's last wish, clamped */
};

/* Receiver: acked <= released <= handed <= received <= limit. */
struct sli_rx {
	uint64_t received;
	uint64_t handed;   /* given to the consumer, whole messages */
	uint64_t released; /* drained by the consumer */
	uint64_t acked;    /* written to the wire */
	uint64_t limit;    /* highest acked + window written */
	uint64_t window;   /* our wish */
	uint64_t widest;   /* largest window ever written */
	uint64_t below;    /* bytes before a GAP that the consumer still has */
};

static inline uint64_t
sli_pool_term(const struct sli_pool *p, uint64_t outstanding)
{
	return outstanding > p->floor ? outstanding - p->floor : 0;
}

static inline uint64_t
sli_pool_left(const struct sli_pool *p)
{
	return p->used < p->size ? p->size - p->used : 0;
}

static inline uint64_t
sli_tx_outstanding(const struct sli_tx *t)
{
	return t->sent - t->acked;
}

void sli_tx_init(struct sli_tx *t, uint64_t window);
/* Start at an offset, before anything was sent. */
void sli_tx_start(struct sli_tx *t, uint64_t start);
/* Bytes that limit and pool allow now. */
uint64_t sli_tx_room(const struct sli_tx *t, const struct sli_pool *p);
/* Bytes that the limit alone allows now. */
uint64_t sli_tx_window_room(const struct sli_tx *t);
/* n more bytes were written; n <= room. */
void sli_tx_sent(struct sli_tx *t, struct sli_pool *p, uint64_t n);
/* An ACK record came; `cap` is the most we honour of a window. PROTOCOL when
 * it acknowledges what was not sent. Going back is ignored. */
SLI_MUST enum sli_err sli_tx_ack(struct sli_tx *t, struct sli_pool *p,
    uint64_t acked, uint64_t window, uint64_t cap);
/* Nothing is outstanding any more: the receiver discards it all. */
void sli_tx_drop(struct sli_tx *t, struct sli_pool *p);
/* After GAP: go on at `offset`. */
void sli_tx_jump(struct sli_tx *t, struct sli_pool *p, uint64_t offset);

void sli_rx_init(struct sli_rx *r, uint64_t window);
void sli_rx_start(struct sli_rx *r, uint64_t start);
/* n bytes came; FLOW when limit or pool did not allow them. */
SLI_MUST enum sli_err sli_rx_data(
    struct sli_rx *r, struct sli_pool *p, uint64_t n);
/* The consumer drained n bytes. False when it never had so many. */
SLI_MUST int sli_rx_release(struct sli_rx *r, uint64_t n);
/* Everything received counts as drained, now and (called after every
 * sli_rx_data) for ever: nobody wants it. */
void sli_rx_release_all(struct sli_rx *r);
/* The peer needs no acknowledgement any more. */
void sli_rx_void(struct sli_rx *r, struct sli_pool *p);
/* Is it time to write an ACK? */
int sli_rx_ack_due(const struct sli_rx *r);
/* It has been written: {released, window}. */
void sli_rx_acked(struct sli_rx *r, struct sli_pool *p);
/* GAP came: data goes on at `offset` > received. */
void sli_rx_jump(struct sli_rx *r, struct sli_pool *p, uint64_t offset);
/* Bytes received and not drained. */
uint64_t sli_rx_unreleased(const struct sli_rx *r);

#endif
