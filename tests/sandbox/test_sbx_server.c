/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user timeout=180 */
/* The life of the processes: what each may do, and that nothing of a VM
 * survives its server, the spawner or the opener. The server here is this
 * program run again ("serve"), the child of the test. */
#include "base/fd.h"
#include "base/str.h"
#include "t_sbx.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VMS     3
#define TELL_FD 9

/* What the server tells the test. */
struct told {
	pid_t server, spawner, opener;
	pid_t pid1[VMS];
	char dir[256];
	int privileged;
	uid_t uid;
};

/* --- the server ------------------------------------------------------------*/

static char *serve_dir; /* NULL = a new one */

static void
serve(void **state)
{
	static const char *const argv[] = {
	    "sh", "-c", "trap '' TERM HUP; setsid sleep 300 & sleep 300", NULL};
	struct pollfd pf = {.events = POLLIN};
	struct told t = {.server = getpid()};
	struct sbx_vm vm[VMS];
	struct guest_event ev;
	struct sbx s;
	unsigned i;
	char b[64];

	(void)state;
	if (serve_dir)
		sbx_start_in(&s, serve_dir);
	else
		sbx_start(&s);
	for (i = 0; i < VMS; i++) {
		assert_int_equal(sbx_create(&s, NULL, &vm[i], NULL), 0);
		(void)sbx_exec(&vm[i], 0, "/", argv, 2);
		assert_true(sbx_event(&vm[i], &ev, 5000));
		assert_int_equal(ev.op, GUEST_STARTED);
		t.pid1[i] = vm[i].c.pid;
	}
	t.spawner = s.h.spawner_pid;
	t.opener = s.h.opener_pid;
	t.privileged = s.h.privileged;
	t.uid = s.h.uid;
	sli_strlcpy(t.dir, s.dir, sizeof(t.dir));
	assert_int_equal(write(TELL_FD, &t, sizeof(t)), sizeof(t));
	/* Until the spawner goes, or stdin ends. */
	pf.fd = s.h.spawner_fd;
	for (;;) {
		struct pollfd both[2] = {
		    pf, {.fd = 0, .events = POLLIN}
                };

		assert_true(poll(both, 2, 60000) > 0);
		if (both[0].revents && recv(pf.fd, b, sizeof(b), 0) <= 0)
			_exit(42);
		if (both[1].revents)
			break;
	}
	for (i = 0; i < VMS; i++)
		sbx_delete(&s, &vm[i]);
	helpers_stop(&s.h);
}

struct child {
	pid_t pid;
	int in, out;
	struct told t;
};

static void
run_server(struct child *c, const char *dir)
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], TELL_FD);
		(void)execl("/proc/self/exe", "test_sbx_server", "serve", dir,
		    (char *)NULL);
		_exit(1);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	c->in = in[1];
	c->out = out[0];
	assert_int_equal(read(c->out, &c->t, sizeof(c->t)), sizeof(c->t));
}

static void
end_server(struct child *c)
{
	int st = 0;

	sli_fd_close(&c->in);
	assert_int_equal(waitpid(c->pid, &st, 0), c->pid);
	assert_int_equal(st, 0);
	sli_fd_close(&c->out);
}

/* --- looking ---------------------------------------------------------------*/

static int
gone(void *arg)
{
	const struct told *t = arg;
	unsigned i, n = 0;

	/* Orphans become ours: we are a subreaper. */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	for (i = 0; i < VMS; i++)
		n += kill(t->pid1[i], 0) == 0;
	return n == 0;
}

static int
helpers_gone(void *arg)
{
	const struct told *t = arg;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return kill(t->spawner, 0) < 0 && errno == ESRCH &&
	       kill(t->opener, 0) < 0 && errno == ESRCH;
}

static char cg_id[64];
static unsigned cg_found;

static int
look_at(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	cg_found += type == FTW_D && strcmp(path + f->base, cg_id) == 0;
	return 0;
}

