/* SPDX-License-Identifier: Apache-2.0 */
/* The VM engine: VMs, their processes, and the output of those processes.
 * Owns state; asks the spawner to make and unmake, pid 1 to run things.
 * Thread: loop. Nothing here blocks. */
#ifndef SLUICE_VM_VM_H
#define SLUICE_VM_VM_H

#include "base/err.h"
#include "base/event.h"
#include "base/list.h"
#include "base/principal.h"
#include "base/slice.h"
#include "loop/loop.h"

struct sli_limits;
struct vm_engine;
struct vm;
struct vm_proc;

enum vm_state {
	VM_CREATING = 1,
	VM_RUNNING,
	VM_STOPPED,
	VM_FAILED,
	VM_DELETED,
};

struct vm_mount {
	const char *source, *target;
	int read_only;
};

struct vm_kv {
	const char *key, *value;
};

struct vm_spec {
	char id[SLI_ID_MAX];
	const char *name;
	struct sli_principal owner; /* who asked; mounts are checked for it */
	const struct vm_mount *mounts;
	unsigned nmounts;
	const struct vm_kv *env;
	unsigned nenv;
	const struct vm_kv *limits; /* "vm.*" keys */
	unsigned nlimits;
	int64_t created_ms;
};

struct vm_sink {
	/* State changed (created, failed, died, deleted); after the fact. The
	 * vm is valid during the call, also for VM_DELETED. May not free the
	 * engine. */
	void (*state)(void *ctx, struct vm *vm, enum vm_state now);
	/* "oom": the kernel killed something for memory; detail "kills=N".
	 * Room for disk_full and limit_near, which nothing tells yet. */
	void (*notice)(
	    void *ctx, struct vm *vm, const char *what, const char *detail);
	/* The spawner or opener is gone: the server must stop. */
	void (*fatal)(void *ctx, const struct sli_errinfo *ei);
};

/* Takes both sockets (server/spawner/proto.h, server/opener/proto.h), also on
 * failure (NULL: out of memory or a descriptor is no socket). `limits` are the
 * server's values of limits.def, copied; a VM's spec lowers or raises them. */
SLI_MUST struct vm_engine *vm_engine_new(struct loop *l, int spawner_fd,
    int opener_fd, const struct sli_limits *limits, const struct vm_sink *sink,
    void *ctx);
/* Kills every VM, waits for them (bounded; the one call here that blocks, for
 * the server's end), frees. Callbacks not made yet are not made. */
void vm_engine_free(struct vm_engine *e);

typedef void vm_done_fn(void *ctx, struct vm *vm, const struct sli_errinfo *ei);

/* Check all limits of the spec at once (P5), then make it. The spec is copied.
 * done is called exactly once, perhaps before vm_create returns: running, or
 * refused or failed with vm = NULL, and then nothing of it is left. While it
 * is in creation vm_find finds it (state creating). */
void vm_create(struct vm_engine *e, const struct vm_spec *spec,
    vm_done_fn *done, void *ctx);
/* A VM that is known but not running (its server restarted): keeps its spec.
 * NULL only when memory is out. */
struct vm *vm_adopt_stopped(
    struct vm_engine *e, const struct vm_spec *spec, const char *reason);
/* Start a stopped or failed VM again from its spec, on a new disk; done at
 * once when it runs, with the others when it is being made. On failure the VM
 * is in state failed and stays known; vm is passed to done all the same. */
void vm_start(struct vm *vm, vm_done_fn *done, void *ctx);
/* Kill all, remove all; legal in every state, also while creating, and again
 * while deleting. done (from inside, when there is nothing to wait for) when
 * nothing is left (processes, cgroup, files); vm is valid during done for the
 * last time. With ei: it is not gone, found again, and may be deleted again.
 * Processes that still have readers outlive it until those detach: see
 * vm_proc_vm. */
void vm_delete(struct vm *vm, vm_done_fn *done, void *ctx);

/* NULL for an unknown id and for one of another tenant alike; also for a VM
 * that is being deleted. */
struct vm *vm_find(
    struct vm_engine *e, const struct sli_principal *p, const char *id);
