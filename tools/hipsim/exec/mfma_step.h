/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a fused step in a vector of columns: C is aligned with the sum of the products and
 * added. The exponents are biased and in the position of binary32's field. */
#ifndef HIPSIM_MFMA_STEP_H
#define HIPSIM_MFMA_STEP_H

#include "mfma_vec.h"

/* Range of a step's exponents that vectors can compute. */
#define E_MIN (-100)
#define E_MAX 122
#define E_NEAR 24 /* up to this exponent of a step, scaling makes no C zero */
#define BIAS 132  /* binary32's bias, plus the 5 by which C's exponent may exceed the step's */

/* Moves biased exponents to the position of binary32's exponent field; bit 31 stays 0. */
static inline vec_i in_place(const uint8_t *e, unsigned part)
{
    return vec_shl(widen_ub(e, part), 23);
}

/* Returns 2^(exponent + x), where `e` is x with BIAS added, moved by in_place(). */
static inline vec_f power(int exponent, vec_i e)
{
    return (vec_f)vec_add(e, (vec_i){0} + (exponent + 127 - BIAS) * (1 << 23));
}

/* Returns 2^(exponent - x), where `e` is x with BIAS added, moved by in_place(). */
static inline vec_f inverse_power(int exponent, vec_i e)
{
    return (vec_f)((uint32_t)(exponent + 127 + BIAS) * (1u << 23) - (vec_u)e);
}

/* Returns floor(c * up), where `up` is a power of two. Two-stage formats drop a C that is less than
 * half of the last bit. `far`: the product may underflow to zero. */
static inline vec_i floor_c(vec_f c, vec_f up, bool two_stage, bool far)
{
    const vec_f scaled = c * up;
    const vec_i whole = vec_floor(scaled);

    if (two_stage)
        return whole & ((vec_f)((vec_i)scaled & 0x7fffffff) >= vec_f_from(0.5f));
    if (__builtin_expect(far, 0))
        return vec_add(whole, (scaled == vec_f_from(0)) & (c < vec_f_from(0)));
    return whole;
}

/*
 * Returns the sum in units that are 2^by times as large. The hardware keeps 2 more bits and rounds
 * down there; this function merges all lower bits into the last one, which is rounding to odd.
 */
static inline vec_i lower_sum(vec_i sum, vec_i by, bool two_stage)
{
    if (!two_stage) /* the sum's two highest bits are unused */
        return vec_quarter_to_odd(vec_shr(vec_shl(sum, 2), by));
    vec_i more = by - 2, kept = 2 + (more & (more < 0));
    vec_i q = vec_shr(sum, more & ~(more < 0)), mask = kept + (kept >> 1);
    return vec_shr(q | ((q & mask) + mask), kept);
}

#define FIELD 0x7f800000

/* Returns c + sum * 2^(x - 24), aligned and rounded like the hardware, where `e` is x in the form
 * of in_place(). c is finite. */
static inline vec_f add_c(vec_f c, vec_i sum, vec_i e, bool two_stage, bool far)
{
    /* the larger of e and ec - 5, as the bias 132 makes it */
    const vec_i top = vec_max_i((vec_i)c & FIELD, e);
    const vec_u over = ((vec_u)top - (vec_u)e) >> 23;

    sum = lower_sum(sum, (vec_i)over, two_stage);
    return vec_to_f(vec_add(sum, floor_c(c, inverse_power(24, top), two_stage, far))) *
           power(-24, top);
}

#endif
