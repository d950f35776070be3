/* SPDX-License-Identifier: Apache-2.0 */
/* sluice vm create|list|get|delete */
#include "cmd.h"
#include "out.h"

#include <string.h>

/* --- printing ------------------------------------------------------------*/

static void
json_mounts(const struct sluice_vm *vm)
{
	out_list("mounts");
	for (size_t i = 0; vm->mounts[i]; i++) {
		out_item();
		out_open();
		out_kstr("source", vm->mounts[i]->source);
		out_kstr("target", vm->mounts[i]->target);
		out_kbool("read_only", vm->mounts[i]->read_only);
		out_close();
	}
	out_list_end();
}

static void
json_limits(const struct sluice_vm *vm)
{
	out_list("limits");
	for (size_t i = 0; vm->limits[i]; i++) {
		out_item();
		out_open();
		out_kstr("key", vm->limits[i]->key);
		out_ku64("value", vm->limits[i]->value);
		out_kstr("enforcement", vm->limits[i]->enforcement);
		out_close();
	}
	out_list_end();
}

static void
json_vm(const struct sluice_vm *vm)
{
	out_open();
	out_kstr("vm", vm->vm);
	out_kstr("name", vm->name);
	out_kstr("state", sluice_vm_state_name(vm->state));
	out_kstr("reason", vm->reason);
	out_ku64("created_ms", vm->created_ms);
	out_ku64("processes", vm->processes);
	out_ku64("sessions", vm->sessions);
	if (vm->init_pid)
		out_ku64("init_pid", vm->init_pid);
	json_mounts(vm);
	json_limits(vm);
	out_list("missing");
	for (size_t i = 0; vm->missing[i]; i++) {
		out_item();
		out_json_str(vm->missing[i]);
	}
	out_list_end();
	out_close();
}

static void
text_line(const char *key, const char *value)
{
	out_fmt("%-11s ", key);
	out_safe(value);
	out_str("\n");
}

static void
text_vm(const struct sluice_vm *vm)
{
	text_line("vm", vm->vm);
	text_line("name", vm->name);
	text_line("state", sluice_vm_state_name(vm->state));
	if (vm->reason[0])
		text_line("reason", vm->reason);
	out_fmt("%-11s %u\n", "processes", vm->processes);
	out_fmt("%-11s %u\n", "sessions", vm->sessions);
	for (size_t i = 0; vm->mounts[i]; i++) {
		out_fmt("%-11s ", "mount");
		out_safe(vm->mounts[i]->source);
		out_str(" -> ");
		out_safe(vm->mounts[i]->target);
		out_str(vm->mounts[i]->read_only ? " (ro)\n" : "\n");
	}
	for (size_t i = 0; vm->limits[i]; i++)
		out_fmt("%-11s %s %llu (%s)\n", "limit", vm->limits[i]->key,
		    (unsigned long long)vm->limits[i]->value,
		    vm->limits[i]->enforcement);
	for (size_t i = 0; vm->missing[i]; i++)
		text_line("missing", vm->missing[i]);
}

/* --- create --------------------------------------------------------------*/

static void
created(void *arg, const struct sluice_vm *vm, const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!vm)
		return;
	if (t->json)
		json_vm(vm);
	else
		out_fmt("%s\n", vm->vm);
}

/* SRC:DST[:ro] from the end, so that only DST may hold no colon. */
static int
parse_mount(const char *text, struct sluice_mount *m)
{
	char *s = scratch(strlen(text) + 1, 1);
	char *colon;
	size_t n;

	memcpy(s, text, strlen(text) + 1);
	SLUICE_INIT(*m);
	n = strlen(s);
	if (n > 3 && strcmp(s + n - 3, ":ro") == 0) {
		m->read_only = 1;
		s[n - 3] = '\0';
	}
	colon = strrchr(s, ':');
	m->source = s;
	if (!colon || s[0] != '/' || colon[1] != '/') {
		(void)usage("--mount wants SRC:DST[:ro] with absolute paths, "
			    "not \"%s\"",
		    text);
		return -1;
	}
	*colon = '\0';
	m->target = colon + 1;
	return 0;
}

