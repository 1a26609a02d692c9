/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the kernel that copies keys and values of sequences out of the pages of a cache,
 * one sequence after the other. It dequantises them. Position seq_starts[s] + i of sequence s
 * becomes row cu_seqlens_k[s] + i of k_out and v_out.
 *
 * A workgroup copies some positions of one sequence and head. They begin at a multiple of x, so
 * that x tokens of V's SHUFFLE layout are one load. Rows after the sequence's end are read from its
 * last page. The output's buffer resource drops their stores, since it ends before these rows.
 */
#include "ir/builder.h"
#include "templates/cache/cache.h"
#include "templates/cache/gathered.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

enum {
    /* Least number of positions of a workgroup, if the tile has no `passes` and V is not in
     * SHUFFLE. */
    ROWS = 64,
    LANE_ELEMENTS = 128, /* most elements of a tile of rows that a lane loads at once */
    ELEM = 2,            /* bytes of an element of bf16 or fp16 */
    INT = 4,             /* bytes of an entry of a page table */
};

/* Index in att_tile.own of the number of passes of a workgroup; 0: computed from the cache layout.
 * In a pass all lanes load at least 16 bytes of a row each. */
enum { PASSES };

/* Members that are 0, such as passes and waves, are computed from the cache layout. */
static const struct att_tile tiles[] = {
    {.waves_per_simd = 2, .why = "a wave has loads of 16 bytes on their way from both caches"},
};

