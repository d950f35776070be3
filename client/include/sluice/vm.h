/* SPDX-License-Identifier: Apache-2.0 */
/* The part of <sluice.h> with the typed calls on the server, its VMs and their
 * processes. Include <sluice.h>, not this.
 *
 * With ret_s NULL a typed call waits for its end and returns its error (BUSY
 * inside a callback); else it returns at once with the running call. Either
 * way fn gets every item, then once NULL: the end, with err NULL or the error.
 * fn may be NULL. A call that could not start returns its error and calls
 * nothing. */
#ifndef SLUICE_VM_H
#define SLUICE_VM_H

#include <sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- the server ----------------------------------------------------------*/

struct sluice_server_info {
	size_t size;
	const char *version;
	const char *boot_id;          /* hex; new at every start */
	const char *principal, *role; /* who the server thinks you are */
	uint64_t uptime_ms;
	uint32_t pid, uid, connections, streams, vms, sessions;
};

struct sluice_stat {
	size_t size;
	const char *name, *scope, *unit;
	uint64_t value;
};

/* state: ok, limited, missing. */
struct sluice_doctor_line {
	size_t size;
	const char *name, *state, *detail, *remedy;
};

typedef void sluice_server_info_fn(void *arg,
    const struct sluice_server_info *i, const struct sluice_error *err);
typedef void sluice_stat_fn(
    void *arg, const struct sluice_stat *st, const struct sluice_error *err);
typedef void sluice_doctor_fn(void *arg, const struct sluice_doctor_line *d,
    const struct sluice_error *err);
typedef void sluice_bytes_fn(
    void *arg, const void *p, size_t n, const struct sluice_error *err);

