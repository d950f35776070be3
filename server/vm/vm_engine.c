/* SPDX-License-Identifier: Apache-2.0 */
/* The table of VMs, who may see them, and the two helpers that the engine
 * talks to. The life of one VM is vm.c's. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "vm/vm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what the helpers say -------------------------------------------------*/

static void
on_made(void *ctx, uint64_t key, const struct vm_made *m,
    const struct sli_errinfo *ei)
{
	struct vm_engine *e = ctx;
	struct vm *vm = sli_ids_get(e->keys, key);

	/* A VM with a request outstanding is never freed. */
	SLI_ASSERT(vm && vm->making);
	vm_made(vm, m, ei);
}

static void
on_removed(void *ctx, uint64_t key, const struct sli_errinfo *ei)
{
	struct vm_engine *e = ctx;
	struct vm *vm = sli_ids_get(e->keys, key);

	SLI_ASSERT(vm && vm->removing);
	vm_removed(vm, ei);
}

static void
on_oom(void *ctx, uint64_t handle, uint64_t kills)
{
	struct vm_engine *e = ctx;
	struct vm *vm;
	uint32_t pos = 0;

	while ((vm = sli_ids_next(e->keys, &pos)) != NULL) {
		if (vm->handle != handle)
			continue;
		vm_oom(vm, kills);
		return;
	}
}

static void
on_fatal(void *ctx, const struct sli_errinfo *ei)
{
	struct vm_engine *e = ctx;

	sli_log(SLI_LOG_ERR, "vm", "fatal", "%s", ei->text);
	e->sink->fatal(e->ctx, ei);
}

/* Nothing is asked of the opener yet, so whatever comes is its end. */
static void
on_opener(struct loop_fd *w, uint32_t events)
{
	struct vm_engine *e = SLI_CONTAINER_OF(w, struct vm_engine, opener_w);
	struct sli_errinfo ei;

	(void)events;
	loop_fd_del(&e->opener_w);
	sli_fd_close(&e->opener_fd);
	sli_fail(&ei, SLI_E_SANDBOX, 0, "vm.opener", "the opener has ended");
	on_fatal(e, &ei);
}

/* --- birth and death ------------------------------------------------------*/

