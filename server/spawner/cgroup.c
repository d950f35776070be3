/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroups of one VM: made before the clone, entered by the child itself
 * through descriptors opened here, removed when everything in them is dead.
 * What the host has was found by cgroup_find.c; v1 and v2 differ in file names
 * only. */
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPU_PERIOD_US 100000u
#define SWEEP_TRIES   100
#define SWEEP_WAIT_MS 10

/* The first controller that shares the directory of i (v2: all do). */
static int
shares(const struct cg_host *h, int i)
{
	int k;

	if (h->ctl[i].version != 2)
		return i;
	for (k = 0; k < i; k++)
		if (h->ctl[k].version == 2)
			return k;
	return i;
}

static int
set(const struct cg_root *r, const struct cg_vm *g, const char *file,
    const char *value)
{
	char path[96];

	sli_snprintf(path, sizeof(path), "%s/%s", g->name, file);
	return sli_fd_write_file(r->fd, path, value);
}

static int
set_u64(const struct cg_root *r, const struct cg_vm *g, const char *file,
    uint64_t v)
{
	char b[32];

	sli_snprintf(b, sizeof(b), "%llu", (unsigned long long)v);
	return set(r, g, file, b);
}

static int
limit_memory(const struct cg_root *r, const struct cg_vm *g, uint64_t bytes)
{
	if (r->version == 2) {
		/* Swap is not memory that was given; not there: no swap. */
		(void)set(r, g, "memory.swap.max", "0");
		return set_u64(r, g, "memory.max", bytes);
	}
	if (set_u64(r, g, "memory.limit_in_bytes", bytes) < 0)
		return -1;
	(void)set_u64(r, g, "memory.memsw.limit_in_bytes", bytes);
	return 0;
}

static int
limit_cpu(const struct cg_root *r, const struct cg_vm *g, uint32_t millis)
{
	uint64_t quota = (uint64_t)millis * CPU_PERIOD_US / 1000;
	char b[64];

	/* The kernel takes no quota under a millisecond. */
	if (quota < 1000)
		quota = 1000;
	if (r->version == 2) {
		sli_snprintf(b, sizeof(b), "%llu %u", (unsigned long long)quota,
		    CPU_PERIOD_US);
		return set(r, g, "cpu.max", b);
	}
	if (set_u64(r, g, "cpu.cfs_period_us", CPU_PERIOD_US) < 0)
		return -1;
	return set_u64(r, g, "cpu.cfs_quota_us", quota);
}

static int
limit(const struct cg_host *h, const struct cg_vm *g, int i,
    const struct spawner_create *rq)
{
	const struct cg_root *r = &h->ctl[i];

	if (i == CG_MEMORY && rq->memory_bytes)
		return limit_memory(r, g, rq->memory_bytes);
	if (i == CG_PIDS && rq->pids)
		return set_u64(r, g, "pids.max", rq->pids);
	if (i == CG_CPU && rq->cpu_millis)
		return limit_cpu(r, g, rq->cpu_millis);
	return 0;
}

/* v1 tells through an eventfd, v2 through its own file. Without it the VM
 * works as well; only the news is missing. */
static void
arm_oom(const struct cg_host *h, struct cg_vm *g)
{
	const struct cg_root *r = &h->ctl[CG_MEMORY];
	char path[96], b[64];
	int ev, control;

	if (r->version == 2) {
		sli_snprintf(path, sizeof(path), "%s/memory.events", g->name);
		g->oom_fd = openat(r->fd, path, O_RDONLY | O_CLOEXEC);
		return;
	}
	sli_snprintf(path, sizeof(path), "%s/memory.oom_control", g->name);
	control = openat(r->fd, path, O_RDONLY | O_CLOEXEC);
	ev = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sli_snprintf(b, sizeof(b), "%d %d", ev, control);
	if (control < 0 || ev < 0 || set(r, g, "cgroup.event_control", b) < 0)
		sli_fd_close(&ev);
	sli_fd_close(&control);
	g->oom_fd = ev;
}

