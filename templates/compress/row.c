/* SPDX-License-Identifier: Apache-2.0
 *
 * compress: the steps from a group's sum to its row in the pool: norm, rotation, Hadamard matrix.
 */
#include "templates/compress/compress.h"
#include "templates/index/page.h"
#include "templates/linear/norm.h"
#include "templates/linear/sequence.h"
#include "templates/rope/rotate_rows.h"
#include "templates/workgroup/fp8.h"

enum { ELEM = 2, FLOAT = 4 };

/* Loads a vector of float32 of the length of a row. */
static struct tir_value load_vector(struct compress *c, const char *arg)
{
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_view view =
        att_view(b, tir_arg(b, arg, TIR_I64), tir_i32(b, 1), zero, c->v->head_dim * FLOAT, 0);
    return tir_tile_load(b, view, zero, c->row);
}

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

/* Multiplies 128 elements by the Hadamard matrix over sqrt 128. Each of 7 rounds replaces two
 * elements whose numbers differ in one bit by their sum and their difference. */
static struct tir_value hadamard(struct compress *c, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const struct tir_value column = tir_col_index(b, tir_with_dtype(c->row, TIR_I32));
    const struct tir_value one = tir_float_like(b, y, 1.0f);
    for (int bit = 1; bit < c->v->head_dim; bit <<= 1) {
        const struct tir_value own = tir_and(b, column, tir_int_like(b, column, bit));
        const struct tir_value signs =
            tir_select(b, tir_cmp_ne(b, own, tir_int_like(b, own, 0)), tir_neg(b, one), one);
        y = tir_fma(b, y, signs, tir_col_flip(b, y, (unsigned)bit));
    }
    return tir_mul(b, y, tir_float_like(b, y, 0x1.6a09e6p-4f));
}

/* ---- The pool ---- */

/* Returns the scale of a row: max(largest |y|, 1e-4) over the largest number of fp8. With
 * round_scales it is rounded up to a power of two. */
static struct tir_value find_scale(struct compress *c, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const struct tir_value absmax = att_norm_over_rows(b, &y, 1, true);
    const struct tir_value most = tir_max(b, absmax, tir_float_like(b, absmax, 1e-4f));
    const struct tir_value scale = att_fp8_scale(b, most);
    const struct tir_value round =
        tir_cmp_ne(b, tir_arg(b, ARG_ROUND_SCALES, TIR_I32), tir_i32(b, 0));
    return tir_select(b, round, att_power_above(b, scale), scale);
}

/* The place in the pool where a row is stored. */
struct place {
    struct att_paging paging;
    struct tir_value page;   /* i64: the page's address */
    struct tir_value inside; /* i32: the row's number in the page */
    struct tir_value plane;  /* i64: with planes, the address of the row's last 64 elements */
};

static struct place find_place(struct compress *c, struct tir_value slot)
{
    struct tir_builder *b = &c->b;
    struct place p = {.paging = att_paging_by_argument(b, false)};
    const struct att_slot at = att_slot_of(&p.paging, slot);
    p.page = tir_add(b, tir_arg(b, ARG_POOL, TIR_I64),
                     tir_mul(b, at.page, tir_arg(b, ARG_PAGE_STRIDE, TIR_I64)));
    p.inside = tir_convert(b, at.token, TIR_I32);
    if (c->v->kv_layout == ATT_KV_LAYOUT_PLANES) {
        const struct tir_value page =
            tir_add(b, tir_arg(b, ARG_POOL_ROTATED, TIR_I64),
                    tir_mul(b, at.page, tir_arg(b, ARG_ROTATED_PAGE_STRIDE, TIR_I64)));
        p.plane = tir_add(b, page, att_wide(b, att_times(b, p.inside, ATT_MIXED_ROTATED * ELEM)));
    }
    return p;
}

/* Stores a row of fp8, and its scale after the rows of the page. */
static void store_fp8(struct compress *c, const struct place *p, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const bool shuffle = c->v->kv_layout == ATT_KV_LAYOUT_SHUFFLE;
    const struct tir_value zero = tir_i32(b, 0), scale = find_scale(c, y);
    const struct tir_value inverse = tir_broadcast(b, tir_rcp(b, scale), c->row);
    const struct tir_value bytes = tir_convert(b, tir_mul(b, y, inverse), TIR_FP8);
    struct att_cache cache = att_index_keys(b, p->page, shuffle);
    cache.dim = c->v->head_dim;
    const struct tir_value at = att_index_key_byte(b, p->inside, c->v->head_dim, shuffle);
    const struct tir_type one = tir_with_dtype(tir_typeof(b->f, scale), TIR_I64);
    att_cache_store(&cache, tir_splat(b, att_wide(b, at), one), 0, bytes);
    const struct tir_value scale_byte = att_index_scale_byte(&p->paging, p->inside, c->v->head_dim);
    const struct tir_value to = tir_add(b, p->page, att_wide(b, scale_byte));
    tir_tile_store(b, att_view(b, to, tir_i32(b, 1), zero, FLOAT, 0), zero, scale);
}

