/* SPDX-License-Identifier: Apache-2.0
 *
 * This file interprets ops that work element by element, and ops that move elements between
 * registers and lanes of a wave.
 */
#include "ir/interp_state.h"

#include <math.h>
#include <string.h>

#include "ir/arith.h"

/* Returns the type of value `v`. */
static struct tir_type type_of(const struct interp *x, struct tir_value v)
{
    return tir_typeof(x->f, v);
}

/* Returns the element of operand number `operand` from which element e of a result of type t is
 * computed. A scalar serves every element. */
static int64_t fetch(struct interp *x, const struct tir_op *op, unsigned operand, struct tir_type t,
                     unsigned wave, size_t e)
{
    const struct tir_type own = type_of(x, op->operands[operand]);
    const int64_t *const v = interp_value(x, op->operands[operand]);
    return own.kind == TIR_SCALAR ? v[wave] : v[interp_index(x, t, wave, e)];
}

/* Converts integer `v` of type `from` to type `to`; a float result is rounded from f32. */
static int64_t from_integer(struct tir_type from, struct tir_type to, int64_t v, bool fnuz)
{
    if (tir_is_int(to.dtype)) /* i1 sign-extends like every integer */
        return tir_wrap(to.dtype, from.dtype == TIR_I1 ? -v : v);
    return tir_from_float(to.dtype, (float)v, fnuz);
}

/* Returns the integer of the dtype that is nearest to `whole`. */
static int64_t saturated(unsigned dtype, float whole)
{
    const int bits = (int)tir_dtype_bits(dtype);
    const float end = ldexpf(1, bits - 1);
    if (whole >= end)
        return bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
    return whole < -end ? -(int64_t)(UINT64_C(1) << (bits - 1)) : (int64_t)whole;
}

/* Converts element `v`, an integer or the bits of a float, from type `from` to type `to`.
 * `rounding` is an enum tir_rounding. */
static int64_t converted(const struct interp *x, struct tir_type from, struct tir_type to,
                         int64_t v, int64_t rounding)
{
    const bool fnuz = x->f->machine->fp8_is_fnuz;
    if (tir_is_int(from.dtype))
        return from_integer(from, to, v, fnuz);
    const float f = tir_to_float(from.dtype, v, fnuz);
    if (rounding == TIR_TOWARD_ZERO)
        return tir_cut_float(to.dtype, f);
    if (!tir_is_int(to.dtype))
        return tir_from_float(to.dtype, f, fnuz);
    return isnan(f) ? 0 : saturated(to.dtype, nearbyintf(f));
}

/* Returns the number that the launch gives to a block, wave or lane, or the LDS base address. */
static int64_t launch_state(struct interp *x, const struct tir_op *op, unsigned wave, size_t e)
{
    switch (op->opcode) {
    case TIR_block_id: return x->block[op->imm[0]];
    case TIR_wave_id: return wave;
    case TIR_lane_id: return (int64_t)e;
    default: return op->imm[0]; /* lds_base: LDS begins at 0 */
    }
}

/* Returns the bits of a constant op in type `t`. */
static int64_t constant(const struct interp *x, const struct tir_op *op, struct tir_type t)
{
    if (op->opcode == TIR_const_int)
        return tir_wrap(t.dtype, op->imm[0]);
    return tir_from_float(t.dtype, tir_to_float(TIR_F32, op->imm[0], false),
                          x->f->machine->fp8_is_fnuz);
}

/* Reads a kernel argument from the bytes of the launch; reports a failure if these are too few. */
static int64_t argument(struct interp *x, const struct tir_op *op, struct tir_type t)
{
    const struct tir_arg *const arg = &x->f->args[op->imm[0]];
    const size_t bytes = tir_dtype_bits(arg->dtype) / 8;
    int64_t v = 0;
    if (arg->offset + bytes > x->kernarg_size || bytes > sizeof(v)) {
        interp_fail(x, "argument %s is beyond the %zu bytes given", arg->name, x->kernarg_size);
        return 0;
    }
    memcpy(&v, x->kernarg + arg->offset, bytes);
    return tir_is_int(t.dtype) ? tir_wrap(t.dtype, v) : v;
}

