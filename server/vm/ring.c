/* SPDX-License-Identifier: Apache-2.0 */
/* The output ring of one process: where bytes go, which descriptor they came
 * from, what may be overwritten. Knows nothing of pipes and readers. */
#include "vm/ring.h"

#include "base/attr.h"
#include "base/mem.h"
#include "base/mutant.h"

/* First allocation, and the room a read should find at least: most commands
 * print less, and a page that is never written costs nothing. */
#define RING_FIRST    ((size_t)64 * 1024)
#define RING_MIN_READ ((size_t)16 * 1024)
#define RUNS_FIRST    16u

static uint64_t *
run_at(const struct vm_ring *r, unsigned i)
{
	SLI_ASSERT(r->runs_cap > 0);
	return &r->runs[(r->runs_head + i) % r->runs_cap];
}

static uint64_t
run_end(const struct vm_ring *r, unsigned i)
{
	return *run_at(r, i) >> 1;
}

static int
run_fd(const struct vm_ring *r, unsigned i)
{
	return *run_at(r, i) & 1 ? 2 : 1;
}

static void
run_set(struct vm_ring *r, unsigned i, uint64_t end, int fd)
{
	*run_at(r, i) = end << 1 | (fd == 2);
}

static void
runs_drop_first(struct vm_ring *r)
{
	r->runs_head = (r->runs_head + 1) % r->runs_cap;
	r->runs_n--;
}

/* More room for runs, if there may be more and memory is there. */
static void
runs_grow(struct vm_ring *r)
{
	unsigned cap = r->runs_cap ? r->runs_cap * 2 : RUNS_FIRST;
	uint64_t *m;

	if (r->runs_n < r->runs_cap || cap > VM_RING_RUNS_MAX)
		return;
	m = sli_calloc(cap, sizeof(*m));
	if (!m)
		return;
	for (unsigned i = 0; i < r->runs_n; i++)
		m[i] = *run_at(r, i);
	sli_free(r->runs);
	r->runs = m;
	r->runs_cap = cap;
	r->runs_head = 0;
}

enum sli_err
vm_ring_init(struct vm_ring *r, size_t max)
{
	size_t first = SLI_MIN(max, RING_FIRST);

	SLI_ASSERT(max > 0);
	*r = (struct vm_ring){.max = max, .hold = VM_RING_NO_HOLD};
	runs_grow(r);
	r->mem = sli_alloc(first);
	if (!r->mem || !r->runs) {
		vm_ring_fini(r);
		return SLI_E_NOMEM;
	}
	r->cap = first;
	return SLI_OK;
}

void
vm_ring_fini(struct vm_ring *r)
{
	sli_free(r->mem);
	sli_free(r->runs);
	r->mem = NULL;
	r->runs = NULL;
	r->cap = 0;
	r->runs_cap = r->runs_n = r->runs_head = 0;
	r->start = r->end;
	r->hold = VM_RING_NO_HOLD;
}

/* Move the content to memory of another size. 0 = out of memory, unchanged. */
static int
move_to(struct vm_ring *r, size_t cap)
{
	uint64_t off = r->start;
	uint8_t *m = sli_alloc(cap);
	size_t n;

	if (!m)
		return 0;
	while (off < r->end) {
		n = (size_t)(r->end - off);
		n = SLI_MIN(n, r->cap - (size_t)(off % r->cap));
		n = SLI_MIN(n, cap - (size_t)(off % cap));
		memcpy(m + off % cap, r->mem + off % r->cap, n);
		off += n;
	}
	sli_free(r->mem);
	r->mem = m;
	r->cap = cap;
	return 1;
}

/* History is kept until the ring has its full size: grow rather than
 * overwrite. When memory is out, what there is goes on being used. */
static void
grow(struct vm_ring *r)
{
	size_t used = (size_t)(r->end - r->start);
	size_t cap = SLI_MAX(r->cap * 4, RING_FIRST);

	if (r->cap < r->max && r->cap - used < RING_MIN_READ)
		(void)move_to(r, SLI_MIN(cap, r->max));
}

/* A new run may need the place of the oldest one. */
static int
run_fits(const struct vm_ring *r, int fd, unsigned cap)
{
	if (r->runs_n < cap || run_fd(r, r->runs_n - 1) == fd)
		return 1;
	return r->hold == VM_RING_NO_HOLD || run_end(r, 0) <= r->hold;
}

size_t
vm_ring_space(const struct vm_ring *r, int fd)
{
	if (!run_fits(r, fd, VM_RING_RUNS_MAX))
		return 0;
	return r->max - (size_t)vm_ring_held(r);
}

