/* SPDX-License-Identifier: Apache-2.0
 *
 * Paged attention of a few queries per sequence (flash-decoding: Dao et al., "Flash-Decoding for
 * long-context inference"; work lists are as in AITER's persistent kernels).
 *
 *      O = softmax(scale Q K^T + mask) V
 *
 * An item may have a part of a sequence's keys; then O is written with the log of its denominator.
 * All queries and heads that share a KV head are the columns of one product: S^T = K Q^T, O^T = V^T
 * P^T. K and V are loaded directly to registers, since no other wave reads them. The waves of a
 * workgroup have different tiles of keys, and merge their states at the end.
 * decode/pipelines/register_stream.c has the loop's table.
 */
#include "templates/decode/pipelines/pipelines.h"

#include "ir/address_map.h"
#include "ir/bits.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/grid.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Initialises members of a tile for heads of up to `dim` elements. columns: queries x heads.
 * n_keys: keys of a tile. n_by_row: keys of a tile if each row has a page number. per_simd: waves
 * on a SIMD. */
#define TILE(dim, columns, n_keys, n_by_row, per_simd)                           \
    .head_dim = (dim), .head_dim_v = (dim), .rows = (columns), .keys = (n_keys), \
    .keys_by_row = (n_by_row), .waves = 4, .waves_per_simd = (per_simd)

/* The tile table. Tiles have as many keys as registers allow. A variant uses the first row that
 * serves the larger of its head dims and fits. The last row of a head dim has the most columns.
 * With 16 + 16 loads of 1 KiB in flight, the last wave to end can use the whole bandwidth. */
const struct att_tile decode_tiles[DECODE_TILES] = {
    {TILE(64, 16, 64, 32, 2), .why = "few bytes a key"},
    {TILE(64, 32, 64, 32, 2), .why = "O 32"},
    {TILE(64, 64, 32, 16, 1), .why = "O 64, Q 32; K and V read once are worth half of the waves"},
    {TILE(128, 16, 64, 32, 2), .why = "32 + 32 registers of K and V, O 32"},
    {TILE(128, 32, 32, 32, 2), .why = "O 64"},
    {TILE(128, 64, 16, 16, 1), .why = "O 128, Q 64"},
    {TILE(256, 16, 16, 16, 2), .why = "K and V 32 each, O 64"},
    {TILE(256, 32, 16, 16, 1), .why = "O 128, Q 64"},
    {TILE(512, 16, 16, 16, 1), .why = "K, V and Q 64 each, O 128"},
    {TILE(64, 16, 64, 32, 2), .own = {[DECODE_BY_GROUPS] = 1}, .why = "few keys of many heads"},
    {TILE(128, 16, 32, 32, 2), .own = {[DECODE_BY_GROUPS] = 1},
     .why = "few keys of many heads; loads of 32 keys begin the first product sooner"},
    {TILE(256, 16, 16, 16, 2), .own = {[DECODE_BY_GROUPS] = 1}, .why = "few keys of many heads"},
};

static const struct att_knob knobs[] = {
    {"keys", 3, {16, 32, 64}},   {"keys_by_row", 2, {16, 32}},  {"waves", 1, {8}},
    {"hoist_vgprs", 2, {4, 16}}, {"waves_per_simd", 2, {1, 2}}, {"ahead", 1, {1}},
    {"in_order", 1, {1}},
};

const struct att_knob decode_fitted[DECODE_N_FITTED] = {
    {"keys", 2, {32, 64}},
};

/* True if rows of K or V are loaded in two parts, because their width is no power of two. */
static bool in_parts(const struct att_variant *v)
{
    return split_kv_cache(v->head_dim).overlap || split_kv_cache(v->head_dim_v).overlap;
}

/* Returns the fewest keys that a matrix instruction of the product P V takes, if P and V are of
 * `dtype` (enum tir_dtype). */
static unsigned least_keys(const struct tir_machine *m, unsigned dtype)
{
    return tir_find_mma(m, 16, 16, 16, dtype) < 0 ? 32 : 16;
}

/* Returns the number of keys of a tile, at least least_keys(). The tile has t->keys_by_row keys if
 * each row of K and V takes registers for a page number, a scale or a mask byte. The same holds if
 * scores are scaled and in_parts(). A custom mask with more than 16 rows limits the tile to
 * SPLIT_KV_BLOCK keys. */
static unsigned tile_keys(const struct att_variant *v, const struct att_tile *t,
                          const struct tir_machine *m)
{
    const bool by_row = split_kv_by_lane(v) || v->kv_scale == ATT_KV_SCALE_TOKEN ||
                        v->mask == ATT_MASK_CUSTOM || (att_scales_scores(v) && in_parts(v));
    const unsigned least = least_keys(m, att_dtype(v));
    unsigned keys = by_row ? t->keys_by_row : t->keys;
    if (v->mask == ATT_MASK_CUSTOM && t->rows > 16)
        /* Larger tiles leave no registers for the addresses of the mask bytes. */
        keys = SPLIT_KV_BLOCK;
    return keys < least ? least : keys;
}

