/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: the objects of the engine and who may do
 * what to them. Not for other rooms. Thread: loop, everything. */
#ifndef SLUICE_ACP_ENGINE_H
#define SLUICE_ACP_ENGINE_H

#include "acp/acp.h"
#include "acp/journal.h"
#include "acp/lines.h"
#include "acp/supersede.h"

#include "base/ids.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

#define READ_CHUNK ((size_t)64 << 10)

struct acp {
	struct loop *loop;
	const struct acp_sink *sink;
	void *ctx;
	struct sli_map *by_id;
	struct sli_ids *all;
	uint8_t *chunk;           /* what is read goes here first */
	struct sli_list readings; /* transcripts being read */
	int draining;
	unsigned busy; /* turns accepted and not ended */
};

/* --- the agent process ---------------------------------------------------*/

enum step { /* of starting it; docs/STATES.md, Session */
	STEP_SPAWN,
	STEP_INIT,
	STEP_RESUME,
	STEP_LOAD,
	STEP_READ, /* reading our history for the preamble */
	STEP_NEW,
	STEP_READY,
	STEP_GOING, /* being stopped or killed, or gone by itself */
};

/* A line on its way to the agent's stdin. */
struct out {
	struct sli_list node;
	uint32_t generation; /* of the agent it is for */
	uint64_t request;    /* permission answered by it; 0 = none */
	int optional;        /* counts against acp.answers_bytes */
	size_t off, n;
	uint8_t bytes[];
};

/* An update that came before its session had a name. */
struct early {
	struct sli_list node;
	struct sli_event ev;
	char session[200];
	size_t session_n;
	uint8_t bytes[];
};

struct agent {
	struct acp_session *s;
	uint32_t generation;
	uint32_t pid;
	enum step step;
	int fd[3];
	struct loop_fd in, out, err;
	struct lines lines;
	struct sli_list outq;
	size_t optional_bytes; /* of outq */
	uint64_t next_id;
	uint64_t await_id; /* of the open handshake request */
	int awaiting;
	int can_load, can_resume;
	int no_native; /* loading failed: do not try again */
	int in_broken, out_eof, err_eof;
	int exited, code, signal;
	int gone;     /* its end is being told */
	int attached; /* it was started */
	int told;     /* the session knows why this one did not start */
	int ending;   /* we end it: 1 stdin closed, 2 SIGTERM, 3 killed */
	int lost;     /* it was killed and nothing was heard of it */
	const char *rung;
	uint8_t *tail; /* newest stderr, a ring */
	size_t tail_cap, tail_n, tail_at;
	uint64_t noise, noise_lost, answers_lost;
	struct sli_list early;
	size_t early_bytes;
	uint64_t replayed, replayed_bytes;
	struct loop_timer step_timer, end_timer;
	struct loop_reap reap;
};

/* --- turns ---------------------------------------------------------------*/

enum turn_phase {
	TURN_ACCEPTING, /* being committed */
	TURN_QUEUED,
	TURN_STARTING, /* TURN_START is being committed */
	TURN_RUNNING,
	TURN_CANCELING, /* the agent has been or will be told */
	TURN_OVER,      /* its end is being or was committed */
	TURN__N
};

enum cause {
	CAUSE_NONE,
	CAUSE_USER,
	CAUSE_DEADLINE,
	CAUSE_BUDGET,
	CAUSE_UNLOAD
};

struct prompt_waiter {
	struct prompt_waiter *next;
	acp_prompt_fn *fn;
	void *ctx;
	int repeated;
};

struct turn {
	struct sli_list node; /* in session.queue */
	struct acp_session *s;
	unsigned refs;
	enum turn_phase phase;
	enum cause cause; /* why it is to end early */
	uint64_t no, first_seq;
	uint8_t hash[32];
	struct sli_buf key, content, trace;
	int64_t deadline_ms;
	uint64_t rpc_id;
	int outcome; /* once its end is committed */
	int counted; /* in acp.busy */
	struct prompt_waiter *waiters;
};

