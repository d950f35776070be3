/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user */
/* What a VM sees of the host and may write; which mounts are admitted; paths
 * through the opener. */
#include "base/fd.h"
#include "base/str.h"
#include "t_sbx.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sbx box;
static struct sbx_vm vm;
static struct sbx_result r;

static void
says(const char *script, const char *want)
{
	sbx_sh(&vm, script, &r);
	assert_string_equal(r.out, want);
}

/* --- the root -------------------------------------------------------------*/

static void
test_root_writes(void **state)
{
	(void)state;
	says("for d in / /etc /root /home /var /opt /srv /tmp /run /dev/shm "
	     "/var/tmp /mnt /usr /usr/local /etc/ssl/certs /proc/sys; do "
	     "touch $d/.w 2>/dev/null && echo -n \"$d \"; done; echo",
	    "/ /etc /root /home /var /opt /srv /tmp /run /dev/shm /var/tmp "
	    "/mnt \n");
	says("echo x >>/etc/group && tail -1 /etc/group; "
	     "rm /etc/resolv.conf && echo gone",
	    "x\ngone\n");
}

/* Nothing of the host but what the skeleton names. */
static void
test_host_is_not_there(void **state)
{
	char script[600];

	(void)state;
	says("ls -d /etc/shadow /etc/ssl/private /etc/gshadow /root/.ssh "
	     "/boot /var/log/* 2>/dev/null; echo done",
	    "done\n");
	says("cut -d: -f1 /etc/passwd | tr '\\n' ' '",
	    "root daemon bin sys mail www-data user nobody ");
	sli_snprintf(
	    script, sizeof(script), "ls -d %s 2>/dev/null; echo no", box.dir);
	says(script, "no\n");
	/* no mount above the VM's own root, no host path in the table */
	says("awk '$5 == \"/\" {print $8}' /proc/self/mountinfo | sort | uniq",
	    "tmpfs\n");
	says("ls /proc | grep -c '^[0-9]*$' | awk '{print ($1 < 10)}'", "1\n");
}

static void
test_programs_run(void **state)
{
	(void)state;
	says("echo 'int main(void){return 42;}' >/tmp/a.c && "
	     "cd /tmp && export PATH && gcc a.c && ./a.out; echo $?",
	    "42\n");
	says("hostname; cat /etc/hostname; getent hosts localhost | wc -l",
	    "test-vm\ntest-vm\n1\n");
	says("git --version | cut -d' ' -f1; python3 -c 'import ssl; "
	     "print(len(ssl.create_default_context().get_ca_certs()) > 0)'",
	    "git\nTrue\n");
}

static void
test_devices(void **state)
{
	(void)state;
	says("ls /dev | tr '\\n' ' '",
	    "fd full null ptmx pts random shm stderr stdin stdout tty urandom "
	    "zero ");
	says("head -c 3 /dev/zero | od -An -c; echo x >/dev/null && "
	     "echo x >/dev/full 2>/dev/null || echo full",
	    "  \\0  \\0  \\0\nfull\n");
	says("python3 -c 'import pty, os; m, s = pty.openpty(); "
	     "print(os.ttyname(s))'",
	    "/dev/pts/0\n");
}

static void
test_users(void **state)
{
	(void)state;
	says("touch /tmp/u; chown 1000:1000 /tmp/u 2>/dev/null && "
	     "stat -c %u:%g /tmp/u /home/user || echo one uid",
	    box.h.privileged ? "1000:1000\n1000:1000\n" : "one uid\n");
}

/* --- mounts ---------------------------------------------------------------*/

static void
test_mount_is_read_only(void **state)
{
	(void)state;
	says("cat /mnt/t/file; touch /mnt/t/new 2>/dev/null || echo ro; "
	     "(echo x >/mnt/t/file) 2>/dev/null || echo ro; mount -o "
	     "remount,rw /mnt/t "
	     "2>/dev/null || echo fixed; "
	     "grep ' /mnt/t ' /proc/mounts | grep -o 'ro,nosuid,nodev'",
	    "hello\nro\nro\nfixed\nro,nosuid,nodev\n");
}

