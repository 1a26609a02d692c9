/* SPDX-License-Identifier: Apache-2.0
 *
 * This file stores keys and values in pages whose scales are computed here: cache/block_scale.h. A
 * run of tokens of one page has one owner, a workgroup with keys or values and no q. Its waves take
 * the run's tokens round-robin. First they find the largest magnitude of each head, and one wave
 * for each head computes the scale from it. Then they store the tokens. A wave keeps its first
 * tokens in registers meanwhile, enough for pages of 16 tokens. Further tokens of larger pages are
 * loaded and computed again, out of the caches.
 */
#include "ir/address_map.h"
#include "templates/cache/block_scale.h"
#include "templates/rope/rope.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

enum {
    /* Number of tokens that a wave keeps in registers, if a lane has at most FEW elements of a
     * token; else 1. */
    KEPT = 2,
    FEW = 16,   /* most elements of a token in a lane for KEPT tokens */
    PANEL = 128 /* most columns of a page that are requantised at once */
};

/* A token's tile of heads: `x`, in f32, for a cache with scales, and the spans `raw`, in the op's
 * dtype, for other caches and for keep_kv. */
struct token_tile {
    struct rope_parts x;
    struct tir_value raw[ROPE_MAX_SPANS];
};

/* The keys or the values of a run of tokens that a workgroup stores. */
struct side {
    struct rope *p;
    struct rope_source s; /* all heads of k or of v */
    bool value;           /* true: values; false: keys */
    /* number of tokens that a wave keeps in registers from finding the scale to storing */
    int kept;
    const struct att_page_run *run; /* the run: its page and its first token */
    struct tir_value n;             /* i32: number of tokens of the run */
    struct tir_value row;           /* i32: index of the tile's first head */
    /* i32: LDS address of a maximum for each head of the tile and wave; 1 / scale of each head
     * follows */
    struct tir_value lds;
};

/* Returns source `of` with all heads in its range, or with none if its tensor's argument is
 * NULL. */
static struct rope_source all_heads(struct rope *p, const struct rope_source *of)
{
    struct tir_builder *b = &p->b;
    struct rope_source s = *of;
    const struct tir_value none = tir_cmp_eq(b, s.in.base, tir_i64(b, 0));
    s.first = tir_i32(b, 0);
    s.end = tir_select(b, none, s.first, s.all);
    return s;
}

/* Loads the tile of heads of token i (i32: index) of the run, and transforms them as the cache
 * stores them: bias, and for keys norm and rotation. */
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

/* Stores the tile `t` of heads of token i (i32: index) of the run in the token's slot, and with
 * field keep_kv in its tensor. */
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

/* Begins a loop over this wave's tokens of the run, from the wave's token with index n on.
 * `carried` is a value that the loop carries; NULL: none. */
static struct tir_loop begin_tokens(struct side *d, int n, struct tir_value *carried)
{
    struct tir_builder *b = &d->p->b;
    return tir_begin_for(b, att_plus(b, d->p->wave, n * d->p->waves), d->n, tir_i32(b, d->p->waves),
                         carried, carried ? 1 : 0);
}

/* Returns the largest |x| of each head of the tile over this wave's tokens of the run, rows x 1.
 * Sets kept[] to the wave's first tokens. */
static struct tir_value largest(struct side *d, struct token_tile kept[KEPT])
{
    struct rope *p = d->p;
    struct tir_builder *b = &p->b;
    struct tir_value absmax = {0};
    for (int i = 0; i < d->kept; i++) {
        /* A wave without a token loads the run's last token, which does not change the maximum. */
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

/* Returns the LDS layout of one f32 for each head of a tile, `apart` words from a head to the
 * next. */
static struct tir_layout head_map(const struct rope *p, unsigned apart)
{
    struct tir_layout map = tir_row_major((unsigned)p->rows, 1);
    map.pad = (uint8_t)(apart - 1);
    return map;
}

/* Returns the number of columns of a page that are requantised at once. With SHUFFLE a panel has 16
 * tokens, and a lane has at most 4 columns of each token. */
static int panel_columns(const struct att_cache *c)
{
    const int narrow = 4 * (c->dim & -c->dim);
    return c->shuffle && narrow < PANEL ? narrow : PANEL;
}

/* Computes the page's scale of head `in_tile` (i32 index) of the tile from the maxima in LDS, and
 * stores it. If the scale grows, older tokens of the page are requantised. Returns 1 / scale (f32),
 * the factor for new tokens. */
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

/* Computes the page's scale of every head of the tile. Waves divide the heads, one head a wave at a
 * time. `absmax` is this wave's largest |x| of each head. Returns 1 / scale of the heads, rows x
 * 1. */
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

/* Stores the tile of heads from head d->row on of all tokens of the run. First computes the page's
 * scale of each head, then quantises. */
static void visit_tile(struct side *d)
{
    struct rope *p = d->p;
    struct tir_builder *b = &p->b;
    struct token_tile kept[KEPT];
    const struct tir_value absmax = largest(d, kept);
    p->inverse = scale_heads(d, absmax);
    for (int i = 0; i < d->kept; i++) {
        const struct tir_value token = att_plus(b, p->wave, i * p->waves);
        struct tir_if there = att_begin_if(b, tir_cmp_lt(b, token, d->n));
        store_token(d, token, &kept[i]);
        tir_end_if(b, &there, NULL);
    }
    struct tir_loop loop = begin_tokens(d, d->kept, NULL);
    const struct token_tile t = load_token(d, loop.index);
    store_token(d, loop.index, &t);
    tir_end_for(b, &loop, NULL, 0);
}

/* Stores the keys, or the values if `value`, of run `run` of tokens in one page. `lds` (i32) is the
 * LDS address for maxima and inverses. */
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

/* Writes k, or v if `value`, of those tokens from `first` to `end` - 1 (i32) that have no slot to
 * their tensor (field keep_kv). */
static void visit_nowhere(struct rope *p, const struct rope_source *of, bool value,
                          struct tir_value first, struct tir_value end)
{
    struct tir_builder *b = &p->b;
    struct tir_loop loop =
        tir_begin_for(b, tir_add(b, first, p->wave), end, tir_i32(b, p->waves), NULL, 0);
    p->token = loop.index;
    rope_load_slot(p);
    struct tir_if nowhere = att_begin_if(b, tir_cmp_lt(b, p->slot, tir_i64(b, 0)));
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
    struct tir_if cached = att_begin_if(b, tir_cmp_ne(b, slots, tir_i64(b, 0)));
    struct att_page_runs runs;
    const struct att_page_run run = att_begin_page_runs(c, first, end, &runs);
    visit_run(p, of, value, &run, lds);
    att_end_page_runs(c, &runs);
    tir_end_if(b, &cached, NULL);
}
