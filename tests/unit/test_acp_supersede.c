/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The supersede rule, case by case, and how long a snapshot is held. */
#include "unit.h"

#include "acp/overlap.h"
#include "acp/supersede.h"

#include <stdio.h>
#include <string.h>

/* --- what was kept -------------------------------------------------------*/

#define KEPT_MAX 400

struct kept {
	unsigned n;
	unsigned superseded;
	char *line[KEPT_MAX];
};

static void
on_keep(void *ctx, struct sli_slice line, int64_t at_ms, uint64_t superseded)
{
	struct kept *k = ctx;

	(void)at_ms;
	assert_in_range(k->n, 0, KEPT_MAX - 1);
	k->line[k->n] = sli_strndup((const char *)line.p, line.n);
	assert_non_null(k->line[k->n]);
	k->n++;
	k->superseded += (unsigned)superseded;
}

static void
kept_reset(struct kept *k)
{
	while (k->n)
		sli_free(k->line[--k->n]);
	k->superseded = 0;
}

static const struct sup_cfg small = {
    .min_bytes = 8,
    .max_bytes = 256 << 10,
    .hold_ms = 1000,
    .rate = 128 << 10,
    .depth = 512 << 10,
};

/* A tool_call_update around the members given. */
static char *
update(const char *members)
{
	char *s =
	    sli_asprintf("{\"jsonrpc\":\"2.0\",\"method\":"
			 "\"session/update\",\"params\":{\"sessionId\":"
			 "\"s\",\"update\":{\"sessionUpdate\":"
			 "\"tool_call_update\",\"toolCallId\":\"t\"%s%s}}}",
		*members ? "," : "", members);

	assert_non_null(s);
	return s;
}

static int
may(const char *k, const char *a, const char *b)
{
	char *kl = k ? update(k) : NULL, *al = update(a), *bl = update(b);
	int ok =
	    sup_may(sli_slice_str(kl), sli_slice_str(al), sli_slice_str(bl));

	sli_free(kl);
	sli_free(al);
	sli_free(bl);
	return ok;
}

#define TEXT(t) "\"content\":[{\"type\":\"text\",\"text\":\"" t "\"}]"
#define RAW(t)  "\"rawOutput\":{\"out\":\"" t "\"}"

static void
what_disappears_keeps_the_old_one(void **state)
{
	(void)state;
	/* a key of the first or second level */
	assert_false(may(NULL, "\"title\":\"x\"," TEXT("a"), TEXT("ab")));
	assert_false(may(NULL, "\"rawOutput\":{\"out\":\"a\",\"code\":1}",
	    "\"rawOutput\":{\"out\":\"a\"}"));
	assert_false(may(NULL, TEXT("a") "," RAW("a"), TEXT("ab")));
	/* anything but the outputs differs */
	assert_false(may(NULL, "\"status\":\"pending\"," TEXT("a"),
	    "\"status\":\"in_progress\"," TEXT("ab")));
	assert_false(may(NULL, "\"locations\":[1]", "\"locations\":[1,2]"));
	assert_false(may(NULL, "\"kind\":1", "\"kind\":1.0"));
	/* text that is not a beginning of the new one */
	assert_false(may(NULL, TEXT("abc"), TEXT("abd")));
	assert_false(may(NULL, TEXT("abc"), TEXT("ab")));
	assert_false(may(NULL, TEXT("a"), "\"content\":[]"));
	assert_false(may(NULL, TEXT("a"), "\"content\":null"));
	assert_false(may(NULL, RAW("a"), "\"rawOutput\":\"a\""));
	assert_false(
	    may(NULL, "\"content\":[\"a\",\"b\"]", "\"content\":[\"a\"]"));
	assert_false(may(
	    NULL, "\"content\":[\"a\",\"b\"]", "\"content\":[\"b\",\"a\"]"));
	/* keys given twice */
	assert_false(may(NULL, RAW("a") "," RAW("b"), RAW("b") "," RAW("b")));
}

static void
what_grows_covers_the_old_one(void **state)
{
	(void)state;
	assert_true(may(NULL, TEXT("abc"), TEXT("abcd")));
	assert_true(may(NULL, TEXT("abc"), TEXT("abc")));
	assert_true(may(NULL, TEXT(""), TEXT("abc")));
	assert_true(may(NULL, TEXT("a"), TEXT("ab") "," RAW("new")));
	assert_true(may(NULL, RAW("a") "," TEXT("a"), TEXT("a") "," RAW("a")));
	assert_true(may(NULL, "\"rawOutput\":{\"n\":1,\"t\":\"a\"}",
	    "\"rawOutput\":{\"t\":\"ab\",\"n\":2}"));
	assert_true(may(NULL, "\"rawOutput\":{\"t\":null}",
	    "\"rawOutput\":{\"t\":\"ab\"}"));
	assert_true(
	    may(NULL, "\"content\":[\"a\"]", "\"content\":[\"a\",\"b\"]"));
}

static void
a_sliding_text_needs_a_kept_snapshot(void **state)
{
	(void)state;
	/* none kept yet */
	assert_false(may(NULL, TEXT("abcdef"), TEXT("cdefgh")));
	/* what slid out stands in the kept one */
	assert_true(may(TEXT("abcdef"), TEXT("abcdef"), TEXT("cdefgh")));
	assert_true(may(TEXT("abcdef"), TEXT("bcdefg"), TEXT("cdefgh")));
	/* less than half is left */
	assert_false(may(TEXT("abcdef"), TEXT("abcdef"), TEXT("efghij")));
	/* more has slid out than the kept text is long */
	assert_false(may(TEXT("ab"), TEXT("abcdef"), TEXT("defghi")));
	/* the kept one has nothing to do with it */
	assert_false(may(TEXT("uvwxyz"), TEXT("abcdef"), TEXT("cdefgh")));
	/* it had no such text */
	assert_false(may(RAW("abcdef"), TEXT("abcdef"), TEXT("cdefgh")));
}

