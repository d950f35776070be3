/* SPDX-License-Identifier: Apache-2.0 */
/* Two links in one process that are each other's peer, for tests: no
 * descriptor, no thread, no time. Bytes move only in sli_mem_step, in pieces
 * of a size that the test chooses. */
#ifndef SLI_LINK_LINK_MEM_H
#define SLI_LINK_LINK_MEM_H

#include "link/link.h"

/* Both OPEN, with recv_max as piece size. NOMEM. */
SLI_MUST enum sli_err sli_mem_pair(
    struct sli_link **ret_a, struct sli_link **ret_b);
/* One step of the pair that l belongs to: each side's outstanding send moves
 * at most `piece` bytes to an armed receive of the other; due sink calls are
 * made. Returns how many things happened, 0 = quiet. After 0 and both closed
 * the pair is freed by the step that made the last `closed` call: do not step
 * a pair whose both sinks were closed. */
unsigned sli_mem_step(struct sli_link *l, size_t piece);
/* Cut the wire: both sides end with CLOSED at the next step. */
void sli_mem_cut(struct sli_link *l);

#endif
