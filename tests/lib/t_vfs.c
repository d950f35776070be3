/* SPDX-License-Identifier: Apache-2.0 */
/* The shim: every file of the default VFS inside one of ours. */
#include "t_vfs.h"

#include "base/attr.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct file {
	sqlite3_file base; /* first */
	sqlite3_file *real;
	int kind; /* 0 database, 1 log, 2 other */
};

static sqlite3_vfs shim, *under;
static atomic_uint_fast64_t count, fail_at;
static atomic_int fail_code, sticky, failed;
static t_vfs_watch_fn *watch;
static void *watch_ctx;

static struct file *
of(sqlite3_file *f)
{
	return (struct file *)(void *)f;
}

static sqlite3_file *
real(sqlite3_file *f)
{
	return of(f)->real;
}

static int
verdict(struct file *f, enum t_vfs_op op)
{
	uint64_t n, at;
	int code;

	if (f->kind == 2)
		return SQLITE_OK;
	n = atomic_fetch_add(&count, 1) + 1;
	at = atomic_load(&fail_at);
	if (at == 0 || (sticky ? n < at : n != at))
		return SQLITE_OK;
	code = atomic_load(&fail_code);
	/* A full disk shows when something grows, not at a flush. */
	if (code == SQLITE_FULL && op != T_VFS_WRITE)
		return SQLITE_OK;
	if (code == SQLITE_IOERR)
		code = op == T_VFS_SYNC    ? SQLITE_IOERR_FSYNC
		       : op == T_VFS_WRITE ? SQLITE_IOERR_WRITE
					   : SQLITE_IOERR_TRUNCATE;
	atomic_store(&failed, 1);
	return code;
}

static void
tell(struct file *f, enum t_vfs_op op, int64_t off, const void *p, size_t n)
{
	if (watch && f->kind != 2)
		watch(watch_ctx, f->kind, op, off, p, n);
}

static int
x_close(sqlite3_file *f)
{
	int rc = real(f)->pMethods->xClose(real(f));

	free(real(f));
	return rc;
}

static int
x_read(sqlite3_file *f, void *p, int n, sqlite3_int64 off)
{
	return real(f)->pMethods->xRead(real(f), p, n, off);
}

static int
x_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 off)
{
	int rc = verdict(of(f), T_VFS_WRITE);

	if (rc == SQLITE_OK)
		rc = real(f)->pMethods->xWrite(real(f), p, n, off);
	if (rc == SQLITE_OK)
		tell(of(f), T_VFS_WRITE, off, p, (size_t)n);
	return rc;
}

static int
x_truncate(sqlite3_file *f, sqlite3_int64 n)
{
	int rc = verdict(of(f), T_VFS_TRUNCATE);

	if (rc == SQLITE_OK)
		rc = real(f)->pMethods->xTruncate(real(f), n);
	if (rc == SQLITE_OK)
		tell(of(f), T_VFS_TRUNCATE, n, NULL, 0);
	return rc;
}

static int
x_sync(sqlite3_file *f, int flags)
{
	int rc = verdict(of(f), T_VFS_SYNC);

	if (rc == SQLITE_OK && !watch)
		rc = real(f)->pMethods->xSync(real(f), flags);
	if (rc == SQLITE_OK)
		tell(of(f), T_VFS_SYNC, 0, NULL, 0);
	return rc;
}

static int
x_size(sqlite3_file *f, sqlite3_int64 *n)
{
	return real(f)->pMethods->xFileSize(real(f), n);
}

static int
x_lock(sqlite3_file *f, int l)
{
	return real(f)->pMethods->xLock(real(f), l);
}

static int
x_unlock(sqlite3_file *f, int l)
{
	return real(f)->pMethods->xUnlock(real(f), l);
}

static int
x_check(sqlite3_file *f, int *out)
{
	return real(f)->pMethods->xCheckReservedLock(real(f), out);
}

static int
x_control(sqlite3_file *f, int op, void *arg)
{
	return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int
x_sector(sqlite3_file *f)
{
	(void)f;
	return 512;
}

/* The worst device: no atomic writes; neighbours of a write are safe. */
static int
x_caps(sqlite3_file *f)
{
	(void)f;
	return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int
x_shm_map(sqlite3_file *f, int pg, int sz, int ext, void volatile **out)
{
	return real(f)->pMethods->xShmMap(real(f), pg, sz, ext, out);
}

static int
x_shm_lock(sqlite3_file *f, int off, int n, int flags)
{
	return real(f)->pMethods->xShmLock(real(f), off, n, flags);
}

static void
x_shm_barrier(sqlite3_file *f)
{
	real(f)->pMethods->xShmBarrier(real(f));
}

static int
x_shm_unmap(sqlite3_file *f, int del)
{
	return real(f)->pMethods->xShmUnmap(real(f), del);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = x_close,
    .xRead = x_read,
    .xWrite = x_write,
    .xTruncate = x_truncate,
    .xSync = x_sync,
    .xFileSize = x_size,
    .xLock = x_lock,
    .xUnlock = x_unlock,
    .xCheckReservedLock = x_check,
    .xFileControl = x_control,
    .xSectorSize = x_sector,
    .xDeviceCharacteristics = x_caps,
    .xShmMap = x_shm_map,
    .xShmLock = x_shm_lock,
    .xShmBarrier = x_shm_barrier,
    .xShmUnmap = x_shm_unmap,
};

static int
ends_with(const char *s, const char *end)
{
	size_t n = s ? strlen(s) : 0, k = strlen(end);

	return n >= k && strcmp(s + n - k, end) == 0;
}

static int
x_open(
    sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
	struct file *me = of(f);
	int rc;

	(void)v;
	me->base.pMethods = NULL;
	me->kind = ends_with(name, ".db-wal") ? 1
		   : ends_with(name, ".db")   ? 0
					      : 2;
	me->real = calloc(1, (size_t)under->szOsFile);
	if (!me->real)
		return SQLITE_NOMEM;
	rc = under->xOpen(under, name, me->real, flags, out);
	if (rc == SQLITE_OK)
		me->base.pMethods = &methods;
	else
		free(me->real);
	return rc;
}

void
t_vfs_install(void)
{
	if (under)
		return;
	under = sqlite3_vfs_find(NULL);
	shim = *under;
	shim.zName = "t-vfs";
	shim.szOsFile = sizeof(struct file);
	shim.xOpen = x_open;
	SLI_ASSERT(sqlite3_vfs_register(&shim, 1) == SQLITE_OK);
}

void
t_vfs_fail(uint64_t n, int code, int is_sticky)
{
	atomic_store(&count, 0);
	atomic_store(&failed, 0);
	atomic_store(&fail_code, code);
	atomic_store(&sticky, is_sticky);
	atomic_store(&fail_at, n);
}

uint64_t
t_vfs_count(void)
{
	return atomic_load(&count);
}

int
t_vfs_failed(void)
{
	return atomic_load(&failed);
}

void
t_vfs_watch(t_vfs_watch_fn *fn, void *ctx)
{
	watch = fn;
	watch_ctx = ctx;
}
