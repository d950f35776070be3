/* SPDX-License-Identifier: Apache-2.0 */
/* CALLs that came while the peer does not read our answers. Reading goes on
 * (ACKs must come through), but nothing new is started: the CALL and the data
 * after it wait here. The bound is max_streams times a frame and a window:
 * nothing beyond the credit that the peer has anyway. */
#include "wire/mux_int.h"

#include <string.h>

/* Before each piece of data. */
struct record {
	uint64_t offset;
	uint32_t n;
	uint32_t flags;
};

enum sli_err
sli_held_add(struct sli_mux *m, struct sli_stream *s, const struct sli_frame *f,
    struct sli_slice payload)
{
	struct sli_held_call *h = sli_zalloc(sizeof(*h));
	enum sli_err e;

	if (h == NULL)
		return sli_mux_fail(m, SLI_E_NOMEM, "no memory for a CALL");
	s->held = h;
	sli_buf_init(&h->call, payload.n);
	sli_buf_init(&h->data, (size_t)1 << 31);
	h->header_len = f->aux16;
	h->end = (f->flags & SLI_FF_END) != 0;
	sli_list_add_tail(&m->held, &s->held_node);
	m->st.calls_held++;
	e = sli_buf_append(&h->call, payload.p, payload.n);
	if (e != SLI_OK)
		return sli_mux_fail(m, e, "no memory for a CALL");
	return SLI_OK;
}

enum sli_err
sli_held_data(struct sli_mux *m, struct sli_stream *s, uint64_t offset,
    unsigned flags, struct sli_slice bytes)
{
	struct record rec = {offset, (uint32_t)bytes.n, flags};
	enum sli_err e;

	e = sli_buf_append(&s->held->data, &rec, sizeof(rec));
	if (e == SLI_OK)
		e = sli_buf_append(&s->held->data, bytes.p, bytes.n);
	if (e != SLI_OK)
		return sli_mux_fail(m, e, "no memory for data of a CALL");
	return SLI_OK;
}

static void
held_free(struct sli_held_call *h)
{
	sli_buf_free(&h->call);
	sli_buf_free(&h->data);
	sli_free(h);
}

void
sli_held_drop(struct sli_stream *s)
{
	if (s->held == NULL)
		return;
	held_free(s->held);
	s->held = NULL;
	sli_list_del(&s->held_node);
}

int
sli_held_can_run(const struct sli_mux *m)
{
	return !sli_list_empty(&m->held) &&
	       sli_mux_queued(m) <= m->cfg.ctl_hold;
}

static enum sli_err
run_one(struct sli_mux *m, struct sli_stream *s)
{
	struct sli_held_call *h = s->held;
	struct sli_slice call = sli_slice_of("", 0);
	enum sli_err e;

	if (sli_buf_len(&h->call) != 0) /* else it has no memory */
		call = sli_buf_slice(&h->call);
	/* Out of the stream first: the sink may give it up. */
	s->held = NULL;
	sli_list_del(&s->held_node);
	e = sli_mux_dispatch(m, s, h->header_len, h->end, call);
	if (e == SLI_OK && h->stopped)
		SLI_TELL(m, s, stop, h->stop_code);
	while (e == SLI_OK && sli_buf_len(&h->data) != 0) {
		const uint8_t *p = sli_buf_data(&h->data);
		struct record rec;

		SLI_ASSERT(p != NULL);
		memcpy(&rec, p, sizeof(rec));
		sli_mux_hand_over(m, s, rec.offset, rec.flags,
		    sli_slice_of(p + sizeof(rec), rec.n));
		sli_buf_consume(&h->data, sizeof(rec) + rec.n);
	}
	held_free(h);
	sli_mux_settle(m, s);
	return e;
}

enum sli_err
sli_held_run(struct sli_mux *m)
{
	enum sli_err e = SLI_OK;

	while (e == SLI_OK && sli_held_can_run(m))
		e = run_one(m,
		    SLI_LIST_ENTRY(m->held.next, struct sli_stream, held_node));
	return e;
}
