/* SPDX-License-Identifier: Apache-2.0 */
/* String-keyed hash map (keyed SipHash-like hash, so that a peer cannot choose
 * collisions). Keys are copied; values are borrowed. */
#ifndef SLI_BASE_MAP_H
#define SLI_BASE_MAP_H

#include "base/attr.h"
#include "base/slice.h"

struct sli_map;

SLI_MUST struct sli_map *sli_map_new(void);
void sli_map_free(struct sli_map *m);
/* 0 ok, -1 out of memory. Replaces the value of an existing key. */
SLI_MUST int sli_map_put(struct sli_map *m, struct sli_slice key, void *v);
void *sli_map_get(const struct sli_map *m, struct sli_slice key);
/* Returns the removed value or NULL. */
void *sli_map_del(struct sli_map *m, struct sli_slice key);
size_t sli_map_count(const struct sli_map *m);
/* Iterate: *pos = 0 first; NULL at the end. Deleting the returned entry during
 * the walk is allowed, adding is not. */
void *sli_map_next(const struct sli_map *m, size_t *pos);

#endif
