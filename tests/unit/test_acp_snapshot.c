/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Random sequences of snapshots against a slow, separate statement of the
 * supersede rule: the same are kept, and every byte of a dropped one stands in
 * a kept one. */
#include "unit.h"

#include "acp/overlap.h"
#include "acp/supersede.h"
#include "base/str.h"

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

#define NT 3 /* texts of a snapshot */

struct snap {
	char text[NT][600];
	int has[NT];
	int title, number;
	char *line;
};

static uint64_t rng;

static unsigned
rnd(unsigned n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (unsigned)(rng % n);
}

/* The rule for one text, by trying everything. */
static size_t
slow_slide(const char *a, const char *b)
{
	size_t n = strlen(a), i = 0;
	char cut[600] = {0};

	for (i = 0; i < n; i += a[i] != '\\' ? 1 : a[i + 1] == 'u' ? 6 : 2)
		cut[i] = 1;
	for (size_t s = 0; s == 0 || (n - s) * 2 >= n; s++) {
		if (s >= n && n)
			break;
		if (strncmp(a + s, b, n - s) == 0)
			return s == 0 || cut[s] ? s : OVERLAP_NONE;
		if (!n)
			break;
	}
	return OVERLAP_NONE;
}

/* How far each text has slid since the last kept snapshot, whose text was so
 * long. */
struct measure {
	size_t slid[NT], base[NT];
};

/* May b stand for a? Measures b on. */
static int
slow_covers(const struct snap *a, const struct measure *ma,
    const struct snap *b, struct measure *mb)
{
	if (a->title && a->title != b->title)
		return 0;
	memset(mb, 0, sizeof(*mb));
	for (int i = 0; i < NT; i++) {
		size_t s;

		if (!a->has[i])
			continue;
		if (!b->has[i])
			return 0;
		s = slow_slide(a->text[i], b->text[i]);
		if (s == OVERLAP_NONE || (s && ma->slid[i] + s > ma->base[i]))
			return 0;
		mb->slid[i] = ma->slid[i] + s;
		mb->base[i] = ma->base[i];
	}
	return 1;
}

static void
slow_since(const struct snap *k, const struct snap *b, struct measure *mb)
{
	memset(mb, 0, sizeof(*mb));
	for (int i = 0; i < NT; i++) {
		if (!k || !k->has[i] || !b->has[i])
			continue;
		mb->base[i] = strlen(k->text[i]);
		mb->slid[i] = slow_slide(k->text[i], b->text[i]);
		if (mb->slid[i] == OVERLAP_NONE)
			mb->slid[i] = mb->base[i];
	}
}

static void
snap_line(struct snap *s)
{
	char m[4000];
	size_t n = sli_snprintf(m, sizeof(m), "\"status\":\"in_progress\"");

	if (s->title)
		n += sli_snprintf(
		    m + n, sizeof(m) - n, ",\"title\":\"t%d\"", s->title);
	if (s->has[0])
		n += sli_snprintf(m + n, sizeof(m) - n,
		    ",\"content\":[{\"text\":\"%s\"}]", s->text[0]);
	if (s->has[1] || s->has[2]) {
		n += sli_snprintf(m + n, sizeof(m) - n,
		    ",\"rawOutput\":{\"n\":%d", s->number);
		for (int i = 1; i < NT; i++)
			if (s->has[i])
				n += sli_snprintf(m + n, sizeof(m) - n,
				    ",\"o%d\":\"%s\"", i, s->text[i]);
		(void)sli_snprintf(m + n, sizeof(m) - n, "}");
	}
	s->line = update(m);
}

static void
add(char *t, size_t cap, const char *unit)
{
	size_t n = strlen(t);

	(void)sli_strlcpy(t + n, unit, cap - n);
}

/* The next snapshot of a call that prints: texts grow, slide, or restart. */
static void
evolve(struct snap *s, unsigned alphabet)
{
	static const char *const units[] = {
	    "a", "b", "\\n", "\\\\", "\\u00e4", "\\\"", "c", "u0"};

	s->number++;
	if (rnd(40) == 0)
		s->title = (int)rnd(3);
	for (int i = 0; i < NT; i++) {
		char *t = s->text[i];
		unsigned grow = rnd(4) ? rnd(8) : 0;

		if (rnd(30) == 0)
			s->has[i] = !s->has[i];
		if (rnd(60) == 0)
			t[0] = '\0';
		while (grow-- && strlen(t) < 580)
			add(t, sizeof(s->text[i]), units[rnd(alphabet)]);
		/* the window moves by whole units */
		while (strlen(t) > 60 + (size_t)(rnd(8) == 0) * 20 * rnd(3)) {
			size_t n = t[0] != '\\' ? 1 : t[1] == 'u' ? 6 : 2;

			memmove(t, t + n, strlen(t) - n + 1);
		}
	}
}

