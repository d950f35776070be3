/* SPDX-License-Identifier: Apache-2.0 */
/* The engine under the typed calls; see typed.h. */
#include "typed.h"

#include "base/str.h"
#include "wire/guard.h"
#include "wire/limits.h"

#include <string.h>

/* --- what comes ----------------------------------------------------------*/

static void
give_item(
    struct sluice_stream *s, struct sli_slice bytes, struct sli_errinfo *ei)
{
	const struct sli_typed *t = s->self;
	ProtobufCMessage *m;
	struct sli_arena a;

	ei->code = SLI_OK;
	if (!t->fn)
		return;
	sli_arena_init(&a, SLI_TYPED_ARENA);
	m = sli_msg_unpack(t->desc, bytes, &a, ei);
	if (m && t->give(t, m, &a, NULL) != SLI_OK)
		(void)sli_fail(
		    ei, SLI_E_NOMEM, 0, "client.typed", "out of memory");
	sli_arena_free(&a);
}

static void
typed_data(struct sluice_stream *s, uint64_t offset, struct sli_slice bytes)
{
	const struct sli_typed *t = s->self;
	struct sli_errinfo ei = {0};

	(void)offset;
	if (t->desc)
		give_item(s, bytes, &ei);
	sli_stream_release(s, bytes.n);
	if (ei.code != SLI_OK)
		sli_stream_fail(s, &ei);
}

static void
typed_result(struct sluice_stream *s, const struct sluice_error *err,
    struct sli_slice body)
{
	const struct sli_typed *t = s->self;
	struct sluice_error late = {.size = sizeof(late)};
	struct sli_errinfo ei = {0};

	if (!err && t->desc && !t->server_streams) {
		give_item(s, body, &ei);
		if (ei.code != SLI_OK) {
			(void)sli_err_give(&late, &ei);
			sli_stream_set_end(s, &late);
			err = &late;
		}
	}
	if (t->fn && !sli_stream_mute(s))
		(void)t->give(t, NULL, NULL, err);
}

static void
typed_fini(struct sluice_stream *s)
{
	sli_free(s->self);
}

static const struct sli_stream_ops typed_ops = {
    .data = typed_data,
    .result = typed_result,
    .fini = typed_fini,
};

static enum sli_err
give_done(const struct sli_typed *t, const ProtobufCMessage *m,
    struct sli_arena *a, const struct sluice_error *err)
{
	(void)m;
	(void)a;
	((sluice_done_fn *)t->fn)(t->arg, err);
	return SLI_OK;
}

struct sli_typed
sli_typed_done(sluice_done_fn *fn, void *arg)
{
	return (struct sli_typed){
	    .fn = (void (*)(void))fn, .arg = arg, .give = give_done};
}

/* --- start ---------------------------------------------------------------*/

int
sli_typed_may_wait(
    struct sluice_client *c, sluice_stream **ret_s, struct sluice_error *err)
{
	/* Inside a callback sluice_process does nothing but say BUSY. */
	if (!ret_s && c->busy)
		return sluice_process(c, err);
	return SLUICE_OK;
}

int
sli_typed_start(struct sluice_stream *s, const char *method,
    const ProtobufCMessage *req, int end, const char *key,
    struct sluice_error *err)
{
	struct sluice_call_options o = {
	    .size = sizeof(o),
	    .key = key,
	    .key_len = key ? strlen(key) : 0,
	};
	const struct sli_method *m = sli_method_find(method);
	struct sli_errinfo ei = {0};
	struct sli_buf b;
	enum sli_err e;

	SLI_ASSERT(m);
	sli_buf_init(&b, SLI_MUX_MSG_MAX);
	e = sli_msg_pack(req, 60u * 1024u, &b);
	if (e == SLI_E_FRAME_SIZE)
		(void)sli_fail(&ei, SLI_E_INVALID_ARGUMENT, 0, "client.typed",
		    "the request is longer than 60 KiB");
	else if (e != SLI_OK)
		(void)sli_fail(&ei, e, 0, "client.typed", "out of memory");
	else
		e = sli_call_start(s, m, sli_buf_slice(&b), end, &o, &ei);
	sli_buf_free(&b);
	if (e == SLI_OK)
		return SLUICE_OK;
	sluice_stream_free(s);
	return sli_err_give(err, &ei);
}

