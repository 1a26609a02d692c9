/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of cache rows that contain scales, and conversions of their elements and scales. */
#include "templates/cache/cache.h"
#include "templates/cache/e2m1.h"
#include "templates/workgroup/fp8.h"
#include "templates/workgroup/scalar.h"

enum { MANTISSA_BITS = 23 /* number of mantissa bits of f32 */ };

enum format {
    PACKED_F32,
    PACKED_E8M0,
    SCALES_LAST,
    PLANES,
    PACKED_FP4,
    PACKED_MXFP4,
    PACKED_MXFP8,
    N_FORMATS,
};

/* Columns: bits, scaled, run, scale, copies, scales, rotated, in_value, bytes, least, second. */
static const struct att_row_format formats[N_FORMATS] = {
    [PACKED_F32] = {8, 512, 128, ATT_ROW_F32, 1, 512, 528, false, 656, 1e-12f, NULL},
    [PACKED_E8M0] = {8, 512, 32, ATT_ROW_E8M0, 1, 512, 528, false, 656, 1e-12f, NULL},
    [SCALES_LAST] = {8, 448, 64, ATT_ROW_E8M0, 1, ATT_AFTER_ROWS, 448, true, ATT_MIXED_ROW, 1e-4f,
                     NULL},
    [PLANES] = {8, 448, 64, ATT_ROW_E8M0, 2, 448, ATT_OWN_PLANE, true, ATT_PLANE_ROW, 1e-4f, NULL},
    [PACKED_FP4] = {4, 512, 16, ATT_ROW_FP8, 1, 256, 0, true, 288, 0x1p-6f, &formats[PACKED_MXFP8]},
    [PACKED_MXFP4] = {4, 512, 32, ATT_ROW_E8M0, 1, 256, 0, true, 272, 1e-12f,
                      &formats[PACKED_MXFP8]},
    [PACKED_MXFP8] = {8, 512, 32, ATT_ROW_E8M0, 1, 512, 0, true, 528, 1e-12f, NULL},
};

const struct att_row_format *att_row_format(const struct att_variant *v)
{
    const bool e8m0 = v->kv_scale == ATT_KV_SCALE_E8M0;
    switch (v->kv_layout) {
    case ATT_KV_LAYOUT_PACKED: return &formats[e8m0 ? PACKED_E8M0 : PACKED_F32];
    case ATT_KV_LAYOUT_SCALES_LAST: return &formats[SCALES_LAST];
    case ATT_KV_LAYOUT_PLANES: return &formats[PLANES];
    case ATT_KV_LAYOUT_PACKED_FP4: return &formats[PACKED_FP4];
    case ATT_KV_LAYOUT_PACKED_MXFP4: return &formats[PACKED_MXFP4];
    case ATT_KV_LAYOUT_PACKED_MXFP8: return &formats[PACKED_MXFP8];
    default: return NULL;
    }
}

float att_row_largest(const struct att_row_format *rows, const struct tir_machine *m)
{
    enum { LARGEST_E2M1 = 6 };
    return rows->bits == 4 ? LARGEST_E2M1 : att_largest_fp8(m);
}

bool att_is_packed(const struct att_variant *v) { return att_row_format(v); }

bool att_is_pooled(const struct att_variant *v)
{
    const struct att_row_format *const rows = att_row_format(v);
    return rows && rows->in_value;
}

bool att_has_e2m1_rows(const struct att_variant *v)
{
    const struct att_row_format *const rows = att_row_format(v);
    return rows && rows->bits == 4;
}

/* ---- Scales of packed rows: their type, from and to f32 ---- */

unsigned att_packed_scale_dtype(const struct att_cache *c)
{
    static const unsigned dtypes[] = {
        [ATT_ROW_F32] = TIR_F32,
        [ATT_ROW_E8M0] = TIR_I8,
        [ATT_ROW_FP8] = TIR_FP8,
    };
    return dtypes[c->rows->scale];
}

/* Returns `scale` (f32) in the type in which the cache's rows contain scales. */
static struct tir_value encode(const struct att_cache *c, struct tir_value scale)
{
    struct tir_builder *b = c->b;
    if (c->rows->scale == ATT_ROW_F32)
        return scale;
    if (c->rows->scale == ATT_ROW_FP8)
        return tir_convert(b, scale, TIR_FP8);
    const struct tir_value bits =
        tir_bitcast(b, scale, tir_with_dtype(tir_typeof(b->f, scale), TIR_I32));
    return tir_convert(b, tir_shr(b, bits, tir_int_like(b, bits, MANTISSA_BITS)), TIR_I8);
}

struct tir_value att_packed_decode(const struct att_cache *c, struct tir_value stored)
{
    struct tir_builder *b = c->b;
    if (c->rows->scale != ATT_ROW_E8M0)
        return tir_convert(b, stored, TIR_F32);
    const struct tir_value e = tir_zext(b, stored, TIR_I32);
    return tir_bitcast(b, tir_shl(b, e, tir_int_like(b, e, MANTISSA_BITS)),
                       tir_with_dtype(tir_typeof(b->f, e), TIR_F32));
}

/* ---- Elements of packed rows, quantised with a scale for each run ---- */

/* Returns the scale (f32) of a run whose largest magnitude is `absmax` (f32). An e8m0 scale is
 * rounded up to a power of 2, an fp8 scale is not rounded yet. */
static struct tir_value scale_of(const struct att_cache *c, struct tir_value absmax)
{
    struct tir_builder *b = c->b;
    const struct tir_value scale = att_cache_scale_of(c, absmax);
    if (c->rows->scale == ATT_ROW_F32)
        return scale;
    const struct tir_value most = tir_max(b, scale, tir_float_like(b, scale, c->rows->least));
    return c->rows->scale == ATT_ROW_E8M0 ? att_power_above(b, most) : most;
}

struct att_run_scales att_run_scales(const struct att_cache *c, struct tir_value absmax)
{
    struct tir_value scale = scale_of(c, absmax);
    const struct tir_value stored = encode(c, scale);
    if (c->rows->scale == ATT_ROW_FP8)
        scale = att_packed_decode(c, stored);
    return (struct att_run_scales){.stored = stored, .inverse = att_cache_inverse(c, scale)};
}

struct att_packed att_pack(const struct att_cache *c, struct tir_value x)
{
    struct tir_builder *b = c->b;
    const unsigned rows = tir_typeof(b->f, x).rows;
    const struct tir_value runs = tir_split_blocks(b, x, (unsigned)c->rows->run);
    const struct att_run_scales scales = att_run_scales(c, att_absmax(b, runs));
    const struct tir_value inverse = scales.inverse;
    struct att_packed packed = {.scales = scales.stored};
    if (c->rows->bits == 4)
        packed.elements = att_e2m1_bytes(b, tir_join_blocks(b, att_scaled(b, runs, inverse), rows));
    else
        packed.elements = tir_join_blocks(b, att_cache_quantise(c, runs, inverse), rows);
    return packed;
}

struct tir_value att_unpack(const struct att_cache *c, struct tir_value a, struct tir_value scale,
                            unsigned dtype)
{
    struct tir_builder *b = c->b;
    const unsigned rows = tir_typeof(b->f, a).rows;
    const struct tir_value runs =
        tir_split_blocks(b, a, (unsigned)att_row_bytes(c->rows, c->rows->run));
    if (c->rows->bits == 4)
        return tir_join_blocks(b, att_e2m1_elements(b, runs, scale, dtype), rows);
    const struct tir_value x = att_scaled(b, tir_convert(b, runs, TIR_F32), scale);
    return tir_join_blocks(b, tir_convert(b, x, dtype), rows);
}
