/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* Posts from several threads arrive once each, in each poster's order. */
#include "unit.h"

#include "base/log.h"
#include "base/mailbox.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define THREADS 4u
#define POSTS   5000u

struct item {
	struct sli_post post; /* first */
	unsigned thread, n;
};

static unsigned next_of[THREADS], total;

static void
take(struct sli_post *p)
{
	struct item *it = (struct item *)(void *)p;

	assert_int_equal(it->n, next_of[it->thread]);
	next_of[it->thread]++;
	total++;
}

struct poster {
	struct sli_mailbox *mb;
	unsigned thread;
	struct item items[POSTS];
};

static void *
run(void *arg)
{
	struct poster *p = arg;

	for (unsigned i = 0; i < POSTS; i++) {
		p->items[i] = (struct item){
		    {NULL, take},
                    p->thread, i
                };
		sli_mailbox_post(p->mb, &p->items[i].post);
	}
	return NULL;
}

static void
nothing_is_lost_or_reordered(void **state)
{
	static struct poster posters[THREADS];
	struct sli_mailbox *mb = sli_mailbox_new();
	pthread_t th[THREADS];

	(void)state;
	assert_non_null(mb);
	for (unsigned i = 0; i < THREADS; i++) {
		posters[i].mb = mb;
		posters[i].thread = i;
		assert_int_equal(
		    pthread_create(&th[i], NULL, run, &posters[i]), 0);
	}
	while (total < THREADS * POSTS) {
		struct pollfd pf = {sli_mailbox_fd(mb), POLLIN, 0};

		/* A lost wake-up shows as a time-out. */
		assert_int_equal(poll(&pf, 1, 20000), 1);
		(void)sli_mailbox_drain(mb);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(th[i], NULL), 0);
	assert_int_equal(sli_mailbox_drain(mb), 0);
	sli_mailbox_free(mb);
}

static struct sli_mailbox *again_mb;
static unsigned again;

static void
repost(struct sli_post *p)
{
	if (++again == 1)
		sli_mailbox_post(again_mb, p);
}

static void
a_post_may_be_posted_from_its_own_call(void **state)
{
	struct sli_post p = {NULL, repost};
	struct pollfd pf;

	(void)state;
	again_mb = sli_mailbox_new();
	sli_mailbox_post(again_mb, &p);
	assert_int_equal(sli_mailbox_drain(again_mb), 1);
	pf = (struct pollfd){sli_mailbox_fd(again_mb), POLLIN, 0};
	assert_int_equal(poll(&pf, 1, 0), 1);
	assert_int_equal(sli_mailbox_drain(again_mb), 1);
	assert_int_equal(poll(&pf, 1, 0), 0);
	assert_int_equal(again, 2);
	sli_mailbox_free(again_mb);
}

static unsigned counted;

static void
count_one(struct sli_post *p)
{
	(void)p;
	counted++;
}

static int
readable(const struct sli_mailbox *mb)
{
	struct pollfd pf = {sli_mailbox_fd(mb), POLLIN, 0};

	return poll(&pf, 1, 0) == 1;
}

/* Awake: nothing is written, and nothing is lost when it goes to sleep. */
static void
an_awake_consumer_is_not_signalled(void **state)
{
	struct sli_mailbox *mb = sli_mailbox_new();
	struct sli_post p[3] = {
	    {NULL, count_one},
            {NULL, count_one},
            {NULL, count_one}
        };

	(void)state;
	counted = 0;
	assert_int_equal(sli_mailbox_doze(mb), 0);
	sli_mailbox_awake(mb);
	sli_mailbox_post(mb, &p[0]);
	assert_false(readable(mb));
	assert_int_equal(sli_mailbox_doze(mb), 1);
	/* Asleep by its own fault: the next post wakes it all the same. */
	sli_mailbox_post(mb, &p[1]);
	assert_true(readable(mb));
	sli_mailbox_awake(mb);
	sli_mailbox_post(mb, &p[2]);
	assert_int_equal(sli_mailbox_drain(mb), 3);
	assert_false(readable(mb));
	assert_int_equal(sli_mailbox_doze(mb), 0);
	assert_int_equal(counted, 3);
	sli_mailbox_free(mb);
}

/* --- log: shares the threads ---------------------------------------------*/

static char who[] = "a\nb";

static void *
log_many(void *arg)
{
	for (int i = 0; i < 1000; i++)
		sli_log(SLI_LOG_ERR, "test", "flood", "n=%d who=%s", i,
		    (const char *)arg);
	return NULL;
}

static void
a_flood_of_records_is_limited(void **state)
{
	int p[2], saved = dup(2);
	pthread_t th;
	size_t lines = 0;
	ssize_t n;
	char b[4096];

	(void)state;
	assert_int_equal(pipe(p), 0);
	assert_true(dup2(p[1], 2) == 2);
	assert_int_equal(pthread_create(&th, NULL, log_many, who), 0);
	log_many(who);
	assert_int_equal(pthread_join(th, NULL), 0);
	sli_log(SLI_LOG_DEBUG, "test", "unseen", "x=1");
	assert_true(dup2(saved, 2) == 2);
	close(saved);
	close(p[1]);
	while ((n = read(p[0], b, sizeof(b))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			lines += b[i] == '\n';
	}
	close(p[0]);
	/* 100 in a second, and the test may see two seconds. */
	assert_in_range(lines, 100, 302);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_lost_or_reordered),
	    cmocka_unit_test(a_post_may_be_posted_from_its_own_call),
	    cmocka_unit_test(an_awake_consumer_is_not_signalled),
	    cmocka_unit_test(a_flood_of_records_is_limited),
	};

	return cmocka_run_group_tests_name("base_mailbox", tests, NULL, NULL);
}
