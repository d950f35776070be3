/* SPDX-License-Identifier: Apache-2.0 */
/* The data part of a batch: deficit round robin over the two classes and over
 * the streams of each, and serving one stream. A message is pulled straight
 * into the batch; only what credit does not cover is set aside. */
#include "wire/bytes.h"
#include "wire/mux_int.h"

#include <string.h>

/* A rest up to this size keeps its memory for the next one. */
#define REST_KEEP 4096u

/* --- result ---------------------------------------------------------------*/

enum sli_err
sli_mux_send_result(struct sli_mux *m, struct sli_stream *s, uint16_t status,
    struct sli_slice trailers, struct sli_slice body)
{
	struct sli_frame f = {.type = SLI_FT_RESULT, .aux16 = status};
	uint8_t *d;

	f.sid = s->sid;
	f.aux32 = (uint32_t)trailers.n;
	f.len = (uint32_t)(trailers.n + body.n);
	d = sli_mux_queue(m, s, &f);
	if (d == NULL)
		return SLI_E_NOMEM;
	if (trailers.n != 0)
		memcpy(d, trailers.p, trailers.n);
	if (body.n != 0)
		memcpy(d + trailers.n, body.p, body.n);
	sli_stream_set_tx(s, SLI_TX_ENDED);
	return SLI_OK;
}

enum sli_err
sli_mux_late_result(struct sli_mux *m, struct sli_stream *s)
{
	struct sli_late_result *l = &s->late;
	enum sli_err e;

	e = sli_mux_send_result(m, s, l->status,
	    sli_slice_of(l->mem, l->trailers),
	    sli_slice_of(l->mem + l->trailers, l->len - l->trailers));
	sli_free(l->mem);
	*l = (struct sli_late_result){0};
	return e;
}

/* --- one stream -----------------------------------------------------------*/

/* Keep what was pulled and may not be sent yet. */
static int
set_aside(struct sli_mux *m, struct sli_stream *s, const uint8_t *p, size_t n)
{
	struct sli_rest *r = &s->rest;

	if (r->cap < n) {
		uint8_t *mem = sli_alloc(n);

		if (mem == NULL) {
			(void)sli_mux_fail(
			    m, SLI_E_NOMEM, "no memory for a message's rest");
			return 0;
		}
		sli_free(r->mem);
		r->mem = mem;
		r->cap = (uint32_t)n;
	}
	memcpy(r->mem, p, n);
	r->pos = 0;
	r->len = (uint32_t)n;
	m->st.held += n;
	return 1;
}

static void
rest_sent(struct sli_mux *m, struct sli_stream *s, size_t n)
{
	struct sli_rest *r = &s->rest;

	r->pos += (uint32_t)n;
	m->st.held -= n;
	if (r->pos != r->len)
		return;
	r->pos = r->len = 0;
	if (r->cap > REST_KEEP) {
		sli_free(r->mem);
		r->mem = NULL;
		r->cap = 0;
	}
}

/* Count one DATA frame of n payload bytes. */
static size_t
data_sent(struct sli_batch *b, struct sli_stream *s, size_t n)
{
	sli_tx_sent(&s->tx, &b->m->txpool, n);
	b->m->st.data_out += n;
	return SLI_FRAME_HDR + n;
}

static size_t
serve_rest(struct sli_batch *b, struct sli_stream *s)
{
	struct sli_mux *m = b->m;
	struct sli_frame f = {.type = SLI_FT_DATA, .sid = s->sid};
	uint64_t have = s->rest.len - s->rest.pos;
	uint64_t room = sli_tx_room(&s->tx, &m->txpool);
	uint64_t need = sli_sched_need(s);
	uint8_t *d;

	if (room < need) {
		sli_sched_wait(m, s, need);
		return 0;
	}
	f.len = (uint32_t)SLI_MIN(SLI_MIN(have, room), m->peer.max_frame);
	f.flags = !s->bytes_tx && f.len == have ? SLI_FF_EOM : 0;
	f.aux32 = (uint32_t)s->tx.sent;
	d = sli_batch_frame(b, &f);
	if (d == NULL)
		return 0;
	memcpy(d, s->rest.mem + s->rest.pos, f.len);
	rest_sent(m, s, f.len);
	return data_sent(b, s, f.len);
}

/* How much of a pulled message of n bytes goes into the frame in place. */
static size_t
fits(const struct sli_mux *m, size_t n, uint64_t room)
{
	size_t k = n;

	if (room < n)
		k = room >= SLI_DRIBBLE ? (size_t)room : 0;
	return SLI_MIN(k, (size_t)m->peer.max_frame);
}

