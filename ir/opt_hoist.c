/* SPDX-License-Identifier: Apache-2.0
 *
 * This file moves loop-invariant ops out of loops:
 *   for %i = ... { %1 = mul %a, %b ... }   ->   %1 = mul %a, %b   for %i = ... { ... }
 * It moves only ops of the loop's own block. Ops in a branch inside it may run rarely, and hoisting
 * would hold their registers in every iteration. It handles only innermost loops: the code around
 * them runs rarely, and a hoisted value would hold a register through the inner loop.
 *
 * All invariant scalars move. A vec occupies vector registers through the loop. So the vecs that
 * save the most ops for each register move first, until the schedule's budget is used up. Ops of a
 * pipeline stage lose the stage.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/passes.h"

struct hoister {
    struct tir_func *f;
    unsigned vgprs;  /* vector registers that vecs of one loop may occupy */
    uint32_t *depth; /* by value id: number of loops around its definition */
    uint8_t *state;  /* by value id: enum vec_state of values that the current loop computes */
    uint32_t *seen;  /* by value id: the last gain() stamp that counted the value */
};

/* The state of a vec computed in the loop: varies; depends only on values from outside; chosen to
   move. */
enum vec_state { VARIES, INVARIANT, CHOSEN };

/* True if the result of `op` is a vec. */
static bool is_vec(const struct hoister *h, const struct tir_op *op)
{
    return tir_typeof(h->f, op->result).kind == TIR_VEC;
}

/* True if `op` can be moved out of a loop at nesting `depth`; a vec must also be chosen for it. */
static bool is_invariant(const struct hoister *h, const struct tir_op *op, uint32_t depth)
{
    if (tir_ops[op->opcode].flags != TIR_PURE || op->blocks[0])
        return false;
    if (is_vec(h, op) && h->state[op->result.id] != CHOSEN)
        return false;
    for (uint32_t i = 0; i < op->n_operands; i++)
        if (h->depth[op->operands[i].id] >= depth)
            return false;
    return true;
}

/* Stores the loop nesting depth at which the results of `op` are available. */
static void set_depth(struct hoister *h, const struct tir_op *op, uint32_t depth)
{
    for (uint32_t i = 0; i < op->n_results; i++)
        h->depth[op->result.id + i] = depth;
}

static bool hoist_from(struct hoister *h, struct tir_block *b, uint32_t depth);

/* Stops the walk at a loop. */
static bool is_loop(void *f, struct tir_block *b, struct tir_ref r)
{
    (void)b;
    return tir_op(f, r)->opcode == TIR_for;
}

/* The functions from here on choose the vecs to hoist. */

/* Finds invariant vecs: all operands are from outside the loop, scalars that will move, or
   invariant vecs. */
static void find_invariant(struct hoister *h, const struct tir_block *body, uint32_t depth)
{
    for (uint32_t i = 0; i < body->n_params; i++)
        h->state[body->params[i].id] = VARIES;
    for (uint32_t i = 0; i < body->n_ops; i++) {
        const struct tir_op *const op = tir_op(h->f, body->ops[i]);
        bool all = tir_ops[op->opcode].flags == TIR_PURE && !op->blocks[0];
        for (uint32_t k = 0; k < op->n_operands; k++) {
            const uint32_t id = op->operands[k].id;
            all &= h->depth[id] < depth || h->state[id] == INVARIANT;
        }
        for (uint32_t k = 0; k < op->n_results; k++) {
            h->depth[op->result.id + k] = depth;
            h->state[op->result.id + k] = all ? INVARIANT : VARIES;
        }
    }
}

/* Returns the number of instructions that `op` takes, 0 for ops that only name registers. */
static unsigned instructions(const struct hoister *h, const struct tir_op *op)
{
    switch (op->opcode) {
    case TIR_splat:
    case TIR_extract:
    case TIR_concat:
    case TIR_bitcast:
    case TIR_lane_id: return 0;
    default: return tir_typeof(h->f, op->result).count;
    }
}

/* Returns the number of instructions that leave the loop if `v` moves: its own and its operands',
 * without ones already counted for `stamp`. */
