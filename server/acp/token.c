/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON tokenizer. Strict grammar (RFC 8259), lenient values: what stands
 * in a string or a number is not looked at beyond its form. Strings are most
 * of an agent's bytes, so their inner loop takes eight at a time. It does not
 * decode, build or recurse. */
#include "acp/token.h"

#include "base/mutant.h"

#include <string.h>

/* In this order: between values, ended, inside strings, inside numbers. */
enum state {
	S_VALUE,     /* a value must come */
	S_ARR_FIRST, /* a value or ] */
	S_OBJ_FIRST, /* a key or } */
	S_OBJ_KEY,   /* a key must come */
	S_COLON,
	S_AFTER, /* a comma or the end of the container */
	S_DONE,
	S_ERR,
	S_STR,
	S_ESC,
	S_HEX,
	S_UTF,
	S_LIT,
	S_MINUS,
	S_ZERO,
	S_INT,
	S_DOT,
	S_FRAC,
	S_EXP,
	S_EXP_SIGN,
	S_EXP_INT
};

void
tok_init(struct tok *t, tok_fn *fn, void *ctx)
{
	memset(t, 0, offsetof(struct tok, bits));
	t->fn = fn;
	t->ctx = ctx;
	t->watch = t->max_depth = TOK_DEPTH_MAX;
	t->state = S_VALUE;
}

static inline uint64_t
offset(const struct tok *t, const uint8_t *p)
{
	return t->pos + (uint64_t)(p - t->chunk);
}

static inline void
tell(struct tok *t, enum tok_kind kind, struct sli_slice text, uint64_t off,
    uint64_t len)
{
	if (t->depth <= t->watch)
		t->fn(t->ctx, t, kind, text, off, len);
}

static inline int
in_object(const struct tok *t)
{
	unsigned top = t->depth - 1;

	return (int)(t->bits[top / 64] >> (top % 64) & 1);
}

static const uint8_t *
fail(struct tok *t, enum tok_err err, const uint8_t *e)
{
	t->state = S_ERR;
	t->err = (uint8_t)err;
	return e;
}

/* --- captures and carried text -------------------------------------------*/

static void
capture_upto(struct tok *t, const uint8_t *p)
{
	size_t have = sli_buf_len(t->cap), n = (size_t)(p - t->cap_from);

	/* Out of memory shows as a capture that ends early, like the cap. */
	if (have < t->cap_max) {
		n = SLI_MIN(n, t->cap_max - have);
		if (n && sli_buf_append(t->cap, t->cap_from, n) != SLI_OK)
			t->cap_max = have;
	}
	t->cap_from = p;
}

void
tok_capture(struct tok *t, struct sli_buf *to, size_t max)
{
	if (t->cap)
		return;
	sli_buf_reset(to);
	t->cap = to;
	t->cap_max = max;
	t->cap_depth = t->depth;
	t->cap_from = t->chunk + (size_t)(t->start - t->pos);
}

/* The chunk ends inside a token: keep the first bytes of its text. */
static void
carry_upto(struct tok *t, const uint8_t *e)
{
	const uint8_t *from = t->text ? t->text : t->chunk;
	size_t n = (size_t)(e - from);

	if (t->text && !SLI_MUTATED(acp_carry_stale))
		t->ncarry = 0;
	t->text = NULL;
	n = SLI_MIN(n, (size_t)(TOK_CARRY - t->ncarry));
	memcpy(t->carry + t->ncarry, from, n);
	t->ncarry = (uint16_t)(t->ncarry + n);
}

/* Text of the token that ends at e (exclusive). */
static inline struct sli_slice
token_text(struct tok *t, const uint8_t *e)
{
	if (t->text)
		return sli_slice_of(t->text, (size_t)(e - t->text));
	carry_upto(t, e);
	return sli_slice_of(t->carry, t->ncarry);
}

static inline void
token_begin(struct tok *t, const uint8_t *p, const uint8_t *text)
{
	t->start = offset(t, p);
	t->text = text;
}

/* --- structure -----------------------------------------------------------*/

static inline void
value_done(struct tok *t)
{
	t->state = t->depth ? S_AFTER : S_DONE;
}

static const uint8_t *
container_begin(struct tok *t, const uint8_t *p, const uint8_t *e, int object)
{
	unsigned d = t->depth;

	if (d >= t->max_depth)
		return fail(t, TOK_ERR_DEEP, e);
	token_begin(t, p, p);
	tell(t, object ? TOK_OBJ : TOK_ARR, sli_slice_of(p, 1), t->start, 1);
	t->bits[d / 64] &= ~(1ull << (d % 64));
	t->bits[d / 64] |= (uint64_t)object << (d % 64);
	t->depth = d + 1;
	t->state = object ? S_OBJ_FIRST : S_ARR_FIRST;
	return p + 1;
}

static const uint8_t *
container_end(struct tok *t, const uint8_t *p, const uint8_t *e)
{
	if (!t->depth || in_object(t) != (*p == '}'))
		return fail(t, TOK_ERR_SYNTAX, e);
	t->depth--;
	if (t->cap && t->depth == t->cap_depth) {
		capture_upto(t, p + 1);
		t->cap = NULL;
	}
	token_begin(t, p, p);
	tell(t, TOK_END, sli_slice_of(p, 1), t->start, 1);
	value_done(t);
	return p + 1;
}

