/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan timeout=120 */
/* Every id is the tenant's (P7): a second tenant, another uid let in by a `uid`
 * line, tries each call with ids of the first. Each answers exactly as with an
 * id that never was, lists are empty, gauges and counts show nothing of others.
 * A uid without a line is refused. As root only: it takes the uids of others
 * to connect. */
#include "watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define UID      4711 /* tenant 2 */
#define STRANGER 4712

/* Connects as that uid: the kernel notes who connects. */
static sluice_client *
connect_as(struct world *w, uid_t uid)
{
	struct sluice_options o;
	struct sluice_error err;
	sluice_client *c = NULL;
	SLUICE_INIT(o);
	SLUICE_INIT(err);
	assert_int_equal(seteuid(uid), 0);
	int e = sluice_open(w->url, &o, &c, &err);
	if (e == 0)
		e = sluice_server_info(c, NULL, NULL, NULL, &err);
	assert_int_equal(seteuid(0), 0);
	if (e != 0 && uid != STRANGER)
		fail_msg("as uid %u: %s", uid, err.text);
	if (e != 0) {
		sluice_close(c);
		return NULL;
	}
	return c;
}

/* --- each call ------------------------------------------------------------*/

struct ids {
	const char *vm, *session;
	uint32_t pid;
	uint64_t request;
};

typedef int probe_fn(
    sluice_client *c, const struct ids *k, struct sluice_error *err);

#define PROBE(name)              \
	static int probe_##name( \
	    sluice_client *c, const struct ids *k, struct sluice_error *err)

PROBE(vm_get)
{
	return sluice_vm_get(c, k->vm, NULL, NULL, NULL, err);
}

PROBE(vm_delete)
{
	return sluice_vm_delete(c, k->vm, NULL, NULL, NULL, err);
}

PROBE(exec)
{
	struct sluice_exec_spec sp;
	struct sluice_exec_handler h;
	SLUICE_INIT(sp);
	SLUICE_INIT(h);
	sp.vm = k->vm;
	sp.argv = (const char *const[]){"true", NULL};
	return sluice_exec(c, &sp, &h, NULL, NULL, err);
}

PROBE(attach)
{
	struct sluice_exec_handler h;
	SLUICE_INIT(h);
	return sluice_attach(c, k->vm, k->pid, 0, &h, NULL, NULL, err);
}

PROBE(ps)
{
	return sluice_ps(c, k->vm, NULL, NULL, NULL, err);
}

PROBE(kill)
{
	return sluice_kill(c, k->vm, k->pid, 0, NULL, NULL, NULL, err);
}

PROBE(open)
{
	struct sluice_session_spec sp;
	SLUICE_INIT(sp);
	sp.vm = k->vm;
	sp.agent = "shell";
	return sluice_session_open(c, &sp, NULL, NULL, NULL, err);
}

static void
no_session(
    void *arg, const struct sluice_session *s, const struct sluice_error *err)
{
	(void)arg;
	(void)err;
	assert_null(s);
}

/* A filter that fits nothing: an empty list, not an error. */
PROBE(list)
{
	int e = sluice_session_list(c, k->vm, no_session, NULL, NULL, err);
	return e == 0 ? SLUICE_E_NOT_FOUND : e;
}

PROBE(get)
{
	return sluice_session_get(c, k->session, NULL, NULL, NULL, err);
}

PROBE(unload)
{
	return sluice_session_unload(c, k->session, NULL, NULL, NULL, err);
}

PROBE(delete)
{
	return sluice_session_delete(c, k->session, NULL, NULL, NULL, err);
}

PROBE(prompt)
{
	return sluice_prompt(
	    c, k->session, "x", 1, NULL, NULL, NULL, NULL, err);
}

PROBE(prompt_key)
{
	struct sluice_prompt_options o;
	SLUICE_INIT(o);
	o.key = "K"; /* the first tenant used it */
	return sluice_prompt(c, k->session, "go", 2, &o, NULL, NULL, NULL, err);
}

PROBE(cancel)
{
	return sluice_cancel(c, k->session, NULL, NULL, NULL, err);
}

PROBE(permissions)
{
	return sluice_permissions(c, k->session, NULL, NULL, NULL, err);
}

PROBE(permit)
{
	return sluice_permit(
	    c, k->session, k->request, "allow", NULL, NULL, NULL, NULL, err);
}

