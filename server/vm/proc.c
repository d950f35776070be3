/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one process: starting, running, draining, exited, gone; see
 * docs/STATES.md. Its pipes are pipe.c's, its readers reader.c's; what pid 1
 * may say when is checked by the caller. */
#include "vm/proc.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mutant.h"
#include "vm/vm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static const char *const names[] = {
    [PROC_STARTING] = "starting",
    [PROC_RUNNING] = "running",
    [PROC_DRAINING] = "draining",
    [PROC_EXITED] = "exited",
    [PROC_GONE] = "gone",
};

/* When pid 1 does not even take a request: ask again. */
#define KILL_AGAIN_MS 1000

#define TO(s) (1u << PROC_##s)

static const unsigned legal[] = {
    [PROC_STARTING] = TO(RUNNING) | TO(GONE),
    [PROC_RUNNING] = TO(DRAINING),
    [PROC_DRAINING] = TO(EXITED),
    [PROC_EXITED] = TO(GONE),
    [PROC_GONE] = 0,
};

/* Counted as a process of its VM: what `vm_process_count` says. */
static void
count(struct vm_proc *p, int up)
{
	p->engine->sum.processes += up ? 1 : (uint64_t)-1;
	if (p->vm)
		p->vm->sum.processes += up ? 1 : (uint64_t)-1;
}

/* The one place that moves p->state. */
static void
set_state(struct vm_proc *p, enum proc_state to)
{
	SLI_ASSERT(legal[p->state] & (1u << to));
	sli_debug("vm", "process", "vm=%s id=%u pid=%u %s->%s",
	    p->vm ? vm_id(p->vm) : "-", p->id, p->pid, names[p->state],
	    names[to]);
	if (to == PROC_RUNNING)
		count(p, 1);
	if (to == PROC_EXITED)
		count(p, 0);
	p->state = to;
}

enum sli_err
proc_kill_tree(struct vm_proc *p)
{
	if (!p->vm || p->closed || !p->launched)
		return SLI_OK;
	p->killed = 1;
	return guest_link_kill(&p->vm->link, GUEST_KILL_TREE, p->id, SIGKILL);
}

/* --- birth and death ------------------------------------------------------*/

static void
on_timeout(struct loop_timer *t)
{
	struct vm_proc *p = SLI_CONTAINER_OF(t, struct vm_proc, timeout);

	p->exit.timed_out = 1;
	if (proc_kill_tree(p) != SLI_OK)
		loop_timer_after(p->engine->loop, &p->timeout, KILL_AGAIN_MS);
}

static void
on_grace(struct loop_timer *t)
{
	pipe_grace_over(SLI_CONTAINER_OF(t, struct vm_proc, grace));
}

struct vm_proc *
proc_new(struct vm *vm, unsigned flags, vm_started_fn *fn, void *ctx)
{
	struct vm_proc *p = sli_zalloc(sizeof(*p));

	if (!p)
		return NULL;
	p->engine = vm->e;
	p->vm = vm;
	p->state = PROC_STARTING;
	p->flags = flags;
	p->started = fn;
	p->started_ctx = ctx;
	p->in.fd = -1;
	p->in.w = (struct loop_fd)LOOP_FD_INIT;
	p->in.proc = p;
	for (int i = 0; i < 2; i++) {
		p->out[i].w = (struct loop_fd)LOOP_FD_INIT;
		p->out[i].proc = p;
		p->out[i].fdno = i + 1;
		p->out[i].fd = -1;
	}
	p->raw[0] = p->raw[1] = p->raw[2] = -1;
	p->ring.hold = VM_RING_NO_HOLD;
	sli_list_init(&p->node);
	sli_list_init(&p->readers);
	loop_timer_init(&p->timeout, on_timeout);
	loop_timer_init(&p->grace, on_grace);
	loop_timer_init(&p->oom, oom_late);
	return p;
}

static void
free_argv(char **argv)
{
	if (argv)
		sli_free(argv[0]);
	sli_free(argv);
}

/* One block of strings, argv[0] at its start. */
static char **
copy_argv(const char *const *src)
{
	size_t n = 0, bytes = 0;
	char **v, *at;

	for (; src[n]; n++)
		bytes += strlen(src[n]) + 1;
	v = sli_calloc(n + 1, sizeof(*v));
	at = sli_alloc(bytes);
	if (!v || !at) {
		sli_free(v);
		sli_free(at);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(src[i]) + 1;

		v[i] = memcpy(at, src[i], len);
		at += len;
	}
	return v;
}

