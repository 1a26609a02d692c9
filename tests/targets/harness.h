/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers for the tests of targets/. They build a small kernel with the IR builder, compile, link
 * and disassemble it, so that a test can check its instructions.
 */
#ifndef TESTS_TARGETS_HARNESS_H
#define TESTS_TARGETS_HARNESS_H

#include "ir/builder.h"
#include "targets/analyze.h"
#include "tests/unit_test.h"

/** A kernel under construction. */
struct kernel {
    const struct tgt *t;
    struct tir_func *f;
    struct tir_builder b;
    unsigned inputs, outputs; /* number of unknown() and keep(), which have memory each */
};

/** Creates an empty kernel "k" of workgroups of `waves` waves for the target of this name.
 * waves_per_simd: number of waves that must fit into a SIMD's registers. */
struct kernel kernel_create(const char *target, unsigned waves, unsigned waves_per_simd);

/** Loops over the targets whose instructions have the names of gfx9's. `*t` is the target. */
#define FOR_GFX9(t)                                         \
    for (const struct tgt *const *t = tgt_all; *(t); (t)++) \
        if ((*(t))->has_agprs)

enum { MAX_ARGS = 8 };

/** A compiled kernel: its code object, its instructions and the facts about it. */
struct compiled {
    const struct tgt *t;
    unsigned waves;
    struct tir_arg args[MAX_ARGS];
    unsigned n_args;
    struct tgt_blob code_object;
    struct tgt_code code;
    struct tgt_kernel_facts facts;
};

/** Compiles and frees the kernel, ended by a return if it has none. Fails the test if a step
 * fails. */
struct compiled kernel_compile(struct kernel *k);

/** Frees what kernel_compile() has allocated. */
void compiled_free(struct compiled *c);

/** Returns the number of instructions whose text begins with `prefix`. */
unsigned count_of(const struct compiled *c, const char *prefix);

/** Fails the test, with the disassembly, unless exactly n instructions begin with `prefix`. */
void assert_count(const struct compiled *c, const char *prefix, unsigned n);

/** Fails the test, with the disassembly, unless the mnemonics occur in this order. */
void assert_sequence(const struct compiled *c, const char *const *prefixes, size_t n);

/** Stores `v` of this lane to global memory, so that it cannot be optimised away. */
void keep(struct kernel *k, struct tir_value v);

/** Loads a value of type t from global memory, about which the compiler knows nothing. */
struct tir_value unknown(struct kernel *k, struct tir_type t);

/** Builds an op that has no builder function. */
struct tir_value make(struct kernel *k, unsigned opcode, struct tir_type t,
                      const struct tir_value *operands, unsigned n, int64_t imm0, int64_t imm1,
                      int64_t imm2);

/** Returns the bytes of the file `path`, which the caller frees. */
struct tgt_blob read_file(const char *path);

#endif
