/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan user */
/* Opening: what is refused, and left as it was; the lock; memory that runs
 * out anywhere; budgets that push back; a foreign program that holds the
 * database's own lock. */
#include "unit.h"

#include "base/clock.h"
#include "base/str.h"
#include "store/int.h"
#include "t_store.h"

#include <fcntl.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct t_store t;

static void
put_file(const char *name, const void *p, size_t n)
{
	char path[96];
	int fd;

	(void)sli_snprintf(path, sizeof(path), "%s/%s", t.dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), n);
	close(fd);
}

static long
get_file(const char *name, void *p, size_t cap)
{
	char path[96];
	long n;
	int fd;

	(void)sli_snprintf(path, sizeof(path), "%s/%s", t.dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, p, cap);
	close(fd);
	return n;
}

static enum sli_err
try_open(struct sli_errinfo *ei)
{
	enum sli_err e = store_open(&t.cfg, &t.st, ei);

	assert_int_equal(e == SLI_OK, t.st != NULL);
	assert_int_equal(e, e == SLI_OK ? SLI_OK : ei->code);
	return e;
}

static void
the_directory_must_be_there(void **state)
{
	struct sli_errinfo ei;

	(void)state;
	t_store_new(&t, 0);
	t.cfg.dir = "/nonexistent/sluice";
	assert_int_equal(try_open(&ei), SLI_E_SYS);
	assert_non_null(strstr(ei.text, "/nonexistent/sluice"));
	t.cfg.dir = t.dir;
	t_store_free(&t);
}

static void
foreign_files_stay_as_they_are(void **state)
{
	static char garbage[4096], after[8192];
	struct sli_errinfo ei;

	(void)state;
	t_store_new(&t, 0);
	memset(garbage, 'x', sizeof(garbage));
	put_file("history.db", garbage, sizeof(garbage));
	assert_int_equal(try_open(&ei), SLI_E_STORE);
	assert_int_equal(
	    get_file("history.db", after, sizeof(after)), sizeof(garbage));
	assert_memory_equal(garbage, after, sizeof(garbage));
	put_file("history.db", "", 0);
	t_store_sql(&t, "CREATE TABLE theirs(a)");
	assert_int_equal(try_open(&ei), SLI_E_CONFIG);
	assert_non_null(strstr(ei.text, "another program"));
	assert_int_equal(
	    t_store_sql(&t, "SELECT count(*) FROM pragma_journal_mode"
			    " WHERE journal_mode='delete'"),
	    1);
	put_file("history.db", "", 0);
	t_store_open(&t);
	t_store_close(&t);
	t_store_sql(&t, "PRAGMA user_version=99");
	assert_int_equal(try_open(&ei), SLI_E_CONFIG);
	assert_non_null(strstr(ei.text, "newer"));
	t_store_free(&t);
}

static void
only_one_server(void **state)
{
	struct sli_errinfo ei;
	struct store *second = NULL;
	char pid[32];

	(void)state;
	t_store_new(&t, 0);
	put_file("lock", "99999999\n", 9); /* of one that is gone */
	t_store_open(&t);
	assert_int_equal(
	    store_open(&t.cfg, &second, &ei), SLI_E_ALREADY_EXISTS);
	(void)sli_snprintf(pid, sizeof(pid), "pid %ld", (long)getpid());
	assert_non_null(strstr(ei.text, pid));
	assert_non_null(strstr(ei.text, t.dir));
	/* The first is none the worse for it. */
	assert_int_equal(t_store_session(&t, "s"), SLI_OK);
	t_store_close(&t);
	t_store_open(&t);
	t_store_free(&t);
}

static void
files_are_private(void **state)
{
	static const char *const names[] = {
	    "history.db", "history.db-wal", "lock", "ballast"};
	struct stat sb;
	char path[96];
	mode_t old = umask(0);

	(void)state;
	t_store_new(&t, 0);
	t_store_open(&t);
	assert_int_equal(t_store_session(&t, "s"), SLI_OK);
	for (unsigned i = 0; i < SLI_ARRAY_LEN(names); i++) {
		(void)sli_snprintf(
		    path, sizeof(path), "%s/%s", t.dir, names[i]);
		assert_int_equal(stat(path, &sb), 0);
		assert_int_equal(sb.st_mode & 0777, 0600);
	}
	/* Blocks that are there, not a hole. */
	assert_int_equal(sb.st_size, 64 << 10);
	assert_true(sb.st_blocks * 512 >= 64 << 10);
	t_store_free(&t);
	(void)umask(old);
}

static void
pragmas_are_as_documented(void **state)
{
	(void)state;
	t_store_new(&t, 0);
	t_store_open_manual(&t);
	assert_int_equal(
	    t_store_sql(&t, "SELECT count(*) FROM pragma_journal_mode"
			    " WHERE journal_mode='wal'"),
	    1);
	assert_int_equal(t_store_sql(&t, "PRAGMA user_version"), 1);
	assert_int_equal(t_store_sql(&t, "PRAGMA application_id"), 0x534c5549);
	t_store_free(&t);
}

/* --- memory ---------------------------------------------------------------*/