/* Computes element `e` of an elementwise op in one wave. */
static int64_t element(struct interp *x, const struct tir_op *op, struct tir_type t, unsigned wave,
                       size_t e)
{
    const bool fnuz = x->f->machine->fp8_is_fnuz;
    int64_t v[3] = {0}, d = 0;
    for (unsigned i = 0; i < op->n_operands; i++)
        v[i] = fetch(x, op, i, t, wave, e);
    const struct tir_type from = op->n_operands ? type_of(x, op->operands[0]) : t;
    switch (op->opcode) {
    case TIR_const_int:
    case TIR_const_float: return constant(x, op, t);
    case TIR_undef: return tir_is_int(t.dtype) ? 0 : tir_from_float(t.dtype, NAN, fnuz);
    case TIR_arg: return argument(x, op, t);
    case TIR_block_id:
    case TIR_wave_id:
    case TIR_lane_id:
    case TIR_lds_base: return launch_state(x, op, wave, e);
    case TIR_select: return v[0] ? v[1] : v[2];
    case TIR_convert: return converted(x, from, t, v[0], op->imm[2]);
    case TIR_zext: return tir_wrap(t.dtype, (int64_t)tir_unsigned(from.dtype, v[0]));
    case TIR_materialize:
    case TIR_splat: return v[0];
    }
    if (tir_is_int(from.dtype) ? !tir_eval_int(op->opcode, from.dtype, v, &d)
                               : !tir_eval_float(op->opcode, from.dtype, fnuz, v, &d))
        interp_fail(x, "has no value for these operands: %lld, %lld", (long long)v[0],
                    (long long)v[1]);
    return d;
}

/* True if each element of the result depends only on the same element of the operands. */
static bool is_elementwise(const struct tir_op *op)
{
    switch (op->opcode) {
    case TIR_const_int:
    case TIR_const_float:
    case TIR_undef:
    case TIR_arg:
    case TIR_block_id:
    case TIR_wave_id:
    case TIR_lane_id:
    case TIR_lds_base:
    case TIR_select:
    case TIR_convert:
    case TIR_zext:
    case TIR_materialize:
    case TIR_splat: return true;
    default: return op->opcode >= TIR_add && op->opcode <= TIR_cmp_ult;
    }
}

/* Returns `bits` bits, from `first_bit` on, of the little-endian string that consecutive elements
 * at v form. */
static uint64_t bits_of_elements(const int64_t *v, unsigned dtype, size_t first_bit, unsigned bits)
{
    const unsigned size = tir_dtype_bits(dtype);
    uint64_t r = 0;
    for (unsigned at = 0; at < bits; at += size < bits ? size : bits) {
        const size_t from = first_bit + at;
        const uint64_t e = tir_unsigned(dtype, v[from / size]) >> from % size;
        r |= e << at;
    }
    return bits < 64 ? r & ((UINT64_C(1) << bits) - 1) : r;
}

/* Copies bits between types; elements may be joined to wider ones or split into narrower ones. */
static void run_bitcast(struct interp *x, const struct tir_op *op)
{
    const struct tir_type from = type_of(x, op->operands[0]), to = type_of(x, op->result);
    const int64_t *const a = interp_value(x, op->operands[0]);
    int64_t *const d = interp_value(x, op->result);
    const unsigned bits = tir_dtype_bits(to.dtype);
    const unsigned from_bits = tir_dtype_bits(from.dtype);
    const bool joins = from.kind == TIR_TILE && from_bits < bits;
    const bool splits = from.kind == TIR_TILE && from_bits > bits;
    const size_t a_count = from.kind == TIR_VEC ? from.count : joins ? bits / from_bits : 1;
    const size_t d_count = to.kind == TIR_VEC ? to.count : splits ? from_bits / bits : 1;
    const size_t groups = x->f->waves * (from.kind == TIR_TILE  ? to.rows * to.cols / d_count
                                         : from.kind == TIR_VEC ? interp_lanes(x)
                                                                : 1);
    for (size_t g = 0; g < groups; g++)
        for (size_t i = 0; i < d_count; i++) {
            const uint64_t v = bits_of_elements(a + g * a_count, from.dtype, i * bits, bits);
            d[g * d_count + i] = tir_is_int(to.dtype) ? tir_wrap(to.dtype, (int64_t)v) : (int64_t)v;
        }
}