PROBE(deny)
{
	return sluice_permit(
	    c, k->session, k->request, NULL, NULL, NULL, NULL, NULL, err);
}

PROBE(history)
{
	struct sluice_event_handler h;
	SLUICE_INIT(h);
	return sluice_history(c, k->session, 0, 0, 0, &h, NULL, NULL, err);
}

PROBE(subscribe)
{
	struct sluice_event_handler h;
	SLUICE_INIT(h);
	return sluice_subscribe(c, k->session, 0, &h, NULL, NULL, err);
}

static const struct {
	const char *name;
	probe_fn *fn;
} probes[] = {
    {"vm get",          probe_vm_get     },
    {"exec",            probe_exec       },
    {"attach",          probe_attach     },
    {"ps",	      probe_ps         },
    {"kill",            probe_kill       },
    {"session open",    probe_open       },
    {"session list",    probe_list       },
    {"session get",     probe_get        },
    {"prompt",          probe_prompt     },
    {"prompt with key", probe_prompt_key },
    {"cancel",          probe_cancel     },
    {"permissions",     probe_permissions},
    {"permit",          probe_permit     },
    {"deny",            probe_deny       },
    {"history",         probe_history    },
    {"subscribe",       probe_subscribe  },
    {"session unload",  probe_unload     },
    {"session delete",  probe_delete     },
    {"vm delete",       probe_vm_delete  },
};

/* As long and of the same letters, and never given. */
static void
never_was(const char *id, char *dst, size_t cap)
{
	(void)snprintf(dst, cap, "%s", id);
	char *last = dst + strlen(dst) - 1;
	*last = *last == 'a' ? 'b' : 'a';
	*(last - 1) = *(last - 1) == 'a' ? 'b' : 'a';
}

static void
each_call(sluice_client *c, const struct ids *real)
{
	char vm[64], session[64];
	never_was(real->vm, vm, sizeof(vm));
	never_was(real->session, session, sizeof(session));
	struct ids none = {vm, session, real->pid, real->request};
	for (unsigned i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		struct sluice_error a, b;
		SLUICE_INIT(a);
		SLUICE_INIT(b);
		int ea = probes[i].fn(c, real, &a);
		int eb = probes[i].fn(c, &none, &b);
		if (ea != eb || strcmp(a.text, b.text) != 0 ||
		    strcmp(a.reason, b.reason) != 0 || a.nhits != b.nhits ||
		    a.retryable != b.retryable)
			fail_msg("%s tells them apart: %s \"%s\", %s \"%s\"",
			    probes[i].name, sluice_err_name(ea), a.text,
			    sluice_err_name(eb), b.text);
		if (ea != SLUICE_E_NOT_FOUND)
			fail_msg("%s: %s", probes[i].name, sluice_err_name(ea));
	}
}

/* --- lists and counts -----------------------------------------------------*/

static void
count_vm(void *arg, const struct sluice_vm *vm, const struct sluice_error *err)
{
	assert_null(err);
	*(unsigned *)arg += vm != NULL;
}

static void
count_session(
    void *arg, const struct sluice_session *s, const struct sluice_error *err)
{
	assert_null(err);
	*(unsigned *)arg += s != NULL;
}

static void
count_perm(void *arg, const struct sluice_permission *p,
    const struct sluice_error *err)
{
	assert_null(err);
	*(unsigned *)arg += p != NULL;
}

static void
on_stat(void *arg, const struct sluice_stat *st, const struct sluice_error *err)
{
	unsigned *conns = arg;
	assert_null(err);
	if (!st)
		return;
	/* Of its own connection, and nothing else. */
	if (strncmp(st->scope, "connection:", 11) != 0)
		fail_msg("a gauge of %s", st->scope);
	*conns += strcmp(st->name, "queued") == 0;
}

static void
on_info(void *arg, const struct sluice_server_info *i,
    const struct sluice_error *err)
{
	assert_null(err);
	if (!i)
		return;
	*(unsigned *)arg = 1;
	assert_string_equal(i->principal, "uid:4711");
	assert_string_equal(i->role, "user");
	assert_int_equal(i->vms, 0);
	assert_int_equal(i->sessions, 0);
	assert_int_equal(i->connections, 1);
	assert_true(i->streams < 8); /* of calls that just ended */
}

