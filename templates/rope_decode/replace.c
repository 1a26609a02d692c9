/* SPDX-License-Identifier: Apache-2.0
 *
 * This file puts new tokens into tiles of K and V before the products, and into the cache after the
 * products.
 */
#include "templates/rope_decode/rope_decode.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

#include "ir/address_map.h"

/* Returns the row (i32) of new token `token` (index) in a tile whose first key is `key` (i32). The
 * row may be outside of the tile. The result is -1 if the sequence has no such token. */
static struct tir_value row_of(struct decode *d, int token, struct tir_value key)
{
    struct tir_builder *b = &d->kv.b;
    return tir_select(b, rope_decode_exists(d, token), tir_sub(b, rope_decode_key(d, token), key),
                      tir_i32(b, -1));
}

/* Returns `tile` with row `row` (i32) and all rows after it replaced by `with`, 1 x columns. The
 * later rows belong to later tokens, or are after the last key. */
static struct tir_value replace_rows(struct decode *d, struct tir_value tile, struct tir_value row,
                                     struct tir_value with)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_type t = tir_typeof(b->f, tile);
    const struct tir_value at = tir_row_index(b, tir_with_dtype(t, TIR_I32));
    const struct tir_value here = tir_cmp_ge(b, at, att_like(b, row, at));
    return tir_select(b, here, tir_broadcast(b, with, t), tile);
}

/* Reads the row of k, or of v if `value`, of new token `token` (index) from LDS. The result has the
 * layout of the columns of type `t`. */
static struct tir_value read_row(struct decode *d, int token, bool value, struct tir_type t)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 0);
    const struct tir_layout map = tir_row_major(1, t.cols);
    return tir_tile_lds_load(b,
                             rope_decode_address(d, 0, d->kv.v->head_dim * ROPE_ELEM, token, value),
                             tir_tile(b->f, d->kv.dtype, 1, t.cols, &l), &map);
}

/* Returns `block`, 16 rows of K, or of V if `value`, with the rows of new tokens replaced by their
 * rows in LDS. `key` (i32): index of the block's first key. Rows after the last key may be copies
 * of that key's row, which is not written yet, so they are replaced too. Does not read LDS for
 * tokens that other waves may be computing. */
static struct tir_value replace_in_block(struct decode *d, struct tir_value block,
                                         struct tir_value key, bool value)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_type t = tir_typeof(b->f, block);
    for (int i = 0; i < d->kv.v->q_len; i++) {
        const struct tir_value row = row_of(d, i, key), size = tir_i32(b, SPLIT_KV_BLOCK);
        const struct tir_value in =
            split_kv_by_lane(d->kv.v)
                ? tir_and(b, rope_decode_is_mine(d, i), tir_cmp_lt(b, row, size))
                : tir_cmp_ult(b, row, size);
        struct tir_if here = tir_begin_if(b, in, true, &t, 1);
        const struct tir_value now = replace_rows(d, block, row, read_row(d, i, value, t));
        tir_else(b, &here, &now);
        tir_end_if(b, &here, &block);
    }
    return block;
}

/* Returns `tile` of K, or of V if `value`, with the rows of new tokens replaced by their rows in
 * LDS. `key` (i32): index of the tile's first key. Works block by block, since nearly always one
 * block has all new tokens. */
static struct tir_value replace_in_tile(struct decode *d, struct tir_value tile,
                                        struct tir_value key, bool value)
{
    struct tir_builder *b = &d->kv.b;
    struct tir_value block[DECODE_MAX_BLOCKS] = {tile};
    const unsigned blocks = d->kv.keys / SPLIT_KV_BLOCK;
    for (unsigned n = 1; n < blocks; n *= 2) {
        for (unsigned i = n; i-- > 0;) {
            const struct tir_value whole = block[i];
            block[2 * i] = tir_half(b, whole, 0);
            block[2 * i + 1] = tir_half(b, whole, 1);
        }
    }
    for (unsigned i = 0; i < blocks; i++)
        block[i] = replace_in_block(d, block[i], att_plus(b, key, (int)i * SPLIT_KV_BLOCK), value);
    for (unsigned n = blocks; n > 1; n /= 2)
        for (unsigned i = 0; i < n / 2; i++)
            block[i] = tir_stack(b, block[2 * i], block[2 * i + 1]);
    return block[0];
}

/* Returns `scales`, one for each key of a tile, with the scales of new tokens replaced by their
 * scales in LDS. The tile's first key is `key` (i32). The scales are of V if `value`, else of K. */
static struct tir_value replace_scales(struct decode *d, struct tir_value scales,
                                       struct tir_value key, bool value)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_type t = tir_typeof(b->f, scales);
    const struct tir_layout l = tir_layout_slice(tir_layout_of(b->f, t), 0);
    const struct tir_layout map = tir_row_major(1, 1);
    for (int i = 0; i < d->kv.v->q_len; i++) {
        struct tir_if here = tir_begin_if(b, rope_decode_is_mine(d, i), true, &t, 1);
        const struct tir_value at =
            rope_decode_address(d, rope_decode_of(d)->scales, sizeof(float), i, value);
        const struct tir_value scale =
            tir_tile_lds_load(b, at, tir_tile(b->f, TIR_F32, 1, 1, &l), &map);
        const struct tir_value now = replace_rows(d, scales, row_of(d, i, key), scale);
        tir_else(b, &here, &now);
        tir_end_if(b, &here, &scales);
    }
    return scales;
}

