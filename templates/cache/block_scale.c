/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/cache/block_scale.h"

#include "ir/address_map.h"
#include "ir/bits.h"
#include "ir/spread.h"
#include "templates/workgroup/barrier.h"
#include "templates/workgroup/scalar.h"

enum { SLOT = 8 /* bytes of a slot in slot_mapping */ };

/* Loads the slot (i64) of token `token` (i32, index in the call) from slot_mapping. */
static struct tir_value load_slot(struct tir_builder *b, struct tir_value token)
{
    const struct tir_value base = att_at(b, ARG_SLOT_MAPPING, att_wide_times(b, token, SLOT));
    return tir_scalar_load(b, base, tir_i32(b, 0), TIR_I64);
}

/* Returns the slot (i64) of the token before `token` (i32, index in the call), or -1 if `token` is
 * the first of the call. */
static struct tir_value slot_before(struct tir_builder *b, struct tir_value token)
{
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value slot = load_slot(b, tir_max(b, att_plus(b, token, -1), zero));
    return tir_select(b, tir_cmp_gt(b, token, zero), slot, tir_i64(b, -1));
}

/* Returns an i1: true if token `token` + n - 1 (index in the call) has slot `slot` + n - 1. That is
 * so if the n tokens (i32) from `token` on have consecutive slots. */
static struct tir_value follows(struct tir_builder *b, struct tir_value token,
                                struct tir_value slot, struct tir_value n)
{
    const struct tir_value last = att_plus(b, n, -1);
    return tir_cmp_eq(b, load_slot(b, tir_add(b, token, last)),
                      tir_add(b, slot, att_wide(b, last)));
}

/* Returns the number (i32) of tokens from `token` on, at most `most`, whose slots are consecutive
 * from `slot` (i64) on. It first tests a run of `most` tokens, and then bisects, since a run of n
 * tokens contains all shorter ones. */
static struct tir_value run_length(const struct att_cache *c, struct tir_value token,
                                   struct tir_value slot, struct tir_value most)
{
    struct tir_builder *b = c->b;
    const struct tir_type t = tir_scalar(TIR_I32);
    const struct tir_value shift = c->pages.shift;
    const struct tir_value one = tir_i32(b, 1);
    struct tir_if all = tir_begin_if(b, follows(b, token, slot, most), false, &t, 1);
    tir_else(b, &all, &most);
    struct tir_value n = one;
    struct tir_loop loop = tir_begin_for(b, tir_i32(b, 0), shift, one, &n, 1);
    const struct tir_value step = tir_shl(b, one, att_plus(b, tir_sub(b, shift, loop.index), -1));
    const struct tir_value longer = tir_add(b, n, step);
    const struct tir_value good =
        tir_and(b, tir_cmp_le(b, longer, most), follows(b, token, slot, tir_min(b, longer, most)));
    n = tir_select(b, good, longer, n);
    tir_end_for(b, &loop, &n, 1);
    tir_end_if(b, &all, &n);
    return n;
}

struct att_page_run att_begin_page_runs(const struct att_cache *c, struct tir_value first,
                                        struct tir_value end, struct att_page_runs *runs)
{
    struct tir_builder *b = c->b;
    const struct tir_type t = tir_scalar(TIR_I32);
    const struct tir_value before = slot_before(b, first), zero = tir_i32(b, 0);
    struct att_page_run run = {.token = first};
    runs->loop = tir_begin_for(b, zero, tir_sub(b, end, first), tir_i32(b, 1), &run.token, 1);
    runs->token = run.token;
    runs->inside = tir_begin_if(b, tir_cmp_lt(b, run.token, end), false, &t, 1);
    const struct tir_value slot = load_slot(b, run.token);
    const struct tir_value there = tir_cmp_ge(b, slot, tir_i64(b, 0));
    run.page = tir_sub(b, slot, att_slot_of(&c->pages, slot).token);
    run.begin = tir_convert(b, tir_sub(b, slot, run.page), TIR_I32);
    const struct tir_value left = tir_sub(b, tir_arg(b, ARG_TOKENS, TIR_I32), run.token);
    const struct tir_value rest = tir_sub(b, att_page_tokens(&c->pages), run.begin);
    const struct tir_value most =
        /* -1 and 0 are no consecutive slots */
        tir_select(b, there, tir_min(b, rest, left), tir_i32(b, 1));
    const struct tir_value n = run_length(c, run.token, slot, most);
    run.end = tir_add(b, run.begin, n);
    runs->next = tir_add(b, run.token, n);
    /* Only the loop's first token may belong to a run that begins before it, which another
     * workgroup processes. */
    const struct tir_value apart =
        tir_or(b, tir_cmp_ne(b, slot, tir_add(b, before, tir_i64(b, 1))),
               tir_or(b, tir_cmp_eq(b, run.begin, zero), tir_cmp_gt(b, runs->loop.index, zero)));
    runs->begins = att_begin_if(b, tir_and(b, there, apart));
    return run;
}

