/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Any bytes as an agent's stdout: however they are split, the same lines come,
 * no byte of a line is lost or added, and every part set is named or dropped
 * once. The first byte chooses the pieces. */
#include "acp/lines.h"

#include "base/mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sink {
	uint64_t h, set, sets;
	struct sli_buf parts;
	unsigned lines, open;
};

static void
mix(struct sink *s, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->h = (s->h ^ p[i]) * 0x100000001b3ull;
}

static void
on_line(void *ctx, const struct line *ln)
{
	struct sink *s = ctx;
	struct sli_slice b = ln->bytes;
	const uint8_t tail[3] = {
	    (uint8_t)ln->cls, (uint8_t)ln->too_long, (uint8_t)ln->bad_utf8};

	SLI_ASSERT(ln->length > 0);
	if (ln->parts) {
		SLI_ASSERT(ln->parts == s->set && s->open);
		b = sli_buf_slice(&s->parts);
		s->open = 0;
	}
	SLI_ASSERT(!s->open);
	SLI_ASSERT(ln->too_long || b.n == ln->length);
	SLI_ASSERT(!b.n || !memchr(b.p, '\n', b.n));
	mix(s, b.p, b.n);
	mix(s, tail, sizeof(tail));
	s->lines++;
	sli_buf_reset(&s->parts);
}

static void
on_over(void *ctx, uint64_t length)
{
	(void)ctx;
	SLI_ASSERT(length > 0);
}

static uint64_t
on_begin(void *ctx)
{
	struct sink *s = ctx;

	SLI_ASSERT(!s->open);
	s->open = 1;
	s->set = ++s->sets;
	return s->set;
}

static void
on_append(void *ctx, uint64_t set, struct sli_slice b)
{
	struct sink *s = ctx;

	SLI_ASSERT(s->open && set == s->set && b.n > 0);
	SLI_ASSERT(sli_buf_append(&s->parts, b.p, b.n) == SLI_OK);
}

static void
on_drop(void *ctx, uint64_t set)
{
	struct sink *s = ctx;

	SLI_ASSERT(s->open && set == s->set);
	s->open = 0;
	sli_buf_reset(&s->parts);
}

static uint64_t
run(const uint8_t *p, size_t n, size_t step, unsigned *ret_lines)
{
	static const struct lines_ops ops = {
	    on_line, on_over, on_begin, on_append, on_drop};
	struct sink s = {.h = 1};
	struct lines l;

	sli_buf_init(&s.parts, n + 1);
	lines_init(&l, &ops, &s, 64, 24, 16);
	for (size_t i = 0; i < n; i += step) {
		lines_feed(&l, p + i, SLI_MIN(step, n - i), 1);
		SLI_ASSERT(lines_held(&l) <= 24);
	}
	lines_eof(&l);
	lines_fini(&l);
	SLI_ASSERT(!s.open);
	sli_buf_free(&s.parts);
	*ret_lines = s.lines;
	return s.h;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned whole, pieces;
	uint64_t h;

	if (size < 2)
		return 0;
	h = run(data + 1, size - 1, size, &whole);
	SLI_ASSERT(run(data + 1, size - 1, 1 + data[0] % 16u, &pieces) == h);
	SLI_ASSERT(whole == pieces);
	return 0;
}
