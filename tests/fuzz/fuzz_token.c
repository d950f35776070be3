/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Any bytes as an agent's line: the tokenizer gives the same verdict and the
 * same tokens however they are split, agrees with the flat index, and the rule
 * for snapshots never says that a line covers what it does not hold. */
#include "acp/envelope.h"
#include "acp/jtree.h"
#include "acp/supersede.h"

#include "base/mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	uint64_t h;
	unsigned depth;
};

static void
mix(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * 0x100000001b3ull;
}

static void
note(void *ctx, struct tok *t, enum tok_kind kind, struct sli_slice s,
    uint64_t off, uint64_t len)
{
	struct sum *m = ctx;

	mix(&m->h, (uint64_t)kind << 32 | t->depth);
	mix(&m->h, off);
	mix(&m->h, len);
	SLI_ASSERT(s.n <= len && t->depth <= TOK_DEPTH_MAX);
	for (size_t i = 0; i < s.n && i < TOK_CARRY; i++)
		mix(&m->h, s.p[i]);
}

static enum tok_err
run(const uint8_t *p, size_t n, size_t step, uint64_t *ret_h, int *ret_bad)
{
	struct sum m = {0xcbf29ce484222325ull, 0};
	enum tok_err err;
	struct tok t;

	tok_init(&t, note, &m);
	for (size_t i = 0; i < n; i += step)
		tok_feed(&t, p + i, SLI_MIN(step, n - i));
	err = tok_finish(&t);
	*ret_h = m.h;
	*ret_bad = t.bad_utf8;
	return err;
}

static void
envelopes(const uint8_t *p, size_t n)
{
	struct envelope a, b;

	env_init(&a, 128);
	env_init(&b, 128);
	env_feed(&a, p, n);
	for (size_t i = 0; i < n; i++)
		env_feed(&b, p + i, 1);
	SLI_ASSERT(env_finish(&a) == env_finish(&b));
	SLI_ASSERT(sli_slice_eq(env_slice(&a.id), env_slice(&b.id)));
	SLI_ASSERT(sli_slice_eq(env_slice(&a.method), env_slice(&b.method)));
	SLI_ASSERT(sli_slice_eq(env_slice(&a.call), env_slice(&b.call)));
	SLI_ASSERT(a.tok.meta == b.tok.meta);
	SLI_ASSERT(
	    sli_slice_eq(sli_buf_slice(&a.options), sli_buf_slice(&b.options)));
	env_fini(&a);
	env_fini(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t h[2];
	int bad[2];
	enum tok_err err = run(data, size, size + 1, &h[0], &bad[0]);
	struct jtree j;
	struct sli_buf text;

	for (size_t step = 1; step < 8; step += 3) {
		SLI_ASSERT(run(data, size, step, &h[1], &bad[1]) == err);
		SLI_ASSERT(err != TOK_ERR_NONE || h[0] == h[1]);
		SLI_ASSERT(err != TOK_ERR_NONE || bad[0] == bad[1]);
	}
	jtree_init(&j, 100000);
	sli_buf_init(&text, size + 8);
	if (jtree_parse(&j, sli_slice_of(data, size)) == 0) {
		SLI_ASSERT(err == TOK_ERR_NONE && !bad[0]);
		for (uint32_t i = 0; i < j.n; i++) {
			SLI_ASSERT(j.v[i].end > i && j.v[i].end <= j.n);
			if (j.v[i].kind != TOK_STR)
				continue;
			sli_buf_reset(&text);
			SLI_ASSERT(
			    json_decode(&text, jtree_text(&j, i), size) >= 0);
		}
		/* with no kept snapshot, only what grows is covered: itself */
		SLI_ASSERT(!sup_may(sli_slice_of(NULL, 0),
			       sli_slice_of(data, size), sli_slice_str("{}")) ||
			   j.n == 1);
	}
	sli_buf_free(&text);
	jtree_fini(&j);
	envelopes(data, size);
	return 0;
}
