/* SPDX-License-Identifier: Apache-2.0 */
/* World and applications of the core's simulation. */
#include "simmux.h"

#include "base/mem.h"
#include "wire/mux_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- content --------------------------------------------------------------
 * Each byte is a function of stream, direction and offset; a table makes the
 * comparison one memcmp. */
#define PERIOD 65521u
static uint8_t pattern[PERIOD + SLI_MUX_MSG_MAX];

static const uint8_t *
content(uint32_t sid, enum sli_role from, uint64_t offset)
{
	if (pattern[1] == 0) {
		uint32_t x = 1;

		for (size_t i = 0; i < PERIOD; i++) {
			x = x * 1664525u + 1013904223u;
			pattern[i] = (uint8_t)(x >> 24 | 1);
		}
		for (size_t i = 0; i < SLI_MUX_MSG_MAX; i++)
			pattern[PERIOD + i] = pattern[i];
	}
	return pattern +
	       (offset + sid * 7919u + (from == SLI_CLIENT ? 31u : 0)) % PERIOD;
}

/* --- small things ---------------------------------------------------------*/

uint64_t
sim_rand(struct sim *w, uint64_t n)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return n != 0 ? (w->rng >> 11) % n : 0;
}

uint64_t
sim_upto(struct sim *w, uint64_t have, uint64_t most)
{
	uint64_t n = 1 + sim_rand(w, most);

	return SLI_MIN(n, have);
}

int
sim_chance(struct sim *w, unsigned percent)
{
	return sim_rand(w, 100) < percent;
}

void
sim_fail(const struct sim *w, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	(void)fprintf(stderr,
	    "simulation: seed %llu, %s:%d: ", (unsigned long long)w->seed, file,
	    line);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "\n");
	exit(1);
}

static struct sim_side *
other(struct sim_side *side)
{
	return side->role == SLI_CLIENT ? &side->w->s : &side->w->c;
}

static int
byte_stream(uint32_t method, enum sli_role sender)
{
	return (method &
		   (sender == SLI_SERVER ? SIM_DOWN_BYTES : SIM_UP_BYTES)) != 0;
}

static struct sim_stream *
stream_of(struct sim_side *side, uint32_t sid)
{
	SIM_ASSERT(side->w, sid != 0 && sid < SIM_SIDS);
	SIM_ASSERT(side->w, side->st[sid].gone == 0);
	return &side->st[sid];
}

/* --- what the muxes tell --------------------------------------------------*/

static void
on_call(void *ctx, uint32_t sid, const struct sli_call *call)
{
	struct sim_side *side = ctx;
	struct sim_stream *st = stream_of(side, sid);
	struct sim_plan *p = &side->w->plan[sid];

	SIM_ASSERT(side->w, !st->open && call->method == p->method);
	SIM_ASSERT(side->w, call->request.n == sid % 50);
	st->open = 1;
	st->total = p->down;
	st->ended = call->end;
	if (sim_chance(side->w, 50) && p->down != 0)
		SIM_ASSERT(side->w, sli_mux_opened(side->m, sid, 0) == SLI_OK);
}

static void
on_data(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes)
{
	struct sim_side *side = ctx;
	struct sim *w = side->w;
	struct sim_stream *st = stream_of(side, sid);
	enum sli_role from = sli_role_other(side->role);

	SIM_ASSERT(w, st->open && !st->left && !st->was_reset);
	SIM_ASSERT(w, !st->stopped);
	SIM_ASSERT(w, side->role == SLI_SERVER ? !st->finished : !st->ended);
	if (offset != st->expect)
		SIM_FAIL(w, "stream %u: data at %llu, not %llu", sid,
		    (unsigned long long)offset, (unsigned long long)st->expect);
	SIM_ASSERT(
	    w, memcmp(bytes.p, content(sid, from, offset), bytes.n) == 0);
	SIM_ASSERT(w, bytes.n <= SLI_MUX_MSG_MAX);
	st->expect += bytes.n;
	st->seen += bytes.n;
	w->moved += 1 + bytes.n;
	if (st->nheld == SIM_HELD) {
		/* It can count no more messages: joins the last. */
		st->held[(st->first + st->nheld - 1) % SIM_HELD].n += bytes.n;
	} else {
		st->held[(st->first + st->nheld++) % SIM_HELD] =
		    (struct sim_msg){bytes.n, 0};
	}
}

static void
on_end(void *ctx, uint32_t sid)
{
	struct sim_side *side = ctx;
	struct sim_stream *st = stream_of(side, sid);

	SIM_ASSERT(side->w, side->role == SLI_SERVER && !st->ended);
	if (st->expect != side->w->plan[sid].up)
		SIM_FAIL(side->w, "stream %u: END after %llu of %llu", sid,
		    (unsigned long long)st->expect,
		    (unsigned long long)side->w->plan[sid].up);
	st->ended = 1;
}

