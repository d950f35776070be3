/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h: the server's life and the command. Looking is world_look.c. */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define START_MS 20000

const char *
world_built(const char *rel, char *dst, size_t cap)
{
	(void)snprintf(dst, cap, "%s/%s", SLUICE_BUILD_DIR, rel);
	return dst;
}

int
world_long(void)
{
	const char *v = getenv("SLUICE_LONG");
	return v && *v;
}

static const char *
path(const struct world *w, const char *rel, char *dst, size_t cap)
{
	(void)snprintf(dst, cap, "%s/%s", w->dir, rel);
	return dst;
}

static pid_t owner; /* whose servers they are: not a forked child's */

static void servers_end(void);

void
world_init(struct world *w)
{
	const char *tmp = getenv("TMPDIR");
	servers_end();
	if (!owner)
		assert_int_equal(atexit(servers_end), 0);
	owner = getpid();
	memset(w, 0, sizeof(*w));
	/* Orphans of the server come to us, so that none is overlooked. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	/* Not below a private directory: as root the server becomes another
	 * user and must be able to get there. */
	if (geteuid() == 0 || !tmp)
		tmp = "/tmp";
	(void)snprintf(w->dir, sizeof(w->dir), "%s/slw.XXXXXX", tmp);
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(chmod(w->dir, 0755), 0);
	(void)snprintf(
	    w->url, sizeof(w->url), "unix://%s/run/sluiced.sock", w->dir);
	world_conf(w, "state %s/state", w->dir);
	world_conf(w, "listen %s", w->url);
	world_conf(w, "drain_s 2");
}

void
world_conf(struct world *w, const char *fmt, ...)
{
	size_t n = strlen(w->conf);
	va_list ap;
	va_start(ap, fmt);
	int len = vsnprintf(w->conf + n, sizeof(w->conf) - n, fmt, ap);
	va_end(ap);
	assert_true(len > 0 && n + (size_t)len + 2 < sizeof(w->conf));
	(void)snprintf(w->conf + n + (size_t)len, 2, "\n");
}

/* Servers that run. A test that fails leaves its own behind: the next world of
 * the program, or its end, takes it away. */
static pid_t servers[8];

static void
server_note(pid_t from, pid_t to)
{
	for (unsigned i = 0; i < 8; i++) {
		if (servers[i] == from) {
			servers[i] = to;
			return;
		}
	}
}

static void
servers_end(void)
{
	for (unsigned i = 0; i < 8; i++) {
		if (servers[i] <= 0 || owner != getpid())
			continue;
		(void)kill(servers[i], SIGKILL);
		(void)waitpid(servers[i], NULL, 0);
		servers[i] = 0;
	}
}

static pid_t
launch(struct world *w)
{
	char conf[256], log[256], prog[512];
	(void)path(w, "conf", conf, sizeof(conf));
	(void)path(w, "log", log, sizeof(log));
	(void)world_built("bin/sluiced", prog, sizeof(prog));
	int fd = open(conf, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	size_t n = strlen(w->conf);
	assert_int_equal(write(fd, w->conf, n), (ssize_t)n);
	(void)close(fd);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int out =
		    open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		int nul = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (out < 0 || nul < 0 || dup2(nul, 0) < 0 ||
		    dup2(out, 1) < 0 || dup2(out, 2) < 0)
			_exit(126);
		execl(prog, "sluiced", "-c", conf, (char *)NULL);
		_exit(127);
	}
	w->starts++;
	server_note(0, pid);
	return pid;
}

static void
show_log(const struct world *w)
{
	char log[256];
	char *text = world_read(path(w, "log", log, sizeof(log)), NULL);
	size_t n = text ? strlen(text) : 0;
	print_message("--- log\n%s---\n",
	    text ? text + (n > 4000 ? n - 4000 : 0) : "(none)\n");
	free(text);
}

void
world_start(struct world *w)
{
	int64_t until = world_now_ms() + START_MS;
	w->pid = launch(w);
	for (;;) {
		struct run r;
		SLUICE(w, &r, "stats");
		int ok = r.status == 0;
		run_free(&r);
		if (ok)
			return;
		int st = 0;
		if (waitpid(w->pid, &st, WNOHANG) == w->pid) {
			server_note(w->pid, 0);
			w->pid = 0;
			show_log(w);
			fail_msg("the server ended while it started");
		}
		if (world_now_ms() > until) {
			show_log(w);
			fail_msg("the server does not answer");
		}
		world_rest(10);
	}
}