void att_end_page_runs(const struct att_cache *c, struct att_page_runs *runs)
{
    struct tir_builder *b = c->b;
    tir_end_if(b, &runs->begins, NULL);
    tir_else(b, &runs->inside, &runs->next);
    struct tir_value next = runs->token;
    tir_end_if(b, &runs->inside, &next);
    tir_end_for(b, &runs->loop, &next, 1);
}

/* Returns -1 (i64) where `index` (i32) is outside of the range `begin` to `end` - 1 (i32), and 0
 * inside of it. */
static struct tir_value outside(struct tir_builder *b, struct tir_value index,
                                struct tir_value begin, struct tir_value end)
{
    const struct tir_type t = tir_typeof(b->f, index);
    const struct tir_value low = tir_sub(b, index, tir_splat(b, begin, t));
    const struct tir_value high = tir_sub(b, tir_splat(b, att_plus(b, end, -1), t), index);
    const struct tir_value sign = tir_or(b, low, high);
    return tir_convert(b, tir_sar(b, sign, tir_int_like(b, sign, 31)), TIR_I64);
}

/* Returns `first` (i32) plus the index of each row of a tile of type `column`. */
static struct tir_value tokens_of(struct tir_builder *b, struct tir_value first,
                                  struct tir_type column)
{
    const struct tir_value index = tir_row_index(b, column);
    return tir_add(b, index, att_like(b, first, index));
}

struct tir_value att_page_run_slots(const struct att_cache *c, const struct att_page_run *run,
                                    struct tir_value first, struct tir_value begin,
                                    struct tir_value end, struct tir_type column)
{
    struct tir_builder *b = c->b;
    const struct tir_value index = tokens_of(b, first, column);
    const struct tir_value slot =
        tir_add(b, tir_splat(b, run->page, column), tir_convert(b, index, TIR_I64));
    return tir_or(b, slot, outside(b, index, begin, end));
}

struct tir_value att_lds_max(struct tir_builder *b, struct tir_value lds)
{
    const struct tir_layout lane = tir_spread_column(b->f->machine, 1, b->f->waves);
    const struct tir_layout map = tir_row_major(b->f->waves, 1);
    const struct tir_type all = tir_tile(b->f, TIR_F32, b->f->waves, 1, &lane);
    return tir_first_lane(b, tir_col_max(b, tir_tile_lds_load(b, lds, all, &map)));
}

void att_lds_put(struct tir_builder *b, struct tir_value lds, struct tir_value scalar)
{
    const struct tir_layout one = tir_spread_one(b->f->machine), word = tir_row_major(1, 1);
    const struct tir_type t = tir_tile(b->f, TIR_F32, 1, 1, &one);
    tir_tile_lds_store(b, lds, tir_splat(b, scalar, t), &word);
}

void att_workgroup_max(struct tir_builder *b, struct tir_value lds, struct tir_value *v, unsigned n)
{
    const int bytes = (int)b->f->waves * 4;
    if (b->f->waves == 1)
        return;
    const struct tir_value own = tir_add(b, lds, att_times(b, tir_wave_id(b), 4));
    for (unsigned i = 0; i < n; i++)
        att_lds_put(b, att_plus(b, own, (int)i * bytes), v[i]);
    att_lds_barrier(b);
    for (unsigned i = 0; i < n; i++)
        v[i] = att_lds_max(b, att_plus(b, lds, (int)i * bytes));
    tir_barrier(b); /* the next maximum uses the same LDS */
}

struct tir_value att_block_load_scale(const struct att_cache *c, const struct att_page_run *run)
{
    struct tir_builder *b = c->b;
    const struct tir_layout one = tir_spread_one(b->f->machine);
    const struct tir_value at =
        tir_splat(b, att_cache_scale_row(c, run->page), tir_tile(b->f, TIR_I64, 1, 1, &one));
    const struct tir_value old = tir_first_lane(b, att_cache_load_scales(c, at));
    return tir_select(b, tir_cmp_gt(b, run->begin, tir_i32(b, 0)), old, tir_f32(b, 0));
}

struct att_block_scale att_block_scale(const struct att_cache *c, struct tir_value absmax,
                                       struct tir_value old)
{
    struct tir_builder *b = c->b;
    const struct tir_value least = tir_max(b, absmax, tir_f32(b, 1e-6f));
    const struct tir_value scale = tir_max(b, old, att_cache_scale_of(c, least));
    return (struct att_block_scale){
        .scale = scale,
        .grows = tir_cmp_lt(b, old, scale),
        .shrink = tir_div(b, old, scale),
        .inverse = att_cache_inverse(c, scale),
    };
}

/* Returns the number of rows of a tile, a power of two, that all waves process in one pass.
 * `column`: type of a number for each row, whose registers have one pass each. */
static unsigned rows_of_pass(const struct att_cache *c, struct tir_type column)
{
    const struct tir_layout *l = tir_layout_of(c->b->f, column);
    const unsigned last_wave = tir_rc_row(tir_layout_apply(l, 0, 0, (1u << l->wave_bits) - 1));
    return last_wave ? 2u << tir_bits_floor(last_wave) : column.rows;
}

