/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Frames of the history from any bytes: what a damaged row may hold. What
 * decodes lies within the input, and encodes to something that decodes to the
 * same. */
#include "base/attr.h"
#include "base/mem.h"
#include "store/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
same(const struct sli_event *a, const struct sli_event *b)
{
	return a->kind == b->kind && a->flags == b->flags &&
	       a->turn == b->turn && a->superseded == b->superseded &&
	       a->at_ms == b->at_ms && a->length == b->length &&
	       a->parts == b->parts && sli_slice_eq(a->body, b->body);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sli_event ev, again;
	size_t at = 0, len, n;
	uint8_t *copy;

	while (at < size) {
		len = store_frame_get(data + at, size - at, &ev);
		if (len == 0)
			break;
		SLI_ASSERT(len <= size - at);
		SLI_ASSERT(ev.body.n == 0 ||
			   (ev.body.p >= data + at &&
			       ev.body.p + ev.body.n == data + at + len));
		n = store_frame_size(&ev);
		copy = sli_alloc(n);
		SLI_ASSERT(copy != NULL);
		SLI_ASSERT(store_frame_put(copy, &ev) == copy + n);
		/* Not always the same bytes: numbers may be written long. */
		SLI_ASSERT(n <= len);
		SLI_ASSERT(store_frame_get(copy, n, &again) == n);
		SLI_ASSERT(same(&ev, &again));
		sli_free(copy);
		at += len;
	}
	return 0;
}