static int
exit_status(int st)
{
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

static int
wait_exit(pid_t pid, int timeout_ms)
{
	int64_t until = world_now_ms() + timeout_ms;
	int st = 0;
	for (;;) {
		pid_t r = waitpid(pid, &st, WNOHANG);
		if (r == pid) {
			server_note(pid, 0);
			return exit_status(st);
		}
		assert_true(r == 0 || errno == EINTR);
		if (world_now_ms() > until) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, &st, 0);
			fail_msg("a command did not end in %d ms", timeout_ms);
		}
		world_rest(2);
	}
}

int
world_start_fails(struct world *w)
{
	return wait_exit(launch(w), START_MS);
}

static int
only_me(void *ctx)
{
	return world_processes(ctx) == 0;
}

void
world_kill(struct world *w)
{
	int st = 0;
	assert_true(w->pid > 0);
	(void)kill(w->pid, SIGKILL);
	assert_int_equal(waitpid(w->pid, &st, 0), w->pid);
	server_note(w->pid, 0);
	w->pid = 0;
	world_until(only_me, w, 10000, "everything of the server to end");
}

void
world_stop(struct world *w)
{
	assert_true(w->pid > 0);
	(void)kill(w->pid, SIGTERM);
	int st = wait_exit(w->pid, 20000);
	w->pid = 0;
	if (st != 0)
		show_log(w);
	assert_int_equal(st, 0);
	world_until(only_me, w, 10000, "everything of the server to end");
}

int
world_alive(const struct world *w)
{
	int st;
	return w->pid > 0 && waitpid(w->pid, &st, WNOHANG) == 0;
}

static void
rm_rf(const char *dir)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
}

static int
mounts_left(const struct world *w)
{
	char *text = world_read("/proc/self/mountinfo", NULL);
	unsigned n = text ? world_count(text, w->dir) : 0;
	free(text);
	return (int)n;
}

void
world_done(struct world *w)
{
	while (w->nbg) {
		(void)kill(w->bg[0], SIGKILL);
		(void)world_wait_bg(w, w->bg[0], 5000);
	}
	if (w->pid > 0)
		world_kill(w);
	assert_int_equal(world_processes(w), 0);
	assert_int_equal(mounts_left(w), 0);
	rm_rf(w->dir);
}

int
world_log_has(const struct world *w, const char *text)
{
	char log[256];
	char *all = world_read(path(w, "log", log, sizeof(log)), NULL);
	int yes = all && strstr(all, text) != NULL;
	free(all);
	return yes;
}

/* --- the command ----------------------------------------------------------*/

static void
exec_cli(const struct world *w, const char *const *argv)
{
	char prog[512];
	const char *av[64] = {"sluice"};
	unsigned n = 1;
	for (; argv[n - 1] && n < 63; n++)
		av[n] = argv[n - 1];
	(void)setenv("SLUICE_URL", w->url, 1);
	execv(world_built("bin/sluice", prog, sizeof(prog)),
	    (char *const *)(uintptr_t)av);
	_exit(127);
}

struct pump {
	int fd;
	char *buf;
	size_t len, cap;
};

static void
pump_read(struct pump *p)
{
	if (p->cap - p->len < 65536) {
		p->cap = p->cap ? 2 * p->cap : 131072;
		p->buf = realloc(p->buf, p->cap + 1);
		assert_non_null(p->buf);
	}
	ssize_t n = read(p->fd, p->buf + p->len, p->cap - p->len);
	if (n > 0) {
		p->len += (size_t)n;
	} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		(void)close(p->fd);
		p->fd = -1;
	}
}

static void
pump_in(int *fd, const char **in, size_t *left)
{
	ssize_t n = *left ? write(*fd, *in, *left) : 0;
	if (n > 0) {
		*in += n;
		*left -= (size_t)n;
	}
	if (*left == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
		(void)close(*fd);
		*fd = -1;
	}
}

