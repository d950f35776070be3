/* SPDX-License-Identifier: Apache-2.0 */
/* What a user may do with a stream: send, end, cancel, wait, free. Nothing here
 * calls the user back; waiting does, through sluice_process. */
#include "client.h"

#include "base/mutant.h"

#include <string.h>

void
sli_stream_ready(struct sluice_stream *s)
{
	if (s->sid != 0 && sli_stream_live(s))
		sli_mux_ready(s->c->mux, s->sid);
}

void
sli_stream_made_room(struct sluice_stream *s)
{
	if (!s->hungry)
		return;
	s->hungry = 0;
	if (SLI_MUTATED(client_writable_lost))
		return;
	s->writable = 1;
	sli_stream_add_todo(s);
}

size_t
sli_stream_pull_queue(struct sluice_stream *s, uint8_t *dst)
{
	struct sli_slice q = sli_buf_slice(&s->up);
	uint32_t n;

	if (!q.p || q.n == 0)
		return SLI_PULL_NOTHING;
	memcpy(&n, q.p, sizeof(n));
	memcpy(dst, q.p + sizeof(n), n);
	sli_buf_consume(&s->up, sizeof(n) + n);
	if (sli_buf_len(&s->up) <= s->up.max / 2)
		sli_stream_made_room(s);
	return n;
}

static int
give(struct sluice_error *err, enum sli_err code, const char *text)
{
	struct sli_errinfo ei;

	(void)sli_fail(&ei, code, 0, "client.stream", "%s", text);
	return sli_err_give(err, &ei);
}

int
sli_stream_sendable(struct sluice_stream *s, struct sluice_error *err)
{
	if (!sli_stream_live(s) || s->no_more || s->half || s->ended ||
	    s->freed)
		return give(err, SLI_E_CLOSED,
		    "nothing more can be sent on this stream");
	return SLUICE_OK;
}

int
sluice_stream_send(
    sluice_stream *s, const void *p, size_t n, struct sluice_error *err)
{
	uint32_t len = (uint32_t)n;
	uint8_t *dst;
	int e;

	e = sli_stream_sendable(s, err);
	if (e != SLUICE_OK)
		return e;
	if (s->ops->pull)
		return give(err, SLI_E_FAILED_PRECONDITION,
		    "a typed call sends its own messages");
	if (n == 0 || n > SLI_MUX_MSG_MAX)
		return give(err, SLI_E_INVALID_ARGUMENT,
		    "a message has 1 to 65536 bytes");
	/* One message always fits an empty buffer. */
	if (sli_buf_len(&s->up) != 0 &&
	    n + sizeof(len) > s->up.max - sli_buf_len(&s->up)) {
		s->hungry = 1;
		return give(err, SLI_E_AGAIN, "the upload buffer is full");
	}
	dst = sli_buf_reserve(&s->up, n + sizeof(len));
	if (!dst)
		return give(err, SLI_E_NOMEM, "out of memory");
	memcpy(dst, &len, sizeof(len));
	memcpy(dst + sizeof(len), p, n);
	sli_buf_added(&s->up, n + sizeof(len));
	sli_stream_ready(s);
	return SLUICE_OK;
}

void
sluice_stream_end(sluice_stream *s)
{
	if (sli_stream_sendable(s, NULL) != SLUICE_OK)
		return;
	s->half = 1;
	if (s->sid != 0)
		sli_mux_end(s->c->mux, s->sid);
}

/* --- control -------------------------------------------------------------*/

void
sluice_stream_cancel(sluice_stream *s)
{
	struct sli_errinfo ei;

	if (!sli_stream_live(s))
		return;
	(void)sli_fail(&ei, SLI_E_CANCELED, 0, "client.stream",
	    "the call was canceled here");
	sli_stream_fail(s, &ei);
}

void
sluice_stream_set_window(sluice_stream *s, uint64_t window)
{
	if (!sli_stream_live(s))
		return;
	if (s->start)
		s->start->window = window;
	else if (s->sid != 0)
		sli_mux_set_window(s->c->mux, s->sid, window);
}

int
sli_stream_run(
    struct sluice_stream *s, int64_t timeout_ms, struct sluice_error *err)
{
	int64_t end = timeout_ms < 0 ? INT64_MAX : sli_cl_now() + timeout_ms;
	int e = SLUICE_OK;

	sli_stream_ref(s);
	while (!s->ended) {
		int64_t left = -1;

		if (!s->c || s->freed) {
			e = give(err, SLI_E_CLOSED,
			    "closed in a callback while it was waited for");
			break;
		}
		if (timeout_ms >= 0)
			left = SLI_MAX(end - sli_cl_now(), 0);
		e = sluice_wait(s->c, left, err);
		if (s->ended)
			break;
		if (e != SLUICE_OK && (e != SLUICE_E_AGAIN || timeout_ms >= 0))
			break;
	}
	if (s->ended)
		e = s->end_err ? sli_err_copy(err, s->end_err)
			       : (int)s->end_code;
	sli_stream_unref(s);
	return e;
}

int
sluice_stream_wait(
    sluice_stream *s, int64_t timeout_ms, struct sluice_error *err)
{
	return sli_stream_run(s, timeout_ms, err);
}

void
sluice_stream_detach(sluice_stream *s)
{
	if (s->ended || !s->attached)
		sluice_stream_free(s);
	else
		s->detached = 1;
}

void
sluice_stream_free(sluice_stream *s)
{
	if (!s)
		return;
	SLI_ASSERT(!s->freed);
	if (s->sid != 0 && !s->ended && sli_stream_live(s))
		sli_mux_reset(s->c->mux, s->sid, SLI_E_CANCELED);
	s->freed = 1;
	s->no_more = 1;
	s->ending = 0;
	s->writable = 0;
	sli_list_del(&s->todo);
	sli_free(s->start);
	s->start = NULL;
	sli_stream_let_go(s);
	sli_stream_unref(s);
}
