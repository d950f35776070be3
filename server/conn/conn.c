/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one connection: preamble, HELLO, open, draining, last words,
 * closed. It moves bytes between link and mux and minds the clocks; what the
 * bytes mean is the mux's and dispatch's. Reading never waits for writing. */
#include "conn/conn.h"
#include "conn/call.h"
#include "conn/dispatch.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "wire/frame.h"

#include <inttypes.h>
#include <string.h>

/* Last words: to be written, then to be read before we hang up on them. */
#define WORDS_MS  1000
#define LINGER_MS 250
/* Quiet for so long: the big buffers are given back. */
#define QUIET_MS 1000
/* From the first GOAWAY to the second; calls that were under way arrive. */
#define GOAWAY_MS 100

#define TO(s) (1u << CONN_##s)

static const unsigned legal[CONN__N] = {
    [CONN_PREAMBLE] = TO(HELLO) | TO(CLOSING),
    [CONN_HELLO] = TO(OPEN) | TO(CLOSING),
    [CONN_OPEN] = TO(DRAINING) | TO(CLOSING),
    [CONN_DRAINING] = TO(CLOSING),
    [CONN_CLOSING] = TO(CLOSED),
    [CONN_CLOSED] = 0,
};

static const char *const names[CONN__N] = {
    [CONN_PREAMBLE] = "preamble",
    [CONN_HELLO] = "hello",
    [CONN_OPEN] = "open",
    [CONN_DRAINING] = "draining",
    [CONN_CLOSING] = "closing",
    [CONN_CLOSED] = "closed",
};

const char *
conn_state_name(enum conn_state s)
{
	return s < CONN__N ? names[s] : "?";
}

static void
set_state(struct conn *c, enum conn_state to)
{
	SLI_ASSERT(legal[c->state] & (1u << to));
	sli_debug("conn", "state", "conn=%" PRIu64 " from=%s to=%s", c->number,
	    conn_state_name(c->state), conn_state_name(to));
	c->state = to;
}

static int64_t
now_ms(const struct conn *c)
{
	return loop_now_ms(c->set->loop);
}

/* True while frames are parsed and calls are alive. */
static int
talking(const struct conn *c)
{
	return c->state == CONN_HELLO || c->state == CONN_OPEN ||
	       c->state == CONN_DRAINING;
}

void
conn_touch(struct conn *c)
{
	if (c->state != CONN_CLOSED)
		loop_hook_schedule(c->set->loop, &c->flush);
}

void
conn_break(struct conn *c)
{
	c->broken = 1;
	conn_touch(c);
}

void
conn_close(struct conn *c)
{
	if (c->state == CONN_CLOSED)
		return;
	if (c->state != CONN_CLOSING)
		set_state(c, CONN_CLOSING);
	call_lost_all(c);
	sli_link_close(c->link);
}

/* Write what is due, then hang up. */
static void
last_words(struct conn *c)
{
	set_state(c, CONN_CLOSING);
	c->give_up_ms = now_ms(c) + WORDS_MS;
	call_lost_all(c);
	conn_touch(c);
}

static void
fail(struct conn *c, const struct sli_errinfo *ei)
{
	char text[320];

	sli_log(SLI_LOG_NOTICE, "conn", "fault",
	    "conn=%" PRIu64 " peer=%s state=%s err=\"%s\", closing", c->number,
	    sli_link_peer(c->link)->addr, conn_state_name(c->state),
	    sli_errinfo_str(ei, text, sizeof(text)));
	last_words(c);
}

/* --- in --- */

static void
on_hello(void *ctx, const struct sli_peer_hello *peer)
{
	struct conn *c = ctx;
	char agent[80];

	set_state(c, CONN_OPEN);
	c->give_up_ms = INT64_MAX;
	sli_link_recv_max(c->link, SLI_LINK_RECV_MAX);
	sli_log(SLI_LOG_INFO, "conn", "open",
	    "conn=%" PRIu64 " peer=%s principal=%s agent=%s", c->number,
	    sli_link_peer(c->link)->addr, c->who.name,
	    sli_quote(agent, sizeof(agent), sli_slice_str(peer->agent)));
}

