/* SPDX-License-Identifier: Apache-2.0
 *
 * The step before the indexer's scores, in one pass: q and k are rotated, k normalised first, and
 * may be multiplied with the Hadamard matrix; both become fp8 with a scale for each head and token;
 * that of q joins the weights, that of k the cache. Heads are held as rope_qk_norm_cache holds its
 * own: rope.h.
 */
#include "op_names.h"
#include "ir/bits.h"
#include "templates/rope.h"
#include "templates/scalar.h"
#include "templates/template.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    DIM = 128,
    ROTARY = 64,
    TILE = 16, /* tokens that SHUFFLE keeps together */
    FLOAT = 4,
};

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 4, .why = "a wave has a tile of heads"},
};

static const struct att_knob knobs[] = {
    {"waves", 3, {1, 2, 8}},
    {"waves_per_simd", 2, {2, 8}},
};

struct indexer_rope {
    const struct att_variant *v;
    struct att_variant heads; /* with what is the same for every kernel of this op */
    struct rope rope;         /* of those; its builder is the kernel's */
    float largest;            /* of fp8 */
};

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    if (v->rope == ATT_ROPE_NONE)
        return att_reject(why, ATT_ROPE, "the indexer rotates the first 64 elements: neox or gptj");
    if (v->kv_layout != ATT_KV_LAYOUT_NHD && v->kv_layout != ATT_KV_LAYOUT_SHUFFLE)
        return att_reject(why, ATT_KV_LAYOUT, "the indexer's keys are nhd or shuffle");
    return att_find_tile(v, m, &tile, why);
}

static struct tir_value like(struct indexer_rope *k, struct tir_value scalar,
                             struct tir_value other)
{
    struct tir_type t = tir_typeof(k->rope.b.f, other);
    t.dtype = tir_typeof(k->rope.b.f, scalar).dtype;
    return tir_splat(&k->rope.b, scalar, t);
}

/* ---- The Hadamard matrix ---- */

/* 1, or -1 where the bit of the column is set, for every head of a tile like `x`. */
static struct tir_value signs_of(struct indexer_rope *k, struct tir_value x, unsigned bit)
{
    struct tir_builder *b = &k->rope.b;
    struct tir_type t = tir_typeof(b->f, x);
    t.dtype = TIR_I32;
    const struct tir_value own =
        tir_and(b, tir_col_index(b, t), tir_int_like(b, tir_col_index(b, t), (int)bit));
    const struct tir_value one = tir_float_like(b, x, 1.0f);
    return tir_select(b, tir_cmp_ne(b, own, tir_int_like(b, own, 0)), tir_neg(b, one), one);
}

/*
 * y = H x / sqrt 128: for each bit of an element's number, sums and differences of the elements
 * that it alone tells apart. Within a part these are registers, or lanes; the other two bits tell
 * the four parts apart, in any order.
 */
static void hadamard(struct indexer_rope *k, struct rope_parts *x)
{
    enum { PARTS = 4 };
    struct tir_builder *b = &k->rope.b;
    assert(k->rope.rotated.n_parts == PARTS);
    for (unsigned bit = 1; bit < DIM / PARTS; bit <<= 1) {
        const struct tir_value signs = signs_of(k, x->v[0], bit);
        for (int i = 0; i < PARTS; i++)
            x->v[i] = tir_fma(b, x->v[i], signs, tir_col_flip(b, x->v[i], bit));
    }
    for (int apart = 1; apart < PARTS; apart *= 2)
        for (int i = 0; i < PARTS; i++) {
            const struct tir_value low = x->v[i], high = x->v[i | apart];
            if (i & apart)
                continue;
            x->v[i] = tir_add(b, low, high);
            x->v[i | apart] = tir_sub(b, low, high);
        }
    for (int i = 0; i < PARTS; i++)
        x->v[i] = tir_mul(b, x->v[i], tir_float_like(b, x->v[i], 0x1.6a09e6p-4f));
}

