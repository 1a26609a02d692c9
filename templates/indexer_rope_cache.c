/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the operands of the sparse indexer's scores in one pass: normalises k, rotates q and k,
 * and multiplies both by the Hadamard matrix if the variant has one. Both become fp8, q with a
 * scale for each head and k with a scale for each token. The scale of q is multiplied into the
 * weights, and the scale of k is written to the cache. Tiles of heads are as in rope_qk_norm_cache
 * (rope/rope.h). Keys of mxfp4 are put into the order of the lanes through LDS before they are
 * rounded.
 */
#include "op_names.h"
#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/cache/e2m1.h"
#include "templates/index/page.h"
#include "templates/linear/gates.h"
#include "templates/rope/rope.h"
#include "templates/rope/rotate_rows.h"
#include "templates/workgroup/fp8.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    DIM = 128,    /* elements of a head and of a key */
    ROTARY = 64,  /* number of a head's first elements, which rotate */
    TILE = 16,    /* number of tokens that SHUFFLE interleaves */
    FLOAT = 4,    /* bytes of an f32 */
    KEY_ROWS = 8, /* number of rows that the key adds to argument head_rows */
};

static const struct att_tile tiles[] = {
    {.waves = 1, .waves_per_simd = 4, .why = "a wave has a tile of heads, or the key"},
};

static const struct att_knob knobs[] = {
    {"waves", 3, {2, 4, 8}},
    {"waves_per_simd", 2, {2, 8}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct indexer_rope {
    const struct att_variant *v;
    /* the variant for `rope`: a copy of `v` with the fields that rope/ reads set for the indexer's
     * heads */
    struct att_variant heads;
    struct rope rope; /* loads, rotates and stores heads; rope.b is the kernel's builder */
    bool mxfp4;       /* true: keys in the cache are mxfp4; false: fp8 */
    /* i32: LDS address through which an mxfp4 key passes; no value without mxfp4 */
    struct tir_value lds;
};

/* Returns the number of bytes of a key in a page of the cache, without its scales. */
static int key_bytes(const struct indexer_rope *k) { return k->mxfp4 ? DIM / 2 : DIM; }

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    if (v->rope == ATT_ROPE_NONE)
        return att_reject(why, ATT_ROPE, "the indexer rotates the first 64 elements: neox or gptj");
    if (v->index_keys != ATT_INDEX_KEYS_FP8 && v->index_keys != ATT_INDEX_KEYS_MXFP4)
        return att_reject(why, ATT_INDEX_KEYS,
                          "compress and rope_heads make keys and q of 16 bits");
    if (v->index_keys == ATT_INDEX_KEYS_MXFP4 &&
        tir_find_mma_scaled(m, 32, 32, TIR_MX_E4M3, TIR_MX_E2M1) < 0)
        return att_reject(why, ATT_INDEX_KEYS,
                          "index_keys mxfp4 is for targets that multiply fp4, and %s does not",
                          m->name);
    if (v->kv_layout != ATT_KV_LAYOUT_NHD && v->kv_layout != ATT_KV_LAYOUT_SHUFFLE)
        return att_reject(why, ATT_KV_LAYOUT, "the indexer's keys are nhd or shuffle");
    return att_check_tile(v, m, why);
}

/* Rotates the heads of a tile, and multiplies them by the Hadamard matrix if the variant has
 * one. */
static void rotate(struct indexer_rope *k, struct rope_parts *x)
{
    rope_rotate(&k->rope, x);
    if (k->v->hadamard)
        rope_hadamard(&k->rope.b, x->v, k->rope.rotated.n_parts);
}

/* ---- Scales ---- */

/* Returns the scale of each head: max(largest |x|, 1e-4) divided by the largest fp8 number. If
 * argument round_scales is not 0, the scale is rounded up to a power of two. */
static struct tir_value find_scale(struct indexer_rope *k, const struct rope_parts *x)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value absmax = rope_absmax(&k->rope, &k->rope.rotated, x);
    const struct tir_value scale =
        att_fp8_scale(b, tir_max(b, absmax, tir_float_like(b, absmax, 1e-4f)));
    const struct tir_value up = att_power_above(b, scale);
    const struct tir_value round =
        tir_cmp_ne(b, tir_arg(b, ARG_ROUND_SCALES, TIR_I32), tir_i32(b, 0));
    return tir_select(b, round, up, scale);
}

