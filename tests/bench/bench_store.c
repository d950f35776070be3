/* SPDX-License-Identifier: Apache-2.0 */
/* What durable history costs: appends of 200 bytes over 100 sessions, each its
 * own call, acknowledged after a commit with synchronous=FULL; the same events
 * as one plain SQLite row each, in the same run; the latency at a fixed rate;
 * and reading back. Prints `name value unit`: medians of interleaved rounds,
 * the best one for what is absolute. The number of rounds can be given. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/cursor.h"

#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX 15
#define SESSIONS   100u
#define BODY       200u
#define EVENTS     400000u /* a round of appends */
#define FLYING     20000u  /* asked for and not yet answered */
#define PLAIN      100000u /* rows of a round of the peer, 512 a commit */
#define PLAIN1     2000u   /* the same, one a commit */
#define RATE       10000u  /* a second, for the latency */
#define RATED      20000u
#define PAGES      2000u

static struct bench {
	struct sli_mailbox *mb;
	struct store *st;
	char dir[64];
	unsigned flying;
	uint64_t done;
	double lat[RATED];
	int answered;
} b;

static char ids[SESSIONS][8];
static uint8_t body[BODY];

static void
die(const char *what)
{
	(void)fprintf(stderr, "bench_store: %s\n", what);
	exit(1);
}

static double
now_ms(void)
{
	int64_t ns = sli_mono_ns();

	return (double)ns / 1e6;
}

static void
wait_post(int64_t until_ms)
{
	struct pollfd p = {.fd = sli_mailbox_fd(b.mb), .events = POLLIN};
	int64_t ms = until_ms - sli_mono_ms();

	if (until_ms < 0 || ms > 0)
		(void)poll(&p, 1, until_ms < 0 ? -1 : (int)ms);
	(void)sli_mailbox_drain(b.mb);
}

static void
on_fatal(void *ctx, const struct sli_errinfo *ei)
{
	(void)ctx;
	die(ei->text);
}

static void
on_done(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	double *at = ctx;

	(void)first_seq;
	if (ei->code != SLI_OK)
		die(ei->text);
	b.flying--;
	b.done++;
	if (at)
		*at = now_ms() - *at;
}

static void
start(void)
{
	struct store_session_row row = {.state = SLI_SS_IDLE, .epoch = 1};
	struct store_cfg cfg = {.dir = b.dir,
	    .linger_ms = 10,
	    .session_budget = 1 << 30,
	    .budget = 1 << 30,
	    .fatal = on_fatal};
	const char *tmp = getenv("TMPDIR");
	struct sli_errinfo ei;

	(void)sli_snprintf(b.dir, sizeof(b.dir), "%s/sluice-bench-XXXXXX",
	    tmp ? tmp : "/var/tmp");
	if (!mkdtemp(b.dir))
		die("no temporary directory");
	b.mb = cfg.mb = sli_mailbox_new();
	if (!b.mb || store_open(&cfg, &b.st, &ei) != SLI_OK)
		die("cannot open a store");
	for (unsigned i = 0; i < SESSIONS; i++) {
		(void)sli_snprintf(ids[i], sizeof(ids[i]), "s%u", i);
		(void)sli_strlcpy(row.id, ids[i], sizeof(row.id));
		b.flying++;
		store_new_session(b.st, &row, NULL, 0, on_done, NULL);
	}
	while (b.flying > 0)
		wait_post(-1);
}

static void
remove_file(const char *name)
{
	char path[128];

	(void)sli_snprintf(path, sizeof(path), "%s/%s", b.dir, name);
	(void)unlink(path);
}

static void
finish(void)
{
	static const char *const names[] = {"history.db", "history.db-wal",
	    "history.db-shm", "lock", "ballast"};

	store_close(b.st);
	sli_mailbox_free(b.mb);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(names); i++)
		remove_file(names[i]);
	(void)rmdir(b.dir);
}

static void
append(unsigned session, void *ctx)
{
	struct sli_record r = {
	    .ev = {
		   .kind = SLI_EV_AGENT,
		   .turn = 1,
		   .at_ms = 1700000000000,
		   .length = BODY,
		   .body = sli_slice_of(body, BODY),
		   }
        };

	b.flying++;
	store_commit(b.st, ids[session], &r, 1, 0, on_done, ctx);
}

