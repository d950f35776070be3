/* SPDX-License-Identifier: Apache-2.0 */
/* Listening and accepted links on nng's byte streams, for the server. nng runs
 * threads of its own; they only post into the mailbox that the owner's loop
 * drains, so everything here and every sink call is in the owner's thread.
 * Nothing may fork after the first call (DESIGN 2.5). */
#ifndef SLI_LINK_LINK_NNG_H
#define SLI_LINK_LINK_NNG_H

#include "link/addr.h"
#include "link/link.h"

#include "base/mailbox.h"

struct sli_listener;

struct sli_listener_sink {
	/* A peer connected; the link is the callee's and has no sink yet. The
	 * accept is disarmed: call sli_listener_accept again to take more. */
	void (*accepted)(void *ctx, struct sli_link *l);
	/* Accept failed (descriptors, memory) and is disarmed. Wait before
	 * calling sli_listener_accept again: it would fail again at once. */
	void (*failed)(void *ctx, const struct sli_errinfo *ei);
	/* After sli_listener_close; last call, the memory goes after it. */
	void (*closed)(void *ctx);
};

/* Bind and listen. Unix sockets: only in a directory that is ours alone (see
 * sli_sockdir_claim), mode 0600, or 0666 when the address is shared; a stale
 * socket file is replaced, a live one or a file of another kind is not. TCP:
 * port 0 takes any free one. Errors: those of sli_sockdir_claim;
 * ALREADY_EXISTS; NOMEM; SYS. */
SLI_MUST enum sli_err sli_listener_new(const struct sli_addr *addr,
    struct sli_mailbox *mb, const struct sli_listener_sink *sink, void *ctx,
    struct sli_listener **ret_l, struct sli_errinfo *ei);
/* The address with the real port. */
const struct sli_addr *sli_listener_addr(const struct sli_listener *l);
/* Arm one accept. Nothing when armed already, or closed. */
void sli_listener_accept(struct sli_listener *l);
/* Stop listening and remove the socket file; sink.closed follows through the
 * mailbox. Calling twice is allowed. */
void sli_listener_close(struct sli_listener *l);

/* Wait for nng's threads and end them. Call it after every link and listener
 * has said `closed`, before the mailbox is freed; nothing of this file may be
 * used after it but a new sli_listener_new. */
void sli_link_nng_fini(void);

#endif
