/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in every VM's root file system beside the host's /usr: the
 * directories, a few generated files, and an allow-list of public files of the
 * host's /etc, read once into memory. The child writes it into its tmpfs
 * (rootfs.c). Nothing is taken that the list does not name. */
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES  (512u * 1024)
#define TOTAL_MAX_BYTES (2u * 1024 * 1024)
#define ENTRIES_MAX     1024u

static const struct {
	const char *path;
	mode_t mode;
	uid_t owner;
} dirs[] = {
    {"dev",	      0755,  0   },
    {"dev/pts",          0755,  0   },
    {"dev/shm",          01777, 0   },
    {"etc",	      0755,  0   },
    {"etc/alternatives", 0755,  0   },
    {"etc/profile.d",    0755,  0   },
    {"etc/ssl",          0755,  0   },
    {"etc/ssl/certs",    0755,  0   },
    {"home",	     0755,  0   },
    {"home/user",        0755,  1000},
    {"media",            0755,  0   },
    {"mnt",	      0755,  0   },
    {"opt",	      0755,  0   },
    {"opt/sluice",       0755,  0   },
    {"opt/sluice/bin",   0755,  0   },
    {"proc",	     0555,  0   },
    {"root",	     0700,  0   },
    {"run",	      0755,  0   },
    {"run/lock",         01777, 0   },
    {"srv",	      0755,  0   },
    {"sys",	      0555,  0   },
    {"tmp",	      01777, 0   },
    {"usr",	      0755,  0   },
    {"var",	      0755,  0   },
    {"var/cache",        0755,  0   },
    {"var/lib",          0755,  0   },
    {"var/log",          0755,  0   },
    {"var/spool",        0755,  0   },
    {"var/tmp",          01777, 0   },
};

static const struct {
	const char *path, *target;
} links[] = {
    {"dev/ptmx",   "pts/ptmx"         },
    {"dev/fd",     "/proc/self/fd"    },
    {"dev/stdin",  "/proc/self/fd/0"  },
    {"dev/stdout", "/proc/self/fd/1"  },
    {"dev/stderr", "/proc/self/fd/2"  },
    {"etc/mtab",   "/proc/self/mounts"},
    {"var/run",    "/run"             },
    {"var/lock",   "/run/lock"        },
};

static const struct {
	const char *path, *text;
} files[] = {
    {"etc/passwd",
     "root:x:0:0:root:/root:/bin/sh\n"
	"daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
	"bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
	"sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
	"mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
	"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
	"user:x:1000:1000:user:/home/user:/bin/sh\n"
	"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group",
     "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\n"
	"mail:x:8:\nwww-data:x:33:\nshadow:x:42:\nstaff:x:50:\nusers:x:100:\n"
	"user:x:1000:\nnogroup:x:65534:\n"                            },
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
	"networks: files\nprotocols: files\nservices: files\n"        },
    {"etc/resolv.conf",   ""					  },
    {"etc/shells",        "/bin/sh\n/bin/bash\n"                      },
    {"etc/fstab",         ""					  },
};

/* Public files of the host's /etc that programs in /usr read. */
static const char *const host_files[] = {
    "etc/ld.so.cache",
    "etc/ld.so.conf",
    "etc/os-release",
    "etc/debian_version",
    "etc/localtime",
    "etc/timezone",
    "etc/services",
    "etc/protocols",
    "etc/rpc",
    "etc/gai.conf",
    "etc/host.conf",
    "etc/login.defs",
    "etc/inputrc",
    "etc/bash.bashrc",
    "etc/profile",
    "etc/magic",
    "etc/mime.types",
    "etc/ssl/openssl.cnf",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
};

static struct skel_entry *
add(struct skeleton *sk, enum skel_kind kind, const char *path, mode_t mode)
{
	struct skel_entry *e;

	if (sk->n == ENTRIES_MAX)
		return NULL;
	if (sk->n == sk->cap) {
		unsigned cap = sk->cap ? sk->cap * 2 : 128;

		e = sli_realloc(sk->v, cap * sizeof(*e));
		if (!e)
			return NULL;
		sk->v = e;
		sk->cap = cap;
	}
	e = &sk->v[sk->n];
	*e = (struct skel_entry){.kind = kind, .mode = mode};
	e->path = sli_strdup(path);
	if (!e->path)
		return NULL;
	sk->n++;
	return e;
}

