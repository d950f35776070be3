/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of FAKE; see README.md. */
#include "fake.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
emit_bytes(const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(1, p, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			exit(96);
		p += w;
		n -= (size_t)w;
	}
}

void
emit(const char *fmt, ...)
{
	static char buf[1 << 16];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(buf))
		die("line too long for emit");
	emit_bytes(buf, (size_t)n);
}

static void
pause_ms(long ms)
{
	(void)poll(NULL, 0, (int)ms);
}

/* The next word of s in dst; returns what follows it. */
static char *
word(char *s, char *dst, size_t cap)
{
	s += strspn(s, " ");
	size_t n = strcspn(s, " ");
	size_t k = n < cap ? n : cap - 1;
	memcpy(dst, s, k);
	dst[k] = '\0';
	s += n;
	return s + strspn(s, " ");
}

/* --- text -----------------------------------------------------------------*/

/* $SID, $ID, $N and $I replaced. */
static size_t
expand(const struct fake *f, const struct task *t, const char *in, char *out,
    size_t cap)
{
	size_t n = 0;
	while (*in && n + 160 < cap) {
		if (strncmp(in, "$SID", 4) == 0) {
			n += (size_t)snprintf(out + n, cap - n, "%s", f->sid);
			in += 4;
		} else if (strncmp(in, "$ID", 3) == 0) {
			n += (size_t)snprintf(out + n, cap - n, "%s", t->id);
			in += 3;
		} else if (strncmp(in, "$N", 2) == 0) {
			n += (size_t)snprintf(out + n, cap - n, "%u", t->n);
			in += 2;
		} else if (strncmp(in, "$I", 2) == 0) {
			n += (size_t)snprintf(
			    out + n, cap - n, "%u", f->counter);
			in += 2;
		} else {
			out[n++] = *in++;
		}
	}
	out[n] = '\0';
	return n;
}

static void
write_line(struct fake *f, struct task *t, const char *text)
{
	static char buf[1 << 17];
	size_t n = expand(f, t, text, buf, sizeof(buf) - 2);
	buf[n++] = '\n';
	if (f->split == 0) {
		emit_bytes(buf, n);
		return;
	}
	for (size_t at = 0; at < n; at += f->split) {
		emit_bytes(buf + at, n - at < f->split ? n - at : f->split);
		pause_ms(f->split_ms);
	}
	f->split = 0;
}

static void
write_raw(const char *s)
{
	while (*s) {
		char c = *s++;
		if (c == '\\' && *s) {
			static const char from[] = "nrt0\\",
					  to[] = "\n\r\t\0\\";
			const char *hit = strchr(from, *s);
			if (*s == 'x') {
				char hex[3] = {s[1], s[1] ? s[2] : 0, 0};
				c = (char)strtoul(hex, NULL, 16);
				s += strlen(hex) + 1;
			} else {
				c = hit ? to[hit - from] : *s;
				s++;
			}
		}
		emit_bytes(&c, 1);
	}
}

