/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores keys and values in pages whose scales are computed here: cache/block_scale.h. A run of
 * tokens of one page has one owner, a workgroup with keys or values and no q. Its waves take the
 * run's tokens round-robin: first they find the largest number of each head, and a wave a head
 * computes the scales from it; then they store the tokens. A wave keeps its first tokens in
 * registers meanwhile, enough for pages of 16. Further tokens of larger pages are loaded and
 * computed again, out of the caches.
 */
#include "ir/address_map.h"
#include "templates/cache/block_scale.h"
#include "templates/rope/rope.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

enum {
    KEPT = 2,   /* tokens of a wave that stay in registers; one if a lane has more than ... */
    FEW = 16,   /* ... this many elements of each */
    PANEL = 128 /* columns of a page that are requantised at once, beside these tokens */
};

/* A token's tile of heads: x in f32, for a cache with scales, and raw in the op's dtype, for
 * others. */
struct token_tile {
    struct rope_parts x;
    struct tir_value raw[ROPE_MAX_SPANS];
};

/* The keys or the values of a run of tokens, and the state of their visit. */
struct side {
    struct rope *p;
    struct rope_source s;
    bool value;
    int kept; /* tokens that a wave keeps in registers between finding the scale and storing */
    const struct att_page_run *run;
    struct tir_value n;   /* tokens of the run */
    struct tir_value row; /* first head of the tile */
    struct tir_value lds; /* LDS: [head, wave] maxima, then [head] inverses */
};

/* Returns a source with all heads of `of`; without heads if its tensor does not exist. */
static struct rope_source all_heads(struct rope *p, const struct rope_source *of)
{
    struct tir_builder *b = &p->b;
    struct rope_source s = *of;
    const struct tir_value none = tir_cmp_eq(b, s.in.base, tir_i64(b, 0));
    s.first = tir_i32(b, 0);
    s.end = tir_select(b, none, s.first, s.all);
    return s;
}

/* Loads the heads of token i (i32) of the run, and normalises and rotates them as the cache stores
 * them. */
static struct token_tile load_token(struct side *d, struct tir_value i)
{
    struct rope *p = d->p;
    struct rope_source *s = &d->s;
    struct token_tile t;
    p->token = tir_add(&p->b, d->run->token, i);
    s->base = rope_token_base(p, &s->in);
    if (!d->value && p->v->rope != ATT_ROPE_NONE)
        rope_find_angles(p);
    const struct tir_value inverse = rope_given_inverse_rms(p, s);
    rope_load(p, s->shape, s->base, s->end, s->in.head_stride, d->row, false, t.raw);
    t.x = rope_unpack(p, s->shape, t.raw);
    if (d->value && !p->v->bias)
        return t;
    rope_transform(p, s, inverse, d->row, &t.x);
    struct rope_parts rounded = t.x;
    rope_convert(p, s->shape, &rounded, p->dtype);
    rope_pack(p, s->shape, &rounded, t.raw);
    return t;
}

/* Stores the heads of token i (i32) of the run to its slot, and with keep_kv to their tensor. */
static void store_token(struct side *d, struct tir_value i, const struct token_tile *t)
{
    struct rope *p = d->p;
    struct tir_builder *b = &p->b;
    p->token = tir_add(b, d->run->token, i);
    p->slot = tir_add(b, d->run->page, att_wide(b, tir_add(b, d->run->begin, i)));
    const struct rope_slot slot = rope_open_slot(p, d->value);
    if (p->v->keep_kv)
        rope_write_dense(p, &d->s, &d->s.out, d->row, t->raw);
    rope_write_cache(p, &d->s, &slot, d->row, &t->x, t->raw);
}

/* Begins a loop over the tokens of this wave from its n-th on. */
static struct tir_loop begin_tokens(struct side *d, int n, struct tir_value *carried)
{
    struct tir_builder *b = &d->p->b;
    return tir_begin_for(b, att_plus(b, d->p->wave, n * d->p->waves), d->n, tir_i32(b, d->p->waves),
                         carried, carried ? 1 : 0);
}

/* Returns the largest |x| over this wave's tokens, for each head of the tile. The wave's first
 * tokens stay in kept[]. */