/* Iterate what p may see; *pos = 0 first. */
struct vm *vm_next(
    struct vm_engine *e, const struct sli_principal *p, uint32_t *pos);

const char *vm_id(const struct vm *vm);
const char *vm_name(const struct vm *vm);
enum vm_state vm_state(const struct vm *vm);
const char *vm_reason(const struct vm *vm);
uint64_t vm_tenant(const struct vm *vm);
int64_t vm_created_ms(const struct vm *vm);
int vm_init_pid(const struct vm *vm);
unsigned vm_process_count(const struct vm *vm);
const struct vm_spec *vm_get_spec(const struct vm *vm);

struct vm_limit {
	const char *key;
	uint64_t value;
	const char *enforcement; /* hard:cgroup hard:rlimit hard:tmpfs ... */
};

/* Fills at most n, returns how many there are. */
unsigned vm_limits(const struct vm *vm, struct vm_limit *ret, unsigned n);
/* Names of features this host cannot give; NULL-terminated, static. */
const char *const *vm_missing(const struct vm *vm);

/* --- processes -----------------------------------------------------------*/

#define VM_EXEC_DETACH 1u /* no stdin, drop_oldest */
#define VM_EXEC_RAW    2u /* stdio pipes go to the caller (agents) */
#define VM_EXEC_AWAKE  4u /* kept for the idle rule; no effect yet */

struct vm_exec_spec {
	const char *const *argv; /* NULL-terminated, argv[0] searched in PATH */
	const struct vm_kv *env;
	unsigned nenv;
	const char *cwd; /* absolute; NULL = /root */
	uint32_t uid, gid;
	uint64_t timeout_ms; /* 0 = none */
	unsigned flags;
	const char *traceparent; /* or NULL */
	const char *session;     /* set for agents: shown in listings */
};

struct vm_exit {
	int code;   /* exit status, when signal is 0 */
	int signal; /* 0 = exited */
	int timed_out, truncated, oom;
};

/* proc NULL = could not be started; ei says why (argv[0] not found is
 * NOT_FOUND, not executable PERMISSION_DENIED, as the shell's 127 and 126).
 * Called exactly once, not from inside vm_exec (but when there is no memory
 * even for the refusal). Attach the owner reader
 * here: when the call returns without one, pause becomes drop_oldest. RAW:
 * take the stdio and set on_exit here, or they are closed. */
typedef void vm_started_fn(
    void *ctx, struct vm_proc *proc, const struct sli_errinfo *ei);
/* The spec is copied. Waits for a VM in creation; starts a stopped one first;
 * FAILED_PRECONDITION for a failed one. */
void vm_exec(struct vm *vm, const struct vm_exec_spec *spec, vm_started_fn *fn,
    void *ctx);

/* A vm_proc stays valid while a reader is attached to it and, RAW, until its
 * on_exit has been called; else for one call only: find it again by pid. */
struct vm_proc *vm_proc_find(struct vm *vm, uint32_t pid);
/* Started and not yet forgotten, oldest first; *pos = 0 first. */
struct vm_proc *vm_proc_next(struct vm *vm, uint32_t *pos);
uint32_t vm_proc_pid(const struct vm_proc *p);
/* NULL once its VM has been deleted. */
struct vm *vm_proc_vm(const struct vm_proc *p);
const char *const *vm_proc_argv(const struct vm_proc *p);
const char *vm_proc_session(const struct vm_proc *p);
int64_t vm_proc_started_ms(const struct vm_proc *p);
int vm_proc_detached(const struct vm_proc *p);
/* NULL while it runs. Reported once, after the last byte of output. */
const struct vm_exit *vm_proc_exit(const struct vm_proc *p);
/* RAW: the server's ends of stdin, stdout, stderr; now the caller's. */
void vm_proc_take_stdio(struct vm_proc *p, int ret_fds[3]);
/* RAW: called once when the process has ended. */
void vm_proc_on_exit(struct vm_proc *p,
    void (*fn)(void *ctx, const struct vm_exit *st), void *ctx);
/* Signal to the process itself; or kill its whole tree. FAILED_PRECONDITION
 * after its exit, INVALID_ARGUMENT for a number that is no signal. */
