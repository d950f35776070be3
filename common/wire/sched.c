/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends next. A stream with something to send is in exactly one place: the
 * ready list of its class, waiting for its own window, or waiting for the pool.
 * Nothing here scans: whatever changes a stream's prospects moves it. */
#include "wire/mux_int.h"

int
sli_sched_end_due(const struct sli_mux *m, const struct sli_stream *s)
{
	if ((s->need & SLI_NEED_RESET) != 0 || s->peer_reset)
		return 0;
	if (s->tx_state == SLI_TX_ENDING)
		return 1;
	/* A client answers STOP and RESULT with END. */
	return !SLI_IS_SERVER(m) && s->tx_state == SLI_TX_STOPPED;
}

static int
has_work(const struct sli_mux *m, const struct sli_stream *s)
{
	/* Its CALL or OPENED goes first. */
	if (s->queued != 0)
		return 0;
	if (sli_sched_end_due(m, s))
		return 1;
	return s->tx_state == SLI_TX_OPEN &&
	       (s->want || s->gap_due || s->rest.pos < s->rest.len);
}

void
sli_sched_leave(struct sli_mux *m, struct sli_stream *s)
{
	(void)m;
	s->place = SLI_PLACE_NONE;
	s->deficit = 0;
	sli_list_del(&s->sched);
	sli_list_del(&s->blocked);
	s->need &= (uint8_t)~SLI_NEED_BLOCKED;
}

static void
to_ready(struct sli_mux *m, struct sli_stream *s)
{
	sli_list_del(&s->blocked);
	sli_list_del(&s->sched);
	sli_list_add_tail(
	    &m->ready[s->bulk ? SLI_CLASS_BULK : SLI_CLASS_INTERACTIVE],
	    &s->sched);
	s->place = SLI_PLACE_READY;
}

void
sli_sched_update(struct sli_mux *m, struct sli_stream *s)
{
	if (!has_work(m, s))
		sli_sched_leave(m, s);
	else if (s->place == SLI_PLACE_NONE)
		to_ready(m, s);
}

void
sli_sched_wake(struct sli_mux *m, struct sli_stream *s)
{
	if (s->place == SLI_PLACE_WINDOW || s->place == SLI_PLACE_POOL)
		to_ready(m, s);
	sli_sched_update(m, s);
}

uint64_t
sli_sched_need(const struct sli_stream *s)
{
	uint64_t have = s->rest.len - s->rest.pos;
	/* A smaller window than the least piece must be open whole: it never
	 * is more. */
	uint64_t most = SLI_MAX(s->tx.window, (uint64_t)1);

	if (have == 0) /* unknown before it is asked for */
		have = most;
	return SLI_MIN(SLI_MIN(have, most), (uint64_t)SLI_DRIBBLE);
}

void
sli_sched_wait(struct sli_mux *m, struct sli_stream *s, uint64_t need)
{
	sli_list_del(&s->sched);
	s->deficit = 0;
	if (sli_tx_window_room(&s->tx) < need) {
		s->place = SLI_PLACE_WINDOW;
		m->st.window_waits++;
	} else {
		s->place = SLI_PLACE_POOL;
		sli_list_add_tail(&m->pool_wait, &s->sched);
		m->st.pool_waits++;
	}
	if (sli_list_empty(&s->blocked)) {
		s->blocked_due_ms = m->now_ms + SLI_BLOCKED_MS;
		sli_list_add_tail(&m->blocked, &s->blocked);
	}
}

int
sli_sched_pool_open(const struct sli_mux *m)
{
	return !sli_list_empty(&m->pool_wait) &&
	       sli_pool_left(&m->txpool) >= SLI_DRIBBLE;
}

void
sli_sched_open_pool(struct sli_mux *m)
{
	uint64_t left = sli_pool_left(&m->txpool);

	/* Oldest first, as many as could get the least piece. */
	while (!sli_list_empty(&m->pool_wait) && left >= SLI_DRIBBLE) {
		struct sli_stream *s =
		    SLI_LIST_ENTRY(m->pool_wait.next, struct sli_stream, sched);

		to_ready(m, s);
		left -= SLI_DRIBBLE;
	}
}
