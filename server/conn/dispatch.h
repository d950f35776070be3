/* SPDX-License-Identifier: Apache-2.0 */
/* From mux events to handlers: the table of methods, roles, deadlines, and the
 * one rule that each accepted CALL ends exactly once. Private to conn/.
 * Thread: loop. */
#ifndef SLUICE_CONN_DISPATCH_H
#define SLUICE_CONN_DISPATCH_H

#include "conn/call.h"
#include "conn/conn.h"

/* NULL and *ei: NOMEM, or INVALID_ARGUMENT when a handler's id is in no .proto.
 * A method without handler answers UNIMPLEMENTED. */
SLI_MUST struct svc_calls *dispatch_new(
    struct conns *set, const struct conns_cfg *cfg, struct sli_errinfo *ei);
/* Orphans are freed; their ids stay harmless as long as nobody uses them. */
void dispatch_free(struct svc_calls *t);
/* The sink that every server mux uses; its ctx is the struct conn. `hello` is
 * conn's own. */
void dispatch_sink(struct sli_mux_sink *ret);

#endif
