/* SPDX-License-Identifier: Apache-2.0 */
/* Incremental JSON tokenizer over bytes: any split, one pass, memory of one
 * bit per level. It checks the grammar and says where values begin and end; it
 * decodes nothing, so that numbers of any size, lone surrogates and \u0000
 * pass untouched. Knows no ACP, allocates nothing but the capture that a
 * caller asks for. Thread: any, one at a time. */
#ifndef SLUICE_ACP_TOKEN_H
#define SLUICE_ACP_TOKEN_H

#include "base/buf.h"
#include "base/slice.h"

/* Deeper documents are refused (TOK_ERR_DEEP), never recursed into; max_depth
 * may be lowered after tok_init. */
#define TOK_DEPTH_MAX 1024u
/* So many first bytes of a watched key or scalar are seen in one piece. */
#define TOK_CARRY 512u

enum tok_kind {
	TOK_OBJ, /* begin; the end comes as TOK_END */
	TOK_ARR,
	TOK_END,
	TOK_KEY, /* text without the quotes, raw */
	TOK_STR, /* text without the quotes, raw */
	TOK_NUM,
	TOK_TRUE,
	TOK_FALSE,
	TOK_NULL,
};

enum tok_err {
	TOK_ERR_NONE,
	TOK_ERR_SYNTAX,
	TOK_ERR_DEEP,
};

struct tok;

/* One token. t->depth is that of the container it stands in (of OBJ, ARR and
 * END: of the container's parent). off and len are those of the raw bytes in
 * the document, quotes included; of OBJ, ARR and END the bracket's. `text`
 * holds at least the first min(length, TOK_CARRY) bytes and is valid during
 * the call. */
typedef void tok_fn(void *ctx, struct tok *t, enum tok_kind kind,
    struct sli_slice text, uint64_t off, uint64_t len);

struct tok {
	tok_fn *fn;
	void *ctx;
	/* Tokens in containers deeper than this are checked but not told.
	 * The callback may change it at any token. */
	unsigned watch;
	unsigned depth;
	unsigned max_depth;   /* at most TOK_DEPTH_MAX */
	uint64_t pos;         /* bytes before the chunk being fed */
	uint64_t start;       /* of the current token */
	const uint8_t *chunk; /* being fed */
	const uint8_t *text;  /* current text in it; NULL = began before */
	uint8_t state;        /* enum in token.c */
	uint8_t err;          /* enum tok_err */
	uint8_t is_key;       /* the current string is a key */
	uint8_t esc;          /* the current string has a backslash */
	uint8_t hex;          /* digits of \u still to come */
	uint8_t lit;          /* enum tok_kind of the current literal */
	uint8_t lit_pos;
	uint8_t need;     /* UTF-8 continuation bytes still to come */
	uint8_t lo, hi;   /* bounds of the next one */
	uint8_t bad_utf8; /* some string holds invalid UTF-8 */
	uint8_t meta;     /* some key is "_meta" (or escaped: may be) */
	uint16_t ncarry;
	/* see tok_capture */
	struct sli_buf *cap;
	const uint8_t *cap_from;
	size_t cap_max;
	unsigned cap_depth;
	uint64_t bits[TOK_DEPTH_MAX / 64]; /* 1 = object */
	uint8_t carry[TOK_CARRY];
};

void tok_init(struct tok *t, tok_fn *fn, void *ctx);
/* Feed the next bytes. After an error the rest is only counted. */
void tok_feed(struct tok *t, const uint8_t *p, size_t n);
/* No more bytes: an open number ends, an open value is an error. */
enum tok_err tok_finish(struct tok *t);
/* Nothing but blanks so far. */
int tok_blank(const struct tok *t);
/* From inside the callback of TOK_OBJ or TOK_ARR: append the raw bytes of this
 * container, at most max, to `to` until it ends. One at a time; the inner one
 * is refused while an outer one runs. */
void tok_capture(struct tok *t, struct sli_buf *to, size_t max);

#endif
