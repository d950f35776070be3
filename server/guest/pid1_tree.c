/* SPDX-License-Identifier: Apache-2.0 */
/* Killing whole subtrees without cgroups: passes over /proc. Each process is
 * killed the moment it is seen, so that one that keeps forking and leaving has
 * microseconds, not a whole scan, to get away; and passes are repeated. */
#include "guest/pid1.h"
#include "guest/pid1_sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

/* Killed in this pass, ascending as /proc lists them. */
#define KILLED_MAX 8192u
static int killed[KILLED_MAX];
static unsigned nkilled;

static int
number(const char *s)
{
	int n = 0;

	if (!*s)
		return 0;
	for (; *s >= '0' && *s <= '9' && n < 100000000; s++)
		n = n * 10 + (*s - '0');
	return *s && *s != ' ' ? 0 : n;
}

/* "pid (comm) S ppid ...": comm may hold anything, so look from its end. */
static int
stat_of(int proc, const char *name, char *ret_state)
{
	char path[32], b[512], *p;
	size_t n = strlen(name);
	long fd, len;

	if (n > 20)
		return -1;
	memcpy(path, name, n);
	memcpy(path + n, "/stat", 6);
	fd = SYS3(SYS_openat, proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = SYS3(SYS_read, fd, b, sizeof(b) - 1);
	SYS1(SYS_close, fd);
	if (len <= 0)
		return -1;
	b[len] = 0;
	p = strrchr(b, ')');
	if (!p || strlen(p) < 5)
		return -1;
	*ret_state = p[2];
	return number(p + 4);
}

static int
was_killed(int pid)
{
	unsigned lo = 0, hi = nkilled, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (killed[mid] == pid)
			return 1;
		if (killed[mid] < pid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return 0;
}

/* Is `pid`, child of `ppid`, to be killed? */
static int
doomed(const struct exec *list, int pid, int ppid)
{
	const struct exec *e;

	for (e = list; e; e = e->next) {
		if (e->shim == pid && !e->lost)
			return 0;
		if (e->shim == ppid && e->killing && !e->lost)
			return 1;
	}
	return ppid == 1 || was_killed(ppid);
}

static int
visit(int proc, const struct exec *list, const char *name)
{
	int pid = number(name), ppid;
	char state;

	if (pid <= 1)
		return 0;
	ppid = stat_of(proc, name, &state);
	if (ppid < 0 || !doomed(list, pid, ppid))
		return 0;
	if (nkilled < KILLED_MAX)
		killed[nkilled++] = pid;
	if (state == 'Z' || state == 'X')
		return 0;
	SYS2(SYS_kill, pid, SIGKILL);
	return 1;
}

unsigned
pid1_kill_pass(const struct exec *list)
{
	static char buf[8192];
	unsigned found = 0;
	long proc, n, off;

	nkilled = 0;
	proc = SYS4(SYS_openat, AT_FDCWD, "/proc",
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (proc < 0)
		return 0;
	while ((n = SYS3(SYS_getdents64, proc, buf, sizeof(buf))) > 0) {
		for (off = 0; off < n;) {
			struct dirent *d = (void *)(buf + off);

			found += (unsigned)visit((int)proc, list, d->d_name);
			off += d->d_reclen;
		}
	}
	SYS1(SYS_close, proc);
	return found;
}
