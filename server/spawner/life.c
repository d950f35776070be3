/* SPDX-License-Identifier: Apache-2.0 */
/* One VM from its request to its end. The only writer of vm->state; the page
 * is docs/STATES.md, "VM in the spawner". Everything that can fail late is
 * undone from here: kill, wait for the pidfd, remove the cgroups, give the ids
 * back, and only then answer DELETE or free the record. */
#include "base/fd.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUILDING_MAX      4    /* at one time; the rest queue */
#define REMOVE_TIMEOUT_MS 2000 /* then a cgroup is left to the next sweep */
#define REMOVE_RETRY_MS   3

const char *const spawner_state_names[SPAWNER_VM__N] = {
    "new", "building", "locking", "running", "killed", "dead", "gone"};

#define B(s) (1u << SPAWNER_VM_##s)
static const unsigned legal[SPAWNER_VM__N] = {
    [SPAWNER_VM_NEW] = B(BUILDING) | B(KILLED) | B(GONE),
    [SPAWNER_VM_BUILDING] = B(LOCKING) | B(KILLED) | B(DEAD),
    [SPAWNER_VM_LOCKING] = B(RUNNING) | B(KILLED) | B(DEAD),
    [SPAWNER_VM_RUNNING] = B(KILLED) | B(DEAD),
    [SPAWNER_VM_KILLED] = B(DEAD),
    [SPAWNER_VM_DEAD] = B(GONE),
    [SPAWNER_VM_GONE] = 0,
};
#undef B

void
life_set_state(struct spawner *s, struct spawner_vm *vm, enum spawner_state to)
{
	int was =
	    vm->state == SPAWNER_VM_BUILDING || vm->state == SPAWNER_VM_LOCKING;
	int is = to == SPAWNER_VM_BUILDING || to == SPAWNER_VM_LOCKING;

	SLI_ASSERT(legal[vm->state] >> to & 1);
	sli_debug("spawner", "state", "vm=%llx pid=%d from=%s to=%s",
	    (unsigned long long)vm->handle, (int)vm->pid,
	    spawner_state_names[vm->state], spawner_state_names[to]);
	s->nbuilding += (unsigned)is - (unsigned)was;
	vm->state = to;
	vm->deadline_ms = INT64_MAX;
}

/* --- records --------------------------------------------------------------*/

static int
pool_take(struct spawner *s, unsigned *ret)
{
	unsigned i, slot;

	/* The longest free first: a range rests before it is used again. */
	for (i = 0; i < SPAWNER_VMS_MAX; i++) {
		slot = (s->pool_next + i) % SPAWNER_VMS_MAX;
		if (!s->pool[slot]) {
			s->pool[slot] = 1;
			s->pool_next = slot + 1;
			*ret = slot;
			return 0;
		}
	}
	return -1;
}

struct spawner_vm *
life_record(struct spawner *s, uint64_t req)
{
	struct spawner_vm *vm;

	vm = sli_zalloc(sizeof(*vm));
	if (!vm)
		return NULL;
	vm->handle = sli_ids_add(s->ids, vm);
	if (!vm->handle || pool_take(s, &vm->slot) < 0) {
		if (vm->handle)
			sli_ids_del(s->ids, vm->handle);
		sli_free(vm);
		return NULL;
	}
	vm->create_req = req;
	vm->uid_base = s->conf.privileged ? spawner_uid_base(vm->slot)
					  : s->conf.server_uid;
	vm->netns = vm->ctl = -1;
	vm->setup.fd = vm->pidfd.fd = vm->oom.fd = -1;
	vm->deadline_ms = vm->oom_check_ms = INT64_MAX;
	sli_list_add_tail(&s->vms, &vm->node);
	return vm;
}

/* Freed at the end of the turn: events of this one may still name it. */
static void
record_end(struct spawner *s, struct spawner_vm *vm)
{
	sli_ids_del(s->ids, vm->handle);
	s->pool[vm->slot] = 0;
	sli_list_del(&vm->node);
	sli_list_add_tail(&s->dead, &vm->node);
	serve_unwatch(s, &vm->setup);
	serve_unwatch(s, &vm->pidfd);
	serve_unwatch(s, &vm->oom);
	sli_fd_close(&vm->netns);
	sli_fd_close(&vm->ctl);
}

