/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/cache/cache.h"
#include "templates/workgroup/fp8.h"
#include "templates/workgroup/scalar.h"

static const float LEAST_SCALE = 1e-12f;

enum {
    CHUNK = 16 /* number of bytes that layout SHUFFLE keeps contiguous */,
    /* Most columns of a panel of packed rows: a number of whole runs of every format. */
    PACKED_WIDEST = 128,
};

unsigned att_cache_dtype(const struct att_variant *v)
{
    switch (att_kv_dtype(v)) {
    case ATT_KV_DTYPE_FP16: return TIR_F16;
    case ATT_KV_DTYPE_FP8: return TIR_FP8;
    case ATT_KV_DTYPE_INT8: return TIR_I8;
    default: return TIR_BF16;
    }
}

bool att_is_shuffled(const struct att_variant *v)
{
    return v->kv_layout == ATT_KV_LAYOUT_SHUFFLE || v->kv_layout == ATT_KV_LAYOUT_SHUFFLE_K;
}

bool att_shares_scale(const struct att_variant *v)
{
    return v->kv_scale == ATT_KV_SCALE_TENSOR || v->kv_scale == ATT_KV_SCALE_HEAD;
}

bool att_scales_rows(const struct att_variant *v)
{
    return v->kv_scale == ATT_KV_SCALE_TOKEN || v->kv_scale == ATT_KV_SCALE_BLOCK;
}

bool att_cache_check(const struct att_variant *v, struct att_why *why)
{
    const unsigned dtype = att_cache_dtype(v);
    const bool wide = tir_dtype_bits(dtype) == 16;
    const int x = wide ? 8 : 16;
    if (wide && dtype != att_dtype(v))
        return att_reject(why, ATT_KV_DTYPE, "a cache of 16-bit numbers has the op's dtype");
    if (wide && v->kv_scale != ATT_KV_SCALE_NONE)
        return att_reject(why, ATT_KV_SCALE, "a cache of 16-bit numbers has no scale");
    if (dtype == TIR_I8 && v->kv_scale == ATT_KV_SCALE_NONE)
        return att_reject(why, ATT_KV_SCALE, "an int8 cache needs a scale");
    const bool rows = v->head_dim == 576 && v->head_dim_v == 512;
    const bool apart = v->head_dim == 512 && v->head_dim_v == 64;
    const bool e8m0 = v->kv_scale == ATT_KV_SCALE_E8M0;
    const bool packed =
        dtype == TIR_FP8 && (e8m0 || v->kv_scale == ATT_KV_SCALE_NONE) && (rows || apart);
    if (v->kv_layout == ATT_KV_LAYOUT_PACKED && !packed)
        return att_reject(why, ATT_KV_LAYOUT,
                          "packed rows have 512 + 64 elements, kv_dtype fp8 and kv_scale none or "
                          "e8m0");
    if (att_is_pooled(v))
        return att_reject(why, ATT_KV_LAYOUT, "rows of kv_layout %s are not read by this op",
                          att_layout_name(v));
    if (e8m0 && v->kv_layout != ATT_KV_LAYOUT_PACKED)
        return att_reject(why, ATT_KV_SCALE, "e8m0 is of kv_layout packed");
    if (att_is_shuffled(v) && v->page_size % x)
        return att_reject(why, ATT_PAGE_SIZE,
                          "page_size %d is no multiple of the %d tokens of which a SHUFFLE page "
                          "keeps 16 bytes together",
                          v->page_size, x);
    return true;
}

bool att_latent_check(const struct att_variant *v, struct att_why *why)
{
    if (!att_is_pooled(v))
        return att_cache_check(v, why);
    if (v->head_dim == 512 && v->head_dim_v == 512 && v->kv_dtype == ATT_KV_DTYPE_FP8 &&
        v->kv_scale == ATT_KV_SCALE_NONE)
        return true;
    return att_reject(why, ATT_KV_LAYOUT,
                      "kv_layout %s is rows of 512 elements that are key and value, kv_dtype fp8 "
                      "and kv_scale none",
                      att_layout_name(v));
}

/* Returns the value (i64) of a stride argument in bytes; the argument counts elements. `key`: name
 * of the argument for a cache of K. `value`: name for a cache of V. */
static struct tir_value stride(struct att_cache *c, const char *key, const char *value)
{
    return att_stride(c->b, c->value ? value : key, c->size);
}

