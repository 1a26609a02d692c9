/* SPDX-License-Identifier: Apache-2.0
 *
 * This file interprets tile ops other than memory. A wave has only the elements that the tile's
 * layout gives it. Two waves may hold different values of one element.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/arith.h"
#include "ir/interp_state.h"

/* Returns the type of value `v`. */
static struct tir_type type_of(const struct interp *x, struct tir_value v)
{
    return tir_typeof(x->f, v);
}

/* One wave's part of an op: its operands and result as matrices of their types. */
struct part {
    struct interp *x;
    const struct tir_op *op;
    unsigned wave;
    struct tir_type at, t; /* types of operand 0, if the op has one, and of the result */
    const int64_t *a;
    int64_t *d;
};

/* Returns the matrix that a wave holds of v. */
static int64_t *matrix(struct interp *x, struct tir_value v, unsigned wave)
{
    return interp_value(x, v) + interp_element(type_of(x, v), wave, 0, 0);
}

/* Returns operand 0 as a matrix of all elements that this wave or its peers hold. The numbers of
 * peers differ from this wave's number in bits of `peers`. This wave's own elements take
 * precedence. *held says which elements exist. The caller frees both. */
static int64_t *held_together(const struct part *p, unsigned peers, bool **held)
{
    struct interp *const x = p->x;
    const size_t size = (size_t)p->at.rows * p->at.cols, n = interp_wave_elements(x, p->at);
    int64_t *const all = tir_scratch(size, sizeof(*all));
    *held = tir_scratch(size, sizeof(**held));
    for (unsigned other = 0; other <= peers; other++) {
        const unsigned wave = other ^ p->wave; /* begins with this wave */
        if (other & ~peers || wave >= x->f->waves || !interp_runs(x, wave))
            continue;
        const int64_t *const a = matrix(x, p->op->operands[0], wave);
        for (size_t e = 0; e < n; e++) {
            const uint32_t rc = interp_rc(x, p->at, wave, e);
            const size_t i = (size_t)tir_rc_row(rc) * p->at.cols + tir_rc_col(rc);
            if (!(*held)[i])
                all[i] = a[i];
            (*held)[i] = true;
        }
    }
    return all;
}

/* Returns the element of operand 0 that a broadcast copies to (`row`, `col`). */
static int64_t repeated(const struct part *p, unsigned row, unsigned col)
{
    return p->a[(p->at.rows == 1 ? 0 : row) * p->at.cols + (p->at.cols == 1 ? 0 : col)];
}

/* Returns the row of a fold's result to which row `row` of its operand goes. Row bits that
 * registers hold are dropped (tir_layout_fold_rows). */
static unsigned folded_row(const struct tir_layout *l, unsigned row)
{
    unsigned folded = 0, all = 0, to = 0, r = 0;
    for (int i = 0; i < tir_layout_bits(l); i++) {
        all |= tir_rc_row(l->basis[i]);
        if (i < l->reg_bits)
            folded |= tir_rc_row(l->basis[i]);
    }
    for (unsigned bit = 1; bit <= all; bit <<= 1)
        if (all & ~folded & bit)
            r |= (row & bit ? 1u : 0u) << to++;
    return r;
}

/* Returns the maximum (`max`) or sum of two elements of type `dtype`, given as bits. */
static int64_t combined(const struct interp *x, unsigned dtype, bool max, int64_t a, int64_t b)
{
    const int64_t v[3] = {a, b, 0};
    const unsigned opcode = max ? TIR_max : TIR_add;
    int64_t d = 0;
    if (tir_is_int(dtype))
        tir_eval_int(opcode, dtype, v, &d);
    else
        tir_eval_float(opcode, dtype, x->f->machine->fp8_is_fnuz, v, &d);
    return d;
}

