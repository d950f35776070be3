/* SPDX-License-Identifier: Apache-2.0 */
/* A table says which paths of a message matter and where their values go; the
 * walk over it is one look-up per key of the few objects on those paths. All
 * deeper or other parts are checked by the tokenizer and not told. */
#include "acp/envelope.h"

#include "acp/jtree.h"

#include "base/str.h"

#include <string.h>

/* Objects on the paths, then the values in them. */
enum key {
	K_OTHER,
	O_TOP,
	O_PARAMS,
	O_UPDATE,
	O_TOOL_CALL,
	O_RESULT,
	O_CAPS,
	O_SESSION_CAPS,
	O_ERROR,
	O__LAST = O_ERROR,
	K_ID,
	K_METHOD,
	K_SESSION,
	K_UPDATE,
	K_CALL,
	K_STATUS,
	K_MESSAGE_ID,
	K_REQUEST_ID,
	K_TITLE,
	K_STOP,
	K_NEW_SESSION,
	K_ERROR_MESSAGE,
	K_ERROR_CODE,
	K_VERSION,
	K_LOAD,
	K_RESUME,
	K_OPTIONS,
};

static const struct {
	uint8_t in, is;
	const char *name;
} keys[] = {
    {O_TOP,          K_ID,            "id"                 },
    {O_TOP,          K_METHOD,        "method"             },
    {O_TOP,          O_PARAMS,        "params"             },
    {O_TOP,          O_RESULT,        "result"             },
    {O_TOP,          O_ERROR,         "error"              },
    {O_PARAMS,       K_SESSION,       "sessionId"          },
    {O_PARAMS,       O_UPDATE,        "update"             },
    {O_PARAMS,       O_TOOL_CALL,     "toolCall"           },
    {O_PARAMS,       K_OPTIONS,       "options"            },
    {O_PARAMS,       K_REQUEST_ID,    "requestId"          },
    {O_UPDATE,       K_UPDATE,        "sessionUpdate"      },
    {O_UPDATE,       K_CALL,          "toolCallId"         },
    {O_UPDATE,       K_STATUS,        "status"             },
    {O_UPDATE,       K_MESSAGE_ID,    "messageId"          },
    {O_TOOL_CALL,    K_CALL,          "toolCallId"         },
    {O_TOOL_CALL,    K_TITLE,         "title"              },
    {O_RESULT,       K_STOP,          "stopReason"         },
    {O_RESULT,       K_NEW_SESSION,   "sessionId"          },
    {O_RESULT,       K_VERSION,       "protocolVersion"    },
    {O_RESULT,       O_CAPS,          "agentCapabilities"  },
    {O_CAPS,         K_LOAD,          "loadSession"        },
    {O_CAPS,         O_SESSION_CAPS,  "sessionCapabilities"},
    {O_SESSION_CAPS, K_RESUME,        "resume"             },
    {O_ERROR,        K_ERROR_MESSAGE, "message"            },
    {O_ERROR,        K_ERROR_CODE,    "code"               },
};

static uint8_t
look_up(uint8_t in, struct sli_slice name)
{
	for (size_t i = 0; i < SLI_ARRAY_LEN(keys); i++)
		if (keys[i].in == in && sli_slice_is(name, keys[i].name))
			return keys[i].is;
	return K_OTHER;
}

static struct env_text *
place(struct envelope *e, uint8_t key)
{
	switch (key) {
	case K_ID:
		return &e->id;
	case K_METHOD:
		return &e->method;
	case K_SESSION:
		return &e->session;
	case K_UPDATE:
		return &e->update;
	case K_CALL:
		return &e->call;
	case K_STATUS:
		return &e->status;
	case K_MESSAGE_ID:
		return &e->message_id;
	case K_REQUEST_ID:
		return &e->request_id;
	case K_TITLE:
		return &e->title;
	case K_STOP:
		return &e->stop;
	case K_NEW_SESSION:
		return &e->new_session;
	case K_ERROR_MESSAGE:
		return &e->error;
	default:
		return NULL;
	}
}

static void
put_text(struct env_text *t, struct sli_slice s, uint64_t len)
{
	t->set = 1;
	t->cut = len > sizeof(t->s) || s.n < len;
	t->n = t->cut ? 0 : (uint32_t)len;
	memcpy(t->s, s.p, t->n);
}

/* An id of a JSON-RPC message keeps its quotes: it is echoed as it came. */
static void
put_token(
    struct env_text *t, enum tok_kind kind, struct sli_slice s, uint64_t len)
{
	if (kind != TOK_STR) {
		put_text(t, s, len);
		return;
	}
	t->set = 1;
	t->cut = len > sizeof(t->s) || s.n < len - 2;
	t->n = t->cut ? 0 : (uint32_t)len;
	if (t->cut)
		return;
	t->s[0] = '"';
	memcpy(t->s + 1, s.p, s.n);
	t->s[len - 1] = '"';
}

static int64_t
small_int(enum tok_kind kind, struct sli_slice s, int64_t otherwise)
{
	char tmp[24];
	int64_t v;

	if (kind != TOK_NUM || s.n >= sizeof(tmp))
		return otherwise;
	memcpy(tmp, s.p, s.n);
	tmp[s.n] = '\0';
	return sli_parse_i64(tmp, &v) == SLI_OK ? v : otherwise;
}

