/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/kernel_args.h"

#include <stddef.h>
#include <string.h>

#include "ir/ir.h"

static const struct attnc_kernel_arg arguments[] = {
#define PTR TIR_I64, true
#define I64 TIR_I64, false
#define I32 TIR_I32, false
#define F32 TIR_F32, false
#define KERNEL_ARG(op, name, kind) {#op, #name, kind},
#include "op_kernel_args.def"
#undef PTR
#undef I64
#undef I32
#undef F32
};

enum { N_ARGUMENTS = sizeof(arguments) / sizeof(arguments[0]) };

const struct attnc_kernel_arg *attnc_find_kernel_arg(const char *op, const char *name)
{
    for (size_t i = 0; i < N_ARGUMENTS; i++) {
        if (!strcmp(arguments[i].op, op) && !strcmp(arguments[i].name, name))
            return &arguments[i];
    }
    return NULL;
}

bool attnc_has_kernel_args(const char *op)
{
    for (size_t i = 0; i < N_ARGUMENTS; i++) {
        if (!strcmp(arguments[i].op, op))
            return true;
    }
    return false;
}
