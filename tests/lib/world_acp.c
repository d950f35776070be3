/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h: VMs, FAKE agents in them, and what a session says. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
keep(char *text, char *dst, size_t cap)
{
	assert_true(strlen(text) > 0 && strlen(text) < cap);
	(void)snprintf(dst, cap, "%s", text);
	free(text);
}

void
world_vm(struct world *w, char *dst, size_t cap)
{
	keep(SLUICE_OK_OUT(w, "vm", "create"), dst, cap);
}

void
world_put(struct world *w, const char *vm, const char *from, const char *to)
{
	char cmd[512];
	struct run r;
	size_t n = 0;
	char *bytes = world_read(from, &n);
	assert_non_null(bytes);
	(void)snprintf(cmd, sizeof(cmd), "cat > %s && chmod 755 %s", to, to);
	world_cli(w, &r, 60000, bytes, n,
	    (const char *const[]){"exec", vm, "--", "sh", "-c", cmd, NULL});
	if (r.status != 0)
		fail_msg("cannot copy %s: %s", from, r.err);
	run_free(&r);
	free(bytes);
}

void
world_fake(struct world *w, const char *vm, const char *script,
    const char *const *extra, char *dst, size_t cap)
{
	char prog[512];
	const char *argv[32] = {"session", "open", vm};
	unsigned n = 3;
	struct run r;
	SLUICE(w, &r, "exec", vm, "--", "test", "-x", "/root/fake");
	if (r.status != 0)
		world_put(w, vm,
		    world_built("t/fake-agent", prog, sizeof(prog)),
		    "/root/fake");
	run_free(&r);
	for (; extra && *extra; extra++)
		argv[n++] = *extra;
	argv[n++] = "--";
	argv[n++] = "/root/fake";
	argv[n++] = "-l";
	argv[n++] = "/root/fake.log";
	argv[n++] = "-e";
	argv[n++] = script;
	keep(world_ok(w, argv), dst, cap);
}

char *
world_fake_log(struct world *w, const char *vm)
{
	return SLUICE_OK_OUT(w, "exec", vm, "--", "cat", "/root/fake.log");
}

char *
world_history(struct world *w, const char *session)
{
	return SLUICE_OK_OUT(w, "history", session);
}

struct pend {
	struct world *w;
	const char *session;
	unsigned n;
	uint64_t first;
};

static int
has_pending(void *ctx)
{
	struct pend *p = ctx;
	char *out = SLUICE_OK_OUT(p->w, "--json", "permissions", p->session);
	int yes = world_count(out, "\"request\"") == p->n;
	p->first = 0;
	(void)world_json_u64(out, "request", &p->first);
	free(out);
	return yes;
}

uint64_t
world_pending(struct world *w, const char *session, unsigned n)
{
	struct pend p = {w, session, n, 0};
	world_until(has_pending, &p, 20000, "pending permissions");
	return p.first;
}

void
world_state(struct world *w, const char *session, char *dst, size_t cap)
{
	char *out = SLUICE_OK_OUT(w, "--json", "session", "get", session);
	if (!world_json_str(out, "state", dst, cap))
		fail_msg("no state in: %s", out);
	free(out);
}
