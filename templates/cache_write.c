/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the kernel that writes new keys and values to the pages of a cache. Token i of
 * k_in and v_in goes to slot_mapping[i], which is page * page_size + token. A token with a negative
 * slot is not written.
 *
 * A workgroup reads K and V of some tokens of one head once. A lane has at least 16 bytes of a row,
 * and stores 16 bytes at once. In V's SHUFFLE layout x tokens are adjacent. There a lane has x
 * rows, and transposes them in registers if the tokens are neighbours in the cache. K and V have
 * separate workgroups if a wave would have too much to round, or if one is much wider than the
 * other. The wider one then processes the workgroup's tokens in several passes.
 *
 * With a scale per page a workgroup writes whole runs of tokens (cache/block_scale.h). Its tile
 * then has a row for each token of the page, in the order of memory.
 */
#include "ir/address_map.h"
#include "ir/builder.h"
#include "ir/spread.h"
#include "templates/cache/cache.h"
#include "templates/cache/block_scale.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

enum {
    /* Number of tokens of a workgroup, if V is not in SHUFFLE and the tile has no `passes`.
     * TOKEN_ELEMENTS may require fewer. */
    ROWS = 128,
    /* Most f32 elements of a lane while it computes the scales of tokens. */
    TOKEN_ELEMENTS = 128,
    /* Most elements that a lane loads at once: of K and V together, or of the side that is
     * quantised. */
    LANE_ELEMENTS = 256,
    ELEM = 2, /* bytes of an element of bf16 or fp16 */
    SLOT = 8, /* bytes of an entry of slot_mapping */
};

/* Limits for processing a whole page at once. PAGE_ELEMENTS: elements of a lane. PAGE_WAVES: waves
 * of the workgroup. If the least rows take more elements, a wave gets all registers of a SIMD, and
 * there are half as many waves. ANY_PAGE_WAVES: waves in variants of any page size. */
enum { PAGE_ELEMENTS = 64, PAGE_WAVES = 8, ANY_PAGE_WAVES = 4 };

/* Index in att_tile.own of the number of passes of a workgroup; 0: computed by choose_rows(). In a
 * pass all lanes load at least 16 bytes of a row each. */
enum { PASSES };

/* Members that are 0, such as passes and waves, are computed from the cache layout by
 * choose_rows(). */
static const struct att_tile tiles[] = {
    {.waves_per_simd = 2, .why = "a wave has loads of 16 bytes on their way to both caches"},
};

static const struct att_knob knobs[] = {
    {"passes", 4, {1, 2, 4, 8}},
    {"waves", 5, {1, 2, 4, 8, 16}},
    {"waves_per_simd", 2, {4, 8}},
};

/* K or V of the workgroup's tokens, on their way from the argument to the cache. */
struct side {
    struct att_cache cache;
    /* Panels of a tile of rows, as loaded from the argument. */
    struct att_cache_tiles tiles;
    unsigned rows; /* number of rows (tokens) of a tile, a divisor of write.rows */
    /* True: panels are processed one by one, since a lane has no registers for all; false:
     * together. */
    bool one_by_one;
    /* Panels of the tile as loaded, later in f32, and last in the dtype of the cache. */
    struct tir_value x[ATT_CACHE_PANELS];
    /* i64, rows x 1: slot of each row's token; negative: the row is not written */
    struct tir_value slot;
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct write {
    const struct att_variant *v;
    const struct tir_machine *m;
    struct tir_builder b;
    unsigned waves, rows; /* number of waves of the workgroup, and of its tokens in all passes */
    bool apart; /* true: K and V have separate workgroups; false: a workgroup writes both */
    struct tir_value head; /* i32: index of the KV head */
    /* i32: index in the call of the first token to load, and number of tokens to load from it
     * on. */
    struct tir_value token, left;
    /* i32: index of the tile's row 0, counted from `token`; below 0: rows before `token` are not
     * loaded. */
    struct tir_value row0;
    struct side sides[2]; /* index 0: K; index 1: V */
};

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    if (v->kv_scale == ATT_KV_SCALE_BLOCK && (t->waves || t->own[PASSES]))
        return att_reject(why, ATT_TILE, "a page says how many waves and rows it takes");
    return att_fits_waves(v, t, m, why) &&
           att_cache_fits_passes(v, m, t->own[PASSES], t->waves_per_simd, why);
}

/* Returns the number of parts in which `s` is loaded: one for each panel, or 1 for all panels at
 * once. */
