/* SPDX-License-Identifier: Apache-2.0
 *
 * This file makes a group's row in the pool from the weighted sum of its tokens: norm, rotation,
 * Hadamard matrix, quantisation and store.
 */
#include "templates/compress/compress.h"
#include "templates/index/page.h"
#include "templates/linear/norm.h"
#include "templates/linear/sequence.h"
#include "templates/rope/rotate_rows.h"
#include "templates/workgroup/fp8.h"

/* Bytes of a 16-bit element, and of an f32. */
enum { ELEM = 2, FLOAT = 4 };

/* Loads array argument `arg`, a vector of head_dim f32. */
static struct tir_value load_vector(struct compress *c, const char *arg)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_view view =
        att_view(b, tir_arg(b, arg, TIR_I64), tir_i32(b, 1), zero, c->v->head_dim * FLOAT, 0);
    return tir_tile_load(b, view, zero, c->row);
}

/* Returns `z` with the variant's norm applied, which may be none. */
static struct tir_value normalise(struct compress *c, struct tir_value z)
{
    struct tir_builder *b = &c->b;
    if (c->v->norm == ATT_NORM_NONE)
        return z;
    struct tir_value w = load_vector(c, ARG_WEIGHT);
    if (c->v->norm == ATT_NORM_GEMMA_RMS)
        w = tir_add(b, w, tir_float_like(b, w, 1.0f));
    att_norm_apply(b, c->v, c->v->head_dim, 1, &z, NULL, &w);
    return z;
}

/* Stores row `z` (f32) as row `token` (i32) of argument latent, unless that is NULL. */
static void store_latent(struct compress *c, struct tir_value token, struct tir_value z)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value rows = tir_select(b, att_is_given(b, ARG_LATENT), tir_i32(b, 1), zero);
    const struct tir_value base =
        att_row(b, tir_arg(b, ARG_LATENT, TIR_I64), token, ARG_LATENT_TOKEN_STRIDE, ELEM);
    tir_tile_store(b, att_view(b, base, rows, zero, c->v->head_dim * ELEM, 0), zero,
                   tir_convert_short(b, z, att_dtype(c->v)));
}

/* ---- The pool ---- */

/* Returns the pool as a cache with one head, for functions of cache/. */
static struct att_cache pool_of(struct compress *c)
{
    struct tir_builder *b = &c->b;
    const struct att_row_format *const rows = att_row_format(c->v);
    const bool shuffle = c->v->kv_layout == ATT_KV_LAYOUT_SHUFFLE;
    struct att_cache pool = att_index_keys(b, tir_arg(b, ARG_POOL, TIR_I64), shuffle);
    pool.rows = rows;
    pool.packed = rows;
    pool.dim = c->v->head_dim;
    if (c->v->kv_dtype != ATT_KV_DTYPE_FP8) {
        pool.dtype = att_dtype(c->v);
        pool.size = ELEM;
        pool.x /= ELEM;
    }
    pool.pages = att_paging_by_argument(b, false);
    pool.page_stride = tir_arg(b, ARG_PAGE_STRIDE, TIR_I64);
    if (rows)
        pool.token_stride = tir_i64(b, rows->bytes);
    if (rows)
        pool.largest = att_row_largest(rows, c->m);
    if (rows && rows->rotated == ATT_OWN_PLANE) {
        pool.plane = tir_arg(b, ARG_POOL_ROTATED, TIR_I64);
        pool.plane_page_stride = tir_arg(b, ARG_ROTATED_PAGE_STRIDE, TIR_I64);
        pool.plane_token_stride = tir_i64(b, ATT_MIXED_ROTATED * ELEM);
    }
    return pool;
}

/* Stores row `y`, of the dtype of `pool`, as row `inside` (i32) of the page at address `page`
 * (i64). */
static void store_elements(struct compress *c, const struct att_cache *pool, struct tir_value page,
                           struct tir_value inside, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, c->row), 1);
    const struct tir_type one = tir_tile(b->f, TIR_I64, 1, 1, &l);
    const int bytes = c->v->head_dim * pool->size;
    const struct tir_value byte = att_index_key_byte(b, inside, bytes, pool->shuffle);
    struct att_cache in_page = *pool;
    in_page.base = page;
    att_cache_store(&in_page, tir_splat(b, att_wide(b, byte), one), 0, y);
}

/* Stores row `y` (f32) as fp8 at place `at` of the pool, and the row's scale after all rows of the
 * page. */
static void store_fp8(struct compress *c, const struct att_cache *pool, struct att_slot at,
                      struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value scale = att_fp8_rounded_scale(b, att_norm_over_rows(b, &y, 1, true));
    const struct tir_value inverse = tir_broadcast(b, tir_rcp(b, scale), c->row);
    const struct tir_value bytes = tir_convert(b, tir_mul(b, y, inverse), TIR_FP8);
    const struct tir_value page = tir_add(b, pool->base, tir_mul(b, at.page, pool->page_stride));
    const struct tir_value inside = tir_convert(b, at.token, TIR_I32);
    store_elements(c, pool, page, inside, bytes);
    const struct tir_value scale_byte = att_index_scale_byte(&pool->pages, inside, c->v->head_dim);
    const struct tir_value to = tir_add(b, page, att_wide(b, scale_byte));
    tir_tile_store(b, att_view(b, to, tir_i32(b, 1), zero, FLOAT, 0), zero, scale);
}

