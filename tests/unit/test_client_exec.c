/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* A process through libsluice: its stdin under back-pressure, its output, its
 * signals, its exit, and what is said when there is none. */
#include "unit.h"

#include "fakesrv.h"
#include "wire/guard.h"

#include <signal.h>
#include <string.h>

#include "sluice/v1/processes.pb-c.h"

struct rig {
	struct fake f;
	sluice_client *c;
	struct sli_arena a;
	sluice_stream *s;
	uint32_t sid;
	int ended, exited, writable;
	struct sluice_error err;
	struct sluice_exit exit;
	uint32_t pid;
	char out[256];
	size_t nout;
};

static void
start(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	fake_start(&r->f);
	r->c = fake_client(&r->f, NULL);
	sli_arena_init(&r->a, (size_t)8 * 1024 * 1024);
}

static void
finish(struct rig *r)
{
	sluice_stream_free(r->s);
	sluice_close(r->c);
	fake_stop(&r->f);
	sli_arena_free(&r->a);
}

static void
send_msg(struct rig *r, const void *msg)
{
	static uint8_t buf[65536];

	assert_true(protobuf_c_message_get_packed_size(msg) <= sizeof(buf));
	fake_send(&r->f, r->sid, buf, protobuf_c_message_pack(msg, buf));
}

static void
on_started(void *arg, sluice_stream *s, uint32_t pid, uint64_t from)
{
	struct rig *r = arg;

	(void)s;
	(void)from;
	r->pid = pid;
}

static void
on_data(void *arg, sluice_stream *s, int32_t fd, uint64_t offset, const void *p,
    size_t n, sluice_msg *m)
{
	struct rig *r = arg;

	(void)s;
	(void)offset;
	assert_true(r->nout + n + 1 < sizeof(r->out));
	r->out[r->nout++] = fd == 2 ? 'E' : 'O';
	memcpy(r->out + r->nout, p, n);
	r->nout += n;
	sluice_msg_done(m);
}

static void
on_exit_event(void *arg, sluice_stream *s, const struct sluice_exit *e)
{
	struct rig *r = arg;

	(void)s;
	r->exited++;
	r->exit = *e;
}

static void
on_writable(void *arg, sluice_stream *s)
{
	(void)s;
	((struct rig *)arg)->writable++;
}

static void
on_end(void *arg, sluice_stream *s, const struct sluice_error *err)
{
	struct rig *r = arg;

	(void)s;
	assert_int_equal(r->ended, 0);
	r->ended = 1;
	if (err)
		r->err = *err;
}

static const struct sluice_exec_handler exec_handler = {
    .size = sizeof(exec_handler),
    .on_started = on_started,
    .on_data = on_data,
    .on_exit = on_exit_event,
    .on_writable = on_writable,
    .on_end = on_end,
};

static void
run(struct rig *r)
{
	const char *const argv[] = {"cat", NULL};
	struct sluice_exec_spec spec;
	Sluice__V1__ExecInput *in;

	SLUICE_INIT(spec);
	spec.vm = "vm_1";
	spec.argv = argv;
	assert_int_equal(
	    sluice_exec(r->c, &spec, &exec_handler, r, &r->s, NULL), SLUICE_OK);
	fake_turn(&r->f, r->c, NULL);
	r->sid = r->f.call[0].sid;
	assert_int_equal(r->f.call[0].method, 32);
	assert_int_equal(r->f.call[0].end, 0);
	in = (void *)sli_msg_unpack(&sluice__v1__exec_input__descriptor,
	    sli_slice_of(r->f.call[0].req, r->f.call[0].req_len), &r->a, NULL);
	assert_non_null(in);
	assert_string_equal(in->spec->argv[0], "cat");
}

static void
tell_started(struct rig *r, uint32_t pid)
{
	Sluice__V1__ExecOutput o = SLUICE__V1__EXEC_OUTPUT__INIT;
	Sluice__V1__ExecStarted st = SLUICE__V1__EXEC_STARTED__INIT;

	st.pid = pid;
	o.kind_case = SLUICE__V1__EXEC_OUTPUT__KIND_STARTED;
	o.started = &st;
	send_msg(r, &o);
}

static void
tell_data(struct rig *r, uint32_t fd, const char *text)
{
	Sluice__V1__ExecOutput o = SLUICE__V1__EXEC_OUTPUT__INIT;
	Sluice__V1__ExecData d = SLUICE__V1__EXEC_DATA__INIT;

	d.fd = fd;
	d.data =
	    (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
	o.kind_case = SLUICE__V1__EXEC_OUTPUT__KIND_DATA;
	o.data = &d;
	send_msg(r, &o);
}

static void
tell_exit(struct rig *r, int code)
{
	Sluice__V1__ExecOutput o = SLUICE__V1__EXEC_OUTPUT__INIT;
	Sluice__V1__ExecExit e = SLUICE__V1__EXEC_EXIT__INIT;

	e.code = code;
	o.kind_case = SLUICE__V1__EXEC_OUTPUT__KIND_EXIT;
	o.exit = &e;
	send_msg(r, &o);
}

static void
output_and_exit(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	run(&r);
	tell_started(&r, 7);
	tell_data(&r, 1, "one");
	tell_data(&r, 2, "two");
	tell_exit(&r, 3);
	fake_ok(&r.f, r.sid, "", 0);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.pid, 7);
	assert_memory_equal(r.out, "OoneEtwo", 8);
	assert_int_equal(r.exit.code, 3);
	assert_int_equal(r.err.code, 0);
	assert_int_equal(sluice_stream_wait(r.s, 0, NULL), SLUICE_OK);
	assert_int_equal(
	    sluice_exec_signal(r.s, SIGTERM, NULL), SLUICE_E_CLOSED);
	finish(&r);
}

