/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands as a whole, and what it says about itself. */
#include "cmd.h"
#include "out.h"

#include <stdio.h>
#include <string.h>

static const struct cmd *const families[] = {vm_cmds, exec_cmds, process_cmds,
    session_cmds, prompt_cmds, permit_cmds, history_cmds, server_cmds};

#define NFAMILIES (sizeof(families) / sizeof(families[0]))

const struct cmd *
cmd_next(const struct cmd *prev)
{
	if (!prev)
		return families[0];
	if (prev[1].noun)
		return prev + 1;
	for (size_t f = 0; f + 1 < NFAMILIES; f++) {
		const struct cmd *c = families[f];

		while (c->noun && c != prev)
			c++;
		if (c == prev)
			return families[f + 1];
	}
	return NULL;
}

const struct cmd *
cmd_find(const char *noun, const char *verb)
{
	for (const struct cmd *c = cmd_next(NULL); c; c = cmd_next(c)) {
		if (strcmp(c->noun, noun) != 0)
			continue;
		if (!c->verb || (verb && strcmp(c->verb, verb) == 0))
			return c;
	}
	return NULL;
}

static int
is_noun(const char *noun)
{
	for (const struct cmd *c = cmd_next(NULL); c; c = cmd_next(c))
		if (strcmp(c->noun, noun) == 0)
			return 1;
	return 0;
}

static void
synopsis(const struct cmd *c)
{
	out_fmt("sluice %s%s%s%s%s%s", c->noun, c->verb ? " " : "",
	    c->verb ? c->verb : "", c->opts ? " [options]" : "",
	    c->args[0] ? " " : "", c->args);
}

void
help_all(void)
{
	out_str("usage: sluice [--server URL] [--json] COMMAND ...\n\n");
	for (const struct cmd *c = cmd_next(NULL); c; c = cmd_next(c)) {
		char left[64];

		(void)snprintf(left, sizeof(left), "%s%s%s %s", c->noun,
		    c->verb ? " " : "", c->verb ? c->verb : "", c->args);
		out_fmt("  %-38s %s\n", left, c->what);
	}
	out_str("\n  --server URL  unix:///PATH or tcp://ADDR:PORT; default "
		"$SLUICE_URL, else\n"
		"                the socket where sluiced listens by default\n"
		"  --json        one JSON object a line instead of text\n\n"
		"sluice help COMMAND shows its options; sluice --version. "
		"Exit codes: 0 ok,\n1 failed, 2 usage, 3 no server, 4 refused; "
		"exec passes the process's own;\n127: no such command, "
		"126: it cannot be executed.\n");
}

void
help_one(const struct cmd *c)
{
	out_str("usage: ");
	synopsis(c);
	out_fmt("\n\n%s\n", c->what);
	if (c->opts)
		out_str("\n");
	for (const struct opt *o = c->opts; o && o->name; o++) {
		char left[64], letter[8] = "";

		if (o->letter)
			(void)snprintf(
			    letter, sizeof(letter), "-%c, ", o->letter);
		(void)snprintf(left, sizeof(left), "%s--%s%s%s", letter,
		    o->name, o->arg ? " " : "", o->arg ? o->arg : "");
		out_fmt("  %-26s %s\n", left, o->help);
	}
}

int
help_run(int argc, char **argv)
{
	int shown = 0;

	if (argc == 0) {
		help_all();
		return out_end();
	}
	for (const struct cmd *c = cmd_next(NULL); c; c = cmd_next(c)) {
		if (strcmp(c->noun, argv[0]) != 0 ||
		    (argc > 1 && c->verb && strcmp(c->verb, argv[1]) != 0))
			continue;
		if (shown++)
			out_str("\n");
		help_one(c);
	}
	if (!shown)
		return help_unknown(argv[0], argc > 1 ? argv[1] : NULL);
	return out_end();
}

/* --- suggestions ---------------------------------------------------------*/

#define WORD_MAX 24

/* Edits from a to b; words over WORD_MAX are far from everything. */
static size_t
distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1], na = strlen(a), nb = strlen(b);

	if (na > WORD_MAX || nb > WORD_MAX)
		return WORD_MAX;
	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t diag = row[0];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t up = row[j];
			size_t best = diag + (a[i - 1] != b[j - 1]);

			best = up + 1 < best ? up + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			row[j] = best;
			diag = up;
		}
	}
	return row[nb];
}

/* The nearest verb of a known noun, or the nearest noun. */
static const char *
nearest(const char *noun, const char *verb)
{
	const char *best = NULL;
	size_t least = 3;

	for (const struct cmd *c = cmd_next(NULL); c; c = cmd_next(c)) {
		const char *word = verb ? c->verb : c->noun;
		size_t d;

		if (verb && (!c->verb || strcmp(c->noun, noun) != 0))
			continue;
		d = distance(verb ? verb : noun, word);
		if (d < least) {
			least = d;
			best = word;
		}
	}
	return best;
}

int
help_unknown(const char *noun, const char *verb)
{
	int known = is_noun(noun);
	const char *n =
	    known && verb ? nearest(noun, verb) : nearest(noun, NULL);

	if (known && !verb)
		return usage(
		    "%s wants a verb; see: sluice help %s", noun, noun);
	if (n)
		return usage("no command \"%s%s%s\"; did you mean \"%s%s%s\"?",
		    noun, known ? " " : "", known ? verb : "",
		    known ? noun : "", known ? " " : "", n);
	return usage("no command \"%s%s%s\"; see: sluice help%s%s", noun,
	    known ? " " : "", known ? verb : "", known ? " " : "",
	    known ? noun : "");
}
