/* SPDX-License-Identifier: Apache-2.0 */
/* What can happen in the simulation's world, one step each. */
#include "simmux.h"

#include "wire/frame.h"

#include <string.h>

static struct sim_side *
other(struct sim_side *side)
{
	return side->role == SLI_CLIENT ? &side->w->s : &side->w->c;
}

/* --- calls ----------------------------------------------------------------*/

static uint64_t
some_bytes(struct sim *w)
{
	unsigned kind = (unsigned)sim_rand(w, 10);

	if (kind < 5)
		return 1 + sim_rand(w, 20000);
	return 1 + sim_rand(w, kind < 9 ? 300000 : 1000000);
}

static enum sim_leave
any_leave(struct sim *w)
{
	uint64_t v = sim_rand(w, SIM_LEAVE__N);

	return (enum sim_leave)v;
}

static void
make_plan(struct sim *w, struct sim_plan *p)
{
	static const uint32_t sizes[] = {1, 100, 5000, 40000, 65536, 65536};
	unsigned kind = (unsigned)sim_rand(w, 100);

	*p = (struct sim_plan){0};
	if (kind >= 25 && kind < 75)
		p->method |= SIM_DOWN;
	if (kind >= 60)
		p->method |= SIM_UP;
	if ((p->method & SIM_DOWN) != 0) {
		p->down = some_bytes(w);
		if (sim_chance(w, 25))
			p->method |= SIM_DOWN_BYTES;
		if (sim_chance(w, 15)) {
			p->gap_len = 1 + sim_rand(w, p->down);
			p->gap_at = 1 + sim_rand(w, p->down - p->gap_len + 1);
		}
	}
	if ((p->method & SIM_UP) != 0) {
		p->up = some_bytes(w);
		if (sim_chance(w, 25))
			p->method |= SIM_UP_BYTES;
	}
	p->msg_max = sizes[sim_rand(w, SLI_ARRAY_LEN(sizes))];
	if (p->msg_max < 5000) { /* or it takes all day */
		p->down = SLI_MIN(p->down, (uint64_t)p->msg_max * 200);
		p->up = SLI_MIN(p->up, (uint64_t)p->msg_max * 200);
		if (p->gap_at + p->gap_len > p->down)
			p->gap_at = p->gap_len = 0;
	}
	p->client_paused = p->down != 0 && sim_chance(w, 45);
	p->server_paused = p->up != 0 && sim_chance(w, 45);
	if (sim_chance(w, 20))
		p->client_leaves = any_leave(w);
	if (sim_chance(w, 20))
		p->server_leaves = any_leave(w);
	p->leave_at = sim_rand(w, p->down + p->up + 1);
}

void
sim_call(struct sim *w)
{
	static const uint8_t request[64];
	struct sli_call call = {0};
	struct sim_plan plan;
	struct sim_stream *st;
	uint32_t sid = w->sids + 1;
	enum sli_err e;

	if (sid >= SIM_SIDS)
		return;
	make_plan(w, &plan);
	call.method = plan.method;
	call.end = (plan.method & SIM_UP) == 0;
	call.priority = (uint32_t)sim_rand(w, 2);
	call.request = sli_slice_of(request, sid % 50);
	e = sli_mux_call(w->c.m, &call,
	    sim_chance(w, 50) ? 0 : 1 + sim_rand(w, 400000), &sid, NULL);
	if (e == SLI_E_AGAIN || e == SLI_E_RESOURCE_EXHAUSTED) {
		w->seen->full++;
		return;
	}
	SIM_ASSERT(w, e == SLI_OK && sid == w->sids + 1);
	w->sids = sid;
	w->plan[sid] = plan;
	st = &w->c.st[sid];
	st->open = 1;
	st->total = plan.up;
	st->finished = call.end;
	w->seen->calls++;
}

/* --- sources --------------------------------------------------------------*/

void
sim_finish(struct sim *w, struct sim_side *side, uint32_t sid, int status)
{
	struct sim_stream *st = &side->st[sid];
	static const uint8_t body[128];

	SIM_ASSERT(w, sli_mux_result(side->m, sid, (uint16_t)status,
			  sli_slice_of(body, sid % 9),
			  sli_slice_of(body, sid % 70)) == SLI_OK);
	st->finished = 1; /* what it holds it releases later: no effect */
}

static void
maybe_gap(struct sim *w, struct sim_side *side, uint32_t sid)
{
	struct sim_plan *p = &w->plan[sid];
	struct sim_stream *st = &side->st[sid];

	if (p->gap_at == 0 || side->role != SLI_SERVER || st->at != st->made ||
	    st->at < p->gap_at)
		return;
	p->gap_at = 0;
	if (p->gap_len > st->total - st->at)
		return;
	st->at += p->gap_len;
	st->made = st->at;
	sli_mux_gap(side->m, sid, st->at, p->gap_len);
	w->seen->gaps++;
}

void
sim_produce(struct sim *w, struct sim_side *side, uint32_t sid)
{
	struct sim_plan *p = &w->plan[sid];
	struct sim_stream *st = &side->st[sid];
	int server = side->role == SLI_SERVER;
	uint64_t n;

	if (!st->open || st->finished || st->left)
		return;
	if (server && (st->was_reset || st->was_stopped)) {
		sim_finish(w, side, sid, SLI_E_CANCELED);
		return;
	}
	if (st->was_reset || st->was_stopped || (st->ended && !server))
		return;
	maybe_gap(w, side, sid);
	n = sim_upto(w, st->total - st->made, 150000);
	if (n != 0) {
		st->made += n;
		sli_mux_ready(side->m, sid);
	}
	if (st->made < st->total)
		return;
	if (!server) {
		sli_mux_end(side->m, sid);
		st->finished = 1;
	} else if (st->at < st->total && sim_chance(w, 50)) {
		return; /* later, or inside the last pull */
	} else if (st->ended || st->stopped ||
		   p->server_leaves == SIM_RESULTS) {
		sim_finish(w, side, sid, 0);
	}
}

