/* SPDX-License-Identifier: Apache-2.0 */
/* The flat index of a JSON document, made by one pass of the tokenizer, and
 * the two small conversions of strings. Reads; never writes JSON values. */
#include "acp/jtree.h"

#include "base/mem.h"

#include <string.h>

void
jtree_init(struct jtree *j, uint32_t max_nodes)
{
	memset(j, 0, sizeof(*j));
	j->max = max_nodes;
}

void
jtree_fini(struct jtree *j)
{
	sli_free(j->v);
	sli_free(j->open);
	jtree_init(j, j->max);
}

void
jtree_swap(struct jtree *a, struct jtree *b)
{
	struct jtree t = *a;

	*a = *b;
	*b = t;
}

static int
room(struct jtree *j)
{
	uint32_t cap = j->cap ? j->cap * 2 : 32;
	struct jnode *v;

	if (j->n < j->cap)
		return 1;
	if (j->n >= j->max)
		return 0;
	cap = SLI_MIN(cap, j->max);
	v = sli_realloc(j->v, cap * sizeof(*v));
	if (!v)
		return 0;
	j->v = v;
	j->cap = cap;
	return 1;
}

static void
token(void *ctx, struct tok *t, enum tok_kind kind, struct sli_slice text,
    uint64_t off, uint64_t len)
{
	struct jtree *j = ctx;
	struct jnode *v;

	(void)text;
	if (j->failed)
		return;
	if (kind == TOK_KEY) {
		j->key = (uint32_t)off + 1;
		j->key_len = (uint32_t)len - 2;
		return;
	}
	if (kind == TOK_END) {
		v = &j->v[j->open[--j->depth]];
		v->len = (uint32_t)(off + 1) - v->off;
		v->end = j->n;
		return;
	}
	if (!room(j)) {
		j->failed = 1;
		t->watch = 0;
		return;
	}
	v = &j->v[j->n];
	memset(v, 0, sizeof(*v));
	v->off = (uint32_t)off;
	v->len = (uint32_t)len;
	v->kind = (uint8_t)kind;
	v->end = j->n + 1;
	v->parent = j->depth ? j->open[j->depth - 1] : 0;
	if (j->depth && j->v[j->open[j->depth - 1]].kind == TOK_OBJ) {
		v->in_obj = 1;
		v->key = j->key;
		v->key_len = j->key_len;
	}
	if (kind == TOK_OBJ || kind == TOK_ARR)
		j->open[j->depth++] = j->n;
	j->n++;
}

int
jtree_parse(struct jtree *j, struct sli_slice doc)
{
	struct tok t;

	j->n = j->depth = 0;
	j->failed = 0;
	j->p = doc.p;
	if (doc.n >= UINT32_MAX)
		return -1;
	if (!j->open)
		j->open = sli_calloc(TOK_DEPTH_MAX, sizeof(*j->open));
	if (!j->open)
		return -1;
	tok_init(&t, token, j);
	tok_feed(&t, doc.p, doc.n);
	if (tok_finish(&t) != TOK_ERR_NONE || t.bad_utf8 || j->failed) {
		j->n = 0;
		return -1;
	}
	return 0;
}

struct sli_slice
jtree_raw(const struct jtree *j, uint32_t node)
{
	if (node == JNONE)
		return sli_slice_of(NULL, 0);
	return sli_slice_of(j->p + j->v[node].off, j->v[node].len);
}

struct sli_slice
jtree_text(const struct jtree *j, uint32_t node)
{
	struct sli_slice s = jtree_raw(j, node);

	if (node == JNONE || j->v[node].kind != TOK_STR)
		return sli_slice_of(NULL, 0);
	return sli_slice_of(s.p + 1, s.n - 2);
}

struct sli_slice
jtree_key(const struct jtree *j, uint32_t node)
{
	return sli_slice_of(j->p + j->v[node].key, j->v[node].key_len);
}

