/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes one process has printed, newest at the end: a bounded ring with
 * offsets that only rise, in which runs remember their descriptor. Pure
 * memory: no descriptors, no readers, no policy but the one number `hold`.
 * docs/internals/ring.md. Thread: loop. */
#ifndef SLUICE_VM_RING_H
#define SLUICE_VM_RING_H

#include "base/err.h"
#include "base/slice.h"

#include <sys/uio.h>

/* Most runs of alternating descriptors a ring remembers: 32 KiB of memory; a
 * process that alternates single bytes fills this before its bytes. */
#define VM_RING_RUNS_MAX 4096u

/* No offset is held: the oldest bytes may go. */
#define VM_RING_NO_HOLD UINT64_MAX

/* Invariants, checked by vm_ring_check:
 *  (1) start <= end, end - start <= cap <= max
 *  (2) hold == NO_HOLD, or start <= hold <= end
 *  (3) the byte at offset o of [start, end) lies at mem[o % cap]
 *  (4) runs cover [start, end) without a hole; neighbours differ in fd */
struct vm_ring {
	uint8_t *mem;
	size_t cap; /* allocated now; grows to max by need */
	size_t max;
	uint64_t start; /* oldest kept byte */
	uint64_t end;   /* one past the newest */
	uint64_t hold;  /* bytes from here on must not be overwritten */
	uint64_t *runs; /* circular: end offset * 2 + (fd == 2) */
	unsigned runs_cap, runs_head, runs_n;
};

/* Takes its first memory here, so that a ring that exists always gets on, if
 * slowly, when memory is out later. NOMEM. */
SLI_MUST enum sli_err vm_ring_init(struct vm_ring *r, size_t max);
void vm_ring_fini(struct vm_ring *r);

/* Places for at most `want` more bytes of descriptor fd (1 or 2), in order;
 * returns how many bytes they hold, 0 = full. Overwrites nothing that is held.
 * May move the memory: slices given before are no longer valid. */
SLI_MUST size_t vm_ring_room(struct vm_ring *r, int fd, size_t want,
    struct iovec ret_iov[2], int *ret_niov);
/* n bytes of fd have been put at the places that vm_ring_room gave. */
void vm_ring_added(struct vm_ring *r, int fd, size_t n);
/* How many bytes of fd would be taken now. */
size_t vm_ring_space(const struct vm_ring *r, int fd);

/* Bytes from `off` (start <= off < end): contiguous, of one descriptor, at
 * most max. Valid until the next vm_ring_room or vm_ring_trim. */
struct sli_slice vm_ring_peek(
    const struct vm_ring *r, uint64_t off, size_t max, int *ret_fd);

/* Move the hold (never backwards), or drop it (VM_RING_NO_HOLD). */
void vm_ring_hold(struct vm_ring *r, uint64_t off);
/* Forget all that is not held. */
void vm_ring_forget(struct vm_ring *r);
/* Nothing more will come: keep only the memory that the content needs. */
void vm_ring_trim(struct vm_ring *r);

static inline uint64_t
vm_ring_held(const struct vm_ring *r)
{
	return r->hold == VM_RING_NO_HOLD ? 0 : r->end - r->hold;
}

static inline uint64_t
vm_ring_retained(const struct vm_ring *r)
{
	return r->end - r->start - vm_ring_held(r);
}

/* Asserts the invariants; O(runs). For tests and debug builds. */
void vm_ring_check(const struct vm_ring *r);

#endif
