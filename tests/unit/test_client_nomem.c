/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Every allocation of libsluice fails once: each call ends with an error or its
 * answer, nothing leaks, nothing hangs. The server is the fake one in a process
 * of its own, so that only the client is short of memory. */
#include "unit.h"

#include "fakesrv.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the server's process ------------------------------------------------*/

/* VmInfo{vm "x"}; EventMessage{event{seq 1, length 3}} and its one part. */
static const uint8_t vm_info[] = {0x0a, 1, 'x'};
static const uint8_t event[] = {0x12, 4, 0x08, 1, 0x38, 3};
static const uint8_t part[] = {
    0x1a, 11, 0x08, 1, 0x18, 3, 0x20, 1, 0x2a, 3, 'a', 'b', 'c'};

static void
answer(struct fake *f, const struct fake_call *k)
{
	switch (k->method) {
	case 18: /* Vms/List */
		fake_send(f, k->sid, vm_info, sizeof(vm_info));
		break;
	case 58: /* Subscribe */
		fake_send(f, k->sid, event, sizeof(event));
		fake_send(f, k->sid, part, sizeof(part));
		break;
	default:
		break;
	}
	/* Empty bodies are valid messages of every type. */
	fake_ok(f, k->sid, "", 0);
}

static void
serve(struct fake *f)
{
	for (;;) {
		struct pollfd p[2] = {
		    {.fd = f->lfd, .events = POLLIN},
		    {.fd = f->fd,  .events = POLLIN}
                };
		int was_open = f->fd >= 0;

		(void)poll(p, 2, sli_buf_len(&f->tx) ? 1 : 1000);
		while (fake_step(f))
			for (; f->calls; f->calls--)
				answer(f, &f->call[f->calls - 1]);
		if (was_open && f->fd < 0)
			for (size_t i = 0; i < FAKE_SIDS_MAX; i++) {
				sli_buf_reset(&f->st[i].in);
				sli_buf_reset(&f->st[i].out);
			}
	}
}

/* --- the client ----------------------------------------------------------*/

struct seen {
	int items, ends;
};

static void
on_vm(void *arg, const struct sluice_vm *vm, const struct sluice_error *err)
{
	struct seen *x = arg;

	(void)err;
	if (vm)
		x->items++;
	else
		x->ends++;
}

static void
on_event(
    void *arg, sluice_stream *s, const struct sluice_event *ev, sluice_msg *m)
{
	struct seen *x = arg;

	(void)s;
	assert_int_equal(ev->body_len, 3);
	assert_memory_equal(ev->body, "abc", 3);
	x->items++;
	sluice_msg_done(m);
}

static void
on_end(void *arg, sluice_stream *s, const struct sluice_error *err)
{
	(void)s;
	(void)err;
	((struct seen *)arg)->ends++;
}

static void
on_turn(void *arg, const struct sluice_turn *t, const struct sluice_error *err)
{
	(void)err;
	if (!t)
		((struct seen *)arg)->ends++;
}

/* 1 when the call succeeded with what it must bring, 0 when memory was out; a
 * started call has told its end exactly once. */
static int
fine(int e, const struct seen *x, int items)
{
	assert_in_range(x->ends, 0, 1);
	if (e == SLUICE_OK) {
		assert_int_equal(x->ends, 1);
		assert_int_equal(x->items, items);
		return 1;
	}
	assert_true(e == SLUICE_E_NOMEM || e == SLUICE_E_INTERRUPTED ||
		    e == SLUICE_E_RESOURCE_EXHAUSTED || e == SLUICE_E_CLOSED);
	return 0;
}

static int
all_calls(sluice_client *c)
{
	static char long_text[100000];
	const struct sluice_event_handler h = {
	    .size = sizeof(h), .on_event = on_event, .on_end = on_end};
	struct seen list = {0}, sub = {0}, turn = {0};
	void *body;
	size_t n;
	int e;

	e = sluice_call_wait(
	    c, "sluice.v1.Server/Echo", "x", 1, NULL, &body, &n, NULL);
	if (e != SLUICE_OK)
		return 0;
	sluice_result_free(body);
	memset(long_text, 'x', sizeof(long_text));
	return fine(sluice_vm_list(c, on_vm, &list, NULL, NULL), &list, 1) &&
	       fine(sluice_subscribe(c, "s", 0, &h, &sub, NULL, NULL), &sub,
		   1) &&
	       fine(sluice_prompt(c, "s", long_text, sizeof(long_text), NULL,
			on_turn, &turn, NULL, NULL),
		   &turn, 0);
}

static int
body(void *url)
{
	struct sluice_options o;
	sluice_client *c;
	int r;

	SLUICE_INIT(o);
	o.connect_timeout_ms = 5000;
	if (sluice_open(url, &o, &c, NULL) != SLUICE_OK)
		return 0;
	r = all_calls(c);
	sluice_close(c);
	return r;
}

static void
each_allocation_fails(void **state)
{
	static struct fake f;
	int status;
	pid_t pid;

	(void)state;
	fake_start(&f);
	pid = fork();
	if (pid == 0)
		serve(&f);
	unit_fail_each_alloc(body, f.url);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* Killed by us, not fallen over by itself. */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	fake_stop(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_allocation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
