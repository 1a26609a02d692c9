/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels as machine code, and variants that cannot be built.
 */
#ifndef TESTS_TEMPLATES_KERNEL_H
#define TESTS_TEMPLATES_KERNEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compiler/pipeline.h"

/** A value of a field that a case sets. */
struct setting {
    enum att_field field;
    int value;
};

/** Settings and how many there are, as two arguments of a call. */
#define SETTINGS(...)                      \
    (const struct setting[]){__VA_ARGS__}, \
        sizeof((const struct setting[]){__VA_ARGS__}) / sizeof(struct setting)

/** The variant with these settings as a description has them, up to one that is all zero. */
struct att_variant variant_of(const struct att_template *op, const char *target,
                              const struct setting *settings);

/** Compiles the variant, which its template has to accept. The test fails where the kernel spills,
 * or takes more than `registers` VGPRs and AGPRs; 0: as many as there are. */
void compile_kernel(const struct att_variant *v, unsigned registers);

/** The same for those who look at the kernel: attnc_kernel_free() the result. */
struct attnc_kernel compile_attention(const struct att_variant *v);

/** Builds tile IR, or fails the test where the template refuses without a sentence: a layout that
 * cannot hold its elements ends the test. Returns 1 for what was built, else 0. */
unsigned build_or_refuse(const struct att_variant *v);

/** The template refuses the variant, names the field and says the text. */
void expect_refused(const struct att_variant *v, enum att_field field, const char *text);

#endif
