/* SPDX-License-Identifier: Apache-2.0 */
/* A rig for tests of the ACP engine: the real loop, real pipes, a scripted
 * peer in the place of the agent, and a model of the history that commits when
 * it is told to. It checks on its own: order of commits, rows and their legal
 * moves, one end per turn, bodies never over the inline limit. */
#ifndef SLUICE_TESTS_T_ACP_H
#define SLUICE_TESTS_T_ACP_H

#include "unit.h"

#include "acp/acp.h"
#include "base/buf.h"

#define RIG_EVENTS 60000
#define RIG_TURNS  400
#define RIG_PERMS  400

struct rig_event {
	struct sli_event ev; /* body and parts resolved into `body` */
	char *body;          /* NUL-terminated copy; NULL when not kept */
};

struct rig_turn {
	uint64_t no;
	int started, outcome;
	char reason[40];
};

struct rig_perm {
	uint64_t request;
	int state;
	char option[64];
	char rpc_id[64];
};

struct rig_commit; /* handed over, not yet answered */
struct rig_set;    /* parts */

struct rig {
	struct loop *loop;
	struct acp *acp;
	struct acp_session *s;
	struct sli_principal who;
	struct sli_limits limits;
	int policy;

	/* how the history behaves */
	int loose;       /* memory fails: what is shown may lag */
	int manual;      /* commits wait for rig_commit */
	int full;        /* the disk is full */
	int no_parts;    /* part_begin fails */
	int drop_bodies; /* keep only the first bytes of AGENT bodies */
	struct rig_commit *first, *last;
	uint64_t uncommitted; /* bytes */
	struct rig_set *sets;
	uint64_t next_set;
	uint64_t page_from; /* a page asked for, 0 = none */
	acp_page_fn *page_fn;
	void *page_ctx;
	int page_error, no_pages;

	/* the history */
	struct rig_event *ev;
	unsigned nev;
	uint64_t bytes; /* of bodies */
	struct rig_turn turn[RIG_TURNS];
	unsigned nturn;
	struct rig_perm perm[RIG_PERMS];
	unsigned nperm;
	int state;
	char reason_code[40], reason[700];
	char agent_session[200];
	uint32_t generation;
	int purged;

	/* the peer */
	int no_spawn; /* leave spawns unanswered */
	int spawn_fails;
	uint32_t spawned; /* generation asked for last */
	uint32_t generation_seen;
	uint32_t alive;   /* generation of the living peer; 0 = none */
	int in, out, err; /* its ends: reads stdin, writes stdout, stderr */
	int mute;         /* it does not read */
	int undying;      /* kill is not followed by an exit */
	unsigned kills, terms;
	char *rx;
	size_t nrx, rx_cap;
	char *line; /* last one received */
	uint64_t max_held;

	/* last answers */
	struct acp_accepted acc;
	struct sli_errinfo ei;
	int answers;
	char option[64];
	int repeated;
};

void rig_init(struct rig *r);
void rig_fini(struct rig *r);
/* A new session; the peer's process is there when it returns. */
void rig_open(struct rig *r);
/* Forget the engine and make it again from what the history knows. */
void rig_restart(struct rig *r);

/* Some turns of the loop, until nothing more happens for a moment. */
void rig_settle(struct rig *r);
void rig_turns(struct rig *r, int ms);
/* Answer the oldest n commits (0 = all there are). */
void rig_commit(struct rig *r, unsigned n);
/* Answer a page that was asked for. */
void rig_page(struct rig *r);

/* --- the peer ------------------------------------------------------------*/

/* Its next line must hold this text; fails after 5 s. */
const char *peer_gets(struct rig *r, const char *text);
/* Its next line, or NULL; does not wait. */
char *peer_line(struct rig *r);
/* Nothing has come. */
void peer_gets_nothing(struct rig *r);
void peer_says(struct rig *r, const char *fmt, ...) SLI_PRINTF(2, 3);
void peer_writes(struct rig *r, const void *p, size_t n);
void peer_update(struct rig *r, const char *fmt, ...) SLI_PRINTF(2, 3);
void peer_chunk(struct rig *r, const char *text);
void peer_exits(struct rig *r, int code, int sig);
/* Answers initialize with these capabilities, and session/new with "S". */
void peer_init(struct rig *r, const char *caps);
void peer_hello(struct rig *r);
/* Gets a prompt with this text; its id. */
unsigned peer_prompt(struct rig *r, const char *text);
void peer_ends(struct rig *r, unsigned id, const char *stop);
void peer_asks(struct rig *r, const char *id);

/* --- the caller ----------------------------------------------------------*/

/* Sends a prompt; rig_prompt asserts that it was accepted: its turn. */
void rig_ask(struct rig *r, const char *text, const char *key, int queue);
uint64_t rig_prompt(struct rig *r, const char *text);
void rig_on_accepted(
    void *ctx, const struct acp_accepted *a, const struct sli_errinfo *ei);
void rig_permit(
    struct rig *r, uint64_t request, const char *option, const char *key);
int rig_state(struct rig *r); /* as shown */
void rig_wait_state(struct rig *r, int state);
int rig_outcome(struct rig *r, uint64_t turn); /* as committed */
void rig_wait_end(struct rig *r, uint64_t turn, int outcome);
/* Events of a kind whose body holds the text: how many; the last one's. */
unsigned rig_count(struct rig *r, int kind, const char *text);
const struct rig_event *rig_find(struct rig *r, int kind, const char *text);
/* Request number of the i-th pending permission. */
uint64_t rig_pending(struct rig *r, unsigned i);

/* --- between the files of the rig ----------------------------------------*/

/* What the world does between two turns of the loop. */
void rig_moves(struct rig *r);
void rig_store_fini(struct rig *r);
void rig_sink_commit(void *ctx, struct acp_session *s,
    const struct sli_record *recs, unsigned n, int barrier, acp_commit_fn *done,
    void *done_ctx);
uint64_t rig_sink_part_begin(void *ctx, struct acp_session *s);
void rig_sink_part_append(
    void *ctx, struct acp_session *s, uint64_t set_id, struct sli_slice bytes);
void rig_sink_part_drop(void *ctx, struct acp_session *s, uint64_t set_id);

#endif
