/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in a VM (static): small things that tests want to see from inside.
 *
 *   guest_probe self          what this process inherited
 *   guest_probe daemon FILE   leaves a daemon (double fork) that keeps FILE
 *                             growing, then ends
 *   guest_probe eat MIB       touches that much memory
 *   guest_probe fork N        how many children until fork fails
 *   guest_probe fds           how many descriptors until dup fails
 *   guest_probe deaf          ignores every signal it can, sleeps
 *   guest_probe hop N         N processes that keep forking and leaving
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void
ignore(int s)
{
	struct sigaction sa = {.sa_handler = SIG_IGN};

	(void)sigaction(s, &sa, NULL);
}

static int
self(void)
{
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");
	struct sigaction sa;
	sigset_t mask;
	int fds = 0, ignored = 0, blocked = 0, s;

	while (d && (e = readdir(d)))
		fds += e->d_name[0] != '.' &&
		       strtol(e->d_name, NULL, 10) != dirfd(d);
	(void)sigprocmask(SIG_BLOCK, NULL, &mask);
	for (s = 1; s < 65; s++) {
		blocked += sigismember(&mask, s) == 1;
		ignored +=
		    sigaction(s, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL;
	}
	printf("fds %d blocked %d ignored %d leader %d umask %o\n", fds,
	    blocked, ignored, getsid(0) == getpid(), (unsigned)umask(0));
	return 0;
}

static int
leave_daemon(const char *path)
{
	int fd;

	if (fork() != 0)
		return 0;
	(void)setsid();
	if (fork() != 0)
		return 0;
	for (fd = 0; fd < 3; fd++)
		(void)close(fd);
	fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
	for (;;) {
		(void)!write(fd, "x", 1);
		(void)poll(NULL, 0, 5);
	}
}

static int
eat(long mib)
{
	size_t n = (size_t)mib << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		printf("refused %d\n", errno);
		return 0;
	}
	memset(p, 1, n);
	printf("ate %ld\n", mib);
	return 0;
}

static int
forks(long max)
{
	long n = 0;
	int e;
	pid_t p;

	while (n < max && (p = fork()) >= 0) {
		if (p == 0)
			for (;;)
				(void)pause();
		n++;
	}
	e = errno;
	printf("forked %ld errno %d\n", n, n < max ? e : 0);
	(void)fflush(stdout);
	ignore(SIGTERM);
	(void)kill(0, SIGTERM);
	return 0;
}

static int
dups(void)
{
	long n = 0;

	while (n < 1000000 && dup(0) >= 0)
		n++;
	printf("dups %ld errno %d\n", n, errno);
	return 0;
}

static int __attribute__((noreturn)) deaf(void)
{
	int s;

	for (s = 1; s < 65; s++)
		ignore(s);
	printf("deaf\n");
	(void)fflush(stdout);
	for (;;)
		(void)pause();
}

/* Every generation lives only as long as it takes to make the next. */
static int __attribute__((noreturn)) hop(long n)
{
	long i;

	for (i = 0; i < n; i++)
		if (fork() == 0)
			for (;;)
				if (fork() != 0)
					_exit(0);
	printf("hopping\n");
	(void)fflush(stdout);
	for (;;)
		(void)pause();
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const char *arg = argc > 2 ? argv[2] : "0";

	if (strcmp(what, "self") == 0)
		return self();
	if (strcmp(what, "daemon") == 0)
		return leave_daemon(arg);
	if (strcmp(what, "eat") == 0)
		return eat(strtol(arg, NULL, 10));
	if (strcmp(what, "fork") == 0)
		return forks(strtol(arg, NULL, 10));
	if (strcmp(what, "fds") == 0)
		return dups();
	if (strcmp(what, "deaf") == 0)
		return deaf();
	if (strcmp(what, "hop") == 0)
		return hop(strtol(arg, NULL, 10));
	return 2;
}
