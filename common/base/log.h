/* SPDX-License-Identifier: Apache-2.0 */
/* One line per record on stderr: level component event key=value ... Thread:
 * any. Peer bytes only through sli_quote(). Never a secret or a payload. */
#ifndef SLI_BASE_LOG_H
#define SLI_BASE_LOG_H

#include "base/attr.h"

enum sli_log_level {
	SLI_LOG_ERR,
	SLI_LOG_WARN,
	SLI_LOG_NOTICE,
	SLI_LOG_INFO,
	SLI_LOG_DEBUG,
};

void sli_log_set_level(enum sli_log_level lvl);
enum sli_log_level sli_log_level(void);
/* `comp` names the room, `event` the thing (both static, no spaces); fmt makes
 * the key=value rest. Each event name is rate limited (100 a second, then
 * counted and reported once). */
void sli_log(enum sli_log_level lvl, const char *comp, const char *event,
    const char *fmt, ...) SLI_PRINTF(4, 5);

#define sli_debug(comp, event, ...)                                           \
	do {                                                                  \
		if (sli_log_level() >= SLI_LOG_DEBUG)                         \
			sli_log(SLI_LOG_DEBUG, (comp), (event), __VA_ARGS__); \
	} while (0)

#endif
