/* SPDX-License-Identifier: Apache-2.0 */
/* The hand-played peer. The log is one word per event with its numbers, e.g.
 * "call:1 m7 'abc' end;". */
#include "wirekit.h"

#include "base/mem.h"
#include "base/str.h"
#include "unit.h"
#include "wire/hello.h"

#include <stdio.h>
#include <string.h>

static void note(struct kit *k, const char *fmt, ...) SLI_PRINTF(2, 3);

static void
note(struct kit *k, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	assert_int_equal(sli_buf_append(&k->log, text, strlen(text)), SLI_OK);
}

static void
on_hello(void *ctx, const struct sli_peer_hello *peer)
{
	struct kit *k = ctx;

	k->peer = *peer;
	note(k, "hello;");
}

static void
on_call(void *ctx, uint32_t sid, const struct sli_call *c)
{
	struct kit *k = ctx;
	char q[64];

	k->calls_live++;
	note(k, "call:%u m%u '%s'%s;", sid, c->method,
	    sli_quote(q, sizeof(q), c->request), c->end ? " end" : "");
	if (k->on_call != NULL)
		k->on_call(k, sid);
}

static void
on_opened(void *ctx, uint32_t sid, uint64_t start, uint64_t received)
{
	note(ctx, "opened:%u %llu %llu;", sid, (unsigned long long)start,
	    (unsigned long long)received);
}

static void
on_data(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes)
{
	struct kit *k = ctx;

	note(k, "data:%u %llu+%zu;", sid, (unsigned long long)offset, bytes.n);
	k->got += bytes.n;
	if (k->on_data != NULL)
		k->on_data(k, sid);
	if (k->auto_release)
		sli_mux_release(k->m, sid, bytes.n);
}

static void
on_end(void *ctx, uint32_t sid)
{
	note(ctx, "end:%u;", sid);
}

static void
on_acked(void *ctx, uint32_t sid, uint64_t acked)
{
	note(ctx, "acked:%u %llu;", sid, (unsigned long long)acked);
}

static void
on_result(void *ctx, uint32_t sid, uint16_t status, struct sli_slice trailers,
    struct sli_slice body)
{
	char q[64];

	note(ctx, "result:%u %u t%zu '%s';", sid, status, trailers.n,
	    sli_quote(q, sizeof(q), body));
}

static void
on_reset(void *ctx, uint32_t sid, uint16_t code)
{
	note(ctx, "reset:%u %s;", sid, sli_err_name((enum sli_err)code));
}

static void
on_stop(void *ctx, uint32_t sid, uint16_t code)
{
	note(ctx, "stop:%u %s;", sid, sli_err_name((enum sli_err)code));
}

static void
on_gap(void *ctx, uint32_t sid, uint64_t offset, uint64_t lost)
{
	note(ctx, "gap:%u %llu %llu;", sid, (unsigned long long)offset,
	    (unsigned long long)lost);
}

static void
on_goaway(void *ctx, uint32_t last, uint32_t grace, uint16_t code,
    struct sli_slice text)
{
	char q[64];

	note(ctx, "goaway:%u %u %s '%s';", last, grace,
	    sli_err_name((enum sli_err)code), sli_quote(q, sizeof(q), text));
}

static void
on_gone(void *ctx, uint32_t sid)
{
	struct kit *k = ctx;

	if (k->role == SLI_SERVER)
		k->calls_live--;
	note(k, "gone:%u;", sid);
}

static size_t
on_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	struct kit *k = ctx;
	struct kit_source *s = &k->src[sid % KIT_STREAMS];

	assert_true(room > 0 && room <= SLI_MUX_MSG_MAX);
	if (s->ready_again) {
		s->ready_again = 0;
		sli_mux_ready(k->m, sid);
		return SLI_PULL_NOTHING;
	}
	if (s->msgs == 0)
		return SLI_PULL_NOTHING;
	s->msgs--;
	memset(dst, 'x', s->size);
	return s->size;
}

static const struct sli_mux_sink sink = {on_hello, on_call, on_opened, on_data,
    on_end, on_acked, on_result, on_reset, on_stop, on_gap, on_goaway, on_gone,
    on_pull};

void
kit_init(struct kit *k, enum sli_role role, const struct sli_mux_cfg *cfg)
{
	struct sli_mux_cfg c = {0};

	if (cfg != NULL)
		c = *cfg;
	c.role = role;
	*k = (struct kit){.role = role, .now = 1000};
	sli_buf_init(&k->out, 4 << 20);
	sli_buf_init(&k->log, 4 << 20);
	k->m = sli_mux_new(&c, &sink, k);
	assert_non_null(k->m);
}

void
kit_hello(struct kit *k, const struct sli_mux_cfg *peer)
{
	struct sli_mux_cfg c = {0};
	struct sli_buf b, f;

	if (peer != NULL)
		c = *peer;
	sli_hello_defaults(&c);
	sli_buf_init(&b, 4096);
	sli_buf_init(&f, 8192);
	assert_int_equal(sli_hello_put(&c, &b), SLI_OK);
	kit_put(
	    &f, SLI_FT_HELLO, 0, 0, 0, 0, sli_buf_data(&b), sli_buf_len(&b));
	assert_int_equal(
	    kit_bytes(k, sli_buf_data(&f), sli_buf_len(&f)), SLI_OK);
	sli_buf_free(&b);
	sli_buf_free(&f);
	(void)kit_expect(k, SLI_FT_HELLO, 0, NULL);
	kit_log_is(k, "hello;");
}

void
kit_start(struct kit *k, enum sli_role role, const struct sli_mux_cfg *cfg)
{
	kit_init(k, role, cfg);
	kit_hello(k, NULL);
}

