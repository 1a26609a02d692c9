/* SPDX-License-Identifier: Apache-2.0
 *
 * This file stores v of several tokens together in V's SHUFFLE layout. Its 16 bytes have one
 * element of x tokens, 16 bytes being x elements. A tile has x tokens of some heads, so that a lane
 * has x tokens of an element.
 *
 * For this the tokens of a workgroup begin and end at slots that are multiples of x. Consecutive
 * slots then form whole groups, wherever a sequence begins among the tokens. The elements of an
 * incomplete group are stored one by one.
 */
#include "templates/rope/rope.h"
#include "templates/workgroup/scalar.h"

enum {
    SLOT = 8 /* bytes of an entry of slot_mapping */,
    MOST = 96 /* most elements of V in SHUFFLE that a lane holds */
};

/* A tile of v: x tokens of `heads` heads. Row r is token r % x of head r / x. */
struct group {
    struct att_cache_tiles tiles; /* panels of columns of the tile, and their types */
    int x, heads;                 /* number of tokens; number of heads */
    /* i32, rows x 1: indices of each row's token in the call, and of its head */
    struct tir_value token, head;
    struct tir_value nowhere; /* i64, rows x 1: -1 in rows that are not stored, else 0 */
    struct tir_value slot;    /* i64, rows x 1: slot of the row's token; negative: not stored */
};

bool rope_gathers_values(const struct rope *p)
{
    return att_is_shuffled(p->v) && !p->by_pages && att_cache_run_elements(p->v, p->m) <= MOST;
}

/* Returns `a` (i32, rows x 1) times `step` (i64 scalar), as i64. */
static struct tir_value steps(struct rope *p, struct tir_value a, struct tir_value step)
{
    struct tir_builder *b = &p->b;
    const struct tir_value wide = tir_convert(b, a, TIR_I64);
    return tir_mul(b, wide, att_like(b, step, wide));
}

/* Sets token, head, slot and nowhere of each row of the group `g`: tokens from `first_token` on,
 * heads from `first_head` on (i32 indices). Rows of tokens from `end_token` on, or of heads that do
 * not exist, get nowhere = -1. */
static void locate(struct rope *p, const struct rope_source *s, struct tir_value first_token,
                   struct tir_value end_token, struct tir_value first_head, struct group *g)
{
    struct tir_builder *b = &p->b;
    const struct tir_value row = tir_row_index(b, g->tiles.column);
    const struct tir_value member = tir_and(b, row, tir_int_like(b, row, g->x - 1));
    const struct tir_value of =
        tir_shr(b, row, tir_int_like(b, row, __builtin_ctz((unsigned)g->x)));
    const struct tir_value token = tir_add(b, member, att_like(b, first_token, row));
    const struct tir_value head = tir_add(b, of, att_like(b, first_head, row));
    const struct tir_value last_token = att_like(b, att_plus(b, end_token, -1), row);
    const struct tir_value last_head = att_like(b, att_plus(b, s->all, -1), row);
    const struct tir_value left =
        tir_or(b, tir_sub(b, last_token, token), tir_sub(b, last_head, head));
    const struct tir_value beyond = tir_sar(b, left, tir_int_like(b, row, 31));
    /* Rows beyond the end get the first token and head. Because of this, tokens differ by lane in
     * LLVM's view: addresses of x tokens in scalar registers would exceed these registers. */
    const struct tir_value there = tir_xor(b, beyond, tir_int_like(b, row, -1));
    g->token = tir_add(b, tir_and(b, member, there), att_like(b, first_token, row));
    g->head = tir_add(b, tir_and(b, of, there), att_like(b, first_head, row));
    g->nowhere = tir_convert(b, beyond, TIR_I64);
    const struct tir_value at = steps(p, g->token, tir_i64(b, SLOT));
    const struct tir_value slot = tir_tile_gather(b, tir_arg(b, ARG_SLOT_MAPPING, TIR_I64), at,
                                                  tir_i32(b, 0), g->tiles.column);
    g->slot = tir_or(b, slot, g->nowhere);
}

/* Returns the byte offset (i64, rows x 1) in tensor `t` of each row of the group. */
static struct tir_value rows_of(struct rope *p, const struct group *g, const struct rope_tensor *t)
{
    return tir_add(&p->b, steps(p, g->token, t->token_stride),
                   steps(p, g->head, att_wide(&p->b, t->head_stride)));
}

