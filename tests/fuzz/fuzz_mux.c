/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* A whole server-side connection, with fake services, against any bytes. The
 * first byte chooses the set-up and how the input is cut; a client-side one is
 * run the same way when its top bit is set. HELLO is given, so that the input
 * starts where it is interesting (unless bit 6 is set). Whatever comes: bounded
 * memory, invariants hold, each call ends once. */
#include "wire/frame.h"
#include "wire/hello.h"
#include "wire/mux.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIDS 64

struct conn {
	struct sli_mux *m;
	enum sli_role role;
	int64_t now;
	uint32_t given[SIDS]; /* bytes the source has given */
	unsigned open;
};

static void
answer(struct conn *c, uint32_t sid, uint16_t status, struct sli_slice body)
{
	body.n = SLI_MIN(body.n, (size_t)49152);
	SLI_ASSERT(sli_mux_result(
		       c->m, sid, status, sli_slice_of("", 0), body) == SLI_OK);
}

/* Services by method: 0 answers at once, 1 streams, 2 takes, 3 resets, 4 never
 * answers, others refuse. */
static void
on_call(void *ctx, uint32_t sid, const struct sli_call *call)
{
	struct conn *c = ctx;

	c->open++;
	SLI_ASSERT(call->request.n <= SLI_MUX_MSG_MAX);
	switch (call->method % 8) {
	case 0:
		answer(c, sid, 0, call->request);
		break;
	case 1:
		sli_mux_ready(c->m, sid);
		break;
	case 3:
		sli_mux_reset(c->m, sid, SLI_E_INTERNAL);
		break;
	case 2:
	case 4:
		break;
	case 5:
		sli_mux_ready(c->m, sid);
		sli_mux_gap(c->m, sid, 100000, 100000);
		answer(c, sid, 0, sli_slice_of(NULL, 0));
		break;
	default:
		SLI_ASSERT(sli_mux_abort(c->m, sid, SLI_E_UNIMPLEMENTED,
			       sli_slice_str("no")) == SLI_OK);
	}
}

static void
on_data(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes)
{
	struct conn *c = ctx;

	(void)offset;
	SLI_ASSERT(bytes.n <= SLI_MUX_MSG_MAX);
	if ((sid & 3) != 0)
		sli_mux_release(c->m, sid, bytes.n);
	if ((sid & 7) == 5)
		sli_mux_stop(c->m, sid, SLI_E_CANCELED);
}

static void
on_end(void *ctx, uint32_t sid)
{
	answer(ctx, sid, 0, sli_slice_of(NULL, 0));
}

static void
on_stop_or_reset(void *ctx, uint32_t sid, uint16_t code)
{
	answer(ctx, sid, code, sli_slice_of(NULL, 0));
}

static void
on_gone(void *ctx, uint32_t sid)
{
	struct conn *c = ctx;

	(void)sid;
	SLI_ASSERT(c->open != 0);
	c->open--;
}

static size_t
on_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	struct conn *c = ctx;
	uint32_t *given = &c->given[sid % SIDS];
	size_t n = 1 + sid * 997u % SLI_MUX_MSG_MAX;

	SLI_ASSERT(room != 0 && room <= SLI_MUX_MSG_MAX);
	if (*given > 100000)
		return SLI_PULL_NOTHING;
	*given += (uint32_t)n;
	memset(dst, 'p', n);
	return n;
}

static const struct sli_mux_sink sink = {.call = on_call,
    .data = on_data,
    .end = on_end,
    .stop = on_stop_or_reset,
    .reset = on_stop_or_reset,
    .gone = on_gone,
    .pull = on_pull};

static int
is_bytes(uint32_t method, enum sli_role sender)
{
	return (method & 16) != 0 && sender == SLI_CLIENT;
}