void
kit_fini(struct kit *k)
{
	sli_mux_check(k->m);
	sli_mux_free(k->m);
	sli_buf_free(&k->out);
	sli_buf_free(&k->log);
}

/* --- in -------------------------------------------------------------------*/

void
kit_put(struct sli_buf *b, unsigned type, unsigned flags, unsigned aux16,
    uint32_t sid, uint32_t aux32, const void *p, size_t n)
{
	struct sli_frame f = {(uint32_t)n, (uint8_t)type, (uint8_t)flags,
	    (uint16_t)aux16, sid, aux32};
	uint8_t *d = sli_buf_reserve(b, SLI_FRAME_HDR + n);

	assert_non_null(d);
	sli_frame_put(d, &f);
	if (n != 0)
		memcpy(d + SLI_FRAME_HDR, p, n);
	sli_buf_added(b, SLI_FRAME_HDR + n);
}

enum sli_err
kit_bytes(struct kit *k, const void *p, size_t n)
{
	enum sli_err e;

	k->ei = (struct sli_errinfo){0};
	e = sli_mux_input(k->m, k->now, sli_slice_of(p, n), &k->ei);
	sli_mux_check(k->m);
	return e;
}

enum sli_err
kit_in(struct kit *k, unsigned type, unsigned flags, unsigned aux16,
    uint32_t sid, uint32_t aux32, const void *p, size_t n)
{
	struct sli_buf b;
	enum sli_err e;

	sli_buf_init(&b, SLI_FRAME_HDR + n);
	kit_put(&b, type, flags, aux16, sid, aux32, p, n);
	e = kit_bytes(k, sli_buf_data(&b), sli_buf_len(&b));
	sli_buf_free(&b);
	return e;
}

enum sli_err
kit_call(struct kit *k, uint32_t sid, const char *request, int end)
{
	return kit_in(k, SLI_FT_CALL, end ? SLI_FF_END : 0, 0, sid, 7, request,
	    strlen(request));
}

enum sli_err
kit_data(struct kit *k, uint32_t sid, unsigned flags, uint32_t offset, size_t n)
{
	uint8_t *p = sli_zalloc(n);
	enum sli_err e;

	assert_non_null(p);
	e = kit_in(k, SLI_FT_DATA, flags, 0, sid, offset, p, n);
	sli_free(p);
	return e;
}

enum sli_err
kit_ack(struct kit *k, uint32_t sid, uint64_t acked, uint64_t window)
{
	uint8_t rec[24] = {0};

	sli_put32(rec, sid);
	sli_put64(rec + 8, acked);
	sli_put64(rec + 16, window);
	return kit_in(k, SLI_FT_ACK, 0, 0, 0, 0, rec, sizeof(rec));
}

enum sli_err
kit_num(struct kit *k, unsigned type, unsigned aux16, uint32_t sid, uint64_t v)
{
	uint8_t p[8];

	sli_put64(p, v);
	return kit_in(k, type, 0, aux16, sid, 0, p, sizeof(p));
}

/* --- out ------------------------------------------------------------------*/

int
kit_next(struct kit *k, struct sli_frame *f, struct sli_slice *payload)
{
	size_t n;

	if (sli_buf_len(&k->out) == 0) {
		assert_int_equal(sli_mux_output(k->m, k->now, &k->out), SLI_OK);
		sli_mux_check(k->m);
		if (sli_buf_len(&k->out) == 0)
			return 0;
	}
	assert_int_equal(sli_frame_get(sli_buf_data(&k->out), k->role,
			     SLI_MAX_FRAME_MOST, f, NULL),
	    SLI_OK);
	n = SLI_FRAME_HDR + (size_t)f->len;
	assert_true(sli_buf_len(&k->out) >= n);
	*payload = sli_slice_of(sli_buf_data(&k->out) + SLI_FRAME_HDR, f->len);
	sli_buf_consume(&k->out, n);
	return 1;
}

struct sli_slice
kit_expect(struct kit *k, unsigned type, uint32_t sid, struct sli_frame *ret_f)
{
	struct sli_slice p = {0};
	struct sli_frame f = {0};

	assert_true(kit_next(k, &f, &p));
	assert_string_equal(sli_frame_name(f.type), sli_frame_name(type));
	assert_int_equal(f.sid, sid);
	if (ret_f != NULL)
		*ret_f = f;
	return p;
}

void
kit_expect_none(struct kit *k)
{
	struct sli_slice p;
	struct sli_frame f;

	if (kit_next(k, &f, &p))
		fail_msg("unexpected %s on %u", sli_frame_name(f.type), f.sid);
}

uint64_t
kit_drain(struct kit *k, uint32_t sid)
{
	struct sli_slice p;
	struct sli_frame f;
	uint64_t n = 0;

	while (kit_next(k, &f, &p)) {
		if (f.type == SLI_FT_DATA && f.sid == sid)
			n += f.len;
	}
	return n;
}

void
kit_log_is(struct kit *k, const char *want)
{
	assert_int_equal(sli_buf_append(&k->log, "", 1), SLI_OK);
	assert_string_equal((const char *)sli_buf_data(&k->log), want);
	sli_buf_reset(&k->log);
}

int
kit_log_has(struct kit *k, const char *part)
{
	return memmem(sli_buf_data(&k->log), sli_buf_len(&k->log), part,
		   strlen(part)) != NULL;
}

uint32_t
kit_make_call(struct kit *k, uint32_t method, int end)
{
	struct sli_call c = {.method = method, .end = end};
	uint32_t sid = 0;

	assert_int_equal(sli_mux_call(k->m, &c, 0, &sid, &k->ei), SLI_OK);
	(void)kit_expect(k, SLI_FT_CALL, sid, NULL);
	return sid;
}