bool decode_fills(const struct att_variant *v, const struct att_tile *t,
                  const struct tir_machine *m)
{
    const unsigned elements = tile_keys(v, t, m) * (unsigned)(v->head_dim + v->head_dim_v);
    const unsigned kv = elements * (tir_dtype_bits(att_cache_dtype(v)) / 8);
    const unsigned o = (unsigned)(t->rows * v->head_dim_v) * (unsigned)sizeof(float);
    const unsigned vgprs = (kv + o) / (tir_lanes(m) * (unsigned)sizeof(uint32_t));
    return vgprs >= tir_wave_vgprs(m, (unsigned)t->waves_per_simd);
}

/* True if a wave has registers for the tile's rows. Page numbers for each row, and hooks, need
 * registers, so that fewer rows fit. */
static bool has_registers(const struct att_variant *v, const struct att_tile *t,
                          const struct tir_machine *m)
{
    /* In waves of 32 lanes a lane has twice the registers of a tile, and a matrix instruction takes
     * 32 keys or more. */
    if (m->lane_bits < TIR_WAVE_BITS && t->head_dim > 128 && t->rows > 16)
        return false;
    const bool by_lane = split_kv_by_lane(v);
    const bool window = att_hides_early(v) && in_parts(v);
    const bool scaled = att_scales_rows(v);
    if (by_lane && (scaled || att_is_shuffled(v)))
        return t->rows <= 16;
    const bool plain = !by_lane && !v->logits && !window;
    return plain || t->waves_per_simd > 1 || t->rows <= 16;
}

/* True if no tile for the head dims of `t` that fits the registers has more rows. Tile `t` then
 * serves any number of rows, in several passes. */
static bool is_widest(const struct att_variant *v, const struct att_tile *t,
                      const struct tir_machine *m)
{
    for (size_t i = 0; i < DECODE_TILES; i++)
        if (decode_tiles[i].head_dim == t->head_dim && decode_tiles[i].rows > t->rows &&
            has_registers(v, &decode_tiles[i], m))
            return false;
    return true;
}

/* Returns the largest head dim, in elements, whose tiles fit in a wave's registers. O of 16 queries
 * may take a quarter of the registers. K and V then take a quarter each, and Q takes an eighth. */
static int widest_head(const struct att_variant *v, const struct tir_machine *m)
{
    enum { SHUFFLED = 128, MOST = 256, ROWS = 16 };
    const int by_registers = (int)(m->wave_vgprs / 4 * tir_lanes(m) / ROWS);
    const int most = att_is_shuffled(v) ? SHUFFLED : MOST;
    return by_registers < most ? by_registers : most;
}

bool decode_fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const int dim = v->head_dim > v->head_dim_v ? v->head_dim : v->head_dim_v;
    const int rows = (v->gqa ? v->gqa : 1) * v->q_len;
    if (dim > t->head_dim)
        return att_reject(why, ATT_TILE, "the tile is for head dims up to %d", t->head_dim);
    const int most = widest_head(v, m);
    if (dim > most && m->lane_bits < TIR_WAVE_BITS)
        return att_reject(why, v->head_dim > most ? ATT_HEAD_DIM : ATT_HEAD_DIM_V,
                          "waves of %s have no registers for heads of more than %d", m->name, most);
    if (!has_registers(v, t, m))
        return att_reject(
            why, ATT_TILE,
            "%d rows at %d waves a SIMD leave no registers for what is done to scores", t->rows,
            t->waves_per_simd);
    if (tir_find_mma(m, 16, 16, 0, att_dtype(v)) < 0)
        return att_reject(why, ATT_TILE, "%s has no matrix instruction with 16 rows", m->name);
    if (t->own[DECODE_BY_GROUPS])
        return decode_fits_groups(v, t, m, why);
    if (!v->tile && rows > t->rows && !is_widest(v, t, m))
        return att_reject(why, ATT_TILE, "a workgroup has %d rows, fewer than gqa times q_len, %d",
                          t->rows, rows);
    return true;
}

/* True if loads of K read whole rows instead of operands. In waves of 32 lanes a load of an operand
 * would read 32 bytes of each of 16 cache lines. The lines would have to stay in the L1 until all
 * of their bytes are read. Whole rows require pages with scalar numbers, and tiles of all waves
 * that fill at most half of the LDS. */
static bool takes_lines(const struct att_variant *v, const struct tir_machine *m,
                        const struct att_tile *t)
{
    const unsigned row = (unsigned)v->head_dim * tir_dtype_bits(att_cache_dtype(v)) / 8;
    const unsigned waves = 4u * t->waves_per_simd;
    return m->lane_bits < TIR_WAVE_BITS && !att_is_shuffled(v) && !split_kv_by_lane(v) &&
           tir_is_power(v->head_dim) && waves * t->keys * (row + 16) <= m->lds_bytes / 2;
}

