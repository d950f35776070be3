/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user */
/* Limits of a VM: each is reached from inside, holds, and is reported with the
 * way it is held. What this host cannot hold is asserted to be said. */
#include "base/fd.h"
#include "t_sbx.h"
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1024u * 1024)

static struct sbx box;
static struct sbx_result r;

static void
create(struct sbx_vm *vm, struct sbx_spec spec)
{
	struct sbx_mount m = {box.allowed, "/mnt/t"};

	spec.mounts = &m;
	spec.nmounts = 1;
	assert_int_equal(sbx_create(&box, &spec, vm, NULL), 0);
}

static int
missing(const struct sbx_vm *vm, unsigned what)
{
	return (vm->c.missing & what) != 0;
}

static void
test_disk(void **state)
{
	struct sbx_vm vm;

	(void)state;
	create(&vm, (struct sbx_spec){.disk = 8 * MIB});
	assert_int_equal(vm.c.enforced[SPAWNER_LIM_DISK], SPAWNER_ENF_TMPFS);
	/* all writable places are one disk */
	sbx_sh(&vm,
	    "dd if=/dev/zero of=/tmp/a bs=1M count=100 2>&1 | "
	    "grep -o 'No space left on device'; stat -c %s /tmp/a; "
	    "for d in /root /var /dev/shm /home; do "
	    "echo full >$d/x 2>/dev/null && test -s $d/x && echo WROTE $d; "
	    "done; rm /tmp/a; echo ok >/dev/shm/y && cat /dev/shm/y",
	    &r);
	assert_non_null(strstr(r.out, "No space left on device\n"));
	assert_null(strstr(r.out, "WROTE"));
	assert_non_null(strstr(r.out, "\nok\n"));
	sbx_delete(&box, &vm);
}

static void
test_inodes(void **state)
{
	struct sbx_vm vm;

	(void)state;
	create(&vm, (struct sbx_spec){.disk = 8 * MIB, .inodes = 500});
	sbx_sh(&vm,
	    "i=0; while [ $i -lt 600 ] && touch /tmp/f$i 2>/dev/null; do "
	    "i=$((i+1)); done; [ $i -gt 100 ] && [ $i -lt 500 ] && echo held",
	    &r);
	assert_string_equal(r.out, "held\n");
	sbx_delete(&box, &vm);
}

static void
test_pids(void **state)
{
	struct sbx_vm vm;
	long n;

	(void)state;
	create(&vm, (struct sbx_spec){.pids = 40});
	assert_int_equal(vm.c.enforced[SPAWNER_LIM_PIDS],
	    missing(&vm, SPAWNER_MISS_CGROUP_PIDS)
		? box.h.privileged ? SPAWNER_ENF_USER : SPAWNER_ENF_RLIMIT
		: SPAWNER_ENF_CGROUP);
	sbx_sh(&vm, "exec /mnt/t/guest_probe fork 1000", &r);
	assert_non_null(strstr(r.out, " errno 11"));
	n = strtol(strstr(r.out, "forked ") + 7, NULL, 10);
	assert_in_range(n, 30, 39);
	sbx_delete(&box, &vm);
}

static void
test_pids_of_all_users(void **state)
{
	struct sbx_vm vm;

	(void)state;
	create(&vm, (struct sbx_spec){.pids = 40});
	if (box.h.privileged && !missing(&vm, SPAWNER_MISS_CGROUP_PIDS)) {
		/* a uid of its own does not get around the limit */
		sbx_sh(&vm,
		    "for i in $(seq 30); do sleep 300 >/dev/null & p=\"$p "
		    "$!\"; "
		    "done; setpriv --reuid 1000 --clear-groups "
		    "/mnt/t/guest_probe fork 1000; kill $p",
		    &r);
		assert_non_null(strstr(r.out, "errno 11"));
		assert_true(strtol(strstr(r.out, "forked ") + 7, NULL, 10) < 9);
	}
	sbx_delete(&box, &vm);
}

static void
test_memory(void **state)
{
	union {
		struct spawner_msg h;
		struct spawner_oom oom;
		char b[1024];
	} m;
	struct sbx_vm vm;

	(void)state;
	create(&vm, (struct sbx_spec){.memory = 64 * MIB});
	sbx_sh(&vm, "/mnt/t/guest_probe eat 32", &r);
	assert_string_equal(r.out, "ate 32\n");
	sbx_sh(&vm, "exec /mnt/t/guest_probe eat 200", &r);
	if (missing(&vm, SPAWNER_MISS_CGROUP_MEMORY)) {
		assert_int_equal(
		    vm.c.enforced[SPAWNER_LIM_MEMORY], SPAWNER_ENF_PROCESS);
		assert_true(missing(&vm, SPAWNER_MISS_OOM_EVENTS));
		assert_string_equal(r.out, "refused 12\n");
	} else {
		assert_int_equal(
		    vm.c.enforced[SPAWNER_LIM_MEMORY], SPAWNER_ENF_CGROUP);
		assert_int_equal(r.signal, SIGKILL);
		assert_true(
		    sbx_recv(&box, m.b, sizeof(m.b), NULL, NULL, 5000) > 0);
		assert_int_equal(m.h.op, SPAWNER_OOM);
		assert_int_equal(m.oom.handle, vm.c.handle);
		assert_int_equal(m.oom.kills, 1);
	}
	/* the VM lives */
	sbx_sh(&vm, "echo alive", &r);
	assert_string_equal(r.out, "alive\n");
	sbx_delete(&box, &vm);
}

