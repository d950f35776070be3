/* SPDX-License-Identifier: Apache-2.0 */
/* What routing needs to know of one line of an agent: its JSON-RPC envelope
 * and a few ACP fields, gathered while the bytes pass, whatever the order of
 * the keys and however long the line. Texts are raw (as between the quotes).
 * Decides nothing and keeps no line. Thread: loop. */
#ifndef SLUICE_ACP_ENVELOPE_H
#define SLUICE_ACP_ENVELOPE_H

#include "acp/token.h"

/* Of a value longer than its room only the length is kept (then text.n is 0
 * and `cut` is set): it can equal nothing of ours. */
struct env_text {
	uint32_t n;
	uint8_t cut, set;
	char s[194];
};

/* Most of an agent's options that is kept, and of its tool call for display. */
#define ENV_OPTIONS_MAX   ((size_t)64 << 10)
#define ENV_TOOL_CALL_MAX ((size_t)16 << 10)

enum env_class {
	ENV_NOISE,        /* not JSON, too deep, or JSON but no object */
	ENV_BATCH,        /* an array: JSON-RPC batches are not ACP */
	ENV_MALFORMED,    /* an object that is no message */
	ENV_REQUEST,      /* method and id (null counts as an id) */
	ENV_NOTIFICATION, /* method without id */
	ENV_RESPONSE,     /* id without method */
	ENV_STRAY_ERROR,  /* error with id null or none */
};

struct envelope {
	struct tok tok;
	uint8_t path[8]; /* what each open object is, enum in envelope.c */
	uint8_t key;     /* what the current key names */
	uint8_t top;     /* enum tok_kind of the document, +1; 0 = none */
	uint8_t bad_id;  /* id is no string, number or null */
	uint8_t id_null;
	uint8_t bad_method; /* method is no string */
	uint8_t has_result, has_error;
	uint8_t result_null;
	uint8_t can_load, can_resume;
	uint8_t has_version;
	int64_t version; /* result.protocolVersion; -1 = not a small integer */
	int64_t code;    /* error.code; 0 = none or not a small integer */
	struct env_text id; /* raw token, quotes included */
	struct env_text method;
	struct env_text session;     /* params.sessionId */
	struct env_text update;      /* params.update.sessionUpdate */
	struct env_text call;        /* toolCallId of the update or tool call */
	struct env_text status;      /* params.update.status */
	struct env_text message_id;  /* params.update.messageId */
	struct env_text request_id;  /* params.requestId, raw token */
	struct env_text title;       /* params.toolCall.title */
	struct env_text stop;        /* result.stopReason */
	struct env_text new_session; /* result.sessionId */
	struct env_text error;       /* error.message */
	struct sli_buf options;      /* params.options, raw; params.toolCall */
	struct sli_buf tool_call;
};

void env_init(struct envelope *e, unsigned max_depth);
void env_fini(struct envelope *e);
/* Ready for the next line; keeps nothing of the last. */
void env_reset(struct envelope *e);

static inline void
env_feed(struct envelope *e, const uint8_t *p, size_t n)
{
	tok_feed(&e->tok, p, n);
}

/* The line is whole. */
enum env_class env_finish(struct envelope *e);

static inline struct sli_slice
env_slice(const struct env_text *t)
{
	return sli_slice_of(t->s, t->n);
}

static inline int
env_is(const struct env_text *t, const char *s)
{
	return t->set && !t->cut && sli_slice_is(env_slice(t), s);
}

#endif
