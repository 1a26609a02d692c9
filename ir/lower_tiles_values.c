/* SPDX-License-Identifier: Apache-2.0
 *
 * This file is the part of lower_tiles for computed tiles: elementwise ops, index tiles,
 * reductions, changes of layout and matrix products.
 */
#include "ir/lower_tiles.h"
#include "ir/matrix.h"

#include <assert.h>
#include <string.h>

static const struct tir_type none;

/* Returns the layout of tile `v`. */
static const struct tir_layout *layout(struct tir_expander *x, struct tir_value v)
{
    return tir_layout_of(x->f, tir_typeof(x->f, v));
}

struct tir_value tir_lane_index(struct tir_expander *x, const uint32_t *images, unsigned wave_bits)
{
    struct tir_builder *b = &x->b;
    const struct tir_type vec = tir_vec(TIR_I32, 1);
    const unsigned lane_bits = x->f->machine->lane_bits;
    struct tir_value sum = {0};
    /* Bits that move by the same distance move together. */
    for (int source = 0; source < 2; source++) {
        const unsigned n = source ? wave_bits : lane_bits;
        const struct tir_value from = source ? x->wave : x->lane;
        const uint32_t *image = images + (source ? lane_bits : 0);
        for (int shift = -(int)lane_bits; shift < 32; shift++) {
            uint32_t mask = 0;
            for (unsigned i = 0; i < n; i++) {
                const int to = (int)i + shift;
                if (to >= 0 && to < 32 && image[i] >> to & 1)
                    mask |= 1u << i;
            }
            if (!mask)
                continue;
            struct tir_value t = tir_and(b, from, tir_int_like(b, from, mask));
            if (shift > 0)
                t = tir_shl(b, t, tir_int_like(b, t, shift));
            if (shift < 0)
                t = tir_shr(b, t, tir_int_like(b, t, -shift));
            if (source)
                t = tir_splat(b, t, vec);
            sum = sum.id ? tir_xor(b, sum, t) : t;
        }
    }
    return sum.id ? sum : tir_build(b, TIR_const_int, vec, NULL, 0, &(int64_t){0});
}

/* Returns the column (`axis` 1) or row (`axis` 0) of a packed row and column. */
static unsigned axis_part(uint32_t rc, int axis) { return axis ? tir_rc_col(rc) : tir_rc_row(rc); }

/* Sets images[i] to the row of bit i of the lane and the wave in layout `l`. Returns the bits of
 * rows that any of them has. */
static uint32_t row_images(const struct tir_layout *l, uint32_t images[TIR_LAYOUT_MAX_BITS])
{
    uint32_t all = 0;
    for (int i = 0; i < l->lane_bits + l->wave_bits; i++)
        all |= images[i] = axis_part(l->basis[l->reg_bits + i], 0);
    return all;
}

/* True if `op` compares row numbers with limits of columns. Each row number must be the sum of a
 * part of the lane and the wave and a part of the register. */
static bool is_row_limit(struct tir_expander *x, const struct tir_op *op)
{
    enum { LEAST_BITS = 2 /* register bits for which the lane's part is subtracted from limits */ };
    uint32_t images[TIR_LAYOUT_MAX_BITS] = {0};
    if (op->opcode != TIR_cmp_gt && op->opcode != TIR_cmp_lt)
        return false;
    const struct tir_ref def = x->f->values[op->operands[0].id].def;
    if (!def.id || tir_op(x->f, def)->opcode != TIR_row_index)
        return false;
    const struct tir_ref limit = x->f->values[op->operands[1].id].def;
    if (!limit.id || tir_op(x->f, limit)->opcode != TIR_broadcast)
        return false;
    const struct tir_layout *const l = layout(x, op->operands[0]);
    const uint32_t lanes = row_images(l, images);
    uint32_t regs = 0;
    for (int i = 0; i < l->reg_bits; i++)
        regs |= axis_part(l->basis[i], 0);
    return l->reg_bits >= LEAST_BITS && !(lanes & regs);
}

