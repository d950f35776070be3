/* SPDX-License-Identifier: Apache-2.0 */
/* See raw.h. */
#include "raw.h"

#include "base/str.h"
#include "sluice/v1/core.pb-c.h"
#include "sluice/v1/processes.pb-c.h"
#include "wire/hello.h"
#include "wire/preamble.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define IN_MAX (4u << 20)

/* --- out ------------------------------------------------------------------*/

void
raw_connect(struct raw *r, const struct world *w)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	memset(r, 0, sizeof(*r));
	sli_buf_init(&r->in, IN_MAX);
	r->floor = SLI_FLOOR;
	r->pool = SLI_POOL;
	sli_strlcpy(
	    sa.sun_path, w->url + strlen("unix://"), sizeof(sa.sun_path));
	r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(r->fd >= 0);
	assert_int_equal(
	    connect(r->fd, (struct sockaddr *)(void *)&sa, sizeof(sa)), 0);
	assert_int_equal(fcntl(r->fd, F_SETFL, O_NONBLOCK), 0);
}

void
raw_close(struct raw *r)
{
	if (r->fd >= 0)
		(void)close(r->fd);
	r->fd = -1;
	sli_buf_free(&r->in);
}

static void
lost(struct raw *r)
{
	(void)close(r->fd);
	r->fd = -1;
}

int
raw_write(struct raw *r, const void *p, size_t n)
{
	const char *at = p;
	int64_t until = world_now_ms() + 10000;
	while (n > 0 && r->fd >= 0) {
		ssize_t k = send(r->fd, at, n, MSG_NOSIGNAL);
		if (k > 0) {
			at += k;
			n -= (size_t)k;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR) {
			(void)raw_turn(r, 0); /* what it said before */
			if (r->fd >= 0)
				lost(r);
			return 0;
		}
		struct pollfd pf = {r->fd, POLLOUT, 0};
		(void)poll(&pf, 1, 100);
		if (world_now_ms() > until)
			fail_msg("the server does not read");
	}
	return r->fd >= 0;
}

void
raw_taken(struct raw *r, int timeout_ms)
{
	int64_t until = world_now_ms() + timeout_ms;
	int left = 1;
	while (left > 0 && r->fd >= 0) {
		assert_int_equal(ioctl(r->fd, SIOCOUTQ, &left), 0);
		if (left > 0)
			world_rest(1);
		assert_true(world_now_ms() < until);
	}
}

int
raw_send(struct raw *r, unsigned type, unsigned flags, unsigned aux16,
    uint32_t sid, uint32_t aux32, const void *p, size_t n)
{
	struct sli_buf b;
	sli_buf_init(&b, IN_MAX);
	kit_put(&b, type, flags, aux16, sid, aux32, p, n);
	int ok = raw_write(r, sli_buf_data(&b), sli_buf_len(&b));
	sli_buf_free(&b);
	return ok;
}

static int
has_hello(void *ctx)
{
	return ((const struct raw *)ctx)->hellos == 1;
}

void
raw_open(struct raw *r, const struct world *w, const struct sli_mux_cfg *cfg)
{
	struct sli_mux_cfg c = {.role = SLI_CLIENT};
	struct sli_preamble pre = {SLI_VERSION_MIN, SLI_VERSION_MAX, 0};
	uint8_t bytes[SLI_PREAMBLE_LEN];
	struct sli_buf b, hello;
	raw_connect(r, w);
	if (cfg)
		c = *cfg;
	c.role = SLI_CLIENT;
	sli_hello_defaults(&c);
	r->floor = c.floor;
	r->pool = c.pool;
	for (unsigned i = 0; i < RAW_STREAMS; i++)
		r->s[i].limit = c.init_window;
	sli_buf_init(&b, IN_MAX);
	sli_buf_init(&hello, SLI_HELLO_MAX);
	sli_preamble_put(bytes, &pre);
	assert_int_equal(sli_buf_append(&b, bytes, sizeof(bytes)), SLI_OK);
	assert_int_equal(sli_hello_put(&c, &hello), SLI_OK);
	kit_put(&b, SLI_FT_HELLO, 0, 0, 0, 0, sli_buf_data(&hello),
	    sli_buf_len(&hello));
	assert_true(raw_write(r, sli_buf_data(&b), sli_buf_len(&b)));
	sli_buf_free(&b);
	sli_buf_free(&hello);
	/* The answer to the preamble comes first. */
	size_t n = 0;
	while (n < sizeof(bytes)) {
		struct pollfd pf = {r->fd, POLLIN, 0};
		assert_int_equal(poll(&pf, 1, 5000), 1);
		ssize_t k = read(r->fd, bytes + n, sizeof(bytes) - n);
		assert_true(k > 0);
		n += (size_t)k;
	}
	raw_until(r, has_hello, r, 5000, "HELLO");
}

