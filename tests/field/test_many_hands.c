/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan timeout=300 */
/* One session in many hands (B39): ten connections prompt, cancel, answer
 * permissions and unload at random while a subscriber watches. One writer
 * decides the order: the subscriber sees a dense sequence, and a second
 * reading from the start gives the same bytes. */
#include "world.h"

#include <sluice.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HANDS 10
#define SEQS  4000000

static uint64_t sums[SEQS]; /* FNV-1a by seq; 0 = not seen */

struct watch {
	uint64_t next;
	uint64_t asked; /* request of the last permission seen */
	int again;      /* second reading: compare */
	sluice_stream *s;
};

struct slot { /* one call of a hand */
	struct hand *hand;
	sluice_stream *s;
	int busy;
};

struct hand {
	sluice_client *c;
	struct slot slots[4];
	unsigned open; /* calls not ended */
	unsigned good;
};

static uint64_t
fnv(const void *p, size_t n)
{
	const unsigned char *b = p;
	uint64_t h = 1469598103934665603ull;
	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 1099511628211ull;
	return h ? h : 1;
}

static void
on_event(
    void *arg, sluice_stream *s, const struct sluice_event *ev, sluice_msg *m)
{
	struct watch *w = arg;
	uint64_t h = fnv(ev->body, ev->body_len);
	(void)s;
	assert_int_equal(ev->seq, w->next);
	assert_true(ev->seq < SEQS);
	w->next++;
	if (w->again)
		assert_true(sums[ev->seq] == h);
	sums[ev->seq] = h;
	if (ev->kind == SLUICE_EVENT_PERMISSION)
		w->asked = ev->seq;
	sluice_msg_done(m);
}

static void
watch(sluice_client *c, const char *session, struct watch *w)
{
	struct sluice_event_handler h;
	struct sluice_error err;
	SLUICE_INIT(h);
	SLUICE_INIT(err);
	h.on_event = on_event;
	w->next = 1;
	assert_int_equal(
	    sluice_subscribe(c, session, 0, &h, w, &w->s, &err), 0);
}

/* A typed call gives its item, then NULL for its end. Refusals are right
 * answers; only silence and lost connections are not. */
static void
told(struct slot *k, int item, const struct sluice_error *err)
{
	if (item)
		return;
	k->busy = 0;
	k->hand->open--;
	k->hand->good += err == NULL;
	if (err && (err->code == SLUICE_E_INTERRUPTED ||
		       err->code == SLUICE_E_INTERNAL ||
		       err->code == SLUICE_E_DEADLINE_EXCEEDED))
		fail_msg("a call ended with %s: %s", sluice_err_name(err->code),
		    err->text);
}

static void
on_turn(void *arg, const struct sluice_turn *t, const struct sluice_error *err)
{
	told(arg, t != NULL, err);
}

static void
on_cancel(void *arg, const uint64_t *turn, const struct sluice_error *err)
{
	told(arg, turn != NULL, err);
}

static void
on_permit(void *arg, const char *option, int32_t repeated,
    const struct sluice_error *err)
{
	(void)repeated;
	told(arg, option != NULL, err);
}

static void
on_session(
    void *arg, const struct sluice_session *s, const struct sluice_error *err)
{
	told(arg, s != NULL, err);
}

static void
act(struct slot *k, const char *session, const struct watch *w, uint32_t rnd)
{
	sluice_client *c = k->hand->c;
	struct sluice_prompt_options opt;
	struct sluice_error err;
	uint32_t dice = rnd % 16;
	int rc;
	SLUICE_INIT(opt);
	SLUICE_INIT(err);
	opt.queue = (rnd >> 9) & 1;
	sluice_stream_free(k->s);
	k->s = NULL;
	if (dice < 2)
		rc = sluice_cancel(c, session, on_cancel, k, &k->s, &err);
	else if (dice == 2)
		rc = sluice_session_unload(
		    c, session, on_session, k, &k->s, &err);
	else if (dice < 9)
		rc = sluice_permit(c, session, w->asked,
		    rnd & 256 ? "allow" : NULL, NULL, on_permit, k, &k->s,
		    &err);
	else
		rc = sluice_prompt(
		    c, session, "go", 2, &opt, on_turn, k, &k->s, &err);
	assert_int_equal(rc, 0);
	k->busy = 1;
	k->hand->open++;
}

