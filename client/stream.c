/* SPDX-License-Identifier: Apache-2.0 */
/* Streams from inside: who holds them, how they end, which callbacks are due.
 * What the user may do with one is in stream_api.c, messages are in msg.c, the
 * start of a call is in call.c. */
#include "client.h"

#include "base/mutant.h"

/* --- life ----------------------------------------------------------------*/

struct sluice_stream *
sli_stream_new(
    struct sluice_client *c, const struct sli_stream_ops *ops, void *self)
{
	struct sluice_stream *s = sli_zalloc(sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	s->ops = ops;
	s->self = self;
	s->refs = 1;
	s->deadline_ms = INT64_MAX;
	sli_list_init(&s->in_client);
	sli_list_init(&s->todo);
	sli_list_init(&s->msgs);
	sli_buf_init(&s->up, c->upload_max);
	return s;
}

void
sli_stream_ref(struct sluice_stream *s)
{
	s->refs++;
}

void
sli_stream_unref(struct sluice_stream *s)
{
	SLI_ASSERT(s->refs > 0);
	if (--s->refs != 0)
		return;
	SLI_ASSERT(sli_list_empty(&s->msgs) && !s->attached);
	if (s->ops->fini)
		s->ops->fini(s);
	sli_free(s->start);
	sli_free(s->end_err);
	sli_buf_free(&s->up);
	sli_free(s);
}

void
sli_stream_attach(struct sluice_stream *s)
{
	SLI_ASSERT(!s->attached);
	s->attached = 1;
	sli_stream_ref(s);
	sli_list_add_tail(&s->c->streams, &s->in_client);
}

static void
detach_from_client(struct sluice_stream *s)
{
	if (!s->attached)
		return;
	s->attached = 0;
	sli_list_del(&s->in_client);
	sli_list_del(&s->todo);
	s->deadline_ms = INT64_MAX;
	sli_stream_unref(s);
}

void
sli_stream_let_go(struct sluice_stream *s)
{
	if (s->sid == 0 && !s->start && (s->ended || s->freed))
		detach_from_client(s);
}

static struct sluice_stream **
bucket(struct sluice_client *c, uint32_t sid)
{
	return &c->bucket[sid % SLI_CL_BUCKETS];
}

struct sluice_stream *
sli_stream_find(struct sluice_client *c, uint32_t sid)
{
	struct sluice_stream *s = *bucket(c, sid);

	while (s && s->sid != sid)
		s = s->next_bucket;
	return s;
}

void
sli_stream_set_sid(struct sluice_stream *s, uint32_t sid)
{
	struct sluice_stream **b = bucket(s->c, sid);

	s->sid = sid;
	s->next_bucket = *b;
	*b = s;
}

static void
forget_sid(struct sluice_stream *s)
{
	struct sluice_stream **p;

	if (s->sid == 0)
		return;
	for (p = bucket(s->c, s->sid); *p != s; p = &(*p)->next_bucket)
		continue;
	*p = s->next_bucket;
	s->next_bucket = NULL;
	s->sid = 0;
}

void
sli_stream_gone(struct sluice_stream *s)
{
	forget_sid(s);
	sli_stream_let_go(s);
}

void
sli_stream_orphan(struct sluice_stream *s)
{
	forget_sid(s);
	sli_stream_ref(s);
	detach_from_client(s);
	s->c = NULL;
	s->no_more = 1;
	if (s->detached && !s->freed) {
		s->freed = 1;
		sli_stream_unref(s); /* the user's, which nobody has */
	}
	sli_stream_unref(s);
}

int
sli_stream_live(const struct sluice_stream *s)
{
	return s->c && !s->c->closing && s->c->state != SLI_CL_CLOSED;
}

int
sli_stream_mute(const struct sluice_stream *s)
{
	if (SLI_MUTATED(client_calls_after_free))
		return 0;
	return s->freed || !s->c || s->c->closing;
}

/* --- the end -------------------------------------------------------------*/

void
sli_stream_set_end(struct sluice_stream *s, const struct sluice_error *err)
{
	s->end_code = err ? (enum sli_err)err->code : SLI_OK;
	if (err == s->end_err)
		return;
	sli_free(s->end_err);
	s->end_err = err ? sli_memdup(err, sizeof(*err)) : NULL;
}

void
sli_stream_end_now(struct sluice_stream *s, const struct sluice_error *err,
    struct sli_slice body)
{
	if (s->ended || s->ending)
		return; /* a cancel of ours came first */
	sli_stream_ref(s);
	sli_stream_set_end(s, err);
	s->ended = 1;
	s->no_more = 1;
	s->writable = 0;
	s->deadline_ms = INT64_MAX;
	sli_list_del(&s->todo);
	sli_buf_free(&s->up);
	if (!sli_stream_mute(s))
		s->ops->result(s, err, body);
	if (s->detached && !s->freed)
		sluice_stream_free(s);
	else
		sli_stream_let_go(s);
	sli_stream_unref(s);
}

void
sli_stream_add_todo(struct sluice_stream *s)
{
	if (s->attached && sli_list_empty(&s->todo))
		sli_list_add_tail(&s->c->todo, &s->todo);
}

void
sli_stream_end_later(struct sluice_stream *s, const struct sli_errinfo *ei)
{
	struct sluice_error e = {.size = sizeof(e)};

	if (s->ended || s->ending)
		return;
	(void)sli_err_give(&e, ei);
	sli_stream_set_end(s, &e);
	s->ending = 1;
	s->no_more = 1;
	s->deadline_ms = INT64_MAX;
	sli_free(s->start);
	s->start = NULL;
	sli_stream_add_todo(s);
}

void
sli_stream_fail(struct sluice_stream *s, const struct sli_errinfo *ei)
{
	if (s->ended || s->ending)
		return;
	if (s->sid != 0 && sli_stream_live(s))
		sli_mux_reset(s->c->mux, s->sid, (uint16_t)ei->code);
	sli_stream_end_later(s, ei);
}

static void
run_one(struct sluice_stream *s)
{
	if (s->ending) {
		struct sluice_error plain = {
		    .size = sizeof(plain), .code = (int32_t)s->end_code};
		struct sluice_error *e = s->end_err ? s->end_err : &plain;

		s->ending = 0;
		sli_stream_end_now(s, e, sli_slice_of(NULL, 0));
	} else if (s->writable) {
		s->writable = 0;
		if (!sli_stream_mute(s) && s->ops->writable)
			s->ops->writable(s);
	}
}

void
sli_stream_run_todo(struct sluice_client *c)
{
	struct sli_list mine;

	/* What the callbacks add is for the next run: a callback that always
	 * asks for more must not keep us here. */
	sli_list_init(&mine);
	while (!sli_list_empty(&c->todo)) {
		struct sli_list *n = c->todo.next;

		sli_list_del(n);
		sli_list_add_tail(&mine, n);
	}
	while (!sli_list_empty(&mine) && !c->closing) {
		struct sluice_stream *s =
		    SLI_LIST_ENTRY(mine.next, struct sluice_stream, todo);

		sli_list_del(&s->todo);
		sli_stream_ref(s);
		run_one(s);
		sli_stream_unref(s);
	}
	while (!sli_list_empty(&mine)) {
		struct sli_list *n = mine.next;

		sli_list_del(n);
		sli_list_add_tail(&c->todo, n);
	}
}
