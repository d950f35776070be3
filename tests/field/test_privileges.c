/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user */
/* What every process of a running server may do, read from /proc while a VM
 * and an agent run: the server and the opener's own workers are nobody special
 * in both modes; only the spawner of a server started as root keeps rights;
 * what runs in the VM has no more than its own user namespace gives. */
#include "world.h"

#include <ctype.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned long long
hex_field(const char *status, const char *field)
{
	const char *p = strstr(status, field);
	assert_non_null(p);
	return strtoull(p + strlen(field), NULL, 16);
}

static long
num_field(const char *status, const char *field)
{
	const char *p = strstr(status, field);
	assert_non_null(p);
	return strtol(p + strlen(field), NULL, 10);
}

static char *
status_of(const char *task_dir)
{
	char path[400];
	(void)snprintf(path, sizeof(path), "%s/status", task_dir);
	return world_read(path, NULL);
}

/* All four uids, from the line "Uid:", real to file system. */
static void
uids(const char *status, long ret[4])
{
	const char *p = strstr(status, "Uid:");
	assert_non_null(p);
	char *q = (char *)(uintptr_t)(p + 4);
	for (unsigned i = 0; i < 4; i++)
		ret[i] = strtol(q, &q, 10);
}

static void
check_powerless(const char *task_dir, uid_t want)
{
	static const char *const caps[] = {
	    "CapInh:", "CapPrm:", "CapEff:", "CapAmb:"};
	long u[4];
	char *st = status_of(task_dir);
	assert_non_null(st);
	uids(st, u);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_not_equal(u[i], 0);
		if (want)
			assert_int_equal(u[i], want);
	}
	for (unsigned i = 0; i < 4; i++)
		assert_true(hex_field(st, caps[i]) == 0);
	assert_int_equal(num_field(st, "NoNewPrivs:"), 1);
	free(st);
}

/* Every thread of a process. */
static unsigned
each_thread(pid_t pid, uid_t want)
{
	char dir[64], task[128];
	unsigned n = 0;
	(void)snprintf(dir, sizeof(dir), "/proc/%d/task", (int)pid);
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		(void)snprintf(task, sizeof(task), "%s/%.20s", dir, e->d_name);
		check_powerless(task, want);
		n++;
	}
	(void)closedir(d);
	return n;
}

struct found {
	unsigned spawners, openers, inits, guests;
};

/* Children of the server: helpers by name, pid 1s by theirs. */
static void
look_at_children(const struct world *w, struct found *f)
{
	DIR *d = opendir("/proc");
	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		char dir[300];
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid <= 0 || world_proc_status(pid, "PPid") != (long)w->pid)
			continue;
		(void)snprintf(dir, sizeof(dir), "/proc/%s", e->d_name);
		char *st = status_of(dir);
		if (!st)
			continue;
		if (strstr(st, "sluice-spawner")) {
			f->spawners++;
			if (getuid() != 0)
				check_powerless(dir, getuid());
		} else if (strstr(st, "sluice-opener")) {
			f->openers++;
			if (getuid() != 0)
				check_powerless(dir, getuid());
		} else {
			/* pid 1 of a VM: a uid of the pool, never the host's
			 * root; its capabilities are its namespace's. */
			long u[4];
			f->inits++;
			uids(st, u);
			assert_int_not_equal(u[0], 0);
			assert_int_not_equal(u[1], 0);
			if (getuid() == 0)
				assert_true(u[0] >= 1000000);
			assert_int_equal(num_field(st, "NoNewPrivs:"), 1);
			assert_int_equal(num_field(st, "Seccomp:"), 2);
		}
		free(st);
	}
	(void)closedir(d);
}

static void
nobody_has_more_than_it_needs(void **state)
{
	struct world w;
	struct found f = {0};
	char vm[64], s[64];
	(void)state;
	world_init(&w);
	world_start(&w);
	world_vm(&w, vm, sizeof(vm));
	world_fake(&w, vm, "on prompt ; text x ; end", NULL, s, sizeof(s));
	assert_true(each_thread(w.pid, getuid() ? getuid() : 0) > 1);
	look_at_children(&w, &f);
	assert_int_equal(f.spawners, 1);
	assert_int_equal(f.openers, 1);
	assert_int_equal(f.inits, 1);
	world_stop(&w);
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_has_more_than_it_needs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
