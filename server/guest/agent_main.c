/* SPDX-License-Identifier: Apache-2.0 */
/* The poll loop of sluice-agent-shell: stdin to lines, commands' pipes to
 * updates, answers to stdout. Never blocks on a client that does not read. */
#include "guest/agent_shell.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
take_lines(struct agent *a)
{
	for (;;) {
		struct sli_slice all = sli_buf_slice(&a->in);
		const uint8_t *nl = all.n ? memchr(all.p, '\n', all.n) : NULL;
		if (!nl)
			break;
		size_t n = (size_t)(nl - all.p);
		if (a->skipping)
			a->skipping = 0;
		else
			agent_line(a, sli_slice_of(all.p, n));
		sli_buf_consume(&a->in, n + 1);
	}
	if (sli_buf_len(&a->in) >= AGENT_LINE_MAX) {
		if (!a->skipping)
			agent_error(a, "null", -32600, "line too long");
		a->skipping = 1;
		sli_buf_reset(&a->in);
	}
}

static void
read_stdin(struct agent *a)
{
	uint8_t *p = sli_buf_reserve(&a->in, 65536);
	if (!p) {
		sli_buf_reset(&a->in);
		return;
	}
	ssize_t n = read(STDIN_FILENO, p, 65536);
	if (n > 0) {
		sli_buf_added(&a->in, (size_t)n);
		take_lines(a);
	} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		a->in_eof = 1;
	}
}

static void
write_stdout(struct agent *a)
{
	ssize_t n =
	    write(STDOUT_FILENO, sli_buf_data(&a->out), sli_buf_len(&a->out));
	if (n > 0)
		sli_buf_consume(&a->out, (size_t)n);
	else if (n < 0 && errno != EINTR && errno != EAGAIN)
		exit(1); /* the client is gone */
}

/* One turn of the loop. A client that does not read stops the commands'
 * output, not our memory: pipes are read only while `out` has room. */
static void
turn(struct agent *a)
{
	struct pollfd p[2 + AGENT_SESSIONS];
	struct session *who[2 + AGENT_SESSIONS];
	nfds_t n = 0;
	int room = sli_buf_len(&a->out) < AGENT_OUT_MAX / 2;
	p[n++] = (struct pollfd){a->in_eof ? -1 : STDIN_FILENO, POLLIN, 0};
	p[n++] = (struct pollfd){
	    sli_buf_len(&a->out) ? STDOUT_FILENO : -1, POLLOUT, 0};
	for (unsigned i = 0; i < AGENT_SESSIONS; i++) {
		struct session *s = &a->sessions[i];
		if (s->state != TURN_RUNNING || s->out < 0 || !room)
			continue;
		who[n] = s;
		p[n++] = (struct pollfd){s->out, POLLIN, 0};
	}
	if (poll(p, n, -1) < 0)
		return;
	for (nfds_t i = 2; i < n; i++)
		if (p[i].revents)
			turn_output(a, who[i]);
	if (p[1].revents)
		write_stdout(a);
	if (p[0].revents)
		read_stdin(a);
}

static void
kill_all(struct agent *a)
{
	for (unsigned i = 0; i < AGENT_SESSIONS; i++)
		if (a->sessions[i].state == TURN_RUNNING)
			(void)kill(-a->sessions[i].pid, SIGKILL);
}

int
main(int argc, char **argv)
{
	static struct agent a;
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		(void)printf("sluice-agent-shell %s\n", SLUICE_VERSION);
		return 0;
	}
	if (argc > 1) {
		(void)fprintf(stderr,
		    "sluice-agent-shell: speaks ACP on stdin and stdout; "
		    "takes no arguments\n");
		return 2;
	}
	struct sigaction ign = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ign, NULL);
	(void)fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
	sli_buf_init(&a.in, AGENT_LINE_MAX + 131072);
	sli_buf_init(&a.out, AGENT_OUT_MAX);
	while (!a.in_eof)
		turn(&a);
	kill_all(&a);
	while (sli_buf_len(&a.out)) {
		struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};
		if (poll(&p, 1, 1000) <= 0)
			break;
		write_stdout(&a);
	}
	return 0;
}
