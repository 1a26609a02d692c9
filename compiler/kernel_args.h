/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments that libattn passes to the kernels of each op, from the schemas in ops/.
 */
#ifndef COMPILER_KERNEL_ARGS_H
#define COMPILER_KERNEL_ARGS_H

#include <stdbool.h>

struct attnc_kernel_arg {
    const char *op, *name;
    unsigned dtype; /* enum tir_dtype; a pointer is an i64 */
};

/** Returns the argument `name` of the op's kernels, or NULL. */
const struct attnc_kernel_arg *attnc_find_kernel_arg(const char *op, const char *name);

/** True if libattn has the op; tests use further ops. */
bool attnc_has_kernel_args(const char *op);

#endif
