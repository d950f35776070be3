/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: user */
/* VMs from CREATE to DELETE on the real spawner and pid 1: how commands start,
 * end and fail, what they inherit, how trees are killed, limits. */
#include "t_sbx.h"

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct sbx box;

static void
test_hello(void **state)
{
	struct sbx_result r;
	struct sbx_vm vm;

	(void)state;
	assert_int_equal(sbx_create(&box, NULL, &vm, NULL), 0);
	sbx_sh(&vm,
	    "echo hello; id -u; hostname; cat /proc/1/comm; mount; ls -la /; "
	    "ps ax; cat /proc/self/cgroup",
	    &r);
	fprintf(stderr, "%s", r.out);
	assert_int_equal(r.status, 0);
	sbx_delete(&box, &vm);
}

static int
setup(void **state)
{
	(void)state;
	sbx_start(&box);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	sbx_stop(&box);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_hello),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
