/* SPDX-License-Identifier: Apache-2.0 */
/* The fake server; see fakesrv.h. */
#include "fakesrv.h"

#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "t_sock.h"
#include "wire/preamble.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define QUEUE_MAX ((size_t)64 * 1024 * 1024)

static struct fake_stream *
st(struct fake *f, uint32_t sid)
{
	assert_in_range(sid, 1, FAKE_SIDS_MAX - 1);
	return &f->st[sid];
}

static void
put(struct sli_buf *b, const void *p, size_t n)
{
	uint32_t len = (uint32_t)n;

	assert_int_equal(sli_buf_append(b, &len, sizeof(len)), SLI_OK);
	assert_int_equal(sli_buf_append(b, p, n), SLI_OK);
}

static size_t
take(struct sli_buf *b, uint8_t *dst)
{
	struct sli_slice q = sli_buf_slice(b);
	uint32_t len;

	if (!q.p || q.n == 0)
		return 0;
	memcpy(&len, q.p, sizeof(len));
	memcpy(dst, q.p + sizeof(len), len);
	sli_buf_consume(b, sizeof(len) + len);
	return len;
}

/* --- sink ----------------------------------------------------------------*/

static void
on_hello(void *ctx, const struct sli_peer_hello *peer)
{
	struct fake *f = ctx;

	f->keepalive_s = peer->keepalive_s;
	(void)sli_strlcpy(f->agent, peer->agent, sizeof(f->agent));
}

static void
on_call(void *ctx, uint32_t sid, const struct sli_call *call)
{
	struct fake *f = ctx;
	struct fake_call *k = &f->call[f->calls++];

	assert_true(f->calls <= FAKE_CALLS_MAX);
	k->sid = sid;
	k->method = call->method;
	k->end = call->end;
	k->req_len = SLI_MIN(call->request.n, sizeof(k->req));
	if (k->req_len)
		memcpy(k->req, call->request.p, k->req_len);
	if (call->idempotency_key.n)
		memcpy(
		    k->key, call->idempotency_key.p, call->idempotency_key.n);
	k->key[call->idempotency_key.n] = '\0';
}

static void
on_data(void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes)
{
	struct fake *f = ctx;
	struct fake_stream *s = st(f, sid);

	(void)offset;
	put(&s->in, bytes.p, bytes.n);
	s->held += bytes.n;
	if (!f->hold)
		fake_release(f, sid, bytes.n);
}

static void
on_end(void *ctx, uint32_t sid)
{
	st(ctx, sid)->ended = 1;
}

static void
on_acked(void *ctx, uint32_t sid, uint64_t acked)
{
	st(ctx, sid)->acked = acked;
}

static void
on_reset(void *ctx, uint32_t sid, uint16_t code)
{
	struct fake *f = ctx;
	struct fake_stream *s = st(f, sid);

	s->reset = 1;
	s->reset_code = code;
	/* The handler's duty: end what was given up. */
	sli_mux_reset(f->mux, sid, SLI_E_CANCELED);
}

static void
on_stop(void *ctx, uint32_t sid, uint16_t code)
{
	(void)code;
	st(ctx, sid)->stopped = 1;
}

static void
on_gone(void *ctx, uint32_t sid)
{
	st(ctx, sid)->gone = 1;
}

static size_t
on_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	struct fake_stream *s = st(ctx, sid);
	size_t n = take(&s->out, dst);

	(void)room;
	s->sent += n;
	return n;
}

static void
on_result(void *ctx, uint32_t sid, uint16_t status, struct sli_slice trailers,
    struct sli_slice body)
{
	(void)ctx;
	(void)sid;
	(void)status;
	(void)trailers;
	(void)body;
}

static void
on_opened(void *ctx, uint32_t sid, uint64_t start, uint64_t received)
{
	(void)ctx;
	(void)sid;
	(void)start;
	(void)received;
}

static void
on_gap(void *ctx, uint32_t sid, uint64_t offset, uint64_t lost)
{
	(void)ctx;
	(void)sid;
	(void)offset;
	(void)lost;
}