/* Divides x by `scale`, converts it to fp8, and sets raw[] to the result in the layout of
 * memory. */
static void quantise(struct indexer_rope *k, const struct rope_parts *x, struct tir_value scale,
                     struct tir_value *raw)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct tir_value inverse = tir_rcp(b, scale);
    struct rope_parts q = *x;
    for (unsigned i = 0; i < p->rotated.n_parts; i++) {
        const struct tir_value scaled = att_scaled(b, x->v[i], inverse);
        q.v[i] = tir_convert(b, scaled, TIR_FP8);
    }
    rope_pack(p, &p->rotated, &q, raw);
}

/* ---- Queries ---- */

/* Returns a view of the token's row of tensor `t` [token, head] with elements of `size` bytes and
 * `heads` heads (i32). */
static struct tir_view heads_of(struct indexer_rope *k, struct att_tensor t, int size,
                                struct tir_value heads)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value at = att_offset(b, k->rope.token, t.token_stride, size);
    return att_view(b, att_at(b, t.arg, at), heads, tir_i32(b, size), size, 0);
}

/* Rotates, quantises and stores the tile of query heads from head `first` (i32) on, and stores the
 * weights of these heads. */
static void visit_heads(struct indexer_rope *k, struct tir_value first)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct rope_shape *s = &p->rotated;
    const struct tir_value heads = tir_arg(b, ARG_HEADS, TIR_I32);
    const struct rope_tensor from = rope_open_tensor(p, ATT_HEADS(Q), ROPE_ELEM);
    const struct rope_tensor to = rope_open_tensor(p, ATT_HEADS(Q_OUT), 1);
    struct tir_value raw[ROPE_MAX_SPANS];
    rope_load(p, s, rope_token_base(p, &from), heads, from.head_stride, first, false, raw);
    const struct tir_value weights =
        tir_tile_load(b, heads_of(k, ATT_TOKENS(WEIGHTS), ROPE_ELEM, heads), first,
                      rope_head_column(p, s, p->dtype));
    struct rope_parts x = rope_unpack(p, s, raw);
    rotate(k, &x);
    const struct tir_value scale = find_scale(k, &x);
    quantise(k, &x, scale, raw);
    rope_store(p, s, rope_token_base(p, &to), heads, to.head_stride, 1, first, raw);
    const struct tir_value w = tir_mul(b, tir_convert(b, weights, TIR_F32), scale);
    const struct tir_value factor = att_arg_like(b, ARG_WEIGHT_SCALE, w);
    tir_tile_store(b, heads_of(k, ATT_TOKENS(WEIGHTS_OUT), FLOAT, heads), first,
                   tir_mul(b, w, factor));
}

/* ---- Keys ---- */

/* Loads argument `arg`, a vector of 128 f32, in the layout of a head's parts. If spans are packed
 * (rope_shape.packed), a part has every other element of a span. */
static struct rope_parts load_vector(struct indexer_rope *k, const char *arg)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct rope_shape *s = &p->rotated;
    const struct tir_value base = tir_arg(b, arg, TIR_I64);
    struct rope_parts x = {0};
    unsigned n = 0;
    for (unsigned i = 0; i < s->n_spans; i++) {
        const bool packed = s->packed && i < s->n_pieces;
        const struct tir_type t = tir_with_dtype(s->spans[i].vector, TIR_F32);
        const struct tir_layout column = tir_layout_slice(tir_layout_of(b->f, t), 1);
        const struct tir_value row =
            tir_splat(b, tir_i64(b, 0), tir_tile(b->f, TIR_I64, 1, 1, &column));
        for (int half = 0; half <= packed; half++) {
            const struct tir_value byte = tir_i32(b, (s->spans[i].first + half) * FLOAT);
            x.v[n++] = tir_build(b, TIR_tile_gather, t, (struct tir_value[]){base, row, byte}, 3,
                                 (int64_t[]){packed ? 2 * FLOAT : FLOAT, 0});
        }
    }
    return x;
}

