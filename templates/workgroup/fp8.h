/* SPDX-License-Identifier: Apache-2.0
 *
 * This file has the arithmetic of fp8 numbers with a scale, in the range of the target's fp8: OCP
 * E4M3, or the form without negative zero (fnuz) of CDNA3.
 */
#ifndef TEMPLATES_WORKGROUP_FP8_H
#define TEMPLATES_WORKGROUP_FP8_H

#include "ir/builder.h"
#include "ir/machine.h"
#include "templates/workgroup/scalar.h"

/** Returns the largest finite number of the target's fp8 format. */
static inline float att_largest_fp8(const struct tir_machine *m)
{
    return m->fp8_is_fnuz ? 240.0f : 448.0f;
}

/** Returns the scale (f32) for numbers of magnitudes up to `absmax`, a tile: absmax / largest
 * finite fp8. */
static inline struct tir_value att_fp8_scale(struct tir_builder *b, struct tir_value absmax)
{
    const float inverse = 1 / att_largest_fp8(b->f->machine);
    return tir_mul(b, absmax, tir_float_like(b, absmax, inverse));
}

/** Returns for each element of `scale` (f32, not negative) the least power of two that is not less
 * than the element. Adds 1 to the exponent unless the mantissa's bits are 0, and clears the
 * mantissa. */
static inline struct tir_value att_power_above(struct tir_builder *b, struct tir_value scale)
{
    const struct tir_type t = tir_typeof(b->f, scale);
    const struct tir_value bits = tir_bitcast(b, scale, tir_with_dtype(t, TIR_I32));
    const struct tir_value up = tir_and(b, tir_add(b, bits, tir_int_like(b, bits, 0x7fffff)),
                                        tir_int_like(b, bits, -0x800000));
    return tir_bitcast(b, up, t);
}

/** Returns the scale (f32) for numbers of magnitudes up to `absmax`, a tile: att_fp8_scale() of at
 * least 1e-4. If argument round_scales is not 0, the scale is rounded up to a power of two. */
static inline struct tir_value att_fp8_rounded_scale(struct tir_builder *b, struct tir_value absmax)
{
    const struct tir_value most = tir_max(b, absmax, tir_float_like(b, absmax, 1e-4f));
    const struct tir_value scale = att_fp8_scale(b, most);
    const struct tir_value round =
        tir_cmp_ne(b, tir_arg(b, ARG_ROUND_SCALES, TIR_I32), tir_i32(b, 0));
    return tir_select(b, round, att_power_above(b, scale), scale);
}

/** Returns x / scale (f32, broadcast) as fp8. No |x| may exceed scale times the largest fp8. A
 * scale below 1e-12 counts as 1e-12. */
static inline struct tir_value att_fp8_divide(struct tir_builder *b, struct tir_value x,
                                              struct tir_value scale)
{
    const struct tir_value least = tir_float_like(b, scale, 1e-12f);
    const struct tir_value inverse = tir_rcp(b, tir_max(b, scale, least));
    const struct tir_value small = att_scaled(b, x, inverse);
    return tir_convert_in_range(b, small, TIR_FP8);
}

#endif