void
raw_call(struct raw *r, uint32_t sid, uint32_t method, uint64_t window,
    const ProtobufCMessage *req, int end)
{
	Sluice__V1__CallHeader h = SLUICE__V1__CALL_HEADER__INIT;
	uint8_t b[SLI_MAX_FRAME];
	h.window = window;
	size_t n = sluice__v1__call_header__get_packed_size(&h);
	size_t m = req ? protobuf_c_message_get_packed_size(req) : 0;
	assert_true(n + m <= sizeof(b) && sid < RAW_STREAMS);
	(void)sluice__v1__call_header__pack(&h, b);
	if (req)
		(void)protobuf_c_message_pack(req, b + n);
	if (window)
		r->s[sid].limit = window;
	(void)raw_send(r, SLI_FT_CALL, end ? SLI_FF_END : 0, (unsigned)n, sid,
	    method, b, n + m);
}

void
raw_exec(struct raw *r, uint32_t sid, uint64_t window, const char *vm,
    const char *const *argv)
{
	Sluice__V1__ExecInput in = SLUICE__V1__EXEC_INPUT__INIT;
	Sluice__V1__ExecSpec sp = SLUICE__V1__EXEC_SPEC__INIT;
	sp.vm = (char *)(uintptr_t)vm;
	sp.argv = (char **)(uintptr_t)argv;
	while (argv[sp.n_argv])
		sp.n_argv++;
	in.kind_case = SLUICE__V1__EXEC_INPUT__KIND_SPEC;
	in.spec = &sp;
	raw_call(r, sid, RAW_EXEC, window, &in.base, 0);
}

void
raw_grant_put(
    struct raw *r, struct sli_buf *b, const struct raw_grant *g, unsigned n)
{
	uint8_t recs[SLI_ACK_RECORDS * SLI_ACK_RECORD] = {0};
	assert_true(n <= SLI_ACK_RECORDS);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *p = recs + i * SLI_ACK_RECORD;
		sli_put32(p, g[i].sid);
		sli_put64(p + 8, g[i].acked);
		sli_put64(p + 16, g[i].window);
		if (g[i].sid == 0) {
			r->pool = g[i].window;
		} else if (g[i].sid < RAW_STREAMS) {
			struct raw_stream *s = &r->s[g[i].sid];
			if (g[i].acked > s->acked && g[i].acked <= s->got)
				s->acked = g[i].acked;
			if (g[i].acked + g[i].window > s->limit)
				s->limit = g[i].acked + g[i].window;
		}
	}
	kit_put(b, SLI_FT_ACK, 0, 0, 0, 0, recs, n * SLI_ACK_RECORD);
}

void
raw_grant(struct raw *r, const struct raw_grant *g, unsigned n)
{
	struct sli_buf b;
	sli_buf_init(&b, IN_MAX);
	raw_grant_put(r, &b, g, n);
	(void)raw_write(r, sli_buf_data(&b), sli_buf_len(&b));
	sli_buf_free(&b);
}

/* --- in -------------------------------------------------------------------*/

static void
check_credit(const struct raw *r, uint32_t sid)
{
	uint64_t used = 0;
	if (r->lax)
		return;
	if (r->s[sid].got > r->s[sid].limit)
		fail_msg("stream %u got %llu, granted %llu", sid,
		    (unsigned long long)r->s[sid].got,
		    (unsigned long long)r->s[sid].limit);
	for (unsigned i = 1; i < RAW_STREAMS; i++) {
		uint64_t out = r->s[i].got - r->s[i].acked;
		used += out > r->floor ? out - r->floor : 0;
	}
	assert_true(used <= r->pool);
}