/* Expands a comparison for which is_row_limit() is true: the register's part of a row number is
 * compared with the limit less the lane's part. The part of a register is a constant of the
 * instruction, so that row numbers take no registers. Limits below -1 become -1, which all row
 * numbers exceed too; without that the difference could overflow. */
static void expand_row_limit(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_layout *const l = layout(x, op->operands[0]);
    uint32_t images[TIR_LAYOUT_MAX_BITS] = {0};
    row_images(l, images);
    const struct tir_value lane = tir_lane_index(x, images, l->wave_bits);
    struct tir_pieces p = tir_alloc_pieces(x, 1u << l->reg_bits, 1);
    struct tir_value limit = {0}, less = {0};
    for (unsigned i = 0; i < p.n; i++) {
        const struct tir_value own = tir_elements(x, op->operands[1], i, 1);
        if (own.id != limit.id)
            less = tir_sub(&x->b, tir_max(&x->b, own, tir_int_like(&x->b, own, -1)), lane);
        limit = own;
        const struct tir_value row =
            tir_int_like(&x->b, lane, axis_part(tir_layout_apply(l, i, 0, 0), 0));
        p.v[i] = tir_build(&x->b, op->opcode, tir_vec(TIR_I1, 1),
                           (const struct tir_value[]){row, less}, 2, op->imm);
    }
    tir_set_pieces(x, op->result, p);
}

void tir_expand_elementwise(struct tir_expander *x, const struct tir_op *op)
{
    if (is_row_limit(x, op)) {
        expand_row_limit(x, op);
        return;
    }
    struct tir_type t = tir_typeof(x->f, op->result);
    const unsigned unit = tir_unit(t.dtype, layout(x, op->result));
    const unsigned n = (1u << layout(x, op->result)->reg_bits) / unit;
    struct tir_pieces p = tir_alloc_pieces(x, n, unit);
    const struct tir_type vec = tir_vec(t.dtype, unit);
    const bool constant =
        op->opcode == TIR_const_int || op->opcode == TIR_const_float || op->opcode == TIR_splat;
    struct tir_value operands[16];
    assert(op->n_operands <= 16);
    for (unsigned i = 0; i < n; i++) {
        if (constant && i > 0) {
            p.v[i] = p.v[0];
            continue;
        }
        for (unsigned k = 0; k < op->n_operands; k++) {
            const struct tir_value v = op->operands[k];
            operands[k] = tir_typeof(x->f, v).kind == TIR_TILE ? tir_elements(x, v, i * unit, unit)
                                                               : tir_scalar_now(x, v);
        }
        p.v[i] = tir_build(&x->b, op->opcode, vec, operands, op->n_operands, op->imm);
    }
    tir_set_pieces(x, op->result, p);
}

void tir_expand_convert(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_value a = op->operands[0];
    const unsigned to = tir_typeof(x->f, op->result).dtype, from = tir_typeof(x->f, a).dtype;
    const struct tir_layout *l = layout(x, op->result);
    const unsigned regs = 1u << l->reg_bits;
    const unsigned unit = tir_unit(to, l) > tir_unit(from, l) ? tir_unit(to, l) : tir_unit(from, l);
    struct tir_pieces p = tir_alloc_pieces(x, regs / unit, unit);
    const struct tir_type vec = tir_vec(to, unit);
    for (unsigned i = 0; i < p.n; i++) {
        if (from == TIR_F32 && tir_dtype_bits(to) == 16 && unit == 2) {
            const struct tir_value pair[] = {tir_elements(x, a, 2 * i, 1),
                                             tir_elements(x, a, 2 * i + 1, 1)};
            p.v[i] = tir_build(&x->b, TIR_convert_pair, vec, pair, 2,
                               (int64_t[]){op->imm[0], op->imm[2]});
        } else {
            const struct tir_value e = tir_elements(x, a, i * unit, unit);
            p.v[i] = tir_build(&x->b, TIR_convert, vec, &e, 1, op->imm);
        }
    }
    tir_set_pieces(x, op->result, p);
}

