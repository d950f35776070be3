/* SPDX-License-Identifier: Apache-2.0 */
/* See proc_stream.h.
 *
 * The consumer acknowledges stream bytes, the ring counts output bytes: marks
 * remember where in the ring the output stood at some stream offsets, sparsely
 * and in order. An ACK releases the ring up to the last mark at or below it,
 * and everything handed out once all is acknowledged. */
#include "service/proc_stream.h"
#include "service/exec_data.h"

#include "base/buf.h"
#include "base/mem.h"
#include "wire/guard.h"

#include <string.h>

#define MARKS      128u        /* power of two */
#define MARK_EVERY (8u << 10)  /* stream bytes between two marks */
#define CHUNK_MAX  (32u << 10) /* ExecData.data */
#define OVERHEAD   64u         /* encoding around one chunk, at most */
_Static_assert(EXEC_DATA_HEAD <= OVERHEAD, "room for one chunk's encoding");
#define STDIN_MAX (16u << 20) /* above any window that we grant */

struct mark {
	uint64_t wire; /* stream offset */
	uint64_t ring; /* output offset handed out by then */
};

struct pstream {
	struct svc_call call;
	struct vm_proc *proc; /* NULL until started */
	struct vm_reader reader;
	int opened;    /* svc_open was called; gone will come */
	int reading;   /* reader attached */
	int told;      /* `started` has been sent */
	int stdin_eof; /* the client half-closed, close when all is written */
	int attach;    /* no stdin half */
	uint64_t sent; /* stream offset after the last pulled message */
	struct mark marks[MARKS];
	unsigned first, count;
	struct sli_buf in; /* stdin not yet taken by the pipe */
};

static void
pstream_free(struct pstream *s)
{
	sli_buf_free(&s->in);
	sli_free(s);
}

static struct pstream *
pstream_new(struct svc_call c)
{
	struct pstream *s = sli_zalloc(sizeof(*s));
	if (!s)
		return NULL;
	s->call = c;
	sli_buf_init(&s->in, STDIN_MAX);
	return s;
}

void
proc_stream_exit(const struct vm_exit *st, Sluice__V1__ExecExit *ret)
{
	sluice__v1__exec_exit__init(ret);
	ret->code = st->signal ? 0 : st->code;
	ret->signal = st->signal;
	ret->timed_out = st->timed_out;
	ret->truncated = st->truncated;
	ret->oom = st->oom;
}

/* --- output ---------------------------------------------------------------*/

static void
mark_add(struct pstream *s)
{
	struct mark m = {s->sent, s->reader.next};
	if (s->count > 0) {
		struct mark *last =
		    &s->marks[(s->first + s->count - 1) % MARKS];
		/* Full, or too close to the last: move the last forward. It
		 * then releases later than it could, never earlier. */
		if (s->count == MARKS ||
		    (s->count > 1 &&
			m.wire - s->marks[(s->first + s->count - 2) % MARKS]
				     .wire <
			    MARK_EVERY)) {
			*last = m;
			return;
		}
	}
	s->marks[(s->first + s->count++) % MARKS] = m;
}

static void
acked(void *ctx, uint64_t offset)
{
	struct pstream *s = ctx;
	uint64_t ring = 0;
	int any = 0;
	while (s->count > 0 && s->marks[s->first].wire <= offset) {
		ring = s->marks[s->first].ring;
		any = 1;
		s->first = (s->first + 1) % MARKS;
		s->count--;
	}
	if (any && s->reading)
		vm_reader_ack(&s->reader, ring);
}

static size_t
pull_started(struct pstream *s, uint8_t *dst)
{
	Sluice__V1__ExecOutput o = SLUICE__V1__EXEC_OUTPUT__INIT;
	Sluice__V1__ExecStarted st = SLUICE__V1__EXEC_STARTED__INIT;
	st.pid = vm_proc_pid(s->proc);
	st.start = s->reader.next;
	o.kind_case = SLUICE__V1__EXEC_OUTPUT__KIND_STARTED;
	o.started = &st;
	s->told = 1;
	return sluice__v1__exec_output__pack(&o, dst);
}

static size_t
pulled(struct pstream *s, size_t n)
{
	s->sent += n;
	mark_add(s);
	return n;
}

static size_t
pull(void *ctx, uint8_t *dst, size_t room)
{
	struct pstream *s = ctx;
	Sluice__V1__ExecOutput o = SLUICE__V1__EXEC_OUTPUT__INIT;
	Sluice__V1__ExecGap gap = SLUICE__V1__EXEC_GAP__INIT;
	Sluice__V1__ExecExit ex;
	struct vm_out out;
	size_t n = 0;

	if (!s->reading)
		return 0;
	if (!s->told) {
		n = pull_started(s, dst);
		s->sent += n;
		return n;
	}
	size_t max = room > 2 * OVERHEAD ? room - OVERHEAD : OVERHEAD;
	vm_reader_next(&s->reader, SLI_MIN(max, CHUNK_MAX), &out);
	switch (out.kind) {
	case VM_OUT_NONE:
		return 0;
	case VM_OUT_DATA:
		return pulled(s, exec_data_put(dst, &out));
	case VM_OUT_GAP:
		gap.offset = out.offset;
		gap.lost = out.lost;
		o.kind_case = SLUICE__V1__EXEC_OUTPUT__KIND_GAP;
		o.gap = &gap;
		break;
	case VM_OUT_EXIT:
		proc_stream_exit(out.exit, &ex);
		o.kind_case = SLUICE__V1__EXEC_OUTPUT__KIND_EXIT;
		o.exit = &ex;
		svc_finish(s->call);
		break;
	}
	return pulled(s, sluice__v1__exec_output__pack(&o, dst));
}

