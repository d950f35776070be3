/* SPDX-License-Identifier: Apache-2.0 */
/* In-memory pair of links for tests; see link_mem.h. */
#include "link/link_mem.h"

#include "base/mem.h"
#include "base/str.h"

struct mem_pair;

struct mem_link {
	struct sli_link link;
	struct mem_pair *pair;
	struct mem_link *peer;
	struct sli_iov iov[SLI_LINK_IOV_MAX];
	unsigned niov;
	unsigned at;
	int sent; /* sink.sent is due */
};

struct mem_pair {
	struct mem_link end[2];
	int cut;
	unsigned gone;
};

static struct mem_link *
self(struct sli_link *l)
{
	return SLI_CONTAINER_OF(l, struct mem_link, link);
}

static void
op_recv(struct sli_link *l)
{
	(void)l;
}

static void
op_send(struct sli_link *l, const struct sli_iov *iov, unsigned n)
{
	struct mem_link *m = self(l);

	for (unsigned i = 0; i < n; i++)
		m->iov[i] = iov[i];
	m->niov = n;
	m->at = 0;
}

static void
op_close(struct sli_link *l)
{
	(void)l;
}

static const struct sli_link_ops mem_ops = {
    .recv = op_recv,
    .send = op_send,
    .close = op_close,
};

enum sli_err
sli_mem_pair(struct sli_link **ret_a, struct sli_link **ret_b)
{
	struct mem_pair *p = sli_zalloc(sizeof(*p));

	if (!p)
		return SLI_E_NOMEM;
	for (unsigned i = 0; i < 2; i++) {
		struct mem_link *m = &p->end[i];

		sli_link_init(&m->link, &mem_ops, SLI_LINK_OPEN);
		sli_snprintf(m->link.peer.addr, sizeof(m->link.peer.addr),
		    "mem:%u", 1 - i);
		m->pair = p;
		m->peer = &p->end[1 - i];
	}
	*ret_a = &p->end[0].link;
	*ret_b = &p->end[1].link;
	return SLI_OK;
}

void
sli_mem_cut(struct sli_link *l)
{
	self(l)->pair->cut = 1;
}

/* Up to `piece` bytes of from's send into the peer's armed receive. */
static unsigned
move(struct mem_link *from, size_t piece)
{
	struct mem_link *to = from->peer;
	struct sli_iov *v;
	size_t n;
	uint8_t *copy;

	if (from->link.state != SLI_LINK_OPEN || !from->link.sending ||
	    from->sent || to->link.state != SLI_LINK_OPEN ||
	    !to->link.receiving)
		return 0;
	v = &from->iov[from->at];
	n = SLI_MIN(SLI_MIN(v->n, piece), to->link.recv_max);
	/* A copy of its own, so that a sanitizer sees who reads it later. */
	copy = sli_memdup(v->p, n);
	SLI_ASSERT(copy);
	v->p = (const uint8_t *)v->p + n;
	v->n -= n;
	from->link.written += n;
	while (from->at < from->niov && from->iov[from->at].n == 0)
		from->at++;
	from->sent = from->at == from->niov;
	sli_link_got(&to->link, sli_slice_of(copy, n));
	sli_free(copy);
	return 1;
}

static unsigned
settle(struct mem_link *m)
{
	struct sli_errinfo ei = {0};
	enum sli_link_state peer = m->peer->link.state;

	if (m->link.state == SLI_LINK_OPEN && m->sent) {
		m->sent = 0;
		sli_link_done(&m->link);
		return 1;
	}
	/* The peer's close is seen as the end of its bytes; what it had not
	 * finished sending is lost, as with a real socket. */
	if (m->link.state == SLI_LINK_OPEN &&
	    (m->pair->cut || peer == SLI_LINK_CLOSED))
		sli_link_close(&m->link);
	if (m->link.state != SLI_LINK_CLOSING)
		return 0;
	if (m->pair->cut)
		sli_fail(&ei, SLI_E_CLOSED, 0, "link.mem", "cut");
	sli_link_ended(&m->link, &ei);
	m->pair->gone++;
	return 1;
}

unsigned
sli_mem_step(struct sli_link *l, size_t piece)
{
	struct mem_pair *p = self(l)->pair;
	unsigned did = 0;

	for (unsigned i = 0; i < 2 && !p->cut; i++)
		did += move(&p->end[i], piece);
	for (unsigned i = 0; i < 2; i++)
		did += settle(&p->end[i]);
	if (p->gone == 2)
		sli_free(p);
	return did;
}