/* Terminated list of mounts; NULL after a usage line. */
static const struct sluice_mount **
parse_mounts(const char **texts)
{
	const struct sluice_mount **list;
	struct sluice_mount *m;
	size_t n = 0;

	while (texts[n])
		n++;
	list = scratch(n + 1, sizeof(*list));
	m = scratch(n + 1, sizeof(*m));
	for (size_t i = 0; i < n; i++) {
		list[i] = &m[i];
		if (parse_mount(texts[i], &m[i]) != 0)
			return NULL;
	}
	return list;
}

static int
check_pairs(const char *opt, const char **list)
{
	for (; *list; list++)
		if (!strchr(*list, '=') || (*list)[0] == '=')
			return usage(
			    "--%s wants KEY=VALUE, not \"%s\"", opt, *list);
	return -1;
}

static int
vm_create(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	struct sluice_vm_spec spec;
	const char **env = args_all(&t->a, "env");
	const char **limits = args_all(&t->a, "limit");
	char key[33];
	int r;

	SLUICE_INIT(spec);
	spec.name = args_get(&t->a, "name");
	spec.env = env;
	spec.limits = limits;
	spec.mounts = parse_mounts(args_all(&t->a, "mount"));
	random_key(key);
	spec.key = key;
	r = spec.mounts ? check_pairs("env", env) : EXIT_USAGE;
	if (r < 0)
		r = check_pairs("limit", limits);
	if (r < 0)
		r = conn_open(t);
	if (r < 0)
		r = sluice_vm_create(t->c, &spec, created, t, NULL, &err) ==
			    SLUICE_OK
			? out_end()
			: fail(t, &err);
	return r;
}

/* --- list, get, delete ---------------------------------------------------*/

static void
listed(void *arg, const struct sluice_vm *vm, const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!vm)
		return;
	if (t->json) {
		json_vm(vm);
		return;
	}
	out_fmt("%-28s %-9s %5u %5u  ", vm->vm, sluice_vm_state_name(vm->state),
	    vm->processes, vm->sessions);
	out_safe(vm->name);
	out_str("\n");
}

static int
vm_list(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (!t->json)
		out_fmt("%-28s %-9s %5s %5s  %s\n", "VM", "STATE", "PROCS",
		    "SESS", "NAME");
	if (sluice_vm_list(t->c, listed, t, NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static void
got(void *arg, const struct sluice_vm *vm, const struct sluice_error *err)
{
	struct tool *t = arg;

	(void)err;
	if (!vm)
		return;
	if (t->json)
		json_vm(vm);
	else
		text_vm(vm);
}

static int
vm_get(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_vm_get(t->c, t->a.pos[0], got, t, NULL, &err) != SLUICE_OK)
		return fail(t, &err);
	return out_end();
}

static int
vm_delete(struct tool *t)
{
	struct sluice_error err = {.size = sizeof(err)};
	int r = conn_open(t);

	if (r >= 0)
		return r;
	if (sluice_vm_delete(t->c, t->a.pos[0], NULL, NULL, NULL, &err) !=
	    SLUICE_OK)
		return fail(t, &err);
	return EXIT_OK;
}

static const struct opt create_opts[] = {
    OPT(0, "name", "N", "a label; need not be unique"),
    OPT(0, "mount", "SRC:DST[:ro]", "a host directory in the VM (admins only)"),
    OPT(0, "limit", "KEY=VALUE",
	"a limit of this VM, e.g. vm.memory_bytes=1GiB"),
    OPT(0, "env", "K=V", "environment of every process"), {0}};

const struct cmd vm_cmds[] = {
    CMD("vm", "create", "", "make a VM and print its id", 0, 0, 0, create_opts,
	vm_create),
    CMD("vm", "list", "", "list the VMs", 0, 0, 0, NULL, vm_list),
    CMD("vm", "get", "VM", "show one VM", 1, 1, 0, NULL, vm_get),
    CMD("vm", "delete", "VM", "kill everything in it and remove it", 1, 1, 0,
	NULL, vm_delete),
    {0}};