/* Returns `tile` of K, or of V if `value`, with the rows of new tokens replaced by their rows in
 * LDS. `key` (i32): index of the tile's first key. If tokens have scales, also replaces the scales
 * of these rows in *scales. */
static struct tir_value replace(struct decode *d, struct tir_value tile, struct tir_value *scales,
                                struct tir_value key, bool value)
{
    struct tir_builder *b = &d->kv.b;
    struct tir_value now[2] = {tile, *scales};
    const unsigned n = scales->id ? 2 : 1;
    const struct tir_value end = att_plus(b, key, (int)d->kv.keys);
    struct tir_if some =
        tir_begin_if_like(b, tir_cmp_gt(b, end, rope_decode_key(d, 0)), true, now, n);
    now[0] = replace_in_tile(d, tile, key, value);
    if (n == 2)
        now[1] = replace_scales(d, *scales, key, value);
    tir_else(b, &some, now);
    now[0] = tile;
    now[1] = *scales;
    tir_end_if(b, &some, now);
    *scales = now[1];
    return now[0];
}

struct tir_value rope_decode_replace_keys(struct decode *d, struct tir_value k,
                                          struct tir_value key)
{
    return replace(d, k, &d->now.k_scales.rows, key, false);
}

struct tir_value rope_decode_replace_values(struct decode *d, struct tir_value v,
                                            struct tir_value key)
{
    return replace(d, v, &d->now.v_scales.rows, key, true);
}

/* Returns the division into spans by which a row of k, or of v if `value`, is stored in the cache.
 * A packed span stores two adjacent elements of a head at once. A SHUFFLE cache has adjacent
 * elements of V apart, so its rows of V are not stored in packed spans. */
static const struct rope_shape *shape_of_row(struct decode *d, bool value)
{
    const struct rope *const kv = &rope_decode_of(d)->kv;
    const bool apart = value && d->kv.value.c.shuffle && kv->rotated.packed;
    return apart ? &kv->values : &kv->rotated;
}

/* Stores the row of k, or of v if `value`, of new token `token` (index) from LDS in its slot of the
 * cache. */
static void store_token(struct decode *d, int token, bool value)
{
    struct tir_builder *b = &d->kv.b;
    struct rope_decode *s = rope_decode_of(d);
    const struct rope_shape *const shape = shape_of_row(d, value);
    const struct tir_value key = rope_decode_key(d, token);
    const struct tir_value at = tir_shl(b, att_page_of(&d->kv.paging, key), tir_i32(b, 2));
    const struct tir_value page =
        tir_zext(b, tir_scalar_load(b, d->kv.item.table, at, TIR_I32), TIR_I64);
    const struct tir_value place = tir_zext(b, att_page_place(&d->kv.paging, key), TIR_I64);
    const int size = rope_decode_is_narrow(d) ? 1 : ROPE_ELEM;
    const struct tir_value row = rope_decode_address(d, rope_decode_is_narrow(d) ? s->stored : 0,
                                                     size * d->kv.v->head_dim, token, value);
    struct tir_value stored[ROPE_MAX_SPANS];
    for (unsigned i = 0; i < shape->n_spans; i++) {
        const struct rope_decode_place p = rope_decode_span(d, shape, i, row, size, 0);
        stored[i] = tir_tile_lds_load(b, p.at, rope_decode_stored_type(d, shape, i), &p.map);
    }
    struct rope rope = s->kv;
    rope.b = *b;
    const struct rope_source source = {.shape = shape, .end = tir_i32(b, 1)};
    struct rope_slot slot = {
        .cache = value ? d->kv.value.c : d->kv.k.c,
        /* with this stride rows of other heads are out of range, and are not stored */
        .head_stride = tir_i64(b, size * d->kv.v->head_dim),
        .scale_stride = tir_i32(b, sizeof(float)),
    };
    slot.cache.b = &rope.b;
    slot.at = att_cache_row(&slot.cache, page, place);
    rope_store_slot(&rope, &source, &slot, tir_i32(b, 0), stored);
    if (d->kv.v->kv_scale == ATT_KV_SCALE_TOKEN) {
        const struct tir_layout map = tir_row_major((unsigned)rope.rows, 1);
        d->kv.b = rope.b;
        const struct tir_value from =
            rope_decode_address(d, s->scales, sizeof(float), token, value);
        rope.b = d->kv.b;
        slot.scales =
            tir_add(&rope.b, slot.cache.scales, att_cache_scale_at(&slot.cache, page, place));
        const struct tir_value scale =
            tir_tile_lds_load(&rope.b, from, rope_head_column(&rope, shape, TIR_F32), &map);
        rope_store_scales(&rope, &source, &slot, tir_i32(&rope.b, 0), scale);
    }
    *b = rope.b;
}

void rope_decode_store(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    for (int t = 0; t < d->kv.v->q_len; t++) {
        struct tir_if mine = tir_begin_if(b, rope_decode_is_mine(d, t), true, NULL, 0);
        store_token(d, t, false);
        store_token(d, t, true);
        tir_end_if(b, &mine, NULL);
    }
    /* needed since in the next item another wave may use the same rows of LDS */
    att_lds_barrier(&d->kv.b);
}
