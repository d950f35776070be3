/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan user timeout=180 */
/* The server in an enemy's hands: this process has its sockets and its uid and
 * says whatever it likes to spawner and opener. It gets no host file, no mount
 * and no uid outside the pool; both helpers go on serving. */
#include "base/fd.h"
#include "base/str.h"
#include "t_sbx.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET "the host's secret"

static struct sbx box;
static struct sbx_vm vm;
static char secret[300];

/* --- the spawner -----------------------------------------------------------*/

static union {
	struct spawner_msg h;
	struct spawner_create rq;
	struct spawner_failed f;
	char b[SPAWNER_MSG_MAX + 4096];
} m, a;

static void
say(const void *p, size_t n, const int *fds, int nfds)
{
	assert_int_equal(
	    sli_fd_send(box.h.spawner_fd, p, n, fds, nfds), (long)n);
}

static void
answered(uint64_t req, int sys, const char *step)
{
	assert_true(sbx_recv(&box, a.b, sizeof(a.b), NULL, NULL, 10000) > 0);
	assert_int_equal(a.h.op, SPAWNER_FAILED);
	assert_int_equal(a.h.req, req);
	assert_string_equal(a.f.step, step);
	assert_int_equal(a.f.sys, sys);
}

static void
test_forged_handles(void **state)
{
	uint64_t h[] = {0, vm.c.handle + 1, vm.c.handle - 1,
	    vm.c.handle ^ (UINT64_C(1) << 32), vm.c.handle << 33, UINT64_MAX};
	struct spawner_handle d = {
	    .h = {SPAWNER_DELETE, sizeof(d), 0}
        };
	struct spawner_freeze z = {
	    .h = {SPAWNER_FREEZE, sizeof(z), 0}
        };
	struct opener_reply reply;
	size_t i;

	(void)state;
	for (i = 0; i < SLI_ARRAY_LEN(h); i++) {
		d.handle = z.handle = h[i];
		d.h.req = ++box.req;
		say(&d, sizeof(d), NULL, 0);
		answered(box.req, ENOENT, "handle");
		z.h.req = ++box.req;
		say(&z, sizeof(z), NULL, 0);
		answered(box.req, ENOENT, "handle");
		sbx_open(&box, OPENER_OPEN, h[i], "/etc/passwd", &reply, NULL,
		    0, NULL);
		assert_int_equal(reply.sys, ENOENT);
		assert_string_equal(reply.step, "handle");
	}
	sbx_healthy(&box);
}

/* Whatever it claims about who asks. */
static void
test_host_paths(void **state)
{
	static const char *const paths[] = {"/", "//", "/.", "/..", "/etc",
	    "/etc/shadow", "/root", "/home", "/proc", "/proc/1/root",
	    "/proc/self/root", "/proc/self/fd/3", "/dev", "/sys",
	    "/sys/fs/cgroup", "/var/lib", "/run", NULL};
	char own[3][320];
	const char *more[] = {secret, own[0], own[1], own[2], box.dir, NULL};
	const char *const *set[] = {paths, more};
	static const uint32_t peers[] = {0, 1000, 65534, UINT32_MAX};
	size_t k, i, p;

	(void)state;
	sli_snprintf(own[0], sizeof(own[0]), "%s/../secret", box.allowed);
	sli_snprintf(own[1], sizeof(own[1]), "%s/../state", box.allowed);
	sli_snprintf(
	    own[2], sizeof(own[2]), "/proc/%d/root", (int)box.h.spawner_pid);
	for (k = 0; k < 2; k++)
		for (i = 0; set[k][i]; i++)
			for (p = 0; p < SLI_ARRAY_LEN(peers); p++) {
				struct sbx_mount mt = {set[k][i], "/host"};
				struct sbx_spec spec = {.mounts = &mt,
				    .nmounts = 1,
				    .peer_uid = peers[p],
				    .peer_gid = peers[p]};
				struct spawner_failed f = {.sys = 0};
				struct sbx_vm v;

				assert_int_not_equal(
				    sbx_create(&box, &spec, &v, &f), 0);
				assert_string_equal(f.step, "mount");
			}
	sbx_healthy(&box);
}

/* A descriptor names nothing: it is closed, the request is judged alone. */
static void
test_descriptors(void **state)
{
	int fds[SLI_FDS_MAX], i, n;
	struct spawner_handle d = {
	    .h = {SPAWNER_DELETE, sizeof(d), 0}
        };
	struct opener_req q = {
	    .h = {OPENER_OPEN, sizeof(q) + 2, 0}
        };
	char b[sizeof(q) + 2];

	(void)state;
	for (i = 0; i < SLI_FDS_MAX; i++)
		fds[i] = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (n = 1; n <= SLI_FDS_MAX; n += 5) {
		d.h.req = ++box.req;
		say(&d, sizeof(d), fds, n);
		answered(box.req, ENOENT, "handle");
		q.h.req = ++box.req;
		memcpy(b, &q, sizeof(q));
		memcpy(b + sizeof(q), "/", 2);
		assert_int_equal(
		    sli_fd_send(box.h.opener_fd, b, sizeof(b), fds, n),
		    sizeof(b));
		assert_true(recv(box.h.opener_fd, a.b, sizeof(a.b), 0) > 0);
	}
	for (i = 0; i < SLI_FDS_MAX; i++)
		sli_fd_close(&fds[i]);
	sbx_healthy(&box);
}

static void
bad_create(size_t len)
{
	m.h.op = SPAWNER_CREATE;
	m.h.req = ++box.req;
	say(m.b, len, NULL, 0);
	answered(m.h.req, EBADMSG, "request");
}

