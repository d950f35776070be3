/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user timeout=180 */
/* A process that writes is killed at random moments, again and again on one
 * database. Whatever it was told is committed, and whatever its subscriber was
 * shown, is there afterwards, to the byte and with the right hash chain; every
 * session is dense from 1; no half body is visible. */
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "crypto/hash.h"
#include "store/chain.h"
#include "store/cursor.h"
#include "store/int.h"
#include "t_store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSIONS 6u
#define PARTS    8u /* every n-th event is in parts */

/* Told through the pipe: this event of this session is acknowledged, or was
 * shown to a subscriber. */
struct told {
	uint32_t session;
	uint32_t seq;
};

static struct t_store t;
static uint64_t acked[SESSIONS];

static const char *
sid_of(unsigned s)
{
	static const char *const ids[SESSIONS] = {
	    "s0", "s1", "s2", "s3", "s4", "s5"};

	return ids[s];
}

/* A body is a function of its place, so that anybody can check it. */
static const uint8_t *
body_of(unsigned s, uint64_t seq, size_t *ret_n)
{
	static uint8_t b[100000];
	uint32_t x = (uint32_t)seq * 2654435761u + s;

	*ret_n = seq % PARTS == 0 ? 50000 + x % 50000 : x % 700;
	for (size_t i = 0; i < *ret_n; i++) {
		x = x * 1664525u + 1013904223u;
		b[i] = (uint8_t)(x >> 24);
	}
	return b;
}

/* --- the process that is killed -------------------------------------------*/

static struct child {
	int out;
	uint64_t next[SESSIONS];
	unsigned flying;
	struct store_cursor cur[SESSIONS];
	unsigned ix[SESSIONS]; /* contexts: ix[s] == s */
} ch;

static void
tell(unsigned s, uint64_t seq)
{
	struct told m = {s, (uint32_t)seq};

	/* Smaller than PIPE_BUF: whole or not at all. */
	if (write(ch.out, &m, sizeof(m)) != sizeof(m))
		_exit(3);
}

static void
on_done(void *ctx, uint64_t first_seq, const struct sli_errinfo *ei)
{
	const unsigned *s = ctx;

	if (ei->code != SLI_OK)
		_exit(4);
	ch.flying--;
	if (first_seq)
		tell(*s, first_seq);
}

static int
on_item(void *ctx, const struct store_item *it)
{
	const unsigned *s = ctx;

	if (it->kind == STORE_ITEM_GAP)
		_exit(5);
	tell(*s, it->ev->seq);
	return 1;
}

static void
append_one(unsigned s)
{
	uint64_t seq = ch.next[s]++;
	struct sli_record r;
	const uint8_t *b;
	size_t n;

	b = body_of(s, seq, &n);
	r = t_store_event(b, n);
	if (seq % PARTS == 0) {
		r.ev.parts = store_part_begin(t.st, sid_of(s));
		for (size_t at = 0; at < n; at += 16384)
			store_part_append(t.st, r.ev.parts,
			    sli_slice_of(b + at, SLI_MIN(16384, n - at)));
		r.ev.body = sli_slice_of(NULL, 0);
	}
	ch.flying++;
	store_commit(t.st, sid_of(s), &r, 1, seq % 3 ? 0 : STORE_BARRIER,
	    on_done, &ch.ix[s]);
}

static void
child_main(int out)
{
	struct store_cursor_cfg cfg = {0};
	struct pollfd p;
	uint64_t low, head;
	unsigned turn = 0;

	ch.out = out;
	t.mb = sli_mailbox_new();
	t.cfg.mb = t.mb;
	t_store_open(&t);
	for (unsigned s = 0; s < SESSIONS; s++) {
		if (store_range(t.st, sid_of(s), &low, &head) != SLI_OK) {
			(void)t_store_session(&t, sid_of(s));
			head = 0;
		}
		ch.ix[s] = s;
		ch.next[s] = head + 1;
		cfg.from = head + 1;
		if (store_cursor_init(
			&ch.cur[s], t.st, sid_of(s), &cfg, NULL) != SLI_OK)
			_exit(6);
	}
	p = (struct pollfd){.fd = sli_mailbox_fd(t.mb), .events = POLLIN};
	for (;;) {
		while (ch.flying < 40)
			append_one(turn++ % SESSIONS);
		(void)poll(&p, 1, -1);
		(void)sli_mailbox_drain(t.mb);
		for (unsigned s = 0; s < SESSIONS; s++)
			(void)!store_cursor_pump(
			    &ch.cur[s], 1 << 20, on_item, &ch.ix[s]);
	}
}