/* Returns the index in the page of the token of each row of a tile whose first token is `first`
 * (i32). Tokens after the page's end are replaced. In the first pass, the last group of tokens of
 * the page that SHUFFLE stores together is used. In later passes, it is the wave's token of the
 * first pass. A wave without tokens of the page does not run this code. */
static struct tir_value clamp_to_page(const struct att_cache *c, struct tir_value first,
                                      struct tir_type column)
{
    struct tir_builder *b = c->b;
    const struct tir_value row = tir_row_index(b, column), index = tokens_of(b, first, column);
    const struct tir_type t = tir_typeof(b->f, index);
    const int group = c->shuffle ? c->x : 1;
    const struct tir_value end = tir_splat(b, att_page_tokens(&c->pages), t);
    const struct tir_value in_pass =
        tir_and(b, row, tir_int_like(b, row, rows_of_pass(c, column) - 1));
    const struct tir_value own = tir_add(b, in_pass, tir_splat(b, first, t));
    const struct tir_value place = tir_and(b, own, tir_int_like(b, own, group - 1));
    const struct tir_value last = tir_sub(b, end, tir_int_like(b, end, group));
    const struct tir_value other = tir_add(b, tir_min(b, tir_sub(b, own, place), last), place);
    const struct tir_value left = tir_sub(b, tir_sub(b, end, tir_int_like(b, end, 1)), index);
    const struct tir_value beyond = tir_sar(b, left, tir_int_like(b, left, 31));
    return tir_xor(b, index, tir_and(b, tir_xor(b, index, other), beyond));
}

/* Returns the byte offsets (i64) of the rows that a tile reads; its first token has index `first`
 * (i32) in the page. Rows after the page's end are replaced by rows of the page that the same wave
 * owns, since other waves may be writing theirs. If a page has a power of two of tokens, the
 * replacement is the index modulo that number. */
static struct tir_value rows_within(const struct att_cache *c, const struct att_page_run *run,
                                    struct tir_value first, struct tir_type column)
{
    struct tir_builder *b = c->b;
    const struct tir_value index = tokens_of(b, first, column);
    const struct tir_value within =
        c->pages.power ? att_page_place(&c->pages, index) : clamp_to_page(c, first, column);
    const struct tir_value token = tir_convert(b, within, TIR_I64);
    return att_cache_slot_row(c, tir_add(b, tir_splat(b, run->page, column), token));
}

/* Multiplies the stored numbers of one tile of the page's older tokens by s->shrink, and stores
 * them in `slot` (i64, one for each row). `first` (i32) is the index in the page of the tile's
 * first token. */
static void requantise_tile(const struct att_cache *c, const struct att_page_run *run,
                            const struct att_block_scale *s, const struct att_cache_tiles *tiles,
                            struct tir_value first, struct tir_value slot)
{
    struct tir_builder *b = c->b;
    const struct tir_value from = rows_within(c, run, first, tiles->column);
    for (unsigned i = 0; i < tiles->n; i++) {
        const struct att_cache_tiles one = att_cache_panel(tiles, i);
        const struct tir_type t = att_cache_load_type(c, one.panel[0]);
        const struct tir_value a = att_cache_load(c, from, one.first[0], t);
        const struct tir_value q = att_cache_quantise(c, tir_convert(b, a, TIR_F32), s->shrink);
        att_cache_store_slots(c, &one, slot, &q);
    }
}

void att_block_requantise(const struct att_cache *c, const struct att_page_run *run,
                          const struct att_block_scale *s, const struct att_cache_tiles *tiles)
{
    struct tir_builder *b = c->b;
    const struct tir_value zero = tir_i32(b, 0), step = tir_i32(b, (int)tiles->column.rows);
    struct tir_if grown = tir_begin_if(b, s->grows, true, NULL, 0);
    struct tir_loop loop = tir_begin_for(b, zero, run->begin, step, NULL, 0);
    const struct tir_value slot =
        att_page_run_slots(c, run, loop.index, zero, run->begin, tiles->column);
    const struct tir_value there = tir_cmp_ge(b, slot, tir_int_like(b, slot, 0));
    struct tir_if some = att_begin_if(b, tir_any(b, there));
    requantise_tile(c, run, s, tiles, loop.index, slot);
    tir_end_if(b, &some, NULL);
    tir_end_for(b, &loop, NULL, 0);
    tir_end_if(b, &grown, NULL);
}

void att_block_store_scale(const struct att_cache *c, const struct att_page_run *run,
                           const struct att_block_scale *s)
{
    struct tir_builder *b = c->b;
    const unsigned lanes = 1u << b->f->machine->lane_bits;
    const struct tir_layout l = tir_spread_column(b->f->machine, 1, lanes);
    struct tir_type t = tir_tile(b->f, TIR_I32, lanes, 1, &l);
    const struct tir_value others = tir_convert(b, tir_neg(b, tir_row_index(b, t)), TIR_I64);
    const struct tir_value row =
        tir_or(b, att_like(b, att_cache_scale_row(c, run->page), others), others);
    t.dtype = TIR_F32;
    att_cache_store_scales(c, row, tir_splat(b, s->scale, t));
}
