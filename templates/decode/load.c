/* SPDX-License-Identifier: Apache-2.0
 *
 * This file loads tiles of K and V of a paged cache from memory to registers.
 *
 * If pages have a multiple of 16 keys, one page has a block of 16 keys. The block's page number is
 * a scalar, and its address a buffer resource that ends after the last key. Later keys are
 * therefore read as 0, for any content of the page table or the page. If the page size is another
 * one, or is not known, the page of each key is looked up. Keys after the last one repeat the last
 * key.
 *
 * V in NHD is loaded with neighbouring columns of one token in a lane, and used transposed. The
 * lanes of the matrix operand are rows of V^T that are one load apart; its registers have the rows
 * between. O^T has rows in the same order, and is stored in that order. V in SHUFFLE is already
 * transposed, but its loads include keys after the last one, whose rows are set to zero.
 */
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/decode/decode.h"
#include "templates/workgroup/lds_map.h"
#include "templates/workgroup/scalar.h"

/* Returns the number of blocks of SPLIT_KV_BLOCK keys in a tile. */
static unsigned n_blocks(const struct decode *d) { return d->kv.keys / SPLIT_KV_BLOCK; }

struct tir_value decode_join(struct decode *d, struct tir_value part[2],
                             const struct split_kv_cache *c)
{
    if (!c->overlap)
        return part[0];
    const unsigned rows = tir_typeof(d->kv.b.f, part[0]).rows;
    return tir_join_blocks(&d->kv.b, tir_stack(&d->kv.b, part[0], part[1]), rows);
}

/* Returns the layouts of tiles of *c, which is d's K or V. */
static const struct decode_tile *tile_of(const struct decode *d, const struct split_kv_cache *c)
{
    return c->c.value ? &d->v_tile : &d->k_tile;
}

/* True if the cache has the layout SHUFFLE or SHUFFLE_K, false if it is NHD. */
static bool shuffled(const struct decode *d) { return att_is_shuffled(d->kv.v); }

/* ---- Layouts ---- */

/* Returns log2 of the number of adjacent columns of V that a lane loads at once. */
static unsigned v_vector_bits(const struct decode *d)
{
    const unsigned widest = tir_bits(16 / d->kv.kv_bytes);
    const unsigned all = tir_bits(split_kv_part_width(&d->kv.value)) - 4;
    if (shuffled(d))
        return 0;
    return widest < all ? widest : all;
}

/* Returns the layout of a part of a block of V as it is loaded. Lane bits 0 to 3 are the bits of
 * head_dim_v above the columns that a lane loads at once. The other lane bits are keys, as in the
 * scores. */
static struct tir_layout v_part(const struct decode *d)
{
    const unsigned vector = v_vector_bits(d), all = tir_bits(split_kv_part_width(&d->kv.value));
    const unsigned keys = tir_bits(tir_mma_acc_regs(&d->kv.m->mma[d->kv.pv]));
    struct tir_spread s = tir_spread(d->kv.m, 1);
    if (shuffled(d))
        tir_spread_rows(&s, TIR_REGS, keys);
    tir_spread_cols(&s, TIR_REGS, vector);
    tir_spread_cols(&s, TIR_LANES, 4);
    tir_spread_cols(&s, TIR_REGS, all - vector - 4);
    if (!shuffled(d))
        tir_spread_rows(&s, TIR_REGS, keys);
    tir_spread_rows(&s, TIR_LANES, tir_bits(SPLIT_KV_BLOCK) - keys);
    return tir_spread_layout(&s);
}

/* Sets the layouts of V as an operand and of O^T = V^T P^T. The rows of O^T are in the order of V's
 * lanes and registers. The contraction, over keys, is in the order of layout *scores. */