/* Sets c->scales and c->scale_page_stride for KV head `head` (i32). */
static void open_scales(struct att_cache *c, struct tir_value head)
{
    struct tir_builder *b = c->b;
    c->scales = tir_arg(b, c->value ? ARG_V_SCALE : ARG_K_SCALE, TIR_I64);
    if (c->scaling == ATT_KV_SCALE_TENSOR)
        return;
    c->scale_page_stride = att_stride(b, ARG_SCALE_PAGE_STRIDE, sizeof(float));
    const struct tir_value head_stride = att_stride(b, ARG_SCALE_HEAD_STRIDE, sizeof(float));
    c->scales = tir_add(b, c->scales, tir_mul(b, att_wide(b, head), head_stride));
}

/* Sets c->plane and its strides (bytes): the tensor with the rows' last 64 elements, with kv_layout
 * planes. */
static void open_plane(struct att_cache *c)
{
    struct tir_builder *b = c->b;
    c->plane = tir_arg(b, ARG_V, TIR_I64);
    c->plane_page_stride = att_stride(b, ARG_V_PAGE_STRIDE, 1);
    c->plane_token_stride = att_stride(b, ARG_V_TOKEN_STRIDE, 1);
}

struct att_cache att_cache(struct tir_builder *b, const struct att_variant *v,
                           const struct tir_machine *m, bool value, struct tir_value head)
{
    const unsigned dtype = att_cache_dtype(v);
    const int size = (int)tir_dtype_bits(dtype) / 8;
    const bool e8m0 = v->kv_scale == ATT_KV_SCALE_E8M0;
    const struct att_row_format *const rows = att_row_format(v);
    struct att_cache c = {
        .b = b,
        .value = value,
        .shuffle = att_is_shuffled(v),
        .columns = value && v->kv_layout == ATT_KV_LAYOUT_SHUFFLE_K,
        .page_size = v->page_size,
        .packed = rows,
        .rows = rows,
        .scaling = e8m0 ? ATT_KV_SCALE_NONE : v->kv_scale,
        .dtype = dtype,
        .size = size,
        .x = CHUNK / size,
        .dim = value ? v->head_dim_v : v->head_dim,
        .widest = ATT_CACHE_DIM_MAX,
        .largest = rows              ? att_row_largest(rows, m)
                   : dtype == TIR_I8 ? 127
                                     : att_largest_fp8(m),
    };
    const struct tir_value head_at =
        tir_mul(b, att_wide(b, head), stride(&c, ARG_K_HEAD_STRIDE, ARG_V_HEAD_STRIDE));
    c.base = att_at(b, value ? ARG_V : ARG_K, head_at);
    c.page_stride = stride(&c, ARG_K_PAGE_STRIDE, ARG_V_PAGE_STRIDE);
    if (!c.shuffle)
        c.token_stride = stride(&c, ARG_K_TOKEN_STRIDE, ARG_V_TOKEN_STRIDE);
    if (rows && rows->scales == ATT_AFTER_ROWS)
        c.token_stride = tir_i64(b, rows->bytes);
    if (rows && rows->rotated == ATT_OWN_PLANE && !value)
        open_plane(&c);
    c.pages = att_paging(b, v);
    if (c.shuffle && !value)
        c.block_stride = att_times(b, att_page_tokens(&c.pages), CHUNK);
    else if (c.shuffle)
        c.block_stride =
            c.columns ? att_times(b, att_page_tokens(&c.pages), size) : tir_i32(b, CHUNK);
    if (c.scaling != ATT_KV_SCALE_NONE)
        open_scales(&c, head);
    if (c.packed)
        c.widest = PACKED_WIDEST;
    return c.packed && value ? att_cache_rotated(&c, att_dtype(v)) : c;
}

void att_cache_of_sequence(struct att_cache *c, struct tir_value sequence)
{
    struct tir_builder *b = c->b;
    if (c->scaling == ATT_KV_SCALE_HEAD)
        c->scales = tir_add(b, c->scales, tir_mul(b, att_wide(b, sequence), c->scale_page_stride));
}

bool att_cache_narrow_panels(struct att_cache *c)
{
    if (!c->shuffle || c->dim <= ATT_CACHE_DIM_MAX / 2)
        return false;
    c->widest = ATT_CACHE_PANEL;
    return true;
}

struct att_cache att_cache_rotated(const struct att_cache *c, unsigned dtype)
{
    struct att_cache rotated = *c;
    if (!c->rows->rotated) {
        rotated.column = c->rows->scaled - ATT_MIXED_ROTATED;
        return rotated;
    }
    rotated.packed = false;
    rotated.dtype = dtype;
    rotated.size = (int)tir_dtype_bits(dtype) / 8;
    rotated.x = CHUNK / rotated.size;
    if (c->rows->rotated != ATT_OWN_PLANE) {
        rotated.base = tir_add(c->b, c->base, tir_i64(c->b, c->rows->rotated));
    } else if (!c->value) {
        rotated.base = c->plane;
        rotated.page_stride = c->plane_page_stride;
        rotated.token_stride = c->plane_token_stride;
    }
    return rotated;
}