static struct tir_value largest(struct side *d, struct token_tile kept[KEPT])
{
    struct rope *p = d->p;
    struct tir_builder *b = &p->b;
    struct tir_value absmax = {0};
    for (int i = 0; i < d->kept; i++) {
        /* A wave beyond the end takes the last token again, which does not change the maximum. */
        const struct tir_value token =
            tir_min(b, att_plus(b, p->wave, i * p->waves), att_plus(b, d->n, -1));
        kept[i] = load_token(d, token);
        const struct tir_value own = rope_absmax(p, d->s.shape, &kept[i].x);
        absmax = i ? tir_max(b, absmax, own) : own;
    }
    struct tir_loop loop = begin_tokens(d, d->kept, &absmax);
    const struct token_tile t = load_token(d, loop.index);
    absmax = tir_max(b, absmax, rope_absmax(p, d->s.shape, &t.x));
    tir_end_for(b, &loop, &absmax, 1);
    return absmax;
}

/* Returns the LDS map of one f32 for each head of a tile, `apart` words from a head to the next. */
static struct tir_layout head_map(const struct rope *p, unsigned apart)
{
    struct tir_layout map = tir_row_major((unsigned)p->rows, 1);
    map.pad = (uint8_t)(apart - 1);
    return map;
}

/* Returns the columns of a panel that is requantised at once. With SHUFFLE a panel has 16
 * tokens, and a lane has at most 4 columns of each. */
static int panel_columns(const struct att_cache *c)
{
    const int narrow = 4 * (c->dim & -c->dim);
    return c->shuffle && narrow < PANEL ? narrow : PANEL;
}

/* Computes the page's scale of head `in_tile` of the tile, requantises older tokens if it
 * grows, and stores it. Returns 1 / scale, the factor for new tokens. */
static struct tir_value scale_head(struct side *d, struct tir_value in_tile)
{
    struct rope *p = d->p;
    struct tir_builder *b = &p->b;
    const struct tir_value head = tir_add(b, d->row, in_tile);
    struct att_cache c = att_cache(b, p->v, p->m, d->value, head);
    c.widest = panel_columns(&c);
    const struct att_cache_tiles tiles =
        att_cache_tiles(&c, p->dtype, 1, att_cache_least_rows(&c, 1));
    const struct tir_value absmax =
        att_lds_max(b, tir_add(b, d->lds, att_times(b, in_tile, p->waves * 4)));
    const struct att_block_scale scale =
        att_block_scale(&c, absmax, att_block_load_scale(&c, d->run));
    att_block_requantise(&c, d->run, &scale, &tiles);
    att_block_store_scale(&c, d->run, &scale);
    return scale.inverse;
}

/* Computes the scale of every head of the tile, a head in each wave. Returns 1 / scale of the
 * heads, rows x 1. */
static struct tir_value scale_heads(struct side *d, struct tir_value absmax)
{
    struct rope *p = d->p;
    struct tir_builder *b = &p->b;
    const struct tir_layout apart = head_map(p, p->waves), dense = head_map(p, 1);
    const struct tir_type t = tir_scalar(TIR_F32);
    const struct tir_value inverses = att_plus(b, d->lds, p->rows * p->waves * 4);
    tir_tile_lds_store(b, tir_add(b, d->lds, att_times(b, p->wave, 4)), absmax, &apart);
    att_lds_barrier(b);
    struct tir_loop loop =
        tir_begin_for(b, p->wave, tir_i32(b, p->rows), tir_i32(b, p->waves), NULL, 0);
    const struct tir_value left = tir_sub(b, d->s.end, d->row);
    struct tir_if there = tir_begin_if(b, tir_cmp_lt(b, loop.index, left), false, &t, 1);
    struct tir_value inverse = scale_head(d, loop.index);
    tir_else(b, &there, &inverse);
    inverse = tir_f32(b, 0);
    tir_end_if(b, &there, &inverse);
    att_lds_put(b, tir_add(b, inverses, att_times(b, loop.index, 4)), inverse);
    tir_end_for(b, &loop, NULL, 0);
    att_lds_barrier(b);
    return tir_tile_lds_load(b, inverses, rope_head_column(p, d->s.shape, TIR_F32), &dense);
}

