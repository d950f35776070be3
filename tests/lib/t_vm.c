/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers and pid 1 of a VM engine, played by the test; see t_vm.h. */
#include "unit.h"

#include "t_vm.h"

#include "t_sock.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 10000

static void
on_state(void *ctx, struct vm *vm, enum vm_state now)
{
	struct t_vm *t = ctx;

	assert_int_equal(vm_state(vm), now);
	t->states[now]++;
}

static void
on_notice(void *ctx, struct vm *vm, const char *what, const char *detail)
{
	struct t_vm *t = ctx;

	(void)vm;
	(void)detail;
	assert_string_equal(what, "oom");
	t->notices++;
}

static void
on_fatal(void *ctx, const struct sli_errinfo *ei)
{
	struct t_vm *t = ctx;

	(void)ei;
	t->fatals++;
}

static const struct vm_sink sink = {on_state, on_notice, on_fatal};

static void
pair(int fds[2])
{
	assert_return_code(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), errno);
}

void
t_vm_init(struct t_vm *t)
{
	t_vm_init_with(t, SLI_L_HOST_MEMORY_SHARE, 1000);
}

void
t_vm_init_with(struct t_vm *t, int limit, uint64_t value)
{
	struct spawner_hello h = {
	    .h = {.op = SPAWNER_HELLO, .len = sizeof(h)},
	    .version = SPAWNER_VERSION,
	};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	int s[2], o[2];

	memset(t, 0, sizeof(*t));
	assert_return_code(sigaction(SIGPIPE, &ignore, NULL), errno);
	t->l = loop_new(NULL);
	assert_non_null(t->l);
	pair(s);
	pair(o);
	t->spawner = s[1];
	t->opener = o[1];
	t->lim = sli_alloc(sizeof(*t->lim));
	assert_non_null(t->lim);
	sli_limits_init(t->lim);
	t->lim->v[SLI_L_HOST_MEMORY_SHARE] = 1000;
	t->lim->v[limit] = value;
	t->e = vm_engine_new(t->l, s[0], o[0], t->lim, &sink, t);
	assert_non_null(t->e);
	assert_int_equal(
	    send(t->spawner, &h, sizeof(h), MSG_NOSIGNAL), sizeof(h));
	t->me = (struct sli_principal){.tenant = 1, .role = SLI_ROLE_ADMIN};
}

