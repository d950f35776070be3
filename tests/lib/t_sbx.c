/* SPDX-License-Identifier: Apache-2.0 */
/* See t_sbx.h: helpers and VMs. Commands are in t_sbx_exec.c. */
#include "t_sbx.h"

#include "base/fd.h"
#include "base/str.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int64_t
sbx_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int
sbx_until(int (*fn)(void *), void *arg, int ms)
{
	int64_t end = sbx_now_ms() + ms;

	while (!fn(arg)) {
		if (sbx_now_ms() > end)
			return 0;
		(void)poll(NULL, 0, 2);
	}
	return 1;
}

void
sbx_libexec(char *dst, size_t cap)
{
	char exe[2048], *p;
	ssize_t n;
	int i;

	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	assert_true(n > 0);
	exe[n] = 0;
	/* build/V/t/sandbox/test_x */
	for (i = 0; i < 3; i++) {
		p = strrchr(exe, '/');
		assert_non_null(p);
		*p = 0;
	}
	sli_snprintf(dst, cap, "%s/libexec/sluice", exe);
}

void
sbx_copy(const char *from, const char *to, unsigned mode)
{
	char b[65536];
	ssize_t n;
	int in, out;

	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		fail_msg("%s is not there", from);
	out = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	assert_true(out >= 0);
	while ((n = read(in, b, sizeof(b))) > 0)
		assert_int_equal(write(out, b, (size_t)n), n);
	assert_int_equal(fchmod(out, mode), 0);
	sli_fd_close(&in);
	sli_fd_close(&out);
}

static void
copy_tool(const struct sbx *s, const char *libexec, const char *name)
{
	char from[2300], to[400];

	sli_snprintf(from, sizeof(from), "%s/../../t/tools/%s", libexec, name);
	sli_snprintf(to, sizeof(to), "%s/%s", s->allowed, name);
	sbx_copy(from, to, 0755);
}

static void
start_in(struct sbx *s)
{
	char state[300], libexec[2100];
	const char *allow[1] = {s->allowed};
	struct helpers_conf hc = {
	    .state_dir = state, .mount_allow = allow, .nmount_allow = 1};
	struct sli_errinfo ei = {0};

	sbx_libexec(libexec, sizeof(libexec));
	assert_int_equal(setenv("SLUICE_LIBEXEC", libexec, 1), 0);
	sli_snprintf(state, sizeof(state), "%s/state", s->dir);
	sli_snprintf(s->allowed, sizeof(s->allowed), "%s/allowed", s->dir);
	(void)mkdir(s->allowed, 0755);
	assert_int_equal(chmod(s->allowed, 0755), 0);
	copy_tool(s, libexec, "guest_probe");
	copy_tool(s, libexec, "guest_esc");
	if (helpers_start(&hc, &s->h, &ei) != SLI_OK)
		fail_msg("helpers_start: %s: %s", ei.where, ei.text);
	assert_int_equal(
	    sbx_recv(s, &s->hello, sizeof(s->hello), NULL, NULL, 5000),
	    sizeof(s->hello));
	assert_int_equal(s->hello.h.op, SPAWNER_HELLO);
	assert_int_equal(s->hello.version, SPAWNER_VERSION);
}

void
sbx_start_helpers(struct sbx *s)
{
	memset(s, 0, sizeof(*s));
	sli_strlcpy(s->dir, "/tmp/sluice-sbx-XXXXXX", sizeof(s->dir));
	assert_non_null(mkdtemp(s->dir));
	assert_int_equal(chmod(s->dir, 0711), 0);
	start_in(s);
}

void
sbx_start_in(struct sbx *s, const char *dir)
{
	memset(s, 0, sizeof(*s));
	sli_strlcpy(s->dir, dir, sizeof(s->dir));
	start_in(s);
	sbx_drop(s);
}

void
sbx_drop(struct sbx *s)
{
	struct sli_errinfo ei = {0};

	/* What is left removes the directories at the end. */
	if (s->h.privileged) {
		assert_int_equal(chown(s->dir, s->h.uid, s->h.gid), 0);
		assert_int_equal(chown(s->allowed, s->h.uid, s->h.gid), 0);
	}
	if (helpers_drop_privileges(&s->h, &ei) != SLI_OK)
		fail_msg("helpers_drop_privileges: %s: %s", ei.where, ei.text);
}

