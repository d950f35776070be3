/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of receive buffers; see rbuf.h. Does no I/O. A full buffer says that
 * more is waiting (grow by 4); a run of nearly empty ones that it is not. */
#include "link/rbuf.h"
#include "link/link.h"

#include "base/mem.h"

#define SMALL_RUN 16

uint8_t *
sli_rbuf_arm(struct sli_rbuf *b, size_t max, size_t *ret_cap)
{
	size_t want = SLI_MIN(SLI_MAX(b->want, SLI_LINK_RECV_MIN), max);

	if (b->cap != want) {
		sli_free(b->mem);
		b->mem = sli_alloc(want);
		if (!b->mem && want > SLI_LINK_RECV_MIN) {
			want = SLI_LINK_RECV_MIN;
			b->mem = sli_alloc(want);
		}
		b->cap = b->mem ? want : 0;
	}
	b->want = b->cap;
	*ret_cap = b->cap;
	return b->mem;
}

void
sli_rbuf_took(struct sli_rbuf *b, size_t n)
{
	if (n == b->cap) {
		b->want = SLI_MIN(b->cap * 4, SLI_LINK_RECV_MAX);
		b->small = 0;
	} else if (n >= b->cap / 4) {
		b->small = 0;
	} else if (++b->small >= SMALL_RUN) {
		b->want = b->cap / 4;
		b->small = 0;
	}
}

void
sli_rbuf_shrink(struct sli_rbuf *b)
{
	b->want = SLI_LINK_RECV_MIN;
	b->small = 0;
}

void
sli_rbuf_fini(struct sli_rbuf *b)
{
	sli_free(b->mem);
	*b = (struct sli_rbuf){0};
}
