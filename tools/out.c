/* SPDX-License-Identifier: Apache-2.0 */
/* Output of the sluice command; see out.h. */
#include "out.h"

#include "cmd.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 16

/* The one stdout of the program. */
static struct {
	char buf[65536];
	size_t n;
	int failed;
	int depth;
	int comma[DEPTH_MAX]; /* something stands before the next item */
} out;

/* --- writing -------------------------------------------------------------*/

static void
out_failed(int sys)
{
	char text[80];

	if (!out.failed)
		note("standard output: %s; output is incomplete",
		    strerror_r(sys, text, sizeof(text)));
	out.failed = 1;
	out.n = 0;
}

static int
write_all(int fd, const char *p, size_t n)
{
	while (n != 0) {
		ssize_t w = write(fd, p, n);

		if (w >= 0) {
			p += w;
			n -= (size_t)w;
		} else if (errno == EAGAIN) {
			/* Someone made our stdout non-blocking. */
			struct pollfd f = {.fd = fd, .events = POLLOUT};

			(void)poll(&f, 1, -1);
		} else if (errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

int
out_flush(void)
{
	if (!out.failed && out.n != 0 &&
	    write_all(STDOUT_FILENO, out.buf, out.n) != 0)
		out_failed(errno);
	out.n = 0;
	return out.failed ? -1 : 0;
}

int
out_end(void)
{
	struct stat st;

	(void)out_flush();
	/* A closed stdout is an error even when nothing was to be said. */
	if (!out.failed && fstat(STDOUT_FILENO, &st) != 0)
		out_failed(errno);
	return out.failed ? EXIT_FAILED : EXIT_OK;
}

void
out_bytes(const void *p, size_t n)
{
	const char *src = p;

	while (n != 0 && !out.failed) {
		size_t k = sizeof(out.buf) - out.n;

		if (k == 0) {
			(void)out_flush();
			continue;
		}
		k = k < n ? k : n;
		memcpy(out.buf + out.n, src, k);
		out.n += k;
		src += k;
		n -= k;
	}
}

void
out_str(const char *s)
{
	out_bytes(s, strlen(s));
}

void
out_fmt(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0)
		out_bytes(line,
		    (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

void
out_safe(const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == 0x7f)
			out_fmt("\\x%02x", c);
		else
			out_bytes(s, 1);
	}
}

long
out_try(int fd, const void *p, size_t n)
{
	struct pollfd f = {.fd = fd, .events = POLLOUT};
	struct stat st;
	ssize_t w;

	if (fstat(fd, &st) != 0)
		return -1;
	if (S_ISSOCK(st.st_mode)) {
		w = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	} else {
		if (poll(&f, 1, 0) == 0)
			return 0;
		/* A pipe that polls writable takes one page; more may block,
		 * and while we block no signal is forwarded. */
		if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))
			n = n < 4096 ? n : 4096;
		w = write(fd, p, n);
	}
	if (w < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return (long)w;
}

/* --- JSON ----------------------------------------------------------------*/

void
out_item(void)
{
	if (out.comma[out.depth])
		out_str(",");
	out.comma[out.depth] = 1;
}

static void
deeper(const char *open)
{
	out_str(open);
	if (out.depth < DEPTH_MAX - 1)
		out.depth++;
	out.comma[out.depth] = 0;
}

void
out_open(void)
{
	deeper("{");
}

void
out_close(void)
{
	out_str("}");
	out.depth--;
	if (out.depth == 0)
		out_str("\n");
}

void
out_list(const char *key)
{
	out_key(key);
	deeper("[");
}

void
out_list_end(void)
{
	out_str("]");
	out.depth--;
}

void
out_json_bytes(const char *p, size_t n)
{
	size_t from = 0;

	out_str("\"");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c >= 0x20 && c != 0x7f && c != '"' && c != '\\')
			continue;
		out_bytes(p + from, i - from);
		from = i + 1;
		if (c == '"' || c == '\\')
			out_fmt("\\%c", c);
		else if (c == '\n')
			out_str("\\n");
		else
			out_fmt("\\u%04x", c);
	}
	out_bytes(p + from, n - from);
	out_str("\"");
}

void
out_json_str(const char *s)
{
	out_json_bytes(s, strlen(s));
}

void
out_key(const char *key)
{
	out_item();
	out_json_str(key);
	out_str(":");
}

void
out_kstr(const char *key, const char *s)
{
	out_key(key);
	out_json_str(s);
}

void
out_ku64(const char *key, uint64_t v)
{
	out_key(key);
	out_fmt("%llu", (unsigned long long)v);
}

void
out_ki32(const char *key, int32_t v)
{
	out_key(key);
	out_fmt("%d", v);
}

void
out_kbool(const char *key, int v)
{
	out_key(key);
	out_str(v ? "true" : "false");
}

void
out_kbase64(const char *key, const void *p, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *b = p;

	out_key(key);
	out_str("\"");
	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		unsigned v = (unsigned)b[i] << 16 |
			     (left > 1 ? (unsigned)b[i + 1] << 8 : 0u) |
			     (left > 2 ? (unsigned)b[i + 2] : 0u);
		char four[4] = {digits[v >> 18], digits[v >> 12 & 63],
		    left > 1 ? digits[v >> 6 & 63] : '=',
		    left > 2 ? digits[v & 63] : '='};

		out_bytes(four, 4);
	}
	out_str("\"");
}