/* A setuid program of the host is an ordinary one in the VM. */
static void
test_mount_is_nosuid(void **state)
{
	(void)state;
	says("stat -c %A /mnt/t/suid | cut -c4; /mnt/t/suid -u", "s\n0\n");
	if (box.h.privileged) {
		static const char *const argv[] = {"/mnt/t/suid", "-u", NULL};

		sbx_sh(&vm, "chmod 755 /root", &r);
		sbx_run_as(&vm, 1000, argv, &r);
		assert_string_equal(r.out, "1000\n");
	}
}

static void
refused(const char *source, const char *target, int err)
{
	struct sbx_mount m = {source, target};
	struct sbx_spec spec = {.mounts = &m, .nmounts = 1};
	struct spawner_failed f = {.sys = 0};
	struct sbx_vm none;
	int got;

	got = sbx_create(&box, &spec, &none, &f);
	if (got != err || strcmp(f.step, "mount") != 0)
		fail_msg("%s at %s: errno %d, step %s: %s", source, target, got,
		    f.step, f.text);
	assert_true(f.text[0] != 0);
}

static void
test_mounts_refused(void **state)
{
	char path[400];

	(void)state;
	refused("/", "/host", EACCES);
	refused("/etc", "/host", EACCES);
	refused("/etc/shadow", "/host", EACCES);
	refused("/proc", "/host", EACCES);
	refused("/sys", "/host", EACCES);
	refused("relative", "/host", EINVAL);
	refused("/no/such/path", "/host", ENOENT);
	sli_snprintf(path, sizeof(path), "%s", box.dir);
	refused(path, "/host", EACCES);
	sli_snprintf(path, sizeof(path), "%s/state", box.dir);
	refused(path, "/host", EACCES);
	/* out of what is allowed by symlink, by .., by a like name */
	sli_snprintf(path, sizeof(path), "%s/out", box.allowed);
	refused(path, "/host", EACCES);
	sli_snprintf(path, sizeof(path), "%s/../state", box.allowed);
	refused(path, "/host", EACCES);
	sli_snprintf(path, sizeof(path), "%s-not", box.allowed);
	refused(path, "/host", EACCES);
	sli_snprintf(path, sizeof(path), "%s/pipe", box.allowed);
	refused(path, "/host", ENOTDIR);
}

static void
test_targets_refused(void **state)
{
	static const char *const bad[] = {"/", "host", "/proc", "/proc/x",
	    "/dev/shm", "/sys", "/usr/x", "/a/../b", "/a/./b", "/a//b", "/a/",
	    "/opt/sluice/bin"};
	size_t i;

	(void)state;
	for (i = 0; i < SLI_ARRAY_LEN(bad); i++)
		refused(box.allowed, bad[i], EINVAL);
	/* through the VM's own links into what is read-only */
	refused(box.allowed, "/bin/x", EROFS);
}

static void
test_file_and_deep_target(void **state)
{
	char file[400];
	struct sbx_mount m[2] = {
	    {file,        "/srv/a/b/c"},
            {box.allowed, "/srv/d"    }
        };
	struct sbx_spec spec = {.mounts = m, .nmounts = 2};
	struct sbx_vm other;

	(void)state;
	sli_snprintf(file, sizeof(file), "%s/file", box.allowed);
	assert_int_equal(sbx_create(&box, &spec, &other, NULL), 0);
	sbx_sh(&other, "cat /srv/a/b/c /srv/d/file", &r);
	assert_string_equal(r.out, "hello\nhello\n");
	sbx_delete(&box, &other);
}

