/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of an agent's stdout to lines. A line passes through the envelope
 * reader while it arrives; one that outgrows an event goes to store parts
 * meanwhile, and one that passes the limit is skipped to its newline. Tolerates
 * CR before LF, blank lines, a byte order mark before the first message and a
 * last line without newline. Judges no content. Thread: loop. */
#ifndef SLUICE_ACP_LINES_H
#define SLUICE_ACP_LINES_H

#include "acp/envelope.h"

struct line {
	struct sli_slice bytes; /* whole, without the newline; or empty */
	uint64_t parts;         /* the set that holds it; 0 = none */
	uint64_t length;
	int64_t at_ms; /* wall clock of its first byte */
	enum env_class cls;
	const struct envelope *env;
	int bad_utf8;
	int too_long; /* its bytes were skipped */
};

/* line: the owner decides what becomes of `parts` (name or drop the set).
 * lines_stop may be called from inside; nothing else of this header may. */
struct lines_ops {
	void (*line)(void *ctx, const struct line *ln);
	/* The current line, so long by now, is skipped from here on; `line`
	 * still comes, with too_long, when it ends. */
	void (*over)(void *ctx, uint64_t length);
	uint64_t (*part_begin)(void *ctx); /* 0 = cannot: the line is skipped */
	void (*part_append)(void *ctx, uint64_t set, struct sli_slice bytes);
	void (*part_drop)(void *ctx, uint64_t set);
};

struct lines {
	const struct lines_ops *ops;
	void *ctx;
	uint64_t max_line;
	size_t inline_max;
	struct envelope env;
	struct sli_buf buf; /* a line that has not ended, up to inline_max */
	uint64_t length;    /* of the current line so far */
	uint64_t set;
	int64_t at_ms;
	uint8_t mode;   /* enum in lines.c */
	uint8_t cr;     /* a CR waits for what follows */
	uint8_t bom;    /* bytes of it seen; 3 = no longer looked for */
	uint8_t spoken; /* an object has come */
	uint8_t stopped;
};

void lines_init(struct lines *l, const struct lines_ops *ops, void *ctx,
    uint64_t max_line, size_t inline_max, unsigned max_depth);
/* Drops an unfinished line and its parts. */
void lines_fini(struct lines *l);
void lines_feed(struct lines *l, const uint8_t *p, size_t n, int64_t now_ms);
/* The stream has ended: what stands there is the last line. */
void lines_eof(struct lines *l);
/* Tell no more lines. */
void lines_stop(struct lines *l);

static inline size_t
lines_held(const struct lines *l)
{
	return sli_buf_len(&l->buf);
}

#endif