static void choose_product(struct decode *d, const struct tir_layout *scores)
{
    const struct tir_mma *const pv = &d->kv.m->mma[d->kv.pv];
    const unsigned vector = v_vector_bits(d), m_bits = tir_bits(pv->m);
    const struct tir_contraction keys = tir_contract_acc(scores, tir_bits(pv->n));
    const struct tir_layout a = tir_mma_left(pv, d->kv.value.width, &keys, (struct tir_waves){0});
    const struct tir_layout o =
        tir_mma_result(pv, d->kv.value.width, d->kv.columns, (struct tir_waves){0});
    uint8_t order[TIR_LAYOUT_MAX_BITS];
    for (unsigned i = 0; i < tir_bits(d->kv.value.width); i++)
        order[i] = (uint8_t)(i < m_bits ? vector + i : i < m_bits + vector ? i - m_bits : i);
    const struct tir_layout v_t = tir_layout_permute_rows(&a, order);
    const struct tir_layout output = tir_layout_permute_rows(&o, order);
    d->v_tile.part = v_part(d);
    d->v_operand = tir_layout_transpose(&v_t);
    d->kv.output = tir_tile(d->kv.b.f, TIR_F32, d->kv.value.width, d->kv.columns, &output);
}

/* Returns the layout of a block of K whose loads read whole rows: a lane has 16 bytes, and adjacent
 * lanes have adjacent bytes. */
static struct tir_layout line_part(const struct decode *d)
{
    return tir_spread_chunks(d->kv.m, 1, 16 / d->kv.kv_bytes, SPLIT_KV_BLOCK, d->kv.k.width);
}

/* Returns the layout of a tile whose blocks of keys have layout *block. */
static struct tir_layout stacked(const struct decode *d, const struct tir_layout *block)
{
    struct tir_layout l = *block;
    for (unsigned rows = SPLIT_KV_BLOCK; rows < d->kv.keys; rows *= 2)
        l = tir_layout_stack(&l, rows);
    return l;
}

/* Sets the layouts t->block and t->tile and the type t->rows of tiles of *c from t->part. */
static void finish_tile(struct decode *d, const struct split_kv_cache *c, struct decode_tile *t)
{
    t->block = t->part;
    if (c->overlap) {
        const struct tir_layout both = tir_layout_stack(&t->part, SPLIT_KV_BLOCK);
        t->block = tir_layout_join_blocks(&both, SPLIT_KV_BLOCK, split_kv_part_width(c));
    }
    t->tile = stacked(d, &t->block);
    const struct tir_layout rows = tir_layout_slice(&t->tile, 1);
    t->rows = tir_tile(d->kv.b.f, TIR_I32, d->kv.keys, 1, &rows);
}

void decode_choose_layouts(struct decode *d)
{
    const struct tir_mma *const qk = &d->kv.m->mma[d->kv.qk];
    const struct tir_layout s =
        tir_mma_result(qk, d->kv.keys, d->kv.columns, (struct tir_waves){0});
    d->kv.scores = tir_tile(d->kv.b.f, TIR_F32, d->kv.keys, d->kv.columns, &s);
    const struct tir_contraction part =
        tir_contract_rows(qk, split_kv_part_width(&d->kv.k), 16 / d->kv.kv_bytes);
    d->query.depth = tir_contract_rows(qk, d->kv.k.width, 16 / d->kv.kv_bytes);
    d->k_tile.part = tir_mma_left(qk, SPLIT_KV_BLOCK, &part, (struct tir_waves){0});
    choose_product(d, &s);
    d->k_operand = stacked(d, &d->k_tile.part);
    if (d->whole_lines)
        d->k_tile.part = line_part(d);
    finish_tile(d, &d->kv.k, &d->k_tile);
    finish_tile(d, &d->kv.value, &d->v_tile);
}

/* Implements the declaration in decode.h. 16 unused bytes follow each row, so that reads of 16
 * bytes of 16 rows at once have no bank conflicts. */
void decode_reserve_lines(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    if (!d->whole_lines)
        return;
    d->k_lds = tir_row_major(d->kv.keys, d->kv.k.width);
    tir_map_pad(&d->k_lds, d->kv.k.width, 16 / d->kv.kv_bytes);
    const unsigned bytes = (att_lds_bytes(&d->k_lds, d->kv.kv_bytes) + 15) / 16 * 16;
    const struct tir_value all = tir_lds_buffer(b, d->kv.waves * bytes, 16);
    d->lines = tir_add(b, all, att_times(b, d->kv.wave, (int)bytes));
}

