/* SPDX-License-Identifier: Apache-2.0 */
/* A server stream whose messages are all made at once and sent as credit
 * comes: the small lists (VMs, processes, sessions, permissions, gauges). It
 * holds encoded messages, bounded by `max`; a list that would be longer ends
 * with RESOURCE_EXHAUSTED after what fits. */
#ifndef SLUICE_SERVICE_LIST_STREAM_H
#define SLUICE_SERVICE_LIST_STREAM_H

#include "service/svc.h"

struct list_stream;

SLI_MUST struct list_stream *list_stream_new(size_t max);
/* Encode and append one message; after a failure more are ignored. */
void list_stream_add(struct list_stream *s, const ProtobufCMessage *m);
void list_stream_free(struct list_stream *s);
/* Open the call and send; takes ownership of s, also when c is stale. */
void list_stream_send(struct list_stream *s, struct svc_call c);

#endif
