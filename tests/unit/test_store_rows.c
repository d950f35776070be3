/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Rows that travel with events: turns by key, permissions by compare-and-set,
 * states, VMs; a commit that does not fit leaves nothing behind. */
#include "unit.h"

#include "base/str.h"
#include "t_store.h"

#include <stdlib.h>

static int
setup(void **state)
{
	struct t_store *t = calloc(1, sizeof(*t));

	t_store_new(t, 0);
	t_store_open(t);
	assert_int_equal(t_store_session(t, "s"), SLI_OK);
	*state = t;
	return 0;
}

static int
teardown(void **state)
{
	t_store_free(*state);
	free(*state);
	return 0;
}

/* A record with an event and these changes. */
static struct sli_record
change(unsigned what)
{
	struct sli_record r = t_store_event("{}", 2);

	r.ch.what = what;
	return r;
}

static struct sli_record
turn_new(uint64_t turn, const char *key, uint8_t hash)
{
	struct sli_record r = change(SLI_CH_TURN_NEW | SLI_CH_STATE);

	r.ch.turn = turn;
	r.ch.key = sli_slice_str(key);
	memset(r.ch.prompt_hash, hash, sizeof(r.ch.prompt_hash));
	r.ch.state = SLI_SS_RUNNING;
	return r;
}

static struct sli_record
turn_end(uint64_t turn, int outcome, const char *reason)
{
	struct sli_record r = change(SLI_CH_TURN_END | SLI_CH_STATE);

	r.ch.turn = turn;
	r.ch.outcome = outcome;
	r.ch.reason_code = reason;
	r.ch.state = SLI_SS_IDLE;
	return r;
}

static enum sli_err
commit1(struct t_store *t, struct sli_record r)
{
	return t_store_commit(t, "s", &r, 1);
}

struct found {
	int answered, found;
	enum sli_err code;
	struct store_turn_row row;
	char key[64], reason[64];
};

static void
on_turn(
    void *ctx, const struct store_turn_row *row, const struct sli_errinfo *ei)
{
	struct found *f = ctx;

	f->answered = 1;
	f->code = ei->code;
	f->found = row != NULL;
	if (!row)
		return;
	f->row = *row;
	(void)sli_snprintf(f->key, sizeof(f->key), "%.*s", (int)row->key.n,
	    (const char *)row->key.p);
	(void)sli_strlcpy(f->reason, row->reason_code, sizeof(f->reason));
}

static struct found
find(struct t_store *t, const char *sid, const char *key)
{
	struct found f = {0};

	store_find_turn(t->st, sid, sli_slice_str(key), on_turn, &f);
	t_store_wait(t, &f.answered);
	return f;
}

static void
get_session(void *ctx, const struct store_session_row *row)
{
	struct store_session_row *r = ctx;

	*r = *row;
	/* Constant texts of these tests: compare them here. */
	assert_string_equal(row->agent, "fake");
	unit_slice_is(row->open_req, "request");
	r->reason = strcmp(row->reason, "why") == 0 ? "why" : "";
	r->reason_code = strcmp(row->reason_code, "code") == 0 ? "code" : "";
	r->agent_session =
	    strcmp(row->agent_session, "theirs") == 0 ? "theirs" : "";
}

static struct store_session_row
session(struct t_store *t)
{
	struct store_session_row row = {0};

	assert_int_equal(
	    store_load_sessions(t->st, get_session, &row, NULL), SLI_OK);
	return row;
}

