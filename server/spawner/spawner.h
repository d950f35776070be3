/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the spawner share. The spawner is a program of its own:
 * single-threaded, started before the server has a thread or any memory, and
 * the only process that keeps root's rights. It makes VMs and unmakes them;
 * it runs nothing, reads no guest file and parses nothing from the network.
 *
 * serve.c    the loop, the sockets, the queue of creations
 * request.c  packets in, checked; packets out
 * life.c     one VM from its request to its end (the state machine)
 * making.c   its making       oom.c  the kernel's kills in it
 * clone.c    the clone itself, id maps, opening root and namespaces
 * child.c    what the new process does until it becomes pid 1
 * rootfs.c   its root file system      skeleton.c  what lies in it
 * lockdown.c its loss of rights        filter.c    the system-call filter
 * cgroup.c   limits by cgroup          cgroup_find.c where they may be made
 * source.c   which host paths a VM may be shown
 * doctor.c   what this machine can do
 */
#ifndef SLUICE_SPAWNER_SPAWNER_H
#define SLUICE_SPAWNER_SPAWNER_H

#include "base/list.h"
#include "guest/proto.h"
#include "spawner/proto.h"

#include <linux/filter.h>
#include <stddef.h>
#include <sys/types.h>

/* --- faults ---------------------------------------------------------------*/

struct spawner_fault {
	int sys;
	char step[SPAWNER_STEP_MAX];
	char text[SPAWNER_TEXT_MAX];
};

/* Fill *f and return -1. */
int spawner_fail(struct spawner_fault *f, int sys, const char *step,
    const char *fmt, ...) SLI_PRINTF(4, 5);
/* The one command that allows user namespaces here, when they are refused;
 * returns 0 when nothing refuses them. */
int spawner_userns_remedy(char *dst, size_t cap);
/* A decimal number at p into *ret; returns what follows it and any newlines,
 * NULL when there is none. */
const char *spawner_number(const char *p, uint64_t *ret);
/* Host uid of root in the VM of a slot of the pool. */
uid_t spawner_uid_base(unsigned slot);

/* --- what the operator said (argv) ----------------------------------------*/

struct spawner_conf {
	int privileged; /* running as root */
	uid_t server_uid;
	gid_t server_gid;
	const char *state_dir;
	const char *libexec;
	const char *const *allow; /* mount_allow, canonical */
	unsigned nallow;
	int allow_any; /* whatever this process can read */
	int state_fd;  /* the state directory; the lock on it is ours */
	int guest_fd;  /* O_PATH, of libexec/guest; -1 = none */
	int pid1_fd;   /* sealed memfd */
	int oom_adj;   /* our own oom_score_adj */
};

/* --- skeleton -------------------------------------------------------------*/

enum skel_kind {
	SKEL_DIR,
	SKEL_FILE,
	SKEL_LINK
};

struct skel_entry {
	enum skel_kind kind;
	mode_t mode;
	uid_t owner; /* in the VM */
	char *path;  /* below the root, no leading slash */
	char *data;
	size_t len;
};

struct skeleton {
	struct skel_entry *v;
	unsigned n, cap;
	size_t bytes;
	/* host directories shown read-only at the same path, no slash */
	const char *binds[16];
	unsigned nbinds;
};

/* Built once at start: directories, generated files, an allow-list of the
 * host's /etc. Never a private key, never a user of the host. */
int skeleton_build(struct skeleton *sk, struct spawner_fault *f);

/* --- system-call filter ---------------------------------------------------*/

int filter_build(struct sock_fprog *ret, struct spawner_fault *f);

/* --- cgroups --------------------------------------------------------------*/

enum cg_ctl {
	CG_MEMORY,
	CG_PIDS,
	CG_CPU,
	CG_FREEZER,
	CG__N
};

struct cg_root {
	int version; /* 0 = not to be had, 1, 2 */
	int fd;      /* directory of this server's VMs */
	char path[512];
};

struct cg_host {
	struct cg_root ctl[CG__N]; /* in v2 all hold the same directory */
	char id[32];               /* from the state directory */
};

/* One VM's groups. */
struct cg_vm {
	char name[24];
	unsigned made;    /* bit per enum cg_ctl */
	int procs[CG__N]; /* cgroup.procs, for the child; -1 */
	int oom_fd;       /* v1: eventfd; v2: memory.events; -1 */
	uint64_t oom_kills;
};

/* Find what is writable, sweep what a dead server of the same state directory
 * left. Never fails: what cannot be had is version 0. */