static unsigned parts(const struct side *s) { return s->one_by_one ? s->tiles.n : 1; }

/* Returns a copy of `s` with only the panels of part `i` (index). */
static struct side part(const struct side *s, unsigned i)
{
    struct side p = *s;
    if (s->one_by_one)
        p.tiles = att_cache_panel(&s->tiles, i);
    return p;
}

/* Issues the loads of s->x from k_in or v_in: the rows of w->token, w->left and w->row0. */
static void load(struct write *w, struct side *s)
{
    struct tir_builder *b = &w->b;
    const struct att_tensor tensor = s->cache.value ? ATT_HEADS(V_IN) : ATT_HEADS(K_IN);
    const struct tir_value step = att_stride(b, tensor.token_stride, ELEM);
    const struct tir_value head = att_offset(b, w->head, tensor.head_stride, ELEM);
    const struct tir_value base =
        tir_add(b, att_at(b, tensor.arg, head), tir_mul(b, att_wide(b, w->token), step));
    const struct tir_value row = tir_convert(b, step, TIR_I32);
    for (unsigned i = 0; i < s->tiles.n; i++) {
        const struct tir_view view =
            att_view(b, base, w->left, row, s->cache.dim * ELEM, s->tiles.first[i] * ELEM);
        s->x[i] = tir_tile_load(b, view, w->row0, s->tiles.panel[i]);
    }
}

/* Loads the slots (i64) of the w->left tokens from w->token on, as a tile of type `column`. Rows
 * after the last token get a negative slot. */
static struct tir_value load_slots(struct write *w, struct tir_type column)
{
    struct tir_builder *b = &w->b;
    const struct tir_value base = att_at(b, ARG_SLOT_MAPPING, att_wide_times(b, w->token, SLOT));
    const struct tir_view view = att_view(b, base, w->left, tir_i32(b, SLOT), SLOT, 0);
    const struct tir_value slot = tir_tile_load(b, view, tir_i32(b, 0), column);
    const struct tir_value index = tir_row_index(b, column);
    const struct tir_value last = att_like(b, att_plus(b, w->left, -1), index);
    const struct tir_value sign = tir_sar(b, tir_sub(b, last, index), tir_int_like(b, index, 31));
    return tir_or(b, slot, tir_convert(b, sign, TIR_I64));
}

/* Returns the type of an i64 number for each of w->rows rows. Adjacent rows are in adjacent lanes,
 * and further rows in further waves and then registers. */
static struct tir_type line_of_rows(struct write *w)
{
    const struct tir_layout l = tir_spread_column(w->b.f->machine, w->waves, w->rows);
    return tir_tile(w->b.f, TIR_I64, w->rows, 1, &l);
}

/* Sets the slots of both sides. If K and V have rows in different lanes or registers, the slots are
 * loaded once and exchanged through LDS. */
static void find_slots(struct write *w)
{
    struct tir_builder *b = &w->b;
    const struct tir_type k = w->sides[0].tiles.column, v = w->sides[1].tiles.column;
    if (tir_layout_equal(tir_layout_of(b->f, k), tir_layout_of(b->f, v))) {
        w->sides[0].slot = w->sides[1].slot = load_slots(w, k);
        return;
    }
    const struct tir_layout map = tir_row_major(w->rows, 1);
    const struct tir_value lds = tir_lds_buffer(b, w->rows * SLOT, 16);
    tir_tile_lds_store(b, lds, load_slots(w, line_of_rows(w)), &map);
    att_lds_barrier(b);
    w->sides[0].slot = tir_tile_lds_load(b, lds, k, &map);
    w->sides[1].slot = tir_tile_lds_load(b, lds, v, &map);
}

/* Converts the loaded panels s->x to f32. */
static void widen(struct write *w, struct side *s)
{
    for (unsigned i = 0; i < s->tiles.n; i++)
        s->x[i] = tir_convert(&w->b, s->x[i], TIR_F32);
}

/* Returns the largest |x| of each row over all panels of `s`, f32, rows x 1. */
static struct tir_value row_absmax(struct write *w, struct side *s)
{
    struct tir_value absmax = {0};
    for (unsigned i = 0; i < s->tiles.n; i++) {
        const struct tir_value own = att_absmax(&w->b, s->x[i]);
        absmax = i ? tir_max(&w->b, absmax, own) : own;
    }
    return absmax;
}

/* Quantises the f32 panels s->x of packed rows, and stores their scales. Each run of a panel has
 * its own scale. */
