/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of libsluice share: the connection, the stream, the message.
 * Nothing of it is exported. Everything runs on the thread that uses the
 * handle. The states of a connection are in docs/STATES.md, Client connection.
 *
 * Who keeps what alive: the user holds a client until sluice_close and a stream
 * until sluice_stream_free; a stream is also held by the connection while the
 * call runs (or its end is undelivered), and by each of its messages. A stream
 * whose client is NULL is an orphan: everything on it fails with CLOSED. */
#ifndef SLI_CLIENT_CLIENT_H
#define SLI_CLIENT_CLIENT_H

#include <sluice.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "link/addr.h"
#include "link/link.h"
#include "wire/mux.h"
#include "wire/preamble.h"

#include <sys/types.h>

#define SLI_CL_BUCKETS    64u
#define SLI_CL_UPLOAD_MAX 262144u
/* How long a call is waited for beyond its own deadline, which the server
 * keeps: only a server that does not answer at all comes to this. */
#define SLI_CL_GRACE_MS   5000
#define SLI_CL_CONNECT_MS 10000

enum sli_cl_state {
	SLI_CL_PREAMBLE, /* connecting, or waiting for the answer to ours */
	SLI_CL_HELLO,    /* mux made, waiting for the server's HELLO */
	SLI_CL_READY,    /* calls run */
	SLI_CL_CLOSED,   /* no link; `why` says why */
	SLI_CL__N
};

/* How one kind of stream treats what comes. Every call happens inside
 * sluice_process, with a reference on the stream held. */
struct sli_stream_ops {
	/* One message. The callee owes its release: by a message object or by
	 * sli_stream_release. */
	void (*data)(
	    struct sluice_stream *s, uint64_t offset, struct sli_slice bytes);
	/* The end, once. err NULL = success, with the reply. */
	void (*result)(struct sluice_stream *s, const struct sluice_error *err,
	    struct sli_slice body);
	/* As sink.pull of the mux. NULL: the queue of sluice_stream_send. */
	size_t (*pull)(struct sluice_stream *s, uint8_t *dst, size_t room);
	/* The rest may be NULL. */
	void (*opened)(struct sluice_stream *s, uint64_t start);
	void (*writable)(struct sluice_stream *s);
	void (*gap)(struct sluice_stream *s, uint64_t offset, uint64_t lost);
	/* Free what `self` owns. No callbacks. */
	void (*fini)(struct sluice_stream *s);
};

struct sluice_stream {
	struct sluice_client *c;
	struct sli_list in_client;         /* c->streams, while attached */
	struct sli_list todo;              /* c->todo: writable, end */
	struct sluice_stream *next_bucket; /* by sid */
	const struct sli_stream_ops *ops;
	void *self; /* of ops */
	unsigned refs;
	uint32_t sid; /* 0: not started, or gone */
	int attached; /* the connection holds a reference */
	int freed;    /* by the user: no callback ever again */
	int detached; /* no user handle */
	int ended;    /* ops->result was called */
	int ending;   /* it will be, from todo */
	int writable; /* ops->writable will be called, from todo */
	int half;     /* the user said sluice_stream_end */
	int no_more;  /* nothing more is sent: ended, stopped, canceled */
	int hungry;   /* a send was refused with AGAIN */
	int64_t deadline_ms;          /* INT64_MAX: none */
	enum sli_err end_code;        /* of ending or ended */
	struct sluice_error *end_err; /* heap; NULL on success or no memory */
	struct sli_list msgs;         /* unreleased, in order */
	struct sli_buf up;            /* queue: u32 length, bytes, ... */
	uint64_t received, released;
	struct sli_start *start; /* until the mux has it */
};

struct sluice_msg {
	struct sli_list in_stream; /* alone once released */
	struct sluice_stream *s;
	uint64_t offset;
	size_t wire; /* bytes to release */
	int done;
	const void *data;
	size_t len;
	void *heap;             /* freed with it */
	struct sli_arena arena; /* freed with it */
};

/* A call that waits for the connection to become ready. */
struct sli_start {
	uint32_t method;
	uint32_t timeout_ms;
	uint32_t bulk;
	int end;
	uint64_t window;
	size_t key_len, trace_len, req_len;
	uint8_t bytes[]; /* key, traceparent, request */
};

struct sluice_client {
	enum sli_cl_state state;
	char url[SLI_URL_MAX];
	struct sli_addr addr;
	struct sli_link *link;
	struct sli_mux *mux;
	struct sli_buf out; /* what the link is sending */
	uint64_t written;   /* of the link, when last looked */
	uint8_t pre[SLI_PREAMBLE_LEN];
	size_t npre; /* bytes of the answer so far */
	struct sli_preamble sent_pre;
	pid_t pid;                /* the process that opened it */
	int busy;                 /* inside sluice_process */
	int closing;              /* sluice_close was called inside */
	int told;                 /* on_closed was called */
	int64_t deadline_ms;      /* of connecting, HELLO included */
	int64_t mux_ms;           /* next sli_mux_tick */
	int moved;                /* bytes went in this round of the pump */
	int got;                  /* some of them came in */
	struct sli_errinfo fault; /* ends the connection when out of the mux */
	struct sli_errinfo why;   /* CLOSED: why; else what GOAWAY said */
	struct sli_list streams;  /* in order of their start */
	struct sli_list todo;
	struct sluice_stream *bucket[SLI_CL_BUCKETS];
	/* options */
	char agent[64];
	uint32_t keepalive_s, connect_timeout_ms, window;
	size_t upload_max;
	void (*on_ready)(void *arg, sluice_client *c);
	void (*on_closed)(
	    void *arg, sluice_client *c, const struct sluice_error *why);
	void *arg;
};