static void
on_acked(void *ctx, uint32_t sid, uint64_t acked)
{
	struct sim_side *side = ctx;
	struct sim_stream *st = stream_of(side, sid);

	SIM_ASSERT(side->w, acked > st->acked && acked <= st->at);
	st->acked = acked;
	side->w->moved++;
}

static void
on_result(void *ctx, uint32_t sid, uint16_t status, struct sli_slice trailers,
    struct sli_slice body)
{
	struct sim_side *side = ctx;
	struct sim_stream *st = stream_of(side, sid);

	(void)trailers;
	SIM_ASSERT(side->w, !st->ended && !st->was_reset);
	SIM_ASSERT(side->w, status != 0 || body.n == sid % 70);
	/* Everything the server had is here, or it said why not. */
	if (status == 0 && !st->left && !st->stopped &&
	    st->seen + st->lost != side->w->plan[sid].down)
		SIM_FAIL(side->w, "stream %u: result after %llu of %llu", sid,
		    (unsigned long long)(st->seen + st->lost),
		    (unsigned long long)side->w->plan[sid].down);
	st->ended = 1;
	st->status = status;
}

static void
on_reset(void *ctx, uint32_t sid, uint16_t code)
{
	struct sim_side *side = ctx;
	struct sim_stream *st = stream_of(side, sid);

	(void)code;
	SIM_ASSERT(side->w, !st->was_reset && !st->left);
	SIM_ASSERT(side->w, side->role == SLI_CLIENT || !st->finished);
	SIM_ASSERT(side->w, other(side)->st[sid].left);
	st->was_reset = 1;
}

static void
on_stop(void *ctx, uint32_t sid, uint16_t code)
{
	struct sim_side *side = ctx;

	(void)code;
	stream_of(side, sid)->was_stopped = 1;
}

static void
on_gap(void *ctx, uint32_t sid, uint64_t offset, uint64_t lost)
{
	struct sim_side *side = ctx;
	struct sim_stream *st = stream_of(side, sid);

	SIM_ASSERT(side->w, offset == st->expect + lost);
	st->expect = offset;
	st->lost += lost;
}

static void
on_goaway(void *ctx, uint32_t last, uint32_t grace, uint16_t code,
    struct sli_slice text)
{
	struct sim_side *side = ctx;

	(void)last;
	(void)grace;
	SIM_FAIL(side->w, "GOAWAY %s: %.*s", sli_err_name((enum sli_err)code),
	    (int)text.n, (const char *)text.p);
}

static void
on_gone(void *ctx, uint32_t sid)
{
	struct sim_side *side = ctx;
	struct sim_stream *st = stream_of(side, sid);

	SIM_ASSERT(side->w, st->open);
	/* I11: each call ended exactly once, by a named reason. */
	if (side->role == SLI_CLIENT)
		SIM_ASSERT(
		    side->w, st->left || (st->ended != 0) != st->was_reset);
	else
		SIM_ASSERT(side->w, st->finished || st->left);
	st->gone++;
	st->open = 0;
	side->w->seen->finished++;
	side->w->moved++;
}

static size_t
on_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	struct sim_side *side = ctx;
	struct sim *w = side->w;
	struct sim_stream *st = stream_of(side, sid);
	struct sim_plan *p = &w->plan[sid];
	uint64_t n = st->made - st->at;

	SIM_ASSERT(w, st->open && !st->left && room != 0);
	if (n != 0 && sim_chance(w, 10)) {
		/* Nothing just now, but ready: must be asked again. */
		sli_mux_ready(side->m, sid);
		w->seen->spurious++;
		return SLI_PULL_NOTHING;
	}
	n = sim_upto(w, n, p->msg_max);
	if (byte_stream(p->method, side->role))
		n = SLI_MIN(n, room);
	memcpy(dst, content(sid, side->role, st->at), n);
	st->at += n;
	/* Some say that they have ended while they give the last. */
	if (side->role == SLI_SERVER && st->at == st->total && st->ended &&
	    !st->finished && p->gap_len == 0 && sim_chance(w, 30)) {
		sim_finish(w, side, sid, 0);
		w->seen->in_pull++;
	}
	return n;
}

static const struct sli_mux_sink sink = {.call = on_call,
    .data = on_data,
    .end = on_end,
    .acked = on_acked,
    .result = on_result,
    .reset = on_reset,
    .stop = on_stop,
    .gap = on_gap,
    .goaway = on_goaway,
    .gone = on_gone,
    .pull = on_pull};

