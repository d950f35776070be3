/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* Calls over a real unix socket: refusals, unary, the three kinds of streams,
 * deadlines, cancels, clients that vanish. Every call ends exactly once. */
#include "t_conn.h"
#include "unit.h"

#include "base/mem.h"
#include "conn/call.h"
#include "conn/conn.h"
#include "wire/guard.h"

#include "sluice/v1/core.pb-c.h"
#include "sluice/v1/processes.pb-c.h"
#include "sluice/v1/server.pb-c.h"
#include "sluice/v1/sessions.pb-c.h"

static struct t_stream *
echo(struct t_client *cl, const char *body, uint32_t timeout_ms)
{
	Sluice__V1__EchoRequest r = SLUICE__V1__ECHO_REQUEST__INIT;

	r.body.data = (uint8_t *)(uintptr_t)body;
	r.body.len = strlen(body);
	return t_client_call(cl, M_ECHO, &r.base, 1, timeout_ms);
}

static struct t_stream *
bidi(struct t_client *cl, int with_spec)
{
	Sluice__V1__ExecInput in = SLUICE__V1__EXEC_INPUT__INIT;
	Sluice__V1__ExecSpec spec = SLUICE__V1__EXEC_SPEC__INIT;

	if (with_spec) {
		in.kind_case = SLUICE__V1__EXEC_INPUT__KIND_SPEC;
		in.spec = &spec;
	}
	return t_client_call(cl, M_EXEC, &in.base, 0, 0);
}

/* The Status of a failed call; its arena is the caller's. */
static Sluice__V1__Status *
status_of(struct t_stream *s, struct sli_arena *a)
{
	ProtobufCMessage *m;

	sli_arena_init(a, 1u << 16);
	m = sli_msg_unpack(&sluice__v1__status__descriptor,
	    sli_buf_slice(&s->trailers), a, NULL);
	assert_non_null(m);
	return (Sluice__V1__Status *)(void *)m;
}

static void
refusals(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {0};
	Sluice__V1__PromptPart part = SLUICE__V1__PROMPT_PART__INIT;
	struct t_stream *s;
	struct sli_arena a;
	struct conn *c;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = t_client_call(&cl, 999, NULL, 1, 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_E_UNIMPLEMENTED);
	/* In the .proto, but nobody handles it. */
	s = t_client_call(&cl, 2, NULL, 1, 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_E_UNIMPLEMENTED);
	assert_int_equal(status_of(s, &a)->code, SLI_E_UNIMPLEMENTED);
	sli_arena_free(&a);
	/* A string that is not UTF-8. */
	part.session = (char *)(uintptr_t) "\xff\xfe";
	s = t_client_call(&cl, M_PROMPT, &part.base, 1, 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_E_MALFORMED);
	/* Below the method's role. */
	c = SLI_LIST_ENTRY(w.conns->conns.next, struct conn, node);
	c->who.role = SLI_ROLE_VIEWER;
	s = bidi(&cl, 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_E_PERMISSION_DENIED);
	s = echo(&cl, "still works", 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_OK);
	t_conn_stop(&w);
}

static void
unary(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {0};
	Sluice__V1__EchoResponse *r;
	struct t_stream *s;
	struct sli_arena a;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = echo(&cl, "hello", 0);
	t_conn_run(&w, &s->gone);
	assert_int_equal(s->status, SLI_OK);
	sli_arena_init(&a, 4096);
	r = (void *)sli_msg_unpack(&sluice__v1__echo_response__descriptor,
	    sli_buf_slice(&s->body), &a, NULL);
	assert_non_null(r);
	assert_memory_equal(r->body.data, "hello", 5);
	sli_arena_free(&a);
	assert_int_equal(w.who.role, SLI_ROLE_ADMIN);
	assert_int_equal(w.who.tenant, 1);
	/* An answer that does not fit is our fault and says so. */
	s = echo(&cl, "big", 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_E_INTERNAL);
	t_conn_totals(&w, &cl);
	assert_int_equal(w.nconns, 1);
	assert_int_equal(w.totals.inflight, 0);
	assert_int_equal(w.totals.unreleased, 0);
	t_conn_stop(&w);
}

static void
counter_under_credit(void **state)
{
	struct t_conn w = {.stream_total = 3000, .stream_pad = 1000};
	struct t_client cl = {.hoard = 1};
	struct t_stream *s;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = t_client_call(&cl, M_STATS, NULL, 1, 0);
	t_conn_turns(&w, 50);
	/* A consumer that takes nothing gets one window and no more. */
	assert_true(s->opened && !s->done);
	assert_in_range(sli_buf_len(&s->data), 1000, 512 * 1024);
	t_conn_totals(&w, &cl);
	assert_int_equal(w.totals.inflight, sli_buf_len(&s->data));
	assert_int_equal(w.totals.streams, 2);
	/* Others go on meanwhile. */
	cl.hoard = 0;
	t_client_release(&cl, s);
	t_conn_run(&w, &s->gone);
	assert_int_equal(s->status, SLI_OK);
	assert_int_equal(s->nmsg, 3000);
	assert_memory_equal(sli_buf_data(&s->data) + 1000, "m1...", 5);
	t_conn_totals(&w, &cl);
	assert_int_equal(w.totals.inflight, 0);
	assert_int_equal(w.gone, 1);
	assert_int_equal(w.gone_why, SLI_OK);
	t_conn_stop(&w);
}

