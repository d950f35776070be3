/* SPDX-License-Identifier: Apache-2.0 */
/* Data on stdout: text, JSON and raw bytes through one buffer. Every byte is
 * written or the command fails: a short write goes on, a descriptor that would
 * block is waited for, an error is remembered and makes out_end() fail. */
#ifndef TOOLS_OUT_H
#define TOOLS_OUT_H

#include <stddef.h>
#include <stdint.h>

void out_bytes(const void *p, size_t n);
void out_str(const char *s);
void out_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Bytes of a peer in a text listing: control characters as \xNN. */
void out_safe(const char *s);
/* Write what is buffered. 0, or -1 and the error has been printed (once). */
int out_flush(void);
/* As out_flush; the exit code 0 or 1 for the whole output. */
int out_end(void);

/* --- JSON: one object a line ---*/
void out_open(void);            /* { */
void out_close(void);           /* } and a newline at the outermost level */
void out_key(const char *key);  /* "key": with the comma due */
void out_list(const char *key); /* "key":[ */
void out_list_end(void);
void out_item(void); /* the comma due before a list's item */
void out_json_str(const char *s);
/* "text" of n bytes of UTF-8, NULs included. */
void out_json_bytes(const char *p, size_t n);
void out_kstr(const char *key, const char *s);
void out_ku64(const char *key, uint64_t v);
void out_ki32(const char *key, int32_t v);
void out_kbool(const char *key, int v);
/* "key":"base64" */
void out_kbase64(const char *key, const void *p, size_t n);

/* --- for exec: one write, not longer than goes without blocking ---*/
/* Bytes written, 0 = would block, -1 = error (errno). */
long out_try(int fd, const void *p, size_t n);

#endif
