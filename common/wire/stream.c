/* SPDX-License-Identifier: Apache-2.0 */
/* The legal moves of a stream's two halves, and the table of streams. */
#include "wire/stream.h"

#include "base/log.h"
#include "base/mem.h"
#include "wire/limits.h"

#define B(state) (1u << (state))

static const uint8_t tx_legal[SLI_TX__N] = {
    [SLI_TX_OPEN] = B(SLI_TX_ENDING) | B(SLI_TX_STOPPED) | B(SLI_TX_ENDED),
    [SLI_TX_ENDING] = B(SLI_TX_STOPPED) | B(SLI_TX_ENDED),
    [SLI_TX_STOPPED] = B(SLI_TX_ENDED),
    [SLI_TX_ENDED] = B(SLI_TX_DONE),
    [SLI_TX_DONE] = 0,
};

static const uint8_t rx_legal[SLI_RX__N] = {
    [SLI_RX_OPEN] = B(SLI_RX_DEAD) | B(SLI_RX_ENDED),
    [SLI_RX_DEAD] = B(SLI_RX_ENDED),
    [SLI_RX_ENDED] = B(SLI_RX_DONE),
    [SLI_RX_DONE] = 0,
};

const char *
sli_tx_state_name(enum sli_tx_state s)
{
	static const char *const names[SLI_TX__N] = {
	    [SLI_TX_OPEN] = "open",
	    [SLI_TX_ENDING] = "ending",
	    [SLI_TX_STOPPED] = "stopped",
	    [SLI_TX_ENDED] = "ended",
	    [SLI_TX_DONE] = "done",
	};

	return s < SLI_TX__N ? names[s] : "?";
}

const char *
sli_rx_state_name(enum sli_rx_state s)
{
	static const char *const names[SLI_RX__N] = {
	    [SLI_RX_OPEN] = "open",
	    [SLI_RX_DEAD] = "dead",
	    [SLI_RX_ENDED] = "ended",
	    [SLI_RX_DONE] = "done",
	};

	return s < SLI_RX__N ? names[s] : "?";
}

int
sli_tx_legal(enum sli_tx_state from, enum sli_tx_state to)
{
	return from < SLI_TX__N && to < SLI_TX__N &&
	       (tx_legal[from] & B(to)) != 0;
}

int
sli_rx_legal(enum sli_rx_state from, enum sli_rx_state to)
{
	return from < SLI_RX__N && to < SLI_RX__N &&
	       (rx_legal[from] & B(to)) != 0;
}

void
sli_stream_set_tx(struct sli_stream *s, enum sli_tx_state to)
{
	SLI_ASSERT(sli_tx_legal(s->tx_state, to));
	sli_debug("wire", "tx_state", "sid=%u %s->%s", s->sid,
	    sli_tx_state_name(s->tx_state), sli_tx_state_name(to));
	s->tx_state = to;
}

void
sli_stream_set_rx(struct sli_stream *s, enum sli_rx_state to)
{
	SLI_ASSERT(sli_rx_legal(s->rx_state, to));
	sli_debug("wire", "rx_state", "sid=%u %s->%s", s->sid,
	    sli_rx_state_name(s->rx_state), sli_rx_state_name(to));
	s->rx_state = to;
}

void
sli_stream_init(struct sli_stream *s, uint32_t sid, uint32_t method)
{
	*s = (struct sli_stream){.sid = sid, .method = method};
	sli_list_init(&s->sched);
	sli_list_init(&s->ctl);
	sli_list_init(&s->blocked);
	sli_list_init(&s->gone);
	sli_list_init(&s->held_node);
	sli_buf_init(&s->partial, SLI_FLOOR);
}

void
sli_stream_fini(struct sli_stream *s)
{
	sli_buf_free(&s->partial);
	sli_free(s->rest.mem);
	sli_free(s->late.mem);
	if (s->held != NULL) {
		sli_buf_free(&s->held->call);
		sli_buf_free(&s->held->data);
		sli_free(s->held);
	}
	sli_list_del(&s->sched);
	sli_list_del(&s->ctl);
	sli_list_del(&s->blocked);
	sli_list_del(&s->gone);
	sli_list_del(&s->held_node);
}

/* --- table ----------------------------------------------------------------*/

/* Unused records kept: a burst beyond goes to the allocator. */
#define FREE_MAX 16u

enum sli_err
sli_table_init(struct sli_table *t, uint32_t max)
{
	uint32_t n = 16;

	*t = (struct sli_table){0};
	while (n < max)
		n *= 2;
	t->slot = sli_calloc(n, sizeof(*t->slot));
	if (t->slot == NULL)
		return SLI_E_NOMEM;
	t->mask = n - 1;
	return SLI_OK;
}

void
sli_table_fini(struct sli_table *t)
{
	struct sli_stream *s;
	uint32_t i;

	for (i = 0; t->slot != NULL && i <= t->mask; i++) {
		while ((s = t->slot[i]) != NULL) {
			t->slot[i] = s->next;
			sli_stream_fini(s);
			sli_free(s);
		}
	}
	while ((s = t->free) != NULL) {
		t->free = s->next;
		sli_free(s);
	}
	sli_free(t->slot);
	*t = (struct sli_table){0};
}

struct sli_stream *
sli_table_add(struct sli_table *t, uint32_t sid, uint32_t method)
{
	struct sli_stream *s = t->free;

	SLI_ASSERT(sli_table_get(t, sid) == NULL);
	if (s != NULL) {
		t->free = s->next;
		t->nfree--;
	} else {
		s = sli_alloc(sizeof(*s));
		if (s == NULL)
			return NULL;
	}
	sli_stream_init(s, sid, method);
	s->next = t->slot[sid & t->mask];
	t->slot[sid & t->mask] = s;
	t->count++;
	return s;
}

void
sli_table_del(struct sli_table *t, struct sli_stream *s)
{
	struct sli_stream **at = &t->slot[s->sid & t->mask];

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	t->count--;
	sli_stream_fini(s);
	if (t->nfree < FREE_MAX) {
		s->next = t->free;
		t->free = s;
		t->nfree++;
	} else {
		sli_free(s);
	}
}

struct sli_stream *
sli_table_next(const struct sli_table *t, struct sli_stream *prev)
{
	uint32_t i = 0;

	if (prev != NULL) {
		if (prev->next != NULL)
			return prev->next;
		i = (prev->sid & t->mask) + 1;
	}
	for (; i <= t->mask; i++) {
		if (t->slot[i] != NULL)
			return t->slot[i];
	}
	return NULL;
}
