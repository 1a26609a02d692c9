/* SPDX-License-Identifier: Apache-2.0
 *
 * Interpreted tile ops other than memory. A tile is its elements here: layouts matter only where an
 * op's meaning does (folds), and for which wave writes what.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "ir/arith.h"
#include "ir/interp_state.h"

static struct tir_type type_of(const struct interp *x, struct tir_value v)
{
    return tir_typeof(x->f, v);
}

static void run_index(struct interp *x, const struct tir_op *op)
{
    const struct tir_type t = type_of(x, op->result);
    int64_t *d = interp_value(x, op->result);
    for (unsigned i = 0; i < t.rows; i++)
        for (unsigned j = 0; j < t.cols; j++)
            *d++ = op->opcode == TIR_row_index ? i : j;
}

static void run_broadcast(struct interp *x, const struct tir_op *op)
{
    const struct tir_type from = type_of(x, op->operands[0]), t = type_of(x, op->result);
    const int64_t *const a = interp_value(x, op->operands[0]);
    int64_t *d = interp_value(x, op->result);
    for (unsigned i = 0; i < t.rows; i++)
        for (unsigned j = 0; j < t.cols; j++)
            *d++ = a[(from.rows == 1 ? 0 : i) * from.cols + (from.cols == 1 ? 0 : j)];
}

/* The row of a fold's result that row `row` of its operand goes to: the row bits that registers
 * hold are dropped (tir_layout_fold_rows). */
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

static void run_reduce(struct interp *x, const struct tir_op *op)
{
    const struct tir_type from = type_of(x, op->operands[0]), t = type_of(x, op->result);
    const unsigned o = op->opcode;
    const bool max = o == TIR_row_max || o == TIR_col_max || o == TIR_col_fold_max;
    const bool fold = o == TIR_col_fold_max || o == TIR_col_fold_sum;
    const struct tir_layout *const l = tir_layout_of(x->f, from);
    const int64_t *const a = interp_value(x, op->operands[0]);
    int64_t *const d = interp_value(x, op->result);
    bool *const begun = tir_scratch((size_t)t.rows * t.cols, sizeof(*begun));
    for (unsigned i = 0; i < from.rows; i++)
        for (unsigned j = 0; j < from.cols; j++) {
            const unsigned row = fold ? folded_row(l, i) : t.rows == 1 ? 0 : i;
            const size_t to = (size_t)row * t.cols + (t.cols == 1 ? 0 : j);
            const int64_t v = a[(size_t)i * from.cols + j];
            d[to] = begun[to] ? combined(x, t.dtype, max, d[to], v) : v;
            begun[to] = true;
        }
    free(begun);
}

static float *as_floats(struct interp *x, struct tir_value v)
{
    const struct tir_type t = type_of(x, v);
    const size_t n = (size_t)t.rows * t.cols;
    float *const f = tir_scratch(n, sizeof(*f));
    for (size_t i = 0; i < n; i++)
        f[i] = tir_to_float(t.dtype, interp_value(x, v)[i], x->f->machine->fp8_is_fnuz);
    return f;
}

static void run_mma(struct interp *x, const struct tir_op *op)
{
    const struct tir_type at = type_of(x, op->operands[0]), t = type_of(x, op->result);
    float *const a = as_floats(x, op->operands[0]), *const b = as_floats(x, op->operands[1]);
    float *const d = as_floats(x, op->operands[2]);
    for (unsigned i = 0; i < t.rows; i++)
        for (unsigned k = 0; k < at.cols; k++)
            for (unsigned j = 0; j < t.cols; j++)
                d[i * t.cols + j] =
                    fmaf(a[i * at.cols + k], b[k * t.cols + j], d[i * t.cols + j]);
    for (size_t i = 0; i < (size_t)t.rows * t.cols; i++)
        interp_value(x, op->result)[i] = tir_from_float(t.dtype, d[i], false);
    free(a);
    free(b);
    free(d);
}

static void run_transpose(struct interp *x, const struct tir_op *op)
{
    const struct tir_type t = type_of(x, op->result);
    const int64_t *const a = interp_value(x, op->operands[0]);
    int64_t *const d = interp_value(x, op->result);
    for (unsigned i = 0; i < t.rows; i++)
        for (unsigned j = 0; j < t.cols; j++)
            d[i * t.cols + j] = a[j * t.rows + i];
}

/* join_blocks, and split_blocks with the roles exchanged: one element is where it is in both. */
static void run_blocks(struct interp *x, const struct tir_op *op)
{
    const bool join = op->opcode == TIR_join_blocks;
    const int64_t *const a = interp_value(x, op->operands[0]);
    int64_t *const d = interp_value(x, op->result);
    const struct tir_type at = type_of(x, op->operands[0]), dt = type_of(x, op->result);
    const struct tir_type joined = join ? dt : at, split = join ? at : dt;
    for (unsigned i = 0; i < joined.rows; i++)
        for (unsigned j = 0; j < joined.cols; j++) {
            const size_t one = (size_t)i * joined.cols + j;
            const size_t other = ((size_t)(j / split.cols) * joined.rows + i) * split.cols +
                                 j % split.cols;
            d[join ? one : other] = a[join ? other : one];
        }
}

/*
 * Waves that do not run keep what they hold: the op computes all elements, and those of other waves
 * are put back. It matters in a branch that only some waves take.
 */
static void keep_others(struct interp *x, struct tir_value v, const int64_t *before)
{
    const struct tir_type t = type_of(x, v);
    const size_t n = interp_wave_elements(x, t);
    int64_t *const d = interp_value(x, v);
    for (unsigned w = 0; w < x->f->waves; w++)
        for (size_t e = 0; !interp_runs(x, w) && e < n; e++) {
            const size_t i = interp_index(x, t, w, e);
            d[i] = before[i];
        }
}

static bool run_pure(struct interp *x, const struct tir_op *op)
{
    switch (op->opcode) {
    case TIR_row_index: case TIR_col_index: run_index(x, op); return true;
    case TIR_broadcast: run_broadcast(x, op); return true;
    case TIR_row_max: case TIR_row_sum: case TIR_col_max: case TIR_col_sum:
    case TIR_col_fold_max: case TIR_col_fold_sum:
        run_reduce(x, op);
        return true;
    case TIR_mma: run_mma(x, op); return true;
    case TIR_transpose: run_transpose(x, op); return true;
    case TIR_join_blocks: case TIR_split_blocks: run_blocks(x, op); return true;
    default:
        memcpy(interp_value(x, op->result), interp_value(x, op->operands[0]),
               (size_t)type_of(x, op->result).rows * type_of(x, op->result).cols *
                   sizeof(int64_t));
        return op->opcode == TIR_relayout;
    }
}

bool interp_tile(struct interp *x, const struct tir_op *op)
{
    if (tir_ops[op->opcode].level != TIR_LEVEL_TILE || tir_ops[op->opcode].flags != TIR_PURE)
        return false;
    const struct tir_type t = type_of(x, op->result);
    const size_t bytes = (size_t)t.rows * t.cols * sizeof(int64_t);
    const bool all = x->active == (1u << x->f->waves) - 1;
    int64_t *const before = all ? NULL : tir_scratch(1, bytes);
    if (before)
        memcpy(before, interp_value(x, op->result), bytes);
    const bool ran = run_pure(x, op);
    if (before)
        keep_others(x, op->result, before);
    free(before);
    return ran;
}
