/* SPDX-License-Identifier: Apache-2.0 */
/* Control frames as they come in: ACK, RESET, STOP, BLOCKED of streams; PING,
 * PONG, GOAWAY of the connection. None of them is under credit. */
#include "wire/bytes.h"
#include "wire/mux_int.h"

#include <string.h>

/* Record for stream 0: a new pool size. */
static enum sli_err
ack_pool(struct sli_mux *m, uint64_t acked, uint64_t size)
{
	if (acked != 0)
		return sli_mux_fail(
		    m, SLI_E_PROTOCOL, "ACK of the connection with an offset");
	m->txpool.size = SLI_MIN(size, (uint64_t)SLI_POOL_MOST);
	return SLI_OK;
}

static enum sli_err
ack_one(struct sli_mux *m, const uint8_t *rec)
{
	uint32_t sid = sli_get32(rec);
	uint64_t acked = sli_get64(rec + 8);
	uint64_t window = sli_get64(rec + 16);
	struct sli_stream *s;
	uint64_t before;
	enum sli_err e;

	m->st.acks_in++;
	if (sli_get32(rec + 4) != 0)
		return sli_mux_fail(m, SLI_E_PROTOCOL, "ACK: padding not 0");
	if (sid == 0)
		return ack_pool(m, acked, window);
	s = sli_mux_find(m, sid, "ACK", &e);
	if (s == NULL)
		return e;
	before = s->tx.acked;
	e = sli_tx_ack(&s->tx, &m->txpool, acked, window, m->cfg.window_cap);
	if (e != SLI_OK)
		return sli_mux_fail(m, e,
		    "ACK of %llu on stream %u, which sent %llu",
		    (unsigned long long)acked, sid,
		    (unsigned long long)s->tx.sent);
	if (s->place == SLI_PLACE_WINDOW || s->place == SLI_PLACE_POOL)
		sli_sched_wake(m, s);
	if (s->tx.acked > before)
		SLI_TELL(m, s, acked, s->tx.acked);
	sli_mux_settle(m, s);
	return SLI_OK;
}

enum sli_err
sli_mux_on_ack(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	enum sli_err e = SLI_OK;
	size_t at;

	(void)f;
	for (at = 0; at < payload.n && e == SLI_OK; at += SLI_ACK_RECORD)
		e = ack_one(m, payload.p + at);
	return e;
}

/* --- RESET, STOP ----------------------------------------------------------*/

enum sli_err
sli_mux_on_reset(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	uint64_t final = sli_get64(payload.p);
	struct sli_stream *s;
	enum sli_err e;

	s = sli_mux_find(m, f->sid, "RESET", &e);
	if (s == NULL)
		return e;
	if (s->peer_reset)
		return sli_mux_fail(
		    m, SLI_E_PROTOCOL, "second RESET of stream %u", f->sid);
	if (final != s->rx.received)
		return sli_mux_fail(m, SLI_E_DESYNC,
		    "RESET of stream %u at %llu, not %llu", f->sid,
		    (unsigned long long) final,
		    (unsigned long long)s->rx.received);
	s->peer_reset = 1;
	m->st.resets_in++;
	/* The peer has forgotten the stream: it wants no ACK for what it sent
	 * and discards what we sent. */
	sli_mux_kill_rx(m, s);
	sli_rx_void(&s->rx, &m->rxpool);
	if (s->rx_state == SLI_RX_DEAD)
		sli_stream_set_rx(s, SLI_RX_ENDED);
	sli_tx_drop(&s->tx, &m->txpool);
	sli_mux_drop_tx(m, s);
	sli_held_drop(s);
	if (s->tx_state == SLI_TX_OPEN || s->tx_state == SLI_TX_ENDING)
		sli_stream_set_tx(s, SLI_TX_STOPPED);
	/* Answered at once, but while the server's handler lives: until it has
	 * really ended the stream counts. */
	if (s->tx_state == SLI_TX_STOPPED && !s->handler)
		sli_mux_need(m, s, SLI_NEED_RESET);
	if (s->handler || !SLI_IS_SERVER(m))
		SLI_TELL(m, s, reset, f->aux16);
	s->muted = 1;
	sli_mux_settle(m, s);
	return SLI_OK;
}

enum sli_err
sli_mux_on_stop(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	uint64_t offset = sli_get64(payload.p);
	struct sli_stream *s;
	enum sli_err e;

	s = sli_mux_find(m, f->sid, "STOP", &e);
	if (s == NULL)
		return e;
	if (offset > s->tx.sent)
		return sli_mux_fail(m, SLI_E_PROTOCOL,
		    "STOP of stream %u beyond what was sent", f->sid);
	if (s->tx_state != SLI_TX_OPEN && s->tx_state != SLI_TX_ENDING)
		return SLI_OK;
	sli_mux_drop_tx(m, s);
	if (s->held != NULL) {
		s->held->stopped = 1;
		s->held->stop_code = f->aux16;
		sli_stream_set_tx(s, SLI_TX_STOPPED);
		return SLI_OK;
	}
	if (SLI_IS_SERVER(m) && s->tx_state == SLI_TX_ENDING) {
		/* The handler has ended; only data kept its result back. */
		e = sli_mux_late_result(m, s);
		sli_mux_settle(m, s);
		return e;
	}
	sli_stream_set_tx(s, SLI_TX_STOPPED);
	sli_sched_update(m, s); /* a client's END is due */
	SLI_TELL(m, s, stop, f->aux16);
	sli_mux_settle(m, s);
	return SLI_OK;
}

enum sli_err
sli_mux_on_blocked(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	struct sli_stream *s;
	enum sli_err e;

	(void)payload; /* for people who read traces */
	m->st.blocked_in++;
	s = sli_mux_find(m, f->sid, "BLOCKED", &e);
	if (s == NULL)
		return e;
	/* Whatever we told it is told again. */
	if (!s->reset_sent && !s->peer_reset &&
	    !SLI_MUTATED(blocked_unanswered))
		sli_mux_need(m, s, SLI_NEED_ACK);
	return SLI_OK;
}

/* --- connection -----------------------------------------------------------*/

enum sli_err
sli_mux_on_ping(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	(void)f;
	/* One answer at a time, to the newest: a flood costs nothing. */
	memcpy(m->pong, payload.p, sizeof(m->pong));
	m->pong_due = 1;
	return SLI_OK;
}

enum sli_err
sli_mux_on_pong(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	/* Any byte proves life; that was noted by the input. */
	(void)m;
	(void)f;
	(void)payload;
	return SLI_OK;
}

enum sli_err
sli_mux_on_goaway(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	uint32_t last = sli_get32(payload.p);
	uint32_t grace = sli_get32(payload.p + 4);

	m->goaway_seen = 1;
	if (m->state == SLI_MUX_OPEN)
		sli_mux_set_state(m, SLI_MUX_DRAINING);
	SLI_SINK(m, goaway, last, grace, f->aux16,
	    sli_slice_of(payload.p + 8, payload.n - 8));
	return SLI_OK;
}
