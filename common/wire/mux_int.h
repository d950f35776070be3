/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the mux, for its own files only: the connection's record and the
 * functions they share.
 *
 *   mux.c        birth, death, look-ups, failing, settling and burying streams
 *   mux_in.c     input: frames to handlers; HELLO, CALL, OPENED, RESULT
 *   mux_data.c   DATA and GAP: credit, assembly, hand-over
 *   mux_ctl.c    ACK, RESET, STOP, PING, PONG, GOAWAY, BLOCKED
 *   mux_held.c   CALLs that wait because the peer does not read
 *   mux_api.c    what the owner calls
 *   sched.c      which stream is served next; who waits for what
 *   out.c        one batch: control, calls, data
 *   out_data.c   serving one stream: pull, cut, end
 *   mux_tick.c   time
 *   mux_check.c  invariants */
#ifndef SLI_WIRE_MUX_INT_H
#define SLI_WIRE_MUX_INT_H

#include "base/mem.h"
#include "base/mutant.h"
#include "wire/frame.h"
#include "wire/limits.h"
#include "wire/mux.h"
#include "wire/stream.h"

/* docs/STATES.md, "Connection". */
enum sli_mux_state {
	SLI_MUX_HELLO,    /* the peer's HELLO has not come */
	SLI_MUX_OPEN,     /* streams open and close */
	SLI_MUX_DRAINING, /* GOAWAY: no new streams */
	SLI_MUX_FAILED,   /* one last GOAWAY, then nothing */
	SLI_MUX__N,
};

enum sli_class {
	SLI_CLASS_INTERACTIVE,
	SLI_CLASS_BULK,
	SLI_CLASS__N,
};

/* GOAWAY that is due. */
struct sli_goaway {
	int due;
	uint32_t last;
	uint32_t grace_ms;
	uint16_t code;
	uint16_t text_len;
	char text[SLI_GOAWAY_TEXT_MAX];
};

struct sli_mux {
	struct sli_mux_cfg cfg;
	struct sli_mux_sink sink;
	void *ctx;
	enum sli_mux_state state; /* written by sli_mux_set_state only */
	struct sli_errinfo err;   /* FAILED: why */
	int busy;                 /* inside input, output or tick */
	int hello_sent;
	int hello_got;
	int goaway_seen;       /* from the peer */
	uint32_t refuse_above; /* our GOAWAY's last stream */
	struct sli_peer_hello peer;

	struct sli_frame_in in;
	struct sli_arena arena; /* one control message at a time */
	struct sli_table table;
	uint32_t last_sid; /* client: highest given; server: highest seen */
	struct sli_pool txpool;
	struct sli_pool rxpool;

	struct sli_list ready[SLI_CLASS__N];
	int64_t share[SLI_CLASS__N]; /* deficit of each class */
	struct sli_list pool_wait;   /* oldest first */
	struct sli_list ctl;         /* streams with control frames due */
	struct sli_list blocked;     /* by blocked_due_ms */
	struct sli_list gone;        /* closed, to be buried */
	struct sli_list held;        /* CALLs not dispatched, oldest first */

	struct sli_buf control; /* C0 frames that belong to no stream record */
	struct sli_buf calls;   /* C1 frames, whole */
	int pong_due;
	uint8_t pong[8];
	int ping_due;
	int ping_out; /* sent (or due), and no byte has come since */
	struct sli_goaway goaway;

	int64_t now_ms;
	int64_t last_in_ms;
	int64_t ping_ms;
	int64_t stall_from_ms; /* output is wanted since; -1 = it is not */
	struct sli_mux_stats st;
};

#define SLI_IS_SERVER(m) ((m)->cfg.role == SLI_SERVER)

/* Call a sink function if there is one. */
#define SLI_SINK(m, fn, ...)                                 \
	do {                                                 \
		if ((m)->sink.fn != NULL)                    \
			(m)->sink.fn((m)->ctx, __VA_ARGS__); \
	} while (0)
/* The same, about a stream whose owner still listens. */
#define SLI_TELL(m, s, fn, ...)                                 \
	do {                                                    \
		if (!(s)->muted)                                \
			SLI_SINK(m, fn, (s)->sid, __VA_ARGS__); \
	} while (0)

/* --- mux.c ----------------------------------------------------------------*/
const char *sli_mux_state_name(enum sli_mux_state s);
int sli_mux_legal(enum sli_mux_state from, enum sli_mux_state to);
void sli_mux_set_state(struct sli_mux *m, enum sli_mux_state to);
/* The connection is over: remember why, once. Returns the first reason. */
enum sli_err sli_mux_fail(struct sli_mux *m, enum sli_err code, const char *fmt,
    ...) SLI_PRINTF(3, 4);
enum sli_err sli_mux_failed(const struct sli_mux *m, struct sli_errinfo *ei);
/* The stream of a frame. NULL and OK: it is gone, ignore the frame. NULL and
 * PROTOCOL: it never was. */