bool interp_elementwise(struct interp *x, const struct tir_op *op)
{
    if (op->opcode == TIR_bitcast) {
        run_bitcast(x, op);
        return true;
    }
    if (!is_elementwise(op))
        return false;
    const struct tir_type t = type_of(x, op->result);
    const size_t n = interp_wave_elements(x, t);
    int64_t *const d = interp_value(x, op->result);
    for (unsigned w = 0; w < x->f->waves; w++)
        for (size_t e = 0; interp_runs(x, w) && e < n && !x->failed; e++)
            d[interp_index(x, t, w, e)] = element(x, op, t, w, e);
    return true;
}

/* The functions from here on run ops on the registers of one lane. */

/* Concatenates the operands' elements in one lane. */
static void run_concat(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const unsigned count = type_of(x, op->result).count;
    int64_t *d = interp_value(x, op->result) + (size_t)lane * count;
    for (unsigned i = 0; i < op->n_operands; i++) {
        const unsigned part = type_of(x, op->operands[i]).count;
        memcpy(d, interp_value(x, op->operands[i]) + (size_t)lane * part, part * sizeof(*d));
        d += part;
    }
}

/* Selects four bytes from two 32-bit operands in one lane, like v_perm_b32. */
static void run_byte_perm(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const struct tir_type t = type_of(x, op->result);
    const size_t at = (size_t)lane * t.count;
    const unsigned size = tir_dtype_bits(t.dtype);
    const uint64_t bytes = bits_of_elements(interp_value(x, op->operands[1]) + at, t.dtype, 0, 32) |
                           bits_of_elements(interp_value(x, op->operands[0]) + at, t.dtype, 0, 32)
                               << 32;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned from = op->imm[0] >> 8 * i & 0xff;
        if (from > 7)
            interp_fail(x, "selector byte %u", from);
        r |= (uint32_t)(bytes >> 8 * (from & 7) & 0xff) << 8 * i;
    }
    for (unsigned i = 0; i < t.count; i++) {
        const int64_t v = (int64_t)(r >> i * size & (size < 32 ? (1u << size) - 1 : ~0u));
        interp_value(x, op->result)[at + i] = tir_is_int(t.dtype) ? tir_wrap(t.dtype, v) : v;
    }
}

/* Converts two elements of one lane to a pair of a shorter type. */
static void run_convert_pair(struct interp *x, const struct tir_op *op, unsigned lane)
{
    const struct tir_type t = type_of(x, op->result);
    const struct tir_type from = type_of(x, op->operands[0]);
    for (unsigned i = 0; i < 2; i++)
        interp_value(x, op->result)[lane * 2 + i] =
            converted(x, from, t, interp_value(x, op->operands[i])[lane], op->imm[1]);
}

/* Adds the products of two bf16 pairs to an f32 in one lane. */
static void run_dot_pair(struct interp *x, const struct tir_op *op, unsigned lane)
{
    float product[2];
    for (unsigned i = 0; i < 2; i++)
        product[i] = tir_to_float(TIR_BF16, interp_value(x, op->operands[0])[lane * 2 + i], false) *
                     tir_to_float(TIR_BF16, interp_value(x, op->operands[1])[lane * 2 + i], false);
    const float sum = product[0] + product[1];
    const float c = tir_to_float(TIR_F32, interp_value(x, op->operands[2])[lane], false);
    interp_value(x, op->result)[lane] = tir_from_float(TIR_F32, sum + c, false);
}

