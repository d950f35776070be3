/* SPDX-License-Identifier: Apache-2.0 */
/* Where on this host cgroups for VMs may be made: v1 (each controller in its
 * own tree), v2 (one tree), or both. Believes nothing but a directory that was
 * made and files in it that can be written. Always below our own cgroup, so
 * that VMs stay inside what the server was given; as root on v2, where our own
 * group is shared with others, below the root group instead. */
#include "base/fd.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX   65536
#define PATH_LEN   512
#define ROOT_TRIES 5

static const char *const names[CG__N] = {"memory", "pids", "cpu", "freezer"};
/* A file that must be writable for the controller to be of use. */
static const char *const v1_file[CG__N] = {
    "memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us", "freezer.state"};
static const char *const v2_file[CG__N] = {
    "memory.max", "pids.max", "cpu.max", "cgroup.freeze"};

/* Is `word` one of the comma-separated words of `list`? */
static int
has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (; list; list = strchr(list, ',')) {
		if (*list == ',')
			list++;
		if (strncmp(list, word, n) == 0 &&
		    (list[n] == ',' || list[n] == 0))
			return 1;
	}
	return 0;
}

/* Line of /proc/self/cgroup: "ID:CONTROLLERS:PATH". NULL controller = v2. */
static int
own_path(const char *ctl, char *ret, size_t cap)
{
	static char text[TEXT_MAX];
	char *line, *save = NULL, *c, *path;

	if (sli_fd_read_file(
		AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0)
		return -1;
	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		c = strchr(line, ':');
		path = c ? strchr(c + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = 0;
		if (ctl ? has_word(c + 1, ctl) : c[1] == 0) {
			sli_strlcpy(ret, path, cap);
			return 0;
		}
	}
	return -1;
}

/* One line of mountinfo cut in pieces; 0 when it is no cgroup mount. */
static int
parse_mount(char *line, char **root, char **point, char **type, char **opts)
{
	char *save = NULL, *w, *sep;
	int i;

	sep = strstr(line, " - ");
	if (!sep)
		return 0;
	*sep = 0;
	w = strtok_r(line, " ", &save);
	for (i = 0; w && i < 3; i++)
		w = strtok_r(NULL, " ", &save);
	*root = w;
	*point = strtok_r(NULL, " ", &save);
	*type = strtok_r(sep + 3, " ", &save);
	(void)strtok_r(NULL, " ", &save);
	*opts = strtok_r(NULL, " ", &save);
	return *root && *point && *type && *opts;
}

/* The directory of our own cgroup for a controller (NULL = v2), or of the
 * mount itself when `top`. */
static int
own_dir(const char *ctl, int top, char *ret, size_t cap)
{
	static char text[TEXT_MAX];
	char own[PATH_LEN], *line, *save = NULL, *root, *point, *type, *opts;
	size_t n;

	if (own_path(ctl, own, sizeof(own)) < 0 ||
	    sli_fd_read_file(
		AT_FDCWD, "/proc/self/mountinfo", text, sizeof(text)) < 0)
		return -1;
	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (!parse_mount(line, &root, &point, &type, &opts))
			continue;
		if (strcmp(type, ctl ? "cgroup" : "cgroup2") != 0 ||
		    (ctl && !has_word(opts, ctl)))
			continue;
		/* The mount may show a part of the tree only. */
		n = strcmp(root, "/") == 0 ? 0 : strlen(root);
		if (strncmp(own, root, n) != 0)
			continue;
		sli_snprintf(ret, cap, "%s%s", point,
		    top || strcmp(own + n, "/") == 0 ? "" : own + n);
		return 0;
	}
	return -1;
}

