/* SPDX-License-Identifier: Apache-2.0 */
/* Peer credentials to principals; see auth.h. */
#include "conn/auth.h"

#include "base/str.h"

#include <string.h>

#define HOME_TENANT 1
#define NO_UID      ((uint32_t)-1)

enum sli_err
auth_init(struct auth *a, const struct conns_cfg *cfg, struct sli_errinfo *ei)
{
	*a = (struct auth){
	    .owner_uid = cfg->owner_uid,
	    .insecure_loopback = cfg->insecure_loopback,
	};
	if (cfg->nuids > AUTH_UIDS_MAX)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "auth.init",
		    "more than %d uids", AUTH_UIDS_MAX);
	for (unsigned i = 0; i < cfg->nuids; i++) {
		const struct conns_uid *u = &cfg->uids[i];

		if (u->tenant == 0 || u->role == SLI_ROLE_NONE ||
		    u->uid == NO_UID)
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "auth.init", "uid %u has no tenant or no role",
			    u->uid);
		a->uids[a->nuids++] = *u;
	}
	return SLI_OK;
}

static void
admit(struct sli_principal *who, uint32_t uid, uint64_t tenant,
    enum sli_role_level role)
{
	*who =
	    (struct sli_principal){.tenant = tenant, .role = role, .uid = uid};
	if (uid == NO_UID)
		sli_strlcpy(who->name, "loopback", sizeof(who->name));
	else
		sli_snprintf(who->name, sizeof(who->name), "uid:%u", uid);
}

enum sli_err
auth_peer(const struct auth *a, const struct sli_link_peer *peer,
    struct sli_principal *ret_who)
{
	/* Not a unix socket: such a link exists only when the operator has
	 * allowed plain TCP, and its listener is on loopback. */
	if (peer->uid == NO_UID) {
		if (!a->insecure_loopback)
			return SLI_E_UNAUTHENTICATED;
		admit(ret_who, NO_UID, HOME_TENANT, SLI_ROLE_USER);
		return SLI_OK;
	}
	/* Before the table: nobody locks the owner out by a line of it. */
	if (peer->uid == 0 || peer->uid == a->owner_uid) {
		admit(ret_who, peer->uid, HOME_TENANT, SLI_ROLE_ADMIN);
		return SLI_OK;
	}
	for (unsigned i = 0; i < a->nuids; i++) {
		if (a->uids[i].uid != peer->uid)
			continue;
		admit(ret_who, peer->uid, a->uids[i].tenant, a->uids[i].role);
		return SLI_OK;
	}
	return SLI_E_UNAUTHENTICATED;
}
