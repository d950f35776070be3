/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan tsan */
/* The loop: order of the phases, timers against a plain model, watchers that
 * delete each other, hooks, deferred death, posts from other threads. */
#include "loop/loop.h"

#include "base/clock.h"
#include "base/str.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static char order[64];

static void
mark(const char *s)
{
	size_t n = strlen(order);

	sli_strlcpy(order + n, s, sizeof(order) - n);
}

/* --- watchers --- */

struct pipe_end {
	struct loop_fd w;
	int fd[2];
	int hits;
	uint32_t last;
	struct loop_fd *victim;
};

static void
on_fd(struct loop_fd *w, uint32_t events)
{
	struct pipe_end *p = SLI_CONTAINER_OF(w, struct pipe_end, w);
	char b[16];

	p->hits++;
	p->last = events;
	if (p->victim)
		loop_fd_del(p->victim);
	if (events & EPOLLIN)
		(void)!recv(p->fd[0], b, sizeof(b), MSG_DONTWAIT);
	mark("f");
}

static void
pipe_open(struct loop *l, struct pipe_end *p)
{
	*p = (struct pipe_end){.w = LOOP_FD_INIT};
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->fd), 0);
	assert_int_equal(
	    loop_fd_add(l, &p->w, p->fd[0], EPOLLIN, on_fd), SLI_OK);
}

static void
pipe_close(struct pipe_end *p)
{
	loop_fd_del(&p->w);
	close(p->fd[0]);
	close(p->fd[1]);
}

static void
add_refuses_what_epoll_refuses(void **state)
{
	struct loop *l = loop_new(NULL);
	struct loop_fd w = LOOP_FD_INIT;

	(void)state;
	assert_int_equal(loop_fd_add(l, &w, 9999, EPOLLIN, on_fd), SLI_E_SYS);
	assert_int_equal(w.fd, -1);
	loop_fd_del(&w);
	loop_fd_set(&w, EPOLLIN);
	loop_free(l);
}

static void
deleted_in_the_same_batch(void **state)
{
	struct loop *l = loop_new(NULL);
	struct pipe_end a, b;

	(void)state;
	pipe_open(l, &a);
	pipe_open(l, &b);
	a.victim = &b.w;
	b.victim = &a.w;
	assert_int_equal(write(a.fd[1], "x", 1), 1);
	assert_int_equal(write(b.fd[1], "x", 1), 1);
	loop_turn(l, 100);
	loop_turn(l, 0);
	assert_int_equal(a.hits + b.hits, 1);
	pipe_close(&a);
	pipe_close(&b);
	loop_free(l);
}

static void
paused_even_for_a_hang_up(void **state)
{
	struct loop *l = loop_new(NULL);
	struct pipe_end a;

	(void)state;
	pipe_open(l, &a);
	loop_fd_set(&a.w, 0);
	assert_int_equal(write(a.fd[1], "x", 1), 1);
	shutdown(a.fd[1], SHUT_RDWR);
	loop_turn(l, 1);
	assert_int_equal(a.hits, 0);
	loop_fd_set(&a.w, EPOLLIN);
	loop_turn(l, 100);
	assert_int_equal(a.hits, 1);
	assert_true(a.last & EPOLLIN);
	pipe_close(&a);
	loop_free(l);
}

/* --- timers --- */

#define NTIMERS 300

struct tick {
	struct loop_timer t;
	struct loop *loop;
	int64_t due;
	int fired;
};

static int64_t last_due;

static void
on_tick(struct loop_timer *t)
{
	struct tick *k = SLI_CONTAINER_OF(t, struct tick, t);

	assert_true(k->due >= last_due);
	assert_int_equal(t->due_ms, INT64_MAX);
	last_due = k->due;
	k->fired++;
}

static void
timers_fire_in_order(void **state)
{
	struct loop *l = loop_new(NULL);
	struct tick *k = calloc(NTIMERS, sizeof(*k));
	unsigned seed = 7;
	int64_t now = loop_now_ms(l);

	(void)state;
	last_due = 0;
	for (int round = 0; round < 5; round++)
		for (unsigned i = 0; i < NTIMERS; i++) {
			if (round == 0)
				loop_timer_init(&k[i].t, on_tick);
			seed = seed * 1103515245u + 12345u;
			k[i].due = now - (int64_t)((seed >> 16) % 1000);
			if ((seed >> 8) % 5 == 0)
				loop_timer_del(l, &k[i].t);
			else
				loop_timer_set(l, &k[i].t, k[i].due);
		}
	for (unsigned i = 0; i < NTIMERS; i++) {
		int set = k[i].t.set;

		if (i % 3 == 0)
			loop_timer_set(l, &k[i].t, INT64_MAX);
		assert_int_equal(k[i].t.set, i % 3 ? set : 0);
		k[i].fired = k[i].t.set ? -1 : 0;
	}
	loop_turn(l, 0);
	for (unsigned i = 0; i < NTIMERS; i++)
		assert_int_equal(k[i].fired, 0);
	free(k);
	loop_free(l);
}

static void
on_again(struct loop_timer *t)
{
	struct tick *k = SLI_CONTAINER_OF(t, struct tick, t);

	k->fired++;
	loop_timer_after(k->loop, t, 0);
}

