/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's calls that write: each becomes one job with a copy of everything.
 * What can be seen here without the rows is refused here, still by post. */
#include "store/frame.h"
#include "store/int.h"

/* A job that only carries its answer. */
static void
ask_refuse(struct store *st, enum sli_err code, store_done_fn *done, void *ctx)
{
	struct store_job *j = store_job_pack(NULL, 0, 0, NULL);
	struct sli_errinfo ei;

	if (!j) {
		/* Not even room for a late answer. */
		(void)sli_fail(&ei, SLI_E_NOMEM, 0, "store", "out of memory");
		if (done)
			done(ctx, 0, &ei);
		return;
	}
	j->st = st;
	j->op = STORE_OP_COMMIT;
	j->s = store_session_ref(&st->w.vms);
	j->done = done;
	j->ctx = ctx;
	st->outstanding++;
	st->held += j->cost;
	j->s->held += j->cost;
	store_job_refuse(j, code);
}

static enum sli_err
check_records(struct store *st, const struct store_session *s,
    const struct sli_record *recs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct sli_event *ev = &recs[i].ev;
		const struct store_set *t;

		if (ev->kind == 0)
			continue;
		if (!store_frame_ok(ev))
			return SLI_E_INVALID_ARGUMENT;
		if (!ev->parts)
			continue;
		t = store_set_find(st, ev->parts);
		if (!t || t->s != s)
			return SLI_E_INVALID_ARGUMENT;
		if (t->lost)
			return SLI_E_DATA_LOSS;
	}
	return SLI_OK;
}

static void
bind_sets(struct store *st, struct store_job *j)
{
	for (uint32_t i = 0; i < j->nrec; i++) {
		struct store_set *t = store_set_find(st, j->rec[i].parts);

		if (t) {
			t->refs++;
			j->rec[i].set = t;
		}
	}
}

void
store_commit(struct store *st, const char *sid, const struct sli_record *recs,
    unsigned n, unsigned flags, store_done_fn *done, void *ctx)
{
	struct store_session *s = store_session_find(st, sid);
	enum sli_err e = SLI_E_NOT_FOUND;
	struct store_job *j;

	if (s)
		e = check_records(st, s, recs, n);
	if (e != SLI_OK) {
		ask_refuse(st, e, done, ctx);
		return;
	}
	j = store_job_pack(recs, n, 0, NULL);
	if (!j) {
		ask_refuse(st, SLI_E_NOMEM, done, ctx);
		return;
	}
	j->op = STORE_OP_COMMIT;
	j->flags = flags;
	bind_sets(st, j);
	store_submit(st, j, s, done, ctx);
}

/* --- rows -----------------------------------------------------------------*/

static size_t
str_size(const char *s)
{
	return s ? strlen(s) + 1 : 1;
}

static const char *
put_str(uint8_t **io_p, const char *s)
{
	size_t n = str_size(s);
	uint8_t *at = *io_p;

	memcpy(at, s ? s : "", n);
	*io_p += n;
	return (const char *)at;
}

static struct sli_slice
put_slice(uint8_t **io_p, struct sli_slice s)
{
	uint8_t *at = *io_p;

	if (s.n)
		memcpy(at, s.p, s.n);
	*io_p += s.n;
	return sli_slice_of(at, s.n);
}

/* A place for a struct inside the job's bytes. */
static void *
align(uint8_t **io_p, size_t size)
{
	size_t off = (size_t)((uintptr_t)*io_p % 16);
	uint8_t *at = *io_p + (off ? 16 - off : 0);

	*io_p = at + size;
	return at;
}

static void
pack_session(struct store_job *j, uint8_t *p, const struct store_session_row *r)
{
	struct store_session_row *c = align(&p, sizeof(*c));

	*c = *r;
	c->reason_code = put_str(&p, r->reason_code);
	c->reason = put_str(&p, r->reason);
	c->agent = put_str(&p, r->agent);
	c->agent_session = put_str(&p, r->agent_session);
	c->open_req = put_slice(&p, r->open_req);
	j->row.session = c;
}

