/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves what a loop computes anew each time out of it:
 *
 *   for %i = ... { %1 = mul %a, %b ... }   ->   %1 = mul %a, %b   for %i = ... { ... }
 *
 * Only from the loop's own block: what stands in a branch inside it may be rare, and hoisting it
 * would hold its registers in every iteration. Only from innermost loops: what surrounds another
 * loop is rare too, and would hold registers all through that. And only scalars: a vec would take
 * vector registers all through the loop, and the widest shipped tiles have none to spare. Ops of a
 * pipeline stage lose the stage.
 *
 * requires: dominance.   keeps: order among what moves, order among what stays.   breaks: nothing.
 */
#include <stdlib.h>

#include "ir/arena.h"
#include "ir/passes.h"

struct hoister {
    struct tir_func *f;
    uint32_t *depth; /* by value id: loops around its definition */
};

static bool is_invariant(const struct hoister *h, const struct tir_op *op, uint32_t depth)
{
    if (tir_ops[op->opcode].flags != TIR_PURE || op->blocks[0])
        return false;
    if (tir_typeof(h->f, op->result).kind == TIR_VEC)
        return false;
    for (uint32_t i = 0; i < op->n_operands; i++)
        if (h->depth[op->operands[i].id] >= depth)
            return false;
    return true;
}

static void set_depth(struct hoister *h, const struct tir_op *op, uint32_t depth)
{
    for (uint32_t i = 0; i < op->n_results; i++)
        h->depth[op->result.id + i] = depth;
}

static bool hoist_from(struct hoister *h, struct tir_block *b, uint32_t depth);

static bool has_loop(const struct tir_func *f, const struct tir_block *b)
{
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct tir_op *const op = tir_op(f, b->ops[i]);
        if (op->opcode == TIR_for)
            return true;
        for (int k = 0; k < 2; k++)
            if (op->blocks[k] && has_loop(f, op->blocks[k]))
                return true;
    }
    return false;
}

/* Moves what is invariant in the loop at b->ops[at] before it; returns how many ops that are. */
static uint32_t hoist_from_loop(struct hoister *h, struct tir_block *b, uint32_t at, uint32_t depth)
{
    struct tir_block *const body = tir_op(h->f, b->ops[at])->blocks[0];
    uint32_t kept = 0, moved = 0;
    for (uint32_t i = 0; i < body->n_ops; i++) {
        const struct tir_ref r = body->ops[i];
        struct tir_op *const op = tir_op(h->f, r);
        if (!is_invariant(h, op, depth)) {
            set_depth(h, op, depth);
            body->ops[kept++] = r;
            continue;
        }
        op->stage = TIR_NO_STAGE;
        op->phase = 0;
        set_depth(h, op, depth - 1);
        tir_insert(h->f, b, at + moved++, r);
    }
    body->n_ops = kept;
    return moved;
}

/* `depth` loops are around the ops of b. */
static bool hoist_from(struct hoister *h, struct tir_block *b, uint32_t depth)
{
    bool progress = false;
    for (uint32_t i = 0; i < b->n_params; i++)
        h->depth[b->params[i].id] = depth;
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const struct tir_op *const op = tir_op(h->f, b->ops[i]);
        const bool loop = op->opcode == TIR_for;
        set_depth(h, op, depth);
        for (int k = 0; k < 2; k++)
            if (op->blocks[k])
                progress |= hoist_from(h, op->blocks[k], depth + loop);
        if (!loop || has_loop(h->f, op->blocks[0]))
            continue;
        const uint32_t moved = hoist_from_loop(h, b, i, depth + 1);
        progress |= moved > 0;
        i += moved;
    }
    return progress;
}

bool tir_opt_hoist(struct tir_func *f, const struct tir_schedule *s)
{
    (void)s;
    struct hoister h = {.f = f, .depth = tir_scratch(f->n_values, sizeof(*h.depth))};
    const bool progress = hoist_from(&h, f->body, 0);
    free(h.depth);
    return progress;
}
