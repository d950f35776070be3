/* SPDX-License-Identifier: Apache-2.0 */
/* The names of states, outcomes, kinds and policies: those of the enums in
 * proto/ without their prefix. A unit test holds them against the generated
 * descriptors. */
#include "client.h"

#define NAME(table, v) \
	((v) > 0 && (size_t)(v) < SLI_ARRAY_LEN(table) ? (table)[v] : "unknown")

static const char *const vm_states[] = {
    NULL, "creating", "running", "stopped", "failed", "deleted"};
static const char *const session_states[] = {NULL, "opening", "idle", "running",
    "waiting_permission", "failed", "unloaded", "deleted"};
static const char *const outcomes[] = {NULL, "completed", "failed", "lost",
    "canceled", "timed_out", "dispatch_failed", "auth_rejected",
    "budget_exceeded"};
static const char *const policies[] = {NULL, "ask", "reject_all", "allow_all"};
static const char *const permission_states[] = {
    NULL, "pending", "answered", "delivered", "expired", "canceled"};
static const char *const kinds[] = {NULL, "agent", "client", "noise", "session",
    "turn_started", "turn_ended", "permission", "agent_started", "agent_exited",
    "limit", "diagnostic", "prompt"};

const char *
sluice_vm_state_name(int32_t state)
{
	return NAME(vm_states, state);
}

const char *
sluice_session_state_name(int32_t state)
{
	return NAME(session_states, state);
}

const char *
sluice_outcome_name(int32_t outcome)
{
	return outcome == SLUICE_OUTCOME_NONE ? "none"
					      : NAME(outcomes, outcome);
}

const char *
sluice_policy_name(int32_t policy)
{
	return policy == SLUICE_POLICY_DEFAULT ? "ask" : NAME(policies, policy);
}

const char *
sluice_permission_state_name(int32_t state)
{
	return NAME(permission_states, state);
}

const char *
sluice_event_kind_name(int32_t kind)
{
	return NAME(kinds, kind);
}
