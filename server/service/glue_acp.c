/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the ACP engine to VMs and history: what a session asks of the world.
 * No rule of ACP stands here. */
#include "service/room.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <signal.h>
#include <string.h>

/* An agent being started: found again by id, for it may end meanwhile. */
struct starting {
	struct svc *svc;
	char session[SLI_ID_MAX];
	uint64_t tenant;
	uint32_t generation;
};

struct running {
	struct starting who;
};

static struct acp_session *
find(const struct starting *st)
{
	return svc_session_acp(st->svc, st->session);
}

static void
agent_ended(void *ctx, const struct vm_exit *st)
{
	struct running *r = ctx;
	struct acp_session *s = find(&r->who);
	if (s) {
		struct svc_session *u = acp_session_user(s);
		if (u->generation == r->who.generation)
			u->pid = 0;
		acp_agent_exited(s, r->who.generation, st->code, st->signal);
	}
	sli_free(r);
}

static void
agent_up(void *ctx, struct vm_proc *proc, const struct sli_errinfo *ei)
{
	struct starting *st = ctx;
	struct acp_session *s = find(st);
	struct svc_session *u = NULL;
	struct running *r = NULL;
	int fds[3];

	if (!proc) {
		if (s)
			acp_agent_failed(s, st->generation, ei);
		goto out;
	}
	r = s ? sli_zalloc(sizeof(*r)) : NULL;
	if (!r) {
		struct sli_errinfo oom = {0};
		vm_proc_kill_tree(proc);
		(void)sli_fail(&oom, SLI_E_NOMEM, 0, "agent", "out of memory");
		if (s)
			acp_agent_failed(s, st->generation, &oom);
		goto out;
	}
	r->who = *st;
	vm_proc_on_exit(proc, agent_ended, r);
	u = acp_session_user(s);
	if (u->unwanted >= st->generation) {
		/* Killed while it started: its stdio closes with the return. */
		vm_proc_kill_tree(proc);
		goto out;
	}
	vm_proc_take_stdio(proc, fds);
	u->pid = vm_proc_pid(proc);
	u->generation = st->generation;
	acp_agent_started(s, st->generation, fds, u->pid);
out:
	sli_free(st);
}

/* The command of a session: a registered agent's or the bare one. */
static const char *const *
command(struct svc *svc, const Sluice__V1__SessionOpenRequest *o)
{
	if (o->how_case == SLUICE__V1__SESSION_OPEN_REQUEST__HOW_COMMAND)
		return (const char *const *)o->command->argv;
	for (unsigned i = 0; i < svc->cfg.nagents; i++)
		if (strcmp(svc->cfg.agents[i].name, o->agent) == 0)
			return svc->cfg.agents[i].argv;
	return NULL;
}

/* Everything that vm_exec needs; argv and env are copied there. */
static enum sli_err
launch(struct svc *svc, struct svc_session *u, struct vm *vm,
    struct starting *st, struct sli_errinfo *ei)
{
	const Sluice__V1__SessionOpenRequest *o = u->open;
	const char *const *argv = command(svc, o);
	const char **av = NULL;
	struct vm_kv *env = NULL;
	size_t n = 0;
	if (!argv) {
		enum sli_err e = sli_fail(ei, SLI_E_NOT_FOUND, 0, "agent",
		    "agent \"%.40s\" is no longer registered", o->agent);
		sli_errinfo_reason(ei, "agent_unknown");
		return e;
	}
	if (o->how_case == SLUICE__V1__SESSION_OPEN_REQUEST__HOW_COMMAND)
		n = o->command->n_argv;
	else
		while (argv[n])
			n++;
	av = sli_calloc(n + 1, sizeof(*av));
	env = sli_calloc(o->n_env + 1, sizeof(*env));
	if (!av || !env) {
		sli_free(av);
		sli_free(env);
		return sli_fail(ei, SLI_E_NOMEM, 0, "agent", "out of memory");
	}
	memcpy(av, argv, n * sizeof(*av));
	for (size_t i = 0; i < o->n_env; i++)
		env[i] = (struct vm_kv){o->env[i]->key, o->env[i]->value};
	struct vm_exec_spec spec = {
	    .argv = av,
	    .env = env,
	    .nenv = (unsigned)o->n_env,
	    .cwd = o->cwd[0] ? o->cwd : NULL,
	    .flags = VM_EXEC_RAW | VM_EXEC_AWAKE,
	    .session = u->id,
	};
	vm_exec(vm, &spec, agent_up, st);
	sli_free(env);
	sli_free(av);
	return SLI_OK;
}

static void
do_spawn(void *ctx, struct acp_session *s, uint32_t generation)
{
	struct svc *svc = ctx;
	struct svc_session *u = acp_session_user(s);
	struct sli_principal self = svc_self(u->tenant);
	struct sli_errinfo ei = {0};
	struct vm *vm = vm_find(svc->vms, &self, u->vm);
	struct starting *st = sli_zalloc(sizeof(*st));
	u->acp = s;
	if (!st) {
		(void)sli_fail(&ei, SLI_E_NOMEM, 0, "agent", "out of memory");
	} else if (!vm) {
		(void)sli_fail(&ei, SLI_E_NOT_FOUND, 0, "agent",
		    "its VM has been deleted");
		sli_errinfo_reason(&ei, "vm_deleted");
	} else {
		st->svc = svc;
		st->tenant = u->tenant;
		st->generation = generation;
		sli_strlcpy(st->session, u->id, sizeof(st->session));
		if (launch(svc, u, vm, st, &ei) == SLI_OK)
			return;
	}
	acp_agent_failed(s, generation, &ei);
	sli_free(st);
}