static void
on_goaway(void *ctx, uint32_t last, uint32_t grace, uint16_t code,
    struct sli_slice text)
{
	(void)ctx;
	(void)last;
	(void)grace;
	(void)code;
	(void)text;
}

static const struct sli_mux_sink sink = {
    .hello = on_hello,
    .call = on_call,
    .opened = on_opened,
    .data = on_data,
    .end = on_end,
    .acked = on_acked,
    .result = on_result,
    .reset = on_reset,
    .stop = on_stop,
    .gap = on_gap,
    .goaway = on_goaway,
    .gone = on_gone,
    .pull = on_pull,
};

/* --- socket --------------------------------------------------------------*/

void
fake_start(struct fake *f)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	t_tmpdir(f->dir);
	(void)sli_snprintf(un.sun_path, sizeof(un.sun_path), "%s/s", f->dir);
	(void)sli_snprintf(f->url, sizeof(f->url), "unix://%s", un.sun_path);
	f->lfd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_true(f->lfd >= 0);
	assert_int_equal(
	    bind(f->lfd, (struct sockaddr *)(void *)&un, sizeof(un)), 0);
	assert_int_equal(listen(f->lfd, 4), 0);
	sli_buf_init(&f->tx, (size_t)4 * 1024 * 1024);
	for (size_t i = 0; i < FAKE_SIDS_MAX; i++) {
		sli_buf_init(&f->st[i].in, QUEUE_MAX);
		sli_buf_init(&f->st[i].out, QUEUE_MAX);
	}
}

void
fake_cut(struct fake *f)
{
	sli_mux_free(f->mux);
	f->mux = NULL;
	f->npre = 0;
	sli_fd_close(&f->fd);
	sli_buf_reset(&f->tx);
}

void
fake_stop(struct fake *f)
{
	fake_cut(f);
	sli_fd_close(&f->lfd);
	sli_buf_free(&f->tx);
	for (size_t i = 0; i < FAKE_SIDS_MAX; i++) {
		sli_buf_free(&f->st[i].in);
		sli_buf_free(&f->st[i].out);
	}
	t_rmdir(f->dir);
}

/* Bytes of the client's preamble at the front; answers when it is whole. */
static struct sli_slice
preamble(struct fake *f, struct sli_slice b)
{
	struct sli_mux_cfg cfg = {.role = SLI_SERVER, .agent = "fake/1"};
	size_t n = SLI_MIN(b.n, sizeof(f->pre) - f->npre);
	struct sli_preamble p;
	struct sli_preamble_answer a;
	uint8_t answer[SLI_PREAMBLE_LEN];

	memcpy(f->pre + f->npre, b.p, n);
	f->npre += n;
	if (f->npre == sizeof(f->pre) && !f->mux) {
		assert_int_equal(sli_preamble_get(f->pre, &p, NULL), SLI_OK);
		assert_int_equal(
		    sli_preamble_choose(&p, SLI_SEC_NONE, &a), SLI_OK);
		sli_preamble_answer_put(answer, &a);
		assert_int_equal(
		    sli_buf_append(&f->tx, answer, sizeof(answer)), SLI_OK);
		f->mux = sli_mux_new(&cfg, &sink, f);
		assert_non_null(f->mux);
	}
	return sli_slice_of(b.p + n, b.n - n);
}

static size_t
receive(struct fake *f)
{
	static uint8_t buf[65536];
	struct sli_slice b;
	struct sli_errinfo ei;
	ssize_t n = recv(f->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n < 0) {
		assert_true(errno == EAGAIN || errno == ECONNRESET);
		return 0;
	}
	if (n == 0) {
		fake_cut(f);
		return 0;
	}
	b = sli_slice_of(buf, (size_t)n);
	if (f->npre < sizeof(f->pre))
		b = preamble(f, b);
	if (b.n != 0 && sli_mux_input(f->mux, sli_mono_ms(), b, &ei) != SLI_OK)
		fail_msg("fake server: %s", ei.text);
	return (size_t)n;
}