void cg_find(struct cg_host *h, const struct spawner_conf *c);
unsigned cg_missing(const struct cg_host *h);
/* Remove this server's directories (they must be empty). */
void cg_leave(struct cg_host *h);
/* On failure nothing is left. */
int cg_make(const struct cg_host *h, struct cg_vm *g, uint64_t handle,
    const struct spawner_create *rq, struct spawner_fault *f);
/* Close what the child needed. */
void cg_started(struct cg_vm *g);
/* Try to remove; returns 1 when nothing is left, 0 to be tried again. */
int cg_remove(const struct cg_host *h, struct cg_vm *g);
int cg_freeze(const struct cg_host *h, const struct cg_vm *g, int frozen);
/* Read the kernel's count of kills. */
uint64_t cg_oom_kills(const struct cg_host *h, const struct cg_vm *g);
int cg_oom_armed(const struct cg_host *h);
/* Kill what is in `dir` below root r and remove it, bounded. */
void cg_sweep(const struct cg_root *r);

/* --- mounts ---------------------------------------------------------------*/

/* What was asked for, and the guest programs. */
#define SPAWNER_PLAN_MOUNTS (SPAWNER_MOUNTS_MAX + 1)

struct spawner_mount {
	int tree;  /* detached mount, or -1: the child clones `source` itself */
	dev_t dev; /* what was checked: the child must find the same */
	ino_t ino;
	int is_dir;
	char *source; /* canonical */
	char *target;
};

/* Check and take one source; see struct spawner_create. */
int source_take(const struct spawner_conf *c, const struct spawner_create *rq,
    const char *source, const char *target, struct spawner_mount *ret,
    struct spawner_fault *f);
/* The guest programs of libexec, at /opt/sluice/bin. */
int source_guest(const struct spawner_conf *c, struct spawner_mount *ret,
    struct spawner_fault *f);
void source_drop(struct spawner_mount *m);

/* --- one VM ---------------------------------------------------------------*/

/* What the child finds in its memory after the clone. */
struct spawner_plan {
	const struct spawner_conf *conf;
	const struct skeleton *skel;
	const struct sock_fprog *filter;
	struct cg_vm *cgroups;
	struct spawner_mount *mounts;
	unsigned nmounts;
	char host[SPAWNER_NAME_MAX];
	uint64_t disk_bytes, disk_inodes;
	uint64_t data_bytes; /* RLIMIT_DATA; 0 = none */
	uint32_t pids, nofile;
	int setup_fd; /* child's end */
	int ctl_fd;   /* pid 1's end */
};

/* Child to spawner. */
struct spawner_word {
	uint32_t rooted; /* else the fault */
	struct spawner_fault fault;
};

struct spawner;
struct spawner_vm;

#define SPAWNER_BUILD_MS 10000 /* most that one step of a making may take */

struct spawner_watch {
	int fd; /* -1 = none */
	void (*fn)(struct spawner *s, struct spawner_vm *vm);
	struct spawner_vm *vm;
};

enum spawner_state {
	SPAWNER_VM_NEW,      /* made a record; nothing of the VM exists */
	SPAWNER_VM_BUILDING, /* cloned; builds its root */
	SPAWNER_VM_LOCKING,  /* ROOTED seen, root opened; becomes pid 1 */
	SPAWNER_VM_RUNNING,
	SPAWNER_VM_KILLED, /* SIGKILL sent; not yet dead */
	SPAWNER_VM_DEAD,   /* all dead; cgroups are being removed */
	SPAWNER_VM_GONE,   /* nothing left; the record waits for DELETE */
	SPAWNER_VM__N,
};

struct spawner_vm {
	struct sli_list node; /* in spawner.vms */
	enum spawner_state state;
	uint64_t handle;
	uint64_t create_req; /* 0 = answered */
	uint64_t delete_req; /* 0 = not asked for */
	unsigned slot;       /* of the id pool */
	uid_t uid_base;
	pid_t pid;
	int netns;           /* for sockets inside; -1 */
	int ctl;             /* server's end, until CREATED */
	int64_t deadline_ms; /* of the state; INT64_MAX = none */
	int64_t oom_check_ms;
	int in_opener, frozen;
	int given; /* CREATED was sent: the server knows the handle */
	int oom_tries;
	unsigned missing;
	uint8_t enforced[8];
	struct spawner_fault fault; /* why the creation failed */
	struct spawner_watch setup, pidfd, oom;
	struct cg_vm cg;
};

