/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The typed calls: what goes out is the protobuf of the .proto, what comes back
 * is the struct of the header; ends, errors with their limits, broken answers,
 * stdin pieces, prompts longer than a message. */
#include "unit.h"

#include "fakesrv.h"
#include "wire/guard.h"

#include <string.h>

#include "sluice/v1/core.pb-c.h"
#include "sluice/v1/processes.pb-c.h"
#include "sluice/v1/server.pb-c.h"
#include "sluice/v1/sessions.pb-c.h"
#include "sluice/v1/vms.pb-c.h"

struct rig {
	struct fake f;
	sluice_client *c;
	struct sli_arena a;
	sluice_stream *s;
	int items, ended;
	struct sluice_error err;
	char text[128];
	uint64_t u64;
	uint32_t pid;
	struct sluice_exit exit;
	sluice_msg *held;
	size_t bytes;
	int writable;
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

static size_t
pack(const void *msg, uint8_t *dst)
{
	const ProtobufCMessage *m = msg;

	assert_true(protobuf_c_message_get_packed_size(m) <= 65536);
	return protobuf_c_message_pack(m, dst);
}

static void
answer(struct rig *r, uint32_t sid, const void *msg)
{
	static uint8_t buf[65536];

	fake_ok(&r->f, sid, buf, pack(msg, buf));
}

static void
send_msg(struct rig *r, uint32_t sid, const void *msg)
{
	static uint8_t buf[65536];

	fake_send(&r->f, sid, buf, pack(msg, buf));
}

static void *
request(struct rig *r, int i, const ProtobufCMessageDescriptor *d)
{
	void *m;

	fake_turn(&r->f, r->c, NULL);
	assert_true(r->f.calls > i);
	m = sli_msg_unpack(d,
	    sli_slice_of(r->f.call[i].req, r->f.call[i].req_len), &r->a, NULL);
	assert_non_null(m);
	return m;
}

static void
ended(struct rig *r, const struct sluice_error *err)
{
	assert_int_equal(r->ended, 0);
	r->ended = 1;
	if (err)
		r->err = *err;
}

/* --- VMs -----------------------------------------------------------------*/

static void
on_vm(void *arg, const struct sluice_vm *vm, const struct sluice_error *err)
{
	struct rig *r = arg;

	if (!vm) {
		ended(r, err);
		return;
	}
	r->items++;
	assert_int_equal(vm->size, sizeof(*vm));
	assert_string_equal(vm->vm, "vm_1");
	assert_int_equal(vm->state, SLUICE_VM_RUNNING);
	assert_string_equal(vm->mounts[0]->target, "/mnt");
	assert_int_equal(vm->mounts[0]->read_only, 1);
	assert_null(vm->mounts[1]);
	assert_string_equal(vm->limits[0]->key, "vm.memory_bytes");
	assert_int_equal(vm->limits[0]->value, 99);
	assert_null(vm->limits[1]);
	assert_string_equal(vm->missing[0], "cgroup");
	assert_null(vm->missing[1]);
}

static void
fill_vm(Sluice__V1__VmInfo *vm)
{
	static Sluice__V1__VmMount m = SLUICE__V1__VM_MOUNT__INIT;
	static Sluice__V1__VmMount *ms[] = {&m};
	static Sluice__V1__VmLimit l = SLUICE__V1__VM_LIMIT__INIT;
	static Sluice__V1__VmLimit *ls[] = {&l};
	static char *missing[] = {(char *)(uintptr_t) "cgroup"};

	m.target = (char *)(uintptr_t) "/mnt";
	m.read_only = 1;
	l.key = (char *)(uintptr_t) "vm.memory_bytes";
	l.value = 99;
	sluice__v1__vm_info__init(vm);
	vm->vm = (char *)(uintptr_t) "vm_1";
	vm->state = SLUICE__V1__VM_STATE__VM_STATE_RUNNING;
	vm->mounts = ms;
	vm->n_mounts = 1;
	vm->limits = ls;
	vm->n_limits = 1;
	vm->missing = missing;
	vm->n_missing = 1;
}

static void
vm_create_there_and_back(void **state)
{
	struct sluice_mount m;
	const struct sluice_mount *const mounts[] = {&m, NULL};
	const char *const env[] = {"A=1", "B==", NULL};
	const char *const limits[] = {"vm.memory_bytes=64MiB", NULL};
	struct sluice_vm_spec spec;
	Sluice__V1__VmCreateRequest *req;
	Sluice__V1__VmInfo vm;
	struct rig r;

	(void)state;
	start(&r);
	SLUICE_INIT(m);
	m.source = "/src";
	m.target = "/mnt";
	SLUICE_INIT(spec);
	spec.name = "n";
	spec.mounts = mounts;
	spec.env = env;
	spec.limits = limits;
	spec.key = "key-1";
	assert_int_equal(
	    sluice_vm_create(r.c, &spec, on_vm, &r, &r.s, NULL), SLUICE_OK);
	req = request(&r, 0, &sluice__v1__vm_create_request__descriptor);
	assert_int_equal(r.f.call[0].method, 16);
	assert_string_equal(r.f.call[0].key, "key-1");
	assert_string_equal(req->name, "n");
	assert_int_equal(req->n_env, 2);
	assert_string_equal(req->env[1]->key, "B");
	assert_string_equal(req->env[1]->value, "=");
	assert_string_equal(req->limits[0]->value, "64MiB");
	assert_string_equal(req->mounts[0]->source, "/src");
	assert_int_equal(req->mounts[0]->read_only, 0);
	fill_vm(&vm);
	answer(&r, r.f.call[0].sid, &vm);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.items, 1);
	assert_int_equal(r.err.code, 0);
	finish(&r);
}