/* What the asking user cannot read himself is not shown to his VM. */
static void
test_mount_with_the_rights_of_the_peer(void **state)
{
	char path[400];
	struct sbx_mount m = {path, "/srv/d"};
	struct sbx_spec spec = {.mounts = &m, .nmounts = 1};
	struct sbx_vm other;

	(void)state;
	if (!box.h.privileged)
		return;
	sli_snprintf(path, sizeof(path), "%s/closed", box.allowed);
	spec.peer_uid = spec.peer_gid = 54321;
	assert_int_equal(
	    sbx_create(&box, &spec, &other, &(struct spawner_failed){.sys = 0}),
	    EACCES);
	spec.peer_uid = spec.peer_gid = 0;
	assert_int_equal(sbx_create(&box, &spec, &other, NULL), 0);
	sbx_delete(&box, &other);
}

/* --- the opener -----------------------------------------------------------*/

static struct opener_reply reply;

static int
ask(uint32_t op, const char *path, char *text, int *fd)
{
	sbx_open(
	    &box, op, vm.c.handle, path, &reply, text, OPENER_PATH_MAX, fd);
	return reply.sys;
}

static void
test_opener_opens(void **state)
{
	char b[16] = {0};
	int fd;

	(void)state;
	says(
	    "umask 077; echo secret >/root/s; chmod 600 /root/s; "
	    "ln -sf /root/s /tmp/link; ln -sf ../../../../etc/hostname /tmp/up;"
	    "ln -sf / /tmp/slash; mkfifo /tmp/fifo; mkdir /tmp/dir; echo ok",
	    "ok\n");
	assert_int_equal(ask(OPENER_OPEN, "/root/s", NULL, &fd), 0);
	assert_int_equal(read(fd, b, sizeof(b)), 7);
	assert_string_equal(b, "secret\n");
	assert_true(write(fd, "x", 1) < 0);
	sli_fd_close(&fd);
	assert_int_equal(ask(OPENER_OPEN, "/tmp/link", NULL, &fd), 0);
	sli_fd_close(&fd);
	assert_int_equal(ask(OPENER_OPEN, "/tmp/dir", NULL, &fd), 0);
	sli_fd_close(&fd);
	assert_int_equal(ask(OPENER_OPEN, "/mnt/t/file", NULL, &fd), 0);
	sli_fd_close(&fd);
}

static void
test_opener_stays_inside(void **state)
{
	char b[64] = {0}, path[OPENER_PATH_MAX];
	int fd;

	(void)state;
	assert_int_equal(
	    ask(OPENER_OPEN, "/tmp/up/../../../../../../etc/hostname", NULL,
		&fd),
	    ENOTDIR);
	assert_int_equal(ask(OPENER_OPEN, "/tmp/up", NULL, &fd), 0);
	assert_int_equal(read(fd, b, sizeof(b)), 8);
	assert_string_equal(b, "test-vm\n");
	sli_fd_close(&fd);
	assert_int_equal(ask(OPENER_REALPATH,
			     "/tmp/slash/../tmp/slash/root/./s", path, NULL),
	    0);
	assert_string_equal(path, "/root/s");
	assert_int_equal(
	    ask(OPENER_OPEN, "/../../../../../../../etc/shadow", NULL, NULL),
	    ENOENT);
}

static void
test_opener_refuses(void **state)
{
	static const char *const eperm[] = {"/proc/meminfo", "/proc",
	    "/proc/sys/kernel/hostname", "/tmp/fifo", "/dev/null", "/dev/tty",
	    "/dev/pts/ptmx"};
	size_t i;

	(void)state;
	for (i = 0; i < SLI_ARRAY_LEN(eperm); i++)
		assert_int_equal(ask(OPENER_OPEN, eperm[i], NULL, NULL), EPERM);
	assert_int_not_equal(
	    ask(OPENER_OPEN, "/proc/1/root/etc/passwd", NULL, NULL), 0);
	assert_int_equal(ask(OPENER_OPEN, "/none", NULL, NULL), ENOENT);
	assert_int_equal(ask(OPENER_OPEN, "none", NULL, NULL), EBADMSG);
}

