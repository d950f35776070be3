/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the server becomes, and the state directory that it is given. Started
 * as root: `user=`, else the account "sluice", else a uid that nobody has,
 * remembered as the owner of the state directory (which the server itself
 * cannot change). Started by an ordinary user: that user. */
#include "main/helpers_room.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* systemd's range for accounts that exist while a service does. */
#define FREE_FIRST 61184u
#define FREE_LAST  65519u
#define NOBODY     65534u

/* Names and ids of accounts, through the reentrant forms. */
static int
user_by_uid(uid_t uid)
{
	char b[4096];
	struct passwd pw, *r = NULL;

	return getpwuid_r(uid, &pw, b, sizeof(b), &r) == 0 && r;
}

static int
group_by_gid(gid_t gid)
{
	char b[16384];
	struct group gr, *r = NULL;

	/* A group too large for the buffer is there all the same. */
	return getgrgid_r(gid, &gr, b, sizeof(b), &r) == ERANGE || r;
}

static int
user_by_name(const char *name, struct helpers *ret)
{
	char b[4096];
	struct passwd pw, *r = NULL;

	if (getpwnam_r(name, &pw, b, sizeof(b), &r) != 0 || !r)
		return 0;
	ret->uid = pw.pw_uid;
	ret->gid = pw.pw_gid;
	return 1;
}

int
helpers_free_uid(uid_t uid)
{
	return uid >= FREE_FIRST && uid <= FREE_LAST;
}

/* Is a process of this uid alive? Another server may have taken it. */
static int
uid_runs(uid_t uid)
{
	struct dirent *e;
	struct stat st;
	int found = 0;
	DIR *d = opendir("/proc");

	while (d && !found && (e = readdir(d)))
		found = e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
			fstatat(dirfd(d), e->d_name, &st, 0) == 0 &&
			st.st_uid == uid;
	if (d)
		(void)closedir(d);
	return found;
}

/* Two servers start their search at different places. */
static enum sli_err
pick_free(const struct stat *dir, struct helpers *h, struct sli_errinfo *ei)
{
	unsigned n = FREE_LAST - FREE_FIRST + 1, i, at;
	uid_t uid;

	if (helpers_free_uid(dir->st_uid) && !user_by_uid(dir->st_uid)) {
		h->uid = dir->st_uid;
		h->gid = (gid_t)dir->st_uid;
		return SLI_OK;
	}
	at = (unsigned)((dir->st_ino * 2654435761u) ^ dir->st_dev) % n;
	for (i = 0; i < n; i++) {
		uid = FREE_FIRST + (at + i) % n;
		if (user_by_uid(uid) || group_by_gid((gid_t)uid) ||
		    uid_runs(uid))
			continue;
		h->uid = uid;
		h->gid = (gid_t)uid;
		return SLI_OK;
	}
	return sli_fail(ei, SLI_E_CONFIG, 0, "helpers.user",
	    "every uid from %u to %u is taken; set user= in the configuration",
	    FREE_FIRST, FREE_LAST);
}

static enum sli_err
pick_account(const char *name, struct helpers *h, struct sli_errinfo *ei)
{
	if (!user_by_name(name, h))
		return sli_fail(ei, SLI_E_CONFIG, 0, "helpers.user",
		    "no account %.60s (user= of the configuration)", name);
	if (h->uid == 0 || h->uid == NOBODY || h->gid == 0)
		return sli_fail(ei, SLI_E_CONFIG, 0, "helpers.user",
		    "the server does not run as root or nobody; set user= to "
		    "an account of its own");
	return SLI_OK;
}

static enum sli_err
pick(const char *user, const struct stat *dir, struct helpers *h,
    struct sli_errinfo *ei)
{
	if (!h->privileged) {
		h->uid = geteuid();
		h->gid = getegid();
		return SLI_OK;
	}
	if (user)
		return pick_account(user, h, ei);
	if (user_by_name("sluice", h))
		return pick_account("sluice", h, ei);
	return pick_free(dir, h, ei);
}

/* mkdir -p; what is made on the way is for everybody to pass when root makes
 * it, since the server must get through as its own uid. */
static int
make_path(const char *path, mode_t mode, int *ret_made)
{
	char b[sizeof(((struct helpers *)0)->state_dir)], *s;

	sli_strlcpy(b, path, sizeof(b));
	for (s = strchr(b + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = 0;
		if (mkdir(b, mode) < 0 && errno != EEXIST)
			return -1;
		*s = '/';
	}
	*ret_made = mkdir(b, 0700) == 0;
	return !*ret_made && errno != EEXIST ? -1 : 0;
}

static int
is_empty(int fd)
{
	struct dirent *e;
	int n = 0;
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = own >= 0 ? fdopendir(own) : NULL;

	while (d && (e = readdir(d)))
		n +=
		    strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d)
		(void)closedir(d);
	return d && n == 0;
}