/* Takes the greatest of three f16 in each half of a 32-bit word of one lane. */
static void run_max3_pair(struct interp *x, const struct tir_op *op, unsigned lane)
{
    int64_t both = 0;
    for (unsigned shift = 0; shift < 32; shift += 16) {
        uint16_t most = 0;
        float top = -INFINITY;
        for (unsigned i = 0; i < 3; i++) {
            const int64_t word = interp_value(x, op->operands[i])[lane];
            const uint16_t half = (uint16_t)(word >> shift);
            const float v = tir_to_float(TIR_F16, half, false);
            if (isnan(top) || v < top)
                continue;
            most = half;
            top = v;
        }
        both |= (int64_t)most << shift;
    }
    interp_value(x, op->result)[lane] = tir_wrap(TIR_I32, both);
}

/* Returns the lane from which a lane's result comes, and sets *operand to the number of the
 * operand. */
static unsigned source_lane(struct interp *x, const struct tir_op *op, unsigned wave, unsigned lane,
                            unsigned *operand)
{
    *operand = 0;
    if (op->opcode == TIR_lane_xor)
        return lane ^ (unsigned)op->imm[0];
    if (op->opcode == TIR_lane_gather) {
        *operand = 1;
        return (unsigned)interp_value(x, op->operands[0])[wave * interp_lanes(x) + lane] / 4 %
               interp_lanes(x);
    }
    /* Swap: the upper halves of a are exchanged with the lower halves of b. */
    const unsigned half = (unsigned)op->imm[0];
    const bool upper = lane & half, second = op->imm[1];
    *operand = upper;
    return upper == second ? lane : lane ^ half;
}

/* Copies each lane's elements from the lane that the op selects. */
static void run_lanes(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const unsigned count = type_of(x, op->result).count;
    for (unsigned lane = 0; lane < interp_lanes(x); lane++) {
        unsigned operand;
        const unsigned from = source_lane(x, op, wave, lane, &operand);
        memcpy(interp_value(x, op->result) + ((size_t)wave * interp_lanes(x) + lane) * count,
               interp_value(x, op->operands[operand]) +
                   ((size_t)wave * interp_lanes(x) + from) * count,
               count * sizeof(int64_t));
    }
}

/* Computes whether any element of a wave's operand is nonzero. */
static void run_any(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const struct tir_type t = type_of(x, op->operands[0]);
    const size_t n = interp_wave_elements(x, t);
    int64_t any = 0;
    for (size_t e = 0; e < n; e++)
        any |= interp_value(x, op->operands[0])[interp_index(x, t, wave, e)];
    interp_value(x, op->result)[wave] = any;
}

/* Counts the nonzero elements of a wave's operand. */
static void run_lane_count(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const struct tir_type t = type_of(x, op->operands[0]);
    const size_t n = interp_wave_elements(x, t);
    int64_t count = 0;
    for (size_t e = 0; e < n; e++)
        count += interp_value(x, op->operands[0])[interp_index(x, t, wave, e)] != 0;
    interp_value(x, op->result)[wave] = count;
}

/* Builds the mask of the first register of all lanes. */
static void run_lane_mask(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const struct tir_type t = type_of(x, op->operands[0]);
    const size_t regs = interp_wave_elements(x, t) / interp_lanes(x);
    uint64_t mask = 0;
    for (size_t lane = 0; lane < interp_lanes(x); lane++)
        if (interp_value(x, op->operands[0])[interp_index(x, t, wave, lane * regs)])
            mask |= UINT64_C(1) << lane;
    interp_value(x, op->result)[wave] = (int64_t)mask;
}

/* Reads the first register of one lane. */
static void run_lane_read(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const struct tir_type t = type_of(x, op->operands[0]);
    const size_t regs = interp_wave_elements(x, t) / interp_lanes(x);
    const int64_t lane = interp_scalar(x, op, 1, wave);
    if (lane < 0 || lane >= (int64_t)interp_lanes(x)) {
        interp_fail(x, "reads lane %lld", (long long)lane);
        return;
    }
    interp_value(x, op->result)[wave] =
        interp_value(x, op->operands[0])[interp_index(x, t, wave, (size_t)lane * regs)];
}