/* A copy of `len` bytes; NULs in them are kept, one more is added. */
static int
add_bytes(struct skeleton *sk, enum skel_kind kind, const char *path,
    const char *bytes, size_t len)
{
	struct skel_entry *e;

	e = add(sk, kind, path, 0644);
	if (!e)
		return -1;
	e->data = sli_alloc(len + 1);
	if (!e->data)
		return -1;
	memcpy(e->data, bytes, len);
	e->data[len] = 0;
	e->len = len;
	sk->bytes += len;
	return 0;
}

static int
add_text(struct skeleton *sk, enum skel_kind kind, const char *path,
    const char *text)
{
	return add_bytes(sk, kind, path, text, strlen(text));
}

static int
add_host_file(struct skeleton *sk, const char *path, const char *at)
{
	char *buf;
	long n;
	int r = 0;

	buf = sli_alloc(FILE_MAX_BYTES + 1);
	if (!buf)
		return -1;
	n = sli_fd_read_file(AT_FDCWD, at, buf, FILE_MAX_BYTES + 1);
	/* Longer than a whole read: left out rather than cut. */
	if (n >= 0 && n < (long)FILE_MAX_BYTES &&
	    sk->bytes + (size_t)n <= TOTAL_MAX_BYTES)
		r = add_bytes(sk, SKEL_FILE, path, buf, (size_t)n);
	sli_free(buf);
	return r;
}

/* Links are kept as they are when they lead into /usr, the only part of the
 * host that is there too; others are not followed. */
static int
leads_to_usr(const char *target)
{
	while (strncmp(target, "../", 3) == 0)
		target += 3;
	if (*target == '/')
		target++;
	return strncmp(target, "usr/", 4) == 0 && !strstr(target, "..");
}

static int
add_host(struct skeleton *sk, const char *path)
{
	char at[128], target[512];
	struct stat st;
	ssize_t n;

	sli_snprintf(at, sizeof(at), "/%s", path);
	if (lstat(at, &st) < 0)
		return 0;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(at, target, sizeof(target) - 1);
		if (n <= 0)
			return 0;
		target[n] = 0;
		if (!leads_to_usr(target))
			return 0;
		return add_text(sk, SKEL_LINK, path, target);
	}
	if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH))
		return add_host_file(sk, path, at);
	/* A host whose /bin, /lib... are not links into /usr. */
	if (S_ISDIR(st.st_mode) && !strchr(path, '/') &&
	    sk->nbinds < SLI_ARRAY_LEN(sk->binds)) {
		sk->binds[sk->nbinds++] = path;
		return add(sk, SKEL_DIR, path, 0755) ? 0 : -1;
	}
	return 0;
}

static int
add_all(struct skeleton *sk)
{
	struct skel_entry *e;
	size_t i;

	for (i = 0; i < SLI_ARRAY_LEN(dirs); i++) {
		e = add(sk, SKEL_DIR, dirs[i].path, dirs[i].mode);
		if (!e)
			return -1;
		e->owner = dirs[i].owner;
	}
	for (i = 0; i < SLI_ARRAY_LEN(links); i++)
		if (add_text(sk, SKEL_LINK, links[i].path, links[i].target) < 0)
			return -1;
	for (i = 0; i < SLI_ARRAY_LEN(files); i++)
		if (add_text(sk, SKEL_FILE, files[i].path, files[i].text) < 0)
			return -1;
	for (i = 0; i < SLI_ARRAY_LEN(host_files); i++)
		if (add_host(sk, host_files[i]) < 0)
			return -1;
	return 0;
}

int
skeleton_build(struct skeleton *sk, struct spawner_fault *f)
{
	static const char *const shown[] = {
	    "usr",
	    "etc/ssl/certs",
	    "etc/alternatives",
	};
	struct stat st;
	char at[64];
	size_t i;

	*sk = (struct skeleton){0};
	for (i = 0; i < SLI_ARRAY_LEN(shown); i++) {
		sli_snprintf(at, sizeof(at), "/%s", shown[i]);
		if (lstat(at, &st) == 0 && S_ISDIR(st.st_mode))
			sk->binds[sk->nbinds++] = shown[i];
	}
	if (sk->nbinds == 0 || strcmp(sk->binds[0], "usr") != 0)
		return spawner_fail(
		    f, ENOENT, "skeleton", "this host has no directory /usr");
	if (add_all(sk) < 0)
		return spawner_fail(
		    f, ENOMEM, "skeleton", "no memory for the skeleton");
	return 0;
}
