/* SPDX-License-Identifier: Apache-2.0 */
/* sluice.v1.Server: who am I talking to, how is it, what can this machine do.
 * The gauges inflight, held and retained are never mixed (DESIGN P1). */
#include "service/list_stream.h"
#include "service/room.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX (8u << 20)

static const char *const role_names[] = {
    "none", "viewer", "user", "operator", "admin"};

SVC_HANDLER(svc_server_echo)
{
	const Sluice__V1__EchoRequest *r = (const void *)req;
	Sluice__V1__EchoResponse m = SLUICE__V1__ECHO_RESPONSE__INIT;
	(void)svc;
	m.body = r->body;
	svc_reply(c, &m.base);
}

static void
count_conn(void *ctx, const struct svc_conn_stats *st)
{
	Sluice__V1__ServerInfo *m = ctx;
	m->connections++;
	m->streams += st->streams;
}

/* Totals of the whole server are shown to operators and admins; everybody else
 * sees what is the tenant's. */
static void
info_counts(struct svc *svc, struct svc_call c, Sluice__V1__ServerInfo *m)
{
	const struct sli_principal *p = svc_principal(c);
	struct svc_conn_stats conn;
	struct vm_stats vms;
	uint32_t pos = 0;
	if (p->role >= SLI_ROLE_OPERATOR) {
		vm_stats(svc->vms, &vms);
		svc_conn_totals(c, &conn, &m->connections);
		m->streams = conn.streams;
		m->vms = (uint32_t)vms.vms;
		m->sessions = (uint32_t)sli_map_count(svc->sessions);
		return;
	}
	svc_each_conn(c, count_conn, m);
	while (vm_next(svc->vms, p, &pos))
		m->vms++;
	pos = 0;
	while (acp_next(svc->acp, p, &pos))
		m->sessions++;
}

SVC_HANDLER(svc_server_info)
{
	Sluice__V1__ServerInfo m = SLUICE__V1__SERVER_INFO__INIT;
	const struct sli_principal *p = svc_principal(c);
	(void)req;
	info_counts(svc, c, &m);
	m.version = svc_str(SLUICE_VERSION);
	m.boot_id.data = svc->cfg.boot_id;
	m.boot_id.len = sizeof(svc->cfg.boot_id);
	m.uptime_ms = (uint64_t)(sli_mono_ms() - svc->started_ms);
	m.pid = (uint32_t)getpid();
	m.uid = (uint32_t)getuid();
	m.principal = svc_str(p->name);
	m.role = svc_str(role_names[p->role]);
	svc_reply(c, &m.base);
}

/* --- stats ----------------------------------------------------------------*/

static void
add(struct list_stream *out, const char *name, const char *scope,
    uint64_t value, const char *unit)
{
	Sluice__V1__Stat m = SLUICE__V1__STAT__INIT;
	m.name = svc_str(name);
	m.scope = svc_str(scope);
	m.value = value;
	m.unit = svc_str(unit);
	list_stream_add(out, &m.base);
}

static void
add_conn(void *ctx, const struct svc_conn_stats *st)
{
	char scope[48];
	sli_snprintf(scope, sizeof(scope), "connection:%" PRIu64, st->number);
	add(ctx, "inflight", scope, st->inflight, "bytes");
	add(ctx, "held", scope, st->held + st->unreleased, "bytes");
	add(ctx, "queued", scope, st->queued, "bytes");
}

static void
add_objects(struct svc *svc, struct svc_call c, struct list_stream *out,
    int buffers_only)
{
	const struct sli_principal *p = svc_principal(c);
	char scope[SLI_ID_MAX + 16];
	uint32_t pos = 0;
	struct vm *vm;
	struct acp_session *s;
	while ((vm = vm_next(svc->vms, p, &pos)) != NULL) {
		struct vm_stats st;
		vm_stats_of(vm, &st);
		sli_snprintf(scope, sizeof(scope), "vm:%s", vm_id(vm));
		add(out, "held", scope, st.ring_held, "bytes");
		add(out, "retained", scope, st.ring_retained, "bytes");
		if (!buffers_only)
			add(out, "oom_kills", scope, st.oom_kills, "count");
	}
	pos = 0;
	while ((s = acp_next(svc->acp, p, &pos)) != NULL) {
		struct acp_info in;
		acp_session_info(s, &in);
		sli_snprintf(scope, sizeof(scope), "session:%s", in.id);
		add(out, "held", scope,
		    in.held + store_held(svc->store, in.id) +
			svc_history_held(svc, in.id),
		    "bytes");
		if (!buffers_only)
			add(out, "superseded", scope, in.superseded, "events");
	}
	svc_each_conn(c, add_conn, out);
}

