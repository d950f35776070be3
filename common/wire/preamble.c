/* SPDX-License-Identifier: Apache-2.0 */
/* The 8 bytes before everything else. */
#include "wire/preamble.h"

#include <string.h>

static const uint8_t magic[4] = {0x89, 'S', 'L', 'U'};

void
sli_preamble_put(uint8_t dst[SLI_PREAMBLE_LEN], const struct sli_preamble *p)
{
	memcpy(dst, magic, sizeof(magic));
	dst[4] = p->ver_min;
	dst[5] = p->ver_max;
	dst[6] = p->sec;
	dst[7] = 0;
}

void
sli_preamble_answer_put(
    uint8_t dst[SLI_PREAMBLE_LEN], const struct sli_preamble_answer *a)
{
	memcpy(dst, magic, sizeof(magic));
	dst[4] = a->version;
	dst[5] = a->sec;
	dst[6] = a->status;
	dst[7] = 0;
}

int
sli_preamble_prefix(const uint8_t *p, size_t n)
{
	return n == 0 || memcmp(p, magic, SLI_MIN(n, sizeof(magic))) == 0;
}

enum sli_err
sli_preamble_get(const uint8_t src[SLI_PREAMBLE_LEN], struct sli_preamble *ret,
    struct sli_errinfo *ei)
{
	if (!sli_preamble_prefix(src, SLI_PREAMBLE_LEN) || src[7] != 0 ||
	    src[4] > src[5])
		return sli_fail(ei, SLI_E_HANDSHAKE, 0, "wire.preamble",
		    "the peer does not speak this protocol");
	*ret = (struct sli_preamble){src[4], src[5], src[6]};
	return SLI_OK;
}

enum sli_err
sli_preamble_choose(const struct sli_preamble *p, enum sli_sec sec,
    struct sli_preamble_answer *ret)
{
	enum sli_err e = SLI_OK;
	uint8_t v = SLI_MIN(p->ver_max, (uint8_t)SLI_VERSION_MAX);

	if (v < p->ver_min || v < SLI_VERSION_MIN) {
		/* Tell it what would do. */
		v = SLI_VERSION_MAX;
		e = SLI_E_VERSION;
	} else if (p->sec != (uint8_t)sec) {
		e = SLI_E_HANDSHAKE;
	}
	*ret = (struct sli_preamble_answer){v, (uint8_t)sec, (uint8_t)e};
	return e;
}

enum sli_err
sli_preamble_answer_get(const uint8_t src[SLI_PREAMBLE_LEN],
    const struct sli_preamble *sent, struct sli_preamble_answer *ret,
    struct sli_errinfo *ei)
{
	struct sli_preamble_answer a = {src[4], src[5], src[6]};

	if (!sli_preamble_prefix(src, SLI_PREAMBLE_LEN) || src[7] != 0)
		return sli_fail(ei, SLI_E_HANDSHAKE, 0, "wire.preamble",
		    "this is not a Sluice server");
	if (a.status == SLI_E_VERSION)
		return sli_fail(ei, SLI_E_VERSION, 0, "wire.preamble",
		    "the server speaks version %u, this client %u to %u",
		    a.version, sent->ver_min, sent->ver_max);
	if (a.status == SLI_E_UNAUTHENTICATED)
		return sli_fail(ei, SLI_E_UNAUTHENTICATED, 0, "wire.preamble",
		    "the server does not let you in; who may use it is in its "
		    "configuration (a line \"uid UID TENANT ROLE\")");
	if (a.status == SLI_E_RESOURCE_EXHAUSTED)
		return sli_fail(ei, SLI_E_RESOURCE_EXHAUSTED, 0,
		    "wire.preamble",
		    "the server has as many connections as it takes; close "
		    "some, or raise wire.max_connections_per_uid or "
		    "wire.max_connections");
	if (a.status != 0)
		return sli_fail(ei, (enum sli_err)a.status, 0, "wire.preamble",
		    "the server refused the connection (security %u asked, "
		    "%u offered)",
		    sent->sec, a.sec);
	if (a.version < sent->ver_min || a.version > sent->ver_max ||
	    a.sec != sent->sec)
		return sli_fail(ei, SLI_E_HANDSHAKE, 0, "wire.preamble",
		    "the server chose what was not offered");
	*ret = a;
	return SLI_OK;
}