/* Returns the mean of a head's elements, or of their squares if `squares`. */
static struct tir_value sum_parts(struct indexer_rope *k, const struct rope_parts *x, bool squares)
{
    struct tir_builder *b = &k->rope.b;
    struct tir_value sum = {0};
    for (unsigned i = 0; i < k->rope.rotated.n_parts; i++) {
        const struct tir_value of = squares ? tir_mul(b, x->v[i], x->v[i]) : x->v[i];
        const struct tir_value part = tir_row_sum(b, of);
        sum = sum.id ? tir_add(b, sum, part) : part;
    }
    return tir_mul(b, sum, tir_float_like(b, sum, 1.0f / DIM));
}

/* Applies the layer norm or RMS norm of the variant to the key x. */
static void normalise(struct indexer_rope *k, struct rope_parts *x)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct rope_parts weight = load_vector(k, ARG_K_WEIGHT);
    const unsigned n = p->rotated.n_parts;
    if (k->v->layer_norm) {
        const struct tir_value mean = sum_parts(k, x, false);
        for (unsigned i = 0; i < n; i++)
            x->v[i] = tir_sub(b, x->v[i], tir_broadcast(b, mean, tir_typeof(b->f, x->v[i])));
    }
    const struct tir_value square = sum_parts(k, x, true);
    const struct tir_value eps = att_arg_like(b, ARG_EPS, square);
    const struct tir_value inverse = tir_rsq(b, tir_add(b, square, eps));
    struct rope_parts bias = {0};
    if (k->v->layer_norm)
        bias = load_vector(k, ARG_K_BIAS);
    for (unsigned i = 0; i < n; i++) {
        const struct tir_type t = tir_typeof(b->f, x->v[i]);
        const struct tir_value scaled = tir_mul(b, x->v[i], tir_broadcast(b, inverse, t));
        const struct tir_value w = rope_repeat(p, weight.v[i], x->v[i]);
        x->v[i] = bias.v[i].id ? tir_fma(b, scaled, w, rope_repeat(p, bias.v[i], x->v[i]))
                               : tir_mul(b, scaled, w);
    }
}

/* The page of the token's slot, and the place of the token's key in that page. */
struct key_slot {
    /* The page's keys, as a cache whose rows begin at the page's first byte. */
    struct att_cache cache;
    struct tir_value at; /* i32: byte offset of the key in the page */
    /* i64, a row for each row of a tile of heads: `at` in row 0, which is the key; far below 0 in
     * others, so that these are not stored */
    struct tir_value row;
    struct tir_value scales; /* i64: address of the key's scale */
};

/* Returns the place in the cache of the token's key, from the token's slot. */
static struct key_slot open_slot(struct indexer_rope *k)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const bool shuffle = k->v->kv_layout == ATT_KV_LAYOUT_SHUFFLE;
    const struct att_paging paging = att_paging_by_argument(b, false);
    const struct att_slot at_page = att_slot_of(&paging, p->slot);
    const struct tir_value inside = tir_convert(b, at_page.token, TIR_I32);
    const struct tir_value start =
        att_at(b, ARG_KEYS, tir_mul(b, at_page.page, tir_arg(b, ARG_PAGE_STRIDE, TIR_I64)));
    const int bytes = key_bytes(k);
    const struct tir_value at = att_index_key_byte(b, inside, bytes, shuffle);
    const struct tir_value scale = att_index_scale_byte(&paging, inside, bytes);
    const struct tir_type column = rope_head_column(p, &p->rotated, TIR_I32);
    const struct tir_value first = tir_convert(
        b, tir_cmp_eq(b, tir_row_index(b, column), tir_splat(b, tir_i32(b, 0), column)), TIR_I64);
    const struct tir_value own = att_like(b, att_wide(b, at), first);
    const struct tir_value skip = tir_int_like(b, own, INT64_MIN);
    return (struct key_slot){
        .cache = att_index_keys(b, start, shuffle),
        .at = at,
        .row = tir_select(b, tir_cmp_ne(b, first, tir_int_like(b, first, 0)), own, skip),
        .scales = tir_add(b, start, att_wide(b, scale)),
    };
}

