/* SPDX-License-Identifier: Apache-2.0 */
/* The typed streams of one process: exec and attach. Output reaches the user
 * piece by piece under the stream's credit; stdin waits in the upload buffer
 * as plain bytes and becomes messages as credit comes. Processes as a list are
 * in t_proc.c. */
#include "typed.h"

#include "base/mutant.h"
#include "wire/guard.h"

#include <string.h>

#include "sluice/v1/processes.pb-c.h"

#define PIECE_MAX   ((size_t)32 * 1024) /* of stdin in one message */
#define PIECE_HEAD  16u                 /* what the message adds to it */
#define SIGNALS_MAX 8u

struct exec {
	struct sluice_exec_handler h;
	void *arg;
	char *vm;
	uint32_t pid;      /* 0 until started */
	int has_stdin;     /* exec, not detached */
	int close_wanted;  /* after what is queued */
	int exited;        /* on_exit is done */
	unsigned nsignals; /* asked for before the pid was known */
	int32_t signals[SIGNALS_MAX];
};

static int
give(struct sluice_error *err, enum sli_err code, const char *text)
{
	struct sli_errinfo ei;

	(void)sli_fail(&ei, code, 0, "client.exec", "%s", text);
	return sli_err_give(err, &ei);
}

/* --- output --------------------------------------------------------------*/

static void
got_started(struct sluice_stream *s, const Sluice__V1__ExecStarted *m)
{
	struct exec *x = s->self;

	x->pid = m->pid;
	if (x->h.on_started)
		x->h.on_started(x->arg, s, m->pid, m->start);
	for (unsigned i = 0; i < x->nsignals && sli_stream_live(s); i++)
		(void)sluice_exec_signal(s, x->signals[i], NULL);
	x->nsignals = 0;
}

struct sluice_exit
sli_exit_convert(const Sluice__V1__ExecExit *m)
{
	return (struct sluice_exit){
	    .size = sizeof(struct sluice_exit),
	    .code = m->code,
	    .signal = m->signal,
	    .timed_out = m->timed_out ? 1 : 0,
	    .truncated = m->truncated ? 1 : 0,
	    .oom = m->oom ? 1 : 0,
	};
}

static void
got_exit(struct sluice_stream *s, const Sluice__V1__ExecExit *m)
{
	const struct sluice_exit e = sli_exit_convert(m);
	struct exec *x = s->self;

	x->exited = 1;
	if (x->h.on_exit)
		x->h.on_exit(x->arg, s, &e);
}

/* Returns 1 when the message went to the user, who says done. */
static int
got_data(struct sluice_stream *s, const Sluice__V1__ExecData *d,
    struct sluice_msg *m)
{
	struct exec *x = s->self;

	if (!x->h.on_data)
		return 0;
	m->data = d->data.data;
	m->len = d->data.len;
	x->h.on_data(x->arg, s, (int32_t)d->fd, d->offset, m->data, m->len, m);
	return 1;
}

static int
dispatch(struct sluice_stream *s, const Sluice__V1__ExecOutput *o,
    struct sluice_msg *m)
{
	struct exec *x = s->self;

	switch ((int)o->kind_case) {
	case SLUICE__V1__EXEC_OUTPUT__KIND_STARTED:
		got_started(s, o->started);
		break;
	case SLUICE__V1__EXEC_OUTPUT__KIND_DATA:
		return got_data(s, o->data, m);
	case SLUICE__V1__EXEC_OUTPUT__KIND_GAP:
		if (x->h.on_gap)
			x->h.on_gap(x->arg, s, o->gap->offset, o->gap->lost);
		break;
	case SLUICE__V1__EXEC_OUTPUT__KIND_EXIT:
		got_exit(s, o->exit);
		break;
	default:
		break; /* of a newer server */
	}
	return 0;
}

static void
exec_data(struct sluice_stream *s, uint64_t offset, struct sli_slice bytes)
{
	struct sluice_msg *m = sli_msg_new(s, offset, bytes, 0);
	Sluice__V1__ExecOutput *o;
	struct sli_errinfo ei;

	if (!m)
		return;
	sli_arena_init(&m->arena, SLI_TYPED_ARENA);
	o = (void *)sli_msg_unpack(
	    &sluice__v1__exec_output__descriptor, bytes, &m->arena, &ei);
	if (!o) {
		sluice_msg_done(m);
		sli_stream_fail(s, &ei);
	} else if (!dispatch(s, o, m)) {
		sluice_msg_done(m);
	}
}

static void
exec_result(struct sluice_stream *s, const struct sluice_error *err,
    struct sli_slice body)
{
	struct exec *x = s->self;
	struct sluice_error e = {.size = sizeof(e)};

