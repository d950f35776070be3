/* SPDX-License-Identifier: Apache-2.0 */
/* Errors at the border: from our records and from the wire's Status to the
 * caller's struct sluice_error, whatever its version; and structs of the caller
 * to ours. Decides nothing. */
#include "client.h"

#include "base/str.h"
#include "wire/guard.h"

#include "sluice/v1/core.pb-c.h"

#include <string.h>

const char *
sluice_err_name(int32_t code)
{
	return sli_err_name((enum sli_err)code);
}

const char *
sluice_err_text(int32_t code)
{
	return sli_err_text((enum sli_err)code);
}

/* Write `full` over the caller's record, as much of it as the caller knows. */
static int
give(struct sluice_error *dst, const struct sluice_error *full)
{
	size_t size = dst ? dst->size : 0;

	if (size >= offsetof(struct sluice_error, reason)) {
		memcpy(dst, full, SLI_MIN(size, sizeof(*full)));
		dst->size = size;
	}
	return full->code;
}

int
sli_err_copy(struct sluice_error *dst, const struct sluice_error *src)
{
	return give(dst, src);
}

static void
add_hit(struct sluice_error *e, const char *key, const char *scope,
    uint64_t used, uint64_t requested, uint64_t limit)
{
	struct sluice_limit_hit *h;

	if (e->nhits >= SLI_ARRAY_LEN(e->hits))
		return;
	h = &e->hits[e->nhits++];
	(void)sli_strlcpy(h->key, key, sizeof(h->key));
	(void)sli_strlcpy(h->scope, scope, sizeof(h->scope));
	h->used = used;
	h->requested = requested;
	h->limit = limit;
}

int
sli_err_give(struct sluice_error *dst, const struct sli_errinfo *ei)
{
	struct sluice_error e = {.size = sizeof(e)};
	char sys[64];

	if (!dst)
		return (int)ei->code;
	e.code = (int32_t)ei->code;
	e.sys = ei->sys;
	e.retryable = sli_err_retryable(ei->code);
	(void)sli_strlcpy(e.reason, ei->reason, sizeof(e.reason));
	if (ei->sys != 0)
		(void)sli_snprintf(e.text, sizeof(e.text), "%s (%s)", ei->text,
		    strerror_r(ei->sys, sys, sizeof(sys)));
	else
		(void)sli_strlcpy(e.text, ei->text, sizeof(e.text));
	for (unsigned i = 0; i < SLI_MIN(ei->nhits, SLI_LIMIT_HITS_MAX); i++)
		add_hit(&e, ei->hits[i].key, "client", ei->hits[i].used,
		    ei->hits[i].requested, ei->hits[i].limit);
	return give(dst, &e);
}

static void
copy_companions(struct sluice_error *e, const Sluice__V1__LimitHit *hit)
{
	struct sluice_limit_hit *h = &e->hits[e->nhits - 1];
	size_t used = 0;

	/* A name that does not fit whole would be a wrong name. */
	for (size_t i = 0; i < hit->n_companions; i++) {
		size_t n = strlen(hit->companions[i]);

		if (used + n + 2 > sizeof(h->companions))
			break;
		if (used != 0)
			h->companions[used++] = ' ';
		memcpy(h->companions + used, hit->companions[i], n + 1);
		used += n;
	}
}

void
sli_err_from_wire(
    struct sluice_error *dst, uint16_t status, struct sli_slice trailers)
{
	struct sluice_error e = {.size = sizeof(e), .code = status};
	Sluice__V1__Status *st = NULL;
	struct sli_arena arena;

	e.retryable = sli_err_retryable((enum sli_err)status);
	(void)sli_strlcpy(
	    e.text, sli_err_text((enum sli_err)status), sizeof(e.text));
	sli_arena_init(&arena, (size_t)256 * 1024);
	if (trailers.n != 0)
		st = (Sluice__V1__Status *)(void *)sli_msg_unpack(
		    &sluice__v1__status__descriptor, trailers, &arena, NULL);
	if (st) {
		e.retryable = st->retryable ? 1 : 0;
		(void)sli_strlcpy(e.reason, st->reason, sizeof(e.reason));
		if (st->message[0] != '\0')
			(void)sli_strlcpy(e.text, st->message, sizeof(e.text));
		for (size_t i = 0;
		     i < st->n_limits && e.nhits < SLI_ARRAY_LEN(e.hits); i++) {
			Sluice__V1__LimitHit *h = st->limits[i];

			add_hit(&e, h->key, h->scope, h->used, h->requested,
			    h->limit);
			copy_companions(&e, h);
		}
	}
	sli_arena_free(&arena);
	*dst = e;
}

enum sli_err
sli_take_struct(void *dst, size_t dst_size, const void *src, const char *what,
    struct sli_errinfo *ei)
{
	const uint8_t *p = src;
	size_t size = 0;

	memset(dst, 0, dst_size);
	if (!src)
		return SLI_OK;
	memcpy(&size, src, sizeof(size));
	if (size < sizeof(size))
		return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "client.struct",
		    "%s: its size is not set; use SLUICE_INIT()", what);
	for (size_t i = dst_size; i < size; i++)
		if (p[i] != 0)
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "client.struct",
			    "%s uses a field that this libsluice (%s) does "
			    "not know: install a newer one",
			    what, sluice_version());
	memcpy(dst, src, SLI_MIN(size, dst_size));
	return SLI_OK;
}
