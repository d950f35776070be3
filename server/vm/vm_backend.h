/* SPDX-License-Identifier: Apache-2.0 */
/* What makes and unmakes VMs. One backend today, native (the spawner); the
 * seam is for OCI runtimes. A backend names VMs by the engine's key and by its
 * own handle; it knows no struct vm. All answers come from the loop, never
 * from inside a call. Thread: loop. */
#ifndef SLUICE_VM_BACKEND_H
#define SLUICE_VM_BACKEND_H

#include "base/limits.h"
#include "spawner/proto.h"
#include "vm/vm.h"

/* What helps when descriptors are short. */
#define VM_MORE_FILES                                                     \
	"raise the limit of open files (ulimit -Hn) that sluiced starts " \
	"with"

struct vm_backend;

/* A VM that has been made. Whoever gets it owns the descriptors. */
struct vm_made {
	uint64_t handle;
	int ctl;   /* control socket of pid 1, READY not read yet */
	int pidfd; /* of pid 1, our child */
	int pid;
	uint32_t missing; /* enum spawner_miss */
	uint8_t enforced[SPAWNER_LIM__N];
};

struct vm_backend_sink {
	/* Answer to create: m, or NULL and ei. */
	void (*made)(void *ctx, uint64_t key, const struct vm_made *m,
	    const struct sli_errinfo *ei);
	/* Answer to remove; ei NULL = nothing is left. */
	void (*removed)(void *ctx, uint64_t key, const struct sli_errinfo *ei);
	void (*oom)(void *ctx, uint64_t handle, uint64_t kills);
	/* The backend is gone; called once. */
	void (*fatal)(void *ctx, const struct sli_errinfo *ei);
};

struct vm_backend_ops {
	/* A failure here is the answer: made is not called. */
	enum sli_err (*create)(struct vm_backend *b, uint64_t key,
	    const struct vm_spec *spec, const struct sli_limits *lim,
	    struct sli_errinfo *ei);
	/* Kill, remove all. A failure here is the answer. */
	enum sli_err (*remove)(struct vm_backend *b, uint64_t key,
	    uint64_t handle, struct sli_errinfo *ei);
	void (*doctor)(struct vm_backend *b, vm_doctor_fn *fn, void *ctx);
	void (*free)(struct vm_backend *b);
};

struct vm_backend {
	const struct vm_backend_ops *ops;
};

/* Takes the spawner's socket, also on failure (NULL). */
SLI_MUST struct vm_backend *backend_native_new(struct loop *l, int fd,
    unsigned max_requests, const struct vm_backend_sink *sink, void *ctx);

#endif