	(void)body;
	/* The exit is the truth: whatever happens to the call after it, the
	 * process ended so; and without it nothing is known. */
	if (x->exited || SLI_MUTATED(client_exit_invented)) {
		err = NULL;
		sli_stream_set_end(s, NULL);
	} else if (!err) {
		(void)give(&e, SLI_E_PROTOCOL,
		    "the server ended the call without the process's exit");
		err = &e;
		sli_stream_set_end(s, err);
	}
	if (x->h.on_end)
		x->h.on_end(x->arg, s, err);
}

/* --- input ---------------------------------------------------------------*/

static size_t
exec_pull(struct sluice_stream *s, uint8_t *dst, size_t room)
{
	Sluice__V1__ExecInput in = SLUICE__V1__EXEC_INPUT__INIT;
	struct exec *x = s->self;
	size_t n = SLI_MIN(sli_buf_len(&s->up), PIECE_MAX);
	size_t len;

	if (n != 0) {
		/* A piece that fits the credit leaves nothing behind. */
		if (n + PIECE_HEAD > room)
			n = room > 2 * PIECE_HEAD ? room - PIECE_HEAD
						  : SLI_MIN(n, PIECE_HEAD);
		in.kind_case = SLUICE__V1__EXEC_INPUT__KIND_STDIN_BYTES;
		in.stdin_bytes = sli_pb_bytes(sli_buf_data(&s->up), n);
		len = sli_msg_pack_to(&in.base, dst, SLI_MUX_MSG_MAX);
		sli_buf_consume(&s->up, n);
		if (sli_buf_len(&s->up) <= s->up.max / 2)
			sli_stream_made_room(s);
		return len;
	}
	if (x->close_wanted == 1) {
		x->close_wanted = 2;
		in.kind_case = SLUICE__V1__EXEC_INPUT__KIND_CLOSE_STDIN;
		in.close_stdin = 1;
		return sli_msg_pack_to(&in.base, dst, SLI_MUX_MSG_MAX);
	}
	return SLI_PULL_NOTHING;
}

static void
exec_writable(struct sluice_stream *s)
{
	struct exec *x = s->self;

	if (x->h.on_writable)
		x->h.on_writable(x->arg, s);
}

static void
exec_fini(struct sluice_stream *s)
{
	struct exec *x = s->self;

	sli_free(x->vm);
	sli_free(x);
}

static const struct sli_stream_ops exec_ops = {
    .data = exec_data,
    .result = exec_result,
    .pull = exec_pull,
    .writable = exec_writable,
    .fini = exec_fini,
};

static struct exec *
self(struct sluice_stream *s)
{
	return s->ops == &exec_ops ? s->self : NULL;
}

int
sluice_exec_stdin(sluice_stream *s, const void *p, size_t n, size_t *ret_n,
    struct sluice_error *err)
{
	struct exec *x = self(s);
	int e = sli_stream_sendable(s, err);
	size_t room;

	if (e != SLUICE_OK)
		return e;
	if (!x || !x->has_stdin || x->close_wanted)
		return give(err, SLI_E_FAILED_PRECONDITION,
		    "this process takes no (more) stdin");
	room = s->up.max - sli_buf_len(&s->up);
	n = SLI_MIN(n, room);
	if (n == 0) {
		s->hungry = 1;
		return give(err, SLI_E_AGAIN, "the upload buffer is full");
	}
	if (sli_buf_append(&s->up, p, n) != SLI_OK)
		return give(err, SLI_E_NOMEM, "out of memory");
	sli_stream_ready(s);
	*ret_n = n;
	return SLUICE_OK;
}

int
sluice_exec_close_stdin(sluice_stream *s, struct sluice_error *err)
{
	struct exec *x = self(s);
	int e = sli_stream_sendable(s, err);

	if (e != SLUICE_OK)
		return e;
	if (!x || !x->has_stdin)
		return give(err, SLI_E_FAILED_PRECONDITION,
		    "this process takes no stdin");
	if (!x->close_wanted)
		x->close_wanted = 1;
	sli_stream_ready(s);
	return SLUICE_OK;
}

/* By a call of its own: on the stream a signal would wait behind stdin that
 * nobody reads. */
int
sluice_exec_signal(sluice_stream *s, int32_t sig, struct sluice_error *err)
{
	struct exec *x = self(s);
	sluice_stream *k;
	int e;

	if (!x || sig <= 0)
		return give(err, SLI_E_INVALID_ARGUMENT,
		    "not a process, or not a signal number");
	if (!sli_stream_live(s) || s->ended || x->exited)
		return give(err, SLI_E_CLOSED, "the process has ended");
	if (x->pid == 0) {
		if (x->nsignals == SIGNALS_MAX)
			return give(err, SLI_E_AGAIN,
			    "the process has not started yet");
		x->signals[x->nsignals++] = sig;
		return SLUICE_OK;
	}
	e = sluice_kill(s->c, x->vm, x->pid, sig, NULL, NULL, &k, err);
	if (e == SLUICE_OK)
		sluice_stream_detach(k);
	return e;
}

