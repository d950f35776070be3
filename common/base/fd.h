/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors: close once, write fully, pass over a unix socket. */
#ifndef SLI_BASE_FD_H
#define SLI_BASE_FD_H

#include "base/err.h"

/* Close *fd unless it is -1, and set it to -1. Never retried on EINTR. */
void sli_fd_close(int *fd);
SLI_MUST enum sli_err sli_fd_nonblock(int fd, struct sli_errinfo *ei);
/* Whole buffer or error; for blocking descriptors. */
SLI_MUST enum sli_err sli_fd_write_all(
    int fd, const void *p, size_t n, struct sli_errinfo *ei);
/* Read a whole small file; at most cap-1 bytes, NUL-terminated. -1 on error
 * (errno set), else the length. */
long sli_fd_read_file(int dirfd, const char *path, char *dst, size_t cap);
/* Write a short string to an existing file (proc, cgroup). -1 + errno. */
int sli_fd_write_file(int dirfd, const char *path, const char *s);

#define SLI_FDS_MAX 16

/* One message with descriptors over a SEQPACKET or STREAM unix socket. `fds`
 * stay the caller's. Returns bytes sent or -1 (errno); MSG_NOSIGNAL. */
long sli_fd_send(int sock, const void *p, size_t n, const int *fds, int nfds);
/* Receive one message; got descriptors are CLOEXEC and the caller's. More than
 * max_fds, a truncated message or control data: all closed, -1, EMSGSIZE.
 * 0 = peer closed. */
long sli_fd_recv(
    int sock, void *p, size_t cap, int *fds, int max_fds, int *ret_nfds);

#endif