/* Computes sums over the lower-numbered lanes, register by register. A lane mask counts as 0 and
 * 1. */
static void run_below(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const struct tir_type from = type_of(x, op->operands[0]), to = type_of(x, op->result);
    const size_t regs = interp_wave_elements(x, from) / interp_lanes(x);
    for (size_t r = 0; r < regs; r++) {
        int64_t sum = 0;
        for (size_t lane = 0; lane < interp_lanes(x); lane++) {
            const size_t e = lane * regs + r;
            const int64_t own = interp_value(x, op->operands[0])[interp_index(x, from, wave, e)];
            interp_value(x, op->result)[interp_index(x, to, wave, e)] = tir_wrap(TIR_I32, sum);
            sum += op->opcode == TIR_lanes_below ? own != 0 : own;
        }
    }
}

/* The packed (row, col) that each register and each lane contributes. Layouts are linear, so the
 * xor of both is the position of an element. */
struct places {
    uint32_t reg[64], lane[TIR_WAVE_LANES];
};

/* Returns the packed row and column that each register bit pattern and each lane contributes to
 * layout `l`. */
static struct places places_of(const struct tir_layout *l)
{
    struct places p;
    for (unsigned r = 0; r < 1u << l->reg_bits; r++)
        p.reg[r] = tir_layout_apply(l, r, 0, 0);
    for (unsigned lane = 0; lane < 1u << l->lane_bits; lane++)
        p.lane[lane] = tir_layout_apply(l, 0, lane, 0);
    return p;
}

/* Stores an operand of one wave as a matrix: element (row, col) is at out[row * cols + col]. */
static void gather_matrix(struct interp *x, const struct tir_op *op, unsigned operand,
                          const struct tir_layout *l, unsigned cols, unsigned wave, float *out)
{
    const struct tir_type t = type_of(x, op->operands[operand]);
    const int64_t *const v = interp_value(x, op->operands[operand]);
    const struct places places = places_of(l);
    for (unsigned lane = 0; lane < interp_lanes(x); lane++)
        for (unsigned r = 0; r < t.count; r++) {
            const uint32_t rc = places.reg[r] ^ places.lane[lane];
            out[tir_rc_row(rc) * cols + tir_rc_col(rc)] =
                tir_to_float(t.dtype, v[((size_t)wave * interp_lanes(x) + lane) * t.count + r],
                             x->f->machine->fp8_is_fnuz);
        }
}

/* Writes the product `d` (row-major) to the registers that hold it after matrix instruction `m`. */
static void scatter_product(struct interp *x, const struct tir_op *op, const struct tir_mma *m,
                            unsigned wave, const float *d)
{
    const unsigned count = type_of(x, op->result).count;
    const struct places places = places_of(&m->d);
    for (unsigned lane = 0; lane < interp_lanes(x); lane++)
        for (unsigned r = 0; r < count; r++) {
            const uint32_t rc = places.reg[r] ^ places.lane[lane];
            interp_value(x, op->result)[((size_t)wave * interp_lanes(x) + lane) * count + r] =
                tir_from_float(m->acc_dtype, d[tir_rc_row(rc) * m->n + tir_rc_col(rc)], false);
        }
}