static void quantise_packed(struct side *s)
{
    const struct att_cache *c = &s->cache;
    const struct tir_value row = att_packed_scale_row(c, s->slot);
    for (unsigned i = 0; i < s->tiles.n; i++)
        s->x[i] = att_packed_quantise(c, row, s->tiles.first[i], s->x[i]);
}

/* Quantises the f32 panels s->x to the cache's dtype. `inverse` is the result of find_inverse().
 * Packed rows compute their own factors. */
static void quantise(struct side *s, struct tir_value inverse)
{
    if (s->cache.packed) {
        quantise_packed(s);
        return;
    }
    for (unsigned i = 0; i < s->tiles.n; i++)
        s->x[i] = att_cache_quantise(&s->cache, s->x[i], inverse);
}

/* Returns the factor (f32) by which rows are multiplied before they are stored, or no value if
 * there is none. For a scale per token, computes the scale from `absmax` (f32, rows x 1), the
 * largest |x| of each row, and stores it. */
static struct tir_value find_inverse(struct write *w, const struct side *s, struct tir_value absmax)
{
    const struct att_cache *c = &s->cache;
    if (att_shares_scale(w->v))
        return tir_rcp(&w->b, att_cache_tensor_scale(c));
    if (c->scaling != ATT_KV_SCALE_TOKEN)
        return (struct tir_value){0};
    const struct tir_value scale = att_cache_scale_of(c, absmax);
    att_cache_store_scales(c, att_cache_scale_row(c, s->slot), scale);
    return att_cache_inverse(c, scale);
}

/* Sets the tiles of both sides. Sets the function's waves_per_simd to 1 if a lane's panels take too
 * many registers. */
static void choose_tiles(struct write *w)
{
    for (int i = 0; i < 2; i++) {
        struct side *s = &w->sides[i];
        s->tiles = att_cache_tiles(&s->cache, att_dtype(w->v), w->waves, s->rows);
        const struct side p = part(s, 0); /* the first part, which is the widest */
        if (att_cache_lane_elements(&p.cache, &p.tiles) > 64)
            w->b.f->waves_per_simd = 1; /* f32 panels with scales would not fit in 256 registers */
    }
}

/* Returns the least number of rows that a workgroup of `waves` waves can process at once, of K and
 * of V. */
static unsigned least_rows(const struct write *w, unsigned waves)
{
    const unsigned k = att_cache_least_rows(&w->sides[0].cache, waves);
    const unsigned v = att_cache_least_rows(&w->sides[1].cache, waves);
    return k > v ? k : v;
}

/* True if K and V have separate workgroups, since a lane has too much work with both. A lane then
 * quantises x tokens for SHUFFLE, or has many rows of the wider side because the narrower side
 * requires them. */
static bool is_apart(const struct write *w)
{
    const struct att_cache *c = &w->sides[0].cache;
    const unsigned dims = (unsigned)(w->v->head_dim + w->v->head_dim_v);
    return c->shuffle && (c->dtype != att_dtype(w->v) || w->sides[1].one_by_one ||
                          w->rows * dims > LANE_ELEMENTS * tir_lanes(w->m) * w->waves);
}

/* True if each token has scales of its own, in its row or in a tensor. */
static bool scales_tokens(const struct write *w)
{
    return w->v->kv_scale == ATT_KV_SCALE_TOKEN || att_is_packed(w->v);
}

/* Sets the number of waves, the rows of the tiles and w->apart from tile `t`. Only for caches
 * without a scale per page. */
static void choose_rows(struct write *w, const struct att_tile *t)
{
    const bool shuffle = att_is_shuffled(w->v);
    w->waves = t->waves ? t->waves : shuffle ? 1 : 4;
    w->rows = least_rows(w, w->waves);
    w->apart = is_apart(w);
    const unsigned passes = t->own[PASSES] ? t->own[PASSES] : 1;
    w->rows *= passes;
    for (int i = 0; i < 2; i++)
        w->sides[i].rows =
            w->apart ? passes * att_cache_least_rows(&w->sides[i].cache, w->waves) : w->rows;
    if (shuffle || t->own[PASSES])
        return;
    const int dim = w->v->head_dim > w->v->head_dim_v ? w->v->head_dim : w->v->head_dim_v;
    const unsigned room = TOKEN_ELEMENTS * tir_lanes(w->m) * w->waves / (unsigned)dim;
    while (2 * w->rows <= ROWS && (2 * w->rows <= room || !scales_tokens(w)))
        w->rows *= 2;
    w->sides[0].rows = w->sides[1].rows = w->rows;
}

