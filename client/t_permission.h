/* SPDX-License-Identifier: Apache-2.0 */
/* The public struct of a permission request, made from the wire's. */
#ifndef SLI_CLIENT_T_PERMISSION_H
#define SLI_CLIENT_T_PERMISSION_H

#include "client.h"

#include "sluice/v1/sessions.pb-c.h"

/* In the arena, pointing into m. NULL: no memory. */
SLI_MUST struct sluice_permission *sli_permission_convert(
    struct sli_arena *a, const Sluice__V1__Permission *m);

#endif