/* --- permissions ---------------------------------------------------------*/

enum perm_phase {
	PERM_ASKING, /* being committed */
	PERM_PENDING,
	PERM_ANSWERING, /* the answer is being committed */
	PERM_ANSWERED,
	PERM_DELIVERED,
	PERM_EXPIRED,
	PERM_CANCELED,
	PERM__N
};

struct permit_waiter {
	struct permit_waiter *next;
	acp_permit_fn *fn;
	void *ctx;
	int repeated;
};

struct perm {
	struct sli_list node; /* in session.perms */
	struct acp_session *s;
	unsigned refs;
	enum perm_phase phase;
	int withdrawn; /* while ASKING: the enum perm_phase it shall get */
	int written;   /* the answer, while ANSWERING */
	unsigned rec;  /* its record in the txn that asks */
	uint32_t generation;
	uint64_t request, turn;
	int64_t created_ms, expires_ms; /* wall clock */
	int64_t due_ms;                 /* monotonic */
	struct sli_arena arena;         /* all below */
	struct sli_slice rpc_id;        /* raw token */
	const char *title, *call;
	struct acp_option *options;
	struct sli_slice *raw; /* their raw id tokens; empty = not selectable */
	unsigned n;
	struct sli_slice tool_call;
	int chosen; /* index, or -1 = cancelled */
	struct sli_slice answer_key;
	struct permit_waiter *waiters;
};

/* --- the session ---------------------------------------------------------*/

#define ENDED_KEPT    8
#define RESOLVED_KEPT 32

/* As committed; what callers are shown. */
struct shown {
	int state, outcome;
	char reason_code[40];
	char reason[600];
	char agent_session[200];
	uint64_t head, turn;
	uint32_t generation;
	int64_t updated_ms;
};

struct done_waiter {
	struct done_waiter *next;
	acp_done_fn *fn;
	void *ctx;
};

struct acp_session {
	struct acp *a;
	uint64_t handle; /* in acp.all */
	void *user;
	char id[SLI_ID_MAX], vm[SLI_ID_MAX];
	struct sli_principal owner;
	char *agent_name, *cwd;
	int policy;
	struct sli_limits limits;
	int64_t created_ms;

	int state; /* enum sli_session_state, ahead of shown.state */
	struct shown shown;
	char agent_session[200]; /* raw, as between the quotes */
	uint32_t generation;
	int had_turns; /* there is context to give back */
	int deleting;
	struct done_waiter *on_unload, *on_delete;
	struct acp_session **purge; /* what the purge under way answers to */

	struct agent *ag;
	int want_open; /* start an agent when the old one is gone */
	int no_native; /* for that start */
	int crashed;   /* the last agent exited by itself */
	int pressure;
	int64_t restarts_since_ms;
	uint64_t restarts;
	char broken[40]; /* reason of a fault of ours, "" = none */

	uint64_t last_turn;
	struct turn *active;
	struct sli_list queue;
	unsigned nqueue;
	struct turn *ended[ENDED_KEPT];
	unsigned ended_at;
	struct sli_buf preamble; /* block for the next prompt, "" = none */

	struct sli_list perms; /* unresolved, in order */
	unsigned nperms;
	struct perm *resolved[RESOLVED_KEPT];
	unsigned resolved_at;

	struct journal journal;
	struct sup sup;
	uint64_t turn_bytes, message_bytes; /* committed or handed over */
	char message[256];                  /* which one that is */
	size_t message_n;
	int discard; /* a limit was hit: updates are counted only */
	uint64_t discarded, discarded_bytes;

	struct loop_timer hold_timer, deadline_timer, grace_timer, perm_timer;
	struct loop_reap reap;
};

static inline uint64_t
limit(const struct acp_session *s, enum sli_limit l)
{
	return s->limits.v[l];
}

