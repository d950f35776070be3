/* SPDX-License-Identifier: Apache-2.0 */
/* Headers and the table that says what each may hold. What a frame means is
 * the mux's business. */
#include "wire/frame.h"

#include "wire/bytes.h"

#include <string.h>

#define FROM_CLIENT 1u
#define FROM_SERVER 2u
#define FROM_BOTH   3u
#define AUX16       1u
#define AUX32       2u

/* One row per type: the whole outside of the protocol. max 0 = max_frame;
 * `step` divides the length; flags by sender. */
struct rule {
	const char *name;
	uint8_t from;
	uint8_t stream; /* 1 = sid must not be 0, 0 = it must be */
	uint8_t client_flags;
	uint8_t server_flags;
	uint8_t aux;
	uint8_t step;
	uint32_t min;
	uint32_t max;
};

#define EOM SLI_FF_EOM
#define END SLI_FF_END

static const struct rule rules[SLI_FT__N] = {
    [SLI_FT_HELLO] = {"HELLO",   FROM_BOTH,   0, 0,         0,   0,             1,              2,  SLI_HELLO_MAX                  },
    [SLI_FT_CALL] = {"CALL",    FROM_CLIENT, 1, END,       0,   AUX16 | AUX32, 1,              0,  0                              },
    [SLI_FT_OPENED] = {"OPENED",  FROM_SERVER, 1, 0,         0,   0,             1,              0,  1024                           },
    [SLI_FT_DATA] = {"DATA",    FROM_BOTH,   1, EOM | END, EOM, AUX32,         1,              0,  0                              },
    [SLI_FT_ACK] = {"ACK",     FROM_BOTH,   0, 0,         0,   0,             SLI_ACK_RECORD,
		      SLI_ACK_RECORD,							       SLI_ACK_RECORD *SLI_ACK_RECORDS},
    [SLI_FT_RESULT] = {"RESULT",  FROM_SERVER, 1, 0,         0,   AUX16 | AUX32, 1,              0,  0                              },
    [SLI_FT_RESET] = {"RESET",   FROM_BOTH,   1, 0,         0,   AUX16,         8,              8,  8                              },
    [SLI_FT_STOP] = {"STOP",    FROM_BOTH,   1, 0,         0,   AUX16,         8,              8,  8                              },
    [SLI_FT_PING] = {"PING",    FROM_BOTH,   0, 0,         0,   0,             8,              8,  8                              },
    [SLI_FT_PONG] = {"PONG",    FROM_BOTH,   0, 0,         0,   0,             8,              8,  8                              },
    [SLI_FT_GOAWAY] = {"GOAWAY",  FROM_BOTH,   0, 0,         0,   AUX16,         1,              8,
		      8 + SLI_GOAWAY_TEXT_MAX										      },
    [SLI_FT_BLOCKED] = {"BLOCKED", FROM_BOTH,   1, 0,         0,   0,             24,             24, 24                             },
    [SLI_FT_GAP] = {"GAP",     FROM_SERVER, 1, 0,         0,   0,             16,             16, 16                             },
};

const char *
sli_frame_name(unsigned type)
{
	if (type == 0 || type >= SLI_FT__N)
		return "?";
	return rules[type].name;
}

void
sli_frame_put(uint8_t dst[SLI_FRAME_HDR], const struct sli_frame *f)
{
	sli_put32(dst, f->len);
	dst[4] = f->type;
	dst[5] = f->flags;
	sli_put16(dst + 6, f->aux16);
	sli_put32(dst + 8, f->sid);
	sli_put32(dst + 12, f->aux32);
}

void
sli_frame_peek(const uint8_t src[SLI_FRAME_HDR], struct sli_frame *ret)
{
	ret->len = sli_get32(src);
	ret->type = src[4];
	ret->flags = src[5];
	ret->aux16 = sli_get16(src + 6);
	ret->sid = sli_get32(src + 8);
	ret->aux32 = sli_get32(src + 12);
}

static enum sli_err
refuse(struct sli_errinfo *ei, enum sli_err code, const struct sli_frame *f,
    const char *what)
{
	return sli_fail(ei, code, 0, "wire.frame",
	    "%s frame (type %u, flags 0x%x, length %u, stream %u): %s",
	    sli_frame_name(f->type), f->type, f->flags, f->len, f->sid, what);
}

/* Lengths inside the payload that the header already tells. */
static enum sli_err
check_inner(const struct sli_frame *f, struct sli_errinfo *ei)
{
	if (f->type == SLI_FT_DATA && f->len == 0 && f->flags == 0)
		return refuse(ei, SLI_E_PROTOCOL, f, "empty");
	if (f->type == SLI_FT_CALL) {
		if (f->aux16 > f->len || f->aux16 > SLI_CALL_HEADER_MAX)
			return refuse(ei, SLI_E_FRAME_SIZE, f, "header length");
	} else if (f->type == SLI_FT_RESULT) {
		if (f->aux32 > f->len || f->aux32 > SLI_RESULT_TRAILERS_MAX)
			return refuse(
			    ei, SLI_E_FRAME_SIZE, f, "trailers length");
		if (f->len - f->aux32 > SLI_RESULT_BODY_MAX)
			return refuse(ei, SLI_E_FRAME_SIZE, f, "body length");
	}
	return SLI_OK;
}

static enum sli_err
check(const struct sli_frame *f, enum sli_role from, uint32_t max_frame,
    struct sli_errinfo *ei)
{
	unsigned who = from == SLI_CLIENT ? FROM_CLIENT : FROM_SERVER;
	const struct rule *r;
	uint32_t max;
	uint8_t flags;

