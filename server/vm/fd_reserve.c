/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors kept back; see fd_reserve.h. */
#include "vm/fd_reserve.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>

enum sli_err
fd_reserve_init(struct fd_reserve *r, unsigned max)
{
	*r = (struct fd_reserve){.max = max};
	r->fds = sli_calloc(max, sizeof(*r->fds));
	return r->fds ? SLI_OK : SLI_E_NOMEM;
}

static void
trim(struct fd_reserve *r, unsigned n)
{
	while (r->n > n)
		sli_fd_close(&r->fds[--r->n]);
}

void
fd_reserve_fini(struct fd_reserve *r)
{
	trim(r, 0);
	sli_free(r->fds);
	r->fds = NULL;
}

void
fd_reserve_shut(struct fd_reserve *r, int fd)
{
	while (r->n < r->want) {
		int d = fcntl(fd, F_DUPFD_CLOEXEC, 0);

		if (d < 0)
			return;
		r->fds[r->n++] = d;
	}
}

enum sli_err
fd_reserve_add(struct fd_reserve *r, int fd, unsigned more)
{
	if (more > r->max - r->want)
		return SLI_E_RESOURCE_EXHAUSTED;
	r->want += more;
	fd_reserve_shut(r, fd);
	if (r->n == r->want)
		return SLI_OK;
	r->want -= more;
	trim(r, r->want);
	return SLI_E_RESOURCE_EXHAUSTED;
}

void
fd_reserve_drop(struct fd_reserve *r, unsigned less)
{
	r->want -= less;
	trim(r, r->want);
}

void
fd_reserve_open(struct fd_reserve *r, unsigned n)
{
	trim(r, r->n > n ? r->n - n : 0);
}
