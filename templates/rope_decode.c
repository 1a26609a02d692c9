/* SPDX-License-Identifier: Apache-2.0
 *
 * A decode step of a layer in one launch: rope_qk_norm_cache, then decode.
 *
 *     q, k = rotate(norm(x + bias)), v = x + bias     of the new tokens
 *     O = softmax(scale q K^T + mask) V               over the cache and the new tokens
 *
 * No wave waits for another one to write the cache. Each wave computes the queries of its item. The
 * wave whose tile has the key of a new token computes that key and value. They pass through LDS,
 * which no other wave reads. The loop of decode reads tiles of the cache as if it had all keys. It
 * replaces the rows of new tokens before a product reads them. The wave that computed a row also
 * writes it to the cache, after all waves of the workgroup have read their tiles. Other waves may
 * load the same row together with rows of their own, and do not use it.
 *
 * A tile of heads has one token's query heads in its rows. Its other rows are zero in LDS until the
 * next token's tile overwrites them. Another tile has k in the upper half of its rows and v in the
 * lower half. Loads of q and of the token's position precede all loads of the cache; loads of
 * angles, k and v are among the cache's first loads. The arithmetic follows while these loads are
 * in flight.
 */
#include "templates/decode/pipelines/pipelines.h"
#include "templates/rope_decode/rope_decode.h"
#include "templates/workgroup/scalar.h"

#include "ir/address_map.h"

/* Returns the number of elements of a query head in a lane. With a norm it is the number of
 * rope_qk_norm_cache, so that sums have the same order. Without a norm the number is smaller, if a
 * tile then has room for all heads. */
static int lane_elements(const struct att_variant *v, const struct tir_machine *m)
{
    enum { MOST = 16, LEAST = 4 };
    const int lanes = (int)tir_lanes(m);
    int n = MOST;
    while (v->norm == ATT_NORM_NONE && n > LEAST && lanes * n / v->head_dim / 2 >= v->gqa)
        n /= 2;
    return n;
}

/* Returns the number of elements of a head in a lane, for tiles of k and v. Without a norm a tile
 * has two rows, one of k and one of v. */
static int kv_lane_elements(const struct att_variant *v, const struct tir_machine *m)
{
    return v->norm != ATT_NORM_NONE ? 16 : 2 * v->head_dim / (int)tir_lanes(m);
}

/* True if the template serves the variant's head dims and rotation; if not, the reason is in
 * `why`. */
static bool check_heads(const struct att_variant *v, struct att_why *why)
{
    if (v->head_dim & (v->head_dim - 1) || v->head_dim < 64 || v->head_dim > 256)
        return att_reject(why, ATT_HEAD_DIM, "head_dim %d is not 64, 128 or 256", v->head_dim);
    if (v->head_dim_v != v->head_dim)
        return att_reject(why, ATT_HEAD_DIM_V, "head_dim_v %d is not head_dim %d", v->head_dim_v,
                          v->head_dim);
    const int rotary = rope_rotary_dim(v), half = rotary / 2;
    if (rotary > v->head_dim || rotary % 2 || half & (half - 1) || (rotary && half < 8))
        return att_reject(why, ATT_ROTARY_DIM,
                          "half of rotary_dim %d is not a power of two from 8 to %d", rotary,
                          v->head_dim / 2);
    if (v->norm == ATT_NORM_FULL)
        return att_reject(why, ATT_NORM, "norm full is not for this op");
    return true;
}

/* True if the template serves the variant's numbers of queries and heads; if not, the reason is in
 * `why`. */