void
life_bury(struct spawner *s)
{
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &s->dead) {
		sli_list_del(it);
		sli_free(SLI_LIST_ENTRY(it, struct spawner_vm, node));
	}
}

/* --- ending ---------------------------------------------------------------*/

static void
answer_deleted(struct spawner *s, struct spawner_vm *vm)
{
	struct spawner_handle m = {
	    .h = {SPAWNER_DELETED, sizeof(m), vm->delete_req},
	    .handle = vm->handle
        };

	serve_send(s, &m, NULL, 0);
}

/* Nothing of the VM is left. The record stays while the server may name it. */
static void
gone(struct spawner *s, struct spawner_vm *vm)
{
	life_set_state(s, vm, SPAWNER_VM_GONE);
	if (vm->delete_req)
		answer_deleted(s, vm);
	if (vm->delete_req || !vm->given || s->stopping)
		record_end(s, vm);
}

static void
remove_cgroups(struct spawner *s, struct spawner_vm *vm, int64_t now)
{
	if (!cg_remove(&s->cg, &vm->cg)) {
		if (now < vm->deadline_ms)
			return;
		sli_log(SLI_LOG_WARN, "spawner", "cgroup",
		    "vm=%llx busy, left to the next sweep, continuing",
		    (unsigned long long)vm->handle);
	}
	gone(s, vm);
}

static void
kill_vm(struct spawner *s, struct spawner_vm *vm)
{
	/* A frozen process dies when it thaws (v1). */
	if (vm->frozen)
		(void)cg_freeze(&s->cg, &vm->cg, 0);
	(void)syscall(SYS_pidfd_send_signal, vm->pidfd.fd, SIGKILL, NULL, 0);
	serve_unwatch(s, &vm->setup);
	life_set_state(s, vm, SPAWNER_VM_KILLED);
}

/* The creation failed; what of it exists is taken back. The answer waits for
 * the death of what was begun, so that the server can reap it at once. */
void
life_fail(
    struct spawner *s, struct spawner_vm *vm, const struct spawner_fault *f)
{
	if (vm->pidfd.fd < 0) {
		serve_fault(s, vm->create_req, f, -1);
		vm->create_req = 0;
		cg_started(&vm->cg);
		(void)cg_remove(&s->cg, &vm->cg);
		life_set_state(s, vm, SPAWNER_VM_GONE);
		record_end(s, vm);
	} else {
		vm->fault = *f;
		kill_vm(s, vm);
	}
}

/* pid 1 is dead, and with it everything in the VM. */
void
life_died(struct spawner *s, struct spawner_vm *vm)
{
	serve_unwatch(s, &vm->setup);
	if (vm->create_req) {
		if (!vm->fault.step[0])
			(void)spawner_fail(&vm->fault, ESRCH, "ready",
			    "the VM's first process died while it was being "
			    "made");
		serve_fault(s, vm->create_req, &vm->fault, vm->pidfd.fd);
		vm->create_req = 0;
	}
	serve_unwatch(s, &vm->pidfd);
	serve_unwatch(s, &vm->oom);
	sli_fd_close(&vm->netns);
	if (vm->in_opener)
		(void)serve_opener(s, vm->handle, NULL);
	vm->in_opener = 0;
	life_set_state(s, vm, SPAWNER_VM_DEAD);
	vm->deadline_ms = serve_now_ms() + REMOVE_TIMEOUT_MS;
	remove_cgroups(s, vm, serve_now_ms());
}

/* --- requests -------------------------------------------------------------*/

static void
refuse(struct spawner *s, uint64_t req, int sys, const char *step,
    const char *text)
{
	struct spawner_fault f;

	(void)spawner_fail(&f, sys, step, "%s", text);
	serve_fault(s, req, &f, -1);
}

void
life_create(struct spawner *s, const struct spawner_create *rq)
{
	struct spawner_queued *q;

	if (s->nbuilding < BUILDING_MAX && sli_list_empty(&s->queue)) {
		making_begin(s, rq);
		return;
	}
	q = s->nqueue < SPAWNER_QUEUE_MAX ? sli_alloc(sizeof(*q) + rq->h.len)
					  : NULL;
	if (!q) {
		refuse(s, rq->h.req, EAGAIN, "queue",
		    "too many VMs are waiting to be made");
		return;
	}
	memcpy(&q->rq, rq, rq->h.len);
	sli_list_add_tail(&s->queue, &q->node);
	s->nqueue++;
}

