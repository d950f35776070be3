/* SPDX-License-Identifier: Apache-2.0 */
/* Time sources. Monotonic time decides; wall time is only shown and stored. */
#ifndef SLI_BASE_CLOCK_H
#define SLI_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds / milliseconds. Thread: any. */
int64_t sli_mono_ns(void);
int64_t sli_mono_ms(void);
/* CLOCK_REALTIME, milliseconds since the epoch. */
int64_t sli_wall_ms(void);

#endif
