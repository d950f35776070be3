/* SPDX-License-Identifier: Apache-2.0 */
/* A flat index of one JSON document in memory: where each value stands, in
 * document order. Holds offsets only; the bytes stay the caller's and are
 * never decoded or copied. For comparing snapshots and for reading the few
 * fields that the engine needs; not for building JSON. Thread: loop. */
#ifndef SLUICE_ACP_JTREE_H
#define SLUICE_ACP_JTREE_H

#include "acp/token.h"

/* Nodes are found by index; 0 is the document's value. */
struct jnode {
	uint32_t off, len;     /* raw bytes of the value, quotes included */
	uint32_t key, key_len; /* raw bytes of its key, without the quotes */
	uint32_t parent;       /* 0 for the document itself */
	uint32_t end;          /* index after its last descendant */
	uint32_t slid, base;   /* the supersede rule's, else 0 */
	uint8_t kind;          /* enum tok_kind */
	uint8_t in_obj;        /* has a key */
};

struct jtree {
	struct jnode *v;
	uint32_t n, cap, max;
	const uint8_t *p; /* the document; must outlive the index */
	int failed;
	/* while parsing */
	uint32_t key, key_len, depth;
	uint32_t *open;
};

#define JNONE UINT32_MAX

void jtree_init(struct jtree *j, uint32_t max_nodes);
void jtree_fini(struct jtree *j);
/* -1: not JSON, invalid UTF-8, more nodes than max, over 4 GiB, no memory. */
SLI_MUST int jtree_parse(struct jtree *j, struct sli_slice doc);
/* Exchange two indexes (both keep their memory). */
void jtree_swap(struct jtree *a, struct jtree *b);

/* Member of an object by key (written without escapes; the last one wins, as
 * in other readers), element of an array, or JNONE. JNONE in, JNONE out. */
uint32_t jtree_get(const struct jtree *j, uint32_t node, const char *key);
/* A key as it stands in another document. */
uint32_t jtree_get_raw(
    const struct jtree *j, uint32_t node, struct sli_slice key);
uint32_t jtree_at(const struct jtree *j, uint32_t node, uint32_t i);

static inline uint32_t
jtree_first(const struct jtree *j, uint32_t node)
{
	return node + 1 < j->v[node].end ? node + 1 : JNONE;
}

static inline uint32_t
jtree_next(const struct jtree *j, uint32_t parent, uint32_t child)
{
	uint32_t n = j->v[child].end;

	return n < j->v[parent].end ? n : JNONE;
}

/* Raw bytes of a value; of a string without its quotes. Empty for JNONE. */
struct sli_slice jtree_raw(const struct jtree *j, uint32_t node);
struct sli_slice jtree_text(const struct jtree *j, uint32_t node);
struct sli_slice jtree_key(const struct jtree *j, uint32_t node);

/* Decode the inside of a JSON string as UTF-8 into `to`, at most max bytes.
 * Lone surrogates and NUL become U+FFFD. 1 = exact, 0 = something was
 * replaced or cut, -1 = no memory. */
SLI_MUST int json_decode(struct sli_buf *to, struct sli_slice raw, size_t max);

#endif
