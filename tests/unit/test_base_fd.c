/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Descriptors over sockets, small files, closing. */
#include "unit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int
open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void
pair(int sv[2])
{
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
}

static void
closing_twice_is_harmless(void **state)
{
	int fd = dup(0);

	(void)state;
	sli_fd_close(&fd);
	assert_int_equal(fd, -1);
	errno = 99;
	sli_fd_close(&fd);
	assert_int_equal(errno, 99);
}

static void
too_many_descriptors_leak_none(void **state)
{
	int before = open_fds();
	int sv[2], fds[4] = {0, 0, 0, 0}, got[2], n = 0;
	char b[4];

	(void)state;
	pair(sv);
	assert_int_equal(sli_fd_send(sv[0], "x", 1, fds, 4), 1);
	assert_int_equal(sli_fd_recv(sv[1], b, sizeof(b), got, 2, &n), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_int_equal(sli_fd_send(sv[0], "x", 1, fds, 2), 1);
	assert_int_equal(sli_fd_recv(sv[1], b, sizeof(b), NULL, 0, NULL), -1);
	/* A message that is cut takes its descriptors with it. */
	assert_int_equal(sli_fd_send(sv[0], "12345", 5, fds, 2), 5);
	assert_int_equal(sli_fd_recv(sv[1], b, sizeof(b), got, 2, &n), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_int_equal(sli_fd_send(sv[0], "x", 1, fds, SLI_FDS_MAX + 1), -1);
	sli_fd_close(&sv[0]);
	sli_fd_close(&sv[1]);
	assert_int_equal(open_fds(), before);
}

static void
descriptors_travel_in_order(void **state)
{
	int sv[2], p[2], fds[2], got[SLI_FDS_MAX], n = 0;
	char b[16];

	(void)state;
	pair(sv);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	fds[0] = p[0];
	fds[1] = p[1];
	assert_int_equal(sli_fd_send(sv[0], "hello", 5, fds, 2), 5);
	assert_int_equal(
	    sli_fd_recv(sv[1], b, sizeof(b), got, SLI_FDS_MAX, &n), 5);
	assert_int_equal(n, 2);
	assert_true((fcntl(got[0], F_GETFD) & FD_CLOEXEC) != 0);
	assert_int_equal(sli_fd_write_all(got[1], "z", 1, NULL), SLI_OK);
	assert_int_equal(read(p[0], b, 1), 1);
	assert_int_equal(b[0], 'z');
	for (int i = 0; i < 2; i++) {
		sli_fd_close(&got[i]);
		sli_fd_close(&p[i]);
	}
	sli_fd_close(&sv[0]);
	assert_int_equal(sli_fd_recv(sv[1], b, sizeof(b), got, 0, &n), 0);
	sli_fd_close(&sv[1]);
}

static void
sending_to_nobody_is_an_error_not_a_signal(void **state)
{
	int sv[2];

	(void)state;
	pair(sv);
	sli_fd_close(&sv[1]);
	assert_int_equal(sli_fd_send(sv[0], "x", 1, NULL, 0), -1);
	assert_int_equal(errno, EPIPE);
	sli_fd_close(&sv[0]);
}

static void
small_files(void **state)
{
	char dir[] = "/tmp/sluice-test.XXXXXX", b[4], big[64];
	int d;

	(void)state;
	assert_non_null(mkdtemp(dir));
	d = open(dir, O_DIRECTORY | O_CLOEXEC);
	assert_true(d >= 0);
	assert_int_equal(sli_fd_read_file(d, "f", b, sizeof(b)), -1);
	assert_int_equal(sli_fd_write_file(d, "f", "abc"), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(
	    close(openat(d, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
	assert_int_equal(sli_fd_write_file(d, "f", "abcdef"), 0);
	assert_int_equal(sli_fd_read_file(d, "f", b, sizeof(b)), 3);
	assert_string_equal(b, "abc");
	assert_int_equal(sli_fd_read_file(d, "f", big, sizeof(big)), 6);
	assert_int_equal(sli_fd_read_file(d, "f", big, 0), -1);
	assert_int_equal(unlinkat(d, "f", 0), 0);
	sli_fd_close(&d);
	assert_int_equal(rmdir(dir), 0);
}

static void
nonblock_on_a_bad_descriptor_says_so(void **state)
{
	struct sli_errinfo ei;

	(void)state;
	assert_int_equal(sli_fd_nonblock(-1, &ei), SLI_E_SYS);
	assert_int_equal(ei.sys, EBADF);
	assert_int_equal(sli_fd_write_all(-1, "x", 1, &ei), SLI_E_SYS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(closing_twice_is_harmless),
	    cmocka_unit_test(too_many_descriptors_leak_none),
	    cmocka_unit_test(descriptors_travel_in_order),
	    cmocka_unit_test(sending_to_nobody_is_an_error_not_a_signal),
	    cmocka_unit_test(small_files),
	    cmocka_unit_test(nonblock_on_a_bad_descriptor_says_so),
	};

	return cmocka_run_group_tests_name("base_fd", tests, NULL, NULL);
}