/* Implements att_template.rules. Waves of 32 lanes get all registers of a SIMD for wide heads,
 * since a lane has twice as many elements. Loads read whole rows of K if takes_lines(). */
static void rules(const struct att_variant *v, const struct tir_machine *m, struct att_tile *t)
{
    if (m->lane_bits < TIR_WAVE_BITS && t->head_dim > 128)
        t->waves_per_simd = 1;
    if (takes_lines(v, m, t))
        t->own[DECODE_WHOLE_LINES] = 1;
}

/* True if rows of the cache are a multiple of loads of 16 bytes; if not, the reason is in `why`. */
static bool check_dims(const struct att_variant *v, struct att_why *why)
{
    static const enum att_field fields[] = {ATT_HEAD_DIM, ATT_HEAD_DIM_V};
    const int step = 128 / (int)tir_dtype_bits(att_cache_dtype(v));
    for (int i = 0; i < 2; i++) {
        const int dim = att_get(v, fields[i]);
        if (dim % step || dim < 64 || dim > 512)
            return att_reject(why, fields[i], "%s %d is not a multiple of %d from 64 to 512",
                              att_fields[fields[i]].name, dim, step);
    }
    return true;
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (!check_dims(v, why))
        return false;
    if (v->q_dtype == ATT_Q_DTYPE_FP8 && v->kv_dtype != ATT_KV_DTYPE_FP8)
        return att_reject(why, ATT_Q_DTYPE, "q_dtype fp8 is for a cache of kv_dtype fp8");
    if (v->q_dtype != ATT_Q_DTYPE_FP8 && v->q_scale != ATT_Q_SCALE_TENSOR)
        return att_reject(why, ATT_Q_SCALE, "q_scale is for q_dtype fp8");
    if (v->q_scale == ATT_Q_SCALE_KV_HEAD && v->kv_scale != ATT_KV_SCALE_HEAD)
        return att_reject(why, ATT_Q_SCALE, "q_scale kv_head is for a cache of kv_scale head");
    if (v->mask == ATT_MASK_BLOCKS)
        return att_reject(why, ATT_MASK, "mask blocks is for prefill");
    if (v->kv_layout == ATT_KV_LAYOUT_PACKED)
        return att_reject(why, ATT_KV_LAYOUT, "rows of kv_layout packed are not read by this op");
    struct att_tile tile;
    return att_cache_check(v, why) && att_find_tile(v, m, &tile, why);
}

/* ---- Columns ---- */

/* True if Q^T, the right operand of S^T = K Q^T, stays in registers. False: it is in LDS. */
static bool keeps_q(const struct decode *d) { return d->kv.k.width <= 256; }

/* Returns the bytes of LDS for Q^T; 0 if Q^T stays in registers. */
static unsigned q_bytes(const struct decode *d)
{
    return keeps_q(d) ? 0 : d->kv.columns * d->kv.k.width * d->query.bytes;
}

/* Stores Q^T in LDS. Every wave stores the same data. */
static void place_q(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    d->query.map = tir_lane_major(tir_layout_of(b->f, tir_typeof(b->f, d->query.q)), 8);
    tir_tile_lds_store(b, d->query.lds, d->query.q, &d->query.map);
    att_lds_barrier(b);
}

/* Returns Q^T, from registers or from LDS. */
static struct tir_value read_q(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    if (keeps_q(d))
        return d->query.q;
    return tir_tile_lds_load(b, d->query.lds, tir_typeof(b->f, d->query.q), &d->query.map);
}

/* Returns `q`, a part of Q, with zeros in the first `columns` elements of each head. The second
 * part of K has some columns that the first part has too; with the zeros, these are multiplied only
 * once. */
static struct tir_value without_first(struct decode *d, struct tir_value q, unsigned columns)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_type type = tir_typeof(b->f, q);
    const struct tir_value column = tir_col_index(b, tir_with_dtype(type, TIR_I32));
    const struct tir_value twice = tir_cmp_lt(b, column, tir_int_like(b, column, columns));
    if (type.dtype != TIR_FP8)
        return tir_select(b, twice, tir_float_like(b, q, 0.0f), q);
    const struct tir_value bits = tir_bitcast(b, q, tir_with_dtype(type, TIR_I8));
    return tir_bitcast(b, tir_select(b, twice, tir_int_like(b, bits, 0), bits), type);
}

/* Returns the byte offset (i64) of the row of each query and head *r in a tensor [token, head, ...]
 * with elements of `size` bytes. token_stride and head_stride name the arguments with its
 * strides. */