/* Events a second, from the first call to the last acknowledgement. */
static double
append_rate(void)
{
	int64_t t0 = sli_mono_ns();

	for (unsigned i = 0; i < EVENTS;) {
		while (i < EVENTS && b.flying < FLYING)
			append(i++ % SESSIONS, NULL);
		wait_post(-1);
	}
	while (b.flying > 0)
		wait_post(-1);
	return EVENTS / ((double)(sli_mono_ns() - t0) / 1e9);
}

/* --- the peer -------------------------------------------------------------*/

static void
sql(sqlite3 *h, const char *text)
{
	if (sqlite3_exec(h, text, NULL, NULL, NULL) != SQLITE_OK)
		die(sqlite3_errmsg(h));
}

static double
plain_rate(unsigned rows, unsigned batch)
{
	sqlite3 *h = NULL;
	sqlite3_stmt *q = NULL;
	char path[128];
	int64_t t0;

	(void)sli_snprintf(path, sizeof(path), "%s/plain.db", b.dir);
	if (sqlite3_open(path, &h) != SQLITE_OK)
		die("cannot open the peer");
	sql(h, "PRAGMA journal_mode=WAL");
	sql(h, "PRAGMA synchronous=FULL");
	sql(h, "PRAGMA wal_autocheckpoint=4000");
	sql(h, "PRAGMA cache_size=-65536");
	sql(h, "CREATE TABLE ev(id INTEGER PRIMARY KEY, session INT,"
	       "seq INT, body BLOB, UNIQUE(session,seq))");
	if (sqlite3_prepare_v2(h,
		"INSERT INTO ev(session,seq,body) VALUES(?,?,?)", -1, &q,
		NULL) != SQLITE_OK)
		die(sqlite3_errmsg(h));
	t0 = sli_mono_ns();
	for (unsigned i = 0; i < rows; i++) {
		if (i % batch == 0)
			sql(h, "BEGIN IMMEDIATE");
		(void)sqlite3_bind_int(q, 1, (int)(i % SESSIONS));
		(void)sqlite3_bind_int(q, 2, (int)(i / SESSIONS));
		(void)sqlite3_bind_blob(q, 3, body, BODY, SQLITE_STATIC);
		if (sqlite3_step(q) != SQLITE_DONE)
			die(sqlite3_errmsg(h));
		(void)sqlite3_reset(q);
		if (i % batch == batch - 1 || i == rows - 1)
			sql(h, "COMMIT");
	}
	t0 = sli_mono_ns() - t0;
	sqlite3_finalize(q);
	sqlite3_close(h);
	remove_file("plain.db");
	remove_file("plain.db-wal");
	remove_file("plain.db-shm");
	return rows / ((double)t0 / 1e9);
}

/* --- latency and reading --------------------------------------------------*/

static int
by_value(const void *x, const void *y)
{
	double a = *(const double *)x, c = *(const double *)y;

	return (a > c) - (a < c);
}

/* Open loop: calls come at their time, whatever is still waiting. */
static void
latency(double *ret_p50, double *ret_p99)
{
	int64_t t0 = sli_mono_ns();
	unsigned i = 0;

	while (i < RATED || b.flying > 0) {
		int64_t now = sli_mono_ns();
		uint64_t due = (uint64_t)(now - t0) * RATE / 1000000000;

		for (; i < RATED && i < due; i++) {
			b.lat[i] = (double)now / 1e6;
			append(i % SESSIONS, &b.lat[i]);
		}
		wait_post(i < RATED ? sli_mono_ms() + 1 : -1);
	}
	qsort(b.lat, RATED, sizeof(b.lat[0]), by_value);
	*ret_p50 = b.lat[RATED / 2];
	*ret_p99 = b.lat[RATED - RATED / 100];
}

static void
on_page(void *ctx, const struct store_page *page, const struct sli_errinfo *ei)
{
	(void)ctx;
	if (!page || page->n != 100)
		die(ei->text);
	b.answered = 1;
}

