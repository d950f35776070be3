/* SPDX-License-Identifier: Apache-2.0 */
/* Received messages: held by the user in any order, released to the mux as the
 * contiguous prefix. A message that is done but not yet at the front keeps its
 * place and nothing else. */
#include "client.h"

#include "base/mutant.h"

void
sli_stream_release(struct sluice_stream *s, uint64_t n)
{
	s->released += n;
	if (s->sid != 0 && s->c && s->c->mux)
		sli_mux_release(s->c->mux, s->sid, n);
}

static void
drop_bytes(struct sluice_msg *m)
{
	sli_free(m->heap);
	m->heap = NULL;
	m->data = NULL;
	sli_arena_free(&m->arena);
}

struct sluice_msg *
sli_msg_new(
    struct sluice_stream *s, uint64_t offset, struct sli_slice bytes, int copy)
{
	struct sluice_msg *m = sli_zalloc(sizeof(*m));
	struct sli_errinfo ei;

	if (m && copy) {
		m->heap = sli_memdup(bytes.p, bytes.n);
		if (!m->heap) {
			sli_free(m);
			m = NULL;
		}
	}
	if (!m) {
		(void)sli_fail(&ei, SLI_E_NOMEM, 0, "client.msg",
		    "out of memory for a message of %zu bytes", bytes.n);
		sli_stream_release(s, bytes.n);
		sli_stream_fail(s, &ei);
		return NULL;
	}
	m->s = s;
	m->offset = offset;
	m->wire = bytes.n;
	m->data = m->heap;
	m->len = copy ? bytes.n : 0;
	sli_stream_ref(s);
	sli_list_add_tail(&s->msgs, &m->in_stream);
	return m;
}

void
sluice_msg_done(sluice_msg *m)
{
	struct sluice_stream *s = m->s;
	uint64_t wire = m->wire, n = 0;

	SLI_ASSERT(!m->done);
	m->done = 1;
	drop_bytes(m);
	sli_stream_ref(s);
	while (!sli_list_empty(&s->msgs)) {
		struct sluice_msg *first =
		    SLI_LIST_ENTRY(s->msgs.next, struct sluice_msg, in_stream);

		/* An acknowledged hole could never be sent again. */
		if (!first->done)
			break;
		n += first->wire;
		sli_list_del(&first->in_stream);
		sli_free(first);
		sli_stream_unref(s);
	}
	if (SLI_MUTATED(client_ack_held))
		n = wire;
	if (n != 0)
		sli_stream_release(s, n);
	sli_stream_unref(s);
}

const void *
sluice_msg_data(const sluice_msg *m)
{
	return m->data;
}

size_t
sluice_msg_len(const sluice_msg *m)
{
	return m->len;
}

uint64_t
sluice_msg_offset(const sluice_msg *m)
{
	return m->offset;
}