static struct tir_value q_address(struct decode *d, const struct split_kv_rows *r,
                                  const char *token_stride, const char *head_stride, int size)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_value token = tir_convert(b, r->token, TIR_I64);
    const struct tir_value head = tir_convert(b, r->head, TIR_I64);
    return tir_add(b, tir_mul(b, token, att_like(b, att_stride(b, token_stride, size), token)),
                   tir_mul(b, head, att_like(b, att_stride(b, head_stride, size), head)));
}

/* Issues the loads of Q^T of the item's queries and heads into d->query.q. */
static void load_q(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_waves none = {0};
    const unsigned width = split_kv_part_width(&d->kv.k);
    const struct tir_mma *const qk = &d->kv.m->mma[d->kv.qk];
    const struct tir_contraction depth = tir_contract_rows(qk, width, 16 / d->kv.kv_bytes);
    const struct tir_layout l = tir_mma_right(qk, d->kv.columns, &depth, none);
    const struct tir_layout rows = tir_layout_slice(&l, 1);
    const struct tir_type t = tir_tile(b->f, d->query.dtype, d->kv.columns, width, &l);
    const int size = (int)d->query.bytes;
    const struct split_kv_rows r =
        split_kv_rows(&d->kv, tir_row_index(b, tir_tile(b->f, TIR_I32, d->kv.columns, 1, &rows)));
    const struct tir_value at = q_address(d, &r, ARG_Q_TOKEN_STRIDE, ARG_Q_HEAD_STRIDE, size);
    struct tir_value part[2];
    for (unsigned i = 0; i < split_kv_parts(&d->kv.k); i++)
        part[i] = tir_tile_gather(b, tir_arg(b, ARG_Q, TIR_I64), at,
                                  tir_i32(b, size * split_kv_part_first(&d->kv.k, i)), t);
    if (d->kv.k.overlap)
        part[1] = without_first(d, part[1], d->kv.k.overlap);
    struct tir_value q = decode_join(d, part, &d->kv.k);
    if (d->kv.k.overlap) {
        const struct tir_layout all = tir_mma_right(qk, d->kv.columns, &d->query.depth, none);
        q = tir_relayout(b, q, &all);
    }
    d->query.q = tir_named(b, "q", tir_transpose(b, q));
}

/* Issues the loads of the scale (f32, 1 x columns) of Q for each column's query and head. */
static struct tir_value load_q_scales(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_type vector = d->kv.attention.softmax.vector;
    const struct tir_layout l = tir_layout_transpose(tir_layout_of(b->f, vector));
    const struct tir_type rows = tir_tile(b->f, TIR_I32, vector.cols, 1, &l);
    const struct tir_type t = tir_tile(b->f, TIR_F32, vector.cols, 1, &l);
    const struct split_kv_rows r = split_kv_rows(&d->kv, tir_row_index(b, rows));
    const struct tir_value at =
        q_address(d, &r, ARG_Q_SCALE_TOKEN_STRIDE, ARG_Q_SCALE_HEAD_STRIDE, sizeof(float));
    const struct tir_value scales =
        tir_tile_gather(b, tir_arg(b, ARG_Q_SCALE, TIR_I64), at, tir_i32(b, 0), t);
    return tir_named(b, "q_scale", tir_transpose(b, scales));
}

/* ---- One block of keys ---- */

/* Returns the index (i32) of the first key of this wave's tile `n` (i32 index) of the item:
 * att_attention.first_key. */
static struct tir_value tile_key(void *family, struct tir_value n)
{
    struct decode *const d = family;
    struct tir_builder *b = &d->kv.b;
    const struct tir_value tile = tir_add(b, att_times(b, n, (int)d->kv.waves), d->kv.wave);
    return tir_add(b, d->kv.item.first_key, att_times(b, tile, (int)d->kv.keys));
}

/* Returns the number of workgroups of a launch from which on the waves of each workgroup are kept
 * in step by barriers; 0: never. For launches of that size, memory limits the loop, and not the
 * compute unit. Waves without barriers end at different times, and the last one has too few loads
 * in flight to use the bandwidth. On gfx950 the latency is so long that waves in step have too few
 * loads of 16-bit keys in flight. The numbers come from modelled times of heads of 128, of 8-bit
 * keys only with scales by token. */
static int crowd(const struct decode *d)
{
    if (d->kv.waves == 1 || d->kv.k.width != 128)
        return 0;
    if (d->kv.kv_bytes == 1)
        return d->kv.v->kv_scale == ATT_KV_SCALE_TOKEN ? 256 : 0;
    return d->kv.m->has_cvt_pk_bf16 ? 0 : 64;
}

/* Sets d->in_step, if some launches keep waves in step. Else d->in_step has no value. */
static void keep_step(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    if (crowd(d))
        d->in_step = tir_cmp_ge(b, tir_arg(b, ARG_WORKGROUPS, TIR_I32), tir_i32(b, crowd(d)));
}

/* Appends a barrier that runs if `condition` (i1, the same in all waves) is true; none if it has no
 * value. `condition` must be false once a wave of the workgroup has ended its loop, since that wave
 * has no more barriers. */
