/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks. Set by the connection from what it authenticated, never from a
 * message field. Every look-up of an object takes one; an object of another
 * tenant answers as an object that never existed (DESIGN P7). */
#ifndef SLI_BASE_PRINCIPAL_H
#define SLI_BASE_PRINCIPAL_H

#include <stdint.h>

enum sli_role_level {
	SLI_ROLE_NONE,
	SLI_ROLE_VIEWER,
	SLI_ROLE_USER,
	SLI_ROLE_OPERATOR,
	SLI_ROLE_ADMIN,
};

struct sli_principal {
	uint64_t tenant; /* tenant number; 0 = nobody */
	enum sli_role_level role;
	uint32_t uid;  /* peer uid on unix sockets, else (uint32_t)-1 */
	char name[64]; /* for logs and audit: "uid:1000", "loopback" */
};

/* May `p` see an object of `tenant`? Admins see their own tenant only, as
 * everybody does. */
static inline int
sli_principal_sees(const struct sli_principal *p, uint64_t tenant)
{
	return p->tenant != 0 && p->tenant == tenant;
}

#endif