static size_t
transmit(struct fake *f)
{
	ssize_t n;

	if (f->mux && sli_buf_len(&f->tx) < SLI_MUX_BATCH_MAX)
		assert_int_equal(
		    sli_mux_output(f->mux, sli_mono_ms(), &f->tx), SLI_OK);
	if (sli_buf_len(&f->tx) == 0)
		return 0;
	n = send(f->fd, sli_buf_data(&f->tx), sli_buf_len(&f->tx),
	    MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n <= 0)
		return 0;
	sli_buf_consume(&f->tx, (size_t)n);
	return (size_t)n;
}

size_t
fake_step(struct fake *f)
{
	size_t moved = 0;

	if (f->fd < 0)
		f->fd = accept4(f->lfd, NULL, NULL, SOCK_CLOEXEC);
	if (f->fd < 0)
		return 0;
	moved = receive(f);
	if (f->fd >= 0)
		moved += transmit(f);
	return moved;
}

static int
ready(const sluice_client *c)
{
	struct pollfd p = {
	    .fd = sluice_fd(c), .events = (short)sluice_events(c)};

	return sluice_timeout_ms(c) == 0 || poll(&p, 1, 0) > 0;
}

void
fake_turn(struct fake *f, sluice_client *c, const int *flag)
{
	int64_t end = sli_mono_ms() + 10000;
	int idle = 0;

	while (flag ? !*flag : idle < 3) {
		size_t moved = fake_step(f);

		if (ready(c)) {
			if (sluice_process(c, NULL) != SLUICE_OK && !flag)
				break;
			moved++;
		}
		idle = moved ? 0 : idle + 1;
		if (idle && flag && sluice_fd(c) >= 0) {
			struct pollfd p = {.fd = sluice_fd(c),
			    .events = (short)sluice_events(c)};

			(void)poll(&p, 1, 5);
		}
		if (sli_mono_ms() > end)
			fail_msg("nothing happened for 10 s");
	}
}

static void
mark_ready(void *arg, sluice_client *c)
{
	(void)c;
	*(int *)arg = 1;
}

sluice_client *
fake_client(struct fake *f, const struct sluice_options *o)
{
	struct sluice_options mine;
	struct sluice_error err = {.size = sizeof(err)};
	sluice_client *c;
	int up = 0;

	SLUICE_INIT(mine);
	if (o)
		mine = *o;
	else
		mine.arg = &up;
	if (!o)
		mine.on_ready = mark_ready;
	if (sluice_open(f->url, &mine, &c, &err) != SLUICE_OK)
		fail_msg("open: %s", err.text);
	fake_turn(f, c, o ? NULL : &up);
	return c;
}

/* --- answers -------------------------------------------------------------*/

void
fake_send(struct fake *f, uint32_t sid, const void *p, size_t n)
{
	put(&st(f, sid)->out, p, n);
	sli_mux_ready(f->mux, sid);
}

void
fake_ok(struct fake *f, uint32_t sid, const void *body, size_t n)
{
	assert_int_equal(sli_mux_result(f->mux, sid, 0, sli_slice_of(NULL, 0),
			     sli_slice_of(body, n)),
	    SLI_OK);
}

void
fake_fail(
    struct fake *f, uint32_t sid, uint16_t status, const void *tr, size_t n)
{
	assert_int_equal(sli_mux_result(f->mux, sid, status,
			     sli_slice_of(tr, n), sli_slice_of(NULL, 0)),
	    SLI_OK);
}

void
fake_release(struct fake *f, uint32_t sid, uint64_t n)
{
	struct fake_stream *s = st(f, sid);

	s->held -= n;
	sli_mux_release(f->mux, sid, n);
}

long
fake_take(struct fake *f, uint32_t sid, uint8_t *dst)
{
	size_t n = take(&st(f, sid)->in, dst);

	return n ? (long)n : -1;
}