/* Returns the waves that split the axis which a reduction drops, as bits of their numbers. */
static unsigned reducing_waves(const struct tir_layout *l, unsigned opcode)
{
    const bool by_row = opcode == TIR_row_max || opcode == TIR_row_sum;
    unsigned peers = 0;
    for (int i = 0; i < l->wave_bits; i++) {
        const uint32_t image = l->basis[l->reg_bits + l->lane_bits + i];
        peers |= (by_row ? tir_rc_col(image) : tir_rc_row(image)) ? 1u << i : 0;
    }
    return peers;
}

/* Reduces a tile along one axis. It uses each element once that the wave, or a wave that reduces
 * with it, holds. */
static void run_reduce(const struct part *p)
{
    struct interp *const x = p->x;
    const unsigned o = p->op->opcode;
    const bool max = o == TIR_row_max || o == TIR_col_max || o == TIR_col_fold_max;
    const bool fold = o == TIR_col_fold_max || o == TIR_col_fold_sum;
    const struct tir_layout *const l = tir_layout_of(x->f, p->at);
    bool *held, *const begun = tir_scratch((size_t)p->t.rows * p->t.cols, sizeof(*begun));
    int64_t *const a = held_together(p, fold ? 0 : reducing_waves(l, o), &held);
    for (unsigned i = 0; i < p->at.rows; i++)
        for (unsigned j = 0; j < p->at.cols; j++) {
            const size_t from = (size_t)i * p->at.cols + j;
            const unsigned row = fold ? folded_row(l, i) : p->t.rows == 1 ? 0 : i;
            const size_t to = (size_t)row * p->t.cols + (p->t.cols == 1 ? 0 : j);
            if (!held[from])
                continue;
            p->d[to] = begun[to] ? combined(x, p->t.dtype, max, p->d[to], a[from]) : a[from];
            begun[to] = true;
        }
    free(a);
    free(held);
    free(begun);
}

/* Computes the dot product of each row of the two operands with fused multiply-adds. */
static void run_row_dot(const struct part *p)
{
    struct interp *const x = p->x;
    const int64_t *const c = matrix(x, p->op->operands[1], p->wave);
    const size_t n = interp_wave_elements(x, p->t);
    for (size_t e = 0; e < n; e++) {
        const unsigned row = tir_rc_row(interp_rc(x, p->t, p->wave, e));
        float sum = 0;
        for (size_t at = (size_t)row * p->at.cols; at < (size_t)(row + 1) * p->at.cols; at++)
            sum = fmaf(tir_to_float(TIR_F32, p->a[at], false), tir_to_float(TIR_F32, c[at], false),
                       sum);
        p->d[row] = tir_from_float(TIR_F32, sum, false);
    }
}

/* Returns the sum of two f32 given as bits. */
static float add_f32(int64_t a, int64_t b)
{
    return tir_to_float(TIR_F32, a, false) + tir_to_float(TIR_F32, b, false);
}

/* Computes the prefix sums of rows, level by level: total[j] is the sum of the block of `block`
 * columns that has column j. */
static void run_prefix_sum(const struct part *p)
{
    struct interp *const x = p->x;
    const size_t cols = p->t.cols, n = interp_wave_elements(x, p->t);
    int64_t *const total = tir_scratch(cols, sizeof(*total));
    int64_t *const next = tir_scratch(cols, sizeof(*next));
    for (size_t e = 0; e < n; e++) {
        const uint32_t rc = interp_rc(x, p->t, p->wave, e);
        const int64_t *const a = p->a + tir_rc_row(rc) * cols;
        int64_t *const d = p->d + tir_rc_row(rc) * cols;
        if (tir_rc_col(rc))
            continue;
        memcpy(d, a, cols * sizeof(*d));
        memcpy(total, a, cols * sizeof(*total));
        for (size_t block = 1; block < cols; block *= 2) {
            for (size_t j = 0; j < cols; j++) {
                if (j & block)
                    d[j] = tir_from_float(TIR_F32, add_f32(total[j ^ block], d[j]), false);
                next[j] = tir_from_float(TIR_F32, add_f32(total[j], total[j ^ block]), false);
            }
            memcpy(total, next, cols * sizeof(*total));
        }
    }
    free(total);
    free(next);
}