static const uint8_t *
string_begin(struct tok *t, const uint8_t *p, int is_key)
{
	token_begin(t, p, p + 1);
	t->is_key = (uint8_t)is_key;
	t->esc = 0;
	t->state = S_STR;
	return p + 1;
}

/* Next state in a number by what comes; S_DONE = the number is whole and the
 * byte is not its own. Columns: 0, 1-9, point, e, sign, anything else. */
static const uint8_t number_next[][6] = {
    {S_ZERO,    S_INT,     S_ERR,  S_ERR,  S_ERR,      S_ERR }, /* MINUS */
    {S_ERR,     S_ERR,     S_DOT,  S_EXP,  S_DONE,     S_DONE}, /* ZERO */
    {S_INT,     S_INT,     S_DOT,  S_EXP,  S_DONE,     S_DONE}, /* INT */
    {S_FRAC,    S_FRAC,    S_ERR,  S_ERR,  S_ERR,      S_ERR }, /* DOT */
    {S_FRAC,    S_FRAC,    S_DONE, S_EXP,  S_DONE,     S_DONE}, /* FRAC */
    {S_EXP_INT, S_EXP_INT, S_ERR,  S_ERR,  S_EXP_SIGN, S_ERR }, /* EXP */
    {S_EXP_INT, S_EXP_INT, S_ERR,  S_ERR,  S_ERR,      S_ERR }, /* EXP_SIGN */
    {S_EXP_INT, S_EXP_INT, S_DONE, S_DONE, S_DONE,     S_DONE}, /* EXP_INT */
};

static unsigned
number_class(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c > '0';
	return c == '.'               ? 2
	       : (c | 0x20) == 'e'    ? 3
	       : c == '+' || c == '-' ? 4
				      : 5;
}

static const uint8_t *
value_begin(struct tok *t, const uint8_t *p, const uint8_t *e)
{
	uint8_t c = *p;

	if (c == '"')
		return string_begin(t, p, 0);
	if (c == '{' || c == '[')
		return container_begin(t, p, e, c == '{');
	if (c == ']' && t->state == S_ARR_FIRST)
		return container_end(t, p, e);
	if (c == 't' || c == 'f' || c == 'n') {
		t->lit = c == 't' ? TOK_TRUE : c == 'f' ? TOK_FALSE : TOK_NULL;
		t->lit_pos = 1;
		t->state = S_LIT;
	} else {
		t->state = c == '-' ? S_MINUS : number_next[0][number_class(c)];
		if (t->state == S_ERR)
			return fail(t, TOK_ERR_SYNTAX, e);
	}
	token_begin(t, p, p);
	return p + 1;
}

/* Everything between values; returns at the first byte inside one. */
static const uint8_t *
structure(struct tok *t, const uint8_t *p, const uint8_t *e)
{
	uint8_t c = *p;

	if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
		return p + 1;
	switch (t->state) {
	case S_VALUE:
	case S_ARR_FIRST:
		return value_begin(t, p, e);
	case S_OBJ_FIRST:
	case S_OBJ_KEY:
		if (c == '"')
			return string_begin(t, p, 1);
		if (c == '}' && t->state == S_OBJ_FIRST)
			return container_end(t, p, e);
		break;
	case S_COLON:
		if (c == ':') {
			t->state = S_VALUE;
			return p + 1;
		}
		break;
	case S_AFTER:
		if (c == ',') {
			t->state = in_object(t) ? S_OBJ_KEY : S_VALUE;
			return p + 1;
		}
		if (c == '}' || c == ']')
			return container_end(t, p, e);
		break;
	default: /* S_DONE: a second value */
		break;
	}
	return fail(t, TOK_ERR_SYNTAX, e);
}

/* --- strings -------------------------------------------------------------*/

#define ONES  0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

/* True when one of eight bytes is a quote, a backslash, a control character
 * or not ASCII (may err towards true, never towards false). */
static inline int
special8(uint64_t x)
{
	uint64_t q = x ^ (ONES * '"'), b = x ^ (ONES * '\\');

	return ((((q - ONES) & ~q) | ((b - ONES) & ~b) | (x - ONES * 0x20) |
		    x) &
		   HIGHS) != 0;
}

