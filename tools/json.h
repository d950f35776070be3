/* SPDX-License-Identifier: Apache-2.0 */
/* A small reader of one JSON document in memory: is it valid, and where is the
 * value at a path. Copies nothing, allocates nothing, never recurses. What it
 * is for: the text of an agent's update line; it is no general JSON library. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stddef.h>

/* Deeper nesting counts as not valid. */
#define JSON_DEPTH_MAX 1024

/* A value's bytes in the document: `"text"`, `{...}`, `12`. p NULL: none. */
struct json {
	const char *p;
	size_t n;
};

/* 1 when the bytes are one JSON value in valid UTF-8 on one line: no newline
 * between its tokens, nothing but blanks around. */
int json_line_ok(const char *p, size_t n);
/* 1 when the bytes are valid UTF-8. */
int json_utf8_ok(const char *p, size_t n);
/* The value of an object's member, the first of that name. The document must
 * be valid. */
struct json json_member(struct json obj, const char *key);
/* Member of a member: "params.update.content". */
struct json json_path(struct json obj, const char *path);
/* Items of an array: start with *pos 0; none at the end. */
struct json json_next(struct json arr, size_t *pos);
/* Is it this string (compared without unescaping)? */
int json_is(struct json v, const char *s);
/* Unescape a string as UTF-8 into dst of at least v.n bytes; a lone surrogate
 * becomes U+FFFD. Returns the length; 0 for what is no string. */
size_t json_text(struct json v, char *dst);

#endif
