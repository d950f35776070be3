/* SPDX-License-Identifier: Apache-2.0 */
/* One batch: all control (C0), then calls and results (C1) up to 64 KiB, then
 * data (C2, C3) by credit and weight. What a batch holds is what the next
 * control frame waits behind, hence its bound. */
#include "wire/bytes.h"
#include "wire/mux_int.h"

#include "wire/hello.h"

#include <string.h>

uint8_t *
sli_batch_frame(struct sli_batch *b, const struct sli_frame *f)
{
	size_t n = SLI_FRAME_HDR + (size_t)f->len;
	uint8_t *d = sli_buf_reserve(b->out, n);

	if (d == NULL) {
		b->full = 1;
		return NULL;
	}
	sli_frame_put(d, f);
	sli_buf_added(b->out, n);
	b->m->st.frames_out++;
	return d + SLI_FRAME_HDR;
}

static size_t
batch_len(const struct sli_batch *b)
{
	return sli_buf_len(b->out) - b->start;
}

/* --- connection -----------------------------------------------------------*/

static void
put_hello(struct sli_batch *b)
{
	struct sli_frame f = {.type = SLI_FT_HELLO};
	struct sli_buf tmp;
	uint8_t *d;

	sli_buf_init(&tmp, SLI_HELLO_MAX);
	if (sli_hello_put(&b->m->cfg, &tmp) != SLI_OK) {
		b->full = 1;
	} else {
		f.len = (uint32_t)sli_buf_len(&tmp);
		d = sli_batch_frame(b, &f);
		if (d != NULL) {
			memcpy(d, sli_buf_data(&tmp), f.len);
			b->m->hello_sent = 1;
		}
	}
	sli_buf_free(&tmp);
}

static void
put_ping(struct sli_batch *b, unsigned type, const uint8_t opaque[8])
{
	struct sli_frame f = {.type = (uint8_t)type, .len = 8};
	uint8_t *d = sli_batch_frame(b, &f);

	if (d != NULL)
		memcpy(d, opaque, 8);
}

static void
put_goaway(struct sli_batch *b)
{
	struct sli_goaway *g = &b->m->goaway;
	struct sli_frame f = {.type = SLI_FT_GOAWAY, .aux16 = g->code};
	uint8_t *d;

	f.len = 8u + g->text_len;
	d = sli_batch_frame(b, &f);
	if (d == NULL)
		return;
	sli_put32(d, g->last);
	sli_put32(d + 4, g->grace_ms);
	memcpy(d + 8, g->text, g->text_len);
	g->due = 0;
}

static void
put_connection(struct sli_batch *b)
{
	struct sli_mux *m = b->m;
	uint8_t opaque[8];

	if (m->pong_due) {
		put_ping(b, SLI_FT_PONG, m->pong);
		m->pong_due = b->full;
	}
	if (m->ping_due && !b->full) {
		sli_put64(opaque, (uint64_t)m->ping_ms);
		put_ping(b, SLI_FT_PING, opaque);
		m->ping_due = b->full;
	}
	if (m->goaway.due && !b->full)
		put_goaway(b);
}

/* --- streams' control -----------------------------------------------------*/

static void
put_reset(struct sli_batch *b, struct sli_stream *s)
{
	struct sli_mux *m = b->m;
	struct sli_frame f = {.type = SLI_FT_RESET, .len = 8, .sid = s->sid};
	uint8_t *d;

	f.aux16 = s->reset_code;
	d = sli_batch_frame(b, &f);
	if (d == NULL)
		return;
	sli_put64(d, s->tx.sent);
	m->st.resets_out++;
	s->need = 0;
	s->reset_sent = 1;
	if (!sli_stream_tx_over(s))
		sli_stream_set_tx(s, SLI_TX_ENDED);
	/* The peer discards what is under way, and wants no ACK for what it
	 * sent itself. */
	sli_tx_drop(&s->tx, &m->txpool);
	sli_rx_void(&s->rx, &m->rxpool);
}

