/* SPDX-License-Identifier: Apache-2.0 */
/* The mailbox: an intrusive list under a mutex, and an eventfd that is written
 * only when the list stops being empty. Knows nothing of what is posted. */
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
	int edge;

	p->next = NULL;
	(void)pthread_mutex_lock(&mb->lock);
	edge = mb->head == NULL;
	*mb->tail = p;
	mb->tail = &p->next;
	/* Under the lock, so that _free after the last drain is safe: nobody
	 * touches the mailbox once the consumer has seen the post. */
	if (edge) {
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
	if (p != NULL && read(mb->fd, &count, sizeof(count)) < 0) {
		/* EAGAIN: cannot be, the edge wrote it under this lock. */
	}
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
