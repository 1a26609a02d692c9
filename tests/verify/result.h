/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_VERIFY_RESULT_H
#define TESTS_VERIFY_RESULT_H

#include "tools/verify/operand.h"

/** Makes *o a tensor of three dimensions that a kernel writes, with elements of type `element`. */
static inline void make_result(struct operand *o, int element, int64_t first, int64_t second,
                               int64_t third)
{
    static void *pointer;
    const struct attn_tensor schema = {
        .name = "out",
        .pointer = &pointer,
        .element = element,
        .needed = true,
        .written = true,
        .vector = 1,
        .ndim = 3,
        .dims = {{NULL, first}, {NULL, second}, {NULL, third}},
    };
    operand_init(o, &schema, "gfx942");
    operand_allocate(o);
}

#endif
