/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a permission request: may it be asked at all, what it offers, the
 * commit that shows it, and the policies that answer without asking. */
#include "acp/engine.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

#define OPTION_NODES 2048u
#define OPTIONS_MAX  256u
#define TEXT_MAX     ((size_t)4 << 10)

/* Decoded text in the arena; exact is cleared when it is not quite that. */
static const char *
text(struct perm *p, struct sli_slice raw, int *exact)
{
	struct sli_buf b;
	char *d;
	int r;

	sli_buf_init(&b, TEXT_MAX + 1);
	r = json_decode(&b, raw, TEXT_MAX);
	if (r != 1 && exact)
		*exact = 0;
	if (r < 0 || sli_buf_append(&b, "", 1) != SLI_OK)
		d = NULL;
	else
		d = sli_arena_strdup(&p->arena, (const char *)sli_buf_data(&b));
	sli_buf_free(&b);
	return d;
}

static int
read_option(struct perm *p, const struct jtree *j, uint32_t node)
{
	struct acp_option *o = &p->options[p->n];
	uint32_t id = jtree_get(j, node, "optionId");
	struct sli_slice token = jtree_raw(j, id);
	int exact = id != JNONE && j->v[id].kind == TOK_STR;
	uint8_t *raw;

	o->id = text(p, jtree_text(j, id), &exact);
	o->name = text(p, jtree_text(j, jtree_get(j, node, "name")), NULL);
	o->kind = text(p, jtree_text(j, jtree_get(j, node, "kind")), NULL);
	raw = sli_arena_alloc(&p->arena, token.n);
	if (!o->id || !o->name || !o->kind || !raw)
		return 0;
	/* An id that cannot be shown as it is cannot be chosen. */
	if (exact) {
		memcpy(raw, token.p, token.n);
		p->raw[p->n] = sli_slice_of(raw, token.n);
	}
	p->n++;
	return 1;
}

/* 1 ok, 0 the request is not valid or there is no memory. */
static int
read_options(struct perm *p, const struct envelope *e)
{
	struct sli_slice doc = sli_buf_slice(&e->options);
	struct jtree j;
	uint32_t c, n = 0;
	int ok = 0;

	jtree_init(&j, OPTION_NODES);
	if (!doc.n || jtree_parse(&j, doc) != 0 || j.v[0].kind != TOK_ARR)
		goto out;
	for (c = jtree_first(&j, 0); c != JNONE; c = jtree_next(&j, 0, c))
		n++;
	if (n > OPTIONS_MAX)
		goto out;
	p->options = sli_arena_alloc(&p->arena, n * sizeof(*p->options));
	p->raw = sli_arena_alloc(&p->arena, n * sizeof(*p->raw));
	if (!p->options || !p->raw)
		goto out;
	memset(p->raw, 0, n * sizeof(*p->raw));
	for (c = jtree_first(&j, 0); c != JNONE; c = jtree_next(&j, 0, c))
		if (!read_option(p, &j, c))
			goto out;
	ok = 1;
out:
	jtree_fini(&j);
	return ok;
}

static int
copy(struct perm *p, struct sli_slice s, struct sli_slice *ret)
{
	uint8_t *d = sli_arena_alloc(&p->arena, s.n);

	if (!d)
		return 0;
	if (s.n)
		memcpy(d, s.p, s.n);
	*ret = sli_slice_of(d, s.n);
	return 1;
}