static size_t
serve_pull(struct sli_batch *b, struct sli_stream *s)
{
	struct sli_mux *m = b->m;
	struct sli_frame f = {.type = SLI_FT_DATA, .sid = s->sid};
	uint64_t room = sli_tx_room(&s->tx, &m->txpool);
	uint64_t need = sli_sched_need(s);
	size_t ask, n;
	uint8_t *d;

	if (room < need) {
		sli_sched_wait(m, s, need);
		return 0;
	}
	d = sli_buf_reserve(b->out, SLI_FRAME_HDR + (size_t)SLI_MUX_MSG_MAX);
	if (d == NULL) {
		b->full = 1;
		return 0;
	}
	/* Tiny windows: ask for a whole piece, so that it is known whether it
	 * fits; a trickle of bytes helps nobody. */
	ask = (size_t)SLI_MIN(
	    SLI_MAX(room, (uint64_t)SLI_DRIBBLE), (uint64_t)SLI_MUX_MSG_MAX);
	if (!SLI_MUTATED(lost_wakeup))
		s->want = 0;
	s->pulling = 1;
	n = m->sink.pull(m->ctx, s->sid, d + SLI_FRAME_HDR, ask);
	s->pulling = 0;
	SLI_ASSERT(n <= SLI_MUX_MSG_MAX);
	if (n == 0) {
		m->st.parks++;
		if (SLI_MUTATED(lost_wakeup))
			s->want = 0;
		return SLI_FRAME_HDR;
	}
	/* It may have ended or reset the stream; then the bytes are void. */
	if (s->tx_state != SLI_TX_OPEN && s->tx_state != SLI_TX_ENDING)
		return SLI_FRAME_HDR;
	s->want = 1;
	f.len = (uint32_t)fits(m, n, room);
	if (f.len < n && !set_aside(m, s, d + SLI_FRAME_HDR + f.len, n - f.len))
		return 0;
	if (f.len == 0)
		return SLI_FRAME_HDR;
	f.flags = !s->bytes_tx && f.len == n ? SLI_FF_EOM : 0;
	f.aux32 = (uint32_t)s->tx.sent;
	sli_frame_put(d, &f);
	sli_buf_added(b->out, SLI_FRAME_HDR + (size_t)f.len);
	m->st.frames_out++;
	return data_sent(b, s, f.len);
}

static size_t
serve_gap(struct sli_batch *b, struct sli_stream *s)
{
	struct sli_frame f = {.type = SLI_FT_GAP, .len = 16, .sid = s->sid};
	uint8_t *d = sli_batch_frame(b, &f);

	if (d == NULL)
		return 0;
	sli_put64(d, s->gap_offset);
	sli_put64(d + 8, s->gap_lost);
	sli_tx_jump(&s->tx, &b->m->txpool, s->gap_offset);
	s->gap_due = 0;
	s->gap_lost = 0;
	return SLI_FRAME_HDR + 16;
}

/* All is sent: END, or the RESULT that waited. */
static size_t
serve_end(struct sli_batch *b, struct sli_stream *s)
{
	struct sli_mux *m = b->m;
	struct sli_frame f = {.type = SLI_FT_DATA, .sid = s->sid};

	if (SLI_IS_SERVER(m)) {
		(void)sli_mux_late_result(m, s);
	} else {
		f.flags = SLI_FF_END;
		f.aux32 = (uint32_t)s->tx.sent;
		if (!SLI_MUTATED(end_lost) && sli_batch_frame(b, &f) == NULL)
			return 0;
		sli_stream_set_tx(s, SLI_TX_ENDED);
	}
	return SLI_FRAME_HDR;
}

static size_t
serve_one(struct sli_batch *b, struct sli_stream *s)
{
	if (s->rest.pos < s->rest.len)
		return serve_rest(b, s);
	if (s->gap_due)
		return serve_gap(b, s);
	if (s->want)
		return serve_pull(b, s);
	if (sli_sched_end_due(b->m, s))
		return serve_end(b, s);
	return 0;
}

size_t
sli_batch_serve(struct sli_batch *b, struct sli_stream *s)
{
	size_t sum = 0, n;

	while (s->place == SLI_PLACE_READY && s->deficit > 0 &&
	       b->data + sum < SLI_BATCH_DATA) {
		n = serve_one(b, s);
		if (b->full || b->m->state == SLI_MUX_FAILED)
			break;
		sum += n;
		s->deficit -= (int64_t)n;
		sli_sched_update(b->m, s);
	}
	sli_mux_settle(b->m, s);
	return sum;
}

/* --- both classes ---------------------------------------------------------*/

static void
serve_class(struct sli_batch *b, enum sli_class c)
{
	static const int64_t quantum[SLI_CLASS__N] = {
	    [SLI_CLASS_INTERACTIVE] = SLI_QUANTUM_INTERACTIVE,
	    [SLI_CLASS_BULK] = SLI_QUANTUM_BULK,
	};
	struct sli_mux *m = b->m;
	struct sli_list *list = &m->ready[c];
	size_t n;

	m->share[c] = SLI_MIN(m->share[c] + quantum[c], quantum[c]);
	while (m->share[c] > 0 && !sli_list_empty(list) && !b->full &&
	       b->data < SLI_BATCH_DATA && m->state != SLI_MUX_FAILED) {
		struct sli_stream *s =
		    SLI_LIST_ENTRY(list->next, struct sli_stream, sched);

		sli_list_del(&s->sched);
		sli_list_add_tail(list, &s->sched);
		s->deficit =
		    SLI_MIN(s->deficit + SLI_QUANTUM, (int64_t)SLI_QUANTUM);
		n = sli_batch_serve(b, s);
		m->share[c] -= (int64_t)n;
		b->data += n;
	}
	if (sli_list_empty(list))
		m->share[c] = 0;
}

void
sli_batch_data(struct sli_batch *b)
{
	struct sli_mux *m = b->m;

	sli_sched_open_pool(m);
	while (b->data < SLI_BATCH_DATA && !b->full &&
	       m->state != SLI_MUX_FAILED) {
		if (sli_list_empty(&m->ready[SLI_CLASS_INTERACTIVE]) &&
		    sli_list_empty(&m->ready[SLI_CLASS_BULK]))
			return;
		serve_class(b, SLI_CLASS_INTERACTIVE);
		serve_class(b, SLI_CLASS_BULK);
	}
}
