/* SPDX-License-Identifier: Apache-2.0 */
/* Session files: one update a line, in $XDG_STATE_HOME/sluice-agent-shell or
 * below $HOME. What cannot be kept is not an error of the turn: the session
 * then cannot be loaded later. */
#include "guest/agent_shell.h"

#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_LEN 1200

static int
dir_path(char *dst, size_t cap)
{
	const char *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	char up[PATH_LEN];
	if (xdg && xdg[0] == '/') {
		sli_strlcpy(up, xdg, sizeof(up));
	} else {
		if (!home || home[0] != '/')
			home = "/root";
		sli_snprintf(up, sizeof(up), "%s/.local", home);
		(void)mkdir(up, 0700);
		sli_snprintf(up, sizeof(up), "%s/.local/state", home);
	}
	(void)mkdir(up, 0700);
	size_t n = sli_snprintf(dst, cap, "%s/sluice-agent-shell", up);
	(void)mkdir(dst, 0700);
	return n + AGENT_ID_LEN + 8 < cap ? 0 : -1;
}

static int
file_open(struct session *s, int flags)
{
	char path[PATH_LEN + 64];
	size_t n;
	if (dir_path(path, PATH_LEN) != 0)
		return -1;
	n = strlen(path);
	sli_snprintf(path + n, sizeof(path) - n, "/%s.jsonl", s->id);
	s->history = open(path, flags | O_CLOEXEC, 0600);
	return s->history < 0 ? -1 : 0;
}

int
history_new(struct session *s)
{
	return file_open(s, O_RDWR | O_APPEND | O_CREAT | O_EXCL);
}

int
history_open(struct session *s, const char *id)
{
	size_t n = strlen(id);
	if (n == 0 || n >= AGENT_ID_LEN || strspn(id, "0123456789abcdef") != n)
		return -1;
	sli_strlcpy(s->id, id, sizeof(s->id));
	return file_open(s, O_RDWR | O_APPEND);
}

void
history_add(struct session *s, struct sli_slice update)
{
	if (s->history < 0)
		return;
	if (sli_fd_write_all(s->history, update.p, update.n, NULL) != SLI_OK ||
	    sli_fd_write_all(s->history, "\n", 1, NULL) != SLI_OK)
		sli_fd_close(&s->history);
}

/* A last line that was cut by a crash is left out. */
int
history_replay(struct session *s,
    void (*fn)(void *ctx, struct sli_slice update), void *ctx)
{
	struct sli_buf b;
	int n = 0;
	off_t at = 0;
	sli_buf_init(&b, 2 * AGENT_LINE_MAX);
	for (;;) {
		uint8_t *p = sli_buf_reserve(&b, 65536);
		ssize_t got = p ? pread(s->history, p, 65536, at) : -1;
		if (got <= 0)
			break;
		at += got;
		sli_buf_added(&b, (size_t)got);
		for (;;) {
			struct sli_slice all = sli_buf_slice(&b);
			const uint8_t *nl = memchr(all.p, '\n', all.n);
			if (!nl)
				break;
			fn(ctx, sli_slice_of(all.p, (size_t)(nl - all.p)));
			sli_buf_consume(&b, (size_t)(nl - all.p) + 1);
			n++;
		}
	}
	sli_buf_free(&b);
	return n;
}
