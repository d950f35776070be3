/* SPDX-License-Identifier: Apache-2.0 */
/* The credit rule as arithmetic. docs/PROTOCOL.md, "Credit", is its text. */
#include "wire/credit.h"

#include "base/mutant.h"
#include "wire/limits.h"

/* Replace one stream's term in the sum. */
static void
pool_move(struct sli_pool *p, uint64_t before, uint64_t after)
{
	uint64_t out = sli_pool_term(p, before);

	SLI_ASSERT(p->used >= out);
	p->used = p->used - out + sli_pool_term(p, after);
}

void
sli_tx_init(struct sli_tx *t, uint64_t window)
{
	*t = (struct sli_tx){.window = window, .limit = window};
}

void
sli_tx_start(struct sli_tx *t, uint64_t start)
{
	SLI_ASSERT(t->sent == 0 && start <= SLI_OFFSET_MAX);
	t->sent = t->acked = start;
	t->limit += start;
}

uint64_t
sli_tx_window_room(const struct sli_tx *t)
{
	if (SLI_MUTATED(oversend))
		return t->limit + 1 - t->sent;
	return t->limit - t->sent;
}

uint64_t
sli_tx_room(const struct sli_tx *t, const struct sli_pool *p)
{
	uint64_t o = sli_tx_outstanding(t);
	uint64_t shared = sli_pool_left(p);
	uint64_t own = o < p->floor ? p->floor - o : 0;
	uint64_t win = sli_tx_window_room(t);

	if (SLI_MUTATED(no_floor))
		own = 0;
	return SLI_MIN(win, own + shared);
}

void
sli_tx_sent(struct sli_tx *t, struct sli_pool *p, uint64_t n)
{
	uint64_t o = sli_tx_outstanding(t);

	t->sent += n;
	pool_move(p, o, o + n);
}

enum sli_err
sli_tx_ack(struct sli_tx *t, struct sli_pool *p, uint64_t acked,
    uint64_t window, uint64_t cap)
{
	uint64_t o = sli_tx_outstanding(t);

	if (acked > t->sent)
		return SLI_E_PROTOCOL;
	if (acked > t->acked || SLI_MUTATED(ack_goes_back))
		t->acked = acked;
	pool_move(p, o, sli_tx_outstanding(t));
	t->window =
	    SLI_MUTATED(window_unclamped) ? window : SLI_MIN(window, cap);
	/* From the record's own offset: an old record must not move it. */
	if (acked + t->window > t->limit)
		t->limit = acked + t->window;
	return SLI_OK;
}

void
sli_tx_drop(struct sli_tx *t, struct sli_pool *p)
{
	if (!SLI_MUTATED(pool_term_leaks))
		pool_move(p, sli_tx_outstanding(t), 0);
	t->acked = t->sent;
}

void
sli_tx_jump(struct sli_tx *t, struct sli_pool *p, uint64_t offset)
{
	SLI_ASSERT(offset >= t->sent && offset <= SLI_OFFSET_MAX);
	pool_move(p, sli_tx_outstanding(t), 0);
	t->sent = t->acked = offset;
	if (offset + t->window > t->limit)
		t->limit = offset + t->window;
}

void
sli_rx_init(struct sli_rx *r, uint64_t window)
{
	*r = (struct sli_rx){
	    .window = window, .widest = window, .limit = window};
}

void
sli_rx_start(struct sli_rx *r, uint64_t start)
{
	SLI_ASSERT(r->received == 0 && start <= SLI_OFFSET_MAX);
	r->received = r->handed = r->released = r->acked = start;
	r->limit += start;
}

enum sli_err
sli_rx_data(struct sli_rx *r, struct sli_pool *p, uint64_t n)
{
	uint64_t o = r->received - r->acked;

	if (n > r->limit - r->received)
		return SLI_E_FLOW;
	pool_move(p, o, o + n);
	r->received += n;
	return p->used <= p->size ? SLI_OK : SLI_E_FLOW;
}

int
sli_rx_release(struct sli_rx *r, uint64_t n)
{
	uint64_t below = SLI_MIN(n, r->below);

	if (n - below > r->handed - r->released)
		return 0;
	r->below -= below;
	r->released += n - below;
	return 1;
}

void
sli_rx_release_all(struct sli_rx *r)
{
	r->below = 0;
	r->handed = r->received;
	if (!SLI_MUTATED(dead_data_kept))
		r->released = r->received;
}

void
sli_rx_void(struct sli_rx *r, struct sli_pool *p)
{
	pool_move(p, r->received - r->acked, 0);
	r->below = 0;
	r->handed = r->released = r->acked = r->received;
}

int
sli_rx_ack_due(const struct sli_rx *r)
{
	uint64_t un = r->released - r->acked;

	if (un == 0)
		return 0;
	/* No complete message is held: the peer may be unable to finish the
	 * next one without this credit. */
	if (r->released == r->handed && !SLI_MUTATED(ack_threshold_only))
		return 1;
	return un >= SLI_MIN(r->window / 4, (uint64_t)SLI_ACK_THRESHOLD);
}

void
sli_rx_acked(struct sli_rx *r, struct sli_pool *p)
{
	uint64_t o = r->received - r->acked;

	r->acked = r->released;
	pool_move(p, o, r->received - r->acked);
	if (r->window > r->widest)
		r->widest = r->window;
	if (r->acked + r->window > r->limit)
		r->limit = r->acked + r->window;
}

void
sli_rx_jump(struct sli_rx *r, struct sli_pool *p, uint64_t offset)
{
	SLI_ASSERT(offset > r->received && offset <= SLI_OFFSET_MAX);
	r->below += r->handed - r->released;
	pool_move(p, r->received - r->acked, 0);
	r->received = r->handed = r->released = r->acked = offset;
	/* The peer's window may be any that it was ever told. */
	if (offset + r->widest > r->limit)
		r->limit = offset + r->widest;
}

uint64_t
sli_rx_unreleased(const struct sli_rx *r)
{
	return r->received - r->released + r->below;
}