	if (f->type == 0 || f->type >= SLI_FT__N)
		return refuse(ei, SLI_E_PROTOCOL, f, "no such type");
	r = &rules[f->type];
	if ((r->from & who) == 0)
		return refuse(ei, SLI_E_PROTOCOL, f, "wrong direction");
	max = r->max == 0 || r->max > max_frame ? max_frame : r->max;
	if (f->len < r->min || f->len > max)
		return refuse(ei, SLI_E_FRAME_SIZE, f, "length");
	if (r->step > 1 && f->len % r->step != 0)
		return refuse(ei, SLI_E_FRAME_SIZE, f, "length");
	if ((f->sid != 0) != r->stream)
		return refuse(ei, SLI_E_STREAM_ID, f, "stream");
	flags = from == SLI_CLIENT ? r->client_flags : r->server_flags;
	if ((f->flags & ~flags) != 0)
		return refuse(ei, SLI_E_PROTOCOL, f, "unknown flag");
	if ((f->aux16 != 0 && (r->aux & AUX16) == 0) ||
	    (f->aux32 != 0 && (r->aux & AUX32) == 0))
		return refuse(ei, SLI_E_PROTOCOL, f, "aux must be 0");
	return check_inner(f, ei);
}

enum sli_err
sli_frame_get(const uint8_t src[SLI_FRAME_HDR], enum sli_role from,
    uint32_t max_frame, struct sli_frame *ret, struct sli_errinfo *ei)
{
	struct sli_frame f;
	enum sli_err e;

	sli_frame_peek(src, &f);
	e = check(&f, from, max_frame, ei);
	if (e == SLI_OK)
		*ret = f;
	return e;
}

void
sli_frame_in_init(
    struct sli_frame_in *in, enum sli_role from, uint32_t max_frame)
{
	*in = (struct sli_frame_in){.from = from, .max_frame = max_frame};
	sli_frame_in_allow(in, ~0u);
}

void
sli_frame_in_allow(struct sli_frame_in *in, uint32_t types)
{
	size_t most = in->max_frame;

	/* A stranger gets no more memory than its HELLO needs. */
	if (types == 1u << SLI_FT_HELLO)
		most = SLI_HELLO_MAX;
	in->allowed = types;
	in->part.max = most + SLI_FRAME_HDR;
}

void
sli_frame_in_fini(struct sli_frame_in *in)
{
	sli_buf_free(&in->part);
}

static enum sli_err
header(struct sli_frame_in *in, const uint8_t *p, struct sli_frame *ret,
    struct sli_errinfo *ei)
{
	enum sli_err e = sli_frame_get(p, in->from, in->max_frame, ret, ei);

	if (e == SLI_OK && (in->allowed & 1u << ret->type) == 0)
		return refuse(ei, SLI_E_PROTOCOL, ret, "not now");
	return e;
}

/* Move bytes to part until it holds n; OK when it does. */
static enum sli_err
collect(struct sli_frame_in *in, struct sli_slice *bytes, size_t n)
{
	size_t have = sli_buf_len(&in->part);
	size_t k = SLI_MIN(n - have, bytes->n);
	uint8_t *d;

	if (k != 0) {
		/* All that is still to come, so that it grows once. */
		d = sli_buf_reserve(&in->part, n - have);
		if (d == NULL)
			return SLI_E_NOMEM;
		memcpy(d, bytes->p, k);
		sli_buf_added(&in->part, k);
		bytes->p += k;
		bytes->n -= k;
	}
	return have + k == n ? SLI_OK : SLI_E_AGAIN;
}

static enum sli_err
next_in_part(struct sli_frame_in *in, struct sli_slice *bytes,
    struct sli_frame *ret_hdr, struct sli_slice *ret_payload,
    struct sli_errinfo *ei)
{
	enum sli_err e = SLI_OK;

	if (!in->have) {
		e = collect(in, bytes, SLI_FRAME_HDR);
		if (e == SLI_OK)
			e = header(in, sli_buf_data(&in->part), &in->hdr, ei);
		if (e != SLI_OK)
			goto out;
		in->have = 1;
	}
	e = collect(in, bytes, (size_t)SLI_FRAME_HDR + in->hdr.len);
	if (e != SLI_OK)
		goto out;
	*ret_hdr = in->hdr;
	*ret_payload =
	    sli_slice_of(sli_buf_data(&in->part) + SLI_FRAME_HDR, in->hdr.len);
	in->have = 0;
	/* The bytes stay valid: only the next call writes here. */
	sli_buf_reset(&in->part);
out:
	if (e == SLI_E_NOMEM)
		return sli_fail(ei, e, 0, "wire.frame", "no memory for input");
	return e;
}

/* Above this the memory for a cut frame is given back after use. */
#define PART_KEEP 8192u

enum sli_err
sli_frame_next(struct sli_frame_in *in, struct sli_slice *bytes,
    struct sli_frame *ret_hdr, struct sli_slice *ret_payload,
    struct sli_errinfo *ei)
{
	struct sli_frame f;
	enum sli_err e;

	if (sli_buf_len(&in->part) == 0 && bytes->n >= SLI_FRAME_HDR) {
		if (in->part.cap > PART_KEEP)
			sli_buf_trim(&in->part);
		e = header(in, bytes->p, &f, ei);
		if (e != SLI_OK)
			return e;
		if (bytes->n - SLI_FRAME_HDR >= f.len) {
			*ret_hdr = f;
			*ret_payload =
			    sli_slice_of(bytes->p + SLI_FRAME_HDR, f.len);
			bytes->p += SLI_FRAME_HDR + f.len;
			bytes->n -= SLI_FRAME_HDR + f.len;
			return SLI_OK;
		}
	}
	if (bytes->n == 0)
		return SLI_E_AGAIN;
	return next_in_part(in, bytes, ret_hdr, ret_payload, ei);
}