static void
stream_that_fails(void **state)
{
	struct t_conn w = {.stream_total = 10, .stream_fail_at = 3};
	struct t_client cl = {0};
	struct t_stream *s;
	struct sli_arena a;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = t_client_call(&cl, M_STATS, NULL, 1, 0);
	t_conn_run(&w, &s->gone);
	assert_int_equal(s->nmsg, 3);
	assert_int_equal(s->status, SLI_E_DATA_LOSS);
	assert_string_equal(status_of(s, &a)->message, "lost it");
	sli_arena_free(&a);
	t_conn_run(&w, &w.gone);
	t_conn_stop(&w);
}

static void
bidi_echo(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {0};
	struct t_stream *s;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = bidi(&cl, 0);
	t_client_send(&cl, s, 500, 5000, 1);
	t_conn_run(&w, &s->gone);
	assert_int_equal(s->nmsg, 500);
	assert_int_equal(sli_buf_len(&s->data), 500 * 5000);
	assert_int_equal(s->status, SLI_OK);
	t_conn_totals(&w, &cl);
	assert_int_equal(w.totals.unreleased + w.totals.inflight, 0);
	t_conn_stop(&w);
}

static void
upload_waits_for_the_engine(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {0};
	Sluice__V1__PromptResponse *r;
	struct t_stream *s;
	struct sli_arena a;
	uint64_t owed;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = t_client_call(&cl, M_PROMPT, NULL, 0, 5000);
	t_client_send(&cl, s, 1000, 4000, 1);
	t_conn_turns(&w, 100);
	assert_non_null(w.last);
	owed = w.last->owed;
	assert_in_range(owed, 4000, 512 * 1024);
	assert_int_equal(s->acked, 0);
	t_conn_totals(&w, &cl);
	assert_int_equal(w.totals.unreleased, owed);
	w.take = 1;
	svc_release(w.last->call, owed);
	t_conn_run(&w, &s->gone);
	assert_int_equal(s->status, SLI_OK);
	sli_arena_init(&a, 4096);
	r = (void *)sli_msg_unpack(&sluice__v1__prompt_response__descriptor,
	    sli_buf_slice(&s->body), &a, NULL);
	assert_int_equal(r->turn, 4000000);
	sli_arena_free(&a);
	t_conn_stop(&w);
}

/* Messages and END that come before the handler opens the stream. */
static void
opened_late(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {0};
	struct t_stream *s, *probe;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = bidi(&cl, 1);
	t_client_send(&cl, s, 3, 10, 1);
	probe = echo(&cl, "x", 0);
	t_conn_run(&w, &probe->done);
	t_conn_turns(&w, 3);
	assert_int_equal(w.nhung, 1);
	assert_false(s->opened);
	t_conn_open_echo(&w, w.hung[0]);
	assert_int_equal(w.last->nmsg, 0);
	t_conn_run(&w, &s->gone);
	assert_int_equal(s->nmsg, 3);
	assert_int_equal(s->status, SLI_OK);
	/* A stream that takes no messages refuses them. */
	s = t_client_call(&cl, M_STATS, NULL, 0, 0);
	w.stream_total = 1000000;
	t_client_send(&cl, s, 1, 10, 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_E_INVALID_ARGUMENT);
	t_conn_run(&w, &s->gone);
	t_conn_totals(&w, &cl);
	assert_int_equal(w.gone, 2);
	t_conn_stop(&w);
}

static void
deadlines(void **state)
{
	struct t_conn w = {.stream_total = 1000000, .stream_pad = 1000};
	struct t_client cl = {.hoard = 1};
	struct t_stream *s, *t;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = echo(&cl, "hang", 30);
	t = t_client_call(&cl, M_STATS, NULL, 1, 40);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_E_DEADLINE_EXCEEDED);
	t_conn_run(&w, &t->done);
	assert_int_equal(t->status, SLI_E_DEADLINE_EXCEEDED);
	assert_int_equal(w.gone, 1);
	assert_int_equal(w.gone_why, SLI_E_DEADLINE_EXCEEDED);
	/* The late answer goes nowhere, twice. */
	assert_false(svc_alive(w.hung[0]));
	assert_int_equal(svc_principal(w.hung[0])->tenant, 1);
	svc_finish(w.hung[0]);
	assert_int_equal(svc_principal(w.hung[0])->tenant, 0);
	svc_finish(w.hung[0]);
	s = echo(&cl, "next", 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_OK);
	t_conn_stop(&w);
}

