/* SPDX-License-Identifier: Apache-2.0 */
/* The hash chain of a session: proof of order and integrity of its events
 * against anyone who cannot write the database. It depends on the events
 * alone, never on how they were batched, cut into parts or sealed.
 *
 *   link(0) = 32 zero bytes
 *   link(n) = H(link(n-1) | le64 seq | u8 kind | u8 flags | le64 turn |
 *               le64 superseded | le64 at_ms | le64 length | H(body))
 * with H = BLAKE2b-256. Pure; any thread. */
#ifndef SLUICE_STORE_CHAIN_H
#define SLUICE_STORE_CHAIN_H

#include "base/event.h"
#include "crypto/hash.h"

/* Moves `chain` from link(seq - 1) to link(seq). */
void store_chain_step(uint8_t chain[SLI_HASH_BYTES], uint64_t seq,
    const struct sli_event *ev, const uint8_t body_hash[SLI_HASH_BYTES]);

#endif
