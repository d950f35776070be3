/* SPDX-License-Identifier: Apache-2.0 */
/* The effective configuration of a server: flags over file over defaults.
 * One keyword a line, `#` starts a comment; an unknown keyword is an error
 * with file and line. */
#ifndef SLUICED_CONFIG_H
#define SLUICED_CONFIG_H

#include "base/limits.h"
#include "base/log.h"
#include "base/principal.h"

#define CONFIG_LISTEN_MAX 8
#define CONFIG_UIDS_MAX   64
#define CONFIG_MOUNTS_MAX 32
#define CONFIG_AGENTS_MAX 64
#define CONFIG_ARGV_MAX   32

struct config_uid {
	uint32_t uid;
	uint64_t tenant;
	enum sli_role_level role;
};

struct config_agent {
	char *name;
	char *argv[CONFIG_ARGV_MAX + 1];
};

struct config {
	char *listen[CONFIG_LISTEN_MAX];
	unsigned nlisten;
	char *state;
	char *user;
	struct config_uid uids[CONFIG_UIDS_MAX];
	unsigned nuids;
	char *mount_allow[CONFIG_MOUNTS_MAX];
	unsigned nmounts;
	struct config_agent agents[CONFIG_AGENTS_MAX];
	unsigned nagents;
	int insecure_loopback;
	enum sli_log_level log_level;
	uint32_t owner_uid; /* who started the server */
	struct sli_limits limits;
};

/* Defaults; always succeeds. config_fini frees what the fields own. */
void config_init(struct config *c);
void config_fini(struct config *c);
/* Read a file. CONFIG with "FILE:LINE: what" in ei. */
SLI_MUST enum sli_err config_read(
    struct config *c, const char *path, struct sli_errinfo *ei);
/* One "keyword value" pair, as from a line or a flag. */
SLI_MUST enum sli_err config_set(
    struct config *c, const char *key, char *value, struct sli_errinfo *ei);
/* Check the addresses; fill what was not given: state directory, agent shell.
 */
SLI_MUST enum sli_err config_finish(struct config *c, struct sli_errinfo *ei);
/* Print the effective values in the file's own format (sluiced -T). */
void config_print(const struct config *c);

#endif
