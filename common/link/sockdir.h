/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for the directory of a unix socket, and for the place of the socket
 * itself. nng would delete whatever file stands there and let everybody connect
 * to the socket; both are settled here, before it is asked. Short blocking
 * calls on local directories; binds nothing. */
#ifndef SLI_LINK_SOCKDIR_H
#define SLI_LINK_SOCKDIR_H

#include "base/err.h"

/* `dir` is a real directory (no symbolic link), owned by the effective uid,
 * and nobody else may enter it (mode & 077 == 0).
 * NOT_FOUND, PERMISSION_DENIED, SYS. */
SLI_MUST enum sli_err sli_sockdir_check(
    const char *dir, struct sli_errinfo *ei);
/* Get ready to bind `path`: its directory is made (its last part only, mode
 * 0700) or checked as above; a stale socket is removed. ALREADY_EXISTS: a
 * server answers there. FAILED_PRECONDITION: something that is no socket stands
 * there. `shared`: other uids are to reach the socket; a directory of mode 0700
 * becomes 0711, and one that only lets others through (mode & 066 == 0) is good
 * enough. Not `shared`: such a directory is closed again. */
SLI_MUST enum sli_err sli_sockdir_claim(
    const char *path, int shared, struct sli_errinfo *ei);
/* The second half of it: no server answers at `path`; a stale socket is
 * removed. Whose the directory is, is the caller's business. */
SLI_MUST enum sli_err sli_sockdir_stale(
    const char *path, struct sli_errinfo *ei);

#endif
