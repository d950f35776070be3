/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-opener: started by sluiced beside the spawner, already as the
 * server's uid, with the sockets of opener/proto.h. Gives up what it does not
 * need, says that it stands, supervises. */
#include "opener/opener.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int
harden(void)
{
	struct rlimit r = {0, 0};
	sigset_t set;

	/* The server has our uid: undumpable keeps it out of our memory and
	 * descriptors, the roots among them. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    setrlimit(RLIMIT_CORE, &r) < 0)
		return -1;
	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
	(void)umask(022);
	(void)setsid();
	(void)sigfillset(&set);
	(void)sigdelset(&set, SIGSEGV);
	(void)sigdelset(&set, SIGBUS);
	(void)sigdelset(&set, SIGABRT);
	return sigprocmask(SIG_SETMASK, &set, NULL);
}

int
main(void)
{
	static const char text[] = "the opener cannot give up its rights";
	int fd;

	for (fd = OPENER_SERVER_FD; fd <= OPENER_START_FD; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return 2;
	if (harden() < 0) {
		(void)!write(OPENER_START_FD, text, sizeof(text) - 1);
		return 1;
	}
	if (write(OPENER_START_FD, "", 1) != 1)
		return 2;
	(void)close(OPENER_START_FD);
	_exit(supervise(OPENER_SERVER_FD, OPENER_SPAWNER_FD));
}