static void barrier_if(struct decode *d, struct tir_value condition)
{
    struct tir_builder *b = &d->kv.b;
    if (!condition.id)
        return;
    struct tir_if all = att_begin_if(b, condition);
    tir_barrier(b);
    tir_end_if(b, &all, NULL);
}

/* ---- The steps of the loop ---- */

/* Returns the kernel to which `context`, a struct att_attention, belongs. */
static struct decode *family_of(void *context) { return ((struct att_attention *)context)->family; }

/* Issues the loads of the page numbers of a tile: step "find pages". */
static void find_pages(void *context)
{
    struct decode *const d = family_of(context);
    d->now.key = tile_key(d, d->kv.attention.now.block.index);
    d->now.pages = decode_find_pages(d, d->now.key);
}

/* Issues the loads of a tile of K and of its scales: step "load K". */
static void load_k(void *context)
{
    struct decode *const d = family_of(context);
    d->now.k = decode_load_k(d, d->now.key, &d->now.pages);
    d->now.k_scales = decode_load_scales(d, &d->kv.k, d->now.key, &d->now.pages);
}

/* Issues the loads of the bytes of the custom mask for a tile of keys: step "load mask". */
static void load_mask(void *context)
{
    struct decode *const d = family_of(context);
    d->kv.attention.now.block.mask = att_load_mask(&d->kv.attention, d->now.key);
}

/* Issues the loads of a tile of V and of its scales: step "load V". */
static void load_v(void *context)
{
    struct decode *const d = family_of(context);
    d->now.v = decode_load_v(d, d->now.key, &d->now.pages);
    d->now.v_scales = decode_load_scales(d, &d->kv.value, d->now.key, &d->now.pages);
}

/* Appends the barrier that keeps waves in step: step "keep step". */
static void step_barrier(void *context)
{
    struct decode *const d = family_of(context);
    barrier_if(d, d->in_step);
}

/* Computes the scores of a tile, times the scales of keys and queries: step "QK". */
static void product_qk(void *context)
{
    struct decode *const d = family_of(context);
    struct tir_builder *b = &d->kv.b;
    const struct tir_value zero = tir_splat(b, tir_f32(b, 0.0f), d->kv.scores);
    const struct tir_value k = d->now.k_used.id ? d->now.k_used : decode_use_k(d, d->now.k);
    const struct tir_value q = read_q(d);
    const struct tir_value s = tir_named(b, "s", tir_mma(b, d->kv.qk, k, q, zero));
    const struct tir_value scaled = decode_scale(d, s, &d->now.k_scales);
    d->kv.attention.now.s =
        d->query.scales.id ? tir_mul(b, scaled, tir_broadcast(b, d->query.scales, d->kv.scores))
                           : scaled;
}

/* Replaces the rows of new tokens in a tile of K: step "new keys". */
static void take_new_keys(void *context)
{
    struct decode *const d = family_of(context);
    d->now.k_used = d->arrivals->replace_keys(d, decode_use_k(d, d->now.k),
                                              tile_key(d, d->kv.attention.now.block.index));
}

/* Replaces the rows of new tokens in a tile of V: step "new values". */
static void take_new_values(void *context)
{
    struct decode *const d = family_of(context);
    d->now.v_used = d->arrivals->replace_values(d, decode_widen_v(d, d->now.v),
                                                tile_key(d, d->kv.attention.now.block.index));
}

/* Multiplies the weights P by the scales of the values: step "scale P". */
static void scale_p(void *context)
{
    struct decode *const d = family_of(context);
    d->kv.attention.now.p = decode_scale(d, d->kv.attention.now.p, &d->now.v_scales);
}

/* Converts a tile of V to the left operand of O^T += V^T P^T: step "convert V". */
static void use_v(void *context)
{
    struct decode *const d = family_of(context);
    const struct tir_value v = d->now.v_used.id ? d->now.v_used : decode_widen_v(d, d->now.v);
    d->kv.attention.now.v = decode_use_v(d, v, tile_key(d, d->kv.attention.now.block.index));
}

const struct pipe_op decode_find_tile = {"find pages", .build = find_pages,
                                         .writes = ATT_SLOT(K_PAGES) | ATT_SLOT(V_PAGES)};
const struct pipe_op decode_issue_k = {"load K", load_k, ATT_SLOT(K_PAGES), ATT_SLOT(K_DATA),
                                       .flags = 0};
const struct pipe_op decode_issue_mask = {"load mask", load_mask, ATT_SLOT(K_PAGES), ATT_SLOT(MASK),
                                          .flags = 0};
const struct pipe_op decode_issue_v = {"load V", load_v, ATT_SLOT(V_PAGES), ATT_SLOT(V_DATA),
                                       .flags = 0};
