/* SPDX-License-Identifier: Apache-2.0 */
/* The running server: owns every part, starts them in order, drains on the
 * first SIGTERM or SIGINT and stops at once on the second. */
#ifndef SLUICED_SERVER_H
#define SLUICED_SERVER_H

#include "main/config.h"
#include "main/helpers.h"

/* Runs until it is told to stop. Returns the exit status: 0 after a clean
 * stop, 1 when it could not start or go on (said on stderr). Helpers run and
 * rights have been given up by now. */
int server_run(const struct config *cfg, const struct helpers *h);
/* Before rights are given up: make the directory of each unix socket that is
 * not there yet, for the uid that the server becomes. */
SLI_MUST enum sli_err server_make_socket_dirs(
    const struct config *cfg, const struct helpers *h, struct sli_errinfo *ei);

#endif
