/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: a client of the spawner (server/spawner/proto.h). Encodes
 * requests, matches answers to them by id, notices the spawner's end. Decides
 * nothing about VMs. */
#include "base/fd.h"
#include "base/ids.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "vm/fd_reserve.h"
#include "vm/vm_backend.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define PACKETS_TURN 64
#define NOGROUP      65534u
#define CREATED_FDS  2

/* One request that waits to be sent or answered. */
struct request {
	struct sli_list node; /* in `queue` until it is sent */
	uint64_t id;
	uint32_t op;
	uint64_t key;
	vm_doctor_fn *doctor;
	void *doctor_ctx;
	size_t n;
	uint8_t bytes[];
};

struct native {
	struct vm_backend b;
	struct loop *loop;
	struct loop_fd w;
	int fd;
	int hello; /* HELLO has come */
	struct sli_ids *requests;
	struct sli_list queue;
	struct fd_reserve reserve; /* CREATED_FDS for each CREATE */
	const struct vm_backend_sink *sink;
	void *ctx;
	uint8_t packet[SPAWNER_MSG_MAX];
};

static struct native *
native(struct vm_backend *b)
{
	return SLI_CONTAINER_OF(b, struct native, b);
}

static void
request_free(struct native *nt, struct request *rq)
{
	if (rq->op == SPAWNER_CREATE)
		fd_reserve_drop(&nt->reserve, CREATED_FDS);
	sli_ids_del(nt->requests, rq->id);
	sli_list_del(&rq->node);
	sli_free(rq);
}

static void
answer_failed(
    struct native *nt, const struct request *rq, const struct sli_errinfo *ei)
{
	if (rq->op == SPAWNER_CREATE)
		nt->sink->made(nt->ctx, rq->key, NULL, ei);
	else if (rq->op == SPAWNER_DELETE)
		nt->sink->removed(nt->ctx, rq->key, ei);
	else if (rq->op == SPAWNER_DOCTOR)
		rq->doctor(rq->doctor_ctx, NULL, 0, ei);
}

static void
lost(struct native *nt, int sys, const char *what)
{
	struct sli_errinfo ei;

	loop_fd_del(&nt->w);
	sli_fd_close(&nt->fd);
	sli_fail(&ei, SLI_E_SANDBOX, sys, "vm.spawner", "%s", what);
	nt->sink->fatal(nt->ctx, &ei);
}

/* --- sending --------------------------------------------------------------*/

static void
flush(struct native *nt)
{
	while (!sli_list_empty(&nt->queue)) {
		struct request *rq =
		    SLI_LIST_ENTRY(nt->queue.next, struct request, node);
		long n = sli_fd_send(nt->fd, rq->bytes, rq->n, NULL, 0);

		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
			break;
		/* A broken socket is noticed by reading it. */
		sli_list_del(&rq->node);
	}
	loop_fd_set(&nt->w, sli_list_empty(&nt->queue)
				? (uint32_t)EPOLLIN
				: (uint32_t)(EPOLLIN | EPOLLOUT));
}

/* A request of n bytes with its id in place, queued; the caller fills it in
 * before it returns to the loop and calls flush. */
static struct request *
request_new(struct native *nt, uint32_t op, size_t n, struct sli_errinfo *ei)
{
	struct spawner_msg h = {.op = op, .len = (uint32_t)n};
	struct request *rq;

	SLI_ASSERT(n <= SPAWNER_MSG_MAX);
	if (nt->fd == -1) {
		sli_fail(ei, SLI_E_UNAVAILABLE, 0, "vm.spawner",
		    "the spawner is gone, the server is stopping");
		return NULL;
	}
	rq = sli_zalloc(sizeof(*rq) + n);
	if (rq)
		rq->id = sli_ids_add(nt->requests, rq);
	if (!rq || !rq->id) {
		sli_free(rq);
		sli_fail(ei, SLI_E_UNAVAILABLE, 0, "vm.spawner",
		    "too many requests to the spawner at once");
		return NULL;
	}
	rq->op = op;
	rq->n = n;
	h.req = rq->id;
	memcpy(rq->bytes, &h, sizeof(h));
	sli_list_add_tail(&nt->queue, &rq->node);
	return rq;
}