struct tir_layout att_token_layout(const struct tir_machine *m, const struct att_token_tile *t,
                                   unsigned waves, unsigned *rows)
{
    struct tir_spread s = tir_spread(m, waves);
    const unsigned chunk = tir_bits(t->cols / t->lanes);
    tir_spread_cols(&s, TIR_REGS, chunk);
    tir_spread_rows(&s, TIR_REGS, tir_bits(t->run));
    tir_spread_cols(&s, TIR_LANES, tir_bits(t->cols) - chunk);
    tir_spread_rows(&s, TIR_LANES, tir_spread_room(&s, TIR_LANES));
    tir_spread_rows(&s, TIR_WAVES, tir_bits(waves));
    tir_spread_rows(&s, TIR_REGS, tir_bits(t->passes));
    *rows = 1u << s.rows;
    return tir_spread_layout(&s);
}

/* Returns the smaller one of two numbers. */
static unsigned min_u(unsigned a, unsigned b) { return a < b ? a : b; }

/* Returns the tile of the widest panel of rows of `dim` columns, at most `widest` columns. `x`:
 * number of elements in 16 bytes. If `runs`, a lane has columns of x tokens. The lanes of a row are
 * at most the columns of the narrowest panel, which are the lowest bit of `dim`. A wave has at
 * least two rows, since byte offsets of a single row would be scalars and exceed the scalar
 * registers. */
static struct att_token_tile token_tile_of(const struct tir_machine *m, unsigned dim,
                                           unsigned widest, unsigned x, bool runs)
{
    const unsigned width = 1u << tir_bits_floor(min_u(dim, widest));
    const unsigned lanes = min_u(width / (runs ? 64 / x : x), min_u(dim & -dim, tir_lanes(m) / 2));
    return (struct att_token_tile){
        .cols = width,
        .lanes = lanes,
        .run = runs ? x : 1,
        .passes = 1,
    };
}

/* Returns the tile of the widest panel of the cache's rows, as a workgroup copies it. */
static struct att_token_tile token_tile(const struct att_cache *c)
{
    return token_tile_of(c->b->f->machine, (unsigned)c->dim, (unsigned)c->widest, (unsigned)c->x,
                         c->shuffle && c->value);
}

unsigned att_cache_run_elements(const struct att_variant *v, const struct tir_machine *m)
{
    const unsigned x = CHUNK * 8 / tir_dtype_bits(att_cache_dtype(v)),
                   dim = (unsigned)v->head_dim_v;
    return dim * x / token_tile_of(m, dim, ATT_CACHE_DIM_MAX, x, true).lanes;
}

bool att_cache_fits_passes(const struct att_variant *v, const struct tir_machine *m,
                           unsigned passes, unsigned waves_per_simd, struct att_why *why)
{
    const bool shuffle = att_is_shuffled(v);
    const unsigned each =
        shuffle ? att_cache_run_elements(v, m) : CHUNK * 8 / tir_dtype_bits(att_cache_dtype(v));
    const unsigned registers = tir_wave_vgprs(m, waves_per_simd),
                   most = registers / (shuffle ? 4 : 2);
    return passes <= 1 || passes * each <= most ||
           att_reject(why, ATT_TILE, "a lane has no registers for %u elements", passes * each);
}

unsigned att_cache_least_rows(const struct att_cache *c, unsigned waves)
{
    const struct att_token_tile t = token_tile(c);
    return tir_lanes(c->b->f->machine) / t.lanes * t.run * waves;
}

struct att_cache_tiles att_cache_tiles(const struct att_cache *c, unsigned dtype, unsigned waves,
                                       unsigned rows)
{
    struct att_token_tile tile = token_tile(c);
    struct att_cache_tiles t = {0};
    tile.passes = rows / att_cache_least_rows(c, waves);
    for (int first = 0; first < c->dim; first += (int)tile.cols, t.n++) {
        assert(t.n < ATT_CACHE_PANELS);
        while (first + (int)tile.cols > c->dim)
            tile.cols /= 2;
        const struct tir_layout l = att_token_layout(c->b->f->machine, &tile, waves, &rows);
        t.first[t.n] = first;
        t.panel[t.n] = tir_tile(c->b->f, dtype, rows, tile.cols, &l);
    }
    const struct tir_layout l = tir_layout_slice(tir_layout_of(c->b->f, t.panel[0]), 1);
    t.column = tir_tile(c->b->f, TIR_I64, rows, 1, &l);
    return t;
}