/* Returns the byte offsets `at` of the runs among `these` as i64, and -1, where nothing is stored,
 * of the others. */
static struct tir_value only(struct tir_builder *b, struct tir_value these, struct tir_value at)
{
    const struct tir_value wide = tir_convert(b, at, TIR_I64);
    return tir_select(b, these, wide, tir_int_like(b, wide, -1));
}

/* Stores the scales of a row's fp8 runs as bytes of e8m0: after the rows of the page (scales_last),
 * or each twice after the row's fp8 elements (planes). `run` is each run's number, `narrow` is true
 * for runs of fp8, `exponent` is the scale's biased exponent. */
static void store_scales(struct compress *c, const struct place *p, struct tir_value narrow,
                         struct tir_value run, struct tir_value exponent)
{
    struct tir_builder *b = &c->b;
    const struct tir_value byte = tir_convert(b, exponent, TIR_I8);
    if (c->v->kv_layout == ATT_KV_LAYOUT_PLANES) {
        const struct tir_value row =
            tir_add(b, p->page, att_wide(b, att_times(b, p->inside, ATT_PLANE_ROW)));
        const struct tir_value at = only(b, narrow, tir_shl(b, run, tir_int_like(b, run, 1)));
        for (int copy = 0; copy < 2; copy++)
            tir_tile_scatter(b, row, at, tir_i32(b, ATT_MIXED_FP8 + copy), byte);
        return;
    }
    const struct tir_value rows = att_times(b, att_page_tokens(&p->paging), ATT_MIXED_ROW);
    const struct tir_value own = tir_add(b, rows, att_times(b, p->inside, ATT_MIXED_SCALES));
    tir_tile_scatter(b, tir_add(b, p->page, att_wide(b, own)), only(b, narrow, run), tir_i32(b, 0),
                     byte);
}

/* Stores a row of scales_last or planes: runs of 64 elements of fp8, the last of dtype, and the
 * runs' scales. */
static void store_mixed(struct compress *c, const struct place *p, struct tir_value y)
{
    enum { RUN = 64, MANTISSA = 23 };
    const bool planes = c->v->kv_layout == ATT_KV_LAYOUT_PLANES;
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value runs = tir_split_blocks(b, y, RUN);
    const struct tir_value absmax = att_norm_over_rows(b, &runs, 1, true);
    const struct tir_value share = att_fp8_scale(b, absmax);
    const struct tir_value scale =
        att_power_above(b, tir_max(b, share, tir_float_like(b, share, 1e-4f)));
    const struct tir_type column = tir_with_dtype(tir_typeof(b->f, scale), TIR_I32);
    const struct tir_value run = tir_row_index(b, column);
    const struct tir_value narrow = tir_cmp_lt(b, run, tir_int_like(b, run, ATT_MIXED_FP8 / RUN));
    const struct tir_value last = tir_cmp_ge(b, run, tir_int_like(b, run, ATT_MIXED_FP8 / RUN));
    const struct tir_value at = tir_mul(b, run, tir_int_like(b, run, RUN));
    const int bytes = planes ? ATT_PLANE_ROW : ATT_MIXED_ROW;
    const struct tir_value row = tir_add(b, p->page, att_wide(b, att_times(b, p->inside, bytes)));
    const struct tir_value inverse = tir_broadcast(b, tir_rcp(b, scale), tir_typeof(b->f, runs));
    tir_tile_scatter(b, row, only(b, narrow, at), zero,
                     tir_convert(b, tir_mul(b, runs, inverse), TIR_FP8));
    const struct tir_value to = planes ? tir_sub(b, p->plane, tir_i64(b, ATT_MIXED_FP8)) : row;
    tir_tile_scatter(b, to, only(b, last, at), zero, tir_convert_short(b, runs, att_dtype(c->v)));
    const struct tir_value bits = tir_bitcast(b, scale, column);
    store_scales(c, p, narrow, run, tir_shr(b, bits, tir_int_like(b, bits, MANTISSA)));
}

/* Returns the codes (i32) of the e2m1 numbers nearest to x: a sign above the count of midpoints
 * below its magnitude. A midpoint itself counts if the upper neighbour's code is even. */