/* Runs a matrix instruction for one wave, if its size fits the interpreter's arrays. */
static void run_mfma(struct interp *x, const struct tir_op *op, unsigned wave)
{
    enum { MAX_SIDE = 32, MAX_K = 128 };
    const struct tir_mma *const m = &x->f->machine->mma[op->imm[0]];
    float a[MAX_SIDE * MAX_K], b[MAX_K * MAX_SIDE], d[MAX_SIDE * MAX_SIDE];
    if (m->m > MAX_SIDE || m->n > MAX_SIDE || m->k > MAX_K || !tir_is_float(m->in_dtype) ||
        !tir_is_float(m->acc_dtype)) {
        interp_fail(x, "%s is beyond the interpreter", m->name);
        return;
    }
    gather_matrix(x, op, 0, &m->a, m->k, wave, a);
    gather_matrix(x, op, 1, &m->b, m->n, wave, b);
    gather_matrix(x, op, 2, &m->d, m->n, wave, d);
    for (unsigned i = 0; i < m->m; i++)
        for (unsigned k = 0; k < m->k; k++)
            for (unsigned j = 0; j < m->n; j++)
                d[i * m->n + j] = fmaf(a[i * m->k + k], b[k * m->n + j], d[i * m->n + j]);
    scatter_product(x, op, m, wave, d);
}

/* Most rows or columns, and most elements, of an operand of a scaled instruction. */
enum { MX_SIDE = 32, MX_ELEMENTS = 2048 };

/* Stores operand 0 or 1 of a scaled instruction, outer index first, multiplied by its scales. The
 * scale of a block of k is in the lanes whose bits above the outer index number the block. */
static void gather_scaled(struct interp *x, const struct tir_op *op, unsigned operand,
                          unsigned wave, double out[MX_ELEMENTS])
{
    const struct tir_mma *const m = &x->f->machine->mma[op->imm[0]];
    const struct tir_type t = type_of(x, op->operands[operand]);
    const struct tir_type of_scale = type_of(x, op->operands[3 + operand]);
    const struct tir_layout l = operand ? tir_layout_transpose(&m->b) : m->a;
    const struct places places = places_of(&l);
    const int64_t *const v = interp_value(x, op->operands[operand]);
    const int64_t *const scales = interp_value(x, op->operands[3 + operand]);
    const unsigned format = operand ? m->right_format : m->left_format;
    const unsigned pair = format == TIR_MX_E2M1, byte = (unsigned)op->imm[1 + operand];
    for (unsigned lane = 0; lane < interp_lanes(x); lane++)
        for (unsigned e = 0; e < (unsigned)t.count << pair; e++) {
            const uint32_t rc = places.reg[e >> pair] ^ places.lane[lane];
            const unsigned i = tir_rc_row(rc), k = (tir_rc_col(rc) << pair) + (e & pair);
            const size_t from = (size_t)wave * interp_lanes(x) + i + m->m * (k / TIR_MX_BLOCK);
            const int64_t scale = of_scale.kind == TIR_SCALAR
                                      ? scales[wave] >> (8 * byte)
                                      : scales[from * of_scale.count + byte];
            out[i * m->k + k] = tir_mx_value(
                format, v[((size_t)wave * interp_lanes(x) + lane) * t.count + (e >> pair)],
                e & pair, (unsigned)scale & UINT8_MAX);
        }
}

/* Runs a matrix instruction with block scales for one wave, if its size fits the interpreter's
 * arrays. */
static void run_mfma_scaled(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const struct tir_mma *const m = &x->f->machine->mma[op->imm[0]];
    double a[MX_ELEMENTS], b[MX_ELEMENTS];
    float d[MX_SIDE * MX_SIDE];
    if (m->m > MX_SIDE || m->m * m->k > MX_ELEMENTS) {
        interp_fail(x, "%s is beyond the interpreter", m->name);
        return;
    }
    gather_scaled(x, op, 0, wave, a);
    gather_scaled(x, op, 1, wave, b);
    gather_matrix(x, op, 2, &m->d, m->n, wave, d);
    for (unsigned i = 0; i < m->m; i++)
        for (unsigned j = 0; j < m->n; j++)
            for (unsigned k = 0; k < m->k; k++)
                d[i * m->n + j] = (float)(d[i * m->n + j] + a[i * m->k + k] * b[j * m->k + k]);
    scatter_product(x, op, m, wave, d);
}

