/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* A session's events through libsluice: whole, put together from parts, or
 * piece by piece; the state, gaps, and parts that do not fit. */
#include "unit.h"

#include "fakesrv.h"

#include <string.h>

#include "sluice/v1/sessions.pb-c.h"

struct rig {
	struct fake f;
	sluice_client *c;
	sluice_stream *s;
	uint32_t sid;
	int ended, events, parts, gaps, states;
	struct sluice_error err;
	uint64_t seq, length, got;
	int hold;
	sluice_msg *held;
	uint64_t sum;
};

static void
start(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	fake_start(&r->f);
	r->c = fake_client(&r->f, NULL);
}

static void
finish(struct rig *r)
{
	sluice_stream_free(r->s);
	sluice_close(r->c);
	fake_stop(&r->f);
}

static void
send_msg(struct rig *r, const void *msg)
{
	static uint8_t buf[65536];

	assert_true(protobuf_c_message_get_packed_size(msg) <= sizeof(buf));
	fake_send(&r->f, r->sid, buf, protobuf_c_message_pack(msg, buf));
}

static void
on_end(void *arg, sluice_stream *s, const struct sluice_error *err)
{
	struct rig *r = arg;

	(void)s;
	assert_int_equal(r->ended, 0);
	r->ended = 1;
	if (err)
		r->err = *err;
}

static void
on_state(void *arg, sluice_stream *s, const struct sluice_sub_state *st)
{
	struct rig *r = arg;

	(void)s;
	r->states++;
	assert_int_equal(st->head, 9);
	assert_string_equal(st->pending[0]->options[0]->option, "yes");
	assert_null(st->pending[0]->options[1]);
	assert_null(st->pending[1]);
}

static void
on_event(
    void *arg, sluice_stream *s, const struct sluice_event *ev, sluice_msg *m)
{
	struct rig *r = arg;
	const uint8_t *p = ev->body;

	(void)s;
	assert_int_equal(ev->seq, r->seq + 1);
	r->seq = ev->seq;
	r->length = ev->length;
	r->events++;
	r->got = ev->body_len;
	for (size_t i = 0; p && i < ev->body_len; i++)
		r->sum += p[i];
	if (r->hold)
		r->held = m;
	else
		sluice_msg_done(m);
}

static void
on_part(void *arg, sluice_stream *s, const struct sluice_event_part *part,
    sluice_msg *m)
{
	struct rig *r = arg;

	(void)s;
	assert_int_equal(part->seq, r->seq);
	assert_int_equal(part->offset, r->got);
	r->got += part->n;
	assert_int_equal(part->last, r->got == part->total);
	r->parts++;
	sluice_msg_done(m);
}

static void
on_gap(void *arg, sluice_stream *s, uint64_t first, uint64_t last,
    const char *reason)
{
	struct rig *r = arg;

	(void)s;
	assert_int_equal(first, 1);
	assert_int_equal(last, 4);
	assert_string_equal(reason, "trimmed");
	r->gaps++;
	r->seq = last;
}

static void
subscribe(struct rig *r, uint64_t assemble_max)
{
	const struct sluice_event_handler h = {
	    .size = sizeof(h),
	    .assemble_max = assemble_max,
	    .on_state = on_state,
	    .on_event = on_event,
	    .on_part = on_part,
	    .on_gap = on_gap,
	    .on_end = on_end,
	};

	assert_int_equal(
	    sluice_subscribe(r->c, "s_1", 5, &h, r, &r->s, NULL), SLUICE_OK);
	fake_turn(&r->f, r->c, NULL);
	r->sid = r->f.call[0].sid;
}

static void
tell_event(struct rig *r, uint64_t seq, const char *body, uint64_t length)
{
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__Event ev = SLUICE__V1__EVENT__INIT;

	ev.seq = seq;
	ev.kind = SLUICE__V1__EVENT_KIND__EVENT_KIND_AGENT;
	ev.body =
	    (ProtobufCBinaryData){strlen(body), (uint8_t *)(uintptr_t)body};
	ev.length = length;
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_EVENT;
	m.event = &ev;
	send_msg(r, &m);
}

/* A body of `total` bytes of value 1, in parts. */
static void
tell_parts(struct rig *r, uint64_t seq, uint64_t total)
{
	static uint8_t ones[32768];
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__EventPart p = SLUICE__V1__EVENT_PART__INIT;

	memset(ones, 1, sizeof(ones));
	tell_event(r, seq, "", total);
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_PART;
	m.part = &p;
	p.seq = seq;
	p.total = total;
	for (p.offset = 0; p.offset < total; p.offset += p.data.len) {
		p.data.data = ones;
		p.data.len = (size_t)SLI_MIN(total - p.offset, sizeof(ones));
		p.last = p.offset + p.data.len == total;
		send_msg(r, &m);
	}
}