struct att_cache_tiles att_cache_panel(const struct att_cache_tiles *t, unsigned i)
{
    return (struct att_cache_tiles){
        .n = 1,
        .first = {t->first[i]},
        .panel = {t->panel[i]},
        .column = t->column,
    };
}

unsigned att_cache_lane_elements(const struct att_cache *c, const struct att_cache_tiles *t)
{
    unsigned n = 0;
    for (unsigned i = 0; i < t->n; i++)
        n += 1u << tir_layout_of(c->b->f, t->panel[i])->reg_bits;
    return n;
}

bool att_cache_check_dims(const struct att_variant *v, struct att_why *why)
{
    static const enum att_field fields[] = {ATT_HEAD_DIM, ATT_HEAD_DIM_V};
    const int step = CHUNK * 8 / (int)tir_dtype_bits(att_cache_dtype(v));
    for (int i = 0; i < 2; i++) {
        const int dim = att_get(v, fields[i]);
        if (dim % step || dim > ATT_CACHE_DIM_MAX)
            return att_reject(why, fields[i], "%d is not a multiple of %d up to %d", dim, step,
                              ATT_CACHE_DIM_MAX);
    }
    return true;
}

/* True if the variant's fields suit an op that moves rows that are key and value in two parts: 448
 * elements of fp8 with scales, and 64 rotated elements. If not, the reason is in `why`. */
static bool check_parts(const struct att_variant *v, struct att_why *why)
{
    return (v->head_dim == ATT_MIXED_FP8 && v->head_dim_v == ATT_MIXED_ROTATED &&
            v->kv_dtype == ATT_KV_DTYPE_FP8 && v->kv_scale == ATT_KV_SCALE_NONE) ||
           att_reject(why, ATT_KV_LAYOUT,
                      "rows of kv_layout %s need head_dim 448, head_dim_v 64, kv_dtype fp8 and "
                      "kv_scale none",
                      att_layout_name(v));
}

bool att_cache_check_tile(const struct att_variant *v, const struct tir_machine *m,
                          struct att_why *why)
{
    return att_cache_check_dims(v, why) &&
           (att_is_pooled(v) ? check_parts(v, why) : att_cache_check(v, why)) &&
           att_check_tile(v, m, why);
}

/* Returns `a`, a tile of any shape, times `scalar` of the same dtype. */
static struct tir_value times(struct tir_builder *b, struct tir_value a, struct tir_value scalar)
{
    return tir_mul(b, a, att_like(b, scalar, a));
}

struct tir_value att_cache_row(const struct att_cache *c, struct tir_value page,
                               struct tir_value token)
{
    struct tir_builder *b = c->b;
    const struct tir_value at = times(b, page, c->page_stride);
    if (!c->shuffle)
        return tir_add(b, at, times(b, token, c->token_stride));
    if (!c->value)
        return tir_add(b, at, tir_mul(b, token, tir_int_like(b, token, CHUNK)));
    if (c->columns)
        return tir_add(b, at, tir_mul(b, token, tir_int_like(b, token, c->size)));
    const struct tir_value rest = att_modulo(b, token, c->x);
    const struct tir_value group = tir_sub(b, token, rest);
    const struct tir_value groups =
        tir_mul(b, group, tir_int_like(b, group, (int64_t)c->dim * c->size));
    return tir_add(b, at, tir_add(b, groups, tir_mul(b, rest, tir_int_like(b, rest, c->size))));
}

/* Returns `at` (i64, byte offsets of rows) with the sign bit set where `slot` (i64) is negative.
 * The row of a negative slot then stays negative for any offset within it. A comparison would need
 * scalar registers for each of many rows. */
static struct tir_value unless_negative(struct tir_builder *b, struct tir_value slot,
                                        struct tir_value at)
{
    return tir_or(b, at, tir_and(b, slot, tir_int_like(b, slot, INT64_MIN)));
}

struct tir_value att_cache_slot_row(const struct att_cache *c, struct tir_value slot)
{
    const struct att_slot s = att_slot_of(&c->pages, slot);
    return unless_negative(c->b, slot, att_cache_row(c, s.page, s.token));
}

/* ---- Layout SHUFFLE: blocks of a row that are not adjacent in memory ---- */

