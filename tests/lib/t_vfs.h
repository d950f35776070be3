/* SPDX-License-Identifier: Apache-2.0 */
/* A file system for SQLite that fails when told, or writes down what it is
 * asked to do. It becomes the default one of this process; one user at a
 * time. */
#ifndef SLUICE_TESTS_T_VFS_H
#define SLUICE_TESTS_T_VFS_H

#include <stddef.h>
#include <stdint.h>

enum t_vfs_op {
	T_VFS_WRITE = 1,
	T_VFS_SYNC,
	T_VFS_TRUNCATE
};

void t_vfs_install(void);
/* The n-th write, sync or truncate of the database or its log from now fails
 * with this SQLite code (n 0 = none); and all that follow, while sticky. */
void t_vfs_fail(uint64_t n, int code, int sticky);
/* Operations since the last t_vfs_fail(). */
uint64_t t_vfs_count(void);
/* 1 once an operation has failed. */
int t_vfs_failed(void);

/* Called with every operation that succeeded; wal: of the log, else of the
 * database. NULL = off. Recorded syncs do not reach the disk. */
typedef void t_vfs_watch_fn(void *ctx, int wal, enum t_vfs_op op, int64_t off,
    const void *data, size_t n);
void t_vfs_watch(t_vfs_watch_fn *fn, void *ctx);

#endif
