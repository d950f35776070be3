/* SPDX-License-Identifier: Apache-2.0 */
/* Raw blocking sockets and temporary directories for tests. Every call fails
 * the test on error. */
#ifndef SLUICE_TESTS_T_SOCK_H
#define SLUICE_TESTS_T_SOCK_H

#include "link/addr.h"

#include <stddef.h>

/* A fresh directory, mode 0700; dst holds 64. Removed by t_rmdir, with the
 * plain files and sockets in it. */
void t_tmpdir(char *dst);
void t_rmdir(const char *dir);
/* unix:///DIR/NAME */
struct sli_addr t_unix(const char *dir, const char *name);
/* Blocking, CLOEXEC, 10 s receive timeout. */
int t_connect(const struct sli_addr *a);
void t_send(int fd, const void *p, size_t n);
/* Exactly n bytes. */
void t_recv(int fd, void *p, size_t n);
/* 1 when the peer ended (end of file or reset) within 10 s; skips bytes. */
int t_ended(int fd);
/* Close with a reset (TCP) instead of an orderly end. */
void t_reset(int fd);
/* Open descriptors of this process. */
unsigned t_fds(void);

#endif
