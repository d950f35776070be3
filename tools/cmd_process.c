/* SPDX-License-Identifier: Apache-2.0 */
/* sluice ps, kill */
#include "cmd.h"
#include "out.h"

#include <stdio.h>

static void
json_proc(const struct sluice_proc *p)
{
	out_open();
	out_ku64("pid", p->pid);
	out_kstr("state", p->state);
	out_list("argv");
	for (size_t i = 0; p->argv[i]; i++) {
		out_item();
		out_json_str(p->argv[i]);
	}
	out_list_end();
	if (p->exit && p->exit->signal)
		out_ki32("signal", p->exit->signal);
	else if (p->exit)
		out_ki32("code", p->exit->code);
	out_ku64("started_ms", p->started_ms);
	out_ku64("output_start", p->output_start);
	out_ku64("output_end", p->output_end);
	out_kbool("detached", p->detached);
	if (p->session[0])
		out_kstr("session", p->session);
	out_close();
}

static void
text_proc(const struct sluice_proc *p)
{
	char how[32] = "-";

	if (p->exit && p->exit->signal)
		(void)snprintf(how, sizeof(how), "sig %d", p->exit->signal);
	else if (p->exit)
		(void)snprintf(how, sizeof(how), "%d", p->exit->code);
	out_fmt("%7u %-8s %7s %12llu ", p->pid, p->state, how,
	    (unsigned long long)p->output_end);
	for (size_t i = 0; p->argv[i]; i++) {
		out_str(" ");
		out_safe(p->argv[i]);
	}
	if (p->session[0])
		out_fmt("  [agent of %s]", p->session);
	out_str("\n");
}

static void
listed(void *arg, const struct sluice_proc *p, const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!p)
		return;
	if (t->json)
		json_proc(p);
	else
		text_proc(p);
}

static int
ps(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (!t->json)
		out_fmt("%7s %-8s %7s %12s  %s\n", "PID", "STATE", "EXIT",
		    "OUTPUT", "COMMAND");
	if (sluice_ps(t->c, t->a.pos[0], listed, t, NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static int
kill_process(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	uint64_t pid;
	int sig = 0, r;

	if (parse_u64("PID", t->a.pos[1], &pid) != 0)
		return EXIT_USAGE;
	if (pid == 0 || pid > UINT32_MAX)
		return usage("PID must be a number from 1 on");
	if (t->a.npos > 2) {
		sig = parse_signal(t->a.pos[2]);
		if (sig < 0)
			return EXIT_USAGE;
	}
	r = conn_open(t);
	if (r >= 0)
		return r;
	if (sluice_kill(t->c, t->a.pos[0], (uint32_t)pid, sig, NULL, NULL, NULL,
		&err) != SLUICE_OK)
		return fail(t, &err);
	return EXIT_OK;
}

const struct cmd process_cmds[] = {
    CMD("ps", NULL, "VM", "list the processes that exec started", 1, 1, 0, NULL,
	ps),
    CMD("kill", NULL, "VM PID [SIGNAL]",
	"signal a process; without SIGNAL kill its whole tree", 2, 3, 0, NULL,
	kill_process),
    {0}};