/* Adds products in pairs of rows, in the order of a lane's registers. */
static void run_fold_dot(const struct part *p)
{
    struct interp *const x = p->x;
    const struct tir_layout *const l = tir_layout_of(x->f, p->at);
    const int64_t *const c = matrix(x, p->op->operands[1], p->wave);
    const size_t n = interp_wave_elements(x, p->t);
    for (size_t e = 0; e < n; e++) {
        const uint32_t rc = interp_rc(x, p->t, p->wave, e);
        const size_t to = (size_t)tir_rc_row(rc) * p->t.cols + tir_rc_col(rc);
        float sum = tir_to_float(TIR_F32, c[to], false), first = 0;
        const uint32_t lane = (uint32_t)(e % interp_lanes(x));
        for (unsigned r = 0; r < 1u << l->reg_bits; r++) {
            const uint32_t at = tir_layout_apply(l, r, lane, p->wave);
            const float v = tir_to_float(
                TIR_BF16, p->a[(size_t)tir_rc_row(at) * p->at.cols + tir_rc_col(at)], false);
            if (r % 2)
                sum += first + v;
            first = v;
        }
        p->d[to] = tir_from_float(TIR_F32, sum, false);
    }
}

/* Computes for each lane the maximum of its even registers (low half of the result) and of its odd
 * ones (high half). */
static void run_fold_top(const struct part *p)
{
    const struct tir_layout *const l = tir_layout_of(p->x->f, p->at);
    const size_t n = interp_wave_elements(p->x, p->t);
    for (size_t e = 0; e < n; e++) {
        const uint32_t rc = interp_rc(p->x, p->t, p->wave, e);
        uint16_t top[2] = {0, 0};
        for (unsigned r = 0; r < 1u << l->reg_bits; r++) {
            const uint32_t at = tir_layout_apply(l, r, (uint32_t)(e % interp_lanes(p->x)), p->wave);
            const size_t from = (size_t)tir_rc_row(at) * p->at.cols + tir_rc_col(at);
            const uint16_t row = (uint16_t)p->a[from];
            if (top[r % 2] < row)
                top[r % 2] = row;
        }
        const uint32_t both = (uint32_t)top[1] << 16 | top[0];
        p->d[(size_t)tir_rc_row(rc) * p->t.cols + tir_rc_col(rc)] = tir_wrap(TIR_I32, both);
    }
}

/* Returns the elements of v that a wave holds as floats, row by row, or with `by_column` column by
 * column. The caller frees them. */
static float *as_floats(struct interp *x, struct tir_value v, unsigned wave, bool by_column)
{
    const struct tir_type t = type_of(x, v);
    const int64_t *m = matrix(x, v, wave);
    float *const f = tir_scratch((size_t)t.rows * t.cols, sizeof(*f));
    for (unsigned i = 0; i < t.rows; i++)
        for (unsigned j = 0; j < t.cols; j++, m++)
            f[by_column ? j * t.rows + i : i * t.cols + j] =
                tir_to_float(t.dtype, *m, x->f->machine->fp8_is_fnuz);
    return f;
}

/* Computes a matrix product with the machine's order of summation. */
static void run_mma(const struct part *p)
{
    struct interp *const x = p->x;
    const struct tir_type t = p->t;
    float *const a = as_floats(x, p->op->operands[0], p->wave, false);
    float *const b = as_floats(x, p->op->operands[1], p->wave, true);
    enum { ROWS = 8, COLS = 16 };
    const bool halves = p->op->opcode == TIR_mma_halves;
    const unsigned depth = p->at.cols;
    const unsigned end = !halves && p->op->imm[1] ? (unsigned)p->op->imm[1] : depth;
    const int64_t *const c = matrix(x, p->op->operands[2], p->wave);
    const size_t n = interp_wave_elements(x, t);
    for (size_t e = 0; e < n; e++) {
        const uint32_t rc = interp_rc(x, t, p->wave, e);
        const unsigned i = tir_rc_row(rc), j = tir_rc_col(rc);
        float sum = tir_to_float(t.dtype, c[i * t.cols + j], false);
        for (unsigned k = 0; k < end; k++)
            sum = fmaf(a[i * depth + k], b[j * depth + k], sum);
        for (unsigned k = 0; halves && k < depth; k++)
            sum = fmaf(a[(i + ROWS) * depth + k], b[(j ^ COLS) * depth + k], sum);
        p->d[i * t.cols + j] = tir_from_float(t.dtype, sum, false);
    }
    free(a);
    free(b);
}

