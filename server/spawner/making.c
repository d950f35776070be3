/* SPDX-License-Identifier: Apache-2.0 */
/* How a VM comes to be: its record, cgroups, mounts, the clone; then ROOTED,
 * when it is opened; then the exec of pid 1, when it is handed to the server.
 * What goes wrong on the way is taken back by life.c. */
#include "base/fd.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static void
enforcement(const struct spawner *s, struct spawner_vm *vm,
    const struct spawner_create *rq)
{
	const struct cg_root *ctl = s->cg.ctl;
	uint8_t *e = vm->enforced;

	vm->missing = cg_missing(&s->cg);
	if (!s->conf.privileged)
		vm->missing |= SPAWNER_MISS_SUBUID;
	e[SPAWNER_LIM_DISK] = SPAWNER_ENF_TMPFS;
	e[SPAWNER_LIM_NOFILE] = SPAWNER_ENF_RLIMIT;
	if (rq->memory_bytes)
		e[SPAWNER_LIM_MEMORY] = ctl[CG_MEMORY].version
					    ? SPAWNER_ENF_CGROUP
					    : SPAWNER_ENF_PROCESS;
	/* With one uid in the VM the rlimit holds for all of it. */
	if (rq->pids)
		e[SPAWNER_LIM_PIDS] = ctl[CG_PIDS].version ? SPAWNER_ENF_CGROUP
				      : s->conf.privileged ? SPAWNER_ENF_USER
							   : SPAWNER_ENF_RLIMIT;
	if (rq->cpu_millis && ctl[CG_CPU].version)
		e[SPAWNER_LIM_CPU] = SPAWNER_ENF_CGROUP;
}

static void
running(struct spawner *s, struct spawner_vm *vm)
{
	struct spawner_created m = {
	    .h = {SPAWNER_CREATED, sizeof(m), vm->create_req},
	    .handle = vm->handle,
	    .pid = vm->pid,
	    .uid_base = vm->uid_base,
	    .missing = vm->missing
        };
	int fds[2] = {vm->ctl, vm->pidfd.fd};

	serve_unwatch(s, &vm->setup);
	memcpy(m.enforced, vm->enforced, sizeof(m.enforced));
	serve_send(s, &m, fds, 2);
	sli_fd_close(&vm->ctl);
	vm->create_req = 0;
	vm->given = 1;
	life_set_state(s, vm, SPAWNER_VM_RUNNING);
}

/* ROOTED: open it while it may be opened, then let it go on. */
static int
rooted(struct spawner *s, struct spawner_vm *vm, struct spawner_fault *f)
{
	int fds[2], r;

	if (clone_open(vm, fds, f) < 0)
		return -1;
	r = serve_opener(s, vm->handle, fds);
	sli_fd_close(&fds[0]);
	sli_fd_close(&fds[1]);
	if (r < 0)
		return spawner_fail(
		    f, errno, "opener", "the opener does not answer");
	vm->in_opener = 1;
	if (send(vm->setup.fd, "g", 1, MSG_NOSIGNAL) != 1)
		return spawner_fail(f, errno, "lockdown", "the new VM died");
	life_set_state(s, vm, SPAWNER_VM_LOCKING);
	vm->deadline_ms = serve_now_ms() + SPAWNER_BUILD_MS;
	return 0;
}

static void
on_setup(struct spawner *s, struct spawner_vm *vm)
{
	struct spawner_word w;
	struct spawner_fault f;
	ssize_t n;

	n = recv(vm->setup.fd, &w, sizeof(w), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t)sizeof(w) && !w.rooted) {
		if (strcmp(w.fault.step, "root") == 0)
			clone_explain(&w.fault);
		life_fail(s, vm, &w.fault);
	} else if (n == (ssize_t)sizeof(w) &&
		   vm->state == SPAWNER_VM_BUILDING) {
		if (rooted(s, vm, &f) < 0)
			life_fail(s, vm, &f);
	} else if (n == 0 && vm->state == SPAWNER_VM_LOCKING) {
		/* Closed by exec. Had it died, the pidfd will say so next. */
		running(s, vm);
	} else {
		(void)spawner_fail(&f, ESRCH, "ready",
		    "the VM's first process died while it was being made");
		life_fail(s, vm, &f);
	}
}

static int
take_mounts(struct spawner *s, const struct spawner_create *rq,
    struct spawner_plan *plan, struct spawner_fault *f)
{
	const char *p = request_next((const char *)(rq + 1)), *target;
	unsigned i;

	if (s->conf.guest_fd >= 0) {
		if (source_guest(&s->conf, &plan->mounts[0], f) < 0)
			return -1;
		plan->nmounts = 1;
	}
	for (i = 0; i < rq->nmounts; i++) {
		target = request_next(p);
		if (source_take(&s->conf, rq, p, target,
			&plan->mounts[plan->nmounts], f) < 0)
			return -1;
		plan->nmounts++;
		p = request_next(target);
	}
	return 0;
}

static int
build(struct spawner *s, struct spawner_vm *vm, const struct spawner_create *rq,
    struct spawner_fault *f)
{
	struct spawner_mount mounts[SPAWNER_PLAN_MOUNTS];
	struct spawner_plan plan = {.conf = &s->conf,
	    .skel = &s->skel,
	    .filter = &s->filter,
	    .cgroups = &vm->cg,
	    .mounts = mounts,
	    .disk_bytes = rq->disk_bytes,
	    .disk_inodes = rq->disk_inodes ? rq->disk_inodes
					   : rq->disk_bytes / 8192 + 1024,
	    .pids = rq->pids,
	    .nofile = rq->nofile ? rq->nofile : 4096};
	int r = -1;

	sli_strlcpy(plan.host, (const char *)(rq + 1), sizeof(plan.host));
	if (!s->cg.ctl[CG_MEMORY].version)
		plan.data_bytes = rq->memory_bytes;
	if (cg_make(&s->cg, &vm->cg, vm->handle, rq, f) < 0)
		return -1;
	vm->oom.fd = vm->cg.oom_fd;
	if (take_mounts(s, rq, &plan, f) == 0)
		r = clone_vm(vm, &plan, f);
	while (plan.nmounts)
		source_drop(&mounts[--plan.nmounts]);
	cg_started(&vm->cg);
	if (vm->pid && serve_watch(s, &vm->pidfd, EPOLLIN, life_died, vm) < 0)
		r = spawner_fail(f, errno, "clone", "out of descriptors");
	if (r == 0 && serve_watch(s, &vm->setup, EPOLLIN, on_setup, vm) < 0)
		r = spawner_fail(f, errno, "clone", "out of descriptors");
	return r;
}

void
making_begin(struct spawner *s, const struct spawner_create *rq)
{
	struct spawner_fault f = {0};
	struct spawner_vm *vm;

	vm = life_record(s, rq->h.req);
	if (!vm) {
		(void)spawner_fail(&f, EAGAIN, "pool",
		    "this host has no room for another VM (%u at most)",
		    SPAWNER_VMS_MAX);
		serve_fault(s, rq->h.req, &f, -1);
		return;
	}
	enforcement(s, vm, rq);
	if (build(s, vm, rq, &f) < 0) {
		life_fail(s, vm, &f);
		return;
	}
	life_set_state(s, vm, SPAWNER_VM_BUILDING);
	vm->deadline_ms = serve_now_ms() + SPAWNER_BUILD_MS;
	if (vm->oom.fd >= 0)
		(void)serve_watch(s, &vm->oom,
		    s->cg.ctl[CG_MEMORY].version == 1 ? EPOLLIN
						      : EPOLLPRI | EPOLLET,
		    oom_event, vm);
}
