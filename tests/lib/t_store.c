/* SPDX-License-Identifier: Apache-2.0 */
/* The store of the tests; see t_store.h. Looks at the file with a connection
 * of its own only where a test wants to see or spoil what is stored. */
#include "t_store.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/int.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PREFIX "sluice-store-"

static void
on_fatal(void *ctx, const struct sli_errinfo *ei)
{
	struct t_store *t = ctx;

	t->fatals++;
	t->fatal = *ei;
}

static void
on_pressure(void *ctx, const char *sid, int full)
{
	struct t_store *t = ctx;

	(void)sid;
	if (full)
		t->full++;
	else
		t->room++;
}

static void
on_moved(void *ctx, const char *sid, uint64_t head)
{
	struct t_store *t = ctx;
	uint64_t low, now;

	assert_int_equal(store_range(t->st, sid, &low, &now), SLI_OK);
	assert_int_equal(now, head);
	t->moves++;
	t->moved_head = head;
	(void)sli_strlcpy(t->moved_sid, sid, sizeof(t->moved_sid));
}

static void
remove_dir(const char *path)
{
	static const char *const names[] = {"history.db", "history.db-wal",
	    "history.db-shm", "lock", "ballast"};
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; dir >= 0 && i < SLI_ARRAY_LEN(names); i++)
		(void)unlinkat(dir, names[i], 0);
	if (dir >= 0)
		close(dir);
	(void)rmdir(path);
}

/* A test that crashed, as planted faults make them, leaves its memory behind:
 * the directory carries the number of its process. */
static void
sweep_shm(void)
{
	DIR *d = opendir("/dev/shm");
	struct dirent *e;
	char path[300], pid[16];
	uint64_t n;

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		(void)sli_strlcpy(pid, e->d_name + strlen(PREFIX), sizeof(pid));
		pid[strcspn(pid, "-")] = '\0';
		if (sli_parse_u64(pid, &n) != SLI_OK ||
		    kill((pid_t)n, 0) == 0 || errno != ESRCH)
			continue;
		(void)sli_snprintf(
		    path, sizeof(path), "/dev/shm/%s", e->d_name);
		remove_dir(path);
	}
	if (d)
		closedir(d);
}

void
t_store_new(struct t_store *t, int shm)
{
	const char *base = shm ? "/dev/shm" : getenv("TMPDIR");

	*t = (struct t_store){0};
	if (shm)
		sweep_shm();
	(void)sli_snprintf(t->dir, sizeof(t->dir), "%s/" PREFIX "%ld-XXXXXX",
	    base ? base : "/tmp", (long)getpid());
	assert_non_null(mkdtemp(t->dir));
	t->mb = sli_mailbox_new();
	assert_non_null(t->mb);
	t->cfg = (struct store_cfg){
	    .dir = t->dir,
	    .mb = t->mb,
	    .linger_ms = 1,
	    .ballast_bytes = 64 << 10,
	    .fatal = on_fatal,
	    .pressure = on_pressure,
	    .moved = on_moved,
	    .ctx = t,
	};
}

void
t_store_open(struct t_store *t)
{
	struct sli_errinfo ei = {0};
	enum sli_err e = store_open(&t->cfg, &t->st, &ei);

	if (e != SLI_OK)
		fail_msg("store_open: %s", ei.text);
}

void
t_store_open_manual(struct t_store *t)
{
	struct sli_errinfo ei = {0};
	enum sli_err e = store_open_manual(&t->cfg, &t->st, &ei);

	if (e != SLI_OK)
		fail_msg("store_open: %s", ei.text);
}

void
t_store_close(struct t_store *t)
{
	store_close(t->st);
	t->st = NULL;
}

void
t_store_free(struct t_store *t)
{
	t_store_close(t);
	sli_mailbox_free(t->mb);
	remove_dir(t->dir);
	assert_int_equal(access(t->dir, F_OK), -1);
}

void
t_store_spin(struct t_store *t)
{
	do
		while (t->st->manual && (store_step_writer(t->st) +
					    store_step_reader(t->st)) > 0)
			;
	while (sli_mailbox_drain(t->mb) > 0);
}

void
t_store_wait(struct t_store *t, const int *flag)
{
	struct pollfd p = {.fd = sli_mailbox_fd(t->mb), .events = POLLIN};
	int64_t until = sli_mono_ms() + 20000;

	while (!*flag) {
		if (t->st->manual)
			t_store_spin(t);
		else if (poll(&p, 1, 1000) > 0)
			(void)sli_mailbox_drain(t->mb);
		if (sli_mono_ms() > until)
			fail_msg("no answer in 20 s");
	}
}

void
t_store_done(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	struct t_store *t = ctx;

	t->answered = 1;
	t->code = ei->code;
	t->seq = first_seq;
}

static enum sli_err
finish(struct t_store *t)
{
	t_store_wait(t, &t->answered);
	return t->code;
}