/* Directories of this server's in any cgroup tree. */
static unsigned
cgroups_of(const struct told *t)
{
	char path[300];
	struct stat st;

	sli_snprintf(path, sizeof(path), "%s/state", t->dir);
	assert_int_equal(stat(path, &st), 0);
	sli_snprintf(cg_id, sizeof(cg_id), "%llx-%llx",
	    (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	cg_found = 0;
	(void)nftw("/sys/fs/cgroup", look_at, 32, FTW_PHYS);
	return cg_found;
}

static unsigned
mounts(void)
{
	static char b[1 << 18];
	unsigned n = 0;
	char *p;

	assert_true(sli_fd_read_file(
			AT_FDCWD, "/proc/self/mountinfo", b, sizeof(b)) > 0);
	for (p = b; (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

static void
remove_dir(const struct told *t)
{
	(void)nftw(t->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void
status_of(pid_t pid, char *b, size_t cap)
{
	char path[64];

	sli_snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	assert_true(sli_fd_read_file(AT_FDCWD, path, b, cap) > 0);
}

static void
has_line(const char *status, const char *line)
{
	if (!strstr(status, line))
		fail_msg("no \"%s\" in:\n%s", line, status);
}

/* --- tests -----------------------------------------------------------------*/

/* Server and opener: an unprivileged uid, nothing to gain. Spawner: what it
 * needs and no more. */
static void
test_rights_of_each(void **state)
{
	char b[8192], uids[64];
	struct child c;

	(void)state;
	run_server(&c, NULL);
	assert_int_not_equal(c.t.uid, 0);
	sli_snprintf(uids, sizeof(uids), "Uid:\t%u\t%u\t%u\t%u\n", c.t.uid,
	    c.t.uid, c.t.uid, c.t.uid);
	status_of(c.t.server, b, sizeof(b));
	has_line(b, uids);
	has_line(b, "CapEff:\t0000000000000000\n");
	has_line(b, "CapPrm:\t0000000000000000\n");
	has_line(b, "NoNewPrivs:\t1\n");
	if (c.t.privileged) {
		has_line(b, "CapBnd:\t0000000000000000\n");
		has_line(b, "Groups:\t \n");
	}
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	has_line(b, "Seccomp:\t2\n");
#endif
	status_of(c.t.opener, b, sizeof(b));
	has_line(b, uids);
	has_line(b, "CapEff:\t0000000000000000\n");
	has_line(b, "CapPrm:\t0000000000000000\n");
	has_line(b, "NoNewPrivs:\t1\n");
	status_of(c.t.spawner, b, sizeof(b));
	has_line(b, "NoNewPrivs:\t1\n");
	has_line(b, "Threads:\t1\n");
	if (!c.t.privileged) {
		has_line(b, uids);
		has_line(b, "CapEff:\t0000000000000000\n");
	}
	end_server(&c);
	remove_dir(&c.t);
}

static void
test_orderly_end(void **state)
{
	unsigned before = mounts();
	struct child c;

	(void)state;
	run_server(&c, NULL);
	end_server(&c);
	assert_true(sbx_until(gone, &c.t, 1000));
	assert_true(sbx_until(helpers_gone, &c.t, 1000));
	assert_int_equal(cgroups_of(&c.t), 0);
	assert_int_equal(mounts(), before);
	remove_dir(&c.t);
}

static void
test_server_killed(void **state)
{
	unsigned before = mounts(), i;
	struct child c;
	int64_t t0;

	(void)state;
	for (i = 0; i < 5; i++) {
		run_server(&c, NULL);
		t0 = sbx_now_ms();
		assert_int_equal(kill(c.pid, SIGKILL), 0);
		assert_true(sbx_until(gone, &c.t, 1000));
		print_message("# VMs gone after %lld ms\n",
		    (long long)(sbx_now_ms() - t0));
		assert_true(sbx_until(helpers_gone, &c.t, 3000));
		assert_int_equal(cgroups_of(&c.t), 0);
		assert_int_equal(mounts(), before);
		remove_dir(&c.t);
		sli_fd_close(&c.in);
		sli_fd_close(&c.out);
	}
}

/* Server and spawner at once: the VMs still end; cgroups are left, and the
 * next server of the same state directory sweeps them. */
static void
test_both_killed_and_swept(void **state)
{
	struct child c, next;
	unsigned left;

	(void)state;
	run_server(&c, NULL);
	left = cgroups_of(&c.t);
	assert_int_equal(kill(c.t.spawner, SIGKILL), 0);
	assert_int_equal(kill(c.pid, SIGKILL), 0);
	assert_true(sbx_until(gone, &c.t, 1000));
	assert_true(sbx_until(helpers_gone, &c.t, 3000));
	assert_int_equal(cgroups_of(&c.t), left);
	sli_fd_close(&c.in);
	sli_fd_close(&c.out);
	run_server(&next, c.t.dir);
	assert_int_equal(next.t.uid, c.t.uid);
	end_server(&next);
	assert_true(sbx_until(helpers_gone, &next.t, 3000));
	assert_int_equal(cgroups_of(&c.t), 0);
	remove_dir(&c.t);
}

/* Loss of a helper is the end of the server (it sees its socket end), and of
 * every VM. */
static void
test_helper_killed(void **state)
{
	unsigned k;

	(void)state;
	for (k = 0; k < 2; k++) {
		struct child c;
		int st = 0;

		run_server(&c, NULL);
		assert_int_equal(
		    kill(k ? c.t.opener : c.t.spawner, SIGKILL), 0);
		assert_int_equal(waitpid(c.pid, &st, 0), c.pid);
		assert_true(WIFEXITED(st));
		assert_int_equal(WEXITSTATUS(st), 42);
		assert_true(sbx_until(gone, &c.t, 1000));
		assert_true(sbx_until(helpers_gone, &c.t, 3000));
		/* What the spawner could not remove, the next one does. */
		if (k == 0) {
			struct child next;

			run_server(&next, c.t.dir);
			end_server(&next);
			assert_true(sbx_until(helpers_gone, &next.t, 3000));
		}
		assert_int_equal(cgroups_of(&c.t), 0);
		sli_fd_close(&c.in);
		sli_fd_close(&c.out);
		remove_dir(&c.t);
	}
}

static void
test_second_server_is_refused(void **state)
{
	char dir[300];
	struct helpers_conf hc = {.state_dir = dir};
	struct sli_errinfo ei = {0};
	struct helpers h;
	struct child c;

	(void)state;
	run_server(&c, NULL);
	sli_snprintf(dir, sizeof(dir), "%s/state", c.t.dir);
	assert_int_not_equal(helpers_start(&hc, &h, &ei), SLI_OK);
	assert_non_null(strstr(ei.text, "another server uses"));
	end_server(&c);
	remove_dir(&c.t);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rights_of_each),
	    cmocka_unit_test(test_orderly_end),
	    cmocka_unit_test(test_server_killed),
	    cmocka_unit_test(test_both_killed_and_swept),
	    cmocka_unit_test(test_helper_killed),
	    cmocka_unit_test(test_second_server_is_refused),
	};
	const struct CMUnitTest server[] = {cmocka_unit_test(serve)};
	char libexec[2100];

	if (argc > 1) {
		serve_dir = argc > 2 ? argv[2] : NULL;
		(void)fcntl(TELL_FD, F_SETFD, FD_CLOEXEC);
		/* Its report is ours to make. */
		(void)unsetenv("CMOCKA_MESSAGE_OUTPUT");
		(void)freopen("/dev/null", "w", stdout);
		return cmocka_run_group_tests(server, NULL, NULL);
	}
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	sbx_libexec(libexec, sizeof(libexec));
	(void)setenv("SLUICE_LIBEXEC", libexec, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