const struct pipe_op decode_keep_step = {"keep step", step_barrier, .flags = PIPE_BRANCH};
const struct pipe_op decode_new_keys = {"new keys", take_new_keys, ATT_SLOT(K_DATA),
                                        ATT_SLOT(K_DATA), .flags = PIPE_BRANCH};
const struct pipe_op decode_new_values = {"new values", take_new_values, ATT_SLOT(V_DATA),
                                          ATT_SLOT(V_DATA), .flags = PIPE_BRANCH};
const struct pipe_op decode_product_qk = {"QK", product_qk, ATT_SLOT(K_DATA), ATT_SLOT(S),
                                          .flags = PIPE_PRODUCT};
const struct pipe_op decode_scale_p = {"scale P", scale_p, ATT_SLOT(P) | ATT_SLOT(V_DATA),
                                       ATT_SLOT(P), .flags = 0};
/* The step has a branch: with SHUFFLE it sets rows of V after the last key to 0. */
const struct pipe_op decode_convert_v = {"convert V", use_v, ATT_SLOT(V_DATA), ATT_SLOT(V),
                                         .flags = PIPE_BRANCH};

/* Sets d->plan and d->compute. `ahead` is the number of tiles in flight beyond the next one. */
static void choose_pipeline(struct decode *d, unsigned ahead)
{
    char why[PIPE_WHY];
    struct pipe_variant v = {
        .has = ATT_HAS(CHECK_SCORES), .delay_at = DECODE_USE, .delay = (uint8_t)ahead};
    if (split_kv_by_lane(d->kv.v))
        v.has |= 1u << DECODE_HAS_LANE_PAGES;
    if (d->kv.v->mask == ATT_MASK_CUSTOM)
        v.has |= ATT_HAS(MASK_BYTES);
    if (d->arrivals)
        v.has |= 1u << DECODE_HAS_ARRIVALS;
    const bool planned = pipe_resolve(&decode_register_stream, &v, &d->plan, why);
    assert(planned);
    (void)planned;
    d->compute = pipe_stage(&d->plan, DECODE_USE);
}

/* Returns the number (i32) of a wave's tiles if its first tile begins at key `first` (i32). The
 * first keys of a wave's consecutive tiles are waves * keys apart. */
static struct tir_value count_blocks(struct decode *d, struct tir_value first)
{
    struct tir_builder *b = &d->kv.b;
    const int step = (int)(d->kv.waves * d->kv.keys);
    const struct tir_value keys = tir_sub(b, d->kv.item.end_key, first);
    return tir_sar(b, att_plus(b, keys, step - 1), tir_i32(b, __builtin_ctz((unsigned)step)));
}

/* Appends a barrier for waves whose number of tiles `n` (i32) is smaller than the first wave's, so
 * that all waves have equally many barriers. An item without visible keys has a count of 0 or
 * below, and no wave has a barrier. */
static void add_last_barrier(struct decode *d, struct tir_value n)
{
    struct tir_builder *b = &d->kv.b;
    if (!d->in_step.id)
        return;
    if (att_hides_early(d->kv.v))
        n = tir_max(b, n, tir_i32(b, 0));
    const struct tir_value fewer = tir_cmp_lt(b, n, count_blocks(d, d->kv.item.first_key));
    barrier_if(d, tir_and(b, d->in_step, fewer));
}

/* Builds the loop over the item's keys, and returns the wave's state after it. */
static struct split_kv_state walk_keys(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    struct tir_value carried[ATT_N_CARRY], inside[ATT_N_CARRY];
    att_attention_begin(&d->kv.attention, d->kv.output, carried);
    const struct tir_value n = count_blocks(d, tile_key(d, tir_i32(b, 0)));
    if (!keeps_q(d)) {
        load_q(d);
        place_q(d);
    }
    struct tir_if some =
        tir_begin_if_like(b, tir_cmp_gt(b, n, tir_i32(b, 0)), false, carried, ATT_N_CARRY);
    memcpy(inside, carried, sizeof(inside));
    split_kv_find_position(&d->kv);
    if (d->arrivals)
        d->arrivals->load(d);
    b->stage = d->compute; /* the scheduler places the ops that follow after the first loads of K */
    const struct tir_value awaited = split_kv_prefetch_parts(&d->kv);
    if (awaited.id)
        tir_anchor(b, awaited);
    if (d->arrivals)
        d->query.q = d->arrivals->prepare(d);
    b->stage = TIR_NO_STAGE;
    if (keeps_q(d) && !d->arrivals)
        load_q(d);
    if (d->kv.v->q_scale == ATT_Q_SCALE_TOKEN)
        d->query.scales = load_q_scales(d);
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), n, tir_i32(b, 1), inside, ATT_N_CARRY);
    att_begin_block(&d->kv.attention, loop.index, inside);
    pipe_build(b, &d->plan, &d->kv.attention);
    const struct split_kv_state state = split_kv_end_keys(&d->kv, &some, &loop, inside, carried);
    add_last_barrier(d, n);
    return state;
}

