/* SPDX-License-Identifier: Apache-2.0 */
/* The 16-byte frame header: encode, decode, check against one table, and cut
 * whole frames out of a byte stream. Knows what a header may look like, not
 * what a frame does.
 *
 *   0  u32 length   of the payload
 *   4  u8  type
 *   5  u8  flags
 *   6  u16 aux16    CALL: header length; RESULT: status; RESET, STOP, GOAWAY:
 *                   error number; else 0
 *   8  u32 sid      0 = the connection
 *  12  u32 aux32    CALL: method; RESULT: trailers length; DATA: low 32 bits
 *                   of the offset of its first byte; else 0 */
#ifndef SLI_WIRE_FRAME_H
#define SLI_WIRE_FRAME_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "wire/limits.h"
#include "wire/role.h"

enum sli_frame_type {
	SLI_FT_HELLO = 1,
	SLI_FT_CALL = 2,
	SLI_FT_OPENED = 3,
	SLI_FT_DATA = 4,
	SLI_FT_ACK = 5,
	SLI_FT_RESULT = 6,
	SLI_FT_RESET = 7,
	SLI_FT_STOP = 8,
	SLI_FT_PING = 9,
	SLI_FT_PONG = 10,
	SLI_FT_GOAWAY = 11,
	SLI_FT_BLOCKED = 12,
	SLI_FT_GAP = 13,
	SLI_FT__N = 14,
};

#define SLI_FF_EOM 0x01u /* DATA: last piece of a message */
#define SLI_FF_END 0x02u /* CALL, DATA of a client: half-close */

struct sli_frame {
	uint32_t len;
	uint8_t type;
	uint8_t flags;
	uint16_t aux16;
	uint32_t sid;
	uint32_t aux32;
};

/* "DATA"; "?" for a number that is none. */
const char *sli_frame_name(unsigned type);

void sli_frame_put(uint8_t dst[SLI_FRAME_HDR], const struct sli_frame *f);
/* Decode without any check. */
void sli_frame_peek(const uint8_t src[SLI_FRAME_HDR], struct sli_frame *ret);
/* Decode and check by table: PROTOCOL (type, flag, direction, aux, empty
 * DATA), STREAM_ID (0 where a stream is due, or the reverse), FRAME_SIZE. */
SLI_MUST enum sli_err sli_frame_get(const uint8_t src[SLI_FRAME_HDR],
    enum sli_role from, uint32_t max_frame, struct sli_frame *ret,
    struct sli_errinfo *ei);

/* Cuts frames out of pieces of input. A frame that lies whole in one piece is
 * not copied. Holds at most one frame. */
struct sli_frame_in {
	enum sli_role from;
	uint32_t max_frame;
	uint32_t allowed; /* bit per type; others are PROTOCOL */
	int have;         /* hdr is decoded, payload is collected in part */
	struct sli_frame hdr;
	struct sli_buf part;
};

void sli_frame_in_init(
    struct sli_frame_in *in, enum sli_role from, uint32_t max_frame);
void sli_frame_in_fini(struct sli_frame_in *in);
/* Only these types from now on (bit per type), and memory for no more. Between
 * frames. */
void sli_frame_in_allow(struct sli_frame_in *in, uint32_t types);
/* The next whole frame at the front of *bytes, which is moved past it. OK, or
 * AGAIN when all of *bytes is taken and the frame goes on; else the error of
 * sli_frame_get (raised as soon as the header is there) or NOMEM. The payload
 * is valid until the next call and as long as the input is. */
SLI_MUST enum sli_err sli_frame_next(struct sli_frame_in *in,
    struct sli_slice *bytes, struct sli_frame *ret_hdr,
    struct sli_slice *ret_payload, struct sli_errinfo *ei);

#endif
