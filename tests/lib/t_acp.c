/* SPDX-License-Identifier: Apache-2.0 */
/* The rig's history: a model that commits, checks and remembers. */
#include "t_acp.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rig_commit {
	struct rig_commit *next;
	struct sli_record *recs;
	unsigned n;
	uint64_t bytes;
	acp_commit_fn *done;
	void *ctx;
};

struct rig_set {
	struct rig_set *next;
	uint64_t id;
	struct sli_buf buf;
};

static struct rig_turn *
turn_row(struct rig *r, uint64_t no)
{
	for (unsigned i = 0; i < r->nturn; i++)
		if (r->turn[i].no == no)
			return &r->turn[i];
	return NULL;
}

static struct rig_perm *
perm_row(struct rig *r, uint64_t request)
{
	for (unsigned i = 0; i < r->nperm; i++)
		if (r->perm[i].request == request)
			return &r->perm[i];
	return NULL;
}

static char *
dup_slice(struct sli_slice s)
{
	char *d = malloc(s.n + 1);

	assert_non_null(d);
	if (s.n)
		memcpy(d, s.p, s.n);
	d[s.n] = '\0';
	return d;
}

/* The text may hold NULs; only the front counts for comparing. */
static void
text_of(struct sli_slice s, char *dst, size_t cap)
{
	size_t n = SLI_MIN(s.n, cap - 1);

	if (n)
		memcpy(dst, s.p, n);
	dst[n] = '\0';
}

/* --- applying a commit ---------------------------------------------------*/

static struct rig_set *
take_set(struct rig *r, uint64_t id)
{
	for (struct rig_set **p = &r->sets; *p; p = &(*p)->next)
		if ((*p)->id == id) {
			struct rig_set *s = *p;

			*p = s->next;
			return s;
		}
	return NULL;
}

static void
free_set(struct rig_set *s)
{
	sli_buf_free(&s->buf);
	free(s);
}

static void
add_event(struct rig *r, const struct sli_event *ev)
{
	struct rig_event *e = &r->ev[r->nev];
	struct rig_set *set = NULL;
	struct sli_slice body = ev->body;

	assert_in_range(r->nev, 0, RIG_EVENTS - 1);
	if (ev->parts) {
		set = take_set(r, ev->parts);
		if (set)
			body = sli_buf_slice(&set->buf);
		else
			fail_msg("no such parts");
	} else {
		assert_in_range(body.n, 0, SLI_EVENT_INLINE_MAX);
	}
	assert_int_equal(body.n, ev->length);
	e->ev = *ev;
	e->ev.seq = ++r->nev;
	r->bytes += body.n;
	if (r->drop_bodies && ev->kind == SLI_EV_AGENT)
		body.n = SLI_MIN(body.n, (size_t)300);
	e->body = dup_slice(body);
	e->ev.body = sli_slice_of(e->body, body.n);
	if (set)
		free_set(set);
}

static void
apply_turn(struct rig *r, const struct sli_change *c)
{
	struct rig_turn *t;

	if (c->what & SLI_CH_TURN_NEW) {
		assert_in_range(r->nturn, 0, RIG_TURNS - 1);
		if (r->nturn)
			assert_true(c->turn > r->turn[r->nturn - 1].no);
		t = &r->turn[r->nturn++];
		*t = (struct rig_turn){.no = c->turn};
	}
	if (c->what & SLI_CH_TURN_START) {
		t = turn_row(r, c->turn);
		if (!t || t->started || t->outcome)
			fail_msg("a turn is started that cannot be");
		else
			t->started = 1;
	}
	if (c->what & SLI_CH_TURN_END) {
		t = turn_row(r, c->turn);
		if (!t || t->outcome || c->outcome <= 0) {
			fail_msg("a turn has one end");
			return;
		}
		t->outcome = c->outcome;
		(void)snprintf(t->reason, sizeof(t->reason), "%s",
		    c->reason_code ? c->reason_code : "");
	}
}

