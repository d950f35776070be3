/* SPDX-License-Identifier: Apache-2.0 */
/* A miniature server for the tests of the sandbox: starts the real spawner and
 * opener, gives up its rights as sluiced does, makes VMs and runs commands in
 * them, one at a time, blocking. Fails the test (by cmocka) on what a healthy
 * helper never does. */
#ifndef TESTS_LIB_T_SBX_H
#define TESTS_LIB_T_SBX_H

#include "guest/proto.h"
#include "main/helpers.h"
#include "opener/proto.h"
#include "spawner/proto.h"

#include <stddef.h>

struct sbx {
	struct helpers h;
	struct spawner_hello hello;
	char dir[256];     /* 0711, ours; state/ and allowed/ are in it */
	char allowed[280]; /* holds guest_probe and guest_esc */
	uint64_t req;
};

struct sbx_vm {
	struct spawner_created c;
	int ctl, pidfd;
	uint32_t id; /* last exec */
};

struct sbx_mount {
	const char *source, *target;
};

struct sbx_spec {
	uint64_t memory, disk, inodes; /* disk 0 = 64 MiB */
	uint32_t pids, nofile, cpu;
	uint32_t peer_uid, peer_gid;
	const struct sbx_mount *mounts;
	unsigned nmounts;
};

struct sbx_result {
	int status, signal; /* of the command; -1 when it did not start */
	int step, err;      /* GUEST_ERR */
	int closed;         /* CLOSED was seen too */
	size_t len;
	char out[65536]; /* stdout and stderr, terminated */
};

/* Where the helpers of this build are: beside the test's own program. */
void sbx_libexec(char *dst, size_t cap);
/* Temp directory, helpers, privileges dropped. allowed/ may be mounted. */
void sbx_start(struct sbx *s);
/* The same in the directory of an earlier one. */
void sbx_start_in(struct sbx *s, const char *dir);
/* As sbx_start without giving up rights: for parents of hostile servers. */
void sbx_start_helpers(struct sbx *s);
void sbx_drop(struct sbx *s);
void sbx_copy(const char *from, const char *to, unsigned mode);
/* Stops the helpers, removes the directory. */
void sbx_stop(struct sbx *s);

/* 0, or the errno of SPAWNER_FAILED, which is in *f (may be NULL). */
int sbx_create(struct sbx *s, const struct sbx_spec *spec, struct sbx_vm *vm,
    struct spawner_failed *f);
/* With allowed/ at /mnt/t and 64 MiB; fails the test when it fails. */
void sbx_create_tools(struct sbx *s, struct sbx_vm *vm);
/* DELETE, wait for the answer, reap, close. */
void sbx_delete(struct sbx *s, struct sbx_vm *vm);
/* Next packet of the spawner within ms; length, 0 at its end, -1 timeout. */
long sbx_recv(
    struct sbx *s, void *p, size_t cap, int fds[2], int *nfds, int ms);

/* Start a command with stdout and stderr on `fd`; stdin /dev/null. */
uint32_t sbx_exec(struct sbx_vm *vm, uint32_t uid, const char *cwd,
    const char *const *argv, int fd);
/* Next event of pid 1 within ms; 0 on timeout or end. */
int sbx_event(struct sbx_vm *vm, struct guest_event *ev, int ms);
void sbx_kill(struct sbx_vm *vm, uint32_t op, uint32_t id, int sig);
/* Run to CLOSED and the end of its output. */
void sbx_run_as(struct sbx_vm *vm, uint32_t uid, const char *const *argv,
    struct sbx_result *r);
/* Run a shell script as root in the VM; its output ends with a newline. */
void sbx_sh(struct sbx_vm *vm, const char *script, struct sbx_result *r);

/* One request to the opener, its answer; *fd gets the descriptor or -1. */
void sbx_open(struct sbx *s, uint32_t op, uint64_t handle, const char *path,
    struct opener_reply *r, char *text, size_t cap, int *fd);

/* Both helpers still do their work: a VM, a command, a path. */
void sbx_healthy(struct sbx *s);

int64_t sbx_now_ms(void);
/* Wait until fn(arg) is true; 0 when ms have passed. Polls a condition that
 * no descriptor announces. */
int sbx_until(int (*fn)(void *), void *arg, int ms);

#endif