static double
page_us(void)
{
	static double us[PAGES];

	for (unsigned i = 0; i < PAGES; i++) {
		int64_t t0 = sli_mono_ns();

		b.answered = 0;
		store_page(b.st, ids[i % SESSIONS], 1 + i * 7 % 3000, 0, 100,
		    1 << 20, on_page, NULL);
		while (!b.answered)
			wait_post(-1);
		us[i] = (double)(sli_mono_ns() - t0) / 1e3;
	}
	qsort(us, PAGES, sizeof(us[0]), by_value);
	return us[PAGES / 2];
}

static int
count_bytes(void *ctx, const struct store_item *it)
{
	uint64_t *n = ctx;

	*n += it->ev ? it->ev->body.n : 0;
	return 1;
}

static void
on_wake(void *ctx)
{
	int *woken = ctx;

	*woken = 1;
}

/* All sessions from the start, one after the other, as History does. */
static double
replay_mb_s(void)
{
	int64_t t0 = sli_mono_ns();
	uint64_t bytes = 0;
	int woken;

	for (unsigned i = 0; i < SESSIONS; i++) {
		struct store_cursor c;
		struct store_cursor_cfg cfg = {
		    .from = 1, .end = 3000, .wake = on_wake, .ctx = &woken};
		enum store_pump why;

		if (store_cursor_init(&c, b.st, ids[i], &cfg, NULL) != SLI_OK)
			die("no cursor");
		do {
			woken = 0;
			why =
			    store_cursor_pump(&c, 1 << 20, count_bytes, &bytes);
			while (why == STORE_PUMP_READING && !woken)
				wait_post(-1);
		} while (why == STORE_PUMP_READING);
		store_cursor_fini(&c);
	}
	return (double)bytes / 1e6 / ((double)(sli_mono_ns() - t0) / 1e9);
}

static double
median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

int
main(int argc, char **argv)
{
	double rate[ROUNDS_MAX], plain[ROUNDS_MAX], one[ROUNDS_MAX];
	double p50[ROUNDS_MAX], p99[ROUNDS_MAX], page[ROUNDS_MAX];
	double mb[ROUNDS_MAX], vs[ROUNDS_MAX], vs1[ROUNDS_MAX];
	struct store_stats s;
	uint64_t rounds = 5;

	if (argc > 1 && sli_parse_u64(argv[1], &rounds) != SLI_OK)
		die("not a number of rounds");
	rounds = SLI_MAX(SLI_MIN(rounds, ROUNDS_MAX), 1);
	sli_log_set_level(SLI_LOG_WARN);
	start();
	for (unsigned i = 0; i < rounds; i++) {
		rate[i] = append_rate();
		plain[i] = plain_rate(PLAIN, 512);
		one[i] = plain_rate(PLAIN1, 1);
		vs[i] = rate[i] / plain[i];
		vs1[i] = rate[i] / one[i];
		latency(&p50[i], &p99[i]);
		page[i] = page_us();
		mb[i] = replay_mb_s();
	}
	store_stats(b.st, &s);
	(void)median(rate, (unsigned)rounds);
	printf("store.append.events_s %.0f events/s\n", rate[rounds - 1]);
	printf(
	    "store.append.median.events_s %.0f events/s\n", rate[rounds / 2]);
	printf("store.append.vs_sqlite_512 %.2f ratio\n",
	    median(vs, (unsigned)rounds));
	printf("store.append.vs_sqlite_1 %.1f ratio\n",
	    median(vs1, (unsigned)rounds));
	printf("sqlite.plain_512.events_s %.0f events/s\n",
	    median(plain, (unsigned)rounds));
	printf("sqlite.plain_1.events_s %.0f events/s\n",
	    median(one, (unsigned)rounds));
	printf(
	    "store.append.10k.p50_ms %.2f ms\n", median(p50, (unsigned)rounds));
	printf(
	    "store.append.10k.p99_ms %.2f ms\n", median(p99, (unsigned)rounds));
	printf(
	    "store.page100.p50_us %.1f us\n", median(page, (unsigned)rounds));
	printf("store.replay.mb_s %.0f MB/s\n", median(mb, (unsigned)rounds));
	printf("store.commit.events %.1f events\n",
	    (double)s.events / (double)s.commits);
	printf("store.file.bytes_per_event %.0f bytes\n",
	    (double)s.db_bytes / (double)s.events);
	finish();
	return 0;
}
