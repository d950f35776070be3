/* SPDX-License-Identifier: Apache-2.0 */
/* One server per state directory. The lock is the kernel's and dies with the
 * process, so a stale file never blocks anybody; the number in it is only for
 * the message. */
#include "store/int.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static void
who(int fd, char *dst, size_t cap)
{
	ssize_t n = pread(fd, dst, cap - 1, 0);

	dst[n > 0 ? n : 0] = '\0';
	dst[strcspn(dst, "\n")] = '\0';
	if (strspn(dst, "0123456789") != strlen(dst) || dst[0] == '\0')
		(void)sli_strlcpy(dst, "unknown", cap);
}

enum sli_err
store_lock(int dirfd, const char *dir, int *ret_fd, struct sli_errinfo *ei)
{
	char text[32];
	size_t n;
	int fd, err;

	fd = openat(
	    dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "store.lock",
		    "cannot open the file lock in %s", dir);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		err = errno;
		who(fd, text, sizeof(text));
		sli_fd_close(&fd);
		if (err != EWOULDBLOCK)
			return sli_fail(ei, SLI_E_SYS, err, "store.lock",
			    "cannot lock %s", dir);
		return sli_fail(ei, SLI_E_ALREADY_EXISTS, 0, "store.lock",
		    "another server (pid %s) uses the state directory %s; "
		    "stop it or choose another with --state",
		    text, dir);
	}
	n = sli_snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, n, 0) != (ssize_t)n) {
		/* A full disk must not keep the server from starting. */
		(void)sli_fail(ei, SLI_E_SYS, errno, "store.lock",
		    "cannot write the file lock in %s", dir);
	}
	*ret_fd = fd;
	return SLI_OK;
}