/* Stores one tile of heads of all tokens of the run: computes their scales first, then
 * quantises. */
static void visit_tile(struct side *d)
{
    struct rope *p = d->p;
    struct tir_builder *b = &p->b;
    struct token_tile kept[KEPT];
    const struct tir_value absmax = largest(d, kept);
    p->inverse = scale_heads(d, absmax);
    for (int i = 0; i < d->kept; i++) {
        const struct tir_value token = att_plus(b, p->wave, i * p->waves);
        struct tir_if there = tir_begin_if(b, tir_cmp_lt(b, token, d->n), false, NULL, 0);
        store_token(d, token, &kept[i]);
        tir_end_if(b, &there, NULL);
    }
    struct tir_loop loop = begin_tokens(d, d->kept, NULL);
    const struct token_tile t = load_token(d, loop.index);
    store_token(d, loop.index, &t);
    tir_end_for(b, &loop, NULL, 0);
}

/* Stores the keys, or with `value` the values, of a run of tokens in one page. `lds` is the address
 * of LDS for the maxima. */
static void visit_run(struct rope *p, const struct rope_source *of, bool value,
                      const struct att_page_run *run, struct tir_value lds)
{
    struct tir_builder *b = &p->b;
    struct side d = {
        .p = p,
        .s = all_heads(p, of),
        .value = value,
        .kept = rope_lane_elements(p, of->shape) > FEW ? 1 : KEPT,
        .run = run,
        .lds = lds,
        .n = tir_sub(b, run->end, run->begin),
    };
    struct tir_loop loop = tir_begin_for(b, d.s.first, d.s.end, tir_i32(b, p->rows), NULL, 0);
    d.row = loop.index;
    visit_tile(&d);
    tir_end_for(b, &loop, NULL, 0);
}

/* Writes keys or values of the tokens without a slot to their tensor, with keep_kv. */
static void visit_nowhere(struct rope *p, const struct rope_source *of, bool value,
                          struct tir_value first, struct tir_value end)
{
    struct tir_builder *b = &p->b;
    struct tir_loop loop =
        tir_begin_for(b, tir_add(b, first, p->wave), end, tir_i32(b, p->waves), NULL, 0);
    p->token = loop.index;
    rope_load_slot(p);
    struct tir_if nowhere = tir_begin_if(b, tir_cmp_lt(b, p->slot, tir_i64(b, 0)), false, NULL, 0);
    if (!value && p->v->rope != ATT_ROPE_NONE)
        rope_find_angles(p);
    struct rope_source s = all_heads(p, of);
    struct tir_value raw[ROPE_MAX_SPANS];
    s.base = rope_token_base(p, &s.in);
    rope_load(p, s.shape, s.base, s.end, s.in.head_stride, s.first, false, raw);
    rope_visit_kv(p, &s, raw, value);
    tir_end_if(b, &nowhere, NULL);
    tir_end_for(b, &loop, NULL, 0);
}

void rope_visit_pages(struct rope *p, struct rope_source *of, enum rope_part part,
                      struct tir_value first, struct tir_value end)
{
    struct tir_builder *b = &p->b;
    const bool value = part == ROPE_V;
    const struct att_cache *c = &p->cache[value];
    const struct tir_value lds = tir_lds_buffer(b, (unsigned)p->rows * (p->waves + 1) * 4, 16);
    rope_open_source(p, of, part);
    rope_open_kept(p, of, part == ROPE_V);
    if (p->v->keep_kv)
        visit_nowhere(p, of, value, first, end);
    const struct tir_value slots = tir_arg(b, ARG_SLOT_MAPPING, TIR_I64);
    struct tir_if cached = tir_begin_if(b, tir_cmp_ne(b, slots, tir_i64(b, 0)), false, NULL, 0);
    struct att_page_runs runs;
    const struct att_page_run run = att_begin_page_runs(c, first, end, &runs);
    visit_run(p, of, value, &run, lds);
    att_end_page_runs(c, &runs);
    tir_end_if(b, &cached, NULL);
}
