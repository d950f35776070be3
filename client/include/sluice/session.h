/* SPDX-License-Identifier: Apache-2.0 */
/* The part of <sluice.h> with the typed calls on ACP sessions and their
 * history. Include <sluice.h>, not this. How typed calls wait or call back is
 * said at the top of <sluice/vm.h>. */
#ifndef SLUICE_SESSION_H
#define SLUICE_SESSION_H

#include <sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SLUICE_SESSION_OPENING = 1,
	SLUICE_SESSION_IDLE,
	SLUICE_SESSION_RUNNING,
	SLUICE_SESSION_WAITING_PERMISSION,
	SLUICE_SESSION_FAILED,
	SLUICE_SESSION_UNLOADED,
	SLUICE_SESSION_DELETED
};

enum {
	SLUICE_OUTCOME_NONE, /* not ended */
	SLUICE_OUTCOME_COMPLETED,
	SLUICE_OUTCOME_FAILED,
	SLUICE_OUTCOME_LOST,
	SLUICE_OUTCOME_CANCELED,
	SLUICE_OUTCOME_TIMED_OUT,
	SLUICE_OUTCOME_DISPATCH_FAILED,
	SLUICE_OUTCOME_AUTH_REJECTED,
	SLUICE_OUTCOME_BUDGET_EXCEEDED
};

enum {
	SLUICE_POLICY_DEFAULT, /* = ask */
	SLUICE_POLICY_ASK,
	SLUICE_POLICY_REJECT_ALL,
	SLUICE_POLICY_ALLOW_ALL
};

enum {
	SLUICE_PERMISSION_PENDING = 1,
	SLUICE_PERMISSION_ANSWERED,
	SLUICE_PERMISSION_DELIVERED,
	SLUICE_PERMISSION_EXPIRED,
	SLUICE_PERMISSION_CANCELED
};

/* Lower-case names ("waiting_permission"); "unknown" for a foreign number. */
SLUICE_API const char *sluice_session_state_name(int32_t state);
SLUICE_API const char *sluice_outcome_name(int32_t outcome);
SLUICE_API const char *sluice_policy_name(int32_t policy);
SLUICE_API const char *sluice_permission_state_name(int32_t state);
SLUICE_API const char *sluice_event_kind_name(int32_t kind);

struct sluice_session_spec {
	size_t size;
	const char *vm;
	const char *agent;       /* a registered agent, or NULL: argv */
	const char *const *argv; /* a bare agent command */
	const char *cwd;         /* in the VM; NULL: /root */
	int32_t policy;          /* SLUICE_POLICY_* */
	const char *const *env;
	const char *const *limits; /* "acp.KEY=VALUE" */
	const char *session;       /* id wished for, or NULL */
	const char *key;           /* idempotency key, or NULL */
};

struct sluice_session {
	size_t size;
	const char *session, *vm, *agent, *cwd;
	const char *reason_code, *reason; /* why it failed */
	const char *agent_session;        /* the agent's own id */
	const char *chain;                /* head of the hash chain, hex */
	int32_t state, outcome, policy;
	uint32_t generation; /* agent processes started so far */
	uint32_t pid;        /* of the agent in the VM; 0 = none */
	uint32_t pending_permissions;
	uint64_t head; /* last committed event; 0 = none */
	uint64_t low;  /* first kept event */
	uint64_t epoch, turn, bytes, created_ms, updated_ms;
};

typedef void sluice_session_fn(void *arg, const struct sluice_session *ses,
    const struct sluice_error *err);

/* Answers at once in state opening; sluice_subscribe() tells how it goes. */
SLUICE_API int sluice_session_open(sluice_client *c,
    const struct sluice_session_spec *spec, sluice_session_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err);
