/* SPDX-License-Identifier: Apache-2.0 */
/* Life of the service room: starts the engines in order, joins them, drains
 * and stops them in the opposite order. */
#include "service/room.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define IDEM_MAX  4096
#define SETTLE_MS 10000

struct sli_principal
svc_self(uint64_t tenant)
{
	struct sli_principal p = {
	    .tenant = tenant, .role = SLI_ROLE_ADMIN, .uid = UINT32_MAX};
	sli_strlcpy(p.name, "server", sizeof(p.name));
	return p;
}

void
svc_refuse(struct svc_call c, enum sli_err code, const char *where,
    const char *fmt, ...)
{
	struct sli_errinfo ei = {0};
	char text[sizeof(ei.text)];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)sli_fail(&ei, code, 0, where, "%s", text);
	svc_fail(c, &ei);
}

static void
store_fatal(void *ctx, const struct sli_errinfo *ei)
{
	struct svc *svc = ctx;
	svc->cfg.fatal(svc->cfg.ctx, ei);
}

static enum sli_err
open_store(struct svc *svc, struct sli_errinfo *ei)
{
	const struct sli_limits *lim = svc->cfg.limits;
	struct store_cfg sc = {
	    .dir = svc->cfg.state_dir,
	    .mb = loop_mailbox(svc->loop),
	    .linger_ms = (unsigned)sli_limits_get(lim, SLI_L_STORE_LINGER),
	    .budget = sli_limits_get(lim, SLI_L_STORE_BUDGET),
	    .session_budget = sli_limits_get(lim, SLI_L_STORE_SESSION_BUDGET),
	    .tail_bytes = sli_limits_get(lim, SLI_L_STORE_TAIL),
	    .tails_bytes = sli_limits_get(lim, SLI_L_STORE_TAILS),
	    .page_bytes = sli_limits_get(lim, SLI_L_STORE_PAGE),
	    .wal_warn_bytes = sli_limits_get(lim, SLI_L_STORE_WAL_WARN),
	    .ballast_bytes = sli_limits_get(lim, SLI_L_STORE_BALLAST),
	    .fatal = store_fatal,
	    .pressure = svc_store_pressure,
	    .ctx = svc,
	};
	return store_open(&sc, &svc->store, ei);
}

/* What recovery found out (lost turns, expired permissions) is on disk before
 * the first client is let in: nobody sees a turn run that does not. */
static void
settle(struct svc *svc)
{
	struct store_stats st;
	int64_t until = sli_mono_ms() + SETTLE_MS;
	for (store_stats(svc->store, &st);
	     st.queue_jobs > 0 && sli_mono_ms() < until;
	     store_stats(svc->store, &st))
		loop_turn(svc->loop, 10);
}

static enum sli_err
start(struct svc *svc, struct sli_errinfo *ei)
{
	enum sli_err e = SLI_E_NOMEM;
	svc->idem = svc_idem_new(IDEM_MAX);
	svc->sessions = sli_map_new();
	if (!svc->idem || !svc->sessions)
		goto nomem;
	e = open_store(svc, ei);
	if (e != SLI_OK)
		return e;
	svc->vms = vm_engine_new(svc->loop, svc->cfg.spawner_fd,
	    svc->cfg.opener_fd, svc->cfg.limits, &svc_vm_sink, svc);
	if (!svc->vms)
		goto nomem;
	svc->acp = acp_new(svc->loop, &svc_acp_sink, svc);
	if (!svc->acp)
		goto nomem;
	e = svc_recover(svc, ei);
	if (e == SLI_OK)
		settle(svc);
	return e;
nomem:
	return sli_fail(ei, SLI_E_NOMEM, 0, "service", "out of memory");
}

enum sli_err
service_new(
    const struct service_cfg *cfg, struct svc **ret, struct sli_errinfo *ei)
{
	struct svc *svc = sli_zalloc(sizeof(*svc));
	if (!svc)
		return sli_fail(ei, SLI_E_NOMEM, 0, "service", "out of memory");
	svc->loop = cfg->loop;
	svc->cfg = *cfg;
	svc->started_ms = sli_mono_ms();
	sli_list_init(&svc->walks);
	enum sli_err e = start(svc, ei);
	if (e != SLI_OK) {
		service_free(svc);
		return e;
	}
	*ret = svc;
	return SLI_OK;
}

