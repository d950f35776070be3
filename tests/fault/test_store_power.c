/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: fault timeout=180 */
/* Every write, truncation and flush that the store asks for is written down.
 * Then the disk is rebuilt as a power cut at a random moment could leave it:
 * all that was flushed, and of the rest everything, nothing, or any mixture of
 * 512-byte sectors or of whole writes. What was acknowledged before that moment
 * must be there, whole and in order, and the file must be sound. */
#include "unit.h"

#include "base/str.h"
#include "crypto/hash.h"
#include "store/chain.h"
#include "store/int.h"
#include "t_store.h"
#include "t_vfs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define SESSIONS 3u
#define COMMITS  150u

struct op {
	enum t_vfs_op op;
	int wal;
	int64_t off;
	uint8_t *data;
	size_t n;
};

static struct {
	struct op *op;
	size_t n, cap;

	struct {
		size_t at; /* operations before this acknowledgement */
		uint64_t head[SESSIONS];
	} ack[COMMITS + 1];

	unsigned acks;
} tape;

static struct t_store t;
static uint32_t rng = 12345;
static const char *const sids[SESSIONS] = {"s0", "s1", "s2"};

static uint32_t
rnd(uint32_t n)
{
	rng = rng * 1664525u + 1013904223u;
	return (rng >> 8) % n;
}

static void
record(void *ctx, int wal, enum t_vfs_op op, int64_t off, const void *data,
    size_t n)
{
	(void)ctx;
	if (tape.n == tape.cap) {
		tape.cap = tape.cap ? tape.cap * 2 : 4096;
		tape.op = realloc(tape.op, tape.cap * sizeof(*tape.op));
		assert_non_null(tape.op);
	}
	tape.op[tape.n] = (struct op){op, wal, off, NULL, n};
	if (n) {
		tape.op[tape.n].data = malloc(n);
		memcpy(tape.op[tape.n].data, data, n);
	}
	tape.n++;
}

/* --- what is stored -------------------------------------------------------*/

static const uint8_t *
body_of(unsigned s, uint64_t seq, size_t *ret_n)
{
	static uint8_t b[30000];
	uint32_t x = (uint32_t)seq * 2654435761u + s;

	*ret_n = seq % 17 == 0 ? 12000 : x % 400;
	for (size_t i = 0; i < *ret_n; i++) {
		x = x * 1664525u + 1013904223u;
		b[i] = (uint8_t)(x >> 24);
	}
	return b;
}

static void
play(void)
{
	uint64_t next[SESSIONS] = {1, 1, 1};
	struct sli_record r;
	size_t n;

	for (unsigned k = 1; k <= COMMITS; k++) {
		for (unsigned i = 1 + rnd(20); i > 0; i--) {
			unsigned s = rnd(SESSIONS);
			const uint8_t *b = body_of(s, next[s]++, &n);

			r = t_store_event(b, n);
			store_commit(t.st, sids[s], &r, 1, 0, NULL, NULL);
		}
		t_store_spin(&t);
		tape.ack[k].at = tape.n;
		for (unsigned s = 0; s < SESSIONS; s++)
			tape.ack[k].head[s] = next[s] - 1;
		tape.acks = k;
		if (k % 13 == 0) {
			t.st->w.wal_pages = 5000;
			store_checkpoint(&t.st->w);
		}
	}
}

/* --- the disk after the cut -----------------------------------------------*/

struct image {
	uint8_t *p;
	size_t n, cap;
};

static void
put(struct image *m, size_t off, const uint8_t *p, size_t n)
{
	if (off + n > m->cap) {
		size_t cap = (off + n) * 2;

		m->p = realloc(m->p, cap);
		assert_non_null(m->p);
		memset(m->p + m->cap, 0, cap - m->cap);
		m->cap = cap;
	}
	memcpy(m->p + off, p, n);
	m->n = SLI_MAX(m->n, off + n);
}

static void
cut_to(struct image *m, size_t n)
{
	if (n >= m->n)
		return;
	memset(m->p + n, 0, m->n - n);
	m->n = n;
}

/* mode: 0 everything got there, 1 nothing did, 2 some sectors, 3 some
 * writes. */