enum sli_err
t_store_session(struct t_store *t, const char *sid)
{
	struct store_session_row row = {
	    .tenant = 7,
	    .state = SLI_SS_OPENING,
	    .agent = "fake",
	    .open_req = sli_slice_str("request"),
	    .epoch = 1,
	    .created_ms = 1000,
	};

	(void)sli_strlcpy(row.id, sid, sizeof(row.id));
	(void)sli_strlcpy(row.vm, "vm_1", sizeof(row.vm));
	t->answered = 0;
	store_new_session(t->st, &row, NULL, 0, t_store_done, t);
	return finish(t);
}

struct sli_record
t_store_event(const void *body, size_t n)
{
	return (struct sli_record){
	    .ev = {
		   .kind = SLI_EV_AGENT,
		   .turn = 1,
		   .at_ms = 1700000000000,
		   .length = n,
		   .body = sli_slice_of(body, n),
		   }
        };
}

enum sli_err
t_store_commit(struct t_store *t, const char *sid,
    const struct sli_record *recs, unsigned n)
{
	t->answered = 0;
	store_commit(t->st, sid, recs, n, STORE_BARRIER, t_store_done, t);
	return finish(t);
}

enum sli_err
t_store_add(struct t_store *t, const char *sid, const void *body, size_t n)
{
	struct sli_record r = t_store_event(body, n);

	return t_store_commit(t, sid, &r, 1);
}

enum sli_err
t_store_del(struct t_store *t, const char *sid)
{
	t->answered = 0;
	store_del_session(t->st, sid, t_store_done, t);
	return finish(t);
}

enum sli_err
t_store_trim(struct t_store *t, const char *sid, uint64_t low)
{
	t->answered = 0;
	store_trim(t->st, sid, low, t_store_done, t);
	return finish(t);
}

static void
on_page(void *ctx, const struct store_page *page, const struct sli_errinfo *ei)
{
	struct t_page *p = ctx;
	size_t bytes = 0, at = 0;

	p->answered = 1;
	p->code = ei->code;
	if (!page)
		return;
	assert_in_range(page->n, 0, SLI_ARRAY_LEN(p->ev));
	p->n = page->n;
	p->first_lost = page->first_lost;
	p->last_lost = page->last_lost;
	p->low = page->low;
	p->more = page->more;
	for (unsigned i = 0; i < page->n; i++)
		bytes += page->ev[i].body.n;
	p->mem = bytes ? malloc(bytes) : NULL;
	for (unsigned i = 0; i < page->n; i++) {
		struct sli_slice b = page->ev[i].body;

		p->ev[i] = page->ev[i];
		if (b.n)
			memcpy(p->mem + at, b.p, b.n);
		p->ev[i].body = sli_slice_of(p->mem + at, b.n);
		at += b.n;
	}
}

void
t_store_page(struct t_store *t, const char *sid, uint64_t from, int backward,
    unsigned max_events, size_t max_bytes, struct t_page *ret)
{
	memset(ret, 0, sizeof(*ret));
	store_page(
	    t->st, sid, from, backward, max_events, max_bytes, on_page, ret);
	t_store_wait(t, &ret->answered);
}

void
t_page_free(struct t_page *p)
{
	free(p->mem);
	p->mem = NULL;
}

struct body {
	uint8_t *mem;
	size_t n;
	int answered, end;
	enum sli_err code;
};

static void
on_body(void *ctx, struct sli_slice bytes, const struct sli_errinfo *ei)
{
	struct body *b = ctx;

	b->answered = 1;
	b->code = ei->code;
	b->end = bytes.n == 0;
	if (bytes.n)
		memcpy(b->mem + b->n, bytes.p, bytes.n);
	b->n += bytes.n;
}

uint8_t *
t_store_body(struct t_store *t, uint64_t set, size_t *ret_n)
{
	struct body b = {.mem = malloc(64u << 20)};

	while (!b.end) {
		b.answered = 0;
		store_body(t->st, set, b.n, 50000, on_body, &b);
		t_store_wait(t, &b.answered);
		assert_int_equal(b.code, SLI_OK);
	}
	*ret_n = b.n;
	return b.mem;
}

int64_t
t_store_sql(struct t_store *t, const char *sql)
{
	char path[96];
	sqlite3_stmt *q = NULL;
	sqlite3 *h = NULL;
	int64_t v = 0;
	int rc;

	(void)sli_snprintf(path, sizeof(path), "%s/history.db", t->dir);
	assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
	(void)sqlite3_busy_timeout(h, 5000);
	rc = sqlite3_prepare_v2(h, sql, -1, &q, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(q);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		fail_msg("%s: %s", sql, sqlite3_errmsg(h));
	if (rc == SQLITE_ROW)
		v = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	sqlite3_close(h);
	return v;
}