static const struct att_knob knobs[] = {
    {"passes", 4, {1, 2, 4, 8}},
    {"waves", 5, {1, 2, 4, 8, 16}},
    {"waves_per_simd", 2, {4, 8}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct gather {
    const struct att_variant *v;
    struct tir_builder b;
    /* waves: number of waves. rows: number of positions that the workgroup copies, in one pass or
     * several. */
    unsigned waves, rows;
    struct tir_value head, sequence; /* i32, indices: the KV head, and the sequence */
    struct tir_value begin;          /* i32: index of the sequence's first row in the output */
    /* i32: first position of the sequence to copy, and one past the last. */
    struct tir_value start, end;
    /* i32: first position of this workgroup, a multiple of x. With V in SHUFFLE this is up to x - 1
     * positions before `start`, in the same page. */
    struct tir_value first;
};

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    return att_fits_waves(v, t, m, why) &&
           att_cache_fits_passes(v, m, t->own[PASSES], t->waves_per_simd, why);
}

/* Sets the members of `g` from the workgroup's indices in the grid. `x` is a power of two; the
 * workgroup's first position is a multiple of it. */
static void locate(struct gather *g, int x)
{
    struct tir_builder *b = &g->b;
    g->head = tir_block_id(b, 1);
    g->sequence = tir_block_id(b, 2);
    const struct att_gathered rows = att_gathered(b, g->sequence);
    g->begin = rows.row;
    g->start = rows.start;
    g->end = rows.end;
    const struct tir_value even = tir_and(b, g->start, tir_i32(b, -x));
    g->first = tir_add(b, even, att_times(b, tir_block_id(b, 0), (int)g->rows));
}

/* Returns the slots (i64) of this workgroup's positions, as a tile in the layout of type `column`.
 * Positions after the last page get slots of that page. */
static struct tir_value find_slots(struct gather *g, const struct att_cache *c,
                                   struct tir_type column)
{
    struct tir_builder *b = &g->b;
    const struct tir_value index = tir_row_index(b, column);
    const struct tir_type t = tir_typeof(b->f, index);
    const struct tir_value position = tir_add(b, index, tir_splat(b, g->first, t));
    const struct tir_value last = att_page_of(&c->pages, att_plus(b, g->end, -1));
    const struct tir_value own = att_page_of(&c->pages, position);
    const struct tir_value page = tir_min(b, own, tir_splat(b, last, t));
    struct tir_value list;
    if (g->v->page_table == ATT_PAGE_TABLE_INDICES) {
        const struct tir_value from =
            att_wide(b, att_gathered_entry(b, ARG_KV_INDPTR, g->sequence));
        list = att_at(b, ARG_KV_INDICES, tir_mul(b, from, tir_i64(b, INT)));
    } else {
        list = att_at(b, ARG_BLOCK_TABLE, att_offset(b, g->sequence, ARG_BLOCK_TABLE_STRIDE, INT));
    }
    const struct tir_value at = tir_mul(b, page, tir_int_like(b, page, INT));
    const struct tir_value number = tir_convert(
        b, tir_tile_gather(b, list, tir_convert(b, at, TIR_I64), tir_i32(b, 0), t), TIR_I64);
    const struct tir_value token = tir_sub(b, position, att_page_first(&c->pages, own));
    return tir_add(b, att_page_first(&c->pages, number), tir_convert(b, token, TIR_I64));
}

/* Returns the scale (f32) of the rows in slots `slot` (i64, rows x 1): one for all rows, or one for
 * each row. Returns no value if the cache has no scales. For packed rows it returns the byte
 * offsets (i64) of the rows' scales. */
static struct tir_value find_scale(const struct att_variant *v, const struct att_cache *c,
                                   struct tir_value slot)
{
    if (c->packed)
        return att_packed_scale_row(c, slot);
    if (c->scaling == ATT_KV_SCALE_NONE)
        return (struct tir_value){0};
    if (att_shares_scale(v))
        return att_cache_tensor_scale(c);
    return att_cache_load_scales(c, att_cache_scale_row(c, slot));
}

/* Returns columns `a`, as loaded from the cache, times `scale`, in the dtype and layout of `t`.
 * `scale` has no value if the cache has no scales. With a scale, columns are converted to the
 * layout of `t` while they are f32. */
static struct tir_value finish(struct gather *g, const struct att_cache *c, struct tir_value a,
                               struct tir_value scale, struct tir_type t)
{
    struct tir_builder *b = &g->b;
    const unsigned between = scale.id ? TIR_F32 : t.dtype;
    const struct tir_value x = att_cache_dequantise(c, a, scale, between);
    return tir_convert(b, tir_relayout(b, x, tir_layout_of(b->f, t)), t.dtype);
}

/* A panel of rows as loaded from the cache (`a`), and the scale (f32) of its rows: no value if the
 * cache has no scales. */
struct panel {
    struct tir_value a, scale;
};

/* Loads panel i (index) of `t` for the rows at byte offsets `row` (i64, rows x 1) in cache `c`.
 * `scale` is the result of find_scale(). */
static struct panel load_panel(const struct att_cache *c, struct tir_value row,
                               const struct att_cache_tiles *t, unsigned i, struct tir_value scale)
{
    return (struct panel){
        .a = att_cache_load(c, row, t->first[i], att_cache_load_type(c, t->panel[i])),
        .scale = c->packed ? att_packed_load_scales(c, scale, t->first[i], t->panel[i]) : scale,
    };
}

/* Copies g->rows positions of K, or of V if `value`, from position g->first on. */
static void copy_rows(struct gather *g, bool value)
{
    struct tir_builder *b = &g->b;
    struct att_cache c = att_cache(b, g->v, b->f->machine, value, g->head);
    att_cache_of_sequence(&c, g->sequence);
    const bool one_by_one = att_cache_narrow_panels(&c);
    const struct att_cache_tiles tiles = att_cache_tiles(&c, att_dtype(g->v), g->waves, g->rows);
    const struct tir_value slot = find_slots(g, &c, tiles.column);
    const struct tir_value row = att_cache_slot_row(&c, slot), shared = find_scale(g->v, &c, slot);
    struct panel panels[ATT_CACHE_PANELS];
    for (unsigned i = 0; i < tiles.n && !one_by_one; i++)
        panels[i] = load_panel(&c, row, &tiles, i, shared);

    const struct att_tensor tensor = value ? ATT_HEADS(V_OUT) : ATT_HEADS(K_OUT);
    const struct tir_value step = att_stride(b, tensor.token_stride, ELEM), zero = tir_i32(b, 0);
    /* Rows before the start have negative indices. Their byte offsets wrap to values beyond the
     * resource, so that their stores are dropped. */
    const struct tir_value ahead = tir_sub(b, g->first, g->start);
    const struct tir_value first = tir_max(b, ahead, zero), row0 = tir_min(b, ahead, zero);
    const struct tir_value token = tir_add(b, g->begin, first);
    const struct tir_value head = att_offset(b, g->head, tensor.head_stride, ELEM);
    const struct tir_value base =
        tir_add(b, att_at(b, tensor.arg, head), tir_mul(b, att_wide(b, token), step));
    const struct tir_value left = tir_sub(b, g->end, tir_add(b, g->start, first));
    const struct tir_value rows = tir_min(b, left, tir_i32(b, (int)g->rows));
    for (unsigned i = 0; i < tiles.n; i++) {
        const struct panel x = one_by_one ? load_panel(&c, row, &tiles, i, shared) : panels[i];
        const struct tir_view to = att_view(b, base, rows, tir_convert(b, step, TIR_I32),
                                            c.dim * ELEM, tiles.first[i] * ELEM);
        tir_tile_store(b, to, row0, finish(g, &c, x.a, x.scale, tiles.panel[i]));
    }
}

/* Copies the workgroup's positions of `side`, K or V. Copies in several steps if the positions that
 * the layout of the other side (V or K) requires exceed a lane's registers. `passes` is the tile's
 * number of passes, or 1. */
static void copy_side(struct gather *g, const struct att_cache *side, unsigned passes)
{
    struct tir_builder *b = &g->b;
    const unsigned all = g->rows, least = passes * att_cache_least_rows(side, g->waves);
    const int widest = side->widest < side->dim ? side->widest : side->dim;
    while (g->rows > least &&
           g->rows * (unsigned)widest > LANE_ELEMENTS * tir_lanes(g->b.f->machine) * g->waves)
        g->rows /= 2;
    if (g->rows == all) {
        copy_rows(g, side->value);
        return;
    }
    const struct tir_value first = g->first, zero = tir_i32(b, 0);
    const struct tir_value end = tir_min(b, tir_sub(b, g->end, first), tir_i32(b, (int)all));
    struct tir_loop loop = tir_begin_for(b, zero, end, tir_i32(b, (int)g->rows), NULL, 0);
    g->first = tir_add(b, first, loop.index);
    copy_rows(g, side->value);
    tir_end_for(b, &loop, NULL, 0);
    g->first = first;
    g->rows = all;
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    const bool shuffle = att_is_shuffled(v);
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    const unsigned passes = tile.own[PASSES];
    struct gather g = {
        .v = v,
        .waves = tile.waves ? tile.waves
                 : shuffle  ? 1
                            : 4,
        .rows = shuffle || passes ? 1 : ROWS,
    };
    struct tir_func *f = att_begin_kernel(v, m, g.waves, tile.waves_per_simd);
    g.b = tir_at_end(f, f->body);
    struct att_cache sides[] = {
        att_cache(&g.b, v, m, false, tir_i32(&g.b, 0)),
        att_cache(&g.b, v, m, true, tir_i32(&g.b, 0)),
    };
    for (int i = 0; i < 2; i++) {
        att_cache_narrow_panels(&sides[i]);
        const unsigned rows = att_cache_least_rows(&sides[i], g.waves);
        g.rows = rows > g.rows ? rows : g.rows;
    }
    g.rows *= passes ? passes : 1;
    locate(&g, shuffle ? sides[1].x : 1);
    /* If a sequence has no rows, g.first may be before its end; nothing is read then. */
    const struct tir_value wanted = tir_max(&g.b, g.first, g.start);
    struct tir_if some = att_begin_if(&g.b, tir_cmp_lt(&g.b, wanted, g.end));
    for (int i = 0; i < 2; i++)
        copy_side(&g, &sides[i], passes ? passes : 1);
    tir_end_if(&g.b, &some, NULL);
    tir_return(&g.b);

    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_MAX_SEQLEN_K, (int)g.rows, 1}, {ARG_KV_HEADS, 1, 1}, {ARG_BATCH, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "tokens=%u waves=%u", g.rows, g.waves);
}

const struct att_template att_template_cache_gather = {
    .name = "cache_gather",
    .description = "keys and values of sequences out of a cache",
    .takes = OP_TAKES_CACHE_GATHER | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"passes"},
    .fits = fits,
    .check = att_cache_check_tile,
    .build = build,
};
