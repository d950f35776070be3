/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Every write, flush and truncation of a fixed script fails once. An I/O error
 * ends everything: told once, nothing acknowledged after it, and what was
 * acknowledged is there when the file is opened again. A full disk ends
 * nothing: what failed is not there, what came later is. */
#include "unit.h"

#include "base/str.h"
#include "store/int.h"
#include "t_store.h"
#include "t_vfs.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SCRIPT 24u

static struct {
	struct t_store t;
	unsigned acked;    /* answers that said OK, in order */
	unsigned answered; /* all answers to the script */
	int ok[SCRIPT];
	int acked_after_fatal;
	uint64_t set;
} w;

static const uint8_t *
body_of(unsigned i, size_t *ret_n)
{
	static uint8_t b[5000];

	*ret_n = 1 + i * 197 % sizeof(b);
	memset(b, (int)('a' + i), sizeof(b));
	return b;
}

static void
done(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	unsigned *i = ctx;

	w.answered++;
	w.ok[*i] = ei->code == SLI_OK;
	if (ei->code == SLI_OK) {
		w.acked++;
		if (w.t.fatals)
			w.acked_after_fatal = 1;
		assert_int_equal(first_seq, w.acked);
	}
}

static unsigned index_of[SCRIPT];

/* One commit of the script; some are in parts, some start a turn. */
static void
ask(unsigned i)
{
	size_t n;
	const uint8_t *b = body_of(i, &n);
	struct sli_record r = t_store_event(b, n);

	index_of[i] = i;
	if (i % 6 == 5) {
		uint64_t set = store_part_begin(w.t.st, "s");

		if (set) {
			store_part_append(w.t.st, set, sli_slice_of(b, n));
			r.ev.parts = set;
			r.ev.body = sli_slice_of(NULL, 0);
		}
	}
	if (i % 7 == 3) {
		r.ch.what = SLI_CH_TURN_NEW | SLI_CH_STATE;
		r.ch.turn = i;
		r.ch.state = SLI_SS_RUNNING;
	}
	store_commit(w.t.st, "s", &r, 1, STORE_BARRIER, done, &index_of[i]);
}

static void
start(void)
{
	memset(&w, 0, sizeof(w));
	t_store_new(&w.t, 1);
	t_store_open_manual(&w.t);
	assert_int_equal(t_store_session(&w.t, "s"), SLI_OK);
}

/* The script, two commits a batch, a checkpoint now and then. */
static void
play(void)
{
	for (unsigned i = 0; i < SCRIPT; i += 2) {
		ask(i);
		ask(i + 1);
		(void)store_step_writer(w.t.st);
		(void)sli_mailbox_drain(w.t.mb);
		if (i % 8 == 6) {
			w.t.st->w.wal_pages = 5000;
			store_checkpoint(&w.t.st->w);
			(void)sli_mailbox_drain(w.t.mb);
		}
	}
	assert_int_equal(w.answered, SCRIPT);
}

/* The history is this prefix of the script: `n` of those with ok[] set. */
static void
check_history(unsigned at_least, unsigned at_most)
{
	static struct t_page p;
	uint64_t low, head;
	size_t n;

	assert_int_equal(store_range(w.t.st, "s", &low, &head), SLI_OK);
	assert_in_range(head, at_least, at_most);
	if (head == 0)
		return;
	t_store_page(&w.t, "s", 1, 0, 1000, 1 << 20, &p);
	assert_int_equal(p.code, SLI_OK);
	assert_int_equal(p.n, head);
	assert_int_equal(p.first_lost, 0);
	for (unsigned i = 0; i < p.n; i++) {
		const uint8_t *b = body_of(i, &n);

		assert_int_equal(p.ev[i].length, n);
		if (p.ev[i].parts == 0)
			assert_memory_equal(p.ev[i].body.p, b, n);
	}
	t_page_free(&p);
	assert_int_equal(
	    t_store_sql(&w.t, "SELECT count(*) FROM pragma_quick_check"
			      " WHERE quick_check<>'ok'"),
	    0);
}

static void
an_error_stops_everything(void **state)
{
	unsigned n, fatal_runs = 0;

	(void)state;
	t_vfs_install();
	for (n = 1;; n++) {
		int hit;

		start();
		t_vfs_fail(n, SQLITE_IOERR, 0);
		play();
		hit = t_vfs_failed();
		t_vfs_fail(0, 0, 0);
		assert_int_equal(w.t.fatals, hit);
		assert_int_equal(w.acked_after_fatal, 0);
		if (hit) {
			fatal_runs++;
			assert_int_equal(w.t.fatal.code, SLI_E_STORE);
			assert_int_equal(
			    t_store_add(&w.t, "s", "x", 1), SLI_E_STORE);
		}
		t_store_close(&w.t);
		t_store_open_manual(&w.t);
		/* The commit that failed may be there: unknown outcome. */
		check_history(
		    w.acked, hit ? SLI_MIN(w.acked + 2, SCRIPT) : SCRIPT);
		t_store_free(&w.t);
		if (!hit)
			break;
	}
	print_message("%u operations, each failed once\n", fatal_runs);
	assert_in_range(fatal_runs, 60, 5000);
}