/* Every byte of a dropped snapshot stands in the kept one before it or in the
 * kept one after it. */
static void
assert_stands(
    const struct snap *before, const struct snap *d, const struct snap *after)
{
	for (int i = 0; i < NT; i++) {
		size_t n = strlen(d->text[i]), cut;
		char front[600];

		if (!d->has[i])
			continue;
		assert_true(after->has[i]);
		for (cut = 0; cut <= n; cut++) {
			memcpy(front, d->text[i], cut);
			front[cut] = '\0';
			if (strncmp(d->text[i] + cut, after->text[i],
				n - cut) == 0 &&
			    (!cut || (before && before->has[i] &&
					 strstr(before->text[i], front))))
				break;
		}
		assert_true(cut <= n);
	}
	assert_true(!d->title || d->title == after->title);
}

#define STEPS 120

static void
one_sequence(uint64_t seed, unsigned *ret_dropped)
{
	struct snap *v = sli_calloc(STEPS, sizeof(*v)), *k = NULL;
	struct measure m[2] = {0};
	int keep[STEPS] = {0}, held = -1, cur = 0;
	struct kept got = {0};
	struct sup s;
	unsigned j = 0, alphabet;
	int64_t now = 1;

	assert_non_null(v);
	rng = seed * 2654435761u + 88172645463325252u;
	alphabet = 1 + rnd(8);
	sup_init(&s, &small, on_keep, &got);
	for (int i = 0; i < STEPS; i++) {
		if (i)
			v[i] = v[i - 1];
		evolve(&v[i], alphabet);
		snap_line(&v[i]);
		/* now and then something else is read in between */
		if (held >= 0 && rnd(15) == 0) {
			sup_flush(&s, now);
			keep[held] = 1;
			k = &v[held];
			held = -1;
		}
		assert_true(sup_offer(&s, sli_slice_str(v[i].line),
		    sli_slice_str("t"), now, now));
		if (held < 0 ||
		    !slow_covers(&v[held], &m[cur], &v[i], &m[!cur])) {
			if (held >= 0) {
				keep[held] = 1;
				k = &v[held];
			}
			slow_since(k, &v[i], &m[!cur]);
		}
		cur = !cur;
		held = i;
		now += rnd(20);
	}
	sup_end(&s, now);
	keep[STEPS - 1] = 1;

	/* the same are kept, in order, and the others are counted */
	k = NULL;
	for (int i = 0, from = 0; i < STEPS; i++) {
		if (!keep[i])
			continue;
		assert_true(j < got.n);
		assert_string_equal(got.line[j], v[i].line);
		for (; from < i; from++)
			assert_stands(k, &v[from], &v[i]);
		from = i + 1;
		k = &v[i];
		j++;
	}
	assert_int_equal(j, got.n);
	assert_int_equal(got.n + got.superseded, STEPS);
	assert_int_equal(s.total, got.superseded);
	*ret_dropped += got.superseded;
	kept_reset(&got);
	sup_fini(&s);
	for (int i = 0; i < STEPS; i++)
		sli_free(v[i].line);
	sli_free(v);
}

static void
random_sequences_follow_the_rule_and_lose_no_byte(void **state)
{
	unsigned dropped = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++)
		one_sequence(seed, &dropped);
	/* the generator must reach the rule, not only the exceptions */
	assert_in_range(dropped, 2000 * STEPS / 10, 2000 * STEPS);
}

static void
overlap_agrees_with_trying_everything(void **state)
{
	char a[600], b[600];

	(void)state;
	rng = 4711;
	for (int round = 0; round < 20000; round++) {
		unsigned alphabet = 1 + rnd(3), n = rnd(round % 50 ? 20 : 400);
		unsigned from, m;

		for (unsigned i = 0; i < n; i++)
			a[i] = (char)('a' + rnd(alphabet));
		a[n] = '\0';
		from = n ? rnd(n) : 0;
		(void)sli_strlcpy(b, a + from, sizeof(b));
		m = rnd(10);
		for (unsigned i = 0; i < m; i++)
			add(b, sizeof(b), rnd(2) ? "a" : "b");
		assert_int_equal(
		    overlap_slide(sli_slice_str(a), sli_slice_str(b)),
		    slow_slide(a, b));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(overlap_agrees_with_trying_everything),
	    cmocka_unit_test(random_sequences_follow_the_rule_and_lose_no_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
