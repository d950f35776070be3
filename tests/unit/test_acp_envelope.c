/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* What routing reads of a line: classes, fields, odd ids, any order of keys. */
#include "unit.h"

#include "acp/envelope.h"

#include <stdio.h>

#include <string.h>

static enum env_class
read_n(struct envelope *e, const char *doc, size_t n, size_t step)
{
	env_reset(e);
	for (size_t i = 0; i < n; i += step)
		env_feed(e, (const uint8_t *)doc + i, SLI_MIN(step, n - i));
	return env_finish(e);
}

static enum env_class
read_doc(struct envelope *e, const char *doc)
{
	return read_n(e, doc, strlen(doc), strlen(doc) + 1);
}

static void
classes_of_messages(void **state)
{
	static const struct {
		const char *doc;
		enum env_class cls;
	} t[] = {
	    {"Welcome to agent 1.0",              ENV_NOISE       },
	    {"42",				ENV_NOISE       },
	    {"\"x\"",			     ENV_NOISE       },
	    {"null",			      ENV_NOISE       },
	    {"true",			      ENV_NOISE       },
	    {"[]",				ENV_BATCH       },
	    {"[{\"id\":1,\"method\":\"x\"}]",     ENV_BATCH       },
	    {"{}",				ENV_MALFORMED   },
	    {"{\"id\":1,\"method\":7}",           ENV_MALFORMED   },
	    {"{\"id\":{},\"method\":\"x\"}",      ENV_MALFORMED   },
	    {"{\"id\":true,\"method\":\"x\"}",    ENV_MALFORMED   },
	    {"{\"id\":[1],\"result\":1}",         ENV_MALFORMED   },
	    {"{\"id\":1,\"method\":\"x\"}",       ENV_REQUEST     },
	    {"{\"id\":null,\"method\":\"x\"}",    ENV_REQUEST     },
	    {"{\"id\":\"0\",\"method\":\"x\"}",   ENV_REQUEST     },
	    {"{\"id\":1.5,\"method\":\"x\"}",     ENV_REQUEST     },
	    {"{\"method\":\"x\"}",                ENV_NOTIFICATION},
	    {"{\"id\":1,\"result\":null}",        ENV_RESPONSE    },
	    {"{\"id\":1}",                        ENV_RESPONSE    },
	    {"{\"id\":1,\"error\":{\"code\":1}}", ENV_RESPONSE    },
	    {"{\"id\":null,\"error\":{}}",        ENV_STRAY_ERROR },
	    {"{\"error\":{\"code\":-32700}}",     ENV_STRAY_ERROR },
	    {"{\"id\":null,\"result\":1}",        ENV_MALFORMED   },
	};
	struct envelope e;

	(void)state;
	env_init(&e, 128);
	for (size_t i = 0; i < SLI_ARRAY_LEN(t); i++)
		assert_int_equal(read_doc(&e, t[i].doc), t[i].cls);
	env_fini(&e);
}

static void
fields_come_in_any_order_and_any_split(void **state)
{
	static const char doc[] =
	    "{\"params\":{\"update\":{\"content\":{\"sessionUpdate\":\"no\","
	    "\"toolCallId\":\"no\"},\"status\":\"in_progress\",\"toolCallId\":"
	    "\"call \\u00e4\",\"messageId\":\"m1\",\"sessionUpdate\":"
	    "\"tool_call_update\"},\"sessionId\":\"s-1\"},"
	    "\"m\\u0065thod\":\"session/update\",\"id\":\"u-\\\"7\"}";
	struct envelope e;

	(void)state;
	env_init(&e, 128);
	for (size_t step = 1; step < sizeof(doc); step++) {
		assert_int_equal(
		    read_n(&e, doc, sizeof(doc) - 1, step), ENV_REQUEST);
		assert_true(env_is(&e.method, "session/update"));
		assert_true(env_is(&e.session, "s-1"));
		assert_true(env_is(&e.update, "tool_call_update"));
		assert_true(env_is(&e.call, "call \\u00e4"));
		assert_true(env_is(&e.status, "in_progress"));
		assert_true(env_is(&e.message_id, "m1"));
		assert_true(env_is(&e.id, "\"u-\\\"7\""));
	}
	env_fini(&e);
}

