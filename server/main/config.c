/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and printing of the configuration. The keywords are listed in
 * config.keys.h, which the manual is checked against; the limits are
 * base/limits.def; nothing else is known. */
#include "main/config.h"

#include "base/mem.h"
#include "base/str.h"
#include "link/addr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static const char *const level_names[] = {
    "err", "warn", "notice", "info", "debug"};
static const char *const role_names[] = {
    "none", "viewer", "user", "operator", "admin"};

void
config_init(struct config *c)
{
	memset(c, 0, sizeof(*c));
	c->log_level = SLI_LOG_NOTICE;
	sli_limits_init(&c->limits);
}

void
config_fini(struct config *c)
{
	for (unsigned i = 0; i < c->nlisten; i++)
		sli_free(c->listen[i]);
	for (unsigned i = 0; i < c->nmounts; i++)
		sli_free(c->mount_allow[i]);
	for (unsigned i = 0; i < c->nagents; i++) {
		sli_free(c->agents[i].name);
		for (unsigned k = 0; c->agents[i].argv[k]; k++)
			sli_free(c->agents[i].argv[k]);
	}
	sli_free(c->state);
	sli_free(c->user);
	memset(c, 0, sizeof(*c));
}

static enum sli_err
bad(struct sli_errinfo *ei, const char *key, const char *want)
{
	return sli_fail(
	    ei, SLI_E_CONFIG, 0, "config", "%s: expected %s", key, want);
}

static enum sli_err
set_string(char **field, const char *value, struct sli_errinfo *ei)
{
	char *copy = sli_strdup(value);
	if (!copy)
		return sli_fail(ei, SLI_E_NOMEM, 0, "config", "out of memory");
	sli_free(*field);
	*field = copy;
	return SLI_OK;
}

static enum sli_err
add_string(char **list, unsigned *n, unsigned max, const char *key,
    const char *value, struct sli_errinfo *ei)
{
	if (*n == max)
		return sli_fail(ei, SLI_E_CONFIG, 0, "config",
		    "%s: at most %u lines", key, max);
	list[*n] = NULL;
	enum sli_err e = set_string(&list[*n], value, ei);
	if (e == SLI_OK)
		(*n)++;
	return e;
}

/* Next word of *s, or NULL; the string is cut in place. */
static char *
word(char **s)
{
	char *p = *s + strspn(*s, " \t");
	if (*p == '\0')
		return NULL;
	char *end = p + strcspn(p, " \t");
	if (*end != '\0')
		*end++ = '\0';
	*s = end;
	return p;
}

static int
name_index(const char *const *names, unsigned n, const char *s)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(names[i], s) == 0)
			return (int)i;
	return -1;
}

static enum sli_err
set_uid(struct config *c, char *value, struct sli_errinfo *ei)
{
	char *u = word(&value), *t = word(&value), *r = word(&value);
	uint64_t uid = 0, tenant = 0;
	if (!u || !t || !r || word(&value) || sli_parse_u64(u, &uid) ||
	    uid >= UINT32_MAX || sli_parse_u64(t, &tenant) || tenant == 0)
		return bad(ei, "uid", "UID TENANT ROLE");
	int role = name_index(role_names, SLI_ARRAY_LEN(role_names), r);
	if (role < SLI_ROLE_VIEWER)
		return bad(ei, "uid", "a role: viewer, user, operator, admin");
	if (c->nuids == CONFIG_UIDS_MAX)
		return bad(ei, "uid", "at most 64 lines");
	c->uids[c->nuids++] = (struct config_uid){
	    (uint32_t)uid, tenant, (enum sli_role_level)role};
	return SLI_OK;
}