static struct perm *
perm_new(struct acp_session *s, const struct envelope *e)
{
	struct perm *p = sli_zalloc(sizeof(*p));

	if (!p)
		return NULL;
	p->refs = 2; /* the session's and its commit's */
	p->s = s;
	p->generation = s->generation;
	p->turn = s->active->no;
	p->chosen = -1;
	p->created_ms = sli_wall_ms();
	p->expires_ms = p->created_ms + (int64_t)limit(s, SLI_L_ACP_PERMISSION);
	p->due_ms =
	    loop_now_ms(s->a->loop) + (int64_t)limit(s, SLI_L_ACP_PERMISSION);
	sli_list_init(&p->node);
	sli_arena_init(&p->arena, limit(s, SLI_L_ACP_PERMISSION_BYTES));
	p->title = text(p, env_slice(&e->title), NULL);
	p->call = text(p, env_slice(&e->call), NULL);
	if (p->title && p->call && copy(p, env_slice(&e->id), &p->rpc_id) &&
	    copy(p, sli_buf_slice(&e->tool_call), &p->tool_call) &&
	    read_options(p, e))
		return p;
	p->refs = 1;
	perm_unref(p);
	return NULL;
}

/* --- asking --------------------------------------------------------------*/

static int
allow_option(const struct perm *p)
{
	static const char *const kinds[] = {"allow_once", "allow_always"};

	for (size_t k = 0; k < SLI_ARRAY_LEN(kinds); k++)
		for (unsigned i = 0; i < p->n; i++)
			if (p->raw[i].n &&
			    strcmp(p->options[i].kind, kinds[k]) == 0)
				return (int)i;
	return -1;
}

static void
asked(struct txn *t, const struct sli_errinfo *ei)
{
	struct perm *p = t->perm;
	struct acp_session *s = p->s;

	if (s->deleting)
		return;
	if (ei->code != SLI_OK) {
		/* Not stored is not shown. */
		sli_list_del(&p->node);
		s->nperms--;
		perm_unref(p);
		session_break(s, "store_failed");
	} else {
		p->request = txn_seq(t, p->rec);
		perm_set(p, PERM_PENDING);
		if (p->withdrawn)
			permit_drop(p, (enum perm_phase)p->withdrawn);
		else if (s->policy == SLI_PP_ALLOW_ALL)
			permit_answer(p, allow_option(p), "policy");
		else if (s->policy == SLI_PP_REJECT_ALL)
			permit_answer(p, permit_reject_option(p), "policy");
		else
			permit_timer(s);
	}
}

static void
pending_event(struct perm *p, struct txn *t)
{
	struct sli_record *r = txn_add(t, SLI_EV_PERMISSION, p->turn);
	struct body b;

	p->rec = t->n - 1;
	body_begin(&b);
	sli_jw_kcstr(&b.w, "state", "pending");
	if (*p->call)
		sli_jw_kcstr(&b.w, "tool_call", p->call);
	if (*p->title)
		sli_jw_kcstr(&b.w, "title", p->title);
	sli_jw_key(&b.w, "options");
	sli_jw_array(&b.w);
	for (unsigned i = 0; i < p->n; i++) {
		sli_jw_object(&b.w);
		sli_jw_kcstr(&b.w, "option", p->options[i].id);
		sli_jw_kcstr(&b.w, "name", p->options[i].name);
		sli_jw_kcstr(&b.w, "kind", p->options[i].kind);
		sli_jw_end(&b.w);
	}
	sli_jw_end(&b.w);
	sli_jw_ku64(&b.w, "expires_ms", (uint64_t)p->expires_ms);
	body_put(&b, t, r);
	r->ch.what = SLI_CH_PERM_NEW;
	r->ch.turn = p->turn;
	r->ch.rpc_id = txn_dup(t, p->rpc_id);
	r->ch.generation = p->generation;
	r->ch.expires_ms = p->expires_ms;
}

static int
id_is_open(const struct acp_session *s, struct sli_slice id)
{
	struct sli_list *it;

	sli_list_for_each (it, &s->perms)
		if (sli_slice_eq(
			SLI_LIST_ENTRY(it, struct perm, node)->rpc_id, id))
			return 1;
	return 0;
}

