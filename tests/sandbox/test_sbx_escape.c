/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user */
/* A VM reaches nothing it was not given: guest_esc tries, as the VM's root and
 * as another user; then the same things are looked at from outside. */
#include "base/fd.h"
#include "base/str.h"
#include "t_sbx.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define TRIES_MIN 100

static struct sbx box;
static struct sbx_vm vm;
static struct sbx_result r;
static char abstract_name[64], port[16];

/* Something on the host that the VM must not reach. */
static void
listen_on_host(void)
{
	struct sockaddr_un u = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);
	size_t n;
	int s;

	sli_snprintf(abstract_name, sizeof(abstract_name), "sluice-test-%d",
	    (int)getpid());
	n = strlen(abstract_name);
	memcpy(u.sun_path + 1, abstract_name, n);
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(
	    bind(s, (struct sockaddr *)&u,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)),
	    0);
	assert_int_equal(listen(s, 1), 0);
	s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(s, 1), 0);
	assert_int_equal(getsockname(s, (struct sockaddr *)&in, &len), 0);
	sli_snprintf(port, sizeof(port), "%u", ntohs(in.sin_port));
}

static void
all_refused(uint32_t uid)
{
	const char *argv[] = {
	    "/mnt/t/guest_esc", abstract_name, port, "/mnt/t", NULL};
	unsigned long tried;
	char *end;

	sbx_run_as(&vm, uid, argv, &r);
	if (strstr(r.out, "ALLOWED") || r.status != 0)
		fail_msg("uid %u, status %d, signal %d:\n%s", uid, r.status,
		    r.signal, r.out);
	end = strstr(r.out, " tried, 0 allowed\n");
	assert_non_null(end);
	while (end > r.out && end[-1] != '\n')
		end--;
	tried = strtoul(end, NULL, 10);
	print_message("# %lu attempts as uid %u, all refused\n", tried, uid);
	assert_true(tried >= TRIES_MIN);
}

static void
test_as_root(void **state)
{
	(void)state;
	all_refused(0);
}

static void
test_as_user(void **state)
{
	(void)state;
	if (!box.h.privileged)
		return;
	sbx_sh(&vm, "chmod 755 /root", &r);
	all_refused(1000);
}

/* pid 1 and its children, as the host sees them. */
static void
test_seen_from_outside(void **state)
{
	char path[64], text[8192], *p;
	uint32_t id;
	static const char *const argv[] = {"sleep", "300", NULL};
	struct guest_event ev;
	unsigned base = vm.c.uid_base;
	char want[64];

	(void)state;
	id = sbx_exec(&vm, 0, "/", argv, 2);
	assert_true(sbx_event(&vm, &ev, 5000));
	assert_int_equal(ev.op, GUEST_STARTED);
	sli_snprintf(path, sizeof(path), "/proc/%d/status", vm.c.pid);
	assert_true(sli_fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0);
	sli_snprintf(want, sizeof(want), "Uid:\t%u\t%u\t%u\t%u\n", base, base,
	    base, base);
	assert_non_null(strstr(text, want));
	assert_non_null(strstr(text, "NoNewPrivs:\t1\n"));
	assert_non_null(strstr(text, "Seccomp:\t2\n"));
	/* chown dac_override fowner fsetid kill setgid setuid setpcap
	 * net_bind_service sys_chroot setfcap, and no other */
	assert_non_null(strstr(text, "CapBnd:\t00000000800405fb\n"));
	assert_non_null(strstr(text, "CapEff:\t00000000800405fb\n"));
	assert_non_null(strstr(text, "CapInh:\t0000000000000000\n"));
	p = strstr(text, "PPid:\t");
	assert_non_null(p);
	assert_int_equal(strtol(p + 6, NULL, 10), getpid());
	if (box.h.privileged)
		assert_in_range(
		    base, 1000000, 1000000 + 65536u * SPAWNER_VMS_MAX - 1);
	sbx_kill(&vm, GUEST_KILL_TREE, id, 0);
	assert_true(sbx_event(&vm, &ev, 5000));
	assert_true(sbx_event(&vm, &ev, 5000));
	assert_int_equal(ev.op, GUEST_CLOSED);
}

/* What a guest leaves on its disk is nowhere on the host; the lower files that
 * it sees are unchanged. */
static void
test_host_files_unchanged(void **state)
{
	struct stat a, b;

	(void)state;
	assert_int_equal(stat("/etc/ld.so.cache", &a), 0);
	sbx_sh(&vm,
	    "echo x >/etc/ld.so.cache; rm -rf /etc/alternatives/* /usr/bin/true"
	    " /etc/ssl/certs/* /opt/sluice/bin/* 2>/dev/null; "
	    "ls /etc/alternatives | wc -l | awk '{print ($1 > 0)}'; ls "
	    "/usr/bin/true",
	    &r);
	assert_string_equal(r.out, "1\n/usr/bin/true\n");
	assert_int_equal(stat("/etc/ld.so.cache", &b), 0);
	assert_int_equal(a.st_size, b.st_size);
	assert_int_equal(a.st_mtim.tv_sec, b.st_mtim.tv_sec);
}

/* Two VMs share nothing. */
static void
test_vms_apart(void **state)
{
	struct sbx_vm other;

	(void)state;
	assert_int_equal(sbx_create(&box, NULL, &other, NULL), 0);
	if (box.h.privileged)
		assert_int_not_equal(other.c.uid_base, vm.c.uid_base);
	sbx_sh(&vm, "echo mine >/tmp/mine; echo mine >/dev/shm/mine", &r);
	sbx_sh(&other,
	    "cat /tmp/mine /dev/shm/mine 2>/dev/null; ps ax | "
	    "grep -c '[g]uest_probe'; ls /proc/net/unix >/dev/null; "
	    "grep -c . /proc/net/unix",
	    &r);
	assert_string_equal(r.out, "0\n1\n");
	sbx_delete(&box, &other);
}

static int
setup(void **state)
{
	(void)state;
	listen_on_host();
	sbx_start(&box);
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
	    cmocka_unit_test(test_as_root),
	    cmocka_unit_test(test_as_user),
	    cmocka_unit_test(test_seen_from_outside),
	    cmocka_unit_test(test_host_files_unchanged),
	    cmocka_unit_test(test_vms_apart),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
