/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over the files that are named: how gcc and make test
 * replay a corpus. Also over the empty input, so that a target without a corpus
 * runs at all. Makes no inputs of its own; that is libFuzzer's job. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX ((size_t)16 * 1024 * 1024)

static int
replay(const char *path)
{
	FILE *f = fopen(path, "rbe");
	uint8_t *mem = NULL;
	size_t n = 0, cap = 0;
	int rc = -1;

	if (f == NULL)
		goto out;
	for (;;) {
		if (n == cap) {
			uint8_t *more;

			cap = cap == 0 ? 4096 : cap * 2;
			if (cap > INPUT_MAX)
				goto out;
			more = realloc(mem, cap);
			if (more == NULL)
				goto out;
			mem = more;
		}
		size_t got = fread(mem + n, 1, cap - n, f);

		if (got == 0)
			break;
		n += got;
	}
	if (!ferror(f)) {
		/* Exactly as long as it is, so that ASan sees an overrun. */
		uint8_t *exact = malloc(n != 0 ? n : 1);

		if (exact == NULL)
			goto out;
		for (size_t i = 0; i < n; i++)
			exact[i] = mem[i];
		(void)LLVMFuzzerTestOneInput(exact, n);
		free(exact);
		rc = 0;
	}
out:
	free(mem);
	if (f != NULL)
		(void)fclose(f);
	if (rc != 0)
		(void)fprintf(stderr, "cannot read %s\n", path);
	return rc;
}

int
main(int argc, char **argv)
{
	static const uint8_t nothing[1];
	int bad = 0;

	(void)LLVMFuzzerTestOneInput(nothing, 0);
	for (int i = 1; i < argc; i++)
		bad |= replay(argv[i]) != 0;
	printf("ok 1 - %d inputs replayed\n", argc);
	return bad;
}
