/* SPDX-License-Identifier: Apache-2.0 */
/* The set of connections: configuration, listening, gauges, and the order in
 * which it all ends. Moves no bytes. */
#include "conn/conns.h"
#include "conn/conn.h"
#include "conn/dispatch.h"
#include "conn/listener.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>
#include <sys/resource.h>

static uint32_t
limit32(const struct sli_limits *ls, enum sli_limit l)
{
	return (uint32_t)sli_limits_get(ls, l);
}

static void
fill_mux_cfg(struct conns *cs, const struct conns_cfg *cfg)
{
	const struct sli_limits *ls = &cs->limits;
	struct sli_mux_cfg *m = &cs->mux_cfg;

	m->role = SLI_SERVER;
	m->max_frame = limit32(ls, SLI_L_WIRE_MAX_FRAME);
	m->max_streams = limit32(ls, SLI_L_WIRE_MAX_STREAMS);
	m->floor = limit32(ls, SLI_L_WIRE_FLOOR);
	m->pool = limit32(ls, SLI_L_WIRE_POOL);
	m->init_window = limit32(ls, SLI_L_WIRE_INIT_WINDOW);
	m->window_cap = sli_limits_get(ls, SLI_L_WIRE_WINDOW_CAP);
	m->keepalive_s = limit32(ls, SLI_L_WIRE_KEEPALIVE) / 1000;
	m->dead_ms = limit32(ls, SLI_L_WIRE_KEEPALIVE_DEAD);
	m->write_stall_ms = limit32(ls, SLI_L_WIRE_WRITE_STALL);
	m->ctl_hold = limit32(ls, SLI_L_WIRE_CONTROL_STOP);
	m->ctl_close = limit32(ls, SLI_L_WIRE_CONTROL_CLOSE);
	m->hello_max = limit32(ls, SLI_L_WIRE_HELLO);
	sli_snprintf(m->agent, sizeof(m->agent), "sluiced/%s", SLUICE_VERSION);
	memcpy(m->boot_id, cfg->boot_id, sizeof(m->boot_id));
}

/* Descriptors are shared with VMs and the store; connections get at most three
 * quarters, so that accept does not run into EMFILE first. */
static unsigned
connection_cap(const struct sli_limits *ls)
{
	uint64_t cap = sli_limits_get(ls, SLI_L_WIRE_MAX_CONNECTIONS);
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur / 4 * 3 < cap)
		cap = rl.rlim_cur / 4 * 3;
	return (unsigned)cap;
}

enum sli_err
conns_new(
    const struct conns_cfg *cfg, struct conns **ret, struct sli_errinfo *ei)
{
	struct conns *cs = sli_zalloc(sizeof(*cs));
	enum sli_err rc;

	if (!cs)
		return sli_fail(ei, SLI_E_NOMEM, 0, "conn.new", "no memory");
	cs->loop = cfg->loop;
	cs->limits = *cfg->limits;
	sli_list_init(&cs->conns);
	sli_list_init(&cs->done_reap.node);
	cs->max_conns = connection_cap(&cs->limits);
	fill_mux_cfg(cs, cfg);
	rc = auth_init(&cs->auth, cfg, ei);
	if (rc != SLI_OK)
		goto fail;
	cs->calls = dispatch_new(cs, cfg, ei);
	if (!cs->calls) {
		rc = ei ? ei->code : SLI_E_NOMEM;
		goto fail;
	}
	*ret = cs;
	return SLI_OK;
fail:
	sli_free(cs);
	return rc;
}

enum sli_err
conns_listen(struct conns *cs, const char *url, struct sli_errinfo *ei)
{
	struct sli_addr a;
	enum sli_err rc;

	if (cs->nlisteners == SLI_ARRAY_LEN(cs->listeners))
		return sli_fail(ei, SLI_E_RESOURCE_EXHAUSTED, 0, "conn.listen",
		    "more than %zu addresses", SLI_ARRAY_LEN(cs->listeners));
	rc = sli_addr_parse(url, &a, ei);
	if (rc != SLI_OK)
		return rc;
	if (a.kind == SLI_ADDR_TCP &&
	    (!cs->auth.insecure_loopback || !a.loopback))
		return sli_fail(ei, SLI_E_PERMISSION_DENIED, 0, "conn.listen",
		    "plain TCP is for loopback only, and only with "
		    "--insecure-loopback");
	/* Peer credentials are the gate, as they are for everybody. */
	a.shared = cs->auth.nuids > 0;
	rc = listener_new(cs, &a, &cs->listeners[cs->nlisteners], ei);
	if (rc == SLI_OK)
		cs->nlisteners++;
	return rc;
}