/* Rotates a head, and multiplies it with the matrix. */
static void rotate(struct indexer_rope *k, struct rope_parts *x)
{
    rope_rotate(&k->rope, x);
    if (k->v->hadamard)
        hadamard(k, x);
}

/* ---- Scales ---- */

/* max(largest |x|, 1e-4) / M of each head, or the power of two that is no less: what is above one
 * in the mantissa carries into the exponent. */
static struct tir_value find_scale(struct indexer_rope *k, const struct rope_parts *x)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct tir_value absmax = rope_absmax(p, &p->rotated, x);
    const struct tir_value most = tir_max(b, absmax, tir_float_like(b, absmax, 1e-4f));
    const struct tir_value scale = tir_mul(b, most, tir_float_like(b, most, 1.0f / k->largest));
    const struct tir_value bits = tir_bitcast(b, scale, rope_head_column(p, &p->rotated, TIR_I32));
    const struct tir_value up = tir_and(b, tir_add(b, bits, tir_int_like(b, bits, 0x7fffff)),
                                        tir_int_like(b, bits, -0x800000));
    const struct tir_value round =
        tir_cmp_ne(b, tir_arg(b, ARG_ROUND_SCALES, TIR_I32), tir_i32(b, 0));
    return tir_select(b, round, tir_bitcast(b, up, tir_typeof(b->f, scale)), scale);
}

/* x / scale in fp8, as memory has it. */
static void quantise(struct indexer_rope *k, const struct rope_parts *x, struct tir_value scale,
                     struct tir_value *raw)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct tir_value inverse = tir_rcp(b, scale);
    struct rope_parts q = *x;
    for (unsigned i = 0; i < p->rotated.n_parts; i++) {
        const struct tir_value scaled =
            tir_mul(b, x->v[i], tir_broadcast(b, inverse, tir_typeof(b->f, x->v[i])));
        q.v[i] = tir_convert(b, scaled, TIR_FP8);
    }
    rope_pack(p, &p->rotated, &q, raw);
}

/* ---- Queries ---- */

/* Element [token, head] of a tensor, a tile of heads. */
static struct tir_view heads_of(struct indexer_rope *k, struct att_tensor t, int size,
                                struct tir_value heads)
{
    struct tir_builder *b = &k->rope.b;
    const struct tir_value at =
        tir_mul(b, att_wide(b, k->rope.token), att_stride(b, t.token_stride, size));
    return att_view(b, tir_add(b, tir_arg(b, t.arg, TIR_I64), at), heads, tir_i32(b, size), size,
                    0);
}

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
    const struct tir_value factor = like(k, tir_arg(b, ARG_WEIGHT_SCALE, TIR_F32), w);
    tir_tile_store(b, heads_of(k, ATT_TOKENS(WEIGHTS_OUT), FLOAT, heads), first,
                   tir_mul(b, w, factor));
}

/* ---- Keys ---- */

/* A vector [128] of f32 as the parts are held: of packed spans every other element. */
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
        struct tir_type t = s->spans[i].vector;
        t.dtype = TIR_F32;
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

/* Sum over a head of what `of` makes of each part. */
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
    const struct tir_value eps = like(k, tir_arg(b, ARG_EPS, TIR_F32), square);
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

/* The page of the token's slot, and where its key is in it. */
struct key_slot {
    struct att_cache cache;
    struct tir_value row;    /* i64 column of a tile of heads: byte offset, or far below 0 */
    struct tir_value scales; /* i64: address of the key's scale */
};

