/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners on nng's streams: bind, accept, close. One accept is armed at a
 * time, and what it brings is posted, like everything of nng's. Knows links
 * only as something that a stream becomes. */
#include "link/link_nng.h"
#include "link/nng_int.h"
#include "link/sockdir.h"

#include "base/mem.h"
#include "base/str.h"

struct sli_listener {
	const struct sli_listener_sink *sink;
	void *ctx;
	struct sli_mailbox *mb;
	nng_stream_listener *sl;
	nng_aio *aio;
	struct sli_post post;
	struct sli_post cpost;
	int busy;
	int cbusy;
	int closed;
	struct sli_addr addr;
};

static int
listener_try_end(struct sli_listener *l)
{
	if (!l->closed || l->busy || l->cbusy)
		return 0;
	if (l->sink)
		l->sink->closed(l->ctx);
	nng_stream_listener_free(l->sl);
	nng_aio_reap(l->aio);
	sli_free(l);
	return 1;
}

static void
on_accept(struct sli_post *self)
{
	struct sli_listener *l =
	    SLI_CONTAINER_OF(self, struct sli_listener, post);
	int rv = (int)nng_aio_result(l->aio);
	nng_stream *s = rv == 0 ? nng_aio_get_output(l->aio, 0) : NULL;
	struct sli_link *link;
	struct sli_errinfo ei;

	l->busy = 0;
	if (l->closed) {
		if (s)
			nng_stream_free(s);
		(void)listener_try_end(l);
		return;
	}
	link = s ? sli_nng_link_new(s, l->mb) : NULL;
	if (link) {
		l->sink->accepted(l->ctx, link);
		return;
	}
	if (rv == 0)
		rv = NNG_ENOMEM;
	sli_fail(&ei, SLI_E_RESOURCE_EXHAUSTED, sli_nng_sys(rv), "link.accept",
	    "%s", nng_strerror(rv));
	l->sink->failed(l->ctx, &ei);
}

static void
on_listener_close(struct sli_post *self)
{
	struct sli_listener *l =
	    SLI_CONTAINER_OF(self, struct sli_listener, cpost);

	l->cbusy = 0;
	(void)listener_try_end(l);
}

/* Thread: nng's. */
static void
accept_cb(void *arg)
{
	struct sli_listener *l = arg;

	sli_mailbox_post(l->mb, &l->post);
}

static int
bind_unix(struct sli_listener *l)
{
	int rv;

	/* The mode is set between bind and listen: nobody gets in before. */
	rv = nng_stream_listener_set_int(
	    l->sl, NNG_OPT_IPC_PERMISSIONS, l->addr.shared ? 0666 : 0600);
	if (rv == 0)
		rv = nng_stream_listener_listen(l->sl);
	return rv;
}

static int
bind_tcp(struct sli_listener *l)
{
	int rv, port = 0;

	/* Off by default on nng streams; a two-write exchange would meet
	 * Nagle and delayed acks. */
	rv = nng_stream_listener_set_bool(l->sl, NNG_OPT_TCP_NODELAY, true);
	if (rv == 0)
		rv = nng_stream_listener_listen(l->sl);
	if (rv == 0)
		rv = nng_stream_listener_get_int(
		    l->sl, NNG_OPT_TCP_BOUND_PORT, &port);
	l->addr.port = (uint16_t)port;
	return rv;
}

enum sli_err
sli_listener_new(const struct sli_addr *addr, struct sli_mailbox *mb,
    const struct sli_listener_sink *sink, void *ctx,
    struct sli_listener **ret_l, struct sli_errinfo *ei)
{
	struct sli_listener *l = NULL;
	char url[SLI_URL_MAX];
	enum sli_err rc = SLI_OK;
	int rv;

	if (addr->kind == SLI_ADDR_UNIX)
		rc = sli_sockdir_claim(addr->path, addr->shared, ei);
	if (rc != SLI_OK)
		return rc;
	l = sli_zalloc(sizeof(*l));
	if (!l)
		return sli_fail(ei, SLI_E_NOMEM, 0, "link.listen", "no memory");
	l->sink = sink;
	l->ctx = ctx;
	l->mb = mb;
	l->addr = *addr;
	l->post.fn = on_accept;
	l->cpost.fn = on_listener_close;
	/* nng's scheme for unix sockets is ipc. */
	if (addr->kind == SLI_ADDR_UNIX)
		sli_snprintf(url, sizeof(url), "ipc://%s", addr->path);
	else
		sli_addr_format(addr, url, sizeof(url));
	rv = nng_aio_alloc(&l->aio, accept_cb, l);
	if (rv == 0)
		rv = nng_stream_listener_alloc(&l->sl, url);
	if (rv == 0)
		rv = addr->kind == SLI_ADDR_UNIX ? bind_unix(l) : bind_tcp(l);
	if (rv != 0) {
		rc = sli_fail(ei,
		    rv == NNG_EADDRINUSE ? SLI_E_ALREADY_EXISTS : SLI_E_SYS,
		    sli_nng_sys(rv), "link.listen", "%s: %s", url,
		    nng_strerror(rv));
		if (l->sl)
			nng_stream_listener_free(l->sl);
		nng_aio_reap(l->aio);
		sli_free(l);
		return rc;
	}
	*ret_l = l;
	return SLI_OK;
}

const struct sli_addr *
sli_listener_addr(const struct sli_listener *l)
{
	return &l->addr;
}

void
sli_listener_accept(struct sli_listener *l)
{
	if (l->closed || l->busy)
		return;
	l->busy = 1;
	nng_stream_listener_accept(l->sl, l->aio);
}

void
sli_listener_close(struct sli_listener *l)
{
	if (l->closed)
		return;
	l->closed = 1;
	nng_stream_listener_close(l->sl);
	l->cbusy = 1;
	sli_mailbox_post(l->mb, &l->cpost);
}
