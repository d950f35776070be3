/* SPDX-License-Identifier: Apache-2.0 */
/* Birth and death of a connection's core and of its streams, and the questions
 * that all of its files ask. No frame is read or written here. */
#include "wire/mux_int.h"

#include "base/log.h"
#include "base/str.h"
#include "wire/hello.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define B(state) (1u << (state))

static const uint8_t legal[SLI_MUX__N] = {
    [SLI_MUX_HELLO] = B(SLI_MUX_OPEN) | B(SLI_MUX_DRAINING) | B(SLI_MUX_FAILED),
    [SLI_MUX_OPEN] = B(SLI_MUX_DRAINING) | B(SLI_MUX_FAILED),
    [SLI_MUX_DRAINING] = B(SLI_MUX_FAILED),
    [SLI_MUX_FAILED] = 0,
};

const char *
sli_mux_state_name(enum sli_mux_state s)
{
	static const char *const names[SLI_MUX__N] = {
	    [SLI_MUX_HELLO] = "hello",
	    [SLI_MUX_OPEN] = "open",
	    [SLI_MUX_DRAINING] = "draining",
	    [SLI_MUX_FAILED] = "failed",
	};

	return s < SLI_MUX__N ? names[s] : "?";
}

int
sli_mux_legal(enum sli_mux_state from, enum sli_mux_state to)
{
	return from < SLI_MUX__N && to < SLI_MUX__N &&
	       (legal[from] & B(to)) != 0;
}

void
sli_mux_set_state(struct sli_mux *m, enum sli_mux_state to)
{
	SLI_ASSERT(sli_mux_legal(m->state, to));
	sli_debug("wire", "mux_state", "%s->%s", sli_mux_state_name(m->state),
	    sli_mux_state_name(to));
	m->state = to;
}

struct sli_mux *
sli_mux_new(
    const struct sli_mux_cfg *cfg, const struct sli_mux_sink *sink, void *ctx)
{
	struct sli_mux *m = sli_zalloc(sizeof(*m));
	size_t calls_max = (size_t)1 << 30;

	if (m == NULL)
		return NULL;
	m->cfg = *cfg;
	m->sink = *sink;
	m->ctx = ctx;
	sli_hello_defaults(&m->cfg);
	if (sli_table_init(&m->table, m->cfg.max_streams) != SLI_OK) {
		sli_free(m);
		return NULL;
	}
	m->refuse_above = UINT32_MAX;
	m->stall_from_ms = -1;
	m->txpool = (struct sli_pool){.floor = SLI_FLOOR, .size = SLI_POOL};
	m->rxpool =
	    (struct sli_pool){.floor = m->cfg.floor, .size = m->cfg.pool};
	sli_frame_in_init(
	    &m->in, sli_role_other(m->cfg.role), m->cfg.max_frame);
	sli_frame_in_allow(&m->in, 1u << SLI_FT_HELLO);
	sli_arena_init(&m->arena, SLI_MSG_ARENA_MIN);
	for (unsigned i = 0; i < SLI_CLASS__N; i++)
		sli_list_init(&m->ready[i]);
	sli_list_init(&m->pool_wait);
	sli_list_init(&m->ctl);
	sli_list_init(&m->blocked);
	sli_list_init(&m->gone);
	sli_list_init(&m->held);
	/* A client's calls are bounded by max_streams; a server's results by
	 * ctl_close, plus the one that passes it. */
	if (SLI_IS_SERVER(m))
		calls_max = (size_t)m->cfg.ctl_close + SLI_MAX_FRAME_MOST;
	sli_buf_init(&m->calls, calls_max);
	sli_buf_init(&m->control, calls_max);
	return m;
}

void
sli_mux_free(struct sli_mux *m)
{
	if (m == NULL)
		return;
	sli_table_fini(&m->table);
	sli_frame_in_fini(&m->in);
	sli_arena_free(&m->arena);
	sli_buf_free(&m->calls);
	sli_buf_free(&m->control);
	sli_free(m);
}