/* What was refused is not there, what came after is. */
static void
check_exactly(void)
{
	static struct t_page p;
	unsigned k = 0;
	size_t n;

	t_store_page(&w.t, "s", 1, 0, 1000, 1 << 20, &p);
	assert_int_equal(p.code, SLI_OK);
	assert_int_equal(p.n, w.acked + 1);
	for (unsigned i = 0; i < SCRIPT; i++) {
		(void)body_of(i, &n);
		if (w.ok[i])
			assert_int_equal(p.ev[k++].length, n);
	}
	t_page_free(&p);
}

/* What goes into a file that was removed or renamed would not be found again:
 * it is not acknowledged, and the server stops. */
static void
a_removed_file_stops_everything(void **state)
{
	char from[128], to[128];

	(void)state;
	for (int removed = 0; removed < 2; removed++) {
		start();
		assert_int_equal(t_store_add(&w.t, "s", "x", 1), SLI_OK);
		sli_snprintf(from, sizeof(from), "%s/history.db", w.t.dir);
		sli_snprintf(to, sizeof(to), "%s/moved", w.t.dir);
		assert_int_equal(removed ? unlink(from) : rename(from, to), 0);
		assert_int_equal(t_store_add(&w.t, "s", "y", 1), SLI_E_STORE);
		assert_int_equal(w.t.fatals, 1);
		assert_non_null(strstr(w.t.fatal.text, "history file"));
		(void)unlink(to);
		t_store_free(&w.t);
	}
}

static void
a_full_disk_stops_nothing(void **state)
{
	struct store_stats s;
	unsigned n, full_runs = 0;

	(void)state;
	t_vfs_install();
	for (n = 1;; n++) {
		int hit;

		start();
		t_vfs_fail(n, SQLITE_FULL, 1);
		play();
		hit = t_vfs_failed();
		store_stats(w.t.st, &s);
		assert_int_equal(s.full, hit);
		assert_int_equal(w.t.fatals, 0);
		t_vfs_fail(0, 0, 0);
		if (hit) {
			full_runs++;
			/* There is room again: noticed without a restart. */
			w.t.st->w.ballast_try_ns = 0;
			store_ballast_make(&w.t.st->w);
			store_stats(w.t.st, &s);
			assert_int_equal(s.full, 0);
		}
		assert_int_equal(t_store_add(&w.t, "s", "after", 5), SLI_OK);
		assert_int_equal(w.t.seq, w.acked + 1);
		check_exactly();
		t_store_close(&w.t);
		t_store_open_manual(&w.t);
		check_exactly();
		t_store_free(&w.t);
		if (!hit)
			break;
	}
	print_message("%u times full\n", full_runs);
	assert_in_range(full_runs, 30, 5000);
}

/* While it is full, chunks are refused without trying, so that the ballast is
 * left for what ends things. */
static void
barriers_go_first_when_full(void **state)
{
	struct sli_record r = t_store_event("chunk", 5);
	uint64_t set;

	(void)state;
	t_vfs_install();
	start();
	set = store_part_begin(w.t.st, "s");
	store_part_append(w.t.st, set, sli_slice_str("abc"));
	t_store_spin(&w.t);
	/* Full once; the second try finds the room of the ballast. */
	t_vfs_fail(1, SQLITE_FULL, 0);
	assert_int_equal(t_store_add(&w.t, "s", "end", 3), SLI_OK);
	assert_int_equal(w.t.st->w.ballastfd, -1);
	w.t.answered = 0;
	store_commit(w.t.st, "s", &r, 1, 0, t_store_done, &w.t);
	t_store_wait(&w.t, &w.t.answered);
	assert_int_equal(w.t.code, SLI_E_STORAGE_FULL);
	assert_int_equal(t_store_add(&w.t, "s", "end", 3), SLI_OK);
	assert_int_equal(w.t.seq, 2);
	/* A body that missed bytes meanwhile can never be named. */
	store_part_append(w.t.st, set, sli_slice_str("def"));
	r = t_store_event(NULL, 0);
	r.ev.parts = set;
	r.ev.length = 6;
	assert_int_equal(t_store_commit(&w.t, "s", &r, 1), SLI_E_DATA_LOSS);
	assert_int_equal(w.t.fatals, 0);
	t_vfs_fail(0, 0, 0);
	t_store_free(&w.t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_error_stops_everything),
	    cmocka_unit_test(a_removed_file_stops_everything),
	    cmocka_unit_test(a_full_disk_stops_nothing),
	    cmocka_unit_test(barriers_go_first_when_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
