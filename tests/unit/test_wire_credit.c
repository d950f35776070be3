/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Credit arithmetic: never a byte over, never a grant lost, edges of the
 * numbers, and the pool's sum. */
#include "unit.h"

#include "wire/credit.h"
#include "wire/limits.h"

#define F SLI_FLOOR
#define W SLI_INIT_WINDOW

static void
bogus_acks(void **state)
{
	struct sli_pool p = {.floor = F, .size = SLI_POOL};
	struct sli_tx t;

	(void)state;
	sli_tx_init(&t, W);
	sli_tx_sent(&t, &p, 1000);
	assert_int_equal(sli_tx_ack(&t, &p, 1001, W, W), SLI_E_PROTOCOL);
	assert_int_equal(sli_tx_ack(&t, &p, UINT64_MAX, W, W), SLI_E_PROTOCOL);
	assert_int_equal(t.acked, 0);
	/* going back is ignored, the window counts from the record's offset */
	assert_int_equal(sli_tx_ack(&t, &p, 800, W, W), SLI_OK);
	assert_int_equal(sli_tx_ack(&t, &p, 10, W, W), SLI_OK);
	assert_int_equal(t.acked, 800);
	assert_int_equal(t.limit, 800 + W);
	/* a window of 2^63 is clamped */
	assert_int_equal(
	    sli_tx_ack(&t, &p, 1000, UINT64_MAX, SLI_WINDOW_CAP), SLI_OK);
	assert_int_equal(t.limit, 1000 + SLI_WINDOW_CAP);
	assert_int_equal(
	    sli_tx_ack(&t, &p, 1000, 1ull << 63, SLI_WINDOW_CAP), SLI_OK);
	assert_int_equal(t.limit, 1000 + SLI_WINDOW_CAP);
	/* a smaller window never moves the limit back */
	assert_int_equal(sli_tx_ack(&t, &p, 1000, 0, W), SLI_OK);
	assert_int_equal(t.limit, 1000 + SLI_WINDOW_CAP);
}

static void
beyond_the_limit(void **state)
{
	struct sli_pool p = {.floor = F, .size = SLI_POOL};
	struct sli_rx r;

	(void)state;
	sli_rx_init(&r, 1000);
	assert_int_equal(sli_rx_data(&r, &p, 1001), SLI_E_FLOW);
	assert_int_equal(sli_rx_data(&r, &p, 1000), SLI_OK);
	assert_int_equal(sli_rx_data(&r, &p, 1), SLI_E_FLOW);
	assert_int_equal(sli_rx_data(&r, &p, UINT64_MAX), SLI_E_FLOW);
	r.handed = 1000;
	assert_true(sli_rx_release(&r, 400));
	/* released is not yet written: the limit stands */
	assert_int_equal(sli_rx_data(&r, &p, 1), SLI_E_FLOW);
	sli_rx_acked(&r, &p);
	assert_int_equal(sli_rx_data(&r, &p, 400), SLI_OK);
	assert_int_equal(sli_rx_data(&r, &p, 1), SLI_E_FLOW);
	assert_false(sli_rx_release(&r, 601));
}

static void
pool_is_enforced(void **state)
{
	struct sli_pool p = {.floor = F, .size = 1000};
	struct sli_rx a, b;

	(void)state;
	sli_rx_init(&a, W);
	sli_rx_init(&b, W);
	assert_int_equal(sli_rx_data(&a, &p, F + 1000), SLI_OK);
	assert_int_equal(sli_rx_data(&b, &p, F), SLI_OK);
	assert_int_equal(sli_rx_data(&b, &p, 1), SLI_E_FLOW);
}

static void
floor_and_pool(void **state)
{
	struct sli_pool p = {.floor = F, .size = 100000};
	struct sli_tx a, b;

	(void)state;
	sli_tx_init(&a, 1 << 20);
	sli_tx_init(&b, 1 << 20);
	assert_int_equal(sli_tx_room(&a, &p), F + 100000);
	sli_tx_sent(&a, &p, F + 100000);
	assert_int_equal(sli_tx_room(&a, &p), 0);
	/* a holds the whole pool; b still has its floor */
	assert_int_equal(sli_tx_room(&b, &p), F);
	sli_tx_sent(&b, &p, 30000);
	assert_int_equal(sli_tx_room(&b, &p), F - 30000);
	assert_int_equal(p.used, 100000);
	/* a reset removes its term, nothing else does */
	sli_tx_drop(&a, &p);
	assert_int_equal(p.used, 0);
	assert_int_equal(sli_tx_room(&b, &p), F - 30000 + 100000);
	sli_tx_sent(&b, &p, F);
	assert_int_equal(p.used, 30000);
	assert_int_equal(sli_tx_ack(&b, &p, 30000, 1 << 20, 1 << 20), SLI_OK);
	assert_int_equal(p.used, 0);
	/* the window binds before floor and pool do */
	sli_tx_init(&a, 5000);
	assert_int_equal(sli_tx_room(&a, &p), 5000);
	/* a pool that shrank below its use gives nothing, not 2^64 */
	sli_tx_init(&a, 1 << 20);
	sli_tx_sent(&a, &p, F + 50000);
	p.size = 10;
	assert_int_equal(sli_tx_room(&a, &p), 0);
}

