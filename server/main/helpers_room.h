/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind helpers.h share. */
#ifndef SLUICE_MAIN_HELPERS_ROOM_H
#define SLUICE_MAIN_HELPERS_ROOM_H

#include "main/helpers.h"

/* helpers_user.c: sets uid, gid, privileged, state_dir. */
SLI_MUST enum sli_err helpers_prepare(
    const struct helpers_conf *conf, struct helpers *h, struct sli_errinfo *ei);
/* helpers_drop.c: the filter of the server's own system calls. -1 + errno. */
int helpers_filter(void);

#endif
