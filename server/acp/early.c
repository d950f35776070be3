/* SPDX-License-Identifier: Apache-2.0 */
/* Updates that come before the answer which names their session: kept in
 * order, bounded, and sorted when the name is known. */
#include "acp/engine.h"

#include "base/mem.h"

#include <string.h>

void
early_add(struct agent *g, const struct line *ln)
{
	struct acp_session *s = g->s;
	const struct env_text *id = &ln->env->session;
	size_t n = sizeof(struct early) + ln->bytes.n;
	struct early *e = NULL;
	struct txn *t;

	if (!id->cut && g->early_bytes + n <= limit(s, SLI_L_ACP_EARLY))
		e = sli_alloc(n);
	if (!e) {
		t = txn_new(s);
		route_stray(g, t, "an update too early to be sorted", ln);
		txn_submit(t, 0, NULL);
		return;
	}
	memset(e, 0, sizeof(*e));
	e->ev.kind = SLI_EV_AGENT;
	e->ev.at_ms = ln->at_ms;
	e->ev.length = ln->length;
	e->ev.parts = ln->parts;
	if (!ln->parts) {
		memcpy(e->bytes, ln->bytes.p, ln->bytes.n);
		e->ev.body = sli_slice_of(e->bytes, ln->bytes.n);
	}
	memcpy(e->session, id->s, id->n);
	e->session_n = id->n;
	sli_list_add_tail(&g->early, &e->node);
	g->early_bytes += n;
}

static void
take(struct agent *g, struct early *e)
{
	sli_list_del(&e->node);
	g->early_bytes -= sizeof(*e) + e->ev.body.n;
}

void
early_flush(struct agent *g, struct txn *t)
{
	struct acp_session *s = g->s;

	while (!sli_list_empty(&g->early)) {
		struct early *e =
		    SLI_LIST_ENTRY(g->early.next, struct early, node);
		struct line ln = {.bytes = e->ev.body,
		    .parts = e->ev.parts,
		    .length = e->ev.length,
		    .at_ms = e->ev.at_ms};

		take(g, e);
		if (sli_slice_eq(sli_slice_of(e->session, e->session_n),
			sli_slice_str(s->agent_session)))
			(void)route_store(s, &ln, t, SLI_EV_AGENT);
		else
			route_stray(
			    g, t, "an update of a foreign session", &ln);
		sli_free(e);
	}
}

void
early_drop(struct agent *g)
{
	const struct acp *a = g->s->a;

	while (!sli_list_empty(&g->early)) {
		struct early *e =
		    SLI_LIST_ENTRY(g->early.next, struct early, node);

		take(g, e);
		if (e->ev.parts)
			a->sink->part_drop(a->ctx, g->s, e->ev.parts);
		sli_free(e);
	}
}
