/* SPDX-License-Identifier: Apache-2.0 */
/* One address we listen on: accepts, holds the caps, backs off when accept
 * fails. Private to conn/. Thread: loop. */
#ifndef SLUICE_CONN_LISTENER_H
#define SLUICE_CONN_LISTENER_H

#include "conn/conn.h"

#include "link/link_nng.h"

/* Counted in set->nlive until it has ended. Errors as conns_listen. */
SLI_MUST enum sli_err listener_new(struct conns *set,
    const struct sli_addr *addr, struct listener **ret, struct sli_errinfo *ei);
const struct sli_addr *listener_addr(const struct listener *l);
/* Stop; the memory goes later, by itself. */
void listener_close(struct listener *l);

#endif
