/* SPDX-License-Identifier: Apache-2.0 */
/* News of the kernel's kills in a VM whose memory limit was reached. */
#include "spawner/spawner.h"

#include <unistd.h>

#define OOM_RETRY_MS 20
#define OOM_TRIES    50

void
oom_check(struct spawner *s, struct spawner_vm *vm)
{
	struct spawner_oom m = {
	    .h = {SPAWNER_OOM, sizeof(m), 0},
              .handle = vm->handle
        };

	m.kills = cg_oom_kills(&s->cg, &vm->cg);
	if (m.kills > vm->cg.oom_kills) {
		vm->cg.oom_kills = m.kills;
		vm->oom_check_ms = INT64_MAX;
		if (vm->given)
			serve_send(s, &m, NULL, 0);
	} else if (--vm->oom_tries > 0) {
		/* v1 speaks before the kernel has chosen its victim. */
		vm->oom_check_ms = serve_now_ms() + OOM_RETRY_MS;
	} else {
		vm->oom_check_ms = INT64_MAX;
	}
}

void
oom_event(struct spawner *s, struct spawner_vm *vm)
{
	uint64_t n;

	if (s->cg.ctl[CG_MEMORY].version == 1)
		(void)!read(vm->oom.fd, &n, sizeof(n));
	vm->oom_tries = OOM_TRIES;
	oom_check(s, vm);
}
