/* SPDX-License-Identifier: Apache-2.0 */
/* The newline splitter. Each byte is looked at once by memchr and once by the
 * envelope reader, and copied only when its line does not end in the chunk. */
#include "acp/lines.h"

#include <string.h>

enum mode {
	M_INLINE, /* in buf, or still in the chunk */
	M_PARTS,
	M_SKIP, /* too long: only the envelope is read on */
};

static const uint8_t bom[3] = {0xef, 0xbb, 0xbf};

void
lines_init(struct lines *l, const struct lines_ops *ops, void *ctx,
    uint64_t max_line, size_t inline_max, unsigned max_depth)
{
	memset(l, 0, sizeof(*l));
	l->ops = ops;
	l->ctx = ctx;
	l->max_line = max_line;
	l->inline_max = inline_max;
	env_init(&l->env, max_depth);
	sli_buf_init(&l->buf, inline_max);
}

static void
begin_line(struct lines *l)
{
	sli_buf_reset(&l->buf);
	env_reset(&l->env);
	l->length = 0;
	l->set = 0;
	l->mode = M_INLINE;
	l->cr = 0;
	/* Banners may come before the byte order mark of the first object. */
	l->bom = l->spoken ? 3 : 0;
}

void
lines_fini(struct lines *l)
{
	if (l->mode == M_PARTS)
		l->ops->part_drop(l->ctx, l->set);
	sli_buf_free(&l->buf);
	env_fini(&l->env);
	l->mode = M_INLINE;
	l->stopped = 1;
}

void
lines_stop(struct lines *l)
{
	l->stopped = 1;
}

static void
skip(struct lines *l)
{
	if (l->mode == M_PARTS)
		l->ops->part_drop(l->ctx, l->set);
	l->set = 0;
	l->mode = M_SKIP;
	sli_buf_free(&l->buf);
	l->ops->over(l->ctx, l->length);
}

/* The line has outgrown an event: hand over what there is of it. */
static void
to_parts(struct lines *l)
{
	l->set = l->ops->part_begin(l->ctx);
	if (!l->set) {
		skip(l);
		return;
	}
	l->mode = M_PARTS;
	if (sli_buf_len(&l->buf))
		l->ops->part_append(l->ctx, l->set, sli_buf_slice(&l->buf));
	sli_buf_free(&l->buf);
}

static void
keep(struct lines *l, const uint8_t *p, size_t n)
{
	if (!n)
		return;
	env_feed(&l->env, p, n);
	l->length += n;
	if (l->length > l->max_line && l->mode != M_SKIP)
		skip(l);
	if (l->mode == M_INLINE) {
		if (sli_buf_append(&l->buf, p, n) == SLI_OK)
			return;
		to_parts(l);
	}
	if (l->mode == M_PARTS)
		l->ops->part_append(l->ctx, l->set, sli_slice_of(p, n));
}

/* More of a line that goes on beyond the chunk, or began before it. */
static void
piece(struct lines *l, const uint8_t *p, size_t n)
{
	if (!n)
		return;
	if (l->cr)
		keep(l, (const uint8_t *)"\r", 1);
	l->cr = p[n - 1] == '\r';
	keep(l, p, n - l->cr);
}

static void
end_line(struct lines *l, struct sli_slice whole)
{
	struct line ln = {
	    .bytes = whole,
	    .parts = l->mode == M_PARTS ? l->set : 0,
	    .length = l->length,
	    .at_ms = l->at_ms,
	    .env = &l->env,
	    .too_long = l->mode == M_SKIP,
	};

	if (l->length && !tok_blank(&l->env.tok)) {
		ln.cls = env_finish(&l->env);
		l->spoken |= ln.cls >= ENV_MALFORMED;
		ln.bad_utf8 = l->env.tok.bad_utf8;
		l->ops->line(l->ctx, &ln);
	} else if (ln.parts) {
		l->ops->part_drop(l->ctx, ln.parts);
	}
	begin_line(l);
}

/* The first line ends in this chunk at `nl`. */
static void
finish(struct lines *l, const uint8_t *p, const uint8_t *nl)
{
	size_t n = (size_t)(nl - p);

	if (l->length || l->cr || n > l->inline_max || n > l->max_line) {
		piece(l, p, n);
		end_line(l, sli_buf_slice(&l->buf));
		return;
	}
	if (n && p[n - 1] == '\r')
		n--;
	env_feed(&l->env, p, n);
	l->length = n;
	end_line(l, sli_slice_of(p, n));
}

/* A byte order mark before the first message is no part of its line. Returns
 * how many bytes it took. */
static size_t
skip_bom(struct lines *l, const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (l->bom < 3 && i < n && p[i] == bom[l->bom]) {
		i++;
		l->bom++;
	}
	if (l->bom < 3 && i < n) {
		if (l->bom)
			piece(l, bom, l->bom);
		l->bom = 3;
	}
	return i;
}

void
lines_feed(struct lines *l, const uint8_t *p, size_t n, int64_t now_ms)
{
	const uint8_t *e = p + n, *nl;

	while (p < e && !l->stopped) {
		if (!l->length && !l->cr)
			l->at_ms = now_ms;
		if (l->bom < 3) {
			p += skip_bom(l, p, (size_t)(e - p));
			if (p == e)
				break;
		}
		nl = memchr(p, '\n', (size_t)(e - p));
		if (!nl) {
			piece(l, p, (size_t)(e - p));
			break;
		}
		finish(l, p, nl);
		p = nl + 1;
	}
	/* Most agents are silent most of the time: they hold nothing then. */
	sli_buf_trim(&l->buf);
}

void
lines_eof(struct lines *l)
{
	if (l->bom > 0 && l->bom < 3)
		piece(l, bom, l->bom);
	if (l->length && !l->stopped)
		end_line(l, sli_buf_slice(&l->buf));
}
