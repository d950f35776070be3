/* SPDX-License-Identifier: Apache-2.0 */
/* The service room: one file per protobuf service, thin: check, call an
 * engine, encode. It owns the engines, joins them (the siblings never see each
 * other) and gives conn/ its table of methods. Thread: loop. */
#ifndef SLUICE_SERVICE_SERVICE_H
#define SLUICE_SERVICE_SERVICE_H

#include "acp/acp.h"
#include "base/limits.h"
#include "loop/loop.h"
#include "service/svc.h"
#include "store/store.h"
#include "vm/vm.h"

/* A registered agent: a command that runs inside the VM. Borrowed. */
struct svc_agent {
	const char *name;
	const char *const *argv; /* NULL-terminated */
};

struct service_cfg {
	struct loop *loop;
	const char *state_dir;
	const struct sli_limits *limits;
	const struct svc_agent *agents;
	unsigned nagents;
	int spawner_fd, opener_fd;
	uint8_t boot_id[16];
	/* An engine cannot go on: the server must stop with status 1. */
	void (*fatal)(void *ctx, const struct sli_errinfo *ei);
	void *ctx;
};

/* Opens the store, starts the engines, loads and recovers what is stored.
 * Blocks; called before the loop runs. */
SLI_MUST enum sli_err service_new(
    const struct service_cfg *cfg, struct svc **ret, struct sli_errinfo *ei);
/* No new work; running turns get drain_ms, then become lost. done is called
 * once when nothing runs any more. */
void service_drain(
    struct svc *svc, int64_t drain_ms, void (*done)(void *ctx), void *ctx);
/* Kills every VM, commits what is queued, closes. Blocks, bounded. */
void service_free(struct svc *svc);
/* The methods for conn/dispatch; ends with id 0. */
const struct svc_method *service_methods(void);

#endif