static void
put_stop(struct sli_batch *b, struct sli_stream *s)
{
	struct sli_frame f = {.type = SLI_FT_STOP, .len = 8, .sid = s->sid};
	uint8_t *d;

	s->need &= (uint8_t)~SLI_NEED_STOP;
	if (s->rx_state >= SLI_RX_ENDED)
		return;
	f.aux16 = s->stop_code;
	d = sli_batch_frame(b, &f);
	if (d == NULL)
		s->need |= SLI_NEED_STOP;
	else
		sli_put64(d, s->rx.received);
}

/* Why a stream cannot send, for people who read traces. */
enum {
	BLOCKED_BY_WINDOW = 1,
	BLOCKED_BY_POOL = 2
};

static void
put_blocked(struct sli_batch *b, struct sli_stream *s)
{
	struct sli_frame f = {.type = SLI_FT_BLOCKED, .len = 24};
	uint8_t *d;

	s->need &= (uint8_t)~SLI_NEED_BLOCKED;
	if (s->place != SLI_PLACE_WINDOW && s->place != SLI_PLACE_POOL)
		return;
	f.sid = s->sid;
	d = sli_batch_frame(b, &f);
	if (d == NULL) {
		s->need |= SLI_NEED_BLOCKED;
		return;
	}
	sli_put64(d, s->tx.sent);
	sli_put64(d + 8, s->tx.limit);
	sli_put64(d + 16,
	    s->place == SLI_PLACE_POOL ? BLOCKED_BY_POOL : BLOCKED_BY_WINDOW);
	b->m->st.blocked_out++;
}

/* ACK records of one batch share frames; the open frame is the last thing in
 * the batch. */
struct acks {
	size_t at;  /* of its header, from the front of the content */
	unsigned n; /* records in it; 0 = none is open */
};

static void
put_ack(struct sli_batch *b, struct acks *a, struct sli_stream *s)
{
	struct sli_frame f = {.type = SLI_FT_ACK, .len = SLI_ACK_RECORD};
	uint8_t *d;

	if (a->n == 0 || a->n == SLI_ACK_RECORDS) {
		a->at = sli_buf_len(b->out);
		d = sli_batch_frame(b, &f);
		a->n = 0;
	} else {
		d = sli_buf_reserve(b->out, SLI_ACK_RECORD);
		if (d == NULL)
			b->full = 1;
		else
			sli_buf_added(b->out, SLI_ACK_RECORD);
	}
	if (d == NULL)
		return;
	a->n++;
	sli_put32(b->out->mem + b->out->pos + a->at, a->n * SLI_ACK_RECORD);
	sli_put32(d, s->sid);
	sli_put32(d + 4, 0);
	sli_put64(d + 8, s->rx.released);
	sli_put64(d + 16, s->rx.window);
	b->m->st.acks_out++;
	s->need &= (uint8_t)~SLI_NEED_ACK;
	sli_rx_acked(&s->rx, &b->m->rxpool);
}

static void
put_streams(struct sli_batch *b)
{
	struct sli_mux *m = b->m;
	struct sli_list *it, *tmp;
	struct sli_stream *s;
	struct acks acks = {0};

	sli_list_for_each_safe (it, tmp, &m->ctl) {
		s = SLI_LIST_ENTRY(it, struct sli_stream, ctl);
		if (b->full)
			return;
		if (s->queued != 0 && !SLI_MUTATED(control_overtakes))
			continue; /* its CALL, OPENED or RESULT goes first */
		if ((s->need & ~SLI_NEED_ACK) != 0)
			acks.n = 0;
		if ((s->need & SLI_NEED_RESET) != 0)
			put_reset(b, s);
		if ((s->need & SLI_NEED_STOP) != 0)
			put_stop(b, s);
		if ((s->need & SLI_NEED_BLOCKED) != 0)
			put_blocked(b, s);
		if ((s->need & SLI_NEED_ACK) != 0)
			put_ack(b, &acks, s);
		if (s->need == 0)
			sli_list_del(&s->ctl);
		sli_mux_settle(m, s);
	}
}

/* --- queues ---------------------------------------------------------------*/

