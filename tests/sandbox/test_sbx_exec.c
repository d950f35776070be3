/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user */
/* Commands in a VM, through the real pid 1: how they fail to start, what they
 * inherit, how they end, how they and all they leave are killed; and what pid
 * 1 does with bad requests. */
#include "base/fd.h"
#include "t_sbx.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sbx box;
static struct sbx_vm vm;
static struct sbx_result r;

static void
run(const char *a, const char *b, const char *c)
{
	const char *argv[] = {a, b, c, NULL};

	sbx_run_as(&vm, 0, argv, &r);
}

static void
refused(int step, int err)
{
	assert_int_equal(r.step, step);
	assert_int_equal(r.err, err);
	assert_int_equal(r.status, -1);
}

/* --- starting -------------------------------------------------------------*/

static void
test_not_found(void **state)
{
	(void)state;
	run("no-such-program", NULL, NULL);
	refused(GUEST_STEP_EXEC, ENOENT);
	run("/no/such/program", NULL, NULL);
	refused(GUEST_STEP_EXEC, ENOENT);
	run("", NULL, NULL);
	refused(GUEST_STEP_EXEC, ENOENT);
}

static void
test_not_executable(void **state)
{
	(void)state;
	run("/etc/passwd", NULL, NULL);
	refused(GUEST_STEP_EXEC, EACCES);
	run("/etc", NULL, NULL);
	refused(GUEST_STEP_EXEC, EACCES);
	sbx_sh(&vm,
	    "printf 'no magic' >/usr/local/x 2>/dev/null; mkdir -p /opt/b && "
	    "printf 'no magic' >/opt/b/x && chmod 755 /opt/b/x",
	    &r);
	assert_int_equal(r.status, 0);
	run("/opt/b/x", NULL, NULL);
	refused(GUEST_STEP_EXEC, ENOEXEC);
}

static void
test_bad_cwd(void **state)
{
	static const char *const argv[] = {"true", NULL};
	struct guest_event ev;
	uint32_t id;

	(void)state;
	id = sbx_exec(&vm, 0, "/no/such/dir", argv, 2);
	assert_true(sbx_event(&vm, &ev, 5000));
	assert_int_equal(ev.op, GUEST_ERR);
	assert_int_equal(ev.id, id);
	assert_int_equal(ev.a, GUEST_STEP_CWD);
	assert_int_equal(ev.b, ENOENT);
}

static void
test_other_user(void **state)
{
	static const char *const argv[] = {"id", "-u", NULL};

	(void)state;
	sbx_run_as(&vm, 1000, argv, &r);
	if (box.h.privileged)
		refused(GUEST_STEP_CWD, EACCES); /* /root is root's */
	else
		refused(GUEST_STEP_USER, EPERM);
	sbx_sh(&vm, "chmod 755 /root", &r);
	sbx_run_as(&vm, 1000, argv, &r);
	if (box.h.privileged)
		assert_string_equal(r.out, "1000\n");
}

static void
test_path_search(void **state)
{
	(void)state;
	/* libexec/sluice/guest is in the PATH of a command without PATH */
	sbx_sh(&vm, "ls /opt/sluice/bin", &r);
	assert_non_null(strstr(r.out, "sluice-agent-shell"));
	run("true", NULL, NULL);
	assert_int_equal(r.status, 0);
}

static void
test_inherits_nothing(void **state)
{
	(void)state;
	run("/mnt/t/guest_probe", "self", NULL);
	assert_string_equal(
	    r.out, "fds 3 blocked 0 ignored 0 leader 1 umask 22\n");
	sbx_sh(&vm, "env | sort | grep -v -e ^PWD -e ^SHLVL -e ^_", &r);
	assert_string_equal(r.out, "HOME=/root\nLANG=C.UTF-8\n");
}

/* --- ending ---------------------------------------------------------------*/

static void
test_exit_status(void **state)
{
	(void)state;
	sbx_sh(&vm, "echo out; echo err >&2; exit 7", &r);
	assert_string_equal(r.out, "out\nerr\n");
	assert_int_equal(r.status, 7);
	assert_int_equal(r.signal, 0);
	assert_int_equal(r.closed, 1);
	sbx_sh(&vm, "kill -SEGV $$", &r);
	assert_int_equal(r.signal, SIGSEGV);
}

static uint32_t
start(const char *script)
{
	const char *argv[] = {"sh", "-c", script, NULL};
	int nul = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct guest_event ev;
	uint32_t id;

	id = sbx_exec(&vm, 0, "/root", argv, nul);
	sli_fd_close(&nul);
	assert_true(sbx_event(&vm, &ev, 5000));
	assert_int_equal(ev.op, GUEST_STARTED);
	assert_int_equal(ev.id, id);
	assert_true(ev.a > 1);
	return id;
}

static void
expect(uint32_t id, uint32_t op, int b)
{
	struct guest_event ev;

	assert_true(sbx_event(&vm, &ev, 10000));
	assert_int_equal(ev.id, id);
	assert_int_equal(ev.op, op);
	if (op == GUEST_EXIT)
		assert_int_equal(ev.b, b);
}

