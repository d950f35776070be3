/* SPDX-License-Identifier: Apache-2.0 */
/* One SLW/1 connection without I/O, clock or threads: bytes in, events and
 * bytes out. The same code is the server's and the client's end. It frames,
 * keeps the table of streams and their state machine (docs/STATES.md), and
 * holds the whole credit rule (docs/PROTOCOL.md). It knows nothing of methods,
 * principals or sockets. The preamble and security handshake come before it.
 *
 * A stream is a cursor over a source that its owner keeps; what may be sent is
 * asked for with sink.pull when there is credit for it (DESIGN P1). */
#ifndef SLI_WIRE_MUX_H
#define SLI_WIRE_MUX_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum sli_role { SLI_CLIENT, SLI_SERVER };

/* What this end promises as a receiver, and what it sends in HELLO. Zero
 * fields take the defaults of wire/limits.h. */
struct sli_mux_cfg {
	enum sli_role role;
	uint32_t max_frame;
	uint32_t max_streams;
	uint32_t floor;
	uint32_t pool;
	uint32_t init_window;
	uint64_t window_cap;   /* as sender: most we honour of a peer's window */
	uint32_t keepalive_s;
	char agent[64];
	uint8_t boot_id[16];
	/* Method table look-up: is `method` a byte stream in this direction?
	 * NULL = every stream is a message stream. */
	int (*is_byte_stream)(uint32_t method, enum sli_role sender);
};

/* The peer's HELLO after checks. */
struct sli_peer_hello {
	uint32_t max_frame, max_streams, floor, pool, init_window, keepalive_s;
	uint64_t features;
	char agent[64];
	uint8_t boot_id[16];
};

/* Decoded CALL. Slices are valid during the sink call only. */
struct sli_call {
	uint32_t method;
	uint32_t timeout_ms;
	uint32_t priority;
	struct sli_slice idempotency_key;
	struct sli_slice traceparent;
	struct sli_slice request; /* first request message */
	int end;                  /* the client sends nothing more */
};

struct sli_mux;

#define SLI_PULL_NOTHING 0

/* All called from inside sli_mux_input, _output or _tick. A sink may call any
 * mux function but those three and _free. `sid` is the stream. */
struct sli_mux_sink {
	void (*hello)(void *ctx, const struct sli_peer_hello *peer);
	/* Server: a new call. Answer now or later with sli_mux_result. */
	void (*call)(void *ctx, uint32_t sid, const struct sli_call *call);
	/* Client: the server accepted the stream. */
	void (*opened)(
	    void *ctx, uint32_t sid, uint64_t start, uint64_t received);
	/* One whole message, or a piece of a byte stream, at `offset` (of its
	 * first byte). Owner must in time release as many bytes. */
	void (*data)(void *ctx, uint32_t sid, uint64_t offset,
	    struct sli_slice bytes);
	/* The peer half-closed: no more data will come. */
	void (*end)(void *ctx, uint32_t sid);
	/* The consumer has drained up to `acked`. */
	void (*acked)(void *ctx, uint32_t sid, uint64_t acked);
	/* Client: the call's end. trailers: encoded Status or empty. */
	void (*result)(void *ctx, uint32_t sid, uint16_t status,
	    struct sli_slice trailers, struct sli_slice body);
	/* The peer gave the stream up (code: error number). */
	void (*reset)(void *ctx, uint32_t sid, uint16_t code);
	/* The peer wants no more of our data. Answer with end, result, reset.*/
	void (*stop)(void *ctx, uint32_t sid, uint16_t code);
	/* Client: bytes were overwritten; data goes on at `offset`. */
	void (*gap)(void *ctx, uint32_t sid, uint64_t offset, uint64_t lost);
	void (*goaway)(void *ctx, uint32_t last_stream, uint32_t grace_ms,
	    uint16_t code, struct sli_slice text);
	/* Stream is closed in both directions and gone; last call for sid. */
	void (*gone)(void *ctx, uint32_t sid);
	/* Put the next message (or, on byte streams, up to `room` bytes) of
	 * stream sid at dst and return its length; SLI_PULL_NOTHING parks the
	 * stream until sli_mux_ready. dst always holds 64 KiB. A message may be
	 * longer than `room` (the mux then keeps its rest, counted as held);
	 * sources that can make smaller ones should. */
	size_t (*pull)(void *ctx, uint32_t sid, uint8_t *dst, size_t room);
};

