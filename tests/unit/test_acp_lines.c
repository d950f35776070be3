/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The newline splitter: noise, ends of line, splits, long lines in parts. */
#include "unit.h"

#include "acp/lines.h"

#include <stdio.h>
#include <string.h>

/* Everything told, as text: "class:bytes|" for each line. */
struct sink {
	struct sli_buf out;
	struct sli_buf parts; /* bytes of the open set */
	uint64_t set, next_set;
	unsigned dropped, lines, over;
	int no_parts;
	struct lines *stop_me;
};

static void
on_line(void *ctx, const struct line *ln)
{
	struct sink *s = ctx;
	struct sli_slice b = ln->bytes;

	s->lines++;
	if (ln->parts) {
		assert_int_equal(ln->parts, s->set);
		b = sli_buf_slice(&s->parts);
	}
	assert_true(ln->too_long || b.n == ln->length);
	assert_int_equal(sli_buf_printf(&s->out, "%d%s%s:", (int)ln->cls,
			     ln->bad_utf8 ? "u" : "", ln->too_long ? "L" : ""),
	    SLI_OK);
	assert_int_equal(sli_buf_append(&s->out, b.p, b.n), SLI_OK);
	assert_int_equal(sli_buf_append(&s->out, "|", 1), SLI_OK);
	sli_buf_reset(&s->parts);
	s->set = 0;
	if (s->stop_me)
		lines_stop(s->stop_me);
}

static void
on_over(void *ctx, uint64_t length)
{
	struct sink *s = ctx;

	(void)length;
	s->over++;
}

static uint64_t
on_begin(void *ctx)
{
	struct sink *s = ctx;

	assert_int_equal(s->set, 0);
	s->set = s->no_parts ? 0 : ++s->next_set;
	return s->set;
}

static void
on_append(void *ctx, uint64_t set, struct sli_slice b)
{
	struct sink *s = ctx;

	assert_int_equal(set, s->set);
	assert_true(b.n > 0);
	assert_int_equal(sli_buf_append(&s->parts, b.p, b.n), SLI_OK);
}

static void
on_drop(void *ctx, uint64_t set)
{
	struct sink *s = ctx;

	assert_int_equal(set, s->set);
	s->set = 0;
	s->dropped++;
	sli_buf_reset(&s->parts);
}

static const struct lines_ops ops = {
    on_line, on_over, on_begin, on_append, on_drop};

static void
sink_init(struct sink *s)
{
	memset(s, 0, sizeof(*s));
	sli_buf_init(&s->out, (size_t)32 << 20);
	sli_buf_init(&s->parts, (size_t)32 << 20);
}

static void
sink_fini(struct sink *s)
{
	sli_buf_free(&s->out);
	sli_buf_free(&s->parts);
}

/* inline_max 32, max_line 64, so that small texts reach every mode. */
static void
feed(struct sink *s, struct sli_slice in, size_t step, int eof)
{
	struct lines l;

	sli_buf_reset(&s->out);
	s->lines = s->dropped = 0;
	lines_init(&l, &ops, s, 64, 32, 16);
	for (size_t i = 0; i < in.n; i += step)
		lines_feed(&l, in.p + i, SLI_MIN(step, in.n - i), 1);
	if (eof)
		lines_eof(&l);
	lines_fini(&l);
}

static void
expect(const char *in, int eof, const char *want)
{
	struct sli_slice s = sli_slice_str(in);
	struct sink k;

	sink_init(&k);
	for (size_t step = 1; step <= s.n + 1; step++) {
		feed(&k, s, step, eof);
		unit_slice_is(sli_buf_slice(&k.out), want);
	}
	sink_fini(&k);
}

static void
an_over_long_line_is_skipped_to_its_newline(void **state)
{
	char in[200];

	(void)state;
	(void)snprintf(in, sizeof(in), "{\"id\":1,\"x\":\"%070d\"}\n{}\n", 0);
	expect(in, 0, "5L:|2:{}|");
	/* noise of any length too, and at the end of the stream */
	(void)snprintf(in, sizeof(in), "%070d!\n", 0);
	expect(in, 1, "0L:|");
	(void)snprintf(in, sizeof(in), "{\"x\":\"%070d", 0);
	expect(in, 1, "0L:|");
	expect(in, 0, "");
}

static void
a_line_without_room_for_parts_is_skipped(void **state)
{
	char in[100];
	struct sink k;

	(void)state;
	sink_init(&k);
	k.no_parts = 1;
	(void)snprintf(in, sizeof(in), "{\"x\":\"%030d\"}\n{}\n", 0);
	feed(&k, sli_slice_str(in), 7, 0);
	unit_slice_is(sli_buf_slice(&k.out), "2L:|2:{}|");
	assert_int_equal(k.over, 1);
	sink_fini(&k);
}

static void
ends_of_lines_and_noise_are_tolerated(void **state)
{
	(void)state;
	expect("{}\r\n{}\n", 0, "2:{}|2:{}|");
	expect("\n\r\n \t \n{}\n\n", 0, "2:{}|");
	expect("{}\r\r\n", 0, "2:{}\r|");
	expect("a\rb\n", 0, "0:a\rb|");
	expect("\x1b[32mready\x1b[0m\n{}\n", 0, "0:\x1b[32mready\x1b[0m|2:{}|");
	expect("{}", 1, "2:{}|");
	expect("{}\r", 1, "2:{}|");
	expect("{}", 0, "");
	expect("{", 1, "0:{|");
	expect("42\n\"x\"\nnull\n", 0, "0:42|0:\"x\"|0:null|");
}

