/* SPDX-License-Identifier: Apache-2.0 */
/* The receive buffer of one link: small on a quiet link, big while bytes flow.
 * Private to link/. Not thread-safe; while a receive is armed nobody but the
 * backend touches mem. */
#ifndef SLI_LINK_RBUF_H
#define SLI_LINK_RBUF_H

#include "base/attr.h"

#include <stdint.h>

struct sli_rbuf {
	uint8_t *mem;
	size_t cap;     /* of mem; 0 = none */
	size_t want;    /* size for the next receive; 0 = the least */
	unsigned small; /* receives in a row that filled less than a quarter */
};

/* Memory for the next receive, at most max; *ret_cap its size. NULL: no memory
 * even for the least. Drops what the buffer held. */
SLI_MUST uint8_t *sli_rbuf_arm(struct sli_rbuf *b, size_t max, size_t *ret_cap);
/* n bytes came: decides the next size. */
void sli_rbuf_took(struct sli_rbuf *b, size_t n);
/* The next receive starts small again. */
void sli_rbuf_shrink(struct sli_rbuf *b);
void sli_rbuf_fini(struct sli_rbuf *b);

#endif
