/* SPDX-License-Identifier: Apache-2.0 */
/* Test client; see t_client.h. */
#include "t_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "wire/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BUF_MAX (64u << 20)

static struct t_stream *
by_sid(struct t_client *cl, uint32_t sid)
{
	struct sli_list *it;

	sli_list_for_each (it, &cl->streams) {
		struct t_stream *s = SLI_LIST_ENTRY(it, struct t_stream, node);

		if (s->sid == sid)
			return s;
	}
	SLI_ASSERT(!"a stream that was never called");
	return NULL;
}

static void
on_hello(void *ctx, const struct sli_peer_hello *peer)
{
	struct t_client *cl = ctx;

	cl->hello = 1;
	cl->peer = *peer;
}

static void
on_opened(void *ctx, uint32_t sid, uint64_t start, uint64_t received)
{
	(void)start;
	(void)received;
	by_sid(ctx, sid)->opened = 1;
}

static void
on_data(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice b)
{
	struct t_client *cl = ctx;
	struct t_stream *s = by_sid(cl, sid);

	(void)offset;
	assert_int_equal(sli_buf_append(&s->data, b.p, b.n), SLI_OK);
	s->nmsg++;
	s->last_len = b.n;
	s->unreleased += b.n;
	if (!cl->hoard)
		t_client_release(cl, s);
}

void
t_client_release(struct t_client *cl, struct t_stream *s)
{
	sli_mux_release(cl->mux, s->sid, s->unreleased);
	s->unreleased = 0;
}

static void
on_acked(void *ctx, uint32_t sid, uint64_t acked)
{
	by_sid(ctx, sid)->acked = acked;
}

static void
on_result(void *ctx, uint32_t sid, uint16_t status, struct sli_slice trailers,
    struct sli_slice body)
{
	struct t_stream *s = by_sid(ctx, sid);

	assert_false(s->done);
	s->done = 1;
	s->status = status;
	(void)!sli_buf_append(&s->trailers, trailers.p, trailers.n);
	(void)!sli_buf_append(&s->body, body.p, body.n);
}

static void
on_reset(void *ctx, uint32_t sid, uint16_t code)
{
	struct t_stream *s = by_sid(ctx, sid);

	s->reset = 1;
	s->status = code;
}

static void
on_stop(void *ctx, uint32_t sid, uint16_t code)
{
	(void)code;
	by_sid(ctx, sid)->stopped = 1;
}

static void
on_goaway(void *ctx, uint32_t last, uint32_t grace_ms, uint16_t code,
    struct sli_slice text)
{
	struct t_client *cl = ctx;

	(void)grace_ms;
	(void)text;
	cl->goaways++;
	cl->last_stream = last;
	cl->goaway_code = code;
}

static void
on_gone(void *ctx, uint32_t sid)
{
	by_sid(ctx, sid)->gone = 1;
}

static size_t
on_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	struct t_client *cl = ctx;
	struct t_stream *s = by_sid(cl, sid);

	(void)room;
	if (s->nsend == 0) {
		if (s->end_after)
			sli_mux_end(cl->mux, sid);
		return SLI_PULL_NOTHING;
	}
	s->nsend--;
	memset(dst, 'u', s->send_len);
	return s->send_len;
}

static const struct sli_mux_sink mux_sink = {
    .hello = on_hello,
    .opened = on_opened,
    .data = on_data,
    .acked = on_acked,
    .result = on_result,
    .reset = on_reset,
    .stop = on_stop,
    .goaway = on_goaway,
    .gone = on_gone,
    .pull = on_pull,
};

static void
take(struct t_client *cl, struct sli_slice b)
{
	struct sli_preamble_answer a;
	struct sli_errinfo ei;
	size_t n = SLI_MIN(b.n, SLI_PREAMBLE_LEN - cl->npre);

	if (n > 0) {
		memcpy(cl->pre + cl->npre, b.p, n);
		cl->npre += (unsigned)n;
		b = sli_slice_of(b.p + n, b.n - n);
		if (cl->npre < SLI_PREAMBLE_LEN)
			return;
		cl->preamble_err =
		    sli_preamble_answer_get(cl->pre, &cl->sent, &a, &ei);
	}
	if (b.n > 0 && cl->preamble_err == SLI_OK)
		assert_int_equal(
		    sli_mux_input(cl->mux, sli_mono_ms(), b, &ei), SLI_OK);
}

