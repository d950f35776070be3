/* SPDX-License-Identifier: Apache-2.0 */
/* sluice.v1.Sessions/History and /Subscribe: one walk, a store cursor, with an
 * end or without. The stream holds nothing but the cursor: an item is encoded
 * when there is credit for it. */
#include "service/room.h"

#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"
#include "wire/guard.h"

#include <string.h>

#define PENDING_SHOWN 16 /* permissions in the first message */

struct evstream {
	struct sli_list node; /* of svc->walks, once it is open */
	struct svc *svc;
	struct svc_call call;
	char session[SLI_ID_MAX];
	struct sli_principal who;
	struct store_cursor cur;
	int greeted;  /* the first message has been sent */
	uint8_t *dst; /* during one pull */
	size_t got;
};

/* --- encoding -------------------------------------------------------------*/

static size_t
put(uint8_t *dst, Sluice__V1__EventMessage *m)
{
	return sluice__v1__event_message__pack(m, dst);
}

static size_t
put_event(uint8_t *dst, const struct store_item *it)
{
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__Event e = SLUICE__V1__EVENT__INIT;
	const struct sli_event *ev = it->ev;
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_EVENT;
	m.event = &e;
	e.seq = ev->seq;
	e.kind = (Sluice__V1__EventKind)ev->kind;
	e.at_ms = (uint64_t)ev->at_ms;
	e.turn = ev->turn;
	e.superseded = ev->superseded;
	e.length = ev->length;
	e.invalid_utf8 = (ev->flags & SLI_EVF_INVALID_UTF8) != 0;
	if (ev->length <= STORE_PART_MAX) {
		e.body.data = (uint8_t *)(uintptr_t)ev->body.p;
		e.body.len = ev->body.n;
	}
	return put(dst, &m);
}

static size_t
put_part(uint8_t *dst, const struct store_item *it)
{
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__EventPart p = SLUICE__V1__EVENT_PART__INIT;
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_PART;
	m.part = &p;
	p.seq = it->ev->seq;
	p.offset = it->offset;
	p.total = it->ev->length;
	p.last = it->last;
	p.data.data = (uint8_t *)(uintptr_t)it->bytes.p;
	p.data.len = it->bytes.n;
	return put(dst, &m);
}

static size_t
put_gap(uint8_t *dst, const struct store_item *it)
{
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__EventGap g = SLUICE__V1__EVENT_GAP__INIT;
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_GAP;
	m.gap = &g;
	g.first = it->first_lost;
	g.last = it->last_lost;
	g.reason = svc_str(it->reason);
	return put(dst, &m);
}

static int
emit(void *ctx, const struct store_item *it)
{
	struct evstream *s = ctx;
	if (s->got > 0)
		return 0; /* one message a pull */
	switch (it->kind) {
	case STORE_ITEM_EVENT:
		s->got = put_event(s->dst, it);
		break;
	case STORE_ITEM_PART:
		s->got = put_part(s->dst, it);
		break;
	case STORE_ITEM_GAP:
		s->got = put_gap(s->dst, it);
		break;
	}
	return 1;
}

/* First message of a subscription: where the head is now. Everything of the
 * session changes in the loop thread, so this is one snapshot. */
static size_t
put_state(struct evstream *s, struct acp_session *a, uint8_t *dst)
{
	Sluice__V1__EventMessage m = SLUICE__V1__EVENT_MESSAGE__INIT;
	Sluice__V1__SubscriptionState st = SLUICE__V1__SUBSCRIPTION_STATE__INIT;
	struct svc_perm_msg *perm = NULL;
	Sluice__V1__Permission *pend[PENDING_SHOWN];
	struct acp_info in;
	struct acp_perm p;
	uint64_t low = 0, head = 0;
	size_t n = 0;

	acp_session_info(a, &in);
	if (store_range(s->svc->store, s->session, &low, &head) != SLI_OK)
		low = head = 0;
	m.kind_case = SLUICE__V1__EVENT_MESSAGE__KIND_STATE;
	m.state = &st;
	st.head = head;
	st.low = low;
	st.epoch = 1;
	st.state = (Sluice__V1__SessionState)in.state;
	st.turn = in.turn;
	perm = sli_calloc(PENDING_SHOWN, sizeof(*perm));
	for (unsigned i = 0;
	     perm && i < PENDING_SHOWN && acp_perm_get(a, i, &p); i++) {
		/* Tool call and options stand in the event; here they would
		 * not fit beside each other. */
		p.tool_call = sli_slice_of(NULL, 0);
		p.noptions = 0;
		p.title = "";
		svc_perm_fill(&perm[i], s->session, &p);
		pend[i] = &perm[i].m;
		st.n_pending++;
	}
	st.pending = pend;
	n = put(dst, &m);
	sli_free(perm);
	return n;
}

/* --- the stream -----------------------------------------------------------*/

static void
fail(struct evstream *s, enum sli_err code)
{
	svc_refuse(s->call, code, "history", "%s",
	    code == SLI_E_NOT_FOUND ? "the session has been deleted"
				    : sli_err_text(code));
}

