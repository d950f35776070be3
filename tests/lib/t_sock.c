/* SPDX-License-Identifier: Apache-2.0 */
/* Raw sockets for tests; see t_sock.h. */
#include "t_sock.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

void
t_tmpdir(char *dst)
{
	const char *tmp = getenv("TMPDIR");

	sli_snprintf(dst, 64, "%s/sl-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dst));
}

void
t_rmdir(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		(void)unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	assert_int_equal(rmdir(dir), 0);
}

struct sli_addr
t_unix(const char *dir, const char *name)
{
	struct sli_addr a = {.kind = SLI_ADDR_UNIX};

	sli_snprintf(a.path, sizeof(a.path), "%s/%s", dir, name);
	return a;
}

int
t_connect(const struct sli_addr *a)
{
	struct timeval tv = {.tv_sec = 10};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET};
	int fd, rv, one = 1;

	if (a->kind == SLI_ADDR_UNIX) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(fd >= 0);
		sli_strlcpy(un.sun_path, a->path, sizeof(un.sun_path));
		rv = connect(fd, (struct sockaddr *)(void *)&un, sizeof(un));
	} else {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(fd >= 0);
		in.sin_port = htons(a->port);
		assert_int_equal(inet_pton(AF_INET, a->host, &in.sin_addr), 1);
		rv = connect(fd, (struct sockaddr *)(void *)&in, sizeof(in));
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	assert_int_equal(rv, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return fd;
}

void
t_send(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t w = send(fd, at, n, MSG_NOSIGNAL);

		assert_true(w > 0);
		at += w;
		n -= (size_t)w;
	}
}

void
t_recv(int fd, void *p, size_t n)
{
	char *at = p;

	while (n > 0) {
		ssize_t r = recv(fd, at, n, 0);

		assert_true(r > 0);
		at += r;
		n -= (size_t)r;
	}
}

int
t_ended(int fd)
{
	char buf[4096];
	ssize_t r;

	do {
		r = recv(fd, buf, sizeof(buf), 0);
	} while (r > 0);
	return r == 0 || errno == ECONNRESET;
}

void
t_reset(int fd)
{
	struct linger lg = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	(void)close(fd);
}

unsigned
t_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n - 3; /* ".", ".." and the directory itself */
}
