/* SPDX-License-Identifier: Apache-2.0 */
/* Which end of a connection: decides who may send what. */
#ifndef SLI_WIRE_ROLE_H
#define SLI_WIRE_ROLE_H

enum sli_role {
	SLI_CLIENT,
	SLI_SERVER
};

static inline enum sli_role
sli_role_other(enum sli_role r)
{
	return r == SLI_CLIENT ? SLI_SERVER : SLI_CLIENT;
}

#endif
