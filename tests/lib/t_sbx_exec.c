/* SPDX-License-Identifier: Apache-2.0 */
/* See t_sbx.h: commands in VMs, and the opener. */
#include "t_sbx.h"

#include "base/fd.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

uint32_t
sbx_exec(struct sbx_vm *vm, uint32_t uid, const char *cwd,
    const char *const *argv, int fd)
{
	static const char *const env[] = {"HOME=/root", "LANG=C.UTF-8"};

	static union {
		struct guest_exec x;
		char b[GUEST_MSG_MAX];
	} m;

	size_t n = sizeof(m.x), len;
	const char *s[64];
	unsigned k = 0, i;
	int fds[3];

	m.x = (struct guest_exec){
	    .op = GUEST_EXEC, .id = ++vm->id, .uid = uid, .gid = uid};
	s[k++] = cwd;
	for (i = 0; argv[i]; i++)
		s[k++] = argv[i];
	m.x.argc = i;
	s[k++] = env[0];
	s[k++] = env[1];
	m.x.envc = 2;
	for (i = 0; i < k; i++) {
		len = strlen(s[i]) + 1;
		assert_true(n + len <= sizeof(m.b));
		memcpy(m.b + n, s[i], len);
		n += len;
	}
	fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	fds[1] = fds[2] = fd;
	assert_int_equal(sli_fd_send(vm->ctl, m.b, n, fds, 3), (long)n);
	sli_fd_close(&fds[0]);
	return vm->id;
}

int
sbx_event(struct sbx_vm *vm, struct guest_event *ev, int ms)
{
	struct pollfd pf = {.fd = vm->ctl, .events = POLLIN};
	ssize_t n;

	if (poll(&pf, 1, ms) <= 0)
		return 0;
	n = recv(vm->ctl, ev, sizeof(*ev), 0);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	assert_int_equal(n, sizeof(*ev));
	return 1;
}

void
sbx_kill(struct sbx_vm *vm, uint32_t op, uint32_t id, int sig)
{
	struct guest_kill k = {.op = op, .id = id, .sig = sig};

	assert_int_equal(
	    sli_fd_send(vm->ctl, &k, sizeof(k), NULL, 0), sizeof(k));
}

/* Everything up to CLOSED or ERR of this exec, and what it wrote. */
void
sbx_run_as(struct sbx_vm *vm, uint32_t uid, const char *const *argv,
    struct sbx_result *r)
{
	struct guest_event ev;
	int p[2], open = 1, ended = 0;
	uint32_t id;
	ssize_t n;

	memset(r, 0, sizeof(*r));
	r->status = -1;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	id = sbx_exec(vm, uid, "/root", argv, p[1]);
	sli_fd_close(&p[1]);
	while (open || !ended) {
		struct pollfd pf[2] = {
		    {.fd = open ? p[0] : -1,     .events = POLLIN},
		    {.fd = ended ? -1 : vm->ctl, .events = POLLIN}
                };

		assert_true(poll(pf, 2, 60000) > 0);
		if (pf[0].revents) {
			n = read(
			    p[0], r->out + r->len, sizeof(r->out) - 1 - r->len);
			if (n <= 0)
				open = 0;
			else
				r->len += (size_t)n;
		}
		if (!pf[1].revents)
			continue;
		assert_true(sbx_event(vm, &ev, 1000));
		if (ev.id != id)
			continue;
		if (ev.op == GUEST_EXIT) {
			r->status = ev.a;
			r->signal = ev.b;
		} else if (ev.op == GUEST_ERR) {
			r->step = ev.a;
			r->err = ev.b;
			ended = 1;
		} else if (ev.op == GUEST_CLOSED) {
			r->closed = 1;
			ended = 1;
		}
	}
	sli_fd_close(&p[0]);
	r->out[r->len] = 0;
}

void
sbx_sh(struct sbx_vm *vm, const char *script, struct sbx_result *r)
{
	const char *argv[] = {"sh", "-c", script, NULL};

	sbx_run_as(vm, 0, argv, r);
}

void
sbx_open(struct sbx *s, uint32_t op, uint64_t handle, const char *path,
    struct opener_reply *r, char *text, size_t cap, int *fd)
{
	union {
		struct opener_req rq;
		struct opener_reply r;
		char b[OPENER_MSG_MAX];
	} m;

	size_t len = strlen(path) + 1, n = sizeof(m.rq) + len;
	struct pollfd pf = {.fd = s->h.opener_fd, .events = POLLIN};
	int got = -1, nfds = 0;
	long k;

	m.rq = (struct opener_req){
	    .h = {op, (uint32_t)n, ++s->req},
              .handle = handle
        };
	memcpy(m.b + sizeof(m.rq), path, len);
	assert_int_equal(sli_fd_send(s->h.opener_fd, m.b, n, NULL, 0), (long)n);
	assert_int_equal(poll(&pf, 1, 10000), 1);
	k = sli_fd_recv(s->h.opener_fd, m.b, sizeof(m.b), &got, 1, &nfds);
	assert_true(k >= (long)sizeof(m.r));
	assert_int_equal(m.r.h.req, s->req);
	*r = m.r;
	if (text) {
		text[0] = 0;
		if ((size_t)k > sizeof(m.r) && (size_t)k - sizeof(m.r) <= cap)
			memcpy(
			    text, m.b + sizeof(m.r), (size_t)k - sizeof(m.r));
	}
	if (fd)
		*fd = nfds ? got : -1;
	else if (nfds)
		sli_fd_close(&got);
}

void
sbx_healthy(struct sbx *s)
{
	static struct sbx_result r;
	struct opener_reply reply;
	struct sbx_vm v;

	assert_int_equal(sbx_create(s, NULL, &v, NULL), 0);
	sbx_sh(&v, "echo ok", &r);
	assert_string_equal(r.out, "ok\n");
	sbx_open(s, OPENER_STAT, v.c.handle, "/etc", &reply, NULL, 0, NULL);
	assert_int_equal(reply.sys, 0);
	sbx_delete(s, &v);
}