/* Returns a loaded tile of K in the layout of the product, reordered through the wave's LDS. The
 * LDS instructions of a wave execute in order. No barrier is needed, and the next tile may
 * overwrite this one. */
static struct tir_value reorder_lines(struct decode *d, struct tir_value loaded)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_type t =
        tir_tile(b->f, d->kv.kv_dtype, d->kv.keys, d->kv.k.width, &d->k_operand);
    tir_tile_lds_store(b, d->lines, loaded, &d->k_lds);
    return tir_tile_lds_load(b, d->lines, t, &d->k_lds);
}

void decode_find_cache(struct decode *d)
{
    struct tir_value head = d->kv.item.kv_head;
    /* The mask shows LLVM that the head is not negative, which takes fewer instructions to
     * multiply. */
    if (d->kv.kv_bytes == 1)
        head = tir_and(&d->kv.b, head, tir_i32(&d->kv.b, INT32_MAX));
    d->kv.k.c = att_cache(&d->kv.b, d->kv.v, d->kv.m, false, head);
    d->kv.value.c = att_cache(&d->kv.b, d->kv.v, d->kv.m, true, head);
    att_cache_of_sequence(&d->kv.k.c, d->kv.item.sequence);
    att_cache_of_sequence(&d->kv.value.c, d->kv.item.sequence);
}

/* ---- Page numbers ---- */

/* Returns the index (i32) of the key that each row of a tile of *c loads, from key `key` (i32) on.
 * Rows after the last key get the last key. If a load reads a group of x keys, groups after the
 * last group get the last group. */
static struct tir_value keys_of(struct decode *d, const struct split_kv_cache *c,
                                struct tir_value key)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_value row = tir_row_index(b, tile_of(d, c)->rows);
    const struct tir_value last = att_plus(b, d->kv.item.end_key, -1);
    const struct tir_value at = tir_add(b, row, att_like(b, key, row));
    if (!shuffled(d) || !c->c.value)
        return tir_min(b, at, att_like(b, last, at));
    const struct tir_value group = tir_i32(b, -c->c.x);
    const struct tir_value first = tir_min(b, tir_and(b, at, att_like(b, group, at)),
                                           att_like(b, tir_and(b, last, group), at));
    return tir_add(b, first, tir_and(b, row, att_like(b, tir_i32(b, c->c.x - 1), row)));
}

/* Issues the loads of the page number (i32) of each row of a tile of *c whose first key is `key`
 * (i32). */
static struct tir_value pages_of(struct decode *d, const struct split_kv_cache *c,
                                 struct tir_value key)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_value keys = keys_of(d, c, key);
    const struct tir_value page = att_page_of(&d->kv.paging, keys);
    const struct tir_value at = tir_shl(b, page, tir_int_like(b, page, 2));
    return tir_tile_gather(b, d->kv.item.table, tir_zext(b, at, TIR_I64), tir_i32(b, 0),
                           tile_of(d, c)->rows);
}

struct decode_pages decode_find_pages(struct decode *d, struct tir_value key)
{
    struct tir_builder *b = &d->kv.b;
    struct decode_pages pages = {0};
    if (split_kv_by_lane(d->kv.v)) {
        pages.k = pages_of(d, &d->kv.k, key);
        pages.v = pages_of(d, &d->kv.value, key);
        return pages;
    }
    const struct tir_value last = att_plus(b, d->kv.item.end_key, -1);
    for (unsigned i = 0; i < n_blocks(d); i++) {
        const struct tir_value at = tir_min(b, att_plus(b, key, (int)(i * SPLIT_KV_BLOCK)), last);
        const struct tir_value page = att_page_of(&d->kv.paging, at);
        pages.block[i] =
            tir_scalar_load(b, d->kv.item.table, tir_shl(b, page, tir_i32(b, 2)), TIR_I32);
    }
    return pages;
}