/* Returns the type of a tile with an i64 for each block of a tile of type `t`: rows x (columns /
 * width). A block is `width` adjacent columns of a row. */
static struct tir_type blocks_of(const struct att_cache *c, struct tir_type t, unsigned width)
{
    struct tir_func *f = c->b->f;
    const struct tir_layout split = tir_layout_split_blocks(tir_layout_of(f, t), t.rows, width);
    const struct tir_layout vector = tir_layout_slice(&split, 1);
    const struct tir_layout l = tir_layout_join_blocks(&vector, t.rows, 1);
    return tir_tile(f, TIR_I64, t.rows, t.cols / width, &l);
}

/* Returns the byte offset (i64, shape of `blocks`) of each block of columns. `at` (i32): bytes from
 * the start of the row to the block. `row` has the offset of each row. Blocks are in the order of
 * tir_split_blocks(). */
static struct tir_value rows_at(const struct att_cache *c, struct tir_value row,
                                struct tir_type blocks, struct tir_value at)
{
    struct tir_builder *b = c->b;
    const struct tir_value each =
        tir_add(b, tir_broadcast(b, row, blocks), tir_zext(b, at, TIR_I64));
    return tir_split_blocks(b, each, 1);
}

/* Returns the byte offsets (i64) of the blocks of `width` columns of a tile of type `t`, in the
 * order of tir_split_blocks(). `row` has the offset of each row. Block i of a row is i * step bytes
 * after the row's start. */
static struct tir_value block_rows(const struct att_cache *c, struct tir_value row,
                                   struct tir_type t, unsigned width, struct tir_value step)
{
    const struct tir_type blocks = blocks_of(c, t, width);
    return rows_at(c, row, blocks, times(c->b, tir_col_index(c->b, blocks), step));
}

/* Returns the bytes (i32) from the start of a row to its column `first`. */
static struct tir_value column_byte(const struct att_cache *c, int first)
{
    if (c->packed)
        return tir_i32(c->b, att_row_bytes(c->rows, c->column + first));
    if (!c->shuffle)
        return tir_i32(c->b, first * c->size);
    return att_times(c->b, c->block_stride, c->value ? first : first / c->x);
}

/* Stores `a` as columns of K in SHUFFLE, from column `first` on. The columns may begin inside a
 * block of x adjacent columns and end in another block. `row` has the byte offsets of rows. Each
 * store is the widest that stays inside a block. */
static void store_across(const struct att_cache *c, struct tir_value row, int first,
                         struct tir_value a)
{
    struct tir_builder *b = c->b;
    const struct tir_type t = tir_typeof(b->f, a);
    const unsigned in_block = (unsigned)c->x, run = (unsigned)(first & -first);
    const unsigned width = run < t.cols ? run : t.cols, per_block = in_block / width;
    const struct tir_type blocks = blocks_of(c, t, width);
    const struct tir_value column = tir_col_index(b, blocks);
    const struct tir_value number =
        tir_add(b, column, tir_int_like(b, column, (unsigned)first / width));
    const struct tir_value block = tir_shr(b, number, tir_int_like(b, number, tir_bits(per_block)));
    const struct tir_value within = tir_mul(b, att_modulo(b, number, (int)per_block),
                                            tir_int_like(b, number, (int)width * c->size));
    const struct tir_value at = tir_add(b, times(b, block, c->block_stride), within);
    tir_tile_scatter(b, c->base, rows_at(c, row, blocks, at), tir_i32(b, 0),
                     tir_split_blocks(b, a, width));
}

/* Stores tile `a` of V in SHUFFLE element by element. `row` has the byte offsets of rows, and
 * `byte` (i32) is the offset of the first column in each row. */
static void store_elements(const struct att_cache *c, struct tir_value row, struct tir_value byte,
                           struct tir_value a)
{
    struct tir_builder *b = c->b;
    if (!c->columns || c->page_size) {
        const unsigned apart = (unsigned)(c->columns ? c->page_size * c->size : CHUNK);
        tir_tile_scatter_apart(b, c->base, row, byte, apart, a);
        return;
    }
    const struct tir_value rows = block_rows(c, row, tir_typeof(b->f, a), 1, c->block_stride);
    tir_tile_scatter(b, c->base, rows, byte, tir_split_blocks(b, a, 1));
}