static size_t
good_create(void)
{
	size_t n = sizeof(m.rq);

	memset(m.b, 0, sizeof(m.b));
	m.rq.disk_bytes = 1 << 24;
	memcpy(m.b + n, "name", 5);
	n += 5;
	m.h.len = (uint32_t)n;
	return n;
}

static void
test_bad_packets(void **state)
{
	struct opener_reply reply;
	size_t n;

	(void)state;
	/* shorter than its head, empty, too long */
	say("x", 1, NULL, 0);
	answered(0, EBADMSG, "request");
	(void)send(box.h.spawner_fd, "", 0, 0);
	answered(0, EBADMSG, "request");
	memset(m.b, 0, sizeof(m.b));
	say(m.b, sizeof(m.b), NULL, 0);
	answered(0, EBADMSG, "request");
	/* the same to the opener */
	for (n = 0; n <= sizeof(m.b); n += sizeof(m.b) / 2) {
		(void)send(box.h.opener_fd, m.b, n, 0);
		assert_int_equal(
		    recv(box.h.opener_fd, &reply, sizeof(reply), 0),
		    sizeof(reply));
		assert_int_equal(reply.sys, EBADMSG);
	}
	/* not its length */
	n = good_create();
	m.h.len++;
	bad_create(n);
	n = good_create();
	m.h.len = (uint32_t)sizeof(m.rq);
	bad_create(sizeof(m.rq));
	/* strings: not terminated, one too few, one too many */
	n = good_create();
	m.h.len--;
	bad_create(n - 1);
	(void)good_create();
	m.rq.nmounts = 1;
	m.rq.mount_flags[0] = SPAWNER_MOUNT_RO;
	bad_create(m.h.len);
	n = good_create();
	m.h.len += 2;
	bad_create(n + 2);
	(void)good_create();
	m.rq.nmounts = SPAWNER_MOUNTS_MAX + 1;
	bad_create(m.h.len);
	(void)good_create();
	m.rq.nmounts = UINT32_MAX;
	bad_create(m.h.len);
	/* numbers */
	(void)good_create();
	m.rq.disk_bytes = UINT64_MAX;
	bad_create(m.h.len);
	(void)good_create();
	m.rq.pids = UINT32_MAX;
	bad_create(m.h.len);
	/* host name */
	n = good_create();
	memcpy(m.b + sizeof(m.rq), "a/b.", 5);
	bad_create(n);
	sbx_healthy(&box);
}

static void
test_writable_mount(void **state)
{
	size_t n, k;

	(void)state;
	n = good_create();
	m.rq.nmounts = 1;
	k = strlen(box.allowed) + 1;
	memcpy(m.b + n, box.allowed, k);
	n += k;
	memcpy(m.b + n, "/x", 3);
	n += 3;
	m.h.len = (uint32_t)n;
	bad_create(n);
	m.rq.mount_flags[0] = SPAWNER_MOUNT_RO | 2;
	bad_create(n);
	sbx_healthy(&box);
}

/* Requests faster than anybody reads the answers. */
static void
test_flood(void **state)
{
	struct spawner_handle d = {
	    .h = {SPAWNER_DELETE, sizeof(d), 0}
        };
	unsigned sent = 0, got = 0;

	(void)state;
	d.h.req = 1u << 30;
	while (sent < 20000 && send(box.h.spawner_fd, &d, sizeof(d),
				   MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
		sent++;
		d.h.req++;
	}
	assert_true(sent > 50);
	while (got < sent) {
		assert_true(
		    sbx_recv(&box, a.b, sizeof(a.b), NULL, NULL, 10000) > 0);
		assert_int_equal(a.h.op, SPAWNER_FAILED);
		got++;
	}
	sbx_healthy(&box);
}

static void
test_every_byte(void **state)
{
	unsigned i, n, seed = 1;

	(void)state;
	for (i = 0; i < 3000; i++) {
		n = 1 + i % 700;
		for (unsigned k = 0; k < n; k++) {
			seed = seed * 1103515245u + 12345u;
			m.b[k] = (char)(seed >> 16);
		}
		if (i % 3) {
			m.h.op = 1 + i % 6;
			m.h.len = n;
		}
		if (n >= sizeof(m.h) && m.h.op == SPAWNER_DOCTOR)
			continue;
		say(m.b, n, NULL, 0);
		assert_true(
		    sbx_recv(&box, a.b, sizeof(a.b), NULL, NULL, 10000) > 0);
		assert_int_equal(a.h.op, SPAWNER_FAILED);
		assert_int_equal(
		    send(box.h.opener_fd, m.b, n, MSG_NOSIGNAL), n);
		assert_true(recv(box.h.opener_fd, a.b, sizeof(a.b), 0) > 0);
	}
	sbx_healthy(&box);
}

static int
setup(void **state)
{
	int fd;

	(void)state;
	sbx_start_helpers(&box);
	sli_snprintf(secret, sizeof(secret), "%s/secret", box.dir);
	fd = open(secret, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, SECRET, sizeof(SECRET)), sizeof(SECRET));
	sli_fd_close(&fd);
	sbx_drop(&box);
	sbx_create_tools(&box, &vm);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	sbx_delete(&box, &vm);
	sbx_stop(&box);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forged_handles),
	    cmocka_unit_test(test_host_paths),
	    cmocka_unit_test(test_descriptors),
	    cmocka_unit_test(test_bad_packets),
	    cmocka_unit_test(test_writable_mount),
	    cmocka_unit_test(test_flood),
	    cmocka_unit_test(test_every_byte),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
