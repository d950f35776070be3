/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner of the connection asks of its streams. Nothing is written
 * here: calls and results go to the call queue, all else is a note that the
 * next batch reads. */
#include "wire/mux_int.h"

#include "base/str.h"
#include "sluice/v1/core.pb-c.h"
#include "wire/guard.h"

#include <string.h>

/* --- client: call ---------------------------------------------------------*/

/* A smaller wish would keep a message, or the least piece, from ever coming. */
static uint64_t
wish(const struct sli_stream *s, uint64_t window)
{
	uint64_t least = s->bytes_rx ? SLI_DRIBBLE : SLI_FLOOR;

	return SLI_MIN(SLI_MAX(window, least), (uint64_t)SLI_POOL_MOST);
}

static void
header_of(const struct sli_call *call, uint64_t window, char *trace,
    Sluice__V1__CallHeader *h)
{
	sluice__v1__call_header__init(h);
	h->timeout_ms = call->timeout_ms;
	h->priority = call->priority;
	h->window = window;
	h->idempotency_key.len = call->idempotency_key.n;
	/* protobuf-c's struct is not const; packing only reads. */
	memcpy(&h->idempotency_key.data, &call->idempotency_key.p,
	    sizeof(h->idempotency_key.data));
	if (call->traceparent.n != 0)
		h->traceparent = trace;
}

static enum sli_err
may_call(const struct sli_mux *m, struct sli_errinfo *ei)
{
	uint32_t most = SLI_MIN(m->cfg.max_streams, m->peer.max_streams);

	if (m->state == SLI_MUX_FAILED)
		return sli_mux_failed(m, ei);
	if (SLI_IS_SERVER(m))
		return sli_fail(ei, SLI_E_FAILED_PRECONDITION, 0, "wire.call",
		    "a server calls nobody");
	if (!m->hello_got)
		return sli_fail(ei, SLI_E_AGAIN, 0, "wire.call",
		    "the server's HELLO has not come yet");
	if (m->goaway_seen || m->last_sid >= SLI_LAST_SID)
		return sli_fail(ei, SLI_E_UNAVAILABLE, 0, "wire.call",
		    "the connection takes no new calls; dial again");
	if (m->table.count >= most) {
		(void)sli_fail(ei, SLI_E_RESOURCE_EXHAUSTED, 0, "wire.call",
		    "%u calls are open on this connection", m->table.count);
		sli_errinfo_hit(
		    ei, "wire.max_streams", m->table.count, 1, most);
		return SLI_E_RESOURCE_EXHAUSTED;
	}
	return SLI_OK;
}

static struct sli_stream *
new_call(struct sli_mux *m, const struct sli_call *call, uint64_t window)
{
	struct sli_stream *s =
	    sli_table_add(&m->table, m->last_sid + 1, call->method);

	if (s == NULL)
		return NULL;
	m->last_sid++;
	if (m->cfg.is_byte_stream != NULL) {
		s->bytes_tx =
		    m->cfg.is_byte_stream(call->method, SLI_CLIENT) != 0;
		s->bytes_rx =
		    m->cfg.is_byte_stream(call->method, SLI_SERVER) != 0;
	}
	s->bulk = call->priority != 0;
	sli_tx_init(
	    &s->tx, SLI_MIN((uint64_t)m->peer.init_window, m->cfg.window_cap));
	sli_rx_init(&s->rx, wish(s, window != 0 ? window : m->cfg.init_window));
	return s;
}