void att_cache_store(const struct att_cache *c, struct tir_value row, int first, struct tir_value a)
{
    struct tir_builder *b = c->b;
    const struct tir_value byte = column_byte(c, first);
    if (!c->shuffle) {
        tir_tile_scatter(b, c->base, row, byte, a);
        return;
    }
    if (c->value) {
        store_elements(c, row, byte, a);
        return;
    }
    const struct tir_type t = tir_typeof(b->f, a);
    const unsigned x = (unsigned)c->x, place = (unsigned)first % x;
    if (place + t.cols <= x && t.cols < x) { /* the columns are within one block */
        tir_tile_scatter(b, c->base, row, att_plus(b, byte, (int)place * c->size), a);
        return;
    }
    if (place) {
        store_across(c, row, first, a);
        return;
    }
    const struct tir_value rows = block_rows(c, row, t, x, c->block_stride);
    tir_tile_scatter(b, c->base, rows, byte, tir_split_blocks(b, a, x));
}

/* ---- Layout SHUFFLE: runs of tokens of a column of V ---- */

struct tir_value att_cache_has_runs(const struct att_cache *c, struct tir_value slot)
{
    struct tir_builder *b = c->b;
    if (!c->shuffle || !c->value)
        return tir_bool(b, false);
    /* A slot minus its row's index in the group is the slot at which the group begins. For a run
     * this is a multiple of x, the same for all rows. Negative slots all get one number far below
     * 0. */
    const struct tir_value own = att_modulo(b, tir_row_index(b, tir_typeof(b->f, slot)), c->x);
    const struct tir_value begin = tir_sub(b, slot, tir_convert(b, own, TIR_I64));
    const struct tir_value nowhere = tir_int_like(b, begin, -(INT64_C(1) << 62));
    const struct tir_value negative = tir_sar(b, slot, tir_int_like(b, slot, 63));
    const struct tir_value first =
        tir_add(b, begin, tir_and(b, negative, tir_sub(b, nowhere, begin)));
    const struct tir_value groups = tir_split_blocks(b, tir_transpose(b, first), (unsigned)c->x);
    const struct tir_value last = tir_row_max(b, groups);
    const struct tir_value least = tir_neg(b, tir_row_max(b, tir_neg(b, groups)));
    const struct tir_value zero = tir_int_like(b, last, 0);
    const struct tir_value broken =
        tir_or(b, tir_cmp_ne(b, last, least), tir_cmp_ne(b, att_modulo(b, last, c->x), zero));
    return tir_xor(b, tir_any(b, broken), tir_bool(b, true));
}

/* Returns the byte offset (i64) of each run of V in SHUFFLE from the start of its group of x
 * tokens. A run is the x elements of a column, and row i of type `t` is for the runs of column
 * i. */
static struct tir_value run_column(const struct att_cache *c, struct tir_type t)
{
    struct tir_builder *b = c->b;
    const struct tir_value row = tir_row_index(b, t);
    if (c->columns)
        return tir_zext(b, times(b, row, c->block_stride), TIR_I64);
    const struct tir_value column = tir_zext(b, row, TIR_I64);
    return tir_mul(b, column, tir_int_like(b, column, CHUNK));
}

/* Returns the byte offsets (i64) of the runs of T tokens of V in SHUFFLE, [(T/x) D, 1]. A run is x
 * adjacent tokens of a column. `transposed`: type [D, T] of the elements. `row`: byte offsets of
 * the tokens. */
static struct tir_value run_rows(const struct att_cache *c, struct tir_value row,
                                 struct tir_type transposed)
{
    struct tir_builder *b = c->b;
    const struct tir_value groups = tir_split_blocks(b, tir_transpose(b, row), (unsigned)c->x);
    /* A group begins at its first row, which has the lowest offset. In a group that is not stored,
     * all offsets are equal. */
    const struct tir_value least = tir_neg(b, tir_row_max(b, tir_neg(b, groups)));
    const struct tir_layout split =
        tir_layout_split_blocks(tir_layout_of(b->f, transposed), transposed.rows, (unsigned)c->x);
    const struct tir_layout vector = tir_layout_slice(&split, 1);
    const struct tir_layout l = tir_layout_join_blocks(&vector, transposed.rows, 1);
    const struct tir_type t =
        tir_tile(b->f, TIR_I64, transposed.rows, transposed.cols / (unsigned)c->x, &l);
    const struct tir_value at = run_column(c, t);
    const struct tir_value both = tir_add(b, tir_broadcast(b, tir_transpose(b, least), t), at);
    return tir_split_blocks(b, both, 1);
}