/* --- consumers ------------------------------------------------------------*/

void
sim_consume(struct sim *w, struct sim_side *side, uint32_t sid, int all)
{
	struct sim_stream *st = &side->st[sid];
	struct sim_plan *p = &w->plan[sid];
	int paused =
	    side->role == SLI_CLIENT ? p->client_paused : p->server_paused;
	uint64_t n = 0;

	/* Also of streams that have ended or are gone: owners do that. */
	if (paused || st->nheld == 0)
		return;
	for (unsigned i = 0; i < st->nheld; i++) {
		if (all || sim_chance(w, 40))
			st->held[(st->first + i) % SIM_HELD].done = 1;
	}
	while (st->nheld != 0 && st->held[st->first].done) {
		n += st->held[st->first].n;
		st->first = (st->first + 1) % SIM_HELD;
		st->nheld--;
	}
	if (n != 0)
		sli_mux_release(side->m, sid, n);
}

void
sim_leave(struct sim *w, struct sim_side *side, uint32_t sid)
{
	struct sim_plan *p = &w->plan[sid];
	struct sim_stream *st = &side->st[sid];
	int server = side->role == SLI_SERVER;
	enum sim_leave how = server ? p->server_leaves : p->client_leaves;

	if (!st->open || st->left || st->stopped || st->was_reset ||
	    st->seen + st->at < p->leave_at || (server && st->finished))
		return;
	switch (how) {
	case SIM_RESETS:
		sli_mux_reset(side->m, sid, SLI_E_CANCELED);
		st->left = 1;
		w->seen->resets++;
		break;
	case SIM_STOPS:
		if (st->ended)
			break;
		sli_mux_stop(side->m, sid, SLI_E_CANCELED);
		st->stopped = 1;
		w->seen->stops++;
		break;
	case SIM_ABORTS:
		if (!server)
			break;
		SIM_ASSERT(
		    w, sli_mux_abort(side->m, sid, SLI_E_DEADLINE_EXCEEDED,
			   sli_slice_of(NULL, 0)) == SLI_OK);
		st->left = 1;
		w->seen->aborts++;
		break;
	case SIM_STAYS:
	case SIM_RESULTS:
	case SIM_LEAVE__N:
		break;
	}
}

/* --- wires ----------------------------------------------------------------*/

static void
put(struct sim *w, struct sli_buf *to, const uint8_t *p, size_t n)
{
	SIM_ASSERT(w, sli_buf_append(to, p, n) == SLI_OK);
}

void
sim_release_late(struct sim *w, struct sim_side *side)
{
	put(w, &side->wire, sli_buf_data(&side->late),
	    sli_buf_len(&side->late));
	sli_buf_reset(&side->late);
}

size_t
sim_output(struct sim *w, struct sim_side *side)
{
	struct sli_buf out;
	struct sli_frame f;
	size_t n, at, len;

	sli_buf_init(&out, SLI_MUX_BATCH_MAX);
	SIM_ASSERT(w, sli_mux_output(side->m, w->now, &out) == SLI_OK);
	n = sli_buf_len(&out);
	for (at = 0; at < n; at += len) {
		const uint8_t *p = sli_buf_data(&out) + at;

		SIM_ASSERT(w, sli_frame_get(p, side->role, SLI_MAX_FRAME_MOST,
				  &f, NULL) == SLI_OK);
		len = SLI_FRAME_HDR + (size_t)f.len;
		if (w->tricks && f.type == SLI_FT_ACK && sim_chance(w, 20)) {
			put(w, &side->late, p, len);
			w->seen->delayed++;
			continue;
		}
		put(w, &side->wire, p, len);
		if (w->tricks && f.type == SLI_FT_ACK && sim_chance(w, 20)) {
			put(w, &side->late, p, len);
			w->seen->repeated++;
		}
		if (sim_chance(w, 5))
			sim_release_late(w, side);
	}
	sli_buf_free(&out);
	return n;
}

size_t
sim_deliver(struct sim *w, struct sim_side *side, size_t n)
{
	struct sli_errinfo ei = {0};
	size_t have = sli_buf_len(&side->wire);

	n = SLI_MIN(n, have);
	if (n == 0)
		return 0;
	if (n < have)
		w->seen->partial_reads++;
	if (sli_mux_input(other(side)->m, w->now,
		sli_slice_of(sli_buf_data(&side->wire), n), &ei) != SLI_OK)
		SIM_FAIL(w, "%s was closed: %s: %s",
		    side->role == SLI_CLIENT ? "client" : "server",
		    sli_err_name(ei.code), ei.text);
	sli_buf_consume(&side->wire, n);
	return n;
}

void
sim_tick(struct sim *w, int64_t ms)
{
	int64_t next;

	w->now += ms;
	if (!w->ticks)
		return;
	SIM_ASSERT(w, sli_mux_tick(w->c.m, w->now, &next, NULL) == SLI_OK);
	SIM_ASSERT(w, sli_mux_tick(w->s.m, w->now, &next, NULL) == SLI_OK);
}