void
store_new_session(struct store *st, const struct store_session_row *row,
    const struct sli_record *recs, unsigned n, store_done_fn *done, void *ctx)
{
	struct store_session *s = NULL;
	struct store_job *j = NULL;
	enum sli_err e;
	uint8_t *p = NULL;

	e = check_records(st, NULL, recs, n);
	if (e == SLI_OK && sli_map_get(st->sessions, sli_slice_str(row->id)))
		e = SLI_E_ALREADY_EXISTS;
	if (e == SLI_OK && st->last_sno >= STORE_SNO_MAX)
		e = SLI_E_RESOURCE_EXHAUSTED;
	if (e == SLI_OK) {
		e = SLI_E_NOMEM;
		j = store_job_pack(recs, n,
		    16 + sizeof(*row) + str_size(row->reason_code) +
			str_size(row->reason) + str_size(row->agent) +
			str_size(row->agent_session) + row->open_req.n,
		    &p);
	}
	if (j)
		s = store_session_add(st, row->id, st->last_sno + 1);
	if (!s) {
		sli_free(j);
		ask_refuse(st, e, done, ctx);
		return;
	}
	st->last_sno++;
	j->op = STORE_OP_NEW;
	j->flags = STORE_BARRIER;
	pack_session(j, p, row);
	store_submit(st, j, s, done, ctx);
}

void
store_del_session(
    struct store *st, const char *sid, store_done_fn *done, void *ctx)
{
	struct store_session *s = store_session_find(st, sid);
	struct sli_list *n, *tmp;
	struct store_job *j;

	if (!s) {
		ask_refuse(st, SLI_E_NOT_FOUND, done, ctx);
		return;
	}
	j = store_job_pack(NULL, 0, 0, NULL);
	if (!j) {
		ask_refuse(st, SLI_E_NOMEM, done, ctx);
		return;
	}
	sli_list_for_each_safe (n, tmp, &s->sets)
		store_part_drop(
		    st, SLI_LIST_ENTRY(n, struct store_set, node)->id);
	s->deleting = 1;
	j->op = STORE_OP_DEL;
	j->flags = STORE_BARRIER;
	store_submit(st, j, s, done, ctx);
}

void
store_trim(struct store *st, const char *sid, uint64_t low, store_done_fn *done,
    void *ctx)
{
	struct store_session *s = store_session_find(st, sid);
	struct store_job *j = s ? store_job_pack(NULL, 0, 0, NULL) : NULL;

	if (!j) {
		ask_refuse(st, s ? SLI_E_NOMEM : SLI_E_NOT_FOUND, done, ctx);
		return;
	}
	j->op = STORE_OP_TRIM;
	j->flags = STORE_BARRIER;
	j->low = low;
	store_submit(st, j, s, done, ctx);
}

static void
submit_vm(struct store *st, enum store_op op, const struct store_vm_row *row,
    store_done_fn *done, void *ctx)
{
	struct store_vm_row *c;
	struct store_job *j;
	uint8_t *p;

	j = store_job_pack(NULL, 0,
	    16 + sizeof(*row) + str_size(row->reason) + row->spec.n, &p);
	if (!j) {
		ask_refuse(st, SLI_E_NOMEM, done, ctx);
		return;
	}
	c = align(&p, sizeof(*c));
	*c = *row;
	c->reason = put_str(&p, row->reason);
	c->spec = put_slice(&p, row->spec);
	j->row.vm = c;
	j->op = op;
	j->flags = STORE_BARRIER;
	store_submit(st, j, &st->w.vms, done, ctx);
}

void
store_put_vm(struct store *st, const struct store_vm_row *row,
    store_done_fn *done, void *ctx)
{
	submit_vm(st, STORE_OP_VM_PUT, row, done, ctx);
}

void
store_del_vm(struct store *st, const char *id, store_done_fn *done, void *ctx)
{
	struct store_vm_row row = {0};

	memcpy(row.id, id, strnlen(id, sizeof(row.id) - 1));
	submit_vm(st, STORE_OP_VM_DEL, &row, done, ctx);
}

/* --- looking --------------------------------------------------------------*/

uint64_t
store_held(const struct store *st, const char *sid)
{
	const struct store_session *s;

	if (!sid)
		return st->held;
	s = sli_map_get(st->sessions, sli_slice_str(sid));
	return s ? s->held : 0;
}

uint64_t
store_bytes(const struct store *st, const char *sid)
{
	const struct store_session *s = store_session_find(st, sid);

	return s ? s->bytes : 0;
}

enum sli_err
store_range(const struct store *st, const char *sid, uint64_t *ret_low,
    uint64_t *ret_head)
{
	const struct store_session *s = store_session_find(st, sid);

	if (!s)
		return SLI_E_NOT_FOUND;
	*ret_low = s->low;
	*ret_head = s->head;
	return SLI_OK;
}

enum sli_err
store_chain(const struct store *st, const char *sid, uint8_t ret_chain[32])
{
	const struct store_session *s = store_session_find(st, sid);

	if (!s)
		return SLI_E_NOT_FOUND;
	memcpy(ret_chain, s->chain, sizeof(s->chain));
	return SLI_OK;
}