void tir_expand_index(struct tir_expander *x, const struct tir_op *op)
{
    const int axis = op->opcode == TIR_col_index;
    const struct tir_layout *l = layout(x, op->result);
    uint32_t images[TIR_LAYOUT_MAX_BITS] = {0};
    for (int i = 0; i < l->lane_bits + l->wave_bits; i++)
        images[i] = axis_part(l->basis[l->reg_bits + i], axis);
    const struct tir_value lane = tir_lane_index(x, images, l->wave_bits);
    struct tir_pieces p = tir_alloc_pieces(x, 1u << l->reg_bits, 1);
    for (unsigned i = 0; i < p.n; i++) {
        const unsigned own = axis_part(tir_layout_apply(l, i, 0, 0), axis);
        p.v[i] = own ? tir_xor(&x->b, lane, tir_int_like(&x->b, lane, own)) : lane;
    }
    tir_set_pieces(x, op->result, p);
}

/* Returns the register of `l` whose bits contribute `part` to the index along `axis`. */
static unsigned find_reg(const struct tir_layout *l, int axis, unsigned part)
{
    for (unsigned i = 0; i < 1u << l->reg_bits; i++)
        if (axis_part(tir_layout_apply(l, i, 0, 0), axis) == part)
            return i;
    assert(!"layouts of a vector and its tile disagree");
    return 0;
}

void tir_expand_broadcast(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_type from = tir_typeof(x->f, op->operands[0]);
    const struct tir_type to = tir_typeof(x->f, op->result);
    const struct tir_layout *l = layout(x, op->result), *vector = layout(x, op->operands[0]);
    /* The axis along which the vector runs. A folded tile also repeats whole columns. */
    const int axis = from.rows < to.rows ? 1 : 0;
    struct tir_pieces p = tir_alloc_pieces(x, 1u << l->reg_bits, 1);
    for (unsigned i = 0; i < p.n; i++) {
        const unsigned part = axis_part(tir_layout_apply(l, i, 0, 0), axis);
        p.v[i] = tir_elements(x, op->operands[0], find_reg(vector, axis, part), 1);
    }
    tir_set_pieces(x, op->result, p);
}

/* True if the reduction `opcode` takes the maximum; others sum. */
static bool takes_max(unsigned opcode)
{
    return opcode == TIR_row_max || opcode == TIR_col_max || opcode == TIR_col_fold_max;
}

/* Reduces a list of values as a queue, which forms a balanced tree. max takes three operands at a
   time. */
static struct tir_value reduce_list(struct tir_builder *b, struct tir_value *list, unsigned n,
                                    bool max)
{
    unsigned head = 0, tail = n;
    while (tail - head > 1) {
        if (max && tail - head > 2) {
            list[tail++] = tir_max3(b, list[head], list[head + 1], list[head + 2]);
            head += 3;
            continue;
        }
        list[tail] =
            max ? tir_max(b, list[head], list[head + 1]) : tir_add(b, list[head], list[head + 1]);
        tail++;
        head += 2;
    }
    return list[head];
}

/* Returns v and v of the lane with bit `bit` flipped, in either order. A reduction needs no more,
 * and machines with lane swaps need no select for it. */
static void pair_lanes(struct tir_expander *x, struct tir_value v, int bit,
                       struct tir_value pair[2])
{
    const struct tir_type t = tir_typeof(x->f, v);
    if (x->f->machine->has_lane_swap && bit >= 4 && tir_dtype_bits(t.dtype) == 32) {
        for (int which = 0; which < 2; which++)
            pair[which] = tir_build(&x->b, TIR_lane_swap, t, (struct tir_value[]){v, v}, 2,
                                    (int64_t[]){1 << bit, which});
        return;
    }
    pair[0] = v;
    pair[1] = tir_build(&x->b, TIR_lane_xor, none, &v, 1, &(int64_t){1 << bit});
}

/* Reduces `v` over the lanes that hold different elements of the reduced axis; `kept` is the other
 * axis. */
static struct tir_value reduce_lanes(struct tir_expander *x, const struct tir_layout *l, int kept,
                                     struct tir_value v, bool max)
{
    for (int i = 0; i < l->lane_bits; i++) {
        const uint32_t image = l->basis[l->reg_bits + i];
        if (axis_part(image, kept) || !axis_part(image, !kept))
            continue;
        struct tir_value pair[2];
        pair_lanes(x, v, i, pair);
        v = max ? tir_max(&x->b, pair[0], pair[1]) : tir_add(&x->b, pair[0], pair[1]);
    }
    return v;
}

