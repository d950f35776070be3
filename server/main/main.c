/* SPDX-License-Identifier: Apache-2.0 */
/* sluiced: flags, configuration, helpers, then server_run. The order is the
 * point: helpers start while this process is small and has its rights; rights
 * are given up before anything that a stranger sends is read. */
#include "base/mem.h"
#include "base/str.h"
#include "link/addr.h"
#include "main/config.h"
#include "main/helpers.h"
#include "main/server.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	EXIT_USAGE = 2
};

static void
usage(FILE *to)
{
	(void)fprintf(to,
	    "usage: sluiced [-c FILE] [--listen URL]... [--state DIR]\n"
	    "               [--insecure-loopback] [--log-level LEVEL] [-t | "
	    "-T]\n"
	    "  -c FILE              configuration file; see sluiced.conf(5)\n"
	    "  --listen URL         unix:///PATH or tcp://127.0.0.1:PORT\n"
	    "  --state DIR          where history is kept\n"
	    "  --insecure-loopback  allow tcp:// on loopback, unencrypted\n"
	    "  --log-level LEVEL    err, warn, notice, info or debug\n"
	    "  -t                   check the configuration and exit\n"
	    "  -T                   print the effective configuration and "
	    "exit\n"
	    "  --version, --help\n");
}

struct flags {
	const char *file;
	char *listen[CONFIG_LISTEN_MAX];
	unsigned nlisten;
	char *state, *level;
	int insecure, test, dump;
};

static int
parse(int argc, char **argv, struct flags *f)
{
	static const struct option opts[] = {
	    {"listen",            required_argument, NULL, 'l'},
	    {"state",             required_argument, NULL, 's'},
	    {"insecure-loopback", no_argument,       NULL, 'i'},
	    {"log-level",         required_argument, NULL, 'L'},
	    {"version",           no_argument,       NULL, 'v'},
	    {"help",              no_argument,       NULL, 'h'},
	    {NULL,                0,                 NULL, 0  },
	};
	int c;
	while ((c = getopt_long(argc, argv, "c:tTh", opts, NULL)) != -1) {
		switch (c) {
		case 'c':
			f->file = optarg;
			break;
		case 'l':
			if (f->nlisten == CONFIG_LISTEN_MAX)
				return EXIT_USAGE;
			f->listen[f->nlisten++] = optarg;
			break;
		case 's':
			f->state = optarg;
			break;
		case 'i':
			f->insecure = 1;
			break;
		case 'L':
			f->level = optarg;
			break;
		case 't':
			f->test = 1;
			break;
		case 'T':
			f->dump = 1;
			break;
		case 'v':
			(void)printf("sluiced %s\n", SLUICE_VERSION);
			exit(0);
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			return EXIT_USAGE;
		}
	}
	if (optind != argc) {
		usage(stderr);
		return EXIT_USAGE;
	}
	return 0;
}

/* Flags over file over defaults; --listen replaces the file's list. */
static enum sli_err
configure(struct config *c, struct flags *f, struct sli_errinfo *ei)
{
	char yes[] = "yes";
	char url[SLI_URL_MAX];
	enum sli_err e = f->file ? config_read(c, f->file, ei) : SLI_OK;
	if (e == SLI_OK && f->nlisten) {
		while (c->nlisten)
			sli_free(c->listen[--c->nlisten]);
		for (unsigned i = 0; e == SLI_OK && i < f->nlisten; i++)
			e = config_set(c, "listen", f->listen[i], ei);
	}
	if (e == SLI_OK && f->state)
		e = config_set(c, "state", f->state, ei);
	if (e == SLI_OK && f->insecure)
		e = config_set(c, "insecure_loopback", yes, ei);
	if (e == SLI_OK && f->level)
		e = config_set(c, "log_level", f->level, ei);
	if (e == SLI_OK)
		e = config_finish(c, ei);
	if (e == SLI_OK && c->nlisten == 0) {
		e = sli_addr_default(url, ei);
		if (e == SLI_OK)
			e = config_set(c, "listen", url, ei);
	}
	return e;
}

static int
complain(const struct sli_errinfo *ei, int status)
{
	char text[320];
	(void)fprintf(
	    stderr, "sluiced: %s\n", sli_errinfo_str(ei, text, sizeof(text)));
	return status;
}

/* Each process in a VM takes three descriptors of ours, each connection one:
 * as many as we may have. The helpers run already, and what runs in VMs has
 * vm.nofile of its own. */
static void
raise_nofile(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int
serve(const struct config *c)
{
	struct sli_errinfo ei = {0};
	struct helpers h;
	struct helpers_conf hc = {
	    .state_dir = c->state,
	    .user = c->user,
	    .mount_allow = (const char *const *)c->mount_allow,
	    .nmount_allow = c->nmounts,
	};
	if (helpers_start(&hc, &h, &ei) != SLI_OK)
		return complain(&ei, 1);
	int status = 1;
	raise_nofile();
	if (server_make_socket_dirs(c, &h, &ei) != SLI_OK ||
	    helpers_drop_privileges(&h, &ei) != SLI_OK)
		(void)complain(&ei, 1);
	else
		status = server_run(c, &h);
	helpers_stop(&h);
	return status;
}

int
main(int argc, char **argv)
{
	struct flags f = {0};
	struct config c;
	struct sli_errinfo ei = {0};
	int status = parse(argc, argv, &f);
	if (status)
		return status;
	config_init(&c);
	c.owner_uid = (uint32_t)getuid();
	if (configure(&c, &f, &ei) != SLI_OK) {
		status = complain(&ei, EXIT_USAGE);
	} else if (f.dump) {
		config_print(&c);
	} else if (f.test) {
		(void)printf("configuration ok\n");
	} else {
		sli_log_set_level(c.log_level);
		status = serve(&c);
	}
	config_fini(&c);
	return status;
}
