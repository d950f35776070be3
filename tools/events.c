/* SPDX-License-Identifier: Apache-2.0 */
/* Events as lines, and following a session; see events.h. */
#include "events.h"

#include "out.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define RECONNECT_MS 30000
/* An agent's line has at most 64 MiB; what is longer comes in parts, which
 * we do not show. */
#define ASSEMBLE_MAX ((uint64_t)256 * 1024 * 1024)

/* --- lines ---------------------------------------------------------------*/

struct json
event_body(const struct sluice_event *ev)
{
	struct json v = {ev->body, ev->body_len};

	if (!v.p || !json_line_ok(v.p, v.n))
		v.p = NULL;
	return v;
}

void
event_line(const struct sluice_event *ev)
{
	struct json body = event_body(ev);

	out_open();
	out_ku64("seq", ev->seq);
	out_kstr("kind", sluice_event_kind_name(ev->kind));
	out_ku64("at_ms", ev->at_ms);
	if (ev->turn)
		out_ku64("turn", ev->turn);
	if (ev->superseded)
		out_ku64("superseded", ev->superseded);
	if (body.p) {
		out_key("payload");
		out_bytes(body.p, body.n);
	} else if (ev->body && json_utf8_ok(ev->body, ev->body_len)) {
		out_key("payload_text");
		out_json_bytes(ev->body, ev->body_len);
	} else if (ev->body) {
		out_kbase64("payload_b64", ev->body, ev->body_len);
	} else {
		out_ku64("payload_bytes", ev->length);
	}
	out_close();
	(void)out_flush();
}

void
event_gap_line(uint64_t first, uint64_t last, const char *reason)
{
	out_open();
	out_key("gap");
	out_open();
	out_ku64("first", first);
	out_ku64("last", last);
	out_kstr("reason", reason);
	out_close();
	out_close();
	(void)out_flush();
}

uint64_t
event_u64(const struct sluice_event *ev, const char *key)
{
	struct json v = json_path(event_body(ev), key);
	uint64_t n = 0;

	for (size_t i = 0; i < v.n && v.p[i] >= '0' && v.p[i] <= '9'; i++)
		n = n * 10 + (uint64_t)(v.p[i] - '0');
	return n;
}

void
event_text(
    const struct sluice_event *ev, const char *path, char *dst, size_t cap)
{
	struct json v = json_path(event_body(ev), path);
	char *full;
	size_t n;

	dst[0] = '\0';
	if (!v.p || v.p[0] != '"')
		return;
	full = need(v.n, 1);
	n = json_text(v, full);
	n = n < cap - 1 ? n : cap - 1;
	for (size_t i = 0; i < n; i++)
		dst[i] = (unsigned char)full[i] < 0x20 ? ' ' : full[i];
	dst[n] = '\0';
	free(full);
}

/* --- follow --------------------------------------------------------------*/

struct sub {
	struct follow *f;
	sluice_stream *s;
	int ended;
	struct sluice_error err;
};

static void
on_state(void *arg, sluice_stream *s, const struct sluice_sub_state *state)
{
	struct sub *u = arg;

	(void)s;
	if (u->f->on_state && !u->f->done)
		u->f->on_state(u->f, state);
}

static void
on_event(
    void *arg, sluice_stream *s, const struct sluice_event *ev, sluice_msg *m)
{
	struct sub *u = arg;

	(void)s;
	if (!u->f->done) {
		u->f->on_event(u->f, ev);
		u->f->next = ev->seq + 1;
	}
	sluice_msg_done(m);
}

static void
on_gap(void *arg, sluice_stream *s, uint64_t first, uint64_t last,
    const char *reason)
{
	struct sub *u = arg;

	(void)s;
	if (u->f->on_gap)
		u->f->on_gap(u->f, first, last, reason);
	else
		note("events %llu to %llu are no longer kept (%s)",
		    (unsigned long long)first, (unsigned long long)last,
		    reason);
	u->f->next = last + 1;
}