static void
a_byte_order_mark_before_the_first_line_is_no_part_of_it(void **state)
{
	(void)state;
	expect("\xef\xbb\xbf{}\n{}\n", 0, "2:{}|2:{}|");
	expect("\xef\xbb\xbf\n{}\n", 0, "2:{}|");
	/* only there, and only whole */
	expect("{}\n\xef\xbb\xbf{}\n", 0, "2:{}|0:\xef\xbb\xbf{}|");
	expect("\xef\xbb{}\n", 0, "0:\xef\xbb{}|");
	expect("\xef\xbb", 1, "0:\xef\xbb|");
}

static void
a_long_line_goes_to_parts_while_it_arrives(void **state)
{
	char in[100], want[100];

	(void)state;
	(void)snprintf(in, sizeof(in), "{\"x\":\"%040d\"}\r\n{}\n", 0);
	(void)snprintf(want, sizeof(want), "2:{\"x\":\"%040d\"}|2:{}|", 0);
	expect(in, 0, want);
	/* exactly the inline limit, and one more */
	(void)snprintf(in, sizeof(in), "{\"x\":\"%024d\"}\n", 0);
	(void)snprintf(want, sizeof(want), "2:{\"x\":\"%024d\"}|", 0);
	expect(in, 0, want);
	(void)snprintf(in, sizeof(in), "{\"x\":\"%025d\"}\n", 0);
	(void)snprintf(want, sizeof(want), "2:{\"x\":\"%025d\"}|", 0);
	expect(in, 0, want);
}

static void
invalid_utf8_is_of_its_line_only(void **state)
{
	(void)state;
	expect("{\"a\":\"\xff\"}\n{\"a\":\"\xc3\xa4\"}\n", 0,
	    "2u:{\"a\":\"\xff\"}|2:{\"a\":\"\xc3\xa4\"}|");
}

static void
an_unfinished_line_leaves_no_parts_behind(void **state)
{
	char in[100];
	struct sink k;

	(void)state;
	sink_init(&k);
	(void)snprintf(in, sizeof(in), "{\"x\":\"%040d", 0);
	feed(&k, sli_slice_str(in), 5, 0);
	assert_int_equal(k.dropped, 1);
	assert_int_equal(k.set, 0);
	/* blanks that grew that long are dropped, not told */
	(void)snprintf(in, sizeof(in), "%50s\n", "");
	feed(&k, sli_slice_str(in), 5, 0);
	assert_int_equal(k.dropped, 1);
	assert_int_equal(k.lines, 0);
	sink_fini(&k);
}

static void
a_thousand_lines_in_one_read_come_in_order(void **state)
{
	struct sli_buf in, want;
	struct sink k;

	(void)state;
	sink_init(&k);
	sli_buf_init(&in, 1 << 20);
	sli_buf_init(&want, 1 << 20);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(
		    sli_buf_printf(&in, "{\"id\":%d}\n", i), SLI_OK);
		assert_int_equal(
		    sli_buf_printf(&want, "5:{\"id\":%d}|", i), SLI_OK);
	}
	feed(&k, sli_buf_slice(&in), 1 << 20, 0);
	assert_true(sli_slice_eq(sli_buf_slice(&k.out), sli_buf_slice(&want)));
	/* and a stop from inside is the end of it */
	sink_fini(&k);
	sli_buf_free(&in);
	sli_buf_free(&want);
}

static void
a_stop_from_inside_ends_the_telling(void **state)
{
	struct lines l;
	struct sink k;

	(void)state;
	sink_init(&k);
	lines_init(&l, &ops, &k, 64, 32, 16);
	k.stop_me = &l;
	lines_feed(&l, (const uint8_t *)"{}\n{}\n{}", 8, 1);
	lines_eof(&l);
	assert_int_equal(k.lines, 1);
	lines_fini(&l);
	sink_fini(&k);
}

static void
a_16_mib_line_passes_whole(void **state)
{
	size_t n = (size_t)16 << 20, i;
	uint8_t *in = sli_alloc(n);
	struct lines l;
	struct sink k;

	(void)state;
	assert_non_null(in);
	memset(in, 'x', n);
	memcpy(in, "{\"x\":\"", 6);
	memcpy(in + n - 3, "\"}\n", 3);
	sink_init(&k);
	lines_init(&l, &ops, &k, (uint64_t)64 << 20, 256 << 10, 128);
	for (i = 0; i < n; i += 65536) {
		lines_feed(&l, in + i, 65536, 1);
		assert_in_range(lines_held(&l), 0, 256 << 10);
	}
	assert_int_equal(k.lines, 1);
	assert_int_equal(sli_buf_len(&k.out), n + 2);
	assert_memory_equal(k.out.mem + 2, in, n - 1);
	lines_fini(&l);
	sink_fini(&k);
	sli_free(in);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_over_long_line_is_skipped_to_its_newline),
	    cmocka_unit_test(a_line_without_room_for_parts_is_skipped),
	    cmocka_unit_test(ends_of_lines_and_noise_are_tolerated),
	    cmocka_unit_test(
		a_byte_order_mark_before_the_first_line_is_no_part_of_it),
	    cmocka_unit_test(a_long_line_goes_to_parts_while_it_arrives),
	    cmocka_unit_test(invalid_utf8_is_of_its_line_only),
	    cmocka_unit_test(an_unfinished_line_leaves_no_parts_behind),
	    cmocka_unit_test(a_thousand_lines_in_one_read_come_in_order),
	    cmocka_unit_test(a_stop_from_inside_ends_the_telling),
	    cmocka_unit_test(a_16_mib_line_passes_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