static void
nothing_is_listed(sluice_client *c)
{
	unsigned vms = 0, sessions = 0, perms = 0, conns = 0, told = 0;
	assert_int_equal(sluice_vm_list(c, count_vm, &vms, NULL, NULL), 0);
	assert_int_equal(
	    sluice_session_list(c, NULL, count_session, &sessions, NULL, NULL),
	    0);
	assert_int_equal(
	    sluice_permissions(c, NULL, count_perm, &perms, NULL, NULL), 0);
	assert_int_equal(vms + sessions + perms, 0);
	for (int buffers = 0; buffers < 2; buffers++) {
		conns = 0;
		assert_int_equal(sluice_server_stats(
				     c, buffers, on_stat, &conns, NULL, NULL),
		    0);
		assert_int_equal(conns, 1);
	}
	assert_int_equal(sluice_server_info(c, on_info, &told, NULL, NULL), 0);
	assert_int_equal(told, 1);
}

/* --- the case -------------------------------------------------------------*/

static void
socket_modes(const struct world *w, mode_t dir, mode_t sock)
{
	char path[256];
	struct stat st;
	(void)snprintf(path, sizeof(path), "%s/run", w->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, dir);
	(void)snprintf(path, sizeof(path), "%s/run/sluiced.sock", w->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, sock);
}

static void
nothing_of_another_tenant(void **state)
{
	struct world w;
	char vm[64], s[64], st[32];
	(void)state;
	if (geteuid() != 0)
		skip();
	world_init(&w);
	world_conf(&w, "uid %d 2 user", UID);
	world_start(&w);
	socket_modes(&w, 0711, 0666);
	world_vm(&w, vm, sizeof(vm));
	char *out =
	    SLUICE_OK_OUT(&w, "exec", "--detach", vm, "--", "sleep", "1000");
	struct ids k = {.vm = vm, .session = s};
	k.pid = (uint32_t)strtoul(out, NULL, 10);
	free(out);
	world_fake(&w, vm, "on prompt ; text secret ; ask 100 rm ; wait ; end",
	    NULL, s, sizeof(s));
	pid_t p = world_bg(&w, NULL, NULL,
	    (const char *const[]){"prompt", s, "go", "--key", "K", NULL});
	k.request = world_pending(&w, s, 1);

	assert_null(connect_as(&w, STRANGER));
	sluice_client *c = connect_as(&w, UID);
	nothing_is_listed(c);
	each_call(c, &k);
	nothing_is_listed(c);

	/* And nothing has happened to any of it. */
	world_state(&w, s, st, sizeof(st));
	assert_string_equal(st, "waiting_permission");
	assert_int_equal(world_pending(&w, s, 1), k.request);
	out = SLUICE_OK_OUT(&w, "--json", "ps", vm);
	assert_non_null(strstr(out, "\"sleep\""));
	assert_non_null(strstr(out, "\"running\""));
	free(out);
	/* It has a life of its own. */
	unsigned n = 0;
	struct sluice_vm_spec sp;
	SLUICE_INIT(sp);
	assert_int_equal(sluice_vm_create(c, &sp, NULL, NULL, NULL, NULL), 0);
	assert_int_equal(sluice_vm_list(c, count_vm, &n, NULL, NULL), 0);
	assert_int_equal(n, 1);
	sluice_close(c);
	free(SLUICE_OK_OUT(&w, "cancel", s));
	(void)world_wait_bg(&w, p, 5000);
	assert_true(world_alive(&w));
	world_stop(&w);
	world_done(&w);
}

/* Without `uid` lines nobody else gets as far as the socket. */
static void
closed_by_default(void **state)
{
	struct world w;
	(void)state;
	if (geteuid() != 0)
		skip();
	world_init(&w);
	world_start(&w);
	socket_modes(&w, 0700, 0600);
	assert_null(connect_as(&w, STRANGER));
	world_stop(&w);
	/* The same place is opened when a line is added. */
	world_conf(&w, "uid %d 2 viewer", UID);
	world_start(&w);
	socket_modes(&w, 0711, 0666);
	sluice_close(connect_as(&w, UID));
	world_stop(&w);
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_of_another_tenant),
	    cmocka_unit_test(closed_by_default),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