void
service_free(struct svc *svc)
{
	if (!svc)
		return;
	loop_timer_del(svc->loop, &svc->drain_timer);
	if (svc->vms)
		vm_engine_free(svc->vms);
	if (svc->acp)
		acp_free(svc->acp);
	if (svc->store)
		store_close(svc->store);
	size_t pos = 0;
	struct svc_session *u;
	while (svc->sessions && (u = sli_map_next(svc->sessions, &pos)) != NULL)
		svc_session_free(u);
	sli_map_free(svc->sessions);
	svc_idem_free(svc->idem);
	sli_free(svc);
}

/* --- drain: no new work, wait for running turns, then call them lost ------*/

static void
drain_step(struct loop_timer *t)
{
	struct svc *svc = SLI_CONTAINER_OF(t, struct svc, drain_timer);
	int64_t now = loop_now_ms(svc->loop);
	if (acp_busy(svc->acp) > 0 && now < svc->drain_until_ms) {
		loop_timer_after(svc->loop, t, 50);
		return;
	}
	if (svc->draining == 1) {
		/* Time is up or nothing runs: let the ends be committed. */
		svc->draining = 2;
		svc->drain_until_ms = now + 2000;
		acp_shutdown(svc->acp, "server_stopped");
		loop_timer_after(svc->loop, t, 50);
		return;
	}
	svc->drained(svc->drained_ctx);
}

void
service_drain(
    struct svc *svc, int64_t drain_ms, void (*done)(void *ctx), void *ctx)
{
	if (svc->draining)
		return;
	svc->draining = 1;
	acp_drain(svc->acp);
	svc->drained = done;
	svc->drained_ctx = ctx;
	svc->drain_until_ms = loop_now_ms(svc->loop) + drain_ms;
	sli_log(SLI_LOG_NOTICE, "service", "draining", "turns=%u drain_ms=%lld",
	    acp_busy(svc->acp), (long long)drain_ms);
	loop_timer_init(&svc->drain_timer, drain_step);
	loop_timer_after(svc->loop, &svc->drain_timer, 0);
}

/* --- look-ups that answer the call ----------------------------------------*/

struct acp_session *
svc_find_session(struct svc *svc, struct svc_call c, const char *id)
{
	struct acp_session *s = acp_find(svc->acp, svc_principal(c), id);
	if (!s)
		svc_refuse(c, SLI_E_NOT_FOUND, "session",
		    "no such session; see: sluice session list");
	return s;
}

struct vm *
svc_find_vm(struct svc *svc, struct svc_call c, const char *id)
{
	struct vm *vm = vm_find(svc->vms, svc_principal(c), id);
	if (!vm)
		svc_refuse(c, SLI_E_NOT_FOUND, "vm",
		    "no such VM; see: sluice vm list");
	return vm;
}

const struct svc_method *
service_methods(void)
{
	static const struct svc_method table[] = {
	    {1,  svc_server_echo         },
	    {2,  svc_server_info         },
	    {3,  svc_server_stats        },
	    {4,  svc_server_doctor       },
	    {16, svc_vms_create          },
	    {17, svc_vms_get             },
	    {18, svc_vms_list            },
	    {19, svc_vms_delete          },
	    {32, svc_processes_exec      },
	    {33, svc_processes_attach    },
	    {34, svc_processes_list      },
	    {35, svc_processes_kill      },
	    {48, svc_sessions_open       },
	    {49, svc_sessions_get        },
	    {50, svc_sessions_list       },
	    {51, svc_sessions_prompt     },
	    {52, svc_sessions_cancel     },
	    {53, svc_sessions_permissions},
	    {54, svc_sessions_permit     },
	    {55, svc_sessions_unload     },
	    {56, svc_sessions_delete     },
	    {57, svc_sessions_history    },
	    {58, svc_sessions_subscribe  },
	    {0,  NULL		    },
	};
	return table;
}
