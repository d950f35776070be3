/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h: looking at processes, files and output from outside. */
#include "world.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

int64_t
world_now_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void
world_rest(int ms)
{
	(void)poll(NULL, 0, ms);
}

void
world_until(int (*fn)(void *ctx), void *ctx, int timeout_ms, const char *what)
{
	int64_t until = world_now_ms() + timeout_ms;
	while (!fn(ctx)) {
		if (world_now_ms() > until)
			fail_msg("waited %d ms for: %s", timeout_ms, what);
		world_rest(5);
	}
}

char *
world_read(const char *path, size_t *ret_len)
{
	size_t cap = 65536, len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	char *buf = malloc(cap + 1);
	for (;;) {
		assert_non_null(buf);
		ssize_t n = read(fd, buf + len, cap - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
		if (len == cap) {
			cap *= 2;
			buf = realloc(buf, cap + 1);
		}
	}
	(void)close(fd);
	buf[len] = '\0';
	if (ret_len)
		*ret_len = len;
	return buf;
}

long
world_proc_status(pid_t pid, const char *field)
{
	char path[64];
	long v = -1;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	char *text = world_read(path, NULL);
	size_t n = strlen(field);
	for (char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, field, n) == 0 && p[n] == ':') {
			v = strtol(p + n + 1, NULL, 10);
			break;
		}
	}
	free(text);
	return v;
}

int
world_proc_fds(pid_t pid)
{
	char path[64];
	int n = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *d = opendir(path);
	if (!d)
		return -1;
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static int
holds(const char *path, const char *needle)
{
	size_t len = 0;
	char *text = world_read(path, &len);
	int yes = text && memmem(text, len, needle, strlen(needle)) != NULL;
	free(text);
	return yes;
}

static int
known(const struct world *w, pid_t pid)
{
	for (unsigned i = 0; i < w->nbg; i++)
		if (w->bg[i] == pid)
			return 1;
	return pid == getpid() || (w->pid > 0 && pid == w->pid);
}

/* A child of ours that nobody started from here: an orphan. Dead ones are
 * reaped on the way. */
static int
orphan(pid_t pid)
{
	if (world_proc_status(pid, "PPid") != (long)getpid())
		return 0;
	return waitpid(pid, NULL, WNOHANG) != pid;
}

int
world_processes(struct world *w)
{
	int n = 0;
	DIR *d = opendir("/proc");
	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		char p[300];
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid <= 0 || known(w, pid))
			continue;
		(void)snprintf(p, sizeof(p), "/proc/%s/cmdline", e->d_name);
		n += orphan(pid) || holds(p, w->dir);
	}
	(void)closedir(d);
	return n;
}

unsigned
world_count(const char *text, const char *needle)
{
	unsigned n = 0;
	size_t len = strlen(needle);
	for (const char *p = strstr(text, needle); p;
	     p = strstr(p + len, needle))
		n++;
	return n;
}

static const char *
json_value(const char *json, const char *key)
{
	char want[64];
	(void)snprintf(want, sizeof(want), "\"%s\"", key);
	const char *p = strstr(json, want);
	if (!p)
		return NULL;
	p += strlen(want);
	while (*p == ' ' || *p == ':')
		p++;
	return p;
}

int
world_json_u64(const char *json, const char *key, uint64_t *ret)
{
	const char *p = json_value(json, key);
	if (!p || !isdigit((unsigned char)*p))
		return 0;
	*ret = strtoull(p, NULL, 10);
	return 1;
}

int
world_json_str(const char *json, const char *key, char *ret, size_t cap)
{
	const char *p = json_value(json, key);
	if (!p || *p != '"')
		return 0;
	const char *end = strchr(p + 1, '"');
	if (!end || (size_t)(end - p) > cap)
		return 0;
	memcpy(ret, p + 1, (size_t)(end - p - 1));
	ret[end - p - 1] = '\0';
	return 1;
}
