/* SPDX-License-Identifier: Apache-2.0 */
/* Planted faults for tests/mutants/run: `if (SLI_MUTATED(name))` is a constant
 * 0 unless the file is compiled with -DSLI_MUTANT_name=1. Product code must not
 * depend on it in any other way. Names stand in tests/mutants/list. */
#ifndef SLI_BASE_MUTANT_H
#define SLI_BASE_MUTANT_H

/* SLI_MUTANT_x expands to 1 or stays as it is; only the 1 makes a comma and so
 * shifts the 1 into second place. */
#define SLI_MUTANT_HIT_1             ~,
#define SLI_MUTANT_SECOND(a, b, ...) (b)
#define SLI_MUTANT_PICK(...)         SLI_MUTANT_SECOND(__VA_ARGS__, 0)
#define SLI_MUTANT_TEST(hit)         SLI_MUTANT_PICK(hit 1, 0)
#define SLI_MUTANT_GLUE(v)           SLI_MUTANT_TEST(SLI_MUTANT_HIT_##v)
#define SLI_MUTANT_EXPAND(v)         SLI_MUTANT_GLUE(v)
#define SLI_MUTATED(name)            sli_mutated(SLI_MUTANT_EXPAND(SLI_MUTANT_##name))

/* A call, so that no compiler sees dead code in it. */
static inline int
sli_mutated(int planted)
{
	return planted;
}

#endif