static void
id_and_method_may_come_last_in_12_mib(void **state)
{
	static const char head[] =
	    "{\"params\":{\"sessionId\":\"s\",\"update\":"
	    "{\"rawOutput\":\"";
	static const char tail[] = "\",\"sessionUpdate\":\"tool_call\"}},"
				   "\"method\":\"session/update\",\"id\":7}";
	size_t n = (size_t)12 << 20;
	char *doc = sli_alloc(n);
	struct envelope e;

	(void)state;
	assert_non_null(doc);
	memset(doc, 'x', n);
	memcpy(doc, head, sizeof(head) - 1);
	memcpy(doc + n - (sizeof(tail) - 1), tail, sizeof(tail) - 1);
	env_init(&e, 128);
	assert_int_equal(read_n(&e, doc, n, 65536), ENV_REQUEST);
	assert_true(env_is(&e.id, "7"));
	assert_true(env_is(&e.method, "session/update"));
	assert_true(env_is(&e.update, "tool_call"));
	env_fini(&e);
	sli_free(doc);
}

static void
ids_are_kept_byte_for_byte(void **state)
{
	static const char *const ids[] = {"0", "\"0\"", "-1", "1e400",
	    "9223372036854775808", "1.50", "null", "\"\"", "\"\\u0000\"",
	    "\"3f2c8d1e-0000-4000-8000-1234567890ab\""};
	char doc[128];
	struct envelope e;

	(void)state;
	env_init(&e, 128);
	for (size_t i = 0; i < SLI_ARRAY_LEN(ids); i++) {
		(void)snprintf(
		    doc, sizeof(doc), "{\"id\":%s,\"method\":\"x\"}", ids[i]);
		for (size_t step = 1; step < 9; step++) {
			assert_int_equal(
			    read_n(&e, doc, strlen(doc), step), ENV_REQUEST);
			assert_true(env_is(&e.id, ids[i]));
			assert_int_equal(e.id_null, !strcmp(ids[i], "null"));
		}
	}
	env_fini(&e);
}

static void
what_is_too_long_to_keep_matches_nothing(void **state)
{
	char doc[1200] = "{\"method\":\"x\",\"id\":\"";
	struct envelope e;
	size_t n = strlen(doc);

	(void)state;
	memset(doc + n, 'i', 1000);
	memcpy(doc + n + 1000, "\"}", 3);
	env_init(&e, 128);
	for (size_t step = 1; step < 2000; step = step * 3) {
		assert_int_equal(
		    read_n(&e, doc, strlen(doc), step), ENV_REQUEST);
		assert_true(e.id.set && e.id.cut && !e.id.n);
		assert_false(env_is(&e.id, ""));
	}
	env_fini(&e);
}

