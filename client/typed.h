/* SPDX-License-Identifier: Apache-2.0 */
/* The engine under the typed calls: pack a request, unpack what comes, give it
 * to the user's function as a struct of the public header, tell the end. One
 * `give` per type converts; nothing here knows a type. */
#ifndef SLI_CLIENT_TYPED_H
#define SLI_CLIENT_TYPED_H

#include "client.h"

#include <protobuf-c/protobuf-c.h>

#include "sluice/v1/processes.pb-c.h"
#include "sluice/v1/vms.pb-c.h"

/* Most decoded bytes of one item: a message is 64 KiB, what we add to it is
 * arrays of pointers. */
#define SLI_TYPED_ARENA ((size_t)1024 * 1024)

struct sli_typed {
	void (*fn)(void); /* the user's function, of the type that give knows */
	void *arg;
	/* Of one item: each message of a server stream, else the reply. NULL:
	 * the call answers nothing. */
	const ProtobufCMessageDescriptor *desc;
	int server_streams; /* set by sli_typed_call */
	/* Convert and call fn (not NULL); m NULL is the end. NOMEM. */
	enum sli_err (*give)(const struct sli_typed *t,
	    const ProtobufCMessage *m, struct sli_arena *a,
	    const struct sluice_error *err);
};

/* Make the call of a public function: wait for its end when ret_s is NULL.
 * key: idempotency key or NULL. Returns what the public function returns. */
int sli_typed_call(struct sluice_client *c, const char *method,
    const ProtobufCMessage *req, const char *key, const struct sli_typed *t,
    sluice_stream **ret_s, struct sluice_error *err);

/* The `t` of a call that answers nothing. */
struct sli_typed sli_typed_done(sluice_done_fn *fn, void *arg);

/* The common second half of starting any typed stream: with ret_s NULL run it
 * and free it. `s` is started. */
int sli_typed_started(
    struct sluice_stream *s, sluice_stream **ret_s, struct sluice_error *err);
/* BUSY in *err when a call that waits is made inside a callback. */
int sli_typed_may_wait(
    struct sluice_client *c, sluice_stream **ret_s, struct sluice_error *err);
/* Pack req and start `method` with it on s. Frees s on failure. */
int sli_typed_start(struct sluice_stream *s, const char *method,
    const ProtobufCMessage *req, int end, const char *key,
    struct sluice_error *err);

/* --- conversions; NULL = no memory ---*/

/* Terminated array of borrowed strings. */
SLI_MUST const char *const *sli_strs(struct sli_arena *a, char **v, size_t n);
/* The caller's terminated list of strings as protobuf-c wants it. */
SLI_MUST char **sli_take_strs(
    struct sli_arena *a, const char *const *list, size_t *ret_n);
/* The caller's "KEY=VALUE" list; INVALID_ARGUMENT names the bad one. */
SLI_MUST enum sli_err sli_take_pairs(struct sli_arena *a,
    const char *const *list, const char *what, Sluice__V1__KeyValue ***ret,
    size_t *ret_n, struct sli_errinfo *ei);
/* Lower-case hex of bytes. */
SLI_MUST const char *sli_hex_str(
    struct sli_arena *a, const uint8_t *p, size_t n);
size_t sli_list_len(const void *list);
struct sluice_exit sli_exit_convert(const Sluice__V1__ExecExit *m);

/* A string for protobuf-c, which does not know const; NULL = empty. */
static inline char *
sli_pb_str(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

static inline ProtobufCBinaryData
sli_pb_bytes(const void *p, size_t n)
{
	return (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)p};
}

#endif