static void
bad_arguments_start_nothing(void **state)
{
	const char *const env[] = {"A=1", "novalue", NULL};
	struct sluice_vm_spec spec;
	struct sluice_error err = {.size = sizeof(err)};
	char newer[sizeof(spec) + 8];
	struct rig r;

	(void)state;
	start(&r);
	SLUICE_INIT(spec);
	spec.env = env;
	assert_int_equal(sluice_vm_create(r.c, &spec, on_vm, &r, &r.s, &err),
	    SLUICE_E_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "novalue"));
	spec.size = 0;
	assert_int_equal(sluice_vm_create(r.c, &spec, on_vm, &r, &r.s, &err),
	    SLUICE_E_INVALID_ARGUMENT);
	/* A struct of a newer header is fine while its news are not used. */
	memset(newer, 0, sizeof(newer));
	spec.size = sizeof(newer);
	memcpy(newer, &spec.size, sizeof(spec.size));
	assert_int_equal(
	    sluice_vm_create(r.c, (void *)newer, on_vm, &r, &r.s, &err),
	    SLUICE_OK);
	sluice_stream_free(r.s);
	r.s = NULL;
	newer[sizeof(newer) - 1] = 1;
	assert_int_equal(
	    sluice_vm_create(r.c, (void *)newer, on_vm, &r, &r.s, &err),
	    SLUICE_E_INVALID_ARGUMENT);
	assert_int_equal(sluice_session_open(r.c, NULL, NULL, NULL, &r.s, &err),
	    SLUICE_E_INVALID_ARGUMENT);
	assert_int_equal(r.ended, 0);
	finish(&r);
}

static void
lists_end_once(void **state)
{
	Sluice__V1__VmInfo vm;
	struct rig r;

	(void)state;
	start(&r);
	assert_int_equal(sluice_vm_list(r.c, on_vm, &r, &r.s, NULL), SLUICE_OK);
	(void)request(&r, 0, &sluice__v1__vm_list_request__descriptor);
	fill_vm(&vm);
	for (int i = 0; i < 3; i++)
		send_msg(&r, r.f.call[0].sid, &vm);
	fake_ok(&r.f, r.f.call[0].sid, "", 0);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.items, 3);
	assert_int_equal(r.err.code, 0);
	finish(&r);
}

