/* SPDX-License-Identifier: Apache-2.0 */
/* One SLW/1 connection without I/O, clock or threads: bytes in, events and
 * bytes out. The same code is the server's and the client's end. It frames,
 * keeps the table of streams and their state machine (docs/STATES.md), and
 * holds the whole credit rule (docs/PROTOCOL.md). It knows nothing of methods,
 * principals or sockets. The preamble (wire/preamble.h) and the security
 * handshake come before it.
 *
 * A stream is a cursor over a source that its owner keeps; what may be sent is
 * asked for with sink.pull when there is credit for it (DESIGN P1). */
#ifndef SLI_WIRE_MUX_H
#define SLI_WIRE_MUX_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "wire/role.h"

/* What this end promises as a receiver, and what it sends in HELLO. Zero
 * fields take the defaults of wire/limits.h, but keepalive_s, whose 0 means:
 * never probe me, nor close me for a write stall. */
struct sli_mux_cfg {
	enum sli_role role;
	uint32_t max_frame;
	uint32_t max_streams;
	uint32_t floor;
	uint32_t pool;
	uint32_t init_window;
	uint64_t window_cap; /* as sender: most we honour of a peer's window */
	uint32_t keepalive_s;
	uint32_t dead_ms;        /* after a probe, without any byte */
	uint32_t write_stall_ms; /* without progress */
	uint32_t ctl_hold;       /* queued control bytes: take no more calls */
	uint32_t ctl_close;      /* and: close (CALM) */
	uint32_t hello_max;      /* longest HELLO taken */
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
	uint32_t priority; /* 0 interactive, 1 bulk */
	struct sli_slice idempotency_key;
	struct sli_slice traceparent;
	struct sli_slice request; /* first request message */
	int end;                  /* the client sends nothing more */
};

struct sli_mux;

#define SLI_PULL_NOTHING 0
/* Longest message of a message stream, and most that one pull may give. */
#define SLI_MUX_MSG_MAX 65536u
/* sli_mux_output never adds more than this to `out`, whose max must be at
 * least as much; it wants about 256 KiB. */
#define SLI_MUX_BATCH_MAX 524288u

/* All called from inside sli_mux_input, _output or _tick. A sink may call any
 * mux function but those three and _free. `sid` is the stream. */
struct sli_mux_sink {
	void (*hello)(void *ctx, const struct sli_peer_hello *peer);
	/* Server: a new call. Its handler lives until the owner has called
	 * sli_mux_result, _abort or _reset exactly once, whatever happens to
	 * the stream meanwhile; until then it counts against max_streams. */
	void (*call)(void *ctx, uint32_t sid, const struct sli_call *call);
	/* Client: the server accepted the stream. */
	void (*opened)(
	    void *ctx, uint32_t sid, uint64_t start, uint64_t received);
	/* One whole message, or a piece of a byte stream, at `offset` (of its
	 * first byte). Owner must in time release as many bytes. */
	void (*data)(
	    void *ctx, uint32_t sid, uint64_t offset, struct sli_slice bytes);
	/* Server: the client half-closed: no more data will come. */
	void (*end)(void *ctx, uint32_t sid);
	/* The consumer has drained up to `acked`. */
	void (*acked)(void *ctx, uint32_t sid, uint64_t acked);
	/* Client: the call's end. trailers: encoded Status or empty. */
	void (*result)(void *ctx, uint32_t sid, uint16_t status,
	    struct sli_slice trailers, struct sli_slice body);
	/* The stream was given up: by the peer, or by this mux because the peer
	 * broke a rule of that stream (code: error number). Nothing more comes
	 * or goes. Client: gone follows. Server: the handler must still end
	 * with _result, _abort or _reset (any of them sends what is due). */
	void (*reset)(void *ctx, uint32_t sid, uint16_t code);
	/* The peer wants no more of our data: pull is not asked again. Server:
	 * answer with result, abort or reset. Client: answered already. */
	void (*stop)(void *ctx, uint32_t sid, uint16_t code);
	/* Client: bytes were overwritten; data goes on at `offset`. */
	void (*gap)(void *ctx, uint32_t sid, uint64_t offset, uint64_t lost);
	void (*goaway)(void *ctx, uint32_t last_stream, uint32_t grace_ms,
	    uint16_t code, struct sli_slice text);
	/* Stream is closed in both directions and gone; last call for sid.
	 * Comes once for every sid that sink.call or sli_mux_call gave. */
	void (*gone)(void *ctx, uint32_t sid);
	/* Put the next message (or, on byte streams, up to `room` bytes) of
	 * stream sid at dst and return its length; SLI_PULL_NOTHING parks the
	 * stream until sli_mux_ready. dst always holds SLI_MUX_MSG_MAX. A
	 * message may be longer than `room` (the mux then keeps its rest,
	 * counted as held); sources that can make smaller ones should. Empty
	 * messages cannot be sent. It may end the stream (_result, _end,
	 * _abort, _reset), but not make a _gap; what it returns goes before
	 * that end, but is void after _abort and _reset. */
	size_t (*pull)(void *ctx, uint32_t sid, uint8_t *dst, size_t room);
};

/* cfg and sink are copied (the sink's ctx is not). NULL: out of memory. */
SLI_MUST struct sli_mux *sli_mux_new(
    const struct sli_mux_cfg *cfg, const struct sli_mux_sink *sink, void *ctx);
/* No sink call is made. */
void sli_mux_free(struct sli_mux *m);

/* Feed received bytes; any cut is fine. On error the connection must be closed
 * after what sli_mux_output still gives (a GOAWAY with the code) has been
 * sent; ei says why. Later calls give the same error. now_ms is monotonic. */