int
sli_typed_started(
    struct sluice_stream *s, sluice_stream **ret_s, struct sluice_error *err)
{
	int e;

	if (ret_s) {
		*ret_s = s;
		return SLUICE_OK;
	}
	e = sli_stream_run(s, -1, err);
	sluice_stream_free(s);
	return e;
}

int
sli_typed_call(struct sluice_client *c, const char *method,
    const ProtobufCMessage *req, const char *key, const struct sli_typed *t,
    sluice_stream **ret_s, struct sluice_error *err)
{
	struct sli_typed *self;
	struct sluice_stream *s = NULL;
	int e;

	e = sli_typed_may_wait(c, ret_s, err);
	if (e != SLUICE_OK)
		return e;
	self = sli_memdup(t, sizeof(*t));
	if (self) {
		self->server_streams = sli_method_find(method)->server_streams;
		s = sli_stream_new(c, &typed_ops, self);
	}
	if (!s) {
		struct sli_errinfo ei;

		sli_free(self);
		(void)sli_fail(
		    &ei, SLI_E_NOMEM, 0, "client.typed", "out of memory");
		return sli_err_give(err, &ei);
	}
	e = sli_typed_start(s, method, req, 1, key, err);
	if (e != SLUICE_OK)
		return e;
	return sli_typed_started(s, ret_s, err);
}

/* --- conversions ---------------------------------------------------------*/

const char *const *
sli_strs(struct sli_arena *a, char **v, size_t n)
{
	const char **d = sli_arena_alloc(a, (n + 1) * sizeof(*d));

	if (!d)
		return NULL;
	for (size_t i = 0; i < n; i++)
		d[i] = v[i];
	d[n] = NULL;
	return d;
}

size_t
sli_list_len(const void *list)
{
	const void *const *p = list;
	size_t n = 0;

	while (p && p[n])
		n++;
	return n;
}

char **
sli_take_strs(struct sli_arena *a, const char *const *list, size_t *ret_n)
{
	size_t n = sli_list_len(list);
	char **d = sli_arena_alloc(a, (n + 1) * sizeof(*d));

	if (!d)
		return NULL;
	for (size_t i = 0; i < n; i++)
		d[i] = sli_pb_str(list[i]);
	*ret_n = n;
	return d;
}

static Sluice__V1__KeyValue *
take_pair(struct sli_arena *a, const char *text, const char *eq)
{
	Sluice__V1__KeyValue *kv = sli_arena_alloc(a, sizeof(*kv));
	char *key = sli_arena_strdup(a, text);

	if (!kv || !key)
		return NULL;
	key[eq - text] = '\0';
	sluice__v1__key_value__init(kv);
	kv->key = key;
	kv->value = key + (eq - text) + 1;
	return kv;
}

enum sli_err
sli_take_pairs(struct sli_arena *a, const char *const *list, const char *what,
    Sluice__V1__KeyValue ***ret, size_t *ret_n, struct sli_errinfo *ei)
{
	size_t n = sli_list_len(list);
	Sluice__V1__KeyValue **d = sli_arena_alloc(a, (n + 1) * sizeof(*d));
	char q[64];

	if (!d)
		goto nomem;
	for (size_t i = 0; i < n; i++) {
		const char *eq = strchr(list[i], '=');

		if (!eq || eq == list[i])
			return sli_fail(ei, SLI_E_INVALID_ARGUMENT, 0,
			    "client.typed", "%s \"%s\" is not KEY=VALUE", what,
			    sli_quote(q, sizeof(q), sli_slice_str(list[i])));
		d[i] = take_pair(a, list[i], eq);
		if (!d[i])
			goto nomem;
	}
	*ret = d;
	*ret_n = n;
	return SLI_OK;
nomem:
	return sli_fail(ei, SLI_E_NOMEM, 0, "client.typed", "out of memory");
}

const char *
sli_hex_str(struct sli_arena *a, const uint8_t *p, size_t n)
{
	char *d = sli_arena_alloc(a, 2 * n + 1);

	if (d)
		sli_hex(d, p, n);
	return d;
}
