/* SPDX-License-Identifier: Apache-2.0 */
/* Model and bounded walks of the store's simulation; see t_sim.h. */
#include "t_sim.h"

#include "store/cursor.h"
#include "store/int.h"

uint32_t
t_sim_rnd(struct t_sim *m, uint32_t n)
{
	m->rng ^= m->rng << 13;
	m->rng ^= m->rng >> 7;
	m->rng ^= m->rng << 17;
	return (uint32_t)(m->rng >> 16) % n;
}

const struct t_sim_ev *
t_sim_at(const struct t_sim *m, uint64_t seq)
{
	return &m->log[seq % T_SIM_EVENTS];
}

void
t_sim_bytes(const struct t_sim *m, const struct t_sim_ev *e, uint64_t off,
    struct sli_slice s)
{
	T_SIM_CHECK(m, off + s.n <= e->len);
	T_SIM_CHECK(
	    m, s.n == 0 || memcmp(m->noise + e->off + off, s.p, s.n) == 0);
}

struct walk {
	struct t_sim *m;
	struct store_cursor c;
	int backward;
	uint64_t next;
	unsigned n;
};

static int
walk_emit(void *ctx, const struct store_item *it)
{
	struct walk *w = ctx;
	const struct t_sim *m = w->m;

	if (it->kind == STORE_ITEM_GAP) {
		w->next = it->last_lost + 1;
		return 1;
	}
	if (it->kind == STORE_ITEM_PART) {
		t_sim_bytes(m, t_sim_at(m, it->ev->seq), it->offset, it->bytes);
		return 1;
	}
	T_SIM_CHECK(m, it->ev->seq == w->next);
	T_SIM_CHECK(m, it->ev->seq <= m->head);
	t_sim_bytes(m, t_sim_at(m, it->ev->seq), 0, it->ev->body);
	w->next += w->backward ? UINT64_MAX : 1u;
	w->n++;
	return 1;
}

int
t_sim_history(struct t_sim *m)
{
	uint64_t low = 0, head = 0, end;
	struct walk w = {.m = m, .backward = (int)t_sim_rnd(m, 2)};
	struct store_cursor_cfg cfg = {.backward = w.backward};
	enum store_pump why = STORE_PUMP_BLOCKED;

	T_SIM_CHECK(
	    m, store_range(m->store->st, m->sid, &low, &head) == SLI_OK);
	if (head < 3)
		return 0;
	cfg.from = 1 + t_sim_rnd(m, (uint32_t)head);
	cfg.end = w.backward ? 1 + t_sim_rnd(m, (uint32_t)cfg.from)
			     : cfg.from + t_sim_rnd(m,
					      (uint32_t)(head - cfg.from) + 1);
	cfg.limit = t_sim_rnd(m, 3) ? 0 : 1 + t_sim_rnd(m, 20);
	w.next = cfg.from;
	T_SIM_CHECK(
	    m, store_cursor_init(&w.c, m->store->st, m->sid, &cfg, NULL) == 0);
	while (why != STORE_PUMP_END) {
		why = store_cursor_pump(
		    &w.c, 1 + t_sim_rnd(m, 9000), walk_emit, &w);
		T_SIM_CHECK(
		    m, why != STORE_PUMP_FAILED && why != STORE_PUMP_PARKED);
		if (why == STORE_PUMP_READING) {
			T_SIM_CHECK(m, store_step_reader(m->store->st));
			(void)sli_mailbox_drain(m->store->mb);
		}
	}
	low = SLI_MAX(low, m->low);
	end = w.backward ? SLI_MAX(cfg.end, low) - 1 : cfg.end + 1;
	if (cfg.limit && w.n == cfg.limit)
		end = w.next;
	if (w.backward ? cfg.from >= low : cfg.end >= low)
		T_SIM_CHECK(m, w.next == end);
	store_cursor_fini(&w.c);
	return 1;
}