/* The disk is memory: filling it is bounded by both. */
static void
test_descriptors(void **state)
{
	struct sbx_vm vm;

	(void)state;
	create(&vm, (struct sbx_spec){.nofile = 100});
	sbx_sh(&vm, "exec /mnt/t/guest_probe fds", &r);
	assert_string_equal(r.out, "dups 97 errno 24\n");
	assert_int_equal(vm.c.enforced[SPAWNER_LIM_NOFILE], SPAWNER_ENF_RLIMIT);
	sbx_sh(&vm, "ulimit -c; ulimit -n 101 2>/dev/null || echo refused", &r);
	assert_string_equal(r.out, "0\nrefused\n");
	sbx_delete(&box, &vm);
}

static void
test_cpu(void **state)
{
	struct sbx_vm vm;

	(void)state;
	create(&vm, (struct sbx_spec){.cpu = 200});
	if (missing(&vm, SPAWNER_MISS_CGROUP_CPU)) {
		assert_int_equal(
		    vm.c.enforced[SPAWNER_LIM_CPU], SPAWNER_ENF_NONE);
	} else {
		assert_int_equal(
		    vm.c.enforced[SPAWNER_LIM_CPU], SPAWNER_ENF_CGROUP);
		/* 0.3 s of work at a fifth of a core takes over 0.9 s */
		sbx_sh(&vm,
		    "a=$(date +%s%N); timeout -s KILL 30 sh -c "
		    "'while [ $(cut -d\" \" -f14 /proc/self/stat) -ge 0 ] && "
		    "[ $(awk \"{print \\$14+\\$15+\\$16+\\$17}\" /proc/$$/stat)"
		    " -lt 30 ]; do :; done'; b=$(date +%s%N); "
		    "[ $(((b-a)/1000000)) -gt 900 ] && echo slowed",
		    &r);
		assert_string_equal(r.out, "slowed\n");
	}
	sbx_delete(&box, &vm);
}

static void
test_no_limits(void **state)
{
	struct sbx_vm vm;

	(void)state;
	create(&vm, (struct sbx_spec){0});
	assert_int_equal(vm.c.enforced[SPAWNER_LIM_MEMORY], SPAWNER_ENF_NONE);
	assert_int_equal(vm.c.enforced[SPAWNER_LIM_PIDS], SPAWNER_ENF_NONE);
	assert_int_equal(vm.c.enforced[SPAWNER_LIM_CPU], SPAWNER_ENF_NONE);
	assert_int_equal(missing(&vm, SPAWNER_MISS_SUBUID), !box.h.privileged);
	sbx_delete(&box, &vm);
}

static void
test_freeze(void **state)
{
	struct spawner_freeze m = {
	    .h = {SPAWNER_FREEZE, sizeof(m), 0},
              .frozen = 1
        };

	union {
		struct spawner_msg h;
		struct spawner_failed f;
		char b[1024];
	} a;
	struct guest_event ev;
	struct sbx_vm vm;

	(void)state;
	create(&vm, (struct sbx_spec){0});
	m.handle = vm.c.handle;
	m.h.req = ++box.req;
	assert_int_equal(
	    sli_fd_send(box.h.spawner_fd, &m, sizeof(m), NULL, 0), sizeof(m));
	assert_true(sbx_recv(&box, a.b, sizeof(a.b), NULL, NULL, 5000) > 0);
	if (missing(&vm, SPAWNER_MISS_CGROUP_FREEZER)) {
		assert_int_equal(a.h.op, SPAWNER_FAILED);
	} else {
		assert_int_equal(a.h.op, SPAWNER_FROZEN);
		sbx_kill(&vm, GUEST_PING, 1, 0);
		assert_false(sbx_event(&vm, &ev, 150));
		m.frozen = 0;
		m.h.req = ++box.req;
		assert_int_equal(
		    sli_fd_send(box.h.spawner_fd, &m, sizeof(m), NULL, 0),
		    sizeof(m));
		assert_true(sbx_event(&vm, &ev, 5000));
		assert_int_equal(ev.op, GUEST_PONG);
		/* and a frozen VM can be deleted */
		m.frozen = 1;
		m.h.req = ++box.req;
		assert_int_equal(
		    sli_fd_send(box.h.spawner_fd, &m, sizeof(m), NULL, 0),
		    sizeof(m));
	}
	sbx_delete(&box, &vm);
}

static int
setup(void **state)
{
	(void)state;
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
	    cmocka_unit_test(test_disk),
	    cmocka_unit_test(test_inodes),
	    cmocka_unit_test(test_pids),
	    cmocka_unit_test(test_pids_of_all_users),
	    cmocka_unit_test(test_memory),
	    cmocka_unit_test(test_descriptors),
	    cmocka_unit_test(test_cpu),
	    cmocka_unit_test(test_no_limits),
	    cmocka_unit_test(test_freeze),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