static enum sli_err
set_agent(struct config *c, char *value, struct sli_errinfo *ei)
{
	char *name = word(&value);
	if (!name || c->nagents == CONFIG_AGENTS_MAX)
		return bad(ei, "agent", "NAME ARGV..., at most 64 lines");
	for (unsigned i = 0; i < c->nagents; i++)
		if (strcmp(c->agents[i].name, name) == 0)
			return bad(ei, "agent", "each name once");
	struct config_agent *a = &c->agents[c->nagents];
	memset(a, 0, sizeof(*a));
	enum sli_err e = set_string(&a->name, name, ei);
	if (e != SLI_OK)
		return e;
	c->nagents++;
	unsigned n = 0;
	for (char *w = word(&value); w; w = word(&value)) {
		if (n == CONFIG_ARGV_MAX)
			return bad(ei, "agent", "at most 32 arguments");
		e = set_string(&a->argv[n++], w, ei);
		if (e != SLI_OK)
			return e;
	}
	return n ? SLI_OK : bad(ei, "agent", "a command after the name");
}

static enum sli_err
set_log_level(struct config *c, const char *value, struct sli_errinfo *ei)
{
	int lvl = name_index(level_names, SLI_ARRAY_LEN(level_names), value);
	if (lvl < 0)
		return bad(ei, "log_level", "err, warn, notice, info or debug");
	c->log_level = (enum sli_log_level)lvl;
	return SLI_OK;
}

static enum sli_err
set_yes_no(
    int *field, const char *key, const char *value, struct sli_errinfo *ei)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return bad(ei, key, "yes or no");
	*field = strcmp(value, "yes") == 0;
	return SLI_OK;
}

static enum sli_err
set_limit(struct config *c, const char *key, const char *value,
    struct sli_errinfo *ei)
{
	struct sli_limit_kv kv = {key, value};
	return sli_limits_apply(&c->limits, &kv, 1, "", ei);
}

enum sli_err
config_set(
    struct config *c, const char *key, char *value, struct sli_errinfo *ei)
{
	enum sli_limit l;
	if (*value == '\0')
		return bad(ei, key, "a value");
	if (strcmp(key, "listen") == 0)
		return add_string(
		    c->listen, &c->nlisten, CONFIG_LISTEN_MAX, key, value, ei);
	if (strcmp(key, "state") == 0)
		return set_string(&c->state, value, ei);
	if (strcmp(key, "user") == 0)
		return set_string(&c->user, value, ei);
	if (strcmp(key, "uid") == 0)
		return set_uid(c, value, ei);
	if (strcmp(key, "mount_allow") == 0)
		return add_string(c->mount_allow, &c->nmounts,
		    CONFIG_MOUNTS_MAX, key, value, ei);
	if (strcmp(key, "agent") == 0)
		return set_agent(c, value, ei);
	if (strcmp(key, "insecure_loopback") == 0)
		return set_yes_no(&c->insecure_loopback, key, value, ei);
	if (strcmp(key, "log_level") == 0)
		return set_log_level(c, value, ei);
	if (sli_limit_find(key, &l) == SLI_OK)
		return set_limit(c, key, value, ei);
	return sli_fail(ei, SLI_E_CONFIG, 0, "config",
	    "unknown keyword \"%s\"; sluiced -T shows the known ones", key);
}

static enum sli_err
read_line(struct config *c, char *line, struct sli_errinfo *ei)
{
	line[strcspn(line, "#\r\n")] = '\0';
	size_t n = strlen(line);
	while (n && (line[n - 1] == ' ' || line[n - 1] == '\t'))
		line[--n] = '\0';
	char *rest = line;
	char *key = word(&rest);
	if (!key)
		return SLI_OK;
	rest += strspn(rest, " \t");
	return config_set(c, key, rest, ei);
}

enum sli_err
config_read(struct config *c, const char *path, struct sli_errinfo *ei)
{
	char line[LINE_MAX_BYTES];
	unsigned lineno = 0;
	enum sli_err e = SLI_OK;
	FILE *f = fopen(path, "re");
	if (!f)
		return sli_fail(
		    ei, SLI_E_CONFIG, errno, "config", "cannot open %s", path);
	while (e == SLI_OK && fgets(line, sizeof(line), f)) {
		struct sli_errinfo inner = {0};
		lineno++;
		if (!strchr(line, '\n') && !feof(f))
			e = sli_fail(&inner, SLI_E_CONFIG, 0, "config",
			    "line longer than %d bytes", LINE_MAX_BYTES - 1);
		else
			e = read_line(c, line, &inner);
		if (e != SLI_OK)
			e = sli_fail(ei, SLI_E_CONFIG, 0, "config",
			    "%s:%u: %.150s", path, lineno, inner.text);
	}
	if (e == SLI_OK && ferror(f))
		e = sli_fail(
		    ei, SLI_E_CONFIG, errno, "config", "cannot read %s", path);
	(void)fclose(f);
	return e;
}

