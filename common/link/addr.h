/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text: what server and client accept as a URL, and where they
 * meet when none is given. Looks nothing up: TCP addresses are numeric (or
 * "localhost"), so that nothing blocks. Opens no socket. */
#ifndef SLI_LINK_ADDR_H
#define SLI_LINK_ADDR_H

#include "base/err.h"

#include <stddef.h>

#define SLI_PORT_DEFAULT 7584
/* Longest URL with its NUL; a unix path has at most 107 bytes. */
#define SLI_URL_MAX 192

enum sli_addr_kind {
	SLI_ADDR_UNIX,
	SLI_ADDR_TCP
};

struct sli_addr {
	enum sli_addr_kind kind;
	char path[108]; /* UNIX */
	char host[64];  /* TCP: numeric v4 or v6, without brackets */
	uint16_t port;  /* TCP; 0 only when the URL says so */
	int loopback;   /* TCP: the host is a loopback address */
	int shared;     /* UNIX, for listening: other uids may connect, and the
			   owner judges them; set by hand, in no URL */
};

/* "unix:///PATH" (or ipc:///PATH), "tcp://HOST[:PORT]" with a v6 host in
 * brackets. INVALID_ARGUMENT says what is wrong. */
SLI_MUST enum sli_err sli_addr_parse(
    const char *url, struct sli_addr *ret, struct sli_errinfo *ei);
/* The URL of a; returns dst, which holds SLI_URL_MAX. */
const char *sli_addr_format(const struct sli_addr *a, char *dst, size_t cap);
/* The socket where sluiced listens and sluice calls when nothing is said:
 * $XDG_RUNTIME_DIR/sluice/sluiced.sock; without that variable, and for uid 0
 * when that directory is closed to others (as /run/user/0 is), /run/sluice for
 * uid 0, /run/user/UID/sluice if there is a /run/user/UID of ours, else
 * /tmp/sluice-UID. Fills url[SLI_URL_MAX]. CONFIG when the variable is not
 * usable; PERMISSION_DENIED when somebody else made our place in /tmp. */
SLI_MUST enum sli_err sli_addr_default(char *url, struct sli_errinfo *ei);

#endif