static void
reader_ready(struct vm_reader *r)
{
	struct pstream *s = SLI_CONTAINER_OF(r, struct pstream, reader);
	svc_ready(s->call);
}

/* --- stdin ----------------------------------------------------------------*/

static void
stdin_pump(void *ctx)
{
	struct pstream *s = ctx;
	size_t n;
	while (s->proc && (n = sli_buf_len(&s->in)) > 0) {
		long took = vm_stdin_write(s->proc, sli_buf_data(&s->in), n);
		if (took < 0)
			took = (long)n; /* nobody will read it: discarded */
		if (took == 0)
			return;
		sli_buf_consume(&s->in, (size_t)took);
		svc_release(s->call, (uint64_t)took);
	}
	sli_buf_trim(&s->in);
	if (s->proc && s->stdin_eof) {
		s->stdin_eof = 0;
		vm_stdin_close(s->proc);
	}
}

static void
fail_input(struct pstream *s, const char *text)
{
	struct sli_errinfo ei = {0};
	(void)sli_fail(&ei, SLI_E_INVALID_ARGUMENT, 0, "exec", "%s", text);
	svc_fail(s->call, &ei);
}

/* stdin bytes count for release one by one; the encoding around them, and
 * whole messages of the other kinds, at once. */
static void
message(void *ctx, struct sli_slice msg)
{
	struct pstream *s = ctx;
	struct sli_errinfo ei = {0};
	const Sluice__V1__ExecInput *in = (const void *)svc_unpack(
	    s->call, &sluice__v1__exec_input__descriptor, msg, &ei);
	if (!in) {
		svc_fail(s->call, &ei);
		return;
	}
	switch (in->kind_case) {
	case SLUICE__V1__EXEC_INPUT__KIND_STDIN_BYTES:
		if (sli_buf_append(&s->in, in->stdin_bytes.data,
			in->stdin_bytes.len) != SLI_OK) {
			fail_input(s, "more stdin than was granted");
			return;
		}
		svc_release(s->call, msg.n - in->stdin_bytes.len);
		stdin_pump(s);
		return;
	case SLUICE__V1__EXEC_INPUT__KIND_CLOSE_STDIN:
		s->stdin_eof = 1;
		stdin_pump(s);
		break;
	case SLUICE__V1__EXEC_INPUT__KIND_SIGNAL:
		/* A signal to what has just ended is not an error. */
		if (s->proc && vm_proc_signal(s->proc, in->signal) ==
				   SLI_E_INVALID_ARGUMENT) {
			fail_input(s, "no such signal");
			return;
		}
		break;
	case SLUICE__V1__EXEC_INPUT__KIND_SPEC:
	case SLUICE__V1__EXEC_INPUT__KIND__NOT_SET:
	case _SLUICE__V1__EXEC_INPUT__KIND__CASE_IS_INT_SIZE:
		fail_input(s, "unexpected message on an exec stream");
		return;
	}
	svc_release(s->call, msg.n);
}

static void
input_end(void *ctx)
{
	struct pstream *s = ctx;
	s->stdin_eof = 1;
	stdin_pump(s);
}

/* The client is gone or all is said; the process lives on. What it sent and
 * the pipe has not taken is given up with it, as on a closed terminal. */
static void
gone(void *ctx, enum sli_err why)
{
	struct pstream *s = ctx;
	(void)why;
	if (s->proc) {
		vm_stdin_on_drain(s->proc, NULL, NULL);
		if (!s->attach)
			vm_stdin_close(s->proc);
	}
	if (s->reading)
		vm_reader_detach(&s->reader);
	pstream_free(s);
}

static const struct svc_stream_ops exec_ops = {
    .pull = pull,
    .acked = acked,
    .message = message,
    .end = input_end,
    .gone = gone,
};

static const struct svc_stream_ops attach_ops = {
    .pull = pull,
    .acked = acked,
    .gone = gone,
};

/* --- start ----------------------------------------------------------------*/

static void
exec_started(void *ctx, struct vm_proc *proc, const struct sli_errinfo *ei)
{
	struct pstream *s = ctx;
	if (!proc) {
		svc_fail(s->call, ei);
		pstream_free(s);
		return;
	}
	s->proc = proc;
	if (svc_open(s->call, &exec_ops, s) != SLI_OK) {
		/* The client left while it started: the work goes on. */
		vm_stdin_close(proc);
		pstream_free(s);
		return;
	}
	s->reading = 1;
	vm_stdin_on_drain(proc, stdin_pump, s);
	vm_reader_attach(proc, &s->reader, 0, 1, reader_ready);
	svc_ready(s->call);
}

void
proc_stream_exec(
    struct svc_call c, struct vm *vm, const struct vm_exec_spec *spec)
{
	struct pstream *s = pstream_new(c);
	if (!s) {
		svc_refuse(c, SLI_E_NOMEM, "exec", "out of memory");
		return;
	}
	vm_exec(vm, spec, exec_started, s);
}

void
proc_stream_attach(struct svc_call c, struct vm_proc *p, uint64_t from)
{
	struct pstream *s = pstream_new(c);
	if (!s) {
		svc_refuse(c, SLI_E_NOMEM, "process", "out of memory");
		return;
	}
	s->attach = 1;
	if (svc_open(c, &attach_ops, s) != SLI_OK) {
		pstream_free(s);
		return;
	}
	s->proc = p;
	s->reading = 1;
	vm_reader_attach(p, &s->reader, from, 0, reader_ready);
	svc_ready(c);
}