static void
drain(struct conn *c, struct sli_buf *out)
{
	for (int i = 0; i < 64 && sli_mux_wants_output(c->m); i++) {
		size_t at = 0;

		SLI_ASSERT(sli_mux_output(c->m, c->now, out) == SLI_OK);
		/* What we send is legal frames, whatever we get. */
		while (at < sli_buf_len(out)) {
			struct sli_frame f;

			SLI_ASSERT(
			    sli_frame_get(sli_buf_data(out) + at, c->role,
				SLI_MAX_FRAME_MOST, &f, NULL) == SLI_OK);
			at += SLI_FRAME_HDR + (size_t)f.len;
		}
		SLI_ASSERT(at == sli_buf_len(out));
		sli_buf_reset(out);
	}
}

static void
start(struct conn *c, uint8_t how, struct sli_buf *out)
{
	struct sli_mux_cfg peer = {.role = sli_role_other(c->role)};
	struct sli_frame f = {.type = SLI_FT_HELLO};
	struct sli_call call = {0};
	struct sli_buf b, h;
	uint8_t raw[SLI_FRAME_HDR];
	uint32_t sid;

	if ((how & 0x40) != 0)
		return;
	sli_hello_defaults(&peer);
	sli_buf_init(&h, 4096);
	sli_buf_init(&b, 8192);
	SLI_ASSERT(sli_hello_put(&peer, &h) == SLI_OK);
	f.len = (uint32_t)sli_buf_len(&h);
	sli_frame_put(raw, &f);
	SLI_ASSERT(sli_buf_append(&b, raw, sizeof(raw)) == SLI_OK);
	SLI_ASSERT(sli_buf_append(&b, sli_buf_data(&h), f.len) == SLI_OK);
	SLI_ASSERT(
	    sli_mux_input(c->m, c->now, sli_buf_slice(&b), NULL) == SLI_OK);
	for (int i = 0; c->role == SLI_CLIENT && i < 4; i++) {
		call.end = i & 1;
		SLI_ASSERT(sli_mux_call(c->m, &call, 0, &sid, NULL) == SLI_OK);
		c->open++;
		if (i == 2)
			sli_mux_ready(c->m, sid);
		if (i == 3)
			sli_mux_reset(c->m, sid, 1);
	}
	drain(c, out);
	sli_buf_free(&h);
	sli_buf_free(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sli_mux_cfg cfg = {.is_byte_stream = is_bytes};
	struct conn c = {.now = 1000};
	struct sli_mux_stats st;
	struct sli_buf out;
	size_t at = 1, step;
	int64_t next;

	if (size < 1)
		return 0;
	c.role = cfg.role = (data[0] & 0x80) != 0 ? SLI_CLIENT : SLI_SERVER;
	cfg.max_streams = 4u + (data[0] & 0x1fu);
	if ((data[0] & 0x20) != 0) {
		cfg.ctl_hold = 100;
		cfg.pool = 1000;
	}
	c.m = sli_mux_new(&cfg, &sink, &c);
	SLI_ASSERT(c.m != NULL);
	sli_buf_init(&out, SLI_MUX_BATCH_MAX);
	start(&c, data[0], &out);
	step = 1 + (size_t)(data[0] & 0x3f) * 7;
	while (at < size) {
		size_t k = SLI_MIN(step, size - at);
		enum sli_err e =
		    sli_mux_input(c.m, c.now, sli_slice_of(data + at, k), NULL);

		sli_mux_check(c.m);
		c.now += 100;
		if (sli_mux_tick(c.m, c.now, &next, NULL) != e && e != SLI_OK)
			SLI_ASSERT(0);
		if ((at & 1) != 0)
			drain(&c, &out);
		at += k;
	}
	drain(&c, &out);
	sli_mux_check(c.m);
	sli_mux_stats(c.m, &st);
	SLI_ASSERT(st.streams <= cfg.max_streams || c.role == SLI_CLIENT);
	sli_mux_free(c.m);
	sli_buf_free(&out);
	return 0;
}