static void
on_end(void *arg, sluice_stream *s, const struct sluice_error *err)
{
	struct sub *u = arg;

	(void)s;
	u->ended = 1;
	if (err)
		u->err = *err;
}

static const struct sluice_event_handler handler = {
    .size = sizeof(handler),
    .assemble_max = ASSEMBLE_MAX,
    .on_state = on_state,
    .on_event = on_event,
    .on_gap = on_gap,
    .on_end = on_end,
};

static int64_t
now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int
follow_reconnect(struct tool *t)
{
	int64_t end = now_ms() + RECONNECT_MS;
	struct sluice_options o;
	int pause_ms = 50;

	note("connection lost; trying again for %d s", RECONNECT_MS / 1000);
	SLUICE_INIT(o);
	o.agent = "sluice";
	for (;;) {
		struct sluice_error err = {.size = sizeof(err)};
		void *body;
		size_t n;

		conn_close(t);
		/* An echo says that the server is there and lets us in. */
		if (sluice_open(t->server, &o, &t->c, &err) == SLUICE_OK &&
		    sluice_call_wait(t->c, "sluice.v1.Server/Echo", "", 0, NULL,
			&body, &n, &err) == SLUICE_OK) {
			sluice_result_free(body);
			return -1;
		}
		if (now_ms() > end)
			return fail(t, &err) == EXIT_REFUSED ? EXIT_REFUSED
							     : EXIT_NO_SERVER;
		(void)poll(NULL, 0, pause_ms);
		pause_ms = pause_ms < 1000 ? pause_ms * 2 : 1000;
	}
}

/* Wait for the connection or the signal; 1 when SIGINT asks to leave. */
static int
turn(struct sub *u, int sfd)
{
	struct tool *t = u->f->t;
	int64_t ms = sluice_timeout_ms(t->c);
	struct pollfd p[2] = {
	    {.fd = sluice_fd(t->c), .events = (short)sluice_events(t->c)},
	    {.fd = sfd,             .events = POLLIN                    }
        };
	struct signalfd_siginfo si;

	(void)poll(p, 2, ms < 0 ? -1 : ms > 60000 ? 60000 : (int)ms);
	(void)sluice_process(t->c, NULL);
	if (!p[1].revents || read(sfd, &si, sizeof(si)) != sizeof(si))
		return 0;
	return u->f->on_interrupt(u->f);
}

/* One subscription. -1 when it should be made again, else an exit code. */
static int
follow_once(struct follow *f, int sfd)
{
	struct sub u = {.f = f, .err = {.size = sizeof(u.err)}};
	struct sluice_error err = {.size = sizeof(err)};
	int leave = 0;

	if (sluice_subscribe(f->t->c, f->session, f->next, &handler, &u, &u.s,
		&err) != SLUICE_OK)
		u.err = err;
	else
		while (!u.ended && !f->done && !leave)
			leave = turn(&u, sfd);
	sluice_stream_free(u.s);
	if (f->done)
		return f->done - 1;
	if (leave)
		return 128 + SIGINT;
	if (u.err.code == SLUICE_OK) {
		note("the server ended the subscription");
		return EXIT_FAILED;
	}
	if (u.err.code == SLUICE_E_INTERRUPTED ||
	    u.err.code == SLUICE_E_CLOSED || u.err.code == SLUICE_E_DRAINING)
		return -1;
	return fail(f->t, &u.err);
}

int
follow_run(struct follow *f)
{
	int sfd = -1, r;
	sigset_t set;

	if (f->on_interrupt) {
		(void)sigemptyset(&set);
		(void)sigaddset(&set, SIGINT);
		(void)sigprocmask(SIG_BLOCK, &set, NULL);
		sfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	}
	for (;;) {
		r = follow_once(f, sfd);
		if (r >= 0)
			break;
		r = follow_reconnect(f->t);
		if (r >= 0)
			break;
	}
	if (sfd >= 0)
		(void)close(sfd);
	return r;
}
