/* SPDX-License-Identifier: Apache-2.0 */
/* libsluice: the client's side of Sluice. This one header is the whole public
 * interface; it is clean C99 and C++. sluice(1) is built on nothing else. Here
 * are errors, the connection and calls by name; the typed calls are in the two
 * parts that it includes at its end, never to be included by themselves.
 *
 * There are no threads, signals or globals. A handle and what came from it are
 * used by one thread at a time. Callbacks run inside sluice_process(), on the
 * caller's thread; they may call everything here except what waits (BUSY), and
 * may free any handle: freeing is deferred where it has to be.
 *
 * Rules for all of it: functions return SLUICE_OK or an error number and fill
 * *err (may be NULL). Outputs are untouched on failure. Structs start with
 * their size: set it with SLUICE_INIT(); those that the library gives are valid
 * during the callback. Lists are arrays that end
 * with NULL, NULL being an empty list; pairs are strings "KEY=VALUE". Times are
 * milliseconds, wall times since the epoch. libsluice(3) says more. */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_API         __attribute__((visibility("default")))
#define SLUICE_VERSION_HEX 0x000100 /* 0.1.0 */

/* Zero a struct of this header and set its size. */
#define SLUICE_INIT(s)                      \
	do {                                \
		memset(&(s), 0, sizeof(s)); \
		(s).size = sizeof(s);       \
	} while (0)

typedef struct sluice_client sluice_client; /* one connection */
typedef struct sluice_stream sluice_stream; /* one call */
typedef struct sluice_msg sluice_msg;       /* one received message */

SLUICE_API const char *sluice_version(void);
/* 1 if this build knows the feature, e.g. "exec", "subscribe". */
SLUICE_API int sluice_has_feature(const char *name);

/* --- errors --------------------------------------------------------------*/

/* Numbers are the wire's; never reused. */
enum {
	SLUICE_OK = 0,
	SLUICE_E_CANCELED = 1,
	SLUICE_E_UNKNOWN = 2,
	SLUICE_E_INVALID_ARGUMENT = 3,
	SLUICE_E_DEADLINE_EXCEEDED = 4,
	SLUICE_E_NOT_FOUND = 5,
	SLUICE_E_ALREADY_EXISTS = 6,
	SLUICE_E_PERMISSION_DENIED = 7,
	SLUICE_E_RESOURCE_EXHAUSTED = 8,
	SLUICE_E_FAILED_PRECONDITION = 9,
	SLUICE_E_ABORTED = 10,
	SLUICE_E_OUT_OF_RANGE = 11,
	SLUICE_E_UNIMPLEMENTED = 12,
	SLUICE_E_INTERNAL = 13,
	SLUICE_E_UNAVAILABLE = 14,
	SLUICE_E_DATA_LOSS = 15,
	SLUICE_E_UNAUTHENTICATED = 16,
	SLUICE_E_PROTOCOL = 32,
	SLUICE_E_FRAME_SIZE = 33,
	SLUICE_E_FLOW = 34,
	SLUICE_E_DESYNC = 35,
	SLUICE_E_STREAM_ID = 36,
	SLUICE_E_CALM = 37,
	SLUICE_E_VERSION = 38,
	SLUICE_E_HANDSHAKE = 39,
	SLUICE_E_STALLED = 40,
	SLUICE_E_CLOSED = 41,
	SLUICE_E_MALFORMED = 42,
	SLUICE_E_INTERRUPTED = 43,
	SLUICE_E_NOMEM = 64,
	SLUICE_E_AGAIN = 65,
	SLUICE_E_BUSY = 66,
	SLUICE_E_SYS = 67,
	SLUICE_E_CONFIG = 68,
	SLUICE_E_SESSION_BUSY = 96,
	SLUICE_E_HOST_CAPACITY = 97,
	SLUICE_E_STORAGE_FULL = 98,
	SLUICE_E_STORE = 99,
	SLUICE_E_AGENT = 100,
	SLUICE_E_AGENT_EXITED = 101,
	SLUICE_E_SANDBOX = 102,
	SLUICE_E_KEY_CONFLICT = 103,
	SLUICE_E_DRAINING = 104
};

/* Names without prefix ("NOT_FOUND") and the one-line text. */
SLUICE_API const char *sluice_err_name(int32_t code);
SLUICE_API const char *sluice_err_text(int32_t code);

/* One violated limit, in the limit's own unit. Never grows. */
struct sluice_limit_hit {
	uint64_t used, requested, limit;
	char key[48];         /* the configuration key to raise */
	char scope[16];       /* server, tenant, vm, session, ... */
	char companions[144]; /* keys that must rise with it, by spaces */
};

struct sluice_error {
	size_t size;
	int32_t code;
	int32_t sys;       /* errno, or 0 */
	int32_t retryable; /* the same call may succeed later */
	uint32_t nhits;
	char reason[40]; /* machine-readable, or "" */
	char text[256];  /* one sentence for a person */
	struct sluice_limit_hit hits[8];
};

/* --- connection ----------------------------------------------------------*/

struct sluice_options {
	size_t size;
	const char *agent;           /* "name/version" for the server's log */
	int32_t loop;                /* 1: driven by the caller's event loop */
	int32_t keepalive_s;         /* 0: 20 with loop, else none; -1: none */
	uint32_t connect_timeout_ms; /* 0: 10000 */
	uint32_t window;             /* of received streams; 0: 256 KiB */
	uint32_t upload_max;         /* buffer of a sent stream; 0: 256 KiB */
	void (*on_ready)(void *arg, sluice_client *c);
	/* The connection is gone; every call on it has had its end. */
	void (*on_closed)(
	    void *arg, sluice_client *c, const struct sluice_error *why);
	void *arg;
};