static void
a_key_names_one_turn(void **state)
{
	struct t_store *t = *state;
	struct sli_record two[2];
	struct found f;

	assert_int_equal(find(t, "s", "k").found, 0);
	assert_int_equal(find(t, "other", "k").code, SLI_OK);
	assert_int_equal(commit1(t, turn_new(1, "k", 1)), SLI_OK);
	assert_int_equal(t->seq, 1);
	assert_int_equal(commit1(t, turn_new(2, "k", 1)), SLI_E_ALREADY_EXISTS);
	assert_int_equal(t->seq, 0);
	assert_int_equal(commit1(t, turn_new(2, "k", 2)), SLI_E_KEY_CONFLICT);
	assert_int_equal(
	    commit1(t, turn_new(1, "l", 2)), SLI_E_INVALID_ARGUMENT);
	/* The refused ones left no event, state or turn. */
	assert_int_equal(session(t).head, 1);
	assert_int_equal(session(t).turn, 1);
	/* Also when the fault comes late in a commit. */
	two[0] = turn_new(2, "m", 3);
	two[1] = turn_new(3, "k", 3);
	assert_int_equal(t_store_commit(t, "s", two, 2), SLI_E_KEY_CONFLICT);
	assert_int_equal(find(t, "s", "m").found, 0);
	assert_int_equal(commit1(t, turn_new(2, "m", 3)), SLI_OK);
	/* Without a key there is nothing to clash. */
	assert_int_equal(commit1(t, turn_new(5, "", 3)), SLI_OK);
	assert_int_equal(commit1(t, turn_new(6, "", 3)), SLI_OK);
	f = find(t, "s", "m");
	assert_int_equal(f.found, 1);
	assert_int_equal(f.row.turn, 2);
	assert_int_equal(f.row.first_seq, 2);
	assert_string_equal(f.key, "m");
	assert_int_equal(f.row.outcome, SLI_TO_NONE);
	assert_int_equal(f.row.prompt_hash[31], 3);
	/* Another session has other keys. */
	assert_int_equal(t_store_session(t, "t"), SLI_OK);
	assert_int_equal(find(t, "t", "k").found, 0);
}

/* Many asks for one key in one batch: one turn. */
static void
one_key_at_once(void **state)
{
	struct t_store *t = *state;
	struct sli_record r;

	for (unsigned i = 1; i <= 10; i++) {
		r = turn_new(i, "k", 1);
		store_commit(t->st, "s", &r, 1, 0, NULL, NULL);
	}
	r = t_store_event("x", 1);
	assert_int_equal(t_store_commit(t, "s", &r, 1), SLI_OK);
	assert_int_equal(t->seq, 2);
	assert_int_equal(t_store_sql(t, "SELECT count(*) FROM turn"), 1);
}

static void
newest_turn(void *ctx, const struct store_turn_row *row)
{
	uint64_t *next = ctx;

	assert_int_equal(row->turn, *next);
	assert_int_equal(
	    row->outcome, row->turn == 1 ? SLI_TO_COMPLETED : SLI_TO_NONE);
	assert_string_equal(row->reason_code, "");
	--*next;
}

