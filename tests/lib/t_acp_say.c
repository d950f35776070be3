/* SPDX-License-Identifier: Apache-2.0 */
/* What the rig's peer and its caller say. */
#include "t_acp.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 5000

/* --- what the peer does --------------------------------------------------*/

static int
take_line(struct rig *r)
{
	char *nl = r->nrx ? memchr(r->rx, '\n', r->nrx) : NULL;
	size_t n;

	if (!nl)
		return 0;
	n = (size_t)(nl - r->rx);
	assert_true(n > 0); /* never a blank line */
	free(r->line);
	r->line = strndup(r->rx, n);
	assert_non_null(r->line);
	r->nrx -= n + 1;
	memmove(r->rx, nl + 1, r->nrx);
	return 1;
}

char *
peer_line(struct rig *r)
{
	return take_line(r) ? r->line : NULL;
}

const char *
peer_gets(struct rig *r, const char *text)
{
	int64_t end = sli_mono_ms() + PATIENCE_MS;

	while (!take_line(r)) {
		if (sli_mono_ms() > end)
			fail_msg("no line came; wanted %s", text);
		loop_turn(r->loop, 5);
		rig_moves(r);
	}
	if (!strstr(r->line, text))
		fail_msg("got %.300s\nwanted %s", r->line, text);
	return r->line;
}

void
peer_gets_nothing(struct rig *r)
{
	rig_turns(r, 20);
	if (take_line(r))
		fail_msg("got %.300s, wanted nothing", r->line);
}

void
peer_writes(struct rig *r, const void *p, size_t n)
{
	const char *c = p;
	int64_t end = sli_mono_ms() + 60000;

	while (n) {
		ssize_t k = write(r->out, c, n);

		if (k < 0 && r->loose && errno != EAGAIN)
			return; /* it was killed */
		if (k < 0) {
			assert_int_equal(errno, EAGAIN);
			assert_true(sli_mono_ms() < end);
			loop_turn(r->loop, 5);
			rig_moves(r);
			continue;
		}
		c += k;
		n -= (size_t)k;
	}
}

static void
vsays(struct rig *r, const char *before, const char *fmt, va_list ap,
    const char *after)
{
	char *s = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&s, &n);

	assert_non_null(f);
	(void)fputs(before, f);
	(void)vfprintf(f, fmt, ap);
	(void)fputs(after, f);
	(void)fclose(f);
	peer_writes(r, s, n);
	free(s);
}

void
peer_says(struct rig *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsays(r, "", fmt, ap, "\n");
	va_end(ap);
}

