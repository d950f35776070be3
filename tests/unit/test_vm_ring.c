/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The output ring and its readers against a model that keeps every byte: random
 * writers, readers, acknowledgements and policies. No pipes, no processes. */
#include "unit.h"

#include "vm/proc.h"
#include "vm/vm_internal.h"

#include <stdlib.h>

#define RING    (64 * 1024)
#define HISTORY (4 * 1024 * 1024)
#define READERS 6

struct model {
	uint64_t seed;
	struct loop *loop;
	struct vm_engine e;
	struct vm vm;
	struct vm_proc p;
	uint8_t *bytes; /* everything ever printed */
	uint8_t *fds;
	uint64_t end;
	struct vm_reader r[READERS];
	uint64_t want[READERS]; /* where reader i goes on */
	int woken[READERS];
	int exits[READERS];
	uint64_t gaps;
};

static uint64_t
rnd(struct model *m, uint64_t below)
{
	m->seed ^= m->seed << 13;
	m->seed ^= m->seed >> 7;
	m->seed ^= m->seed << 17;
	return m->seed % below;
}

static void
on_ready(struct vm_reader *r)
{
	struct model *m = SLI_CONTAINER_OF(r->proc, struct model, p);
	size_t i = (size_t)(r - m->r);

	assert_false(m->woken[i]);
	m->woken[i] = 1;
}

static struct model *
model_new(uint64_t seed, unsigned flags, size_t ring)
{
	struct model *m = sli_zalloc(sizeof(*m));

	assert_non_null(m);
	m->seed = seed * 2654435761u + 1;
	m->loop = loop_new(NULL);
	assert_non_null(m->loop);
	m->bytes = sli_alloc(HISTORY);
	m->fds = sli_alloc(HISTORY);
	assert_true(m->bytes && m->fds);
	m->e.loop = m->loop;
	sli_list_init(&m->e.orphans);
	m->vm.e = &m->e;
	m->p.engine = &m->e;
	m->p.vm = &m->vm;
	m->p.state = PROC_RUNNING;
	m->p.flags = flags;
	m->p.may_own = 1;
	sli_list_init(&m->p.node);
	sli_list_init(&m->p.readers);
	assert_int_equal(vm_ring_init(&m->p.ring, ring), SLI_OK);
	return m;
}

static void
model_free(struct model *m)
{
	for (int i = 0; i < READERS; i++)
		vm_reader_detach(&m->r[i]);
	assert_int_equal(m->e.sum.ring_held, 0);
	vm_ring_fini(&m->p.ring);
	proc_account(&m->p);
	assert_int_equal(m->e.sum.ring_retained, 0);
	assert_int_equal(m->vm.sum.ring_retained, 0);
	loop_free(m->loop);
	sli_free(m->bytes);
	sli_free(m->fds);
	sli_free(m);
}

/* What the gauges must be, from the model's side. */
static void
check(struct model *m)
{
	const struct vm_ring *g = &m->p.ring;
	uint64_t held = m->p.owner ? m->end - m->p.owner->acked : 0;

	vm_ring_check(g);
	assert_int_equal(g->end, m->end);
	assert_int_equal(m->e.sum.ring_held, held);
	assert_int_equal(m->vm.sum.ring_held, held);
	assert_int_equal(m->e.sum.ring_retained, g->end - g->start - held);
	assert_true(held <= g->max);
	if (m->p.owner)
		assert_true(g->start <= m->p.owner->acked);
}

static size_t
produce(struct model *m, int fd, size_t want)
{
	struct iovec iov[2];
	int niov = 0;
	size_t room, n, done = 0;

	if (want > HISTORY - m->end)
		want = (size_t)(HISTORY - m->end);
	if (want == 0)
		return 0;
	room = vm_ring_room(&m->p.ring, fd, want, iov, &niov);
	assert_true(room <= want);
	if (!m->p.owner)
		assert_true(room > 0);
	else
		assert_true(
		    room <= m->p.ring.max - (size_t)vm_ring_held(&m->p.ring));
	if (room == 0)
		return 0;
	n = 1 + (size_t)rnd(m, room);
	for (int i = 0; i < niov && done < n; i++) {
		size_t k = SLI_MIN(iov[i].iov_len, n - done);

		for (size_t j = 0; j < k; j++) {
			uint8_t b = (uint8_t)rnd(m, 256);

			((uint8_t *)iov[i].iov_base)[j] = b;
			m->bytes[m->end + done + j] = b;
			m->fds[m->end + done + j] = (uint8_t)fd;
		}
		done += k;
	}
	vm_ring_added(&m->p.ring, fd, n);
	m->end += n;
	proc_account(&m->p);
	readers_wake(&m->p);
	return n;
}