static void
turns_start_and_end_once(void **state)
{
	struct t_store *t = *state;
	struct sli_record r = change(SLI_CH_TURN_START);
	struct found f;
	uint64_t next = 2;

	r.ch.turn = 1;
	assert_int_equal(commit1(t, r), SLI_E_ABORTED);
	assert_int_equal(commit1(t, turn_new(1, "k", 1)), SLI_OK);
	assert_int_equal(commit1(t, r), SLI_OK);
	assert_int_equal(
	    commit1(t, turn_end(1, SLI_TO_NONE, "")), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(
	    commit1(t, turn_end(1, 99, "")), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(
	    commit1(t, turn_end(1, SLI_TO_COMPLETED, NULL)), SLI_OK);
	assert_int_equal(t->seq, 3);
	assert_int_equal(
	    commit1(t, turn_end(1, SLI_TO_LOST, "x")), SLI_E_ABORTED);
	assert_int_equal(commit1(t, r), SLI_E_ABORTED);
	f = find(t, "s", "k");
	assert_int_equal(f.row.outcome, SLI_TO_COMPLETED);
	assert_int_equal(f.row.first_seq, 1);
	assert_int_equal(f.row.last_seq, 3);
	assert_true(f.row.started_ms > 0 && f.row.completed_ms > 0);
	assert_int_equal(session(t).outcome, SLI_TO_COMPLETED);
	assert_int_equal(commit1(t, turn_new(2, "", 1)), SLI_OK);
	assert_int_equal(session(t).outcome, SLI_TO_NONE);
	assert_int_equal(
	    store_load_turns(t->st, "s", 9, newest_turn, &next, NULL), SLI_OK);
	assert_int_equal(next, 0);
	assert_int_equal(
	    store_load_turns(t->st, "x", 9, newest_turn, &next, NULL),
	    SLI_E_NOT_FOUND);
	assert_int_equal(commit1(t, turn_end(2, SLI_TO_FAILED, "why")), SLI_OK);
	t_store_close(t);
	t_store_open(t);
	assert_int_equal(session(t).turn, 2);
	assert_int_equal(session(t).outcome, SLI_TO_FAILED);
	assert_int_equal(
	    commit1(t, turn_new(2, "z", 1)), SLI_E_INVALID_ARGUMENT);
	assert_int_equal(find(t, "s", "k").found, 1);
}

static struct sli_record
perm_set(uint64_t request, int to, const char *option)
{
	struct sli_record r = change(SLI_CH_PERM_SET);

	r.ch.request = request;
	r.ch.perm_state = to;
	r.ch.option = sli_slice_str(option);
	r.ch.answer_key = sli_slice_str(option ? "key" : NULL);
	return r;
}

static struct sli_record
perm_new(void)
{
	struct sli_record r = change(SLI_CH_PERM_NEW);

	r.ch.turn = 1;
	r.ch.generation = 4;
	r.ch.rpc_id = sli_slice_str("\"id\"");
	r.ch.expires_ms = 5000;
	return r;
}

struct pending {
	uint64_t request[8];
	unsigned n;
};

static void
on_perm(void *ctx, const struct store_perm_row *row)
{
	struct pending *p = ctx;

	unit_slice_is(row->rpc_id, "\"id\"");
	assert_int_equal(row->generation, 4);
	assert_int_equal(row->expires_ms, 5000);
	assert_int_equal(row->state, SLI_PS_PENDING);
	p->request[p->n++] = row->request;
}

static struct pending
pending(struct t_store *t)
{
	struct pending p = {0};

	assert_int_equal(
	    store_load_perms(t->st, "s", on_perm, &p, NULL), SLI_OK);
	return p;
}

static void
first_answer_wins(void **state)
{
	struct t_store *t = *state;
	struct sli_record two[2];

	assert_int_equal(
	    commit1(t, perm_set(1, SLI_PS_ANSWERED, "a")), SLI_E_ABORTED);
	assert_int_equal(commit1(t, perm_new()), SLI_OK);
	assert_int_equal(t->seq, 1);
	assert_int_equal(pending(t).n, 1);
	assert_int_equal(pending(t).request[0], 1);
	assert_int_equal(commit1(t, perm_set(1, SLI_PS_PENDING, "a")),
	    SLI_E_INVALID_ARGUMENT);
	assert_int_equal(
	    commit1(t, perm_set(1, SLI_PS_DELIVERED, "a")), SLI_E_ABORTED);
	assert_int_equal(
	    commit1(t, perm_set(1, SLI_PS_ANSWERED, "allow")), SLI_OK);
	assert_int_equal(
	    commit1(t, perm_set(1, SLI_PS_ANSWERED, "deny")), SLI_E_ABORTED);
	assert_int_equal(pending(t).n, 0);
	assert_int_equal(
	    commit1(t, perm_set(1, SLI_PS_DELIVERED, NULL)), SLI_OK);
	assert_int_equal(
	    commit1(t, perm_set(1, SLI_PS_EXPIRED, NULL)), SLI_E_ABORTED);
	assert_int_equal(
	    t_store_sql(t, "SELECT count(*) FROM permission WHERE state=3"
			   " AND option=x'616c6c6f77'"
			   " AND answer_key=x'6b6579'"),
	    1);
	/* Asked and answered by policy in one commit. */
	two[0] = perm_new();
	two[1] = perm_set(0, SLI_PS_ANSWERED, "reject");
	assert_int_equal(t_store_commit(t, "s", two, 2), SLI_OK);
	assert_int_equal(pending(t).n, 0);
	/* A request is an event. */
	two[0] = perm_new();
	two[0].ev.kind = 0;
	assert_int_equal(
	    t_store_commit(t, "s", two, 1), SLI_E_INVALID_ARGUMENT);
	/* What is open is there after a restart. */
	assert_int_equal(commit1(t, perm_new()), SLI_OK);
	t_store_close(t);
	t_store_open(t);
	assert_int_equal(pending(t).n, 1);
	assert_int_equal(pending(t).request[0], session(t).head);
}

static void
states_and_rows_without_events(void **state)
{
	struct t_store *t = *state;
	struct sli_record r = change(SLI_CH_STATE);

	r.ch.state = 0;
	assert_int_equal(commit1(t, r), SLI_E_INVALID_ARGUMENT);
	r.ev.kind = 0;
	r.ch.what |= SLI_CH_AGENT;
	r.ch.state = SLI_SS_FAILED;
	r.ch.reason_code = "code";
	r.ch.reason = "why";
	r.ch.agent_session = "theirs";
	r.ch.generation = 3;
	assert_int_equal(commit1(t, r), SLI_OK);
	assert_int_equal(t->seq, 0);
	assert_int_equal(session(t).state, SLI_SS_FAILED);
	assert_string_equal(session(t).reason, "why");
	assert_string_equal(session(t).reason_code, "code");
	assert_string_equal(session(t).agent_session, "theirs");
	assert_int_equal(session(t).generation, 3);
	assert_int_equal(session(t).head, 0);
	assert_int_equal(session(t).tenant, 7);
	assert_string_equal(session(t).vm, "vm_1");
	assert_int_equal(session(t).epoch, 1);
	assert_int_equal(session(t).created_ms, 1000);
}

struct vms {
	struct store_vm_row row[4];
	unsigned n;
};

static void
on_vm(void *ctx, const struct store_vm_row *row)
{
	struct vms *v = ctx;

	assert_string_equal(row->reason, "r");
	unit_slice_is(row->spec, "spec");
	v->row[v->n++] = *row;
}

static void
vms_are_put_and_deleted(void **state)
{
	struct t_store *t = *state;
	struct store_vm_row row = {.tenant = 3,
	    .state = 2,
	    .reason = "r",
	    .spec = sli_slice_str("spec"),
	    .created_ms = 10};
	struct vms v = {0};

	(void)sli_strlcpy(row.id, "vm_a", sizeof(row.id));
	store_put_vm(t->st, &row, NULL, NULL);
	row.state = 3;
	store_put_vm(t->st, &row, NULL, NULL);
	(void)sli_strlcpy(row.id, "vm_b", sizeof(row.id));
	row.created_ms = 5;
	t->answered = 0;
	store_put_vm(t->st, &row, t_store_done, t);
	t_store_wait(t, &t->answered);
	assert_int_equal(t->code, SLI_OK);
	assert_int_equal(store_load_vms(t->st, on_vm, &v, NULL), SLI_OK);
	assert_int_equal(v.n, 2);
	assert_string_equal(v.row[0].id, "vm_b");
	assert_string_equal(v.row[1].id, "vm_a");
	assert_int_equal(v.row[1].state, 3);
	t->answered = 0;
	store_del_vm(t->st, "vm_b", t_store_done, t);
	t_store_wait(t, &t->answered);
	v.n = 0;
	assert_int_equal(store_load_vms(t->st, on_vm, &v, NULL), SLI_OK);
	assert_int_equal(v.n, 1);
	assert_int_equal(store_held(t->st, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		a_key_names_one_turn, setup, teardown),
	    cmocka_unit_test_setup_teardown(one_key_at_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		turns_start_and_end_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(first_answer_wins, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		states_and_rows_without_events, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		vms_are_put_and_deleted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