static void
events_whole_and_assembled(void **state)
{
	const uint64_t big = 3 * 1024 * 1024 + 17;
	struct rig r;

	(void)state;
	start(&r);
	subscribe(&r, 4 * 1024 * 1024);
	tell_event(&r, 1, "{}", 2);
	tell_event(&r, 2, "", 0);
	tell_parts(&r, 3, big);
	fake_turn(&r.f, r.c, NULL);
	assert_int_equal(r.events, 3);
	assert_int_equal(r.parts, 0);
	assert_int_equal(r.got, big);
	assert_int_equal(r.sum, big + '{' + '}');
	assert_int_equal(r.f.st[r.sid].acked, r.f.st[r.sid].sent);
	finish(&r);
}

static void
events_piecewise(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	subscribe(&r, 1024);
	tell_parts(&r, 1, 100000);
	tell_event(&r, 2, "x", 1);
	fake_turn(&r.f, r.c, NULL);
	assert_int_equal(r.events, 2);
	assert_int_equal(r.parts, 4);
	finish(&r);
}

static void
state_and_gap(void **state)
{
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__SubscriptionState st = SLUICE__V1__SUBSCRIPTION_STATE__INIT;
	Sluice__V1__Permission p = SLUICE__V1__PERMISSION__INIT;
	Sluice__V1__Permission *ps[] = {&p};
	Sluice__V1__PermissionOption o = SLUICE__V1__PERMISSION_OPTION__INIT;
	Sluice__V1__PermissionOption *os[] = {&o};
	Sluice__V1__EventGap g = SLUICE__V1__EVENT_GAP__INIT;
	struct rig r;

	(void)state;
	start(&r);
	subscribe(&r, 0);
	o.option = (char *)(uintptr_t) "yes";
	p.options = os;
	p.n_options = 1;
	st.head = 9;
	st.pending = ps;
	st.n_pending = 1;
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_STATE;
	m.state = &st;
	send_msg(&r, &m);
	g.first = 1;
	g.last = 4;
	g.reason = (char *)(uintptr_t) "trimmed";
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_GAP;
	m.gap = &g;
	send_msg(&r, &m);
	tell_event(&r, 5, "x", 1);
	fake_turn(&r.f, r.c, NULL);
	assert_int_equal(r.states, 1);
	assert_int_equal(r.gaps, 1);
	assert_int_equal(r.events, 1);
	finish(&r);
}

static void
send_part(struct rig *r, uint64_t seq, uint64_t total)
{
	static uint8_t piece[1000];
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__EventPart p = SLUICE__V1__EVENT_PART__INIT;

	p.seq = seq;
	p.total = total;
	p.data.data = piece;
	p.data.len = sizeof(piece);
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_PART;
	m.part = &p;
	send_msg(r, &m);
}

/* The rest of a body is damaged: a gap ends it, and the walk goes on. */
static void
gap_ends_a_body(void **state)
{
	/* Put together; given in parts. */
	static const uint64_t assemble[] = {4 * 1024 * 1024, 50000};
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__EventGap g = SLUICE__V1__EVENT_GAP__INIT;
	struct rig r;

	(void)state;
	g.first = 1;
	g.last = 4;
	g.reason = (char *)(uintptr_t) "trimmed";
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_GAP;
	m.gap = &g;
	for (unsigned i = 0; i < 4; i++) {
		start(&r);
		subscribe(&r, assemble[i & 1]);
		tell_event(&r, 1, "", 100000);
		if (i < 2)
			send_part(&r, 1, 100000);
		send_msg(&r, &m);
		tell_event(&r, 5, "x", 1);
		fake_turn(&r.f, r.c, NULL);
		assert_int_equal(r.ended, 0);
		assert_int_equal(r.gaps, 1);
		assert_int_equal(r.seq, 5);
		assert_int_equal(r.events, 1 + (int)(i & 1));
		finish(&r);
	}
}

static void
parts_that_do_not_fit(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	subscribe(&r, 0);
	tell_event(&r, 1, "", 100000);
	tell_event(&r, 2, "x", 1);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.err.code, SLUICE_E_PROTOCOL);
	assert_int_equal(r.events, 0);
	finish(&r);
	start(&r);
	subscribe(&r, 0);
	tell_event(&r, 1, "abc", 7);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.err.code, SLUICE_E_PROTOCOL);
	finish(&r);
}

static void
held_event_keeps_its_body(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	r.hold = 1;
	subscribe(&r, 4 * 1024 * 1024);
	tell_parts(&r, 1, 100000);
	fake_turn(&r.f, r.c, NULL);
	assert_non_null(r.held);
	sluice_stream_free(r.s);
	r.s = NULL;
	assert_int_equal(sluice_msg_len(r.held), 100000);
	assert_int_equal(*(const uint8_t *)sluice_msg_data(r.held), 1);
	sluice_msg_done(r.held);
	finish(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(gap_ends_a_body),
	    cmocka_unit_test(parts_that_do_not_fit),
	    cmocka_unit_test(events_whole_and_assembled),
	    cmocka_unit_test(events_piecewise),
	    cmocka_unit_test(state_and_gap),
	    cmocka_unit_test(held_event_keeps_its_body),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
