/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/linear/norm.h"

#include "templates/linear/gates.h"

#include <float.h>

/* Returns the variant's activation of `z` (f32): its sigmoid or its SiLU. */
static struct tir_value gate_of(struct tir_builder *b, const struct att_variant *v,
                                struct tir_value z)
{
    return v->act == ATT_ACT_SIGMOID ? att_sigmoid(b, z) : att_silu(b, z);
}

struct tir_value att_norm_over_rows(struct tir_builder *b, const struct tir_value *x, unsigned n,
                                    bool largest)
{
    struct tir_value all = {0};
    for (unsigned i = 0; i < n; i++) {
        struct tir_value some = largest ? tir_abs(b, x[i]) : tir_mul(b, x[i], x[i]);
        const unsigned width = tir_typeof(b->f, x[i]).cols;
        for (; i + 1 < n && tir_typeof(b->f, x[i + 1]).cols == width; i++)
            some = largest ? tir_max(b, some, tir_abs(b, x[i + 1]))
                           : tir_fma(b, x[i + 1], x[i + 1], some);
        some = largest ? tir_row_max(b, some) : tir_row_sum(b, some);
        all = !all.id ? some : largest ? tir_max(b, all, some) : tir_add(b, all, some);
    }
    return all;
}

struct tir_value att_norm_inverse_root(struct tir_builder *b, struct tir_value sum,
                                       struct tir_value share)
{
    const struct tir_value eps = att_arg_like(b, ARG_EPS, sum);
    const struct tir_value mean = tir_fma(b, sum, share, eps);
    return tir_rsq(b, tir_max(b, mean, tir_float_like(b, mean, FLT_MIN)));
}

struct tir_value att_norm_inverse_rms(struct tir_builder *b, int width, const struct tir_value *x,
                                      unsigned n)
{
    const struct tir_value sum = att_norm_over_rows(b, x, n, false);
    return att_norm_inverse_root(b, sum, tir_float_like(b, sum, 1.0f / (float)width));
}

void att_norm_gates(struct tir_builder *b, const struct att_variant *v, unsigned n,
                    struct tir_value *y, const struct tir_value *z, struct tir_value *gates)
{
    for (unsigned i = 0; v->act != ATT_ACT_NONE && i < n; i++) {
        gates[i] = gate_of(b, v, tir_convert(b, z[i], TIR_F32));
        if (v->act == ATT_ACT_SILU_FIRST)
            y[i] = tir_mul(b, y[i], gates[i]);
    }
}

void att_norm_scale(struct tir_builder *b, const struct att_variant *v, unsigned n,
                    struct tir_value *y, struct tir_value rms, const struct tir_value *gates,
                    const struct tir_value *w)
{
    const bool gated = v->act != ATT_ACT_NONE && v->act != ATT_ACT_SILU_FIRST;
    for (unsigned i = 0; i < n; i++) {
        y[i] = tir_mul(b, att_scaled(b, y[i], rms), w[i]);
        if (gated)
            y[i] = tir_mul(b, y[i], gates[i]);
    }
}

void att_norm_apply(struct tir_builder *b, const struct att_variant *v, int width, unsigned n,
                    struct tir_value *y, const struct tir_value *z, const struct tir_value *w)
{
    struct tir_value gates[ATT_NORM_PANELS];
    att_norm_gates(b, v, n, y, z, gates);
    att_norm_scale(b, v, n, y, att_norm_inverse_rms(b, width, y, n), gates, w);
}
