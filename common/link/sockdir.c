/* SPDX-License-Identifier: Apache-2.0 */
/* Safe directories for unix sockets; see sockdir.h. */
#include "link/sockdir.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PATH_CAP sizeof(((struct sockaddr_un *)NULL)->sun_path)

/* `open`: bits of the mode that others may have. */
static enum sli_err
check(const char *dir, mode_t open, mode_t *ret_mode, struct sli_errinfo *ei)
{
	struct stat st;

	if (lstat(dir, &st) != 0)
		return sli_fail(ei,
		    errno == ENOENT ? SLI_E_NOT_FOUND : SLI_E_SYS, errno,
		    "sockdir.check", "%s", dir);
	if (!S_ISDIR(st.st_mode))
		return sli_fail(ei, SLI_E_PERMISSION_DENIED, 0, "sockdir.check",
		    "%s is not a directory (links do not count)", dir);
	if (st.st_uid != geteuid())
		return sli_fail(ei, SLI_E_PERMISSION_DENIED, 0, "sockdir.check",
		    "%s belongs to uid %u; choose another directory", dir,
		    (unsigned)st.st_uid);
	if (st.st_mode & 077 & ~open)
		return sli_fail(ei, SLI_E_PERMISSION_DENIED, 0, "sockdir.check",
		    "%s has mode %03o, others could get in; chmod %03o it", dir,
		    (unsigned)(st.st_mode & 0777), (unsigned)(0700 | open));
	*ret_mode = st.st_mode & 0777;
	return SLI_OK;
}

enum sli_err
sli_sockdir_check(const char *dir, struct sli_errinfo *ei)
{
	mode_t mode = 0;

	return check(dir, 0, &mode, ei);
}

static enum sli_err
make(const char *dir, int shared, struct sli_errinfo *ei)
{
	mode_t open = shared ? 0011 : 0, mode = 0;
	enum sli_err rc;

	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return sli_fail(ei, SLI_E_SYS, errno, "sockdir.check",
		    "cannot make %s", dir);
	if (check(dir, 0011, &mode, NULL) != SLI_OK) {
		rc = check(dir, open, &mode, ei);
		if (rc != SLI_OK)
			return rc;
	}
	/* It is ours. Whoever set `shared` wants others to get through; whoever
	 * does not set it any more wants them not to. */
	if ((mode & 0011) != open && chmod(dir, (mode & ~0011u) | open) != 0)
		return sli_fail(ei, SLI_E_SYS, errno, "sockdir.check",
		    "cannot open %s for the uids that are let in, or close it",
		    dir);
	return SLI_OK;
}

/* Does a server answer at path? 1 yes, 0 no, -1 errno. A full backlog (EAGAIN)
 * is a server too. */
static int
answers(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd, rv, err;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	sli_strlcpy(sa.sun_path, path, sizeof(sa.sun_path));
	rv = connect(fd, (struct sockaddr *)(void *)&sa, sizeof(sa));
	err = errno;
	sli_fd_close(&fd);
	errno = err;
	if (rv == 0 || err == EAGAIN || err == EINPROGRESS)
		return 1;
	return err == ECONNREFUSED ? 0 : -1;
}

enum sli_err
sli_sockdir_stale(const char *path, struct sli_errinfo *ei)
{
	struct stat st;

	if (lstat(path, &st) != 0) {
		if (errno == ENOENT)
			return SLI_OK;
		return sli_fail(
		    ei, SLI_E_SYS, errno, "sockdir.claim", "%s", path);
	}
	if (!S_ISSOCK(st.st_mode))
		return sli_fail(ei, SLI_E_FAILED_PRECONDITION, 0,
		    "sockdir.claim",
		    "%s is there and is no socket; nothing was deleted", path);
	switch (answers(path)) {
	case 1:
		return sli_fail(ei, SLI_E_ALREADY_EXISTS, 0, "sockdir.claim",
		    "a server is running at %s", path);
	case 0:
		break;
	default:
		return sli_fail(ei, SLI_E_SYS, errno, "sockdir.claim",
		    "cannot tell whether a server runs at %s", path);
	}
	if (unlink(path) != 0)
		return sli_fail(ei, SLI_E_SYS, errno, "sockdir.claim",
		    "cannot remove the stale socket %s", path);
	return SLI_OK;
}

enum sli_err
sli_sockdir_claim(const char *path, int shared, struct sli_errinfo *ei)
{
	char dir[PATH_CAP];
	enum sli_err rc;
	char *slash;

	if (path[0] != '/' || strlen(path) >= sizeof(dir))
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "sockdir.claim",
		    "%.100s is no absolute path of at most 107 bytes", path);
	sli_strlcpy(dir, path, sizeof(dir));
	slash = strrchr(dir, '/');
	*slash = '\0';
	rc = make(slash == dir ? "/" : dir, shared, ei);
	return rc == SLI_OK ? sli_sockdir_stale(path, ei) : rc;
}
