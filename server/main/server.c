/* SPDX-License-Identifier: Apache-2.0 */
/* See server.h. Start: loop, service (store, engines, recovery), listeners.
 * Stop: no new work, running turns, connections, service, loop. */
#include "main/server.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "conn/conns.h"
#include "crypto/random.h"
#include "link/addr.h"
#include "link/link_nng.h"
#include "service/service.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CONN_GRACE_MS 1000

struct server {
	const struct config *cfg;
	struct loop *loop;
	struct svc *svc;
	struct conns *conns;
	struct loop_fd signals;
	struct loop_timer last;
	int64_t grace_until_ms;
	struct svc_agent agents[CONFIG_AGENTS_MAX]; /* the service borrows it */
	int sigfd;
	int stopping; /* 0 runs, 1 draining, 2 closing connections */
	int status;
};

/* --- stop -----------------------------------------------------------------*/

static void
all_closed(void *ctx)
{
	struct server *s = ctx;
	loop_stop(s->loop);
}

static void
close_now(struct server *s)
{
	if (s->stopping == 2)
		return;
	s->stopping = 2;
	conns_close(s->conns, all_closed, s);
}

/* Clients get a moment to read what ended; it is over when none is left. */
static void
look_again(struct loop_timer *t)
{
	struct server *s = SLI_CONTAINER_OF(t, struct server, last);
	if (conns_count(s->conns) == 0 ||
	    loop_now_ms(s->loop) >= s->grace_until_ms)
		close_now(s);
	else
		loop_timer_after(s->loop, t, 20);
}

/* Turns have ended and their ends are stored: let clients read them. */
static void
drained(void *ctx)
{
	struct server *s = ctx;
	if (s->stopping == 2)
		return;
	conns_drain(s->conns, CONN_GRACE_MS);
	s->grace_until_ms = loop_now_ms(s->loop) + CONN_GRACE_MS;
	loop_timer_after(s->loop, &s->last, 0);
}

static void
stop(struct server *s)
{
	if (s->stopping) {
		close_now(s);
		return;
	}
	s->stopping = 1;
	int64_t drain_ms =
	    (int64_t)sli_limits_get(&s->cfg->limits, SLI_L_DRAIN) * 1000;
	service_drain(s->svc, drain_ms, drained, s);
}

static void
fatal(void *ctx, const struct sli_errinfo *ei)
{
	struct server *s = ctx;
	char text[320];
	s->status = 1;
	sli_log(SLI_LOG_ERR, "server", "fatal", "err=\"%s\", stopping",
	    sli_errinfo_str(ei, text, sizeof(text)));
	/* Nothing may be acknowledged any more: no drain. */
	if (s->conns)
		close_now(s);
	else
		loop_stop(s->loop);
}

static void
on_signal(struct loop_fd *w, uint32_t events)
{
	struct server *s = SLI_CONTAINER_OF(w, struct server, signals);
	struct signalfd_siginfo si;
	(void)events;
	while (read(s->sigfd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		sli_log(SLI_LOG_NOTICE, "server", "signal", "signo=%u",
		    si.ssi_signo);
		stop(s);
	}
}

/* --- start ----------------------------------------------------------------*/

static enum sli_err
watch_signals(struct server *s, struct sli_errinfo *ei)
{
	sigset_t set;
	struct sigaction ign = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ign, NULL);
	(void)sigaction(SIGHUP, &ign, NULL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return sli_fail(
		    ei, SLI_E_SYS, errno, "server", "cannot block signals");
	s->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->sigfd < 0)
		return sli_fail(
		    ei, SLI_E_SYS, errno, "server", "cannot watch signals");
	return loop_fd_add(s->loop, &s->signals, s->sigfd, EPOLLIN, on_signal);
}

static enum sli_err
start_service(struct server *s, const struct helpers *h,
    const uint8_t boot_id[16], struct sli_errinfo *ei)
{
	for (unsigned i = 0; i < s->cfg->nagents; i++)
		s->agents[i] = (struct svc_agent){s->cfg->agents[i].name,
		    (const char *const *)s->cfg->agents[i].argv};
	struct service_cfg sc = {
	    .loop = s->loop,
	    .state_dir = h->state_dir,
	    .limits = &s->cfg->limits,
	    .agents = s->agents,
	    .nagents = s->cfg->nagents,
	    .spawner_fd = h->spawner_fd,
	    .opener_fd = h->opener_fd,
	    .fatal = fatal,
	    .ctx = s,
	};
	memcpy(sc.boot_id, boot_id, sizeof(sc.boot_id));
	return service_new(&sc, &s->svc, ei);
}

static enum sli_err
listen_all(struct server *s, struct sli_errinfo *ei)
{
	char url[SLI_URL_MAX];
	enum sli_err e = SLI_OK;
	for (unsigned i = 0; e == SLI_OK && i < s->cfg->nlisten; i++)
		e = conns_listen(s->conns, s->cfg->listen[i], ei);
	for (unsigned i = 0; e == SLI_OK; i++) {
		if (conns_url(s->conns, i, url)[0] == '\0')
			break;
		sli_log(SLI_LOG_NOTICE, "server", "listening", "url=%s", url);
	}
	return e;
}

static enum sli_err
start_conns(struct server *s, const uint8_t boot_id[16], struct sli_errinfo *ei)
{
	struct conns_uid uids[CONFIG_UIDS_MAX];
	for (unsigned i = 0; i < s->cfg->nuids; i++)
		uids[i] = (struct conns_uid){s->cfg->uids[i].uid,
		    s->cfg->uids[i].tenant, s->cfg->uids[i].role};
	struct conns_cfg cc = {
	    .loop = s->loop,
	    .methods = service_methods(),
	    .svc = s->svc,
	    .limits = &s->cfg->limits,
	    .owner_uid = s->cfg->owner_uid,
	    .uids = uids,
	    .nuids = s->cfg->nuids,
	    .insecure_loopback = s->cfg->insecure_loopback,
	};
	memcpy(cc.boot_id, boot_id, sizeof(cc.boot_id));
	enum sli_err e = conns_new(&cc, &s->conns, ei);
	return e == SLI_OK ? listen_all(s, ei) : e;
}

int
server_run(const struct config *cfg, const struct helpers *h)
{
	struct server s = {.cfg = cfg, .sigfd = -1};
	struct sli_errinfo ei = {0};
	uint8_t boot_id[16];
	char text[320];
	enum sli_err e = sli_crypto_init(&ei);
	s.signals.fd = -1;
	if (e != SLI_OK)
		goto out;
	sli_random(boot_id, sizeof(boot_id));
	s.loop = loop_new(&ei);
	if (!s.loop) {
		e = ei.code;
		goto out;
	}
	loop_timer_init(&s.last, look_again);
	e = watch_signals(&s, &ei);
	if (e == SLI_OK)
		e = start_service(&s, h, boot_id, &ei);
	if (e == SLI_OK)
		e = start_conns(&s, boot_id, &ei);
	if (e == SLI_OK)
		loop_run(s.loop);
out:
	if (e != SLI_OK) {
		s.status = 1;
		(void)fprintf(stderr, "sluiced: %s\n",
		    sli_errinfo_str(&ei, text, sizeof(text)));
	}
	if (s.conns)
		conns_free(s.conns);
	service_free(s.svc);
	if (s.loop) {
		sli_link_nng_fini();
		loop_timer_del(s.loop, &s.last);
		if (s.signals.fd >= 0)
			loop_fd_del(&s.signals);
		sli_fd_close(&s.sigfd);
		loop_free(s.loop);
	}
	return s.status;
}
