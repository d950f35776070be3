/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files on nng share. No other file sees <nng/...>. */
#ifndef SLI_LINK_NNG_INT_H
#define SLI_LINK_NNG_INT_H

#include "link/link.h"

#include "base/mailbox.h"

#include <nng/nng.h>

/* The errno inside an nng error, or 0. */
static inline int
sli_nng_sys(int rv)
{
	return rv & NNG_ESYSERR ? rv & ~NNG_ESYSERR : 0;
}

/* Takes the stream; NULL (stream freed) when memory is out. */
SLI_MUST struct sli_link *sli_nng_link_new(
    nng_stream *stream, struct sli_mailbox *mb);

#endif
