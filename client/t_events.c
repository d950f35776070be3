/* SPDX-License-Identifier: Apache-2.0 */
/* The typed streams of a session's history: pages and subscriptions. Long
 * bodies come in parts; up to a size the user chose they are put together here,
 * each part released as it is copied, so that a body may be longer than the
 * window. */
#include "t_permission.h"
#include "typed.h"

#include "wire/guard.h"

#include <string.h>

#define ASSEMBLE_DEFAULT ((uint64_t)1024 * 1024)

struct events {
	struct sluice_event_handler h;
	void *arg;
	/* The event whose parts are coming; seq 0 = none. */
	struct sluice_event ev;
	uint64_t got;
	uint8_t *body; /* NULL: parts go to the user as they come */
};

/* What a message of the stream asks for. */
enum verdict {
	DONE,  /* processed: release it */
	GIVEN, /* the user has it and says done */
	BROKEN /* ei says how */
};

static enum verdict
broken(struct sli_errinfo *ei, enum sli_err code, const char *text)
{
	(void)sli_fail(ei, code, 0, "client.events", "%s", text);
	return BROKEN;
}

static enum verdict
got_state(struct sluice_stream *s, const Sluice__V1__SubscriptionState *m,
    struct sluice_msg *msg, struct sli_errinfo *ei)
{
	struct events *x = s->self;
	struct sluice_sub_state st = {.size = sizeof(st)};
	const struct sluice_permission **d =
	    sli_arena_alloc(&msg->arena, (m->n_pending + 1) * sizeof(*d));

	if (!x->h.on_state)
		return DONE;
	for (size_t i = 0; d && i < m->n_pending; i++) {
		d[i] = sli_permission_convert(&msg->arena, m->pending[i]);
		if (!d[i])
			d = NULL;
	}
	if (!d)
		return broken(ei, SLI_E_NOMEM, "out of memory");
	d[m->n_pending] = NULL;
	st.head = m->head;
	st.low = m->low;
	st.epoch = m->epoch;
	st.turn = m->turn;
	st.state = (int32_t)m->state;
	st.pending = d;
	x->h.on_state(x->arg, s, &st);
	return DONE;
}

static enum verdict
give_event(struct sluice_stream *s, struct sluice_msg *msg)
{
	struct events *x = s->self;
	struct sluice_event ev = x->ev;

	if (!x->h.on_event)
		return DONE;
	msg->data = ev.body;
	msg->len = ev.body_len;
	x->h.on_event(x->arg, s, &ev, msg);
	return GIVEN;
}

static enum verdict
got_event(struct sluice_stream *s, const Sluice__V1__Event *m,
    struct sluice_msg *msg, struct sli_errinfo *ei)
{
	struct events *x = s->self;

	if (x->ev.seq != 0)
		return broken(ei, SLI_E_PROTOCOL,
		    "an event came before the parts of the last one");
	x->ev = (struct sluice_event){
	    .size = sizeof(x->ev),
	    .seq = m->seq,
	    .turn = m->turn,
	    .at_ms = m->at_ms,
	    .superseded = m->superseded,
	    .length = m->length,
	    .kind = (int32_t)m->kind,
	    .invalid_utf8 = m->invalid_utf8 ? 1 : 0,
	};
	if (m->body.len == m->length) {
		enum verdict v;

		x->ev.body = m->length ? (const void *)m->body.data : "";
		x->ev.body_len = m->body.len;
		v = give_event(s, msg);
		x->ev.seq = 0;
		return v;
	}
	if (m->body.len != 0)
		return broken(ei, SLI_E_PROTOCOL,
		    "an event's body is not as long as it says");
	x->got = 0;
	if (m->length > x->h.assemble_max)
		return give_event(s, msg); /* its parts follow */
	x->body = sli_alloc((size_t)m->length);
	return x->body ? DONE : broken(ei, SLI_E_NOMEM, "out of memory");
}

static enum verdict
give_part(struct sluice_stream *s, const Sluice__V1__EventPart *m,
    struct sluice_msg *msg)
{
	struct events *x = s->self;
	const struct sluice_event_part part = {
	    .size = sizeof(part),
	    .seq = m->seq,
	    .offset = m->offset,
	    .total = m->total,
	    .data = m->data.data,
	    .n = m->data.len,
	    .last = m->last ? 1 : 0,
	};

	if (!x->h.on_part)
		return DONE;
	msg->data = part.data;
	msg->len = part.n;
	x->h.on_part(x->arg, s, &part, msg);
	return GIVEN;
}

static enum verdict
got_part(struct sluice_stream *s, const Sluice__V1__EventPart *m,
    struct sluice_msg *msg, struct sli_errinfo *ei)
{
	struct events *x = s->self;
	enum verdict v;
	int last;