/* --- client.c ---*/
/* The only setter of c->state. */
void sli_cl_move(struct sluice_client *c, enum sli_cl_state to);
/* The connection is lost: every call ends from todo. Keeps the first `ei`. */
void sli_cl_lost(struct sluice_client *c, const struct sli_errinfo *ei);
int64_t sli_cl_now(void);

/* --- pump.c: link and mux, sinks ---*/
/* Make the link, the first attempt to connect, and the preamble. */
SLI_MUST enum sli_err sli_pump_dial(
    struct sluice_client *c, int64_t now, struct sli_errinfo *ei);
/* Read, write, timers: all that can be done without blocking. */
void sli_pump(struct sluice_client *c, int64_t now);
/* Write what is due. */
void sli_pump_flush(struct sluice_client *c, int64_t now);
/* Close the link and drop the mux; no callbacks. */
void sli_pump_stop(struct sluice_client *c);
/* Give waiting calls to the mux. */
void sli_pump_start_calls(struct sluice_client *c);

/* --- stream.c ---*/
SLI_MUST struct sluice_stream *sli_stream_new(
    struct sluice_client *c, const struct sli_stream_ops *ops, void *self);
void sli_stream_ref(struct sluice_stream *s);
void sli_stream_unref(struct sluice_stream *s);
struct sluice_stream *sli_stream_find(struct sluice_client *c, uint32_t sid);
void sli_stream_set_sid(struct sluice_stream *s, uint32_t sid);
/* The mux forgot it, or never had it. */
void sli_stream_gone(struct sluice_stream *s);
/* Deliver the end now (inside sluice_process). err NULL = success. */
void sli_stream_end_now(struct sluice_stream *s, const struct sluice_error *err,
    struct sli_slice body);
/* Inside ops->result: the end is this error instead. */
void sli_stream_set_end(
    struct sluice_stream *s, const struct sluice_error *err);
/* Deliver the end at the next sluice_process. */
void sli_stream_end_later(
    struct sluice_stream *s, const struct sli_errinfo *ei);
/* Cancel because of `ei`: the server gets RESET, the user the error. */
void sli_stream_fail(struct sluice_stream *s, const struct sli_errinfo *ei);
/* The connection is closed: no callback, every later use gets CLOSED. */
void sli_stream_orphan(struct sluice_stream *s);
/* n bytes are drained, or never reached a consumer. */
void sli_stream_release(struct sluice_stream *s, uint64_t n);
/* ops->pull may have something. */
void sli_stream_ready(struct sluice_stream *s);
/* pull made room: tell a sender that was refused. */
void sli_stream_made_room(struct sluice_stream *s);
size_t sli_stream_pull_queue(struct sluice_stream *s, uint8_t *dst);
/* Callbacks that are due. */
void sli_stream_run_todo(struct sluice_client *c);
/* 0 when a callback may be made. */
int sli_stream_mute(const struct sluice_stream *s);
/* Let the connection go of it, once the mux has forgotten it and the user has
 * been told its end (or wants to hear nothing). */
void sli_stream_let_go(struct sluice_stream *s);
/* The connection holds it from now on. */
void sli_stream_attach(struct sluice_stream *s);
void sli_stream_add_todo(struct sluice_stream *s);
/* Its connection is there and not about to be freed. */
int sli_stream_live(const struct sluice_stream *s);
/* SLUICE_OK, or CLOSED in *err. */
int sli_stream_sendable(struct sluice_stream *s, struct sluice_error *err);
/* Run sluice_process until the end; its error. */
int sli_stream_run(
    struct sluice_stream *s, int64_t timeout_ms, struct sluice_error *err);

/* A message object for `wire` bytes at `offset`; on no memory the stream is
 * failed and NULL returned. With `copy` it holds a copy of the bytes. */
SLI_MUST struct sluice_msg *sli_msg_new(
    struct sluice_stream *s, uint64_t offset, struct sli_slice bytes, int copy);

/* --- call.c ---*/
struct sli_method {
	uint32_t id;
	const char *name; /* "sluice.v1.Vms/Create" */
	int client_streams, server_streams;
	uint32_t timeout_ms;
};

const struct sli_method *sli_method_find(const char *name);
const struct sli_method *sli_method_by_id(uint32_t id);
/* Give s->start to the mux. On failure s is unchanged but for start. */
SLI_MUST enum sli_err sli_call_begin(
    struct sluice_stream *s, struct sli_errinfo *ei);
/* Start method m on s, now or once the connection is ready. end: no more from
 * us. */
SLI_MUST enum sli_err sli_call_start(struct sluice_stream *s,
    const struct sli_method *m, struct sli_slice req, int end,
    const struct sluice_call_options *opt, struct sli_errinfo *ei);

/* --- error.c ---*/
/* Fill the user's record (may be NULL); returns the code. */
int sli_err_give(struct sluice_error *dst, const struct sli_errinfo *ei);
int sli_err_copy(struct sluice_error *dst, const struct sluice_error *src);
/* From a RESULT's status and its encoded Status. */
void sli_err_from_wire(
    struct sluice_error *dst, uint16_t status, struct sli_slice trailers);
/* Copy a caller's struct of any version over `dst` (zeroed by us).
 * INVALID_ARGUMENT when it is newer than we are and uses what we lack. */
SLI_MUST enum sli_err sli_take_struct(void *dst, size_t dst_size,
    const void *src, const char *what, struct sli_errinfo *ei);

#endif
