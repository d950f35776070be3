/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over a history: from the shared tail when the next event is there,
 * else from a page of the log, the same for replay and live. Long bodies are
 * cut into parts; what is not kept or damaged is said once, as a gap. */
#include "store/cursor.h"
#include "store/int.h"
#include "store/reader.h"

#include "base/log.h"
#include "base/mutant.h"

/* What an item costs beyond its bytes, so that empty ones are not free. */
#define ITEM_COST 64u

static const char *const state_names[STORE_CURSOR_STATES] = {
    [STORE_CURSOR_NONE] = "none",
    [STORE_CURSOR_READY] = "ready",
    [STORE_CURSOR_PARKED] = "parked",
    [STORE_CURSOR_READING] = "reading",
    [STORE_CURSOR_ENDED] = "ended",
    [STORE_CURSOR_FAILED] = "failed",
};

#define TO(s) (1u << STORE_CURSOR_##s)

static const unsigned legal[STORE_CURSOR_STATES] = {
    [STORE_CURSOR_NONE] = TO(READY),
    [STORE_CURSOR_READY] = TO(PARKED) | TO(READING) | TO(ENDED) | TO(FAILED),
    [STORE_CURSOR_PARKED] = TO(READY) | TO(FAILED),
    [STORE_CURSOR_READING] = TO(READY) | TO(FAILED),
    [STORE_CURSOR_ENDED] = 0,
    [STORE_CURSOR_FAILED] = 0,
};

static void
set_state(struct store_cursor *c, enum store_cursor_state to)
{
	SLI_ASSERT(legal[c->state] & (1u << to));
	sli_debug("store", "cursor", "session=%s next=%llu %s -> %s", c->s->id,
	    (unsigned long long)c->next, state_names[c->state],
	    state_names[to]);
	c->state = to;
}

static void
fail(struct store_cursor *c, enum sli_err code)
{
	c->code = code;
	set_state(c, STORE_CURSOR_FAILED);
}

/* --- life -----------------------------------------------------------------*/

enum sli_err
store_cursor_init(struct store_cursor *c, struct store *st, const char *sid,
    const struct store_cursor_cfg *cfg, struct sli_errinfo *ei)
{
	struct store_session *s = store_session_find(st, sid);

	*c = (struct store_cursor){0};
	sli_list_init(&c->node);
	if (!s)
		return sli_fail(
		    ei, SLI_E_NOT_FOUND, 0, "store.cursor", "no such session");
	c->st = st;
	c->s = store_session_ref(s);
	c->cfg = *cfg;
	c->next = cfg->from;
	if (c->next == 0)
		c->next = cfg->backward ? s->head : s->low;
	if (cfg->backward && c->next > s->head)
		c->next = s->head;
	c->left = cfg->limit ? cfg->limit : UINT64_MAX;
	sli_list_add_tail(&s->cursors, &c->node);
	set_state(c, STORE_CURSOR_READY);
	return SLI_OK;
}

void
store_cursor_fini(struct store_cursor *c)
{
	if (!c->s)
		return;
	if (c->flight)
		c->flight->fn = NULL; /* frees itself when it comes */
	store_read_free(c->page);
	store_read_free(c->piece);
	sli_list_del(&c->node);
	store_session_unref(c->st, c->s);
	*c = (struct store_cursor){0};
	sli_list_init(&c->node);
}

size_t
store_cursor_held(const struct store_cursor *c)
{
	return (c->page ? c->page->mem.used : 0) +
	       (c->piece ? c->piece->mem.used : 0);
}

void
store_cursor_wake(struct store_cursor *c, int all)
{
	if (!all && c->state != STORE_CURSOR_PARKED)
		return;
	if (c->state == STORE_CURSOR_PARKED) {
		c->seen = 0;
		set_state(c, STORE_CURSOR_READY);
	}
	if (c->cfg.wake)
		c->cfg.wake(c->cfg.ctx);
}

/* --- reading --------------------------------------------------------------*/

/* May this answer of a body be told to the consumer? */
static int
is_told(enum sli_err code)
{
	return code == SLI_OK || code == SLI_E_NOT_FOUND ||
	       code == SLI_E_DATA_LOSS;
}

static void
arrived(struct store_read *r)
{
	struct store_cursor *c = r->ctx;

	c->flight = NULL;
	set_state(c, STORE_CURSOR_READY);
	if (r->kind == STORE_READ_PAGE && r->code == SLI_OK) {
		c->page = r;
		c->page_at = 0;
	} else if (r->kind == STORE_READ_BODY && is_told(r->code)) {
		c->piece = r;
	} else {
		fail(c, r->code);
		store_read_free(r);
	}
	if (c->cfg.wake)
		c->cfg.wake(c->cfg.ctx);
}

