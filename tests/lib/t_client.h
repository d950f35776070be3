/* SPDX-License-Identifier: Apache-2.0 */
/* A small client for tests of the server's end: the client's mux on a plain
 * socket link, everything that comes is recorded. Not libsluice: it does
 * nothing by itself, not even releasing what it got, unless told so. */
#ifndef SLUICE_TESTS_T_CLIENT_H
#define SLUICE_TESTS_T_CLIENT_H

#include "base/buf.h"
#include "base/list.h"
#include "link/link_sock.h"
#include "wire/mux.h"
#include "wire/preamble.h"

#include <protobuf-c/protobuf-c.h>

struct t_stream {
	struct sli_list node;
	uint32_t sid;
	int opened;
	struct sli_buf data; /* message bytes, one after the other */
	unsigned nmsg;
	size_t last_len;
	uint64_t unreleased;
	int done; /* RESULT came */
	uint16_t status;
	struct sli_buf trailers;
	struct sli_buf body;
	int reset;
	int stopped;
	int gone;
	uint64_t acked;
	/* What pull gives: `nsend` messages of `send_len` bytes of 'u'. */
	unsigned nsend;
	size_t send_len;
	int end_after;
};

struct t_client {
	struct sli_link *link;
	struct sli_mux *mux;
	uint8_t pre[SLI_PREAMBLE_LEN];
	unsigned npre;
	struct sli_preamble sent;
	enum sli_err preamble_err;
	struct sli_buf out;
	struct sli_list streams;
	int hello;
	struct sli_peer_hello peer;
	int closed;
	enum sli_err why;
	int deaf;  /* does not receive */
	int hoard; /* does not release */
	unsigned goaways;
	uint32_t last_stream;
	uint16_t goaway_code;
	uint32_t keepalive_s;
};

/* Starts to dial; the preamble and HELLO go out with the first steps. */
void t_client_dial(struct t_client *cl, const struct sli_addr *a);
/* One non-blocking round; 0 when the link is gone. */
int t_client_step(struct t_client *cl);
void t_client_free(struct t_client *cl);
/* A call with a packed request; NULL req = no request bytes. Fails the test
 * when the mux refuses it. */
struct t_stream *t_client_call(struct t_client *cl, uint32_t method,
    const ProtobufCMessage *req, int end, uint32_t timeout_ms);
/* Send n more messages on the stream. */
void t_client_send(struct t_client *cl, struct t_stream *s, unsigned n,
    size_t len, int end_after);
/* Release what a hoarding client holds of s. */
void t_client_release(struct t_client *cl, struct t_stream *s);

#endif