static bool check_rows(const struct att_variant *v, struct att_why *why)
{
    enum { MOST = 64, MOST_QUERIES = 8 };
    if (v->gqa == 0)
        return att_reject(why, ATT_GQA, "a kernel is for one number of query heads of a key head");
    if (v->q_len > MOST_QUERIES)
        return att_reject(why, ATT_Q_LEN, "%d is more than %d", v->q_len, MOST_QUERIES);
    if (v->gqa * v->q_len > MOST)
        return att_reject(why, ATT_Q_LEN, "gqa times q_len is %d, more than %d", v->gqa * v->q_len,
                          MOST);
    if (v->gqa * v->q_len > ROPE_DECODE_BLOCK && ROPE_DECODE_BLOCK % v->gqa &&
        v->gqa % ROPE_DECODE_BLOCK)
        return att_reject(why, ATT_GQA,
                          "gqa times q_len above %d is for a gqa of 2, 4, 8 or multiples of %d",
                          ROPE_DECODE_BLOCK, ROPE_DECODE_BLOCK);
    return true;
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    if (v->kv_scale == ATT_KV_SCALE_BLOCK)
        return att_reject(why, ATT_KV_SCALE, "kv_scale block is not for this op");
    if (v->mask == ATT_MASK_CUSTOM)
        return att_reject(why, ATT_MASK, "mask custom is not for this op");
    if (v->mask == ATT_MASK_BLOCKS)
        return att_reject(why, ATT_MASK, "mask blocks is for prefill");
    if (v->kv_layout == ATT_KV_LAYOUT_PACKED)
        return att_reject(why, ATT_KV_LAYOUT, "rows of kv_layout packed are not read by this op");
    return check_heads(v, why) && check_rows(v, why) && att_cache_check(v, why) &&
           att_find_tile(v, m, &tile, why);
}

/* Sets the shapes of the new tokens' tiles of heads and reserves LDS for them. The function is
 * decode_arrivals.begin. */
static void begin(struct decode *d)
{
    struct rope_decode *s = rope_decode_of(d);
    struct tir_builder *b = &d->kv.b;
    s->rope = (struct rope){.v = d->kv.v, .m = d->kv.m, .b = *b, .dtype = d->kv.dtype};
    s->kv = s->rope;
    s->rope.elements = lane_elements(d->kv.v, d->kv.m);
    s->kv.elements = kv_lane_elements(d->kv.v, d->kv.m);
    rope_choose_shapes(&s->rope);
    rope_choose_shapes(&s->kv);
    s->tiles = (d->kv.v->gqa + s->rope.rows - 1) / s->rope.rows;
    rope_decode_reserve(d);
}

/* Issues the loads of the first new token's q, k and v. The function is decode_arrivals.load. */
static void load_new_tokens(struct decode *d)
{
    struct rope_decode *s = rope_decode_of(d);
    const uint8_t stage = d->kv.b.stage;
    rope_decode_load_queries(d, 0, pipe_stage(&d->plan, DECODE_LOAD), &s->first);
    d->kv.b.stage = pipe_stage(&d->plan, DECODE_LOAD);
    rope_decode_load_new_rows(d, 0, &s->first.rope, &s->first_news);
    d->kv.b.stage = stage;
}

/* Stores zeros in LDS in the rows of the wave's block of q from row `first` on. These rows have no
 * query. */
static void clear_rows(struct decode *d, int first)
{
    struct rope_decode *s = rope_decode_of(d);
    struct tir_builder *b = &d->kv.b;
    const struct rope_shape *const shape = &s->rope.rotated;
    struct tir_value zero[ROPE_MAX_SPANS];
    for (unsigned i = 0; i < shape->n_spans; i++) {
        const struct tir_type t = shape->spans[i].heads;
        zero[i] = tir_splat(b, t.dtype == TIR_I32 ? tir_i32(b, 0) : tir_f32(b, 0), t);
        if (t.dtype != TIR_I32)
            zero[i] = tir_convert_short(b, zero[i], d->kv.dtype);
    }
    for (int row = first; row < ROPE_DECODE_BLOCK; row += s->rope.rows)
        rope_decode_put(d, shape, att_plus(b, s->lds_q, row * rope_decode_q_bytes(d)), ROPE_ELEM,
                        ROPE_DECODE_PAD, zero);
}

/* Reads a block of the wave's queries from LDS: ROPE_DECODE_BLOCK rows, one for each query and
 * head, by head_dim. */
static struct tir_value read_block(struct decode *d)
{
    struct tir_builder *b = &d->kv.b;
    const unsigned dim = (unsigned)d->kv.v->head_dim;
    const struct tir_layout l = tir_mma_right(&d->kv.m->mma[d->kv.qk], ROPE_DECODE_BLOCK,
                                              &d->query.depth, (struct tir_waves){0});
    struct tir_layout map = tir_row_major(ROPE_DECODE_BLOCK, dim);
    tir_map_pad(&map, dim, ROPE_DECODE_PAD);
    tir_wait(b, TIR_LDS_WRITES, 0);
    return tir_tile_lds_load(b, rope_decode_of(d)->lds_q,
                             tir_tile(b->f, d->kv.dtype, ROPE_DECODE_BLOCK, dim, &l), &map);
}