static void
a_slide_never_cuts_an_escape(void **state)
{
	(void)state;
	assert_int_equal(
	    overlap_slide(sli_slice_str("\\\\nxyz"), sli_slice_str("\\nxyz")),
	    OVERLAP_NONE);
	assert_int_equal(overlap_slide(sli_slice_str("\\u00e4xyz"),
			     sli_slice_str("00e4xyz")),
	    OVERLAP_NONE);
	assert_int_equal(
	    overlap_slide(sli_slice_str("\\nxyz"), sli_slice_str("nxyz")),
	    OVERLAP_NONE);
	assert_int_equal(
	    overlap_slide(sli_slice_str("\\\\xyz"), sli_slice_str("xyz")), 2);
	assert_int_equal(overlap_slide(sli_slice_str("\\u00e4xyzxxx"),
			     sli_slice_str("xyzxxx1")),
	    6);
	assert_int_equal(
	    overlap_slide(sli_slice_str("\xc3\xa4xyz"), sli_slice_str("xyz")),
	    2);
}

/* --- holding -------------------------------------------------------------*/

static int
offer(struct sup *s, const char *members, const char *call, int64_t now)
{
	char *l = update(members);
	int r = sup_offer(s, sli_slice_str(l), sli_slice_str(call), now, now);

	sli_free(l);
	return r;
}

static void
a_snapshot_waits_for_time_and_bucket(void **state)
{
	struct sup_cfg cfg = small;
	struct kept k = {0};
	struct sup s;
	size_t n;

	(void)state;
	cfg.depth = 1000;
	cfg.rate = 100;
	sup_init(&s, &cfg, on_keep, &k);
	assert_int_equal(sup_due_ms(&s), INT64_MAX);
	assert_true(offer(&s, TEXT("a"), "t", 5000));
	n = sup_held(&s);
	assert_in_range(n, 100, 300);
	assert_int_equal(sup_due_ms(&s), 6000);
	assert_true(offer(&s, TEXT("ab"), "t", 5900));
	assert_int_equal(sup_due_ms(&s), 6000); /* since the first of them */
	sup_tick(&s, 5999);
	assert_int_equal(k.n, 0);
	sup_tick(&s, 6000);
	assert_int_equal(k.n, 1);
	assert_int_equal(k.superseded, 1);
	assert_int_equal(sup_held(&s), 0);
	/* drain the bucket: every further one waits longer */
	for (int64_t now = 6000; k.n < 8; now++) {
		assert_true(offer(&s, TEXT("abc"), "t", now));
		now = sup_due_ms(&s);
		sup_tick(&s, now - 1);
		sup_tick(&s, now);
		/* never more than the rate and one depth */
		assert_true((int64_t)(k.n * n) <=
			    1000 + (now - 5000) * 100 / 1000 + (int64_t)n);
	}
	kept_reset(&k);
	sup_fini(&s);
}

static void
size_call_and_end_decide_too(void **state)
{
	struct sup_cfg cfg = small;
	struct kept k = {0};
	struct sup s;

	(void)state;
	cfg.min_bytes = 150;
	cfg.max_bytes = 200;
	sup_init(&s, &cfg, on_keep, &k);
	assert_false(offer(&s, "", "t", 1)); /* short */
	assert_false(offer(&s,
	    TEXT("01234567890123456789012345678901234567890123456789"
		 "01234567890123456789012345678901234567890123456789"),
	    "t", 1)); /* long */
	assert_true(offer(&s, TEXT("0123456789"), "t", 1));
	assert_int_equal(k.n, 0);
	/* another call: the first is kept, in order */
	assert_true(offer(&s, TEXT("0123456789a"), "u", 1));
	assert_int_equal(k.n, 1);
	assert_non_null(strstr(k.line[0], "0123456789\""));
	sup_flush(&s, 1);
	assert_int_equal(k.n, 2);
	sup_flush(&s, 1);
	assert_int_equal(k.n, 2);
	assert_true(offer(&s, TEXT("0123456789ab"), "u", 1));
	sup_end(&s, 2);
	assert_int_equal(k.n, 3);
	assert_int_equal(k.superseded, 0);
	kept_reset(&k);
	sup_fini(&s);
}

static void
keep_nothing(void *ctx, struct sli_slice l, int64_t at, uint64_t n)
{
	(void)ctx;
	(void)l;
	(void)at;
	(void)n;
}

static int
no_memory(void *ctx)
{
	struct sup s;
	int got = 1;

	(void)ctx;
	sup_init(&s, &small, keep_nothing, NULL);
	for (int i = 1; i < 4; i++) {
		char l[200];

		(void)snprintf(l, sizeof(l),
		    "{\"params\":{\"update\":{\"content\":\"%.*s\"}}}", i,
		    "abcd");
		got &=
		    sup_offer(&s, sli_slice_str(l), sli_slice_str("t"), 1, 1);
	}
	sup_fini(&s);
	return got;
}

static void
without_memory_it_declines(void **state)
{
	(void)state;
	unit_fail_each_alloc(no_memory, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_disappears_keeps_the_old_one),
	    cmocka_unit_test(what_grows_covers_the_old_one),
	    cmocka_unit_test(a_sliding_text_needs_a_kept_snapshot),
	    cmocka_unit_test(a_slide_never_cuts_an_escape),
	    cmocka_unit_test(a_snapshot_waits_for_time_and_bucket),
	    cmocka_unit_test(size_call_and_end_decide_too),
	    cmocka_unit_test(without_memory_it_declines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