/* Start to connect; does not wait. url: "unix:///path", "tcp://ADDR:PORT";
 * NULL: $SLUICE_URL, else the unix socket that sluiced uses by default.
 * opt may be NULL. UNAVAILABLE when nobody listens. */
SLUICE_API int sluice_open(const char *url, const struct sluice_options *opt,
    sluice_client **ret_c, struct sluice_error *err);
/* Give the connection up and free it. Its calls end on the server without a
 * callback here; the work they started goes on. Streams and messages stay
 * valid until they are freed. NULL is allowed. */
SLUICE_API void sluice_close(sluice_client *c);
/* The address in use (NULL as url: the default's), for messages. */
SLUICE_API const char *sluice_url(const sluice_client *c);

/* For an event loop: ask again after every call of this header. The
 * descriptor is -1 while there is none (use the timeout); events are those of
 * poll(2); timeout is -1 for none. process() never blocks and returns the
 * connection's error once it is gone. */
SLUICE_API int sluice_fd(const sluice_client *c);
SLUICE_API int sluice_events(const sluice_client *c);
SLUICE_API int64_t sluice_timeout_ms(const sluice_client *c);
SLUICE_API int sluice_process(sluice_client *c, struct sluice_error *err);
/* For simple programs: wait for something and process it. AGAIN after
 * timeout_ms (-1: no limit) or when a signal came. */
SLUICE_API int sluice_wait(
    sluice_client *c, int64_t timeout_ms, struct sluice_error *err);

struct sluice_counters {
	size_t size;
	uint64_t bytes_in, bytes_out;
	uint64_t inflight;   /* sent, not yet taken by the server */
	uint64_t unreleased; /* received, not yet done with */
	uint64_t buffered;   /* given to us, not yet sent */
	uint32_t streams;
};

SLUICE_API void sluice_get_counters(
    const sluice_client *c, struct sluice_counters *ret);

/* --- any call ------------------------------------------------------------*/

struct sluice_call_options {
	size_t size;
	uint32_t timeout_ms; /* 0: the method's default */
	uint32_t bulk;       /* 1: yield to interactive calls */
	const void *key;     /* idempotency key, at most 64 bytes */
	size_t key_len;
	const char *traceparent; /* W3C trace context */
	uint64_t window;         /* 0: the connection's */
};

/* Every member may be NULL. Of a stream that is freed none is called. */
struct sluice_handler {
	size_t size;
	void (*on_opened)(void *arg, sluice_stream *s, uint64_t start);
	/* Say sluice_msg_done(m) once it is drained; until then it counts
	 * against the window. NULL: done at once. */
	void (*on_message)(void *arg, sluice_stream *s, sluice_msg *m);
	/* After AGAIN: there is room to send. */
	void (*on_writable)(void *arg, sluice_stream *s);
	void (*on_gap)(
	    void *arg, sluice_stream *s, uint64_t offset, uint64_t lost);
	/* The end, exactly once. err is NULL on success. INTERRUPTED: the
	 * connection went, the outcome is unknown. */
	void (*on_result)(void *arg, sluice_stream *s,
	    const struct sluice_error *err, const void *body, size_t n);
};

/* Call a method by name ("sluice.v1.Vms/Create") with an encoded request of
 * at most 60 KiB. ret_s NULL: the library frees the stream after on_result. */
SLUICE_API int sluice_call(sluice_client *c, const char *method,
    const void *req, size_t n, const struct sluice_call_options *opt,
    const struct sluice_handler *h, void *arg, sluice_stream **ret_s,
    struct sluice_error *err);
/* The same for a unary method, waiting. *ret_body: sluice_result_free. */
SLUICE_API int sluice_call_wait(sluice_client *c, const char *method,
    const void *req, size_t n, const struct sluice_call_options *opt,
    void **ret_body, size_t *ret_n, struct sluice_error *err);

SLUICE_API const void *sluice_msg_data(const sluice_msg *m);
SLUICE_API size_t sluice_msg_len(const sluice_msg *m);
SLUICE_API uint64_t sluice_msg_offset(const sluice_msg *m);
/* Release and free, in any order; the server is told of the unbroken prefix. */
SLUICE_API void sluice_msg_done(sluice_msg *m);

/* Queue one message of at most 64 KiB. AGAIN when the upload buffer is full. */
SLUICE_API int sluice_stream_send(
    sluice_stream *s, const void *p, size_t n, struct sluice_error *err);
/* No more from us, after what is queued. */
SLUICE_API void sluice_stream_end(sluice_stream *s);
/* Give the call up; on_result follows with CANCELED. */
SLUICE_API void sluice_stream_cancel(sluice_stream *s);
/* Wish for another window; a smaller one takes effect as data is drained. */
SLUICE_API void sluice_stream_set_window(sluice_stream *s, uint64_t window);
/* Wait for the end of the call and return its error. AGAIN as in _wait(). */
SLUICE_API int sluice_stream_wait(
    sluice_stream *s, int64_t timeout_ms, struct sluice_error *err);
/* Let the library free it after its end, callbacks included. */
SLUICE_API void sluice_stream_detach(sluice_stream *s);
/* Cancels if it is still running. NULL is allowed. */
SLUICE_API void sluice_stream_free(sluice_stream *s);

/* Frees what sluice_call_wait() returned. NULL is allowed. */
SLUICE_API void sluice_result_free(void *result);

/* Of typed calls without an answer: the end. */
typedef void sluice_done_fn(void *arg, const struct sluice_error *err);

#ifdef __cplusplus
}
#endif

#include <sluice/session.h> /* sessions, prompts, history */
#include <sluice/vm.h>      /* the server, VMs, processes */

#endif
