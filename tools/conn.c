/* SPDX-License-Identifier: Apache-2.0 */
/* The connection of the sluice command, and how every error becomes one line
 * on stderr and an exit code. */
#include "cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void
note(const char *fmt, ...)
{
	char line[4096] = "sluice: ";
	va_list ap;
	size_t n;

	/* One write, so that lines of several commands do not mix. */
	va_start(ap, fmt);
	(void)vsnprintf(line + 8, sizeof(line) - 9, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	(void)!write(STDERR_FILENO, line, n);
}

int
usage(const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	note("%s", line);
	return EXIT_USAGE;
}

void *
need(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p) {
		note("out of memory");
		exit(EXIT_FAILED);
	}
	return p;
}

/* Memory until the end of the command. */
static struct scrap {
	struct scrap *next;
	max_align_t mem[];
} * scraps;

void *
scratch(size_t n, size_t size)
{
	struct scrap *s = need(1, sizeof(*s) + n * size);

	s->next = scraps;
	scraps = s;
	return s->mem;
}

void
scratch_free(void)
{
	while (scraps) {
		struct scrap *s = scraps;

		scraps = s->next;
		free(s);
	}
}

void
random_key(char key[33])
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b)) {
		note("no random bytes from the kernel");
		exit(EXIT_FAILED);
	}
	for (size_t i = 0; i < sizeof(b); i++)
		(void)snprintf(key + 2 * i, 3, "%02x", b[i]);
}

/* --- errors --------------------------------------------------------------*/

static int
is_refusal(int32_t code)
{
	switch (code) {
	case SLUICE_E_PERMISSION_DENIED:
	case SLUICE_E_UNAUTHENTICATED:
	case SLUICE_E_RESOURCE_EXHAUSTED:
	case SLUICE_E_SESSION_BUSY:
	case SLUICE_E_HOST_CAPACITY:
	case SLUICE_E_STORAGE_FULL:
	case SLUICE_E_KEY_CONFLICT:
	case SLUICE_E_DRAINING:
		return 1;
	default:
		return 0;
	}
}

/* "; KEY (SCOPE): 9 used + 1 requested > 9: raise KEY and OTHER" */
static void
add_hit(char *line, size_t cap, const struct sluice_limit_hit *h)
{
	size_t n = strlen(line);

	if (n + 320 > cap)
		return;
	(void)snprintf(line + n, cap - n,
	    "; %s (%s): %llu used + %llu requested > %llu: raise %s%s%s",
	    h->key, h->scope, (unsigned long long)h->used,
	    (unsigned long long)h->requested, (unsigned long long)h->limit,
	    h->key, h->companions[0] ? " and with it " : "", h->companions);
}

int
fail(const struct tool *t, const struct sluice_error *err)
{
	char line[3600];
	uint32_t n = err->nhits;

	(void)snprintf(line, sizeof(line), "%s%s%s", err->text,
	    err->text[0] ? "" : sluice_err_text(err->code),
	    err->retryable && !is_refusal(err->code) &&
		    err->code != SLUICE_E_ABORTED
		? " (try again)"
		: "");
	for (uint32_t i = 0; i < n && i < 8; i++)
		add_hit(line, sizeof(line), &err->hits[i]);
	note("%s [%s%s%s]", line, sluice_err_name(err->code),
	    err->reason[0] ? " " : "", err->reason);
	(void)t;
	return is_refusal(err->code) ? EXIT_REFUSED : EXIT_FAILED;
}

/* --- connection ----------------------------------------------------------*/

static void
on_ready(void *arg, sluice_client *c)
{
	struct tool *t = arg;

	(void)c;
	t->ready = 1;
}

static int
no_server(const struct tool *t, const struct sluice_error *err)
{
	if (err->code == SLUICE_E_UNAVAILABLE || err->code == SLUICE_E_CLOSED) {
		if (t->server || getenv("SLUICE_URL"))
			note("%s; is sluiced listening there?", err->text);
		else
			note("%s; start one with: sluiced &  (or name one "
			     "with --server URL)%s",
			    err->text,
			    strcmp(t->a.cmd->noun, "doctor") == 0
				? "; doctor shows what a server finds here "
				  "with the rights it was started with"
				: "");
		return EXIT_NO_SERVER;
	}
	if (err->code == SLUICE_E_INVALID_ARGUMENT)
		return usage("%s", err->text);
	return fail(t, err);
}

int
conn_open(struct tool *t)
{
	struct sluice_options o;
	struct sluice_error err;
	int e;

	err.size = sizeof(err);
	SLUICE_INIT(o);
	o.agent = "sluice";
	o.on_ready = on_ready;
	o.arg = t;
	t->ready = 0;
	e = sluice_open(t->server, &o, &t->c, &err);
	if (e != SLUICE_OK)
		return no_server(t, &err);
	while (!t->ready && (e == SLUICE_OK || e == SLUICE_E_AGAIN))
		e = sluice_wait(t->c, -1, &err);
	if (t->ready)
		return -1;
	conn_close(t);
	return no_server(t, &err);
}

void
conn_close(struct tool *t)
{
	sluice_close(t->c);
	t->c = NULL;
}
