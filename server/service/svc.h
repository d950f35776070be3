/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler of a method gets, and the only way its answer leaves. The
 * functions are implemented by conn/ (outbox, dispatch); the handlers live in
 * service/. conn/ knows no engine, service/ knows no connection.
 *
 * A call is named by a small value with an id in it: after the call has ended,
 * or its client has vanished, every function here is a harmless no-op. Each
 * accepted call ends exactly once; what a handler answers after a deadline or
 * a cancel is dropped.
 *
 * Duty of a handler: end every call it was given, sooner or later, with ONE of
 * svc_reply, svc_fail, svc_finish, even when the client is gone (the slot of
 * the call is counted until then). A call with svc_open is freed from that
 * duty by ops.gone. A client that vanishes cancels its calls, never the work.
 *
 * Thread: loop, everything. */
#ifndef SLUICE_SERVICE_SVC_H
#define SLUICE_SERVICE_SVC_H

#include "base/err.h"
#include "base/principal.h"
#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>

struct svc;       /* what handlers work with; service/ defines it */
struct svc_calls; /* conn/'s table of calls */

/* Pass and keep by value. {NULL, 0} names no call. */
struct svc_call {
	struct svc_calls *calls;
	uint64_t id;
};

/* One row of the table that service/ gives to conn/. `req` is the unpacked
 * first (or only) request message of the type that the .proto states, checked
 * by wire/guard. It is valid during the call of handle only: copy what you
 * keep. */
struct svc_method {
	uint32_t id; /* of the .proto option */
	void (*handle)(
	    struct svc *svc, struct svc_call h, const ProtobufCMessage *req);
};

/* --- what the call carries --- */

/* Never NULL; tenant 0 when the call is stale. */
const struct sli_principal *svc_principal(struct svc_call h);
/* Idempotency key (0..64 bytes) and W3C traceparent; valid while the call
 * lives. */
struct sli_slice svc_key(struct svc_call h);
struct sli_slice svc_traceparent(struct svc_call h);
/* True while a client waits for this call's end. */
int svc_alive(struct svc_call h);
/* Unpack one message of a stream, through wire/guard. Valid until the current
 * callback returns. NULL: ei says why, normally given to svc_fail. */
SLI_MUST ProtobufCMessage *svc_unpack(struct svc_call h,
    const ProtobufCMessageDescriptor *desc, struct sli_slice bytes,
    struct sli_errinfo *ei);

/* --- ends of a call --- */

/* Success of a unary or client-streaming call. Packed at once; at most 48 KiB
 * (longer is a bug of ours: the client gets INTERNAL, the log says why). */
void svc_reply(struct svc_call h, const ProtobufCMessage *body);
/* The call failed: code, reason, text and limit hits (with scope and companion
 * keys from limits.def) become the Status trailers. On a stream it leaves
 * after what was pulled; nothing more is pulled. */
void svc_fail(struct svc_call h, const struct sli_errinfo *ei);
/* Success of a server-streaming or bidi call, without a body. Leaves after
 * what was pulled; nothing more is pulled. May be called from inside pull; the
 * bytes which that pull returns still go first. */
void svc_finish(struct svc_call h);

/* --- streams --- */

struct svc_stream_ops {
	/* There is credit: put the next whole message (at most 64 KiB) at dst
	 * and return its length; 0 parks the stream until svc_ready. dst holds
	 * 64 KiB whatever `room` says; messages of at most `room` bytes keep
	 * `held` at 0. NULL: this call sends no messages. */
	size_t (*pull)(void *ctx, uint8_t *dst, size_t room);
	/* The consumer has drained our bytes up to this stream offset. May be
	 * NULL. */
	void (*acked)(void *ctx, uint64_t offset);
	/* One whole message of the client after the first. Owes svc_release of
	 * msg.n, in time: "released" means taken by the engine (written, not
	 * parsed). NULL: further messages are refused. */
	void (*message)(void *ctx, struct sli_slice msg);
	/* The client sends nothing more. May be NULL. */
	void (*end)(void *ctx);
	/* Last callback, always, exactly once: free ctx here. OK: the stream
	 * came to its end (after svc_finish, svc_fail, svc_reply); CANCELED:
	 * the client gave it up; CLOSED: the connection is lost;
	 * DEADLINE_EXCEEDED. The call is stale from here on. */
	void (*gone)(void *ctx, enum sli_err why);
};

/* Make the call a stream: OPENED leaves, callbacks may come from now on (never
 * from inside svc_open). Client-streaming methods need it too, to get
 * `message`. Messages that came before it are kept and delivered after it.
 * CLOSED when the call is stale: then nothing is ever called. */
SLI_MUST enum sli_err svc_open(
    struct svc_call h, const struct svc_stream_ops *ops, void *ctx);
/* pull has something again. Cheap; may be called at any time. */
void svc_ready(struct svc_call h);
/* n received bytes (a message's length) were taken by the engine. */
void svc_release(struct svc_call h, uint64_t n);
/* Byte streams: skip to new_offset; `lost` bytes are reported, never silent.*/
void svc_gap(struct svc_call h, uint64_t new_offset, uint64_t lost);

/* --- gauges --- */

/* One connection, for Server.Stats. Bytes; see DESIGN P1 for the words. */
struct svc_conn_stats {
	uint64_t number; /* counts up from 1, never reused */
	uint64_t tenant;
	uint64_t inflight;   /* sent - acked */
	uint64_t unreleased; /* received, not yet taken by an engine */
	uint64_t held;       /* rests of partly sent messages */
	uint64_t queued;     /* output made, not yet written */
	uint64_t bytes_in;
	uint64_t bytes_out;
	uint32_t streams;
	uint32_t calls; /* not yet ended by their handler */
};

/* Calls fn for every open connection of the caller's tenant. */
void svc_each_conn(struct svc_call h,
    void (*fn)(void *ctx, const struct svc_conn_stats *st), void *ctx);
/* Sums over all connections, and their number. */
void svc_conn_totals(
    struct svc_call h, struct svc_conn_stats *ret, uint32_t *ret_conns);

#endif
