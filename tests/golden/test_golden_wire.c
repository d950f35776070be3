/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The exact bytes of a conversation that holds every type of frame: they are
 * what tests/golden/wire.hex says, which released peers speak. A change here is
 * a change of the protocol. GOLDEN_UPDATE=1 writes the file anew. */
#include "unit.h"
#include "wirekit.h"

#include "base/str.h"
#include "wire/preamble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH SLUICE_SRC_DIR "/tests/golden/wire.hex"

struct talk {
	struct kit c, s;
	struct sli_buf text;
	unsigned seen; /* bit per frame type */
};

static void
say(struct talk *t, const char *who, const char *what, const uint8_t *p,
    size_t n)
{
	char hex[65];

	assert_int_equal(
	    sli_buf_printf(&t->text, "%s %s\n", who, what), SLI_OK);
	for (size_t at = 0; at < n; at += 32) {
		size_t k = SLI_MIN(n - at, (size_t)32);

		sli_hex(hex, p + at, k);
		assert_int_equal(
		    sli_buf_printf(&t->text, "\t%s\n", hex), SLI_OK);
	}
}

/* Everything that `from` has to say goes to `to`, and into the text. */
static void
move(struct talk *t, struct kit *from, struct kit *to)
{
	const char *who = from->role == SLI_CLIENT ? "client" : "server";
	uint8_t raw[SLI_FRAME_HDR + 4096];
	struct sli_slice p;
	struct sli_frame f;

	while (kit_next(from, &f, &p)) {
		sli_frame_put(raw, &f);
		/* Long payloads are filler; their first bytes will do. */
		memcpy(raw + SLI_FRAME_HDR, p.p, SLI_MIN(p.n, (size_t)4096));
		say(t, who, sli_frame_name(f.type), raw,
		    SLI_FRAME_HDR + (p.n > 200 ? 0 : p.n));
		t->seen |= 1u << f.type;
		assert_int_equal(kit_in(to, f.type, f.flags, f.aux16, f.sid,
				     f.aux32, p.p, p.n),
		    SLI_OK);
	}
}

static void
both(struct talk *t)
{
	move(t, &t->c, &t->s);
	move(t, &t->s, &t->c);
	move(t, &t->c, &t->s);
	move(t, &t->s, &t->c);
}

static void
give(struct kit *k, uint32_t sid, unsigned msgs, size_t size)
{
	k->src[sid].msgs = msgs;
	k->src[sid].size = size;
	sli_mux_ready(k->m, sid);
}

static void
preambles(struct talk *t)
{
	struct sli_preamble p = {1, 1, SLI_SEC_NONE};
	struct sli_preamble_answer a;
	uint8_t b[SLI_PREAMBLE_LEN];

	sli_preamble_put(b, &p);
	say(t, "client", "preamble", b, sizeof(b));
	assert_int_equal(sli_preamble_choose(&p, SLI_SEC_NONE, &a), SLI_OK);
	sli_preamble_answer_put(b, &a);
	say(t, "server", "preamble", b, sizeof(b));
}

static uint32_t
call(struct talk *t, int end)
{
	struct sli_call c = {.method = 32, .timeout_ms = 30000, .end = end};
	uint32_t sid;

	c.idempotency_key = sli_slice_str("key-1");
	c.traceparent = sli_slice_str(
	    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
	c.priority = 1;
	c.request = sli_slice_str("\x0a\x04vm-1");
	assert_int_equal(sli_mux_call(t->c.m, &c, 1 << 20, &sid, NULL), SLI_OK);
	both(t);
	return sid;
}

static void
conversation(struct talk *t)
{
	static const struct sli_slice none;
	struct sli_slice status = sli_slice_str("\x08\x05\x1a\x04gone");
	int64_t next;

	preambles(t);
	both(t);
	/* 1: unary */
	(void)call(t, 1);
	assert_int_equal(sli_mux_result(t->s.m, 1, SLI_E_NOT_FOUND, status,
			     sli_slice_str("body")),
	    SLI_OK);
	both(t);
	/* 2: both ways, with all that can happen to a stream */
	(void)call(t, 0);
	give(&t->c, 2, 1, 5);
	both(t);
	sli_mux_release(t->s.m, 2, 5);
	give(&t->s, 2, 1, 7);
	both(t);
	sli_mux_gap(t->s.m, 2, 1000, 993);
	give(&t->s, 2, 20, 65000);
	both(t);
	t->s.now += 1000;
	assert_int_equal(sli_mux_tick(t->s.m, t->s.now, &next, NULL), SLI_OK);
	both(t);
	sli_mux_stop(t->c.m, 2, SLI_E_CANCELED);
	both(t);
	sli_mux_end(t->c.m, 2);
	both(t);
	assert_int_equal(
	    sli_mux_result(t->s.m, 2, SLI_E_CANCELED, none, none), SLI_OK);
	both(t);
	/* 3: given up */
	(void)call(t, 0);
	sli_mux_reset(t->c.m, 3, SLI_E_CANCELED);
	both(t);
	assert_int_equal(sli_mux_result(t->s.m, 3, 0, none, none), SLI_OK);
	both(t);
	/* the connection */
	t->s.now += 20000;
	assert_int_equal(sli_mux_tick(t->s.m, t->s.now, &next, NULL), SLI_OK);
	both(t);
	sli_mux_goaway(
	    t->s.m, UINT32_MAX, 60000, SLI_E_DRAINING, "server stops");
	both(t);
}

static void
compare(struct talk *t)
{
	static uint8_t want[65536];
	FILE *f;
	size_t n;

	if (getenv("GOLDEN_UPDATE") != NULL) {
		f = fopen(PATH, "we");
		assert_non_null(f);
		assert_int_equal(
		    fwrite(sli_buf_data(&t->text), 1, sli_buf_len(&t->text), f),
		    sli_buf_len(&t->text));
		assert_int_equal(fclose(f), 0);
		return;
	}
	f = fopen(PATH, "re");
	assert_non_null(f);
	n = fread(want, 1, sizeof(want), f);
	assert_int_equal(fclose(f), 0);
	if (n == sli_buf_len(&t->text) &&
	    memcmp(want, sli_buf_data(&t->text), n) == 0)
		return;
	(void)fwrite(sli_buf_data(&t->text), 1, sli_buf_len(&t->text), stderr);
	fail_msg("the bytes above are not those of " PATH);
}

static void
golden(void **state)
{
	struct sli_mux_cfg cfg = {.keepalive_s = 20, .agent = "golden/1"};
	struct talk t = {0};

	(void)state;
	memset(cfg.boot_id, 0x42, sizeof(cfg.boot_id));
	sli_buf_init(&t.text, 1 << 20);
	kit_init(&t.c, SLI_CLIENT, &cfg);
	kit_init(&t.s, SLI_SERVER, &cfg);
	conversation(&t);
	/* every type there is */
	assert_int_equal(t.seen, (1u << SLI_FT__N) - 2);
	compare(&t);
	kit_fini(&t.c);
	kit_fini(&t.s);
	sli_buf_free(&t.text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