static struct tir_value nearest_e2m1(struct tir_builder *b, struct tir_value x)
{
    static const float middles[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    enum { SIGN_BIT = 28, SIGN = 8 };
    const struct tir_value size = tir_abs(b, x);
    const struct tir_value bits = tir_bitcast(b, x, tir_with_dtype(tir_typeof(b->f, x), TIR_I32));
    struct tir_value code =
        tir_and(b, tir_shr(b, bits, tir_int_like(b, bits, SIGN_BIT)), tir_int_like(b, bits, SIGN));
    for (unsigned i = 0; i < sizeof(middles) / sizeof(middles[0]); i++) {
        const struct tir_value middle = tir_float_like(b, size, middles[i]);
        const struct tir_value above =
            i % 2 ? tir_cmp_ge(b, size, middle) : tir_cmp_gt(b, size, middle);
        code = tir_add(b, code,
                       tir_select(b, above, tir_int_like(b, code, 1), tir_int_like(b, code, 0)));
    }
    return code;
}

/* Returns the bytes of a row of codes, as words of 16 bits with 4 codes each. */
static struct tir_value join_codes(struct compress *c, struct tir_value codes)
{
    enum { CODES = 2, STEP = 4, DIGIT = 15 };
    struct tir_builder *b = &c->b;
    const struct tir_layout l = tir_layout_join_cols(tir_layout_of(b->f, c->row), CODES);
    const struct tir_type words = tir_tile(b->f, TIR_I32, 1, c->row.cols >> CODES, &l);
    const struct tir_value w = tir_bitcast(b, tir_convert(b, codes, TIR_I8), words);
    struct tir_value joined = tir_and(b, w, tir_int_like(b, w, DIGIT));
    for (int i = 1; i < 1 << CODES; i++) {
        const struct tir_value down = tir_shr(b, w, tir_int_like(b, w, STEP * i));
        joined = tir_or(b, joined, tir_and(b, down, tir_int_like(b, w, DIGIT << STEP * i)));
    }
    return tir_convert(b, joined, TIR_I16);
}

/* Stores a row of packed_fp4: runs of 16 elements of e2m1, then a scale of fp8 for each. */
static void store_fp4(struct compress *c, const struct place *p, struct tir_value y)
{
    enum { RUN = 16 };
    struct tir_builder *b = &c->b;
    const struct tir_value zero = tir_i32(b, 0), one = tir_i32(b, 1);
    const struct tir_value runs = tir_split_blocks(b, y, RUN);
    const struct tir_value absmax = att_norm_over_rows(b, &runs, 1, true);
    const struct tir_value share = tir_mul(b, absmax, tir_float_like(b, absmax, 1.0f / 6));
    const struct tir_value scale =
        tir_convert(b, tir_max(b, share, tir_float_like(b, share, 0x1p-6f)), TIR_FP8);
    const struct tir_value inverse =
        tir_broadcast(b, tir_rcp(b, tir_convert(b, scale, TIR_F32)), tir_typeof(b->f, runs));
    const struct tir_value codes =
        tir_join_blocks(b, nearest_e2m1(b, tir_mul(b, runs, inverse)), 1);
    const struct tir_value row =
        tir_add(b, p->page, att_wide(b, att_times(b, p->inside, ATT_FP4_ROW)));
    tir_tile_store(b, att_view(b, row, one, zero, ATT_FP4_SCALES, 0), zero, join_codes(c, codes));
    const struct tir_value run = tir_row_index(b, tir_with_dtype(tir_typeof(b->f, scale), TIR_I32));
    tir_tile_scatter(b, row, tir_convert(b, run, TIR_I64), tir_i32(b, ATT_FP4_SCALES), scale);
}

static void store_row(struct compress *c, const struct place *p, struct tir_value y)
{
    struct tir_builder *b = &c->b;
    const int bytes = c->v->head_dim * ELEM;
    const struct tir_value zero = tir_i32(b, 0);
    if (c->v->kv_layout == ATT_KV_LAYOUT_PACKED_FP4) {
        store_fp4(c, p, y);
        return;
    }
    if (att_is_mixed(c->v)) {
        store_mixed(c, p, y);
        return;
    }
    if (c->v->kv_dtype == ATT_KV_DTYPE_FP8) {
        store_fp8(c, p, y);
        return;
    }
    const struct tir_value to = tir_add(b, p->page, att_wide(b, att_times(b, p->inside, bytes)));
    tir_tile_store(b, att_view(b, to, tir_i32(b, 1), zero, bytes, 0), zero,
                   tir_convert_short(b, y, att_dtype(c->v)));
}

void compress_finish(struct compress *c, struct tir_value group, struct tir_value token,
                     struct tir_value z)
{
    enum { SLOT = 8 };
    struct tir_builder *b = &c->b;
    const struct tir_value slots = tir_add(b, tir_arg(b, ARG_SLOT_MAPPING, TIR_I64),
                                           tir_mul(b, att_wide(b, token), tir_i64(b, SLOT)));
    const struct tir_value slot = tir_scalar_load(b, slots, tir_i32(b, 0), TIR_I64);
    z = normalise(c, z);
    store_latent(c, token, z);
    struct tir_if some = tir_begin_if(b, tir_cmp_ge(b, slot, tir_i64(b, 0)), false, NULL, 0);
    struct tir_value y = z;
    if (c->v->rope != ATT_ROPE_NONE) {
        const struct rope_angles angles = {.v = c->v,
                                           .position = tir_mul(b, group, c->ratio),
                                           .first = tir_arg(b, ARG_ROTARY_FIRST, TIR_I32)};
        y = rope_rotate_rows(b, &angles, z);
    }
    if (c->v->hadamard)
        y = hadamard(c, y);
    const struct place p = find_place(c, slot);
    store_row(c, &p, y);
    tir_end_if(b, &some, NULL);
}
