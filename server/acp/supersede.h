/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of a running tool call that a later one makes superfluous are
 * dropped before they are stored, never rewritten (DESIGN §6; the rule step by
 * step in docs/internals/supersede.md). Holds at most one uncommitted snapshot
 * of a session. Sees complete lines only; knows no store. Thread: loop. */
#ifndef SLUICE_ACP_SUPERSEDE_H
#define SLUICE_ACP_SUPERSEDE_H

#include "acp/jtree.h"

struct sup_cfg {
	size_t min_bytes, max_bytes; /* of a snapshot that may be held */
	int64_t hold_ms;
	uint64_t rate, depth; /* the bucket: bytes a second, bytes */
};

/* A snapshot has to be stored now. */
typedef void sup_keep_fn(
    void *ctx, struct sli_slice line, int64_t at_ms, uint64_t superseded);

struct sup_snap {
	struct sli_buf line;
	struct jtree tree;
	int64_t at_ms; /* wall clock, when it was read */
	int set;
};

struct sup {
	struct sup_cfg cfg;
	sup_keep_fn *keep;
	void *ctx;
	struct sup_snap held; /* read, not committed */
	struct sup_snap base; /* the last kept snapshot of the same call */
	struct sup_snap next; /* being judged; empty between calls */
	char call[200];       /* raw toolCallId of held and base */
	size_t call_n;
	uint64_t superseded; /* by the held one */
	uint64_t total;      /* since the session was loaded */
	int64_t since_ms;    /* monotonic: when this holding began */
	int64_t tokens;      /* of the bucket, thousandths of a byte */
	int64_t tokens_ms;
};

void sup_init(
    struct sup *s, const struct sup_cfg *cfg, sup_keep_fn *keep, void *ctx);
void sup_fini(struct sup *s);

/* A tool_call_update of `call` without _meta whose status is in_progress or not
 * given, whole in memory, as read. 1 = it is held now (what it did not
 * supersede has been told to keep first); 0 = store it yourself, after
 * sup_flush. */
SLI_MUST int sup_offer(struct sup *s, struct sli_slice line,
    struct sli_slice call, int64_t at_ms, int64_t now_ms);
/* Anything else was read, or the turn ended: what is held must be kept. */
void sup_flush(struct sup *s, int64_t now_ms);
/* The turn ended or the agent went: forget the call too. */
void sup_end(struct sup *s, int64_t now_ms);
/* When sup_tick is due (monotonic), INT64_MAX when nothing is held. */
int64_t sup_due_ms(const struct sup *s);
void sup_tick(struct sup *s, int64_t now_ms);

static inline size_t
sup_held(const struct sup *s)
{
	return s->held.set ? sli_buf_len(&s->held.line) : 0;
}

/* The comparison alone, for tests: may b supersede a, given the last kept
 * snapshot k of the call (NULL = none)? Lines as JSON. */
SLI_MUST int sup_may(
    struct sli_slice k, struct sli_slice a, struct sli_slice b);

#endif