static int
chunk(const struct fake *f, char *dst, size_t cap, const char *text, unsigned i)
{
	char num[16] = "";
	if (i)
		(void)snprintf(num, sizeof(num), " %u", i);
	return snprintf(dst, cap,
	    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{"
	    "\"sessionId\":\"%s\",\"update\":{\"sessionUpdate\":"
	    "\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":"
	    "\"%s%s\"}}}}\n",
	    f->sid, text, num);
}

static void
chunks(const struct fake *f, char *arg)
{
	unsigned n = (unsigned)strtoul(arg, &arg, 10);
	size_t cap = (size_t)n * (strlen(arg) + 320) + 1, len = 0;
	char *all = malloc(cap);
	if (!all)
		die("out of memory");
	for (unsigned i = 1; i <= n; i++)
		len += (size_t)chunk(
		    f, all + len, cap - len, arg + strspn(arg, " "), i);
	emit_bytes(all, len);
	free(all);
}

/* --- snapshots ------------------------------------------------------------*/

/* The command's output: byte k is a letter that depends on k alone, so that
 * every window of it can be checked. */
static char
output_at(size_t k)
{
	static const char abc[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	return abc[(k * 7 + k / 37) % 37];
}

static void
snapshot(const struct fake *f, const char *call, size_t from, size_t window,
    size_t step_bytes, unsigned i, const char *mode)
{
	static char *buf;
	static size_t cap;
	if (cap < window + step_bytes + 2048) {
		cap = window + step_bytes + 2048;
		buf = realloc(buf, cap);
		if (!buf)
			die("out of memory");
	}
	int n = snprintf(buf, cap,
	    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{"
	    "\"sessionId\":\"%s\",\"update\":{\"sessionUpdate\":"
	    "\"tool_call_update\",\"toolCallId\":\"%s\",\"status\":"
	    "\"in_progress\",",
	    f->sid, call);
	size_t len = (size_t)n;
	if (i == 1 && strcmp(mode, "field") == 0)
		len += (size_t)snprintf(
		    buf + len, cap - len, "\"title\":\"only in the first\",");
	if (strcmp(mode, "meta") == 0)
		len += (size_t)snprintf(
		    buf + len, cap - len, "\"_meta\":{\"delta\":\"d%u\"},", i);
	len += (size_t)snprintf(buf + len, cap - len,
	    "\"content\":[{\"type\":\"content\",\"content\":{\"type\":"
	    "\"text\",\"text\":\"");
	for (size_t k = 0; k < window; k++)
		buf[len++] = output_at(from + k);
	len += (size_t)snprintf(buf + len, cap - len, "\"}}]}}}\n");
	emit_bytes(buf, len);
}

/* grow CALL WINDOW STEP N MS [meta|field] */
static void
grow(struct fake *f, struct task *t, char *arg)
{
	char call[64] = "", mode[16] = "";
	size_t window = 0, by = 0;
	unsigned n = 0;
	int ms = 0;
	arg = word(arg, call, sizeof(call));
	window = strtoul(arg, &arg, 10);
	by = strtoul(arg, &arg, 10);
	n = (unsigned)strtoul(arg, &arg, 10);
	ms = (int)strtol(arg, &arg, 10);
	(void)word(arg, mode, sizeof(mode));
	if (window == 0 || n == 0)
		die("grow CALL WINDOW STEP N MS [meta|field]");
	if (t->left == 0) {
		t->left = n;
		t->done = 0;
	}
	do {
		snapshot(f, call, t->done * by, window, by, t->done + 1, mode);
		t->done++;
		t->left--;
	} while (t->left && ms == 0);
	t->wake = now_ms() + ms;
}

static void
flow(struct fake *f, struct task *t, char *arg)
{
	unsigned n = (unsigned)strtoul(arg, &arg, 10);
	int ms = (int)strtol(arg, &arg, 10);
	char buf[4096];
	if (t->left == 0) {
		t->left = n;
		t->done = 0;
	}
	int len = chunk(f, buf, sizeof(buf), arg + strspn(arg, " "), ++t->done);
	emit_bytes(buf, (size_t)len);
	t->left--;
	t->wake = now_ms() + ms;
}

static void
fill(const struct fake *f, size_t bytes)
{
	static char block[65536];
	memset(block, 'z', sizeof(block));
	emit("{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{"
	     "\"sessionId\":\"%s\",\"update\":{\"sessionUpdate\":"
	     "\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":"
	     "\"",
	    f->sid);
	while (bytes) {
		size_t n = bytes < sizeof(block) ? bytes : sizeof(block);
		emit_bytes(block, n);
		bytes -= n;
	}
	emit("\"}}}}\n");
}

/* --- the rest -------------------------------------------------------------*/

static void
ask(struct fake *f, struct task *t, char *arg)
{
	char id[128] = "";
	arg = word(arg, id, sizeof(id));
	if (id[0] == '\0' || t->nasks == ASKS)
		die("ask ID TITLE, at most 16");
	(void)snprintf(t->asks[t->nasks++], 128, "%s", id);
	t->open_asks++;
	emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":"
	     "\"session/request_permission\",\"params\":{\"sessionId\":\"%s\","
	     "\"toolCall\":{\"toolCallId\":\"ask-%u\",\"title\":\"%s\"},"
	     "\"options\":[{\"optionId\":\"allow\",\"name\":\"Allow\",\"kind\":"
	     "\"allow_once\"},{\"optionId\":\"reject\",\"name\":\"Reject\","
	     "\"kind\":\"reject_once\"}]}}\n",
	    id, f->sid, t->nasks, *arg ? arg : "a tool");
}

static void
errflood(size_t bytes)
{
	static char block[65536];
	memset(block, 'e', sizeof(block));
	while (bytes) {
		size_t n = bytes < sizeof(block) ? bytes : sizeof(block);
		ssize_t w = write(2, block, n);
		if (w <= 0)
			return;
		bytes -= (size_t)w;
	}
}

static void
orphan(unsigned seconds)
{
	if (fork() != 0)
		return;
	(void)setsid();
	if (fork() != 0)
		_exit(0);
	pause_ms((long)seconds * 1000);
	_exit(0);
}

static void
undying(struct fake *f)
{
	struct sigaction ign = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGTERM, &ign, NULL);
	f->undying = 1;
}

static void
answer(const struct task *t, const char *json)
{
	emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", t->id, json);
}

static void
answer_error(const struct task *t, char *arg)
{
	long code = strtol(arg, &arg, 10);
	emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%ld,"
	     "\"message\":\"%s\"}}\n",
	    t->id, code, arg + strspn(arg, " "));
}

