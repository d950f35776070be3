/* SPDX-License-Identifier: Apache-2.0 */
/* The typed call that starts a turn: a client stream whose first part is the
 * request and whose other parts are cut from a copy of the content as credit
 * comes. Following the turn is a subscription, in t_events.c. */
#include "typed.h"

#include "wire/guard.h"

#include "sluice/v1/sessions.pb-c.h"

#define PART_MAX  ((size_t)32 * 1024)
#define PART_HEAD 64u /* what the message adds to a part */

struct prompt {
	sluice_turn_fn *fn;
	void *arg;
	uint8_t *content;
	size_t n;
	size_t sent; /* given to the mux */
	int text;
};

static void
prompt_data(struct sluice_stream *s, uint64_t offset, struct sli_slice bytes)
{
	(void)offset;
	sli_stream_release(s, bytes.n); /* the method sends none */
}

static void
give_turn(struct prompt *p, struct sli_slice body, struct sli_errinfo *ei)
{
	struct sluice_turn t = {.size = sizeof(t)};
	const Sluice__V1__PromptResponse *m;
	struct sli_arena a;

	sli_arena_init(&a, SLI_TYPED_ARENA);
	m = (const void *)sli_msg_unpack(
	    &sluice__v1__prompt_response__descriptor, body, &a, ei);
	if (m) {
		ei->code = SLI_OK;
		t.turn = m->turn;
		t.first_seq = m->first_seq;
		t.outcome = (int32_t)m->outcome;
		t.repeated_key = m->repeated_key ? 1 : 0;
		if (p->fn)
			p->fn(p->arg, &t, NULL);
	}
	sli_arena_free(&a);
}

static void
prompt_result(struct sluice_stream *s, const struct sluice_error *err,
    struct sli_slice body)
{
	struct sluice_error late = {.size = sizeof(late)};
	struct sli_errinfo ei = {0};
	struct prompt *p = s->self;

	if (!err) {
		give_turn(p, body, &ei);
		if (ei.code != SLI_OK) {
			(void)sli_err_give(&late, &ei);
			sli_stream_set_end(s, &late);
			err = &late;
		}
	}
	if (p->fn && !sli_stream_mute(s))
		p->fn(p->arg, NULL, err);
}

static size_t
prompt_pull(struct sluice_stream *s, uint8_t *dst, size_t room)
{
	Sluice__V1__PromptPart part = SLUICE__V1__PROMPT_PART__INIT;
	struct prompt *p = s->self;
	size_t n = SLI_MIN(p->n - p->sent, PART_MAX);
	size_t len;

	if (n == 0)
		return SLI_PULL_NOTHING;
	if (n + PART_HEAD > room && room > 2 * PART_HEAD)
		n = room - PART_HEAD;
	part.offset = p->sent;
	part.last = p->sent + n == p->n;
	part.text = p->text;
	part.content = sli_pb_bytes(p->content + p->sent, n);
	len = sli_msg_pack_to(&part.base, dst, SLI_MUX_MSG_MAX);
	p->sent += n;
	return len;
}

static void
prompt_fini(struct sluice_stream *s)
{
	struct prompt *p = s->self;

	sli_free(p->content);
	sli_free(p);
}

static const struct sli_stream_ops prompt_ops = {
    .data = prompt_data,
    .result = prompt_result,
    .pull = prompt_pull,
    .fini = prompt_fini,
};

static struct sluice_stream *
prompt_new(struct sluice_client *c, const void *content, size_t n,
    struct sli_errinfo *ei)
{
	struct prompt *p = sli_zalloc(sizeof(*p));
	struct sluice_stream *s = NULL;

	if (p)
		p->content = sli_memdup(content, n);
	if (p && p->content)
		s = sli_stream_new(c, &prompt_ops, p);
	if (s) {
		p->n = n;
		return s;
	}
	if (p)
		sli_free(p->content);
	sli_free(p);
	(void)sli_fail(ei, SLI_E_NOMEM, 0, "client.prompt", "out of memory");
	return NULL;
}

int
sluice_prompt(sluice_client *c, const char *session, const void *content,
    size_t n, const struct sluice_prompt_options *opt, sluice_turn_fn *fn,
    void *arg, sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__PromptPart part = SLUICE__V1__PROMPT_PART__INIT;
	struct sluice_prompt_options o;
	struct sluice_stream *s = NULL;
	struct sli_errinfo ei = {0};
	struct prompt *p;
	int e = sli_typed_may_wait(c, ret_s, err);

	if (e != SLUICE_OK)
		return e;
	if (sli_take_struct(&o, sizeof(o), opt, "struct sluice_prompt_options",
		&ei) == SLI_OK)
		s = prompt_new(c, content, n, &ei);
	if (!s)
		return sli_err_give(err, &ei);
	p = s->self;
	p->fn = fn;
	p->arg = arg;
	p->text = !o.blocks;
	p->sent = SLI_MIN(n, PART_MAX);
	part.session = sli_pb_str(session);
	part.queue = o.queue != 0;
	part.last = p->sent == n;
	part.content = sli_pb_bytes(p->content, p->sent);
	part.text = p->text;
	part.deadline_ms = o.deadline_ms;
	e = sli_typed_start(
	    s, "sluice.v1.Sessions/Prompt", &part.base, part.last, o.key, err);
	if (e != SLUICE_OK)
		return e;
	if (!part.last)
		sluice_stream_end(s); /* after the last part */
	return sli_typed_started(s, ret_s, err);
}