SLI_MUST enum sli_err sli_mux_input(struct sli_mux *m, int64_t now_ms,
    struct sli_slice bytes, struct sli_errinfo *ei);
/* Append the next batch (control first, then data by class and credit) to out.
 * Appending nothing = nothing to send. NOMEM or RESOURCE_EXHAUSTED: out could
 * not grow; nothing is lost, but nothing was appended either. */
SLI_MUST enum sli_err sli_mux_output(
    struct sli_mux *m, int64_t now_ms, struct sli_buf *out);
/* True when sli_mux_output should be called (it may turn out to give nothing,
 * when a ready source has none). */
int sli_mux_wants_output(const struct sli_mux *m);
/* The link wrote some of what sli_mux_output gave. For links that see partial
 * writes; else the next sli_mux_output counts as progress. */
void sli_mux_progress(struct sli_mux *m, int64_t now_ms);
/* Timers: keepalive, write stall, BLOCKED. Returns the next deadline
 * (monotonic ms) or INT64_MAX; error STALLED when the peer is dead. Call it at
 * the deadline and after every input and output. */
SLI_MUST enum sli_err sli_mux_tick(struct sli_mux *m, int64_t now_ms,
    int64_t *ret_next_ms, struct sli_errinfo *ei);

/* Client: start a call; *ret_sid is its stream. All is copied. window 0 =
 * default. AGAIN before sink.hello; RESOURCE_EXHAUSTED at max_streams;
 * UNAVAILABLE after a GOAWAY or when the ids are used up; FRAME_SIZE when
 * header and request pass the peer's max_frame. */
SLI_MUST enum sli_err sli_mux_call(struct sli_mux *m,
    const struct sli_call *call, uint64_t window, uint32_t *ret_sid,
    struct sli_errinfo *ei);
/* Server: accept a streaming call (start offset of our data). Without it the
 * first sli_mux_ready accepts at 0. */
SLI_MUST enum sli_err sli_mux_opened(
    struct sli_mux *m, uint32_t sid, uint64_t start);
/* Server: end the call. Leaves after all DATA that sink.pull still gives (up
 * to its next SLI_PULL_NOTHING). trailers <= 8 KiB, body <= 48 KiB, else
 * FRAME_SIZE and the call is not ended. OK and no effect on a stream that was
 * reset meanwhile. */
SLI_MUST enum sli_err sli_mux_result(struct sli_mux *m, uint32_t sid,
    uint16_t status, struct sli_slice trailers, struct sli_slice body);
/* Server: end the call at once with status != 0: what was not sent is not sent
 * any more, the rest of a message that was begun included. */
SLI_MUST enum sli_err sli_mux_abort(struct sli_mux *m, uint32_t sid,
    uint16_t status, struct sli_slice trailers);
/* The stream's source has something: sink.pull will be asked. */
void sli_mux_ready(struct sli_mux *m, uint32_t sid);
/* Client: our direction ends once sink.pull has returned everything (that is:
 * at the next SLI_PULL_NOTHING; at once on a stream that is not ready). The
 * server's direction ends with its result; there this does nothing. */
void sli_mux_end(struct sli_mux *m, uint32_t sid);
/* Release n received bytes of the stream: the consumer has drained them. Any
 * order is the caller's business; this is a count of the contiguous prefix.
 * Nothing on a stream that was reset or is gone. */
void sli_mux_release(struct sli_mux *m, uint32_t sid, uint64_t n);
/* As receiver: wish for this window from now on. */
void sli_mux_set_window(struct sli_mux *m, uint32_t sid, uint64_t window);
/* Give the stream up: RESET; received bytes count as released. No data, end,
 * result or acked of this stream follows, only gone. */
void sli_mux_reset(struct sli_mux *m, uint32_t sid, uint16_t code);
/* Ask the peer to stop sending; what still comes is discarded and released. */
void sli_mux_stop(struct sli_mux *m, uint32_t sid, uint16_t code);
/* Server, output readers: skip to new_offset; `lost` bytes are reported. The
 * rest of a message that was begun is sent before it. */
void sli_mux_gap(
    struct sli_mux *m, uint32_t sid, uint64_t new_offset, uint64_t lost);
/* Refuse new streams above last (they get RESET with code DRAINING); 2^32-1
 * announces only. Two phases: announce, then the real value (0 asks for the
 * highest stream taken so far) a round trip later. */
void sli_mux_goaway(struct sli_mux *m, uint32_t last, uint32_t grace_ms,
    uint16_t code, const char *text);
/* Send credit of the stream in bytes right now (limit and pool). */
uint64_t sli_mux_room(const struct sli_mux *m, uint32_t sid);

struct sli_mux_stats {
	uint64_t frames_in, frames_out, bytes_in, bytes_out;
	uint64_t data_in, data_out; /* DATA payload bytes */
	uint64_t inflight;          /* sum of sent - acked, as sender */
	uint64_t unreleased;        /* received, not yet released */
	uint64_t held;              /* rests of partly sent messages */
	uint32_t streams;
	uint32_t pending_ctl;             /* bytes of queued control frames */
	uint64_t acks_in, acks_out;       /* ACK records */
	uint64_t blocked_in, blocked_out; /* BLOCKED frames */
	uint64_t parks;                   /* pulls that gave nothing */
	uint64_t pool_waits;   /* times a stream waited for the pool */
	uint64_t window_waits; /* times one waited for its own window */
	uint64_t dead_bytes;   /* DATA for streams that want none */
	uint64_t calls_held;   /* CALLs not dispatched at once */
	uint64_t resets_in, resets_out;
};

void sli_mux_stats(const struct sli_mux *m, struct sli_mux_stats *ret);
/* Check every invariant of docs/PROTOCOL.md that one end can see; asserts. */
void sli_mux_check(const struct sli_mux *m);

#endif