enum sli_err
sli_mux_call(struct sli_mux *m, const struct sli_call *call, uint64_t window,
    uint32_t *ret_sid, struct sli_errinfo *ei)
{
	struct sli_frame f = {.type = SLI_FT_CALL, .aux32 = call->method};
	Sluice__V1__CallHeader h;
	char trace[128];
	struct sli_stream *s;
	uint8_t *d;
	size_t n;
	enum sli_err e = may_call(m, ei);

	if (e != SLI_OK)
		return e;
	/* The server would close the connection for it. */
	if (call->traceparent.n >= sizeof(trace) ||
	    !sli_utf8_valid(call->traceparent) ||
	    (call->traceparent.n != 0 &&
		memchr(call->traceparent.p, 0, call->traceparent.n) != NULL))
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "wire.call",
		    "traceparent is not a text of at most %zu bytes",
		    sizeof(trace) - 1);
	if (call->traceparent.n != 0)
		memcpy(trace, call->traceparent.p, call->traceparent.n);
	trace[call->traceparent.n] = '\0';
	header_of(call, window, trace, &h);
	n = sluice__v1__call_header__get_packed_size(&h);
	if (n > SLI_CALL_HEADER_MAX || call->request.n > SLI_MUX_MSG_MAX ||
	    n + call->request.n > m->peer.max_frame)
		return sli_fail(ei, SLI_E_FRAME_SIZE, 0, "wire.call",
		    "a request of %zu bytes does not fit one frame",
		    call->request.n);
	s = new_call(m, call, window);
	if (s == NULL)
		return sli_fail(ei, SLI_E_NOMEM, 0, "wire.call", "no memory");
	/* What goes out is what was granted here, not what was asked. */
	h.window = s->rx.window != m->cfg.init_window ? s->rx.window : 0;
	n = sluice__v1__call_header__get_packed_size(&h);
	f.flags = call->end ? SLI_FF_END : 0;
	f.sid = s->sid;
	f.aux16 = (uint16_t)n;
	f.len = (uint32_t)(n + call->request.n);
	d = sli_mux_queue(m, s, &f);
	if (d == NULL) {
		sli_table_del(&m->table, s);
		return sli_mux_failed(m, ei);
	}
	if (n != 0)
		(void)sluice__v1__call_header__pack(&h, d);
	if (call->request.n != 0)
		memcpy(d + n, call->request.p, call->request.n);
	if (call->end)
		sli_stream_set_tx(s, SLI_TX_ENDED);
	*ret_sid = s->sid;
	sli_mux_settle(m, s);
	return SLI_OK;
}

/* --- server: opened, result, abort ----------------------------------------*/

enum sli_err
sli_mux_opened(struct sli_mux *m, uint32_t sid, uint64_t start)
{
	struct sli_frame f = {.type = SLI_FT_OPENED, .sid = sid};
	struct sli_stream *s = sli_table_get(&m->table, sid);
	Sluice__V1__Opened o;
	uint8_t *d;

	if (s == NULL || s->opened || s->tx_state != SLI_TX_OPEN)
		return SLI_OK;
	if (start > SLI_OFFSET_MAX)
		return SLI_E_OUT_OF_RANGE;
	sluice__v1__opened__init(&o);
	o.start = start;
	o.received = s->rx.received;
	f.len = (uint32_t)sluice__v1__opened__get_packed_size(&o);
	d = sli_mux_queue(m, s, &f);
	if (d == NULL)
		return SLI_E_NOMEM;
	(void)sluice__v1__opened__pack(&o, d);
	s->opened = 1;
	sli_tx_start(&s->tx, start);
	return SLI_OK;
}

/* Keep a result back until the data before it is out. */
static enum sli_err
keep_result(struct sli_stream *s, uint16_t status, struct sli_slice trailers,
    struct sli_slice body)
{
	uint8_t *mem = sli_alloc(trailers.n + body.n);

	if (mem == NULL)
		return SLI_E_NOMEM;
	if (trailers.n != 0)
		memcpy(mem, trailers.p, trailers.n);
	if (body.n != 0)
		memcpy(mem + trailers.n, body.p, body.n);
	s->late.mem = mem;
	s->late.trailers = (uint32_t)trailers.n;
	s->late.len = (uint32_t)(trailers.n + body.n);
	s->late.status = status;
	sli_stream_set_tx(s, SLI_TX_ENDING);
	return SLI_OK;
}

static enum sli_err
finish(struct sli_mux *m, uint32_t sid, int now, uint16_t status,
    struct sli_slice trailers, struct sli_slice body)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);
	enum sli_err e = SLI_OK;

	if (s == NULL || !s->handler)
		return SLI_OK;
	if (trailers.n > SLI_RESULT_TRAILERS_MAX ||
	    body.n > SLI_RESULT_BODY_MAX)
		return SLI_E_FRAME_SIZE;
	if (s->peer_reset) {
		if (!s->reset_sent && s->tx_state == SLI_TX_STOPPED)
			sli_mux_need(m, s, SLI_NEED_RESET);
	} else if ((s->need & SLI_NEED_RESET) != 0 || s->reset_sent) {
		/* Faulted; the RESET is on its way. */
	} else if (!now && !SLI_MUTATED(result_first) &&
		   (s->want || s->pulling || s->gap_due ||
		       s->rest.pos < s->rest.len)) {
		e = keep_result(s, status, trailers, body);
	} else {
		sli_mux_drop_tx(m, s);
		e = sli_mux_send_result(m, s, status, trailers, body);
	}
	if (e != SLI_OK)
		return e;
	s->handler = 0;
	/* Implies STOP; nobody is there to take data. */
	sli_mux_kill_rx(m, s);
	sli_mux_settle(m, s);
	return SLI_OK;
}

enum sli_err
sli_mux_result(struct sli_mux *m, uint32_t sid, uint16_t status,
    struct sli_slice trailers, struct sli_slice body)
{
	return finish(m, sid, 0, status, trailers, body);
}