static struct slot *
free_slot(struct hand *h)
{
	for (unsigned i = 0; i < 4; i++)
		if (!h->slots[i].busy)
			return &h->slots[i];
	return NULL;
}

static void
let_go(struct hand *h)
{
	for (unsigned i = 0; i < 4; i++)
		sluice_stream_free(h->slots[i].s);
	sluice_close(h->c);
}

static struct hand hands[HANDS];

static void
come(const struct world *w)
{
	struct sluice_error err;
	SLUICE_INIT(err);
	for (unsigned i = 0; i < HANDS; i++) {
		assert_int_equal(
		    sluice_open(w->url, NULL, &hands[i].c, &err), 0);
		for (unsigned k = 0; k < 4; k++)
			hands[i].slots[k].hand = &hands[i];
	}
}

/* Everybody at once, for a while. */
static void
storm(sluice_client *c, const char *s, const struct watch *w, uint32_t rnd)
{
	struct sluice_error err;
	int64_t until = world_now_ms() + (world_long() ? 60000 : 6000);
	SLUICE_INIT(err);
	while (world_now_ms() < until) {
		for (unsigned i = 0; i < HANDS; i++) {
			struct slot *k = free_slot(&hands[i]);
			rnd = rnd * 1664525u + 1013904223u;
			/* The first thing is a prompt. */
			if (k)
				act(k, s, w, w->asked ? rnd >> 8 : 9);
			(void)sluice_wait(hands[i].c, 0, &err);
		}
		(void)sluice_wait(c, 1, &err);
	}
}

/* Nobody waits for ever: what is left is canceled, and every call ends. */
static unsigned
calm(struct world *w, sluice_client *c, const char *s)
{
	struct sluice_error err;
	unsigned good = 0;
	int64_t until = world_now_ms() + 40000;
	SLUICE_INIT(err);
	for (unsigned open = 1; open;) {
		struct run r;
		open = 0;
		SLUICE(w, &r, "cancel", s);
		run_free(&r);
		for (unsigned i = 0; i < HANDS; i++) {
			(void)sluice_wait(hands[i].c, 5, &err);
			open += hands[i].open;
		}
		(void)sluice_wait(c, 1, &err);
		assert_true(world_now_ms() < until);
	}
	for (unsigned i = 0; i < HANDS; i++) {
		good += hands[i].good;
		let_go(&hands[i]);
	}
	return good;
}

static uint64_t
head_of(struct world *w, const char *s)
{
	uint64_t head = 0;
	free(SLUICE_OK_OUT(w, "session", "unload", s));
	char *info = SLUICE_OK_OUT(w, "--json", "session", "get", s);
	assert_true(world_json_u64(info, "head", &head));
	free(info);
	return head;
}

static void
read_to(sluice_client *c, struct watch *w, uint64_t head)
{
	struct sluice_error err;
	SLUICE_INIT(err);
	while (w->next <= head)
		assert_int_equal(sluice_wait(c, 10000, &err), 0);
	sluice_stream_free(w->s);
	sluice_close(c);
}

static void
one_order_for_all(void **state)
{
	struct world w;
	char vm[64], s[64];
	struct watch first = {0}, second = {.again = 1};
	struct sluice_error err;
	uint32_t rnd = (uint32_t)world_now_ms();
	sluice_client *c = NULL;
	(void)state;
	SLUICE_INIT(err);
	print_message("seed %u\n", rnd);
	world_init(&w);
	world_conf(&w, "acp.restarts_per_hour 1000");
	world_start(&w);
	world_vm(&w, vm, sizeof(vm));
	world_fake(&w, vm,
	    "on prompt ; chunks 20 a ; ask \"p\" tool ; wait ; chunks 20 b ; "
	    "end",
	    NULL, s, sizeof(s));
	assert_int_equal(sluice_open(w.url, NULL, &c, &err), 0);
	watch(c, s, &first);
	come(&w);
	storm(c, s, &first, rnd);
	unsigned good = calm(&w, c, s);
	uint64_t head = head_of(&w, s);
	read_to(c, &first, head);
	c = NULL;
	assert_int_equal(sluice_open(w.url, NULL, &c, &err), 0);
	watch(c, s, &second);
	read_to(c, &second, head);
	print_message("%u calls succeeded, %llu events\n", good,
	    (unsigned long long)head);
	assert_true(good > 20);
	world_stop(&w);
	world_done(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_order_for_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