/* Reduces over waves: every wave gets each wave's share `own` and reduces all of them by maximum or
 * sum. */
static struct tir_pieces reduce_waves(struct tir_expander *x, const struct tir_op *op,
                                      struct tir_pieces own, bool max)
{
    const struct tir_layout *l = layout(x, op->operands[0]), *to = layout(x, op->result);
    const int dropped = op->opcode == TIR_row_max || op->opcode == TIR_row_sum;
    uint32_t waves = 0;
    for (unsigned i = 0; i < l->wave_bits; i++)
        if (axis_part(l->basis[l->reg_bits + l->lane_bits + i], dropped))
            waves |= 1u << i;
    if (!waves)
        return own;
    const unsigned dtype = tir_typeof(x->f, op->result).dtype;
    const unsigned n = 1u << __builtin_popcount(waves);
    const struct tir_pieces all = tir_gather_waves(x, own, dtype, to, waves, dropped);
    struct tir_value list[2 * 32];
    assert(n <= 32);
    for (unsigned i = 0; i < own.n; i++) {
        for (unsigned k = 0; k < n; k++)
            list[k] = tir_take(x, &all, dtype, i * n + k, 1);
        own.v[i] = reduce_list(&x->b, list, n, max);
    }
    return own;
}

/* Adds pairs in a single chain of dot products with ones, since each instruction adds to its
   accumulator without delay. */
void tir_expand_fold_dot(struct tir_expander *x, const struct tir_op *op)
{
    const unsigned regs = 1u << layout(x, op->operands[0])->reg_bits;
    struct tir_value sum = tir_elements(x, op->operands[1], 0, 1);
    for (unsigned r = 0; r < regs; r += 2) {
        const struct tir_value pair = tir_elements(x, op->operands[0], r, 2);
        const struct tir_value ones = tir_float_like(&x->b, pair, 1.0f);
        sum = tir_build(&x->b, TIR_dot_pair, none, (struct tir_value[]){pair, ones, sum}, 3, NULL);
    }
    struct tir_pieces p = tir_alloc_pieces(x, 1, 1);
    p.v[0] = sum;
    tir_set_pieces(x, op->result, p);
}

/* Takes the maximum of three words at a time, as a queue, so that no instruction waits for the one
 * before it. For an even number of words the first step takes two, one of them twice. The newest
 * word is the first operand; see lower_max3_pair. */
void tir_expand_fold_top(struct tir_expander *x, const struct tir_op *op)
{
    const unsigned n = (1u << layout(x, op->operands[0])->reg_bits) / 2;
    struct tir_value *const list = tir_alloc(x->f, 2 * n * sizeof(list[0]));
    unsigned head = 0, tail = n;
    for (unsigned i = 0; i < n; i++)
        list[i] =
            tir_bitcast(&x->b, tir_elements(x, op->operands[0], 2 * i, 2), tir_vec(TIR_I32, 1));
    while (tail - head > 1) {
        const bool two = (tail - head) % 2 == 0;
        const struct tir_value words[] = {list[head + (two ? 1 : 2)], list[head + 1], list[head]};
        list[tail++] = tir_build(&x->b, TIR_max3_pair, none, words, 3, NULL);
        head += two ? 2 : 3;
    }
    struct tir_pieces p = tir_alloc_pieces(x, 1, 1);
    p.v[0] = list[head];
    tir_set_pieces(x, op->result, p);
}