/* Returns byte offsets: `at` (i64) in elements for which `these` (i1) is true, and -1 in other
 * elements, which are not stored. */
static struct tir_value only(struct tir_builder *b, struct tir_value these, struct tir_value at)
{
    return tir_select(b, these, at, tir_int_like(b, at, -1));
}

/* Stores a row of the pool in two parts: the first 448 elements, which are in `bytes` as fp8, and
 * the last 64 elements of row `y` in the op's dtype. `row` (i64): byte offset of the row in the
 * pool. `slot`: the row's page and place in the page. */
static void store_parts(struct compress *c, const struct att_cache *pool, struct att_slot slot,
                        struct tir_value row, struct tir_value bytes, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const struct att_row_format *const rows = pool->rows;
    const struct att_cache plane = att_cache_rotated(pool, att_dtype(c->v));
    const struct tir_value runs = tir_split_blocks(b, bytes, (unsigned)rows->run);
    const struct tir_value last = tir_split_blocks(b, y, (unsigned)rows->run);
    const struct tir_value run =
        tir_row_index(b, tir_with_dtype(tir_typeof(b->f, att_absmax(b, last)), TIR_I32));
    const struct tir_value narrow =
        tir_cmp_lt(b, run, tir_int_like(b, run, rows->scaled / rows->run));
    const struct tir_value at =
        tir_zext(b, tir_mul(b, run, tir_int_like(b, run, rows->run)), TIR_I64);
    const struct tir_type each = tir_typeof(b->f, at);
    const struct tir_value rest = tir_splat(b, att_cache_row(&plane, slot.page, slot.token), each);
    tir_tile_scatter(b, pool->base, only(b, narrow, tir_add(b, tir_splat(b, row, each), at)),
                     tir_i32(b, 0), runs);
    tir_tile_scatter(b, plane.base, tir_select(b, narrow, tir_int_like(b, rest, -1), rest),
                     tir_i32(b, 0), tir_convert_short(b, last, att_dtype(c->v)));
}

/* Stores row `y` (f32) in slot `slot` (i64) of a pool whose rows contain scales, or whose scales
 * follow the page's rows. */
static void store_packed(struct compress *c, const struct att_cache *pool, struct tir_value slot,
                         struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, c->row), 1);
    const struct tir_type one = tir_tile(b->f, TIR_I64, 1, 1, &l);
    const struct tir_value scales = tir_splat(b, att_packed_scale_row(pool, slot), one);
    const struct tir_value bytes = att_packed_quantise(pool, scales, 0, y);
    const struct tir_value row = att_cache_slot_row(pool, slot);
    if (pool->rows->scaled == c->v->head_dim)
        att_cache_store(pool, tir_splat(b, row, one), 0, bytes);
    else
        store_parts(c, pool, att_slot_of(&pool->pages, slot), row, bytes, y);
}

/* Stores row `y` (f32) in slot `slot` (i64) of the pool, in the pool's layout and dtype. */
static void store_row(struct compress *c, struct tir_value slot, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const struct att_cache pool = pool_of(c);
    const struct att_slot at = att_slot_of(&pool.pages, slot);
    if (pool.packed) {
        store_packed(c, &pool, slot, y);
        return;
    }
    if (c->v->kv_dtype == ATT_KV_DTYPE_FP8) {
        store_fp8(c, &pool, at, y);
        return;
    }
    const struct tir_value page = tir_add(b, pool.base, tir_mul(b, at.page, pool.page_stride));
    store_elements(c, &pool, page, tir_convert(b, at.token, TIR_I32),
                   tir_convert_short(b, y, att_dtype(c->v)));
}

void compress_finish(struct compress *c, struct tir_value group, struct tir_value token,
                     struct tir_value z)
{
    enum { SLOT = 8 };
    struct tir_builder *b = &c->b;
    const struct tir_value slots = att_at(b, ARG_SLOT_MAPPING, att_wide_times(b, token, SLOT));
    const struct tir_value slot = tir_scalar_load(b, slots, tir_i32(b, 0), TIR_I64);
    z = normalise(c, z);
    store_latent(c, token, z);
    struct tir_if some = att_begin_if(b, tir_cmp_ge(b, slot, tir_i64(b, 0)));
    struct tir_value y = z;
    if (c->v->rope != ATT_ROPE_NONE) {
        const struct rope_angles angles = {.v = c->v,
                                           .position = tir_mul(b, group, c->ratio),
                                           .first = tir_arg(b, ARG_ROTARY_FIRST, TIR_I32)};
        y = rope_rotate_rows(b, &angles, z);
    }
    if (c->v->hadamard)
        rope_hadamard(b, &y, 1);
    store_row(c, slot, y);
    tir_end_if(b, &some, NULL);
}