static void
feed(struct conn *c, struct sli_slice bytes)
{
	struct sli_errinfo ei;

	if (c->mux && talking(c) && bytes.n > 0 &&
	    sli_mux_input(c->mux, c->last_in_ms, bytes, &ei) != SLI_OK)
		fail(c, &ei);
}

static void
start_mux(struct conn *c)
{
	struct sli_mux_sink sink;

	dispatch_sink(&sink);
	sink.hello = on_hello;
	c->mux = sli_mux_new(&c->set->mux_cfg, &sink, c);
	if (!c->mux) {
		conn_close(c);
		return;
	}
	feed(c, sli_buf_slice(&c->hello));
	sli_buf_free(&c->hello);
}

/* Moves bytes from the front of *bytes into c->hello until it holds want. */
static int
collect(struct conn *c, struct sli_slice *bytes, size_t want)
{
	size_t n = SLI_MIN(bytes->n, want - sli_buf_len(&c->hello));

	if (sli_buf_append(&c->hello, bytes->p, n) != SLI_OK) {
		conn_close(c);
		return 0;
	}
	*bytes = sli_slice_of(bytes->p + n, bytes->n - n);
	return sli_buf_len(&c->hello) == want;
}

/* A peer that has not said HELLO is not worth a mux. The first frame is only
 * collected here; what is wrong with it the mux will say. */
static void
take_hello(struct conn *c, struct sli_slice *bytes)
{
	struct sli_frame f;
	size_t want = SLI_FRAME_HDR;

	if (sli_buf_len(&c->hello) < SLI_FRAME_HDR &&
	    !collect(c, bytes, SLI_FRAME_HDR))
		return;
	sli_frame_peek(sli_buf_data(&c->hello), &f);
	if (f.type == SLI_FT_HELLO && f.len <= c->set->mux_cfg.hello_max)
		want += f.len;
	if (sli_buf_len(&c->hello) == want || collect(c, bytes, want))
		start_mux(c);
}

static void
answer_preamble(struct conn *c)
{
	struct sli_preamble_answer a = {0};
	uint8_t bytes[SLI_PREAMBLE_LEN];
	struct sli_preamble p;
	enum sli_err rc;

	if (sli_preamble_get(c->pre, &p, NULL) != SLI_OK) {
		conn_close(c);
		return;
	}
	rc = sli_preamble_choose(&p, SLI_SEC_NONE, &a);
	if (rc == SLI_OK && c->refused)
		a.status = (uint8_t)(rc = SLI_E_UNAUTHENTICATED);
	sli_preamble_answer_put(bytes, &a);
	if (sli_buf_append(&c->out, bytes, sizeof(bytes)) != SLI_OK)
		conn_close(c);
	else if (rc == SLI_OK)
		set_state(c, CONN_HELLO);
	else
		last_words(c);
}

/* Takes the preamble's bytes off the front. */
static void
take_preamble(struct conn *c, struct sli_slice *bytes)
{
	size_t n = SLI_MIN(bytes->n, SLI_PREAMBLE_LEN - c->npre);

	memcpy(c->pre + c->npre, bytes->p, n);
	c->npre += (unsigned)n;
	*bytes = sli_slice_of(bytes->p + n, bytes->n - n);
	/* A stranger is refused at its first wrong byte, without a word. */
	if (!sli_preamble_prefix(c->pre, c->npre))
		conn_close(c);
	else if (c->npre == SLI_PREAMBLE_LEN)
		answer_preamble(c);
}

static void
on_recv(void *ctx, struct sli_slice bytes)
{
	struct conn *c = ctx;

	c->last_in_ms = now_ms(c);
	c->quiet = 0;
	if (c->state == CONN_PREAMBLE)
		take_preamble(c, &bytes);
	if (c->state == CONN_HELLO && !c->mux)
		take_hello(c, &bytes);
	feed(c, bytes);
	sli_link_recv(c->link);
	conn_touch(c);
}

