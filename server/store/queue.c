/* SPDX-License-Identifier: Apache-2.0 */
/* The way from the loop to the writer: a list under a mutex, bounded by the
 * byte budgets that the loop side keeps, and the decision when a batch is
 * ripe: a barrier at once, anything else after it has lingered, so that
 * neighbours share its flush. */
#include "store/int.h"

#include "base/clock.h"

#include <time.h>

enum sli_err
store_queue_init(struct store_queue *q)
{
	pthread_condattr_t a;
	int rv;

	*q = (struct store_queue){0};
	if (pthread_condattr_init(&a) != 0)
		return SLI_E_NOMEM;
	rv = pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	if (rv == 0)
		rv = pthread_cond_init(&q->cv, &a);
	(void)pthread_condattr_destroy(&a);
	if (rv == 0)
		rv = pthread_mutex_init(&q->mu, NULL);
	return rv == 0 ? SLI_OK : SLI_E_NOMEM;
}

void
store_queue_fini(struct store_queue *q)
{
	SLI_ASSERT(q->first == NULL);
	(void)pthread_cond_destroy(&q->cv);
	(void)pthread_mutex_destroy(&q->mu);
}

static int
ripe(const struct store_queue *q)
{
	return q->stop || q->barriers > 0 || q->bytes >= STORE_BATCH_MAX / 2;
}

void
store_queue_push(struct store_queue *q, struct store_job *j)
{
	int wake;

	store_job_set(j, STORE_JOB_QUEUED);
	j->next = NULL;
	(void)pthread_mutex_lock(&q->mu);
	if (q->last) {
		q->last->next = j;
	} else {
		q->first = j;
		q->oldest_ns = sli_mono_ns();
	}
	q->last = j;
	q->n++;
	q->bytes += j->cost;
	if (j->flags & STORE_BARRIER)
		q->barriers++;
	wake = q->waiting == 1 || (q->waiting == 2 && ripe(q));
	if (wake)
		q->waiting = 0;
	(void)pthread_mutex_unlock(&q->mu);
	if (wake)
		(void)pthread_cond_signal(&q->cv);
}

/* until_ns 0 = for ever. */
static void
wait_until(struct store_queue *q, int kind, int64_t until_ns)
{
	struct timespec ts = {
	    .tv_sec = until_ns / 1000000000,
	    .tv_nsec = until_ns % 1000000000,
	};

	q->waiting = kind;
	if (until_ns)
		(void)pthread_cond_timedwait(&q->cv, &q->mu, &ts);
	else
		(void)pthread_cond_wait(&q->cv, &q->mu);
	q->waiting = 0;
}

struct store_job *
store_queue_take(
    struct store_queue *q, unsigned linger_ms, int64_t idle_ns, int *ret_stop)
{
	struct store_job *list;
	int64_t due;

	(void)pthread_mutex_lock(&q->mu);
	for (;;) {
		if (q->first) {
			due = q->oldest_ns + (int64_t)linger_ms * 1000000;
			if (ripe(q) || sli_mono_ns() >= due)
				break;
			wait_until(q, 2, due);
		} else {
			if (q->stop || (idle_ns && sli_mono_ns() >= idle_ns))
				break;
			wait_until(q, 1, idle_ns);
		}
	}
	list = q->first;
	q->first = q->last = NULL;
	q->n = q->bytes = q->barriers = 0;
	*ret_stop = q->stop;
	(void)pthread_mutex_unlock(&q->mu);
	return list;
}

void
store_queue_stop(struct store_queue *q)
{
	(void)pthread_mutex_lock(&q->mu);
	q->stop = 1;
	(void)pthread_mutex_unlock(&q->mu);
	(void)pthread_cond_signal(&q->cv);
}
