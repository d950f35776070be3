/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the protocol and the network: a duplex of bytes behind
 * five calls. Two backends: nng streams (server) and a plain non-blocking
 * socket (libsluice); a third, in memory, for tests. No backend parses.
 *
 * A link has at most one receive armed and one send outstanding. Every call
 * and every sink call happens in the owner's thread. */
#ifndef SLI_LINK_LINK_H
#define SLI_LINK_LINK_H

#include "base/err.h"
#include "base/slice.h"

struct sli_link;

/* Peer credentials of a unix socket; uid is (uint32_t)-1 on other links. */
struct sli_link_peer {
	uint32_t uid;
	uint32_t gid;
	char addr[80]; /* printable peer address, for logs */
};

struct sli_link_sink {
	/* Bytes arrived; valid during the call only. The receive is disarmed:
	 * call sli_link_recv() again when the bytes have been taken. */
	void (*recv)(void *ctx, struct sli_slice bytes);
	/* The whole last send was written; iov memory is the caller's again. */
	void (*sent)(void *ctx);
	/* The link is dead; last call. ei->code is OK for an orderly end. */
	void (*closed)(void *ctx, const struct sli_errinfo *ei);
};

struct sli_iov {
	const void *p;
	size_t n;
};

/* Arm one receive; at most `cap` bytes come in one go (default 256 KiB). */
void sli_link_recv(struct sli_link *l);
/* Start sending all of iov (n <= 8); memory must stay until sink.sent. Not
 * while a send is outstanding. */
void sli_link_send(struct sli_link *l, const struct sli_iov *iov, unsigned n);
int sli_link_sending(const struct sli_link *l);
const struct sli_link_peer *sli_link_peer(const struct sli_link *l);
/* Close; sink.closed follows later (never from inside this call); then the
 * backend frees the link. Calling twice is allowed. */
void sli_link_close(struct sli_link *l);
/* Set or replace the sink of a link (before the first sli_link_recv). */
void sli_link_set_sink(
    struct sli_link *l, const struct sli_link_sink *sink, void *ctx);

/* Backends fill this and embed struct sli_link first. */
struct sli_link_ops {
	void (*recv)(struct sli_link *l);
	void (*send)(
	    struct sli_link *l, const struct sli_iov *iov, unsigned n);
	void (*close)(struct sli_link *l);
};

struct sli_link {
	const struct sli_link_ops *ops;
	const struct sli_link_sink *sink;
	void *ctx;
	struct sli_link_peer peer;
	int sending;
	int closing;
};

#endif
