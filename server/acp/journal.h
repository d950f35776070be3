/* SPDX-License-Identifier: Apache-2.0 */
/* What a session hands to the history, in order: transactions that own their
 * bytes until they are committed, so that a full disk loses nothing. Lines for
 * the agent that depend on a commit ride along and leave after it. Not for
 * other rooms. Thread: loop. */
#ifndef SLUICE_ACP_JOURNAL_H
#define SLUICE_ACP_JOURNAL_H

#include "base/event.h"
#include "base/list.h"
#include "loop/loop.h"
#include "json/json.h"

struct acp_session;
struct out;
struct perm;
struct turn;
struct txn;

/* Committed (ei->code OK), or given up. Called from inside txn_submit only
 * when memory is out. */
typedef void txn_fn(struct txn *t, const struct sli_errinfo *ei);

struct txn {
	struct sli_list node; /* in journal.txns */
	struct acp_session *s;
	struct sli_record *recs;
	struct sli_record scratch; /* what txn_add gives without memory */
	unsigned n, cap;
	struct sli_list owned; /* bytes the records point to */
	struct sli_list outs;  /* lines that leave after COMMIT */
	size_t bytes;
	uint64_t first_seq; /* once committed */
	int barrier;
	int fail_fast; /* refuse, do not wait for a full disk */
	int oom;       /* something is missing: it must not be committed */
	int submitted;
	txn_fn *done;
	struct turn *turn; /* what it is about; the txn's reference */
	struct perm *perm;
};

struct journal {
	struct sli_list txns; /* not yet committed, in order */
	size_t waiting;       /* bytes of those not handed to the sink */
	int stalled;          /* the disk is full: nothing new is handed over */
	struct loop_timer retry;
	/* Stands in when there is no memory for a txn: it can be built and
	 * submitted like any, and fails. */
	struct txn spare;
	int spare_used;
};

void journal_init(struct acp_session *s);
/* Forget all without calling anything. */
void journal_fini(struct acp_session *s);
int journal_idle(const struct acp_session *s);

/* Flushes a held snapshot first: what is read first is stored first. Never
 * NULL; without memory it fails when it is submitted. One at a time. */
struct txn *txn_new(struct acp_session *s);
/* The same, for the flush itself. */
struct txn *txn_new_plain(struct acp_session *s);
void txn_free(struct txn *t);
/* A record; the pointer is valid until the next txn_add. Never NULL. */
struct sli_record *txn_add(struct txn *t, int kind, uint64_t turn);
/* Copies that live as long as the txn. */
struct sli_slice txn_dup(struct txn *t, struct sli_slice s);
const char *txn_str(struct txn *t, const char *s);
/* Body of a record: a copy, or in parts when it is long. */
void txn_body(struct txn *t, struct sli_record *r, struct sli_slice body);
/* sequence number of the i-th record, once committed */
uint64_t txn_seq(const struct txn *t, unsigned i);
/* A line that leaves after COMMIT; o is taken. */
void txn_out(struct txn *t, struct out *o);
/* Handed over; t is the journal's. */
void txn_submit(struct txn *t, int barrier, txn_fn *done);

/* A small JSON object as a body. body_put frees it. */
struct body {
	struct sli_buf buf;
	struct sli_jw w;
};

void body_begin(struct body *b);
void body_put(struct body *b, struct txn *t, struct sli_record *r);
/* A diagnostic of one sentence. */
void txn_note(struct txn *t, uint64_t turn, const char *text);

#endif
