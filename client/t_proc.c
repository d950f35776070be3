/* SPDX-License-Identifier: Apache-2.0 */
/* Typed calls on the processes of a VM: list and kill. */
#include "typed.h"

#include "sluice/v1/processes.pb-c.h"

static enum sli_err
give_proc(const struct sli_typed *t, const ProtobufCMessage *pm,
    struct sli_arena *a, const struct sluice_error *err)
{
	const Sluice__V1__ProcessInfo *m = (const void *)pm;
	sluice_proc_fn *fn = (sluice_proc_fn *)t->fn;
	struct sluice_proc p = {.size = sizeof(p)};
	struct sluice_exit ex;

	if (!m) {
		fn(t->arg, NULL, err);
		return SLI_OK;
	}
	p.pid = m->pid;
	p.detached = m->detached ? 1 : 0;
	p.state = m->state;
	p.session = m->session;
	p.argv = sli_strs(a, m->argv, m->n_argv);
	if (!p.argv)
		return SLI_E_NOMEM;
	if (m->exit) {
		ex = sli_exit_convert(m->exit);
		p.exit = &ex;
	}
	p.started_ms = m->started_ms;
	p.output_start = m->output_start;
	p.output_end = m->output_end;
	fn(t->arg, &p, NULL);
	return SLI_OK;
}

int
sluice_ps(sluice_client *c, const char *vm, sluice_proc_fn *fn, void *arg,
    sluice_stream **ret_s, struct sluice_error *err)
{
	Sluice__V1__ProcessListRequest req =
	    SLUICE__V1__PROCESS_LIST_REQUEST__INIT;
	const struct sli_typed t = {
	    .fn = (void (*)(void))fn,
	    .arg = arg,
	    .desc = &sluice__v1__process_info__descriptor,
	    .give = give_proc,
	};

	req.vm = sli_pb_str(vm);
	return sli_typed_call(
	    c, "sluice.v1.Processes/List", &req.base, NULL, &t, ret_s, err);
}

int
sluice_kill(sluice_client *c, const char *vm, uint32_t pid, int32_t sig,
    sluice_done_fn *fn, void *arg, sluice_stream **ret_s,
    struct sluice_error *err)
{
	Sluice__V1__ProcessKillRequest req =
	    SLUICE__V1__PROCESS_KILL_REQUEST__INIT;
	const struct sli_typed t = sli_typed_done(fn, arg);

	req.vm = sli_pb_str(vm);
	req.pid = pid;
	req.signal = sig;
	return sli_typed_call(
	    c, "sluice.v1.Processes/Kill", &req.base, NULL, &t, ret_s, err);
}