static void
timer_that_sets_itself_waits_a_turn(void **state)
{
	struct loop *l = loop_new(NULL);
	struct tick k = {.loop = l};

	(void)state;
	loop_timer_init(&k.t, on_again);
	loop_timer_after(l, &k.t, 0);
	loop_turn(l, 0);
	loop_turn(l, -1);
	assert_int_equal(k.fired, 2);
	loop_timer_del(l, &k.t);
	loop_free(l);
}

static void
timer_wakes_the_loop(void **state)
{
	struct loop *l = loop_new(NULL);
	struct tick k = {.loop = l};
	int64_t t0 = sli_mono_ms();

	(void)state;
	last_due = 0;
	loop_timer_init(&k.t, on_tick);
	loop_timer_after(l, &k.t, 30);
	k.due = loop_now_ms(l) + 30;
	while (!k.fired)
		loop_turn(l, -1);
	assert_true(sli_mono_ms() - t0 >= 29);
	loop_free(l);
}

/* --- phases --- */

struct phases {
	struct loop *loop;
	struct sli_post post;
	struct loop_timer timer;
	struct loop_hook hook;
	struct loop_reap reap;
	int again;
};

static void
ph_reap(struct loop_reap *r)
{
	(void)r;
	mark("r");
}

static void
ph_hook(struct loop_hook *h)
{
	struct phases *p = SLI_CONTAINER_OF(h, struct phases, hook);

	mark("h");
	if (p->again-- > 0)
		loop_hook_schedule(p->loop, h);
	else
		loop_reap(p->loop, &p->reap, ph_reap);
}

static void
ph_post(struct sli_post *s)
{
	struct phases *p = SLI_CONTAINER_OF(s, struct phases, post);

	mark("p");
	loop_hook_schedule(p->loop, &p->hook);
	loop_hook_schedule(p->loop, &p->hook);
}

static void
ph_timer(struct loop_timer *t)
{
	(void)t;
	mark("t");
}

static void
phases_in_order(void **state)
{
	struct loop *l = loop_new(NULL);
	struct phases p = {.loop = l, .post.fn = ph_post, .again = 1};
	struct pipe_end a;

	(void)state;
	order[0] = '\0';
	pipe_open(l, &a);
	loop_timer_init(&p.timer, ph_timer);
	loop_hook_init(&p.hook, ph_hook);
	loop_hook_cancel(&p.hook);
	assert_int_equal(write(a.fd[1], "x", 1), 1);
	sli_mailbox_post(loop_mailbox(l), &p.post);
	loop_timer_after(l, &p.timer, 0);
	loop_turn(l, 100);
	assert_string_equal(order, "tpfh");
	/* The hook that scheduled itself keeps the loop awake. */
	loop_turn(l, -1);
	assert_string_equal(order, "tpfhhr");
	pipe_close(&a);
	loop_free(l);
}

static void
free_runs_the_reaps(void **state)
{
	struct loop *l = loop_new(NULL);
	struct loop_reap r;

	(void)state;
	order[0] = '\0';
	loop_reap(l, &r, ph_reap);
	loop_free(l);
	assert_string_equal(order, "r");
	loop_free(NULL);
}

/* --- threads --- */

#define POSTERS 4
#define POSTS   2000

struct poster {
	struct loop *loop;
	pthread_t th;
	struct sli_post posts[POSTS];
};

static int posted;

static void
on_post(struct sli_post *s)
{
	(void)s;
	posted++;
}

static void *
post_all(void *arg)
{
	struct poster *p = arg;

	for (int i = 0; i < POSTS; i++) {
		p->posts[i].fn = on_post;
		sli_mailbox_post(loop_mailbox(p->loop), &p->posts[i]);
	}
	return NULL;
}

static void *
stopper(void *arg)
{
	loop_stop(arg);
	return NULL;
}

static void
posts_from_threads_and_stop(void **state)
{
	struct loop *l = loop_new(NULL);
	struct poster *p = calloc(POSTERS, sizeof(*p));
	pthread_t th[2];

	(void)state;
	posted = 0;
	for (int i = 0; i < POSTERS; i++) {
		p[i].loop = l;
		pthread_create(&p[i].th, NULL, post_all, &p[i]);
	}
	while (posted < POSTERS * POSTS)
		loop_turn(l, 1000);
	for (int i = 0; i < POSTERS; i++)
		pthread_join(p[i].th, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&th[i], NULL, stopper, l);
	loop_run(l);
	for (int i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	free(p);
	loop_free(l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(add_refuses_what_epoll_refuses),
	    cmocka_unit_test(deleted_in_the_same_batch),
	    cmocka_unit_test(paused_even_for_a_hang_up),
	    cmocka_unit_test(timers_fire_in_order),
	    cmocka_unit_test(timer_that_sets_itself_waits_a_turn),
	    cmocka_unit_test(timer_wakes_the_loop),
	    cmocka_unit_test(phases_in_order),
	    cmocka_unit_test(free_runs_the_reaps),
	    cmocka_unit_test(posts_from_threads_and_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