static void
add_server(struct svc *svc, struct svc_call c, struct list_stream *out,
    int buffers_only)
{
	struct svc_conn_stats conn;
	struct store_stats st;
	struct vm_stats vms;
	uint32_t conns = 0;
	svc_conn_totals(c, &conn, &conns);
	store_stats(svc->store, &st);
	vm_stats(svc->vms, &vms);
	add(out, "inflight", "server", conn.inflight, "bytes");
	add(out, "held", "server",
	    conn.held + conn.unreleased + vms.ring_held + st.held +
		acp_held(svc->acp) + svc_history_held(svc, NULL),
	    "bytes");
	add(out, "retained", "server", vms.ring_retained + st.tail_bytes,
	    "bytes");
	if (buffers_only)
		return;
	add(out, "connections", "server", conns, "count");
	add(out, "streams", "server", conn.streams, "count");
	add(out, "bytes_in", "server", conn.bytes_in, "bytes");
	add(out, "bytes_out", "server", conn.bytes_out, "bytes");
	add(out, "vms", "server", vms.vms, "count");
	add(out, "processes", "server", vms.processes, "count");
	add(out, "oom_kills", "server", vms.oom_kills, "count");
	add(out, "sessions", "server", sli_map_count(svc->sessions), "count");
	add(out, "turns", "server", acp_busy(svc->acp), "count");
	add(out, "store.commits", "server", st.commits, "count");
	add(out, "store.events", "server", st.events, "count");
	add(out, "store.bytes", "server", st.bytes, "bytes");
	add(out, "store.db_bytes", "server", st.db_bytes, "bytes");
	add(out, "store.wal_bytes", "server", st.wal_bytes, "bytes");
	add(out, "store.queue", "server", st.queue_jobs, "count");
	add(out, "store.damaged", "server", st.damaged, "count");
	add(out, "store.full", "server", (uint64_t)st.full, "bool");
}

/* Totals of the whole server are shown to operators and admins; what has a
 * tenant only to that tenant. */
SVC_HANDLER(svc_server_stats)
{
	const Sluice__V1__StatsRequest *r = (const void *)req;
	struct list_stream *out = list_stream_new(LIST_MAX);
	if (!out) {
		svc_refuse(c, SLI_E_NOMEM, "stats", "out of memory");
		return;
	}
	if (svc_principal(c)->role >= SLI_ROLE_OPERATOR)
		add_server(svc, c, out, r->buffers);
	add_objects(svc, c, out, r->buffers);
	list_stream_send(out, c);
}

/* --- doctor ---------------------------------------------------------------*/

struct doctor {
	struct svc_call call;
};

static void
doctor_done(void *ctx, const struct vm_probe *probes, unsigned n,
    const struct sli_errinfo *ei)
{
	struct doctor *d = ctx;
	struct list_stream *out = list_stream_new(LIST_MAX);
	if (ei && ei->code != SLI_OK) {
		svc_fail(d->call, ei);
		goto out;
	}
	if (!out) {
		svc_refuse(d->call, SLI_E_NOMEM, "doctor", "out of memory");
		goto out;
	}
	for (unsigned i = 0; i < n; i++) {
		Sluice__V1__DoctorLine m = SLUICE__V1__DOCTOR_LINE__INIT;
		m.name = svc_str(probes[i].name);
		m.state = svc_str(probes[i].state);
		m.detail = svc_str(probes[i].detail);
		m.remedy = svc_str(probes[i].remedy);
		list_stream_add(out, &m.base);
	}
	list_stream_send(out, d->call);
	out = NULL;
out:
	if (out)
		list_stream_free(out);
	sli_free(d);
}

SVC_HANDLER(svc_server_doctor)
{
	struct doctor *d = sli_zalloc(sizeof(*d));
	(void)req;
	if (!d) {
		svc_refuse(c, SLI_E_NOMEM, "doctor", "out of memory");
		return;
	}
	d->call = c;
	vm_doctor(svc->vms, doctor_done, d);
}