static void
apply_perm(struct rig *r, const struct sli_change *c)
{
	struct rig_perm *p;

	if (c->what & SLI_CH_PERM_NEW) {
		assert_in_range(r->nperm, 0, RIG_PERMS - 1);
		p = &r->perm[r->nperm++];
		*p = (struct rig_perm){
		    .request = r->nev, .state = SLI_PS_PENDING};
		text_of(c->rpc_id, p->rpc_id, sizeof(p->rpc_id));
	}
	if (c->what & SLI_CH_PERM_SET) {
		p = perm_row(r, c->request);
		if (!p) {
			fail_msg("no such permission");
			return;
		}
		if (c->perm_state == SLI_PS_DELIVERED)
			assert_int_equal(p->state, SLI_PS_ANSWERED);
		else
			assert_int_equal(p->state, SLI_PS_PENDING);
		p->state = c->perm_state;
		if (p->state == SLI_PS_ANSWERED)
			text_of(c->option, p->option, sizeof(p->option));
	}
}

static void
apply(struct rig *r, const struct sli_record *rec)
{
	const struct sli_change *c = &rec->ch;

	if (rec->ev.kind)
		add_event(r, &rec->ev);
	if (c->what & SLI_CH_STATE) {
		r->state = c->state;
		(void)snprintf(r->reason_code, sizeof(r->reason_code), "%s",
		    c->reason_code);
		(void)snprintf(r->reason, sizeof(r->reason), "%s", c->reason);
	}
	if (c->what & SLI_CH_AGENT) {
		r->generation = c->generation;
		(void)snprintf(r->agent_session, sizeof(r->agent_session), "%s",
		    c->agent_session);
	}
	apply_turn(r, c);
	apply_perm(r, c);
}

static void
free_commit(struct rig_commit *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		struct sli_record *rec = &c->recs[i];

		free((void *)(uintptr_t)rec->ev.body.p);
		free((void *)(uintptr_t)rec->ch.rpc_id.p);
		free((void *)(uintptr_t)rec->ch.option.p);
		free((void *)(uintptr_t)rec->ch.reason_code);
		free((void *)(uintptr_t)rec->ch.reason);
		free((void *)(uintptr_t)rec->ch.agent_session);
	}
	free(c->recs);
	free(c);
}

void
rig_commit(struct rig *r, unsigned n)
{
	unsigned have = 0;

	for (struct rig_commit *c = r->first; c; c = c->next)
		have++;
	if (n)
		assert_true(n <= have);
	for (n = n ? n : have; n && r->first; n--) {
		struct rig_commit *c = r->first;
		struct sli_errinfo ei = {.code = SLI_OK};
		uint64_t seq = 0;

		r->first = c->next;
		if (!r->first)
			r->last = NULL;
		r->uncommitted -= c->bytes;
		if (r->full) {
			sli_fail(&ei, SLI_E_STORAGE_FULL, 0, "rig", "full");
		} else {
			for (unsigned i = 0; i < c->n; i++) {
				apply(r, &c->recs[i]);
				if (c->recs[i].ev.kind && !seq)
					seq = r->nev;
			}
		}
		c->done(c->ctx, seq, &ei);
		free_commit(c);
	}
}

/* --- the sink ------------------------------------------------------------*/

static struct sli_slice
keep(struct sli_slice s)
{
	return sli_slice_of(dup_slice(s), s.n);
}

static const char *
keep_str(const char *s)
{
	return dup_slice(sli_slice_str(s ? s : ""));
}