/* Stores the token's fp8 key raw[], in the layout of memory, and its scale (f32). */
static void store_key(struct indexer_rope *k, const struct tir_value *raw, struct tir_value scale)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct rope_shape *s = &p->rotated;
    const struct key_slot slot = open_slot(k);
    struct att_cache pairs = slot.cache;
    pairs.x /= 2;
    pairs.size *= 2;
    for (unsigned i = 0; i < s->n_spans; i++) {
        const bool packed = s->packed && i < s->n_pieces;
        const int first = s->spans[i].first;
        att_cache_store(packed ? &pairs : &slot.cache, slot.row, packed ? first / 2 : first,
                        raw[i]);
    }
    const struct tir_value zero = tir_i32(b, 0);
    tir_tile_store(b, att_view(b, slot.scales, tir_i32(b, 1), zero, FLOAT, 0), zero, scale);
}

/* ---- Keys in mxfp4 ---- */

enum {
    MX_BLOCK = 32,         /* elements that share a scale */
    PART_COLS = 32,        /* elements of a part of a head */
    MANTISSA = 23,         /* mantissa bits of an f32 */
    NAN_SCALE = 255,       /* the e8m0 scale of a block with a NaN */
    E2M1_MAX_EXPONENT = 2, /* exponent of 6, the largest e2m1 number */
};

/* Returns a tile of type `lane` with `n` in every lane. */
static struct tir_value constant(struct indexer_rope *k, int n, struct tir_type lane)
{
    return tir_splat(&k->rope.b, tir_i32(&k->rope.b, n), lane);
}

/* Returns the bytes of LDS of one part, 32 elements of every head, of a tile of heads in f32. */
static int part_bytes(const struct indexer_rope *k) { return k->rope.rows * PART_COLS * FLOAT; }

/* Passes a key through LDS: sets out[] to the bits (i32) of elements 2 l and 2 l + 1 in lane l. A
 * part of `x` has 32 adjacent elements. If packed, a part has the even, or the odd, elements of
 * 64. */
static void deal_elements(struct indexer_rope *k, const struct rope_parts *x, struct tir_type lane,
                          struct tir_value out[2])
{
    struct tir_builder *b = &k->rope.b;
    const struct rope_shape *s = &k->rope.rotated;
    const struct tir_layout map = tir_row_major((unsigned)k->rope.rows, PART_COLS);
    for (unsigned i = 0; i < s->n_parts; i++)
        tir_tile_lds_store(b, att_plus(b, k->lds, (int)i * part_bytes(k)), x->v[i], &map);
    tir_wait(b, TIR_LDS_WRITES, 0);
    const struct tir_value l = tir_row_index(b, lane);
    const struct tir_value high = s->packed ? constant(k, 31, lane) : constant(k, 15, lane);
    const struct tir_value bits = constant(k, s->packed ? 5 : 4, lane);
    const struct tir_value part = tir_shl(b, tir_shr(b, l, bits), constant(k, s->packed, lane));
    const struct tir_value col =
        tir_shl(b, tir_and(b, l, high), constant(k, s->packed ? 2 : 3, lane));
    const struct tir_value at =
        tir_add(b, tir_add(b, tir_mul(b, part, constant(k, part_bytes(k), lane)), col),
                tir_splat(b, k->lds, lane));
    const int apart = s->packed ? part_bytes(k) : FLOAT;
    for (int j = 0; j < 2; j++)
        out[j] = tir_lds_gather(b, tir_add(b, at, constant(k, j * apart, lane)), TIR_I32);
}

/* Returns the largest magnitude of a block of 32 elements in each of its 16 lanes. sizes[]:
 * magnitudes of each lane's two elements, as the bits of an f32 in an i32, so that a NaN exceeds
 * all numbers. */
static struct tir_value block_most(struct indexer_rope *k, const struct tir_value sizes[2])
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value blocks =
        tir_join_blocks(b, tir_max(b, sizes[0], sizes[1]), MX_BLOCK / 2);
    const struct tir_value most = tir_col_max(b, blocks);
    return tir_split_blocks(b, tir_broadcast(b, most, tir_typeof(b->f, blocks)), 1);
}

