/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on real helpers; see t_host.h. */
#include "unit.h"

#include "t_host.h"
#include "t_sbx.h"

#include "base/limits.h"
#include "base/str.h"
#include "main/helpers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void
quiet_state(void *ctx, struct vm *vm, enum vm_state now)
{
	(void)vm;
	((struct t_vm *)ctx)->states[now]++;
}

static void
said(void *ctx, struct vm *vm, const char *what, const char *detail)
{
	(void)vm;
	(void)what;
	(void)detail;
	((struct t_vm *)ctx)->notices++;
}

static void
lost(void *ctx, const struct sli_errinfo *ei)
{
	(void)fprintf(stderr, "helpers are gone: %s\n", ei->text);
	((struct t_vm *)ctx)->fatals++;
}

static const struct vm_sink sink = {quiet_state, said, lost};

static int
as_server(const char *dir, int (*body)(struct t_vm *t))
{
	struct helpers_conf conf = {.state_dir = dir};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sli_limits lim;
	struct helpers h;
	struct sli_errinfo ei;
	struct t_vm t = {0};
	char text[400], libexec[2100];
	int rc;

	sbx_libexec(libexec, sizeof(libexec));
	if (setenv("SLUICE_LIBEXEC", libexec, 1) != 0)
		return 1;
	if (sigaction(SIGPIPE, &ignore, NULL) != 0)
		return 1;
	if (helpers_start(&conf, &h, &ei) != SLI_OK ||
	    helpers_drop_privileges(&h, &ei) != SLI_OK) {
		(void)fprintf(
		    stderr, "%s\n", sli_errinfo_str(&ei, text, sizeof(text)));
		return 1;
	}
	sli_limits_init(&lim);
	lim.v[SLI_L_HOST_MEMORY_SHARE] = 1000;
	t.l = loop_new(NULL);
	if (!t.l)
		return 1;
	t.e = vm_engine_new(t.l, h.spawner_fd, h.opener_fd, &lim, &sink, &t);
	if (!t.e)
		return 1;
	t.me = (struct sli_principal){
	    .tenant = 1, .role = SLI_ROLE_ADMIN, .uid = (uint32_t)getuid()};
	rc = body(&t);
	if (t.fatals)
		rc = 1;
	vm_engine_free(t.e);
	loop_free(t.l);
	/* The engine had the sockets: the helpers end by their end. */
	h.spawner_fd = h.opener_fd = -1;
	helpers_stop(&h);
	return rc;
}

/* Directories of the state directory stay; what is in them must be gone. */
static int
remove_tree(int dirfd, const char *name, int depth)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), bad;
	struct dirent *de;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		return 1;
	bad = 0;
	while ((de = readdir(d)) != NULL) {
		struct stat st;

		if (strcmp(de->d_name, ".") == 0 ||
		    strcmp(de->d_name, "..") == 0)
			continue;
		if (fstatat(fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth > 0) {
			bad |= remove_tree(fd, de->d_name, depth - 1);
		} else {
			(void)unlinkat(fd, de->d_name, 0);
		}
	}
	(void)closedir(d);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) != 0) {
		(void)fprintf(stderr, "left behind: %s\n", name);
		bad = 1;
	}
	return bad;
}

int
t_host_run(int (*body)(struct t_vm *t))
{
	const char *tmp = getenv("TMPDIR");
	char dir[512];
	int st = 0;
	pid_t pid;

	sli_snprintf(dir, sizeof(dir), "%s/slhost.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	/* The server may be another user, and must get to its directory. */
	(void)chmod(dir, 0755);
	pid = fork();
	if (pid < 0)
		return 1;
	if (pid == 0) {
		char state[600];

		sli_snprintf(state, sizeof(state), "%s/state", dir);
		exit(as_server(state, body));
	}
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	if (remove_tree(AT_FDCWD, dir, 8))
		st = 1;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1;
}

static void
on_done(void *ctx, struct vm *vm, const struct sli_errinfo *ei)
{
	struct t_vm *t = ctx;
	char text[400];

	if (ei)
		(void)fprintf(
		    stderr, "%s\n", sli_errinfo_str(ei, text, sizeof(text)));
	assert_null(ei);
	t->vm = vm;
	t->done = 1;
}

struct vm *
t_host_vm(struct t_vm *t, const char *id)
{
	struct vm_spec s = {.name = "test", .owner = t->me};

	sli_strlcpy(s.id, id, sizeof(s.id));
	t->done = 0;
	vm_create(t->e, &s, on_done, t);
	t_vm_until(t, &t->done);
	assert_int_equal(vm_state(t->vm), VM_RUNNING);
	return t->vm;
}

void
t_host_delete(struct t_vm *t, struct vm *vm)
{
	t->noted = 0;
	vm_delete(vm, t_vm_note, t);
	t_vm_until(t, &t->noted);
}

void
t_host_sh(struct vm *vm, struct t_vmc *c, const char *cmd, uint64_t timeout_ms)
{
	const char *argv[] = {"/bin/sh", "-c", cmd, NULL};
	struct vm_exec_spec s = {.argv = argv, .timeout_ms = timeout_ms};

	t_vmc_exec_spec(vm, c, &s);
}

void
t_host_run_sh(struct t_vm *t, struct vm *vm, struct t_vmc *c, const char *cmd)
{
	t_host_sh(vm, c, cmd, 0);
	t_vm_until(t, &c->answered);
	assert_non_null(c->proc);
	t_vm_until(t, &c->exited);
}

unsigned
t_host_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}
