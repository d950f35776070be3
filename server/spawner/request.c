/* SPDX-License-Identifier: Apache-2.0 */
/* Packets from the server, checked to the last byte before anything acts on
 * them: the server may be in an enemy's hands. Passes them on; decides nothing
 * else. */
#include "spawner/spawner.h"

#include <errno.h>
#include <string.h>

#define DISK_MIN   (1024u * 1024)
#define PIDS_MAX   4194304u
#define NOFILE_MAX 1048576u
#define CPU_MAX    1024000u

/* Is the packet, behind its struct, exactly n strings of bounded length? */
static int
strings_ok(const char *p, const char *end, unsigned n)
{
	unsigned i;
	size_t len;

	for (i = 0; i < n; i++) {
		if (p >= end)
			return 0;
		len = strnlen(p, (size_t)(end - p));
		if (len == (size_t)(end - p) || len >= SPAWNER_STR_MAX)
			return 0;
		p += len + 1;
	}
	return p == end;
}

static int
host_ok(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n < SPAWNER_NAME_MAX && s[0] != '-' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789-") == n;
}

const char *
request_next(const char *p)
{
	return p + strlen(p) + 1;
}

static const char *
create_wrong(const struct spawner_create *rq)
{
	const char *text = (const char *)(rq + 1);
	unsigned i;

	if (rq->h.len < sizeof(*rq) || rq->nmounts > SPAWNER_MOUNTS_MAX ||
	    !strings_ok(
		text, (const char *)rq + rq->h.len, 1 + 2 * rq->nmounts))
		return "the packet is not well formed";
	if (!host_ok(text))
		return "the host name must be letters, digits and dashes";
	if (rq->disk_bytes < DISK_MIN || rq->disk_bytes > INT64_MAX ||
	    rq->memory_bytes > INT64_MAX || rq->disk_inodes > INT64_MAX ||
	    rq->pids > PIDS_MAX || rq->nofile > NOFILE_MAX ||
	    rq->cpu_millis > CPU_MAX)
		return "a limit is out of its bounds";
	for (i = 0; i < rq->nmounts; i++)
		if (rq->mount_flags[i] != SPAWNER_MOUNT_RO)
			return "mounts can only be read-only";
	return NULL;
}

static void
wrong(struct spawner *s, uint64_t req, int sys, const char *text)
{
	struct spawner_fault f;

	(void)spawner_fail(&f, sys, "request", "%s", text);
	serve_fault(s, req, &f, -1);
}

static void
create(struct spawner *s, const struct spawner_create *rq)
{
	const char *bad = create_wrong(rq);

	if (bad)
		wrong(s, rq->h.req, EBADMSG, bad);
	else
		life_create(s, rq);
}

void
request_handle(struct spawner *s, const void *packet, size_t len)
{
	const struct spawner_msg *h = packet;
	const struct spawner_handle *by_handle = packet;
	const struct spawner_freeze *freeze = packet;

	if (len < sizeof(*h)) {
		wrong(s, 0, EBADMSG, "the packet is shorter than its head");
		return;
	}
	if (h->len != len || h->req == 0) {
		wrong(s, h->req, EBADMSG, "the packet is not well formed");
		return;
	}
	if (h->op == SPAWNER_CREATE && len > sizeof(struct spawner_create))
		create(s, packet);
	else if (h->op == SPAWNER_DELETE && len == sizeof(*by_handle))
		life_delete(s, by_handle->handle, h->req);
	else if (h->op == SPAWNER_FREEZE && len == sizeof(*freeze))
		life_freeze(s, freeze);
	else if (h->op == SPAWNER_DOCTOR && len == sizeof(*h))
		doctor_report(s, h->req);
	else
		wrong(s, h->req, EBADMSG, "no such request, or not its length");
}
