/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps of a new VM's first process before it becomes pid 1: session,
 * host name, loopback, limits, and the loss of every right that a guest's root
 * is not to have. Runs in the child, inside all its namespaces. */
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What root in a VM may do: own its files and users, bind low ports. */
static const unsigned kept[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER,
    CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP,
    CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_SETFCAP};

static int
loopback_up(void)
{
	struct ifreq r;
	int s, rc;

	memset(&r, 0, sizeof(r));
	sli_strlcpy(r.ifr_name, "lo", sizeof(r.ifr_name));
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -1;
	rc = ioctl(s, SIOCSIFFLAGS, &r);
	(void)close(s);
	return rc;
}

/* Lower the hard limit to v, or as far up to v as it reaches. */
static int
limit(int what, uint64_t v)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)what, &r) < 0)
		return -1;
	if (r.rlim_max == RLIM_INFINITY || v < r.rlim_max)
		r.rlim_max = v;
	r.rlim_cur = r.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &r);
}

static int
limits(const struct spawner_plan *p)
{
	if (limit(RLIMIT_NOFILE, p->nofile) < 0 || limit(RLIMIT_CORE, 0) < 0 ||
	    limit(RLIMIT_RTPRIO, 0) < 0 || limit(RLIMIT_NICE, 0) < 0)
		return -1;
	if (p->pids && limit(RLIMIT_NPROC, p->pids) < 0)
		return -1;
	if (p->data_bytes && limit(RLIMIT_DATA, p->data_bytes) < 0)
		return -1;
	return 0;
}

static int
drop_caps(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	uint64_t keep = 0;
	unsigned long c;
	size_t i;

	for (i = 0; i < SLI_ARRAY_LEN(kept); i++)
		keep |= UINT64_C(1) << kept[i];
	/* The bounding set ends where the kernel's list ends. */
	for (c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		if (!(keep >> c & 1) && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
			return -1;
	d[0] =
	    (struct __user_cap_data_struct){(uint32_t)keep, (uint32_t)keep, 0};
	d[1] = (struct __user_cap_data_struct){
	    (uint32_t)(keep >> 32), (uint32_t)(keep >> 32), 0};
	return (int)syscall(SYS_capset, &h, d);
}

int
lockdown(const struct spawner_plan *p, struct spawner_fault *f)
{
	static const char step[] = "lockdown";

	(void)setsid();
	if (sethostname(p->host, strlen(p->host)) < 0)
		return spawner_fail(f, errno, step, "sethostname failed");
	if (loopback_up() < 0)
		return spawner_fail(
		    f, errno, step, "the loopback interface did not come up");
	if (limits(p) < 0)
		return spawner_fail(f, errno, step, "setrlimit failed");
	if (drop_caps() < 0)
		return spawner_fail(
		    f, errno, step, "capabilities could not be dropped");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return spawner_fail(f, errno, step, "no_new_privs refused");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, p->filter) < 0)
		return spawner_fail(f, errno, step,
		    "the kernel refuses the system-call filter "
		    "(CONFIG_SECCOMP_FILTER)");
	return 0;
}