/* --- start ---------------------------------------------------------------*/

static struct sluice_stream *
exec_new(struct sluice_client *c, const char *vm, uint32_t pid, int has_stdin,
    const struct sluice_exec_handler *h, void *arg, struct sli_errinfo *ei)
{
	struct exec *x = sli_zalloc(sizeof(*x));
	struct sluice_stream *s = NULL;

	if (x)
		x->vm = sli_strdup(vm ? vm : "");
	if (x && x->vm)
		s = sli_stream_new(c, &exec_ops, x);
	if (!s) {
		if (x)
			sli_free(x->vm);
		sli_free(x);
		(void)sli_fail(
		    ei, SLI_E_NOMEM, 0, "client.exec", "out of memory");
		return NULL;
	}
	x->arg = arg;
	x->pid = pid;
	x->has_stdin = has_stdin;
	if (sli_take_struct(&x->h, sizeof(x->h), h,
		"struct sluice_exec_handler", ei) != SLI_OK) {
		sluice_stream_free(s);
		return NULL;
	}
	return s;
}

static enum sli_err
take_spec(struct sli_arena *a, const struct sluice_exec_spec *in,
    Sluice__V1__ExecSpec *sp, struct sli_errinfo *ei)
{
	sp->vm = sli_pb_str(in->vm);
	sp->cwd = sli_pb_str(in->cwd);
	sp->argv = sli_take_strs(a, in->argv, &sp->n_argv);
	sp->timeout_ms = in->timeout_ms;
	sp->detach = in->detach != 0;
	sp->keep_awake = in->keep_awake != 0;
	sp->uid = in->uid;
	sp->gid = in->gid;
	if (!sp->argv)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "client.exec", "out of memory");
	if (sp->n_argv == 0)
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "client.exec",
		    "no command: argv is empty");
	return sli_take_pairs(a, in->env, "env", &sp->env, &sp->n_env, ei);
}

int
sluice_exec(sluice_client *c, const struct sluice_exec_spec *spec,
    const struct sluice_exec_handler *h, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	Sluice__V1__ExecInput req = SLUICE__V1__EXEC_INPUT__INIT;
	Sluice__V1__ExecSpec sp = SLUICE__V1__EXEC_SPEC__INIT;
	struct sluice_exec_spec in;
	struct sluice_stream *s = NULL;
	struct sli_errinfo ei = {0};
	struct sli_arena a;
	int e = sli_typed_may_wait(c, ret_s, err);

	if (e != SLUICE_OK)
		return e;
	sli_arena_init(&a, SLI_TYPED_ARENA);
	if (sli_take_struct(&in, sizeof(in), spec, "struct sluice_exec_spec",
		&ei) == SLI_OK &&
	    take_spec(&a, &in, &sp, &ei) == SLI_OK)
		s = exec_new(c, in.vm, 0, !in.detach, h, arg, &ei);
	if (!s) {
		e = sli_err_give(err, &ei);
		goto out;
	}
	req.kind_case = SLUICE__V1__EXEC_INPUT__KIND_SPEC;
	req.spec = &sp;
	e = sli_typed_start(s, "sluice.v1.Processes/Exec", &req.base,
	    in.detach != 0, NULL, err);
out:
	sli_arena_free(&a);
	return e == SLUICE_OK ? sli_typed_started(s, ret_s, err) : e;
}

int
sluice_attach(sluice_client *c, const char *vm, uint32_t pid, uint64_t from,
    const struct sluice_exec_handler *h, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	Sluice__V1__ProcessAttachRequest req =
	    SLUICE__V1__PROCESS_ATTACH_REQUEST__INIT;
	struct sluice_stream *s;
	struct sli_errinfo ei = {0};
	int e = sli_typed_may_wait(c, ret_s, err);

	if (e != SLUICE_OK)
		return e;
	s = exec_new(c, vm, pid, 0, h, arg, &ei);
	if (!s)
		return sli_err_give(err, &ei);
	req.vm = sli_pb_str(vm);
	req.pid = pid;
	req.from = from;
	e = sli_typed_start(
	    s, "sluice.v1.Processes/Attach", &req.base, 1, NULL, err);
	return e == SLUICE_OK ? sli_typed_started(s, ret_s, err) : e;
}
