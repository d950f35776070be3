/* SPDX-License-Identifier: Apache-2.0 */
/* From argv to struct args by the option table of the command, and strict
 * numbers. The global options are understood in front of and behind the verb,
 * up to "--". */
#include "cmd.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct opt global_opts[] = {
    OPT(0, "server", "URL", NULL), OPT(0, "json", NULL, NULL), {0}};

static const struct opt *
find_in(const struct opt *o, const char *name, size_t n)
{
	for (; o && o->name; o++)
		if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
			return o;
	return NULL;
}

static const struct opt *
find_letter(const struct opt *o, char letter)
{
	for (; o && o->name; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

static void
give(struct tool *t, const struct opt *o, const char *value)
{
	struct args *a = &t->a;

	if (strcmp(o->name, "server") == 0) {
		t->server = value;
	} else if (strcmp(o->name, "json") == 0) {
		t->json = 1;
	} else {
		a->given[a->ngiven].opt = o;
		a->given[a->ngiven++].value = value;
	}
}

/* --name, --name VALUE, --name=VALUE. */
static int
take_long(struct tool *t, int argc, char **argv, int *i)
{
	const char *name = argv[*i] + 2;
	size_t n = strcspn(name, "=");
	const struct opt *o = find_in(t->a.cmd->opts, name, n);

	if (!o)
		o = find_in(global_opts, name, n);
	if (!o)
		return usage("unknown option %s; see: sluice help %s%s%s",
		    argv[*i], t->a.cmd->noun, t->a.cmd->verb ? " " : "",
		    t->a.cmd->verb ? t->a.cmd->verb : "");
	if (!o->arg) {
		if (name[n] == '=')
			return usage("option --%s takes no value", o->name);
		give(t, o, "");
	} else if (name[n] == '=') {
		give(t, o, name + n + 1);
	} else if (*i + 1 < argc) {
		give(t, o, argv[++*i]);
	} else {
		return usage("option --%s wants %s", o->name, o->arg);
	}
	return -1;
}

/* -x, -x VALUE, -xVALUE. */
static int
take_short(struct tool *t, int argc, char **argv, int *i)
{
	const char *p = argv[*i] + 1;
	const struct opt *o = find_letter(t->a.cmd->opts, *p);

	if (!o)
		return usage("unknown option -%c; see: sluice help %s", *p,
		    t->a.cmd->noun);
	if (!o->arg) {
		if (p[1])
			return usage("give options one by one: -%c", *p);
		give(t, o, "");
	} else if (p[1]) {
		give(t, o, p + 1);
	} else if (*i + 1 < argc) {
		give(t, o, argv[++*i]);
	} else {
		return usage("option -%c wants %s", *p, o->arg);
	}
	return -1;
}

static int
check_counts(const struct args *a)
{
	const struct cmd *c = a->cmd;
	const char *verb = c->verb ? c->verb : "";
	const char *gap = c->verb ? " " : "";

	if (c->rest == 2 && (!a->rest || !a->rest[0]))
		return usage("%s%s%s wants: %s (put -- before the command)",
		    c->noun, gap, verb, c->args);
	if (a->npos < c->min || (c->max >= 0 && a->npos > c->max))
		return usage("%s%s%s wants: %s", c->noun, gap, verb, c->args);
	if (c->rest == 0 && a->rest)
		return usage(
		    "%s%s%s takes nothing after --", c->noun, gap, verb);
	return -1;
}

int
args_parse(struct tool *t, const struct cmd *cmd, int argc, char **argv)
{
	struct args *a = &t->a;
	int r = -1;

	a->cmd = cmd;
	a->pos = scratch((size_t)argc + 1, sizeof(*a->pos));
	a->given = scratch((size_t)argc + 1, sizeof(*a->given));
	for (int i = 0; i < argc && r < 0; i++) {
		char *s = argv[i];

		if (strcmp(s, "--") == 0) {
			a->rest = (const char *const *)(argv + i + 1);
			break;
		}
		if (s[0] == '-' && s[1] == '-')
			r = take_long(t, argc, argv, &i);
		else if (s[0] == '-' && s[1] != '\0')
			r = take_short(t, argc, argv, &i);
		else
			a->pos[a->npos++] = s;
	}
	return r < 0 ? check_counts(a) : r;
}

const char *
args_get(const struct args *a, const char *name)
{
	const char *v = NULL;

	for (int i = 0; i < a->ngiven; i++)
		if (strcmp(a->given[i].opt->name, name) == 0)
			v = a->given[i].value;
	return v;
}

int
args_has(const struct args *a, const char *name)
{
	return args_get(a, name) != NULL;
}

const char **
args_all(const struct args *a, const char *name)
{
	const char **v = scratch((size_t)a->ngiven + 1, sizeof(*v));
	int n = 0;

	for (int i = 0; i < a->ngiven; i++)
		if (strcmp(a->given[i].opt->name, name) == 0)
			v[n++] = a->given[i].value;
	return v;
}

/* --- values --------------------------------------------------------------*/

static int
digits(const char *s, const char **end, uint64_t *ret)
{
	uint64_t v = 0;

	for (*end = s; **end >= '0' && **end <= '9'; ++*end) {
		uint64_t d = (uint64_t)(**end - '0');

		if (v > (UINT64_MAX - d) / 10)
			return -1;
		v = v * 10 + d;
	}
	*ret = v;
	return *end == s ? -1 : 0;
}

int
parse_u64(const char *what, const char *s, uint64_t *ret)
{
	const char *end;

	if (digits(s, &end, ret) == 0 && *end == '\0')
		return 0;
	(void)usage("%s must be a number, not \"%s\"", what, s);
	return -1;
}

int
parse_duration_ms(const char *what, const char *s, uint64_t *ret)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {
	    {"ms", 1      },
            {"s",  1000   },
            {"",   1000   },
            {"m",  60000  },
            {"h",  3600000}
        };

	const char *end;
	uint64_t v;

	if (digits(s, &end, &v) == 0) {
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if (strcmp(end, units[i].name) != 0 ||
			    v > UINT64_MAX / units[i].ms)
				continue;
			*ret = v * units[i].ms;
			return 0;
		}
	}
	(void)usage("%s must be a duration like 500ms, 10s, 5m or 2h, not "
		    "\"%s\"",
	    what, s);
	return -1;
}

int
parse_signal(const char *s)
{
	static const struct {
		const char *name;
		int sig;
	} names[] = {
	    {"HUP",   SIGHUP  },
            {"INT",   SIGINT  },
            {"QUIT",  SIGQUIT },
	    {"KILL",  SIGKILL },
            {"USR1",  SIGUSR1 },
            {"USR2",  SIGUSR2 },
	    {"TERM",  SIGTERM },
            {"CONT",  SIGCONT },
            {"STOP",  SIGSTOP },
	    {"TSTP",  SIGTSTP },
            {"ALRM",  SIGALRM },
            {"PIPE",  SIGPIPE },
	    {"ABRT",  SIGABRT },
            {"WINCH", SIGWINCH}
        };

	const char *name = strncmp(s, "SIG", 3) == 0 ? s + 3 : s;
	const char *end;
	uint64_t v;

	if (digits(s, &end, &v) == 0 && *end == '\0' && v >= 1 && v <= 64)
		return (int)v;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i].name) == 0)
			return names[i].sig;
	(void)usage("no such signal: \"%s\"; use a name like TERM or a number "
		    "from 1 to 64",
	    s);
	return -1;
}
