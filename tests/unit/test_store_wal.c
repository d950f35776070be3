/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The write-ahead log stays bounded: a subscriber that stops reading holds
 * nothing of it; a foreign reader does, and when it goes the log is used anew
 * without a restart. Answers are given before a checkpoint, not after. */
#include "unit.h"

#include "base/str.h"
#include "store/cursor.h"
#include "store/int.h"
#include "t_store.h"

#include <sqlite3.h>
#include <stdlib.h>

#define MIB (1u << 20)

static struct t_store t;

static void
write_mib(unsigned n)
{
	static uint8_t body[128 << 10];

	for (unsigned i = 0; i < n * 8; i++)
		assert_int_equal(
		    t_store_add(&t, "s", body, sizeof(body)), SLI_OK);
}

static uint64_t
wal_bytes(void)
{
	struct store_stats s;

	store_stats(t.st, &s);
	return s.wal_bytes;
}

static int
take_one(void *ctx, const struct store_item *it)
{
	int *room = ctx;

	(void)it;
	return (*room)-- > 0;
}

static void
wake(void *ctx)
{
	int *woken = ctx;

	*woken = 1;
}

static int
setup(void **state)
{
	(void)state;
	t_store_new(&t, 1);
	t_store_open(&t);
	assert_int_equal(t_store_session(&t, "s"), SLI_OK);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	t_store_free(&t);
	return 0;
}

static void
a_paused_subscriber_holds_no_snapshot(void **state)
{
	int woken = 0, room = 2;
	struct store_cursor_cfg cfg = {.from = 1, .wake = wake, .ctx = &woken};
	struct store_cursor c;

	(void)state;
	write_mib(1);
	store_tail_drop(t.st, store_session_find(t.st, "s"), UINT64_MAX);
	assert_int_equal(store_cursor_init(&c, t.st, "s", &cfg, NULL), SLI_OK);
	assert_int_equal(
	    store_cursor_pump(&c, MIB, take_one, &room), STORE_PUMP_READING);
	t_store_wait(&t, &woken);
	assert_int_equal(
	    store_cursor_pump(&c, MIB, take_one, &room), STORE_PUMP_BLOCKED);
	assert_true(store_cursor_held(&c) > 0);
	write_mib(60);
	assert_in_range(wal_bytes(), 1, 20 * MIB);
	store_cursor_fini(&c);
}

static void
a_foreign_snapshot_only_delays(void **state)
{
	char path[96];
	sqlite3 *h = NULL;
	sqlite3_stmt *q = NULL;

	(void)state;
	write_mib(1);
	(void)sli_snprintf(path, sizeof(path), "%s/history.db", t.dir);
	assert_int_equal(sqlite3_open(path, &h), SQLITE_OK);
	assert_int_equal(
	    sqlite3_prepare_v2(h, "SELECT id FROM run", -1, &q, NULL),
	    SQLITE_OK);
	assert_int_equal(sqlite3_step(q), SQLITE_ROW);
	write_mib(40);
	assert_in_range(wal_bytes(), 36 * MIB, 60 * MIB);
	sqlite3_finalize(q);
	sqlite3_close(h);
	/* Not longer than it was, however much comes. */
	write_mib(60);
	assert_in_range(wal_bytes(), 1, 64 * MIB);
	assert_int_equal(t.fatals, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		a_paused_subscriber_holds_no_snapshot, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		a_foreign_snapshot_only_delays, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