static struct key_slot open_slot(struct indexer_rope *k)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const bool shuffle = k->v->kv_layout == ATT_KV_LAYOUT_SHUFFLE;
    const struct att_paging paging = att_paging_by_argument(b, false);
    const struct att_slot at_page = att_slot_of(&paging, p->slot);
    const struct tir_value inside = tir_convert(b, at_page.token, TIR_I32);
    const struct tir_value start =
        tir_add(b, tir_arg(b, ARG_KEYS, TIR_I64),
                tir_mul(b, at_page.page, tir_arg(b, ARG_PAGE_STRIDE, TIR_I64)));
    struct tir_value at = att_times(b, inside, DIM);
    if (shuffle) {
        const struct tir_value tile = tir_shr(b, inside, tir_i32(b, (int)tir_bits(TILE)));
        const struct tir_value token = tir_and(b, inside, tir_i32(b, TILE - 1));
        at = tir_add(b, att_times(b, tile, TILE * DIM), att_times(b, token, TILE));
    }
    const struct tir_value scale =
        tir_add(b, att_times(b, att_page_tokens(&paging), DIM), att_times(b, inside, FLOAT));
    const struct tir_type column = rope_head_column(p, &p->rotated, TIR_I32);
    const struct tir_value first = tir_convert(
        b, tir_cmp_eq(b, tir_row_index(b, column), tir_splat(b, tir_i32(b, 0), column)), TIR_I64);
    const struct tir_value own = tir_splat(b, att_wide(b, at), tir_typeof(b->f, first));
    const struct tir_value skip = tir_int_like(b, own, INT64_MIN);
    return (struct key_slot){
        .cache = {.b = b,
                  .shuffle = shuffle,
                  .dtype = TIR_FP8,
                  .size = 1,
                  .x = TILE,
                  .dim = DIM,
                  .base = start,
                  .block_stride = tir_i32(b, TILE * TILE)},
        .row = tir_select(b, tir_cmp_ne(b, first, tir_int_like(b, first, 0)), own, skip),
        .scales = tir_add(b, start, att_wide(b, scale)),
    };
}

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

/* The token's key, as the first of a tile of heads. */
static void visit_key(struct indexer_rope *k)
{
    struct rope *p = &k->rope;
    struct tir_builder *b = &p->b;
    const struct rope_shape *s = &p->rotated;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value at =
        tir_mul(b, att_wide(b, p->token), att_stride(b, ARG_K_TOKEN_STRIDE, ROPE_ELEM));
    struct tir_value raw[ROPE_MAX_SPANS];
    rope_load(p, s, tir_add(b, tir_arg(b, ARG_K, TIR_I64), at), tir_i32(b, 1), zero, zero, false,
              raw);
    struct rope_parts x = rope_unpack(p, s, raw);
    normalise(k, &x);
    rotate(k, &x);
    const struct tir_value scale = find_scale(k, &x);
    quantise(k, &x, scale, raw);
    store_key(k, raw, scale);
}

/* ---- The kernel ---- */

/* A workgroup has a token and, of its heads, a tile for each wave; the first workgroup's first wave
 * has the key too. */
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
    const struct tir_value some =
        tir_and(b, tir_cmp_ne(b, tir_arg(b, ARG_Q, TIR_I64), tir_i64(b, 0)),
                tir_cmp_lt(b, first, tir_arg(b, ARG_HEADS, TIR_I32)));
    struct tir_if of_q = tir_begin_if(b, some, false, NULL, 0);
    visit_heads(k, first);
    tir_end_if(b, &of_q, NULL);
    const struct tir_value cached =
        tir_and(b, tir_cmp_eq(b, part, zero), tir_cmp_ge(b, p->slot, tir_i64(b, 0)));
    struct tir_if of_k = tir_begin_if(b, cached, false, NULL, 0);
    visit_key(k);
    tir_end_if(b, &of_k, NULL);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *out)
{
    struct indexer_rope k = {
        .v = v,
        .heads = *v,
        .rope =
            {.m = m, .elements = 16, .dtype = att_dtype(v), .narrow_q = true, .even = v->hadamard},
        .largest = m->fp8_is_fnuz ? 240.0f : 448.0f,
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
    visit(&k);
    tir_return(&k.rope.b);
    *out = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1},
        .grid = {{ARG_TOKENS, 1, 1}, {ARG_HEADS, tile.waves * k.rope.rows, 1}, {NULL, 1, 1}},
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
