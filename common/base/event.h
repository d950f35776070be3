/* SPDX-License-Identifier: Apache-2.0 */
/* What engines hand to the history and back: one event, and the row changes
 * that become durable in the same transaction. Plain data, shared by the
 * siblings acp and store through the service; numbers of kinds, states and
 * outcomes are those of proto/sluice/v1/sessions.proto (asserted there). */
#ifndef SLI_BASE_EVENT_H
#define SLI_BASE_EVENT_H

#include "base/slice.h"

#define SLI_ID_MAX 48 /* text ids of VMs and sessions, with the NUL */

/* A longer body is stored in parts (store_part_begin). */
#define SLI_EVENT_INLINE_MAX (256u << 10)

enum sli_event_kind {
	SLI_EV_AGENT = 1,
	SLI_EV_CLIENT = 2,
	SLI_EV_NOISE = 3,
	SLI_EV_SESSION = 4,
	SLI_EV_TURN_STARTED = 5,
	SLI_EV_TURN_ENDED = 6,
	SLI_EV_PERMISSION = 7,
	SLI_EV_AGENT_STARTED = 8,
	SLI_EV_AGENT_EXITED = 9,
	SLI_EV_LIMIT = 10,
	SLI_EV_DIAGNOSTIC = 11,
	SLI_EV_PROMPT = 12,
};

enum sli_session_state {
	SLI_SS_OPENING = 1,
	SLI_SS_IDLE,
	SLI_SS_RUNNING,
	SLI_SS_WAITING_PERMISSION,
	SLI_SS_FAILED,
	SLI_SS_UNLOADED,
	SLI_SS_DELETED,
};

enum sli_turn_outcome {
	SLI_TO_NONE,
	SLI_TO_COMPLETED,
	SLI_TO_FAILED,
	SLI_TO_LOST,
	SLI_TO_CANCELED,
	SLI_TO_TIMED_OUT,
	SLI_TO_DISPATCH_FAILED,
	SLI_TO_AUTH_REJECTED,
	SLI_TO_BUDGET_EXCEEDED,
};

/* Legal moves, compare-and-set in the store (else ABORTED): PENDING ->
 * ANSWERED, EXPIRED, CANCELED; ANSWERED -> DELIVERED, EXPIRED, CANCELED. */
enum sli_perm_state {
	SLI_PS_PENDING = 1,
	SLI_PS_ANSWERED,
	SLI_PS_DELIVERED,
	SLI_PS_EXPIRED,
	SLI_PS_CANCELED,
};

enum sli_perm_policy {
	SLI_PP_ASK = 1,
	SLI_PP_REJECT_ALL,
	SLI_PP_ALLOW_ALL
};

#define SLI_EVF_INVALID_UTF8 1u
#define SLI_EVF_REPLAY       2u /* sent by the agent while loading */

struct sli_event {
	uint64_t seq;          /* given by the store; 0 before */
	uint8_t kind;          /* enum sli_event_kind */
	uint8_t flags;         /* SLI_EVF_* */
	uint64_t turn;         /* 0 = outside a turn */
	uint64_t superseded;   /* older snapshots this one stands for */
	int64_t at_ms;         /* wall clock */
	uint64_t length;       /* of the whole body */
	struct sli_slice body; /* empty when the body is in parts */
	uint64_t parts;        /* part set that holds the body; 0 = none */
};

/* Row changes that commit with an event; `what` says which groups count.
 * Checked before anything of the commit is written:
 * TURN_NEW: turn > the session's last one (else INVALID_ARGUMENT); the key,
 * unless empty, is new in this session, else ALREADY_EXISTS (same
 * prompt_hash) or KEY_CONFLICT (other). first_seq = this record's seq.
 * TURN_START, TURN_END: the turn exists and has no outcome (else ABORTED).
 * PERM_SET: a legal move (see above); request 0 = the last PERM_NEW of the
 * same commit. Strings may be NULL. */
#define SLI_CH_STATE      0x01u /* state, reason_code, reason */
#define SLI_CH_TURN_NEW   0x02u /* turn, key, prompt_hash, deadline_ms */
#define SLI_CH_TURN_START 0x04u /* turn: bytes go to the agent next */
#define SLI_CH_TURN_END   0x08u /* turn, outcome, reason_code */
#define SLI_CH_PERM_NEW   0x10u /* request = this record's seq; rpc_id.. */
#define SLI_CH_PERM_SET   0x20u /* request, perm_state, option, key */
#define SLI_CH_AGENT      0x40u /* agent_session, generation */

struct sli_change {
	unsigned what;
	int state;
	const char *reason_code;
	const char *reason;
	uint64_t turn;
	struct sli_slice key; /* idempotency key, may be empty */
	uint8_t prompt_hash[32];
	int64_t deadline_ms;
	int outcome;
	uint64_t request; /* PERM_SET: seq of the request */
	int perm_state;
	struct sli_slice rpc_id; /* agent's id token, byte for byte */
	int64_t expires_ms;
	struct sli_slice option;
	struct sli_slice answer_key;
	const char *agent_session;
	uint32_t generation;
};

/* One record of a commit: an event (kind 0 = none) and its changes. */
struct sli_record {
	struct sli_event ev;
	struct sli_change ch;
};

#endif
