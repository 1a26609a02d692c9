/* SPDX-License-Identifier: Apache-2.0
 *
 * attn_<op>_lookup() and attn_<op>_launch() of every row of ops/ops.def.
 */
#include "tools/verify/op_calls.h"

#include <string.h>

#define OP(name)                                                                                \
    static int lookup_##name(struct attn_device *device, const void *desc, struct attn_op **op) \
    {                                                                                           \
        return attn_##name##_lookup(device, desc, op);                                          \
    }                                                                                           \
    static int launch_##name(const struct attn_op *op, const void *args)                        \
    {                                                                                           \
        return attn_##name##_launch(op, args);                                                  \
    }
#include "ops/ops.def"

const struct op_calls *find_op_calls(const char *op)
{
    static const struct op_calls calls[] = {
#define OP(name) {#name, lookup_##name, launch_##name},
#include "ops/ops.def"
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (!strcmp(calls[i].op, op))
            return &calls[i];
    }
    return NULL;
}
