/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan user timeout=180 */
/* The server in an enemy's hands, who does not only talk (that is
 * test_sbx_hostile.c) but races the helpers, looks into other processes, and
 * uses the VMs it has. */
#include "base/fd.h"
#include "base/str.h"
#include "t_sbx.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECRET "the host's secret"

static struct sbx box;
static struct sbx_vm vm;
static struct sbx_result r;
static char secret[300];

static union {
	struct spawner_msg h;
	struct spawner_create rq;
	char b[SPAWNER_MSG_MAX];
} m, a;

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

/* --- races -----------------------------------------------------------------*/

/* Kill and reap each pid 1 while the spawner builds it: the number may then be
 * anybody's, and must not be taken for the VM's. */
static void
test_reaped_while_built(void **state)
{
	unsigned i, failed = 0;
	siginfo_t si;
	size_t n;

	(void)state;
	for (i = 0; i < 60; i++) {
		int64_t end = sbx_now_ms() + 10000;
		int done = 0, fds[2], nfds = 0;

		n = good_create();
		m.h.op = SPAWNER_CREATE;
		m.h.req = ++box.req;
		assert_int_equal(
		    sli_fd_send(box.h.spawner_fd, m.b, n, NULL, 0), (long)n);
		while (!done && sbx_now_ms() < end) {
			char path[96], kids[512];
			const char *p = kids;

			sli_snprintf(path, sizeof(path),
			    "/proc/self/task/%d/children", (int)getpid());
			if (sli_fd_read_file(
				AT_FDCWD, path, kids, sizeof(kids)) > 0)
				while (*p) {
					pid_t c = (pid_t)strtol(
					    p, (char **)(uintptr_t)&p, 10);

					if (c > 0 && c != vm.c.pid &&
					    c != box.h.spawner_pid &&
					    c != box.h.opener_pid)
						(void)kill(c, SIGKILL);
					while (*p == ' ')
						p++;
				}
			memset(&si, 0, sizeof(si));
			(void)waitid(P_ALL, 0, &si, WEXITED | WNOHANG | __WALL);
			if (sbx_recv(&box, a.b, sizeof(a.b), fds, &nfds, 0) <=
			    0)
				continue;
			done = a.h.req == box.req;
			failed += done && a.h.op == SPAWNER_FAILED;
			while (nfds > 0)
				(void)close(fds[--nfds]);
		}
		assert_true(done);
	}
	print_message("# %u of 60 creations failed, as they should\n", failed);
	while (
	    waitid(P_ALL, 0, &si, WEXITED | WNOHANG | __WALL) == 0 && si.si_pid)
		memset(&si, 0, sizeof(si));
	sbx_healthy(&box);
}

/* The source is swapped between a harmless directory and a link out, all the
 * time: what is checked is what is mounted. */
static void
test_swapped_source(void **state)
{
	char dir[320], link[320], race[320];
	struct sbx_mount mt = {race, "/srv/r"};
	struct sbx_spec spec = {.mounts = &mt, .nmounts = 1};
	struct spawner_failed f;
	unsigned i, made = 0;
	struct sbx_vm v;
	pid_t flipper;

	(void)state;
	sli_snprintf(dir, sizeof(dir), "%s/good", box.allowed);
	sli_snprintf(link, sizeof(link), "%s/link", box.allowed);
	sli_snprintf(race, sizeof(race), "%s/race", box.allowed);
	assert_int_equal(mkdir(race, 0755), 0);
	assert_int_equal(symlink("/etc", link), 0);
	flipper = fork();
	if (flipper == 0)
		for (;;)
			(void)syscall(SYS_renameat2, AT_FDCWD, link, AT_FDCWD,
			    race, 2 /* RENAME_EXCHANGE */);
	for (i = 0; i < 60; i++) {
		if (sbx_create(&box, &spec, &v, &f) != 0)
			continue;
		made++;
		sbx_sh(&v, "ls -A /srv/r", &r);
		assert_string_equal(r.out, "");
		sbx_delete(&box, &v);
	}
	(void)kill(flipper, SIGKILL);
	(void)waitpid(flipper, NULL, 0);
	print_message("# %u of 60 mounted the harmless one\n", made);
	sbx_healthy(&box);
}

