/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer: punctuation by a bit per level, escaping, and repair of
 * bytes that are not UTF-8. Does not indent. */
#include "json/json.h"

#include "base/str.h"

#include <inttypes.h>
#include <string.h>

void
sli_jw_init(struct sli_jw *w, struct sli_buf *out)
{
	*w = (struct sli_jw){.out = out};
}

static void
put(struct sli_jw *w, const void *p, size_t n)
{
	if (w->err == SLI_OK)
		w->err = sli_buf_append(w->out, p, n);
}

/* What stands before a value (or, in an object, before a key). */
static void
separate(struct sli_jw *w)
{
	uint32_t bit;

	if (w->depth == 0)
		return;
	bit = UINT32_C(1) << (w->depth - 1);
	if ((w->nonempty & bit) != 0)
		put(w, ",", 1);
	w->nonempty |= bit;
}

static void
before_value(struct sli_jw *w)
{
	if (w->after_key) {
		w->after_key = 0;
		return;
	}
	SLI_ASSERT(
	    w->depth == 0 || (w->arrays & UINT32_C(1) << (w->depth - 1)) != 0);
	separate(w);
}

static void
open_level(struct sli_jw *w, int array)
{
	uint32_t bit;

	before_value(w);
	SLI_ASSERT(w->depth < SLI_JW_DEPTH_MAX);
	bit = UINT32_C(1) << w->depth++;
	w->nonempty &= ~bit;
	if (array)
		w->arrays |= bit;
	else
		w->arrays &= ~bit;
	put(w, array ? "[" : "{", 1);
}

void
sli_jw_object(struct sli_jw *w)
{
	open_level(w, 0);
}

void
sli_jw_array(struct sli_jw *w)
{
	open_level(w, 1);
}

void
sli_jw_end(struct sli_jw *w)
{
	SLI_ASSERT(w->depth > 0 && !w->after_key);
	w->depth--;
	put(w, (w->arrays & UINT32_C(1) << w->depth) != 0 ? "]" : "}", 1);
}

/* Length of the run at p that may stand as it is: plain ASCII and whole UTF-8
 * sequences. */
static size_t
clean_run(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t len = 1;

		if (p[i] < 0x20 || p[i] == '"' || p[i] == '\\' || p[i] == 0x7f)
			break;
		if (p[i] >= 0x80) {
			len = p[i] >= 0xf0 ? 4 : p[i] >= 0xe0 ? 3 : 2;
			if (n - i < len ||
			    !sli_utf8_valid(sli_slice_of(p + i, len)))
				break;
		}
		i += len;
	}
	return i;
}

static void
put_escaped(struct sli_jw *w, uint8_t c)
{
	static const char from[] = "\"\\\b\f\n\r\t";
	static const char to[] = "\"\\bfnrt";
	const char *at = c != 0 ? strchr(from, c) : NULL;
	char esc[8];

	if (c >= 0x80) {
		put(w, "\\ufffd", 6);
	} else if (at != NULL) {
		esc[0] = '\\';
		esc[1] = to[at - from];
		put(w, esc, 2);
	} else {
		put(w, esc,
		    sli_snprintf(esc, sizeof(esc), "\\u%04x", (unsigned)c));
	}
}

static void
put_string(struct sli_jw *w, struct sli_slice s)
{
	size_t i = 0;

	put(w, "\"", 1);
	while (i < s.n && w->err == SLI_OK) {
		size_t run = clean_run(s.p + i, s.n - i);

		put(w, s.p + i, run);
		i += run;
		if (i < s.n)
			put_escaped(w, s.p[i++]);
	}
	put(w, "\"", 1);
}

void
sli_jw_key(struct sli_jw *w, const char *key)
{
	SLI_ASSERT(w->depth > 0 && !w->after_key &&
		   (w->arrays & UINT32_C(1) << (w->depth - 1)) == 0);
	separate(w);
	put_string(w, sli_slice_str(key));
	put(w, ":", 1);
	w->after_key = 1;
}

void
sli_jw_str(struct sli_jw *w, struct sli_slice s)
{
	before_value(w);
	put_string(w, s);
}

void
sli_jw_cstr(struct sli_jw *w, const char *s)
{
	if (s == NULL)
		sli_jw_null(w);
	else
		sli_jw_str(w, sli_slice_str(s));
}

void
sli_jw_u64(struct sli_jw *w, uint64_t v)
{
	char num[24];

	before_value(w);
	put(w, num, sli_snprintf(num, sizeof(num), "%" PRIu64, v));
}

void
sli_jw_i64(struct sli_jw *w, int64_t v)
{
	char num[24];

	before_value(w);
	put(w, num, sli_snprintf(num, sizeof(num), "%" PRId64, v));
}

void
sli_jw_bool(struct sli_jw *w, int v)
{
	before_value(w);
	put(w, v ? "true" : "false", v ? 4 : 5);
}

void
sli_jw_null(struct sli_jw *w)
{
	before_value(w);
	put(w, "null", 4);
}

void
sli_jw_raw(struct sli_jw *w, struct sli_slice json)
{
	before_value(w);
	put(w, json.p, json.n);
}

void
sli_jw_kstr(struct sli_jw *w, const char *key, struct sli_slice s)
{
	sli_jw_key(w, key);
	sli_jw_str(w, s);
}

void
sli_jw_kcstr(struct sli_jw *w, const char *key, const char *s)
{
	sli_jw_key(w, key);
	sli_jw_cstr(w, s);
}

void
sli_jw_ku64(struct sli_jw *w, const char *key, uint64_t v)
{
	sli_jw_key(w, key);
	sli_jw_u64(w, v);
}

enum sli_err
sli_jw_done(struct sli_jw *w)
{
	SLI_ASSERT(w->depth == 0 && !w->after_key);
	return w->err;
}
