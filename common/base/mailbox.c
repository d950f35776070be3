/* SPDX-License-Identifier: Apache-2.0 */
/* The mailbox: an intrusive list under a mutex, and an eventfd that is written
 * only when the list stops being empty and the consumer may be asleep. Knows
 * nothing of what is posted. */
#include "base/mailbox.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct sli_mailbox {
	pthread_mutex_t lock;
	struct sli_post *head;  /* under lock */
	struct sli_post **tail; /* under lock */
	int awake;     /* under lock: the consumer will look by itself */
	int signalled; /* under lock: the eventfd has been written */
	int fd;
};

struct sli_mailbox *
sli_mailbox_new(void)
{
	struct sli_mailbox *mb = sli_zalloc(sizeof(*mb));

	if (mb == NULL)
		return NULL;
	mb->tail = &mb->head;
	mb->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (mb->fd < 0 || pthread_mutex_init(&mb->lock, NULL) != 0) {
		sli_fd_close(&mb->fd);
		sli_free(mb);
		return NULL;
	}
	return mb;
}

void
sli_mailbox_free(struct sli_mailbox *mb)
{
	if (mb == NULL)
		return;
	(void)pthread_mutex_destroy(&mb->lock);
	sli_fd_close(&mb->fd);
	sli_free(mb);
}

int
sli_mailbox_fd(const struct sli_mailbox *mb)
{
	return mb->fd;
}

void
sli_mailbox_post(struct sli_mailbox *mb, struct sli_post *p)
{
	const uint64_t one = 1;
	ssize_t w;

	p->next = NULL;
	(void)pthread_mutex_lock(&mb->lock);
	*mb->tail = p;
	mb->tail = &p->next;
	/* Under the lock, so that _free after the last drain is safe: nobody
	 * touches the mailbox once the consumer has seen the post. */
	if (!mb->awake && !mb->signalled) {
		mb->signalled = 1;
		do {
			w = write(mb->fd, &one, sizeof(one));
		} while (w < 0 && errno == EINTR);
	}
	(void)pthread_mutex_unlock(&mb->lock);
}

unsigned
sli_mailbox_drain(struct sli_mailbox *mb)
{
	struct sli_post *p;
	uint64_t count;
	unsigned n = 0;

	(void)pthread_mutex_lock(&mb->lock);
	p = mb->head;
	mb->head = NULL;
	mb->tail = &mb->head;
	if (mb->signalled && read(mb->fd, &count, sizeof(count)) < 0) {
		/* EAGAIN: cannot be, it was written under this lock. */
	}
	mb->signalled = 0;
	(void)pthread_mutex_unlock(&mb->lock);
	while (p != NULL) {
		/* fn may free or repost its post. */
		struct sli_post *next = p->next;

		p->fn(p);
		p = next;
		n++;
	}
	return n;
}

void
sli_mailbox_awake(struct sli_mailbox *mb)
{
	(void)pthread_mutex_lock(&mb->lock);
	mb->awake = 1;
	(void)pthread_mutex_unlock(&mb->lock);
}

int
sli_mailbox_doze(struct sli_mailbox *mb)
{
	int waiting;

	(void)pthread_mutex_lock(&mb->lock);
	mb->awake = 0;
	waiting = mb->head != NULL;
	(void)pthread_mutex_unlock(&mb->lock);
	return waiting;
}
