/* SPDX-License-Identifier: Apache-2.0
 *
 * This file moves the computation of lane masks to their use:
 *     %c0 = cmp_gt ..; %c1 = cmp_gt ..; %d0 = select %c0 ..; %d1 = select %c1 ..
 *  -> %c0 = cmp_gt ..; %d0 = select %c0 ..; %c1 = cmp_gt ..; %d1 = select %c1 ..
 * A lane mask occupies a pair of scalar registers. Expanding a tile's comparison creates a mask for
 * each of its registers at once, and a tile of 64 registers would exhaust them.
 */
#include "ir/builder.h"
#include "ir/passes.h"

#include <string.h>

/* True if `op` is pure and computes a vec of i1. */
static bool is_mask(const struct tir_func *f, const struct tir_op *op)
{
    if (op->n_results != 1 || !(tir_ops[op->opcode].flags & TIR_PURE))
        return false;
    const struct tir_type t = tir_typeof(f, op->result);
    return t.kind == TIR_VEC && t.dtype == TIR_I1;
}

/* Returns how often `op` uses `v`. */
static unsigned uses_in(const struct tir_op *op, struct tir_value v)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < op->n_operands; i++)
        n += op->operands[i].id == v.id;
    return n;
}

/* Returns the only op of this block that uses v. Returns `none` if there are more users, or if a
   nested block uses it. */
static uint32_t only_user(const struct tir_func *f, const struct tir_block *b, uint32_t from,
                          struct tir_value v, uint32_t none)
{
    uint32_t user = none;
    for (uint32_t i = from; i < b->n_ops; i++) {
        const struct tir_op *op = tir_op(f, b->ops[i]);
        if (op->blocks[0])
            return none; /* a nested block may use it */
        if (!uses_in(op, v))
            continue;
        if (user != none)
            return none;
        user = i;
    }
    return user;
}

/* Moves masks of block `b` down to just before their first use, to shorten their lives. */
static bool sink_in(void *context, struct tir_block *b)
{
    struct tir_func *const f = context;
    bool progress = false;
    /* Backwards, so that the operands of a mask are moved after the mask has its final place. */
    for (uint32_t i = b->n_ops; i-- > 0;) {
        const struct tir_ref ref = b->ops[i];
        const struct tir_op *op = tir_op(f, ref);
        if (!is_mask(f, op))
            continue;
        const uint32_t user = only_user(f, b, i + 1, op->result, 0);
        if (user <= i + 1)
            continue;
        memmove(b->ops + i, b->ops + i + 1, (user - 1 - i) * sizeof(b->ops[0]));
        b->ops[user - 1] = ref;
        progress = true;
    }
    return progress;
}

bool tir_opt_sink(struct tir_func *f, const struct tir_schedule *s)
{
    (void)s;
    return tir_walk_blocks(f, f->body, sink_in, f);
}