/* One vm_reader_next, checked; returns its kind. */
static enum vm_out_kind
consume(struct model *m, int i, size_t max)
{
	struct vm_reader *r = &m->r[i];
	uint64_t start = m->p.ring.start;
	struct vm_out o;

	vm_reader_next(r, max, &o);
	m->woken[i] = 0;
	switch (o.kind) {
	case VM_OUT_GAP:
		assert_false(r->owner);
		assert_true(m->want[i] < start);
		assert_int_equal(o.offset, start);
		assert_int_equal(o.lost, start - m->want[i]);
		m->want[i] = start;
		m->gaps++;
		break;
	case VM_OUT_DATA:
		assert_true(m->want[i] >= start);
		assert_int_equal(o.offset, m->want[i]);
		assert_true(o.data.n > 0 && o.data.n <= max);
		assert_memory_equal(o.data.p, m->bytes + o.offset, o.data.n);
		for (size_t k = 0; k < o.data.n; k++)
			assert_int_equal(m->fds[o.offset + k], o.fd);
		m->want[i] += o.data.n;
		break;
	case VM_OUT_EXIT:
		assert_int_equal(m->want[i], m->end);
		assert_int_equal(m->p.state, PROC_EXITED);
		assert_int_equal(m->exits[i]++, 0);
		break;
	case VM_OUT_NONE:
		assert_int_equal(m->want[i], m->end);
		break;
	}
	return o.kind;
}

static void
attach(struct model *m, int i, uint64_t from, int owner)
{
	if (m->r[i].proc)
		return;
	m->woken[i] = m->exits[i] = 0;
	m->want[i] = SLI_MIN(from, m->end);
	m->r[i] = (struct vm_reader){0};
	vm_reader_attach(&m->p, &m->r[i], from, owner, on_ready);
	assert_int_equal(m->woken[i], m->want[i] < m->end);
}

static void
step(struct model *m, int detach_owner)
{
	int i = (int)rnd(m, READERS);
	struct vm_reader *r = &m->r[i];

	switch (rnd(m, 8)) {
	case 0:
	case 1:
		produce(m, 1 + (int)rnd(m, 2), 1 + rnd(m, 9000));
		break;
	case 2:
		produce(m, 1 + (int)rnd(m, 2), 1 + rnd(m, 4));
		break;
	case 3:
		if (r->proc && (i != 0 || detach_owner))
			vm_reader_detach(r);
		break;
	case 4:
		attach(m, i, rnd(m, m->end + 100), 0);
		break;
	case 5:
		if (r->proc)
			vm_reader_ack(r, rnd(m, r->next + 2000));
		break;
	default:
		if (r->proc)
			consume(m, i, 1 + rnd(m, 20000));
	}
	check(m);
}

/* Every reader gets the rest, then the exit once, then nothing. */
static void
finish(struct model *m)
{
	m->p.may_own = 0;
	m->p.state = PROC_EXITED;
	vm_ring_trim(&m->p.ring);
	proc_account(&m->p);
	readers_wake(&m->p);
	attach(m, READERS - 1, 0, 0);
	for (int i = 0; i < READERS; i++) {
		if (!m->r[i].proc)
			continue;
		while (consume(m, i, 1 + rnd(m, 40000)) != VM_OUT_NONE)
			check(m);
		assert_int_equal(m->exits[i], 1);
		assert_int_equal(consume(m, i, 1), VM_OUT_NONE);
		vm_reader_ack(&m->r[i], UINT64_MAX);
	}
	check(m);
	assert_int_equal(m->e.sum.ring_held, 0);
}

static void
random_histories_match_the_model(void **state)
{
	const char *lng = getenv("SLUICE_LONG");
	unsigned seeds = lng && *lng ? 2000 : 120;
	uint64_t gaps = 0;

	(void)state;
	for (unsigned s = 1; s <= seeds; s++) {
		struct model *m = model_new(
		    s, s % 3 == 0 ? VM_EXEC_DETACH : 0, s % 5 ? RING : 4096);

		attach(m, 0, 0, s % 4 != 0);
		assert_int_equal(m->p.owner != NULL, s % 3 != 0 && s % 4 != 0);
		for (int k = 0; k < 3000; k++)
			step(m, s % 2 && k > 1500);
		finish(m);
		gaps += m->gaps;
		model_free(m);
	}
	assert_true(gaps > 0);
}

