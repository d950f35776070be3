/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader: bounds first, then the library. Its nodes are handed out
 * under our opaque name; nothing of it is visible outside this file. */
#include "json/json.h"

#include "base/mem.h"

#include <jansson.h>
#include <pthread.h>

static pthread_once_t alloc_once = PTHREAD_ONCE_INIT;

static void
use_our_memory(void)
{
	json_set_alloc_funcs(sli_alloc, sli_free);
}

static json_t *
node(const struct sli_json *v)
{
	/* The library's getters take const; its walkers do not. */
	return (json_t *)(uintptr_t)v;
}

static struct sli_json *
wrap(json_t *j)
{
	return (struct sli_json *)(void *)j;
}

/* Deepest nesting of brackets outside strings. Good enough as a bound: the
 * library refuses what is not JSON. */
static unsigned
depth_of(struct sli_slice s)
{
	unsigned depth = 0, most = 0;
	int in_str = 0;

	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = s.p[i];

		if (in_str) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_str = 0;
		} else if (c == '"') {
			in_str = 1;
		} else if (c == '[' || c == '{') {
			depth++;
			most = SLI_MAX(most, depth);
		} else if ((c == ']' || c == '}') && depth > 0) {
			depth--;
		}
	}
	return most;
}

enum sli_err
sli_json_parse(struct sli_slice text, size_t max_bytes,
    struct sli_json **ret_root, struct sli_errinfo *ei)
{
	json_error_t err = {0};
	json_t *j;

	max_bytes = SLI_MIN(max_bytes, SLI_JSON_BYTES_MAX);
	if (text.n > max_bytes)
		return sli_fail(ei, SLI_E_OUT_OF_RANGE, 0, "json.parse",
		    "document of %zu bytes is longer than %zu", text.n,
		    max_bytes);
	if (depth_of(text) > SLI_JSON_DEPTH_MAX)
		return sli_fail(ei, SLI_E_OUT_OF_RANGE, 0, "json.parse",
		    "document is nested deeper than %u", SLI_JSON_DEPTH_MAX);
	(void)pthread_once(&alloc_once, use_our_memory);
	j = json_loadb((const char *)text.p, text.n,
	    JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &err);
	if (j != NULL) {
		*ret_root = wrap(j);
		return SLI_OK;
	}
	if (json_error_code(&err) == json_error_out_of_memory)
		return sli_fail(
		    ei, SLI_E_NOMEM, 0, "json.parse", "out of memory");
	return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0, "json.parse",
	    "line %d column %d: %s", err.line, err.column, err.text);
}

void
sli_json_free(struct sli_json *root)
{
	json_decref(node(root));
}

enum sli_json_type
sli_json_type(const struct sli_json *v)
{
	if (v == NULL)
		return SLI_JSON_NULL;
	switch (json_typeof(node(v))) {
	case JSON_OBJECT:
		return SLI_JSON_OBJECT;
	case JSON_ARRAY:
		return SLI_JSON_ARRAY;
	case JSON_STRING:
		return SLI_JSON_STR;
	case JSON_INTEGER:
		return SLI_JSON_INT;
	case JSON_REAL:
		return SLI_JSON_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return SLI_JSON_BOOL;
	case JSON_NULL:
		break;
	}
	return SLI_JSON_NULL;
}

const struct sli_json *
sli_json_get(const struct sli_json *v, const char *key)
{
	return wrap(json_object_get(node(v), key));
}

int
sli_json_str(const struct sli_json *v, struct sli_slice *ret_s)
{
	if (!json_is_string(node(v)))
		return 0;
	*ret_s = sli_slice_of(
	    json_string_value(node(v)), json_string_length(node(v)));
	return 1;
}

int
sli_json_i64(const struct sli_json *v, int64_t *ret_v)
{
	if (!json_is_integer(node(v)))
		return 0;
	*ret_v = json_integer_value(node(v));
	return 1;
}

int
sli_json_bool(const struct sli_json *v, int *ret_v)
{
	if (!json_is_boolean(node(v)))
		return 0;
	*ret_v = json_is_true(node(v));
	return 1;
}

size_t
sli_json_len(const struct sli_json *v)
{
	return json_array_size(node(v));
}

const struct sli_json *
sli_json_at(const struct sli_json *v, size_t i)
{
	return wrap(json_array_get(node(v), i));
}

int
sli_json_next(const struct sli_json *v, void **pos, const char **ret_key,
    const struct sli_json **ret_value)
{
	void *it = *pos == NULL ? json_object_iter(node(v))
				: json_object_iter_next(node(v), *pos);

	if (it == NULL)
		return 0;
	*pos = it;
	*ret_key = json_object_iter_key(it);
	*ret_value = wrap(json_object_iter_value(it));
	return 1;
}