/* Returns byte offsets `at` (i32) as i64, and -1 in lanes whose `write` (i1) is false, so that
 * these lanes store nothing. */
static struct tir_value where(struct indexer_rope *k, struct tir_value write, struct tir_value at)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value wide = tir_convert(b, at, TIR_I64);
    return tir_select(b, write, wide, tir_int_like(b, wide, -1));
}

/* Stores the token's mxfp4 key: `bytes` has one byte, two elements, in each lane. `scales` has the
 * e8m0 scale of a lane's block; one lane of each block stores it. */
static void store_nibbles(struct indexer_rope *k, struct tir_value bytes, struct tir_value scales,
                          struct tir_type lane)
{
    struct tir_builder *b = &k->rope.b;
    const struct key_slot slot = open_slot(k);
    const struct tir_value l = tir_row_index(b, lane), zero = tir_i32(b, 0);
    struct tir_value at = l;
    if (slot.cache.shuffle) {
        const struct tir_value chunk = tir_shr(b, l, constant(k, (int)tir_bits(TILE), lane));
        at = tir_add(b, tir_mul(b, chunk, constant(k, TILE * TILE, lane)),
                     tir_and(b, l, constant(k, TILE - 1, lane)));
    }
    at = tir_add(b, at, tir_splat(b, slot.at, lane));
    tir_tile_scatter(b, slot.cache.base, tir_convert(b, at, TIR_I64), zero,
                     tir_convert(b, bytes, TIR_I8));
    const struct tir_value first =
        tir_cmp_eq(b, tir_and(b, l, constant(k, MX_BLOCK / 2 - 1, lane)), constant(k, 0, lane));
    const struct tir_value block = tir_shr(b, l, constant(k, (int)tir_bits(MX_BLOCK / 2), lane));
    tir_tile_scatter(b, slot.scales, where(k, first, block), zero, tir_convert(b, scales, TIR_I8));
}

/* Rounds the token's key x to mxfp4 and stores it. The scale of a block is 2^(byte - 127), so a
 * multiplication by 2^(127 - byte) is exact. */
static void store_mxfp4(struct indexer_rope *k, const struct rope_parts *x)
{
    struct tir_builder *b = &k->rope.b;
    const unsigned lanes = tir_lanes(k->rope.m);
    const struct tir_layout column = tir_spread_column(k->rope.m, 1, lanes);
    const struct tir_type lane = tir_tile(b->f, TIR_I32, lanes, 1, &column);
    const struct tir_type f32 = tir_with_dtype(lane, TIR_F32);
    struct tir_value bits[2], sizes[2], bytes = constant(k, 0, lane);
    deal_elements(k, x, lane, bits);
    for (int j = 0; j < 2; j++)
        sizes[j] = tir_and(b, bits[j], constant(k, INT32_MAX, lane));
    const struct tir_value exponent = tir_shr(b, block_most(k, sizes), constant(k, MANTISSA, lane));
    const struct tir_value number = tir_max(
        b, tir_sub(b, exponent, constant(k, E2M1_MAX_EXPONENT, lane)), constant(k, 0, lane));
    const struct tir_value scale =
        tir_select(b, tir_cmp_eq(b, exponent, constant(k, NAN_SCALE, lane)),
                   constant(k, NAN_SCALE, lane), number);
    const struct tir_value inverse =
        tir_bitcast(b,
                    tir_shl(b, tir_sub(b, constant(k, NAN_SCALE - 1, lane), number),
                            constant(k, MANTISSA, lane)),
                    f32);
    for (int j = 0; j < 2; j++) {
        const struct tir_value size = tir_mul(b, tir_bitcast(b, sizes[j], f32), inverse);
        const struct tir_value sign =
            tir_and(b, tir_shr(b, bits[j], constant(k, 28, lane)), constant(k, 8, lane));
        const struct tir_value half = tir_or(b, att_e2m1_add(b, constant(k, 0, lane), size), sign);
        bytes = tir_or(b, bytes, tir_shl(b, half, constant(k, 4 * j, lane)));
    }
    store_nibbles(k, bytes, scale, lane);
}

