/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors over a process's output: attach, next, acknowledge, detach, and the
 * gauges that follow from them. Reads no pipe; slices given out stay valid
 * until the caller returns to the loop because only the loop's events read. */
#include "base/mutant.h"
#include "vm/proc.h"
#include "vm/vm_internal.h"

/* Sums are kept by difference, so that they cost nothing to ask for and a
 * missed update shows as a sum that does not return to 0. */
void
proc_account(struct vm_proc *p)
{
	uint64_t held = 0, retained = 0;
	struct vm_stats *sum[2] = {&p->engine->sum, p->vm ? &p->vm->sum : NULL};

	if (p->state != PROC_GONE) {
		held = vm_ring_held(&p->ring);
		retained = vm_ring_retained(&p->ring);
	}
	for (int i = 0; i < 2; i++) {
		if (!sum[i])
			continue;
		SLI_ASSERT(sum[i]->ring_held >= p->held);
		SLI_ASSERT(sum[i]->ring_retained >= p->retained);
		sum[i]->ring_held += held - p->held;
		sum[i]->ring_retained += retained - p->retained;
	}
	p->held = held;
	p->retained = retained;
}

static int
has_news(const struct vm_reader *r)
{
	const struct vm_proc *p = r->proc;

	return r->next < p->ring.end ||
	       (p->state >= PROC_EXITED && !r->exit_seen);
}

/* ready() may attach and detach anything: every reader of now is moved to the
 * tail before it is called, so that a changing list ends the walk in time. */
void
readers_wake(struct vm_proc *p)
{
	struct sli_list *it;
	struct vm_reader *r;
	unsigned n = 0;

	sli_list_for_each (it, &p->readers)
		n++;
	while (n-- > 0 && !sli_list_empty(&p->readers)) {
		r = SLI_LIST_ENTRY(p->readers.next, struct vm_reader, node);
		sli_list_del(&r->node);
		sli_list_add_tail(&p->readers, &r->node);
		if (!r->parked || !has_news(r))
			continue;
		r->parked = 0;
		r->ready(r);
	}
}

uint64_t
vm_output_start(const struct vm_proc *p)
{
	return p->ring.start;
}

uint64_t
vm_output_end(const struct vm_proc *p)
{
	return p->ring.end;
}

void
vm_reader_attach(struct vm_proc *p, struct vm_reader *r, uint64_t from,
    int owner, void (*ready)(struct vm_reader *))
{
	SLI_ASSERT(!r->proc);
	*r = (struct vm_reader){.proc = p, .ready = ready};
	r->next = r->acked = SLI_MIN(from, p->ring.end);
	sli_list_add_tail(&p->readers, &r->node);
	if (owner && p->may_own && !p->owner &&
	    !(p->flags & (VM_EXEC_DETACH | VM_EXEC_RAW))) {
		r->owner = 1;
		p->owner = r;
		vm_ring_hold(&p->ring, SLI_MAX(r->next, p->ring.start));
		proc_account(p);
	}
	if (has_news(r))
		ready(r);
	else
		r->parked = 1;
}

void
vm_reader_next(struct vm_reader *r, size_t max, struct vm_out *ret)
{
	struct vm_proc *p = r->proc;

	*ret = (struct vm_out){.kind = VM_OUT_NONE, .offset = r->next};
	if (!p || max == 0)
		return;
	if (SLI_MUTATED(vm_gap_silent) && r->next < p->ring.start)
		r->next = p->ring.start;
	if (r->next < p->ring.start) {
		SLI_ASSERT(p->owner != r);
		ret->kind = VM_OUT_GAP;
		ret->lost = p->ring.start - r->next;
		ret->offset = p->ring.start;
		r->lost += ret->lost;
		r->next = r->acked = p->ring.start;
		return;
	}
	if (r->next < p->ring.end) {
		ret->kind = VM_OUT_DATA;
		ret->data = vm_ring_peek(&p->ring, r->next, max, &ret->fd);
		r->next += ret->data.n;
		return;
	}
	if (p->state >= PROC_EXITED && !r->exit_seen) {
		ret->kind = VM_OUT_EXIT;
		ret->exit = &p->exit;
		r->exit_seen = 1;
		return;
	}
	r->parked = 1;
	if (p->owner == r)
		pipe_resume(p);
}

void
vm_reader_ack(struct vm_reader *r, uint64_t offset)
{
	struct vm_proc *p = r->proc;

	offset = SLI_MIN(offset, r->next);
	if (!p || offset <= r->acked)
		return;
	r->acked = offset;
	if (p->owner == r && !SLI_MUTATED(vm_owner_base_stuck)) {
		vm_ring_hold(&p->ring, offset);
		proc_account(p);
		pipe_resume(p);
	}
}

void
vm_reader_detach(struct vm_reader *r)
{
	struct vm_proc *p = r->proc;

	if (!p)
		return;
	sli_list_del(&r->node);
	r->proc = NULL;
	if (p->owner == r) {
		p->owner = NULL;
		vm_ring_hold(&p->ring, VM_RING_NO_HOLD);
		proc_account(p);
		pipe_resume(p);
	}
	proc_maybe_gone(p);
}
