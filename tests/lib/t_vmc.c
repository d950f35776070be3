/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of processes and a world with one VM; see t_vmc.h. */
#include "unit.h"

#include "t_sock.h"
#include "t_vmc.h"

#include "base/fd.h"
#include "base/limits.h"

#include <signal.h>
#include <unistd.h>

void
t_vmc_pull(struct t_vmc *c)
{
	struct vm_out o;

	for (;;) {
		vm_reader_next(&c->r, 32768, &o);
		if (o.kind == VM_OUT_NONE)
			return;
		if (o.kind == VM_OUT_EXIT) {
			c->exit = *o.exit;
			c->exited++;
			return;
		}
		if (o.kind == VM_OUT_GAP) {
			c->gaps++;
			continue;
		}
		assert_int_equal(c->exited, 0);
		if (c->n + o.data.n > c->cap) {
			c->cap = 2 * (c->n + o.data.n);
			c->data = sli_realloc(c->data, c->cap);
			assert_non_null(c->data);
		}
		memcpy(c->data + c->n, o.data.p, o.data.n);
		c->n += o.data.n;
		vm_reader_ack(&c->r, o.offset + o.data.n);
	}
}

void
t_vmc_ready(struct vm_reader *r)
{
	struct t_vmc *c = SLI_CONTAINER_OF(r, struct t_vmc, r);

	if (!c->idle)
		t_vmc_pull(c);
}

static void
on_exit_raw(void *ctx, const struct vm_exit *st)
{
	struct t_vmc *c = ctx;

	c->exit = *st;
	c->exited++;
}

static void
on_started(void *ctx, struct vm_proc *p, const struct sli_errinfo *ei)
{
	struct t_vmc *c = ctx;

	assert_false(c->answered);
	c->answered = 1;
	c->proc = p;
	if (ei)
		c->ei = *ei;
	if (p && c->raw[0] == 0) {
		vm_reader_attach(p, &c->r, 0, 1, t_vmc_ready);
	} else if (p) {
		vm_proc_take_stdio(p, c->raw);
		vm_proc_on_exit(p, on_exit_raw, c);
	}
}

void
t_vmc_exec_spec(struct vm *vm, struct t_vmc *c, const struct vm_exec_spec *s)
{
	memset(c, 0, sizeof(*c));
	if (s->flags & VM_EXEC_RAW)
		c->raw[0] = -1;
	vm_exec(vm, s, on_started, c);
	assert_false(c->answered);
}

void
t_vmc_exec(struct vm *vm, struct t_vmc *c, unsigned flags, uint64_t timeout_ms)
{
	static const char *const argv[] = {"cmd", "arg", NULL};
	struct vm_exec_spec s = {
	    .argv = argv, .flags = flags, .timeout_ms = timeout_ms};

	t_vmc_exec_spec(vm, c, &s);
}

void
t_vmc_free(struct t_vmc *c)
{
	vm_reader_detach(&c->r);
	sli_free(c->data);
	for (int i = 0; i < 3; i++)
		if (c->raw[i] > 2)
			sli_fd_close(&c->raw[i]);
}

int
t_world_new(void **state)
{
	return t_world_new_with(state, SLI_L_VM_EXEC_DRAIN, T_DRAIN_MS);
}

int
t_world_new_with(void **state, int limit, uint64_t value)
{
	struct t_world *w = sli_zalloc(sizeof(*w));

	w->fds = t_fds();
	t_vm_init_with(&w->t, limit, value);
	w->vm = t_vm_running(&w->t, "vm_1", &w->pid1);
	*state = w;
	return 0;
}

int
t_world_free(void **state)
{
	struct t_world *w = *state;
	struct vm_stats st;

	vm_stats(w->t.e, &st);
	assert_int_equal(st.ring_held, 0);
	t_pid1_close(&w->pid1);
	t_vm_fini(&w->t);
	assert_int_equal(t_fds(), w->fds);
	sli_free(w);
	return 0;
}

/* Started and attached. */
void
t_vmc_start(struct t_world *w, struct t_vmc *c, struct t_exec *x,
    unsigned flags, uint64_t timeout_ms)
{
	t_vmc_exec(w->vm, c, flags, timeout_ms);
	t_pid1_exec(&w->t, &w->pid1, x);
	t_pid1_say(&w->pid1, GUEST_STARTED, x->id, 40 + (int)x->id, 0);
	t_vm_until(&w->t, &c->answered);
	assert_non_null(c->proc);
}

void
t_vmc_put(const struct t_exec *x, int fd, const char *s)
{
	assert_int_equal(write(x->fds[fd], s, strlen(s)), strlen(s));
}

void
t_vmc_is(const struct t_vmc *c, const char *want)
{
	assert_int_equal(c->n, strlen(want));
	assert_memory_equal(c->data, want, c->n);
}

void
t_vmc_wants_death(struct t_world *w, struct t_vmc *c)
{
	t_vm_deleted(&w->t);
	for (int i = 0; i < 100 && w->t.states[VM_FAILED] == 0; i++)
		loop_turn(w->t.l, 100);
	assert_int_equal(vm_state(w->vm), VM_FAILED);
	if (!c)
		return;
	t_vm_until(&w->t, &c->exited);
	assert_int_equal(c->exit.signal, SIGKILL);
	assert_int_equal(c->exited, 1);
	t_vmc_free(c);
}