static size_t
put_str(uint8_t *at, const char *s)
{
	size_t n = strlen(s) + 1;

	if (at)
		memcpy(at, s, n);
	return n;
}

/* Strings of CREATE; at NULL counts only. */
static size_t
put_strings(uint8_t *at, const struct vm_spec *spec)
{
	const char *name = *spec->name ? spec->name : "sluice";
	size_t n = put_str(at, name);

	for (unsigned i = 0; i < spec->nmounts; i++) {
		n += put_str(at ? at + n : NULL, spec->mounts[i].source);
		n += put_str(at ? at + n : NULL, spec->mounts[i].target);
	}
	return n;
}

/* The peer's group is known for ourselves only; others are nobody's. */
static uint32_t
peer_gid(uint32_t uid)
{
	if (uid == 0)
		return 0;
	return uid == geteuid() ? getegid() : NOGROUP;
}

static enum sli_err
native_create(struct vm_backend *b, uint64_t key, const struct vm_spec *spec,
    const struct sli_limits *lim, struct sli_errinfo *ei)
{
	struct native *nt = native(b);
	struct spawner_create c = {0};
	size_t n = sizeof(c) + put_strings(NULL, spec);
	struct request *rq;

	if (n > SPAWNER_MSG_MAX || spec->nmounts > SPAWNER_MOUNTS_MAX)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "vm.spawner",
		    "the mounts of this VM are too many or too long");
	if (fd_reserve_add(&nt->reserve, nt->fd, CREATED_FDS) != SLI_OK)
		return sli_fail(ei, SLI_E_UNAVAILABLE, EMFILE, "vm.spawner",
		    "the server has no descriptors left for a "
		    "VM; " VM_MORE_FILES);
	rq = request_new(nt, SPAWNER_CREATE, n, ei);
	if (!rq) {
		fd_reserve_drop(&nt->reserve, CREATED_FDS);
		return SLI_E_UNAVAILABLE;
	}
	rq->key = key;
	memcpy(&c.h, rq->bytes, sizeof(c.h));
	c.memory_bytes = sli_limits_get(lim, SLI_L_VM_MEMORY);
	c.disk_bytes = sli_limits_get(lim, SLI_L_VM_DISK);
	c.disk_inodes = sli_limits_get(lim, SLI_L_VM_DISK_INODES);
	c.pids = (uint32_t)sli_limits_get(lim, SLI_L_VM_PIDS);
	c.nofile = (uint32_t)sli_limits_get(lim, SLI_L_VM_NOFILE);
	c.cpu_millis = (uint32_t)sli_limits_get(lim, SLI_L_VM_CPU) * 10;
	c.peer_uid = spec->owner.uid;
	c.peer_gid = peer_gid(spec->owner.uid);
	c.nmounts = spec->nmounts;
	for (unsigned i = 0; i < spec->nmounts; i++)
		c.mount_flags[i] =
		    spec->mounts[i].read_only ? SPAWNER_MOUNT_RO : 0;
	memcpy(rq->bytes, &c, sizeof(c));
	put_strings(rq->bytes + sizeof(c), spec);
	flush(nt);
	return SLI_OK;
}

static enum sli_err
native_remove(
    struct vm_backend *b, uint64_t key, uint64_t handle, struct sli_errinfo *ei)
{
	struct native *nt = native(b);
	struct spawner_handle d = {.handle = handle};
	struct request *rq = request_new(nt, SPAWNER_DELETE, sizeof(d), ei);

	if (!rq)
		return SLI_E_UNAVAILABLE;
	rq->key = key;
	memcpy(&d.h, rq->bytes, sizeof(d.h));
	memcpy(rq->bytes, &d, sizeof(d));
	flush(nt);
	return SLI_OK;
}

static void
native_doctor(struct vm_backend *b, vm_doctor_fn *fn, void *ctx)
{
	struct native *nt = native(b);
	struct sli_errinfo ei;
	struct request *rq =
	    request_new(nt, SPAWNER_DOCTOR, sizeof(struct spawner_msg), &ei);

	if (!rq) {
		fn(ctx, NULL, 0, &ei);
		return;
	}
	rq->doctor = fn;
	rq->doctor_ctx = ctx;
	flush(nt);
}

/* --- receiving ------------------------------------------------------------*/