	if (x->ev.seq == 0 || m->seq != x->ev.seq || m->offset != x->got ||
	    m->data.len > x->ev.length - x->got)
		return broken(ei, SLI_E_PROTOCOL,
		    "a part of an event does not fit what came before it");
	if (x->body)
		memcpy(x->body + x->got, m->data.data, m->data.len);
	x->got += m->data.len;
	last = x->got == x->ev.length;
	if ((m->last != 0) != last)
		return broken(ei, SLI_E_PROTOCOL,
		    "the parts of an event do not add up to its length");
	if (!x->body) {
		if (last)
			x->ev.seq = 0;
		return give_part(s, m, msg);
	}
	if (!last)
		return DONE;
	msg->heap = x->body;
	x->body = NULL;
	x->ev.body = msg->heap;
	x->ev.body_len = (size_t)x->ev.length;
	v = give_event(s, msg);
	x->ev.seq = 0;
	return v;
}

/* A body whose rest turned out damaged or trimmed ends with a gap. */
static enum verdict
got_gap(struct sluice_stream *s, const Sluice__V1__EventGap *m)
{
	struct events *x = s->self;

	sli_free(x->body);
	x->body = NULL;
	x->ev.seq = 0;
	if (x->h.on_gap)
		x->h.on_gap(x->arg, s, m->first, m->last, m->reason);
	return DONE;
}

static enum verdict
dispatch(struct sluice_stream *s, const Sluice__V1__EventMessage *m,
    struct sluice_msg *msg, struct sli_errinfo *ei)
{
	switch ((int)m->kind_case) {
	case SLUICE__V1__EVENT_MESSAGE__KIND_STATE:
		return got_state(s, m->state, msg, ei);
	case SLUICE__V1__EVENT_MESSAGE__KIND_EVENT:
		return got_event(s, m->event, msg, ei);
	case SLUICE__V1__EVENT_MESSAGE__KIND_PART:
		return got_part(s, m->part, msg, ei);
	case SLUICE__V1__EVENT_MESSAGE__KIND_GAP:
		return got_gap(s, m->gap);
	default:
		return DONE; /* of a newer server */
	}
}

static void
events_data(struct sluice_stream *s, uint64_t offset, struct sli_slice bytes)
{
	struct sluice_msg *msg = sli_msg_new(s, offset, bytes, 0);
	enum verdict v = BROKEN;
	Sluice__V1__EventMessage *m;
	struct sli_errinfo ei = {0};

	if (!msg)
		return;
	sli_arena_init(&msg->arena, SLI_TYPED_ARENA);
	m = (void *)sli_msg_unpack(
	    &sluice__v1__event_message__descriptor, bytes, &msg->arena, &ei);
	if (m)
		v = dispatch(s, m, msg, &ei);
	if (v != GIVEN)
		sluice_msg_done(msg);
	if (v == BROKEN)
		sli_stream_fail(s, &ei);
}

static void
events_result(struct sluice_stream *s, const struct sluice_error *err,
    struct sli_slice body)
{
	struct events *x = s->self;

	(void)body;
	if (x->h.on_end)
		x->h.on_end(x->arg, s, err);
}

static void
events_fini(struct sluice_stream *s)
{
	struct events *x = s->self;

	sli_free(x->body);
	sli_free(x);
}

static const struct sli_stream_ops events_ops = {
    .data = events_data,
    .result = events_result,
    .fini = events_fini,
};

/* --- start ---------------------------------------------------------------*/

static int
start(sluice_client *c, const char *method, const ProtobufCMessage *req,
    const struct sluice_event_handler *h, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	struct sluice_stream *s = NULL;
	struct events *x;
	struct sli_errinfo ei = {0};
	int e = sli_typed_may_wait(c, ret_s, err);

	if (e != SLUICE_OK)
		return e;
	x = sli_zalloc(sizeof(*x));
	if (x)
		s = sli_stream_new(c, &events_ops, x);
	if (!s) {
		sli_free(x);
		(void)sli_fail(
		    &ei, SLI_E_NOMEM, 0, "client.events", "out of memory");
		return sli_err_give(err, &ei);
	}
	x->arg = arg;
	if (sli_take_struct(&x->h, sizeof(x->h), h,
		"struct sluice_event_handler", &ei) != SLI_OK) {
		sluice_stream_free(s);
		return sli_err_give(err, &ei);
	}
	if (x->h.assemble_max == 0)
		x->h.assemble_max = ASSEMBLE_DEFAULT;
	e = sli_typed_start(s, method, req, 1, NULL, err);
	return e == SLUICE_OK ? sli_typed_started(s, ret_s, err) : e;
}

int
sluice_history(sluice_client *c, const char *session, uint64_t after,
    uint64_t before, uint32_t limit, const struct sluice_event_handler *h,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__HistoryRequest req = SLUICE__V1__HISTORY_REQUEST__INIT;

	req.session = sli_pb_str(session);
	req.after = after;
	req.before = before;
	req.limit = limit;
	return start(
	    c, "sluice.v1.Sessions/History", &req.base, h, arg, ret_s, err);
}

int
sluice_subscribe(sluice_client *c, const char *session, uint64_t from,
    const struct sluice_event_handler *h, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	Sluice__V1__SubscribeRequest req = SLUICE__V1__SUBSCRIBE_REQUEST__INIT;

	req.session = sli_pb_str(session);
	req.from = from;
	return start(
	    c, "sluice.v1.Sessions/Subscribe", &req.base, h, arg, ret_s, err);
}
