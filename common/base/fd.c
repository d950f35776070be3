/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: closing, whole reads and writes of small things, passing. No
 * policy; no waiting beyond what the descriptor itself does. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void
sli_fd_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved;
}

enum sli_err
sli_fd_nonblock(int fd, struct sli_errinfo *ei)
{
	int fl = fcntl(fd, F_GETFL);

	if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0)
		return sli_fail(
		    ei, SLI_E_SYS, errno, "fd.nonblock", "fcntl failed");
	return SLI_OK;
}

enum sli_err
sli_fd_write_all(int fd, const void *p, size_t n, struct sli_errinfo *ei)
{
	const char *at = p;

	while (n > 0) {
		ssize_t w = write(fd, at, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return sli_fail(ei, SLI_E_SYS, errno, "fd.write_all",
			    "write failed with %zu bytes left", n);
		at += w;
		n -= (size_t)w;
	}
	return SLI_OK;
}

long
sli_fd_read_file(int dirfd, const char *path, char *dst, size_t cap)
{
	size_t at = 0;
	int fd;

	if (cap == 0) {
		errno = EINVAL;
		return -1;
	}
	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -1;
	while (at < cap - 1) {
		ssize_t n = read(fd, dst + at, cap - 1 - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			sli_fd_close(&fd);
			return -1;
		}
		if (n == 0)
			break;
		at += (size_t)n;
	}
	sli_fd_close(&fd);
	dst[at] = '\0';
	return (long)at;
}

int
sli_fd_write_file(int dirfd, const char *path, const char *s)
{
	size_t n = strlen(s);
	ssize_t w;
	int fd;

	fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -1;
	do {
		w = write(fd, s, n);
	} while (w < 0 && errno == EINTR);
	/* The kernel takes such files whole or not at all. */
	if (w >= 0 && (size_t)w != n) {
		errno = EIO;
		w = -1;
	}
	sli_fd_close(&fd);
	return w < 0 ? -1 : 0;
}

union control {
	struct cmsghdr align;
	char mem[CMSG_SPACE(SLI_FDS_MAX * sizeof(int))];
};

long
sli_fd_send(int sock, const void *p, size_t n, const int *fds, int nfds)
{
	union control ctl;
	struct iovec iov = {(void *)(uintptr_t)p, n};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t r;

	if (nfds < 0 || nfds > SLI_FDS_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (nfds > 0) {
		size_t len = (size_t)nfds * sizeof(int);
		struct cmsghdr *c;

		memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = ctl.mem;
		mh.msg_controllen = CMSG_SPACE(len);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(len);
		memcpy(CMSG_DATA(c), fds, len);
	}
	do {
		r = sendmsg(sock, &mh, MSG_NOSIGNAL);
	} while (r < 0 && errno == EINTR);
	return r;
}

/* All descriptors of a received message, in order; returns how many. */
static int
collect(struct msghdr *mh, int got[SLI_FDS_MAX])
{
	int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL;
	     c = CMSG_NXTHDR(mh, c)) {
		size_t len;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		len = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < len && n < SLI_FDS_MAX; i++)
			memcpy(&got[n++], CMSG_DATA(c) + i * sizeof(int),
			    sizeof(int));
	}
	return n;
}

long
sli_fd_recv(int sock, void *p, size_t cap, int *fds, int max_fds, int *ret_nfds)
{
	union control ctl;
	struct iovec iov = {p, cap};
	struct msghdr mh = {
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = ctl.mem,
	    .msg_controllen = sizeof(ctl.mem),
	};
	int got[SLI_FDS_MAX];
	ssize_t r;
	int n;

	do {
		r = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -1;
	n = collect(&mh, got);
	if ((mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || n > max_fds) {
		for (int i = 0; i < n; i++)
			sli_fd_close(&got[i]);
		errno = EMSGSIZE;
		return -1;
	}
	if (n > 0)
		memcpy(fds, got, (size_t)n * sizeof(int));
	if (ret_nfds != NULL)
		*ret_nfds = n;
	return r;
}