static void
on_failed(struct native *nt, struct request *rq, const struct spawner_failed *f)
{
	struct sli_errinfo ei;
	enum sli_err e = SLI_E_SANDBOX;
	char step[SPAWNER_STEP_MAX], text[SPAWNER_TEXT_MAX];

	sli_strlcpy(step, f->step, sizeof(step));
	sli_strlcpy(text, f->text, sizeof(text));
	if (strcmp(step, "mount") == 0)
		e = SLI_E_PERMISSION_DENIED;
	else if (strcmp(step, "pool") == 0)
		e = SLI_E_HOST_CAPACITY;
	else if (f->sys == EAGAIN || f->sys == EMFILE || f->sys == ENFILE)
		e = SLI_E_UNAVAILABLE;
	sli_fail(&ei, e, f->sys, "vm.spawner", "%s: %s%s", step, text,
	    f->sys == EMFILE || f->sys == ENFILE ? "; " VM_MORE_FILES : "");
	sli_errinfo_reason(&ei, step);
	answer_failed(nt, rq, &ei);
}

static void
on_report(struct request *rq, const struct spawner_report *r)
{
	static const char *const states[] = {
	    [SPAWNER_PROBE_OK] = "ok",
	    [SPAWNER_PROBE_MISSING] = "limited",
	    [SPAWNER_PROBE_BROKEN] = "missing",
	};
	struct vm_probe out[SPAWNER_PROBES_MAX];

	for (uint32_t i = 0; i < r->n; i++) {
		const struct spawner_probe *p = &r->probes[i];

		out[i].name = p->name;
		out[i].state = states[SLI_MIN(p->state, 2u)];
		out[i].detail = p->detail;
		out[i].remedy = p->remedy;
	}
	rq->doctor(rq->doctor_ctx, out, r->n, NULL);
}

static void
on_created(struct native *nt, struct request *rq,
    const struct spawner_created *c, int fds[2])
{
	struct vm_made m = {.handle = c->handle,
	    .ctl = fds[0],
	    .pidfd = fds[1],
	    .pid = c->pid,
	    .missing = c->missing};

	memcpy(m.enforced, c->enforced, sizeof(m.enforced));
	fds[0] = fds[1] = -1;
	nt->sink->made(nt->ctx, rq->key, &m, NULL);
}

/* Length that an answer of this op must have; 0 = not an answer. */
static size_t
answer_len(const uint8_t *pk, uint32_t op)
{
	struct spawner_report r;

	switch (op) {
	case SPAWNER_CREATED:
		return sizeof(struct spawner_created);
	case SPAWNER_DELETED:
	case SPAWNER_FROZEN:
		return sizeof(struct spawner_handle);
	case SPAWNER_FAILED:
		return sizeof(struct spawner_failed);
	case SPAWNER_REPORT:
		memcpy(&r, pk, offsetof(struct spawner_report, probes));
		if (r.n > SPAWNER_PROBES_MAX)
			return 0;
		return offsetof(struct spawner_report, probes) +
		       r.n * sizeof(struct spawner_probe);
	default:
		return 0;
	}
}

/* A pid 1 that was begun and has died of its creation: our child. */
static void
reap_unborn(int pidfd)
{
	siginfo_t si;

	(void)waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | WNOHANG | __WALL);
}

/* 0 = the spawner broke its protocol: nothing it says can be relied on. */
static int
on_answer(struct native *nt, const struct spawner_msg *h, int fds[2], int nfds)
{
	struct request *rq = sli_ids_get(nt->requests, h->req);

	union {
		struct spawner_created created;
		struct spawner_failed failed;
		struct spawner_report report;
	} u;

	if (!rq || h->len != answer_len(nt->packet, h->op))
		return 0;
	if ((h->op == SPAWNER_CREATED) != (nfds == 2))
		return 0;
	memcpy(&u, nt->packet, h->len);
	if (h->op == SPAWNER_FAILED && nfds == 1)
		reap_unborn(fds[0]);
	if (h->op == SPAWNER_FAILED)
		on_failed(nt, rq, &u.failed);
	else if (h->op == SPAWNER_CREATED && rq->op == SPAWNER_CREATE)
		on_created(nt, rq, &u.created, fds);
	else if (h->op == SPAWNER_DELETED && rq->op == SPAWNER_DELETE)
		nt->sink->removed(nt->ctx, rq->key, NULL);
	else if (h->op == SPAWNER_REPORT && rq->op == SPAWNER_DOCTOR)
		on_report(rq, &u.report);
	else
		return 0;
	request_free(nt, rq);
	return 1;
}

