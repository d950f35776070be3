/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do for VMs, found by doing it where that is harmless.
 * Changes nothing. */
#include "base/fd.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static struct spawner_probe *
add(struct spawner_report *r, const char *name, enum spawner_probe_state state)
{
	struct spawner_probe *p;

	if (r->n == SPAWNER_PROBES_MAX)
		return &r->probes[r->n - 1];
	p = &r->probes[r->n++];
	p->state = state;
	sli_strlcpy(p->name, name, sizeof(p->name));
	return p;
}

static void
say(struct spawner_probe *p, const char *detail, const char *remedy)
{
	sli_strlcpy(p->detail, detail, sizeof(p->detail));
	sli_strlcpy(p->remedy, remedy, sizeof(p->remedy));
}

static void
probe_kernel(struct spawner_report *r)
{
	struct spawner_probe *p = add(r, "kernel", SPAWNER_PROBE_OK);
	struct utsname u;

	if (uname(&u) == 0)
		sli_snprintf(p->detail, sizeof(p->detail), "Linux %.40s %.20s",
		    u.release, u.machine);
}

static void
probe_rights(struct spawner_report *r, const struct spawner_conf *c)
{
	struct spawner_probe *p = add(r, "privileges", SPAWNER_PROBE_OK);

	if (c->privileged)
		sli_snprintf(p->detail, sizeof(p->detail),
		    "started as root; the server runs as uid %u",
		    (unsigned)c->server_uid);
	else
		sli_snprintf(p->detail, sizeof(p->detail),
		    "ordinary user, uid %u", (unsigned)c->server_uid);
}

/* Clone with every namespace, map ids, mount a tmpfs and /proc. */
static void
probe_namespaces(struct spawner_report *r, const struct spawner_conf *c)
{
	struct spawner_probe *p = add(r, "namespaces", SPAWNER_PROBE_OK);
	struct spawner_fault f = {0};

	if (clone_probe(c, &f) == 0) {
		say(p, "user, pid, mount, net, ipc, uts; tmpfs and /proc", "");
		return;
	}
	p->state = SPAWNER_PROBE_BROKEN;
	sli_snprintf(p->detail, sizeof(p->detail), "%s: %.90s (errno %d)",
	    f.step, f.text, f.sys);
	if (!spawner_userns_remedy(p->remedy, sizeof(p->remedy)))
		sli_strlcpy(p->remedy,
		    c->privileged ? "run sluiced outside a container, or in a "
				    "privileged one"
				  : "run sluiced as root: sudo sluiced",
		    sizeof(p->remedy));
}

static void
probe_ids(struct spawner_report *r, const struct spawner_conf *c)
{
	struct spawner_probe *p = add(r, "subuid", SPAWNER_PROBE_OK);

	if (c->privileged) {
		sli_snprintf(p->detail, sizeof(p->detail),
		    "65536 ids for each VM, host uids %u-%u",
		    (unsigned)spawner_uid_base(0),
		    (unsigned)spawner_uid_base(SPAWNER_VMS_MAX) - 1);
		return;
	}
	p->state = SPAWNER_PROBE_MISSING;
	say(p, "one uid in each VM: chown and su to others fail there",
	    "run sluiced as root to give each VM 65536 ids");
}

static void
probe_cgroups(struct spawner_report *r, const struct spawner *s)
{
	static const char *const names[SPAWNER_MISS__N] = SPAWNER_MISS_NAMES;
	static const char *const without[CG__N] = {
	    "not writable: memory is limited for each process alone",
	    "not writable: processes are limited by rlimit",
	    "not writable: CPU is not limited",
	    "not writable: VMs cannot be frozen"};
	struct spawner_probe *p;
	int i;

	for (i = 0; i < CG__N; i++) {
		const struct cg_root *g = &s->cg.ctl[i];

		p = add(r, names[i],
		    g->version ? SPAWNER_PROBE_OK : SPAWNER_PROBE_MISSING);
		if (g->version)
			sli_snprintf(p->detail, sizeof(p->detail),
			    "v%d, %.100s", g->version, g->path);
		else
			say(p, without[i],
			    s->conf.privileged
				? "mount the cgroup file system writable"
				: "run sluiced as root, or as a service with "
				  "Delegate=yes");
	}
}

static void
probe_filter(struct spawner_report *r, const struct spawner *s)
{
	struct spawner_probe *p = add(r, "seccomp", SPAWNER_PROBE_OK);

	sli_snprintf(p->detail, sizeof(p->detail), "filter of %u instructions",
	    (unsigned)s->filter.len);
}

static void
probe_overlay(struct spawner_report *r)
{
	struct spawner_probe *p = add(r, "overlay", SPAWNER_PROBE_OK);
	char text[8192];

	if (sli_fd_read_file(
		AT_FDCWD, "/proc/filesystems", text, sizeof(text)) > 0 &&
	    strstr(text, "\toverlay\n")) {
		say(p, "in the kernel", "");
		return;
	}
	p->state = SPAWNER_PROBE_MISSING;
	say(p, "not loaded: only needed for images", "sudo modprobe overlay");
}

static void
probe_files(struct spawner_report *r, const struct spawner *s)
{
	struct spawner_probe *p = add(r, "root-file-system", SPAWNER_PROBE_OK);

	sli_snprintf(p->detail, sizeof(p->detail),
	    "host /usr read-only, %u skeleton entries, %zu KiB", s->skel.n,
	    s->skel.bytes / 1024);
	p = add(r, "guest-programs", SPAWNER_PROBE_OK);
	if (s->conf.guest_fd < 0) {
		p->state = SPAWNER_PROBE_MISSING;
		sli_snprintf(p->detail, sizeof(p->detail),
		    "%.100s/guest is not there", s->conf.libexec);
		sli_strlcpy(
		    p->remedy, "install Sluice whole", sizeof(p->remedy));
	} else {
		sli_snprintf(p->detail, sizeof(p->detail), "%.100s/guest",
		    s->conf.libexec);
	}
}

void
doctor_report(struct spawner *s, uint64_t req)
{
	static struct spawner_report r;

	memset(&r, 0, sizeof(r));
	probe_kernel(&r);
	probe_rights(&r, &s->conf);
	probe_namespaces(&r, &s->conf);
	probe_ids(&r, &s->conf);
	probe_cgroups(&r, s);
	probe_filter(&r, s);
	probe_overlay(&r);
	probe_files(&r, s);
	r.h = (struct spawner_msg){SPAWNER_REPORT,
	    (uint32_t)(offsetof(struct spawner_report, probes) +
		       r.n * sizeof(r.probes[0])),
	    req};
	serve_send(s, &r, NULL, 0);
}