/* True if the elements of `s` in the cache have another dtype than in the argument, so that rows
 * are quantised. */
static bool is_narrowed(const struct write *w, const struct side *s)
{
    return s->cache.dtype != att_dtype(w->v);
}

/* Stores the loaded panels s->x in slots s->slot. Quantises them first if the cache has another
 * dtype. */
static void store(struct write *w, struct side *s)
{
    if (is_narrowed(w, s)) {
        widen(w, s);
        const bool by_token = s->cache.scaling == ATT_KV_SCALE_TOKEN;
        quantise(s, find_inverse(w, s, by_token ? row_absmax(w, s) : (struct tir_value){0}));
    }
    att_cache_store_slots(&s->cache, &s->tiles, s->slot, s->x);
}

/* Returns the largest |x| of each row (f32, rows x 1), from panels that it loads one after the
 * other. */
static struct tir_value load_absmax(struct write *w, const struct side *s)
{
    struct tir_value absmax = {0};
    for (unsigned i = 0; i < parts(s); i++) {
        struct side p = part(s, i);
        load(w, &p);
        widen(w, &p);
        const struct tir_value own = row_absmax(w, &p);
        absmax = i ? tir_max(&w->b, absmax, own) : own;
    }
    return absmax;
}

/* Loads and stores the panels of `s` one after the other. If tokens have scales, a pass over all
 * panels computes the scales first, and the panels are loaded twice. */
static void store_one_by_one(struct write *w, const struct side *s)
{
    const bool by_token = s->cache.scaling == ATT_KV_SCALE_TOKEN;
    const struct tir_value absmax = by_token ? load_absmax(w, s) : (struct tir_value){0};
    const struct tir_value inverse = find_inverse(w, s, absmax);
    for (unsigned i = 0; i < parts(s); i++) {
        struct side p = part(s, i);
        load(w, &p);
        if (is_narrowed(w, s)) {
            widen(w, &p);
            quantise(&p, inverse);
        }
        att_cache_store_slots(&p.cache, &p.tiles, p.slot, p.x);
    }
}

/* Writes one tile of `s`: s->rows tokens from token `first` (i32, index in the call) on. Tokens
 * from `end` (i32) on are not written. */
static void write_tile(struct write *w, struct side *s, struct tir_value first,
                       struct tir_value end)
{
    struct tir_builder *b = &w->b;
    w->token = first;
    w->left = tir_min(b, tir_sub(b, end, first), tir_i32(b, (int)s->rows));
    s->slot = load_slots(w, s->tiles.column);
    if (s->one_by_one) {
        store_one_by_one(w, s);
        return;
    }
    load(w, s);
    store(w, s);
}

/* Writes the workgroup's w->rows tokens of `s` from token `first` (i32) on, in one tile or several.
 * `tokens` (i32) is the number of tokens of the call. */
static void write_side(struct write *w, struct side *s, struct tir_value first,
                       struct tir_value tokens)
{
    struct tir_builder *b = &w->b;
    if (s->rows == w->rows) {
        write_tile(w, s, first, tokens);
        return;
    }
    const struct tir_value end = tir_min(b, tokens, att_plus(b, first, (int)w->rows));
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, (int)s->rows), NULL, 0);
    write_tile(w, s, loop.index, end);
    tir_end_for(b, &loop, NULL, 0);
}

/* Writes this workgroup's tokens of K and V. Only for caches without a scale per page. */
static void write_tokens(struct write *w)
{
    struct tir_builder *b = &w->b;
    const struct tir_value tokens = tir_arg(b, ARG_TOKENS, TIR_I32);
    const struct tir_value first = att_times(b, tir_block_id(b, 0), (int)w->rows);
    w->row0 = tir_i32(b, 0);
    if (w->apart) {
        const struct tir_value value = tir_cmp_eq(b, tir_block_id(b, 2), tir_i32(b, 1));
        struct tir_if of_value = att_begin_if(b, value);
        write_side(w, &w->sides[1], first, tokens);
        tir_else(b, &of_value, NULL);
        write_side(w, &w->sides[0], first, tokens);
        tir_end_if(b, &of_value, NULL);
        return;
    }
    w->token = first;
    w->left = tir_min(b, tir_sub(b, tokens, first), tir_i32(b, (int)w->rows));
    for (int i = 0; i < 2; i++)
        load(w, &w->sides[i]);
    find_slots(w);
    for (int i = 0; i < 2; i++)
        store(w, &w->sides[i]);
}