/* No exit, no success. */
static void
no_exit_is_no_success(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	run(&r);
	tell_started(&r, 7);
	fake_ok(&r.f, r.sid, "", 0);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.exited, 0);
	assert_int_equal(r.err.code, SLUICE_E_PROTOCOL);
	assert_int_equal(sluice_stream_wait(r.s, 0, NULL), SLUICE_E_PROTOCOL);
	finish(&r);
}

/* The exit is known: a connection lost right after it takes nothing back. */
static void
exit_then_cut(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	run(&r);
	tell_exit(&r, 0);
	fake_turn(&r.f, r.c, NULL);
	assert_int_equal(r.exited, 1);
	fake_cut(&r.f);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.err.code, 0);
	assert_int_equal(sluice_stream_wait(r.s, 0, NULL), SLUICE_OK);
	finish(&r);
}

/* Join what the fake received as stdin; 1 once close_stdin came. */
static int
take_stdin(struct rig *r, uint8_t *dst, size_t *n)
{
	static uint8_t buf[65536];
	int closed = 0;
	long len;

	while ((len = fake_take(&r->f, r->sid, buf)) > 0) {
		Sluice__V1__ExecInput *in =
		    (void *)sli_msg_unpack(&sluice__v1__exec_input__descriptor,
			sli_slice_of(buf, (size_t)len), &r->a, NULL);

		assert_non_null(in);
		assert_int_equal(closed, 0);
		if (in->kind_case == SLUICE__V1__EXEC_INPUT__KIND_CLOSE_STDIN) {
			closed = 1;
			continue;
		}
		assert_int_equal(
		    in->kind_case, SLUICE__V1__EXEC_INPUT__KIND_STDIN_BYTES);
		assert_true(in->stdin_bytes.len <= 32 * 1024);
		memcpy(dst + *n, in->stdin_bytes.data, in->stdin_bytes.len);
		*n += in->stdin_bytes.len;
	}
	return closed;
}

static void
stdin_pushes_back_and_arrives_whole(void **state)
{
	static uint8_t in[1024 * 1024], got[1024 * 1024];
	size_t given = 0, have = 0, n;
	struct rig r;
	int e;

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * 7 >> 3);
	start(&r);
	run(&r);
	r.f.hold = 1;
	for (;;) {
		e = sluice_exec_stdin(
		    r.s, in + given, sizeof(in) - given, &n, NULL);
		if (e != SLUICE_OK)
			break;
		given += n;
		fake_turn(&r.f, r.c, NULL);
	}
	assert_int_equal(e, SLUICE_E_AGAIN);
	assert_in_range(given, 450 * 1024, 520 * 1024);
	r.f.hold = 0;
	fake_release(&r.f, r.sid, r.f.st[r.sid].held);
	fake_turn(&r.f, r.c, NULL);
	assert_true(r.writable >= 1);
	while (given < sizeof(in)) {
		e = sluice_exec_stdin(
		    r.s, in + given, sizeof(in) - given, &n, NULL);
		given += e == SLUICE_OK ? n : 0;
		fake_turn(&r.f, r.c, NULL);
	}
	assert_int_equal(sluice_exec_close_stdin(r.s, NULL), SLUICE_OK);
	fake_turn(&r.f, r.c, NULL);
	assert_int_equal(take_stdin(&r, got, &have), 1);
	assert_int_equal(have, sizeof(in));
	assert_memory_equal(got, in, sizeof(in));
	assert_int_equal(sluice_exec_stdin(r.s, "x", 1, &n, NULL),
	    SLUICE_E_FAILED_PRECONDITION);
	finish(&r);
}

/* A signal is a call of its own; before the pid is known it waits. */
static void
signal_overtakes_stdin(void **state)
{
	static uint8_t junk[65536];
	Sluice__V1__ProcessKillRequest *k;
	struct rig r;
	size_t n;

	(void)state;
	start(&r);
	run(&r);
	r.f.hold = 1;
	assert_int_equal(sluice_exec_signal(r.s, SIGINT, NULL), SLUICE_OK);
	while (
	    sluice_exec_stdin(r.s, junk, sizeof(junk), &n, NULL) == SLUICE_OK)
		fake_turn(&r.f, r.c, NULL);
	assert_int_equal(r.f.calls, 1);
	tell_started(&r, 9);
	fake_turn(&r.f, r.c, NULL);
	assert_int_equal(r.f.calls, 2);
	assert_int_equal(r.f.call[1].method, 35);
	k = (void *)sli_msg_unpack(
	    &sluice__v1__process_kill_request__descriptor,
	    sli_slice_of(r.f.call[1].req, r.f.call[1].req_len), &r.a, NULL);
	assert_int_equal(k->pid, 9);
	assert_int_equal(k->signal, SIGINT);
	finish(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_exit_is_no_success),
	    cmocka_unit_test(output_and_exit),
	    cmocka_unit_test(exit_then_cut),
	    cmocka_unit_test(stdin_pushes_back_and_arrives_whole),
	    cmocka_unit_test(signal_overtakes_stdin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
