/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores of the scales of a cache's elements that are in a tensor of their own. */
#include "templates/cache/cache.h"
#include "templates/workgroup/scalar.h"

struct tir_value att_cache_load_scales(const struct att_cache *c, struct tir_value row)
{
    const struct tir_type t = tir_with_dtype(tir_typeof(c->b->f, row), TIR_F32);
    return tir_tile_gather(c->b, c->scales, row, tir_i32(c->b, 0), t);
}

void att_cache_store_scales(const struct att_cache *c, struct tir_value row, struct tir_value scale)
{
    tir_tile_scatter(c->b, c->scales, row, tir_i32(c->b, 0), scale);
}

struct tir_value att_cache_tensor_scale(const struct att_cache *c)
{
    return tir_scalar_load(c->b, c->scales, tir_i32(c->b, 0), TIR_F32);
}

struct tir_value att_cache_head_scale(const struct att_cache *c, const char *name,
                                      struct tir_value sequence, struct tir_value head)
{
    struct tir_builder *b = c->b;
    const struct tir_value head_stride = att_stride(b, ARG_SCALE_HEAD_STRIDE, sizeof(float));
    const struct tir_value at = tir_add(b, tir_mul(b, att_wide(b, sequence), c->scale_page_stride),
                                        tir_mul(b, att_wide(b, head), head_stride));
    return tir_scalar_load(b, att_at(b, name, at), tir_i32(b, 0), TIR_F32);
}