static inline const uint8_t *
skip_plain(const uint8_t *p, const uint8_t *e)
{
	uint64_t a, b;

	while (e - p >= 16) {
		memcpy(&a, p, 8);
		memcpy(&b, p + 8, 8);
		if (special8(a) || special8(b))
			break;
		p += 16;
	}
	while (p < e && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\')
		p++;
	return p;
}

/* First byte of a longer UTF-8 sequence: how many follow, in what bounds. */
static int
utf8_lead(struct tok *t, uint8_t c)
{
	if (c < 0xc2 || c > 0xf4)
		return 0;
	t->need = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	t->lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	t->hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	return 1;
}

static const uint8_t *
utf8_rest(struct tok *t, const uint8_t *p, const uint8_t *e)
{
	while (p < e && t->need) {
		if (*p < t->lo || *p > t->hi) {
			/* this byte is looked at again, as a string's */
			t->bad_utf8 = 1;
			t->need = 0;
			break;
		}
		t->lo = 0x80;
		t->hi = 0xbf;
		t->need--;
		p++;
	}
	t->state = t->need ? S_UTF : S_STR;
	return p;
}

static const uint8_t *
string_end(struct tok *t, const uint8_t *p)
{
	uint64_t len = offset(t, p) + 1 - t->start;

	if (t->depth <= t->watch || t->is_key) {
		struct sli_slice s = token_text(t, p);

		if (t->is_key && (t->esc || sli_slice_is(s, "_meta")))
			t->meta = 1;
		tell(t, t->is_key ? TOK_KEY : TOK_STR, s, t->start, len);
	}
	if (t->is_key)
		t->state = S_COLON;
	else
		value_done(t);
	return p + 1;
}

static const uint8_t *
string(struct tok *t, const uint8_t *p, const uint8_t *e)
{
	while (t->state == S_STR) {
		p = skip_plain(p, e);
		if (p == e)
			return e;
		if (*p == '"')
			return string_end(t, p);
		if (*p == '\\') {
			t->esc = 1;
			t->state = S_ESC;
			return p + 1;
		}
		if (*p < 0x20)
			return fail(t, TOK_ERR_SYNTAX, e);
		if (utf8_lead(t, *p))
			p = utf8_rest(t, p + 1, e);
		else {
			t->bad_utf8 = 1;
			p++;
		}
	}
	return p;
}

static const uint8_t *
escape(struct tok *t, const uint8_t *p, const uint8_t *e)
{
	if (t->state == S_ESC) {
		t->state = S_STR;
		if (*p == 'u') {
			t->hex = 4;
			t->state = S_HEX;
		} else if (!*p || !strchr("\"\\/bfnrt", *p)) {
			return fail(t, TOK_ERR_SYNTAX, e);
		}
		return p + 1;
	}
	for (; p < e && t->hex; p++, t->hex--) {
		uint8_t c = *p | 0x20;

		if (!((*p >= '0' && *p <= '9') || (c >= 'a' && c <= 'f')))
			return fail(t, TOK_ERR_SYNTAX, e);
	}
	if (!t->hex)
		t->state = S_STR;
	return p;
}

/* --- numbers and literals ------------------------------------------------*/

static void
scalar_end(struct tok *t, enum tok_kind kind, const uint8_t *p)
{
	if (t->depth <= t->watch)
		tell(t, kind, token_text(t, p), t->start,
		    offset(t, p) - t->start);
	value_done(t);
}

static const uint8_t *
literal(struct tok *t, const uint8_t *p, const uint8_t *e)
{
	static const char *const words[] = {"true", "false", "null"};
	const char *w = words[t->lit - TOK_TRUE];

	for (; p < e && w[t->lit_pos]; p++, t->lit_pos++)
		if (*p != (uint8_t)w[t->lit_pos])
			return fail(t, TOK_ERR_SYNTAX, e);
	if (!w[t->lit_pos])
		scalar_end(t, (enum tok_kind)t->lit, p);
	return p;
}

static const uint8_t *
number(struct tok *t, const uint8_t *p, const uint8_t *e)
{
	for (; p < e; p++) {
		unsigned s = number_next[t->state - S_MINUS][number_class(*p)];

		if (s == S_ERR)
			return fail(t, TOK_ERR_SYNTAX, e);
		if (s == S_DONE) {
			scalar_end(t, TOK_NUM, p);
			break;
		}
		t->state = (uint8_t)s;
	}
	return p;
}

/* --- feeding -------------------------------------------------------------*/

void
tok_feed(struct tok *t, const uint8_t *p, size_t n)
{
	const uint8_t *e = p + n;

	t->chunk = p;
	t->text = NULL;
	t->cap_from = p;
	while (p < e) {
		if (t->state == S_STR)
			p = string(t, p, e);
		else if (t->state < S_ERR)
			p = structure(t, p, e);
		else if (t->state == S_ERR)
			break;
		else if (t->state == S_LIT)
			p = literal(t, p, e);
		else if (t->state == S_UTF)
			p = utf8_rest(t, p, e);
		else if (t->state < S_LIT)
			p = escape(t, p, e);
		else
			p = number(t, p, e);
	}
	/* Only a token that is open here may need what it has so far. */
	if (t->state > S_ERR && (t->depth <= t->watch || t->is_key))
		carry_upto(t, e);
	if (t->cap)
		capture_upto(t, e);
	t->pos += n;
}

enum tok_err
tok_finish(struct tok *t)
{
	/* A blank ends an open number and changes nothing else. */
	tok_feed(t, (const uint8_t *)" ", 1);
	t->pos--;
	if (t->state != S_DONE && t->err == TOK_ERR_NONE)
		t->err = TOK_ERR_SYNTAX;
	return (enum tok_err)t->err;
}

int
tok_blank(const struct tok *t)
{
	return t->state == S_VALUE && !t->depth;
}
