/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* How connections end when the server does: GOAWAY in two phases, what runs
 * may end, what does not end is cut at the grace, and nothing is left. */
#include "t_conn.h"
#include "t_sock.h"
#include "unit.h"

#include "base/clock.h"
#include "link/link_nng.h"

#include "sluice/v1/server.pb-c.h"

#include <unistd.h>

static struct t_stream *
echo(struct t_client *cl)
{
	Sluice__V1__EchoRequest r = SLUICE__V1__ECHO_REQUEST__INIT;

	return t_client_call(cl, M_ECHO, &r.base, 1, 0);
}

static void
what_runs_may_end(void **state)
{
	struct t_conn w = {.stream_total = 1000, .stream_pad = 2000};
	struct t_client busy = {.hoard = 1}, idle = {0};
	struct sli_call more = {.method = M_ECHO, .end = 1};
	struct sli_link *l;
	struct t_stream *s, *late;
	struct sli_errinfo ei;
	uint32_t sid;
	int raw;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &busy);
	t_conn_client(&w, &idle);
	raw = t_connect(&w.addr);
	while (conns_count(w.conns) < 3)
		t_conn_turns(&w, 1);
	s = t_client_call(&busy, M_STATS, NULL, 1, 0);
	t_conn_run(&w, &s->opened);

	conns_drain(w.conns, 60000);
	/* Under way before the client could have heard. */
	late = echo(&busy);
	t_conn_run(&w, &late->done);
	assert_int_equal(late->status, SLI_OK);
	t_conn_run(&w, &idle.closed);
	assert_int_equal(idle.goaways, 2);
	assert_int_equal(idle.goaway_code, SLI_E_DRAINING);
	while (busy.goaways < 2)
		t_conn_turns(&w, 1);
	assert_int_equal(busy.last_stream, late->sid);
	assert_int_equal(
	    sli_mux_call(busy.mux, &more, 0, &sid, &ei), SLI_E_UNAVAILABLE);
	/* Nobody new; whoever had not said HELLO is gone. */
	assert_true(t_ended(raw));
	close(raw);
	assert_int_equal(sli_sock_dial(&w.addr, sli_mono_ms(), 1000, &l, NULL),
	    SLI_E_UNAVAILABLE);
	assert_false(s->done);
	while (conns_count(w.conns) > 1)
		t_conn_turns(&w, 1);
	busy.hoard = 0;
	t_client_release(&busy, s);
	t_conn_run(&w, &busy.closed);
	assert_int_equal(s->nmsg, 1000);
	assert_int_equal(s->status, SLI_OK);
	assert_int_equal(w.gone_why, SLI_OK);
	t_conn_stop(&w);
}

static void
what_does_not_end_is_cut(void **state)
{
	struct t_conn w = {.stream_total = 1000000, .stream_pad = 2000};
	struct t_client cl = {.hoard = 1};
	struct t_stream *s;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = t_client_call(&cl, M_STATS, NULL, 1, 0);
	t_conn_run(&w, &s->opened);
	conns_drain(w.conns, 200);
	conns_drain(w.conns, 200);
	t_conn_run(&w, &cl.closed);
	assert_int_equal(w.gone, 1);
	assert_int_equal(w.gone_why, SLI_E_CLOSED);
	t_conn_stop(&w);
}

static void
closed_with_everything_open(void **state)
{
	struct t_conn w = {.stream_total = 1000000, .stream_pad = 2000};
	struct t_client cl[4] = {{.hoard = 1}, {.hoard = 1}};
	struct t_stream *s;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	for (unsigned i = 0; i < 4; i++) {
		t_conn_client(&w, &cl[i]);
		s = t_client_call(&cl[i], M_STATS, NULL, 1, 0);
		t_conn_run(&w, &s->opened);
	}
	/* Not told, not drained: t_conn_stop frees the clients first, so here
	 * the server goes under them. */
	w.nclients = 0;
	t_conn_stop(&w);
	assert_int_equal(w.gone, 4);
	for (unsigned i = 0; i < 4; i++)
		t_client_free(&cl[i]);
}

/* A start that fails half-way: one address listens, the next cannot. */
static void
freed_without_close(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {0};
	struct sli_errinfo ei;
	char url[SLI_URL_MAX];

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	assert_int_equal(conns_listen(w.conns, conns_url(w.conns, 0, url), &ei),
	    SLI_E_ALREADY_EXISTS);
	assert_int_equal(conns_listen(w.conns, "tcp://127.0.0.1:0", &ei),
	    SLI_E_PERMISSION_DENIED);
	t_conn_client(&w, &cl);
	conns_free(w.conns);
	t_client_free(&cl);
	sli_link_nng_fini();
	loop_free(w.loop);
	t_rmdir(w.dir);
}

static int
start_and_free(void *ctx)
{
	struct conns_cfg cfg = {.methods = ctx};
	struct sli_limits limits;
	struct conns *cs = NULL;
	struct sli_errinfo ei;
	enum sli_err rc = SLI_E_NOMEM;

	sli_limits_init(&limits);
	cfg.limits = &limits;
	cfg.loop = loop_new(&ei);
	if (cfg.loop)
		rc = conns_new(&cfg, &cs, &ei);
	assert_true(rc == SLI_OK || rc == SLI_E_NOMEM);
	conns_free(cs);
	loop_free(cfg.loop);
	return rc == SLI_OK;
}

static void
each_allocation_fails_once(void **state)
{
	static struct svc_method methods[] = {
	    {0, NULL}
        };

	(void)state;
	unit_fail_each_alloc(start_and_free, methods);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_runs_may_end),
	    cmocka_unit_test(what_does_not_end_is_cut),
	    cmocka_unit_test(closed_with_everything_open),
	    cmocka_unit_test(freed_without_close),
	    cmocka_unit_test(each_allocation_fails_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