enum sli_err
proc_prepare(
    struct vm_proc *p, const struct vm_exec_spec *spec, struct sli_errinfo *ei)
{
	const struct sli_limits *lim = &p->vm->lim;
	enum sli_err e = exec_encode(p->vm, p->id, spec, &p->exec, ei);

	if (e != SLI_OK)
		return e;
	p->timeout_ms = spec->timeout_ms;
	if (p->timeout_ms == 0)
		p->timeout_ms = sli_limits_get(lim, SLI_L_VM_EXEC_TIMEOUT);
	p->argv = copy_argv(spec->argv);
	if (spec->session)
		p->session = sli_strdup(spec->session);
	if (!(p->flags & VM_EXEC_RAW))
		e = vm_ring_init(&p->ring,
		    (size_t)sli_limits_get(lim, SLI_L_VM_OUTPUT_RING));
	if (!p->argv || (spec->session && !p->session) || e != SLI_OK)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "vm.exec", "no memory for a process");
	return SLI_OK;
}

static void
release(struct vm_proc *p)
{
	loop_timer_del(p->engine->loop, &p->timeout);
	loop_timer_del(p->engine->loop, &p->grace);
	loop_timer_del(p->engine->loop, &p->oom);
	loop_fd_del(&p->in.w);
	sli_fd_close(&p->in.fd);
	pipe_close(&p->out[0]);
	pipe_close(&p->out[1]);
	for (int i = 0; i < 3; i++)
		sli_fd_close(&p->raw[i]);
	sli_buf_free(&p->exec);
	vm_ring_fini(&p->ring);
}

static void
free_now(struct loop_reap *r)
{
	struct vm_proc *p = SLI_CONTAINER_OF(r, struct vm_proc, reap);

	free_argv(p->argv);
	sli_free(p->session);
	sli_free(p);
}

static void
gone(struct vm_proc *p)
{
	set_state(p, PROC_GONE);
	proc_account(p);
	sli_list_del(&p->node);
	release(p);
	loop_reap(p->engine->loop, &p->reap, free_now);
}

void
proc_destroy(struct vm_proc *p)
{
	while (!sli_list_empty(&p->readers)) {
		struct vm_reader *r =
		    SLI_LIST_ENTRY(p->readers.next, struct vm_reader, node);

		sli_list_del(&r->node);
		r->proc = NULL;
	}
	sli_list_del(&p->node);
	release(p);
	free_now(&p->reap);
}

void
proc_maybe_gone(struct vm_proc *p)
{
	if (!p->vm && p->state == PROC_EXITED && sli_list_empty(&p->readers))
		gone(p);
}

void
proc_orphan(struct vm_proc *p)
{
	struct vm *vm = p->vm;

	SLI_ASSERT(p->state == PROC_DRAINING || p->state == PROC_EXITED);
	if (p->state == PROC_EXITED) {
		vm->nended--;
	} else {
		vm->nlive--;
		vm->sum.processes--;
	}
	vm->sum.ring_held -= p->held;
	vm->sum.ring_retained -= p->retained;
	p->vm = NULL;
	sli_list_del(&p->node);
	sli_list_add_tail(&p->engine->orphans, &p->node);
	proc_maybe_gone(p);
}

/* --- start ----------------------------------------------------------------*/

/* Guest's end blocking, ours not: a guest expects what a shell would give. */
static enum sli_err
make_pipe(int *ours, int *theirs, int write_end, struct sli_errinfo *ei)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return sli_fail(ei, SLI_E_RESOURCE_EXHAUSTED, errno, "vm.exec",
		    "no pipe for the process; " VM_MORE_FILES);
	*ours = fds[write_end];
	*theirs = fds[!write_end];
	return sli_fd_nonblock(*ours, ei);
}

enum sli_err
proc_launch(struct vm_proc *p, struct sli_errinfo *ei)
{
	int theirs[3] = {-1, -1, -1};
	enum sli_err e = SLI_OK;

	for (int i = 0; i < 3 && e == SLI_OK; i++)
		e = make_pipe(&p->raw[i], &theirs[i], i == 0, ei);
	if (e == SLI_OK && (p->flags & VM_EXEC_DETACH))
		sli_fd_close(&p->raw[0]);
	if (e != SLI_OK)
		goto out;
	e = guest_link_exec(&p->vm->link, &p->exec, theirs);
	if (e != SLI_OK) {
		sli_fail(ei, SLI_E_UNAVAILABLE, 0, "vm.exec",
		    "pid 1 of the VM does not take requests (%s)",
		    sli_err_name(e));
		e = SLI_E_UNAVAILABLE;
		goto out;
	}
	p->launched = 1;
out:
	for (int i = 0; i < 3; i++)
		sli_fd_close(&theirs[i]);
	return e;
}