void tir_expand_reduce(struct tir_expander *x, const struct tir_op *op)
{
    const bool max = takes_max(op->opcode);
    const bool fold = op->opcode == TIR_col_fold_max || op->opcode == TIR_col_fold_sum;
    const int kept = op->opcode == TIR_row_max || op->opcode == TIR_row_sum ? 0 : 1;
    const struct tir_layout *l = layout(x, op->operands[0]), *to = layout(x, op->result);
    const unsigned regs = 1u << l->reg_bits;
    struct tir_pieces p = tir_alloc_pieces(x, 1u << to->reg_bits, 1);
    struct tir_value *list = tir_alloc(x->f, 2 * regs * sizeof(list[0]));
    for (unsigned i = 0; i < p.n; i++) {
        const unsigned part = axis_part(tir_layout_apply(to, i, 0, 0), kept);
        unsigned n = 0;
        for (unsigned r = 0; r < regs; r++)
            if (axis_part(tir_layout_apply(l, r, 0, 0), kept) == part)
                list[n++] = tir_elements(x, op->operands[0], r, 1);
        if (x->even_code && max && fold && n > 2 && n % 2 == 0)
            list[n++] = list[0]; /* the last max then has three operands, 8 bytes, not 4 */
        p.v[i] = reduce_list(&x->b, list, n, max);
        if (!fold)
            p.v[i] = reduce_lanes(x, l, kept, p.v[i], max);
    }
    tir_set_pieces(x, op->result, fold ? p : reduce_waves(x, op, p, max));
}

/* Computes one chain for each row of a lane: each instruction multiplies and adds. */
void tir_expand_row_dot(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_layout *l = layout(x, op->operands[0]), *to = layout(x, op->result);
    struct tir_pieces p = tir_alloc_pieces(x, 1u << to->reg_bits, 1);
    for (unsigned i = 0; i < p.n; i++) {
        const unsigned row = axis_part(tir_layout_apply(to, i, 0, 0), 0);
        struct tir_value sum = {0};
        for (unsigned r = 0; r < 1u << l->reg_bits; r++) {
            if (axis_part(tir_layout_apply(l, r, 0, 0), 0) != row)
                continue;
            const struct tir_value a = tir_elements(x, op->operands[0], r, 1);
            const struct tir_value c = tir_elements(x, op->operands[1], r, 1);
            sum = sum.id ? tir_fma(&x->b, a, c, sum) : tir_mul(&x->b, a, c);
        }
        p.v[i] = reduce_lanes(x, l, 0, sum, false);
    }
    tir_set_pieces(x, op->result, p);
}

/* Sets other[r] to the total of the other half of the block that register r belongs to. The halves
 * differ in input bit `bit` of the layout. */
static void other_halves(struct tir_expander *x, const struct tir_layout *l, int bit,
                         const struct tir_value *total, struct tir_value *other)
{
    for (unsigned r = 0; r < 1u << l->reg_bits; r++)
        if (bit < l->reg_bits)
            other[r] = total[r ^ 1u << bit];
        else
            other[r] = tir_build(&x->b, TIR_lane_xor, none, &total[r], 1,
                                 &(int64_t){1 << (bit - l->reg_bits)});
}

/* Returns an i1 for each lane: true if its input bit `bit`, a lane bit, is set. */
static struct tir_value in_upper_half(struct tir_expander *x, const struct tir_layout *l, int bit)
{
    uint32_t images[TIR_LAYOUT_MAX_BITS] = {0};
    images[bit - l->reg_bits] = 1;
    const struct tir_value upper = tir_lane_index(x, images, l->wave_bits);
    return tir_cmp_ne(&x->b, upper, tir_int_like(&x->b, upper, 0));
}

/* Adds, for one bit of the column, the totals of the lower halves to the sums of the upper ones. */
static void add_lower_halves(struct tir_expander *x, const struct tir_layout *l, int bit,
                             struct tir_value *sum, struct tir_value *total)
{
    struct tir_builder *b = &x->b;
    const unsigned regs = 1u << l->reg_bits;
    const bool by_lane = bit >= l->reg_bits;
    struct tir_value *const other = tir_alloc(x->f, regs * sizeof(other[0]));
    const struct tir_value upper = by_lane ? in_upper_half(x, l, bit) : (struct tir_value){0};
    other_halves(x, l, bit, total, other);
    for (unsigned r = 0; r < regs; r++) {
        const bool gets = by_lane || r >> bit & 1;
        const struct tir_value more = gets ? tir_add(b, other[r], sum[r]) : sum[r];
        sum[r] = by_lane ? tir_select(b, upper, more, sum[r]) : more;
    }
    for (unsigned r = 0; r < regs; r++)
        other[r] = tir_add(b, total[r], other[r]);
    memcpy(total, other, regs * sizeof(total[0]));
}