/* ---- Runs of tokens, with a scale per page ---- */

/* Loads s->x, as f32, for the tokens of `run` that are in one tile. The tile's row 0 is token
 * `first` (i32, index in the page). */
static void load_run(struct write *w, struct side *s, const struct att_page_run *run,
                     struct tir_value first)
{
    struct tir_builder *b = &w->b;
    const struct tir_value ahead = tir_sub(b, first, run->begin), zero = tir_i32(b, 0);
    const struct tir_value skipped = tir_max(b, ahead, zero);
    w->token = tir_add(b, run->token, skipped);
    w->row0 = tir_min(b, ahead, zero);
    w->left =
        tir_min(b, tir_sub(b, tir_sub(b, run->end, run->begin), skipped), tir_i32(b, (int)s->rows));
    load(w, s);
    widen(w, s);
}

/* Returns the largest |x| (scalar f32) of s->x over the rows that this wave has. */
static struct tir_value largest(struct write *w, struct side *s)
{
    return tir_first_lane(&w->b, tir_col_max(&w->b, row_absmax(w, s)));
}

/* Quantises s->x, the loaded tokens of a run, by `scale`, and stores them. The tile's row 0 is
 * token `first` (i32, index in the page). */
static void store_run(struct side *s, const struct att_page_run *run,
                      const struct att_block_scale *scale, struct tir_value first)
{
    const struct att_cache *c = &s->cache;
    for (unsigned i = 0; i < s->tiles.n; i++)
        s->x[i] = att_cache_quantise(c, s->x[i], scale->inverse);
    const struct tir_value slot =
        att_page_run_slots(c, run, first, run->begin, run->end, s->tiles.column);
    att_cache_store_slots(c, &s->tiles, slot, s->x);
}

/* Begins a loop over the tiles of the page that have tokens of the run. loop.index is the index in
 * the page of a tile's first token. carried[]: the `n` values that the loop carries. */
static struct tir_loop begin_tiles(struct write *w, const struct side *s,
                                   const struct att_page_run *run, struct tir_value *carried,
                                   unsigned n)
{
    struct tir_builder *b = &w->b;
    const int rows = (int)s->rows;
    const struct tir_value first = tir_and(b, run->begin, tir_i32(b, -rows));
    return tir_begin_for(b, first, run->end, tir_i32(b, rows), carried, n);
}

/* True if one tile of `s` has a whole page, so that one load serves both the scale and the
 * store. */
static bool has_page(const struct write *w, const struct side *s)
{
    return !s->one_by_one && w->v->page_size && w->v->page_size <= (int)s->rows;
}

/* Computes the scales of a run of K and of V, and writes the run. `lds` (i32) is the LDS address of
 * ATT_BLOCK_LDS bytes for each wave, or no value with one wave. */
static void write_run(struct write *w, const struct att_page_run *run, struct tir_value lds)
{
    struct tir_builder *b = &w->b;
    struct tir_value absmax[2], old[2];
    for (int i = 0; i < 2; i++) {
        old[i] = att_block_load_scale(&w->sides[i].cache, run);
        if (has_page(w, &w->sides[i])) {
            load_run(w, &w->sides[i], run, tir_i32(b, 0));
            absmax[i] = largest(w, &w->sides[i]);
            continue;
        }
        absmax[i] = tir_f32(b, 0);
        struct tir_loop loop = begin_tiles(w, &w->sides[i], run, &absmax[i], 1);
        for (unsigned k = 0; k < parts(&w->sides[i]); k++) {
            struct side p = part(&w->sides[i], k);
            load_run(w, &p, run, loop.index);
            absmax[i] = tir_max(b, absmax[i], largest(w, &p));
        }
        tir_end_for(b, &loop, &absmax[i], 1);
    }
    att_workgroup_max(b, lds, absmax, 2);
    for (int i = 0; i < 2; i++) {
        struct side *s = &w->sides[i];
        const struct att_block_scale scale = att_block_scale(&s->cache, absmax[i], old[i]);
        att_block_requantise(&s->cache, run, &scale, &s->tiles);
        struct tir_if one = att_begin_if(b, tir_cmp_eq(b, tir_wave_id(b), tir_i32(b, 0)));
        att_block_store_scale(&s->cache, run, &scale);
        tir_end_if(b, &one, NULL);
        if (has_page(w, s)) {
            store_run(s, run, &scale, tir_i32(b, 0));
            continue;
        }
        struct tir_loop loop = begin_tiles(w, s, run, NULL, 0);
        for (unsigned k = 0; k < parts(s); k++) {
            struct side p = part(s, k);
            load_run(w, &p, run, loop.index);
            store_run(&p, run, &scale, loop.index);
        }
        tir_end_for(b, &loop, NULL, 0);
    }
}

