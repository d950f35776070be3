/* SPDX-License-Identifier: Apache-2.0 */
/* FAKE, a scripted ACP agent for tests: see README.md. This file reads lines
 * and runs handlers as concurrent tasks; fake_steps.c has the steps. */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct fake f;

long long
now_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void
die(const char *what)
{
	(void)fprintf(stderr, "fake-agent: %s\n", what);
	exit(97);
}

/* --- script ---------------------------------------------------------------*/

static void
add_step(char *s)
{
	s += strspn(s, " \t");
	if (*s == '\0' || *s == '#')
		return;
	if (strncmp(s, "on ", 3) == 0) {
		if (f.nhandlers == HANDLERS)
			die("too many handlers");
		f.handlers[f.nhandlers].name = s + 3;
		f.handlers[f.nhandlers].first = f.nsteps;
		f.nhandlers++;
		return;
	}
	if (f.nhandlers == 0) {
		if (strcmp(s, "loadable") == 0)
			f.loadable = 1;
		else
			die("a step before any handler");
		return;
	}
	if (f.nsteps == STEPS)
		die("too many steps");
	f.steps[f.nsteps++] = s;
	f.handlers[f.nhandlers - 1].count++;
}

static void
parse(char *text, int inline_script)
{
	while (text && *text) {
		char *nl = strchr(text, '\n');
		char *semi = inline_script ? strstr(text, " ; ") : NULL;
		char *end = nl;
		if (semi && (!nl || semi < nl))
			end = semi;
		if (end)
			*end = '\0';
		add_step(text);
		text = end ? end + (end == semi ? 3 : 1) : NULL;
	}
}

static char *
slurp(const char *path)
{
	FILE *in = fopen(path, "re");
	char *buf = calloc(1, 1 << 20);
	if (!in || !buf)
		die("cannot read the script");
	size_t n = fread(buf, 1, (1 << 20) - 1, in);
	buf[n] = '\0';
	(void)fclose(in);
	return buf;
}

/* --- tasks ----------------------------------------------------------------*/

static struct handler *
find(const char *name, unsigned n)
{
	char numbered[64];
	(void)snprintf(numbered, sizeof(numbered), "%s %u", name, n);
	for (unsigned i = 0; i < f.nhandlers; i++)
		if (strcmp(f.handlers[i].name, numbered) == 0)
			return &f.handlers[i];
	for (unsigned i = 0; i < f.nhandlers; i++)
		if (strcmp(f.handlers[i].name, name) == 0)
			return &f.handlers[i];
	return NULL;
}

/* Start a handler; 0 when the script has none. */
static int
start(const char *name, unsigned n, const char *id, int is_prompt)
{
	struct handler *h = find(name, n);
	if (!h)
		return 0;
	for (unsigned i = 0; i < TASKS; i++) {
		struct task *t = &f.tasks[i];
		if (t->on)
			continue;
		memset(t, 0, sizeof(*t));
		t->on = 1;
		t->pc = h->first;
		t->end = h->first + h->count;
		t->prompt = is_prompt;
		t->n = n;
		(void)snprintf(t->id, sizeof(t->id), "%s", id);
		return 1;
	}
	die("too many handlers at once");
	return 0;
}

/* Run what is due; returns ms until the next, -1 = nothing waits. */
static int
run_tasks(void)
{
	long long next = -1;
	for (unsigned i = 0; i < TASKS; i++) {
		struct task *t = &f.tasks[i];
		while (t->on && t->wake <= now_ms() && !t->hang &&
		       !(t->waiting && t->open_asks > 0)) {
			t->waiting = 0;
			if (t->pc >= t->end && t->left == 0) {
				t->on = 0;
				break;
			}
			step(&f, t);
		}
		if (t->on && t->wake > now_ms() && (next < 0 || t->wake < next))
			next = t->wake;
	}
	if (next < 0)
		return -1;
	next -= now_ms();
	return next < 1 ? 1 : (int)next;
}

/* --- lines ----------------------------------------------------------------*/

static void
note(const char *line)
{
	char at[32];
	if (f.log < 0)
		return;
	int n = snprintf(at, sizeof(at), "%lld\t", now_ms() - f.t0);
	(void)!write(f.log, at, (size_t)n);
	(void)!write(f.log, line, strlen(line));
	(void)!write(f.log, "\n", 1);
}

/* The text of a member of the outermost object: good for what the server
 * sends, which writes id and method before anything nested. */
static int
member(const char *line, const char *key, char *dst, size_t cap)
{
	const char *p = strstr(line, key);
	size_t n = 0;
	if (!p)
		return 0;
	p += strlen(key);
	if (*p == '"') {
		for (n = 1; p[n] && p[n] != '"'; n++)
			;
		n++;
	} else {
		n = strcspn(p, ",}");
	}
	if (n >= cap)
		n = cap - 1;
	memcpy(dst, p, n);
	dst[n] = '\0';
	return 1;
}

