/* SPDX-License-Identifier: Apache-2.0 */
/* Test service behind real connections; see t_conn.h. */
#include "t_conn.h"
#include "t_sock.h"

#include "base/clock.h"
#include "base/str.h"
#include "link/link_nng.h"

#include "sluice/v1/processes.pb-c.h"
#include "sluice/v1/server.pb-c.h"
#include "sluice/v1/sessions.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* conn/ passes struct svc through without looking. */
static struct t_conn *
world(struct svc *svc)
{
	return (struct t_conn *)(void *)svc;
}

static void
op_gone(void *ctx, enum sli_err why)
{
	struct t_op *op = ctx;

	op->w->gone++;
	op->w->gone_why = why;
	if (op->w->last == op)
		op->w->last = NULL;
	sli_buf_free(&op->echo);
	free(op);
}

static void
op_acked(void *ctx, uint64_t offset)
{
	((struct t_op *)ctx)->acked = offset;
}

static void
op_end(void *ctx)
{
	struct t_op *op = ctx;

	assert_false(op->ended);
	op->ended = 1;
	svc_ready(op->call);
}

static struct t_op *
op_new(struct t_conn *w, struct svc_call c)
{
	struct t_op *op = calloc(1, sizeof(*op)); /* never fails on purpose */

	assert_non_null(op);
	op->w = w;
	op->call = c;
	op->total = w->stream_total;
	op->pad = w->stream_pad;
	op->fail_at = w->stream_fail_at;
	sli_buf_init(&op->echo, 16u << 20);
	w->last = op;
	return op;
}

/* --- echo --- */

static void
do_echo(struct svc *svc, struct svc_call c, const ProtobufCMessage *req)
{
	const Sluice__V1__EchoRequest *r = (const void *)req;
	Sluice__V1__EchoResponse m = SLUICE__V1__ECHO_RESPONSE__INIT;
	struct sli_slice body = sli_slice_of(r->body.data, r->body.len);
	static uint8_t big[100000];
	struct t_conn *w = world(svc);

	w->who = *svc_principal(c);
	assert_true(svc_alive(c));
	assert_true(sli_slice_is(svc_key(c), "key-1"));
	m.body = r->body;
	if (sli_slice_is(body, "hang")) {
		w->hung[w->nhung++] = c;
	} else if (sli_slice_is(body, "totals")) {
		svc_conn_totals(c, &w->totals, &w->nconns);
		svc_reply(c, &m.base);
	} else if (sli_slice_is(body, "big")) {
		m.body.data = big;
		m.body.len = sizeof(big);
		svc_reply(c, &m.base);
	} else {
		svc_reply(c, &m.base);
		assert_false(svc_alive(c));
		svc_reply(c, &m.base); /* of no effect */
	}
}

/* --- counter --- */

static size_t
count_pull(void *ctx, uint8_t *dst, size_t room)
{
	struct t_op *op = ctx;
	struct sli_errinfo ei;
	size_t n;

	(void)room;
	assert_false(op->finished);
	if (op->fail_at && op->next == (unsigned)op->fail_at) {
		op->finished = 1;
		sli_fail(&ei, SLI_E_DATA_LOSS, 0, "test", "lost it");
		svc_fail(op->call, &ei);
		return 0;
	}
	if (op->next == op->total) {
		op->finished = 1;
		svc_finish(op->call);
		return 0;
	}
	n = sli_snprintf((char *)dst, 64, "m%u", op->next++);
	if (op->pad > n) {
		memset(dst + n, '.', op->pad - n);
		n = op->pad;
	}
	return n;
}

static const struct svc_stream_ops count_ops = {
    .pull = count_pull, .acked = op_acked, .gone = op_gone};

static void
do_stats(struct svc *svc, struct svc_call c, const ProtobufCMessage *req)
{
	(void)req;
	assert_int_equal(
	    svc_open(c, &count_ops, op_new(world(svc), c)), SLI_OK);
	svc_ready(c);
}

/* --- bidi echo --- */

static size_t
echo_pull(void *ctx, uint8_t *dst, size_t room)
{
	struct t_op *op = ctx;
	struct sli_slice s = sli_buf_slice(&op->echo);
	uint32_t n;

	(void)room;
	if (s.n == 0) {
		if (op->ended && !op->finished) {
			op->finished = 1;
			svc_finish(op->call);
		}
		return 0;
	}
	memcpy(&n, s.p, sizeof(n));
	memcpy(dst, s.p + sizeof(n), n);
	sli_buf_consume(&op->echo, sizeof(n) + n);
	svc_release(op->call, n);
	return n;
}

static void
echo_message(void *ctx, struct sli_slice msg)
{
	struct t_op *op = ctx;
	uint32_t n = (uint32_t)msg.n;
	uint8_t *p = sli_buf_reserve(&op->echo, sizeof(n) + msg.n);
	struct sli_errinfo ei;

	assert_false(op->ended);
	if (!p) {
		op->finished = 1;
		sli_fail(&ei, SLI_E_NOMEM, 0, "test", "no memory");
		svc_fail(op->call, &ei);
		return;
	}
	op->nmsg++;
	op->got += msg.n;
	memcpy(p, &n, sizeof(n));
	memcpy(p + sizeof(n), msg.p, msg.n);
	sli_buf_added(&op->echo, sizeof(n) + msg.n);
	svc_ready(op->call);
}

static const struct svc_stream_ops echo_ops = {.pull = echo_pull,
    .acked = op_acked,
    .message = echo_message,
    .end = op_end,
    .gone = op_gone};

