/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: fault */
/* A really full disk: a small tmpfs, as root. What was acknowledged stays, what
 * was refused is not there, what ends things still commits, and when there is
 * room again the same process goes on by itself. Without root the same is shown
 * by test_store_io.c on a file system that pretends. */
#include "unit.h"

#include "base/clock.h"
#include "base/str.h"
#include "store/int.h"
#include "t_store.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#define MOST 20000u

static struct t_store t;
static uint32_t kept[MOST]; /* the number in the event, by seq */
static unsigned nkept, number;

static enum sli_err
append(unsigned flags)
{
	uint32_t body[1000] = {0};
	struct sli_record r = t_store_event(body, sizeof(body));

	for (unsigned i = 0; i < SLI_ARRAY_LEN(body); i++)
		body[i] = number * 2654435761u + i;
	t.answered = 0;
	store_commit(t.st, "s", &r, 1, flags, t_store_done, &t);
	t_store_wait(&t, &t.answered);
	if (t.code == SLI_OK) {
		assert_true(nkept < MOST);
		kept[nkept++] = number;
		assert_int_equal(t.seq, nkept);
	} else {
		assert_int_equal(t.code, SLI_E_STORAGE_FULL);
	}
	number++;
	return t.code;
}

static void
check(void)
{
	static struct t_page p;
	uint64_t low, head, next = 1;
	uint32_t first;

	assert_int_equal(store_range(t.st, "s", &low, &head), SLI_OK);
	assert_int_equal(head, nkept);
	while (next <= head) {
		t_store_page(&t, "s", next, 0, 1000, 1 << 20, &p);
		assert_int_equal(p.code, SLI_OK);
		assert_int_equal(p.first_lost, 0);
		for (unsigned i = 0; i < p.n; i++, next++) {
			memcpy(&first, p.ev[i].body.p, sizeof(first));
			assert_int_equal(p.ev[i].body.n, 4000);
			assert_int_equal(first, kept[next - 1] * 2654435761u);
		}
		t_page_free(&p);
	}
}

static int
is_full(void)
{
	struct store_stats s;

	store_stats(t.st, &s);
	return s.full;
}

static void
a_small_disk_fills_and_grows(void **state)
{
	unsigned refused = 0;
	int64_t until;

	(void)state;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		print_message("needs root to mount a small tmpfs\n");
		skip();
	}
	t_store_new(&t, 0);
	t.cfg.ballast_bytes = 1 << 20;
	assert_int_equal(
	    mount("tmpfs", t.dir, "tmpfs", 0, "size=8m,mode=0700"), 0);
	t_store_open(&t);
	assert_int_equal(t_store_session(&t, "s"), SLI_OK);
	while (append(0) == SLI_OK)
		;
	assert_in_range(nkept, 100, MOST);
	assert_int_equal(is_full(), 1);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(append(STORE_BARRIER), SLI_OK);
		refused += append(0) != SLI_OK;
	}
	assert_int_equal(refused, 20);
	check();
	assert_int_equal(
	    mount(NULL, t.dir, NULL, MS_REMOUNT, "size=64m,mode=0700"), 0);
	/* It looks about once a second. */
	until = sli_mono_ms() + 10000;
	while (append(0) != SLI_OK)
		assert_true(sli_mono_ms() < until);
	assert_int_equal(is_full(), 0);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(append(0), SLI_OK);
	check();
	assert_int_equal(t.fatals, 0);
	t_store_close(&t);
	t_store_open(&t);
	check();
	t_store_close(&t);
	assert_int_equal(umount2(t.dir, MNT_DETACH), 0);
	t_store_free(&t);
	print_message("full after %u events\n", nkept);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_small_disk_fills_and_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
