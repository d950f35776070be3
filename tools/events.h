/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a session as the command shows and follows them: the JSON line of
 * an event, and a subscription that survives a lost connection. */
#ifndef TOOLS_EVENTS_H
#define TOOLS_EVENTS_H

#include "cmd.h"
#include "json.h"

/* {"seq","kind","at_ms","turn"..,"payload"}: the body as it is when it is one
 * line of JSON, else "payload_text", the same as a string, when it is UTF-8,
 * else "payload_b64". Flushes. */
void event_line(const struct sluice_event *ev);
/* {"gap":{"first","last","reason"}} */
void event_gap_line(uint64_t first, uint64_t last, const char *reason);
/* The body as JSON; p NULL when it is none. */
struct json event_body(const struct sluice_event *ev);
/* A member of the body as a number; 0 when there is none. */
uint64_t event_u64(const struct sluice_event *ev, const char *key);
/* A member as text in dst, cut; "" when there is none. */
void event_text(
    const struct sluice_event *ev, const char *path, char *dst, size_t cap);

struct follow {
	struct tool *t;
	const char *session;
	uint64_t next; /* seq to go on from */
	/* State first, then every event once, in order. Either may be NULL. */
	void (*on_state)(
	    struct follow *f, const struct sluice_sub_state *state);
	void (*on_event)(struct follow *f, const struct sluice_event *ev);
	void (*on_gap)(struct follow *f, uint64_t first, uint64_t last,
	    const char *reason);
	/* SIGINT came; return 0 to go on. NULL: the signal ends the command. */
	int (*on_interrupt)(struct follow *f);
	void *user;
	int done; /* set by a callback: leave with this status + 1 */
};

/* Follow until done is set; reconnects for up to 30 s after a lost connection.
 * Returns an exit code. The connection is open. */
int follow_run(struct follow *f);
/* Connect again: tries for up to 30 s. -1 or an exit code. */
int follow_reconnect(struct tool *t);

#endif