/* ---- A block in one page ---- */

/* A block of keys that one page contains. */
struct block {
    struct tir_value key, page; /* i32: the block's first key, and the number of its page */
    /* i32: number of keys from `key` to the item's end, at most SPLIT_KV_BLOCK; may be below 0 */
    struct tir_value rows;
};

/* Returns block i (index) of the tile whose first key is `key` (i32), with its page number from
 * *pages. */
static struct block block_of(struct decode *d, struct tir_value key,
                             const struct decode_pages *pages, unsigned i)
{
    struct tir_builder *b = &d->kv.b;
    struct block k = {.key = att_plus(b, key, (int)(i * SPLIT_KV_BLOCK)), .page = pages->block[i]};
    k.rows = tir_min(b, tir_sub(b, d->kv.item.end_key, k.key), tir_i32(b, SPLIT_KV_BLOCK));
    return k;
}

/* Returns the byte offset (i64) of page `page` (i32) in a tensor whose pages are `stride` (i64)
 * bytes apart. Pages are less than 4 GiB apart, as libattn checks. A product of two 32-bit numbers
 * takes two instructions, and a product of 64-bit numbers four. Loops over 16-bit keys are limited
 * by memory and keep the 64-bit product: with the 32-bit product, a call of 8 sequences of 1k keys
 * took 1.5 % longer. */
static struct tir_value page_offset(struct decode *d, struct tir_value page,
                                    struct tir_value stride)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_value wide = tir_zext(b, page, TIR_I64);
    if (d->kv.kv_bytes > 1)
        return tir_mul(b, wide, stride);
    return tir_mul(b, wide, tir_zext(b, tir_convert(b, stride, TIR_I32), TIR_I64));
}

/* Returns the address (i64) of the first key of block *k in a tensor at address `base` (i64).
 * `step` (i64) is the distance of two keys of a page in bytes, `page_stride` (i64) of two pages. */
static struct tir_value in_page(struct decode *d, const struct block *k, struct tir_value base,
                                struct tir_value page_stride, struct tir_value step)
{
    struct tir_builder *b = &d->kv.b;
    base = tir_add(b, base, page_offset(d, k->page, page_stride));
    if (d->kv.v->page_size == SPLIT_KV_BLOCK)
        return base;
    const struct tir_value token = att_page_place(&d->kv.paging, k->key);
    return tir_add(b, base, tir_mul(b, tir_zext(b, token, TIR_I64), step));
}

/* Returns the tile type of a part of a block of *c as it is loaded. */
static struct tir_type part_type(struct decode *d, const struct split_kv_cache *c)
{
    return tir_tile(d->kv.b.f, d->kv.kv_dtype, SPLIT_KV_BLOCK, split_kv_part_width(c),
                    &tile_of(d, c)->part);
}

/* Issues the load of the part of block *k of *c from column `first` on, from a cache in NHD. */
static struct tir_value load_rows(struct decode *d, const struct split_kv_cache *c,
                                  const struct block *k, int first)
{
    struct tir_builder *b = &d->kv.b;
    const int size = (int)d->kv.kv_bytes;
    const struct tir_value base = in_page(d, k, c->c.base, c->c.page_stride, c->c.token_stride);
    const struct tir_view view =
        att_view(b, base, k->rows, tir_convert(b, c->c.token_stride, TIR_I32), c->c.dim * size,
                 first * size);
    return tir_tile_load(b, view, tir_i32(b, 0), part_type(d, c));
}

/* Issues the load of the second part of block *k of K, from column `first` on, from a cache in NHD.
 * Columns that the first part also has get offsets outside of the buffer resource, so that they are
 * not loaded. Q is 0 in these columns. */
