/* SPDX-License-Identifier: Apache-2.0 */
/* sluice history, attach: events of a session, one JSON object a line. */
#include "events.h"
#include "out.h"

static void
print_event(
    void *arg, sluice_stream *s, const struct sluice_event *ev, sluice_msg *m)
{
	(void)arg;
	(void)s;
	event_line(ev);
	sluice_msg_done(m);
}

static void
print_gap(void *arg, sluice_stream *s, uint64_t first, uint64_t last,
    const char *reason)
{
	(void)arg;
	(void)s;
	event_gap_line(first, last, reason);
}

static const struct sluice_event_handler handler = {
    .size = sizeof(handler),
    .assemble_max = (uint64_t)256 * 1024 * 1024,
    .on_event = print_event,
    .on_gap = print_gap,
};

static int
number(const struct tool *t, const char *opt, uint64_t *ret)
{
	const char *v = args_get(&t->a, opt);

	return v ? parse_u64(opt, v, ret) : 0;
}

static int
history(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	uint64_t after = 0, before = 0, limit = 0;
	int r;

	if (number(t, "after", &after) != 0 ||
	    number(t, "before", &before) != 0 ||
	    number(t, "limit", &limit) != 0)
		return EXIT_USAGE;
	if (limit > UINT32_MAX)
		return usage("limit must be at most %u", UINT32_MAX);
	r = conn_open(t);
	if (r >= 0)
		return r;
	if (sluice_history(t->c, t->a.pos[0], after, before, (uint32_t)limit,
		&handler, NULL, NULL, &err) != SLUICE_OK) {
		(void)out_flush();
		return fail(t, &err);
	}
	return out_end();
}

/* --- attach --------------------------------------------------------------*/

static void
live_event(struct follow *f, const struct sluice_event *ev)
{
	event_line(ev);
	/* Nobody reads any more: it was said once, and nothing is left to do.
	 */
	if (out_flush() != 0)
		f->done = EXIT_FAILED + 1;
}

static void
live_gap(struct follow *f, uint64_t first, uint64_t last, const char *reason)
{
	(void)f;
	event_gap_line(first, last, reason);
}

static int
attach(struct tool *t)
{
	struct follow f = {
	    .t = t,
	    .session = t->a.pos[0],
	    .on_event = live_event,
	    .on_gap = live_gap,
	};
	int r;

	if (number(t, "from", &f.next) != 0)
		return EXIT_USAGE;
	r = conn_open(t);
	return r < 0 ? follow_run(&f) : r;
}

static const struct opt history_opts[] = {
    OPT(0, "after", "SEQ", "only events after this one"),
    OPT(0, "before", "SEQ", "only events before this one, newest first"),
    OPT(0, "limit", "N", "at most so many"), {0}};

static const struct opt attach_opts[] = {
    OPT(0, "from", "SEQ", "first event to show; default the oldest"), {0}};

const struct cmd history_cmds[] = {
    CMD("history", NULL, "SESSION", "print events, one JSON object a line", 1,
	1, 0, history_opts, history),
    CMD("attach", NULL, "SESSION", "print events, then follow live", 1, 1, 0,
	attach_opts, attach),
    {0}};
