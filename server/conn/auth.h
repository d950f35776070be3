/* SPDX-License-Identifier: Apache-2.0 */
/* Who is the peer of a link: unix uid -> principal, by a table. What the peer
 * says plays no part. Tells nobody why it refuses. */
#ifndef SLUICE_CONN_AUTH_H
#define SLUICE_CONN_AUTH_H

#include "conn/conns.h"

#include "base/principal.h"
#include "link/link.h"

#define AUTH_UIDS_MAX 64

struct auth {
	uint32_t owner_uid;
	int insecure_loopback;
	struct conns_uid uids[AUTH_UIDS_MAX];
	unsigned nuids;
};

/* Copies. INVALID_ARGUMENT: more than AUTH_UIDS_MAX, tenant 0, or no role. */
SLI_MUST enum sli_err auth_init(
    struct auth *a, const struct conns_cfg *cfg, struct sli_errinfo *ei);
/* UNAUTHENTICATED, and *ret_who untouched, for whoever is in no table. */
SLI_MUST enum sli_err auth_peer(const struct auth *a,
    const struct sli_link_peer *peer, struct sli_principal *ret_who);

#endif