static void
cancels(void **state)
{
	struct t_conn w = {.stream_total = 1000000, .stream_pad = 100};
	struct t_client cl = {.hoard = 1};
	struct t_stream *s;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	s = t_client_call(&cl, M_STATS, NULL, 1, 0);
	t_conn_run(&w, &s->opened);
	sli_mux_stop(cl.mux, s->sid, SLI_E_CANCELED);
	t_conn_run(&w, &s->gone);
	assert_int_equal(s->status, SLI_E_CANCELED);
	assert_int_equal(w.gone, 1);
	assert_int_equal(w.gone_why, SLI_E_CANCELED);
	s = t_client_call(&cl, M_STATS, NULL, 1, 0);
	t_conn_run(&w, &s->opened);
	sli_mux_reset(cl.mux, s->sid, SLI_E_CANCELED);
	t_conn_run(&w, &s->gone);
	t_conn_turns(&w, 5);
	assert_int_equal(w.gone, 2);
	assert_int_equal(w.gone_why, SLI_E_CANCELED);
	t_conn_totals(&w, &cl);
	assert_int_equal(w.totals.inflight, 0);
	assert_int_equal(w.totals.streams, 1);
	assert_int_equal(w.totals.calls, 1);
	t_conn_stop(&w);
}

/* Rapid CALL + RESET: handlers that still work count against the caller. */
static void
abandoned_handlers_count(void **state)
{
	struct t_conn w = {0};
	struct t_client cl = {0};
	struct t_stream *s = NULL;
	struct sli_arena a;
	Sluice__V1__Status *st;
	unsigned max;

	(void)state;
	sli_limits_init(&w.limits);
	w.limits.v[SLI_L_WIRE_MAX_STREAMS] = 20;
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	max = cl.peer.max_streams;
	assert_int_equal(max, 20);
	for (unsigned i = 0; i < max; i++) {
		s = echo(&cl, "hang", 0);
		t_conn_turns(&w, 1);
		sli_mux_reset(cl.mux, s->sid, SLI_E_CANCELED);
		t_conn_run(&w, &s->gone);
	}
	t_conn_turns(&w, 3);
	assert_int_equal(w.nhung, max);
	s = echo(&cl, "hang", 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(w.nhung, max);
	assert_int_equal(s->status, SLI_E_RESOURCE_EXHAUSTED);
	st = status_of(s, &a);
	assert_true(st->retryable);
	assert_int_equal(st->n_limits, 1);
	assert_string_equal(st->limits[0]->key, "wire.max_streams");
	assert_string_equal(st->limits[0]->scope, "connection");
	assert_int_equal(st->limits[0]->limit, max);
	sli_arena_free(&a);
	svc_finish(w.hung[0]);
	s = echo(&cl, "room again", 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_OK);
	t_conn_stop(&w);
}

static void
client_vanishes(void **state)
{
	struct t_conn w = {.stream_total = 1000000, .stream_pad = 100};
	struct t_client cl = {.hoard = 1}, other = {0};
	struct t_stream *s;

	(void)state;
	sli_limits_init(&w.limits);
	t_conn_start(&w);
	t_conn_client(&w, &cl);
	echo(&cl, "hang", 0);
	bidi(&cl, 1);
	s = t_client_call(&cl, M_STATS, NULL, 1, 0);
	t_conn_run(&w, &s->opened);
	assert_int_equal(w.nhung, 2);
	t_client_free(&cl);
	w.nclients = 0;
	while (conns_count(w.conns) > 0)
		t_conn_turns(&w, 1);
	assert_int_equal(w.gone, 1);
	assert_int_equal(w.gone_why, SLI_E_CLOSED);
	/* Whoever answers now does no harm. */
	svc_ready(w.hung[1]);
	svc_release(w.hung[1], 5);
	t_conn_open_echo(&w, w.hung[1]);
	svc_finish(w.hung[0]);
	svc_finish(w.hung[0]);
	t_conn_client(&w, &other);
	s = echo(&other, "x", 0);
	t_conn_run(&w, &s->done);
	assert_int_equal(s->status, SLI_OK);
	assert_int_equal(w.gone, 1);
	t_conn_stop(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(unary),
	    cmocka_unit_test(counter_under_credit),
	    cmocka_unit_test(stream_that_fails),
	    cmocka_unit_test(bidi_echo),
	    cmocka_unit_test(upload_waits_for_the_engine),
	    cmocka_unit_test(opened_late),
	    cmocka_unit_test(deadlines),
	    cmocka_unit_test(cancels),
	    cmocka_unit_test(abandoned_handlers_count),
	    cmocka_unit_test(client_vanishes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