/* Returns the scale (f32 scalar) of Q that all queries of the item share. Returns no value if the
 * queries share none. */
static struct tir_value load_item_scale(struct decode *d)
{
    if (d->kv.v->q_dtype != ATT_Q_DTYPE_FP8 || d->kv.v->q_scale == ATT_Q_SCALE_TOKEN)
        return (struct tir_value){0};
    if (d->kv.v->q_scale == ATT_Q_SCALE_KV_HEAD)
        return att_cache_head_scale(&d->kv.k.c, ARG_Q_SCALE, d->kv.item.sequence,
                                    d->kv.item.kv_head);
    return att_scale(&d->kv.b, ARG_Q_SCALE);
}

/* Sets d->kv.attention for the kernel's variant, tile and item, except its member `at`. */
static void begin_attention(struct decode *d)
{
    struct tir_value k_scale = {0};
    if (att_shares_scale(d->kv.v))
        k_scale = att_cache_tensor_scale(&d->kv.k.c);
    const struct tir_value q_scale = load_item_scale(d);
    if (q_scale.id)
        k_scale = k_scale.id ? tir_mul(&d->kv.b, k_scale, q_scale) : q_scale;
    d->kv.attention = (struct att_attention){.b = &d->kv.b,
                                             .v = d->kv.v,
                                             .product = d->kv.pv,
                                             .dtype = d->kv.dtype,
                                             .family = d,
                                             .first_key = tile_key};
    att_attention_scale(&d->kv.attention, d->kv.scores, k_scale);
}

/* Computes item `index` (i32) of the work list. Takes several passes over the keys if the item has
 * more rows of Q than a tile has columns. */
static void work_on(struct decode *d, struct tir_value index)
{
    struct tir_builder *b = &d->kv.b;
    split_kv_find_item(&d->kv, index);
    const struct tir_value q[] = {tir_arg(b, ARG_Q, TIR_I64),
                                  tir_arg(b, ARG_Q_TOKEN_STRIDE, TIR_I64),
                                  tir_arg(b, ARG_Q_HEAD_STRIDE, TIR_I64)};
    decode_find_cache(d);
    const struct tir_value loaded[] = {q[0],
                                       q[1],
                                       q[2],
                                       d->kv.k.c.base,
                                       d->kv.value.c.base,
                                       d->kv.k.c.page_stride,
                                       d->kv.value.c.page_stride};
    for (unsigned i = 0; i < sizeof(loaded) / sizeof(loaded[0]); i++)
        tir_anchor(b, loaded[i]); /* all loads are issued before the first wait */
    begin_attention(d);
    const struct tir_value tokens = tir_sub(b, d->kv.item.end_token, d->kv.item.first_token);
    d->kv.n_rows = tir_mul(b, tokens, d->kv.gqa);
    struct tir_loop pass =
        tir_begin_for(b, tir_i32(b, 0), d->kv.n_rows, tir_i32(b, (int)d->kv.columns), NULL, 0);
    d->kv.first_row = pass.index;
    struct split_kv_state s = walk_keys(d);
    split_kv_end_item(&d->kv, &s);
    tir_end_for(b, &pass, NULL, 0);
    if (d->kv.v->one_launch)
        split_kv_join_parts(&d->kv);
    if (d->arrivals)
        d->arrivals->store(d);
}

/* True if two heads have elements in one cache line. Workgroups of these heads are then neighbours
 * in the grid, and load such a line once if they run on the same XCD. */
static bool shares_lines(const struct decode *d)
{
    const unsigned line = 128;
    const unsigned k = (unsigned)d->kv.v->head_dim * d->kv.kv_bytes;
    const unsigned v = (unsigned)d->kv.v->head_dim_v * d->kv.kv_bytes;
    return d->kv.v->kv_layout == ATT_KV_LAYOUT_NHD && (k % line || v % line);
}

/* Returns the kernel of a variant with tile `t`, an empty function. Layouts and LDS are set
 * later. */