static int
on_packet(struct native *nt, size_t n, int fds[2], int nfds)
{
	struct spawner_msg h;
	struct spawner_hello hello;
	struct spawner_oom oom;

	if (n < sizeof(h))
		return 0;
	memcpy(&h, nt->packet, sizeof(h));
	if (h.len != n || nt->hello != (h.op != SPAWNER_HELLO))
		return 0;
	if (h.op == SPAWNER_HELLO) {
		if (n != sizeof(hello))
			return 0;
		memcpy(&hello, nt->packet, sizeof(hello));
		nt->hello = 1;
		return hello.version == SPAWNER_VERSION;
	}
	if (h.op == SPAWNER_OOM) {
		if (n != sizeof(oom))
			return 0;
		memcpy(&oom, nt->packet, sizeof(oom));
		nt->sink->oom(nt->ctx, oom.handle, oom.kills);
		return 1;
	}
	return on_answer(nt, &h, fds, nfds);
}

static void
on_socket(struct loop_fd *w, uint32_t events)
{
	struct native *nt = SLI_CONTAINER_OF(w, struct native, w);

	if (events & EPOLLOUT)
		flush(nt);
	for (int i = 0; i < PACKETS_TURN && nt->fd != -1; i++) {
		int fds[CREATED_FDS] = {-1, -1}, nfds = 0, ok;
		long n;

		fd_reserve_open(&nt->reserve, CREATED_FDS);
		n = sli_fd_recv(nt->fd, nt->packet, sizeof(nt->packet), fds,
		    CREATED_FDS, &nfds);
		if (n < 0 && errno == EAGAIN) {
			fd_reserve_shut(&nt->reserve, nt->fd);
			return;
		}
		if (n <= 0) {
			lost(nt, n < 0 ? errno : 0,
			    "the spawner has ended; all VMs are gone with it");
			return;
		}
		ok = on_packet(nt, (size_t)n, fds, nfds);
		sli_fd_close(&fds[0]);
		sli_fd_close(&fds[1]);
		if (!ok) {
			lost(nt, 0, "the spawner broke its protocol");
			return;
		}
		fd_reserve_shut(&nt->reserve, nt->fd);
	}
}

static void
native_free(struct vm_backend *b)
{
	struct native *nt = native(b);
	struct request *rq;
	uint32_t pos = 0;

	if (nt->requests) {
		while ((rq = sli_ids_next(nt->requests, &pos)) != NULL)
			request_free(nt, rq);
		sli_ids_free(nt->requests);
	}
	fd_reserve_fini(&nt->reserve);
	loop_fd_del(&nt->w);
	sli_fd_close(&nt->fd);
	sli_free(nt);
}

struct vm_backend *
backend_native_new(struct loop *l, int fd, unsigned max_requests,
    const struct vm_backend_sink *sink, void *ctx)
{
	static const struct vm_backend_ops ops = {
	    .create = native_create,
	    .remove = native_remove,
	    .doctor = native_doctor,
	    .free = native_free,
	};
	struct native *nt = sli_zalloc(sizeof(*nt));

	if (!nt) {
		sli_fd_close(&fd);
		return NULL;
	}
	nt->b.ops = &ops;
	nt->loop = l;
	nt->sink = sink;
	nt->ctx = ctx;
	nt->fd = fd;
	nt->w = (struct loop_fd)LOOP_FD_INIT;
	sli_list_init(&nt->queue);
	nt->requests = sli_ids_new(max_requests);
	if (!nt->requests ||
	    fd_reserve_init(&nt->reserve, CREATED_FDS * max_requests) !=
		SLI_OK ||
	    sli_fd_nonblock(fd, NULL) != SLI_OK ||
	    loop_fd_add(l, &nt->w, fd, EPOLLIN, on_socket) != SLI_OK) {
		native_free(&nt->b);
		return NULL;
	}
	return &nt->b;
}