/* Returns scalar `v` (an i32) as a wave has it, but with sums and products that do not wrap. */
static double unwrapped(struct interp *x, struct tir_value v, unsigned wave)
{
    const struct tir_ref def = x->f->values[v.id].def;
    const int64_t own = interp_value(x, v)[wave];
    if (!def.id)
        return (double)own;
    const struct tir_op *const op = tir_op(x->f, def);
    const struct tir_value *const from = op->operands;
    switch (op->opcode) {
    case TIR_add: return unwrapped(x, from[0], wave) + unwrapped(x, from[1], wave);
    case TIR_mul: return unwrapped(x, from[0], wave) * unwrapped(x, from[1], wave);
    case TIR_select: return unwrapped(x, from[interp_value(x, from[0])[wave] ? 1 : 2], wave);
    default: return (double)own;
    }
}

/* Makes a buffer resource. Its size may not wrap: it would then be smaller than the rows that the
 * kernel means. */
static void run_make_rsrc(struct interp *x, const struct tir_op *op, unsigned wave)
{
    const double bytes = unwrapped(x, op->operands[1], wave);
    if (bytes > UINT32_MAX)
        interp_fail(x, "a buffer resource of %.0f bytes", bytes);
    interp_value(x, op->result)[2 * wave] = interp_scalar(x, op, 0, wave);
    interp_value(x, op->result)[2 * wave + 1] =
        (int64_t)tir_unsigned(TIR_I32, interp_scalar(x, op, 1, wave));
}

/* Runs `op` for one wave if it works across lanes; returns false for all other ops. */
static bool run_wave(struct interp *x, const struct tir_op *op, unsigned wave)
{
    switch (op->opcode) {
    case TIR_lane_swap:
    case TIR_lane_gather:
    case TIR_lane_xor: run_lanes(x, op, wave); return true;
    case TIR_any: run_any(x, op, wave); return true;
    case TIR_lane_count: run_lane_count(x, op, wave); return true;
    case TIR_lane_mask: run_lane_mask(x, op, wave); return true;
    case TIR_lane_read: run_lane_read(x, op, wave); return true;
    case TIR_lanes_below:
    case TIR_lane_sum_below: run_below(x, op, wave); return true;
    case TIR_first_lane:
        interp_value(x, op->result)[wave] =
            interp_value(x, op->operands[0])[interp_index(x, type_of(x, op->operands[0]), wave, 0)];
        return true;
    case TIR_make_rsrc: run_make_rsrc(x, op, wave); return true;
    case TIR_mfma: run_mfma(x, op, wave); return true;
    case TIR_mfma_scaled: run_mfma_scaled(x, op, wave); return true;
    default: return false;
    }
}

/* Runs `op` for one lane if it works on the elements of one lane; returns false for all other
 * ops. */
static bool run_lane(struct interp *x, const struct tir_op *op, unsigned lane)
{
    switch (op->opcode) {
    case TIR_extract: {
        const size_t from = type_of(x, op->operands[0]).count, n = type_of(x, op->result).count;
        memcpy(interp_value(x, op->result) + lane * n,
               interp_value(x, op->operands[0]) + lane * from + op->imm[0], n * sizeof(int64_t));
        return true;
    }
    case TIR_concat: run_concat(x, op, lane); return true;
    case TIR_convert_pair: run_convert_pair(x, op, lane); return true;
    case TIR_byte_perm: run_byte_perm(x, op, lane); return true;
    case TIR_dot_pair: run_dot_pair(x, op, lane); return true;
    case TIR_max3_pair: run_max3_pair(x, op, lane); return true;
    default: return false;
    }
}

bool interp_registers(struct interp *x, const struct tir_op *op)
{
    for (unsigned w = 0; w < x->f->waves; w++) {
        if (!interp_runs(x, w) || run_wave(x, op, w))
            continue;
        for (unsigned lane = w * interp_lanes(x); lane < (w + 1) * interp_lanes(x); lane++)
            if (!run_lane(x, op, lane))
                return false;
    }
    return true;
}
