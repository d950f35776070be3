/* SPDX-License-Identifier: Apache-2.0 */
/* The three readings of time that the product uses. No sleeping, no calendar.
 */
#include "base/clock.h"

#include <time.h>

int64_t
sli_mono_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t
sli_mono_ms(void)
{
	return sli_mono_ns() / 1000000;
}

int64_t
sli_wall_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
