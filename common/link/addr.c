/* SPDX-License-Identifier: Apache-2.0 */
/* URLs in, addresses out; and the default place of the unix socket. */
#include "link/addr.h"
#include "link/sockdir.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOCK_NAME "sluiced.sock"

static enum sli_err
bad(struct sli_errinfo *ei, const char *url, const char *why)
{
	char q[96];

	return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "addr.parse",
	    "address \"%s\": %s; use unix:///PATH or tcp://HOST:PORT",
	    sli_quote(q, sizeof(q), sli_slice_str(url)), why);
}

static enum sli_err
parse_unix(const char *url, const char *rest, struct sli_addr *a,
    struct sli_errinfo *ei)
{
	if (rest[0] != '/')
		return bad(ei, url, "the path is not absolute");
	if (strlen(rest) >= sizeof(a->path))
		return bad(ei, url, "the path is longer than 107 bytes");
	a->kind = SLI_ADDR_UNIX;
	(void)sli_strlcpy(a->path, rest, sizeof(a->path));
	return SLI_OK;
}

static int
is_loopback(const char *host, int *ret_valid)
{
	struct in6_addr v6;
	struct in_addr v4;

	*ret_valid = 1;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	if (inet_pton(AF_INET6, host, &v6) == 1)
		return memcmp(&v6, &in6addr_loopback, sizeof(v6)) == 0;
	*ret_valid = 0;
	return 0;
}

static enum sli_err
parse_tcp(const char *url, const char *rest, struct sli_addr *a,
    struct sli_errinfo *ei)
{
	const char *end, *port = NULL;
	uint64_t n = SLI_PORT_DEFAULT;
	size_t len;
	int valid;

	if (rest[0] == '[') {
		rest++;
		end = strchr(rest, ']');
		if (!end)
			return bad(ei, url, "no ] after the v6 address");
		if (end[1] == ':')
			port = end + 2;
		else if (end[1] != '\0')
			return bad(ei, url, "text after the ]");
	} else {
		end = strchrnul(rest, ':');
		if (*end == ':')
			port = end + 1;
	}
	len = (size_t)(end - rest);
	if (len == 0 || len >= sizeof(a->host))
		return bad(ei, url, "no host, or a host that is too long");
	memcpy(a->host, rest, len);
	a->host[len] = '\0';
	if (strcmp(a->host, "localhost") == 0)
		(void)sli_strlcpy(a->host, "127.0.0.1", sizeof(a->host));
	a->loopback = is_loopback(a->host, &valid);
	if (!valid)
		return bad(ei, url, "the host is not a numeric address");
	if (port && (sli_parse_u64(port, &n) != SLI_OK || n > 65535))
		return bad(ei, url, "the port is not a number up to 65535");
	a->kind = SLI_ADDR_TCP;
	a->port = (uint16_t)n;
	return SLI_OK;
}

enum sli_err
sli_addr_parse(const char *url, struct sli_addr *ret, struct sli_errinfo *ei)
{
	struct sli_addr a = {0};
	enum sli_err e;

	if (strncmp(url, "unix://", 7) == 0)
		e = parse_unix(url, url + 7, &a, ei);
	else if (strncmp(url, "ipc://", 6) == 0)
		e = parse_unix(url, url + 6, &a, ei);
	else if (strncmp(url, "tcp://", 6) == 0)
		e = parse_tcp(url, url + 6, &a, ei);
	else
		e = bad(ei, url, "not an address of a known kind");
	if (e == SLI_OK)
		*ret = a;
	return e;
}

static int
own_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid();
}

static enum sli_err
fits(char *url, const char *dir, struct sli_errinfo *ei)
{
	char tmp[512];
	size_t n;

	if (dir[0] != '/')
		return sli_fail(ei, SLI_E_CONFIG, 0, "addr.default",
		    "the runtime directory is not an absolute path: set "
		    "XDG_RUNTIME_DIR right, or name the address");
	n = sli_snprintf(
	    tmp, sizeof(tmp), "unix://%s/sluice/%s", dir, SOCK_NAME);
	if (n - 7 >= sizeof(((struct sli_addr *)NULL)->path))
		return sli_fail(ei, SLI_E_CONFIG, 0, "addr.default",
		    "the runtime directory's path is too long for a socket: "
		    "set XDG_RUNTIME_DIR, or name the address");
	(void)sli_strlcpy(url, tmp, SLI_URL_MAX);
	return SLI_OK;
}

/* Does some directory of this path let only its owner pass? The server that
 * root starts is another user when it binds, so it could not get there; and the
 * command of root must look where that server is. */
static int
closed_to_others(const char *path)
{
	char b[512];
	struct stat st;

	if (path[0] != '/' || sli_strlcpy(b, path, sizeof(b)) >= sizeof(b))
		return 0;
	for (char *s = b;; *s = '/') {
		s = strchrnul(s + 1, '/');
		if (*s == '\0')
			return stat(b, &st) == 0 && !(st.st_mode & S_IXOTH);
		*s = '\0';
		if (stat(b, &st) == 0 && !(st.st_mode & S_IXOTH))
			return 1;
	}
}

enum sli_err
sli_addr_default(char *url, struct sli_errinfo *ei)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char run[32];
	enum sli_err e;

	if (dir && geteuid() == 0 && closed_to_others(dir))
		dir = NULL;
	if (dir && dir[0] != '\0')
		return fits(url, dir, ei);
	if (geteuid() == 0)
		return fits(url, "/run", ei);
	(void)sli_snprintf(
	    run, sizeof(run), "/run/user/%u", (unsigned)geteuid());
	if (own_directory(run))
		return fits(url, run, ei);
	/* Anybody can make a name in /tmp, and wait there for our secrets. */
	(void)sli_snprintf(
	    run, sizeof(run), "/tmp/sluice-%u", (unsigned)geteuid());
	e = sli_sockdir_check(run, ei);
	if (e != SLI_OK && e != SLI_E_NOT_FOUND)
		return e;
	(void)sli_snprintf(url, SLI_URL_MAX, "unix://%s/%s", run, SOCK_NAME);
	return SLI_OK;
}

const char *
sli_addr_format(const struct sli_addr *a, char *dst, size_t cap)
{
	if (a->kind == SLI_ADDR_UNIX)
		(void)sli_snprintf(dst, cap, "unix://%s", a->path);
	else if (strchr(a->host, ':'))
		(void)sli_snprintf(dst, cap, "tcp://[%s]:%u", a->host, a->port);
	else
		(void)sli_snprintf(dst, cap, "tcp://%s:%u", a->host, a->port);
	return dst;
}