/* --- the checks -----------------------------------------------------------*/

static void
check_body(const struct sli_event *ev, unsigned s, uint8_t hash[32])
{
	uint8_t *got;
	const uint8_t *b;
	size_t n, k;

	if (ev->parts) {
		got = t_store_body(&t, ev->parts, &k);
		b = body_of(s, ev->seq, &n);
		assert_int_equal(k, n);
		assert_memory_equal(got, b, n);
		free(got);
	} else {
		b = body_of(s, ev->seq, &n);
		assert_int_equal(ev->body.n, n);
		assert_memory_equal(ev->body.p, b, n);
	}
	assert_int_equal((ev->parts != 0), (ev->seq % PARTS == 0));
	sli_hash_once(sli_slice_of(b, n), hash);
}

static void
check_session(unsigned s, uint64_t from, uint8_t chain[32])
{
	static struct t_page p;
	uint8_t want[32], hash[32];
	uint64_t low, head, next = from;

	assert_int_equal(store_range(t.st, sid_of(s), &low, &head), SLI_OK);
	assert_true(head >= acked[s]);
	while (next <= head) {
		t_store_page(&t, sid_of(s), next, 0, 1000, 200000, &p);
		assert_int_equal(p.code, SLI_OK);
		assert_int_equal(p.first_lost, 0);
		assert_true(p.n > 0);
		for (unsigned i = 0; i < p.n; i++) {
			assert_int_equal(p.ev[i].seq, next);
			check_body(&p.ev[i], s, hash);
			store_chain_step(chain, next, &p.ev[i], hash);
			next++;
		}
		t_page_free(&p);
	}
	assert_int_equal(store_chain(t.st, sid_of(s), want), SLI_OK);
	assert_memory_equal(chain, want, 32);
	acked[s] = head;
}

/* Read what it tells for a random time, then kill it, then read the rest. */
static void
kill_at_random(int in, pid_t pid, uint32_t ms)
{
	struct pollfd p = {.fd = in, .events = POLLIN};
	int64_t until = sli_mono_ms() + ms, now;
	struct told m;
	int killed = 0, status;

	for (;;) {
		now = sli_mono_ms();
		if (!killed && now >= until) {
			assert_int_equal(kill(pid, SIGKILL), 0);
			killed = 1;
		}
		if (poll(&p, 1, killed ? 1000 : (int)(until - now)) <= 0)
			continue;
		if (read(in, &m, sizeof(m)) != sizeof(m))
			break;
		assert_in_range(m.session, 0, SESSIONS - 1);
		acked[m.session] = SLI_MAX(acked[m.session], m.seq);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void
killed_at_random(void **state)
{
	const char *lng = getenv("SLUICE_LONG");
	unsigned kills = lng && *lng ? 1000 : 50;
	static uint8_t chain[SESSIONS][32];
	uint64_t known[SESSIONS] = {0}, total = 0;
	uint32_t x = (uint32_t)getpid();

	(void)state;
	t_store_new(&t, 0);
	t_store_open(&t);
	for (unsigned s = 0; s < SESSIONS; s++)
		assert_int_equal(t_store_session(&t, sid_of(s)), SLI_OK);
	t_store_close(&t);
	for (unsigned k = 0; k < kills; k++) {
		int fd[2];
		pid_t pid;

		assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
		pid = fork();
		if (pid == 0)
			child_main(fd[1]);
		close(fd[1]);
		x = x * 1664525u + 1013904223u;
		kill_at_random(fd[0], pid, (x >> 16) % 120);
		close(fd[0]);
		t_store_open(&t);
		for (unsigned s = 0; s < SESSIONS; s++) {
			check_session(s, known[s] + 1, chain[s]);
			known[s] = acked[s];
		}
		t_store_close(&t);
	}
	/* Once more all of it, and what SQLite thinks. */
	t_store_open(&t);
	for (unsigned s = 0; s < SESSIONS; s++) {
		memset(chain[s], 0, 32);
		check_session(s, 1, chain[s]);
		total += acked[s];
	}
	assert_int_equal(
	    t_store_sql(&t, "SELECT count(*) FROM pragma_integrity_check"
			    " WHERE integrity_check<>'ok'"),
	    0);
	t_store_free(&t);
	print_message(
	    "%u kills, %llu events kept\n", kills, (unsigned long long)total);
	assert_true(total > kills);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(killed_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
