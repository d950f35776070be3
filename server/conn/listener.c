/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting within the caps; see listener.h. Parses nothing. A connection that
 * is one too many is told so in eight bytes when the kernel knows who it is;
 * nothing of it is read. */
#include "conn/listener.h"

#include "base/log.h"
#include "base/mem.h"
#include "wire/preamble.h"

#include <string.h>

/* Accept fails at once again as long as descriptors are short. */
#define BACKOFF_MS 20

struct listener {
	struct conns *set;
	struct sli_listener *lis;
	struct loop_timer backoff;
	int failing; /* said, until one is accepted again */
};

/* A link that is refused: it lives for its answer. */
struct refused {
	struct conns *set;
	struct sli_link *link;
	uint8_t answer[SLI_PREAMBLE_LEN];
};

static void
refused_sent(void *ctx)
{
	struct refused *r = ctx;

	sli_link_close(r->link);
}

static void
refused_closed(void *ctx, const struct sli_errinfo *ei)
{
	struct refused *r = ctx;
	struct conns *set = r->set;

	(void)ei;
	sli_free(r);
	set->nrefused--;
	conns_check_done(set);
}

static void
refused_mute_closed(void *ctx, const struct sli_errinfo *ei)
{
	struct conns *set = ctx;

	(void)ei;
	set->nrefused--;
	conns_check_done(set);
}

static const struct sli_link_sink refused_sink = {
    .sent = refused_sent,
    .closed = refused_closed,
};
static const struct sli_link_sink mute_sink = {.closed = refused_mute_closed};

static void
refuse(struct conns *set, struct sli_link *link, const char *why)
{
	static const struct sli_preamble_answer full = {
	    .version = SLI_VERSION_MAX,
	    .sec = SLI_SEC_NONE,
	    .status = SLI_E_RESOURCE_EXHAUSTED,
	};
	/* A stranger on TCP learns nothing, not even who is here. */
	int known = sli_link_peer(link)->uid != (uint32_t)-1;
	struct refused *r = known ? sli_zalloc(sizeof(*r)) : NULL;
	struct sli_iov iov;

	sli_log(SLI_LOG_NOTICE, "conn", "refused", "peer=%s why=%s, closed",
	    sli_link_peer(link)->addr, why);
	set->nrefused++;
	if (!r) {
		sli_link_set_sink(link, &mute_sink, set);
		sli_link_close(link);
		return;
	}
	r->set = set;
	r->link = link;
	sli_preamble_answer_put(r->answer, &full);
	sli_link_set_sink(link, &refused_sink, r);
	iov = (struct sli_iov){r->answer, sizeof(r->answer)};
	/* They fit into any fresh socket's buffer: nobody is waited for. */
	sli_link_send(link, &iov, 1);
}

/* Same uid, or same address without the port. */
static int
same_peer(const struct sli_link_peer *a, const struct sli_link_peer *b)
{
	const char *end = strrchr(a->addr, ':');
	size_t n = end ? (size_t)(end - a->addr) + 1 : strlen(a->addr) + 1;

	if (a->uid != (uint32_t)-1 || b->uid != (uint32_t)-1)
		return a->uid == b->uid;
	return strncmp(a->addr, b->addr, n) == 0;
}

/* Why one more connection of this peer is one too many; NULL: it is not. */
static const char *
too_many(const struct conns *set, const struct sli_link_peer *peer)
{
	uint64_t same = 0, strange = 0;
	struct sli_principal who;
	struct sli_list *it;

	if (set->nconns >= set->max_conns)
		return "wire.max_connections";
	sli_list_for_each (it, &set->conns) {
		const struct conn *c = SLI_LIST_ENTRY(it, struct conn, node);

		if (!c->link || !same_peer(peer, sli_link_peer(c->link)))
			continue;
		same++;
		strange += c->state == CONN_PREAMBLE || c->state == CONN_HELLO;
	}
	if (same >=
	    sli_limits_get(&set->limits, SLI_L_WIRE_MAX_CONNECTIONS_UID))
		return "wire.max_connections_per_uid";
	/* On a unix socket the kernel has said who it is; when it is shared,
	 * that may be anybody. */
	if ((peer->uid == (uint32_t)-1 ||
		auth_peer(&set->auth, peer, &who) != SLI_OK) &&
	    strange >=
		sli_limits_get(&set->limits, SLI_L_WIRE_MAX_UNAUTHENTICATED))
		return "wire.max_unauthenticated";
	return NULL;
}

static void
on_accepted(void *ctx, struct sli_link *link)
{
	struct listener *l = ctx;
	struct conns *set = l->set;
	const char *why = too_many(set, sli_link_peer(link));
	struct conn *c;

	if (!why) {
		c = conn_new(set, link);
		if (c) {
			sli_list_add_tail(&set->conns, &c->node);
			set->nconns++;
		} else {
			why = "memory";
		}
	}
	if (why)
		refuse(set, link, why);
	l->failing = 0;
	sli_listener_accept(l->lis);
}

static void
on_failed(void *ctx, const struct sli_errinfo *ei)
{
	struct listener *l = ctx;
	char text[320];

	if (!l->failing)
		sli_log(SLI_LOG_WARN, "conn", "accept",
		    "err=\"%s\", waiting %d ms",
		    sli_errinfo_str(ei, text, sizeof(text)), BACKOFF_MS);
	l->failing = 1;
	loop_timer_after(l->set->loop, &l->backoff, BACKOFF_MS);
}

static void
on_backoff(struct loop_timer *t)
{
	struct listener *l = SLI_CONTAINER_OF(t, struct listener, backoff);

	sli_listener_accept(l->lis);
}

static void
on_closed(void *ctx)
{
	struct listener *l = ctx;
	struct conns *set = l->set;

	loop_timer_del(set->loop, &l->backoff);
	sli_free(l);
	set->nlive--;
	conns_check_done(set);
}

static const struct sli_listener_sink sink = {
    on_accepted, on_failed, on_closed};

enum sli_err
listener_new(struct conns *set, const struct sli_addr *addr,
    struct listener **ret, struct sli_errinfo *ei)
{
	struct listener *l = sli_zalloc(sizeof(*l));
	enum sli_err rc;

	if (!l)
		return sli_fail(ei, SLI_E_NOMEM, 0, "conn.listen", "no memory");
	l->set = set;
	loop_timer_init(&l->backoff, on_backoff);
	rc = sli_listener_new(
	    addr, loop_mailbox(set->loop), &sink, l, &l->lis, ei);
	if (rc != SLI_OK) {
		sli_free(l);
		return rc;
	}
	set->nlive++;
	sli_listener_accept(l->lis);
	*ret = l;
	return SLI_OK;
}

const struct sli_addr *
listener_addr(const struct listener *l)
{
	return sli_listener_addr(l->lis);
}

void
listener_close(struct listener *l)
{
	sli_listener_close(l->lis);
}