enum sli_err
sli_mux_abort(
    struct sli_mux *m, uint32_t sid, uint16_t status, struct sli_slice trailers)
{
	SLI_ASSERT(status != 0);
	return finish(m, sid, 1, status, trailers, sli_slice_of(NULL, 0));
}

/* --- both -----------------------------------------------------------------*/

void
sli_mux_ready(struct sli_mux *m, uint32_t sid)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);

	if (s == NULL ||
	    (s->tx_state != SLI_TX_OPEN && s->tx_state != SLI_TX_ENDING))
		return;
	if (SLI_IS_SERVER(m) && !s->opened &&
	    sli_mux_opened(m, sid, 0) != SLI_OK)
		return; /* the connection has failed */
	s->want = 1;
	sli_sched_update(m, s);
}

void
sli_mux_end(struct sli_mux *m, uint32_t sid)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);

	if (s == NULL || SLI_IS_SERVER(m) || s->tx_state != SLI_TX_OPEN)
		return;
	sli_stream_set_tx(s, SLI_TX_ENDING);
	sli_sched_update(m, s);
}

void
sli_mux_release(struct sli_mux *m, uint32_t sid, uint64_t n)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);

	if (s == NULL || (s->waived && !SLI_MUTATED(release_twice)) ||
	    s->rx_state == SLI_RX_DONE || s->muted)
		return;
	SLI_ASSERT(sli_rx_release(&s->rx, n));
	sli_mux_settle(m, s);
}

void
sli_mux_set_window(struct sli_mux *m, uint32_t sid, uint64_t window)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);

	if (s == NULL || s->rx_state >= SLI_RX_ENDED)
		return;
	window = wish(s, window);
	if (window == s->rx.window)
		return;
	s->rx.window = window;
	sli_mux_need(m, s, SLI_NEED_ACK);
}

void
sli_mux_reset(struct sli_mux *m, uint32_t sid, uint16_t code)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);

	if (s == NULL || (SLI_IS_SERVER(m) && !s->handler))
		return;
	s->handler = 0;
	s->muted = 1;
	sli_mux_kill_rx(m, s);
	if (s->rx_state == SLI_RX_DEAD || s->tx_state < SLI_TX_ENDED) {
		sli_mux_drop_tx(m, s);
		if (s->tx_state == SLI_TX_OPEN || s->tx_state == SLI_TX_ENDING)
			sli_stream_set_tx(s, SLI_TX_STOPPED);
		if (!s->reset_sent && (s->need & SLI_NEED_RESET) == 0) {
			s->reset_code = code;
			sli_mux_need(m, s, SLI_NEED_RESET);
		}
	}
	sli_mux_settle(m, s);
}

void
sli_mux_stop(struct sli_mux *m, uint32_t sid, uint16_t code)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);

	if (s == NULL || s->rx_state != SLI_RX_OPEN)
		return;
	s->stop_code = code;
	sli_mux_kill_rx(m, s);
	sli_mux_need(m, s, SLI_NEED_STOP);
	sli_mux_settle(m, s);
}

void
sli_mux_gap(struct sli_mux *m, uint32_t sid, uint64_t new_offset, uint64_t lost)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);

	if (s == NULL || !SLI_IS_SERVER(m) || s->tx_state != SLI_TX_OPEN)
		return;
	if (!s->opened && sli_mux_opened(m, sid, 0) != SLI_OK)
		return;
	SLI_ASSERT(!s->pulling); /* before or behind what it returns? */
	SLI_ASSERT(new_offset > s->tx.sent + (s->rest.len - s->rest.pos));
	s->gap_lost = (s->gap_due ? s->gap_lost : 0) + lost;
	s->gap_offset = new_offset;
	s->gap_due = 1;
	sli_sched_wake(m, s); /* GAP needs no credit */
}

void
sli_mux_goaway(struct sli_mux *m, uint32_t last, uint32_t grace_ms,
    uint16_t code, const char *text)
{
	struct sli_goaway *g = &m->goaway;

	if (m->state == SLI_MUX_FAILED)
		return;
	if (last != UINT32_MAX) {
		last = SLI_MAX(last, m->last_sid);
		m->refuse_above = SLI_MIN(m->refuse_above, last);
		if (m->state != SLI_MUX_DRAINING)
			sli_mux_set_state(m, SLI_MUX_DRAINING);
	}
	*g = (struct sli_goaway){.due = 1, .last = last, .grace_ms = grace_ms};
	g->code = code;
	g->text_len = (uint16_t)sli_strlcpy(
	    g->text, text != NULL ? text : "", sizeof(g->text));
}