void
t_conn_open_echo(struct t_conn *w, struct svc_call c)
{
	struct t_op *op = op_new(w, c);

	if (svc_open(c, &echo_ops, op) != SLI_OK) {
		w->last = NULL;
		free(op);
	}
}

static void
do_exec(struct svc *svc, struct svc_call c, const ProtobufCMessage *req)
{
	const Sluice__V1__ExecInput *in = (const void *)req;
	struct t_conn *w = world(svc);

	/* A spec in the first message: the test opens the stream later. */
	if (in->kind_case == SLUICE__V1__EXEC_INPUT__KIND_SPEC) {
		w->hung[w->nhung++] = c;
		return;
	}
	assert_int_equal(svc_open(c, &echo_ops, op_new(w, c)), SLI_OK);
	assert_int_equal(
	    svc_open(c, &echo_ops, NULL), SLI_E_FAILED_PRECONDITION);
}

static void
do_attach(struct svc *svc, struct svc_call c, const ProtobufCMessage *req)
{
	struct t_conn *w = world(svc);

	(void)req;
	w->hung[w->nhung++] = c;
}

/* --- upload --- */

static void
up_message(void *ctx, struct sli_slice msg)
{
	struct t_op *op = ctx;

	op->nmsg++;
	op->got += msg.n;
	if (op->w->take)
		svc_release(op->call, msg.n);
	else
		op->owed += msg.n;
}

static void
up_end(void *ctx)
{
	Sluice__V1__PromptResponse m = SLUICE__V1__PROMPT_RESPONSE__INIT;
	struct t_op *op = ctx;

	op->ended = 1;
	m.turn = op->got;
	svc_reply(op->call, &m.base);
}

static const struct svc_stream_ops up_ops = {
    .message = up_message, .end = up_end, .gone = op_gone};

static void
do_prompt(struct svc *svc, struct svc_call c, const ProtobufCMessage *req)
{
	(void)req;
	assert_int_equal(svc_open(c, &up_ops, op_new(world(svc), c)), SLI_OK);
}

static const struct svc_method methods[] = {
    {M_ECHO,   do_echo  },
    {M_STATS,  do_stats },
    {M_EXEC,   do_exec  },
    {M_ATTACH, do_attach},
    {M_PROMPT, do_prompt},
    {0,	NULL     },
};

/* --- the world --- */

void
t_conn_start(struct t_conn *w)
{
	char dir[sizeof(w->dir)];

	t_tmpdir(dir);
	t_conn_start_in(w, dir);
}

void
t_conn_start_in(struct t_conn *w, const char *dir)
{
	struct conns_cfg cfg = {
	    .methods = methods,
	    .svc = (struct svc *)(void *)w,
	    .limits = &w->limits,
	    .owner_uid = geteuid(),
	    .insecure_loopback = w->tcp,
	    .boot_id = {1, 2, 3},
	};
	char url[SLI_URL_MAX];
	struct sli_errinfo ei;

	sli_strlcpy(w->dir, dir, sizeof(w->dir));
	w->loop = cfg.loop = loop_new(&ei);
	assert_non_null(w->loop);
	assert_int_equal(conns_new(&cfg, &w->conns, &ei), SLI_OK);
	if (w->tcp) {
		sli_strlcpy(url, "tcp://127.0.0.1:0", sizeof(url));
	} else {
		w->addr = t_unix(w->dir, "s");
		sli_addr_format(&w->addr, url, sizeof(url));
	}
	assert_int_equal(conns_listen(w->conns, url, &ei), SLI_OK);
	assert_int_equal(
	    sli_addr_parse(conns_url(w->conns, 0, url), &w->addr, &ei), SLI_OK);
	assert_string_equal(conns_url(w->conns, 1, url), "");
}

static void
on_done(void *ctx)
{
	struct t_conn *w = ctx;

	assert_false(w->done);
	w->done = 1;
	conns_free(w->conns);
}

void
t_conn_stop(struct t_conn *w)
{
	for (unsigned i = 0; i < w->nclients; i++)
		t_client_free(w->clients[i]);
	w->nclients = 0;
	conns_close(w->conns, on_done, w);
	t_conn_run(w, &w->done);
	sli_link_nng_fini();
	loop_free(w->loop);
	t_rmdir(w->dir);
}

void
t_conn_turns(struct t_conn *w, unsigned turns)
{
	while (turns-- > 0) {
		loop_turn(w->loop, 1);
		for (unsigned i = 0; i < w->nclients; i++)
			(void)t_client_step(w->clients[i]);
	}
}

void
t_conn_run(struct t_conn *w, const int *flag)
{
	int64_t end = sli_mono_ms() + 10000;

	while (!*flag) {
		assert_true(sli_mono_ms() < end);
		t_conn_turns(w, 1);
	}
}

void
t_conn_client(struct t_conn *w, struct t_client *cl)
{
	t_client_dial(cl, &w->addr);
	assert_true(w->nclients < SLI_ARRAY_LEN(w->clients));
	w->clients[w->nclients++] = cl;
	t_conn_run(w, &cl->hello);
}

void
t_conn_totals(struct t_conn *w, struct t_client *cl)
{
	Sluice__V1__EchoRequest r = SLUICE__V1__ECHO_REQUEST__INIT;
	struct t_stream *s;

	r.body.data = (uint8_t *)(uintptr_t) "totals";
	r.body.len = 6;
	s = t_client_call(cl, M_ECHO, &r.base, 1, 0);
	t_conn_run(w, &s->done);
}
