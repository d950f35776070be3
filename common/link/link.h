/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the protocol and the network: a duplex of bytes behind
 * five calls. Two backends: nng streams (link_nng.h, the server) and a plain
 * non-blocking socket (link_sock.h, libsluice); a third, in memory, for tests
 * (link_mem.h). No backend parses.
 *
 * A link has at most one receive armed and one send outstanding. Every call
 * and every sink call happens in the owner's thread; no sink call happens from
 * inside one of these functions. On a closing link recv, send and idle do
 * nothing; sink.closed follows. States: docs/STATES.md, Link. */
#ifndef SLI_LINK_LINK_H
#define SLI_LINK_LINK_H

#include "base/err.h"
#include "base/slice.h"

struct sli_link;

enum sli_link_state {
	SLI_LINK_CONNECTING, /* no byte has moved; a send may be outstanding */
	SLI_LINK_OPEN,
	SLI_LINK_CLOSING, /* nothing new starts; what runs is awaited */
	SLI_LINK_CLOSED,  /* sink.closed was called; memory goes next */
	SLI_LINK__N
};

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
	/* The link is dead; last call, and the link's memory goes after it.
	 * iov memory is the caller's again. ei->code is OK for an orderly end
	 * (the peer's end of file, or our own sli_link_close). */
	void (*closed)(void *ctx, const struct sli_errinfo *ei);
};

struct sli_iov {
	const void *p;
	size_t n;
};

#define SLI_LINK_IOV_MAX 8

/* Arm one receive; at most recv_max bytes come in one go. The buffer behind
 * it is 1 KiB on a quiet link and grows up to recv_max while bytes flow. */
void sli_link_recv(struct sli_link *l);
/* Start sending all of iov (n <= 8, not empty); memory must stay until
 * sink.sent. Not while a send is outstanding. */
void sli_link_send(struct sli_link *l, const struct sli_iov *iov, unsigned n);
int sli_link_sending(const struct sli_link *l);
/* Bytes of sends written so far, parts of an outstanding send included: it
 * moves while the peer reads. */
uint64_t sli_link_written(const struct sli_link *l);
const struct sli_link_peer *sli_link_peer(const struct sli_link *l);
enum sli_link_state sli_link_state(const struct sli_link *l);
/* Nothing has come for a while: give the big receive buffer back. */
void sli_link_idle(struct sli_link *l);
/* Most bytes of one receive from the next one on; default and most 256 KiB,
 * least 1 KiB. Small values bound what an unknown peer can make us hold. */
void sli_link_recv_max(struct sli_link *l, size_t max);
/* Close; sink.closed follows later (never from inside this call); then the
 * backend frees the link. Calling twice is allowed. */
void sli_link_close(struct sli_link *l);
/* Set or replace the sink of a link (before the first sli_link_recv). */
void sli_link_set_sink(
    struct sli_link *l, const struct sli_link_sink *sink, void *ctx);

#define SLI_LINK_RECV_MIN 1024u
#define SLI_LINK_RECV_MAX 262144u

/* --- for backends only --- */

struct sli_link_ops {
	void (*recv)(struct sli_link *l);
	void (*send)(struct sli_link *l, const struct sli_iov *iov, unsigned n);
	void (*idle)(struct sli_link *l); /* may be NULL */
	/* State is CLOSING already; called once. */
	void (*close)(struct sli_link *l);
};

/* Embedded first in the backend's own struct. */
struct sli_link {
	const struct sli_link_ops *ops;
	const struct sli_link_sink *sink;
	void *ctx;
	struct sli_link_peer peer;
	enum sli_link_state state;
	int receiving; /* armed, bytes not delivered yet */
	int sending;
	size_t recv_max;
	uint64_t written;
};

void sli_link_init(struct sli_link *l, const struct sli_link_ops *ops,
    enum sli_link_state state);
/* The one setter of l->state: asserts that the move is legal, logs it. */
void sli_link_move(struct sli_link *l, enum sli_link_state to);
const char *sli_link_state_name(enum sli_link_state s);
/* Deliver to the sink: recv and sent disarm first. Not on a closing link. */
void sli_link_got(struct sli_link *l, struct sli_slice bytes);
void sli_link_done(struct sli_link *l);
/* Move to CLOSED and call sink.closed; then free the backend's struct. */
void sli_link_ended(struct sli_link *l, const struct sli_errinfo *ei);

#endif