static void
ask(struct store_cursor *c, enum store_read_kind kind)
{
	struct store_read *r = store_read_new(c->st, c->s, kind, 0);
	uint64_t end = c->s->head;

	if (!r) {
		fail(c, SLI_E_NOMEM);
		return;
	}
	if (c->cfg.end && !c->cfg.backward && c->cfg.end < end)
		end = c->cfg.end;
	r->from = c->next;
	r->end = c->cfg.backward ? c->cfg.end : end;
	r->backward = c->cfg.backward;
	r->max_events = (unsigned)SLI_MIN(c->left, 256);
	r->max_bytes = (size_t)c->st->cfg.page_bytes;
	r->set = c->cur.parts;
	r->offset = c->offset;
	r->ctx = c;
	c->flight = r;
	c->seen = c->s->head;
	set_state(c, STORE_CURSOR_READING);
	store_read_submit(r, arrived);
}

/* --- emitting -------------------------------------------------------------*/

struct pump {
	struct store_cursor *c;
	store_emit_fn *emit;
	void *ctx;
	size_t credit, spent;
	int blocked;
};

static int
give(struct pump *p, const struct store_item *it)
{
	if (p->spent >= p->credit || !p->emit(p->ctx, it)) {
		p->blocked = 1;
		return 0;
	}
	p->spent += ITEM_COST + it->bytes.n + (it->ev ? it->ev->body.n : 0);
	return 1;
}

static void
drop_piece(struct store_cursor *c)
{
	store_read_free(c->piece);
	c->piece = NULL;
}

/* Past the events [next, last] (backward: [last, next]). */
static void
move(struct store_cursor *c, uint64_t last)
{
	if (SLI_MUTATED(store_cursor_stuck) && c->next % 16 == 7)
		return;
	c->next = c->cfg.backward ? last - 1 : last + 1;
	c->in_body = 0;
	c->offset = 0;
	drop_piece(c);
}

static int
is_done(const struct store_cursor *c)
{
	if (c->left == 0)
		return 1;
	if (c->cfg.backward)
		return c->next < SLI_MAX(c->cfg.end, c->s->low) || c->next == 0;
	return c->cfg.end && c->next > c->cfg.end;
}

static int
give_gap(struct pump *p, uint64_t first, uint64_t last, const char *reason)
{
	struct store_item it = {
	    .kind = STORE_ITEM_GAP,
	    .first_lost = first,
	    .last_lost = last,
	    .reason = reason,
	};
	struct store_cursor *c = p->c;

	if (!SLI_MUTATED(store_silent_trim) && !give(p, &it))
		return 0;
	move(c, c->cfg.backward ? first : last);
	return 1;
}

static int
is_long(const struct sli_event *ev)
{
	return ev->length > 0 && (ev->parts || ev->length > STORE_PART_MAX);
}

/* 1 = go on with the next one. */
static int
give_event(struct pump *p, const struct sli_event *ev)
{
	struct store_cursor *c = p->c;
	struct sli_event e = *ev;
	struct store_item it = {.kind = STORE_ITEM_EVENT, .ev = &e};

	if (is_long(ev))
		e.body = sli_slice_of(NULL, 0);
	if (!give(p, &it))
		return 0;
	if (is_long(ev)) {
		c->in_body = 1;
		c->offset = 0;
		c->cur = e;
		return 0;
	}
	c->left--;
	move(c, ev->seq);
	return !is_done(c);
}

/* Parts of c->cur out of bytes that lie at `at` in its body. */
static int
give_parts(struct pump *p, uint64_t at, struct sli_slice bytes)
{
	struct store_cursor *c = p->c;
	uint64_t end = at + bytes.n;

	while (c->offset < end) {
		size_t n = (size_t)SLI_MIN(end - c->offset, STORE_PART_MAX);
		struct store_item it = {
		    .kind = STORE_ITEM_PART,
		    .ev = &c->cur,
		    .offset = c->offset,
		    .bytes = sli_slice_of(bytes.p + (c->offset - at), n),
		    .last = c->offset + n == c->cur.length,
		};

		if (!give(p, &it))
			return 0;
		c->offset += n;
	}
	if (c->offset == c->cur.length) {
		c->left--;
		move(c, c->cur.seq);
	}
	return 1;
}

/* --- where the next event is ----------------------------------------------*/

static void
drop_page(struct store_cursor *c)
{
	store_read_free(c->page);
	c->page = NULL;
}

