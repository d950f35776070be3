/* SPDX-License-Identifier: Apache-2.0 */
/* sluice.v1.Sessions/Prompt: gathers the parts of a prompt, looks its key up,
 * hands it to the engine, and answers when the turn is committed. The client
 * may leave at any time: an accepted turn runs all the same. */
#include "service/room.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "crypto/hash.h"
#include "json/json.h"

#include <string.h>

#define KEY_MAX 64

struct prompt {
	struct svc *svc;
	struct svc_call call;
	struct sli_principal who;
	char session[SLI_ID_MAX];
	struct sli_buf content; /* as sent: text, or the JSON array */
	struct sli_buf blocks;  /* the JSON array */
	int is_text, queue, complete, streaming;
	int64_t deadline_ms;
	uint8_t key[KEY_MAX];
	size_t key_len;
	uint8_t hash[SLI_HASH_BYTES];
	int busy; /* an engine or the store will call back */
	int gone; /* the stream is over; free when not busy */
};

static void
prompt_free(struct prompt *p)
{
	sli_buf_free(&p->content);
	sli_buf_free(&p->blocks);
	sli_free(p);
}

/* The call has its answer, or needs none any more. */
static void
prompt_end(struct prompt *p)
{
	p->busy = 0;
	if (!p->streaming || p->gone)
		prompt_free(p);
}

static void
answer(struct prompt *p, uint64_t turn, uint64_t first_seq, int outcome,
    int repeated)
{
	Sluice__V1__PromptResponse m = SLUICE__V1__PROMPT_RESPONSE__INIT;
	m.turn = turn;
	m.first_seq = first_seq;
	m.outcome = (Sluice__V1__TurnOutcome)outcome;
	m.repeated_key = repeated;
	svc_reply(p->call, &m.base);
}

static void
refuse(struct prompt *p, enum sli_err code, const char *textp)
{
	svc_refuse(p->call, code, "prompt", "%s", textp);
}

static void
accepted(void *ctx, const struct acp_accepted *a, const struct sli_errinfo *ei)
{
	struct prompt *p = ctx;
	if (a)
		answer(p, a->turn, a->first_seq, a->outcome, a->repeated);
	else
		svc_fail(p->call, ei);
	prompt_end(p);
}

static void
conflict(struct prompt *p)
{
	refuse(p, SLI_E_KEY_CONFLICT,
	    "this key was used for another prompt of this session");
}

/* Known to the engine (queued, running, just ended)? */
static int
known_live(struct prompt *p, struct acp_session *s)
{
	uint64_t turn = 0, seq = 0;
	uint8_t hash[SLI_HASH_BYTES];
	int outcome = 0;
	if (p->key_len == 0 ||
	    !acp_turn_by_key(s, sli_slice_of(p->key, p->key_len), &turn, &seq,
		hash, &outcome))
		return 0;
	if (memcmp(hash, p->hash, sizeof(hash)) != 0)
		conflict(p);
	else
		answer(p, turn, seq, outcome, 1);
	return 1;
}

/* The store would still take it, from what it keeps for ends; a turn that
 * could not end must not begin. */
static int
disk_full(struct prompt *p)
{
	struct store_stats st;
	store_stats(p->svc->store, &st);
	if (st.full)
		refuse(p, SLI_E_STORAGE_FULL,
		    "the disk of the server's state is full: make room, then "
		    "prompt again");
	return st.full;
}

static void
submit(struct prompt *p, struct acp_session *s)
{
	struct acp_ask ask = {
	    .content = sli_buf_slice(&p->blocks),
	    .key = sli_slice_of(p->key, p->key_len),
	    .queue = p->queue,
	    .deadline_ms = p->deadline_ms,
	    .traceparent = svc_traceparent(p->call),
	};
	memcpy(ask.hash, p->hash, sizeof(ask.hash));
	acp_prompt(s, &ask, accepted, p);
}

static void
key_looked_up(
    void *ctx, const struct store_turn_row *row, const struct sli_errinfo *ei)
{
	struct prompt *p = ctx;
	struct acp_session *s = acp_find(p->svc->acp, &p->who, p->session);
	if (ei && ei->code != SLI_OK)
		svc_fail(p->call, ei);
	else if (!s)
		refuse(p, SLI_E_NOT_FOUND, "the session has been deleted");
	else if (row && memcmp(row->prompt_hash, p->hash, SLI_HASH_BYTES) != 0)
		conflict(p);
	else if (row)
		answer(p, row->turn, row->first_seq, row->outcome, 1);
	else if (!known_live(p, s) && !disk_full(p)) {
		submit(p, s);
		return;
	}
	prompt_end(p);
}

/* --- content --------------------------------------------------------------*/

