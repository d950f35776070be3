/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of docs/PROTOCOL.md that one end can see, as assertions. For
 * tests, and for a debugger: walks everything. */
#include "wire/mux_int.h"

static void
check_tx(const struct sli_mux *m, const struct sli_stream *s)
{
	const struct sli_tx *t = &s->tx;

	SLI_ASSERT(t->acked <= t->sent);
	SLI_ASSERT(t->sent <= t->limit);
	SLI_ASSERT(t->window <= m->cfg.window_cap);
	SLI_ASSERT(s->rest.pos <= s->rest.len && s->rest.len <= s->rest.cap);
	SLI_ASSERT(s->rest.len - s->rest.pos <= SLI_MUX_MSG_MAX);
	if (s->tx_state == SLI_TX_DONE)
		SLI_ASSERT(sli_tx_outstanding(t) == 0);
	if (s->tx_state >= SLI_TX_STOPPED)
		SLI_ASSERT(s->rest.len == 0 && !s->want && !s->gap_due);
}

static void
check_rx(const struct sli_stream *s)
{
	const struct sli_rx *r = &s->rx;

	SLI_ASSERT(r->acked <= r->released);
	SLI_ASSERT(r->released <= r->handed);
	SLI_ASSERT(r->handed <= r->received);
	SLI_ASSERT(r->received <= r->limit);
	SLI_ASSERT(sli_buf_len(&s->partial) <= SLI_MUX_MSG_MAX);
	if (s->rx_state == SLI_RX_OPEN && s->held == NULL)
		SLI_ASSERT(r->received - r->handed == sli_buf_len(&s->partial));
	if (s->rx_state == SLI_RX_DEAD)
		SLI_ASSERT(r->released == r->received);
	if (s->rx_state == SLI_RX_DONE)
		SLI_ASSERT(r->acked == r->received);
	/* What should be acknowledged is on its way (I7: nothing waits for an
	 * event that may not come). */
	if (sli_rx_ack_due(r))
		SLI_ASSERT((s->need & (SLI_NEED_ACK | SLI_NEED_RESET)) != 0);
}

/* A stream with something to send waits for something that will come. */
static void
check_place(const struct sli_mux *m, const struct sli_stream *s)
{
	int work = s->want || s->gap_due || s->rest.len != 0 ||
		   sli_sched_end_due(m, s);

	switch (s->place) {
	case SLI_PLACE_NONE:
		SLI_ASSERT(!work || s->queued != 0 || s->peer_reset);
		break;
	case SLI_PLACE_READY:
		SLI_ASSERT(work && !sli_list_empty(&s->sched));
		break;
	case SLI_PLACE_WINDOW:
		SLI_ASSERT(sli_tx_window_room(&s->tx) < sli_sched_need(s));
		SLI_ASSERT(!sli_list_empty(&s->blocked));
		break;
	case SLI_PLACE_POOL:
		SLI_ASSERT(!sli_list_empty(&s->blocked));
		SLI_ASSERT(!sli_list_empty(&s->sched));
		break;
	}
	SLI_ASSERT(s->need == 0 || !sli_list_empty(&s->ctl));
	SLI_ASSERT((s->held != NULL) == !sli_list_empty(&s->held_node));
	SLI_ASSERT(s->dying == !sli_list_empty(&s->gone));
}

void
sli_mux_check(const struct sli_mux *m)
{
	struct sli_stream *s = NULL;
	uint64_t tx_used = 0, rx_used = 0, held = 0, queued = 0;
	uint32_t n = 0;

	/* The frame that broke the connection may be half done. */
	if (m->state == SLI_MUX_FAILED)
		return;
	while ((s = sli_table_next(&m->table, s)) != NULL) {
		SLI_ASSERT(s->sid <= m->last_sid);
		check_tx(m, s);
		check_rx(s);
		check_place(m, s);
		tx_used +=
		    sli_pool_term(&m->txpool, sli_tx_outstanding(&s->tx));
		rx_used +=
		    sli_pool_term(&m->rxpool, s->rx.received - s->rx.acked);
		held += s->rest.len - s->rest.pos;
		queued += s->queued;
		n++;
	}
	SLI_ASSERT(n == m->table.count);
	SLI_ASSERT(n <= m->cfg.max_streams);
	SLI_ASSERT(tx_used == m->txpool.used);
	SLI_ASSERT(rx_used == m->rxpool.used);
	SLI_ASSERT(rx_used <= m->rxpool.size);
	SLI_ASSERT(held == m->st.held);
	SLI_ASSERT((queued == 0) == (sli_buf_len(&m->calls) == 0));
	if (n == 0)
		SLI_ASSERT(tx_used == 0 && rx_used == 0 && held == 0);
}
