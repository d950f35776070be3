/* SPDX-License-Identifier: Apache-2.0 */
/* The rig's loop and the process of its peer, behind real pipes. */
#include "t_acp.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the process ---------------------------------------------------------*/

static void
sink_spawn(void *ctx, struct acp_session *s, uint32_t generation)
{
	struct rig *r = ctx;

	(void)s;
	r->spawned = generation;
}

static void
sink_kill(void *ctx, struct acp_session *s, uint32_t generation)
{
	struct rig *r = ctx;

	(void)s;
	assert_true(generation > 0 && generation <= r->spawned);
	r->kills++;
}

static void
sink_term(void *ctx, struct acp_session *s, uint32_t generation)
{
	struct rig *r = ctx;

	(void)s;
	(void)generation;
	r->terms++;
}

static void
sink_page_back(void *ctx, struct acp_session *s, uint64_t from, acp_page_fn *fn,
    void *done_ctx)
{
	struct rig *r = ctx;

	(void)s;
	assert_null(r->page_fn);
	r->page_from = from ? from : r->nev;
	r->page_fn = fn;
	r->page_ctx = done_ctx;
}

static void
sink_purge(void *ctx, struct acp_session *s, acp_commit_fn *done, void *dctx)
{
	struct rig *r = ctx;
	const struct sli_errinfo ok = {.code = SLI_OK};

	(void)s;
	r->purged = 1;
	done(dctx, 0, &ok);
	r->s = NULL;
}

static void
sink_changed(void *ctx, struct acp_session *s)
{
	struct rig *r = ctx;
	struct acp_info i;

	/* what is shown is committed */
	acp_session_info(s, &i);
	if (i.state == SLI_SS_DELETED || r->loose)
		return;
	assert_int_equal(i.state, r->state);
	assert_int_equal(i.head, r->nev);
}

static const struct acp_sink sink = {
    .spawn = sink_spawn,
    .kill = sink_kill,
    .term = sink_term,
    .commit = rig_sink_commit,
    .part_begin = rig_sink_part_begin,
    .part_append = rig_sink_part_append,
    .part_drop = rig_sink_part_drop,
    .page_back = sink_page_back,
    .purge = sink_purge,
    .changed = sink_changed,
};

static void
peer_closes(struct rig *r)
{
	sli_fd_close(&r->in);
	sli_fd_close(&r->out);
	sli_fd_close(&r->err);
	r->alive = 0;
	r->nrx = 0;
}

void
peer_exits(struct rig *r, int code, int sig)
{
	uint32_t g = r->alive;

	peer_closes(r);
	acp_agent_exited(r->s, g, code, sig);
}

static void
peer_starts(struct rig *r)
{
	int in[2], out[2], err[2], fds[3];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	r->in = in[0];
	r->out = out[1];
	r->err = err[1];
	assert_int_equal(sli_fd_nonblock(r->in, NULL), SLI_OK);
	assert_int_equal(sli_fd_nonblock(r->out, NULL), SLI_OK);
	fds[0] = in[1];
	fds[1] = out[0];
	fds[2] = err[0];
	r->alive = r->spawned;
	r->kills = r->terms = 0;
	acp_agent_started(r->s, r->spawned, fds, 4711);
}

/* What the world does between two turns of the loop. */
void
rig_moves(struct rig *r)
{
	char tmp[65536];
	uint64_t held;

	if (!r->manual && r->first)
		rig_commit(r, 0);
	if (r->page_fn && !r->manual && !r->no_pages)
		rig_page(r);
	if (r->alive && r->kills && !r->undying)
		peer_exits(r, 0, SIGKILL);
	if (!r->alive && r->spawned && !r->no_spawn && r->s) {
		if (r->spawn_fails) {
			struct sli_errinfo ei;
			uint32_t g = r->spawned;

			r->spawned = 0;
			sli_fail(&ei, SLI_E_SANDBOX, 0, "rig", "no sandbox");
			acp_agent_failed(r->s, g, &ei);
		} else if (r->spawned > r->generation_seen) {
			r->generation_seen = r->spawned;
			peer_starts(r);
		}
	}
	while (r->alive && !r->mute) {
		ssize_t n = read(r->in, tmp, sizeof(tmp));

		if (n <= 0)
			break;
		if (r->nrx + (size_t)n > r->rx_cap) {
			r->rx_cap = (r->nrx + (size_t)n) * 2;
			r->rx = realloc(r->rx, r->rx_cap);
			assert_non_null(r->rx);
		}
		memcpy(r->rx + r->nrx, tmp, (size_t)n);
		r->nrx += (size_t)n;
	}
	held = acp_held(r->acp) + r->uncommitted;
	r->max_held = SLI_MAX(r->max_held, held);
}