void tir_expand_prefix_sum(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_layout *l = layout(x, op->operands[0]);
    const unsigned regs = 1u << l->reg_bits, cols = tir_typeof(x->f, op->result).cols;
    struct tir_pieces p = tir_alloc_pieces(x, regs, 1);
    struct tir_value *const total = tir_alloc(x->f, regs * sizeof(total[0]));
    for (unsigned r = 0; r < regs; r++)
        total[r] = p.v[r] = tir_elements(x, op->operands[0], r, 1);
    for (unsigned col = 1; col < cols; col *= 2)
        add_lower_halves(x, l, tir_layout_find_bit(l, TIR_RC(0, col)), p.v, total);
    tir_set_pieces(x, op->result, p);
}

void tir_expand_any(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_pieces a = tir_pieces_of(x, op->operands[0]);
    struct tir_value v = a.v[0];
    for (unsigned i = 1; i < a.n; i++)
        v = tir_or(&x->b, v, a.v[i]);
    x->scalars[op->result.id] = tir_build(&x->b, TIR_any, tir_scalar(TIR_I1), &v, 1, NULL);
}

void tir_expand_first_lane(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_value first = tir_elements(x, op->operands[0], 0, 1);
    x->scalars[op->result.id] =
        tir_build(&x->b, TIR_first_lane, tir_typeof(x->f, op->result), &first, 1, NULL);
}

void tir_expand_lane_mask(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_value first = tir_elements(x, op->operands[0], 0, 1);
    x->scalars[op->result.id] =
        tir_build(&x->b, TIR_lane_mask, tir_scalar(TIR_I64), &first, 1, NULL);
}

void tir_expand_lane_read(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_value operands[] = {tir_elements(x, op->operands[0], 0, 1),
                                         tir_scalar_now(x, op->operands[1])};
    x->scalars[op->result.id] =
        tir_build(&x->b, TIR_lane_read, tir_typeof(x->f, op->result), operands, 2, NULL);
}

void tir_expand_lane_count(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_pieces a = tir_pieces_of(x, op->operands[0]);
    struct tir_value sum = {0};
    for (unsigned i = 0; i < a.n; i++) {
        const struct tir_value n =
            tir_build(&x->b, TIR_lane_count, tir_scalar(TIR_I32), &a.v[i], 1, NULL);
        sum = i ? tir_add(&x->b, sum, n) : n;
    }
    x->scalars[op->result.id] = sum;
}

void tir_expand_bitcast(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_type from = tir_typeof(x->f, op->operands[0]);
    const struct tir_type to = tir_typeof(x->f, op->result);
    const unsigned a_bits = tir_dtype_bits(from.dtype), d_bits = tir_dtype_bits(to.dtype);
    if (a_bits == d_bits) {
        tir_expand_elementwise(x, op);
        return;
    }
    const unsigned taken = a_bits < d_bits ? d_bits / a_bits : 1;
    const unsigned made = a_bits < d_bits ? 1 : a_bits / d_bits;
    const unsigned n = (1u << layout(x, op->result)->reg_bits) / made;
    struct tir_pieces p = tir_alloc_pieces(x, n, made);
    for (unsigned i = 0; i < n; i++)
        p.v[i] = tir_bitcast(&x->b, tir_elements(x, op->operands[0], i * taken, taken),
                             tir_vec(to.dtype, made));
    tir_set_pieces(x, op->result, p);
}

void tir_expand_same(struct tir_expander *x, const struct tir_op *op)
{
    tir_set_pieces(x, op->result, tir_pieces_of(x, op->operands[0]));
}

void tir_expand_flip(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_layout *const l = layout(x, op->result);
    struct tir_pieces p = tir_alloc_pieces(x, 1u << l->reg_bits, 1);
    const int bit = tir_layout_find_bit(l, TIR_RC(0, (unsigned)op->imm[0]));
    const bool moves = bit >= l->reg_bits;
    for (unsigned i = 0; i < p.n; i++) {
        p.v[i] = tir_elements(x, op->operands[0], moves ? i : i ^ 1u << bit, 1);
        if (moves)
            p.v[i] = tir_build(&x->b, TIR_lane_xor, none, &p.v[i], 1,
                               &(int64_t){1 << (bit - l->reg_bits)});
    }
    tir_set_pieces(x, op->result, p);
}