static size_t
pull(void *ctx, uint8_t *dst, size_t room)
{
	struct evstream *s = ctx;
	(void)room;
	if (!s->greeted) {
		struct acp_session *a =
		    acp_find(s->svc->acp, &s->who, s->session);
		if (!a) {
			fail(s, SLI_E_NOT_FOUND);
			return 0;
		}
		s->greeted = 1;
		return put_state(s, a, dst);
	}
	s->dst = dst;
	s->got = 0;
	switch (store_cursor_pump(&s->cur, 1, emit, s)) {
	case STORE_PUMP_BLOCKED:
	case STORE_PUMP_PARKED:
	case STORE_PUMP_READING:
		break;
	case STORE_PUMP_END:
		if (s->got == 0)
			svc_finish(s->call);
		break;
	case STORE_PUMP_FAILED:
		if (s->got == 0)
			fail(s, s->cur.code);
		break;
	}
	return s->got;
}

static void
wake(void *ctx)
{
	struct evstream *s = ctx;
	svc_ready(s->call);
}

static void
gone(void *ctx, enum sli_err why)
{
	struct evstream *s = ctx;
	(void)why;
	sli_list_del(&s->node);
	store_cursor_fini(&s->cur);
	sli_free(s);
}

uint64_t
svc_history_held(const struct svc *svc, const char *session)
{
	struct sli_list *it;
	uint64_t sum = 0;
	sli_list_for_each (it, &svc->walks) {
		const struct evstream *s =
		    SLI_LIST_ENTRY(it, struct evstream, node);
		if (!session || strcmp(session, s->session) == 0)
			sum += store_cursor_held(&s->cur);
	}
	return sum;
}

static const struct svc_stream_ops ops = {.pull = pull, .gone = gone};

static void
start(struct svc *svc, struct svc_call c, const char *session, int live,
    struct store_cursor_cfg *cfg)
{
	struct sli_errinfo ei = {0};
	if (!svc_find_session(svc, c, session))
		return;
	struct evstream *s = sli_zalloc(sizeof(*s));
	if (!s) {
		svc_refuse(c, SLI_E_NOMEM, "history", "out of memory");
		return;
	}
	s->svc = svc;
	s->call = c;
	s->who = *svc_principal(c);
	s->greeted = !live;
	sli_strlcpy(s->session, session, sizeof(s->session));
	cfg->wake = wake;
	cfg->ctx = s;
	if (store_cursor_init(&s->cur, svc->store, session, cfg, &ei) !=
	    SLI_OK) {
		svc_fail(c, &ei);
		sli_free(s);
		return;
	}
	if (svc_open(c, &ops, s) != SLI_OK) {
		store_cursor_fini(&s->cur);
		sli_free(s);
		return;
	}
	sli_list_add_tail(&svc->walks, &s->node);
	svc_ready(c);
}

/* An empty walk: nothing lies between the bounds. */
static int
is_empty(const Sluice__V1__HistoryRequest *r, uint64_t low, uint64_t head)
{
	if (head == 0 || r->after >= head)
		return 1;
	return r->before != 0 &&
	       (r->before <= low || r->before <= r->after + 1);
}

static size_t
/* NOLINTNEXTLINE(readability-non-const-parameter): type of svc_stream_ops */
pull_nothing(void *ctx, uint8_t *dst, size_t room)
{
	struct evstream *s = ctx;
	(void)dst;
	(void)room;
	svc_finish(s->call);
	return 0;
}

static void
gone_nothing(void *ctx, enum sli_err why)
{
	(void)why;
	sli_free(ctx);
}

static void
answer_nothing(struct svc_call c)
{
	static const struct svc_stream_ops none = {
	    .pull = pull_nothing, .gone = gone_nothing};
	struct evstream *s = sli_zalloc(sizeof(*s));
	if (!s) {
		svc_refuse(c, SLI_E_NOMEM, "history", "out of memory");
		return;
	}
	s->call = c;
	if (svc_open(c, &none, s) != SLI_OK) {
		sli_free(s);
		return;
	}
	svc_ready(c);
}

SVC_HANDLER(svc_sessions_history)
{
	const Sluice__V1__HistoryRequest *r = (const void *)req;
	uint64_t low = 0, head = 0;
	if (!svc_find_session(svc, c, r->session))
		return;
	enum sli_err e = store_range(svc->store, r->session, &low, &head);
	if (e != SLI_OK) {
		svc_refuse(c, e, "history", "%s", sli_err_text(e));
		return;
	}
	if (is_empty(r, low, head)) {
		answer_nothing(c);
		return;
	}
	struct store_cursor_cfg cfg = {.limit = r->limit};
	if (r->before) {
		cfg.backward = 1;
		cfg.from = SLI_MIN(r->before - 1, head);
		cfg.end = r->after ? r->after + 1 : 0;
	} else {
		cfg.from = r->after + 1;
		cfg.end = head;
	}
	start(svc, c, r->session, 0, &cfg);
}

SVC_HANDLER(svc_sessions_subscribe)
{
	const Sluice__V1__SubscribeRequest *r = (const void *)req;
	struct store_cursor_cfg cfg = {.from = r->from ? r->from : 1};
	start(svc, c, r->session, 1, &cfg);
}
