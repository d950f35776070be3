/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Timers of a connection on a clock of our own: keepalive, write stall, and
 * BLOCKED with its answer. And memory: each allocation fails in turn. */
#include "unit.h"
#include "wirekit.h"

#include "wire/limits.h"

static int64_t
tick(struct kit *k, int64_t at, enum sli_err want)
{
	int64_t next = -1;

	k->now = at;
	assert_int_equal(sli_mux_tick(k->m, k->now, &next, &k->ei), want);
	sli_mux_check(k->m);
	return next;
}

static void
start(struct kit *k, enum sli_role role, uint32_t peer_keepalive_s)
{
	struct sli_mux_cfg peer = {.keepalive_s = peer_keepalive_s};

	kit_init(k, role, NULL);
	kit_hello(k, &peer);
}

static void
silent_peer(void **state)
{
	struct kit k;

	(void)state;
	start(&k, SLI_SERVER, 20);
	assert_int_equal(tick(&k, 1000, SLI_OK), 21000);
	kit_expect_none(&k);
	/* probed after 20 s, dead 10 s later */
	assert_int_equal(tick(&k, 21000, SLI_OK), 31000);
	(void)kit_expect(&k, SLI_FT_PING, 0, NULL);
	kit_expect_none(&k);
	(void)tick(&k, 30999, SLI_OK);
	kit_expect_none(&k);
	(void)tick(&k, 31000, SLI_E_STALLED);
	assert_int_equal(k.ei.code, SLI_E_STALLED);
	kit_fini(&k);
}

static void
any_byte_is_life(void **state)
{
	struct kit k;

	(void)state;
	start(&k, SLI_SERVER, 20);
	(void)tick(&k, 21000, SLI_OK);
	(void)kit_expect(&k, SLI_FT_PING, 0, NULL);
	k.now = 30999;
	assert_int_equal(kit_bytes(&k, "\x08", 1), SLI_OK);
	assert_int_equal(tick(&k, 31000, SLI_OK), 50999);
	/* a clock that jumps (suspended machine) still leaves 10 s */
	assert_int_equal(tick(&k, 500000, SLI_OK), 510000);
	(void)kit_expect(&k, SLI_FT_PING, 0, NULL);
	(void)tick(&k, 509999, SLI_OK);
	(void)tick(&k, 510000, SLI_E_STALLED);
	kit_fini(&k);
}

/* keepalive_s 0: never probed, never closed for a write stall. */
static void
left_alone(void **state)
{
	struct kit k;

	(void)state;
	start(&k, SLI_SERVER, 0);
	assert_int_equal(tick(&k, 1000, SLI_OK), INT64_MAX);
	assert_int_equal(kit_num(&k, SLI_FT_PING, 0, 0, 1), SLI_OK);
	assert_int_equal(sli_mux_wants_output(k.m), 1);
	assert_int_equal(tick(&k, 1000000, SLI_OK), INT64_MAX);
	assert_int_equal(tick(&k, 100000000, SLI_OK), INT64_MAX);
	(void)kit_expect(&k, SLI_FT_PONG, 0, NULL);
	kit_expect_none(&k);
	kit_fini(&k);
}

static void
write_stall(void **state)
{
	struct kit k;

	(void)state;
	start(&k, SLI_SERVER, 3600);
	assert_int_equal(kit_num(&k, SLI_FT_PING, 0, 0, 1), SLI_OK);
	assert_int_equal(tick(&k, 2000, SLI_OK), 32000);
	/* progress starts it anew */
	k.now = 31000;
	sli_mux_progress(k.m, k.now);
	assert_int_equal(tick(&k, 31000, SLI_OK), 61000);
	(void)tick(&k, 61000, SLI_E_STALLED);
	kit_fini(&k);

	start(&k, SLI_SERVER, 3600);
	assert_int_equal(kit_num(&k, SLI_FT_PING, 0, 0, 1), SLI_OK);
	(void)tick(&k, 2000, SLI_OK);
	(void)kit_expect(&k, SLI_FT_PONG, 0, NULL);
	/* nothing to write is no stall */
	assert_int_equal(tick(&k, 40000, SLI_OK), 1000 + 3600000);
	kit_fini(&k);
}

static void
blocked_once_a_second(void **state)
{
	struct sli_slice p;
	struct kit k;

	(void)state;
	start(&k, SLI_SERVER, 0);
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	k.src[1] = (struct kit_source){.msgs = 9, .size = 60000};
	sli_mux_ready(k.m, 1);
	assert_int_equal(kit_drain(&k, 1), 262144);
	assert_int_equal(tick(&k, 1000, SLI_OK), 2000);
	kit_expect_none(&k);
	for (int64_t t = 2000; t <= 5000; t += 1000) {
		assert_int_equal(tick(&k, t, SLI_OK), t + 1000);
		p = kit_expect(&k, SLI_FT_BLOCKED, 1, NULL);
		assert_int_equal(sli_get64(p.p), 262144);
		assert_int_equal(sli_get64(p.p + 8), 262144);
		assert_int_equal(sli_get64(p.p + 16), 1);
		kit_expect_none(&k);
		(void)tick(&k, t + 500, SLI_OK);
		kit_expect_none(&k);
	}
	/* credit ends it */
	assert_int_equal(kit_ack(&k, 1, 262144, 1 << 20), SLI_OK);
	(void)kit_drain(&k, 1);
	assert_int_equal(tick(&k, 9000, SLI_OK), INT64_MAX);
	kit_expect_none(&k);
	kit_fini(&k);
}