static inline int
session_ready(const struct acp_session *s)
{
	return s->ag && s->ag->step == STEP_READY;
}

/* acp.c */
void session_unlist(struct acp_session *s);
/* Freed at the end of this turn of the loop. */
void session_forget(struct acp_session *s);

/* session.c: the one setter of session.state; adds the event to t. */
void session_set(struct acp_session *s, int to, const char *reason_code,
    const char *reason, struct txn *t);
/* Something of ours failed (memory): the agent is killed for it. */
void session_break(struct acp_session *s, const char *reason_code);
/* What can end now: unload, delete, the next start. Call when the agent has
 * gone, a commit came back or a turn ended. */
void session_settle(struct acp_session *s);

/* agent.c */
SLI_MUST struct agent *agent_new(struct acp_session *s);
/* For acp_free: without a word to anybody. May be NULL. */
void agent_free(struct agent *g);
/* EOF, then SIGTERM, then kill. */
void agent_stop(struct agent *g);
void agent_kill(struct agent *g);
/* Something ended: is it all? */
void agent_check_gone(struct agent *g);
/* Newest stderr, oldest byte first, appended to `to`. */
void agent_tail(const struct agent *g, struct sli_buf *to, size_t max);
void agent_stderr(struct agent *g, const uint8_t *p, size_t n);

/* exit.c: the history and the session learn that the agent has gone. */
void exit_told(struct acp_session *s, struct agent *g);
/* "code 3", "signal 9" and the end of stderr, for a reason. */
void exit_text(const struct agent *g, char *dst, size_t cap);

/* io.c */
SLI_MUST int io_attach(struct agent *g, const int fds[3]);
void io_detach(struct agent *g);
/* Read again or pause, by pressure and journal. */
void io_update(struct acp_session *s);
/* o is taken. Lost when its agent is not there or listens no more. */
void io_send(struct acp_session *s, struct out *o);
void io_close_stdin(struct agent *g);
/* One more look at stdout and stderr. */
void io_read(struct agent *g);

/* say.c: lines to the agent. All add a CLIENT event to t and leave for the
 * agent when t is committed, or at once with SAY_NOW. t NULL: at once, and
 * without an event. */
#define SAY_NOW      1u
#define SAY_OPTIONAL 2u
void say_error(struct acp_session *s, struct txn *t, struct sli_slice id,
    int code, const char *text, unsigned flags);
void say_permission(struct acp_session *s, struct txn *t, struct sli_slice id,
    struct sli_slice option_token, uint64_t request, unsigned flags);
void say_cancel(struct acp_session *s, struct txn *t, unsigned flags);
void say_handshake(struct agent *g, struct txn *t, enum step step);
void say_prompt(struct acp_session *s, struct txn *t, struct turn *turn);

/* open.c */
void open_begin(struct acp_session *s, int no_native);
void open_answer(struct agent *g, const struct line *ln);
void open_step(struct agent *g, enum step step);
const char *open_step_name(enum step step);
/* An event that this step failed; what follows is the caller's. */
void open_step_failed(struct agent *g, struct txn *t, const char *error);
void open_timeout(struct agent *g);
void open_refused(struct agent *g, const struct sli_errinfo *ei);
/* The start failed: the session and the turns that wait for it are told. The
 * agent, if any, is still to be ended. */
void open_failed(struct agent *g, struct txn *t, const char *reason_code,
    const char *reason);

/* ladder.c */
/* Our history could not be read in time. */
void ladder_unread(struct agent *g);
void ladder_start(struct agent *g);
void ladder_failed(struct agent *g, struct txn *t, const char *why);
/* The agent has its session; ln is the answer that says so. */
void ladder_ready(struct agent *g, const struct line *ln);

/* early.c: updates before the answer that names their session. */
void early_add(struct agent *g, const struct line *ln);
void early_flush(struct agent *g, struct txn *t);
void early_drop(struct agent *g);