static struct decode begin(const struct att_variant *v, const struct tir_machine *m,
                           const struct att_tile *t, const struct decode_arrivals *arrivals)
{
    const unsigned dtype = att_dtype(v);
    struct decode d = {
        .kv =
            {
                .v = v,
                .m = m,
                .dtype = dtype,
                .kv_dtype = att_cache_dtype(v),
                .waves = t->waves,
                .waves_per_simd = t->waves_per_simd,
                /* With one wave per SIMD, O is in accumulation registers. */
                .zero_late = t->waves_per_simd > 1,
                .k = split_kv_cache(v->head_dim),
                .value = split_kv_cache(v->head_dim_v),
                .new_rows = arrivals != NULL,
            },
        .arrivals = arrivals,
    };
    d.whole_lines = t->own[DECODE_WHOLE_LINES];
    choose_pipeline(&d, t->own[DECODE_AHEAD]);
    d.kv.kv_bytes = tir_dtype_bits(d.kv.kv_dtype) / 8;
    d.kv.columns = t->rows;
    d.kv.head_groups = decode_head_groups(v, t);
    d.kv.neighbours = d.kv.head_groups == 1 && shares_lines(&d);
    d.kv.keys = tile_keys(v, t, m);
    d.query.dtype = v->q_dtype == ATT_Q_DTYPE_FP8 ? TIR_FP8 : dtype;
    d.query.bytes = tir_dtype_bits(d.query.dtype) / 8;
    d.kv.qk = tir_find_mma(m, 16, 16, 0, d.query.dtype);
    d.kv.pv = tir_find_mma(m, 16, 16, d.kv.keys < 32 ? 16 : 0, dtype);
    assert(d.kv.qk >= 0 && d.kv.pv >= 0);
    struct tir_func *const f = att_begin_kernel(v, m, d.kv.waves, t->waves_per_simd);
    d.kv.b = tir_at_end(f, f->body);
    return d;
}

/* Returns tir_schedule.cover of a variant with tile `t`: enum tir_cover. */
static uint8_t find_cover(const struct att_variant *v, const struct att_tile *t)
{
    if (t->own[DECODE_IN_ORDER])
        return TIR_COVER_NONE;
    return v->kv_dtype == ATT_KV_DTYPE_INT8 ? TIR_COVER_FILL : TIR_COVER_EVEN;
}

/* Sets the layouts of tiles and operands, and reserves the LDS of the kernel. */
static void reserve(struct decode *d)
{
    struct tir_builder *const b = &d->kv.b;
    decode_choose_layouts(d);
    d->kv.lds = tir_lds_buffer(b, split_kv_merge_bytes(&d->kv), 16);
    d->query.lds = tir_lds_buffer(b, q_bytes(d), 16);
    d->kv.wave = tir_wave_id(b);
    decode_reserve_lines(d);
    if (d->arrivals)
        d->arrivals->begin(d);
}

unsigned decode_lds_bytes(const struct att_variant *v, const struct tir_machine *m,
                          const struct att_tile *t, const struct decode_arrivals *arrivals,
                          void *arriving)
{
    struct decode d = begin(v, m, t, arrivals);
    d.arriving = arriving;
    reserve(&d);
    const unsigned bytes = d.kv.b.f->lds_bytes;
    tir_func_destroy(d.kv.b.f);
    return bytes;
}

void decode_build(const struct att_variant *v, const struct tir_machine *m,
                  const struct decode_arrivals *arrivals, void *arriving, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct decode d = begin(v, m, &tile, arrivals);
    d.arriving = arriving;
    struct tir_builder *const b = &d.kv.b;
    reserve(&d);
    split_kv_load_arguments(&d.kv, false);
    keep_step(&d);
    d.kv.gqa = v->gqa ? tir_i32(b, v->gqa / (int)d.kv.head_groups) : tir_arg(b, ARG_GQA, TIR_I32);
    if (d.kv.head_groups > 1)
        d.kv.list = att_shared_list(b, (int)d.kv.head_groups, tir_arg(b, ARG_WORKGROUPS, TIR_I32),
                                    &d.kv.head_group);
    struct tir_value range[2];
    split_kv_find_items(&d.kv, range);
    struct tir_loop items = tir_begin_for(b, range[0], range[1], tir_i32(b, 1), NULL, 0);
    d.kv.last = tir_cmp_eq(b, att_plus(b, items.index, 1), range[1]);
    work_on(&d, items.index);
    tir_end_for(b, &items, NULL, 0);
    tir_return(b);

    *k = (struct att_kernel){
        .func = b->f,
        .schedule = pipe_schedule(&d.plan),
        .grid = {{ARG_WORKGROUPS, 1, (int)d.kv.head_groups}, {NULL, 1, 1}, {NULL, 1, 1}},
    };
    k->schedule.cover = find_cover(v, &tile);
    k->schedule.hoist_vgprs = tile.hoist_vgprs;
    snprintf(k->tuning, sizeof(k->tuning), "rows=%u kv=%u waves=%u stages=%d", d.kv.columns,
             d.kv.keys, d.kv.waves, d.plan.stages);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    decode_build(v, m, NULL, NULL, k);
}

const struct att_template att_template_decode = {
    .name = "decode",
    .description = "attention of a few queries per sequence over a paged cache, split over keys",
    .takes = OP_TAKES_DECODE | ATT_BIT(TILE),
    ATT_TILES(decode_tiles, knobs),
    .pipelines = decode_pipelines,
    .own = DECODE_OWN,
    .rules = rules,
    .fitted = decode_fitted,
    .n_fitted = DECODE_N_FITTED,
    .fits = decode_fits,
    .fills = decode_fills,
    .second = decode_second,
    .check = check,
    .build = build,
};
