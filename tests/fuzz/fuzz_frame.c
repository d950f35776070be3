/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Frames out of any bytes, cut anywhere: what comes out does not depend on the
 * cuts, and encodes back to what went in. First byte: who sends, and how the
 * rest is cut. */
#include "wire/frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t hash;
	size_t frames;
	enum sli_err end;
};

static void
mix(struct seen *s, const void *p, size_t n)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++)
		s->hash = (s->hash ^ b[i]) * 0x100000001b3u;
}

/* Feed in pieces of `step` bytes. */
static struct seen
run(enum sli_role from, const uint8_t *data, size_t size, size_t step)
{
	struct seen s = {.end = SLI_E_AGAIN};
	struct sli_frame_in in;
	size_t at = 0;

	sli_frame_in_init(&in, from, SLI_MAX_FRAME);
	while (at < size && s.end == SLI_E_AGAIN) {
		size_t k = SLI_MIN(step, size - at);
		struct sli_slice piece = sli_slice_of(data + at, k), p;
		struct sli_frame f;

		while ((s.end = sli_frame_next(&in, &piece, &f, &p, NULL)) ==
		       SLI_OK) {
			uint8_t raw[SLI_FRAME_HDR];
			struct sli_frame again;

			sli_frame_put(raw, &f);
			SLI_ASSERT(sli_frame_get(raw, from, SLI_MAX_FRAME,
				       &again, NULL) == SLI_OK);
			SLI_ASSERT(p.n == f.len && f.len <= SLI_MAX_FRAME);
			mix(&s, raw, sizeof(raw));
			mix(&s, p.p, p.n);
			s.frames++;
		}
		SLI_ASSERT(s.end != SLI_E_AGAIN || piece.n == 0);
		at += k;
	}
	SLI_ASSERT(sli_buf_len(&in.part) <= SLI_FRAME_HDR + SLI_MAX_FRAME);
	sli_frame_in_fini(&in);
	return s;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum sli_role from;
	struct seen whole, cut;

	if (size < 1)
		return 0;
	from = (data[0] & 1) != 0 ? SLI_CLIENT : SLI_SERVER;
	whole = run(from, data + 1, size - 1, size);
	cut = run(from, data + 1, size - 1, (data[0] >> 1) + (size_t)1);
	SLI_ASSERT(whole.end == cut.end && whole.frames == cut.frames);
	SLI_ASSERT(whole.hash == cut.hash);
	return 0;
}