void
life_delete(struct spawner *s, uint64_t handle, uint64_t req)
{
	struct spawner_vm *vm = sli_ids_get(s->ids, handle);

	if (!vm || !vm->given) {
		refuse(s, req, ENOENT, "handle", "no such VM");
		return;
	}
	if (vm->delete_req) {
		refuse(s, req, EALREADY, "handle", "it is being deleted");
		return;
	}
	vm->delete_req = req;
	if (vm->state == SPAWNER_VM_RUNNING) {
		kill_vm(s, vm);
	} else if (vm->state == SPAWNER_VM_GONE) {
		answer_deleted(s, vm);
		record_end(s, vm);
	}
}

void
life_freeze(struct spawner *s, const struct spawner_freeze *rq)
{
	struct spawner_vm *vm = sli_ids_get(s->ids, rq->handle);
	struct spawner_handle m = {
	    .h = {SPAWNER_FROZEN, sizeof(m), rq->h.req},
              .handle = rq->handle
        };

	if (!vm || vm->state != SPAWNER_VM_RUNNING || !vm->given) {
		refuse(s, rq->h.req, ENOENT, "handle", "no such VM runs");
	} else if (cg_freeze(&s->cg, &vm->cg, rq->frozen != 0) < 0) {
		refuse(s, rq->h.req, errno, "freeze",
		    "this host has no freezer for VMs");
	} else {
		vm->frozen = rq->frozen != 0;
		serve_send(s, &m, NULL, 0);
	}
}

/* --- time -----------------------------------------------------------------*/

static void
tick_one(struct spawner *s, struct spawner_vm *vm, int64_t now)
{
	struct spawner_fault f;

	if (vm->oom_check_ms <= now)
		oom_check(s, vm);
	if (vm->state == SPAWNER_VM_DEAD) {
		remove_cgroups(s, vm, now);
	} else if (vm->deadline_ms <= now) {
		(void)spawner_fail(&f, ETIMEDOUT, "timeout",
		    "the VM was not made in %d s", SPAWNER_BUILD_MS / 1000);
		life_fail(s, vm, &f);
	}
}

int
life_tick(struct spawner *s)
{
	int64_t now = serve_now_ms(), next = INT64_MAX;
	struct sli_list *it, *tmp;
	struct spawner_queued *q;
	struct spawner_vm *vm;

	sli_list_for_each_safe (it, tmp, &s->vms) {
		vm = SLI_LIST_ENTRY(it, struct spawner_vm, node);
		tick_one(s, vm, now);
	}
	while (s->nbuilding < BUILDING_MAX && !sli_list_empty(&s->queue)) {
		q = SLI_LIST_ENTRY(s->queue.next, struct spawner_queued, node);
		sli_list_del(&q->node);
		s->nqueue--;
		making_begin(s, &q->rq);
		sli_free(q);
	}
	sli_list_for_each (it, &s->vms) {
		vm = SLI_LIST_ENTRY(it, struct spawner_vm, node);
		if (vm->state == SPAWNER_VM_DEAD)
			next = SLI_MIN(next, now + REMOVE_RETRY_MS);
		next = SLI_MIN(next, vm->deadline_ms);
		next = SLI_MIN(next, vm->oom_check_ms);
	}
	return next == INT64_MAX ? -1 : next <= now ? 0 : (int)(next - now);
}

void
life_stop(struct spawner *s)
{
	struct sli_list *it, *tmp;
	struct spawner_vm *vm;

	s->stopping = 1;
	sli_list_for_each_safe (it, tmp, &s->queue) {
		sli_list_del(it);
		sli_free(SLI_LIST_ENTRY(it, struct spawner_queued, node));
	}
	s->nqueue = 0;
	sli_list_for_each_safe (it, tmp, &s->vms) {
		vm = SLI_LIST_ENTRY(it, struct spawner_vm, node);
		vm->create_req = 0;
		if (vm->state == SPAWNER_VM_GONE)
			record_end(s, vm);
		else if (vm->state < SPAWNER_VM_KILLED)
			kill_vm(s, vm);
	}
}
