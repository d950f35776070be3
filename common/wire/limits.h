/* SPDX-License-Identifier: Apache-2.0 */
/* Every bound of the protocol on one page, each with its reason. No code. What
 * an operator may set stands in base/limits.def under `wire.`; the numbers here
 * are the protocol's own, or the bounds within which those may move. */
#ifndef SLI_WIRE_LIMITS_H
#define SLI_WIRE_LIMITS_H

/* --- frames ---------------------------------------------------------------
 * A frame with its header and an AEAD tag fits one 65,535 byte record. */
#define SLI_FRAME_HDR 16u
#define SLI_MAX_FRAME 65503u
/* Least a peer may ask for: a RESULT with full body and trailers must fit. */
#define SLI_MAX_FRAME_LEAST 61440u
/* Most: one frame is buffered whole, and it delays control frames. */
#define SLI_MAX_FRAME_MOST 1048576u
/* HELLO comes before any authorisation. */
#define SLI_HELLO_MAX   4096u
#define SLI_HELLO_LEAST 512u
/* Deadline, key, trace context: a few hundred bytes; room for more fields. */
#define SLI_CALL_HEADER_MAX 8192u
/* A RESULT is not flow-controlled: what can be longer is a stream. */
#define SLI_RESULT_BODY_MAX     49152u
#define SLI_RESULT_TRAILERS_MAX 8192u
#define SLI_GOAWAY_TEXT_MAX     1016u
/* ACK records are 24 bytes; half the streams of a connection in one frame. */
#define SLI_ACK_RECORD  24u
#define SLI_ACK_RECORDS 64u

/* --- streams --------------------------------------------------------------
 * Both sides together bound a receiver: max_streams * F + P = 12 MiB. */
#define SLI_MAX_STREAMS      128u
#define SLI_MAX_STREAMS_MOST 65536u
/* Ids end here: a new connection comes before they run out. */
#define SLI_LAST_SID (0xffffffffu - (1u << 20))

/* --- credit ---------------------------------------------------------------
 * F: each stream may always have this much outstanding. A message is never
 * longer, so that a consumer of whole messages always gets one. */
#define SLI_FLOOR      65536u
#define SLI_FLOOR_MOST 1048576u
/* P: shared by all streams beyond F. */
#define SLI_POOL      4194304u
#define SLI_POOL_MOST 1073741824u
/* Below 256 KiB each acknowledgement costs a stall; far above it the window
 * is a queue that control waits behind. */
#define SLI_INIT_WINDOW 262144u
#define SLI_WINDOW_CAP  8388608u
/* A receiver lets at most min(window / 4, this) go unacknowledged. */
#define SLI_ACK_THRESHOLD 65536u
/* A sender waits for min(this, what it has): no one-byte frames. */
#define SLI_DRIBBLE 4096u

/* --- output ---------------------------------------------------------------
 * A batch is what control frames wait behind. */
#define SLI_BATCH_CALLS 65536u
#define SLI_BATCH_DATA  262144u
/* Share of one stream per turn, and of the two classes per round (4:1). */
#define SLI_QUANTUM             16384u
#define SLI_QUANTUM_INTERACTIVE 65536u
#define SLI_QUANTUM_BULK        16384u
/* Unsent control frames and results: above the first no CALL is dispatched,
 * above the second the peer is cut off (CALM): it asks and does not read. */
#define SLI_CTL_HOLD 1048576u
#define SLI_CTL_CALM 8388608u

/* --- time -----------------------------------------------------------------
 * A peer silent for keepalive_s is probed, and dead after as long again
 * without any byte as SLI_DEAD_MS says. */
#define SLI_KEEPALIVE_S      20u
#define SLI_KEEPALIVE_S_MOST 86400u
#define SLI_DEAD_MS          10000
#define SLI_WRITE_STALL_MS   30000
#define SLI_BLOCKED_MS       1000

/* --- messages -------------------------------------------------------------
 * protobuf-c recurses without limit and allocates per field. */
#define SLI_MSG_DEPTH  32u
#define SLI_MSG_FIELDS 8192u
/* Decoded size: at most this many times the encoded one, or the floor. */
#define SLI_MSG_BLOWUP    8u
#define SLI_MSG_ARENA_MIN 65536u

#endif