static struct tir_value load_rest(struct decode *d, const struct block *k, int first)
{
    struct tir_builder *b = &d->kv.b;
    const struct split_kv_cache *const c = &d->kv.k;
    /* Number of elements of one access, and of a row of the tile. */
    const unsigned x = 16 / d->kv.kv_bytes;
    const struct tir_value base = in_page(d, k, c->c.base, c->c.page_stride, c->c.token_stride);
    const struct tir_value stride = tir_convert(b, c->c.token_stride, TIR_I32);
    const struct tir_view view =
        att_view(b, base, k->rows, stride, c->c.dim * (int)d->kv.kv_bytes, 0);
    const struct tir_layout l = tir_layout_split_blocks(&tile_of(d, c)->part, SPLIT_KV_BLOCK, x);
    const unsigned rows = SPLIT_KV_BLOCK * split_kv_part_width(c) / x;
    const struct tir_layout column = tir_layout_slice(&l, 1);
    const struct tir_value row = tir_row_index(b, tir_tile(b->f, TIR_I32, rows, 1, &column));
    const struct tir_value run = tir_shr(b, row, tir_int_like(b, row, tir_bits(SPLIT_KV_BLOCK)));
    const struct tir_value key = tir_and(b, row, tir_int_like(b, row, SPLIT_KV_BLOCK - 1));
    const struct tir_value byte = tir_add(b, tir_shl(b, run, tir_int_like(b, run, 4)),
                                          tir_int_like(b, run, first * (int)d->kv.kv_bytes));
    const struct tir_value at = tir_add(b, tir_mul(b, key, att_like(b, stride, key)), byte);
    const struct tir_value twice = tir_cmp_lt(b, run, tir_int_like(b, run, c->overlap / x));
    const struct tir_value from = tir_select(b, twice, tir_int_like(b, at, -16), at);
    const struct tir_type t = tir_tile(b->f, d->kv.kv_dtype, rows, x, &l);
    return tir_join_blocks(b, tir_tile_fetch(b, view.rsrc, from, 0, t), SPLIT_KV_BLOCK);
}

/* Issues the load of the part of block *k of K from column `first` on, from a cache in SHUFFLE. The
 * cache has groups of x columns (16 bytes), each for all keys of a page. Groups are 16 bytes times
 * the page size apart. */
static struct tir_value load_shuffled_k(struct decode *d, const struct block *k, int first)
{
    struct tir_builder *b = &d->kv.b;
    const struct split_kv_cache *const c = &d->kv.k;
    struct att_cache at = c->c;
    struct block own = *k;
    if (d->kv.new_rows) { /* another workgroup may write a block after the item at this time */
        const struct tir_value last = att_plus(b, d->kv.item.end_key, -1);
        own.key = tir_min(b, own.key, tir_and(b, last, tir_i32(b, -SPLIT_KV_BLOCK)));
    }
    at.base = in_page(d, &own, at.base, at.page_stride, tir_i64(b, 16));
    const struct tir_layout rows = tir_layout_slice(&tile_of(d, c)->part, 1);
    const struct tir_value row =
        tir_row_index(b, tir_tile(b->f, TIR_I32, SPLIT_KV_BLOCK, 1, &rows));
    const struct tir_value byte = tir_zext(b, tir_mul(b, row, tir_int_like(b, row, 16)), TIR_I64);
    return att_cache_load(&at, byte, first, part_type(d, c));
}

/* Issues the load of the part of block *k of V from column `first` on, from a cache in SHUFFLE. In
 * such a cache, 16 keys of V are stored as [16 / x groups, head_dim_v, x keys]. Each row of the
 * load is a group of x keys. */
