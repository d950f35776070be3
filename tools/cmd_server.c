/* SPDX-License-Identifier: Apache-2.0 */
/* sluice stats, doctor */
#include "cmd.h"
#include "out.h"

#include <string.h>

static void
stat_line(
    void *arg, const struct sluice_stat *st, const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!st)
		return;
	if (t->json) {
		out_open();
		out_kstr("name", st->name);
		out_kstr("scope", st->scope);
		out_ku64("value", st->value);
		out_kstr("unit", st->unit);
		out_close();
		return;
	}
	out_fmt("%-32s %-36s %16llu %s\n", st->name, st->scope,
	    (unsigned long long)st->value, st->unit);
}

static int
stats(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_server_stats(t->c, args_has(&t->a, "buffers"), stat_line, t,
		NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static void
doctor_line(void *arg, const struct sluice_doctor_line *d,
    const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!d)
		return;
	if (t->json) {
		out_open();
		out_kstr("name", d->name);
		out_kstr("state", d->state);
		out_kstr("detail", d->detail);
		out_kstr("remedy", d->remedy);
		out_close();
		return;
	}
	out_fmt("%-20s %-8s ", d->name, d->state);
	out_safe(d->detail);
	out_str("\n");
	if (d->remedy[0]) {
		out_fmt("%-20s %-8s mend: ", "", "");
		out_safe(d->remedy);
		out_str("\n");
	}
}

static int
doctor(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_server_doctor(t->c, doctor_line, t, NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static const struct opt stats_opts[] = {
    OPT(0, "buffers", NULL, "only the byte gauges inflight, held, retained"),
    {0}};

const struct cmd server_cmds[] = {
    CMD("stats", NULL, "", "gauges and counters of the server", 0, 0, 0,
	stats_opts, stats),
    CMD("doctor", NULL, "", "what this machine can do, and how to mend it", 0,
	0, 0, NULL, doctor),
    {0}};