void att_cache_store_runs(const struct att_cache *c, struct tir_value row, int first,
                          struct tir_value a)
{
    struct tir_builder *b = c->b;
    const struct tir_layout swapped =
        tir_layout_regs_first(tir_layout_of(b->f, tir_typeof(b->f, a)), TIR_RC(c->x - 1, 0));
    const struct tir_value columns = tir_transpose(b, tir_relayout(b, a, &swapped));
    const struct tir_value rows = run_rows(c, row, tir_typeof(b->f, columns));
    tir_tile_scatter(b, c->base, rows, column_byte(c, first),
                     tir_split_blocks(b, columns, (unsigned)c->x));
}

void att_cache_store_slots(const struct att_cache *c, const struct att_cache_tiles *t,
                           struct tir_value slot, const struct tir_value *a)
{
    struct tir_builder *b = c->b;
    const struct tir_value row = att_cache_slot_row(c, slot);
    const bool may_run = c->shuffle && c->value;
    struct tir_if runs;
    if (may_run) {
        runs = att_begin_if(b, att_cache_has_runs(c, slot));
        for (unsigned i = 0; i < t->n; i++)
            att_cache_store_runs(c, row, t->first[i], a[i]);
        tir_else(b, &runs, NULL);
    }
    for (unsigned i = 0; i < t->n; i++)
        att_cache_store(c, row, t->first[i], a[i]);
    if (may_run)
        tir_end_if(b, &runs, NULL);
}

struct tir_type att_cache_load_type(const struct att_cache *c, struct tir_type t)
{
    const struct tir_layout *l = tir_layout_of(c->b->f, t);
    const bool by_rows = c->shuffle && c->value;
    const struct tir_layout regs_first =
        tir_layout_regs_first(l, TIR_RC(by_rows ? c->x - 1 : 0, 0));
    if (c->packed && c->rows->bits == 4) {
        const struct tir_layout bytes = tir_layout_join_cols(&regs_first, 1);
        return tir_tile(c->b->f, TIR_I8, t.rows, t.cols / 2u, &bytes);
    }
    return tir_tile(c->b->f, c->dtype, t.rows, t.cols, &regs_first);
}

struct tir_value att_cache_load(const struct att_cache *c, struct tir_value row, int first,
                                struct tir_type t)
{
    struct tir_builder *b = c->b;
    const struct tir_value byte = column_byte(c, first);
    const unsigned x = (unsigned)c->x;
    const struct tir_layout l = *tir_layout_of(b->f, t);
    if (!c->shuffle)
        return tir_tile_gather(b, c->base, row, byte, t);
    if (!c->value) {
        const struct tir_layout split = tir_layout_split_blocks(&l, t.rows, x);
        const struct tir_type blocks = tir_tile(b->f, t.dtype, t.rows * (t.cols / x), x, &split);
        const struct tir_value rows = block_rows(c, row, t, x, c->block_stride);
        return tir_join_blocks(b, tir_tile_gather(b, c->base, rows, byte, blocks), t.rows);
    }
    const struct tir_layout columns = tir_layout_transpose(&l);
    const struct tir_layout split = tir_layout_split_blocks(&columns, t.cols, x);
    const struct tir_value rows =
        run_rows(c, row, tir_tile(b->f, t.dtype, t.cols, t.rows, &columns));
    const struct tir_type runs = tir_tile(b->f, t.dtype, t.cols * (t.rows / x), x, &split);
    const struct tir_value a =
        tir_join_blocks(b, tir_tile_gather(b, c->base, rows, byte, runs), t.cols);
    return tir_transpose(b, a);
}

/* ---- Scales: byte offsets, loads and stores, quantisation ---- */

struct tir_value att_cache_scale_at(const struct att_cache *c, struct tir_value page,
                                    struct tir_value token)
{
    struct tir_builder *b = c->b;
    const struct tir_value at = times(b, page, c->scale_page_stride);
    if (c->scaling == ATT_KV_SCALE_BLOCK)
        return at;
    return tir_add(b, at, tir_mul(b, token, tir_int_like(b, token, sizeof(float))));
}

struct tir_value att_cache_scale_row(const struct att_cache *c, struct tir_value slot)
{
    const struct att_slot s = att_slot_of(&c->pages, slot);
    return unless_negative(c->b, slot, att_cache_scale_at(c, s.page, s.token));
}

struct tir_value att_packed_scale_row(const struct att_cache *c, struct tir_value slot)
{
    struct tir_builder *b = c->b;
    const struct att_slot s = att_slot_of(&c->pages, slot);
    if (c->rows->scales != ATT_AFTER_ROWS) {
        const struct tir_value row = att_cache_row(c, s.page, s.token);
        return unless_negative(b, slot, tir_add(b, row, tir_int_like(b, row, c->rows->scales)));
    }
    const struct tir_value rows = att_times(b, att_page_tokens(&c->pages), ATT_MIXED_ROW);
    const struct tir_value page =
        tir_add(b, times(b, s.page, c->page_stride), att_like(b, att_wide(b, rows), s.page));
    const struct tir_value own = tir_mul(b, s.token, tir_int_like(b, s.token, ATT_MIXED_SCALES));
    return unless_negative(b, slot, tir_add(b, page, own));
}

