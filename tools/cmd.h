/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the sluice command share: the table of commands, their
 * parsed arguments, the connection, output, and how an error becomes a line
 * and an exit code. The command is built on <sluice.h> alone. */
#ifndef TOOLS_CMD_H
#define TOOLS_CMD_H

#include <sluice.h>

/* Exit codes; exec passes the process's own, and has two of a shell's. */
enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NO_SERVER = 3,
	EXIT_REFUSED = 4,
	EXIT_NO_EXEC = 126,
	EXIT_NO_COMMAND = 127
};

/* One option of a command. arg NULL: a flag. */
struct opt {
	char letter;      /* 0: none */
	const char *name; /* without the dashes */
	const char *arg;
	const char *help;
};

/* What was given. Lists end with NULL; all strings are main's argv. */
struct args {
	const struct cmd *cmd;
	const char **pos; /* positional, before "--" */
	int npos;
	const char *const *rest; /* after "--"; NULL when there was none */

	struct given {
		const struct opt *opt;
		const char *value;
	} * given;

	int ngiven;
};

struct tool {
	const char *server; /* --server, or NULL */
	int json;
	sluice_client *c;
	int ready; /* the server said hello */
	struct args a;
};

struct cmd {
	const char *noun;       /* first word */
	const char *verb;       /* second word, or NULL */
	const char *args;       /* of the synopsis, options aside */
	const char *what;       /* one line */
	int min, max;           /* positional arguments; max -1: no bound */
	int rest;               /* 0: no "--"; 1: may follow; 2: must */
	const struct opt *opts; /* ends with name NULL; or NULL */
	int (*run)(struct tool *t);
};

/* Rows of the tables. */
#define OPT(letter, name, arg, help)    \
	{                               \
		letter, name, arg, help \
	}
#define CMD(noun, verb, args, what, min, max, rest, opts, run)    \
	{                                                         \
		noun, verb, args, what, min, max, rest, opts, run \
	}

/* Tables of the families; each ends with noun NULL. */
extern const struct cmd vm_cmds[];
extern const struct cmd exec_cmds[];
extern const struct cmd process_cmds[];
extern const struct cmd session_cmds[];
extern const struct cmd prompt_cmds[];
extern const struct cmd permit_cmds[];
extern const struct cmd history_cmds[];
extern const struct cmd server_cmds[];

/* --- args.c ---*/
/* Parse argv; fills t->server, t->json, t->a. On failure an exit code, and the
 * reason has been printed; else -1. */
int args_parse(struct tool *t, const struct cmd *cmd, int argc, char **argv);
/* Value of the option (last wins), or NULL. */
const char *args_get(const struct args *a, const char *name);
int args_has(const struct args *a, const char *name);
/* All values of the option, a scratch array that ends with NULL. */
const char **args_all(const struct args *a, const char *name);
/* Whole string must be the number; else prints a usage line: -1. */
int parse_u64(const char *what, const char *s, uint64_t *ret);
/* "500ms", "10s", "5m", "2h", bare = seconds. */
int parse_duration_ms(const char *what, const char *s, uint64_t *ret);
/* "KILL", "SIGKILL" or a number; -1 after a usage line. */
int parse_signal(const char *s);

/* --- help.c ---*/
/* The whole table, one after the other; NULL after the last. */
const struct cmd *cmd_next(const struct cmd *prev);
const struct cmd *cmd_find(const char *noun, const char *verb);
void help_all(void);
void help_one(const struct cmd *cmd);
int help_run(int argc, char **argv);
/* Prints "unknown ...; did you mean ...?" */
int help_unknown(const char *noun, const char *verb);

/* --- conn.c ---*/
/* Connect and wait for the server's hello. -1, or an exit code after printing
 * why. `loop` makes no difference but keepalive. */
int conn_open(struct tool *t);
void conn_close(struct tool *t);
/* Print the one line of an error; returns the exit code for it. */
int fail(const struct tool *t, const struct sluice_error *err);
/* "sluice: ..." on stderr. */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A random idempotency key: 32 hex digits and a NUL. */
void random_key(char key[33]);
/* Zeroed heap, or the end of the program. */
void *need(size_t n, size_t size);
/* The same, freed by scratch_free at the end of the command. */
void *scratch(size_t n, size_t size);
void scratch_free(void);

#endif