static uint64_t
read_mem_total(void)
{
	char text[2048], *at, num[24];
	uint64_t kib;
	size_t n;

	if (sli_fd_read_file(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, "MemTotal:");
	if (!at)
		return 0;
	at += strlen("MemTotal:");
	at += strspn(at, " ");
	n = strspn(at, "0123456789");
	if (n == 0 || n >= sizeof(num))
		return 0;
	memcpy(num, at, n);
	num[n] = '\0';
	return sli_parse_u64(num, &kib) == SLI_OK ? kib * 1024 : 0;
}

static int
is_socket(int fd)
{
	int type;
	socklen_t n = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0;
}

static void
engine_fini(struct vm_engine *e)
{
	if (e->backend)
		e->backend->ops->free(e->backend);
	loop_fd_del(&e->opener_w);
	sli_fd_close(&e->opener_fd);
	loop_hook_cancel(&e->refuse);
	sli_ids_free(e->keys);
	sli_map_free(e->by_id);
	sli_free(e);
}

struct vm_engine *
vm_engine_new(struct loop *l, int spawner_fd, int opener_fd,
    const struct sli_limits *limits, const struct vm_sink *sink, void *ctx)
{
	static const struct vm_backend_sink bs = {
	    .made = on_made,
	    .removed = on_removed,
	    .oom = on_oom,
	    .fatal = on_fatal,
	};
	struct vm_engine *e = sli_zalloc(sizeof(*e));
	unsigned max = (unsigned)sli_limits_get(limits, SLI_L_VM_MAX_VMS);

	if (!e) {
		sli_fd_close(&spawner_fd);
		sli_fd_close(&opener_fd);
		return NULL;
	}
	e->loop = l;
	e->sink = sink;
	e->ctx = ctx;
	e->lim = *limits;
	e->opener_fd = opener_fd;
	e->opener_w = (struct loop_fd)LOOP_FD_INIT;
	e->mem_total = read_mem_total();
	sli_list_init(&e->orphans);
	sli_list_init(&e->refused);
	loop_hook_init(&e->refuse, engine_refuse);
	e->by_id = sli_map_new();
	/* Known VMs of a server with a higher limit before are adopted too. */
	e->keys = sli_ids_new(UINT32_MAX);
	if (is_socket(spawner_fd))
		e->backend =
		    backend_native_new(l, spawner_fd, 2 * max + 64, &bs, e);
	else
		sli_fd_close(&spawner_fd);
	if (!e->by_id || !e->keys || !e->backend || !e->mem_total ||
	    !is_socket(opener_fd) ||
	    loop_fd_add(l, &e->opener_w, opener_fd, EPOLLIN | EPOLLRDHUP,
		on_opener) != SLI_OK) {
		engine_fini(e);
		return NULL;
	}
	return e;
}

/* The one wait of this room: until pid 1 of every VM is dead and reaped, or
 * the time is over. The spawner removes the rest when its socket ends. */
static void
kill_all(struct vm_engine *e)
{
	int64_t end = sli_mono_ms() + VM_FREE_MS;
	uint32_t pos = 0;
	struct vm *vm;

	while ((vm = sli_ids_next(e->keys, &pos)) != NULL) {
		guest_link_close(&vm->link);
		if (vm->pidfd != -1)
			(void)syscall(
			    SYS_pidfd_send_signal, vm->pidfd, SIGKILL, NULL, 0);
	}
	pos = 0;
	while ((vm = sli_ids_next(e->keys, &pos)) != NULL) {
		struct pollfd pf = {.fd = vm->pidfd, .events = POLLIN};
		int64_t left = SLI_MAX(end - sli_mono_ms(), (int64_t)0);
		siginfo_t si;

		if (vm->pidfd == -1)
			continue;
		while (poll(&pf, 1, (int)left) < 0 && errno == EINTR)
			left = SLI_MAX(end - sli_mono_ms(), (int64_t)0);
		if (waitid(P_PIDFD, (id_t)vm->pidfd, &si,
			WEXITED | WNOHANG | __WALL) != 0)
			sli_log(SLI_LOG_WARN, "vm", "reap", "vm=%s errno=%d",
			    vm->spec.id, errno);
	}
}

void
vm_engine_free(struct vm_engine *e)
{
	struct sli_list *lists[2];
	uint32_t pos = 0;
	struct vm *vm;

	if (!e)
		return;
	kill_all(e);
	lists[0] = &e->orphans;
	lists[1] = &e->refused;
	for (int i = 0; i < 2; i++)
		while (!sli_list_empty(lists[i]))
			proc_destroy(SLI_LIST_ENTRY(
			    lists[i]->next, struct vm_proc, node));
	while ((vm = sli_ids_next(e->keys, &pos)) != NULL) {
		engine_forget(e, vm);
		vm_destroy(vm);
	}
	engine_fini(e);
}

/* --- the table ------------------------------------------------------------*/

struct vm *
engine_add(struct vm_engine *e, const struct vm_spec *spec,
    const struct sli_limits *lim, struct sli_errinfo *ei)
{
	struct sli_slice id = sli_slice_str(spec->id);
	struct vm *vm;

	if (id.n == 0 || sli_map_get(e->by_id, id)) {
		sli_fail(ei, SLI_E_ALREADY_EXISTS, 0, "vm.create",
		    "there is a VM with this id");
		return NULL;
	}
	vm = vm_new(e, spec, lim);
	if (vm)
		vm->key = sli_ids_add(e->keys, vm);
	if (!vm || !vm->key || sli_map_put(e->by_id, id, vm) != 0) {
		if (vm && vm->key)
			sli_ids_del(e->keys, vm->key);
		if (vm)
			vm_destroy(vm);
		sli_fail(ei, SLI_E_NOMEM, 0, "vm.create", "no memory for a VM");
		return NULL;
	}
	e->sum.vms++;
	return vm;
}

void
engine_forget(struct vm_engine *e, struct vm *vm)
{
	SLI_ASSERT(sli_map_del(e->by_id, sli_slice_str(vm->spec.id)) == vm);
	sli_ids_del(e->keys, vm->key);
	e->sum.vms--;
}

static int
visible(const struct sli_principal *p, const struct vm *vm)
{
	return !vm->deleting && sli_principal_sees(p, vm->spec.owner.tenant);
}

struct vm *
vm_find(struct vm_engine *e, const struct sli_principal *p, const char *id)
{
	struct vm *vm = sli_map_get(e->by_id, sli_slice_str(id));

	return vm && visible(p, vm) ? vm : NULL;
}

struct vm *
vm_next(struct vm_engine *e, const struct sli_principal *p, uint32_t *pos)
{
	struct vm *vm;

	while ((vm = sli_ids_next(e->keys, pos)) != NULL)
		if (visible(p, vm))
			return vm;
	return NULL;
}

void
vm_stats(const struct vm_engine *e, struct vm_stats *ret)
{
	*ret = e->sum;
}

void
vm_doctor(struct vm_engine *e, vm_doctor_fn *fn, void *ctx)
{
	e->backend->ops->doctor(e->backend, fn, ctx);
}