void
peer_update(struct rig *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsays(r,
	    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{"
	    "\"sessionId\":\"S\",\"update\":{",
	    fmt, ap, "}}}\n");
	va_end(ap);
}

void
peer_chunk(struct rig *r, const char *text)
{
	peer_update(r,
	    "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":"
	    "\"text\",\"text\":\"%s\"}",
	    text);
}

static unsigned
id_of(const char *line)
{
	const char *p = strstr(line, "\"id\":");

	assert_non_null(p);
	return (unsigned)strtoul(p + 5, NULL, 10);
}

void
peer_init(struct rig *r, const char *caps)
{
	unsigned id = id_of(peer_gets(r, "\"method\":\"initialize\""));

	peer_says(r,
	    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"protocolVersion\":1,"
	    "\"agentCapabilities\":{%s}}}",
	    id, caps);
}

void
peer_hello(struct rig *r)
{
	peer_init(r, "");
	peer_says(r,
	    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"sessionId\":\"S\"}}",
	    id_of(peer_gets(r, "\"method\":\"session/new\"")));
	/* a prompt that waits makes it run at once */
	for (int i = 0; i < 1000 && rig_state(r) == SLI_SS_OPENING; i++) {
		loop_turn(r->loop, 5);
		rig_moves(r);
	}
	assert_true(
	    rig_state(r) == SLI_SS_IDLE || rig_state(r) == SLI_SS_RUNNING);
}

unsigned
peer_prompt(struct rig *r, const char *text)
{
	const char *l = peer_gets(r, "\"method\":\"session/prompt\"");

	if (!strstr(l, text))
		fail_msg("prompt is %.300s\nwanted %s", l, text);
	return id_of(l);
}

void
peer_ends(struct rig *r, unsigned id, const char *stop)
{
	peer_says(r,
	    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"stopReason\":"
	    "\"%s\"}}",
	    id, stop);
}

void
peer_asks(struct rig *r, const char *id)
{
	peer_says(r,
	    "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":"
	    "\"session/request_permission\",\"params\":{\"sessionId\":\"S\","
	    "\"toolCall\":{\"toolCallId\":\"c1\",\"title\":\"Run it\"},"
	    "\"options\":[{\"optionId\":\"yes\",\"name\":\"Yes\",\"kind\":"
	    "\"allow_once\"},{\"optionId\":\"no\",\"name\":\"No\",\"kind\":"
	    "\"reject_once\"}]}}",
	    id);
}

/* --- the caller ----------------------------------------------------------*/

void
rig_on_accepted(
    void *ctx, const struct acp_accepted *a, const struct sli_errinfo *ei)
{
	struct rig *r = ctx;

	r->answers++;
	r->ei = *ei;
	if (a) {
		r->acc = *a;
		/* acknowledged means committed */
		assert_true(rig_outcome(r, a->turn) >= 0);
	}
}

void
rig_ask(struct rig *r, const char *text, const char *key, int queue)
{
	struct acp_ask ask = {
	    .key = sli_slice_str(key),
	    .queue = queue,
	};
	char *json = NULL;

	assert_true(
	    asprintf(&json, "[{\"type\":\"text\",\"text\":\"%s\"}]", text) > 0);
	ask.content = sli_slice_str(json);
	(void)snprintf((char *)ask.hash, sizeof(ask.hash), "%.31s", text);
	acp_prompt(r->s, &ask, rig_on_accepted, r);
	free(json);
}

uint64_t
rig_prompt(struct rig *r, const char *text)
{
	int before = r->answers;
	int64_t end = sli_mono_ms() + PATIENCE_MS;

	rig_ask(r, text, "", 0);
	while (r->answers == before) {
		assert_true(sli_mono_ms() < end);
		loop_turn(r->loop, 1);
		rig_moves(r);
	}
	if (r->ei.code != SLI_OK)
		fail_msg("refused: %s", r->ei.text);
	return r->acc.turn;
}

static void
on_permit(void *ctx, struct sli_slice option, int repeated,
    const struct sli_errinfo *ei)
{
	struct rig *r = ctx;

	r->answers++;
	r->ei = *ei;
	r->repeated = repeated;
	assert_in_range(option.n, 0, sizeof(r->option) - 1);
	memcpy(r->option, option.p, option.n);
	r->option[option.n] = '\0';
}

void
rig_permit(struct rig *r, uint64_t request, const char *option, const char *key)
{
	acp_permit(
	    r->s, request, option, sli_slice_str(key), "tester", on_permit, r);
}

int
rig_state(struct rig *r)
{
	struct acp_info i;

	acp_session_info(r->s, &i);
	return i.state;
}

void
rig_wait_state(struct rig *r, int state)
{
	int64_t end = sli_mono_ms() + PATIENCE_MS;

	while (rig_state(r) != state) {
		if (sli_mono_ms() > end)
			fail_msg("state is %d (%s), wanted %d", rig_state(r),
			    r->reason, state);
		loop_turn(r->loop, 5);
		rig_moves(r);
	}
}

void
rig_wait_end(struct rig *r, uint64_t turn, int outcome)
{
	int64_t end = sli_mono_ms() + PATIENCE_MS;

	while (rig_outcome(r, turn) <= 0) {
		if (sli_mono_ms() > end)
			fail_msg(
			    "turn %llu has no end", (unsigned long long)turn);
		loop_turn(r->loop, 5);
		rig_moves(r);
	}
	assert_int_equal(rig_outcome(r, turn), outcome);
}

uint64_t
rig_pending(struct rig *r, unsigned i)
{
	struct acp_perm p;

	return acp_perm_get(r->s, i, &p) ? p.request : 0;
}