static int
make_dir(const char *path)
{
	return mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

static int
try_root(struct cg_root *r, const char *base, const char *id, int v2)
{
	static const char *const enable[] = {"+memory", "+pids", "+cpu"};
	char path[PATH_LEN + 64];
	int level, fd = -1, i;

	for (level = 0; level < 3; level++) {
		sli_snprintf(path, sizeof(path), "%s%s%s%s", base,
		    level > 0 ? "/sluice" : "", level > 1 ? "/" : "",
		    level > 1 ? id : "");
		if (level > 0 && make_dir(path) < 0)
			return -1;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -1;
		/* One by one: what the parent has not, is missing later. */
		for (i = 0; v2 && i < 3; i++)
			(void)sli_fd_write_file(
			    fd, "cgroup.subtree_control", enable[i]);
		if (level < 2)
			(void)close(fd);
	}
	r->fd = fd;
	r->version = v2 ? 2 : 1;
	sli_strlcpy(r->path, path, sizeof(r->path));
	return 0;
}

/* Make BASE/sluice/ID and open it. Another server that ends may remove
 * BASE/sluice just after we have made it. */
static int
open_root(struct cg_root *r, const char *base, const char *id, int v2)
{
	int i;

	for (i = 0; i < ROOT_TRIES; i++) {
		if (try_root(r, base, id, v2) == 0)
			return 0;
		if (errno != ENOENT)
			return -1;
	}
	return -1;
}

/* Does a group made in r have this file, writable? */
static int
usable(const struct cg_root *r, const char *file)
{
	char path[96];
	int ok;

	if (mkdirat(r->fd, "probe", 0755) < 0 && errno != EEXIST)
		return 0;
	sli_snprintf(path, sizeof(path), "probe/%s", file);
	ok = faccessat(r->fd, path, W_OK, AT_EACCESS) == 0;
	(void)unlinkat(r->fd, "probe", AT_REMOVEDIR);
	return ok;
}

static void
drop_root(struct cg_root *r)
{
	sli_fd_close(&r->fd);
	r->version = 0;
}

/* The server, or one of its children: us and the opener. */
static int
is_ours(pid_t pid)
{
	char path[64], text[512], *p;
	uint64_t ppid = 0;

	if (pid == getppid())
		return 1;
	sli_snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (sli_fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	p = strrchr(text, ')');
	if (p && strlen(p) > 4)
		(void)spawner_number(p + 4, &ppid);
	return (pid_t)ppid == getppid();
}

/* "No internal processes": a group that gives controllers to children has no
 * process of its own. Ours moves to a leaf when all in it are ours. */
static int
clear_own_group(const char *base)
{
	char path[PATH_LEN + 64], procs[4096], one[24];
	const char *p;
	uint64_t pid;
	int fd, mine = 1;

	sli_snprintf(path, sizeof(path), "%s/cgroup.procs", base);
	if (sli_fd_read_file(AT_FDCWD, path, procs, sizeof(procs)) < 0)
		return -1;
	for (p = procs; (p = spawner_number(p, &pid));)
		if (!is_ours((pid_t)pid))
			mine = 0;
	if (!mine)
		return -1;
	sli_snprintf(path, sizeof(path), "%s/supervisor", base);
	if (make_dir(path) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	for (p = procs; (p = spawner_number(p, &pid));) {
		sli_snprintf(one, sizeof(one), "%llu", (unsigned long long)pid);
		(void)sli_fd_write_file(fd, "cgroup.procs", one);
	}
	(void)close(fd);
	return 0;
}

/* On a hybrid host v2 holds none; its freezer alone is not worth a tree. */
static int
has_controllers(const char *base)
{
	char path[PATH_LEN + 64], text[512];

	sli_snprintf(path, sizeof(path), "%s/cgroup.controllers", base);
	return sli_fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0 &&
	       (strstr(text, "memory") || strstr(text, "pids") ||
		   strstr(text, "cpu "));
}

static void
find_v2(struct cg_host *h, const struct spawner_conf *c)
{
	struct cg_root r = {.fd = -1};
	char base[PATH_LEN];
	int i;

	if (own_dir(NULL, 0, base, sizeof(base)) < 0 || !has_controllers(base))
		return;
	if (clear_own_group(base) < 0 &&
	    (!c->privileged || own_dir(NULL, 1, base, sizeof(base)) < 0))
		return;
	if (open_root(&r, base, h->id, 1) < 0)
		return;
	for (i = 0; i < CG__N; i++) {
		if (h->ctl[i].version || !usable(&r, v2_file[i]))
			continue;
		h->ctl[i] = r;
		h->ctl[i].fd = fcntl(r.fd, F_DUPFD_CLOEXEC, 10);
	}
	drop_root(&r);
	for (i = 0; i < CG__N; i++)
		if (h->ctl[i].version == 2) {
			cg_sweep(&h->ctl[i]);
			break;
		}
}

void
cg_find(struct cg_host *h, const struct spawner_conf *c)
{
	char base[PATH_LEN];
	struct stat st;
	int i;

	*h = (struct cg_host){0};
	for (i = 0; i < CG__N; i++)
		h->ctl[i].fd = -1;
	if (fstat(c->state_fd, &st) < 0)
		return;
	sli_snprintf(h->id, sizeof(h->id), "%llx-%llx",
	    (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	for (i = 0; i < CG__N; i++) {
		struct cg_root *r = &h->ctl[i];

		if (own_dir(names[i], 0, base, sizeof(base)) < 0 ||
		    open_root(r, base, h->id, 0) < 0)
			continue;
		cg_sweep(r);
		if (!usable(r, v1_file[i]))
			drop_root(r);
	}
	find_v2(h, c);
}

unsigned
cg_missing(const struct cg_host *h)
{
	unsigned m = 0;
	int i;

	for (i = 0; i < CG__N; i++)
		if (!h->ctl[i].version)
			m |= (unsigned)SPAWNER_MISS_CGROUP_MEMORY << i;
	if (!h->ctl[CG_MEMORY].version)
		m |= SPAWNER_MISS_OOM_EVENTS;
	return m;
}

void
cg_leave(struct cg_host *h)
{
	char path[PATH_LEN + 64], *slash;
	int i;

	for (i = 0; i < CG__N; i++) {
		if (!h->ctl[i].version)
			continue;
		sli_strlcpy(path, h->ctl[i].path, sizeof(path));
		drop_root(&h->ctl[i]);
		(void)rmdir(path);
		/* BASE/sluice goes when no other server uses it. */
		slash = strrchr(path, '/');
		if (slash) {
			*slash = 0;
			(void)rmdir(path);
		}
	}
}