SLI_MUST struct sli_mux *sli_mux_new(const struct sli_mux_cfg *cfg,
    const struct sli_mux_sink *sink, void *ctx);
void sli_mux_free(struct sli_mux *m);

/* Feed received bytes. On error the connection must be closed after what
 * sli_mux_output still gives (a GOAWAY with the code) has been sent; ei says
 * why. now_ms is monotonic. */
SLI_MUST enum sli_err sli_mux_input(struct sli_mux *m, int64_t now_ms,
    struct sli_slice bytes, struct sli_errinfo *ei);
/* Append the next batch (control first, then data by class and credit; about
 * 256 KiB at most) to out. 0 bytes = nothing to send. */
SLI_MUST enum sli_err sli_mux_output(
    struct sli_mux *m, int64_t now_ms, struct sli_buf *out);
/* True when sli_mux_output would give something. */
int sli_mux_wants_output(const struct sli_mux *m);
/* Timers: keepalive, BLOCKED. Returns the next deadline (monotonic ms) or
 * INT64_MAX; error STALLED when the peer is dead. */
SLI_MUST enum sli_err sli_mux_tick(struct sli_mux *m, int64_t now_ms,
    int64_t *ret_next_ms, struct sli_errinfo *ei);

/* Client: start a call; *ret_sid is its stream. request is copied. window 0 =
 * default. end = no more from us. RESOURCE_EXHAUSTED at max_streams. */
SLI_MUST enum sli_err sli_mux_call(struct sli_mux *m,
    const struct sli_call *call, uint64_t window, uint32_t *ret_sid,
    struct sli_errinfo *ei);
/* Server: accept a streaming call (start offset of our data). */
SLI_MUST enum sli_err sli_mux_opened(
    struct sli_mux *m, uint32_t sid, uint64_t start);
/* Server: end the call. Leaves after all DATA queued before it. */
SLI_MUST enum sli_err sli_mux_result(struct sli_mux *m, uint32_t sid,
    uint16_t status, struct sli_slice trailers, struct sli_slice body);
/* The stream's source has something: sink.pull will be asked. */
void sli_mux_ready(struct sli_mux *m, uint32_t sid);
/* Our direction ends once sink.pull has returned everything (that is: at the
 * next SLI_PULL_NOTHING). */
void sli_mux_end(struct sli_mux *m, uint32_t sid);
/* Release n received bytes of the stream: the consumer has drained them. Any
 * order is the caller's business; this is a count of the contiguous prefix. */
void sli_mux_release(struct sli_mux *m, uint32_t sid, uint64_t n);
/* As receiver: wish for this window from now on. */
void sli_mux_set_window(struct sli_mux *m, uint32_t sid, uint64_t window);
/* Give the stream up: RESET; received bytes count as released. */
void sli_mux_reset(struct sli_mux *m, uint32_t sid, uint16_t code);
/* Ask the peer to stop sending. */
void sli_mux_stop(struct sli_mux *m, uint32_t sid, uint16_t code);
/* Server, output readers: skip to new_offset; `lost` bytes are reported. */
void sli_mux_gap(
    struct sli_mux *m, uint32_t sid, uint64_t new_offset, uint64_t lost);
/* Refuse new streams above last; 2^32-1 announces only. */
void sli_mux_goaway(struct sli_mux *m, uint32_t last, uint32_t grace_ms,
    uint16_t code, const char *text);
/* Send credit of the stream in bytes right now (limit and pool). */
uint64_t sli_mux_room(const struct sli_mux *m, uint32_t sid);

struct sli_mux_stats {
	uint64_t frames_in, frames_out, bytes_in, bytes_out;
	uint64_t data_in, data_out;  /* DATA payload bytes */
	uint64_t inflight;           /* sum of sent - acked, as sender */
	uint64_t unreleased;         /* received, not yet released */
	uint64_t held;               /* rests of partly sent messages */
	uint32_t streams;
	uint32_t pending_ctl;        /* bytes of queued control frames */
};

void sli_mux_stats(const struct sli_mux *m, struct sli_mux_stats *ret);
/* Check every invariant of transport.md 3.5 that one end can see; asserts. */
void sli_mux_check(const struct sli_mux *m);

#endif
