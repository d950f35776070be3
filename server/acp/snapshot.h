/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing two snapshots of a tool call by their raw JSON. Thread: any. */
#ifndef SLUICE_ACP_SNAPSHOT_H
#define SLUICE_ACP_SNAPSHOT_H

#include "acp/jtree.h"

/* More values than this and a line is no snapshot to us: it is stored. */
#define SNAPSHOT_NODES 256u

/* Remember in b's texts how far they have slid since k, the last kept
 * snapshot of the call (NULL = none kept). */
void snapshot_since(const struct jtree *k, struct jtree *b);
/* 1: everything a says stands in b or, what slid out, in the snapshot that a
 * was measured against; b's texts are measured on. 0: a must be kept; then
 * b's measures are void. */
SLI_MUST int snapshot_covers(const struct jtree *a, struct jtree *b);

#endif