/* Steps about messages; 0 when `s` is none of them. */
static int
step_message(struct fake *f, struct task *t, const char *s, char *arg)
{
	char buf[8192];
	if (strcmp(s, "line") == 0)
		write_line(f, t, arg);
	else if (strcmp(s, "raw") == 0)
		write_raw(arg);
	else if (strcmp(s, "text") == 0)
		emit_bytes(buf, (size_t)chunk(f, buf, sizeof(buf), arg, 0));
	else if (strcmp(s, "chunks") == 0)
		chunks(f, arg);
	else if (strcmp(s, "fill") == 0)
		fill(f, strtoul(arg, NULL, 10));
	else if (strcmp(s, "ask") == 0)
		ask(f, t, arg);
	else if (strcmp(s, "reply") == 0)
		answer(t, arg);
	else if (strcmp(s, "error") == 0)
		answer_error(t, arg);
	else if (strcmp(s, "end") == 0)
		emit("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{"
		     "\"stopReason\":\"%s\"}}\n",
		    t->id, *arg ? arg : "end_turn");
	else
		return 0;
	return 1;
}

static void
step_other(struct fake *f, struct task *t, const char *s, char *arg)
{
	if (strcmp(s, "delay") == 0)
		t->wake = now_ms() + strtol(arg, NULL, 10);
	else if (strcmp(s, "wait") == 0)
		t->waiting = 1;
	else if (strcmp(s, "hang") == 0)
		t->hang = 1;
	else if (strcmp(s, "split") == 0) {
		f->split = strtoul(arg, &arg, 10);
		f->split_ms = (int)strtol(arg, NULL, 10);
	} else if (strcmp(s, "stderr") == 0)
		(void)fprintf(stderr, "%s\n", arg);
	else if (strcmp(s, "errflood") == 0)
		errflood(strtoul(arg, NULL, 10));
	else if (strcmp(s, "exit") == 0)
		exit((int)strtol(arg, NULL, 10));
	else if (strcmp(s, "kill") == 0)
		(void)kill(getpid(), (int)strtol(arg, NULL, 10));
	else if (strcmp(s, "orphan") == 0)
		orphan((unsigned)strtoul(arg, NULL, 10));
	else if (strcmp(s, "deaf") == 0)
		f->deaf = 1;
	else if (strcmp(s, "undying") == 0)
		undying(f);
	else
		die(s);
}

void
step(struct fake *f, struct task *t)
{
	char name[16] = "";
	char *text = f->steps[t->left ? t->pc - 1 : t->pc];
	size_t n = strcspn(text, " ");
	char *arg = text + n + (text[n] == ' ');
	if (n >= sizeof(name))
		die(text);
	memcpy(name, text, n);
	if (t->left == 0)
		t->pc++;
	f->counter++;
	if (strcmp(name, "grow") == 0)
		grow(f, t, arg);
	else if (strcmp(name, "flow") == 0)
		flow(f, t, arg);
	else if (!step_message(f, t, name, arg))
		step_other(f, t, name, arg);
}