/* Returns Q^T, from the blocks block[] of the wave's queries, which are stacked as rows and
 * transposed. */
static struct tir_value stack(struct decode *d, struct tir_value *block)
{
    struct tir_builder *b = &d->kv.b;
    const struct tir_layout l = tir_mma_right(&d->kv.m->mma[d->kv.qk], d->kv.columns,
                                              &d->query.depth, (struct tir_waves){0});
    for (unsigned n = d->kv.columns / ROPE_DECODE_BLOCK; n > 1; n /= 2)
        for (unsigned i = 0; i < n / 2; i++)
            block[i] = tir_stack(b, block[2 * i], block[2 * i + 1]);
    return tir_named(b, "q", tir_transpose(b, tir_relayout(b, block[0], &l)));
}

/* Computes queries, keys and values of all new tokens, and returns Q^T. The function is
 * decode_arrivals.prepare. */
static struct tir_value prepare(struct decode *d)
{
    struct rope_decode *s = rope_decode_of(d);
    struct tir_value block[4];
    struct rope_decode_queries now = s->first, next;
    struct rope_decode_news w = s->first_news;
    /* row: index of a row of Q (a query and head). blocks: number of blocks of rows read so far. */
    int row = 0, blocks = 0;
    for (int t = 0; t < d->kv.v->q_len; t++) {
        if (t > 0)
            rope_decode_load_new_rows(d, t, &now.rope, &w);
        if (t + 1 < d->kv.v->q_len)
            rope_decode_load_queries(d, t + 1, d->kv.b.stage, &next);
        row = t * d->kv.v->gqa;
        for (int i = 0; i < s->tiles; i++, row += s->rope.rows) {
            if (row / ROPE_DECODE_BLOCK > blocks)
                block[blocks++] = read_block(d);
            rope_decode_make_queries(d, &now, i, row % ROPE_DECODE_BLOCK);
        }
        rope_decode_make_news(d, &w, t);
        if (t + 1 < d->kv.v->q_len)
            now = next;
    }
    row = d->kv.v->q_len * d->kv.v->gqa - blocks * ROPE_DECODE_BLOCK;
    for (; blocks < (int)d->kv.columns / ROPE_DECODE_BLOCK; row = 0) {
        clear_rows(d, row);
        block[blocks++] = read_block(d);
    }
    return stack(d, block);
}

static const struct decode_arrivals arrivals = {
    .begin = begin,
    .load = load_new_tokens,
    .prepare = prepare,
    .replace_keys = rope_decode_replace_keys,
    .replace_values = rope_decode_replace_values,
    .store = rope_decode_store,
};

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct rope_decode s = {0};
    decode_build(v, m, &arrivals, &s, k);
}

/* True if tile `t` serves the variant in one pass over the keys and its LDS fits the machine; if
 * not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    if (v->gqa * v->q_len > t->rows)
        return att_reject(why, ATT_TILE, "a workgroup has %d rows, fewer than gqa times q_len, %d",
                          t->rows, v->gqa * v->q_len);
    if (!decode_fits(v, t, m, why))
        return false;
    struct rope_decode s = {0};
    const unsigned bytes = decode_lds_bytes(v, m, t, &arrivals, &s);
    if (bytes > m->lds_bytes)
        return att_reject(why, ATT_TILE, "the tile takes %u bytes of LDS, %s has %u", bytes,
                          m->name, m->lds_bytes);
    return true;
}

static const struct att_knob knobs[] = {
    {"keys", 3, {16, 32, 64}},   {"keys_by_row", 2, {16, 32}},  {"waves", 1, {8}},
    {"hoist_vgprs", 2, {4, 16}}, {"waves_per_simd", 2, {1, 2}}, {"ahead", 1, {1}},
    {"in_order", 1, {1}},
};

const struct att_template att_template_rope_decode = {
    .name = "rope_decode",
    .description = "rotary embedding, QK norm, cache write and decode in one launch",
    .takes = OP_TAKES_ROPE_DECODE | ATT_BIT(TILE),
    ATT_TILES(decode_tiles, knobs),
    .own = DECODE_OWN,
    .fitted = decode_fitted,
    .n_fitted = DECODE_N_FITTED,
    .fits = fits,
    .fills = decode_fills,
    .check = check,
    .build = build,
};