/* Returns operand 0 or 1 of a scaled product, outer index first, multiplied by its scales. */
static double *scaled_operand(const struct part *p, const struct tir_mma *m, unsigned operand)
{
    struct interp *const x = p->x;
    const struct tir_value v = p->op->operands[operand], s = p->op->operands[3 + operand];
    const struct tir_type t = type_of(x, v);
    const bool uniform = type_of(x, s).kind == TIR_SCALAR;
    const unsigned format = operand ? m->right_format : m->left_format;
    const unsigned pair = format == TIR_MX_E2M1, outer = operand ? t.cols : t.rows;
    const unsigned depth = (operand ? t.rows : t.cols) << pair, blocks = depth / TIR_MX_BLOCK;
    const int64_t *const e = matrix(x, v, p->wave);
    const int64_t *const scales = uniform ? NULL : matrix(x, s, p->wave);
    double *const d = tir_scratch((size_t)outer * depth, sizeof(*d));
    for (unsigned i = 0; i < outer; i++)
        for (unsigned k = 0; k < depth; k++) {
            const unsigned row = k >> pair, block = k / TIR_MX_BLOCK;
            const int64_t scale = uniform   ? interp_scalar(x, p->op, 3 + operand, p->wave)
                                  : operand ? scales[block * outer + i]
                                            : scales[i * blocks + block];
            d[(size_t)i * depth + k] =
                tir_mx_value(format, e[operand ? row * outer + i : i * (depth >> pair) + row],
                             k & pair, (unsigned)scale & UINT8_MAX);
        }
    return d;
}

/* Computes a matrix product whose operands have block scales (MX formats). */
static void run_mma_scaled(const struct part *p)
{
    struct interp *const x = p->x;
    const struct tir_type t = p->t;
    const struct tir_mma *const m = &x->f->machine->mma[p->op->imm[0]];
    double *const a = scaled_operand(p, m, 0), *const b = scaled_operand(p, m, 1);
    const unsigned depth = p->at.cols << (m->left_format == TIR_MX_E2M1);
    const int64_t *const c = matrix(x, p->op->operands[2], p->wave);
    const size_t n = interp_wave_elements(x, t);
    for (size_t e = 0; e < n; e++) {
        const uint32_t rc = interp_rc(x, t, p->wave, e);
        const unsigned i = tir_rc_row(rc), j = tir_rc_col(rc);
        float sum = tir_to_float(t.dtype, c[i * t.cols + j], false);
        for (unsigned k = 0; k < depth; k++)
            sum = (float)(sum + a[i * depth + k] * b[j * depth + k]);
        p->d[i * t.cols + j] = tir_from_float(t.dtype, sum, false);
    }
    free(a);
    free(b);
}

/* Returns the element of the operand of join_blocks or split_blocks that becomes (row, col). */
static int64_t block_element(const struct part *p, unsigned row, unsigned col)
{
    const struct tir_type a = p->at, d = p->t;
    if (p->op->opcode == TIR_join_blocks)
        return p->a[(size_t)(col / a.cols * d.rows + row) * a.cols + col % a.cols];
    return p->a[(size_t)row % a.rows * a.cols + row / a.rows * d.cols + col];
}

/* Returns the element at (`row`, `col`) of a tile that has operand 0 above operand 1. */
static int64_t stacked(const struct part *p, unsigned row, unsigned col)
{
    if (row < p->at.rows)
        return p->a[(size_t)row * p->at.cols + col];
    return matrix(p->x, p->op->operands[1], p->wave)[(size_t)(row - p->at.rows) * p->at.cols + col];
}

