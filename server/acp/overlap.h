/* SPDX-License-Identifier: Apache-2.0 */
/* How far a text has slid, and where the inside of a JSON string may be cut.
 * Thread: any. */
#ifndef SLUICE_ACP_OVERLAP_H
#define SLUICE_ACP_OVERLAP_H

#include "base/slice.h"

#define OVERLAP_NONE SIZE_MAX

/* a and b are insides of JSON strings. 0 when a is a prefix of b; else the
 * smallest s > 0 so that a without its first s bytes is a prefix of b and is
 * at least half of a; OVERLAP_NONE when there is none, or when it would cut an
 * escape or a character. Linear in both lengths. */
size_t overlap_slide(struct sli_slice a, struct sli_slice b);

/* Does neither an escape nor a character span the place before a[pos]? */
int json_boundary(struct sli_slice a, size_t pos);

#endif
