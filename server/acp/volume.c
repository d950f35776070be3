/* SPDX-License-Identifier: Apache-2.0 */
/* Volume of a turn and of a message in it: committed bytes, after superseding.
 * Not a buffer and never called one. At a limit the turn is canceled; what its
 * agent still sends is counted, not stored. */
#include "acp/engine.h"

#include <string.h>

void
volume_begin_turn(struct acp_session *s)
{
	s->turn_bytes = s->message_bytes = 0;
	s->message_n = 0;
	s->discard = 0;
	s->discarded = s->discarded_bytes = 0;
}

void
volume_add(struct acp_session *s, uint64_t bytes, struct sli_slice kind,
    struct sli_slice what)
{
	size_t n = SLI_MIN(kind.n, (size_t)50);
	size_t m = SLI_MIN(what.n, sizeof(s->message) - n);

	s->turn_bytes += bytes;
	/* A message goes on while kind and id (of the message or the call)
	 * stay the same. */
	if (s->message_n != n + m || memcmp(s->message, kind.p, n) != 0 ||
	    (m && memcmp(s->message + n, what.p, m) != 0)) {
		memcpy(s->message, kind.p, n);
		if (m)
			memcpy(s->message + n, what.p, m);
		s->message_n = n + m;
		s->message_bytes = 0;
	}
	s->message_bytes += bytes;
	if (s->discard)
		return;
	if (s->turn_bytes > limit(s, SLI_L_ACP_TURN_TOTAL))
		cancel_budget(s, SLI_L_ACP_TURN_TOTAL, s->turn_bytes);
	else if (s->message_bytes > limit(s, SLI_L_ACP_MESSAGE_TOTAL))
		cancel_budget(s, SLI_L_ACP_MESSAGE_TOTAL, s->message_bytes);
}

void
volume_report(struct acp_session *s, struct txn *t, uint64_t turn)
{
	struct sli_record *r;
	struct body b;

	if (!s->discarded)
		return;
	r = txn_add(t, SLI_EV_DIAGNOSTIC, turn);
	body_begin(&b);
	sli_jw_kcstr(&b.w, "text", "updates after a limit was hit, not stored");
	sli_jw_ku64(&b.w, "lines", s->discarded);
	sli_jw_ku64(&b.w, "bytes", s->discarded_bytes);
	body_put(&b, t, r);
	s->discarded = s->discarded_bytes = 0;
}
