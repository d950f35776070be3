/* SPDX-License-Identifier: Apache-2.0 */
/* A link on a plain non-blocking socket, for libsluice: no threads, no nng, one
 * descriptor to poll. Client side only.
 *
 * The owner polls sli_sock_fd for sli_sock_events until sli_sock_due_ms, then
 * calls sli_sock_process, again and again; all sink calls come from inside it.
 * After sink.closed the link is gone. Links survive a fork like any descriptor
 * (CLOEXEC): the child must not use them. */
#ifndef SLI_LINK_LINK_SOCK_H
#define SLI_LINK_LINK_SOCK_H

#include "link/addr.h"
#include "link/link.h"

/* Start connecting; the link is CONNECTING and sends may be started at once.
 * When it is not connected within timeout_ms the link closes with UNAVAILABLE.
 * A full backlog of a unix socket is tried again until then. NOMEM, SYS (no
 * descriptor), UNAVAILABLE (refused at once). now_ms is monotonic. */
SLI_MUST enum sli_err sli_sock_dial(const struct sli_addr *a, int64_t now_ms,
    int64_t timeout_ms, struct sli_link **ret_l, struct sli_errinfo *ei);
/* The descriptor; it stays the same while the link lives. */
int sli_sock_fd(const struct sli_link *l);
/* poll(2) bits to wait for, possibly 0. */
short sli_sock_events(const struct sli_link *l);
/* When sli_sock_process is due even if the descriptor is quiet: 0 = now,
 * INT64_MAX = never. */
int64_t sli_sock_due_ms(const struct sli_link *l);
/* Do what can be done without blocking: at most one receive and one send
 * completion. Returns 1 while the link lives, 0 when it is gone (freed; its
 * sink.closed was called). */
int sli_sock_process(struct sli_link *l, int64_t now_ms);
/* A link that nobody processes any more: closes the descriptor and frees at
 * once, without a sink call. */
void sli_sock_drop(struct sli_link *l);

#endif