static void
too_many_event(struct acp_session *s, struct txn *t)
{
	const enum sli_limit l = SLI_L_ACP_PENDING_PERMISSIONS;
	struct sli_record *r = txn_add(t, SLI_EV_LIMIT, turn_now(s));
	struct body b;

	body_begin(&b);
	sli_jw_kcstr(&b.w, "key", sli_limit_info(l)->key);
	sli_jw_ku64(&b.w, "limit", limit(s, l));
	sli_jw_ku64(&b.w, "used", s->nperms);
	sli_jw_kcstr(&b.w, "text",
	    "a permission request was answered "
	    "cancelled: too many are open");
	body_put(&b, t, r);
}

/* What may not be asked is answered at once; NULL when it may. */
static const char *
refuse(struct acp_session *s, struct txn *t, const struct envelope *e)
{
	const struct sli_slice id = env_slice(&e->id), none = {0};

	if (!env_is(&e->session, s->agent_session)) {
		say_error(s, t, id, -32602, "unknown session", SAY_OPTIONAL);
		return "foreign";
	}
	if (!s->active || s->active->phase != TURN_RUNNING) {
		say_permission(s, t, id, none, 0, SAY_OPTIONAL);
		return "no turn";
	}
	if (id_is_open(s, id)) {
		say_error(s, t, id, -32600, "a request with this id is open",
		    SAY_OPTIONAL);
		return "id";
	}
	if (s->nperms >= limit(s, SLI_L_ACP_PENDING_PERMISSIONS)) {
		too_many_event(s, t);
		say_permission(s, t, id, none, 0, SAY_OPTIONAL);
		return "too many";
	}
	return NULL;
}

int
permit_is(const struct envelope *e)
{
	return env_is(&e->method, "session/request_permission");
}

void
permit_asked(struct acp_session *s, const struct line *ln)
{
	const struct envelope *e = ln->env;
	struct txn *t = txn_new(s);
	struct perm *p = NULL;

	(void)route_store(s, ln, t, SLI_EV_AGENT);
	if (!refuse(s, t, e)) {
		p = perm_new(s, e);
		if (!p)
			say_error(s, t, env_slice(&e->id), -32602,
			    "the request cannot be taken", SAY_OPTIONAL);
	}
	if (!p) {
		txn_submit(t, 0, NULL);
		volume_add(s, ln->length, env_slice(&e->method),
		    sli_slice_of(NULL, 0));
		return;
	}
	pending_event(p, t);
	sli_list_add_tail(&s->perms, &p->node);
	s->nperms++;
	if (s->state == SLI_SS_RUNNING)
		session_set(s, SLI_SS_WAITING_PERMISSION, "", "", t);
	t->perm = p;
	txn_submit(t, 1, asked);
}

/* --- for the service -----------------------------------------------------*/

unsigned
permit_pending(const struct acp_session *s)
{
	struct sli_list *it;
	unsigned n = 0;

	sli_list_for_each (it, &s->perms)
		n += SLI_LIST_ENTRY(it, struct perm, node)->phase ==
		     PERM_PENDING;
	return n;
}

int
acp_perm_get(const struct acp_session *s, unsigned i, struct acp_perm *ret)
{
	struct sli_list *it;

	sli_list_for_each (it, &s->perms) {
		const struct perm *p = SLI_LIST_ENTRY(it, struct perm, node);

		if (p->phase != PERM_PENDING || i--)
			continue;
		*ret = (struct acp_perm){
		    .request = p->request,
		    .turn = p->turn,
		    .state = SLI_PS_PENDING,
		    .created_ms = p->created_ms,
		    .expires_ms = p->expires_ms,
		    .title = p->title,
		    .call = p->call,
		    .options = p->options,
		    .noptions = p->n,
		    .tool_call = p->tool_call,
		};
		return 1;
	}
	return 0;
}

/* Deleted: whoever waits for the outcome of an answer gets none. */
void
permit_forget(struct acp_session *s)
{
	while (!sli_list_empty(&s->perms)) {
		struct perm *p =
		    SLI_LIST_ENTRY(s->perms.next, struct perm, node);

		sli_list_del(&p->node);
		s->nperms--;
		perm_unref(p);
	}
	permit_timer(s);
}