static struct tir_value load_shuffled_v(struct decode *d, const struct block *k, int first)
{
    struct tir_builder *b = &d->kv.b;
    const struct split_kv_cache *const c = &d->kv.value;
    const unsigned x = (unsigned)c->c.x, width = split_kv_part_width(c), run = width * x;
    const int row_bytes = c->c.dim * 16;
    const struct tir_value base =
        in_page(d, k, c->c.base, c->c.page_stride, tir_i64(b, c->c.dim * (int)d->kv.kv_bytes));
    const struct tir_value groups =
        tir_shr(b, tir_max(b, att_plus(b, k->rows, (int)x - 1), tir_i32(b, 0)),
                tir_i32(b, (int)tir_bits(x)));
    const struct tir_view view =
        att_view(b, base, groups, tir_i32(b, row_bytes), row_bytes, 16 * first);
    /* Transforms the layout in steps: from keys x columns to x rows with the columns of all groups,
     * to one column, to a row for each group. */
    struct tir_layout l = tir_layout_transpose(&tile_of(d, c)->part);
    l = tir_layout_split_blocks(&l, width, x);
    l = tir_layout_transpose(&l);
    l = tir_layout_split_blocks(&l, x, 1);
    l = tir_layout_join_blocks(&l, run, 1);
    l = tir_layout_transpose(&l);
    const struct tir_type t = tir_tile(b->f, d->kv.kv_dtype, SPLIT_KV_BLOCK / x, run, &l);
    struct tir_value v = tir_transpose(b, tir_tile_load(b, view, tir_i32(b, 0), t));
    v = tir_join_blocks(b, tir_split_blocks(b, v, 1), x);
    return tir_transpose(b, tir_join_blocks(b, tir_transpose(b, v), width));
}

/* Issues the load of the part of block *k of V from column `first` on, from a cache in SHUFFLE_K.
 * The block's tokens of a column are adjacent in the cache, so the load has a row for each column.
 * Values of tokens after the last key are set to 0 later, by zero_beyond(). */
static struct tir_value load_columns(struct decode *d, const struct block *k, int first)
{
    struct tir_builder *b = &d->kv.b;
    const struct split_kv_cache *const c = &d->kv.value;
    const int bytes = SPLIT_KV_BLOCK * (int)d->kv.kv_bytes;
    const struct tir_value base =
        in_page(d, k, c->c.base, c->c.page_stride, tir_i64(b, (int)d->kv.kv_bytes));
    const struct tir_value some = tir_cmp_gt(b, k->rows, tir_i32(b, 0));
    const struct tir_value rows = tir_select(b, some, tir_i32(b, c->c.dim), tir_i32(b, 0));
    const struct tir_view view = att_view(b, base, rows, c->c.block_stride, bytes, 0);
    const struct tir_layout l = tir_layout_transpose(&tile_of(d, c)->part);
    const struct tir_type t =
        tir_tile(b->f, d->kv.kv_dtype, split_kv_part_width(c), SPLIT_KV_BLOCK, &l);
    return tir_transpose(b, tir_tile_load(b, view, tir_i32(b, first), t));
}

/* Issues the loads of all parts of block *k of *c, and returns the block as one tile. */
static struct tir_value load_block(struct decode *d, const struct split_kv_cache *c,
                                   const struct block *k)
{
    struct tir_value part[2];
    for (unsigned i = 0; i < split_kv_parts(c); i++) {
        const int first = split_kv_part_first(c, i);
        if (!shuffled(d) && !c->c.value && i)
            part[i] = load_rest(d, k, first);
        else if (!shuffled(d))
            part[i] = load_rows(d, c, k, first);
        else if (!c->c.value)
            part[i] = load_shuffled_k(d, k, first);
        else if (c->c.columns)
            part[i] = load_columns(d, k, first);
        else
            part[i] = load_shuffled_v(d, k, first);
    }
    return decode_join(d, part, c);
}

/* ---- Tiles ---- */

/* Returns the blocks block[] of a tile as one tile, stacked along the keys. */
static struct tir_value stack(struct decode *d, struct tir_value block[DECODE_MAX_BLOCKS])
{
    for (unsigned n = n_blocks(d); n > 1; n /= 2)
        for (unsigned i = 0; i < n / 2; i++)
            block[i] = tir_stack(&d->kv.b, block[2 * i], block[2 * i + 1]);
    return block[0];
}

/* Issues the loads of the tile of *c whose first key has index `key` (i32). `pages` (i32) has the
 * page number of each row. */
