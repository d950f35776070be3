/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that several files of the spawner need. */
#include "base/fd.h"
#include "base/str.h"
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define UID_BASE_FIRST 1000000u
#define UID_RANGE      65536u

int
spawner_fail(
    struct spawner_fault *f, int sys, const char *step, const char *fmt, ...)
{
	va_list ap;

	f->sys = sys;
	sli_strlcpy(f->step, step, sizeof(f->step));
	va_start(ap, fmt);
	(void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return -1;
}

static int
sysctl_is(const char *path, char value)
{
	char b[32];

	return sli_fd_read_file(AT_FDCWD, path, b, sizeof(b)) > 0 &&
	       b[0] == value && (b[1] == '\n' || b[1] == 0);
}

int
spawner_userns_remedy(char *dst, size_t cap)
{
	static const struct {
		const char *path;
		char refuses;
		const char *command;
	} known[] = {
	    {"/proc/sys/kernel/unprivileged_userns_clone",             '0',
             "sudo sysctl -w kernel.unprivileged_userns_clone=1"},
	    {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1',
             "sudo sysctl -w "
		"kernel.apparmor_restrict_unprivileged_userns=0"},
	    {"/proc/sys/user/max_user_namespaces",                     '0',
             "sudo sysctl -w user.max_user_namespaces=15000"    },
	};

	size_t i;

	for (i = 0; i < SLI_ARRAY_LEN(known); i++) {
		/* The first two do not bind root. */
		if (i < 2 && geteuid() == 0)
			continue;
		if (sysctl_is(known[i].path, known[i].refuses)) {
			sli_strlcpy(dst, known[i].command, cap);
			return 1;
		}
	}
	return 0;
}

const char *
spawner_number(const char *p, uint64_t *ret)
{
	uint64_t v = 0;
	int digits = 0;

	for (; *p >= '0' && *p <= '9' && digits < 19; p++, digits++)
		v = v * 10 + (uint64_t)(*p - '0');
	if (!digits)
		return NULL;
	while (*p == '\n')
		p++;
	*ret = v;
	return p;
}

uid_t
spawner_uid_base(unsigned slot)
{
	return UID_BASE_FIRST + slot * UID_RANGE;
}