static int
life(void *ctx)
{
	struct store_session_row row = {.state = SLI_SS_IDLE, .epoch = 1};
	struct sli_record r = t_store_event("abc", 3);
	struct sli_errinfo ei;
	static struct t_page p;
	uint64_t set, at = *(uint64_t *)ctx;
	int all;

	if (store_open_manual(&t.cfg, &t.st, &ei) != SLI_OK) {
		assert_int_equal(ei.code, SLI_E_NOMEM);
		return 0;
	}
	(void)sli_snprintf(
	    row.id, sizeof(row.id), "s%llu", (unsigned long long)at);
	t.answered = 0;
	store_new_session(t.st, &row, NULL, 0, t_store_done, &t);
	t_store_wait(&t, &t.answered);
	all = t.code == SLI_OK;
	set = store_part_begin(t.st, row.id);
	all &= set != 0;
	store_part_append(t.st, set, sli_slice_str("0123456789"));
	all &= t_store_commit(&t, row.id, &r, 1) == SLI_OK;
	r.ev.parts = set;
	r.ev.length = 10;
	r.ev.body = sli_slice_of(NULL, 0);
	all &= t_store_commit(&t, row.id, &r, 1) == SLI_OK;
	t_store_page(&t, row.id, 1, 0, 10, 1000, &p);
	all &= p.code == SLI_OK && p.n == 2;
	t_page_free(&p);
	/* Else every round would open one more. */
	all &= t_store_del(&t, row.id) == SLI_OK;
	assert_int_equal(t.fatals, 0);
	t_store_close(&t);
	return all;
}

static void
memory_may_run_out_anywhere(void **state)
{
	uint64_t n;
	int done = 0;

	(void)state;
	t_store_new(&t, 1);
	t_store_open_manual(&t);
	t_store_close(&t);
	for (n = 1; !done; n++) {
		assert_true(n < 1000);
		sli_mem_fail_at(n);
		done = life(&n);
		sli_mem_fail_at(0);
	}
	print_message("%llu allocations\n", (unsigned long long)n);
	t_store_free(&t);
}

/* --- pressure -------------------------------------------------------------*/

static void
budgets_push_back_and_let_go(void **state)
{
	static uint8_t body[20000];
	struct sli_record r = t_store_event(body, sizeof(body));
	uint64_t held;

	(void)state;
	t_store_new(&t, 1);
	t.cfg.session_budget = 100000;
	t.cfg.budget = 150000;
	t_store_open_manual(&t);
	assert_int_equal(t_store_session(&t, "a"), SLI_OK);
	assert_int_equal(t_store_session(&t, "b"), SLI_OK);
	for (unsigned i = 0; i < 5; i++)
		store_commit(t.st, "a", &r, 1, 0, NULL, NULL);
	assert_int_equal(t.full, 1);
	held = store_held(t.st, "a");
	assert_in_range(held, 100000, 110000);
	/* Never refused: only the pipe is paused. */
	for (unsigned i = 0; i < 3; i++)
		store_commit(t.st, "b", &r, 1, 0, NULL, NULL);
	assert_int_equal(t.full, 2);
	assert_int_equal(store_held(t.st, NULL),
	    store_held(t.st, "a") + store_held(t.st, "b"));
	assert_int_equal(t.room, 0);
	t_store_spin(&t);
	assert_int_equal(t.room, 2);
	assert_int_equal(store_held(t.st, NULL), 0);
	assert_int_equal(store_held(t.st, "a"), 0);
	t_store_free(&t);
}

/* --- a foreign lock -------------------------------------------------------*/

static void
a_foreign_lock_costs_time_only(void **state)
{
	struct sli_record r = t_store_event("x", 1);
	struct pollfd p = {.events = POLLIN};
	sqlite3 *h = NULL;
	char path[96];
	int64_t begun;

	(void)state;
	t_store_new(&t, 0);
	t_store_open(&t);
	assert_int_equal(t_store_session(&t, "s"), SLI_OK);
	(void)sli_snprintf(path, sizeof(path), "%s/history.db", t.dir);
	assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(h, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	begun = sli_mono_ms();
	t.answered = 0;
	store_commit(t.st, "s", &r, 1, STORE_BARRIER, t_store_done, &t);
	/* Longer than one busy timeout, shorter than all of them. */
	p.fd = sli_mailbox_fd(t.mb);
	assert_int_equal(poll(&p, 1, 2500), 0);
	assert_int_equal(
	    sqlite3_exec(h, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	t_store_wait(&t, &t.answered);
	assert_int_equal(t.code, SLI_OK);
	assert_int_equal(t.seq, 1);
	assert_in_range(sli_mono_ms() - begun, 2500, 4500);
	sqlite3_close(h);
	t_store_free(&t);
}

/* --- closing --------------------------------------------------------------*/

static void
ask_again(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	struct sli_record r = t_store_event("late", 4);

	(void)ctx;
	(void)first_seq;
	assert_int_equal(ei->code, SLI_OK);
	store_commit(t.st, "s", &r, 1, 0, t_store_done, &t);
}

static void
closing_commits_what_is_queued(void **state)
{
	struct sli_record r = t_store_event("x", 1);
	uint64_t low, head;

	(void)state;
	t_store_new(&t, 0);
	t.cfg.linger_ms = 60000;
	t_store_open(&t);
	assert_int_equal(t_store_session(&t, "s"), SLI_OK);
	t.answered = 0;
	for (unsigned i = 0; i < 100; i++)
		store_commit(
		    t.st, "s", &r, 1, 0, i == 99 ? ask_again : NULL, NULL);
	t_store_close(&t);
	assert_int_equal(t.answered, 1);
	assert_int_equal(t.code, SLI_E_UNAVAILABLE);
	t_store_open(&t);
	assert_int_equal(store_range(t.st, "s", &low, &head), SLI_OK);
	assert_int_equal(head, 100);
	t_store_free(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_directory_must_be_there),
	    cmocka_unit_test(foreign_files_stay_as_they_are),
	    cmocka_unit_test(only_one_server),
	    cmocka_unit_test(files_are_private),
	    cmocka_unit_test(pragmas_are_as_documented),
	    cmocka_unit_test(memory_may_run_out_anywhere),
	    cmocka_unit_test(budgets_push_back_and_let_go),
	    cmocka_unit_test(a_foreign_lock_costs_time_only),
	    cmocka_unit_test(closing_commits_what_is_queued),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