static struct tir_value load_by_lane(struct decode *d, const struct split_kv_cache *c,
                                     struct tir_value key, struct tir_value pages)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_value keys = keys_of(d, c, key);
    const struct tir_value token = att_page_place(&d->kv.paging, keys);
    const struct tir_value row =
        att_cache_row(&c->c, tir_zext(b, pages, TIR_I64), tir_zext(b, token, TIR_I64));
    const struct tir_layout l = stacked(d, &tile_of(d, c)->part);
    const struct tir_type t =
        tir_tile(b->f, d->kv.kv_dtype, d->kv.keys, split_kv_part_width(c), &l);
    struct tir_value part[2];
    for (unsigned i = 0; i < split_kv_parts(c); i++)
        part[i] = att_cache_load(&c->c, row, split_kv_part_first(c, i), t);
    const struct tir_value all = decode_join(d, part, c);
    return c->overlap ? tir_relayout(b, all, &tile_of(d, c)->tile) : all;
}

/* Issues the loads of the tile of *c whose first key has index `key` (i32). *pages are the tile's
 * page numbers. */
static struct tir_value load_tile(struct decode *d, const struct split_kv_cache *c,
                                  struct tir_value key, const struct decode_pages *pages)
{
    struct tir_value block[DECODE_MAX_BLOCKS];
    if (split_kv_by_lane(d->kv.v))
        return load_by_lane(d, c, key, c->c.value ? pages->v : pages->k);
    for (unsigned i = 0; i < n_blocks(d); i++) {
        const struct block k = block_of(d, key, pages, i);
        block[i] = load_block(d, c, &k);
    }
    return stack(d, block);
}

struct tir_value decode_load_k(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages)
{
    return tir_named(&d->kv.b, "k", load_tile(d, &d->kv.k, key, pages));
}

struct tir_value decode_load_v(struct decode *d, struct tir_value key,
                               const struct decode_pages *pages)
{
    return tir_named(&d->kv.b, "v", load_tile(d, &d->kv.value, key, pages));
}

/* Returns `loaded`, whose dtype is the cache's, converted to `dtype` (enum tir_dtype). */
static struct tir_value as_elements(struct decode *d, struct tir_value loaded, unsigned dtype)
{
    return d->kv.kv_dtype == dtype ? loaded : tir_convert(&d->kv.b, loaded, dtype);
}

struct tir_value decode_use_k(struct decode *d, struct tir_value loaded)
{
    return as_elements(d, d->whole_lines ? reorder_lines(d, loaded) : loaded, d->query.dtype);
}

/* Returns tile `v` of V, whose first key is `key` (i32), with zeros in rows after the last key.
 * Loads read whole groups of x keys. P is 0 in these rows, but 0 times undefined memory may be
 * NaN. */
static struct tir_value zero_beyond(struct decode *d, struct tir_value v, struct tir_value key)
{
    struct tir_builder *b = &d->kv.b;
    struct tir_type t = tir_typeof(b->f, v);
    const struct tir_value left = tir_sub(b, d->kv.item.end_key, key);
    struct tir_if tail =
        tir_begin_if(b, tir_cmp_lt(b, left, tir_i32(b, (int)d->kv.keys)), true, &t, 1);
    t.dtype = TIR_I32;
    const struct tir_value row = tir_row_index(b, t);
    const struct tir_value kept =
        tir_select(b, tir_cmp_lt(b, row, att_like(b, left, row)), v, tir_float_like(b, v, 0.0f));
    tir_else(b, &tail, &kept);
    tir_end_if(b, &tail, &v);
    return v;
}

struct tir_value decode_widen_v(struct decode *d, struct tir_value loaded)
{
    return as_elements(d, loaded, d->kv.dtype);
}

struct tir_value decode_use_v(struct decode *d, struct tir_value v, struct tir_value key)
{
    struct tir_builder *b = &d->kv.b;
    if (shuffled(d))
        v = zero_beyond(d, v, key);
    return tir_transpose(b, tir_relayout(b, v, &d->v_operand));
}

