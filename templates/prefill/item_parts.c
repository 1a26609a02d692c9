/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps for field one_launch. The workgroups that write the partials of a work tile also add
 * them up, in the same launch (attention/share.h). A slice is a group of heads of one query; a wave
 * adds up a slice as op combine does.
 *
 * An item has the number of its sequence, not of its tile. The number of its partial determines the
 * tile; it is the first partial row divided by the rows of a partial. reduce_indptr has the ends of
 * the tiles' ranges of these numbers.
 */
#include "templates/prefill/item_parts.h"

#include <math.h>

#include "ir/spread.h"
#include "templates/attention/part_rows.h"
#include "templates/attention/share.h"
#include "templates/workgroup/scalar.h"

enum {
    POLLS = 16, /* most reads of the ticket before the workgroup leaves, 400 to 600 clocks each */
    SLEEP = 2,  /* time between two reads of the ticket, in units of 64 clocks */
    WORD = 4,
    MOST_ENDS = 1 << 24 /* below this number, ends and numbers of partials are exact as f32 */
};

/* The partials of a work tile. Indices of partials are indices in
 * reduce_partial_map. All
 * members are i32. */
struct parts {
    /* Index of the tile's first partial, and index after its last one. */
    struct tir_value first, end;
    struct tir_value rows;        /* number of rows of partial_out that a partial has */
    struct tir_value first_token; /* row in q of the work tile's first query */
    struct tir_value tokens;      /* number of queries of the work tile */
};

/* The code that adds up the partials of a work tile, while it is built. One call of add_slice()
 * adds up one slice: a group of query heads of one query. */
struct sum {
    struct att_part_rows rows;
    struct parts parts;
    /* i32: index of the KV head's first query head, and number of its query heads. */
    struct tir_value first_head, gqa;
    struct tir_value blocks; /* i32: number of slices of a query */
    int slice_rows;          /* number of query heads of a slice; the last slice may have fewer */
};

/* Loads entry `entry` (index) of argument `array`, an array of i32, as a scalar. */
static struct tir_value load_entry(struct prefill *p, const char *array, int entry)
{
    struct tir_builder *b = &p->b;
    return tir_scalar_load(b, tir_arg(b, array, TIR_I64), tir_i32(b, WORD * entry), TIR_I32);
}

/* ---- The partials of a work tile ---- */

/* Returns the type of a tile with one number of `dtype` for each lane. */
static struct tir_type lanes_type(struct prefill *p, unsigned dtype)
{
    struct tir_spread s = tir_spread(p->m, p->tile->waves);
    tir_spread_rows(&s, TIR_LANES, p->m->lane_bits);
    const struct tir_layout l = tir_spread_layout(&s);
    return tir_tile(p->b.f, dtype, 1u << p->m->lane_bits, 1, &l);
}

/* Returns elements of reduce_indptr (i32, ascending ends of the tiles' partials) as f32, one per
 * lane. Lane i loads element `first` + `step` * i (both i32), at most the last one. */
static struct tir_value load_ends(struct prefill *p, struct tir_value first, struct tir_value step)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = lanes_type(p, TIR_I32);
    const struct tir_value last = tir_splat(b, tir_arg(b, ARG_REDUCE_TILES, TIR_I32), t);
    const struct tir_value before = tir_mul(b, tir_row_index(b, t), tir_splat(b, step, t));
    const struct tir_value at = tir_min(b, tir_add(b, before, tir_splat(b, first, t)), last);
    const struct tir_value bytes = tir_mul(
        b, tir_convert(b, at, TIR_I64), tir_splat(b, tir_i64(b, WORD), tir_with_dtype(t, TIR_I64)));
    const struct tir_value ends =
        tir_tile_gather_constant(b, tir_arg(b, ARG_REDUCE_INDPTR, TIR_I64), bytes, t);
    return tir_convert(b, ends, TIR_F32);
}

/* Returns the largest of the f32 numbers that the lanes have in `lanes`, as an i32 scalar. */
static struct tir_value as_number(struct tir_builder *b, struct tir_value lanes)
{
    return tir_convert(b, tir_first_lane(b, tir_col_max(b, lanes)), TIR_I32);
}

/* Returns `a` (i32) divided by the number of lanes of a wave, rounded up. */
static struct tir_value over_lanes(struct prefill *p, struct tir_value a)
{
    struct tir_builder *b = &p->b;
    const int lanes = 1 << p->m->lane_bits;
    return tir_shr(b, att_plus(b, a, lanes - 1), tir_i32(b, (int)p->m->lane_bits));
}

/* Returns the number of rounds (i32) in which find_list() searches `count` ends (i32). Each round
 * divides the number of candidates by the lanes of a wave. */
static struct tir_value count_rounds(struct prefill *p, struct tir_value count)
{
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0), one = tir_i32(b, 1);
    struct tir_value rounds = one;
    for (int most = 1 << p->m->lane_bits; most < MOST_ENDS; most <<= p->m->lane_bits) {
        const struct tir_value more = tir_cmp_gt(b, count, tir_i32(b, most));
        rounds = tir_add(b, rounds, tir_select(b, more, one, zero));
    }
    return rounds;
}

/* Sets parts->first and parts->end to the range of the work tile that has partial number `own`
 * (i32). reduce_indptr has the ascending ends of these ranges. `first` is the largest end that is
 * at most `own`, and `end` the smallest one above it. In a round, lanes load evenly spaced ends,
 * and the next round searches between two of these. Up to 4,096 tiles need two rounds. */