static void
put_control(struct sli_batch *b)
{
	struct sli_buf *q = &b->m->control;
	size_t n = SLI_MIN(sli_buf_len(q), (size_t)SLI_BATCH_CALLS);
	uint8_t *d;

	/* Frames of 24 bytes, so this cuts between two. */
	n -= n % 24;
	d = n != 0 ? sli_buf_reserve(b->out, n) : NULL;
	if (d == NULL) {
		b->full = n != 0;
		return;
	}
	memcpy(d, sli_buf_data(q), n);
	sli_buf_added(b->out, n);
	sli_buf_consume(q, n);
	b->m->st.frames_out += n / 24;
}

/* Whole frames of the call queue, until the batch has `most` of them. */
static void
put_calls(struct sli_batch *b, size_t most)
{
	struct sli_mux *m = b->m;
	size_t sent = 0;

	while (sli_buf_len(&m->calls) != 0 && !b->full) {
		struct sli_stream *s;
		struct sli_frame f;
		size_t n;
		uint8_t *d;

		sli_frame_peek(sli_buf_data(&m->calls), &f);
		n = SLI_FRAME_HDR + (size_t)f.len;
		if (sent != 0 && sent + n > most)
			return;
		d = sli_buf_reserve(b->out, n);
		if (d == NULL) {
			b->full = 1;
			return;
		}
		memcpy(d, sli_buf_data(&m->calls), n);
		sli_buf_added(b->out, n);
		sli_buf_consume(&m->calls, n);
		m->st.frames_out++;
		sent += n;
		s = sli_table_get(&m->table, f.sid);
		SLI_ASSERT(s != NULL && s->queued != 0);
		if (--s->queued == 0) {
			sli_sched_update(m, s);
			sli_mux_settle(m, s);
		}
	}
}

/* --- the batch ------------------------------------------------------------*/

/* A burst's memory is not kept. */
static void
trim(struct sli_buf *q)
{
	if (sli_buf_len(q) == 0 && q->cap > SLI_BATCH_CALLS)
		sli_buf_trim(q);
}

static void
build(struct sli_batch *b)
{
	struct sli_mux *m = b->m;

	if (!m->hello_sent)
		put_hello(b);
	if (m->state == SLI_MUX_FAILED) {
		if (m->goaway.due && !b->full)
			put_goaway(b);
		return;
	}
	if (!b->full)
		put_connection(b);
	if (!b->full)
		put_control(b);
	if (!b->full)
		put_streams(b);
	if (!m->hello_got)
		return;
	put_calls(b, SLI_BATCH_CALLS);
	sli_batch_data(b);
	/* What the data left room for: more calls, and results that had only
	 * waited for their data. */
	if (batch_len(b) < SLI_BATCH_DATA)
		put_calls(b, SLI_BATCH_DATA - batch_len(b));
	(void)sli_held_run(m);
}

enum sli_err
sli_mux_output(struct sli_mux *m, int64_t now_ms, struct sli_buf *out)
{
	struct sli_batch b = {.m = m, .out = out, .start = sli_buf_len(out)};
	size_t added;

	if (m->busy)
		return SLI_E_BUSY;
	m->now_ms = now_ms;
	m->busy = 1;
	/* Twice, because a CALL that had to wait may be answered at the end of
	 * an otherwise empty batch: no output means nothing to send. */
	for (int i = 0; i < 2 && batch_len(&b) == 0 && !b.full; i++)
		build(&b);
	/* A sink may have failed us in the middle. */
	if (m->state == SLI_MUX_FAILED && m->goaway.due && !b.full)
		put_goaway(&b);
	sli_mux_bury(m);
	trim(&m->calls);
	trim(&m->control);
	m->busy = 0;
	added = batch_len(&b);
	m->st.bytes_out += added;
	m->stall_from_ms = -1;
	if (added == 0 && b.full)
		return SLI_E_NOMEM;
	return SLI_OK;
}

void
sli_mux_progress(struct sli_mux *m, int64_t now_ms)
{
	(void)now_ms;
	m->stall_from_ms = -1;
}