/* Emit from the page; frees it when it holds nothing more for us. */
static void
from_page(struct pump *p)
{
	struct store_cursor *c = p->c;
	struct store_read *r = c->page;
	int back = c->cfg.backward;

	for (; c->page_at < r->n; c->page_at++) {
		const struct sli_event *ev = &r->ev[c->page_at];

		if (back ? ev->seq > c->next : ev->seq < c->next)
			continue;
		if (ev->seq != c->next) {
			/* Trimmed before it was read. */
			if (!give_gap(p, c->next, ev->seq - 1, "trimmed"))
				return;
		}
		if (c->in_body) {
			if (!give_parts(p, 0, ev->body))
				return;
		} else if (!give_event(p, ev)) {
			/* The page stays: for the rest, or for the body. */
			if (p->blocked || (c->in_body && !ev->parts))
				return;
		}
		if (is_done(c) || c->in_body)
			return;
	}
	if (r->first_lost && !is_done(c) &&
	    c->next == (back ? r->last_lost : r->first_lost) &&
	    !give_gap(p, r->first_lost, r->last_lost, "damaged"))
		return;
	drop_page(c);
}

static int
tail_event(void *ctx, const struct sli_event *ev)
{
	struct pump *p = ctx;

	if (p->c->in_body) {
		if (!give_parts(p, 0, ev->body))
			return 0;
		return !is_done(p->c);
	}
	return give_event(p, ev);
}

/* The body of c->cur, which is stored in parts. */
static void
from_pieces(struct pump *p)
{
	struct store_cursor *c = p->c;
	struct store_read *r = c->piece;

	if (!r) {
		ask(c, STORE_READ_BODY);
		return;
	}
	if (r->code != SLI_OK || r->body.n == 0) {
		if (!give_gap(p, c->cur.seq, c->cur.seq,
			r->code == SLI_E_DATA_LOSS ? "damaged" : "trimmed"))
			return;
		c->left--;
	} else if (!give_parts(p, r->offset, r->body)) {
		return;
	}
	drop_piece(c);
}

static int
trimmed(const struct store_cursor *c)
{
	uint64_t low = c->s->low;

	if (c->page && c->page->low > low)
		low = c->page->low;
	return !c->cfg.backward && c->next < low;
}

/* One step; the state, p->blocked, or progress tells how it went. */
static void
step(struct pump *p)
{
	struct store_cursor *c = p->c;
	uint64_t head = c->s->head;

	if (SLI_MUTATED(store_park_blind) && c->seen && !c->page)
		head = c->seen;
	if (trimmed(c)) {
		uint64_t low = SLI_MAX(c->s->low, c->page ? c->page->low : 0);

		if (c->cfg.end && low > c->cfg.end + 1)
			low = c->cfg.end + 1;
		(void)give_gap(p, c->next, low - 1, "trimmed");
		return;
	}
	if (c->in_body && c->cur.parts) {
		from_pieces(p);
	} else if (c->page) {
		from_page(p);
	} else if (!c->cfg.backward && c->next > head) {
		/* Park, then look once more: whoever moves the head wakes
		 * only what is parked. */
		set_state(c, STORE_CURSOR_PARKED);
		if (c->s->head != head && !SLI_MUTATED(store_park_blind))
			set_state(c, STORE_CURSOR_READY);
	} else if (c->cfg.backward ||
		   store_tail_walk(c->s, c->next, tail_event, p) < 0) {
		ask(c, STORE_READ_PAGE);
	}
}

enum store_pump
store_cursor_pump(
    struct store_cursor *c, size_t credit, store_emit_fn *emit, void *ctx)
{
	struct pump p = {.c = c, .emit = emit, .ctx = ctx, .credit = credit};

	if (c->s->dead && c->state != STORE_CURSOR_ENDED &&
	    c->state != STORE_CURSOR_FAILED && c->state != STORE_CURSOR_READING)
		fail(c, SLI_E_NOT_FOUND);
	while (c->state == STORE_CURSOR_READY) {
		if (!c->in_body && is_done(c)) {
			drop_page(c);
			set_state(c, STORE_CURSOR_ENDED);
			break;
		}
		if (p.blocked || p.spent >= p.credit)
			return STORE_PUMP_BLOCKED;
		step(&p);
	}
	switch (c->state) {
	case STORE_CURSOR_PARKED:
		return STORE_PUMP_PARKED;
	case STORE_CURSOR_READING:
		return STORE_PUMP_READING;
	case STORE_CURSOR_ENDED:
		return STORE_PUMP_END;
	case STORE_CURSOR_NONE:
	case STORE_CURSOR_READY:
	case STORE_CURSOR_FAILED:
	case STORE_CURSOR_STATES:
	default:
		return STORE_PUMP_FAILED;
	}
}