static void
on_recv(void *ctx, struct sli_slice b)
{
	struct t_client *cl = ctx;

	take(cl, b);
	if (!cl->deaf)
		sli_link_recv(cl->link);
}

static void
on_sent(void *ctx)
{
	struct t_client *cl = ctx;

	sli_buf_reset(&cl->out);
}

static void
on_closed(void *ctx, const struct sli_errinfo *ei)
{
	struct t_client *cl = ctx;

	cl->closed = 1;
	cl->why = ei->code;
	cl->link = NULL;
}

static const struct sli_link_sink link_sink = {on_recv, on_sent, on_closed};

void
t_client_dial(struct t_client *cl, const struct sli_addr *a)
{
	struct sli_mux_cfg cfg = {
	    .role = SLI_CLIENT, .keepalive_s = cl->keepalive_s};
	uint8_t pre[SLI_PREAMBLE_LEN];
	int hoard = cl->hoard;

	*cl = (struct t_client){.hoard = hoard};
	sli_list_init(&cl->streams);
	sli_buf_init(&cl->out, SLI_MUX_BATCH_MAX + 64);
	cl->mux = sli_mux_new(&cfg, &mux_sink, cl);
	assert_non_null(cl->mux);
	cl->sent = (struct sli_preamble){
	    SLI_VERSION_MIN, SLI_VERSION_MAX, SLI_SEC_NONE};
	sli_preamble_put(pre, &cl->sent);
	assert_int_equal(sli_buf_append(&cl->out, pre, sizeof(pre)), SLI_OK);
	assert_int_equal(
	    sli_sock_dial(a, sli_mono_ms(), 5000, &cl->link, NULL), SLI_OK);
	sli_link_set_sink(cl->link, &link_sink, cl);
	sli_link_recv(cl->link);
}

int
t_client_step(struct t_client *cl)
{
	struct sli_errinfo ei;
	int64_t now = sli_mono_ms(), next;
	struct sli_iov v;

	if (!cl->link || !sli_sock_process(cl->link, now))
		return 0;
	if (!sli_link_sending(cl->link)) {
		assert_int_equal(
		    sli_mux_output(cl->mux, now, &cl->out), SLI_OK);
		v = (struct sli_iov){
		    sli_buf_data(&cl->out), sli_buf_len(&cl->out)};
		if (v.n > 0)
			sli_link_send(cl->link, &v, 1);
	}
	assert_int_equal(sli_mux_tick(cl->mux, now, &next, &ei), SLI_OK);
	return 1;
}

void
t_client_free(struct t_client *cl)
{
	while (!sli_list_empty(&cl->streams)) {
		struct t_stream *s =
		    SLI_LIST_ENTRY(cl->streams.next, struct t_stream, node);

		sli_list_del(&s->node);
		sli_buf_free(&s->data);
		sli_buf_free(&s->trailers);
		sli_buf_free(&s->body);
		sli_free(s);
	}
	if (cl->link)
		sli_sock_drop(cl->link);
	sli_mux_free(cl->mux);
	sli_buf_free(&cl->out);
}

struct t_stream *
t_client_call(struct t_client *cl, uint32_t method, const ProtobufCMessage *req,
    int end, uint32_t timeout_ms)
{
	struct t_stream *s = sli_zalloc(sizeof(*s));
	struct sli_call call = {.method = method,
	    .timeout_ms = timeout_ms,
	    .idempotency_key = sli_slice_str("key-1"),
	    .end = end};
	struct sli_errinfo ei;
	struct sli_buf b;

	assert_non_null(s);
	sli_buf_init(&s->data, BUF_MAX);
	sli_buf_init(&s->trailers, BUF_MAX);
	sli_buf_init(&s->body, BUF_MAX);
	sli_buf_init(&b, 1u << 20);
	if (req) {
		assert_int_equal(sli_msg_pack(req, 1u << 16, &b), SLI_OK);
		call.request = sli_buf_slice(&b);
	}
	assert_int_equal(sli_mux_call(cl->mux, &call, 0, &s->sid, &ei), SLI_OK);
	sli_list_add_tail(&cl->streams, &s->node);
	sli_buf_free(&b);
	return s;
}

void
t_client_send(struct t_client *cl, struct t_stream *s, unsigned n, size_t len,
    int end_after)
{
	s->nsend += n;
	s->send_len = len;
	s->end_after = end_after;
	sli_mux_ready(cl->mux, s->sid);
}