size_t
vm_ring_room(struct vm_ring *r, int fd, size_t want, struct iovec ret_iov[2],
    int *ret_niov)
{
	size_t at, n;

	SLI_ASSERT(fd == 1 || fd == 2);
	if (vm_ring_space(r, fd) == 0)
		return 0;
	grow(r);
	runs_grow(r);
	if (vm_ring_held(r) >= r->cap || !run_fits(r, fd, r->runs_cap))
		return 0;
	want = SLI_MIN(want, r->cap - (size_t)vm_ring_held(r));
	if (SLI_MUTATED(vm_ring_off_by_one))
		want++;
	at = (size_t)(r->end % r->cap);
	n = SLI_MIN(want, r->cap - at);
	ret_iov[0].iov_base = r->mem + at;
	ret_iov[0].iov_len = n;
	ret_iov[1].iov_base = r->mem;
	ret_iov[1].iov_len = want - n;
	*ret_niov = want > n ? 2 : 1;
	return want;
}

static void
set_start(struct vm_ring *r, uint64_t start)
{
	SLI_ASSERT(start >= r->start && start <= r->end);
	SLI_ASSERT(r->hold == VM_RING_NO_HOLD || start <= r->hold);
	r->start = start;
	while (r->runs_n > 0 && run_end(r, 0) <= start)
		runs_drop_first(r);
}

void
vm_ring_added(struct vm_ring *r, int fd, size_t n)
{
	if (n == 0)
		return;
	SLI_ASSERT(SLI_MUTATED(vm_ring_off_by_one) ||
		   n <= r->cap - (size_t)vm_ring_held(r));
	if (r->runs_n > 0 && run_fd(r, r->runs_n - 1) == fd) {
		r->end += n;
		run_set(r, r->runs_n - 1, r->end, fd);
	} else {
		if (r->runs_n == r->runs_cap)
			set_start(r, run_end(r, 0));
		SLI_ASSERT(r->runs_n < r->runs_cap);
		r->end += n;
		run_set(r, r->runs_n++, r->end, fd);
	}
	if (r->end - r->start > r->cap)
		set_start(r, r->end - r->cap);
}

struct sli_slice
vm_ring_peek(const struct vm_ring *r, uint64_t off, size_t max, int *ret_fd)
{
	unsigned lo = 0, hi = r->runs_n, mid;
	size_t n, at;

	SLI_ASSERT(off >= r->start && off < r->end);
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (run_end(r, mid) <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	SLI_ASSERT(lo < r->runs_n);
	at = (size_t)(off % r->cap);
	n = SLI_MIN((uint64_t)max, run_end(r, lo) - off);
	n = SLI_MIN(n, r->cap - at);
	*ret_fd = run_fd(r, lo);
	return sli_slice_of(r->mem + at, n);
}

void
vm_ring_hold(struct vm_ring *r, uint64_t off)
{
	if (off != VM_RING_NO_HOLD) {
		SLI_ASSERT(off >= r->start && off <= r->end);
		SLI_ASSERT(r->hold == VM_RING_NO_HOLD || off >= r->hold);
	}
	r->hold = off;
}

void
vm_ring_forget(struct vm_ring *r)
{
	set_start(r, r->hold == VM_RING_NO_HOLD ? r->end : r->hold);
}

void
vm_ring_trim(struct vm_ring *r)
{
	size_t used = (size_t)(r->end - r->start);

	if (used == r->cap)
		return;
	if (used == 0) {
		sli_free(r->mem);
		r->mem = NULL;
		r->cap = 0;
		return;
	}
	(void)move_to(r, used);
}

void
vm_ring_check(const struct vm_ring *r)
{
	uint64_t prev = r->start;

	SLI_ASSERT(r->start <= r->end);
	SLI_ASSERT(r->end - r->start <= r->cap && r->cap <= r->max);
	SLI_ASSERT(r->hold == VM_RING_NO_HOLD ||
		   (r->start <= r->hold && r->hold <= r->end));
	SLI_ASSERT(r->runs_n <= r->runs_cap);
	SLI_ASSERT((r->runs_n == 0) == (r->start == r->end));
	for (unsigned i = 0; i < r->runs_n; i++) {
		SLI_ASSERT(run_end(r, i) > prev);
		SLI_ASSERT(i == 0 || run_fd(r, i) != run_fd(r, i - 1));
		prev = run_end(r, i);
	}
	SLI_ASSERT(prev == r->end);
}