/* Normalises, rotates, quantises and stores the token's key, which is row 0 of a tile of heads. */
static void visit_key(struct indexer_rope *k)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct rope_shape *s = &p->rotated;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value at = att_offset(b, p->token, ARG_K_TOKEN_STRIDE, ROPE_ELEM);
    struct tir_value raw[ROPE_MAX_SPANS];
    rope_load(p, s, att_at(b, ARG_K, at), tir_i32(b, 1), zero, zero, false, raw);
    struct rope_parts x = rope_unpack(p, s, raw);
    normalise(k, &x);
    rotate(k, &x);
    if (k->mxfp4) {
        store_mxfp4(k, &x);
        return;
    }
    const struct tir_value scale = find_scale(k, &x);
    quantise(k, &x, scale, raw);
    store_key(k, raw, scale);
}

/* ---- The kernel ---- */

/* Processes q and the key of a token. Each wave has a tile of the token's heads, and the wave after
 * these has the key. Without q the first wave has the key. */
static void visit(struct indexer_rope *k)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0);
    p->token = tir_block_id(b, 0);
    p->wave = tir_wave_id(b);
    const struct tir_value part = tir_add(b, att_times(b, tir_block_id(b, 1), p->waves), p->wave);
    const struct tir_value first = att_times(b, part, p->rows);
    rope_find_angles(p);
    rope_load_slot(p);
    const struct tir_value heads =
        tir_select(b, att_is_given(b, ARG_Q), tir_arg(b, ARG_HEADS, TIR_I32), zero);
    struct tir_if of_q = att_begin_if(b, tir_cmp_lt(b, first, heads));
    visit_heads(k, first);
    tir_end_if(b, &of_q, NULL);
    const struct tir_value after = tir_sub(b, first, heads);
    const struct tir_value own =
        tir_and(b, tir_cmp_ge(b, after, zero), tir_cmp_lt(b, after, tir_i32(b, p->rows)));
    const struct tir_value cached = tir_and(b, own, tir_cmp_ge(b, p->slot, tir_i64(b, 0)));
    struct tir_if of_k = att_begin_if(b, cached);
    visit_key(k);
    tir_end_if(b, &of_k, NULL);
}

/* Builds the kernel of a variant into `out`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct indexer_rope k = {
        .v = v,
        .heads = *v,
        .rope = {.m = m,
                 .elements = 16,
                 .dtype = att_dtype(v),
                 .narrow_q = true,
                 .even = v->hadamard || v->index_keys == ATT_INDEX_KEYS_MXFP4},
        .mxfp4 = v->index_keys == ATT_INDEX_KEYS_MXFP4,
    };
    k.heads.head_dim = k.heads.head_dim_v = DIM;
    k.heads.rotary_dim = ROTARY;
    k.heads.kv_dtype = ATT_KV_DTYPE_FP8;
    k.heads.cos_sin = ATT_COS_SIN_F32;
    k.heads.mrope = ATT_MROPE_NONE;
    k.rope.v = &k.heads;
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    k.rope.waves = tile.waves;
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    k.rope.b = tir_at_end(f, f->body);
    rope_choose_shapes(&k.rope);
    assert(k.rope.rows <= KEY_ROWS); /* the grid has a wave for the key */
    if (k.mxfp4) {
        assert(k.rope.rotated.n_parts * PART_COLS == DIM);
        k.lds = tir_lds_buffer(&k.rope.b, k.rope.rotated.n_parts * (unsigned)part_bytes(&k), 16);
    }
    visit(&k);
    tir_return(&k.rope.b);
    *out = (struct att_kernel){
        .func = f,
        .grid = {{ARG_TOKENS, 1, 1}, {ARG_HEAD_ROWS, tile.waves * k.rope.rows, 1}, {NULL, 1, 1}},
    };
    snprintf(out->tuning, sizeof(out->tuning), "waves=%d heads=%d", tile.waves, k.rope.rows);
}

const struct att_template att_template_indexer_rope_cache = {
    .name = "indexer_rope_cache",
    .description = "the sparse indexer's q and k: norm, rotary embedding, fp8, and the cache",
    .takes = OP_TAKES_INDEXER_ROPE_CACHE | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .fits = att_fits_waves,
    .check = check,
    .build = build,
};