/* Loads v of the group `g` and adds the bias. Sets raw[] to its panels in the op's dtype. Sets x[]
 * to the panels in f32 if the variant has a bias or a cache of another dtype. */
static void load(struct rope *p, const struct rope_source *s, const struct group *g,
                 struct tir_value *raw, struct tir_value *x)
{
    struct tir_builder *b = &p->b;
    const struct tir_value rows = rows_of(p, g, &s->in);
    const struct tir_value biases = steps(p, g->head, tir_i64(b, p->v->head_dim_v * ROPE_ELEM));
    for (unsigned i = 0; i < g->tiles.n; i++) {
        const struct tir_value byte = tir_i32(b, g->tiles.first[i] * ROPE_ELEM);
        raw[i] = tir_tile_gather(b, s->in.base, rows, byte, g->tiles.panel[i]);
        if (p->v->bias) {
            const struct tir_value bias = tir_tile_gather(b, tir_arg(b, s->bias.tensor, TIR_I64),
                                                          biases, byte, g->tiles.panel[i]);
            x[i] = tir_add(b, rope_to_f32(p, raw[i]), rope_to_f32(p, bias));
            raw[i] = tir_convert_short(b, x[i], p->dtype);
        } else if (p->cache[1].dtype != p->dtype) {
            x[i] = rope_to_f32(p, raw[i]);
        }
    }
}

/* Stores the group's panels raw[] in the tensor to which v is written besides the cache (field
 * keep_kv). Skips rows that do not exist. */
static void write_dense(struct rope *p, const struct rope_source *s, const struct group *g,
                        const struct tir_value *raw)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = rows_of(p, g, &s->out);
    const struct tir_value rows =
        tir_or(b, at, tir_and(b, g->nowhere, tir_int_like(b, at, INT64_MIN)));
    for (unsigned i = 0; i < g->tiles.n; i++)
        tir_tile_scatter(b, s->out.base, rows, tir_i32(b, g->tiles.first[i] * ROPE_ELEM), raw[i]);
}

/* Returns the byte offset (i64, rows x 1) of each row's scale from the first scale of its token. */
static struct tir_value head_scales(struct rope *p, const struct group *g)
{
    return steps(p, g->head, att_stride(&p->b, ARG_SCALE_HEAD_STRIDE, sizeof(float)));
}

/* Returns the byte offset (i64, rows x 1) in the cache of each row's scale; negative in rows that
 * are not stored. */
static struct tir_value scale_rows(struct rope *p, const struct group *g)
{
    return tir_add(&p->b, att_cache_scale_row(&p->cache[1], g->slot), head_scales(p, g));
}

/* Returns 1 / scale (f32), by which the panels x[] are multiplied before they are rounded to the
 * cache's dtype; no value if the cache has no scales. A scale per token is computed here from x[]
 * and stored. */
static struct tir_value quantum(struct rope *p, const struct group *g, const struct tir_value *x)
{
    struct tir_builder *b = &p->b;
    const struct att_cache *c = &p->cache[1];
    if (c->scaling == ATT_KV_SCALE_NONE)
        return (struct tir_value){0};
    if (c->scaling == ATT_KV_SCALE_TENSOR)
        return att_cache_inverse(c, att_cache_tensor_scale(c));
    if (c->scaling == ATT_KV_SCALE_HEAD)
        return att_cache_inverse(c, att_cache_load_scales(c, head_scales(p, g)));
    const struct tir_value rows = scale_rows(p, g);
    struct tir_value absmax = att_absmax(b, x[0]);
    for (unsigned i = 1; i < g->tiles.n; i++)
        absmax = tir_max(b, absmax, att_absmax(b, x[i]));
    const struct tir_value scale = att_cache_scale_of(c, absmax);
    att_cache_store_scales(c, rows, scale);
    return att_cache_inverse(c, scale);
}

/* Stores the group's panels in the cache: raw[], or x[] quantised if the cache has another dtype
 * than the op. */
