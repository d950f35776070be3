/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user */
/* Starting the helpers: who the server becomes, what is refused and in which
 * words, that nothing is left of a start that failed; the doctor; and what is
 * said where user namespaces are refused. */
#include "base/fd.h"
#include "base/str.h"
#include "t_sbx.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[128], state_dir[256];

static unsigned
open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

/* helpers_start must fail, say this, and leave nothing. */
static void
fails(const struct helpers_conf *hc, const char *want)
{
	unsigned fds = open_fds();
	struct sli_errinfo ei = {0};
	struct helpers h;

	assert_int_not_equal(helpers_start(hc, &h, &ei), SLI_OK);
	if (!strstr(ei.text, want))
		fail_msg("\"%s\" does not say \"%s\"", ei.text, want);
	assert_int_equal(open_fds(), fds);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static int
is_root(void)
{
	return geteuid() == 0;
}

static void
test_bad_state_dir(void **state)
{
	char path[300];

	(void)state;
	fails(&(struct helpers_conf){.state_dir = "relative"}, "absolute");
	sli_snprintf(path, sizeof(path), "%s/file", dir);
	assert_int_equal(
	    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)), 0);
	fails(&(struct helpers_conf){.state_dir = path}, "cannot be");
	sli_snprintf(path, sizeof(path), "%s/link", dir);
	assert_int_equal(symlink(dir, path), 0);
	fails(&(struct helpers_conf){.state_dir = path}, "cannot be opened");
}

static void
test_bad_user(void **state)
{
	struct helpers_conf hc = {.state_dir = state_dir};

	(void)state;
	if (!is_root())
		return;
	hc.user = "no-such-account";
	fails(&hc, "no account no-such-account");
	hc.user = "root";
	fails(&hc, "does not run as root or nobody");
	hc.user = "nobody";
	fails(&hc, "does not run as root or nobody");
}

static void
test_foreign_state_dir(void **state)
{
	char path[300], file[320];
	struct helpers_conf hc = {.state_dir = path};

	(void)state;
	if (!is_root())
		return;
	sli_snprintf(path, sizeof(path), "%s/foreign", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chown(path, 4321, 4321), 0);
	sli_snprintf(file, sizeof(file), "%s/x", path);
	assert_int_equal(
	    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644)), 0);
	fails(&hc, "belongs to uid 4321");
}

static void
test_unreachable_state_dir(void **state)
{
	char path[300], below[320];
	struct helpers_conf hc = {.state_dir = below};

	(void)state;
	if (!is_root())
		return;
	sli_snprintf(path, sizeof(path), "%s/closed", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	sli_snprintf(below, sizeof(below), "%s/state", path);
	fails(&hc, "chmod o+x");
}

/* Programs in place of the helpers that die, or say why they cannot start. */
static void
test_helper_that_fails(void **state)
{
	struct helpers_conf hc = {.state_dir = state_dir};
	char libexec[2100], path[300], file[320];

	(void)state;
	sbx_libexec(libexec, sizeof(libexec));
	(void)setenv("SLUICE_LIBEXEC", "/no/such/dir", 1);
	fails(&hc, "the helpers are not in");
	sli_snprintf(path, sizeof(path), "%s/libexec", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)setenv("SLUICE_LIBEXEC", path, 1);
	fails(&hc, "cannot be executed");
	sli_snprintf(file, sizeof(file), "%s/sluice-spawner", path);
	sbx_copy("/bin/false", file, 0755);
	sli_snprintf(file, sizeof(file), "%s/sluice-opener", path);
	sbx_copy("/bin/false", file, 0755);
	fails(&hc, "it died at once");
	/* the real ones, without the program of pid 1 */
	sli_snprintf(file, sizeof(file), "%s/sluice-spawner", libexec);
	sli_snprintf(state_dir, sizeof(state_dir), "%s/sluice-spawner", path);
	assert_int_equal(unlink(state_dir), 0);
	sbx_copy(file, state_dir, 0755);
	sli_snprintf(state_dir, sizeof(state_dir), "%s/state", dir);
	fails(&hc, "sluice-pid1 cannot be loaded");
	(void)setenv("SLUICE_LIBEXEC", libexec, 1);
}

/* The uid is remembered as the owner of the state directory. */
static void
test_uid_is_kept(void **state)
{
	struct helpers_conf hc = {.state_dir = state_dir};
	struct sli_errinfo ei = {0};
	struct helpers h;
	struct stat st;
	uid_t first = 0;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(helpers_start(&hc, &h, &ei), SLI_OK);
		assert_int_equal(stat(state_dir, &st), 0);
		assert_int_equal(st.st_uid, h.uid);
		assert_int_equal(st.st_mode & 07777, 0700);
		if (is_root())
			assert_in_range(h.uid, 61184, 65519);
		else
			assert_int_equal(h.uid, geteuid());
		if (i)
			assert_int_equal(h.uid, first);
		first = h.uid;
		helpers_stop(&h);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	}
}

