/* SPDX-License-Identifier: Apache-2.0 */
/* The VM engine: VMs, their processes, and the output of those processes.
 * Owns state; asks the spawner to make and unmake, pid 1 to run things.
 * Thread: loop. Nothing here blocks. */
#ifndef SLUICE_VM_VM_H
#define SLUICE_VM_VM_H

#include "base/err.h"
#include "base/event.h"
#include "base/principal.h"
#include "base/slice.h"
#include "loop/loop.h"

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
	/* State changed (created, failed, died, deleted). */
	void (*state)(void *ctx, struct vm *vm, enum vm_state now);
	/* oom, disk_full, limit_near: once per crossing. */
	void (*notice)(void *ctx, struct vm *vm, const char *what,
	    const char *detail);
	/* The spawner or opener is gone: the server must stop. */
	void (*fatal)(void *ctx, const struct sli_errinfo *ei);
};

/* Takes both sockets (server/spawner/proto.h, server/opener/proto.h). */
SLI_MUST struct vm_engine *vm_engine_new(struct loop *l, int spawner_fd,
    int opener_fd, const struct vm_sink *sink, void *ctx);
/* Kills every VM, waits for them (bounded), frees. */
void vm_engine_free(struct vm_engine *e);

typedef void vm_done_fn(
    void *ctx, struct vm *vm, const struct sli_errinfo *ei);

/* Check all limits of the spec at once (P5), then make it. done once. */
void vm_create(struct vm_engine *e, const struct vm_spec *spec,
    vm_done_fn *done, void *ctx);
/* A VM that is known but not running (its server restarted): keeps its spec.
 * NULL only when memory is out. */
struct vm *vm_adopt_stopped(
    struct vm_engine *e, const struct vm_spec *spec, const char *reason);
/* Start a stopped VM again from its spec, on a new disk. */
void vm_start(struct vm *vm, vm_done_fn *done, void *ctx);
/* Kill all, remove all. done when nothing is left; vm is gone after it. */
void vm_delete(struct vm *vm, vm_done_fn *done, void *ctx);

/* NULL for an unknown id and for one of another tenant alike. */
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
#define VM_EXEC_AWAKE  4u

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
 * NOT_FOUND, not executable PERMISSION_DENIED, as the shell's 127 and 126). */
typedef void vm_started_fn(
    void *ctx, struct vm_proc *proc, const struct sli_errinfo *ei);
void vm_exec(struct vm *vm, const struct vm_exec_spec *spec,
    vm_started_fn *fn, void *ctx);

struct vm_proc *vm_proc_find(struct vm *vm, uint32_t pid);
struct vm_proc *vm_proc_next(struct vm *vm, uint32_t *pos);
uint32_t vm_proc_pid(const struct vm_proc *p);
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
/* Signal to the process itself; or kill its whole tree. */
SLI_MUST enum sli_err vm_proc_signal(struct vm_proc *p, int sig);
void vm_proc_kill_tree(struct vm_proc *p);
/* Ended processes stay listed (newest vm.max_ended_processes of a VM). */

/* --- stdin ---------------------------------------------------------------*/

/* Take up to n bytes; returns how many were taken by the pipe (0 = full: wait
 * for `drained`). -1: the process closed its stdin (bytes are discarded). */
long vm_stdin_write(struct vm_proc *p, const void *b, size_t n);
void vm_stdin_close(struct vm_proc *p);
/* Called when the pipe takes more, or has been closed by the process. */
void vm_stdin_on_drain(
    struct vm_proc *p, void (*fn)(void *ctx), void *ctx);

/* --- output --------------------------------------------------------------*/

/* One cursor over a process's output ring. Embedded in its owner. */
struct vm_reader {
	struct sli_list node;
	struct vm_proc *proc;
	uint64_t next;  /* offset of the next byte to hand out */
	uint64_t acked; /* drained by the consumer */
	int owner;      /* holds the ring's base while policy is pause */
	int exit_seen;
	uint64_t lost; /* pending gap */
	void (*ready)(struct vm_reader *self);
};

enum vm_out_kind { VM_OUT_NONE, VM_OUT_DATA, VM_OUT_GAP, VM_OUT_EXIT };

struct vm_out {
	enum vm_out_kind kind;
	int fd; /* 1 or 2 */
	uint64_t offset;
	uint64_t lost;
	struct sli_slice data; /* valid until the next turn of the loop */
	const struct vm_exit *exit;
};

uint64_t vm_output_start(const struct vm_proc *p);
uint64_t vm_output_end(const struct vm_proc *p);
/* ready() fires when there is something new. owner: see DESIGN 5. */
void vm_reader_attach(struct vm_proc *p, struct vm_reader *r, uint64_t from,
    int owner, void (*ready)(struct vm_reader *));
/* Next thing for this reader, at most max bytes of data, and move past it. */
void vm_reader_next(struct vm_reader *r, size_t max, struct vm_out *ret);
/* The consumer has drained up to this output offset. */
void vm_reader_ack(struct vm_reader *r, uint64_t offset);
/* An owner that leaves turns pause into drop_oldest: the work goes on. */
void vm_reader_detach(struct vm_reader *r);

struct vm_stats {
	uint64_t vms, processes, ring_held, ring_retained;
};

void vm_stats(const struct vm_engine *e, struct vm_stats *ret);

#endif
