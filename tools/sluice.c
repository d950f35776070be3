/* SPDX-License-Identifier: Apache-2.0 */
/* The sluice command: finds the command in the table, parses its arguments,
 * connects where it needs to, runs it. */
#include "cmd.h"
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* A write to a closed pipe is an error to report, not a death. */
static void
ignore_sigpipe(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = SIG_IGN;
	(void)sigaction(SIGPIPE, &sa, NULL);
}

/* A socket must not become descriptor 0, 1 or 2 because the caller closed
 * them. stdout closed stays an error: opened for reading only. */
static void
fill_stdio(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
			continue;
		(void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
}

/* Options in front of the noun: only the global ones. Returns the index of the
 * noun, argc when there is none, or -1 after a usage line. */
static int
front(struct tool *t, int argc, char **argv)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			t->json = 1;
		} else if (strncmp(argv[i], "--server=", 9) == 0) {
			t->server = argv[i] + 9;
		} else if (strcmp(argv[i], "--server") == 0 && i + 1 < argc) {
			t->server = argv[++i];
		} else if (strcmp(argv[i], "--server") == 0) {
			(void)usage("option --server wants URL");
			return -1;
		} else {
			(void)usage(
			    "unknown option %s; see: sluice help", argv[i]);
			return -1;
		}
	}
	return i;
}

static int
run(struct tool *t, int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : NULL;
	const struct cmd *c = cmd_find(argv[0], verb);
	int skip, r;

	if (!c && verb && strcmp(verb, "--help") == 0)
		return help_run(1, argv);
	if (!c)
		return help_unknown(argv[0], verb);
	skip = c->verb ? 2 : 1;
	if (argc > skip && strcmp(argv[skip], "--help") == 0) {
		help_one(c);
		return out_end();
	}
	r = args_parse(t, c, argc - skip, argv + skip);
	return r < 0 ? c->run(t) : r;
}

int
main(int argc, char **argv)
{
	struct tool t = {0};
	int i, r;

	fill_stdio();
	ignore_sigpipe();
	if (argc == 2 && (strcmp(argv[1], "--version") == 0)) {
		out_fmt("sluice %s\n", sluice_version());
		return out_end();
	}
	if (argc == 2 && (strcmp(argv[1], "--help") == 0))
		return help_run(0, NULL);
	i = front(&t, argc, argv);
	if (i < 0)
		return EXIT_USAGE;
	if (i == argc)
		return usage("no command; see: sluice help");
	if (strcmp(argv[i], "help") == 0)
		return help_run(argc - i - 1, argv + i + 1);
	r = run(&t, argc - i, argv + i);
	if (t.c)
		conn_close(&t);
	scratch_free();
	return r;
}
