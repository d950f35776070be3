/* SPDX-License-Identifier: Apache-2.0 */
/* The directories of the server's unix sockets, made and given away while the
 * server still has its rights. Binds nothing, and never changes a directory
 * that is not clearly left by an earlier server. */
#include "base/fd.h"
#include "link/addr.h"
#include "link/sockdir.h"
#include "main/server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A server on another state directory ran as another uid of the range that
 * helpers_user.c takes from, and left its directory here. */
static enum sli_err
take_over(const char *path, const char *dir, const struct helpers *h,
    struct sli_errinfo *ei)
{
	enum sli_err e = SLI_OK;
	struct stat st;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_uid == h->uid ||
	    !helpers_free_uid(st.st_uid) || (st.st_mode & 066))
		goto out;
	e = sli_sockdir_stale(path, ei);
	if (e == SLI_OK && fchown(fd, h->uid, h->gid) != 0)
		e = sli_fail(ei, SLI_E_SYS, errno, "server",
		    "cannot give the socket directory %.100s away", dir);
out:
	sli_fd_close(&fd);
	return e;
}

static enum sli_err
make_dir(const struct sli_addr *a, const char *dir, const struct helpers *h,
    struct sli_errinfo *ei)
{
	enum sli_err e = SLI_OK;
	int made = mkdir(dir, 0700) == 0;

	if (!made && errno != EEXIST)
		return sli_fail(ei, SLI_E_SYS, errno, "server",
		    "cannot make the socket directory %.100s; choose another "
		    "place with --listen unix:///PATH",
		    dir);
	if (h->privileged && made && chown(dir, h->uid, h->gid) != 0)
		e = sli_fail(ei, SLI_E_SYS, errno, "server",
		    "cannot give the socket directory %.100s away", dir);
	else if (h->privileged && !made)
		e = take_over(a->path, dir, h, ei);
	if (e == SLI_OK)
		e = helpers_check_reach(h, dir, "--listen unix:///PATH", ei);
	if (e != SLI_OK && made)
		(void)rmdir(dir);
	return e;
}

enum sli_err
server_make_socket_dirs(
    const struct config *cfg, const struct helpers *h, struct sli_errinfo *ei)
{
	for (unsigned i = 0; i < cfg->nlisten; i++) {
		struct sli_addr a;
		char dir[sizeof(a.path)];
		enum sli_err e = sli_addr_parse(cfg->listen[i], &a, ei);
		char *slash;

		if (e != SLI_OK)
			return e;
		if (a.kind != SLI_ADDR_UNIX)
			continue;
		memcpy(dir, a.path, sizeof(dir));
		slash = strrchr(dir, '/');
		if (!slash || slash == dir)
			continue;
		*slash = '\0';
		e = make_dir(&a, dir, h, ei);
		if (e != SLI_OK)
			return e;
	}
	return SLI_OK;
}