uint32_t
jtree_get_raw(const struct jtree *j, uint32_t node, struct sli_slice key)
{
	uint32_t c, found = JNONE;

	if (node == JNONE || node >= j->n || j->v[node].kind != TOK_OBJ)
		return JNONE;
	for (c = jtree_first(j, node); c != JNONE; c = jtree_next(j, node, c))
		if (sli_slice_eq(jtree_key(j, c), key))
			found = c;
	return found;
}

uint32_t
jtree_get(const struct jtree *j, uint32_t node, const char *key)
{
	return jtree_get_raw(j, node, sli_slice_str(key));
}

uint32_t
jtree_at(const struct jtree *j, uint32_t node, uint32_t i)
{
	uint32_t c;

	if (node == JNONE || node >= j->n || j->v[node].kind != TOK_ARR)
		return JNONE;
	c = jtree_first(j, node);
	while (c != JNONE && i--)
		c = jtree_next(j, node, c);
	return c;
}

/* --- strings -------------------------------------------------------------*/

static uint32_t
hex4(const uint8_t *p)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++) {
		uint8_t c = p[i];

		v = v << 4 |
		    (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return v;
}

static unsigned
utf8_put(uint8_t *d, uint32_t c)
{
	if (c < 0x80) {
		d[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		d[0] = (uint8_t)(0xc0 | c >> 6);
		d[1] = (uint8_t)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		d[0] = (uint8_t)(0xe0 | c >> 12);
		d[1] = (uint8_t)(0x80 | (c >> 6 & 63));
		d[2] = (uint8_t)(0x80 | (c & 63));
		return 3;
	}
	d[0] = (uint8_t)(0xf0 | c >> 18);
	d[1] = (uint8_t)(0x80 | (c >> 12 & 63));
	d[2] = (uint8_t)(0x80 | (c >> 6 & 63));
	d[3] = (uint8_t)(0x80 | (c & 63));
	return 4;
}

/* One \uXXXX at p (or a pair of them): its character and how long it is. */
static size_t
unescape_u(const uint8_t *p, const uint8_t *e, uint32_t *ret_c, int *exact)
{
	uint32_t c = hex4(p + 2), lo;

	if (c >= 0xd800 && c < 0xdc00 && e - p >= 12 && p[6] == '\\' &&
	    p[7] == 'u') {
		lo = hex4(p + 8);
		if (lo >= 0xdc00 && lo < 0xe000) {
			*ret_c = 0x10000 + ((c - 0xd800) << 10) + (lo - 0xdc00);
			return 12;
		}
	}
	if (!c || (c >= 0xd800 && c < 0xe000)) {
		c = 0xfffd;
		*exact = 0;
	}
	*ret_c = c;
	return 6;
}

int
json_decode(struct sli_buf *to, struct sli_slice raw, size_t max)
{
	static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
	const uint8_t *p = raw.p, *e = raw.p + raw.n;
	size_t start = sli_buf_len(to), n;
	uint8_t d[4];
	uint32_t c;
	int exact = 1;

	while (p < e) {
		size_t skip = 1;

		n = 1;
		d[0] = *p;
		/* the text may be no JSON at all: never look past its end */
		if (*p == '\\' && e - p >= 6 && p[1] == 'u') {
			skip = unescape_u(p, e, &c, &exact);
			n = utf8_put(d, c);
		} else if (*p == '\\' && e - p >= 2 && p[1] &&
			   strchr(from, p[1])) {
			d[0] = (uint8_t)is[strchr(from, p[1]) - from];
			skip = 2;
		} else if (*p >= 0xc0) {
			n = *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
			n = skip = SLI_MIN(n, (size_t)(e - p));
			memcpy(d, p, n);
		}
		if (sli_buf_len(to) - start + n > max)
			return 0;
		if (sli_buf_append(to, d, n) != SLI_OK)
			return -1;
		p += skip;
	}
	return exact;
}