void
t_vm_fini(struct t_vm *t)
{
	vm_engine_free(t->e);
	sli_fd_close(&t->spawner);
	sli_fd_close(&t->opener);
	loop_free(t->l);
	sli_free(t->lim);
	/* Nothing of it is left to be reaped. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

void
t_vm_until(struct t_vm *t, const int *what)
{
	int64_t end = sli_mono_ms() + WAIT_MS;

	while (!*what) {
		assert_true(sli_mono_ms() < end);
		loop_turn(t->l, 100);
	}
}

void
t_vm_turns(struct t_vm *t)
{
	for (int i = 0; i < 5; i++)
		loop_turn(t->l, 0);
}

static void
on_done(void *ctx, struct vm *vm, const struct sli_errinfo *ei)
{
	struct t_vm *t = ctx;

	assert_false(t->done);
	t->done = 1;
	t->vm = vm;
	if (ei)
		t->ei = *ei;
}

void
t_vm_note(void *ctx, struct vm *vm, const struct sli_errinfo *ei)
{
	struct t_vm *t = ctx;

	assert_non_null(vm);
	assert_null(ei);
	t->noted++;
}

void
t_vm_create(struct t_vm *t, const char *id)
{
	struct vm_spec s = {.name = "test", .owner = t->me};

	sli_strlcpy(s.id, id, sizeof(s.id));
	t->done = 0;
	t->vm = NULL;
	t->ei = (struct sli_errinfo){0};
	vm_create(t->e, &s, on_done, t);
}

/* The next packet at one of the test's ends; turns the loop meanwhile. */
static size_t
next(struct t_vm *t, int fd, void *p, size_t cap, int fds[3])
{
	int64_t end = sli_mono_ms() + WAIT_MS;
	struct pollfd pf = {.fd = fd, .events = POLLIN};
	int nfds = 0;
	long n;

	while (poll(&pf, 1, 0) == 0) {
		assert_true(sli_mono_ms() < end);
		loop_turn(t->l, 10);
	}
	n = sli_fd_recv(fd, p, cap, fds, 3, &nfds);
	assert_true(n > 0);
	for (int i = nfds; i < 3; i++)
		fds[i] = -1;
	return (size_t)n;
}

uint64_t
t_vm_request(struct t_vm *t, uint32_t op, void *ret, size_t cap)
{
	static uint8_t pk[SPAWNER_MSG_MAX];
	struct spawner_msg h;
	int fds[3];
	size_t n = next(t, t->spawner, pk, sizeof(pk), fds);

	assert_int_equal(fds[0], -1);
	assert_true(n >= sizeof(h));
	memcpy(&h, pk, sizeof(h));
	assert_int_equal(h.op, op);
	assert_int_equal(h.len, n);
	if (ret)
		memcpy(ret, pk, SLI_MIN(cap, n));
	return h.req;
}

static void
answer(struct t_vm *t, const void *p, size_t n, const int *fds, int nfds)
{
	assert_int_equal(sli_fd_send(t->spawner, p, n, fds, nfds), n);
}

void
t_vm_made(struct t_vm *t, uint64_t req, struct t_pid1 *ret)
{
	struct spawner_created c = {
	    .h = {.op = SPAWNER_CREATED, .len = sizeof(c), .req = req},
	    .handle = ++t->handles,
	};
	int ctl[2], fds[2], sync[2];
	char b;

	pair(ctl);
	assert_return_code(pipe2(sync, O_CLOEXEC), errno);
	ret->child = fork();
	assert_return_code(ret->child, errno);
	if (ret->child == 0) {
		/* Or ends that the test closes would stay open in it. */
		(void)syscall(SYS_close_range, 0, ~0u, 0);
		for (;;)
			(void)pause();
	}
	sli_fd_close(&sync[1]);
	assert_int_equal(read(sync[0], &b, 1), 0);
	sli_fd_close(&sync[0]);
	fds[0] = ctl[0];
	fds[1] = (int)syscall(SYS_pidfd_open, ret->child, 0);
	assert_return_code(fds[1], errno);
	c.pid = ret->child;
	c.enforced[SPAWNER_LIM_MEMORY] = SPAWNER_ENF_CGROUP;
	c.enforced[SPAWNER_LIM_DISK] = SPAWNER_ENF_TMPFS;
	c.missing = SPAWNER_MISS_CGROUP_CPU;
	answer(t, &c, sizeof(c), fds, 2);
	sli_fd_close(&fds[0]);
	sli_fd_close(&fds[1]);
	ret->ctl = ctl[1];
	ret->handle = c.handle;
}

struct vm *
t_vm_running(struct t_vm *t, const char *id, struct t_pid1 *ret)
{
	t_vm_create(t, id);
	assert_false(t->done);
	t_vm_made(t, t_vm_request(t, SPAWNER_CREATE, NULL, 0), ret);
	t_pid1_say(ret, GUEST_READY, 0, (int)GUEST_VERSION, 0);
	t_vm_until(t, &t->done);
	assert_non_null(t->vm);
	assert_int_equal(vm_state(t->vm), VM_RUNNING);
	return t->vm;
}

void
t_vm_deleted(struct t_vm *t)
{
	struct spawner_handle h;

	(void)t_vm_request(t, SPAWNER_DELETE, &h, sizeof(h));
	h.h.op = SPAWNER_DELETED;
	answer(t, &h, sizeof(h), NULL, 0);
}

void
t_vm_failed(struct t_vm *t, uint64_t req, int sys, const char *step)
{
	struct spawner_failed f = {
	    .h = {.op = SPAWNER_FAILED, .len = sizeof(f), .req = req},
	    .sys = sys,
	};

	sli_strlcpy(f.step, step, sizeof(f.step));
	sli_strlcpy(f.text, "the test says so", sizeof(f.text));
	answer(t, &f, sizeof(f), NULL, 0);
}

void
t_vm_oom(struct t_vm *t, uint64_t handle, uint64_t kills)
{
	struct spawner_oom o = {
	    .h = {.op = SPAWNER_OOM, .len = sizeof(o)},
	    .handle = handle,
	    .kills = kills,
	};

	answer(t, &o, sizeof(o), NULL, 0);
}

void
t_pid1_say(const struct t_pid1 *p, uint32_t op, uint32_t id, int a, int b)
{
	struct guest_event ev = {.op = op, .id = id, .a = a, .b = b};

	assert_int_equal(
	    send(p->ctl, &ev, sizeof(ev), MSG_NOSIGNAL), sizeof(ev));
}

void
t_pid1_exec(struct t_vm *t, const struct t_pid1 *p, struct t_exec *ret)
{
	static uint8_t pk[GUEST_MSG_MAX];
	struct guest_exec x;
	size_t n = next(t, p->ctl, pk, sizeof(pk), ret->fds);

	assert_true(n > sizeof(x));
	memcpy(&x, pk, sizeof(x));
	assert_int_equal(x.op, GUEST_EXEC);
	assert_int_not_equal(ret->fds[2], -1);
	assert_int_equal(pk[n - 1], 0);
	ret->id = x.id;
	memset(ret->text, 0, sizeof(ret->text));
	for (size_t i = sizeof(x); i < n && i - sizeof(x) < 4095; i++)
		ret->text[i - sizeof(x)] = pk[i] ? (char)pk[i] : '|';
}

void
t_pid1_kill(struct t_vm *t, const struct t_pid1 *p, struct guest_kill *k)
{
	int fds[3];

	assert_int_equal(next(t, p->ctl, k, sizeof(*k), fds), sizeof(*k));
}

void
t_pid1_close(struct t_pid1 *p)
{
	sli_fd_close(&p->ctl);
}

void
t_exec_close(struct t_exec *x)
{
	for (int i = 0; i < 3; i++)
		sli_fd_close(&x->fds[i]);
}