/* --- failing --------------------------------------------------------------*/

enum sli_err
sli_mux_fail(struct sli_mux *m, enum sli_err code, const char *fmt, ...)
{
	char text[sizeof(m->err.text)];
	va_list ap;

	if (m->state == SLI_MUX_FAILED)
		return m->err.code;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)sli_fail(&m->err, code, 0, "wire.mux", "%s", text);
	sli_mux_set_state(m, SLI_MUX_FAILED);
	m->goaway = (struct sli_goaway){.due = 1, .last = m->last_sid};
	m->goaway.code = (uint16_t)code;
	m->goaway.text_len =
	    (uint16_t)sli_strlcpy(m->goaway.text, text, sizeof(m->goaway.text));
	return code;
}

enum sli_err
sli_mux_failed(const struct sli_mux *m, struct sli_errinfo *ei)
{
	if (m->state != SLI_MUX_FAILED)
		return SLI_OK;
	if (ei != NULL)
		*ei = m->err;
	return m->err.code;
}

/* --- streams --------------------------------------------------------------*/

struct sli_stream *
sli_mux_find(
    struct sli_mux *m, uint32_t sid, const char *what, enum sli_err *ret_e)
{
	struct sli_stream *s = sli_table_get(&m->table, sid);

	*ret_e = SLI_OK;
	if (s == NULL && sid > m->last_sid)
		*ret_e = sli_mux_fail(m, SLI_E_PROTOCOL,
		    "%s for stream %u, which never was", what, sid);
	return s;
}

void
sli_mux_need(struct sli_mux *m, struct sli_stream *s, unsigned bits)
{
	s->need |= (uint8_t)bits;
	if (s->need != 0 && sli_list_empty(&s->ctl))
		sli_list_add_tail(&m->ctl, &s->ctl);
}

void
sli_mux_settle(struct sli_mux *m, struct sli_stream *s)
{
	/* What was cut short by the end was never handed over. */
	if (s->rx_state == SLI_RX_ENDED && s->rx.released == s->rx.handed)
		sli_rx_release_all(&s->rx);
	if ((s->need & SLI_NEED_ACK) == 0 && sli_rx_ack_due(&s->rx))
		sli_mux_need(m, s, SLI_NEED_ACK);
	if (s->tx_state == SLI_TX_ENDED && sli_tx_outstanding(&s->tx) == 0)
		sli_stream_set_tx(s, SLI_TX_DONE);
	if (s->rx_state == SLI_RX_ENDED && s->rx.acked == s->rx.received &&
	    s->rx.below == 0)
		sli_stream_set_rx(s, SLI_RX_DONE);
	if (s->tx_state == SLI_TX_DONE && s->rx_state == SLI_RX_DONE &&
	    !s->handler && s->queued == 0 && s->held == NULL &&
	    (s->need & SLI_NEED_RESET) == 0 && !s->dying) {
		s->dying = 1;
		sli_list_add_tail(&m->gone, &s->gone);
	}
}

static void
drop_rest(struct sli_mux *m, struct sli_stream *s)
{
	m->st.held -= s->rest.len - s->rest.pos;
	s->rest.pos = s->rest.len = 0;
}

void
sli_mux_drop_tx(struct sli_mux *m, struct sli_stream *s)
{
	drop_rest(m, s);
	s->want = 0;
	s->gap_due = 0;
	sli_sched_leave(m, s);
}

void
sli_mux_kill_rx(struct sli_mux *m, struct sli_stream *s)
{
	(void)m;
	if (s->rx_state == SLI_RX_OPEN)
		sli_stream_set_rx(s, SLI_RX_DEAD);
	/* For good: the peer's END moves a dead direction on to ended, and what
	 * the owner releases then must not count twice. */
	s->waived = 1;
	sli_buf_free(&s->partial);
	sli_rx_release_all(&s->rx);
}