static void write_cache(struct rope *p, const struct group *g, struct tir_value *raw,
                        const struct tir_value *x)
{
    struct tir_builder *b = &p->b;
    const struct att_cache *c = &p->cache[1];
    if (c->dtype != p->dtype) {
        const struct tir_value inverse = quantum(p, g, x);
        for (unsigned i = 0; i < g->tiles.n; i++)
            raw[i] = att_cache_quantise(c, x[i], inverse);
    }
    const struct tir_value stride = att_stride(b, ARG_V_HEAD_STRIDE, c->size);
    const struct tir_value rows =
        tir_add(b, att_cache_slot_row(c, g->slot), steps(p, g->head, stride));
    struct tir_if runs = att_begin_if(b, att_cache_has_runs(c, g->slot));
    for (unsigned i = 0; i < g->tiles.n; i++)
        att_cache_store_runs(c, rows, g->tiles.first[i], raw[i]);
    tir_else(b, &runs, NULL);
    for (unsigned i = 0; i < g->tiles.n; i++)
        att_cache_store(c, rows, g->tiles.first[i], raw[i]);
    tir_end_if(b, &runs, NULL);
}

/* Loads v of group `g`, and stores it in the cache and with field keep_kv in its tensor. */
static void visit_group(struct rope *p, const struct rope_source *s, const struct group *g)
{
    struct tir_value raw[ATT_CACHE_PANELS], x[ATT_CACHE_PANELS];
    load(p, s, g, raw, x);
    if (p->v->keep_kv)
        write_dense(p, s, g, raw);
    write_cache(p, g, raw, x);
}

/* Returns the index (i32) of the first token at or after `token` whose slot is a multiple of x, if
 * slots are consecutive; at most the number of tokens. Returns `token` unchanged if it is 0 or has
 * no slot. */
static struct tir_value align(struct rope *p, struct tir_value token, int x)
{
    struct tir_builder *b = &p->b;
    const struct tir_value tokens = tir_arg(b, ARG_TOKENS, TIR_I32), zero = tir_i32(b, 0);
    const struct tir_type t = tir_scalar(TIR_I32);
    const struct tir_value inside =
        tir_and(b, tir_cmp_gt(b, token, zero), tir_cmp_lt(b, token, tokens));
    struct tir_if s = tir_begin_if(b, inside, false, &t, 1);
    const struct tir_value slot = tir_scalar_load(b, tir_arg(b, ARG_SLOT_MAPPING, TIR_I64),
                                                  att_times(b, token, SLOT), TIR_I64);
    const struct tir_value left = tir_and(b, tir_sub(b, tir_i64(b, 0), slot), tir_i64(b, x - 1));
    const struct tir_value up = tir_add(b, token, tir_convert(b, left, TIR_I32));
    struct tir_value aligned = tir_select(b, tir_cmp_lt(b, slot, tir_i64(b, 0)), token, up);
    tir_else(b, &s, &aligned);
    aligned = token;
    tir_end_if(b, &s, &aligned);
    return tir_min(b, aligned, tokens);
}

void rope_visit_values(struct rope *p, struct rope_source *s, struct tir_value first,
                       struct tir_value end)
{
    struct tir_builder *b = &p->b;
    const struct att_cache c = att_cache(b, p->v, p->m, true, tir_i32(b, 0));
    const unsigned rows = att_cache_least_rows(&c, 1);
    rope_open_source(p, s, ROPE_V);
    rope_open_kept(p, s, true);
    struct group g = {
        .tiles = att_cache_tiles(&c, p->dtype, 1, rows), .x = c.x, .heads = (int)rows / c.x};
    const struct tir_value from = align(p, first, g.x), to = align(p, end, g.x);
    const struct tir_value tiles =
        tir_shr(b, att_plus(b, s->all, g.heads - 1), tir_i32(b, __builtin_ctz((unsigned)g.heads)));
    const struct tir_value groups = tir_shr(b, att_plus(b, tir_sub(b, to, from), g.x - 1),
                                            tir_i32(b, __builtin_ctz((unsigned)g.x)));
    struct tir_loop loop =
        tir_begin_for(b, p->wave, tir_mul(b, groups, tiles), tir_i32(b, p->waves), NULL, 0);
    const struct tir_value group = tir_div(b, loop.index, tiles);
    const struct tir_value tile = tir_sub(b, loop.index, tir_mul(b, group, tiles));
    const struct tir_value token = tir_add(b, from, att_times(b, group, g.x));
    locate(p, s, token, to, att_times(b, tile, g.heads), &g);
    visit_group(p, s, &g);
    tir_end_for(b, &loop, NULL, 0);
}