static void
answers_tell_what_they_carry(void **state)
{
	struct envelope e;

	(void)state;
	env_init(&e, 128);
	assert_int_equal(
	    read_doc(&e, "{\"id\":1,\"result\":{\"stopReason\":\"end_turn\","
			 "\"x\":{\"stopReason\":\"no\"}}}"),
	    ENV_RESPONSE);
	assert_true(e.has_result && !e.has_error && !e.result_null);
	assert_true(env_is(&e.stop, "end_turn"));
	assert_int_equal(
	    read_doc(&e, "{\"id\":1,\"result\":null}"), ENV_RESPONSE);
	assert_true(e.has_result && e.result_null && !e.stop.set);
	assert_int_equal(
	    read_doc(&e, "{\"error\":{\"message\":\"sign in\",\"code\":"
			 "-32000},\"id\":1}"),
	    ENV_RESPONSE);
	assert_true(e.has_error && !e.has_result);
	assert_int_equal(e.code, -32000);
	assert_true(env_is(&e.error, "sign in"));
	assert_int_equal(
	    read_doc(&e, "{\"error\":null,\"result\":{},\"id\":1}"),
	    ENV_RESPONSE);
	assert_true(e.has_result && !e.has_error);
	assert_int_equal(
	    read_doc(&e, "{\"id\":0,\"result\":{\"protocolVersion\":1,"
			 "\"agentCapabilities\":{\"loadSession\":true,"
			 "\"sessionCapabilities\":{\"resume\":{}}},"
			 "\"sessionId\":\"n\"}}"),
	    ENV_RESPONSE);
	assert_true(e.has_version && e.version == 1);
	assert_true(e.can_load && e.can_resume);
	assert_true(env_is(&e.new_session, "n"));
	assert_int_equal(
	    read_doc(&e, "{\"id\":0,\"result\":{\"protocolVersion\":1.0,"
			 "\"agentCapabilities\":{\"loadSession\":\"yes\","
			 "\"sessionCapabilities\":{\"resume\":null}}}}"),
	    ENV_RESPONSE);
	assert_true(e.has_version && e.version == -1);
	assert_true(!e.can_load && !e.can_resume);
	env_fini(&e);
}

static void
a_permission_request_keeps_options_and_call(void **state)
{
	static const char doc[] =
	    "{\"params\":{\"options\":[{\"optionId\":\"o 1\"},[{}]],"
	    "\"toolCall\":{\"toolCallId\":\"t\",\"title\":\"Run it\","
	    "\"rawInput\":{\"options\":[1]}},\"sessionId\":\"s\"},\"id\":0,"
	    "\"method\":\"session/request_permission\"}";
	struct envelope e;

	(void)state;
	env_init(&e, 128);
	for (size_t step = 1; step < sizeof(doc); step++) {
		assert_int_equal(
		    read_n(&e, doc, sizeof(doc) - 1, step), ENV_REQUEST);
		unit_slice_is(
		    sli_buf_slice(&e.options), "[{\"optionId\":\"o 1\"},[{}]]");
		unit_slice_is(sli_buf_slice(&e.tool_call),
		    "{\"toolCallId\":\"t\",\"title\":\"Run it\","
		    "\"rawInput\":{\"options\":[1]}}");
		assert_true(env_is(&e.title, "Run it"));
		assert_true(env_is(&e.call, "t"));
	}
	env_fini(&e);
}

static void
duplicate_keys_and_null_do_no_harm(void **state)
{
	struct envelope e;

	(void)state;
	env_init(&e, 8);
	assert_int_equal(
	    read_doc(&e, "{\"id\":{},\"id\":2,\"method\":1,\"method\":\"b\","
			 "\"params\":null,\"params\":[],\"params\":{"
			 "\"sessionId\":\"a\",\"sessionId\":\"b\"}}"),
	    ENV_REQUEST);
	assert_true(env_is(&e.id, "2") && env_is(&e.method, "b"));
	assert_true(env_is(&e.session, "b"));
	assert_int_equal(
	    read_doc(&e, "{\"a\":[[[[[[[[[1]]]]]]]]]}"), ENV_NOISE);
	assert_int_equal(e.tok.err, TOK_ERR_DEEP);
	env_fini(&e);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(classes_of_messages),
	    cmocka_unit_test(fields_come_in_any_order_and_any_split),
	    cmocka_unit_test(id_and_method_may_come_last_in_12_mib),
	    cmocka_unit_test(ids_are_kept_byte_for_byte),
	    cmocka_unit_test(what_is_too_long_to_keep_matches_nothing),
	    cmocka_unit_test(answers_tell_what_they_carry),
	    cmocka_unit_test(a_permission_request_keeps_options_and_call),
	    cmocka_unit_test(duplicate_keys_and_null_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
