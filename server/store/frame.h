/* SPDX-License-Identifier: Apache-2.0 */
/* One event as bytes. A frame is
 *   u8 kind, u8 bits, varint length, varint turn, varint at_ms,
 *   [varint superseded], [varint parts], body (unless in parts)
 * with little-endian base-128 varints. The seq is not in it: it follows from
 * the place in the run. The same bytes are made once in the loop thread,
 * stored in the run row and kept in the tail. No I/O, no state. */
#ifndef SLUICE_STORE_FRAME_H
#define SLUICE_STORE_FRAME_H

#include "base/event.h"

/* Longest header: 2 bytes and five varints. */
#define STORE_FRAME_HEAD_MAX (2u + 5u * 10u)
/* Bits below are event flags. */
#define STORE_FRAME_FLAGS      0x3fu
#define STORE_FRAME_SUPERSEDED 0x40u
#define STORE_FRAME_PARTS      0x80u

/* May ev be stored as a frame at all? */
int store_frame_ok(const struct sli_event *ev);
/* Bytes needed, at most; exact when called with the same ev. */
size_t store_frame_size(const struct sli_event *ev);
/* Writes store_frame_size() bytes; returns the end. */
uint8_t *store_frame_put(uint8_t *dst, const struct sli_event *ev);
/* Fills ev (seq = 0, body borrowed from p). Returns the frame's length, 0
 * when the bytes are not a frame. */
size_t store_frame_get(const uint8_t *p, size_t n, struct sli_event *ev);

#endif
