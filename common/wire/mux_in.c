/* SPDX-License-Identifier: Apache-2.0 */
/* Input: cut frames, look up who handles each, and the frames that open and
 * close streams: HELLO, CALL, OPENED, RESULT. */
#include "wire/mux_int.h"

#include "base/str.h"
#include "sluice/v1/core.pb-c.h"
#include "wire/guard.h"
#include "wire/hello.h"

#include <string.h>

static enum sli_err
on_hello(struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	struct sli_errinfo ei = {0};
	enum sli_err e;

	if (f->len > m->cfg.hello_max)
		return sli_mux_fail(m, SLI_E_FRAME_SIZE,
		    "HELLO of %u bytes, at most %u", f->len, m->cfg.hello_max);
	sli_arena_reset(&m->arena);
	e = sli_hello_get(payload, &m->arena, &m->peer, &ei);
	if (e != SLI_OK)
		return sli_mux_fail(m, e, "%s", ei.text);
	sli_frame_in_allow(&m->in, ~(1u << SLI_FT_HELLO));
	m->hello_got = 1;
	m->txpool.floor = m->peer.floor;
	m->txpool.size = m->peer.pool;
	if (m->state == SLI_MUX_HELLO)
		sli_mux_set_state(m, SLI_MUX_OPEN);
	SLI_SINK(m, hello, &m->peer);
	return SLI_OK;
}

/* --- CALL -----------------------------------------------------------------*/

/* Decode the header into *call and *window. */
static enum sli_err
call_header(struct sli_mux *m, struct sli_slice bytes, struct sli_call *call,
    uint64_t *window)
{
	struct sli_errinfo ei = {0};
	const Sluice__V1__CallHeader *h;

	if (bytes.n == 0)
		return SLI_OK;
	sli_arena_reset(&m->arena);
	h = (const Sluice__V1__CallHeader *)sli_msg_unpack(
	    &sluice__v1__call_header__descriptor, bytes, &m->arena, &ei);
	if (h == NULL)
		return sli_mux_fail(m, ei.code, "CALL header: %s", ei.text);
	call->timeout_ms = h->timeout_ms;
	call->priority = h->priority;
	call->idempotency_key =
	    sli_slice_of(h->idempotency_key.data, h->idempotency_key.len);
	call->traceparent = sli_slice_str(h->traceparent);
	if (h->window != 0)
		*window = h->window;
	return SLI_OK;
}

enum sli_err
sli_mux_dispatch(struct sli_mux *m, struct sli_stream *s, uint16_t header_len,
    int end, struct sli_slice payload)
{
	struct sli_call call = {.method = s->method, .end = end};
	uint64_t window = m->peer.init_window;
	enum sli_err e;

	e = call_header(m, sli_slice_of(payload.p, header_len), &call, &window);
	if (e != SLI_OK)
		return e;
	call.request =
	    sli_slice_of(payload.p + header_len, payload.n - header_len);
	sli_tx_init(&s->tx, SLI_MIN(window, m->cfg.window_cap));
	s->bulk = call.priority != 0;
	s->handler = 1;
	s->untold = s->muted = 0;
	SLI_SINK(m, call, s->sid, &call);
	return SLI_OK;
}

/* Refuse a stream without keeping a record of it. */
static enum sli_err
refuse(struct sli_mux *m, uint32_t sid, enum sli_err code)
{
	struct sli_frame f = {.type = SLI_FT_RESET, .len = 8, .sid = sid};
	uint8_t *d;

	f.aux16 = (uint16_t)code;
	d = sli_mux_queue(m, NULL, &f);
	if (d != NULL)
		memset(d, 0, f.len); /* final offset: nothing was sent */
	return m->state == SLI_MUX_FAILED ? m->err.code : SLI_OK;
}

static enum sli_err
on_call(struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	int end = (f->flags & SLI_FF_END) != 0;
	struct sli_stream *s;
	enum sli_err e;

	if (f->sid <= m->last_sid || f->sid > SLI_LAST_SID)
		return sli_mux_fail(m, SLI_E_STREAM_ID,
		    "CALL on stream %u after %u", f->sid, m->last_sid);
	m->last_sid = f->sid;
	if (payload.n - f->aux16 > SLI_MUX_MSG_MAX)
		return refuse(m, f->sid, SLI_E_FRAME_SIZE);
	if (f->sid > m->refuse_above)
		return refuse(m, f->sid, SLI_E_DRAINING);
	if (m->table.count >= m->cfg.max_streams)
		sli_mux_bury(m);
	if (m->table.count >= m->cfg.max_streams)
		return refuse(m, f->sid, SLI_E_RESOURCE_EXHAUSTED);
	s = sli_table_add(&m->table, f->sid, f->aux32);
	if (s == NULL)
		return refuse(m, f->sid, SLI_E_NOMEM);
	s->untold = s->muted = 1; /* until the sink has the call */
	if (m->cfg.is_byte_stream != NULL) {
		s->bytes_rx = m->cfg.is_byte_stream(s->method, SLI_CLIENT) != 0;
		s->bytes_tx = m->cfg.is_byte_stream(s->method, SLI_SERVER) != 0;
	}
	sli_rx_init(&s->rx, m->cfg.init_window);
	if (end)
		sli_stream_set_rx(s, SLI_RX_ENDED);
	if (sli_mux_queued(m) > m->cfg.ctl_hold || !sli_list_empty(&m->held))
		e = sli_held_add(m, s, f, payload);
	else
		e = sli_mux_dispatch(m, s, f->aux16, end, payload);
	sli_mux_settle(m, s);
	return e;
}

