/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers for tests of templates: kernels as machine code, and variants that a template must
 * refuse.
 */
#ifndef TESTS_TEMPLATES_KERNEL_H
#define TESTS_TEMPLATES_KERNEL_H

#include "compiler/pipeline.h"
#include "tests/unit_test.h"

/** A field of a variant and its value. */
struct setting {
    enum att_field field;
    int value;
};

/** Runs the tests of the group argv[1] among the `n` tests; without arguments all. Arguments from 2
 * on are the groups that the build runs, each as a test of its own. Returns nonzero if a test
 * fails, if no test has the group, or if the build leaves out a group; else 0. */
int run_tests_in(int argc, char **argv, const struct CMUnitTest *tests, const char *const *groups,
                 size_t n);

/** Runs the tests of the file like run_tests_in(). */
static inline int run_test_group(int argc, char **argv)
{
    return run_tests_in(argc, argv, unit_tests.tests, unit_tests.groups, unit_tests.count);
}

/** Settings and their number, as two arguments of a call. */
#define SETTINGS(...)                      \
    (const struct setting[]){__VA_ARGS__}, \
        sizeof((const struct setting[]){__VA_ARGS__}) / sizeof(struct setting)

/** Returns the variant with these settings, as a description has them. A setting that is all zero
 * ends the list. */
struct att_variant variant_of(const struct att_template *op, const char *target,
                              const struct setting *settings);

/** Loops over the targets with waves of 64 lanes, for which the tables of tiles are made. `t` is
 * the target's index in tgt_all. */
#define FOR_WIDE_WAVES(t)            \
    for (int t = 0; tgt_all[t]; t++) \
        if (tgt_all[t]->machine.lane_bits == TIR_WAVE_BITS)

/** Loops over the targets on which a wave can address at least 512 registers. gfx1201 with 256 is
 * left out: kernels of tests/runtime/gfx1201.yaml must compile for it without spills. */
#define FOR_LARGE_WAVES(t)           \
    for (int t = 0; tgt_all[t]; t++) \
        if (tgt_all[t]->machine.wave_vgprs >= 512)

/** Compiles a variant, which its template must accept. The test fails if the kernel spills. With
 * waves of 64 lanes it also fails if the kernel uses more than `registers` VGPRs and AGPRs; 0: no
 * limit of its own. */
void compile_kernel(const struct att_variant *v, unsigned registers);

/** Compiles a variant like compile_kernel() and returns the kernel. The caller frees it with
 * attnc_kernel_free(). */
struct attnc_kernel compile_attention(const struct att_variant *v);

/** Builds tile IR. The test fails if the template refuses the variant without a sentence. A layout
 * that cannot hold its elements ends the test. Returns 1 if the tile IR was built, else 0. */
unsigned build_or_refuse(const struct att_variant *v);

/** Checks that the template refuses the variant with this field and this text. */
void expect_refused(const struct att_variant *v, enum att_field field, const char *text);

#endif