static void
an_owner_that_does_not_acknowledge_stops_the_reading(void **state)
{
	struct model *m = model_new(7, 0, RING);
	struct iovec iov[2];
	int n = 0;

	(void)state;
	attach(m, 0, 0, 1);
	while (produce(m, 1, 5000) > 0)
		check(m);
	assert_int_equal(m->e.sum.ring_held, RING);
	while (consume(m, 0, 32768) == VM_OUT_DATA)
		;
	/* Handed out is not drained. */
	assert_int_equal(vm_ring_room(&m->p.ring, 1, 1, iov, &n), 0);
	vm_reader_ack(&m->r[0], 1);
	assert_int_equal(vm_ring_room(&m->p.ring, 1, 99, iov, &n), 1);
	/* A lower one and one beyond what was given change nothing more. */
	vm_reader_ack(&m->r[0], 0);
	assert_int_equal(m->r[0].acked, 1);
	vm_reader_ack(&m->r[0], UINT64_MAX);
	assert_int_equal(m->r[0].acked, m->end);
	assert_int_equal(m->e.sum.ring_held, 0);
	model_free(m);
}

static void
an_owner_that_leaves_lets_the_work_go_on(void **state)
{
	struct model *m = model_new(8, 0, RING);

	(void)state;
	attach(m, 0, 0, 1);
	attach(m, 1, 0, 1); /* there is one owner */
	assert_false(m->r[1].owner);
	while (produce(m, 2, 5000) > 0)
		;
	vm_reader_detach(&m->r[0]);
	assert_int_equal(m->e.sum.ring_held, 0);
	for (int i = 0; i < 100; i++)
		assert_true(produce(m, 1 + i % 2, 5000) > 0);
	attach(m, 0, 0, 0);
	assert_int_equal(consume(m, 0, 10), VM_OUT_GAP);
	assert_int_equal(consume(m, 1, 10), VM_OUT_GAP);
	finish(m);
	model_free(m);
}

static void
alternating_bytes_are_bounded_too(void **state)
{
	struct model *m = model_new(9, 0, RING);
	unsigned n = 0;

	(void)state;
	attach(m, 0, 0, 1);
	while (produce(m, 1 + (int)(n & 1), 1) > 0)
		n++;
	assert_int_equal(n, VM_RING_RUNS_MAX);
	check(m);
	/* The same descriptor still has room; the other one when the oldest
	 * run has been drained. */
	assert_true(vm_ring_space(&m->p.ring, 1 + (int)((n - 1) & 1)) > 0);
	assert_int_equal(consume(m, 0, 100), VM_OUT_DATA);
	vm_reader_ack(&m->r[0], 1);
	assert_int_equal(produce(m, 1 + (int)(n & 1), 1), 1);
	vm_reader_detach(&m->r[0]);
	for (unsigned i = 0; i < 3 * VM_RING_RUNS_MAX; i++)
		assert_int_equal(produce(m, 1 + (int)(i & 1), 1), 1);
	check(m);
	finish(m);
	model_free(m);
}

static void
a_ring_without_memory_still_gets_on(void **state)
{
	struct model *m = model_new(10, 0, 1024 * 1024);
	size_t got = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		sli_mem_fail_at(1);
		got += produce(m, 1 + i % 2, 60000);
		sli_mem_fail_at(0);
		check(m);
	}
	assert_true(got > 100);
	finish(m);
	model_free(m);
}

static void
offsets_beyond_32_bits(void **state)
{
	struct vm_ring g;
	struct iovec iov[2];
	struct sli_slice s;
	int niov, fd;

	(void)state;
	assert_int_equal(vm_ring_init(&g, 4096), SLI_OK);
	g.start = g.end = UINT32_MAX - 10ull;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(vm_ring_room(&g, 1, 3000, iov, &niov), 3000);
		vm_ring_added(&g, 1, 3000);
		vm_ring_check(&g);
	}
	assert_int_equal(g.end, UINT32_MAX - 10ull + 30000);
	assert_int_equal(g.end - g.start, 4096);
	s = vm_ring_peek(&g, g.end - 1, 100, &fd);
	assert_int_equal(s.n, 1);
	assert_int_equal(fd, 1);
	vm_ring_fini(&g);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		an_owner_that_does_not_acknowledge_stops_the_reading),
	    cmocka_unit_test(an_owner_that_leaves_lets_the_work_go_on),
	    cmocka_unit_test(alternating_bytes_are_bounded_too),
	    cmocka_unit_test(a_ring_without_memory_still_gets_on),
	    cmocka_unit_test(offsets_beyond_32_bits),
	    cmocka_unit_test(random_histories_match_the_model),
	};

	return cmocka_run_group_tests_name("vm_ring", tests, NULL, NULL);
}