void
rig_turns(struct rig *r, int ms)
{
	int64_t end = sli_mono_ms() + ms;

	do {
		loop_turn(r->loop, 1);
		rig_moves(r);
	} while (sli_mono_ms() < end);
}

void
rig_settle(struct rig *r)
{
	for (int i = 0; i < 12; i++) {
		loop_turn(r->loop, 0);
		rig_moves(r);
	}
}

void
rig_init(struct rig *r)
{
	struct sigaction ign = {.sa_handler = SIG_IGN};

	memset(r, 0, sizeof(*r));
	assert_int_equal(sigaction(SIGPIPE, &ign, NULL), 0);
	r->loop = loop_new(NULL);
	assert_non_null(r->loop);
	r->acp = acp_new(r->loop, &sink, r);
	assert_non_null(r->acp);
	r->who = (struct sli_principal){.tenant = 7, .role = SLI_ROLE_USER};
	sli_limits_init(&r->limits);
	r->in = r->out = r->err = -1;
	r->ev = calloc(RIG_EVENTS, sizeof(*r->ev));
	assert_non_null(r->ev);
	r->policy = SLI_PP_ASK;
	r->state = SLI_SS_OPENING;
}

void
rig_fini(struct rig *r)
{
	/* everything that was handed over comes back, as from a store that
	 * closes */
	acp_free(r->acp);
	r->manual = r->full = 0;
	r->s = NULL;
	rig_commit(r, 0);
	if (r->page_fn)
		rig_page(r);
	peer_closes(r);
	rig_store_fini(r);
	loop_free(r->loop);
	free(r->rx);
	free(r->line);
}

static void
open_it(struct rig *r, int restored)
{
	struct acp_open o = {
	    .owner = r->who,
	    .agent = "fake",
	    .cwd = "/work",
	    .policy = r->policy,
	    .limits = r->limits,
	    .created_ms = 1,
	    .restored = restored,
	    .state = r->state,
	    .reason_code = r->reason_code,
	    .reason = r->reason,
	    .agent_session = r->agent_session,
	    .generation = r->generation,
	    .head = r->nev,
	    .user = r,
	};

	(void)snprintf(o.id, sizeof(o.id), "s1");
	(void)snprintf(o.vm, sizeof(o.vm), "v1");
	if (r->nturn) {
		o.turn = r->turn[r->nturn - 1].no;
		o.outcome = r->turn[r->nturn - 1].outcome;
	}
	assert_int_equal(acp_session_open(r->acp, &o, &r->s, NULL), SLI_OK);
}

void
rig_open(struct rig *r)
{
	open_it(r, 0);
	rig_settle(r);
}

void
rig_restart(struct rig *r)
{
	struct acp_left left[32];
	uint64_t pending[32];
	unsigned n = 0, m = 0;

	acp_free(r->acp);
	/* what was not committed dies with the server */
	while (r->first) {
		r->full = 1;
		rig_commit(r, 0);
	}
	r->full = 0;
	peer_closes(r);
	r->acp = acp_new(r->loop, &sink, r);
	assert_non_null(r->acp);
	r->spawned = r->generation_seen = 0;
	open_it(r, 1);
	for (unsigned i = 0; i < r->nturn; i++)
		if (!r->turn[i].outcome)
			left[n++] = (struct acp_left){
			    r->turn[i].no, r->turn[i].started};
	for (unsigned i = 0; i < r->nperm; i++)
		if (r->perm[i].state == SLI_PS_PENDING)
			pending[m++] = r->perm[i].request;
	acp_recover(r->s, left, n, pending, m);
	rig_settle(r);
}
