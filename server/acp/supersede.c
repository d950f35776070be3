/* SPDX-License-Identifier: Apache-2.0 */
/* Holding one snapshot back until the next one is judged: what is replaced was
 * covered, everything else is kept in the order it was read. The bucket bounds
 * what a call that never rests costs the disk. Comparing is snapshot.c's. */
#include "acp/supersede.h"

#include "acp/snapshot.h"

#include <string.h>

static int64_t
thousand(uint64_t bytes)
{
	return (int64_t)bytes * 1000;
}

static void
snap_init(struct sup_snap *s, size_t max)
{
	sli_buf_init(&s->line, max);
	jtree_init(&s->tree, SNAPSHOT_NODES);
	s->set = 0;
	s->at_ms = 0;
}

static void
snap_drop(struct sup_snap *s)
{
	sli_buf_free(&s->line);
	jtree_fini(&s->tree);
	s->set = 0;
}

/* The index points into the buffer's memory, which moves along. */
static void
snap_swap(struct sup_snap *a, struct sup_snap *b)
{
	struct sup_snap t = *a;

	*a = *b;
	*b = t;
}

static int
snap_set(struct sup_snap *s, struct sli_slice line, int64_t at_ms)
{
	s->set = 0;
	sli_buf_reset(&s->line);
	if (sli_buf_append(&s->line, line.p, line.n) != SLI_OK)
		return 0;
	if (jtree_parse(&s->tree, sli_buf_slice(&s->line)) != 0)
		return 0;
	s->at_ms = at_ms;
	s->set = 1;
	return 1;
}

void
sup_init(struct sup *s, const struct sup_cfg *cfg, sup_keep_fn *keep, void *ctx)
{
	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	s->keep = keep;
	s->ctx = ctx;
	snap_init(&s->held, cfg->max_bytes);
	snap_init(&s->base, cfg->max_bytes);
	snap_init(&s->next, cfg->max_bytes);
	s->tokens = thousand(cfg->depth);
}

void
sup_fini(struct sup *s)
{
	snap_drop(&s->held);
	snap_drop(&s->base);
	snap_drop(&s->next);
}

/* --- the bucket: thousandths of a byte, so that nothing is rounded away ---*/

static void
refill(struct sup *s, int64_t now_ms)
{
	/* after a quarter of an hour any bucket is full */
	int64_t ms = SLI_MIN(now_ms - s->tokens_ms, 1000000);

	s->tokens += ms * (int64_t)s->cfg.rate;
	s->tokens = SLI_MIN(s->tokens, thousand(s->cfg.depth));
	s->tokens_ms = now_ms;
}

int64_t
sup_due_ms(const struct sup *s)
{
	int64_t due = s->since_ms + s->cfg.hold_ms;
	/* one larger than the bucket waits for a full one */
	int64_t price = thousand(SLI_MIN(sup_held(s), s->cfg.depth));
	int64_t lack = price - s->tokens, rate = (int64_t)s->cfg.rate;

	if (!s->held.set)
		return INT64_MAX;
	if (lack > 0)
		due = SLI_MAX(due, s->tokens_ms + (lack + rate - 1) / rate);
	return due;
}

/* --- holding -------------------------------------------------------------*/

void
sup_flush(struct sup *s, int64_t now_ms)
{
	if (!s->held.set)
		return;
	refill(s, now_ms);
	s->tokens -= thousand(sup_held(s));
	s->tokens = SLI_MAX(s->tokens, -thousand(s->cfg.depth));
	snap_swap(&s->held, &s->base);
	s->held.set = 0;
	s->keep(
	    s->ctx, sli_buf_slice(&s->base.line), s->base.at_ms, s->superseded);
	s->superseded = 0;
}

void
sup_end(struct sup *s, int64_t now_ms)
{
	sup_flush(s, now_ms);
	snap_drop(&s->held);
	snap_drop(&s->base);
	snap_drop(&s->next);
	s->call_n = 0;
}

void
sup_tick(struct sup *s, int64_t now_ms)
{
	refill(s, now_ms);
	if (s->held.set && sup_due_ms(s) <= now_ms)
		sup_flush(s, now_ms);
}

/* Another call: its bucket is full and none of it was kept yet. */
static void
change_call(struct sup *s, struct sli_slice call, int64_t now_ms)
{
	s->base.set = 0;
	memcpy(s->call, call.p, call.n);
	s->call_n = call.n;
	s->tokens = thousand(s->cfg.depth);
	s->tokens_ms = now_ms;
}

int
sup_offer(struct sup *s, struct sli_slice line, struct sli_slice call,
    int64_t at_ms, int64_t now_ms)
{
	if (line.n < s->cfg.min_bytes || line.n > s->cfg.max_bytes || !call.n ||
	    call.n > sizeof(s->call))
		return 0;
	if (!snap_set(&s->next, line, at_ms))
		return 0;
	if (s->held.set &&
	    sli_slice_eq(call, sli_slice_of(s->call, s->call_n)) &&
	    snapshot_covers(&s->held.tree, &s->next.tree)) {
		snap_swap(&s->held, &s->next);
		s->next.set = 0;
		s->superseded++;
		s->total++;
		return 1;
	}
	sup_flush(s, now_ms);
	if (!sli_slice_eq(call, sli_slice_of(s->call, s->call_n)))
		change_call(s, call, now_ms);
	snapshot_since(s->base.set ? &s->base.tree : NULL, &s->next.tree);
	snap_swap(&s->held, &s->next);
	s->next.set = 0;
	s->since_ms = now_ms;
	return 1;
}

int
sup_may(struct sli_slice k, struct sli_slice a, struct sli_slice b)
{
	struct jtree t[3];
	int ok = 0;

	for (int i = 0; i < 3; i++)
		jtree_init(&t[i], SNAPSHOT_NODES);
	if ((k.n && jtree_parse(&t[0], k) != 0) || jtree_parse(&t[1], a) != 0 ||
	    jtree_parse(&t[2], b) != 0)
		goto out;
	snapshot_since(k.n ? &t[0] : NULL, &t[1]);
	ok = snapshot_covers(&t[1], &t[2]);
out:
	for (int i = 0; i < 3; i++)
		jtree_fini(&t[i]);
	return ok;
}