static void
not_flushed(struct image *m, const struct op *o, int mode)
{
	size_t at = (size_t)o->off, step;

	if (mode == 1 || (mode == 3 && rnd(2)))
		return;
	if (o->op == T_VFS_TRUNCATE) {
		if (mode != 2 || rnd(2))
			cut_to(m, at);
		return;
	}
	for (size_t i = 0; i < o->n; i += step) {
		step = SLI_MIN(512 - (at + i) % 512, o->n - i);
		if (mode != 2 || rnd(2))
			put(m, at + i, o->data + i, step);
	}
}

static void
rebuild(struct image m[2], size_t cut, int mode)
{
	size_t flushed[2] = {0, 0};

	for (size_t i = 0; i < cut; i++)
		if (tape.op[i].op == T_VFS_SYNC)
			flushed[tape.op[i].wal] = i;
	for (size_t i = 0; i < cut; i++) {
		const struct op *o = &tape.op[i];

		if (o->op == T_VFS_SYNC)
			continue;
		if (i > flushed[o->wal])
			not_flushed(&m[o->wal], o, mode);
		else if (o->op == T_VFS_TRUNCATE)
			cut_to(&m[o->wal], (size_t)o->off);
		else
			put(&m[o->wal], (size_t)o->off, o->data, o->n);
	}
}

static void
write_image(const char *name, const struct image *m)
{
	char path[96];
	int fd;

	(void)sli_snprintf(path, sizeof(path), "%s/%s", t.dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	if (m->n)
		assert_int_equal(write(fd, m->p, m->n), m->n);
	close(fd);
}

/* --- the check ------------------------------------------------------------*/

static void
check_session(unsigned s, uint64_t acked)
{
	uint8_t chain[32] = {0}, want[32], hash[32];
	static struct t_page p;
	uint64_t low, head, next = 1;
	const uint8_t *b;
	size_t n;

	assert_int_equal(store_range(t.st, sids[s], &low, &head), SLI_OK);
	assert_true(head >= acked);
	while (next <= head) {
		t_store_page(&t, sids[s], next, 0, 1000, 1 << 20, &p);
		assert_int_equal(p.code, SLI_OK);
		assert_int_equal(p.first_lost, 0);
		for (unsigned i = 0; i < p.n; i++, next++) {
			b = body_of(s, next, &n);
			assert_int_equal(p.ev[i].body.n, n);
			assert_memory_equal(p.ev[i].body.p, b, n);
			sli_hash_once(sli_slice_of(b, n), hash);
			store_chain_step(chain, next, &p.ev[i], hash);
		}
		t_page_free(&p);
	}
	assert_int_equal(store_chain(t.st, sids[s], want), SLI_OK);
	assert_memory_equal(chain, want, 32);
}

static void
check_cut(size_t cut, int mode)
{
	struct image m[2] = {{0}};
	unsigned k = tape.acks;

	rebuild(m, cut, mode);
	write_image("history.db", &m[0]);
	write_image("history.db-wal", &m[1]);
	while (k > 0 && tape.ack[k].at > cut)
		k--;
	t_store_open_manual(&t);
	for (unsigned s = 0; s < SESSIONS; s++)
		check_session(s, tape.ack[k].head[s]);
	assert_int_equal(
	    t_store_sql(&t, "SELECT count(*) FROM pragma_integrity_check"
			    " WHERE integrity_check<>'ok'"),
	    0);
	t_store_close(&t);
	free(m[0].p);
	free(m[1].p);
}

static void
power_cuts_lose_nothing_acknowledged(void **state)
{
	const char *lng = getenv("SLUICE_LONG");
	unsigned cuts = lng && *lng ? 3000 : 300;
	size_t from;

	(void)state;
	t_vfs_install();
	t_vfs_watch(record, NULL);
	t_store_new(&t, 1);
	t_store_open_manual(&t);
	for (unsigned s = 0; s < SESSIONS; s++)
		assert_int_equal(t_store_session(&t, sids[s]), SLI_OK);
	from = tape.n;
	play();
	t_vfs_watch(NULL, NULL);
	t_store_close(&t);
	for (unsigned i = 0; i < cuts; i++)
		check_cut(
		    from + rnd((uint32_t)(tape.n - from) + 1), (int)rnd(4));
	print_message("%u cuts in %zu operations\n", cuts, tape.n);
	t_store_free(&t);
	for (size_t i = 0; i < tape.n; i++)
		free(tape.op[i].data);
	free(tape.op);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(power_cuts_lose_nothing_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