static void
cancel_all(void)
{
	for (unsigned i = 0; i < TASKS; i++) {
		struct task *t = &f.tasks[i];
		if (!t->on || !t->prompt)
			continue;
		t->on = 0;
		emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":"
		     "{\"stopReason\":\"cancelled\"}}\n",
		    t->id);
	}
}

static void
request(const char *method, const char *id)
{
	static const struct {
		const char *method, *name;
	} names[] = {
	    {"\"initialize\"",     "initialize"},
            {"\"session/new\"",    "new"       },
	    {"\"session/load\"",   "load"      },
            {"\"session/resume\"", "resume"    }
        };

	if (strcmp(method, "\"session/prompt\"") == 0) {
		if (start("prompt", ++f.prompts, id, 1))
			return;
		emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":"
		     "{\"stopReason\":\"end_turn\"}}\n",
		    id);
		return;
	}
	for (unsigned i = 0; i < 4; i++) {
		if (strcmp(method, names[i].method) != 0)
			continue;
		if (start(names[i].name, 1, id, 0))
			return;
		if (i == 0)
			emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{"
			     "\"protocolVersion\":1,\"agentCapabilities\":{"
			     "\"loadSession\":%s}}}\n",
			    id, f.loadable ? "true" : "false");
		else if (i == 1)
			emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{"
			     "\"sessionId\":\"%s\"}}\n",
			    id, f.sid);
		else
			emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n",
			    id);
		return;
	}
	emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,"
	     "\"message\":\"no such method\"}}\n",
	    id);
}

static void
answered(const char *id)
{
	for (unsigned i = 0; i < TASKS; i++) {
		struct task *t = &f.tasks[i];
		for (unsigned k = 0; k < t->nasks; k++) {
			if (strcmp(t->asks[k], id) != 0)
				continue;
			t->asks[k][0] = '\0';
			t->open_asks--;
		}
	}
	(void)start("answer", 1, id, 0);
}

static void
on_line(char *line)
{
	char id[128] = "", method[64] = "";
	note(line);
	(void)member(line, "\"id\":", id, sizeof(id));
	if (!member(line, "\"method\":", method, sizeof(method))) {
		if (id[0])
			answered(id);
	} else if (id[0] && strcmp(method, "\"session/cancel\"") != 0) {
		if (strcmp(method, "\"session/load\"") == 0) {
			char sid[sizeof(f.sid) + 2];
			if (member(line, "\"sessionId\":", sid, sizeof(sid)))
				(void)snprintf(f.sid, sizeof(f.sid), "%.*s",
				    (int)strlen(sid) - 2, sid + 1);
		}
		request(method, id);
	} else if (strcmp(method, "\"session/cancel\"") == 0) {
		if (!start("cancel", 1, "null", 0))
			cancel_all();
	}
}

static void
read_lines(void)
{
	static char *buf;
	static size_t len, cap;
	if (cap - len < 65536) {
		cap = cap ? cap * 2 : 1 << 18;
		buf = realloc(buf, cap + 1);
		if (!buf)
			die("out of memory");
	}
	ssize_t n = read(0, buf + len, cap - len);
	if (n <= 0) {
		if (n < 0 && errno == EINTR)
			return;
		if (!f.undying)
			exit(0);
		f.deaf = 1;
		return;
	}
	len += (size_t)n;
	char *from = buf, *nl;
	while ((nl = memchr(from, '\n', len - (size_t)(from - buf))) != NULL) {
		*nl = '\0';
		on_line(from);
		from = nl + 1;
	}
	len -= (size_t)(from - buf);
	memmove(buf, from, len);
}

int
main(int argc, char **argv)
{
	int c;
	f.log = -1;
	f.t0 = now_ms();
	(void)snprintf(f.sid, sizeof(f.sid), "fake-%d-%lld", (int)getpid(),
	    now_ms() % 100000);
	while ((c = getopt(argc, argv, "l:e:")) != -1) {
		if (c == 'l')
			f.log = open(optarg,
			    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		else if (c == 'e')
			parse(strdup(optarg), 1);
		else
			die("usage: fake-agent [-l LOG] [-e SCRIPT | FILE]");
	}
	if (optind < argc)
		parse(slurp(argv[optind]), 0);
	(void)start("start", 1, "null", 0);
	for (;;) {
		int wait = run_tasks();
		struct pollfd p = {f.deaf ? -1 : 0, POLLIN, 0};
		if (poll(&p, 1, wait) > 0)
			read_lines();
	}
}