static void
scalar(struct envelope *e, enum tok_kind kind, struct sli_slice s, uint64_t len)
{
	switch (e->key) {
	case K_ID:
		e->id_null = kind == TOK_NULL;
		e->bad_id = kind == TOK_TRUE || kind == TOK_FALSE;
		put_token(&e->id, kind, s, len);
		return;
	case K_REQUEST_ID:
		put_token(&e->request_id, kind, s, len);
		return;
	case K_ERROR_CODE:
		e->code = small_int(kind, s, 0);
		return;
	case K_VERSION:
		e->has_version = 1;
		e->version = small_int(kind, s, -1);
		return;
	case K_LOAD:
		e->can_load = kind == TOK_TRUE;
		return;
	case K_RESUME:
		e->can_resume = kind == TOK_TRUE;
		return;
	case K_METHOD:
		e->bad_method = kind != TOK_STR;
		break;
	default:
		break;
	}
	if (kind == TOK_STR && place(e, e->key))
		put_text(place(e, e->key), s, len - 2);
}

/* A value of the message itself began: is it a result, is it an error? */
static void
top_member(struct envelope *e, enum tok_kind kind)
{
	if (e->key == O_RESULT) {
		e->has_result = 1;
		e->result_null = kind == TOK_NULL;
	} else if (e->key == O_ERROR) {
		/* some send "error": null beside a result */
		e->has_error = kind != TOK_NULL;
	}
}

static void
container(struct envelope *e, struct tok *t, enum tok_kind kind)
{
	uint8_t key = t->depth ? e->key : O_TOP;

	if (key == K_ID)
		e->bad_id = 1;
	if (key == K_METHOD)
		e->bad_method = 1;
	if (key == K_RESUME)
		e->can_resume = kind == TOK_OBJ;
	if (key == K_OPTIONS && kind == TOK_ARR)
		tok_capture(t, &e->options, ENV_OPTIONS_MAX);
	if (key == O_TOOL_CALL && kind == TOK_OBJ)
		tok_capture(t, &e->tool_call, ENV_TOOL_CALL_MAX);
	/* Only objects on the paths are looked into. */
	if (kind == TOK_OBJ && key >= O_TOP && key <= O__LAST &&
	    t->depth + 1 < sizeof(e->path)) {
		e->path[t->depth + 1] = key;
		t->watch = t->depth + 1;
	} else {
		t->watch = t->depth;
	}
}

static void
token(void *ctx, struct tok *t, enum tok_kind kind, struct sli_slice s,
    uint64_t off, uint64_t len)
{
	struct envelope *e = ctx;

	(void)off;
	if (kind == TOK_KEY) {
		struct sli_buf plain;

		if (!t->esc) {
			e->key = look_up(e->path[t->depth], s);
			return;
		}
		/* "m\u0065thod" names the same thing */
		sli_buf_init(&plain, TOK_CARRY);
		e->key = K_OTHER;
		if (s.n + 2 == len && json_decode(&plain, s, 64) == 1)
			e->key =
			    look_up(e->path[t->depth], sli_buf_slice(&plain));
		sli_buf_free(&plain);
		return;
	}
	if (kind == TOK_END) {
		t->watch = t->depth;
		return;
	}
	if (!t->depth)
		e->top = (uint8_t)(kind + 1);
	else if (e->path[t->depth] == O_TOP)
		top_member(e, kind);
	if (kind == TOK_OBJ || kind == TOK_ARR)
		container(e, t, kind);
	else if (t->depth)
		scalar(e, kind, s, len);
}

void
env_init(struct envelope *e, unsigned max_depth)
{
	memset(e, 0, sizeof(*e));
	sli_buf_init(&e->options, ENV_OPTIONS_MAX);
	sli_buf_init(&e->tool_call, ENV_TOOL_CALL_MAX);
	tok_init(&e->tok, token, e);
	e->tok.max_depth = SLI_MIN(max_depth, TOK_DEPTH_MAX);
}

void
env_fini(struct envelope *e)
{
	sli_buf_free(&e->options);
	sli_buf_free(&e->tool_call);
}

void
env_reset(struct envelope *e)
{
	struct env_text *const texts[] = {&e->id, &e->method, &e->session,
	    &e->update, &e->call, &e->status, &e->message_id, &e->request_id,
	    &e->title, &e->stop, &e->new_session, &e->error};
	unsigned max = e->tok.max_depth;

	env_fini(e);
	for (size_t i = 0; i < SLI_ARRAY_LEN(texts); i++)
		texts[i]->n = texts[i]->cut = texts[i]->set = 0;
	tok_init(&e->tok, token, e);
	e->tok.max_depth = max;
	memset(e->path, 0, (size_t)((uint8_t *)&e->id - e->path));
}

enum env_class
env_finish(struct envelope *e)
{
	enum tok_err err = tok_finish(&e->tok);

	if (err != TOK_ERR_NONE)
		return ENV_NOISE;
	if (e->top == TOK_ARR + 1)
		return ENV_BATCH;
	if (e->top != TOK_OBJ + 1)
		return ENV_NOISE;
	if (e->method.set || e->bad_method) {
		if (e->bad_method || e->bad_id)
			return ENV_MALFORMED;
		return e->id.set ? ENV_REQUEST : ENV_NOTIFICATION;
	}
	if (e->bad_id)
		return ENV_MALFORMED;
	if (e->id.set && !e->id_null)
		return ENV_RESPONSE;
	return e->has_error ? ENV_STRAY_ERROR : ENV_MALFORMED;
}