/* Writes the element at (`row`, `col`) of an op that only moves or numbers elements to `*v`.
 * Returns false for other ops. */
static bool element_of(const struct part *p, unsigned row, unsigned col, int64_t *v)
{
    switch (p->op->opcode) {
    case TIR_row_index: *v = row; return true;
    case TIR_col_index: *v = col; return true;
    case TIR_broadcast: *v = repeated(p, row, col); return true;
    case TIR_transpose: *v = p->a[(size_t)col * p->at.cols + row]; return true;
    case TIR_col_flip:
        *v = p->a[(size_t)row * p->at.cols + (col ^ (unsigned)p->op->imm[0])];
        return true;
    case TIR_join_blocks:
    case TIR_split_blocks: *v = block_element(p, row, col); return true;
    case TIR_stack: *v = stacked(p, row, col); return true;
    case TIR_half:
        row += p->op->imm[0] ? p->t.rows : 0;
        *v = p->a[(size_t)row * p->at.cols + col];
        return true;
    case TIR_relayout: *v = p->a[(size_t)row * p->at.cols + col]; return true;
    default: return false;
    }
}

/* Computes every element of a wave's result; returns false if the op is not computed by
 * elements. */
static bool run_elements(const struct part *p)
{
    const size_t n = interp_wave_elements(p->x, p->t);
    for (size_t e = 0; e < n; e++) {
        const uint32_t rc = interp_rc(p->x, p->t, p->wave, e);
        const unsigned row = tir_rc_row(rc), col = tir_rc_col(rc);
        if (!element_of(p, row, col, &p->d[(size_t)row * p->t.cols + col]))
            return false;
    }
    return true;
}

/* Runs a relayout between waves, which takes elements from any wave that shares the tile. */
static bool run_relayout(struct part *p)
{
    const struct tir_layout *const from = tir_layout_of(p->x->f, p->at);
    const struct tir_layout *const to = tir_layout_of(p->x->f, p->t);
    const int bits = from->wave_bits > to->wave_bits ? from->wave_bits : to->wave_bits;
    struct tir_conversion c;
    bool *held;
    if (!tir_layout_conversion(from, to, &c))
        return false;
    int64_t *const a = held_together(p, c.kind == TIR_CONVERT_LDS ? (1u << bits) - 1 : 0, &held);
    p->a = a;
    const bool run = run_elements(p);
    free(held);
    free(a);
    return run;
}

/* Runs a tile op for one wave; returns false if the op is not a tile op. */
static bool run_part(struct part *p)
{
    switch (p->op->opcode) {
    case TIR_row_max:
    case TIR_row_sum:
    case TIR_col_max:
    case TIR_col_sum:
    case TIR_col_fold_max:
    case TIR_col_fold_sum: run_reduce(p); return true;
    case TIR_row_dot: run_row_dot(p); return true;
    case TIR_row_prefix_sum: run_prefix_sum(p); return true;
    case TIR_col_fold_dot: run_fold_dot(p); return true;
    case TIR_col_fold_top: run_fold_top(p); return true;
    case TIR_mma:
    case TIR_mma_halves: run_mma(p); return true;
    case TIR_mma_scaled: run_mma_scaled(p); return true;
    case TIR_relayout: return run_relayout(p);
    default: return run_elements(p);
    }
}

bool interp_tile(struct interp *x, const struct tir_op *op)
{
    if (tir_ops[op->opcode].level != TIR_LEVEL_TILE || tir_ops[op->opcode].flags != TIR_PURE)
        return false;
    struct part p = {.x = x, .op = op, .t = type_of(x, op->result)};
    for (p.wave = 0; p.wave < x->f->waves; p.wave++) {
        if (!interp_runs(x, p.wave))
            continue;
        p.d = matrix(x, op->result, p.wave);
        if (op->n_operands) {
            p.at = type_of(x, op->operands[0]);
            p.a = matrix(x, op->operands[0], p.wave);
        }
        if (!run_part(&p))
            return false;
    }
    return true;
}