SLUICE_API int sluice_session_get(sluice_client *c, const char *session,
    sluice_session_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* Of one VM, or all (NULL). */
SLUICE_API int sluice_session_list(sluice_client *c, const char *vm,
    sluice_session_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* End the agent's process; the history stays. */
SLUICE_API int sluice_session_unload(sluice_client *c, const char *session,
    sluice_session_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* End the agent and remove the history. */
SLUICE_API int sluice_session_delete(sluice_client *c, const char *session,
    sluice_done_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);

/* --- turns and permissions -----------------------------------------------*/

struct sluice_prompt_options {
	size_t size;
	int32_t blocks; /* content is a JSON array of ACP blocks, not text */
	int32_t queue;  /* wait for the running turn, no SESSION_BUSY */
	uint64_t deadline_ms; /* of the turn; 0: the server's default */
	const char *key;      /* the same key gives the same turn again */
};

struct sluice_turn {
	size_t size;
	uint64_t turn, first_seq; /* of the turn's first event */
	int32_t outcome;          /* set when it has already ended */
	int32_t repeated_key;     /* nothing was started */
};

struct sluice_permission_option {
	size_t size;
	const char *option, *name, *kind;
};

struct sluice_permission {
	size_t size;
	const char *session, *title;
	uint64_t request, turn, created_ms, expires_ms;
	const struct sluice_permission_option *const *options;
	const void *tool_call; /* JSON as the agent sent it, cut at 16 KiB */
	size_t tool_call_len;
	int32_t state;
};

typedef void sluice_turn_fn(
    void *arg, const struct sluice_turn *t, const struct sluice_error *err);
typedef void sluice_cancel_fn(
    void *arg, const uint64_t *turn, const struct sluice_error *err);
typedef void sluice_permission_fn(void *arg, const struct sluice_permission *p,
    const struct sluice_error *err);
/* option: what was answered; "" = cancelled. */
typedef void sluice_permit_fn(void *arg, const char *option,
    int32_t repeated_key, const struct sluice_error *err);

/* Start a turn; ends when it is committed, not when it is done. content is
 * copied. */
SLUICE_API int sluice_prompt(sluice_client *c, const char *session,
    const void *content, size_t n, const struct sluice_prompt_options *opt,
    sluice_turn_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* *turn: the turn that is being canceled; 0 = it was idle. */
SLUICE_API int sluice_cancel(sluice_client *c, const char *session,
    sluice_cancel_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* Pending requests of one session, or of all (NULL). */
SLUICE_API int sluice_permissions(sluice_client *c, const char *session,
    sluice_permission_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* Answer a request; option NULL = deny. The first answer wins, the same key
 * gets the same reply, any other ABORTED. */
SLUICE_API int sluice_permit(sluice_client *c, const char *session,
    uint64_t request, const char *option, const char *key, sluice_permit_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err);

/* --- history -------------------------------------------------------------*/

/* What one event is; the body's form in parentheses. */
enum {
	SLUICE_EVENT_AGENT = 1,         /* a line from the agent, verbatim */
	SLUICE_EVENT_CLIENT = 2,        /* a line to the agent, verbatim */
	SLUICE_EVENT_NOISE = 3,         /* stdout that is not JSON-RPC */
	SLUICE_EVENT_SESSION = 4,       /* {"state","step"?,"reason"?..} */
	SLUICE_EVENT_TURN_STARTED = 5,  /* {"turn","key"?} */
	SLUICE_EVENT_TURN_ENDED = 6,    /* {"turn","outcome","stop_reason"?..}*/
	SLUICE_EVENT_PERMISSION = 7,    /* {"request","state","option"?..} */
	SLUICE_EVENT_AGENT_STARTED = 8, /* {"generation","pid","rung"} */
	SLUICE_EVENT_AGENT_EXITED = 9,  /* {"generation","code"|"signal"..} */
	SLUICE_EVENT_LIMIT = 10,        /* {"key","limit",..} */
	SLUICE_EVENT_DIAGNOSTIC = 11,   /* {"text"} */
	SLUICE_EVENT_PROMPT = 12        /* content blocks, a JSON array */
};

struct sluice_event {
	size_t size;
	uint64_t seq, turn /* 0 = outside a turn */, at_ms;
	uint64_t superseded; /* older snapshots this one stands for */
	uint64_t length;     /* of the whole body */
	const void *body;    /* NULL: it follows in on_part */
	size_t body_len;
	int32_t kind;
	int32_t invalid_utf8;
};

struct sluice_event_part {
	size_t size;
	uint64_t seq, offset, total;
	const void *data;
	size_t n;
	int32_t last;
};

struct sluice_sub_state {
	size_t size;
	uint64_t head; /* caught up once this event has come */
	uint64_t low, epoch, turn;
	int32_t state;
	const struct sluice_permission *const *pending;
};

/* Every member may be NULL. Say sluice_msg_done(m) when an event or part has
 * been processed. on_end comes once, last. */
struct sluice_event_handler {
	size_t size;
	/* Bodies up to this come whole (0: 1 MiB), longer ones by on_part. */
	uint64_t assemble_max;
	void (*on_state)(
	    void *arg, sluice_stream *s, const struct sluice_sub_state *state);
	void (*on_event)(void *arg, sluice_stream *s,
	    const struct sluice_event *ev, sluice_msg *m);
	void (*on_part)(void *arg, sluice_stream *s,
	    const struct sluice_event_part *part, sluice_msg *m);
	/* Events first..last are no longer kept (reason: trimmed, damaged). An
	 * event whose parts have begun to come may be among them: the rest of
	 * it does not come. */
	void (*on_gap)(void *arg, sluice_stream *s, uint64_t first,
	    uint64_t last, const char *reason);
	void (*on_end)(
	    void *arg, sluice_stream *s, const struct sluice_error *err);
};

/* Events after `after`, before `before` (both exclusive, 0 = none), at most
 * `limit` (0 = all); newest first when before is set. */
SLUICE_API int sluice_history(sluice_client *c, const char *session,
    uint64_t after, uint64_t before, uint32_t limit,
    const struct sluice_event_handler *h, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* Replay from `from` (inclusive; 0 = the start), then live, until canceled.
 * After a lost connection: again from the last processed seq + 1. */
SLUICE_API int sluice_subscribe(sluice_client *c, const char *session,
    uint64_t from, const struct sluice_event_handler *h, void *arg,
    sluice_stream **ret_s, struct sluice_error *err);

#ifdef __cplusplus
}
#endif

#endif
