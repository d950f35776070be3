/* SPDX-License-Identifier: Apache-2.0 */
/* The only way an answer leaves: the functions of service/svc.h, and the
 * refusals of conn/ itself. Private to conn/. Thread: loop. */
#ifndef SLUICE_CONN_OUTBOX_H
#define SLUICE_CONN_OUTBOX_H

#include "conn/conn.h"

/* End the stream's call at once with the error: what was not sent is not sent
 * any more. For calls that no handler may answer (any more). */
void outbox_abort(
    struct conn *conn, uint32_t sid, const struct sli_errinfo *ei);

#endif
