/* SPDX-License-Identifier: Apache-2.0
 *
 * This file computes the elementwise ops on integers.
 */
#include "ir/arith.h"

bool tir_is_int(unsigned dtype) { return dtype >= TIR_I1 && dtype <= TIR_I64; }

bool tir_is_float(unsigned dtype) { return dtype >= TIR_F16 && dtype <= TIR_FP8; }

int64_t tir_wrap(unsigned dtype, int64_t v)
{
    const unsigned bits = tir_dtype_bits(dtype);
    if (dtype == TIR_I1)
        return v & 1;
    if (bits >= 64)
        return v;
    const uint64_t sign = UINT64_C(1) << (bits - 1);
    const uint64_t low = (uint64_t)v & (2 * sign - 1);
    return (int64_t)((low ^ sign) - sign);
}

uint64_t tir_unsigned(unsigned dtype, int64_t v)
{
    const unsigned bits = tir_dtype_bits(dtype);
    return bits >= 64 ? (uint64_t)v : (uint64_t)v & ((UINT64_C(1) << bits) - 1);
}

/* Returns the greater of two integers. */
static int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

bool tir_commutes(unsigned opcode)
{
    switch (opcode) {
    case TIR_add:
    case TIR_mul:
    case TIR_min:
    case TIR_max:
    case TIR_and:
    case TIR_or:
    case TIR_xor:
    case TIR_cmp_eq:
    case TIR_cmp_ne: return true;
    default: return false;
    }
}

/* Sets *d to the division or shift `opcode` of a and b, integers of `dtype`. Returns false for
 * operands with undefined results. */
static bool eval_partial(unsigned opcode, unsigned dtype, int64_t a, int64_t b, int64_t *d)
{
    const uint64_t ua = tir_unsigned(dtype, a), ub = tir_unsigned(dtype, b);
    if (opcode == TIR_div || opcode == TIR_rem) {
        if (!ub)
            return false;
        *d = (int64_t)(opcode == TIR_div ? ua / ub : ua % ub);
        return true;
    }
    if (ub >= tir_dtype_bits(dtype))
        return false;
    if (opcode == TIR_shl)
        *d = (int64_t)(ua << ub);
    else if (opcode == TIR_shr)
        *d = (int64_t)(ua >> ub);
    else
        *d = a < 0 ? ~(~a >> ub) : a >> ub;
    return true;
}

bool tir_eval_int(unsigned opcode, unsigned dtype, const int64_t operands[3], int64_t *d)
{
    const int64_t a = operands[0], b = operands[1], c = operands[2];
    const uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    int64_t r;
    switch (opcode) {
    case TIR_dot2: *d = tir_eval_dot2(a, b, c); return true;
    case TIR_add: r = (int64_t)(ua + ub); break;
    case TIR_sub: r = (int64_t)(ua - ub); break;
    case TIR_mul: r = (int64_t)(ua * ub); break;
    case TIR_fma: r = (int64_t)(ua * ub + (uint64_t)c); break;
    case TIR_min: r = a < b ? a : b; break;
    case TIR_max: r = max_of(a, b); break;
    case TIR_max3: r = max_of(a, max_of(b, c)); break;
    case TIR_and: r = a & b; break;
    case TIR_or: r = a | b; break;
    case TIR_xor: r = a ^ b; break;
    case TIR_neg: r = (int64_t)(0 - ua); break;
    case TIR_abs: r = (int64_t)(a < 0 ? 0 - ua : ua); break;
    case TIR_cmp_eq: *d = a == b; return true;
    case TIR_cmp_ne: *d = a != b; return true;
    case TIR_cmp_lt: *d = a < b; return true;
    case TIR_cmp_le: *d = a <= b; return true;
    case TIR_cmp_gt: *d = a > b; return true;
    case TIR_cmp_ge: *d = a >= b; return true;
    case TIR_cmp_ult: *d = tir_unsigned(dtype, a) < tir_unsigned(dtype, b); return true;
    case TIR_div:
    case TIR_rem:
    case TIR_shl:
    case TIR_shr:
    case TIR_sar:
        if (!eval_partial(opcode, dtype, a, b, &r))
            return false;
        break;
    default: return false;
    }
    *d = tir_wrap(dtype, r);
    return true;
}