void tir_expand_stack(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_pieces a = tir_pieces_of(x, op->operands[0]);
    struct tir_pieces p = tir_alloc_pieces(x, 2 * a.n, a.per);
    for (unsigned i = 0; i < p.n; i++)
        p.v[i] = tir_elements(x, op->operands[i / a.n], i % a.n * a.per, a.per);
    tir_set_pieces(x, op->result, p);
}

void tir_expand_half(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_pieces a = tir_pieces_of(x, op->operands[0]);
    const unsigned n = a.n * a.per / 2, per = n < a.per ? n : a.per;
    struct tir_pieces p = tir_alloc_pieces(x, n / per, per);
    for (unsigned i = 0; i < p.n; i++)
        p.v[i] = tir_elements(x, op->operands[0], (op->imm[0] ? n : 0) + i * per, per);
    tir_set_pieces(x, op->result, p);
}

/* Returns the register bits that walk the contraction; they come first in an operand's layout. */
static unsigned contraction_bits(const struct tir_layout *l, int outer_axis)
{
    unsigned n = 0;
    while (n < l->reg_bits && !axis_part(l->basis[n], outer_axis))
        n++;
    return n;
}

/* Returns the number of steps along the contraction that a product executes; its attribute `k` may
 * limit them. */
static unsigned steps_below(const struct tir_op *op, const struct tir_layout *left,
                            unsigned elements, unsigned steps)
{
    if (op->opcode != TIR_mma || !op->imm[1])
        return steps;
    unsigned n = 0;
    while (n < steps && tir_rc_col(tir_layout_apply(left, n * elements, 0, 0)) < op->imm[1])
        n++;
    return n;
}

/* Calls make() for each instruction of a product. It passes the operands and result, and the
 * numbers of the step of k and of the blocks of rows and columns. Consecutive instructions are
 * independent if there is more than one block. */
static void expand_product(struct tir_expander *x, const struct tir_op *op,
                           struct tir_value (*make)(struct tir_expander *, const struct tir_op *,
                                                    const struct tir_value abc[3],
                                                    const unsigned at[2]))
{
    const struct tir_mma *mma = &x->f->machine->mma[op->imm[0]];
    const struct tir_value a = op->operands[0], c = op->operands[1];
    const struct tir_layout *al = layout(x, a), *bl = layout(x, c);
    const unsigned left = tir_mma_in_regs(mma), right = tir_mma_right_regs(mma);
    const unsigned acc = tir_mma_acc_regs(mma);
    const unsigned k_left = contraction_bits(al, 0), k_right = contraction_bits(bl, 1);
    const unsigned steps = (1u << k_left) / left, used = steps_below(op, al, left, steps);
    const unsigned rows = 1u << (al->reg_bits - k_left), cols = 1u << (bl->reg_bits - k_right);
    assert(steps == (1u << k_right) / right);
    struct tir_pieces p = tir_alloc_pieces(x, rows * cols, acc);
    for (unsigned i = 0; i < p.n; i++)
        p.v[i] = tir_elements(x, op->operands[2], i * acc, acc);
    const bool by_rows = op->opcode == TIR_mma && op->imm[3];
    for (unsigned k = 0; k < used; k++)
        for (unsigned n = 0; n < rows * cols; n++) {
            const unsigned i = by_rows ? n / cols : n % rows, j = by_rows ? n % cols : n / rows;
            const struct tir_value abc[] = {tir_elements(x, a, (i * steps + k) * left, left),
                                            tir_elements(x, c, (j * steps + k) * right, right),
                                            p.v[j * rows + i]};
            p.v[j * rows + i] = make(x, op, abc, (unsigned[]){i * steps + k, j * steps + k});
        }
    tir_set_pieces(x, op->result, p);
}

