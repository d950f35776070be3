/* SPDX-License-Identifier: Apache-2.0 */
/* Objects by a 64-bit id (slot + generation): a stale id finds nothing. */
#ifndef SLI_BASE_IDS_H
#define SLI_BASE_IDS_H

#include "base/attr.h"

#include <stdint.h>

struct sli_ids;

SLI_MUST struct sli_ids *sli_ids_new(uint32_t max);
void sli_ids_free(struct sli_ids *t);
/* 0 when full or out of memory; ids are never 0 and never given twice. */
SLI_MUST uint64_t sli_ids_add(struct sli_ids *t, void *obj);
/* NULL for a stale or foreign id. */
void *sli_ids_get(const struct sli_ids *t, uint64_t id);
void sli_ids_del(struct sli_ids *t, uint64_t id);
uint32_t sli_ids_count(const struct sli_ids *t);
/* Iterate: start with *pos = 0; NULL at the end. Deleting the returned object
 * during the walk is allowed. */
void *sli_ids_next(const struct sli_ids *t, uint32_t *pos);

#endif
