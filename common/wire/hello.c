/* SPDX-License-Identifier: Apache-2.0 */
/* Negotiation: each side only states its own limits, so there is nothing to
 * agree on; features count when both set them (none exist yet). */
#include "wire/hello.h"

#include "base/str.h"
#include "sluice/v1/core.pb-c.h"
#include "wire/guard.h"
#include "wire/limits.h"
#include "wire/preamble.h"

#include <string.h>

static uint32_t
fit(uint32_t v, uint32_t def, uint32_t least, uint32_t most)
{
	if (v == 0)
		v = def;
	return v < least ? least : SLI_MIN(v, most);
}

void
sli_hello_defaults(struct sli_mux_cfg *cfg)
{
	cfg->max_frame = fit(cfg->max_frame, SLI_MAX_FRAME, SLI_MAX_FRAME_LEAST,
	    SLI_MAX_FRAME_MOST);
	cfg->max_streams =
	    fit(cfg->max_streams, SLI_MAX_STREAMS, 1, SLI_MAX_STREAMS_MOST);
	cfg->floor = fit(cfg->floor, SLI_FLOOR, SLI_FLOOR, SLI_FLOOR_MOST);
	cfg->pool = fit(cfg->pool, SLI_POOL, 1, SLI_POOL_MOST);
	cfg->init_window =
	    fit(cfg->init_window, SLI_INIT_WINDOW, SLI_FLOOR, SLI_POOL_MOST);
	if (cfg->window_cap == 0)
		cfg->window_cap = SLI_WINDOW_CAP;
	cfg->window_cap = SLI_MIN(cfg->window_cap, (uint64_t)SLI_POOL_MOST);
	cfg->keepalive_s = SLI_MIN(cfg->keepalive_s, SLI_KEEPALIVE_S_MOST);
	if (cfg->dead_ms == 0)
		cfg->dead_ms = SLI_DEAD_MS;
	if (cfg->write_stall_ms == 0)
		cfg->write_stall_ms = SLI_WRITE_STALL_MS;
	cfg->ctl_hold = fit(cfg->ctl_hold, SLI_CTL_HOLD, 1, SLI_POOL_MOST);
	cfg->ctl_close = fit(cfg->ctl_close, SLI_CTL_CALM, 1, SLI_POOL_MOST);
	cfg->hello_max =
	    fit(cfg->hello_max, SLI_HELLO_MAX, SLI_HELLO_LEAST, SLI_HELLO_MAX);
}

enum sli_err
sli_hello_put(const struct sli_mux_cfg *cfg, struct sli_buf *out)
{
	Sluice__V1__Hello h;
	char agent[sizeof(cfg->agent)];
	uint8_t id[sizeof(cfg->boot_id)];

	sluice__v1__hello__init(&h);
	h.version = SLI_VERSION_MAX;
	h.max_frame = cfg->max_frame;
	h.max_streams = cfg->max_streams;
	h.floor = cfg->floor;
	h.pool = cfg->pool;
	h.init_window = cfg->init_window;
	h.keepalive_s = cfg->keepalive_s;
	sli_strlcpy(agent, cfg->agent, sizeof(agent));
	h.agent = agent;
	memcpy(id, cfg->boot_id, sizeof(id));
	h.boot_id.data = id;
	h.boot_id.len = sizeof(id);
	return sli_msg_pack(&h.base, SLI_HELLO_MAX, out);
}

/* One number of a HELLO within its bounds; absent = default. */
static int
number(uint32_t v, uint32_t def, uint32_t least, uint32_t most, uint32_t *ret)
{
	*ret = v == 0 ? def : v;
	return *ret >= least && *ret <= most;
}

static const char *
check(const Sluice__V1__Hello *h, struct sli_peer_hello *p)
{
	if (!number(h->max_frame, SLI_MAX_FRAME, SLI_MAX_FRAME_LEAST,
		SLI_MAX_FRAME_MOST, &p->max_frame))
		return "max_frame";
	if (!number(h->max_streams, SLI_MAX_STREAMS, 1, UINT32_MAX,
		&p->max_streams))
		return "max_streams";
	if (!number(h->floor, SLI_FLOOR, SLI_FLOOR, SLI_FLOOR_MOST, &p->floor))
		return "floor";
	if (!number(h->pool, SLI_POOL, 1, SLI_POOL_MOST, &p->pool))
		return "pool";
	if (!number(h->init_window, SLI_INIT_WINDOW, 1, UINT32_MAX,
		&p->init_window))
		return "init_window";
	if (h->keepalive_s > SLI_KEEPALIVE_S_MOST)
		return "keepalive_s";
	if (h->boot_id.len != 0 && h->boot_id.len != sizeof(p->boot_id))
		return "boot_id";
	return NULL;
}

enum sli_err
sli_hello_get(struct sli_slice bytes, struct sli_arena *arena,
    struct sli_peer_hello *ret, struct sli_errinfo *ei)
{
	struct sli_peer_hello p = {0};
	const Sluice__V1__Hello *h;
	const char *bad;

	h = (const Sluice__V1__Hello *)sli_msg_unpack(
	    &sluice__v1__hello__descriptor, bytes, arena, ei);
	if (h == NULL)
		return ei != NULL ? ei->code : SLI_E_MALFORMED;
	if (h->version < SLI_VERSION_MIN || h->version > SLI_VERSION_MAX)
		return sli_fail(ei, SLI_E_VERSION, 0, "wire.hello",
		    "HELLO says version %u", h->version);
	bad = check(h, &p);
	if (bad != NULL)
		return sli_fail(ei, SLI_E_PROTOCOL, 0, "wire.hello",
		    "HELLO: %s is out of bounds", bad);
	p.keepalive_s = h->keepalive_s;
	p.features = h->features;
	sli_strlcpy(p.agent, h->agent, sizeof(p.agent));
	if (h->boot_id.len != 0)
		memcpy(p.boot_id, h->boot_id.data, sizeof(p.boot_id));
	*ret = p;
	return SLI_OK;
}