static void
test_doctor(void **state)
{
	struct spawner_msg q = {SPAWNER_DOCTOR, sizeof(q), 7};
	static struct spawner_report rep;
	struct sli_errinfo ei = {0};
	unsigned i, kinds = 0;
	struct helpers_conf hc = {.state_dir = state_dir};
	struct sbx s = {0};
	long n;

	(void)state;
	assert_int_equal(helpers_start(&hc, &s.h, &ei), SLI_OK);
	assert_true(
	    sbx_recv(&s, &s.hello, sizeof(s.hello), NULL, NULL, 5000) > 0);
	assert_int_equal(
	    sli_fd_send(s.h.spawner_fd, &q, sizeof(q), NULL, 0), sizeof(q));
	n = sbx_recv(&s, &rep, sizeof(rep), NULL, NULL, 10000);
	assert_int_equal(rep.h.op, SPAWNER_REPORT);
	assert_int_equal(n, rep.h.len);
	assert_int_equal(n, offsetof(struct spawner_report, probes) +
				rep.n * sizeof(rep.probes[0]));
	for (i = 0; i < rep.n; i++) {
		const struct spawner_probe *p = &rep.probes[i];

		print_message("# %u %s: %s; %s\n", p->state, p->name, p->detail,
		    p->remedy);
		assert_true(p->name[0] && p->detail[0]);
		assert_int_equal(
		    p->state != SPAWNER_PROBE_OK, p->remedy[0] != 0);
		if (strcmp(p->name, "namespaces") == 0) {
			assert_int_equal(p->state, SPAWNER_PROBE_OK);
			kinds++;
		}
		kinds += strcmp(p->name, "seccomp") == 0 ||
			 strcmp(p->name, "cgroup.memory") == 0 ||
			 strcmp(p->name, "overlay") == 0;
	}
	assert_int_equal(kinds, 4);
	helpers_stop(&s.h);
}

/* --- where user namespaces are refused
 * ------------------------------------------*/

/* This program again, as an ordinary user of a user namespace in which the
 * kernel allows no further one. */
static void
refused(void **state)
{
	struct spawner_failed f = {.sys = 0};
	struct sbx_vm vm;
	struct sbx s;

	(void)state;
	sbx_start_helpers(&s);
	assert_int_equal(sbx_create(&s, NULL, &vm, &f), ENOSPC);
	assert_string_equal(f.step, "clone");
	assert_non_null(
	    strstr(f.text, "sudo sysctl -w user.max_user_namespaces="));
	sbx_stop(&s);
}

static void
enter_and_run(int go)
{
	char c;

	if (unshare(CLONE_NEWUSER) < 0 || write(go, "u", 1) != 1 ||
	    read(go, &c, 1) != 1 || setgroups(0, NULL) < 0 ||
	    setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ||
	    sli_fd_write_file(
		AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0") < 0 ||
	    setresgid(1, 1, 1) < 0 || setresuid(1, 1, 1) < 0)
		_exit(9);
	(void)execl(
	    "/proc/self/exe", "test_sbx_helpers", "refused", (char *)NULL);
	_exit(9);
}

static void
test_namespaces_refused(void **state)
{
	char path[64], c;
	int sp[2], st = 0;
	pid_t p;

	(void)state;
	if (!is_root())
		return;
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sp), 0);
	p = fork();
	if (p == 0)
		enter_and_run(sp[1]);
	assert_int_equal(read(sp[0], &c, 1), 1);
	sli_snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)p);
	assert_int_equal(
	    sli_fd_write_file(AT_FDCWD, path, "0 0 1\n1 12345 1"), 0);
	sli_snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)p);
	assert_int_equal(
	    sli_fd_write_file(AT_FDCWD, path, "0 0 1\n1 12345 1"), 0);
	assert_int_equal(write(sp[0], "g", 1), 1);
	assert_int_equal(waitpid(p, &st, 0), p);
	assert_int_equal(st, 0);
	(void)close(sp[0]);
	(void)close(sp[1]);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

static int
setup(void **state)
{
	(void)state;
	sli_strlcpy(dir, "/tmp/sluice-sbx-XXXXXX", sizeof(dir));
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0711), 0);
	sli_snprintf(state_dir, sizeof(state_dir), "%s/state", dir);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_bad_state_dir),
	    cmocka_unit_test(test_bad_user),
	    cmocka_unit_test(test_foreign_state_dir),
	    cmocka_unit_test(test_unreachable_state_dir),
	    cmocka_unit_test(test_helper_that_fails),
	    cmocka_unit_test(test_uid_is_kept),
	    cmocka_unit_test(test_doctor),
	    cmocka_unit_test(test_namespaces_refused),
	};
	const struct CMUnitTest again[] = {cmocka_unit_test(refused)};
	char libexec[2100];

	if (argc > 1 && strcmp(argv[1], "refused") == 0) {
		(void)unsetenv("CMOCKA_MESSAGE_OUTPUT");
		(void)freopen("/dev/null", "w", stdout);
		return cmocka_run_group_tests(again, NULL, NULL);
	}
	sbx_libexec(libexec, sizeof(libexec));
	(void)setenv("SLUICE_LIBEXEC", libexec, 1);
	return cmocka_run_group_tests(tests, setup, teardown);
}