static void
test_exit_before_closed(void **state)
{
	struct guest_event ev;
	uint32_t id;

	(void)state;
	id = start("sleep 300 & exit 0");
	expect(id, GUEST_EXIT, 0);
	/* the sleep lives on: nothing more comes */
	assert_false(sbx_event(&vm, &ev, 100));
	sbx_kill(&vm, GUEST_KILL_TREE, id, 0);
	expect(id, GUEST_CLOSED, 0);
}

static void
test_kill_process_only(void **state)
{
	uint32_t id;

	(void)state;
	id = start("sleep 300 & wait");
	sbx_sh(&vm, "until pidof sleep; do :; done", &r);
	sbx_kill(&vm, GUEST_KILL, id, SIGTERM);
	expect(id, GUEST_EXIT, SIGTERM);
	sbx_sh(&vm, "pidof sleep >/dev/null && echo lives", &r);
	assert_string_equal(r.out, "lives\n");
	sbx_kill(&vm, GUEST_KILL_TREE, id, 0);
	expect(id, GUEST_CLOSED, 0);
	/* unknown by now: ignored */
	sbx_kill(&vm, GUEST_KILL, id, SIGTERM);
	sbx_kill(&vm, GUEST_KILL_TREE, 424242, 0);
	run("true", NULL, NULL);
	assert_int_equal(r.status, 0);
}

static long
file_size(const char *path)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "stat -c %%s %s", path);
	sbx_sh(&vm, cmd, &r);
	return strtol(r.out, NULL, 10);
}

static void
test_kill_tree_of_daemon(void **state)
{
	uint32_t id;
	long size;

	(void)state;
	id = start("/mnt/t/guest_probe daemon /tmp/grows; exit 3");
	expect(id, GUEST_EXIT, 0);
	while (file_size("/tmp/grows") == 0)
		;
	sbx_kill(&vm, GUEST_KILL_TREE, id, 0);
	expect(id, GUEST_CLOSED, 0);
	size = file_size("/tmp/grows");
	(void)poll(NULL, 0, 50);
	assert_int_equal(file_size("/tmp/grows"), size);
}

static void
test_kill_tree_deaf_and_stopped(void **state)
{
	uint32_t a, b;

	(void)state;
	a = start("exec /mnt/t/guest_probe deaf");
	b = start("kill -STOP $$");
	sbx_kill(&vm, GUEST_KILL_TREE, a, 0);
	expect(a, GUEST_EXIT, SIGKILL);
	expect(a, GUEST_CLOSED, 0);
	sbx_kill(&vm, GUEST_KILL_TREE, b, 0);
	expect(b, GUEST_EXIT, SIGKILL);
	expect(b, GUEST_CLOSED, 0);
}

/* Processes that never stay: each generation forks the next and leaves. */
static void
test_kill_tree_of_hoppers(void **state)
{
	uint32_t id;

	(void)state;
	id = start("exec /mnt/t/guest_probe hop 3");
	(void)poll(NULL, 0, 50);
	sbx_kill(&vm, GUEST_KILL_TREE, id, 0);
	expect(id, GUEST_EXIT, SIGKILL);
	expect(id, GUEST_CLOSED, 0);
	sbx_sh(&vm, "pidof guest_probe", &r);
	assert_string_equal(r.out, "");
}

/* A guest that kills its shim hurts itself only. */
static void
test_guest_kills_shim(void **state)
{
	uint32_t a, b;

	(void)state;
	a = start("sleep 300");
	sbx_sh(&vm, "until pidof sleep; do :; done", &r);
	b = start("sleep 200 & (sleep 100 &) ; kill -9 $PPID; sleep 300");
	expect(b, GUEST_EXIT, SIGKILL);
	expect(b, GUEST_CLOSED, 0);
	sbx_sh(&vm, "pidof sleep | wc -w", &r);
	assert_string_equal(r.out, "1\n");
	sbx_sh(&vm, "kill -STOP $PPID & exit 0", &r);
	sbx_kill(&vm, GUEST_KILL_TREE, a, 0);
	expect(a, GUEST_EXIT, SIGKILL);
	expect(a, GUEST_CLOSED, 0);
}

static void
test_many_at_once(void **state)
{
	enum {
		MANY = 100
	};

	static const char *const argv[] = {"true", NULL};
	unsigned started = 0, ended = 0, closed = 0, i;
	struct guest_event ev;
	int nul = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	for (i = 0; i < MANY; i++)
		(void)sbx_exec(&vm, 0, "/", argv, nul);
	while (closed < MANY) {
		assert_true(sbx_event(&vm, &ev, 20000));
		started += ev.op == GUEST_STARTED;
		ended += ev.op == GUEST_EXIT && ev.a == 0 && ev.b == 0;
		closed += ev.op == GUEST_CLOSED;
	}
	assert_int_equal(started, MANY);
	assert_int_equal(ended, MANY);
	sli_fd_close(&nul);
	/* nothing stays behind, no zombie either: pid 1, shim, sh, ps */
	sbx_sh(&vm, "x=$(ps ax --no-headers); echo \"$x\" | wc -l", &r);
	assert_string_equal(r.out, "4\n");
}

