/* SPDX-License-Identifier: Apache-2.0 */
/* Test server of links; see t_link.h. */
#include "t_link.h"
#include "t_sock.h"

#include "base/clock.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
end_recv(void *ctx, struct sli_slice b)
{
	struct t_end *e = ctx;

	e->got += b.n;
	if (e->rude) {
		sli_link_close(e->link);
		return;
	}
	if (e->echo && !sli_link_sending(e->link)) {
		struct sli_iov v;

		sli_free(e->out);
		e->out = sli_memdup(b.p, b.n);
		v = (struct sli_iov){e->out, b.n};
		sli_link_send(e->link, &v, 1);
	}
	sli_link_recv(e->link);
}

static void
end_sent(void *ctx)
{
	struct t_end *e = ctx;

	e->sent++;
}

static void
end_closed(void *ctx, const struct sli_errinfo *ei)
{
	struct t_end *e = ctx;

	assert_false(e->closed);
	e->closed = 1;
	e->why = ei->code;
	e->link = NULL;
	e->srv->alive--;
}

static const struct sli_link_sink end_sink = {end_recv, end_sent, end_closed};

static void
on_accepted(void *ctx, struct sli_link *l)
{
	struct t_server *s = ctx;
	struct t_end *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->srv = s;
	e->link = l;
	e->echo = s->echo;
	e->next = s->ends;
	s->ends = e;
	s->accepted++;
	s->alive++;
	e->rude = s->rude_each && s->accepted % (unsigned)s->rude_each == 0;
	sli_link_set_sink(l, &end_sink, e);
	sli_link_recv(l);
	sli_listener_accept(s->lis);
}

static void
on_failed(void *ctx, const struct sli_errinfo *ei)
{
	struct t_server *s = ctx;

	assert_int_equal(ei->code, SLI_E_RESOURCE_EXHAUSTED);
	s->failed++;
	if (!s->hold)
		sli_listener_accept(s->lis);
}

static void
on_lis_closed(void *ctx)
{
	((struct t_server *)ctx)->lis_closed = 1;
}

const struct sli_listener_sink t_server_sink = {
    on_accepted, on_failed, on_lis_closed};

void
t_server_start(struct t_server *s, int tcp)
{
	struct sli_addr a = {
	    .kind = SLI_ADDR_TCP, .host = "127.0.0.1", .loopback = 1};
	struct sli_errinfo ei;

	memset(s, 0, sizeof(*s));
	s->loop = loop_new(NULL);
	assert_non_null(s->loop);
	t_tmpdir(s->dir);
	if (!tcp)
		a = t_unix(s->dir, "s");
	assert_int_equal(sli_listener_new(&a, loop_mailbox(s->loop),
			     &t_server_sink, s, &s->lis, &ei),
	    SLI_OK);
	sli_listener_accept(s->lis);
}

/* Turn the loop until *flag >= want, at most 10 s. */
void
t_server_turn(struct t_server *s, const unsigned *flag, unsigned want)
{
	int64_t end = sli_mono_ms() + 10000;

	while (*flag < want) {
		assert_true(sli_mono_ms() < end);
		loop_turn(s->loop, 100);
	}
}

void
t_server_turn_flag(struct t_server *s, const int *flag)
{
	int64_t end = sli_mono_ms() + 10000;

	while (!*flag) {
		assert_true(sli_mono_ms() < end);
		loop_turn(s->loop, 100);
	}
}

void
t_server_stop(struct t_server *s)
{
	int64_t end = sli_mono_ms() + 10000;

	sli_listener_close(s->lis);
	sli_listener_close(s->lis);
	for (struct t_end *e = s->ends; e; e = e->next)
		if (e->link)
			sli_link_close(e->link);
	while (!s->lis_closed || s->alive > 0) {
		assert_true(sli_mono_ms() < end);
		loop_turn(s->loop, 100);
	}
	while (s->ends) {
		struct t_end *e = s->ends;

		s->ends = e->next;
		sli_free(e->out);
		free(e);
	}
	sli_link_nng_fini();
	loop_free(s->loop);
	t_rmdir(s->dir);
}

int
t_server_dial(struct t_server *s)
{
	unsigned want = s->accepted + 1;
	int fd = t_connect(sli_listener_addr(s->lis));

	t_server_turn(s, &s->accepted, want);
	return fd;
}
