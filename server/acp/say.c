/* SPDX-License-Identifier: Apache-2.0 */
/* What we say to the agent: one JSON-RPC line each, recorded as a CLIENT event
 * byte for byte as it is sent. Ids of ours are non-negative integers; ids of
 * the agent's requests are echoed as they came. Decides nothing. */
#include "acp/engine.h"

#include "base/mem.h"

#include <string.h>

struct say {
	struct sli_buf buf;
	struct sli_jw w;
};

static void
begin(struct say *y)
{
	/* a prompt and its preamble are the longest; both are bounded */
	sli_buf_init(&y->buf, (size_t)128 << 20);
	sli_jw_init(&y->w, &y->buf);
	sli_jw_object(&y->w);
	sli_jw_kcstr(&y->w, "jsonrpc", "2.0");
}

static void
raw(struct say *y, const char *key, struct sli_slice json)
{
	sli_jw_key(&y->w, key);
	sli_jw_raw(&y->w, json);
}

/* The inside of a JSON string, as it was read. */
static void
raw_string(struct say *y, const char *key, const char *s)
{
	struct sli_buf q;

	sli_buf_init(&q, 1024);
	if (sli_buf_printf(&q, "\"%s\"", s) != SLI_OK)
		y->w.err = SLI_E_NOMEM;
	else
		raw(y, key, sli_buf_slice(&q));
	sli_buf_free(&q);
}

static void
finish(struct acp_session *s, struct txn *t, struct say *y, uint64_t request,
    unsigned flags)
{
	uint64_t turn = s->active ? s->active->no : 0;
	struct sli_slice line;
	struct out *o = NULL;

	sli_jw_end(&y->w);
	if (sli_jw_done(&y->w) == SLI_OK) {
		line = sli_buf_slice(&y->buf);
		o = sli_alloc(sizeof(*o) + line.n + 1);
	}
	if (!o || !s->ag) {
		if (t)
			t->oom |= !o;
		sli_free(o);
		sli_buf_free(&y->buf);
		return;
	}
	sli_list_init(&o->node);
	o->generation = s->ag->generation;
	o->request = request;
	o->optional = (flags & SAY_OPTIONAL) != 0;
	o->off = 0;
	o->n = line.n + 1;
	memcpy(o->bytes, line.p, line.n);
	o->bytes[line.n] = '\n';
	if (t)
		txn_body(t, txn_add(t, SLI_EV_CLIENT, turn), line);
	sli_buf_free(&y->buf);
	if (!t || flags & SAY_NOW)
		io_send(s, o);
	else
		txn_out(t, o);
}

void
say_error(struct acp_session *s, struct txn *t, struct sli_slice id, int code,
    const char *text, unsigned flags)
{
	struct say y;

	begin(&y);
	raw(&y, "id", id.n ? id : sli_slice_str("null"));
	sli_jw_key(&y.w, "error");
	sli_jw_object(&y.w);
	sli_jw_key(&y.w, "code");
	sli_jw_i64(&y.w, code);
	sli_jw_kcstr(&y.w, "message", text);
	sli_jw_end(&y.w);
	finish(s, t, &y, 0, flags);
}

void
say_permission(struct acp_session *s, struct txn *t, struct sli_slice id,
    struct sli_slice option_token, uint64_t request, unsigned flags)
{
	struct say y;

	begin(&y);
	raw(&y, "id", id);
	sli_jw_key(&y.w, "result");
	sli_jw_object(&y.w);
	sli_jw_key(&y.w, "outcome");
	sli_jw_object(&y.w);
	sli_jw_kcstr(
	    &y.w, "outcome", option_token.n ? "selected" : "cancelled");
	if (option_token.n)
		raw(&y, "optionId", option_token);
	sli_jw_end(&y.w);
	sli_jw_end(&y.w);
	finish(s, t, &y, request, flags);
}

static void
params(struct say *y, const char *method)
{
	sli_jw_kcstr(&y->w, "method", method);
	sli_jw_key(&y->w, "params");
	sli_jw_object(&y->w);
}

void
say_cancel(struct acp_session *s, struct txn *t, unsigned flags)
{
	struct say y;

	begin(&y);
	params(&y, "session/cancel");
	raw_string(&y, "sessionId", s->agent_session);
	sli_jw_end(&y.w);
	finish(s, t, &y, 0, flags);
}

static void
client_capabilities(struct sli_jw *w)
{
	sli_jw_key(w, "protocolVersion");
	sli_jw_u64(w, 1);
	sli_jw_key(w, "clientCapabilities");
	sli_jw_object(w);
	sli_jw_key(w, "fs");
	sli_jw_object(w);
	sli_jw_key(w, "readTextFile");
	sli_jw_bool(w, 0);
	sli_jw_key(w, "writeTextFile");
	sli_jw_bool(w, 0);
	sli_jw_end(w);
	sli_jw_key(w, "terminal");
	sli_jw_bool(w, 0);
	sli_jw_end(w);
	sli_jw_key(w, "clientInfo");
	sli_jw_object(w);
	sli_jw_kcstr(w, "name", "sluice");
	sli_jw_kcstr(w, "title", "Sluice");
	sli_jw_kcstr(w, "version", SLUICE_VERSION);
	sli_jw_end(w);
}

void
say_handshake(struct agent *g, struct txn *t, enum step step)
{
	struct acp_session *s = g->s;
	struct say y;

	begin(&y);
	g->await_id = g->next_id++;
	g->awaiting = 1;
	sli_jw_ku64(&y.w, "id", g->await_id);
	if (step == STEP_INIT) {
		params(&y, "initialize");
		client_capabilities(&y.w);
	} else {
		params(&y, step == STEP_NEW      ? "session/new"
			   : step == STEP_RESUME ? "session/resume"
						 : "session/load");
		if (step != STEP_NEW)
			raw_string(&y, "sessionId", s->agent_session);
		sli_jw_kcstr(&y.w, "cwd", s->cwd);
		sli_jw_key(&y.w, "mcpServers");
		sli_jw_array(&y.w);
		sli_jw_end(&y.w);
	}
	sli_jw_end(&y.w);
	finish(s, t, &y, 0, SAY_NOW);
}

void
say_prompt(struct acp_session *s, struct txn *t, struct turn *turn)
{
	struct sli_slice blocks = sli_buf_slice(&turn->content);
	struct say y;

	begin(&y);
	turn->rpc_id = s->ag->next_id++;
	sli_jw_ku64(&y.w, "id", turn->rpc_id);
	params(&y, "session/prompt");
	if (sli_buf_len(&turn->trace)) {
		sli_jw_key(&y.w, "_meta");
		sli_jw_object(&y.w);
		sli_jw_kstr(&y.w, "traceparent", sli_buf_slice(&turn->trace));
		sli_jw_end(&y.w);
	}
	raw_string(&y, "sessionId", s->agent_session);
	sli_jw_key(&y.w, "prompt");
	if (sli_buf_len(&s->preamble)) {
		/* our block first; then theirs, without the bracket */
		sli_jw_array(&y.w);
		sli_jw_raw(&y.w, sli_buf_slice(&s->preamble));
		sli_jw_raw(&y.w, sli_slice_of(blocks.p + 1, blocks.n - 2));
		sli_jw_end(&y.w);
	} else {
		sli_jw_raw(&y.w, blocks);
	}
	sli_jw_end(&y.w);
	finish(s, t, &y, 0, 0);
}
