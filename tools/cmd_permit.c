/* SPDX-License-Identifier: Apache-2.0 */
/* sluice permissions, permit */
#include "cmd.h"
#include "out.h"

static void
json_permission(const struct sluice_permission *p)
{
	out_open();
	out_kstr("session", p->session);
	out_ku64("request", p->request);
	out_ku64("turn", p->turn);
	out_kstr("state", sluice_permission_state_name(p->state));
	out_ku64("created_ms", p->created_ms);
	out_ku64("expires_ms", p->expires_ms);
	out_kstr("title", p->title);
	out_list("options");
	for (size_t i = 0; p->options[i]; i++) {
		out_item();
		out_open();
		out_kstr("option", p->options[i]->option);
		out_kstr("name", p->options[i]->name);
		out_kstr("kind", p->options[i]->kind);
		out_close();
	}
	out_list_end();
	out_close();
}

static void
listed(void *arg, const struct sluice_permission *p,
    const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!p)
		return;
	if (t->json) {
		json_permission(p);
		return;
	}
	out_fmt("%s %llu ", p->session, (unsigned long long)p->request);
	for (size_t i = 0; p->options[i]; i++) {
		out_str(i ? "|" : "");
		out_safe(p->options[i]->option);
	}
	out_str("  ");
	out_safe(p->title);
	out_str("\n");
}

static int
permissions(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_permissions(t->c, t->a.npos ? t->a.pos[0] : NULL, listed, t,
		NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static void
answered(void *arg, const char *option, int32_t repeated,
    const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!option || !t->json)
		return;
	out_open();
	out_kstr("option", option);
	out_kbool("repeated_key", repeated);
	out_close();
}

static int
permit(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int deny = args_has(&t->a, "deny");
	const char *given = args_get(&t->a, "key");
	char key[33];
	uint64_t request;
	int r;

	if (parse_u64("REQUEST", t->a.pos[1], &request) != 0)
		return EXIT_USAGE;
	if (deny == (t->a.npos > 2))
		return usage("permit wants either an OPTION or --deny");
	random_key(key);
	r = conn_open(t);
	if (r >= 0)
		return r;
	if (sluice_permit(t->c, t->a.pos[0], request, deny ? NULL : t->a.pos[2],
		given ? given : key, answered, t, NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static const struct opt permit_opts[] = {
    OPT(0, "deny", NULL, "answer no: the first reject option, else cancelled"),
    OPT(0, "key", "K", "idempotency key: a repeat gets the same answer"), {0}};

const struct cmd permit_cmds[] = {
    CMD("permit", NULL, "SESSION REQUEST [OPTION]",
	"answer a permission request", 2, 3, 0, permit_opts, permit),
    CMD("permissions", NULL, "[SESSION]", "list pending permission requests", 0,
	1, 0, NULL, permissions),
    {0}};