/* The same bytes come back. */
SLUICE_API int sluice_echo(sluice_client *c, const void *p, size_t n,
    sluice_bytes_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
SLUICE_API int sluice_server_info(sluice_client *c, sluice_server_info_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err);
/* buffers 1: only the byte gauges inflight, held, retained. */
SLUICE_API int sluice_server_stats(sluice_client *c, int buffers,
    sluice_stat_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* What this machine can do for VMs, and how to mend what is missing. */
SLUICE_API int sluice_server_doctor(sluice_client *c, sluice_doctor_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err);

/* --- VMs -----------------------------------------------------------------*/

enum {
	SLUICE_VM_CREATING = 1,
	SLUICE_VM_RUNNING,
	SLUICE_VM_STOPPED,
	SLUICE_VM_FAILED,
	SLUICE_VM_DELETED
};

/* "running" and so on; "unknown" for a foreign number. */
SLUICE_API const char *sluice_vm_state_name(int32_t state);

struct sluice_mount {
	size_t size;
	const char *source; /* on the server's host */
	const char *target; /* in the VM */
	int32_t read_only;
};

struct sluice_vm_spec {
	size_t size;
	const char *name; /* label, or NULL */
	const struct sluice_mount *const *mounts;
	const char *const *env;
	const char *const *limits; /* "vm.KEY=VALUE" */
	const char *key;           /* idempotency key, or NULL */
};

/* enforcement: hard:cgroup, hard:rlimit, hard:tmpfs, soft:watchdog, none. */
struct sluice_vm_limit {
	size_t size;
	const char *key, *enforcement;
	uint64_t value;
};

struct sluice_vm {
	size_t size;
	const char *vm, *name, *reason;
	int32_t state;
	uint32_t processes, sessions;
	uint32_t init_pid; /* on the server's host; 0 = not for you */
	uint64_t created_ms;
	const struct sluice_mount *const *mounts;
	const struct sluice_vm_limit *const *limits;
	const char *const *missing; /* features this host cannot give */
};

typedef void sluice_vm_fn(
    void *arg, const struct sluice_vm *vm, const struct sluice_error *err);

SLUICE_API int sluice_vm_create(sluice_client *c,
    const struct sluice_vm_spec *spec, sluice_vm_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err);
SLUICE_API int sluice_vm_get(sluice_client *c, const char *vm, sluice_vm_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err);
SLUICE_API int sluice_vm_list(sluice_client *c, sluice_vm_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err);
/* Ends when everything in it is gone. */
SLUICE_API int sluice_vm_delete(sluice_client *c, const char *vm,
    sluice_done_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);

/* --- processes -----------------------------------------------------------*/

struct sluice_exec_spec {
	size_t size;
	const char *vm;
	const char *cwd; /* NULL: /root */
	const char *const *argv;
	const char *const *env; /* added to the VM's */
	uint64_t timeout_ms;    /* 0: none; then its tree is killed */
	int32_t detach;         /* no stdin; the newest output is kept */
	int32_t keep_awake;     /* counts as activity of the VM */
	uint32_t uid, gid;      /* in the VM */
};

struct sluice_exit {
	size_t size;
	int32_t code;      /* when signal is 0 */
	int32_t signal;    /* that ended it, or 0 */
	int32_t timed_out; /* killed because timeout_ms passed */
	int32_t truncated; /* output after the drain grace was cut */
	int32_t oom;       /* killed for memory */
};

struct sluice_proc {
	size_t size;
	uint32_t pid; /* in the VM */
	int32_t detached;
	const char *state;   /* running, exited */
	const char *session; /* set when it is an agent */
	const char *const *argv;
	const struct sluice_exit *exit; /* NULL while it runs */
	uint64_t started_ms, output_start, output_end;
};

/* Every member may be NULL. Data: sluice_msg_done(m) once it is drained; `p`
 * is valid until then. on_end comes once, last; its err is NULL exactly when
 * on_exit was called. */
struct sluice_exec_handler {
	size_t size;
	void (*on_started)(
	    void *arg, sluice_stream *s, uint32_t pid, uint64_t start);
	void (*on_data)(void *arg, sluice_stream *s, int32_t fd,
	    uint64_t offset, const void *p, size_t n, sluice_msg *m);
	/* `lost` bytes were overwritten; output goes on at `offset`. */
	void (*on_gap)(
	    void *arg, sluice_stream *s, uint64_t offset, uint64_t lost);
	void (*on_exit)(
	    void *arg, sluice_stream *s, const struct sluice_exit *e);
	void (*on_writable)(void *arg, sluice_stream *s);
	void (*on_end)(
	    void *arg, sluice_stream *s, const struct sluice_error *err);
};

typedef void sluice_proc_fn(
    void *arg, const struct sluice_proc *p, const struct sluice_error *err);

/* Run a process. Leaving (free, cancel, a lost connection) does not end it.
 * The stream can be used inside on_started and later also with ret_s NULL. */
SLUICE_API int sluice_exec(sluice_client *c,
    const struct sluice_exec_spec *spec, const struct sluice_exec_handler *h,
    void *arg, sluice_stream **ret_s, struct sluice_error *err);
/* Output of a process from offset `from` on, then its exit. */
SLUICE_API int sluice_attach(sluice_client *c, const char *vm, uint32_t pid,
    uint64_t from, const struct sluice_exec_handler *h, void *arg,
    sluice_stream **ret_s, struct sluice_error *err);
/* Queue up to n bytes of stdin; *ret_n says how many were taken. AGAIN when
 * none: on_writable follows. */
SLUICE_API int sluice_exec_stdin(sluice_stream *s, const void *p, size_t n,
    size_t *ret_n, struct sluice_error *err);
/* End of file after what is queued. */
SLUICE_API int sluice_exec_close_stdin(
    sluice_stream *s, struct sluice_error *err);
/* Signal the process itself; overtakes queued stdin. */
SLUICE_API int sluice_exec_signal(
    sluice_stream *s, int32_t sig, struct sluice_error *err);
SLUICE_API int sluice_ps(sluice_client *c, const char *vm, sluice_proc_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err);
/* sig 0: SIGKILL to its whole tree. */
SLUICE_API int sluice_kill(sluice_client *c, const char *vm, uint32_t pid,
    int32_t sig, sluice_done_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);

#ifdef __cplusplus
}
#endif

#endif