void
sli_mux_fault(struct sli_mux *m, struct sli_stream *s, enum sli_err code)
{
	sli_debug("wire", "stream_fault", "sid=%u code=%s", s->sid,
	    sli_err_name(code));
	s->reset_code = (uint16_t)code;
	sli_mux_kill_rx(m, s);
	sli_mux_drop_tx(m, s);
	if (s->tx_state == SLI_TX_OPEN || s->tx_state == SLI_TX_ENDING)
		sli_stream_set_tx(s, SLI_TX_STOPPED);
	sli_mux_need(m, s, SLI_NEED_RESET);
	SLI_TELL(m, s, reset, (uint16_t)code);
	s->muted = 1;
	sli_mux_settle(m, s);
}

void
sli_mux_bury(struct sli_mux *m)
{
	while (!sli_list_empty(&m->gone)) {
		struct sli_stream *s =
		    SLI_LIST_ENTRY(m->gone.next, struct sli_stream, gone);
		uint32_t sid = s->sid;
		int told = !s->untold;

		SLI_ASSERT(s->place == SLI_PLACE_NONE && s->rest.len == 0);
		sli_table_del(&m->table, s);
		if (told)
			SLI_SINK(m, gone, sid);
	}
}

/* --- queues ---------------------------------------------------------------*/

uint32_t
sli_mux_queued(const struct sli_mux *m)
{
	return (uint32_t)(sli_buf_len(&m->calls) + sli_buf_len(&m->control));
}

uint8_t *
sli_mux_queue(
    struct sli_mux *m, struct sli_stream *s, const struct sli_frame *f)
{
	struct sli_buf *q = s != NULL ? &m->calls : &m->control;
	uint8_t *d;

	d = sli_buf_reserve(q, SLI_FRAME_HDR + (size_t)f->len);
	if (d == NULL) {
		(void)sli_mux_fail(m, SLI_E_NOMEM, "no memory for output");
		return NULL;
	}
	sli_frame_put(d, f);
	sli_buf_added(q, SLI_FRAME_HDR + (size_t)f->len);
	if (s != NULL)
		s->queued++;
	if (SLI_IS_SERVER(m) && sli_mux_queued(m) > m->cfg.ctl_close)
		(void)sli_mux_fail(m, SLI_E_CALM,
		    "%u bytes of answers wait; the peer does not read",
		    sli_mux_queued(m));
	return d + SLI_FRAME_HDR;
}

/* --- questions ------------------------------------------------------------*/

int
sli_mux_wants_output(const struct sli_mux *m)
{
	if (!sli_list_empty(&m->gone))
		return 1;
	if (m->state == SLI_MUX_FAILED)
		return m->goaway.due;
	if (!m->hello_sent || m->pong_due || m->ping_due || m->goaway.due ||
	    sli_buf_len(&m->control) != 0 || !sli_list_empty(&m->ctl))
		return 1;
	if (!m->hello_got)
		return 0;
	return sli_buf_len(&m->calls) != 0 ||
	       !sli_list_empty(&m->ready[SLI_CLASS_INTERACTIVE]) ||
	       !sli_list_empty(&m->ready[SLI_CLASS_BULK]) ||
	       sli_sched_pool_open(m) || sli_held_can_run(m);
}

uint64_t
sli_mux_room(const struct sli_mux *m, uint32_t sid)
{
	const struct sli_stream *s = sli_table_get(&m->table, sid);

	if (s == NULL || sli_stream_tx_over(s))
		return 0;
	return sli_tx_room(&s->tx, &m->txpool);
}

void
sli_mux_stats(const struct sli_mux *m, struct sli_mux_stats *ret)
{
	struct sli_stream *s = NULL;

	*ret = m->st;
	ret->streams = m->table.count;
	ret->pending_ctl = sli_mux_queued(m);
	ret->inflight = ret->unreleased = 0;
	while ((s = sli_table_next(&m->table, s)) != NULL) {
		ret->inflight += sli_tx_outstanding(&s->tx);
		ret->unreleased += sli_rx_unreleased(&s->rx);
	}
}