/* --- the pool, the other processes
 * ------------------------------------------*/

static void
test_ids_stay_in_the_pool(void **state)
{
	struct sbx_vm v[4];
	unsigned long base, n, inner;
	char path[64], map[256], *p;
	size_t i, k;

	(void)state;
	for (i = 0; i < SLI_ARRAY_LEN(v); i++)
		assert_int_equal(sbx_create(&box, NULL, &v[i], NULL), 0);
	for (i = 0; i < SLI_ARRAY_LEN(v); i++) {
		sli_snprintf(
		    path, sizeof(path), "/proc/%d/uid_map", v[i].c.pid);
		assert_true(
		    sli_fd_read_file(AT_FDCWD, path, map, sizeof(map)) > 0);
		inner = strtoul(map, &p, 10);
		base = strtoul(p, &p, 10);
		n = strtoul(p, &p, 10);
		assert_int_equal(inner, 0);
		assert_null(strchr(strchr(map, '\n') + 1, '\n'));
		if (!box.h.privileged) {
			assert_int_equal(base, box.h.uid);
			assert_int_equal(n, 1);
			continue;
		}
		assert_int_equal(base, v[i].c.uid_base);
		assert_int_equal(n, 65536);
		assert_true(base >= 1000000 && base % 65536 == 1000000 % 65536);
		assert_true(base < 1000000 + 65536ul * SPAWNER_VMS_MAX);
		for (k = 0; k < i; k++)
			assert_int_not_equal(base, v[k].c.uid_base);
	}
	for (i = 0; i < SLI_ARRAY_LEN(v); i++)
		sbx_delete(&box, &v[i]);
}

static void
closed(pid_t pid, const char *what)
{
	char path[96];
	int fd;

	sli_snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		fail_msg("%s could be opened", path);
	assert_int_equal(errno, EACCES);
}

/* Nothing to take from the helpers or from pid 1, although the opener has our
 * uid and the VM's user namespace belongs to it. */