/* --- out --- */

/* One batch at a time; its memory is the link's until it is written. */
static void
write_more(struct conn *c)
{
	struct sli_iov v;

	if (sli_link_sending(c->link))
		return;
	if (c->mux && sli_mux_output(c->mux, now_ms(c), &c->out) != SLI_OK) {
		conn_close(c);
		return;
	}
	v = (struct sli_iov){sli_buf_data(&c->out), sli_buf_len(&c->out)};
	if (v.n > 0)
		sli_link_send(c->link, &v, 1);
	else if (c->state == CONN_CLOSING && c->give_up_ms != INT64_MAX)
		c->give_up_ms = SLI_MIN(c->give_up_ms, now_ms(c) + LINGER_MS);
}

static void
on_sent(void *ctx)
{
	struct conn *c = ctx;

	c->written = sli_link_written(c->link);
	sli_buf_reset(&c->out);
	if (!c->mux)
		sli_buf_trim(&c->out);
	conn_touch(c);
}

/* --- clocks --- */

static int
drained(const struct conn *c)
{
	struct sli_mux_stats st;

	if (c->state != CONN_DRAINING || c->goaway_ms != INT64_MAX ||
	    c->ncalls > 0 || sli_link_sending(c->link))
		return 0;
	sli_mux_stats(c->mux, &st);
	return st.streams == 0 && !sli_mux_wants_output(c->mux);
}

static void
set_timer(struct conn *c, int64_t mux_due)
{
	int64_t due = SLI_MIN(c->give_up_ms, mux_due);

	due = SLI_MIN(due, c->goaway_ms);
	if (!c->quiet)
		due = SLI_MIN(due, c->last_in_ms + QUIET_MS);
	/* Too early only costs a look; moving it each turn would cost more. */
	if (!c->timer.set || due < c->timer.due_ms)
		loop_timer_set(c->set->loop, &c->timer, due);
}

static void
on_flush(struct loop_hook *h)
{
	struct conn *c = SLI_CONTAINER_OF(h, struct conn, flush);
	int64_t due = INT64_MAX;
	struct sli_errinfo ei;

	if (c->broken) {
		conn_close(c);
		return;
	}
	write_more(c);
	if (c->mux && talking(c)) {
		if (sli_mux_tick(c->mux, now_ms(c), &due, &ei) != SLI_OK) {
			fail(c, &ei);
			conn_close(c);
			return;
		}
		if (sli_mux_wants_output(c->mux))
			write_more(c);
		if (drained(c))
			last_words(c);
	}
	set_timer(c, due);
}

static void
give_up(struct conn *c)
{
	if (c->state == CONN_PREAMBLE || c->state == CONN_HELLO)
		sli_log(SLI_LOG_INFO, "conn", "handshake",
		    "conn=%" PRIu64 " peer=%s took too long, closing",
		    c->number, sli_link_peer(c->link)->addr);
	conn_close(c);
}

static void
on_timer(struct loop_timer *t)
{
	struct conn *c = SLI_CONTAINER_OF(t, struct conn, timer);
	uint64_t written = sli_link_written(c->link);
	int64_t now = now_ms(c);

	if (now >= c->give_up_ms) {
		give_up(c);
		return;
	}
	if (now >= c->goaway_ms && c->state == CONN_DRAINING) {
		c->goaway_ms = INT64_MAX;
		sli_mux_goaway(c->mux, 0, 0, SLI_E_DRAINING,
		    "the server is shutting down");
	}
	if (written != c->written && c->mux)
		sli_mux_progress(c->mux, now);
	c->written = written;
	if (!c->quiet && now - c->last_in_ms >= QUIET_MS) {
		c->quiet = 1;
		sli_link_idle(c->link);
		if (!sli_link_sending(c->link))
			sli_buf_trim(&c->out);
	}
	conn_touch(c);
}

