/* SPDX-License-Identifier: Apache-2.0 */
/* The table of calls and one call's record, shared by dispatch.c (which makes
 * and ends them) and outbox.c (through which their answers leave). Private to
 * conn/. States: docs/STATES.md, Call. Thread: loop. */
#ifndef SLUICE_CONN_CALL_H
#define SLUICE_CONN_CALL_H

#include "base/buf.h"
#include "base/ids.h"
#include "base/list.h"
#include "base/mem.h"
#include "loop/loop.h"
#include "service/svc.h"
#include "wire/mux.h"

struct conn;
struct conns;

enum call_state {
	CALL_WAITING, /* client waits; the handler owes an end or an open */
	CALL_OPEN,    /* a stream: ops are set, both sides are there */
	CALL_ENDED,   /* a stream whose end is with the mux */
	CALL_ORPHAN,  /* nobody waits any more; the handler still owes an end */
	CALL_DONE,    /* freed next */
	CALL__N
};

/* One method of the generated table. */
struct method {
	uint32_t id;
	const char *name; /* "Service/Name" */
	int client_streams;
	int server_streams;
	enum sli_role_level role;
	uint32_t timeout_ms; /* 0 = none */
	const ProtobufCMessageDescriptor *request;
	void (*handle)(struct svc *, struct svc_call, const ProtobufCMessage *);
};

#define CALL_KEY_MAX         64
#define CALL_TRACEPARENT_MAX 64

struct call {
	uint64_t id;
	struct svc_calls *calls;
	struct conn *conn; /* NULL once the connection is gone */
	uint32_t sid;
	enum call_state state;
	const struct method *m;
	struct sli_principal who;
	struct call *next_in_bucket; /* conn's table by sid */
	int in_table;
	struct sli_list node; /* conn's list of all its calls */
	struct loop_timer deadline;
	const struct svc_stream_ops *ops;
	void *ctx;
	/* What came before svc_open: u32 length + bytes each. */
	struct sli_buf early;
	int early_end;
	struct sli_list early_node; /* in svc_calls.opened while queued */
	uint8_t nkey;
	uint8_t ntrace;
	uint8_t key[CALL_KEY_MAX];
	char trace[CALL_TRACEPARENT_MAX];
};

struct svc_calls {
	struct conns *conns;
	struct loop *loop;
	struct svc *svc;
	struct sli_ids *ids;
	struct method *methods; /* by id; `handle` NULL = none */
	uint32_t nmethods;      /* highest id + 1 */
	uint32_t max_per_conn;
	struct sli_arena arena; /* of unpacked requests, one callback long */
	struct loop_hook tidy;  /* resets the arena */
	struct sli_list opened; /* calls that have early messages to deliver */
	struct loop_hook deliver;
	struct sli_buf body; /* answers are packed here, then copied */
	uint64_t accepted;
	uint64_t ended;
	uint64_t late; /* answers that nobody waited for */
};

/* A copy of the generated table with the handlers in it; index = method id.
 * INVALID_ARGUMENT when a handler's id is in no .proto; NOMEM. */
SLI_MUST enum sli_err methods_new(const struct svc_method *handlers,
    struct method **ret_table, uint32_t *ret_n, struct sli_errinfo *ei);

/* WAITING, in all tables, its deadline set. NULL: no memory or table full. */
SLI_MUST struct call *call_new(struct svc_calls *t, struct conn *conn,
    uint32_t sid, const struct sli_call *in, const struct method *m);
/* NULL for a stale id. */
struct call *call_of(struct svc_call c);
/* NULL when the stream means no call (any more). */
struct call *call_by_sid(const struct conn *conn, uint32_t sid);
/* The one setter of state. */
void call_move(struct call *c, enum call_state to);
const char *call_state_name(enum call_state s);
/* The call has its end: out of all tables, memory goes; then ops->gone(why),
 * for a stream. */
void call_free(struct call *c, enum sli_err why);
/* The client waits no longer, and was told what it is to know: a stream is
 * freed, any other call becomes an orphan. */
void call_abandon(struct call *c, enum sli_err why);
/* The connection is lost: as call_abandon, for all of its calls. */
void call_lost_all(struct conn *conn);

#endif
