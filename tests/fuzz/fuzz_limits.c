/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Groups of limits from any text: "key=value" lines. A set that was refused is
 * as before; one that was taken is within all bounds. Also quoting and UTF-8,
 * which see the same bytes. */
#include "base/limits.h"
#include "base/str.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINES 16

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sli_limit_kv kv[LINES];
	struct sli_limits ls, was;
	struct sli_errinfo ei;
	char text[2048], quoted[64], *at = text;
	size_t n = 0;

	(void)sli_utf8_valid(sli_slice_of(data, size));
	SLI_ASSERT(strlen(sli_quote(quoted, sizeof(quoted),
		       sli_slice_of(data, size))) < sizeof(quoted));
	size = SLI_MIN(size, sizeof(text) - 1);
	if (size != 0)
		memcpy(text, data, size);
	text[size] = '\0';
	while (n < LINES && at != NULL && *at != '\0') {
		char *line = at, *eq;

		at = strchr(line, '\n');
		if (at != NULL)
			*at++ = '\0';
		eq = strchr(line, '=');
		if (eq == NULL)
			continue;
		*eq = '\0';
		kv[n++] = (struct sli_limit_kv){line, eq + 1};
	}
	sli_limits_init(&ls);
	was = ls;
	if (sli_limits_apply(&ls, kv, n, "", &ei) != SLI_OK) {
		SLI_ASSERT(memcmp(&ls, &was, sizeof(ls)) == 0);
		SLI_ASSERT(ei.code != SLI_OK && ei.text[0] != '\0');
		return 0;
	}
	for (unsigned i = 0; i < SLI_L__N; i++) {
		const struct sli_limit_info *in =
		    sli_limit_info((enum sli_limit)i);

		SLI_ASSERT(ls.v[i] >= in->min && ls.v[i] <= in->max);
	}
	return 0;
}
