/* SPDX-License-Identifier: Apache-2.0 */
/* Writes records to stderr, one write(2) each, so that lines of threads never
 * mix. Process-wide state on purpose: the level, and the table of event names
 * that limits each name to 100 records a second. Atomics only, no lock. */
#include "base/log.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_PER_SECOND 100u
#define LOG_SLOTS      256u
#define LOG_LINE_MAX   2048u

struct rate {
	_Atomic uint64_t name; /* hash; 0 = free */
	_Atomic int64_t second;
	_Atomic uint32_t count; /* records wished for in this second */
};

static struct rate rates[LOG_SLOTS];
static _Atomic int level = SLI_LOG_NOTICE;

void
sli_log_set_level(enum sli_log_level lvl)
{
	atomic_store(&level, (int)lvl);
}

enum sli_log_level
sli_log_level(void)
{
	return (enum sli_log_level)atomic_load_explicit(
	    &level, memory_order_relaxed);
}

static uint64_t
name_hash(const char *s)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (; *s != '\0'; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
	return h != 0 ? h : 1;
}

static struct rate *
rate_slot(const char *event)
{
	uint64_t h = name_hash(event);

	for (unsigned i = 0; i < LOG_SLOTS; i++) {
		struct rate *r = &rates[(h + i) % LOG_SLOTS];
		uint64_t seen = atomic_load(&r->name);

		if (seen == 0 &&
		    atomic_compare_exchange_strong(&r->name, &seen, h))
			return r;
		if (seen == h)
			return r;
	}
	return NULL; /* more names than slots: that name is not limited */
}

/* 1 = write it. *ret_dropped: records of this name that an earlier second
 * swallowed and that are to be reported now. */
static int
rate_allow(const char *event, uint32_t *ret_dropped)
{
	struct rate *r = rate_slot(event);
	int64_t now = sli_mono_ms() / 1000;
	int64_t was;

	*ret_dropped = 0;
	if (r == NULL)
		return 1;
	was = atomic_load(&r->second);
	if (was != now &&
	    atomic_compare_exchange_strong(&r->second, &was, now)) {
		uint32_t n = atomic_exchange(&r->count, 0);

		if (n > LOG_PER_SECOND)
			*ret_dropped = n - LOG_PER_SECOND;
	}
	return atomic_fetch_add(&r->count, 1) < LOG_PER_SECOND;
}

/* "<N>" in front when the journal reads stderr. */
static int
journal_priority(enum sli_log_level lvl)
{
	static const int prio[] = {3, 4, 5, 6, 7};

	if (getenv("JOURNAL_STREAM") == NULL)
		return -1;
	return prio[lvl];
}

static void
emit(const char *line, size_t n)
{
	ssize_t w;

	do {
		w = write(STDERR_FILENO, line, n);
	} while (w < 0 && errno == EINTR);
}

static size_t
head(char *line, size_t cap, enum sli_log_level lvl, const char *comp,
    const char *event)
{
	static const char *const names[] = {
	    "err", "warn", "notice", "info", "debug"};
	int prio = journal_priority(lvl);
	size_t n = 0;

	if (prio >= 0)
		n = sli_snprintf(line, cap, "<%d>", prio);
	return n + sli_snprintf(
		       line + n, cap - n, "%s %s %s", names[lvl], comp, event);
}

void
sli_log(enum sli_log_level lvl, const char *comp, const char *event,
    const char *fmt, ...)
{
	char line[LOG_LINE_MAX];
	uint32_t dropped;
	va_list ap;
	size_t n;
	int w;

	if (lvl > sli_log_level())
		return;
	if (!rate_allow(event, &dropped))
		return;
	if (dropped != 0) {
		n = head(line, sizeof(line), SLI_LOG_WARN, "log", "dropped");
		n += sli_snprintf(line + n, sizeof(line) - n,
		    " event=%s count=%u\n", event, dropped);
		emit(line, n);
	}
	/* Two bytes stay for the space and the newline. */
	n = head(line, sizeof(line) - 2, lvl, comp, event);
	if (fmt[0] != '\0')
		line[n++] = ' ';
	va_start(ap, fmt);
	w = vsnprintf(line + n, sizeof(line) - 1 - n, fmt, ap);
	va_end(ap);
	if (w > 0)
		n += SLI_MIN((size_t)w, sizeof(line) - 2 - n);
	/* One record is one line, whatever a caller has passed. */
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	}
	line[n++] = '\n';
	emit(line, n);
}
