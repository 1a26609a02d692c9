/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments that libattn passes to the kernels of each op, from the schemas in ops/.
 */
#ifndef COMPILER_KERNEL_ARGS_H
#define COMPILER_KERNEL_ARGS_H

#include <stdbool.h>

/** An argument of the kernels of one op. */
struct attnc_kernel_arg {
    const char *op, *name;
    unsigned dtype; /* type of the argument: enum tir_dtype; TIR_I64 for a pointer */
    bool pointer;   /* true if the argument is an address in global memory */
};

/** Returns the argument `name` of the op's kernels, or NULL. */
const struct attnc_kernel_arg *attnc_find_kernel_arg(const char *op, const char *name);

/** True if libattn passes arguments to kernels of the op. False for ops that only tests have. */
bool attnc_has_kernel_args(const char *op);

#endif
