/* SPDX-License-Identifier: Apache-2.0 */
/* DATA and GAP as they come in: credit first (whatever the stream's state:
 * bytes that nobody wants still count), then messages put together and handed
 * over whole, byte streams piece by piece. */
#include "wire/bytes.h"
#include "wire/mux_int.h"

/* One piece of a message stream. Returns 0 when the message is too long. */
static int
assemble(struct sli_mux *m, struct sli_stream *s, uint64_t offset, int eom,
    struct sli_slice bytes)
{
	size_t have = sli_buf_len(&s->partial);
	struct sli_buf whole;
	enum sli_err e;

	if (have + bytes.n > SLI_MUX_MSG_MAX)
		return 0;
	if (have == 0 && eom) {
		s->rx.handed = offset + bytes.n;
		SLI_TELL(m, s, data, offset, bytes);
		return 1;
	}
	e = sli_buf_append(&s->partial, bytes.p, bytes.n);
	if (e != SLI_OK) {
		(void)sli_mux_fail(m, e, "no memory for a message");
		return 1;
	}
	if (!eom)
		return 1;
	/* Taken out first: the owner may give the stream up while it reads. */
	whole = s->partial;
	sli_buf_init(&s->partial, SLI_MUX_MSG_MAX);
	s->rx.handed = offset + bytes.n;
	SLI_TELL(m, s, data, offset - have, sli_buf_slice(&whole));
	sli_buf_free(&whole);
	return 1;
}

/* The peer's END. */
static void
ended(struct sli_mux *m, struct sli_stream *s)
{
	if (s->rx_state == SLI_RX_OPEN && sli_buf_len(&s->partial) != 0) {
		/* Half a message. */
		sli_mux_fault(m, s, SLI_E_PROTOCOL);
	}
	if (s->rx_state == SLI_RX_OPEN && !s->muted)
		SLI_SINK(m, end, s->sid);
	sli_stream_set_rx(s, SLI_RX_ENDED);
}

void
sli_mux_hand_over(struct sli_mux *m, struct sli_stream *s, uint64_t offset,
    unsigned flags, struct sli_slice bytes)
{
	int eom = (flags & SLI_FF_EOM) != 0;

	if (s->rx_state != SLI_RX_OPEN) {
		m->st.dead_bytes += bytes.n;
		sli_rx_release_all(&s->rx);
	} else if (s->bytes_rx && eom) {
		sli_mux_fault(m, s, SLI_E_PROTOCOL);
	} else if (s->bytes_rx) {
		s->rx.handed = offset + bytes.n;
		if (bytes.n != 0)
			SLI_TELL(m, s, data, offset, bytes);
	} else if (bytes.n != 0 || eom) {
		if (!assemble(m, s, offset, eom, bytes))
			sli_mux_fault(m, s, SLI_E_FRAME_SIZE);
	}
	if ((flags & SLI_FF_END) != 0)
		ended(m, s);
	sli_mux_settle(m, s);
}

enum sli_err
sli_mux_on_data(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	struct sli_stream *s;
	uint64_t offset;
	enum sli_err e;

	s = sli_mux_find(m, f->sid, "DATA", &e);
	if (s == NULL) {
		m->st.dead_bytes += payload.n;
		return e;
	}
	if (s->rx_state >= SLI_RX_ENDED)
		return sli_mux_fail(m, SLI_E_PROTOCOL,
		    "DATA on stream %u, which has ended", f->sid);
	if (!SLI_IS_SERVER(m) && !s->opened)
		return sli_mux_fail(m, SLI_E_PROTOCOL,
		    "DATA on stream %u before OPENED", f->sid);
	offset = s->rx.received;
	if (f->aux32 != (uint32_t)offset)
		return sli_mux_fail(m, SLI_E_DESYNC,
		    "DATA on stream %u at %u, not %u", f->sid, f->aux32,
		    (uint32_t)offset);
	e = sli_rx_data(&s->rx, &m->rxpool, payload.n);
	if (e != SLI_OK)
		return sli_mux_fail(m, e,
		    "stream %u sent %zu bytes beyond its credit", f->sid,
		    payload.n);
	m->st.data_in += payload.n;
	/* RESET is written: the peer forgets what it sent. */
	if (s->reset_sent)
		sli_rx_void(&s->rx, &m->rxpool);
	if (s->held != NULL)
		return sli_held_data(m, s, offset, f->flags, payload);
	sli_mux_hand_over(m, s, offset, f->flags, payload);
	return SLI_OK;
}

enum sli_err
sli_mux_on_gap(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload)
{
	uint64_t offset = sli_get64(payload.p);
	uint64_t lost = sli_get64(payload.p + 8);
	struct sli_stream *s;
	enum sli_err e;

	s = sli_mux_find(m, f->sid, "GAP", &e);
	if (s == NULL)
		return e;
	if (s->rx_state >= SLI_RX_ENDED || !s->opened ||
	    sli_buf_len(&s->partial) != 0)
		return sli_mux_fail(
		    m, SLI_E_PROTOCOL, "GAP on stream %u is not due", f->sid);
	if (offset <= s->rx.received || offset > SLI_OFFSET_MAX ||
	    lost > offset)
		return sli_mux_fail(m, SLI_E_DESYNC,
		    "GAP on stream %u: impossible offset", f->sid);
	sli_rx_jump(&s->rx, &m->rxpool, offset);
	if (s->rx_state == SLI_RX_DEAD)
		sli_rx_release_all(&s->rx);
	else
		SLI_TELL(m, s, gap, offset, lost);
	sli_mux_settle(m, s);
	return SLI_OK;
}