void
proc_on_started(struct vm_proc *p, uint32_t pid)
{
	vm_started_fn *fn = p->started;

	p->pid = pid;
	p->started = NULL;
	p->started_ms = sli_wall_ms();
	set_state(p, PROC_RUNNING);
	if (p->timeout_ms)
		loop_timer_after(p->engine->loop, &p->timeout,
		    (int64_t)SLI_MIN(p->timeout_ms, (uint64_t)INT64_MAX / 2));
	if (!(p->flags & VM_EXEC_RAW)) {
		stdin_start(p, p->raw[0]);
		p->raw[0] = -1;
	}
	p->may_own = 1;
	fn(p->started_ctx, p, NULL);
	p->may_own = 0;
	if (!(p->flags & VM_EXEC_RAW)) {
		pipe_start(p, p->raw[1], p->raw[2]);
		p->raw[1] = p->raw[2] = -1;
	}
	for (int i = 0; i < 3; i++)
		sli_fd_close(&p->raw[i]);
}

void
proc_on_failed(struct vm_proc *p, const struct sli_errinfo *ei)
{
	vm_started_fn *fn = p->started;

	p->started = NULL;
	if (p->vm)
		p->vm->nlive--;
	p->vm = NULL;
	gone(p);
	fn(p->started_ctx, NULL, ei);
}

/* --- end ------------------------------------------------------------------*/

void
proc_on_exit(struct vm_proc *p, int code, int signal)
{
	const struct vm *vm = p->vm;

	set_state(p, PROC_DRAINING);
	loop_timer_del(p->engine->loop, &p->timeout);
	p->exit.code = signal ? 0 : code;
	p->exit.signal = signal;
	if (signal != SIGKILL)
		p->exit.timed_out = 0;
	else if (!p->killed)
		oom_judge(p);
	stdin_stop(p);
	pipe_drain(p);
	if (p->state == PROC_DRAINING)
		loop_timer_after(p->engine->loop, &p->grace,
		    (int64_t)sli_limits_get(&vm->lim, SLI_L_VM_EXEC_DRAIN));
}

void
proc_on_vm_death(struct vm_proc *p, const struct sli_errinfo *ei)
{
	if (p->state == PROC_STARTING) {
		p->refusal = *ei;
		proc_refuse(p);
	} else if (p->state == PROC_RUNNING) {
		proc_on_exit(p, 0, SIGKILL);
	}
}

/* Newest vm.max_ended_processes stay listed. */
static void
forget_oldest(struct vm *vm)
{
	uint64_t max = sli_limits_get(&vm->lim, SLI_L_VM_MAX_ENDED_PROCESSES);
	struct sli_list *it, *tmp;

	sli_list_for_each_safe (it, tmp, &vm->procs) {
		struct vm_proc *p = SLI_LIST_ENTRY(it, struct vm_proc, node);

		if (vm->nended <= max)
			return;
		if (p->state == PROC_EXITED)
			proc_orphan(p);
	}
}

/* And of their output the newest vm.ended_output_bytes; a reader that comes
 * too late gets a GAP and the exit. */
static void
forget_output(struct vm *vm)
{
	uint64_t max = sli_limits_get(&vm->lim, SLI_L_VM_ENDED_OUTPUT);
	uint64_t sum = 0;
	struct sli_list *it;

	for (it = vm->procs.prev; it != &vm->procs; it = it->prev) {
		struct vm_proc *p = SLI_LIST_ENTRY(it, struct vm_proc, node);

		if (p->state != PROC_EXITED)
			continue;
		sum += p->retained;
		if (sum <= max || p->retained == 0)
			continue;
		sum -= p->retained;
		vm_ring_forget(&p->ring);
		vm_ring_trim(&p->ring);
		proc_account(p);
	}
}

void
proc_maybe_done(struct vm_proc *p)
{
	struct vm *vm = p->vm;

	if (p->state != PROC_DRAINING || p->oom_wait)
		return;
	if ((p->out[0].open || p->out[1].open) && !SLI_MUTATED(vm_exit_early))
		return;
	set_state(p, PROC_EXITED);
	loop_timer_del(p->engine->loop, &p->grace);
	vm_ring_trim(&p->ring);
	proc_account(p);
	if (vm) {
		vm->nlive--;
		vm->nended++;
	}
	readers_wake(p);
	if (p->on_exit)
		p->on_exit(p->on_exit_ctx, &p->exit);
	p->on_exit = NULL;
	if (p->vm) {
		forget_output(p->vm);
		forget_oldest(p->vm);
	} else {
		proc_maybe_gone(p);
	}
}