void
sbx_start(struct sbx *s)
{
	sbx_start_helpers(s);
	sbx_drop(s);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

void
sbx_stop(struct sbx *s)
{
	helpers_stop(&s->h);
	(void)nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	(void)rmdir(s->dir);
}

long
sbx_recv(struct sbx *s, void *p, size_t cap, int fds[2], int *nfds, int ms)
{
	struct pollfd pf = {.fd = s->h.spawner_fd, .events = POLLIN};
	int none[2], n = 0;
	long r;

	if (poll(&pf, 1, ms) <= 0)
		return -1;
	r = sli_fd_recv(s->h.spawner_fd, p, cap, fds ? fds : none, 2, &n);
	if (r < 0 && errno == ECONNRESET)
		return 0;
	if (nfds)
		*nfds = n;
	return r;
}

static size_t
put(char *at, const char *text)
{
	size_t n = strlen(text) + 1;

	memcpy(at, text, n);
	return n;
}

static void
send_create(struct sbx *s, const struct sbx_spec *spec)
{
	union {
		struct spawner_create rq;
		char b[SPAWNER_MSG_MAX];
	} m;

	size_t n = sizeof(m.rq);
	unsigned i;

	memset(&m.rq, 0, sizeof(m.rq));
	m.rq.h.op = SPAWNER_CREATE;
	m.rq.h.req = ++s->req;
	m.rq.memory_bytes = spec->memory;
	m.rq.disk_bytes = spec->disk ? spec->disk : 64u << 20;
	m.rq.disk_inodes = spec->inodes;
	m.rq.pids = spec->pids;
	m.rq.nofile = spec->nofile;
	m.rq.cpu_millis = spec->cpu;
	m.rq.peer_uid = spec->peer_uid;
	m.rq.peer_gid = spec->peer_gid;
	m.rq.nmounts = spec->nmounts;
	n += put(m.b + n, "test-vm");
	for (i = 0; i < spec->nmounts; i++) {
		m.rq.mount_flags[i] = SPAWNER_MOUNT_RO;
		n += put(m.b + n, spec->mounts[i].source);
		n += put(m.b + n, spec->mounts[i].target);
	}
	m.rq.h.len = (uint32_t)n;
	assert_int_equal(
	    sli_fd_send(s->h.spawner_fd, m.b, n, NULL, 0), (long)n);
}

/* A pid 1 that was begun is ours to reap. */
static void
reap(int pidfd)
{
	struct pollfd pf = {.fd = pidfd, .events = POLLIN};
	siginfo_t si = {0};

	assert_int_equal(poll(&pf, 1, 5000), 1);
	assert_int_equal(
	    waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | __WALL), 0);
}

int
sbx_create(struct sbx *s, const struct sbx_spec *spec, struct sbx_vm *vm,
    struct spawner_failed *f)
{
	static const struct sbx_spec plain;

	union {
		struct spawner_msg h;
		struct spawner_created c;
		struct spawner_failed f;
		char b[SPAWNER_MSG_MAX];
	} m;
	struct guest_event ev;
	int fds[2] = {-1, -1}, n = 0;

	send_create(s, spec ? spec : &plain);
	do {
		assert_true(sbx_recv(s, m.b, sizeof(m.b), fds, &n, 20000) > 0);
	} while (m.h.req != s->req);
	if (m.h.op == SPAWNER_FAILED) {
		if (f)
			*f = m.f;
		else
			fail_msg("create: %s: %s (errno %d)", m.f.step,
			    m.f.text, m.f.sys);
		if (n > 0)
			reap(fds[0]);
		sli_fd_close(&fds[0]);
		return m.f.sys;
	}
	assert_int_equal(m.h.op, SPAWNER_CREATED);
	assert_int_equal(n, 2);
	memset(vm, 0, sizeof(*vm));
	vm->c = m.c;
	vm->ctl = fds[0];
	vm->pidfd = fds[1];
	assert_true(sbx_event(vm, &ev, 5000));
	assert_int_equal(ev.op, GUEST_READY);
	assert_int_equal(ev.a, GUEST_VERSION);
	return 0;
}

void
sbx_delete(struct sbx *s, struct sbx_vm *vm)
{
	struct spawner_handle m = {
	    .h = {SPAWNER_DELETE, sizeof(m), ++s->req},
              .handle = vm->c.handle
        };

	union {
		struct spawner_msg h;
		struct spawner_failed f;
		char b[1024];
	} a;

	assert_int_equal(
	    sli_fd_send(s->h.spawner_fd, &m, sizeof(m), NULL, 0), sizeof(m));
	do {
		assert_true(
		    sbx_recv(s, a.b, sizeof(a.b), NULL, NULL, 10000) > 0);
	} while (a.h.req != s->req);
	assert_int_equal(a.h.op, SPAWNER_DELETED);
	reap(vm->pidfd);
	sli_fd_close(&vm->pidfd);
	sli_fd_close(&vm->ctl);
}

void
sbx_create_tools(struct sbx *s, struct sbx_vm *vm)
{
	struct sbx_mount m = {s->allowed, "/mnt/t"};
	struct sbx_spec spec = {.mounts = &m, .nmounts = 1};

	assert_int_equal(sbx_create(s, &spec, vm, NULL), 0);
}