/* XDG state directory of an ordinary user; /var/lib/sluice of root. */
static char *
default_state(void)
{
	const char *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	if (xdg && xdg[0] == '/')
		return sli_asprintf("%s/sluice", xdg);
	if (geteuid() == 0)
		return sli_strdup("/var/lib/sluice");
	if (home && home[0] == '/')
		return sli_asprintf("%s/.local/state/sluice", home);
	return NULL;
}

static int
has_builtin_agent(const struct config *c)
{
	for (unsigned i = 0; i < c->nagents; i++)
		if (strcmp(c->agents[i].name, "shell") == 0)
			return 1;
	return 0;
}

/* What the server would refuse when it listens. */
static enum sli_err
check_listen(const struct config *c, struct sli_errinfo *ei)
{
	struct sli_addr a;
	for (unsigned i = 0; i < c->nlisten; i++) {
		enum sli_err e = sli_addr_parse(c->listen[i], &a, ei);
		if (e != SLI_OK)
			return e;
		if (a.kind == SLI_ADDR_TCP &&
		    (!a.loopback || !c->insecure_loopback))
			return sli_fail(ei, SLI_E_CONFIG, 0, "config",
			    "listen %.100s: plaintext TCP is for loopback "
			    "addresses, and with --insecure-loopback (or "
			    "insecure_loopback yes) only",
			    c->listen[i]);
	}
	return SLI_OK;
}

enum sli_err
config_finish(struct config *c, struct sli_errinfo *ei)
{
	enum sli_err e = check_listen(c, ei);
	if (e != SLI_OK)
		return e;
	if (!c->state) {
		c->state = default_state();
		if (!c->state)
			return sli_fail(ei, SLI_E_CONFIG, 0, "config",
			    "no state directory: set HOME, XDG_STATE_HOME or "
			    "--state DIR");
	}
	if (c->state[0] != '/')
		return bad(ei, "state", "an absolute path");
	if (!has_builtin_agent(c)) {
		char line[] = "shell /opt/sluice/bin/sluice-agent-shell";
		return set_agent(c, line, ei);
	}
	return SLI_OK;
}

/* With its unit where a bare number would mean another one. */
static void
print_limit(const struct config *c, enum sli_limit l)
{
	const struct sli_limit_info *info = sli_limit_info(l);
	const char *unit = "";
	if (info->unit == SLI_UNIT_MS)
		unit = "ms";
	else if (info->unit == SLI_UNIT_SECONDS)
		unit = "s";
	(void)printf("%s %llu%s\n", info->key,
	    (unsigned long long)sli_limits_get(&c->limits, l), unit);
}

void
config_print(const struct config *c)
{
	for (unsigned i = 0; i < c->nlisten; i++)
		(void)printf("listen %s\n", c->listen[i]);
	(void)printf("state %s\n", c->state);
	if (c->user)
		(void)printf("user %s\n", c->user);
	for (unsigned i = 0; i < c->nuids; i++)
		(void)printf("uid %u %llu %s\n", c->uids[i].uid,
		    (unsigned long long)c->uids[i].tenant,
		    role_names[c->uids[i].role]);
	for (unsigned i = 0; i < c->nmounts; i++)
		(void)printf("mount_allow %s\n", c->mount_allow[i]);
	for (unsigned i = 0; i < c->nagents; i++) {
		(void)printf("agent %s", c->agents[i].name);
		for (unsigned k = 0; c->agents[i].argv[k]; k++)
			(void)printf(" %s", c->agents[i].argv[k]);
		(void)printf("\n");
	}
	(void)printf(
	    "insecure_loopback %s\n", c->insecure_loopback ? "yes" : "no");
	(void)printf("log_level %s\n", level_names[c->log_level]);
	for (unsigned i = 0; i < SLI_L__N; i++)
		print_limit(c, (enum sli_limit)i);
}