void
rig_sink_commit(void *ctx, struct acp_session *s, const struct sli_record *recs,
    unsigned n, int barrier, acp_commit_fn *done, void *done_ctx)
{
	struct rig *r = ctx;
	struct rig_commit *c = calloc(1, sizeof(*c));

	(void)s;
	(void)barrier;
	assert_non_null(c);
	assert_true(n > 0);
	c->recs = calloc(n + 1, sizeof(*c->recs));
	assert_non_null(c->recs);
	memcpy(c->recs, recs, n * sizeof(*recs));
	for (unsigned i = 0; i < n; i++) {
		struct sli_record *rec = &c->recs[i];

		c->bytes += rec->ev.body.n;
		rec->ev.body = keep(rec->ev.body);
		rec->ch.rpc_id = keep(rec->ch.rpc_id);
		rec->ch.option = keep(rec->ch.option);
		rec->ch.reason_code = keep_str(rec->ch.reason_code);
		rec->ch.reason = keep_str(rec->ch.reason);
		rec->ch.agent_session = keep_str(rec->ch.agent_session);
	}
	c->n = n;
	c->done = done;
	c->ctx = done_ctx;
	r->uncommitted += c->bytes;
	if (r->last)
		r->last->next = c;
	else
		r->first = c;
	r->last = c;
}

uint64_t
rig_sink_part_begin(void *ctx, struct acp_session *s)
{
	struct rig *r = ctx;
	struct rig_set *set;

	(void)s;
	if (r->no_parts)
		return 0;
	set = calloc(1, sizeof(*set));
	assert_non_null(set);
	set->id = ++r->next_set;
	sli_buf_init(&set->buf, (size_t)256 << 20);
	set->next = r->sets;
	r->sets = set;
	return set->id;
}

void
rig_sink_part_append(
    void *ctx, struct acp_session *s, uint64_t set_id, struct sli_slice bytes)
{
	struct rig *r = ctx;
	struct rig_set *set = r->sets;

	(void)s;
	while (set && set->id != set_id)
		set = set->next;
	/* a planted lack of memory is for the engine, not for us */
	if (!set)
		fail_msg("no such parts");
	else if (sli_buf_append(&set->buf, bytes.p, bytes.n) != SLI_OK)
		assert_int_equal(
		    sli_buf_append(&set->buf, bytes.p, bytes.n), SLI_OK);
}

void
rig_sink_part_drop(void *ctx, struct acp_session *s, uint64_t set_id)
{
	struct rig_set *set = take_set(ctx, set_id);

	(void)s;
	if (set)
		free_set(set);
	else
		fail_msg("no such parts");
}

void
rig_page(struct rig *r)
{
	struct sli_event ev[64];
	struct sli_errinfo ei = {.code = SLI_OK};
	struct acp_page page = {ev, 0};
	uint64_t from = r->page_from;

	assert_non_null(r->page_fn);
	for (; from && page.n < 64; from--)
		ev[page.n++] = r->ev[from - 1].ev;
	if (r->page_error)
		sli_fail(&ei, SLI_E_STORE, 0, "rig", "no page");
	acp_page_fn *fn = r->page_fn;

	r->page_fn = NULL;
	fn(r->page_ctx, r->page_error ? NULL : &page, &ei);
}

void
rig_store_fini(struct rig *r)
{
	while (r->first) {
		struct rig_commit *c = r->first;

		r->first = c->next;
		free_commit(c);
	}
	/* whoever began parts named or dropped them */
	assert_null(r->sets);
	for (unsigned i = 0; i < r->nev; i++)
		free(r->ev[i].body);
	free(r->ev);
}

/* --- looking -------------------------------------------------------------*/

unsigned
rig_count(struct rig *r, int kind, const char *text)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->nev; i++)
		n += r->ev[i].ev.kind == kind &&
		     (!text || strstr(r->ev[i].body, text));
	return n;
}

const struct rig_event *
rig_find(struct rig *r, int kind, const char *text)
{
	for (unsigned i = r->nev; i; i--)
		if (r->ev[i - 1].ev.kind == kind &&
		    (!text || strstr(r->ev[i - 1].body, text)))
			return &r->ev[i - 1];
	return NULL;
}

int
rig_outcome(struct rig *r, uint64_t turn)
{
	const struct rig_turn *t = turn_row(r, turn);

	return t ? t->outcome : -1;
}