SLI_MUST enum sli_err vm_proc_signal(struct vm_proc *p, int sig);
/* Also after the exit: what it left behind in the background dies. */
void vm_proc_kill_tree(struct vm_proc *p);
/* Ended processes stay listed (newest vm.max_ended_processes of a VM). */

/* --- stdin ---------------------------------------------------------------*/

/* Take up to n bytes; returns how many were taken by the pipe (less than n =
 * full: wait for on_drain). -1: the process closed its stdin or has ended, or
 * vm_stdin_close was called (bytes are discarded). Never blocks. */
long vm_stdin_write(struct vm_proc *p, const void *b, size_t n);
void vm_stdin_close(struct vm_proc *p);
/* fn is called when the pipe takes more after a short write, or has been
 * closed by the process (then vm_stdin_write gives -1). fn NULL = nobody. */
void vm_stdin_on_drain(struct vm_proc *p, void (*fn)(void *ctx), void *ctx);

/* --- output --------------------------------------------------------------*/

/* One cursor over a process's output ring. Embedded in its owner, who may
 * read the fields, and zeroes it first. */
struct vm_reader {
	struct sli_list node;
	struct vm_proc *proc; /* NULL = not attached */
	uint64_t next;        /* offset of the next byte to hand out */
	uint64_t acked;       /* drained by the consumer */
	int owner;            /* holds the ring's base while policy is pause */
	int exit_seen;
	int parked;    /* vm_reader_next gave NONE; ready() will be called */
	uint64_t lost; /* pending gap */
	void (*ready)(struct vm_reader *self);
};

enum vm_out_kind {
	VM_OUT_NONE,
	VM_OUT_DATA,
	VM_OUT_GAP,
	VM_OUT_EXIT
};

struct vm_out {
	enum vm_out_kind kind;
	int fd; /* 1 or 2 */
	uint64_t offset;
	uint64_t lost;
	/* DATA: valid until the caller returns to the loop. */
	struct sli_slice data;
	const struct vm_exit *exit;
};

uint64_t vm_output_start(const struct vm_proc *p);
uint64_t vm_output_end(const struct vm_proc *p);
/* ready() fires when there is something new: at once, from inside attach, when
 * something is there already, and then once after each NONE; inside ready()
 * everything of this section may be called. from above the end counts as the
 * end; below the start gives a GAP first. owner counts only for a process that
 * was not started detached, and only in its vm_started_fn. */
void vm_reader_attach(struct vm_proc *p, struct vm_reader *r, uint64_t from,
    int owner, void (*ready)(struct vm_reader *));
/* Next thing for this reader, at most max (> 0) bytes of data, all of one fd
 * and contiguous, and move past it. NONE after EXIT. */
void vm_reader_next(struct vm_reader *r, size_t max, struct vm_out *ret);
/* The consumer has drained up to this output offset. Lower than before: no
 * effect; higher than what was handed out: counts as that. */
void vm_reader_ack(struct vm_reader *r, uint64_t offset);
/* An owner that leaves turns pause into drop_oldest: the work goes on. */
void vm_reader_detach(struct vm_reader *r);

/* Gauges of DESIGN P1: held = read and not acknowledged by an attached owner;
 * retained = kept only for replay. Sums over what exists. */
struct vm_stats {
	uint64_t vms, processes, ring_held, ring_retained;
	uint64_t oom_kills; /* since the VM was made; engine: since its start */
};

void vm_stats(const struct vm_engine *e, struct vm_stats *ret);
void vm_stats_of(const struct vm *vm, struct vm_stats *ret);

/* --- what this host can do (`sluice doctor`) -----------------------------*/

struct vm_probe {
	const char *name;   /* "user-namespaces" */
	const char *state;  /* ok, limited, missing */
	const char *detail; /* what was found */
	const char *remedy; /* one command or sentence, or "" */
};

/* Asks the spawner; fn once, with ei when it cannot answer. */
typedef void vm_doctor_fn(void *ctx, const struct vm_probe *probes, unsigned n,
    const struct sli_errinfo *ei);
void vm_doctor(struct vm_engine *e, vm_doctor_fn *fn, void *ctx);

#endif
