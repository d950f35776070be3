/* SPDX-License-Identifier: Apache-2.0 */
/* Where to cut a command's output so that no character is split over two
 * updates. */
#include "guest/agent_shell.h"

/* Length that a lead byte announces; 1 for what is no lead byte. */
static size_t
announced(uint8_t c)
{
	if (c >= 0xf0 && c < 0xf8)
		return 4;
	if (c >= 0xe0)
		return c < 0xf0 ? 3 : 1;
	return c >= 0xc0 ? 2 : 1;
}

size_t
utf8_prefix(struct sli_slice in)
{
	/* Look back over at most three continuation bytes for a lead byte
	 * whose character is not complete. */
	for (size_t back = 1; back <= 3 && back <= in.n; back++) {
		uint8_t c = in.p[in.n - back];
		if ((c & 0xc0) == 0x80)
			continue;
		return announced(c) > back ? in.n - back : in.n;
	}
	return in.n;
}