struct sli_stream *sli_mux_find(
    struct sli_mux *m, uint32_t sid, const char *what, enum sli_err *ret_e);
/* Control frames `bits` are due for s. */
void sli_mux_need(struct sli_mux *m, struct sli_stream *s, unsigned bits);
/* Move halves to DONE when they are, put the ACK that is due on the list, and
 * the stream on the gone list when it is closed. After every change. */
void sli_mux_settle(struct sli_mux *m, struct sli_stream *s);
/* Forget what the stream would still send. */
void sli_mux_drop_tx(struct sli_mux *m, struct sli_stream *s);
/* Nobody takes this stream's data any more. */
void sli_mux_kill_rx(struct sli_mux *m, struct sli_stream *s);
/* The peer broke a rule of this stream: RESET, and tell the owner. */
void sli_mux_fault(struct sli_mux *m, struct sli_stream *s, enum sli_err code);
/* sink.gone and free for all closed streams. */
void sli_mux_bury(struct sli_mux *m);
/* Append a whole frame to the call queue (counted on s) or, s NULL, to the
 * control queue. Returns the place of the payload, or NULL (out of memory or
 * over the bound: the connection has failed). */
uint8_t *sli_mux_queue(
    struct sli_mux *m, struct sli_stream *s, const struct sli_frame *f);
uint32_t sli_mux_queued(const struct sli_mux *m);

/* --- handlers: one frame each ---------------------------------------------*/
typedef enum sli_err sli_frame_fn(
    struct sli_mux *m, const struct sli_frame *f, struct sli_slice payload);
sli_frame_fn sli_mux_on_data, sli_mux_on_gap, sli_mux_on_ack, sli_mux_on_reset,
    sli_mux_on_stop, sli_mux_on_ping, sli_mux_on_pong, sli_mux_on_goaway,
    sli_mux_on_blocked;

/* Hand over one received piece at `offset` (flags of its frame). */
void sli_mux_hand_over(struct sli_mux *m, struct sli_stream *s, uint64_t offset,
    unsigned flags, struct sli_slice bytes);
/* Dispatch a CALL to the sink. */
enum sli_err sli_mux_dispatch(struct sli_mux *m, struct sli_stream *s,
    uint16_t header_len, int end, struct sli_slice payload);

/* --- mux_held.c -----------------------------------------------------------*/
SLI_MUST enum sli_err sli_held_add(struct sli_mux *m, struct sli_stream *s,
    const struct sli_frame *f, struct sli_slice payload);
SLI_MUST enum sli_err sli_held_data(struct sli_mux *m, struct sli_stream *s,
    uint64_t offset, unsigned flags, struct sli_slice bytes);
void sli_held_drop(struct sli_stream *s);
/* Dispatch what waits, as long as the control queue is short. */
enum sli_err sli_held_run(struct sli_mux *m);
int sli_held_can_run(const struct sli_mux *m);

/* --- sched.c --------------------------------------------------------------*/
/* Something about what s has to send changed. */
void sli_sched_update(struct sli_mux *m, struct sli_stream *s);
/* Credit came, or what it waits for does not matter any more. */
void sli_sched_wake(struct sli_mux *m, struct sli_stream *s);
/* It cannot send now for want of `need` bytes of credit. */
void sli_sched_wait(struct sli_mux *m, struct sli_stream *s, uint64_t need);
void sli_sched_leave(struct sli_mux *m, struct sli_stream *s);
/* Credit the stream needs before it sends. */
uint64_t sli_sched_need(const struct sli_stream *s);
int sli_sched_end_due(const struct sli_mux *m, const struct sli_stream *s);
/* Streams that wait for the pool get their turn while it has room. */
int sli_sched_pool_open(const struct sli_mux *m);
void sli_sched_open_pool(struct sli_mux *m);

/* --- out ------------------------------------------------------------------*/
/* One batch being built. */
struct sli_batch {
	struct sli_mux *m;
	struct sli_buf *out;
	size_t start; /* length of out before */
	size_t data;  /* bytes of the data part */
	int full;     /* out cannot grow */
};

/* Place for a frame's payload in the batch (header written, length counted),
 * or NULL. */
uint8_t *sli_batch_frame(struct sli_batch *b, const struct sli_frame *f);
/* The data part of the batch. */
void sli_batch_data(struct sli_batch *b);
/* Serve one stream within its deficit; returns what it took of the budget. */
size_t sli_batch_serve(struct sli_batch *b, struct sli_stream *s);
/* Server: RESULT goes to the call queue; our half is ENDED. */
enum sli_err sli_mux_send_result(struct sli_mux *m, struct sli_stream *s,
    uint16_t status, struct sli_slice trailers, struct sli_slice body);
/* The one that was kept back until the data was out. */
enum sli_err sli_mux_late_result(struct sli_mux *m, struct sli_stream *s);

#endif