static enum sli_err
give(int fd, const struct stat *st, const struct helpers *h,
    struct sli_errinfo *ei)
{
	if (st->st_uid != h->uid && st->st_uid != 0 && !is_empty(fd))
		return sli_fail(ei, SLI_E_CONFIG, 0, "helpers.state",
		    "%.80s belongs to uid %u, the server runs as uid %u: set "
		    "user=, or give it away with chown -R",
		    h->state_dir, (unsigned)st->st_uid, (unsigned)h->uid);
	if (!h->privileged && st->st_uid != h->uid)
		return sli_fail(ei, SLI_E_CONFIG, EACCES, "helpers.state",
		    "%.120s is not yours", h->state_dir);
	if ((h->privileged && fchown(fd, h->uid, h->gid) < 0) ||
	    fchmod(fd, 0700) < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "helpers.state",
		    "%.120s cannot be given to uid %u", h->state_dir,
		    (unsigned)h->uid);
	return SLI_OK;
}

/* The first directory of the path, itself last, that this process may not
 * enter; NULL when it may enter all. b holds the path and is cut there. */
static const char *
closed_dir(char *b)
{
	for (char *s = b;; *s = '/') {
		s = strchrnul(s + 1, '/');
		char end = *s;
		*s = 0;
		if (faccessat(AT_FDCWD, b, X_OK, AT_EACCESS) < 0)
			return b;
		if (!end)
			return NULL;
	}
}

enum sli_err
helpers_check_reach(const struct helpers *h, const char *dir, const char *what,
    struct sli_errinfo *ei)
{
	char b[sizeof(h->state_dir)];
	const char *closed;
	int e;

	if (!h->privileged)
		return SLI_OK;
	sli_strlcpy(b, dir, sizeof(b));
	if (setegid(h->gid) < 0 || seteuid(h->uid) < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "helpers.reach",
		    "cannot become uid %u", (unsigned)h->uid);
	closed = closed_dir(b);
	e = errno;
	if (seteuid(0) < 0 || setegid(0) < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "helpers.reach",
		    "cannot become root again");
	if (!closed)
		return SLI_OK;
	return sli_fail(ei, SLI_E_CONFIG, e, "helpers.reach",
	    "%.70s: the server runs as uid %u and may not pass %.70s; choose "
	    "another place with %s, or chmod o+x %.70s",
	    dir, (unsigned)h->uid, closed, what, closed);
}

enum sli_err
helpers_prepare(
    const struct helpers_conf *conf, struct helpers *h, struct sli_errinfo *ei)
{
	char path[sizeof(h->state_dir)], link[64];
	enum sli_err e;
	struct stat st;
	ssize_t n;
	int fd, made = 0;

	h->privileged = geteuid() == 0;
	if (!conf->state_dir || conf->state_dir[0] != '/' ||
	    strlen(conf->state_dir) >= sizeof(path))
		return sli_fail(ei, SLI_E_CONFIG, 0, "helpers.state",
		    "the state directory must be an absolute path");
	sli_strlcpy(path, conf->state_dir, sizeof(path));
	while (strlen(path) > 1 && path[strlen(path) - 1] == '/')
		path[strlen(path) - 1] = 0;
	sli_strlcpy(h->state_dir, path, sizeof(h->state_dir));
	if (make_path(path, h->privileged ? 0755 : 0700, &made) < 0)
		return sli_fail(ei, SLI_E_SYS, errno, "helpers.state",
		    "%.120s cannot be made", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		e = sli_fail(ei, SLI_E_SYS, errno, "helpers.state",
		    "%.120s cannot be opened", path);
		goto out;
	}
	/* The path without symlinks: mount sources are compared with it. */
	sli_snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n > 0) {
		path[n] = 0;
		sli_strlcpy(h->state_dir, path, sizeof(h->state_dir));
	}
	e = pick(conf->user, &st, h, ei);
	if (e == SLI_OK)
		e = give(fd, &st, h, ei);
	if (e == SLI_OK)
		e = helpers_check_reach(h, h->state_dir, "--state", ei);
out:
	/* What is refused leaves nothing behind. */
	if (e != SLI_OK && made)
		(void)rmdir(h->state_dir);
	sli_fd_close(&fd);
	return e;
}