const char *
conns_url(const struct conns *cs, unsigned i, char *dst)
{
	if (i < cs->nlisteners)
		return sli_addr_format(
		    listener_addr(cs->listeners[i]), dst, SLI_URL_MAX);
	dst[0] = '\0';
	return dst;
}

static void
stop_listening(struct conns *cs)
{
	for (unsigned i = 0; i < cs->nlisteners; i++)
		listener_close(cs->listeners[i]);
	cs->nlisteners = 0;
}

void
conns_drain(struct conns *cs, uint32_t grace_ms)
{
	struct sli_list *it;

	stop_listening(cs);
	/* Closing only starts here; the list does not change in the walk. */
	sli_list_for_each (it, &cs->conns)
		conn_drain(SLI_LIST_ENTRY(it, struct conn, node), grace_ms);
}

void
conns_close(struct conns *cs, void (*done)(void *ctx), void *ctx)
{
	struct sli_list *it;

	cs->closing = 1;
	cs->done = done;
	cs->done_ctx = ctx;
	stop_listening(cs);
	sli_list_for_each (it, &cs->conns)
		conn_close(SLI_LIST_ENTRY(it, struct conn, node));
	conns_check_done(cs);
}

static int
all_gone(const struct conns *cs)
{
	return cs->nconns == 0 && cs->nlive == 0 && cs->nrefused == 0;
}

static void
on_done(struct loop_reap *r)
{
	struct conns *cs = SLI_CONTAINER_OF(r, struct conns, done_reap);

	cs->done(cs->done_ctx); /* may free cs */
}

void
conns_check_done(struct conns *cs)
{
	if (!cs->closing || cs->done_queued || !all_gone(cs))
		return;
	cs->done_queued = 1;
	loop_reap(cs->loop, &cs->done_reap, on_done);
}

void
conns_remove(struct conns *cs, struct conn *c)
{
	sli_list_del(&c->node);
	cs->nconns--;
}

static void
ignore_done(void *ctx)
{
	(void)ctx;
}

void
conns_free(struct conns *cs)
{
	if (!cs)
		return;
	/* A start that failed half-way has listeners that no loop will see
	 * out; they need a few turns. */
	if (!all_gone(cs)) {
		if (!cs->closing)
			conns_close(cs, ignore_done, NULL);
		while (!all_gone(cs))
			loop_turn(cs->loop, 100);
	}
	sli_list_del(&cs->done_reap.node);
	dispatch_free(cs->calls);
	sli_free(cs);
}

unsigned
conns_count(const struct conns *cs)
{
	return cs->nconns;
}

void
conns_totals(
    const struct conns *cs, struct svc_conn_stats *ret, uint32_t *ret_conns)
{
	struct svc_conn_stats st;
	struct sli_list *it;

	*ret = (struct svc_conn_stats){0};
	*ret_conns = cs->nconns;
	sli_list_for_each (it, &cs->conns) {
		const struct conn *c = SLI_LIST_ENTRY(it, struct conn, node);

		if (c->mux)
			sli_mux_check(c->mux);
		conn_stats(c, &st);
		/* P1: nothing is in flight, held or owed without a stream. */
		SLI_ASSERT(st.streams > 0 ||
			   st.inflight + st.held + st.unreleased == 0);
		ret->inflight += st.inflight;
		ret->unreleased += st.unreleased;
		ret->held += st.held;
		ret->queued += st.queued;
		ret->bytes_in += st.bytes_in;
		ret->bytes_out += st.bytes_out;
		ret->streams += st.streams;
		ret->calls += st.calls;
	}
}