/* Writes the runs that begin in this workgroup's share: ARG_RUN_TOKENS tokens of the call. */
static void write_runs(struct write *w)
{
    struct tir_builder *b = &w->b;
    const struct att_cache *c = &w->sides[0].cache;
    const struct tir_value lds =
        w->waves > 1 ? tir_lds_buffer(b, w->waves * ATT_BLOCK_LDS, 16) : (struct tir_value){0};
    const struct tir_value share = tir_arg(b, ARG_RUN_TOKENS, TIR_I32);
    const struct tir_value first = tir_mul(b, tir_block_id(b, 0), share);
    const struct tir_value end =
        tir_min(b, tir_add(b, first, share), tir_arg(b, ARG_TOKENS, TIR_I32));
    struct att_page_runs runs;
    const struct att_page_run run = att_begin_page_runs(c, first, end, &runs);
    write_run(w, &run, lds);
    att_end_page_runs(c, &runs);
}

/* Sets s->rows to w->rows, halved as long as a lane would have too many elements. */
static void choose_side_rows(const struct write *w, struct side *s)
{
    const unsigned least = att_cache_least_rows(&s->cache, w->waves);
    const unsigned most = LANE_ELEMENTS * tir_lanes(w->m) * w->waves;
    s->rows = w->rows;
    while (s->rows > least && s->rows * (unsigned)s->cache.dim > most)
        s->rows /= 2;
}

/* Sets the number of waves and the rows of the tiles so that a tile has a whole page, if PAGE_WAVES
 * and PAGE_ELEMENTS permit. */
static void choose_page_rows(struct write *w)
{
    const int dim = w->v->head_dim > w->v->head_dim_v ? w->v->head_dim : w->v->head_dim_v;
    const unsigned page = (unsigned)w->v->page_size, least = least_rows(w, 1);
    unsigned rows = least;
    while (2 * rows * (unsigned)dim <= tir_lanes(w->m) * PAGE_ELEMENTS && (!page || rows < page))
        rows *= 2;
    const unsigned most =
        rows * (unsigned)dim > tir_lanes(w->m) * PAGE_ELEMENTS ? PAGE_WAVES / 2 : PAGE_WAVES;
    w->waves = page ? 1 : ANY_PAGE_WAVES;
    while (w->waves < most && w->waves * rows < page)
        w->waves *= 2;
    w->rows = w->waves * rows;
    for (int i = 0; i < 2; i++)
        choose_side_rows(w, &w->sides[i]);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    const bool blocks = v->kv_scale == ATT_KV_SCALE_BLOCK;
    struct write w = {.v = v, .m = m};
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, 1, tile.waves_per_simd);
    w.b = tir_at_end(f, f->body);
    w.head = tir_block_id(&w.b, 1);
    for (int i = 0; i < 2; i++)
        w.sides[i].cache = att_cache(&w.b, v, m, i == 1, w.head);
    w.sides[1].one_by_one = att_cache_narrow_panels(&w.sides[1].cache);
    if (blocks)
        choose_page_rows(&w);
    else
        choose_rows(&w, &tile);
    f->waves = w.waves;
    choose_tiles(&w);
    if (blocks)
        write_runs(&w);
    else
        write_tokens(&w);
    tir_return(&w.b);

    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_TOKENS, (int)w.rows, 1}, {ARG_KV_HEADS, 1, 1}, {NULL, 1, w.apart ? 2 : 1}},
    };
    if (blocks) {
        k->grid[0] = (struct att_grid){ARG_TOKEN_RUNS, 1, 1};
        k->grid[2] = (struct att_grid){NULL, 1, 1};
    }
    snprintf(k->tuning, sizeof(k->tuning), "tokens=%u waves=%u", w.rows, w.waves);
}

const struct att_template att_template_cache_write = {
    .name = "cache_write",
    .description = "new keys and values into the pages of a cache",
    .takes = OP_TAKES_CACHE_WRITE | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"passes"},
    .fits = fits,
    .check = att_cache_check_tile,
    .build = build,
};
