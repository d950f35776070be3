/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user timeout=180 */
/* Many VMs: requests of all kinds in flight at once, every answer under its
 * own request, no descriptor or id range lost over many lives. */
#include "base/fd.h"
#include "base/str.h"
#include "t_sbx.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FEW  40u
#define LOTS 300u

static struct sbx box;
static unsigned many;

static struct {
	uint64_t handle;
	int ctl, pidfd;
} vms[LOTS];

static void
ask_create(uint64_t req)
{
	union {
		struct spawner_create rq;
		char b[sizeof(struct spawner_create) + 8];
	} m;

	memset(&m, 0, sizeof(m));
	m.rq.h = (struct spawner_msg){SPAWNER_CREATE, sizeof(m.rq) + 3, req};
	m.rq.disk_bytes = 4u << 20;
	m.rq.memory_bytes = 64u << 20;
	m.rq.pids = 16;
	memcpy(m.b + sizeof(m.rq), "vm", 3);
	assert_int_equal(
	    sli_fd_send(box.h.spawner_fd, m.b, m.rq.h.len, NULL, 0),
	    m.rq.h.len);
}

static void
ask_delete(uint64_t req, uint64_t handle)
{
	struct spawner_handle m = {
	    .h = {SPAWNER_DELETE, sizeof(m), req},
              .handle = handle
        };

	assert_int_equal(
	    sli_fd_send(box.h.spawner_fd, &m, sizeof(m), NULL, 0), sizeof(m));
}

/* Take one answer; req tells which VM. */
static void
take(uint32_t want)
{
	union {
		struct spawner_msg h;
		struct spawner_created c;
		struct spawner_failed f;
		char b[4096];
	} a;

	int fds[2] = {-1, -1}, n = 0;
	siginfo_t si = {0};

	assert_true(sbx_recv(&box, a.b, sizeof(a.b), fds, &n, 30000) > 0);
	if (a.h.op != want)
		fail_msg("op %u: %s %s", a.h.op, a.f.step, a.f.text);
	assert_in_range(a.h.req, 1, many);
	if (want == SPAWNER_CREATED) {
		assert_int_equal(vms[a.h.req - 1].handle, 0);
		vms[a.h.req - 1].handle = a.c.handle;
		vms[a.h.req - 1].ctl = fds[0];
		vms[a.h.req - 1].pidfd = fds[1];
		return;
	}
	sli_fd_close(&vms[a.h.req - 1].ctl);
	assert_int_equal(waitid(P_PIDFD, (id_t)vms[a.h.req - 1].pidfd, &si,
			     WEXITED | WNOHANG | __WALL),
	    0);
	assert_int_not_equal(si.si_pid, 0);
	sli_fd_close(&vms[a.h.req - 1].pidfd);
	vms[a.h.req - 1].handle = 0;
}

static void
test_all_at_once(void **state)
{
	unsigned i;

	(void)state;
	print_message("# %u VMs\n", many);
	for (i = 0; i < many; i++)
		ask_create(i + 1);
	for (i = 0; i < many; i++)
		take(SPAWNER_CREATED);
	for (i = 0; i < many; i++)
		ask_delete(i + 1, vms[i].handle);
	for (i = 0; i < many; i++)
		take(SPAWNER_DELETED);
}

/* An ordinary user may count the descriptors of his own spawner. */
static unsigned
spawner_fds(void)
{
	char path[64];
	unsigned n = 0;
	DIR *d;

	sli_snprintf(path, sizeof(path), "/proc/%d/fd", (int)box.h.spawner_pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n;
}

static void
test_nothing_is_lost(void **state)
{
	unsigned before, i;

	(void)state;
	many = 1;
	ask_create(1);
	take(SPAWNER_CREATED);
	ask_delete(1, vms[0].handle);
	take(SPAWNER_DELETED);
	before = spawner_fds();
	for (i = 0; i < 30; i++) {
		ask_create(1);
		take(SPAWNER_CREATED);
		ask_delete(1, vms[0].handle);
		take(SPAWNER_DELETED);
	}
	assert_int_equal(spawner_fds(), before);
}

/* A handle is never given twice. */
static void
test_deleted_twice(void **state)
{
	struct spawner_failed f;
	uint64_t handle;

	(void)state;
	ask_create(1);
	take(SPAWNER_CREATED);
	handle = vms[0].handle;
	ask_delete(1, handle);
	ask_delete(2, handle);
	/* the second answer may overtake the first */
	assert_true(sbx_recv(&box, &f, sizeof(f), NULL, NULL, 5000) > 0);
	assert_int_equal(f.h.op, SPAWNER_FAILED);
	assert_int_equal(f.h.req, 2);
	assert_int_equal(f.sys, EALREADY);
	take(SPAWNER_DELETED);
	ask_delete(3, handle);
	assert_true(sbx_recv(&box, &f, sizeof(f), NULL, NULL, 5000) > 0);
	assert_int_equal(f.sys, ENOENT);
	ask_create(1);
	take(SPAWNER_CREATED);
	assert_int_not_equal(vms[0].handle, handle);
	ask_delete(1, vms[0].handle);
	take(SPAWNER_DELETED);
}

static int
setup(void **state)
{
	const char *lng = getenv("SLUICE_LONG");

	(void)state;
	many = lng && *lng ? LOTS : FEW;
	sbx_start(&box);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	sbx_stop(&box);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_all_at_once),
	    cmocka_unit_test(test_nothing_is_lost),
	    cmocka_unit_test(test_deleted_twice),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
