/* SPDX-License-Identifier: Apache-2.0 */
/* TAGS: asan */
/* BLAKE2b-256 against known answers; random ids. */
#include "unit.h"

#include "base/event.h"
#include "base/str.h"
#include "crypto/hash.h"
#include "crypto/random.h"

#include <string.h>

static void
known_answers(void **state)
{
	uint8_t h[SLI_HASH_BYTES];
	char hex[65];

	(void)state;
	sli_hash_once(sli_slice_str(""), h);
	sli_hex(hex, h, sizeof(h));
	assert_string_equal(hex, "0e5751c026e543b2e8ab2eb06099daa1"
				 "d1e5df47778f7787faab45cdf12fe3a8");
	sli_hash_once(sli_slice_str("abc"), h);
	sli_hex(hex, h, sizeof(h));
	assert_string_equal(hex, "bddd813c634239723171ef3fee98579b"
				 "94964e3bb1cb3e427262c8c068d52319");
}

static void
pieces_hash_as_the_whole(void **state)
{
	uint8_t a[SLI_HASH_BYTES], b[SLI_HASH_BYTES], text[1000];
	struct sli_hash h, fork;

	(void)state;
	memset(text, 'x', sizeof(text));
	sli_hash_once(sli_slice_of(text, sizeof(text)), a);
	sli_hash_init(&h);
	for (size_t i = 0; i < sizeof(text); i += 100)
		sli_hash_update(&h, text + i, 100);
	sli_hash_update(&h, NULL, 0);
	fork = h;
	sli_hash_final(&h, b);
	assert_memory_equal(a, b, sizeof(a));
	sli_hash_update(&fork, "y", 1);
	sli_hash_final(&fork, b);
	assert_memory_not_equal(a, b, sizeof(a));
}

static void
ids_are_text_and_differ(void **state)
{
	char a[SLI_ID_MAX], b[SLI_ID_MAX];

	(void)state;
	assert_int_equal(sli_crypto_init(NULL), SLI_OK);
	sli_id_make(a, "vm_");
	sli_id_make(b, "vm_");
	assert_int_equal(strlen(a), 3 + SLI_ID_RANDOM_CHARS);
	assert_int_equal(strspn(a + 3, "abcdefghijklmnopqrstuvwxyz234567"),
	    SLI_ID_RANDOM_CHARS);
	assert_string_not_equal(a, b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(known_answers),
	    cmocka_unit_test(pieces_hash_as_the_whole),
	    cmocka_unit_test(ids_are_text_and_differ),
	};

	return cmocka_run_group_tests_name("crypto_hash", tests, NULL, NULL);
}