/* transcript.c: text is the inside of a JSON string, empty when there is
 * none; `cut` when older text was left out. */
typedef void transcript_fn(struct agent *g, struct sli_slice text, int cut);
void transcript_read(struct agent *g, size_t budget, transcript_fn *fn);
/* acp_free: what is still being read is for nobody. */
void transcript_orphan(struct acp *a);

/* turn.c: the one setter of turn.phase. */
void turn_set(struct turn *t, enum turn_phase to);
void turn_unref(struct turn *t);
/* Start the next one if nothing hinders it. */
void turn_kick(struct acp_session *s);
/* One waits that is committed. */
int turn_waiting(const struct acp_session *s);
/* The turn that lines read now belong to; 0 = none. */
uint64_t turn_now(const struct acp_session *s);
void turn_answer(struct acp_session *s, const struct line *ln);
/* Adds its end to t; the turn leaves the session. stop: raw stopReason. */
void turn_end(struct turn *turn, struct txn *t, int outcome,
    const char *reason_code, struct sli_slice stop);
/* Its end is committed: from now on it may be told. */
void turn_committed(struct acp_session *s, uint64_t no, int outcome);
/* All that were not started. */
void turn_fail_queued(
    struct acp_session *s, struct txn *t, int outcome, const char *reason_code);

/* The session is being deleted: nobody gets an answer but that. */
void turn_forget(struct acp_session *s);

/* cancel.c */
void cancel_turn(struct turn *turn, enum cause why);
/* Its bytes have left: do now what was asked meanwhile. */
void cancel_started(struct turn *turn);
/* How a turn that is being canceled ends, by its cause. */
void cancel_queued(struct turn *turn);
int cancel_outcome(const struct turn *turn);
void cancel_budget(struct acp_session *s, enum sli_limit l, uint64_t used);
void cancel_init(struct acp_session *s);
/* The turn is over: no deadline, no grace. */
void cancel_done(struct acp_session *s);

/* permit.c: the one setter of perm.phase. */
void perm_set(struct perm *p, enum perm_phase to);
void perm_unref(struct perm *p);
void permit_asked(struct acp_session *s, const struct line *ln);
int permit_is(const struct envelope *e);
/* All unresolved become `to` (PERM_EXPIRED, PERM_CANCELED); with `say` the
 * agent is answered cancelled. */
void permit_drop_all(struct acp_session *s, struct txn *t, enum perm_phase to,
    int say, unsigned flags);
void permit_withdraw(struct acp_session *s, struct sli_slice rpc_id);
void permit_delivered(struct acp_session *s, uint64_t request);
/* One pending alone. */
void permit_drop(struct perm *p, enum perm_phase to);
/* chosen: an option's index, or -1 = cancelled. */
void permit_answer(struct perm *p, int chosen, const char *by);
int permit_reject_option(const struct perm *p);
void permit_timer(struct acp_session *s);
void permit_init(struct acp_session *s);
void permit_forget(struct acp_session *s);
unsigned permit_pending(const struct acp_session *s);

/* route.c */
void route_line(struct agent *g, const struct line *ln);
/* A line is being skipped: too long, or not to be stored. */
void route_over(struct agent *g, uint64_t length);
/* Adds the line as a record; parts become the record's. */
struct sli_record *route_store(
    struct acp_session *s, const struct line *ln, struct txn *t, int kind);
/* What belongs to nobody: a bounded diagnostic with the line in it. */
void route_stray(
    struct agent *g, struct txn *t, const char *text, const struct line *ln);

/* volume.c */
void volume_begin_turn(struct acp_session *s);
void volume_add(struct acp_session *s, uint64_t bytes, struct sli_slice kind,
    struct sli_slice what);
/* What was not stored for a limit, if anything. */
void volume_report(struct acp_session *s, struct txn *t, uint64_t turn);

#endif