static void
blocked_is_answered(void **state)
{
	struct sli_slice p;
	uint8_t b[24] = {0};
	struct kit k;

	(void)state;
	start(&k, SLI_SERVER, 0);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	assert_int_equal(kit_data(&k, 1, SLI_FF_EOM, 0, 1000), SLI_OK);
	for (int i = 0; i < 3; i++) {
		/* at once, and although nothing is new */
		assert_int_equal(
		    kit_in(&k, SLI_FT_BLOCKED, 0, 0, 1, 0, b, 24), SLI_OK);
		p = kit_expect(&k, SLI_FT_ACK, 0, NULL);
		assert_int_equal(sli_get32(p.p), 1);
		assert_int_equal(sli_get64(p.p + 8), 0);
		assert_int_equal(sli_get64(p.p + 16), SLI_INIT_WINDOW);
		kit_expect_none(&k);
	}
	kit_fini(&k);
}

static void
wishes(void **state)
{
	struct sli_slice p;
	struct kit k;

	(void)state;
	start(&k, SLI_SERVER, 0);
	assert_int_equal(kit_call(&k, 1, "", 0), SLI_OK);
	/* below what lets a message through: raised to it */
	sli_mux_set_window(k.m, 1, 5);
	p = kit_expect(&k, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 16), SLI_FLOOR);
	sli_mux_set_window(k.m, 1, 1 << 20);
	p = kit_expect(&k, SLI_FT_ACK, 0, NULL);
	assert_int_equal(sli_get64(p.p + 16), 1 << 20);
	assert_int_equal(kit_data(&k, 1, 0, 0, 1), SLI_OK);
	kit_fini(&k);
}

static void
inside_a_callback(struct kit *k, uint32_t sid)
{
	int64_t next;

	(void)sid;
	assert_int_equal(
	    sli_mux_input(k->m, 0, (struct sli_slice){0}, NULL), SLI_E_BUSY);
	assert_int_equal(sli_mux_output(k->m, 0, &k->out), SLI_E_BUSY);
	assert_int_equal(sli_mux_tick(k->m, 0, &next, NULL), SLI_E_BUSY);
}

static void
no_reentry(void **state)
{
	struct kit k;

	(void)state;
	start(&k, SLI_SERVER, 0);
	k.on_call = inside_a_callback;
	assert_int_equal(kit_call(&k, 1, "", 1), SLI_OK);
	kit_fini(&k);
}

/* --- memory ---------------------------------------------------------------*/

/* A client's and a server's core back to back; every call may run out of
 * memory, and then the connection fails cleanly. */
struct duo {
	struct sli_mux *c, *s;
	int ok;
	unsigned msgs;
};

static void
duo_call(void *ctx, uint32_t sid, const struct sli_call *call)
{
	struct duo *d = ctx;

	(void)call;
	sli_mux_ready(d->s, sid);
	if (sli_mux_result(d->s, sid, 0, sli_slice_str("t"),
		sli_slice_str("body")) != SLI_OK)
		d->ok = 0;
}

static size_t
duo_pull(void *ctx, uint32_t sid, uint8_t *dst, size_t room)
{
	struct duo *d = ctx;

	(void)sid;
	(void)room;
	if (d->msgs == 0)
		return SLI_PULL_NOTHING;
	d->msgs--;
	memset(dst, 1, SLI_MUX_MSG_MAX);
	return SLI_MUX_MSG_MAX;
}

static int
duo_move(struct duo *d, struct sli_mux *from, struct sli_mux *to)
{
	struct sli_buf b;
	size_t n, at, k;

	sli_buf_init(&b, SLI_MUX_BATCH_MAX);
	if (sli_mux_output(from, 0, &b) != SLI_OK)
		d->ok = 0;
	n = sli_buf_len(&b);
	for (at = 0; at < n && d->ok; at += k) {
		k = SLI_MIN(n - at, (size_t)50000);
		if (sli_mux_input(to, 0, sli_slice_of(sli_buf_data(&b) + at, k),
			NULL) != SLI_OK)
			d->ok = 0;
	}
	sli_buf_free(&b);
	return n != 0 && d->ok;
}

static int
duo_run(void *ctx)
{
	static const struct sli_mux_sink sink = {
	    .call = duo_call, .pull = duo_pull};
	struct sli_call call = {.method = 1, .timeout_ms = 9, .end = 1};
	struct sli_mux_cfg cfg = {.role = SLI_CLIENT};
	struct duo d = {.ok = 1, .msgs = 6};
	uint32_t sid;
	int more = 1;

	(void)ctx;
	d.c = sli_mux_new(&cfg, &sink, &d);
	cfg.role = SLI_SERVER;
	d.s = sli_mux_new(&cfg, &sink, &d);
	d.ok = d.c != NULL && d.s != NULL;
	for (int i = 0; more && d.ok; i++) {
		more = duo_move(&d, d.c, d.s);
		more |= d.ok && duo_move(&d, d.s, d.c);
		if (d.ok && i == 0) {
			d.ok =
			    sli_mux_call(d.c, &call, 0, &sid, NULL) == SLI_OK;
			more = 1;
		}
	}
	sli_mux_free(d.c);
	sli_mux_free(d.s);
	return d.ok;
}

static void
memory_runs_out(void **state)
{
	(void)state;
	unit_fail_each_alloc(duo_run, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(silent_peer),
	    cmocka_unit_test(any_byte_is_life),
	    cmocka_unit_test(left_alone),
	    cmocka_unit_test(write_stall),
	    cmocka_unit_test(blocked_once_a_second),
	    cmocka_unit_test(blocked_is_answered),
	    cmocka_unit_test(wishes),
	    cmocka_unit_test(no_reentry),
	    cmocka_unit_test(memory_runs_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
