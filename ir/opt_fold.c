/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants and simple algebra on integers; of floats only what is exact for every operand.
 *
 *   %2 = mul %a, 8                      ->   %2 = shl %a, 3
 *   %2 = add %1, 4  with %1 = add %a, 8 ->   %2 = add %a, 12
 *   %2 = select true, %a, %b            ->   %a
 *
 * A rule either names the value that replaces the result or rewrites the op in place, so results
 * keep their ids and types; constants that it needs are put before the op. Operands are folded
 * before their users, so one walk is enough.
 *
 * Leaves dead ops.
 */
#include <stdlib.h>

#include "ir/arena.h"
#include "ir/arith.h"
#include "ir/builder.h"
#include "ir/passes.h"

struct folder {
    struct tir_func *f;
    struct tir_builder at;      /* before the op that is folded */
    struct tir_value *replaced; /* by value id: the value's replacement; 0: itself */
    uint32_t n_replaced;
};

/* Returns the op that defines `v`, or NULL if `v` is a block parameter. */
static const struct tir_op *def_of(const struct folder *x, struct tir_value v)
{
    const struct tir_ref def = x->f->values[v.id].def;
    return def.id ? tir_op(x->f, def) : NULL;
}

/* True if `v` is an integer constant, which `*value` receives. */
static bool is_const(const struct folder *x, struct tir_value v, int64_t *value)
{
    const struct tir_op *const op = def_of(x, v);
    if (!op || op->opcode != TIR_const_int)
        return false;
    *value = tir_wrap(tir_typeof(x->f, v).dtype, op->imm[0]);
    return true;
}

/* True if `v` is the integer constant `want`. */
static bool is_value(const struct folder *x, struct tir_value v, int64_t want)
{
    int64_t c;
    return is_const(x, v, &c) && c == want;
}

/* True if `c` is a positive power of two. */
static bool is_power_of_two(int64_t c) { return c > 0 && !(c & (c - 1)); }

/* Rules return true if they changed something. A value that replaces the op's result is returned in
   *to. */

/* Turns `op` into an integer constant; returns true. */
static bool become_const(struct tir_op *op, int64_t value)
{
    op->opcode = TIR_const_int;
    op->n_operands = 0;
    op->imm[0] = value;
    return true;
}

/* Turns `op` into `opcode` of `a` and the constant `c`; returns true. */
static bool become_binary(struct folder *x, struct tir_op *op, unsigned opcode, struct tir_value a,
                          int64_t c)
{
    op->operands[0] = a;
    op->operands[1] = tir_int_like(&x->at, a, tir_wrap(tir_typeof(x->f, a).dtype, c));
    op->opcode = (uint16_t)opcode;
    return true;
}

/* Replaces an integer op whose operands are all constants by its result. */
static bool fold_constants(struct folder *x, struct tir_op *op)
{
    int64_t c[3] = {0}, d;
    if (op->opcode < TIR_add || op->opcode > TIR_cmp_ult)
        return false;
    for (uint32_t i = 0; i < op->n_operands; i++)
        if (!is_const(x, op->operands[i], &c[i]))
            return false;
    return tir_eval_int(op->opcode, tir_typeof(x->f, op->operands[0]).dtype, c, &d) &&
           become_const(op, d);
}

/* Removes a conversion between equal types (`*to` receives its operand) or folds one of a constant
 * integer. */
static bool fold_casts(struct folder *x, struct tir_op *op, struct tir_value *to)
{
    const struct tir_type from = tir_typeof(x->f, op->operands[0]);
    const struct tir_type t = tir_typeof(x->f, op->result);
    int64_t c;
    if (op->opcode != TIR_splat && tir_type_equal(from, t)) {
        *to = op->operands[0];
        return true;
    }
    if (!tir_is_int(t.dtype) || !tir_is_int(from.dtype) || !is_const(x, op->operands[0], &c))
        return false;
    if (op->opcode == TIR_zext)
        return become_const(op, tir_wrap(t.dtype, (int64_t)tir_unsigned(from.dtype, c)));
    /* A true i1 is 1 as a number and all ones when sign-extended. Do not fold ops for which this
       differs. */
    if (op->opcode == TIR_splat || (op->opcode == TIR_convert && from.dtype != TIR_I1))
        return become_const(op, tir_wrap(t.dtype, c));
    return false;
}

