/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The small JSON reader takes any bytes; what it takes can be walked; and what
 * the writer makes of any bytes, the reader takes back. */
#include "base/buf.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned
walk(const struct sli_json *v)
{
	const struct sli_json *c;
	struct sli_slice s;
	const char *key;
	void *pos = NULL;
	unsigned n = 1;
	int64_t i;
	int b;

	n += (unsigned)sli_json_str(v, &s) + (unsigned)sli_json_i64(v, &i) +
	     (unsigned)sli_json_bool(v, &b);
	for (size_t k = 0; k < sli_json_len(v); k++)
		n += walk(sli_json_at(v, k));
	while (sli_json_next(v, &pos, &key, &c))
		n += walk(c) + (sli_json_get(v, key) == c);
	return n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sli_json *j = NULL;
	struct sli_buf b;
	struct sli_jw w;

	if (sli_json_parse(sli_slice_of(data, size), 65536, &j, NULL) ==
	    SLI_OK) {
		SLI_ASSERT(walk(j) > 0);
		sli_json_free(j);
	}
	sli_buf_init(&b, 16 * size + 64);
	sli_jw_init(&w, &b);
	sli_jw_array(&w);
	sli_jw_str(&w, sli_slice_of(data, size));
	sli_jw_end(&w);
	SLI_ASSERT(sli_jw_done(&w) == SLI_OK);
	if (sli_buf_len(&b) <= SLI_JSON_BYTES_MAX) {
		j = NULL;
		SLI_ASSERT(sli_json_parse(sli_buf_slice(&b), SLI_JSON_BYTES_MAX,
			       &j, NULL) == SLI_OK);
		sli_json_free(j);
	}
	sli_buf_free(&b);
	return 0;
}