static void
test_no_way_into_the_others(void **state)
{
	static const char *const what[] = {
	    "root/etc/passwd", "fd/3", "mem", "environ", "cwd/etc", "ns/mnt"};
	size_t i;

	(void)state;
	if (!box.h.privileged)
		return; /* one uid: there is nothing to take */
	for (i = 0; i < SLI_ARRAY_LEN(what); i++) {
		closed(box.h.spawner_pid, what[i]);
		closed(box.h.opener_pid, what[i]);
		closed(vm.c.pid, what[i]);
	}
	assert_int_equal(kill(box.h.spawner_pid, SIGSTOP), -1);
	assert_int_equal(errno, EPERM);
	assert_true(ptrace(PTRACE_ATTACH, box.h.opener_pid, 0, 0) < 0);
	assert_true(ptrace(PTRACE_ATTACH, vm.c.pid, 0, 0) < 0);
	assert_true(setuid(0) < 0);
	assert_int_equal(open(secret, O_RDONLY | O_CLOEXEC), -1);
	sbx_healthy(&box);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* A guest's process is ours to trace by the rules of user namespaces; the
 * filter is what stops it, and with it a way to capabilities. */
static void
test_filter(void **state)
{
	static const char *const argv[] = {"sleep", "300", NULL};
	char path[64], kids[64];
	struct guest_event ev;
	uint32_t id;
	int fd;
	pid_t p;

	(void)state;
	id = sbx_exec(&vm, 0, "/", argv, 2);
	assert_true(sbx_event(&vm, &ev, 5000));
	sli_snprintf(path, sizeof(path), "/proc/%d/task/%d/children", vm.c.pid,
	    vm.c.pid);
	assert_true(sli_fd_read_file(AT_FDCWD, path, kids, sizeof(kids)) > 0);
	p = (pid_t)strtol(kids, NULL, 10);
	sli_snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)p);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	errno = 0;
	assert_int_equal(setns(fd, CLONE_NEWUSER), -1);
	assert_int_equal(errno, EPERM);
	sli_fd_close(&fd);
	assert_int_equal(unshare(CLONE_NEWUSER), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(
	    syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(syscall(SYS_clone3, NULL, 0), -1);
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(execl("/bin/true", "true", (char *)NULL), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ptrace(PTRACE_TRACEME, 0, 0, 0), -1);
	sbx_kill(&vm, GUEST_KILL_TREE, id, 0);
	assert_true(sbx_event(&vm, &ev, 5000));
	assert_true(sbx_event(&vm, &ev, 5000));
}
#endif

/* --- the opener
 * --------------------------------------------------------------*/

static int
opens(const char *path)
{
	struct opener_reply reply;
	char b[256] = {0};
	int fd = -1;

	sbx_open(&box, OPENER_OPEN, vm.c.handle, path, &reply, NULL, 0, &fd);
	if (fd >= 0) {
		(void)!read(fd, b, sizeof(b) - 1);
		sli_fd_close(&fd);
	}
	if (strstr(b, SECRET))
		fail_msg("%s shows the host's secret", path);
	return reply.sys == 0;
}

static void
test_opener_paths(void **state)
{
	char path[600], root[64];

	(void)state;
	sbx_sh(&vm,
	    "cd /tmp; ln -s /proc/1/root a; ln -s /proc/self/fd b; "
	    "ln -s /proc/1/cwd c; ln -s ../../../../../../../../tmp d; "
	    "mkdir -p e/f; echo ok",
	    &r);
	assert_string_equal(r.out, "ok\n");
	assert_false(opens(secret));
	sli_snprintf(path, sizeof(path), "/../../../..%s", secret);
	assert_false(opens(path));
	sli_snprintf(path, sizeof(path), "/tmp/a%s", secret);
	assert_false(opens(path));
	sli_snprintf(path, sizeof(path), "/tmp/c/../../..%s", secret);
	assert_false(opens(path));
	sli_snprintf(root, sizeof(root), "/proc/%d/root", (int)getppid());
	sli_snprintf(path, sizeof(path), "%s%s", root, secret);
	assert_false(opens(path));
	assert_false(opens("/tmp/b/0"));
	assert_false(opens("/etc/shadow"));
	sli_snprintf(path, sizeof(path), "/tmp/d/%s", secret + 5);
	assert_false(opens(path));
	sbx_healthy(&box);
}

/* A worker that does not answer is killed; the next request gets another. */
static void
test_stuck_worker(void **state)
{
	struct opener_reply reply;
	char path[64], kids[256];
	int64_t t0;

	(void)state;
	assert_true(opens("/etc/passwd"));
	sli_snprintf(path, sizeof(path), "/proc/%d/task/%d/children",
	    (int)box.h.opener_pid, (int)box.h.opener_pid);
	assert_true(sli_fd_read_file(AT_FDCWD, path, kids, sizeof(kids)) > 0);
	assert_int_equal(kill((pid_t)strtol(kids, NULL, 10), SIGSTOP), 0);
	t0 = sbx_now_ms();
	sbx_open(&box, OPENER_STAT, vm.c.handle, "/", &reply, NULL, 0, NULL);
	assert_int_equal(reply.sys, ETIMEDOUT);
	assert_in_range(sbx_now_ms() - t0, OPENER_TIMEOUT_MS - 100,
	    OPENER_TIMEOUT_MS + 2000);
	assert_true(opens("/etc/passwd"));
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
		cmocka_unit_test(test_reaped_while_built),
		cmocka_unit_test(test_swapped_source),
		cmocka_unit_test(test_ids_stay_in_the_pool),
		cmocka_unit_test(test_no_way_into_the_others),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(test_filter),
#endif
		cmocka_unit_test(test_opener_paths),
		cmocka_unit_test(test_stuck_worker),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