/* --- birth ----------------------------------------------------------------*/

static struct sli_mux *
new_mux(struct sim *w, struct sim_side *side, enum sli_role role)
{
	static const uint32_t pools[] = {
	    1, 4096, 65536, 300000, 1048576, 4194304};
	static const uint32_t frames[] = {61440, 65503, 65503, 200000};
	struct sli_mux_cfg cfg = {.role = role};

	cfg.max_streams = 4 + (uint32_t)sim_rand(w, 40);
	/* An ACK that is held back keeps a closed stream open at the server. */
	if (w->tricks && role == SLI_SERVER)
		cfg.max_streams = SIM_SIDS;
	cfg.pool = pools[sim_rand(w, SLI_ARRAY_LEN(pools))];
	cfg.max_frame = frames[sim_rand(w, SLI_ARRAY_LEN(frames))];
	cfg.init_window = 65536u << sim_rand(w, 3);
	cfg.window_cap = 65536u << sim_rand(w, 6);
	cfg.keepalive_s = sim_chance(w, 50) ? 20 : 0;
	cfg.dead_ms = 1000000000; /* the scheduler may sit on bytes for long */
	cfg.write_stall_ms = 1000000000;
	if (sim_chance(w, 40))
		cfg.ctl_hold = 1 + (uint32_t)sim_rand(w, 200);
	cfg.is_byte_stream = byte_stream;
	side->w = w;
	side->role = role;
	side->m = sli_mux_new(&cfg, &sink, side);
	SIM_ASSERT(w, side->m != NULL);
	sli_buf_init(&side->wire, (size_t)1 << 30);
	sli_buf_init(&side->late, (size_t)1 << 30);
	return side->m;
}

void
sim_init(struct sim *w, uint64_t seed, struct sim_seen *seen)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->rng = seed * 0x9e3779b97f4a7c15u + 1;
	w->now = 1000;
	w->seen = seen;
	/* Half of the worlds have no BLOCKED: the ACK rule must do alone. */
	w->ticks = sim_chance(w, 50);
	w->tricks = sim_chance(w, 60);
	(void)new_mux(w, &w->c, SLI_CLIENT);
	(void)new_mux(w, &w->s, SLI_SERVER);
}

void
sim_fini(struct sim *w)
{
	struct sim_side *sides[] = {&w->c, &w->s};

	for (size_t i = 0; i < SLI_ARRAY_LEN(sides); i++) {
		sli_mux_free(sides[i]->m);
		sli_buf_free(&sides[i]->wire);
		sli_buf_free(&sides[i]->late);
	}
}

/* --- checks ---------------------------------------------------------------*/

/* I1 and I2 across the wire, for one direction of one stream. */
static void
check_pair(
    struct sim *w, const struct sli_stream *from, const struct sli_stream *to)
{
	if (from->peer_reset || from->reset_sent || to->peer_reset ||
	    to->reset_sent)
		return; /* each end has forgotten what the other keeps */
	/* A GAP under way has moved one end only. */
	if (w->plan[from->sid].gap_len == 0)
		SIM_ASSERT(w, from->tx.acked <= to->rx.acked);
	SIM_ASSERT(w, to->rx.received <= from->tx.sent);
	if (w->plan[from->sid].gap_len == 0)
		SIM_ASSERT(w, from->tx.limit <= to->rx.limit);
}

void
sim_check(struct sim *w)
{
	const struct sli_mux *c = w->c.m, *s = w->s.m;
	struct sli_stream *a = NULL, *b;

	sli_mux_check(c);
	sli_mux_check(s);
	while ((a = sli_table_next(&c->table, a)) != NULL) {
		b = sli_table_get(&s->table, a->sid);
		if (b == NULL)
			continue;
		check_pair(w, a, b);
		check_pair(w, b, a);
		/* nothing is sent that was not made */
		SIM_ASSERT(w, a->tx.sent <= w->c.st[a->sid].at);
		SIM_ASSERT(w, b->tx.sent <= w->s.st[a->sid].at);
	}
	/* I4: the bound on what a receiver may have to hold */
	SIM_ASSERT(w, c->txpool.used <= c->peer.pool || !c->hello_got);
	SIM_ASSERT(w, s->txpool.used <= s->peer.pool || !s->hello_got);
}

int
sim_is_live(const struct sim *w, uint32_t sid)
{
	const struct sim_plan *p = &w->plan[sid];

	return (!p->client_paused || p->down == 0) &&
	       (!p->server_paused || p->up == 0);
}

int
sim_is_over(const struct sim *w, uint32_t sid)
{
	return w->c.st[sid].gone == 1 && w->s.st[sid].gone <= 1 &&
	       !w->s.st[sid].open;
}
