/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* The public header against the lists it repeats: error numbers, states,
 * outcomes, kinds, policies, and the sizes of the structs that a program
 * compiled against it relies on. */
#include "unit.h"

#include <sluice.h>

#include "../../client/client.h"
#include "base/err.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sluice/v1/sessions.pb-c.h"
#include "sluice/v1/vms.pb-c.h"

/* The number that the header gives an error, by its text: so that the list
 * need not be written a third time here. -1: it has none. */
static int
header_number(const char *name)
{
	static char text[32768];
	static size_t n;
	char want[64];
	const char *p;
	int v = 0;

	if (n == 0) {
		FILE *f =
		    fopen(SLUICE_SRC_DIR "/client/include/sluice.h", "re");

		assert_non_null(f);
		n = fread(text, 1, sizeof(text) - 1, f);
		(void)fclose(f);
	}
	(void)snprintf(want, sizeof(want),
	    "\tSLUICE_%s%s = ", strcmp(name, "OK") == 0 ? "" : "E_", name);
	p = strstr(text, want);
	if (!p)
		return -1;
	for (p += strlen(want); *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (*p - '0');
	return v;
}

static void
errors_are_the_list(void **state)
{
	static const struct {
		int num;
		const char *name;
	} all[] = {

#define SLI_ERR(num, name, cls, text) {(num), #name},
#include "base/err.list.h"
#undef SLI_ERR
	};

	(void)state;
	for (size_t i = 0; i < SLI_ARRAY_LEN(all); i++) {
		assert_string_equal(sluice_err_name(all[i].num), all[i].name);
		assert_int_equal(header_number(all[i].name), all[i].num);
	}
	assert_string_equal(sluice_err_name(9999), "UNKNOWN");
}

/* Every value of the .proto enum has the header's name, without its prefix and
 * in lower case; the values beyond it have none. */
static void
same_names(const ProtobufCEnumDescriptor *d, const char *prefix,
    const char *(*name)(int32_t), int from)
{
	for (unsigned i = 0; i < d->n_values; i++) {
		const ProtobufCEnumValue *v = &d->values[i];
		const char *n = v->name;
		char low[64];
		size_t k = 0;

		if (v->value < from)
			continue;
		assert_memory_equal(n, prefix, strlen(prefix));
		for (n += strlen(prefix); *n; n++)
			low[k++] = (char)tolower((unsigned char)*n);
		low[k] = '\0';
		assert_string_equal(name(v->value), low);
	}
	assert_string_equal(name((int32_t)d->n_values), "unknown");
	assert_string_equal(name(-1), "unknown");
}

static void
names_are_those_of_the_proto(void **state)
{
	(void)state;
	same_names(&sluice__v1__vm_state__descriptor, "VM_STATE_",
	    sluice_vm_state_name, 1);
	same_names(&sluice__v1__session_state__descriptor, "SESSION_STATE_",
	    sluice_session_state_name, 1);
	same_names(&sluice__v1__turn_outcome__descriptor, "TURN_OUTCOME_",
	    sluice_outcome_name, 1);
	same_names(&sluice__v1__permission_policy__descriptor,
	    "PERMISSION_POLICY_", sluice_policy_name, 1);
	same_names(&sluice__v1__permission_state__descriptor,
	    "PERMISSION_STATE_", sluice_permission_state_name, 1);
	same_names(&sluice__v1__event_kind__descriptor, "EVENT_KIND_",
	    sluice_event_kind_name, 1);
	assert_string_equal(sluice_outcome_name(SLUICE_OUTCOME_NONE), "none");
	assert_string_equal(sluice_policy_name(SLUICE_POLICY_DEFAULT), "ask");
}

static void
numbers_are_those_of_the_proto(void **state)
{
	(void)state;
	assert_int_equal(
	    SLUICE_VM_DELETED, SLUICE__V1__VM_STATE__VM_STATE_DELETED);
	assert_int_equal(SLUICE_SESSION_DELETED,
	    SLUICE__V1__SESSION_STATE__SESSION_STATE_DELETED);
	assert_int_equal(SLUICE_OUTCOME_BUDGET_EXCEEDED,
	    SLUICE__V1__TURN_OUTCOME__TURN_OUTCOME_BUDGET_EXCEEDED);
	assert_int_equal(SLUICE_POLICY_ALLOW_ALL,
	    SLUICE__V1__PERMISSION_POLICY__PERMISSION_POLICY_ALLOW_ALL);
	assert_int_equal(SLUICE_PERMISSION_CANCELED,
	    SLUICE__V1__PERMISSION_STATE__PERMISSION_STATE_CANCELED);
	assert_int_equal(
	    SLUICE_EVENT_PROMPT, SLUICE__V1__EVENT_KIND__EVENT_KIND_PROMPT);
}

/* A change here changes what compiled programs see: only growth at the end of
 * a struct is allowed, and then the number here grows. */
static void
sizes(void **state)
{
	(void)state;
	if (sizeof(void *) != 8)
		skip();
	assert_int_equal(sizeof(struct sluice_error), 2176);
	assert_int_equal(sizeof(struct sluice_limit_hit), 232);
	assert_int_equal(sizeof(struct sluice_options), 64);
	assert_int_equal(sizeof(struct sluice_call_options), 48);
	assert_int_equal(sizeof(struct sluice_handler), 48);
	assert_int_equal(sizeof(struct sluice_counters), 56);
	assert_int_equal(sizeof(struct sluice_vm_spec), 48);
	assert_int_equal(sizeof(struct sluice_vm), 80);
	assert_int_equal(sizeof(struct sluice_exec_spec), 64);
	assert_int_equal(sizeof(struct sluice_exec_handler), 56);
	assert_int_equal(sizeof(struct sluice_exit), 32);
	assert_int_equal(sizeof(struct sluice_proc), 72);
	assert_int_equal(sizeof(struct sluice_session_spec), 80);
	assert_int_equal(sizeof(struct sluice_session), 152);
	assert_int_equal(sizeof(struct sluice_turn), 32);
	assert_int_equal(sizeof(struct sluice_permission), 88);
	assert_int_equal(sizeof(struct sluice_event), 72);
	assert_int_equal(sizeof(struct sluice_event_part), 56);
	assert_int_equal(sizeof(struct sluice_event_handler), 56);
	assert_int_equal(sizeof(struct sluice_sub_state), 56);
}

static void
errors_of_any_version(void **state)
{
	struct sli_errinfo ei = {.code = SLI_E_NOT_FOUND, .text = "gone"};
	struct sluice_error e;

	struct {
		size_t size;
		int32_t code, sys, retryable;
		uint32_t nhits;
		char guard[8];
	} old = {.size = 24, .guard = "guard"};

	(void)state;
	assert_int_equal(sli_err_give(NULL, &ei), SLUICE_E_NOT_FOUND);
	memset(&e, 0x55, sizeof(e));
	e.size = sizeof(e);
	assert_int_equal(sli_err_give(&e, &ei), SLUICE_E_NOT_FOUND);
	assert_string_equal(e.text, "gone");
	assert_int_equal(e.size, sizeof(e));
	assert_int_equal(e.nhits, 0);
	(void)sli_err_give((void *)&old, &ei);
	assert_int_equal(old.code, SLUICE_E_NOT_FOUND);
	assert_string_equal(old.guard, "guard");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(errors_are_the_list),
	    cmocka_unit_test(names_are_those_of_the_proto),
	    cmocka_unit_test(numbers_are_those_of_the_proto),
	    cmocka_unit_test(sizes),
	    cmocka_unit_test(errors_of_any_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