/* Returns the bytes (i32) from the first scale of a packed row to the scale of column `first`. */
static struct tir_value packed_scale_byte(const struct att_cache *c, int first)
{
    const int run = (c->column + first) / c->rows->run;
    return tir_i32(c->b, run * att_row_scale_bytes(c->rows) * c->rows->copies);
}

/* Returns the byte offsets (i64) of the scales of a packed panel's runs, to which the caller adds
 * packed_scale_byte(). `t`: type of the panel. `row`: result of att_packed_scale_row(). `first`:
 * the panel's first column. Runs after the row's last scaled element have negative offsets. */
static struct tir_value scale_rows(const struct att_cache *c, struct tir_value row, int first,
                                   struct tir_type t)
{
    struct tir_builder *b = c->b;
    const struct att_row_format *const rows = c->rows;
    const int step = att_row_scale_bytes(rows) * rows->copies;
    const struct tir_type blocks = blocks_of(c, t, (unsigned)rows->run);
    const struct tir_value number = tir_col_index(b, blocks);
    const struct tir_value at = tir_mul(b, number, tir_int_like(b, number, step));
    if (c->column + first + (int)t.cols <= rows->scaled)
        return rows_at(c, row, blocks, at);
    const struct tir_value there = tir_cmp_lt(
        b, number, tir_int_like(b, number, (rows->scaled - c->column - first) / rows->run));
    const struct tir_value each =
        tir_add(b, tir_broadcast(b, row, blocks), tir_zext(b, at, TIR_I64));
    return tir_split_blocks(b, tir_select(b, there, each, tir_int_like(b, each, -1)), 1);
}

struct tir_value att_packed_load_scales(const struct att_cache *c, struct tir_value row, int first,
                                        struct tir_type t)
{
    const struct tir_value rows = scale_rows(c, row, first, t);
    const struct tir_type type =
        tir_with_dtype(tir_typeof(c->b->f, rows), att_packed_scale_dtype(c));
    return att_packed_decode(
        c, tir_tile_gather(c->b, c->base, rows, packed_scale_byte(c, first), type));
}

struct tir_value att_packed_quantise(const struct att_cache *c, struct tir_value row, int first,
                                     struct tir_value x)
{
    struct tir_builder *b = c->b;
    const struct att_packed packed = att_pack(c, x);
    const struct tir_value rows = scale_rows(c, row, first, tir_typeof(b->f, x));
    for (int copy = 0; copy < c->rows->copies; copy++)
        tir_tile_scatter(
            b, c->base, rows,
            att_plus(b, packed_scale_byte(c, first), copy * att_row_scale_bytes(c->rows)),
            packed.scales);
    return packed.elements;
}

struct tir_value att_absmax(struct tir_builder *b, struct tir_value x)
{
    return tir_row_max(b, tir_abs(b, x));
}

struct tir_value att_cache_scale_of(const struct att_cache *c, struct tir_value absmax)
{
    return tir_mul(c->b, absmax, tir_float_like(c->b, absmax, 1 / c->largest));
}

struct tir_value att_cache_inverse(const struct att_cache *c, struct tir_value scale)
{
    return tir_rcp(c->b, tir_max(c->b, scale, tir_float_like(c->b, scale, LEAST_SCALE)));
}

struct tir_value att_cache_quantise(const struct att_cache *c, struct tir_value x,
                                    struct tir_value inverse)
{
    const struct tir_value small = inverse.id ? att_scaled(c->b, x, inverse) : x;
    if (c->packed || c->scaling == ATT_KV_SCALE_TOKEN || c->scaling == ATT_KV_SCALE_BLOCK)
        return tir_convert_in_range(c->b, small, c->dtype);
    return tir_convert(c->b, small, c->dtype);
}

struct tir_value att_cache_dequantise(const struct att_cache *c, struct tir_value a,
                                      struct tir_value scale, unsigned dtype)
{
    if (!scale.id)
        return tir_convert(c->b, a, dtype);
    if (c->packed)
        return att_unpack(c, a, scale, dtype);
    return tir_convert(c->b, att_scaled(c->b, tir_convert(c->b, a, TIR_F32), scale), dtype);
}