void
conn_drain(struct conn *c, uint32_t grace_ms)
{
	if (c->state == CONN_PREAMBLE || c->state == CONN_HELLO)
		conn_close(c);
	if (c->state != CONN_OPEN)
		return;
	set_state(c, CONN_DRAINING);
	c->give_up_ms = now_ms(c) + grace_ms;
	c->goaway_ms = now_ms(c) + GOAWAY_MS;
	sli_mux_goaway(c->mux, UINT32_MAX, grace_ms, SLI_E_DRAINING,
	    "the server is shutting down");
	conn_touch(c);
}

void
conn_call_ended(struct conn *c)
{
	if (c->state == CONN_DRAINING)
		conn_touch(c);
}

/* --- birth and death --- */

static void
on_reap(struct loop_reap *r)
{
	struct conn *c = SLI_CONTAINER_OF(r, struct conn, reap);
	struct conns *set = c->set;

	sli_mux_free(c->mux);
	sli_buf_free(&c->out);
	sli_buf_free(&c->hello);
	sli_free(c->bucket);
	sli_free(c);
	conns_check_done(set);
}

static void
on_closed(void *ctx, const struct sli_errinfo *ei)
{
	struct conn *c = ctx;
	char text[320];

	sli_log(SLI_LOG_INFO, "conn", "closed",
	    "conn=%" PRIu64 " peer=%s state=%s err=\"%s\"", c->number,
	    sli_link_peer(c->link)->addr, conn_state_name(c->state),
	    ei->code ? sli_errinfo_str(ei, text, sizeof(text)) : "");
	if (c->state != CONN_CLOSING)
		set_state(c, CONN_CLOSING);
	call_lost_all(c);
	set_state(c, CONN_CLOSED);
	c->link = NULL;
	loop_hook_cancel(&c->flush);
	loop_timer_del(c->set->loop, &c->timer);
	conns_remove(c->set, c);
	loop_reap(c->set->loop, &c->reap, on_reap);
}

static const struct sli_link_sink link_sink = {
    .recv = on_recv,
    .sent = on_sent,
    .closed = on_closed,
};

struct conn *
conn_new(struct conns *set, struct sli_link *link)
{
	struct conn *c = sli_zalloc(sizeof(*c));

	if (!c)
		return NULL;
	c->set = set;
	c->link = link;
	c->number = ++set->next_number;
	c->state = CONN_PREAMBLE;
	c->refused =
	    auth_peer(&set->auth, sli_link_peer(link), &c->who) != SLI_OK;
	sli_buf_init(&c->out, SLI_MUX_BATCH_MAX + SLI_PREAMBLE_LEN);
	sli_buf_init(&c->hello, SLI_FRAME_HDR + SLI_HELLO_MAX);
	sli_list_init(&c->calls);
	loop_hook_init(&c->flush, on_flush);
	loop_timer_init(&c->timer, on_timer);
	c->last_in_ms = now_ms(c);
	c->goaway_ms = INT64_MAX;
	c->give_up_ms = now_ms(c) + (int64_t)sli_limits_get(
					&set->limits, SLI_L_WIRE_HANDSHAKE);
	sli_link_set_sink(link, &link_sink, c);
	/* An unknown peer makes us hold no more than this and a frame. */
	sli_link_recv_max(link, SLI_LINK_RECV_MIN);
	sli_link_recv(link);
	conn_touch(c);
	return c;
}

void
conn_stats(const struct conn *c, struct svc_conn_stats *ret)
{
	struct sli_mux_stats st = {0};

	if (c->mux)
		sli_mux_stats(c->mux, &st);
	*ret = (struct svc_conn_stats){
	    .number = c->number,
	    .tenant = c->who.tenant,
	    .inflight = st.inflight,
	    .unreleased = st.unreleased,
	    .held = st.held,
	    .queued = sli_buf_len(&c->out) + st.pending_ctl,
	    .bytes_in = st.bytes_in,
	    .bytes_out = st.bytes_out,
	    .streams = st.streams,
	    .calls = c->ncalls,
	};
}
