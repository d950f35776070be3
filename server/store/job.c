/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: what one call asks for, with every byte it needs in one allocation,
 * and the machine they go through (docs/STATES.md, "Store job"). */
#include "store/frame.h"
#include "store/int.h"

#include "base/log.h"

static const char *const state_names[STORE_JOB_STATES] = {
    [STORE_JOB_NEW] = "new",
    [STORE_JOB_QUEUED] = "queued",
    [STORE_JOB_TAKEN] = "taken",
    [STORE_JOB_COMMITTED] = "committed",
    [STORE_JOB_FAILED] = "failed",
    [STORE_JOB_ANSWERED] = "answered",
};

#define TO(s) (1u << STORE_JOB_##s)

static const unsigned legal[STORE_JOB_STATES] = {
    [STORE_JOB_NEW] = TO(QUEUED) | TO(FAILED),
    [STORE_JOB_QUEUED] = TO(TAKEN),
    [STORE_JOB_TAKEN] = TO(COMMITTED) | TO(FAILED),
    /* Fail-stop became known before the answer was given. */
    [STORE_JOB_COMMITTED] = TO(ANSWERED) | TO(FAILED),
    [STORE_JOB_FAILED] = TO(ANSWERED),
    [STORE_JOB_ANSWERED] = 0,
};

void
store_job_set(struct store_job *j, enum store_job_state to)
{
	SLI_ASSERT(legal[j->state] & (1u << to));
	sli_debug("store", "job", "op=%u %s -> %s code=%s", (unsigned)j->op,
	    state_names[j->state], state_names[to], sli_err_name(j->code));
	j->state = to;
}

/* A bump pointer over the one allocation; p NULL = measuring. */
struct bump {
	uint8_t *p;
	size_t n;
};

static void
bump_slice(struct bump *b, struct sli_slice *s)
{
	if (b->p && s->n) {
		memcpy(b->p + b->n, s->p, s->n);
		s->p = b->p + b->n;
	}
	b->n += s->n;
}

static void
bump_str(struct bump *b, const char **s)
{
	struct sli_slice v = sli_slice_of(*s, *s ? strlen(*s) + 1 : 0);

	bump_slice(b, &v);
	if (b->p)
		*s = (const char *)v.p;
}

/* Everything a change points at: measured once, copied once. */
static void
bump_change(struct bump *b, struct sli_change *c)
{
	bump_str(b, &c->reason_code);
	bump_str(b, &c->reason);
	bump_str(b, &c->agent_session);
	bump_slice(b, &c->key);
	bump_slice(b, &c->rpc_id);
	bump_slice(b, &c->option);
	bump_slice(b, &c->answer_key);
}

static int
is_rec(const struct sli_record *r)
{
	return r->ch.what != 0 || (r->ev.kind != 0 && r->ev.parts != 0);
}

static void
fill(struct store_job *j, const struct sli_record *recs, unsigned n,
    struct bump *b)
{
	uint8_t *f = j->frames;
	struct store_rec *out = j->rec;

	for (unsigned i = 0; i < n; i++) {
		const struct sli_record *r = &recs[i];

		if (is_rec(r)) {
			out->ch = r->ch;
			out->at_ms = r->ev.at_ms;
			out->has_event = r->ev.kind != 0;
			out->ev_ix = j->nev;
			out->length = r->ev.length;
			out->parts = r->ev.kind ? r->ev.parts : 0;
			bump_change(b, &out->ch);
			out++;
		}
		if (r->ev.kind) {
			f = store_frame_put(f, &r->ev);
			j->nev++;
		}
	}
	j->frames_len = (size_t)(f - j->frames);
}

struct store_job *
store_job_pack(
    const struct sli_record *recs, unsigned n, size_t extra, uint8_t **ret_p)
{
	struct bump b = {NULL, 0};
	struct sli_change ch;
	struct store_job *j;
	size_t nrec = 0, frames = 0, cost;

	for (unsigned i = 0; i < n; i++) {
		if (is_rec(&recs[i])) {
			ch = recs[i].ch;
			bump_change(&b, &ch);
			nrec++;
		}
		if (recs[i].ev.kind)
			frames += store_frame_size(&recs[i].ev);
	}
	/* Records first: they want alignment, bytes do not. */
	cost =
	    sizeof(*j) + nrec * sizeof(struct store_rec) + b.n + frames + extra;
	j = sli_alloc(cost);
	if (!j)
		return NULL;
	*j = (struct store_job){0};
	j->cost = cost;
	j->nrec = (uint32_t)nrec;
	j->rec = (struct store_rec *)(j + 1);
	memset(j->rec, 0, nrec * sizeof(*j->rec));
	j->frames = (uint8_t *)(j->rec + nrec);
	b = (struct bump){j->frames + frames, 0};
	fill(j, recs, n, &b);
	if (ret_p)
		*ret_p = b.p + b.n;
	return j;
}

void
store_job_free(struct store *st, struct store_job *j)
{
	if (j->in_tail || j->state != STORE_JOB_ANSWERED)
		return;
	for (uint32_t i = 0; i < j->nrec; i++)
		store_set_unref(st, j->rec[i].set);
	store_set_unref(st, j->set);
	store_session_unref(st, j->s);
	sli_free(j);
}
