/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* Peer credentials to principals: nobody gets in by being unknown. */
#include "unit.h"

#include "conn/auth.h"

static const struct sli_principal untouched = {.tenant = 77};

static enum sli_err
ask(const struct auth *a, uint32_t uid, struct sli_principal *who)
{
	struct sli_link_peer peer = {.uid = uid, .gid = 0};

	*who = untouched;
	return auth_peer(a, &peer, who);
}

static void
bad_tables(void **state)
{
	static const struct conns_uid bad[] = {
	    {5,            0, SLI_ROLE_USER},
	    {5,            1, SLI_ROLE_NONE},
	    {(uint32_t)-1, 1, SLI_ROLE_USER},
	};
	struct conns_uid many[AUTH_UIDS_MAX + 1];
	struct conns_cfg cfg = {.uids = many, .nuids = SLI_ARRAY_LEN(many)};
	struct auth a;

	(void)state;
	for (unsigned i = 0; i < SLI_ARRAY_LEN(many); i++)
		many[i] = (struct conns_uid){i + 1, 1, SLI_ROLE_USER};
	assert_int_equal(auth_init(&a, &cfg, NULL), SLI_E_INVALID_ARGUMENT);
	cfg.nuids = 1;
	for (unsigned i = 0; i < SLI_ARRAY_LEN(bad); i++) {
		cfg.uids = &bad[i];
		assert_int_equal(
		    auth_init(&a, &cfg, NULL), SLI_E_INVALID_ARGUMENT);
	}
}

static void
unknown_is_refused(void **state)
{
	struct conns_uid u = {1001, 2, SLI_ROLE_VIEWER};
	struct conns_cfg cfg = {.owner_uid = 1000, .uids = &u, .nuids = 1};
	struct sli_principal who;
	struct auth a;

	(void)state;
	assert_int_equal(auth_init(&a, &cfg, NULL), SLI_OK);
	assert_int_equal(ask(&a, 1002, &who), SLI_E_UNAUTHENTICATED);
	assert_int_equal(who.tenant, 77);
	assert_int_equal(ask(&a, 65534, &who), SLI_E_UNAUTHENTICATED);
	/* TCP, not allowed. */
	assert_int_equal(ask(&a, (uint32_t)-1, &who), SLI_E_UNAUTHENTICATED);
	assert_int_equal(who.tenant, 77);
}

static void
known_are_let_in(void **state)
{
	struct conns_uid u[] = {
	    {1001, 2, SLI_ROLE_VIEWER},
	    {1000, 9, SLI_ROLE_VIEWER}, /* cannot demote the owner */
	};
	struct conns_cfg cfg = {
	    .owner_uid = 1000, .uids = u, .nuids = 2, .insecure_loopback = 1};
	struct sli_principal who;
	struct auth a;

	(void)state;
	assert_int_equal(auth_init(&a, &cfg, NULL), SLI_OK);
	assert_int_equal(ask(&a, 0, &who), SLI_OK);
	assert_int_equal(who.role, SLI_ROLE_ADMIN);
	assert_int_equal(who.tenant, 1);
	assert_int_equal(ask(&a, 1000, &who), SLI_OK);
	assert_int_equal(who.role, SLI_ROLE_ADMIN);
	assert_int_equal(who.tenant, 1);
	assert_int_equal(ask(&a, 1001, &who), SLI_OK);
	assert_int_equal(who.role, SLI_ROLE_VIEWER);
	assert_int_equal(who.tenant, 2);
	assert_string_equal(who.name, "uid:1001");
	assert_int_equal(ask(&a, (uint32_t)-1, &who), SLI_OK);
	assert_int_equal(who.role, SLI_ROLE_USER);
	assert_string_equal(who.name, "loopback");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_tables),
	    cmocka_unit_test(unknown_is_refused),
	    cmocka_unit_test(known_are_let_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
