/* SPDX-License-Identifier: Apache-2.0 */
/* The small JSON reader; see json.h. */
#include "json.h"

#include <string.h>

struct cur {
	const char *p, *end;
};

static int
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void
skip_space(struct cur *c)
{
	while (c->p < c->end && is_space(*c->p))
		c->p++;
}

/* --- validity ------------------------------------------------------------*/

static int
hex4(const char *p)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		char h = p[i];

		v *= 16;
		if (h >= '0' && h <= '9')
			v += h - '0';
		else if (h >= 'a' && h <= 'f')
			v += h - 'a' + 10;
		else if (h >= 'A' && h <= 'F')
			v += h - 'A' + 10;
		else
			return -1;
	}
	return v;
}

/* Length of the UTF-8 character at p, 0 when it is not one. */
static size_t
utf8_len(const unsigned char *p, size_t left)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	unsigned v;

	if (n == 1)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4 || left < n)
		return 0;
	v = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (p[i] & 0x3fu);
	}
	if (v < least[n] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
		return 0;
	return n;
}

int
json_utf8_ok(const char *p, size_t n)
{
	for (size_t i = 0, k; i < n; i += k) {
		k = utf8_len((const unsigned char *)p + i, n - i);
		if (k == 0)
			return 0;
	}
	return 1;
}

static int
take_escape(struct cur *c)
{
	if (c->end - c->p < 2)
		return 0;
	if (c->p[1] == 'u') {
		if (c->end - c->p < 6 || hex4(c->p + 2) < 0)
			return 0;
		c->p += 6;
		return 1;
	}
	if (!memchr("\"\\/bfnrt", c->p[1], 8))
		return 0;
	c->p += 2;
	return 1;
}

/* At a quote. */
static int
take_string(struct cur *c)
{
	c->p++;
	while (c->p < c->end && *c->p != '"') {
		const unsigned char *u = (const unsigned char *)c->p;
		size_t n;

		if (*u < 0x20)
			return 0;
		if (*u == '\\') {
			if (!take_escape(c))
				return 0;
			continue;
		}
		n = utf8_len(u, (size_t)(c->end - c->p));
		if (n == 0)
			return 0;
		c->p += n;
	}
	if (c->p == c->end)
		return 0;
	c->p++;
	return 1;
}

static int
take_digits(struct cur *c)
{
	const char *from = c->p;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		c->p++;
	return c->p != from;
}

static int
take_number(struct cur *c)
{
	if (*c->p == '-')
		c->p++;
	if (c->p < c->end && *c->p == '0')
		c->p++;
	else if (!take_digits(c))
		return 0;
	if (c->p < c->end && *c->p == '.') {
		c->p++;
		if (!take_digits(c))
			return 0;
	}
	if (c->p < c->end && (*c->p == 'e' || *c->p == 'E')) {
		c->p++;
		if (c->p < c->end && (*c->p == '+' || *c->p == '-'))
			c->p++;
		if (!take_digits(c))
			return 0;
	}
	return 1;
}

static int
take_word(struct cur *c, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, w, n) != 0)
		return 0;
	c->p += n;
	return 1;
}

static int
take_scalar(struct cur *c)
{
	switch (*c->p) {
	case '"':
		return take_string(c);
	case 't':
		return take_word(c, "true");
	case 'f':
		return take_word(c, "false");
	case 'n':
		return take_word(c, "null");
	default:
		return take_number(c);
	}
}

/* Key and colon of an object's member. */
static int
take_key(struct cur *c)
{
	skip_space(c);
	if (c->p == c->end || *c->p != '"' || !take_string(c))
		return 0;
	skip_space(c);
	if (c->p == c->end || *c->p != ':')
		return 0;
	c->p++;
	return 1;
}

struct nest {
	char close[JSON_DEPTH_MAX];
	size_t depth;
};

/* At a bracket: 1 when something stands inside, 2 when it is empty (and the
 * cursor is at its end), 0 on an error. */
static int
take_open(struct cur *c, struct nest *n)
{
	char close = *c->p == '{' ? '}' : ']';

	if (n->depth == JSON_DEPTH_MAX)
		return 0;
	n->close[n->depth++] = close;
	c->p++;
	skip_space(c);
	if (c->p == c->end)
		return 0;
	if (*c->p == close)
		return 2;
	return close == ']' || take_key(c);
}

/* Behind a value: closing brackets, then a comma. 1 when the outermost value
 * has ended, 2 when another follows, 0 on an error. */
static int
take_after(struct cur *c, struct nest *n)
{
	while (n->depth != 0) {
		skip_space(c);
		if (c->p == c->end)
			return 0;
		if (*c->p != n->close[n->depth - 1])
			break;
		c->p++;
		n->depth--;
	}
	if (n->depth == 0)
		return 1;
	if (*c->p++ != ',')
		return 0;
	if (n->close[n->depth - 1] == '}' && !take_key(c))
		return 0;
	return 2;
}