/* Emits a matrix instruction without scales on a, b and the accumulator. */
static struct tir_value plain_product(struct tir_expander *x, const struct tir_op *op,
                                      const struct tir_value abc[3], const unsigned at[2])
{
    (void)at;
    return tir_build(&x->b, TIR_mfma, none, abc, 3, (int64_t[]){op->imm[0], op->imm[2]});
}

void tir_expand_mma(struct tir_expander *x, const struct tir_op *op)
{
    expand_product(x, op, plain_product);
}

/* Expands mma_halves. The registers of both operands walk k alike, and each instruction takes the
   next ones. */
void tir_expand_mma_halves(struct tir_expander *x, const struct tir_op *op)
{
    const struct tir_mma *const mma = &x->f->machine->mma[op->imm[0]];
    const unsigned each = tir_mma_in_regs(mma), acc = tir_mma_acc_regs(mma);
    const unsigned regs = 1u << layout(x, op->operands[0])->reg_bits;
    struct tir_pieces p = tir_alloc_pieces(x, 1, acc);
    p.v[0] = tir_elements(x, op->operands[2], 0, acc);
    for (unsigned i = 0; i < regs; i += each) {
        const struct tir_value abc[] = {tir_elements(x, op->operands[0], i, each),
                                        tir_elements(x, op->operands[1], i, each), p.v[0]};
        p.v[0] = tir_build(&x->b, TIR_mfma, none, abc, 3, (int64_t[]){op->imm[0], 0});
    }
    tir_set_pieces(x, op->result, p);
}

/* Returns the word that has scale `index` of an operand as a byte. A word of a larger vec is passed
 * to the instruction as it is. */
static struct tir_value scale_word(struct tir_expander *x, struct tir_value scale, unsigned index,
                                   int64_t *byte)
{
    enum { WORD = 4 };
    *byte = 0;
    if (tir_typeof(x->f, scale).kind == TIR_SCALAR)
        return tir_scalar_now(x, scale);
    const unsigned all = 1u << layout(x, scale)->reg_bits, per = all < WORD ? all : WORD;
    const struct tir_value word = tir_elements(x, scale, index / per * per, per);
    const struct tir_ref def = x->f->values[word.id].def;
    *byte = index % per;
    if (!def.id || tir_op(x->f, def)->opcode != TIR_extract)
        return word;
    const struct tir_op *const extract = tir_op(x->f, def);
    if (tir_typeof(x->f, extract->operands[0]).count > WORD)
        return word;
    *byte += extract->imm[0];
    return extract->operands[0];
}

/* Emits a matrix instruction with the scales of both operands; `at` has the index of each operand's
 * piece. */
static struct tir_value scaled_product(struct tir_expander *x, const struct tir_op *op,
                                       const struct tir_value abc[3], const unsigned at[2])
{
    int64_t imm[] = {op->imm[0], 0, 0, op->imm[1]};
    struct tir_value operands[] = {abc[0], abc[1], abc[2], {0}, {0}};
    for (int i = 0; i < 2; i++)
        operands[3 + i] = scale_word(x, op->operands[3 + i], at[i], &imm[1 + i]);
    return tir_build(&x->b, TIR_mfma_scaled, none, operands, 5, imm);
}

void tir_expand_mma_scaled(struct tir_expander *x, const struct tir_op *op)
{
    expand_product(x, op, scaled_product);
}

/* Builds an anchor for each tile, and one for all scalars. */
void tir_expand_anchor(struct tir_expander *x, const struct tir_op *op)
{
    struct tir_pieces scalars = tir_alloc_pieces(x, op->n_operands, 1);
    scalars.n = 0;
    for (unsigned i = 0; i < op->n_operands; i++) {
        const struct tir_pieces p = tir_pieces_of(x, op->operands[i]);
        if (tir_typeof(x->f, op->operands[i]).kind == TIR_SCALAR)
            scalars.v[scalars.n++] = p.v[0];
        else
            tir_build(&x->b, TIR_anchor, (struct tir_type){0}, p.v, p.n, NULL);
    }
    if (scalars.n)
        tir_build(&x->b, TIR_anchor, (struct tir_type){0}, scalars.v, scalars.n, NULL);
}
