/* SPDX-License-Identifier: Apache-2.0 */
/* The face of conn/ for main: all connections of a server, its listeners, and
 * how they end. Knows no engine: methods come as a table. Thread: loop.
 *
 * Life: conns_new, conns_listen for each URL, then the loop runs;
 * conns_drain (optional), conns_close, and when `done` was called conns_free,
 * sli_link_nng_fini, loop_free. Nothing may fork after conns_listen. */
#ifndef SLUICE_CONN_CONNS_H
#define SLUICE_CONN_CONNS_H

#include "base/limits.h"
#include "base/principal.h"
#include "loop/loop.h"
#include "service/svc.h"

struct conns;

/* Lets a unix uid in, besides uid 0 and the owner. */
struct conns_uid {
	uint32_t uid;
	uint64_t tenant;
	enum sli_role_level role;
};

struct conns_cfg {
	struct loop *loop;
	const struct svc_method *methods; /* ends with id 0; borrowed */
	struct svc *svc;                  /* handed to the handlers */
	const struct sli_limits *limits;  /* wire.*; copied */
	uint32_t owner_uid;               /* real uid that started the server */
	const struct conns_uid *uids;     /* copied */
	unsigned nuids;
	int insecure_loopback; /* plain TCP on loopback, role user */
	uint8_t boot_id[16];
};

SLI_MUST enum sli_err conns_new(
    const struct conns_cfg *cfg, struct conns **ret, struct sli_errinfo *ei);
/* Bind and listen. INVALID_ARGUMENT: not a URL; PERMISSION_DENIED: TCP without
 * insecure_loopback, or not loopback, or an unsafe socket directory;
 * ALREADY_EXISTS: another server is there; RESOURCE_EXHAUSTED: more than 8. */
SLI_MUST enum sli_err conns_listen(
    struct conns *cs, const char *url, struct sli_errinfo *ei);
/* The i-th address with its real port, "" past the last; dst holds
 * SLI_URL_MAX. */
const char *conns_url(const struct conns *cs, unsigned i, char *dst);

/* Stop listening; tell every client to make no new calls (GOAWAY in two
 * phases); a connection closes when its last call has ended, the rest after
 * grace_ms. */
void conns_drain(struct conns *cs, uint32_t grace_ms);
/* Stop listening and close every connection now; done is called once, from the
 * loop, when nothing is left. Callbacks `gone` of streams come before it. */
void conns_close(struct conns *cs, void (*done)(void *ctx), void *ctx);
/* After done; before it (a start that failed) it closes everything itself and
 * turns the loop until it is. Calls that handlers still owe an end to become
 * stale. */
void conns_free(struct conns *cs);

/* Connections, those in handshake included. */
unsigned conns_count(const struct conns *cs);

#endif