static struct vm_proc *
agent_proc(struct svc *svc, struct acp_session *s, uint32_t generation)
{
	struct svc_session *u = acp_session_user(s);
	struct sli_principal self = svc_self(u->tenant);
	if (u->pid == 0 || u->generation != generation)
		return NULL;
	struct vm *vm = vm_find(svc->vms, &self, u->vm);
	return vm ? vm_proc_find(vm, u->pid) : NULL;
}

static void
do_kill(void *ctx, struct acp_session *s, uint32_t generation)
{
	struct vm_proc *p = agent_proc(ctx, s, generation);
	struct svc_session *u = acp_session_user(s);
	u->unwanted = SLI_MAX(u->unwanted, generation);
	if (p)
		vm_proc_kill_tree(p);
}

static void
do_term(void *ctx, struct acp_session *s, uint32_t generation)
{
	struct vm_proc *p = agent_proc(ctx, s, generation);
	if (p && vm_proc_signal(p, SIGTERM) != SLI_OK)
		sli_debug("agent", "term", "session=%s ended=1",
		    ((struct svc_session *)acp_session_user(s))->id);
}

static const char *
id_of(struct acp_session *s)
{
	return ((struct svc_session *)acp_session_user(s))->id;
}

static void
do_commit(void *ctx, struct acp_session *s, const struct sli_record *recs,
    unsigned n, int barrier, acp_commit_fn *done, void *done_ctx)
{
	struct svc *svc = ctx;
	store_commit(svc->store, id_of(s), recs, n,
	    barrier ? STORE_BARRIER : 0u, done, done_ctx);
}

static uint64_t
do_part_begin(void *ctx, struct acp_session *s)
{
	struct svc *svc = ctx;
	return store_part_begin(svc->store, id_of(s));
}

static void
do_part_append(
    void *ctx, struct acp_session *s, uint64_t set, struct sli_slice bytes)
{
	struct svc *svc = ctx;
	(void)s;
	store_part_append(svc->store, set, bytes);
}

static void
do_part_drop(void *ctx, struct acp_session *s, uint64_t set)
{
	struct svc *svc = ctx;
	(void)s;
	store_part_drop(svc->store, set);
}

struct back {
	acp_page_fn *done;
	void *ctx;
};

static void
page_done(
    void *ctx, const struct store_page *page, const struct sli_errinfo *ei)
{
	struct back *b = ctx;
	struct acp_page out = {0};
	if (page) {
		out.ev = page->ev;
		out.n = page->n;
	}
	b->done(b->ctx, &out, ei);
	sli_free(b);
}

static void
do_page_back(void *ctx, struct acp_session *s, uint64_t from, acp_page_fn *done,
    void *done_ctx)
{
	struct svc *svc = ctx;
	struct back *b = sli_zalloc(sizeof(*b));
	if (!b) {
		struct sli_errinfo ei = {0};
		(void)sli_fail(&ei, SLI_E_NOMEM, 0, "agent", "out of memory");
		done(done_ctx, NULL, &ei);
		return;
	}
	b->done = done;
	b->ctx = done_ctx;
	uint64_t low = 0, head = 0;
	if (from == 0 &&
	    store_range(svc->store, id_of(s), &low, &head) == SLI_OK)
		from = head;
	store_page(
	    svc->store, id_of(s), from, 1, 256, 256 * 1024, page_done, b);
}

struct purging {
	struct svc_session *user;
	acp_commit_fn *done;
	void *ctx;
};

static void
purge_done(void *ctx, uint64_t seq, const struct sli_errinfo *ei)
{
	struct purging *p = ctx;
	p->done(p->ctx, seq, ei);
	if (ei->code == SLI_OK)
		svc_session_free(p->user);
	sli_free(p);
}

static void
do_purge(void *ctx, struct acp_session *s, acp_commit_fn *done, void *done_ctx)
{
	struct svc *svc = ctx;
	struct purging *p = sli_zalloc(sizeof(*p));
	if (!p) {
		struct sli_errinfo ei = {0};
		(void)sli_fail(&ei, SLI_E_NOMEM, 0, "session", "out of memory");
		done(done_ctx, 0, &ei);
		return;
	}
	p->user = acp_session_user(s);
	p->done = done;
	p->ctx = done_ctx;
	store_del_session(svc->store, id_of(s), purge_done, p);
}

static void
do_changed(void *ctx, struct acp_session *s)
{
	struct acp_info info;
	(void)ctx;
	acp_session_info(s, &info);
	sli_debug("session", "changed", "session=%s state=%d turn=%llu",
	    info.id, info.state, (unsigned long long)info.turn);
}

const struct acp_sink svc_acp_sink = {
    .spawn = do_spawn,
    .kill = do_kill,
    .term = do_term,
    .commit = do_commit,
    .part_begin = do_part_begin,
    .part_append = do_part_append,
    .part_drop = do_part_drop,
    .page_back = do_page_back,
    .purge = do_purge,
    .changed = do_changed,
};

void
svc_store_pressure(void *ctx, const char *sid, int full)
{
	struct svc *svc = ctx;
	struct acp_session *s;
	struct svc_session *u;
	size_t pos = 0;
	if (sid) {
		s = svc_session_acp(svc, sid);
		if (s)
			acp_pressure(s, full);
		return;
	}
	while ((u = sli_map_next(svc->sessions, &pos)) != NULL) {
		s = svc_session_acp(svc, u->id);
		if (s)
			acp_pressure(s, full);
	}
}