/* The prompt as a JSON array of content blocks, and its hash. */
static enum sli_err
make_blocks(struct prompt *p, struct sli_errinfo *ei)
{
	struct sli_slice in = sli_buf_slice(&p->content);
	struct sli_jw w;
	enum sli_err e;
	if (!p->is_text) {
		e = sli_buf_append(&p->blocks, in.p, in.n);
	} else if (!sli_utf8_valid(in)) {
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "prompt",
		    "the text is not valid UTF-8");
	} else {
		sli_jw_init(&w, &p->blocks);
		sli_jw_array(&w);
		sli_jw_object(&w);
		sli_jw_kcstr(&w, "type", "text");
		sli_jw_kstr(&w, "text", in);
		sli_jw_end(&w);
		sli_jw_end(&w);
		e = sli_jw_done(&w);
	}
	if (e != SLI_OK)
		return sli_fail(ei, e, 0, "prompt", "the prompt is too long");
	sli_hash_once(sli_buf_slice(&p->blocks), p->hash);
	sli_buf_free(&p->content);
	return SLI_OK;
}

static void
prompt_go(struct prompt *p)
{
	struct acp_session *s = acp_find(p->svc->acp, &p->who, p->session);
	struct sli_errinfo ei = {0};
	p->complete = 1;
	p->busy = 1;
	if (!s) {
		refuse(p, SLI_E_NOT_FOUND, "the session has been deleted");
	} else if (make_blocks(p, &ei) != SLI_OK) {
		svc_fail(p->call, &ei);
	} else if (known_live(p, s)) {
		p->busy = 1; /* answered */
	} else if (p->key_len) {
		store_find_turn(p->svc->store, p->session,
		    sli_slice_of(p->key, p->key_len), key_looked_up, p);
		return;
	} else if (!disk_full(p)) {
		submit(p, s);
		return;
	}
	prompt_end(p);
}

static enum sli_err
take_part(
    struct prompt *p, const Sluice__V1__PromptPart *m, struct sli_errinfo *ei)
{
	if (p->complete)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "prompt",
		    "a part after the last one");
	if (m->offset != sli_buf_len(&p->content))
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "prompt",
		    "parts must follow each other: expected offset %zu",
		    sli_buf_len(&p->content));
	if (sli_buf_append(&p->content, m->content.data, m->content.len) !=
	    SLI_OK)
		return sli_limit_refuse(ei, SLI_L_ACP_PROMPT,
		    sli_buf_len(&p->content), m->content.len, p->content.max,
		    "prompt");
	return SLI_OK;
}

/* --- the call -------------------------------------------------------------*/

static void
on_part(void *ctx, struct sli_slice msg)
{
	struct prompt *p = ctx;
	struct sli_errinfo ei = {0};
	const Sluice__V1__PromptPart *m = (const void *)svc_unpack(
	    p->call, &sluice__v1__prompt_part__descriptor, msg, &ei);
	if (!m || take_part(p, m, &ei) != SLI_OK) {
		svc_fail(p->call, &ei);
		return;
	}
	svc_release(p->call, msg.n);
	if (m->last)
		prompt_go(p);
}

static void
on_end(void *ctx)
{
	struct prompt *p = ctx;
	if (!p->complete)
		refuse(p, SLI_E_INVALID_ARGUMENT,
		    "the prompt ended before its last part");
}

static void
on_gone(void *ctx, enum sli_err why)
{
	struct prompt *p = ctx;
	(void)why;
	p->gone = 1;
	if (!p->busy)
		prompt_free(p);
}

static const struct svc_stream_ops ops = {
    .message = on_part,
    .end = on_end,
    .gone = on_gone,
};

static struct prompt *
prompt_new(struct svc *svc, struct svc_call c, const Sluice__V1__PromptPart *m)
{
	size_t max = sli_limits_get(svc->cfg.limits, SLI_L_ACP_PROMPT);
	struct sli_slice key = svc_key(c);
	struct prompt *p = sli_zalloc(sizeof(*p));
	if (!p)
		return NULL;
	p->svc = svc;
	p->call = c;
	p->who = *svc_principal(c);
	sli_strlcpy(p->session, m->session, sizeof(p->session));
	sli_buf_init(&p->content, max);
	sli_buf_init(&p->blocks, 6 * max + 64); /* every byte escaped */
	p->is_text = m->text;
	p->queue = m->queue;
	p->deadline_ms = (int64_t)SLI_MIN(m->deadline_ms, (uint64_t)INT64_MAX);
	p->key_len = SLI_MIN(key.n, KEY_MAX);
	if (p->key_len)
		memcpy(p->key, key.p, p->key_len);
	return p;
}

SVC_HANDLER(svc_sessions_prompt)
{
	const Sluice__V1__PromptPart *m = (const void *)req;
	struct sli_errinfo ei = {0};
	if (!svc_find_session(svc, c, m->session))
		return;
	struct prompt *p = prompt_new(svc, c, m);
	if (!p) {
		svc_refuse(c, SLI_E_NOMEM, "prompt", "out of memory");
		return;
	}
	if (take_part(p, m, &ei) != SLI_OK) {
		svc_fail(c, &ei);
		prompt_free(p);
		return;
	}
	if (m->last) {
		prompt_go(p);
		return;
	}
	p->streaming = 1;
	if (svc_open(c, &ops, p) != SLI_OK)
		prompt_free(p);
}
