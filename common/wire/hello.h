/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO: what each end promises as a receiver, and the checks on what the other
 * promised. Absent (zero) numbers take the protocol's defaults. */
#ifndef SLI_WIRE_HELLO_H
#define SLI_WIRE_HELLO_H

#include "base/buf.h"
#include "base/mem.h"
#include "wire/mux.h"

/* Fill zero fields with defaults and bound the rest. */
void sli_hello_defaults(struct sli_mux_cfg *cfg);
/* Append the packed Hello for cfg. */
SLI_MUST enum sli_err sli_hello_put(
    const struct sli_mux_cfg *cfg, struct sli_buf *out);
/* Decode and check. VERSION, PROTOCOL (a number out of bounds), MALFORMED. */
SLI_MUST enum sli_err sli_hello_get(struct sli_slice bytes,
    struct sli_arena *arena, struct sli_peer_hello *ret,
    struct sli_errinfo *ei);

#endif