/* ---- Scales ---- */

/* True if each key, or each page, has a scale of its own. */
static bool scaled_by_row(const struct decode *d) { return att_scales_rows(d->kv.v); }

/* Returns the layout of a number for each key of one block, as rows of the scores. */
static struct tir_layout block_rows(const struct decode *d)
{
    const struct tir_layout s = tir_mma_result(&d->kv.m->mma[d->kv.qk], SPLIT_KV_BLOCK,
                                               d->kv.columns, (struct tir_waves){0});
    return tir_layout_slice(&s, 1);
}

/* Issues the load of the scales of *c for the keys of block *k, in the layout of the scores' rows.
 * A lane loads 16 bytes. */
static struct tir_value load_token_scales(struct decode *d, const struct split_kv_cache *c,
                                          const struct block *k)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_value base = in_page(d, k, c->c.scales, c->c.scale_page_stride, tir_i64(b, 4));
    const struct tir_value bytes = att_times(b, tir_max(b, k->rows, tir_i32(b, 0)), 4);
    const struct tir_view view = {tir_make_rsrc(b, base, bytes), tir_i32(b, 0), tir_i32(b, 0)};
    const struct tir_layout rows = block_rows(d), l = tir_layout_transpose(&rows);
    const struct tir_type t = tir_tile(b->f, TIR_F32, 1, SPLIT_KV_BLOCK, &l);
    return tir_transpose(b, tir_tile_load(b, view, tir_i32(b, 0), t));
}

struct decode_scales decode_load_scales(struct decode *d, const struct split_kv_cache *c,
                                        struct tir_value key, const struct decode_pages *pages)
{
    struct tir_builder *b = &d->kv.b;
    struct decode_scales s = {0};
    if (!scaled_by_row(d))
        return s;
    if (split_kv_by_lane(d->kv.v)) {
        /* In SHUFFLE, the last group of x tokens may have unwritten scales after the last token. */
        const struct tir_value group = keys_of(d, &d->kv.value, key);
        const struct tir_value last = att_plus(b, d->kv.item.end_key, -1);
        const struct tir_value keys = tir_min(b, group, att_like(b, last, group));
        const struct tir_value token = tir_zext(b, att_page_place(&d->kv.paging, keys), TIR_I64);
        const struct tir_value page = tir_zext(b, pages->v, TIR_I64);
        s.rows = att_cache_load_scales(&c->c, att_cache_scale_at(&c->c, page, token));
        return s;
    }
    struct tir_value block[DECODE_MAX_BLOCKS];
    for (unsigned i = 0; i < n_blocks(d); i++) {
        const struct block k = block_of(d, key, pages, i);
        if (d->kv.v->kv_scale == ATT_KV_SCALE_TOKEN) {
            block[i] = load_token_scales(d, c, &k);
            continue;
        }
        const struct tir_value at = page_offset(d, k.page, c->c.scale_page_stride);
        s.block[i] = tir_scalar_load(b, tir_add(b, c->c.scales, at), tir_i32(b, 0), TIR_F32);
    }
    if (d->kv.v->kv_scale == ATT_KV_SCALE_TOKEN)
        s.rows = stack(d, block);
    return s;
}

struct tir_value decode_scale(struct decode *d, struct tir_value a, const struct decode_scales *s)
{
    struct tir_builder *b = &d->kv.b;
    if (!scaled_by_row(d))
        return a;
    struct tir_value rows = s->rows;
    if (!rows.id) {
        struct tir_value block[DECODE_MAX_BLOCKS];
        const struct tir_layout l = block_rows(d);
        const struct tir_type t = tir_tile(b->f, TIR_F32, SPLIT_KV_BLOCK, 1, &l);
        for (unsigned i = 0; i < n_blocks(d); i++)
            block[i] = tir_splat(b, s->block[i], t);
        rows = stack(d, block);
    }
    return tir_mul(b, a, tir_broadcast(b, rows, d->kv.scores));
}
