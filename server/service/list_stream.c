/* SPDX-License-Identifier: Apache-2.0 */
/* See list_stream.h. Messages lie in one buffer as u32 length + bytes. */
#include "service/list_stream.h"

#include "base/buf.h"
#include "base/mem.h"

struct list_stream {
	struct sli_buf buf;
	struct svc_call call;
	struct sli_errinfo ei; /* OK, or why the list is cut */
};

struct list_stream *
list_stream_new(size_t max)
{
	struct list_stream *s = sli_zalloc(sizeof(*s));
	if (s)
		sli_buf_init(&s->buf, max);
	return s;
}

void
list_stream_free(struct list_stream *s)
{
	if (!s)
		return;
	sli_buf_free(&s->buf);
	sli_free(s);
}

void
list_stream_add(struct list_stream *s, const ProtobufCMessage *m)
{
	if (s->ei.code != SLI_OK)
		return;
	if (!m)
		return;
	uint32_t n = (uint32_t)protobuf_c_message_get_packed_size(m);
	uint8_t *p = sli_buf_reserve(&s->buf, sizeof(n) + n);
	if (!p) {
		(void)sli_fail(&s->ei, SLI_E_RESOURCE_EXHAUSTED, 0, "list",
		    "the list is too long; ask for a part of it");
		return;
	}
	memcpy(p, &n, sizeof(n));
	protobuf_c_message_pack(m, p + sizeof(n));
	sli_buf_added(&s->buf, sizeof(n) + n);
}

static size_t
pull(void *ctx, uint8_t *dst, size_t room)
{
	struct list_stream *s = ctx;
	struct sli_slice rest = sli_buf_slice(&s->buf);
	uint32_t n = 0;
	(void)room;
	if (rest.n < sizeof(n) || !rest.p) {
		if (s->ei.code != SLI_OK)
			svc_fail(s->call, &s->ei);
		else
			svc_finish(s->call);
		return 0;
	}
	memcpy(&n, rest.p, sizeof(n));
	memcpy(dst, rest.p + sizeof(n), n);
	sli_buf_consume(&s->buf, sizeof(n) + n);
	return n;
}

static void
gone(void *ctx, enum sli_err why)
{
	(void)why;
	list_stream_free(ctx);
}

static const struct svc_stream_ops ops = {.pull = pull, .gone = gone};

void
list_stream_send(struct list_stream *s, struct svc_call c)
{
	s->call = c;
	if (svc_open(c, &ops, s) != SLI_OK) {
		list_stream_free(s);
		return;
	}
	svc_ready(c);
}