/* clone.c: -1 and *f; on success vm->pid, pidfd and setup are set. */
int clone_vm(
    struct spawner_vm *vm, struct spawner_plan *plan, struct spawner_fault *f);
/* After ROOTED: root and user namespace into ret_fds, netns into the VM. */
int clone_open(struct spawner_vm *vm, int ret_fds[2], struct spawner_fault *f);
/* Put the remedy into the text of a fault that comes of refused namespaces. */
void clone_explain(struct spawner_fault *f);
/* Can the first steps of a VM be done here? For the doctor; 2 s at most. */
int clone_probe(const struct spawner_conf *c, struct spawner_fault *f);

/* child.c: never returns. */
SLI_NORETURN void child_run(struct spawner_plan *plan);
/* rootfs.c, in the child. */
int rootfs_build(const struct spawner_plan *p, struct spawner_fault *f);
int rootfs_probe(struct spawner_fault *f);
/* lockdown.c, in the child. */
int lockdown(const struct spawner_plan *p, struct spawner_fault *f);

/* --- the program ----------------------------------------------------------*/

struct spawner_queued {
	struct sli_list node;
	size_t len;

	union {
		struct spawner_create rq;
		struct spawner_msg h;
	};

	/* strings follow */
};

struct spawner {
	struct spawner_conf conf;
	struct skeleton skel;
	struct sock_fprog filter;
	struct cg_host cg;
	struct sli_ids *ids;
	struct sli_list vms;
	struct sli_list dead; /* records to be freed at the end of the turn */
	unsigned nbuilding;
	struct sli_list queue; /* struct spawner_queued */
	unsigned nqueue;
	struct sli_list out; /* answers that did not fit into the socket */
	uint8_t pool[SPAWNER_VMS_MAX]; /* slot in use */
	unsigned pool_next;
	int epoll, server, opener;
	int stopping, failed;
};

/* serve.c: until the server has gone and nothing is left. */
int serve(struct spawner *s);
/* Call fn(vm) when w->fd is ready. */
int serve_watch(struct spawner *s, struct spawner_watch *w, uint32_t events,
    void (*fn)(struct spawner *, struct spawner_vm *), struct spawner_vm *vm);
/* Close w->fd. */
void serve_unwatch(struct spawner *s, struct spawner_watch *w);
int64_t serve_now_ms(void);
/* Send or queue; descriptors are duplicated when queued. */
void serve_send(struct spawner *s, const void *msg, const int *fds, int nfds);
/* SPAWNER_FAILED, with a pidfd when fd >= 0. */
void serve_fault(
    struct spawner *s, uint64_t req, const struct spawner_fault *f, int fd);
/* Tell the opener of a VM; fds NULL = it is gone. */
int serve_opener(struct spawner *s, uint64_t handle, const int *fds);

/* request.c: one packet of the server. */
void request_handle(struct spawner *s, const void *packet, size_t len);
/* The string of a checked packet behind p, and the next. */
const char *request_next(const char *p);

/* life.c */
extern const char *const spawner_state_names[SPAWNER_VM__N];
void life_create(struct spawner *s, const struct spawner_create *rq);
void life_delete(struct spawner *s, uint64_t handle, uint64_t req);
void life_freeze(struct spawner *s, const struct spawner_freeze *rq);
/* Deadlines, retries; returns ms until it must be called again, or -1. */
int life_tick(struct spawner *s);
/* Kill all; the loop goes on until `vms` is empty. */
void life_stop(struct spawner *s);
/* Free what has ended in this turn. */
void life_bury(struct spawner *s);
/* The one setter of vm->state. */
void life_set_state(
    struct spawner *s, struct spawner_vm *vm, enum spawner_state to);
/* A new record with a handle and a slot; NULL when there is no room. */
struct spawner_vm *life_record(struct spawner *s, uint64_t req);
/* Answer the creation with *f; what of the VM exists is taken back. */
void life_fail(
    struct spawner *s, struct spawner_vm *vm, const struct spawner_fault *f);
/* pid 1 is dead, and with it everything in the VM. */
void life_died(struct spawner *s, struct spawner_vm *vm);

/* making.c: answers with CREATED later, or FAILED. */
void making_begin(struct spawner *s, const struct spawner_create *rq);

/* oom.c */
void oom_event(struct spawner *s, struct spawner_vm *vm);
void oom_check(struct spawner *s, struct spawner_vm *vm);

/* doctor.c */
void doctor_report(struct spawner *s, uint64_t req);

#endif
