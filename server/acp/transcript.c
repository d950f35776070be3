/* SPDX-License-Identifier: Apache-2.0 */
/* The transcript of a session under a byte budget, read backwards from our own
 * history: what the user asked and what the agent said, tools by title only.
 * Raw JSON text is copied as it stands, so that nothing is decoded. */
#include "acp/engine.h"
#include "acp/overlap.h"

#include "base/mem.h"

#include <string.h>

/* Pages looked at; beyond it the rest counts as left out. */
#define PAGES_MAX 1024
#define NODES_MAX 4096u

enum role {
	ROLE_NONE,
	ROLE_USER,
	ROLE_AGENT
};

/* Names its session by handle: the answer may come when both are gone. */
struct reading {
	struct sli_list node; /* in acp.readings */
	struct acp *a;        /* NULL = nobody is left */
	uint64_t handle;
	uint32_t generation;
	transcript_fn *fn;
	uint64_t from;
	unsigned pages;
	enum role role; /* of what stands first in text */
	int full;
	struct jtree tree;
	size_t cap, at; /* text is bytes[at..cap) */
	uint8_t bytes[];
};

static void
prepend(struct reading *r, struct sli_slice s)
{
	size_t from = 0;

	if (r->full)
		return;
	if (s.n > r->at) {
		r->full = 1;
		from = s.n - r->at;
		while (from < s.n && !json_boundary(s, from))
			from++;
	}
	r->at -= s.n - from;
	if (s.n > from)
		memcpy(r->bytes + r->at, s.p + from, s.n - from);
}

static void
put(struct reading *r, const char *s)
{
	prepend(r, sli_slice_str(s));
}

/* Backwards: the heading of what stands there already comes now. */
static void
turn_to(struct reading *r, enum role role)
{
	if (r->role == role)
		return;
	if (r->role == ROLE_USER)
		put(r, "\\n\\nUser: ");
	else if (r->role == ROLE_AGENT)
		put(r, "\\n\\nAgent: ");
	r->role = role;
}

static void
read_prompt(struct reading *r)
{
	const struct jtree *j = &r->tree;
	uint32_t n = 0, c;

	if (j->v[0].kind != TOK_ARR)
		return;
	for (c = jtree_first(j, 0); c != JNONE; c = jtree_next(j, 0, c))
		n++;
	turn_to(r, ROLE_USER);
	while (n--) {
		uint32_t block = jtree_at(j, 0, n);
		struct sli_slice type =
		    jtree_text(j, jtree_get(j, block, "type"));

		if (sli_slice_is(type, "text")) {
			prepend(r, jtree_text(j, jtree_get(j, block, "text")));
		} else {
			put(r, "]");
			prepend(r, type);
			put(r, "[");
		}
		if (n)
			put(r, "\\n");
	}
}

static void
read_update(struct reading *r)
{
	const struct jtree *j = &r->tree;
	uint32_t u = jtree_get(j, jtree_get(j, 0, "params"), "update");
	struct sli_slice kind = jtree_text(j, jtree_get(j, u, "sessionUpdate"));
	struct sli_slice text;

	if (sli_slice_is(kind, "agent_message_chunk")) {
		text = jtree_text(
		    j, jtree_get(j, jtree_get(j, u, "content"), "text"));
		if (!text.n)
			return;
		turn_to(r, ROLE_AGENT);
		prepend(r, text);
	} else if (sli_slice_is(kind, "tool_call")) {
		turn_to(r, ROLE_AGENT);
		put(r, "]\\n");
		prepend(r, jtree_text(j, jtree_get(j, u, "title")));
		put(r, "\\n[used a tool: ");
	}
}

static void
read_end(struct reading *r)
{
	struct sli_slice outcome =
	    jtree_text(&r->tree, jtree_get(&r->tree, 0, "outcome"));

	if (!outcome.n || sli_slice_is(outcome, "completed"))
		return;
	turn_to(r, ROLE_AGENT);
	put(r, "]");
	prepend(r, outcome);
	put(r, "\\n[this turn ended: ");
}

/* A prompt that is still to be sent is no part of what was said. */
static int
to_be_sent(const struct acp_session *s, uint64_t turn)
{
	struct sli_list *it;

	sli_list_for_each (it, &s->queue)
		if (SLI_LIST_ENTRY(it, struct turn, node)->no == turn)
			return 1;
	return 0;
}

static void
read_event(
    struct reading *r, const struct acp_session *s, const struct sli_event *ev)
{
	if (ev->kind != SLI_EV_PROMPT && ev->kind != SLI_EV_AGENT &&
	    ev->kind != SLI_EV_TURN_ENDED)
		return;
	if (ev->parts || to_be_sent(s, ev->turn))
		return;
	if (jtree_parse(&r->tree, ev->body) != 0)
		return;
	if (ev->kind == SLI_EV_PROMPT)
		read_prompt(r);
	else if (ev->kind == SLI_EV_AGENT)
		read_update(r);
	else
		read_end(r);
}

static void
reading_free(struct reading *r)
{
	sli_list_del(&r->node);
	jtree_fini(&r->tree);
	sli_free(r);
}

static void
on_page(void *ctx, const struct acp_page *page, const struct sli_errinfo *ei)
{
	struct reading *r = ctx;
	struct acp_session *s = r->a ? sli_ids_get(r->a->all, r->handle) : NULL;
	struct agent *g = s ? s->ag : NULL;
	unsigned n = ei->code == SLI_OK ? page->n : 0;

	if (!g || g->generation != r->generation || g->step != STEP_READ ||
	    g->ending) {
		reading_free(r);
		return;
	}
	for (unsigned i = 0; i < n && !r->full; i++)
		read_event(r, s, &page->ev[i]);
	if (n && page->ev[n - 1].seq > 1 && !r->full &&
	    ++r->pages < PAGES_MAX) {
		r->from = page->ev[n - 1].seq - 1;
		r->a->sink->page_back(r->a->ctx, s, r->from, on_page, r);
		return;
	}
	if (n && page->ev[n - 1].seq > 1)
		r->full = 1;
	turn_to(r, ROLE_NONE);
	r->fn(g, sli_slice_of(r->bytes + r->at, r->cap - r->at), r->full);
	reading_free(r);
}

void
transcript_read(struct agent *g, size_t budget, transcript_fn *fn)
{
	struct acp_session *s = g->s;
	struct reading *r = sli_alloc(sizeof(*r) + budget);

	if (!r) {
		fn(g, sli_slice_of("", 0), 0);
		return;
	}
	memset(r, 0, sizeof(*r));
	r->a = s->a;
	sli_list_add_tail(&s->a->readings, &r->node);
	r->handle = s->handle;
	r->generation = g->generation;
	r->fn = fn;
	r->cap = r->at = budget;
	jtree_init(&r->tree, NODES_MAX);
	s->a->sink->page_back(s->a->ctx, s, 0, on_page, r);
}

void
transcript_orphan(struct acp *a)
{
	while (!sli_list_empty(&a->readings)) {
		struct reading *r =
		    SLI_LIST_ENTRY(a->readings.next, struct reading, node);

		sli_list_del(&r->node);
		r->a = NULL;
	}
}