/* --- OPENED, RESULT (client) ----------------------------------------------*/

static enum sli_err
on_opened(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	struct sli_errinfo ei = {0};
	const Sluice__V1__Opened *o;
	struct sli_stream *s;
	enum sli_err e;

	s = sli_mux_find(m, f->sid, "OPENED", &e);
	if (s == NULL)
		return e;
	sli_arena_reset(&m->arena);
	o = (const Sluice__V1__Opened *)sli_msg_unpack(
	    &sluice__v1__opened__descriptor, payload, &m->arena, &ei);
	if (o == NULL)
		return sli_mux_fail(m, ei.code, "OPENED: %s", ei.text);
	if (s->opened || s->rx_state >= SLI_RX_ENDED)
		return sli_mux_fail(m, SLI_E_PROTOCOL,
		    "OPENED on stream %u is not due", f->sid);
	if (o->start > SLI_OFFSET_MAX || o->received > s->tx.sent)
		return sli_mux_fail(m, SLI_E_DESYNC,
		    "OPENED on stream %u: impossible offset", f->sid);
	s->opened = 1;
	sli_rx_start(&s->rx, o->start);
	SLI_TELL(m, s, opened, o->start, o->received);
	return SLI_OK;
}

static enum sli_err
on_result(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	struct sli_slice trailers = sli_slice_of(payload.p, f->aux32);
	struct sli_slice body =
	    sli_slice_of(payload.p + f->aux32, payload.n - f->aux32);
	struct sli_stream *s;
	enum sli_err e;
	int cut;

	s = sli_mux_find(m, f->sid, "RESULT", &e);
	if (s == NULL)
		return e;
	if (s->rx_state >= SLI_RX_ENDED)
		return sli_mux_fail(m, SLI_E_PROTOCOL,
		    "RESULT on stream %u, which has ended", f->sid);
	/* Only a failure may end a stream in the middle of a message. */
	cut = s->rx_state == SLI_RX_OPEN && sli_buf_len(&s->partial) != 0;
	if (cut && f->aux16 == 0) {
		sli_mux_fault(m, s, SLI_E_PROTOCOL);
	} else {
		sli_buf_free(&s->partial);
		SLI_TELL(m, s, result, f->aux16, trailers, body);
	}
	/* The sink may have given the stream up. */
	sli_stream_set_rx(s, SLI_RX_ENDED);
	/* RESULT implies STOP: our END is due if it was not sent. */
	sli_mux_drop_tx(m, s);
	if (s->tx_state == SLI_TX_OPEN || s->tx_state == SLI_TX_ENDING)
		sli_stream_set_tx(s, SLI_TX_STOPPED);
	sli_sched_update(m, s);
	sli_mux_settle(m, s);
	return SLI_OK;
}

/* --- dispatch -------------------------------------------------------------*/

static sli_frame_fn *const handlers[SLI_FT__N] = {
    [SLI_FT_HELLO] = on_hello,
    [SLI_FT_CALL] = on_call,
    [SLI_FT_OPENED] = on_opened,
    [SLI_FT_DATA] = sli_mux_on_data,
    [SLI_FT_ACK] = sli_mux_on_ack,
    [SLI_FT_RESULT] = on_result,
    [SLI_FT_RESET] = sli_mux_on_reset,
    [SLI_FT_STOP] = sli_mux_on_stop,
    [SLI_FT_PING] = sli_mux_on_ping,
    [SLI_FT_PONG] = sli_mux_on_pong,
    [SLI_FT_GOAWAY] = sli_mux_on_goaway,
    [SLI_FT_BLOCKED] = sli_mux_on_blocked,
    [SLI_FT_GAP] = sli_mux_on_gap,
};

static enum sli_err
run(struct sli_mux *m, struct sli_slice bytes)
{
	struct sli_errinfo ei = {0};
	struct sli_slice payload;
	struct sli_frame f;
	enum sli_err e;

	for (;;) {
		e = sli_frame_next(&m->in, &bytes, &f, &payload, &ei);
		if (e == SLI_E_AGAIN)
			return SLI_OK;
		if (e != SLI_OK)
			return sli_mux_fail(m, e, "%s", ei.text);
		m->st.frames_in++;
		e = handlers[f.type](m, &f, payload);
		if (e != SLI_OK)
			return e;
		/* An owner's call from a sink may have failed us. */
		if (m->state == SLI_MUX_FAILED)
			return m->err.code;
	}
}

enum sli_err
sli_mux_input(struct sli_mux *m, int64_t now_ms, struct sli_slice bytes,
    struct sli_errinfo *ei)
{
	if (m->busy)
		return sli_fail(ei, SLI_E_BUSY, 0, "wire.mux",
		    "input from inside a callback");
	m->now_ms = now_ms;
	if (m->state != SLI_MUX_FAILED && bytes.n != 0) {
		m->last_in_ms = now_ms;
		m->ping_out = 0;
		m->ping_due = 0;
		m->st.bytes_in += bytes.n;
		m->busy = 1;
		(void)run(m, bytes);
		sli_mux_bury(m);
		m->busy = 0;
	}
	return sli_mux_failed(m, ei);
}