static void
refusal_with_limits(void **state)
{
	static uint8_t buf[4096];
	Sluice__V1__Status st = SLUICE__V1__STATUS__INIT;
	Sluice__V1__LimitHit h = SLUICE__V1__LIMIT_HIT__INIT;
	Sluice__V1__LimitHit *hits[] = {&h};
	char *companions[] = {
	    (char *)(uintptr_t) "host.memory", (char *)(uintptr_t) "vm.disk"};
	struct rig r;

	(void)state;
	start(&r);
	assert_int_equal(
	    sluice_vm_create(r.c, NULL, on_vm, &r, &r.s, NULL), SLUICE_OK);
	fake_turn(&r.f, r.c, NULL);
	h.key = (char *)(uintptr_t) "vm.memory_bytes";
	h.scope = (char *)(uintptr_t) "server";
	h.requested = 7;
	h.limit = 5;
	h.companions = companions;
	h.n_companions = 2;
	st.code = SLUICE_E_HOST_CAPACITY;
	st.reason = (char *)(uintptr_t) "host_capacity";
	st.message = (char *)(uintptr_t) "no room";
	st.limits = hits;
	st.n_limits = 1;
	fake_fail(
	    &r.f, r.f.call[0].sid, SLUICE_E_HOST_CAPACITY, buf, pack(&st, buf));
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.err.code, SLUICE_E_HOST_CAPACITY);
	assert_string_equal(r.err.reason, "host_capacity");
	assert_string_equal(r.err.text, "no room");
	assert_int_equal(r.err.nhits, 1);
	assert_string_equal(r.err.hits[0].key, "vm.memory_bytes");
	assert_int_equal(r.err.hits[0].requested, 7);
	assert_string_equal(r.err.hits[0].companions, "host.memory vm.disk");
	finish(&r);
}

static void
broken_answers(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	assert_int_equal(
	    sluice_vm_get(r.c, "x", on_vm, &r, &r.s, NULL), SLUICE_OK);
	fake_turn(&r.f, r.c, NULL);
	fake_ok(&r.f, r.f.call[0].sid, "\xff\xff\xff", 3);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.err.code, SLUICE_E_MALFORMED);
	assert_int_equal(sluice_stream_wait(r.s, 0, NULL), SLUICE_E_MALFORMED);
	sluice_stream_free(r.s);
	r.ended = 0;
	assert_int_equal(sluice_vm_list(r.c, on_vm, &r, &r.s, NULL), SLUICE_OK);
	fake_turn(&r.f, r.c, NULL);
	fake_send(&r.f, r.f.call[1].sid, "\xff\xff\xff", 3);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.err.code, SLUICE_E_MALFORMED);
	assert_int_equal(r.items, 0);
	fake_turn(&r.f, r.c, NULL);
	assert_int_equal(r.f.st[r.f.call[1].sid].reset, 1);
	finish(&r);
}

static void
on_session(
    void *arg, const struct sluice_session *s, const struct sluice_error *err)
{
	struct rig *r = arg;

	if (!s) {
		ended(r, err);
		return;
	}
	r->items++;
	assert_string_equal(s->session, "s_1");
	assert_string_equal(s->chain, "00ff");
	assert_int_equal(s->state, SLUICE_SESSION_WAITING_PERMISSION);
	assert_int_equal(s->policy, SLUICE_POLICY_ALLOW_ALL);
	assert_int_equal(s->head, 1234567890123);
}

static void
session_open_there_and_back(void **state)
{
	const char *const argv[] = {"agent", "--flag", NULL};
	static uint8_t chain[] = {0, 255};
	struct sluice_session_spec spec;
	Sluice__V1__SessionOpenRequest *req;
	Sluice__V1__SessionInfo si = SLUICE__V1__SESSION_INFO__INIT;
	struct rig r;

	(void)state;
	start(&r);
	SLUICE_INIT(spec);
	spec.vm = "vm_1";
	spec.argv = argv;
	spec.policy = SLUICE_POLICY_ALLOW_ALL;
	assert_int_equal(
	    sluice_session_open(r.c, &spec, on_session, &r, &r.s, NULL),
	    SLUICE_OK);
	req = request(&r, 0, &sluice__v1__session_open_request__descriptor);
	assert_int_equal(
	    req->how_case, SLUICE__V1__SESSION_OPEN_REQUEST__HOW_COMMAND);
	assert_int_equal(req->command->n_argv, 2);
	assert_string_equal(req->command->argv[1], "--flag");
	si.session = (char *)(uintptr_t) "s_1";
	si.state = SLUICE__V1__SESSION_STATE__SESSION_STATE_WAITING_PERMISSION;
	si.policy = SLUICE__V1__PERMISSION_POLICY__PERMISSION_POLICY_ALLOW_ALL;
	si.chain = (ProtobufCBinaryData){2, chain};
	si.head = 1234567890123;
	answer(&r, r.f.call[0].sid, &si);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.items, 1);
	finish(&r);
}