int
cg_make(const struct cg_host *h, struct cg_vm *g, uint64_t handle,
    const struct spawner_create *rq, struct spawner_fault *f)
{
	char path[96];
	int i;

	*g = (struct cg_vm){.oom_fd = -1};
	for (i = 0; i < CG__N; i++)
		g->procs[i] = -1;
	sli_snprintf(
	    g->name, sizeof(g->name), "%llx", (unsigned long long)handle);
	for (i = 0; i < CG__N; i++) {
		const struct cg_root *r = &h->ctl[i];

		if (!r->version)
			continue;
		if (shares(h, i) == i) {
			if (mkdirat(r->fd, g->name, 0755) < 0)
				goto bad;
			sli_snprintf(
			    path, sizeof(path), "%s/cgroup.procs", g->name);
			g->made |= 1u << i;
			g->procs[i] = openat(r->fd, path, O_WRONLY | O_CLOEXEC);
			if (g->procs[i] < 0)
				goto bad;
		}
		if (limit(h, g, i, rq) < 0)
			goto bad;
	}
	if (h->ctl[CG_MEMORY].version)
		arm_oom(h, g);
	return 0;
bad:
	spawner_fail(
	    f, errno, "cgroup", "no cgroup in %s for the VM", h->ctl[i].path);
	cg_started(g);
	(void)cg_remove(h, g);
	return -1;
}

void
cg_started(struct cg_vm *g)
{
	int i;

	for (i = 0; i < CG__N; i++)
		sli_fd_close(&g->procs[i]);
}

int
cg_remove(const struct cg_host *h, struct cg_vm *g)
{
	int i;

	for (i = 0; i < CG__N; i++)
		if (g->made >> i & 1 &&
		    (unlinkat(h->ctl[i].fd, g->name, AT_REMOVEDIR) == 0 ||
			errno == ENOENT))
			g->made &= ~(1u << i);
	return g->made == 0;
}

int
cg_freeze(const struct cg_host *h, const struct cg_vm *g, int frozen)
{
	const struct cg_root *r = &h->ctl[CG_FREEZER];

	if (!r->version) {
		errno = ENOTSUP;
		return -1;
	}
	if (r->version == 2)
		return set(r, g, "cgroup.freeze", frozen ? "1" : "0");
	return set(r, g, "freezer.state", frozen ? "FROZEN" : "THAWED");
}

uint64_t
cg_oom_kills(const struct cg_host *h, const struct cg_vm *g)
{
	const struct cg_root *r = &h->ctl[CG_MEMORY];
	char path[96], text[512], *p;
	uint64_t n = 0;

	sli_snprintf(path, sizeof(path), "%s/%s", g->name,
	    r->version == 2 ? "memory.events" : "memory.oom_control");
	if (sli_fd_read_file(r->fd, path, text, sizeof(text)) < 0)
		return 0;
	p = strstr(text, "oom_kill ");
	if (p)
		(void)spawner_number(p + 9, &n);
	return n;
}

/* --- leftovers ------------------------------------------------------------*/

static void
kill_all_in(int dir, const char *name)
{
	char path[300], procs[8192];
	const char *p = procs;
	uint64_t pid;

	sli_snprintf(path, sizeof(path), "%s/freezer.state", name);
	(void)sli_fd_write_file(dir, path, "THAWED");
	sli_snprintf(path, sizeof(path), "%s/cgroup.kill", name);
	if (sli_fd_write_file(dir, path, "1") == 0)
		return;
	sli_snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	if (sli_fd_read_file(dir, path, procs, sizeof(procs)) < 0)
		return;
	while ((p = spawner_number(p, &pid)))
		if (pid > 1)
			(void)kill((pid_t)pid, SIGKILL);
}

static void
sweep_one(int dir, const char *name)
{
	int i;

	for (i = 0; i < SWEEP_TRIES; i++) {
		if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return;
		kill_all_in(dir, name);
		(void)poll(NULL, 0, SWEEP_WAIT_MS);
	}
	sli_log(SLI_LOG_WARN, "spawner", "sweep", "cgroup=%s left, continuing",
	    name);
}

void
cg_sweep(const struct cg_root *r)
{
	struct dirent *e;
	DIR *d;
	int fd;

	fd = openat(r->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		sli_fd_close(&fd);
		return;
	}
	while ((e = readdir(d)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			sweep_one(r->fd, e->d_name);
	(void)closedir(d);
}
