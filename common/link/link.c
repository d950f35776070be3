/* SPDX-License-Identifier: Apache-2.0 */
/* What all links share: the states, the checks of the contract in link.h, and
 * the delivery to the sink. Moves no bytes itself. */
#include "link/link.h"

#include "base/log.h"

#define TO(s) (1u << SLI_LINK_##s)

static const unsigned legal[SLI_LINK__N] = {
    [SLI_LINK_CONNECTING] = TO(OPEN) | TO(CLOSING),
    [SLI_LINK_OPEN] = TO(CLOSING),
    [SLI_LINK_CLOSING] = TO(CLOSED),
    [SLI_LINK_CLOSED] = 0,
};

static const char *const names[SLI_LINK__N] = {
    [SLI_LINK_CONNECTING] = "connecting",
    [SLI_LINK_OPEN] = "open",
    [SLI_LINK_CLOSING] = "closing",
    [SLI_LINK_CLOSED] = "closed",
};

const char *
sli_link_state_name(enum sli_link_state s)
{
	return s < SLI_LINK__N ? names[s] : "?";
}

void
sli_link_move(struct sli_link *l, enum sli_link_state to)
{
	SLI_ASSERT(legal[l->state] & (1u << to));
	sli_debug("link", "state", "peer=%s from=%s to=%s", l->peer.addr,
	    sli_link_state_name(l->state), sli_link_state_name(to));
	l->state = to;
}

void
sli_link_init(struct sli_link *l, const struct sli_link_ops *ops,
    enum sli_link_state state)
{
	*l = (struct sli_link){
	    .ops = ops,
	    .peer = {.uid = (uint32_t)-1, .gid = (uint32_t)-1},
	    .state = state,
	    .recv_max = SLI_LINK_RECV_MAX,
	};
}

static int
alive(const struct sli_link *l)
{
	return l->state == SLI_LINK_OPEN || l->state == SLI_LINK_CONNECTING;
}

void
sli_link_set_sink(
    struct sli_link *l, const struct sli_link_sink *sink, void *ctx)
{
	SLI_ASSERT(!l->receiving && !l->sending);
	l->sink = sink;
	l->ctx = ctx;
}

void
sli_link_recv(struct sli_link *l)
{
	if (!alive(l))
		return;
	SLI_ASSERT(l->sink && !l->receiving);
	l->receiving = 1;
	l->ops->recv(l);
}

void
sli_link_send(struct sli_link *l, const struct sli_iov *iov, unsigned n)
{
	if (!alive(l))
		return;
	SLI_ASSERT(l->sink && !l->sending && n > 0 && n <= SLI_LINK_IOV_MAX);
	l->sending = 1;
	l->ops->send(l, iov, n);
}

int
sli_link_sending(const struct sli_link *l)
{
	return l->sending;
}

uint64_t
sli_link_written(const struct sli_link *l)
{
	return l->written;
}

const struct sli_link_peer *
sli_link_peer(const struct sli_link *l)
{
	return &l->peer;
}

enum sli_link_state
sli_link_state(const struct sli_link *l)
{
	return l->state;
}

void
sli_link_idle(struct sli_link *l)
{
	if (alive(l) && l->ops->idle)
		l->ops->idle(l);
}

void
sli_link_recv_max(struct sli_link *l, size_t max)
{
	l->recv_max =
	    SLI_MIN(SLI_MAX(max, SLI_LINK_RECV_MIN), SLI_LINK_RECV_MAX);
}

void
sli_link_close(struct sli_link *l)
{
	if (!alive(l))
		return;
	sli_link_move(l, SLI_LINK_CLOSING);
	l->ops->close(l);
}

void
sli_link_got(struct sli_link *l, struct sli_slice bytes)
{
	l->receiving = 0;
	l->sink->recv(l->ctx, bytes);
}

void
sli_link_done(struct sli_link *l)
{
	l->sending = 0;
	l->sink->sent(l->ctx);
}

void
sli_link_ended(struct sli_link *l, const struct sli_errinfo *ei)
{
	sli_link_move(l, SLI_LINK_CLOSED);
	l->receiving = 0;
	l->sending = 0;
	if (l->sink)
		l->sink->closed(l->ctx, ei);
}