/* Swaps the operands of a commuting op if only the first one is a constant. */
static void constant_to_the_right(const struct folder *x, struct tir_op *op)
{
    int64_t c;
    if (tir_commutes(op->opcode) && is_const(x, op->operands[0], &c) &&
        !is_const(x, op->operands[1], &c)) {
        const struct tir_value first = op->operands[0];
        op->operands[0] = op->operands[1];
        op->operands[1] = first;
    }
}

/* Returns the lowest bit of v (0 or 1), or -1 if it is unknown. The index of a loop has a known
 * parity if it begins at a constant and its step is even. */
static int find_parity(const struct folder *x, struct tir_value v)
{
    const struct tir_op *const op = def_of(x, v);
    int64_t c, first, step;
    if (op && op->opcode == TIR_add && is_const(x, op->operands[1], &c)) {
        const int parity = find_parity(x, op->operands[0]);
        return parity < 0 ? parity : parity ^ (int)(c & 1);
    }
    for (const struct tir_block *b = x->at.block; b; b = b->parent) {
        if (!b->n_params || b->params[0].id != v.id)
            continue;
        const struct tir_op *const loop = tir_op(x->f, b->owner);
        if (loop->opcode == TIR_for && is_const(x, loop->operands[0], &first) &&
            is_const(x, loop->operands[2], &step) && step % 2 == 0)
            return (int)(first & 1);
    }
    return -1;
}

/* Folds a op c for a constant c that makes it a, 0 or a cheaper op. */
static bool fold_by_constant(struct folder *x, struct tir_op *op)
{
    const struct tir_value a = op->operands[0];
    int64_t c;
    if (!is_const(x, op->operands[1], &c))
        return false;
    const bool zero = c == 0;
    const int parity = op->opcode == TIR_and && c == 1 ? find_parity(x, a) : -1;
    switch (op->opcode) {
    case TIR_sub: return !zero && become_binary(x, op, TIR_add, a, (int64_t)(0 - (uint64_t)c));
    case TIR_mul:
        if (zero)
            return become_const(op, 0);
        return c != 1 && is_power_of_two(c) &&
               become_binary(x, op, TIR_shl, a, __builtin_ctzll((uint64_t)c));
    case TIR_div:
        return c != 1 && is_power_of_two(c) &&
               become_binary(x, op, TIR_shr, a, __builtin_ctzll((uint64_t)c));
    case TIR_rem: return is_power_of_two(c) && become_binary(x, op, TIR_and, a, c - 1);
    case TIR_and: return (zero || parity >= 0) && become_const(op, !zero && parity);
    default: return false;
    }
}

/* Folds ops that return a: a + 0, a * 1, a & -1, and a op a. */
static bool fold_identity(struct folder *x, const struct tir_op *op, struct tir_value *to)
{
    const struct tir_value a = op->operands[0], b = op->operands[1];
    const int64_t ones = tir_wrap(tir_typeof(x->f, a).dtype, -1);
    bool same = false;
    switch (op->opcode) {
    case TIR_add:
    case TIR_sub:
    case TIR_xor:
    case TIR_shl:
    case TIR_shr:
    case TIR_sar: same = is_value(x, b, 0); break;
    case TIR_or: same = is_value(x, b, 0) || a.id == b.id; break;
    case TIR_and: same = is_value(x, b, ones) || a.id == b.id; break;
    case TIR_mul:
    case TIR_div: same = is_value(x, b, 1); break;
    case TIR_min:
    case TIR_max: same = a.id == b.id; break;
    }
    if (same)
        *to = a;
    return same;
}

/* Folds (a op c1) op c2 into one op with the combined constant. */
static bool fold_chain(struct folder *x, struct tir_op *op)
{
    const struct tir_op *const inner = def_of(x, op->operands[0]);
    const unsigned dtype = tir_typeof(x->f, op->result).dtype;
    int64_t c[2], both;
    if (!inner || inner->opcode != op->opcode || inner->n_operands != 2 ||
        !is_const(x, inner->operands[1], &c[0]) || !is_const(x, op->operands[1], &c[1]))
        return false;
    const bool shift = op->opcode == TIR_shl || op->opcode == TIR_shr;
    if (shift)
        both = (int64_t)(tir_unsigned(dtype, c[0]) + tir_unsigned(dtype, c[1]));
    /* Comparisons commute but have no chains. */
    else if (!tir_commutes(op->opcode) || op->opcode == TIR_cmp_eq || op->opcode == TIR_cmp_ne ||
             !tir_eval_int(op->opcode, dtype, (int64_t[]){c[0], c[1], 0}, &both))
        return false;
    return (!shift || both < tir_dtype_bits(dtype)) &&
           become_binary(x, op, op->opcode, inner->operands[0], both);
}