static void
pump_all(pid_t pid, int infd, const char *in, size_t left, struct pump *o,
    struct pump *e, int timeout_ms)
{
	int64_t until = world_now_ms() + timeout_ms;
	while (o->fd >= 0 || e->fd >= 0) {
		struct pollfd p[3] = {
		    {o->fd, POLLIN,  0},
                    {e->fd, POLLIN,  0},
                    {infd,  POLLOUT, 0}
                };
		if (world_now_ms() > until) {
			(void)kill(pid, SIGKILL);
			fail_msg("a command ran over %d ms; stderr: %.*s",
			    timeout_ms, (int)e->len, e->buf ? e->buf : "");
		}
		if (poll(p, 3, 100) <= 0)
			continue;
		if (p[0].revents)
			pump_read(o);
		if (p[1].revents)
			pump_read(e);
		if (p[2].revents)
			pump_in(&infd, &in, &left);
	}
	if (infd >= 0)
		(void)close(infd);
}

static void
finish(struct pump *p, char **ret, size_t *ret_len)
{
	if (!p->buf)
		p->buf = malloc(1);
	assert_non_null(p->buf);
	p->buf[p->len] = '\0';
	*ret = p->buf;
	*ret_len = p->len;
}

void
world_cli(struct world *w, struct run *r, int timeout_ms, const void *in,
    size_t in_len, const char *const *argv)
{
	int i[2], o[2], e[2];
	int64_t t0 = world_now_ms();
	assert_int_equal(pipe2(i, O_CLOEXEC), 0);
	assert_int_equal(pipe2(o, O_CLOEXEC), 0);
	assert_int_equal(pipe2(e, O_CLOEXEC), 0);
	struct sigaction ign = {.sa_handler = SIG_IGN}, old;
	(void)sigaction(SIGPIPE, &ign, &old);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)sigaction(SIGPIPE, &old, NULL);
		if (dup2(i[0], 0) < 0 || dup2(o[1], 1) < 0 || dup2(e[1], 2) < 0)
			_exit(126);
		exec_cli(w, argv);
	}
	(void)close(i[0]);
	(void)close(o[1]);
	(void)close(e[1]);
	(void)fcntl(i[1], F_SETFL, O_NONBLOCK);
	struct pump po = {.fd = o[0]}, pe = {.fd = e[0]};
	if (!in) {
		(void)close(i[1]);
		i[1] = -1;
	}
	pump_all(pid, i[1], in, in_len, &po, &pe, timeout_ms);
	memset(r, 0, sizeof(*r));
	r->status = wait_exit(pid, timeout_ms);
	r->ms = world_now_ms() - t0;
	finish(&po, &r->out, &r->out_len);
	finish(&pe, &r->err, &r->err_len);
}

void
run_free(struct run *r)
{
	free(r->out);
	free(r->err);
	r->out = r->err = NULL;
}

char *
world_ok(struct world *w, const char *const *argv)
{
	struct run r;
	world_cli(w, &r, 60000, NULL, 0, argv);
	if (r.status != 0) {
		show_log(w);
		fail_msg("sluice %s %s: status %d: %s", argv[0],
		    argv[1] ? argv[1] : "", r.status, r.err);
	}
	if (r.out_len && r.out[r.out_len - 1] == '\n')
		r.out[r.out_len - 1] = '\0';
	free(r.err);
	return r.out;
}

pid_t
world_bg(struct world *w, const char *out_path, const char *err_path,
    const char *const *argv)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid > 0) {
		assert_true(w->nbg < 64);
		w->bg[w->nbg++] = pid;
		return pid;
	}
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int out = open(out_path ? out_path : "/dev/null", flags, 0644);
	int err = open(err_path ? err_path : "/dev/null", flags, 0644);
	if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 ||
	    dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(126);
	exec_cli(w, argv);
	return -1;
}

int
world_wait_bg(struct world *w, pid_t pid, int timeout_ms)
{
	for (unsigned i = 0; i < w->nbg; i++)
		if (w->bg[i] == pid)
			w->bg[i] = w->bg[--w->nbg];
	return wait_exit(pid, timeout_ms);
}