static void find_list(struct prefill *p, struct tir_value own, struct parts *parts)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = lanes_type(p, TIR_F32);
    const struct tir_value number = tir_splat(b, tir_convert(b, own, TIR_F32), t);
    const struct tir_value none = tir_splat(b, tir_f32(b, -INFINITY), t);
    const struct tir_value lane = tir_convert(b, tir_row_index(b, lanes_type(p, TIR_I32)), TIR_F32);
    const struct tir_value count = att_plus(b, tir_arg(b, ARG_REDUCE_TILES, TIR_I32), 1);
    enum { FIRST, STEP, BEFORE, AFTER, N_CARRIED };
    struct tir_value carried[N_CARRIED] = {tir_i32(b, 0), over_lanes(p, count), none, none};
    struct tir_loop loop =
        tir_begin_for(b, tir_i32(b, 0), count_rounds(p, count), tir_i32(b, 1), carried, N_CARRIED);
    const struct tir_value end = load_ends(p, carried[FIRST], carried[STEP]);
    const struct tir_value after = tir_cmp_gt(b, end, number);
    const struct tir_value at = as_number(b, tir_select(b, after, none, lane));
    carried[FIRST] = tir_add(b, carried[FIRST], tir_mul(b, at, carried[STEP]));
    carried[STEP] = over_lanes(p, carried[STEP]);
    carried[BEFORE] = tir_max(b, carried[BEFORE], tir_select(b, after, none, end));
    carried[AFTER] = tir_max(b, carried[AFTER], tir_select(b, after, tir_neg(b, end), none));
    tir_end_for(b, &loop, carried, N_CARRIED);
    parts->first = as_number(b, carried[BEFORE]);
    parts->end = tir_sub(b, tir_i32(b, 0), as_number(b, carried[AFTER]));
}

/* Returns the partials of the work tile that item `part` belongs to. */
static struct parts find_parts(struct prefill *p, const struct prefill_part *part)
{
    struct tir_builder *b = &p->b;
    struct parts parts = {
        /* Entry 1 is the first row of partial 1 in partial_out, and equals the number of rows of
         * partial 0. */
        .rows = load_entry(p, ARG_REDUCE_PARTIAL_MAP, 1),
        .first_token = part->first_token,
        .tokens = tir_sub(b, part->end_token, part->first_token),
    };
    find_list(p, tir_div(b, part->row, parts.rows), &parts);
    return parts;
}

/* ---- The sum of a work tile's partials ---- */

/* Adds up slice `number` (i32: index) of all partials of the work tile and writes the result:
 * att_share.add. `family`: the struct sum. */
static void add_slice(void *family, struct tir_value number)
{
    struct sum *const s = family;
    struct tir_builder *b = s->rows.b;
    const struct tir_value token = tir_div(b, number, s->blocks);
    const struct tir_value block = tir_sub(b, number, tir_mul(b, token, s->blocks));
    const struct tir_value head = att_times(b, block, s->slice_rows);
    s->rows.token = tir_add(b, s->parts.first_token, token);
    s->rows.head = tir_add(b, s->first_head, head);
    s->rows.n_rows = tir_sub(b, s->gqa, head);
    const struct att_part_list list = {
        .count = tir_sub(b, s->parts.end, s->parts.first),
        .first = tir_mul(b, s->parts.first, s->parts.rows),
        .step = s->parts.rows,
        .token = token,
    };
    att_parts_finish(&s->rows, att_parts_add_list(&s->rows, &list));
}

/* Returns the description of the sum of partials of the work tile that item `part` belongs to. */
static struct sum describe_sum(struct prefill *p, const struct prefill_part *part)
{
    struct tir_builder *b = &p->b;
    struct sum s = {
        .rows = {.b = b,
                 .m = b->f->machine,
                 .head_dim = (unsigned)p->v->head_dim_v,
                 .waves = p->tile->waves,
                 .at_once = ATT_PARTS_MOST,
                 .out_dtype = att_dtype(p->v),
                 .lone = true,
                 .no_sinks = !p->v->sinks,
                 .no_lse = !p->v->lse},
        .parts = find_parts(p, part),
        .first_head = part->first_head,
        .gqa = p->item.gqa,
    };
    att_parts_choose_type(&s.rows);
    s.slice_rows = (int)s.rows.type.row.rows;
    s.blocks = tir_div(b, att_plus(b, s.gqa, s.slice_rows - 1), tir_i32(b, s.slice_rows));
    return s;
}

/* Returns the address (i64) of the work tile's ticket, which counts its written partials. */
static struct tir_value ticket_of(struct prefill *p, const struct sum *s)
{
    struct tir_builder *b = &p->b;
    const struct tir_value kv_heads = tir_div(b, tir_arg(b, ARG_HEADS, TIR_I32), s->gqa);
    const struct tir_value kv_head = tir_div(b, s->first_head, s->gqa);
    const struct tir_value line = tir_add(b, tir_mul(b, s->parts.first, kv_heads), kv_head);
    return att_at(b, ARG_TICKETS, att_wide_times(b, line, ATT_TICKET_LINE));
}

void prefill_share_part(struct prefill *p, const struct prefill_part *part)
{
    struct tir_builder *b = &p->b;
    struct tir_if cut = att_begin_if(b, tir_cmp_ge(b, part->row, tir_i32(b, 0)));
    struct sum s = describe_sum(p, part);
    att_share_parts(&(struct att_share){.b = b,
                                        .waves = p->tile->waves,
                                        .wave = tir_wave_id(b),
                                        .lds = p->value.buffer,
                                        .ticket = ticket_of(p, &s),
                                        .count = tir_sub(b, s.parts.end, s.parts.first),
                                        .waits = part->last,
                                        .polls = POLLS,
                                        .sleep = SLEEP,
                                        .add = add_slice,
                                        .family = &s},
                    tir_mul(b, s.parts.tokens, s.blocks));
    tir_end_if(b, &cut, NULL);
}
