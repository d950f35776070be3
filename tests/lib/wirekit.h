/* SPDX-License-Identifier: Apache-2.0 */
/* One mux under test, its peer played by hand: feed frames, look at the frames
 * that come out, and at a text log of what the owner was told. */
#ifndef SLUICE_TESTS_WIREKIT_H
#define SLUICE_TESTS_WIREKIT_H

#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/mux.h"

#define KIT_STREAMS 512

/* What a stream's source still has: `msgs` messages of `size` bytes. */
struct kit_source {
	unsigned msgs;
	size_t size;
	int ready_again; /* next pull: give nothing, but say ready */
};

struct kit {
	struct sli_mux *m;
	enum sli_role role;
	int64_t now;
	struct sli_buf out;
	struct sli_buf log;
	struct sli_errinfo ei;
	struct kit_source src[KIT_STREAMS];
	size_t got; /* bytes given to sink.data */
	int auto_release;
	unsigned calls_live;
	/* Called at the end of sink.data when set. */
	void (*on_data)(struct kit *k, uint32_t sid);
	void (*on_call)(struct kit *k, uint32_t sid);
	struct sli_peer_hello peer;
};

/* cfg NULL = defaults. HELLOs are not exchanged yet. */
void kit_init(struct kit *k, enum sli_role role, const struct sli_mux_cfg *cfg);
/* Both HELLOs; `peer` NULL = the peer sends defaults. */
void kit_hello(struct kit *k, const struct sli_mux_cfg *peer);
void kit_start(
    struct kit *k, enum sli_role role, const struct sli_mux_cfg *cfg);
void kit_fini(struct kit *k);

/* Append a whole frame to b. */
void kit_put(struct sli_buf *b, unsigned type, unsigned flags, unsigned aux16,
    uint32_t sid, uint32_t aux32, const void *p, size_t n);
/* Feed one frame from the peer. */
enum sli_err kit_in(struct kit *k, unsigned type, unsigned flags,
    unsigned aux16, uint32_t sid, uint32_t aux32, const void *p, size_t n);
enum sli_err kit_bytes(struct kit *k, const void *p, size_t n);
/* Shorthands of kit_in. */
enum sli_err kit_call(
    struct kit *k, uint32_t sid, const char *request, int end);
enum sli_err kit_data(
    struct kit *k, uint32_t sid, unsigned flags, uint32_t offset, size_t n);
enum sli_err kit_ack(
    struct kit *k, uint32_t sid, uint64_t acked, uint64_t window);
enum sli_err kit_num(
    struct kit *k, unsigned type, unsigned aux16, uint32_t sid, uint64_t v);

/* Next frame of the output (batches are asked for as needed); 0 when there is
 * none. The payload is valid until the next call. */
int kit_next(struct kit *k, struct sli_frame *f, struct sli_slice *payload);
/* The next frame must be this one; returns its payload. */
struct sli_slice kit_expect(
    struct kit *k, unsigned type, uint32_t sid, struct sli_frame *ret_f);
void kit_expect_none(struct kit *k);
/* Throw the output away; returns the DATA payload bytes in it for sid. */
uint64_t kit_drain(struct kit *k, uint32_t sid);
/* The log since last time must read so ("" = nothing happened). */
void kit_log_is(struct kit *k, const char *want);
/* Does the log hold it? Leaves the log. */
int kit_log_has(struct kit *k, const char *part);

/* Client under test: start a call; the CALL frame is consumed. */
uint32_t kit_make_call(struct kit *k, uint32_t method, int end);

#endif