static void
on_turn(void *arg, const struct sluice_turn *t, const struct sluice_error *err)
{
	struct rig *r = arg;

	if (!t) {
		ended(r, err);
		return;
	}
	r->items++;
	r->u64 = t->turn;
}

/* A prompt of 200 KiB: the first part is the request, the others follow, and
 * they are the content to the byte. */
static void
long_prompt_in_parts(void **state)
{
	static char content[200 * 1024];
	static uint8_t got[65536], whole[200 * 1024];
	Sluice__V1__PromptResponse rsp = SLUICE__V1__PROMPT_RESPONSE__INIT;
	Sluice__V1__PromptPart *p;
	uint64_t have = 0;
	struct rig r;
	uint32_t sid;
	int last = 0;
	long n;

	(void)state;
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (char)('a' + i % 23);
	start(&r);
	assert_int_equal(sluice_prompt(r.c, "s_1", content, sizeof(content),
			     NULL, on_turn, &r, &r.s, NULL),
	    SLUICE_OK);
	fake_turn(&r.f, r.c, NULL);
	sid = r.f.call[0].sid;
	assert_int_equal(r.f.call[0].end, 0);
	have = 32 * 1024; /* the request's part is longer than the fake keeps */
	while ((n = fake_take(&r.f, sid, got)) > 0) {
		assert_int_equal(last, 0);
		p = (void *)sli_msg_unpack(&sluice__v1__prompt_part__descriptor,
		    sli_slice_of(got, (size_t)n), &r.a, NULL);
		assert_non_null(p);
		assert_int_equal(p->offset, have);
		memcpy(whole + have, p->content.data, p->content.len);
		have += p->content.len;
		last = p->last;
		assert_int_equal(p->text, 1);
	}
	assert_int_equal(last, 1);
	assert_int_equal(have, sizeof(content));
	assert_memory_equal(
	    whole + 32768, content + 32768, sizeof(content) - 32768);
	assert_int_equal(r.f.st[sid].ended, 1);
	rsp.turn = 3;
	answer(&r, sid, &rsp);
	fake_turn(&r.f, r.c, &r.ended);
	assert_int_equal(r.u64, 3);
	finish(&r);
}

static void
short_prompt_in_one(void **state)
{
	struct sluice_prompt_options o;
	Sluice__V1__PromptPart *p;
	struct rig r;

	(void)state;
	start(&r);
	SLUICE_INIT(o);
	o.key = "k";
	o.queue = 1;
	assert_int_equal(
	    sluice_prompt(r.c, "s_1", "hi", 2, &o, on_turn, &r, &r.s, NULL),
	    SLUICE_OK);
	p = request(&r, 0, &sluice__v1__prompt_part__descriptor);
	assert_int_equal(r.f.call[0].end, 1);
	assert_string_equal(r.f.call[0].key, "k");
	assert_string_equal(p->session, "s_1");
	assert_int_equal(p->last, 1);
	assert_int_equal(p->queue, 1);
	assert_int_equal(p->content.len, 2);
	finish(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_arguments_start_nothing),
	    cmocka_unit_test(broken_answers),
	    cmocka_unit_test(refusal_with_limits),
	    cmocka_unit_test(vm_create_there_and_back),
	    cmocka_unit_test(lists_end_once),
	    cmocka_unit_test(session_open_there_and_back),
	    cmocka_unit_test(long_prompt_in_parts),
	    cmocka_unit_test(short_prompt_in_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