static void
test_opener_stats(void **state)
{
	(void)state;
	assert_int_equal(ask(OPENER_STAT, "/root/s", NULL, NULL), 0);
	assert_int_equal(reply.st.size, 7);
	assert_int_equal(reply.st.mode, S_IFREG | 0600);
	assert_int_equal(reply.st.uid, 0);
	assert_int_equal(ask(OPENER_STAT, "/tmp/link", NULL, NULL), 0);
	assert_true(S_ISLNK(reply.st.mode));
	assert_int_equal(ask(OPENER_STAT, "/tmp/fifo", NULL, NULL), 0);
	assert_true(S_ISFIFO(reply.st.mode));
}

static void
test_opener_other_handles(void **state)
{
	struct sbx_vm other;

	(void)state;
	sbx_open(&box, OPENER_STAT, 0, "/", &reply, NULL, 0, NULL);
	assert_int_equal(reply.sys, ENOENT);
	assert_string_equal(reply.step, "handle");
	sbx_open(&box, OPENER_STAT, UINT64_MAX, "/", &reply, NULL, 0, NULL);
	assert_int_equal(reply.sys, ENOENT);
	assert_int_equal(sbx_create(&box, NULL, &other, NULL), 0);
	sbx_open(&box, OPENER_STAT, other.c.handle, "/", &reply, NULL, 0, NULL);
	assert_int_equal(reply.sys, 0);
	sbx_open(&box, OPENER_STAT, other.c.handle, "/root/s", &reply, NULL, 0,
	    NULL);
	assert_int_equal(reply.sys, ENOENT);
	sbx_delete(&box, &other);
	sbx_open(&box, OPENER_STAT, other.c.handle, "/", &reply, NULL, 0, NULL);
	assert_int_equal(reply.sys, ENOENT);
	assert_string_equal(reply.step, "handle");
}

/* --- set-up ---------------------------------------------------------------*/

static void
prepare_allowed(void)
{
	char path[400];
	int fd;

	sli_snprintf(path, sizeof(path), "%s/file", box.allowed);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, "hello\n", 6), 6);
	assert_int_equal(fchmod(fd, 0644), 0);
	sli_fd_close(&fd);
	sli_snprintf(path, sizeof(path), "%s/out", box.allowed);
	assert_int_equal(symlink("/etc", path), 0);
	sli_snprintf(path, sizeof(path), "%s/pipe", box.allowed);
	assert_int_equal(mkfifo(path, 0644), 0);
	sli_snprintf(path, sizeof(path), "%s/closed", box.allowed);
	assert_int_equal(mkdir(path, 0700), 0);
	sli_snprintf(path, sizeof(path), "%s-not", box.allowed);
	assert_int_equal(mkdir(path, 0755), 0);
	sli_snprintf(path, sizeof(path), "%s/suid", box.allowed);
	sbx_copy("/usr/bin/id", path, 04755);
}

static int
setup(void **state)
{
	(void)state;
	sbx_start_helpers(&box);
	prepare_allowed();
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
	    cmocka_unit_test(test_root_writes),
	    cmocka_unit_test(test_host_is_not_there),
	    cmocka_unit_test(test_programs_run),
	    cmocka_unit_test(test_devices),
	    cmocka_unit_test(test_users),
	    cmocka_unit_test(test_mount_is_read_only),
	    cmocka_unit_test(test_mount_is_nosuid),
	    cmocka_unit_test(test_mounts_refused),
	    cmocka_unit_test(test_targets_refused),
	    cmocka_unit_test(test_file_and_deep_target),
	    cmocka_unit_test(test_mount_with_the_rights_of_the_peer),
	    cmocka_unit_test(test_opener_opens),
	    cmocka_unit_test(test_opener_stays_inside),
	    cmocka_unit_test(test_opener_refuses),
	    cmocka_unit_test(test_opener_stats),
	    cmocka_unit_test(test_opener_other_handles),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