static void
when_to_acknowledge(void **state)
{
	struct sli_pool p = {.floor = F, .size = SLI_POOL};
	struct sli_rx r;

	(void)state;
	sli_rx_init(&r, W);
	assert_int_equal(sli_rx_data(&r, &p, 100000), SLI_OK);
	assert_false(sli_rx_ack_due(&r));
	/* two complete messages of 30,000 and a part of a third */
	r.handed = 60000;
	assert_true(sli_rx_release(&r, 30000));
	assert_false(sli_rx_ack_due(&r)); /* one is held, few bytes */
	assert_true(sli_rx_release(&r, 30000));
	assert_true(sli_rx_ack_due(&r)); /* none is held, a part is */
	sli_rx_acked(&r, &p);
	assert_false(sli_rx_ack_due(&r));
	assert_int_equal(r.limit, 60000 + W);
	/* by threshold, although more is held */
	assert_int_equal(sli_rx_data(&r, &p, 100000), SLI_OK);
	r.handed = 200000;
	assert_true(sli_rx_release(&r, SLI_ACK_THRESHOLD - 1));
	assert_false(sli_rx_ack_due(&r));
	assert_true(sli_rx_release(&r, 1));
	assert_true(sli_rx_ack_due(&r));
	/* a small window has a small threshold */
	sli_rx_init(&r, 4000);
	assert_int_equal(sli_rx_data(&r, &p, 3000), SLI_OK);
	r.handed = 3000;
	assert_true(sli_rx_release(&r, 1000));
	assert_true(sli_rx_ack_due(&r));
}

static void
gap_moves_everything(void **state)
{
	struct sli_pool p = {.floor = F, .size = SLI_POOL};
	struct sli_rx r;
	struct sli_tx t;

	(void)state;
	sli_rx_init(&r, W);
	assert_int_equal(sli_rx_data(&r, &p, 200000), SLI_OK);
	r.handed = 200000;
	sli_rx_jump(&r, &p, 1000000);
	assert_int_equal(p.used, 0);
	assert_int_equal(r.acked, 1000000);
	assert_int_equal(sli_rx_unreleased(&r), 200000);
	/* what the consumer still has from before does not count again */
	assert_true(sli_rx_release(&r, 150000));
	assert_int_equal(r.released, 1000000);
	assert_int_equal(sli_rx_data(&r, &p, 10), SLI_OK);
	r.handed += 10;
	assert_true(sli_rx_release(&r, 50010));
	assert_int_equal(r.released, 1000010);
	assert_int_equal(sli_rx_unreleased(&r), 0);
	assert_int_equal(sli_rx_data(&r, &p, W - 10), SLI_OK);

	sli_tx_init(&t, W);
	sli_tx_sent(&t, &p, 100000);
	sli_tx_jump(&t, &p, 1000000);
	assert_int_equal(t.limit, 1000000 + W);
	assert_int_equal(sli_tx_ack(&t, &p, 100000, W, W), SLI_OK);
	assert_int_equal(t.acked, 1000000); /* below it: ignored */
}

/* The sum of terms under random traffic; sender never over what the receiver
 * wrote. */
static void
random_traffic(void **state)
{
	enum {
		N = 8
	};
	struct sli_pool tp = {.floor = F, .size = 200000}, rp = tp;
	struct sli_tx t[N];
	struct sli_rx r[N];
	uint64_t x = 1;

	(void)state;
	for (int i = 0; i < N; i++) {
		sli_tx_init(&t[i], W);
		sli_rx_init(&r[i], W);
	}
	for (int k = 0; k < 200000; k++) {
		int i;
		uint64_t n, sum = 0;

		x = x * 6364136223846793005u + 1442695040888963407u;
		i = (int)(x >> 40) % N;
		n = (x >> 20) % 70000;
		switch ((x >> 60) & 3) {
		case 0:
		case 1:
			n = SLI_MIN(n, sli_tx_room(&t[i], &tp));
			sli_tx_sent(&t[i], &tp, n);
			assert_int_equal(sli_rx_data(&r[i], &rp, n), SLI_OK);
			r[i].handed = r[i].received;
			break;
		case 2:
			n = SLI_MIN(n, r[i].handed - r[i].released);
			assert_true(sli_rx_release(&r[i], n));
			break;
		default:
			sli_rx_acked(&r[i], &rp);
			assert_int_equal(
			    sli_tx_ack(&t[i], &tp, r[i].acked, r[i].window, W),
			    SLI_OK);
		}
		for (int j = 0; j < N; j++) {
			sum += sli_pool_term(&tp, sli_tx_outstanding(&t[j]));
			assert_true(t[j].sent <= t[j].limit);
			assert_true(r[j].received <= r[j].limit);
		}
		assert_true(sum == tp.used && tp.used <= tp.size);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bogus_acks),
	    cmocka_unit_test(beyond_the_limit),
	    cmocka_unit_test(pool_is_enforced),
	    cmocka_unit_test(floor_and_pool),
	    cmocka_unit_test(when_to_acknowledge),
	    cmocka_unit_test(gap_moves_everything),
	    cmocka_unit_test(random_traffic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
