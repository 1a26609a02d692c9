/* SPDX-License-Identifier: Apache-2.0
 *
 * The typed functions of every op family, by the name of the op, for code that serves them all.
 */
#ifndef TOOLS_VERIFY_OP_CALLS_H
#define TOOLS_VERIFY_OP_CALLS_H

#include "runtime/attn.h"

struct op_calls {
    const char *op;
    int (*lookup)(struct attn_device *device, const void *desc, struct attn_op **op);
    int (*launch)(const struct attn_op *op, const void *args);
};

/** NULL for an op that libattn does not know. */
const struct op_calls *find_op_calls(const char *op);

#endif