static void
frame(struct raw *r, const struct sli_frame *f, const uint8_t *p)
{
	struct raw_stream *s = &r->s[f->sid % RAW_STREAMS];
	(void)p;
	assert_true(f->sid < RAW_STREAMS || r->mute);
	r->frames++;
	switch (f->type) {
	case SLI_FT_HELLO:
		r->hellos++;
		break;
	case SLI_FT_OPENED:
		s->opened++;
		break;
	case SLI_FT_DATA:
		assert_true(r->mute || s->ended == 0);
		assert_true(r->mute || f->aux32 == (uint32_t)s->got);
		s->frames++;
		s->got += f->len;
		check_credit(r, f->sid);
		break;
	case SLI_FT_RESULT:
	case SLI_FT_RESET:
		s->ended++;
		s->status = f->aux16;
		break;
	case SLI_FT_BLOCKED:
		s->blocked++;
		break;
	case SLI_FT_PONG:
		r->pongs++;
		break;
	case SLI_FT_GOAWAY:
		r->goaways++;
		r->goaway_code = f->aux16;
		break;
	default:
		break;
	}
}

static void
frames(struct raw *r)
{
	struct sli_frame f;
	/* Of a connection that sent junk before HELLO: the answer to what may
	 * have been a preamble. */
	if (r->mute && !r->hellos) {
		sli_buf_reset(&r->in);
		return;
	}
	while (sli_buf_len(&r->in) >= SLI_FRAME_HDR) {
		const uint8_t *p = sli_buf_data(&r->in);
		assert_non_null(p);
		assert_int_equal(
		    sli_frame_get(p, SLI_SERVER, SLI_MAX_FRAME, &f, NULL),
		    SLI_OK);
		if (sli_buf_len(&r->in) < SLI_FRAME_HDR + f.len)
			return;
		frame(r, &f, p + SLI_FRAME_HDR);
		sli_buf_consume(&r->in, SLI_FRAME_HDR + f.len);
	}
}

int
raw_turn(struct raw *r, int timeout_ms)
{
	static uint8_t b[262144];
	if (r->fd < 0)
		return 0;
	struct pollfd pf = {r->fd, POLLIN, 0};
	if (poll(&pf, 1, timeout_ms) <= 0)
		return 0;
	ssize_t n = read(r->fd, b, sizeof(b));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		lost(r);
		return 1;
	}
	assert_int_equal(sli_buf_append(&r->in, b, (size_t)n), SLI_OK);
	frames(r);
	return 1;
}

void
raw_until(struct raw *r, int (*fn)(void *ctx), void *ctx, int timeout_ms,
    const char *what)
{
	int64_t until = world_now_ms() + timeout_ms;
	while (!fn(ctx)) {
		if (world_now_ms() > until)
			fail_msg("waited %d ms for: %s", timeout_ms, what);
		if (r->fd < 0)
			fail_msg("closed (code %u) while waiting for: %s",
			    r->goaway_code, what);
		(void)raw_turn(r, 20);
	}
}

struct want {
	const struct raw *r;
	uint32_t sid;
	uint64_t n;
};

static int
has_got(void *ctx)
{
	const struct want *k = ctx;
	return k->r->s[k->sid].got >= k->n;
}

void
raw_until_got(struct raw *r, uint32_t sid, uint64_t n, int timeout_ms)
{
	struct want k = {r, sid, n};
	char what[64];
	sli_snprintf(what, sizeof(what), "%llu bytes on stream %u, %llu came",
	    (unsigned long long)n, sid, (unsigned long long)r->s[sid].got);
	raw_until(r, has_got, &k, timeout_ms, what);
}

void
raw_until_closed(struct raw *r, unsigned code, int timeout_ms)
{
	int64_t until = world_now_ms() + timeout_ms;
	while (r->fd >= 0) {
		if (world_now_ms() > until)
			fail_msg("not closed within %d ms", timeout_ms);
		(void)raw_turn(r, 20);
	}
	if (code)
		assert_int_equal(r->goaway_code, code);
}
