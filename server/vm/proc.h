/* SPDX-License-Identifier: Apache-2.0 */
/* One process started by Exec: its state machine, pipes, ring and readers.
 * What the rooms above see of it is in vm.h; this page is the room's own. */
#ifndef SLUICE_VM_PROC_H
#define SLUICE_VM_PROC_H

#include "base/buf.h"
#include "loop/loop.h"
#include "vm/ring.h"
#include "vm/vm.h"

/* docs/STATES.md, Process. */
enum proc_state {
	PROC_STARTING = 1, /* not listed; pid 1 has not answered */
	PROC_RUNNING,
	PROC_DRAINING, /* ended; its pipes are being emptied */
	PROC_EXITED,   /* everything read, exit may be reported */
	PROC_GONE,     /* not listed, no reader: dies at the reap point */
};

/* Our end of stdout or stderr. */
struct proc_pipe {
	struct loop_fd w;
	struct loop_hook again; /* paused: read at the end of this turn */
	struct vm_proc *proc;
	int fdno; /* 1 or 2 */
	int fd;
	int open;      /* end of file not seen yet */
	int paused;    /* not read: the ring is full of held bytes */
	unsigned full; /* reads in a row that found a full pipe */
	size_t size;   /* capacity beyond the default, charged to engine */
	uint64_t must; /* DRAINING: bytes that were in it at the exit */
};

/* Our end of stdin. */
struct proc_stdin {
	struct loop_fd w;
	struct vm_proc *proc;
	int fd; /* -1 = closed */
	int watching;
	void (*fn)(void *ctx);
	void *ctx;
};

struct vm_proc {
	struct vm_engine *engine;
	struct vm *vm;        /* NULL once the VM is gone */
	struct sli_list node; /* vm->procs, or engine->orphans */
	enum proc_state state;
	uint32_t id; /* names it to pid 1; rises, never reused */
	uint32_t pid;
	unsigned flags; /* VM_EXEC_* */
	int launched;   /* its EXEC has been given to the link */
	int closed;     /* pid 1: nothing of it lives any more */
	int killed;     /* we asked for a SIGKILL */
	char **argv;
	char *session; /* or NULL */
	int64_t started_ms;
	uint64_t timeout_ms;
	struct sli_buf exec; /* encoded EXEC until it is sent */

	vm_started_fn *started; /* NULL once called */
	void *started_ctx;
	void (*on_exit)(void *ctx, const struct vm_exit *st);
	void *on_exit_ctx;

	struct proc_stdin in;
	struct proc_pipe out[2];
	int raw[3]; /* RAW: until they are taken */

	struct vm_ring ring;
	struct sli_list readers;
	struct vm_reader *owner; /* holds the ring's base; or NULL */
	int may_own;             /* inside its vm_started_fn */
	uint64_t held, retained; /* as last added to the sums */

	struct vm_exit exit;
	int grace_over;
	int oom_wait;               /* DRAINING: was it killed for memory? */
	struct sli_errinfo refusal; /* in engine->refused: why */
	struct loop_timer timeout, grace, oom;
	struct loop_reap reap;
};

/* --- proc.c: life --------------------------------------------------------*/

/* STARTING, in no list yet. NULL: out of memory. */
SLI_MUST struct vm_proc *proc_new(
    struct vm *vm, unsigned flags, vm_started_fn *fn, void *ctx);
/* Check the spec, take what is needed of it and memory for the output. */
SLI_MUST enum sli_err proc_prepare(
    struct vm_proc *p, const struct vm_exec_spec *spec, struct sli_errinfo *ei);
/* Make the pipes and hand EXEC to pid 1 of the running VM. */
SLI_MUST enum sli_err proc_launch(struct vm_proc *p, struct sli_errinfo *ei);
/* Told by pid 1, ids already looked up. */
void proc_on_started(struct vm_proc *p, uint32_t pid);
/* STARTING ends: the caller is told, p is gone. */
void proc_on_failed(struct vm_proc *p, const struct sli_errinfo *ei);
void proc_on_exit(struct vm_proc *p, int code, int signal);
/* Pid 1 is dead, all its processes with it: STARTING fails with ei, RUNNING
 * ends by signal 9. */
void proc_on_vm_death(struct vm_proc *p, const struct sli_errinfo *ei);
/* The VM goes, or forgets it: it lives on for its readers only. */
void proc_orphan(struct vm_proc *p);
/* Engine teardown: free everything now, call nobody. */
void proc_destroy(struct vm_proc *p);
/* SIGKILL to all that it started; nothing to do when nothing of it lives. */
SLI_MUST enum sli_err proc_kill_tree(struct vm_proc *p);
/* DRAINING and both pipes at their end or given up: report the exit. */
void proc_maybe_done(struct vm_proc *p);
/* Free it at the reap point if it is unlisted and nobody reads it. */
void proc_maybe_gone(struct vm_proc *p);

/* --- pipe.c: output pipes ------------------------------------------------*/

/* Watch both ends (descriptors become the pipes'). */
void pipe_start(struct vm_proc *p, int out_fd, int err_fd);
/* The process has ended: note what is in the pipes, read what is there. */
void pipe_drain(struct vm_proc *p);
/* The grace is over: close what holds nothing of the process's own. */
void pipe_grace_over(struct vm_proc *p);
/* Held bytes have gone: go on reading (at the end of this turn). */
void pipe_resume(struct vm_proc *p);
void pipe_close(struct proc_pipe *pp);

/* --- stdin.c -------------------------------------------------------------*/

void stdin_start(struct vm_proc *p, int fd);
/* Closes; a waiting writer is told. */
void stdin_stop(struct vm_proc *p);

/* --- reader.c ------------------------------------------------------------*/

/* New bytes, a gap or the exit: call ready() of readers that wait. */
void readers_wake(struct vm_proc *p);
/* After each change of the ring: bring the sums of VM and engine up to date. */
void proc_account(struct vm_proc *p);

#endif
