/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second implementation of scalar and vector instructions, for fuzz_semantics.c: slow, plain, and
 * from the manuals alone (CDNA3 and CDNA4 ISA, chapters 12 and 13).
 */
#ifndef TESTS_FUZZ_REFERENCE_H
#define TESTS_FUZZ_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

/** The registers of a wave of 64 lanes. */
struct reference_state {
    uint32_t sgpr[128];  /* by the numbers of operands: VCC is 106, M0 124, EXEC 126 */
    uint32_t v[256][64]; /* [register][lane] */
    uint8_t scc;
    uint32_t mode;
};

/** Returns the number of 32-bit words of the instruction; 0: the reference does not know it. Reads
 * two words. */
size_t reference_words(const uint32_t *words);

/** Returns the manual's mnemonic of a known instruction, in lower case, without suffix. */
const char *reference_name(const uint32_t *words);

/** Executes a known instruction on the registers. */
void reference_execute(struct reference_state *s, const uint32_t *words);

/** Changes a bit, an operand or the operation of an instruction, as `seed` says. `extra` has random
 * bits. If the instruction becomes DPP or SDWA, the second word is written. */
void reference_mutate(uint32_t *words, uint32_t seed, uint32_t extra);

#endif