/* --- bad requests ---------------------------------------------------------*/

static void
send_raw(const void *p, size_t n, int nfds)
{
	int fds[3] = {2, 2, 2};

	assert_int_equal(sli_fd_send(vm.ctl, p, n, fds, nfds), (long)n);
}

static void
bad_exec(
    const struct guest_exec *x, const char *text, size_t n, int nfds, int err)
{
	struct guest_event ev;
	char b[512];

	memcpy(b, x, sizeof(*x));
	memcpy(b + sizeof(*x), text, n);
	send_raw(b, sizeof(*x) + n, nfds);
	assert_true(sbx_event(&vm, &ev, 5000));
	assert_int_equal(ev.op, GUEST_ERR);
	assert_int_equal(ev.id, x->id);
	assert_int_equal(ev.a, GUEST_STEP_REQUEST);
	assert_int_equal(ev.b, err);
}

static void
test_bad_requests(void **state)
{
	static char big[GUEST_MSG_MAX + 100];
	struct guest_exec x = {.op = GUEST_EXEC, .id = 900000, .argc = 1};
	struct guest_event ev;
	uint32_t op = 77;

	(void)state;
	bad_exec(&x, "/\0true", 7, 2, EBADMSG);    /* a descriptor too few */
	bad_exec(&x, "/\0true", 6, 3, EBADMSG);    /* not terminated */
	bad_exec(&x, "/\0true\0x", 9, 3, EBADMSG); /* a string too many */
	bad_exec(&x, "/", 2, 3, EBADMSG);          /* one too few */
	x.argc = 0;
	bad_exec(&x, "/", 2, 3, EBADMSG);
	x.argc = GUEST_ARGC_MAX + 1;
	bad_exec(&x, "/\0true", 7, 3, EBADMSG);
	x.argc = 1;
	x.envc = 0xffffffffu;
	bad_exec(&x, "/\0true", 7, 3, EBADMSG);
	x.envc = 0;
	x.flags = 1;
	bad_exec(&x, "/\0true", 7, 3, EBADMSG);
	/* too short, too long, unknown, with descriptors: ignored */
	send_raw(&op, sizeof(op), 3);
	send_raw(big, sizeof(big), 0);
	memset(big, 77, 64);
	send_raw(big, 64, 1);
	assert_false(sbx_event(&vm, &ev, 100));
	run("/mnt/t/guest_probe", "self", NULL);
	assert_non_null(strstr(r.out, "fds 3 "));
}

static void
test_id_in_use(void **state)
{
	struct guest_exec x = {.op = GUEST_EXEC, .argc = 1};
	uint32_t id;

	(void)state;
	id = start("sleep 300");
	x.id = id;
	bad_exec(&x, "/\0true", 7, 3, EEXIST);
	sbx_kill(&vm, GUEST_KILL_TREE, id, 0);
	expect(id, GUEST_EXIT, SIGKILL);
	expect(id, GUEST_CLOSED, 0);
}

static void
test_ping(void **state)
{
	struct guest_event ev;

	(void)state;
	sbx_kill(&vm, GUEST_PING, 5, 0);
	assert_true(sbx_event(&vm, &ev, 5000));
	assert_int_equal(ev.op, GUEST_PONG);
	assert_int_equal(ev.id, 5);
}

/* The end of the control socket is the end of the VM. */
static void
test_eof_ends_vm(void **state)
{
	struct pollfd pf = {.events = POLLIN};
	struct sbx_vm other;

	(void)state;
	assert_int_equal(sbx_create(&box, NULL, &other, NULL), 0);
	sli_fd_close(&other.ctl);
	pf.fd = other.pidfd;
	assert_int_equal(poll(&pf, 1, 1000), 1);
	sbx_delete(&box, &other);
}

static int
setup(void **state)
{
	(void)state;
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
	    cmocka_unit_test(test_not_found),
	    cmocka_unit_test(test_not_executable),
	    cmocka_unit_test(test_bad_cwd),
	    cmocka_unit_test(test_other_user),
	    cmocka_unit_test(test_path_search),
	    cmocka_unit_test(test_inherits_nothing),
	    cmocka_unit_test(test_exit_status),
	    cmocka_unit_test(test_exit_before_closed),
	    cmocka_unit_test(test_kill_process_only),
	    cmocka_unit_test(test_kill_tree_of_daemon),
	    cmocka_unit_test(test_kill_tree_deaf_and_stopped),
	    cmocka_unit_test(test_kill_tree_of_hoppers),
	    cmocka_unit_test(test_guest_kills_shim),
	    cmocka_unit_test(test_many_at_once),
	    cmocka_unit_test(test_bad_requests),
	    cmocka_unit_test(test_id_in_use),
	    cmocka_unit_test(test_ping),
	    cmocka_unit_test(test_eof_ends_vm),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
