/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* URLs that must be refused, URLs that must be understood, and the order in
 * which the default place of the socket is looked for. */
#include "link/addr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void
refuses(void **state)
{
	static const char *const bad[] = {"", "unix", "unix://", "unix://rel",
	    "http://127.0.0.1", "tcp://", "tcp://:80", "tcp://example.org:80",
	    "tcp://127.0.0.1:", "tcp://127.0.0.1:x", "tcp://127.0.0.1:65536",
	    "tcp://127.0.0.1:-1", "tcp://[::1", "tcp://[::1]x", "tcp://::1",
	    "tcp://1.2.3", "/run/x.sock"};
	struct sli_errinfo ei;
	char longer[256] = "unix:///";

	(void)state;
	for (size_t i = 0; i < SLI_ARRAY_LEN(bad); i++) {
		struct sli_addr a = {.port = 7};

		assert_int_equal(
		    sli_addr_parse(bad[i], &a, &ei), SLI_E_INVALID_ARGUMENT);
		assert_int_equal(a.port, 7);
		assert_non_null(strstr(ei.text, "unix:///PATH"));
	}
	memset(longer + 8, 'a', 107);
	assert_int_equal(sli_addr_parse(longer, &(struct sli_addr){0}, NULL),
	    SLI_E_INVALID_ARGUMENT);
	longer[7 + 107] = '\0';
	assert_int_equal(
	    sli_addr_parse(longer, &(struct sli_addr){0}, NULL), SLI_OK);
}

static void
understands(void **state)
{
	struct sli_addr a;

	(void)state;
	assert_int_equal(sli_addr_parse("unix:///a/b", &a, NULL), SLI_OK);
	assert_int_equal(a.kind, SLI_ADDR_UNIX);
	assert_string_equal(a.path, "/a/b");
	assert_int_equal(sli_addr_parse("ipc:///x", &a, NULL), SLI_OK);
	assert_string_equal(a.path, "/x");
	assert_int_equal(sli_addr_parse("tcp://localhost", &a, NULL), SLI_OK);
	assert_string_equal(a.host, "127.0.0.1");
	assert_int_equal(a.port, SLI_PORT_DEFAULT);
	assert_true(a.loopback);
	assert_int_equal(sli_addr_parse("tcp://[::1]:1", &a, NULL), SLI_OK);
	assert_string_equal(a.host, "::1");
	assert_int_equal(a.port, 1);
	assert_true(a.loopback);
	assert_int_equal(sli_addr_parse("tcp://10.1.2.3:0", &a, NULL), SLI_OK);
	assert_int_equal(a.port, 0);
	assert_false(a.loopback);
}

static void
default_place(void **state)
{
	char url[SLI_URL_MAX];
	char deep[200];

	(void)state;
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "rel", 1), 0);
	assert_int_equal(sli_addr_default(url, NULL), SLI_E_CONFIG);
	memset(deep, 'd', sizeof(deep) - 1);
	deep[0] = '/';
	deep[sizeof(deep) - 1] = '\0';
	assert_int_equal(setenv("XDG_RUNTIME_DIR", deep, 1), 0);
	assert_int_equal(sli_addr_default(url, NULL), SLI_E_CONFIG);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/r", 1), 0);
	assert_int_equal(sli_addr_default(url, NULL), SLI_OK);
	assert_string_equal(url, "unix:///r/sluice/sluiced.sock");
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	assert_int_equal(sli_addr_default(url, NULL), SLI_OK);
	if (geteuid() == 0)
		assert_string_equal(url, "unix:///run/sluice/sluiced.sock");
}

/* Root's server is another user when it binds. */
static void
closed_runtime_dir(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char dir[128], below[160], want[SLI_URL_MAX], url[SLI_URL_MAX];

	(void)state;
	(void)snprintf(
	    dir, sizeof(dir), "%s/slt-addr.XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
	(void)snprintf(below, sizeof(below), "%s/run", dir);
	assert_int_equal(mkdir(below, 0755), 0);
	assert_int_equal(chmod(below, 0755), 0);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", below, 1), 0);
	assert_int_equal(sli_addr_default(url, NULL), SLI_OK);
	(void)snprintf(
	    want, sizeof(want), "unix://%s/sluice/sluiced.sock", below);
	/* mkdtemp makes it 0700. */
	if (geteuid() == 0)
		assert_string_equal(url, "unix:///run/sluice/sluiced.sock");
	else
		assert_string_equal(url, want);
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(sli_addr_default(url, NULL), SLI_OK);
	assert_string_equal(url, want);
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	assert_int_equal(rmdir(below), 0);
	assert_int_equal(rmdir(dir), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(refuses),
	    cmocka_unit_test(understands),
	    cmocka_unit_test(default_place),
	    cmocka_unit_test(closed_runtime_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
