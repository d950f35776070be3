/* SPDX-License-Identifier: Apache-2.0 */
/* Many producers to one consumer: the only way into the loop thread from
 * another thread, and the only lock in common/. */
#ifndef SLI_BASE_MAILBOX_H
#define SLI_BASE_MAILBOX_H

#include "base/attr.h"

/* Embedded in what is posted; owned by the poster until fn has been called in
 * the consumer's thread. Must not be posted again before that. */
struct sli_post {
	struct sli_post *next;
	void (*fn)(struct sli_post *self);
};

struct sli_mailbox;

SLI_MUST struct sli_mailbox *sli_mailbox_new(void);
/* Undelivered posts are dropped without a call. */
void sli_mailbox_free(struct sli_mailbox *mb);
/* Readable when posts wait (eventfd). */
int sli_mailbox_fd(const struct sli_mailbox *mb);
/* Never blocks, never fails; at most one eventfd write between two drains.
 * Thread: any. */
void sli_mailbox_post(struct sli_mailbox *mb, struct sli_post *p);
/* Run what is there now, in order; returns how many. Thread: consumer. */
unsigned sli_mailbox_drain(struct sli_mailbox *mb);
/* The consumer is at work and will look again before it sleeps: posts write no
 * eventfd until it dozes. Who polls the descriptor without these two calls is
 * woken by every first post. Thread: consumer. */
void sli_mailbox_awake(struct sli_mailbox *mb);
/* The consumer is about to sleep: posts write again. True when posts wait
 * already, perhaps unsignalled: drain, do not sleep. Thread: consumer. */
SLI_MUST int sli_mailbox_doze(struct sli_mailbox *mb);

#endif