static unsigned gain(struct hoister *h, struct tir_value v, uint32_t stamp)
{
    if (tir_typeof(h->f, v).kind != TIR_VEC || h->state[v.id] != INVARIANT ||
        h->seen[v.id] == stamp)
        return 0;
    h->seen[v.id] = stamp;
    const struct tir_op *const op = tir_op(h->f, h->f->values[v.id].def);
    unsigned n = instructions(h, op);
    for (uint32_t i = 0; i < op->n_operands; i++)
        n += gain(h, op->operands[i], stamp);
    return n;
}

/* Returns the 32-bit registers of a lane that `v` occupies. */
static unsigned registers(const struct hoister *h, struct tir_value v)
{
    const struct tir_type t = tir_typeof(h->f, v);
    return (t.count * tir_dtype_bits(t.dtype) + 31) / 32;
}

/* Chooses `v` and the loop-invariant vecs that it depends on for hoisting. */
static void choose(struct hoister *h, struct tir_value v)
{
    if (tir_typeof(h->f, v).kind != TIR_VEC || h->state[v.id] != INVARIANT)
        return;
    h->state[v.id] = CHOSEN;
    const struct tir_op *const op = tir_op(h->f, h->f->values[v.id].def);
    for (uint32_t i = 0; i < op->n_operands; i++)
        choose(h, op->operands[i]);
}

/* Returns the vec that saves the most instructions for each register. It is an operand of an op
   that stays in the loop. {0} if there is none within the budget. */
static struct tir_value best_vec(struct hoister *h, const struct tir_block *body, unsigned budget,
                                 uint32_t *stamp)
{
    struct tir_value best = {0};
    unsigned saved = 0, taken = 1;
    for (uint32_t i = 0; i < body->n_ops; i++) {
        const struct tir_op *const op = tir_op(h->f, body->ops[i]);
        if (op->n_results && h->state[op->result.id] != VARIES)
            continue;
        for (uint32_t k = 0; k < op->n_operands; k++) {
            const struct tir_value v = op->operands[k];
            const struct tir_type t = tir_typeof(h->f, v);
            if (t.kind != TIR_VEC || t.dtype == TIR_I1 || registers(h, v) > budget)
                continue;
            const unsigned n = gain(h, v, ++*stamp);
            if (n * taken <= saved * registers(h, v))
                continue;
            best = v;
            saved = n;
            taken = registers(h, v);
        }
    }
    return best;
}

/* Chooses invariant vecs of loop body `body` to hoist, best first, within the budget of VGPRs. */
static void choose_vecs(struct hoister *h, const struct tir_block *body, uint32_t depth)
{
    uint32_t stamp = 0;
    find_invariant(h, body, depth);
    memset(h->seen, 0, h->f->n_values * sizeof(*h->seen));
    for (unsigned budget = h->vgprs; budget;) {
        const struct tir_value v = best_vec(h, body, budget, &stamp);
        if (!v.id)
            break;
        budget -= registers(h, v);
        choose(h, v);
    }
}

/* Moves the invariant ops of the loop at b->ops[at] before it. Returns how many ops moved. */
static uint32_t hoist_from_loop(struct hoister *h, struct tir_block *b, uint32_t at, uint32_t depth)
{
    struct tir_block *const body = tir_op(h->f, b->ops[at])->blocks[0];
    choose_vecs(h, body, depth);
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

/* Hoists from the loops in b, which is inside `depth` loops. True if any op moved. */
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
        if (!loop || tir_walk(h->f, op->blocks[0], is_loop, h->f))
            continue;
        const uint32_t moved = hoist_from_loop(h, b, i, depth + 1);
        progress |= moved > 0;
        i += moved;
    }
    return progress;
}

bool tir_opt_hoist(struct tir_func *f, const struct tir_schedule *s)
{
    const uint32_t n = f->n_values;
    struct hoister h = {
        .f = f,
        .vgprs = s ? s->hoist_vgprs : 0,
        .depth = tir_scratch(n, sizeof(*h.depth)),
        .state = tir_scratch(n, sizeof(*h.state)),
        .seen = tir_scratch(n, sizeof(*h.seen)),
    };
    const bool progress = hoist_from(&h, f->body, 0);
    free(h.depth);
    free(h.state);
    free(h.seen);
    return progress;
}