/* One value, nested or not. */
static int
take_value(struct cur *c)
{
	struct nest n;
	int r;

	n.depth = 0;
	for (;;) {
		skip_space(c);
		if (c->p == c->end)
			return 0;
		if (*c->p == '{' || *c->p == '[')
			r = take_open(c, &n);
		else
			r = take_scalar(c) ? 2 : 0;
		if (r == 2)
			r = take_after(c, &n);
		else if (r == 1)
			continue;
		if (r != 2)
			return r;
	}
}

int
json_line_ok(const char *p, size_t n)
{
	struct cur c = {p, p + n};

	if (n == 0 || !take_value(&c))
		return 0;
	while (c.p < c.end && is_space(*c.p))
		c.p++;
	return c.p == c.end;
}

/* --- finding -------------------------------------------------------------*/

static const struct json none = {NULL, 0};

/* The value at the cursor, which moves behind it. */
static struct json
value_here(struct cur *c)
{
	struct json v;

	skip_space(c);
	v.p = c->p;
	if (c->p == c->end || !take_value(c))
		return none;
	v.n = (size_t)(c->p - v.p);
	return v;
}

struct json
json_member(struct json obj, const char *key)
{
	struct cur c = {obj.p, obj.p ? obj.p + obj.n : NULL};

	if (!obj.p || obj.n < 2 || *c.p != '{')
		return none;
	c.p++;
	for (;;) {
		struct json k, v;

		skip_space(&c);
		if (c.p == c.end || *c.p != '"')
			return none;
		k.p = c.p;
		if (!take_string(&c))
			return none;
		k.n = (size_t)(c.p - k.p);
		skip_space(&c);
		if (c.p == c.end || *c.p++ != ':')
			return none;
		v = value_here(&c);
		if (!v.p || json_is(k, key))
			return v;
		skip_space(&c);
		if (c.p == c.end || *c.p++ != ',')
			return none;
	}
}

struct json
json_path(struct json obj, const char *path)
{
	char key[64];

	for (;;) {
		size_t n = strcspn(path, ".");

		if (n >= sizeof(key))
			return none;
		memcpy(key, path, n);
		key[n] = '\0';
		obj = json_member(obj, key);
		if (!obj.p || path[n] == '\0')
			return obj;
		path += n + 1;
	}
}

struct json
json_next(struct json arr, size_t *pos)
{
	struct cur c = {arr.p, arr.p ? arr.p + arr.n : NULL};
	struct json v;

	if (!arr.p || arr.n < 2 || *arr.p != '[')
		return none;
	c.p += *pos ? *pos : 1;
	skip_space(&c);
	if (*pos != 0) {
		if (c.p == c.end || *c.p != ',')
			return none;
		c.p++;
	} else if (c.p < c.end && *c.p == ']') {
		return none;
	}
	v = value_here(&c);
	*pos = (size_t)(c.p - arr.p);
	return v;
}

int
json_is(struct json v, const char *s)
{
	size_t n = strlen(s);

	return v.p && v.n == n + 2 && v.p[0] == '"' &&
	       memcmp(v.p + 1, s, n) == 0;
}

/* --- text ----------------------------------------------------------------*/

static size_t
put_utf8(char *d, unsigned v)
{
	if (v < 0x80) {
		d[0] = (char)v;
		return 1;
	}
	if (v < 0x800) {
		d[0] = (char)(0xc0 | v >> 6);
		d[1] = (char)(0x80 | (v & 63));
		return 2;
	}
	if (v < 0x10000) {
		d[0] = (char)(0xe0 | v >> 12);
		d[1] = (char)(0x80 | (v >> 6 & 63));
		d[2] = (char)(0x80 | (v & 63));
		return 3;
	}
	d[0] = (char)(0xf0 | v >> 18);
	d[1] = (char)(0x80 | (v >> 12 & 63));
	d[2] = (char)(0x80 | (v >> 6 & 63));
	d[3] = (char)(0x80 | (v & 63));
	return 4;
}

/* The \u escape at p, and the one after it when they are a pair. */
static unsigned
get_u(const char **p, const char *end)
{
	int hi = hex4(*p + 2), lo;

	*p += 6;
	if (hi < 0xd800 || hi > 0xdfff)
		return (unsigned)hi;
	if (hi < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
		lo = hex4(*p + 2);
		if (lo >= 0xdc00 && lo <= 0xdfff) {
			*p += 6;
			return 0x10000u + ((unsigned)(hi - 0xd800) << 10) +
			       (unsigned)(lo - 0xdc00);
		}
	}
	return 0xfffd;
}

size_t
json_text(struct json v, char *dst)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *p = v.p + 1, *end;
	char *d = dst;

	if (!v.p || v.n < 2 || v.p[0] != '"')
		return 0;
	for (end = v.p + v.n - 1; p < end;) {
		const char *f;

		if (*p != '\\') {
			*d++ = *p++;
			continue;
		}
		if (end - p < 2 || (p[1] == 'u' && end - p < 6))
			break;
		if (p[1] == 'u') {
			d += put_utf8(d, get_u(&p, end));
			continue;
		}
		f = strchr(from, p[1]);
		*d++ = f ? to[f - from] : p[1];
		p += 2;
	}
	return (size_t)(d - dst);
}
