/* SPDX-License-Identifier: Apache-2.0 */
/* The first 8 bytes each way, in clear: is this our protocol, which version,
 * which security. Encodes and decodes; decides nothing but the version.
 *
 *   client: 89 53 4C 55 | ver_min | ver_max | sec | 00
 *   server: 89 53 4C 55 | version | sec     | status | 00
 *
 * status is 0, or the error number with which the server closes. */
#ifndef SLI_WIRE_PREAMBLE_H
#define SLI_WIRE_PREAMBLE_H

#include "base/err.h"

#include <stddef.h>

#define SLI_PREAMBLE_LEN 8
/* Versions this build speaks. */
#define SLI_VERSION_MIN 1
#define SLI_VERSION_MAX 1

enum sli_sec {
	SLI_SEC_NONE = 0, /* unix sockets by peer uid, or --insecure-loopback */
	SLI_SEC_NOISE = 1, /* Noise_XX follows */
};

struct sli_preamble {
	uint8_t ver_min;
	uint8_t ver_max;
	uint8_t sec;
};

struct sli_preamble_answer {
	uint8_t version;
	uint8_t sec;
	uint8_t status; /* enum sli_err; 0 = go on */
};

void sli_preamble_put(
    uint8_t dst[SLI_PREAMBLE_LEN], const struct sli_preamble *p);
void sli_preamble_answer_put(
    uint8_t dst[SLI_PREAMBLE_LEN], const struct sli_preamble_answer *a);

/* Could these first n bytes be a preamble? So that a stranger is refused at
 * its first byte. */
int sli_preamble_prefix(const uint8_t *p, size_t n);

/* Server: HANDSHAKE when it is not a preamble. Any version range and sec are
 * returned as they are. */
SLI_MUST enum sli_err sli_preamble_get(const uint8_t src[SLI_PREAMBLE_LEN],
    struct sli_preamble *ret, struct sli_errinfo *ei);
/* Server: the answer to `p` when the link allows exactly the security `sec`.
 * Returns the answer's status: OK, VERSION, or HANDSHAKE for another sec. */
enum sli_err sli_preamble_choose(const struct sli_preamble *p, enum sli_sec sec,
    struct sli_preamble_answer *ret);
/* Client: HANDSHAKE when it is not an answer, or not one to `sent`; else the
 * server's status as an error. */
SLI_MUST enum sli_err sli_preamble_answer_get(
    const uint8_t src[SLI_PREAMBLE_LEN], const struct sli_preamble *sent,
    struct sli_preamble_answer *ret, struct sli_errinfo *ei);

#endif
