/* SPDX-License-Identifier: Apache-2.0 */
/* Time: is the peer alive, do our bytes move, who has waited for credit long
 * enough to ask. The owner's clock is the only one. */
#include "wire/mux_int.h"

/* Earlier of two deadlines. */
static void
earlier(int64_t *next, int64_t t)
{
	if (t < *next)
		*next = t;
}

static enum sli_err
keepalive(struct sli_mux *m, int64_t now, int64_t *next)
{
	int64_t silence = (int64_t)m->peer.keepalive_s * 1000;

	if (!m->hello_got || silence == 0)
		return SLI_OK;
	if (!m->ping_out && now - m->last_in_ms >= silence) {
		m->ping_out = 1;
		m->ping_due = 1;
		m->ping_ms = now;
	}
	if (!m->ping_out) {
		earlier(next, m->last_in_ms + silence);
		return SLI_OK;
	}
	if (now - m->ping_ms >= m->cfg.dead_ms)
		return sli_mux_fail(m, SLI_E_STALLED,
		    "no byte from the peer for %lld ms",
		    (long long)(now - m->last_in_ms));
	earlier(next, m->ping_ms + m->cfg.dead_ms);
	return SLI_OK;
}

static enum sli_err
write_stall(struct sli_mux *m, int64_t now, int64_t *next)
{
	if (m->hello_got && m->peer.keepalive_s == 0)
		return SLI_OK;
	if (!sli_mux_wants_output(m)) {
		m->stall_from_ms = -1;
		return SLI_OK;
	}
	if (m->stall_from_ms < 0)
		m->stall_from_ms = now;
	if (now - m->stall_from_ms >= m->cfg.write_stall_ms)
		return sli_mux_fail(m, SLI_E_STALLED,
		    "the peer took no byte for %lld ms",
		    (long long)(now - m->stall_from_ms));
	earlier(next, m->stall_from_ms + m->cfg.write_stall_ms);
	return SLI_OK;
}

static void
blocked(struct sli_mux *m, int64_t now, int64_t *next)
{
	while (!sli_list_empty(&m->blocked)) {
		struct sli_stream *s =
		    SLI_LIST_ENTRY(m->blocked.next, struct sli_stream, blocked);

		if (s->blocked_due_ms > now) {
			earlier(next, s->blocked_due_ms);
			return;
		}
		sli_list_del(&s->blocked);
		s->blocked_due_ms = now + SLI_BLOCKED_MS;
		sli_list_add_tail(&m->blocked, &s->blocked);
		sli_mux_need(m, s, SLI_NEED_BLOCKED);
	}
}

enum sli_err
sli_mux_tick(struct sli_mux *m, int64_t now_ms, int64_t *ret_next_ms,
    struct sli_errinfo *ei)
{
	int64_t next = INT64_MAX;

	if (m->busy)
		return sli_fail(ei, SLI_E_BUSY, 0, "wire.mux",
		    "tick from inside a callback");
	m->now_ms = now_ms;
	if (m->state != SLI_MUX_FAILED) {
		blocked(m, now_ms, &next);
		if (keepalive(m, now_ms, &next) == SLI_OK)
			(void)write_stall(m, now_ms, &next);
	}
	if (m->state == SLI_MUX_FAILED)
		return sli_mux_failed(m, ei);
	*ret_next_ms = next;
	return SLI_OK;
}