/* Replaces x - x and x ^ x of integers by 0. */
static bool fold_difference(const struct folder *x, struct tir_op *op)
{
    return (op->opcode == TIR_sub || op->opcode == TIR_xor) &&
           op->operands[0].id == op->operands[1].id &&
           tir_is_int(tir_typeof(x->f, op->result).dtype) && become_const(op, 0);
}

/* Replaces a select of equal values or of a constant condition by the selected value `*to`. */
static bool fold_select(const struct folder *x, const struct tir_op *op, struct tir_value *to)
{
    int64_t c = 1;
    if (op->operands[1].id != op->operands[2].id && !is_const(x, op->operands[0], &c))
        return false;
    *to = op->operands[c ? 1 : 2];
    return true;
}

/* Folds extracts of a value that was put together, or that is the same in every element. */
static bool fold_extract(struct folder *x, struct tir_op *op, struct tir_value *to)
{
    const struct tir_value a = op->operands[0];
    const struct tir_op *const from = def_of(x, a);
    const uint32_t count = tir_typeof(x->f, op->result).count;
    if (tir_type_equal(tir_typeof(x->f, a), tir_typeof(x->f, op->result))) {
        *to = a;
        return true;
    }
    if (from && (from->opcode == TIR_const_int || from->opcode == TIR_const_float ||
                 from->opcode == TIR_splat)) {
        tir_set_operands(x->f, x->f->values[op->result.id].def, from->operands, from->n_operands);
        op->opcode = from->opcode;
        op->imm[0] = from->imm[0];
        return true;
    }
    int64_t first = op->imm[0];
    for (uint32_t i = 0; from && from->opcode == TIR_concat && i < from->n_operands; i++) {
        const uint32_t part = tir_typeof(x->f, from->operands[i]).count;
        if (first == 0 && part == count) {
            *to = from->operands[i];
            return true;
        }
        if (first + count <= part) {
            op->operands[0] = from->operands[i];
            op->imm[0] = first;
            return true;
        }
        first -= part;
        if (first < 0)
            break;
    }
    return false;
}

/* Folds `op` in place, or writes to `*to` the value that replaces it. Returns whether it did. */
static bool fold_op(struct folder *x, struct tir_op *op, struct tir_value *to)
{
    switch (op->opcode) {
    case TIR_convert:
    case TIR_zext:
    case TIR_splat:
    case TIR_bitcast: return fold_casts(x, op, to);
    case TIR_select: return fold_select(x, op, to);
    case TIR_extract: return fold_extract(x, op, to);
    }
    if (fold_constants(x, op))
        return true;
    if (op->opcode < TIR_add || op->opcode > TIR_cmp_ult || op->n_operands != 2 ||
        !tir_is_int(tir_typeof(x->f, op->operands[0]).dtype))
        return false;
    constant_to_the_right(x, op);
    return fold_identity(x, op, to) || fold_difference(x, op) || fold_by_constant(x, op) ||
           fold_chain(x, op);
}

/* Folds the ops of block `b` in order; returns whether any changed. */
static bool fold_block(void *context, struct tir_block *b)
{
    struct folder *const x = context;
    bool progress = false;
    for (uint32_t i = 0; i < b->n_ops; i++) {
        struct tir_op *const op = tir_op(x->f, b->ops[i]);
        struct tir_value to = {0};
        for (uint32_t k = 0; k < op->n_operands; k++)
            if (op->operands[k].id < x->n_replaced && x->replaced[op->operands[k].id].id)
                op->operands[k] = x->replaced[op->operands[k].id];
        x->at = (struct tir_builder){.f = x->f,
                                     .block = b,
                                     .at = i,
                                     .stage = op->stage,
                                     .phase = op->phase,
                                     .line = op->line};
        while (op->n_results == 1 && !op->blocks[0] && fold_op(x, op, &to)) {
            progress = true;
            if (!to.id)
                continue;
            x->replaced[op->result.id] = to;
            break;
        }
        i = x->at.at;
    }
    return progress;
}

bool tir_opt_fold(struct tir_func *f, const struct tir_schedule *s)
{
    (void)s;
    struct folder x = {.f = f, .n_replaced = f->n_values};
    x.replaced = tir_scratch(x.n_replaced, sizeof(*x.replaced));
    const bool progress = tir_walk_blocks(f, f->body, fold_block, &x);
    free(x.replaced);
    return progress;
}
