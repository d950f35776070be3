/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of our own making: a writer into a byte queue, and a reader for SMALL
 * documents (configuration, agent.json, our own answers). Agents' lines never
 * come here: they are routed by the tokenizer of server/acp. The only room that
 * sees the JSON library. */
#ifndef SLI_JSON_JSON_H
#define SLI_JSON_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* --- writer --------------------------------------------------------------*/

#define SLI_JW_DEPTH_MAX 32

/* Errors stick: after the first, calls do nothing and _done() returns it. The
 * writer asserts well-formed use (a key before each value of an object). */
struct sli_jw {
	struct sli_buf *out; /* borrowed */
	enum sli_err err;
	unsigned depth;
	uint32_t arrays;   /* bit per level: an array, else an object */
	uint32_t nonempty; /* bit per level */
	int after_key;
};

void sli_jw_init(struct sli_jw *w, struct sli_buf *out);
void sli_jw_object(struct sli_jw *w);
void sli_jw_array(struct sli_jw *w);
/* Close the innermost object or array. */
void sli_jw_end(struct sli_jw *w);
void sli_jw_key(struct sli_jw *w, const char *key);
/* Any bytes: what is not UTF-8 becomes U+FFFD, one for each bad byte. */
void sli_jw_str(struct sli_jw *w, struct sli_slice s);
void sli_jw_cstr(struct sli_jw *w, const char *s); /* NULL = null */
void sli_jw_u64(struct sli_jw *w, uint64_t v);
void sli_jw_i64(struct sli_jw *w, int64_t v);
void sli_jw_bool(struct sli_jw *w, int v);
void sli_jw_null(struct sli_jw *w);
/* A value that is JSON already, byte for byte; not checked. */
void sli_jw_raw(struct sli_jw *w, struct sli_slice json);
/* Key and value in one. */
void sli_jw_kstr(struct sli_jw *w, const char *key, struct sli_slice s);
void sli_jw_kcstr(struct sli_jw *w, const char *key, const char *s);
void sli_jw_ku64(struct sli_jw *w, const char *key, uint64_t v);
/* OK, NOMEM or RESOURCE_EXHAUSTED (of the buffer). Asserts all is closed. */
SLI_MUST enum sli_err sli_jw_done(struct sli_jw *w);

/* --- reader --------------------------------------------------------------*/

#define SLI_JSON_BYTES_MAX ((size_t)1024 * 1024)
#define SLI_JSON_DEPTH_MAX 64u

struct sli_json; /* one value; the root owns all below it */

enum sli_json_type {
	SLI_JSON_NULL,
	SLI_JSON_BOOL,
	SLI_JSON_INT,
	SLI_JSON_REAL,
	SLI_JSON_STR,
	SLI_JSON_ARRAY,
	SLI_JSON_OBJECT,
};

/* INVALID_ARGUMENT (with line and column in the text), OUT_OF_RANGE (longer
 * than max_bytes or SLI_JSON_BYTES_MAX, or too deep), NOMEM. Duplicate keys are
 * refused; strings may hold NUL. */
SLI_MUST enum sli_err sli_json_parse(struct sli_slice text, size_t max_bytes,
    struct sli_json **ret_root, struct sli_errinfo *ei);
void sli_json_free(struct sli_json *root);

/* All accept NULL, so that look-ups can be chained. */
enum sli_json_type sli_json_type(const struct sli_json *v); /* NULL: NULL */
/* Member of an object; NULL when v is none or has no such member. */
const struct sli_json *sli_json_get(const struct sli_json *v, const char *key);
/* 1 and the value when v has that type, else 0 and nothing. */
int sli_json_str(const struct sli_json *v, struct sli_slice *ret_s);
int sli_json_i64(const struct sli_json *v, int64_t *ret_v);
int sli_json_bool(const struct sli_json *v, int *ret_v);
/* Elements of an array, 0 for anything else. */
size_t sli_json_len(const struct sli_json *v);
const struct sli_json *sli_json_at(const struct sli_json *v, size_t i);
/* Members of an object in the order of the text; *pos = NULL first. 0 at the
 * end. */
int sli_json_next(const struct sli_json *v, void **pos, const char **ret_key,
    const struct sli_json **ret_value);

#endif
