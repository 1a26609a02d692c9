/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the work lists of decode on the device. docs/planning.md defines them, and comments here
 * give its names in parentheses. The launch has one workgroup, so that one node of a captured graph
 * reads the lengths and writes the plan.
 *
 * A sequence's keys are divided in pieces, each of some units of keys. A part is the share of
 * one work list, and an item is a piece for one KV head. Each lane has a sequence. The starts of
 * its pieces, items and partial rows are prefix sums over the sequences, computed for 64 sequences
 * at a time through LDS. All that is written for a sequence follows from these sums. Every wave
 * computes the same sums, so that no wave waits for another. Pieces are dealt to the waves
 * round-robin, since a long sequence has many.
 */
#include "op_names.h"
#include "ir/builder.h"
#include "ir/spread.h"
#include "templates/plan/tiles.h"
#include "templates/workgroup/scalar.h"
#include "templates/workgroup/scan.h"
#include "templates/template.h"

#include <stdio.h>

enum {
    LANES = ATT_SCAN_ROWS, /* sequences of a chunk: one for each lane */
    WIDE = 8,         /* number of lengths that a lane adds at once, for the units of the batch */
    GRAIN_BITS = 4,   /* log2 of the granularity of a sequence's first key */
    INFO = 8,         /* number of integers of an item */
    HALF = 16,        /* two sums of less than 2^16 share a register */
    LONGEST = 1 << 27 /* most units of a sequence, of at least 16 keys */
};

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 1, .why = "sums are every wave's; only pieces are dealt"},
};

static const struct att_knob knobs[] = {
    {"waves", 4, {1, 2, 8, 16}},
    {"waves_per_simd", 2, {2, 4}},
};

/* The kernel under construction: its builder, and values that several functions use. Values are i32
 * scalars unless stated. */
struct plan {
    struct tir_builder b;
    int waves;            /* number of waves of the workgroup */
    struct att_scan scan; /* prefix sums over a chunk's lanes */
    /* types of i32: LANES x 1, a row for each lane; 1 x (LANES * WIDE) */
    struct tir_type lane, wide;
    struct tir_value wave; /* i32 scalar: index of the wave */
    bool tiles; /* true: the plan is of tiles of queries, and "sequence" below means a tile */
    /* i32 scalars. batch: number of sequences or tiles (B). parts: number of parts of a head's work
     * (N). queries: most query tokens of a sequence (Q). heads: number of KV heads (H). Letters in
     * parentheses are the names of docs/planning.md. */
    struct tir_value batch, parts, queries, heads;
    /* i32 scalars. A unit is some keys that are read together. cost: units that could be read in
     * the time in which an item begins (o). rate: parts that are added up in the time in which a
     * unit is read (r). */
    struct tir_value cost, rate;
    struct tir_value unit;    /* i32 scalar: log2 of the keys of a unit */
    struct tir_value least;   /* i32 scalar: least number of units of a piece (m) */
    struct tir_value payload; /* i32 scalar: units of a part, with the costs of its items */
    /* piece: most units of an equal piece (p), 1 if pieces are not equal. equal: i1, true if all
     * pieces of a sequence have the same number of units. */
    struct tir_value piece, equal;
    /* With tiles. whole: most tiles of a part (k), 1 if tiles are divided. full: number of parts
     * with that many tiles (f). uncut: i1, true if no tile is divided. */
    struct tir_value whole, full, uncut;
    struct tir_value items; /* i32 scalar: number of items of one KV head (T) */
    /* i32 scalar: number of pieces of all divided sequences (R[B]), which have partial results; set
     * at the end */
    struct tir_value rows;
};

/* 64 sequences or tiles, from `first` on. Lanes after the batch's last sequence are empty. Values
 * are i32 with an entry for each lane unless stated. */
struct chunk {
    struct tir_value first; /* i32 scalar: index of the first sequence */
    struct tir_value b;     /* i32: index of each sequence in the batch */
    struct tir_value there; /* i1: the sequence exists */
    struct tir_value skip;  /* i32: number of keys before the window */
    /* Per sequence. keys, u: number of keys, of units. start: start on the line of costs (S), or
     * with equal pieces the index of the first part. part, last: indices of the first and the last
     * part that the sequence covers. n: number of pieces. */
    struct tir_value keys, u, start, part, n, last;
    struct tir_value length; /* i32: number of units of an equal piece (l) */
};

/* Indices in sums[], the sums over all chunks before the current one. SUM_START: costs or parts.
 * SUM_ITEMS: items. SUM_ROWS: partial results. SUM_LAST: index of the last part so far. */
enum { SUM_START, SUM_ITEMS, SUM_ROWS, SUM_LAST, N_SUMS };

/* Returns `scalar` (i32) in every lane. */
static struct tir_value number(struct plan *p, struct tir_value scalar)
{
    return tir_splat(&p->b, scalar, p->lane);
}

/* Returns `n` in every lane. */
static struct tir_value constant(struct plan *p, int n) { return number(p, tir_i32(&p->b, n)); }

/* Returns `a` + n in every lane. */
static struct tir_value plus(struct plan *p, struct tir_value a, int n)
{
    return tir_add(&p->b, a, constant(p, n));
}

/* Returns `a` in lanes where `there` (i1) is true, and 0 in other lanes. */
static struct tir_value where(struct plan *p, struct tir_value there, struct tir_value a)
{
    return tir_select(&p->b, there, a, constant(p, 0));
}

/* Returns the largest of the chunk's numbers `a` as a scalar. */
static struct tir_value largest(struct plan *p, struct tir_value a)
{
    return tir_first_lane(&p->b, tir_col_max(&p->b, a));
}

/* Returns the sum of the chunk's numbers `a` as a scalar. */
static struct tir_value total(struct plan *p, struct tir_value a)
{
    return tir_first_lane(&p->b, tir_col_sum(&p->b, a));
}

/* Returns a view of n rows (i32) of `bytes` bytes of the array argument `arg`, from byte `byte` of
 * each row on. It is empty if the pointer is NULL. */
static struct tir_view rows_of(struct plan *p, const char *arg, struct tir_value n, int bytes,
                               int byte)
{
    struct tir_builder *b = &p->b;
    const struct tir_value base = tir_arg(b, arg, TIR_I64), zero = tir_i32(b, 0);
    const struct tir_value rows = tir_select(b, tir_cmp_eq(b, base, tir_i64(b, 0)), zero, n);
    return att_view(b, base, rows, tir_i32(b, bytes), bytes, byte);
}

/* Loads an i32 of array argument `arg` for each sequence of the chunk: the entry `offset` entries
 * after the sequence's own. */
static struct tir_value entries(struct plan *p, const struct chunk *c, const char *arg, int offset)
{
    const struct tir_view v = rows_of(p, arg, att_plus(&p->b, p->batch, 1), 4, 0);
    return tir_tile_load(&p->b, v, att_plus(&p->b, c->first, offset), p->lane);
}

/* Loads word `word` (i32) of each of the chunk's tiles of queries. */
static struct tir_value tile_words(struct plan *p, const struct chunk *c, enum att_plan_word word)
{
    struct tir_builder *b = &p->b;
    const struct tir_view v =
        att_view(b, att_plan_tile_words(b, word), p->batch, tir_i32(b, 4), 4, 0);
    return tir_tile_load(b, v, c->first, p->lane);
}

/* Returns the number of units that hold `keys` keys, rounded up. */
static struct tir_value units(struct plan *p, struct tir_value keys)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_typeof(b->f, keys);
    const struct tir_value most = att_plus(b, tir_shl(b, tir_i32(b, 1), p->unit), -1);
    return tir_shr(b, tir_add(b, keys, tir_splat(b, most, t)), tir_splat(b, p->unit, t));
}

/* Returns a / n, rounded up. */
static struct tir_value ceil_div(struct plan *p, struct tir_value a, struct tir_value n)
{
    struct tir_builder *b = &p->b;
    return tir_div(b, tir_add(b, a, tir_add(b, n, tir_int_like(b, n, -1))), n);
}

/* Returns the number of pieces of at most `piece` units into which a sequence of `u` units is
 * divided, at least 1. */
static struct tir_value count_pieces(struct plan *p, struct tir_value u, struct tir_value piece)
{
    return tir_max(&p->b, ceil_div(p, u, piece), constant(p, 1));
}

/* Returns the number of keys before the window, which no query sees, for sequences of length
 * `lengths`. A negative length counts as 0. The result is a multiple of 16. */
static struct tir_value before_window(struct plan *p, struct tir_value lengths)
{
    struct tir_builder *b = &p->b;
    const struct tir_type t = tir_typeof(b->f, lengths);
    const struct tir_value all = tir_max(b, lengths, tir_int_like(b, lengths, 0));
    const struct tir_value before =
        tir_sub(b, all, tir_splat(b, tir_arg(b, ARG_REACH, TIR_I32), t));
    const struct tir_value most = tir_max(b, before, tir_int_like(b, before, 0));
    return tir_and(b, most, tir_int_like(b, most, -(1 << GRAIN_BITS)));
}

/* Loads the number of visible keys of each of the first LANES * WIDE sequences of view `v`, in type
 * p->wide. */
static struct tir_value load_keys(struct plan *p, struct tir_view v)
{
    struct tir_builder *b = &p->b;
    const struct tir_value lengths = tir_tile_load(b, v, tir_i32(b, 0), p->wide);
    if (p->tiles)
        return lengths;
    return tir_sub(b, tir_max(b, lengths, tir_int_like(b, lengths, 0)), before_window(p, lengths));
}

/* Returns the view for load_keys(), from sequence `first` (i32) on. */
static struct tir_view keys_from(struct plan *p, struct tir_value first)
{
    struct tir_builder *b = &p->b;
    const struct tir_value base =
        p->tiles ? att_plan_tile_words(b, ATT_PLAN_KEYS) : tir_arg(b, ARG_KV_LENS, TIR_I64);
    const struct tir_value at = tir_shl(b, att_wide(b, first), tir_i64(b, 2));
    const struct tir_value left = tir_sub(b, p->batch, first);
    return att_view(b, tir_add(b, base, at), left, tir_i32(b, 4), 4, 0);
}

/* Returns the sum of all sequences' units (i32 scalar), and sets *longest to the most units of a
 * sequence. A lane reads WIDE sequences at a time. */
static struct tir_value units_of_batch(struct plan *p, struct tir_value *longest)
{
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0);
    struct tir_value carried[] = {tir_splat(b, zero, p->wide), tir_splat(b, zero, p->wide)};
    struct tir_loop loop = tir_begin_for(b, zero, p->batch, tir_i32(b, LANES * WIDE), carried, 2);
    const struct tir_value left = tir_sub(b, p->batch, loop.index);
    const struct tir_value keys = load_keys(p, keys_from(p, loop.index));
    const struct tir_value none = tir_int_like(b, keys, 0);
    const struct tir_value there =
        tir_cmp_lt(b, tir_col_index(b, p->wide), tir_splat(b, left, p->wide));
    const struct tir_value u = tir_select(b, there, units(p, keys), none);
    carried[0] = tir_add(b, carried[0], u);
    carried[1] = tir_max(b, carried[1], u);
    tir_end_for(b, &loop, carried, 2);
    *longest = tir_first_lane(b, tir_row_max(b, carried[1]));
    return tir_first_lane(b, tir_row_sum(b, carried[0]));
}

/* Returns the chunk of 64 sequences from `first` (i32) on, with only their keys, units and skipped
 * keys set. */
static struct chunk measure(struct plan *p, struct tir_value first)
{
    struct tir_builder *b = &p->b;
    struct chunk c = {.first = first};
    c.b = tir_add(b, tir_row_index(b, p->lane), number(p, first));
    c.there = tir_cmp_lt(b, c.b, number(p, p->batch));
    if (p->tiles) {
        c.skip = tile_words(p, &c, ATT_PLAN_SKIP);
        c.keys = tile_words(p, &c, ATT_PLAN_KEYS);
    } else {
        const struct tir_view lens = rows_of(p, ARG_KV_LENS, p->batch, 4, 0);
        const struct tir_value lengths = tir_tile_load(b, lens, first, p->lane);
        c.skip = before_window(p, lengths);
        c.keys = tir_sub(b, tir_max(b, lengths, constant(p, 0)), c.skip);
    }
    c.u = units(p, c.keys);
    return c;
}

/* Returns the number of pieces of all sequences (i32 scalar), if a piece has at most `piece`
 * units. */
static struct tir_value pieces_of_batch(struct plan *p, struct tir_value piece)
{
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0);
    struct tir_value sum = constant(p, 0);
    struct tir_loop loop = tir_begin_for(b, zero, p->batch, tir_i32(b, LANES), &sum, 1);
    const struct chunk c = measure(p, loop.index);
    sum = tir_add(b, sum, where(p, c.there, count_pieces(p, c.u, number(p, piece))));
    tir_end_for(b, &loop, &sum, 1);
    return total(p, sum);
}

/* Returns the least size (i32) of a piece, in units, that is worth its merge: the first of 1, 2, 3,
 * 4, 6, 8, 12, ... 12,288 whose square times r is at least `longest`. `longest` (i32) is the number
 * of units of the longest sequence. r is p->rate, or less if the product would overflow. */
static struct tir_value worthwhile_piece(struct plan *p, struct tir_value longest)
{
    struct tir_builder *b = &p->b;
    struct tir_value piece = tir_i32(b, 1);
    for (int n = 1, next; n <= 8192; n = next) {
        next = n == 1 ? 2 : n & (n - 1) ? n / 3 * 4 : n / 2 * 3;
        const struct tir_value rate = tir_min(b, p->rate, tir_i32(b, LONGEST / (n * n) + 1));
        const struct tir_value more = tir_cmp_gt(b, longest, att_times(b, rate, n * n));
        piece = tir_select(b, more, tir_i32(b, next), piece);
    }
    return piece;
}

/* Returns the most units of an equal piece (p), from a few candidates; usually the first one fits.
 * Returns 0 if none fits. `all_units` is the sum of all units, `longest` the most units of a
 * sequence. */
static struct tir_value choose_piece(struct plan *p, struct tir_value all_units,
                                     struct tir_value longest)
{
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_type i32 = tir_scalar(TIR_I32);
    const struct tir_value share =
        tir_div(b, att_plus(b, tir_add(b, all_units, p->parts), -1), p->parts);
    const struct tir_value least = worthwhile_piece(p, longest);
    const struct tir_value slack = p->tiles ? p->cost : tir_arg(b, ARG_SLACK, TIR_I32);
    const struct tir_value most = tir_max(b, tir_add(b, p->payload, slack), least);
    const struct tir_value end =
        tir_select(b, tir_cmp_le(b, p->batch, p->parts), att_plus(b, most, 1), zero);
    struct tir_value piece = zero;
    struct tir_loop loop =
        tir_begin_for(b, tir_max(b, share, least), end, tir_i32(b, 1), &piece, 1);
    struct tir_if found = tir_begin_if(b, tir_cmp_gt(b, piece, zero), false, &i32, 1);
    tir_else(b, &found, &piece);
    const struct tir_value fits = tir_cmp_le(b, pieces_of_batch(p, loop.index), p->parts);
    struct tir_value tried = tir_select(b, fits, loop.index, zero);
    tir_end_if(b, &found, &tried);
    piece = tried;
    tir_end_for(b, &loop, &piece, 1);
    return piece;
}

/* Sets p->uncut, true if tiles stay whole, and p->whole and p->full. `longest`
 * is the most units of a tile. */
static void choose_whole(struct plan *p, struct tir_value longest)
{
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0), one = tir_i32(b, 1);
    const struct tir_value all = att_plus(b, tir_add(b, p->batch, p->parts), -1);
    const struct tir_value each = tir_max(b, tir_div(b, all, p->parts), one);
    const struct tir_value most = tir_add(b, p->payload, att_times(b, p->cost, 2));
    const struct tir_value fits =
        tir_cmp_le(b, tir_add(b, longest, p->cost), tir_div(b, most, each));
    const struct tir_value whole = tir_select(b, p->equal, zero, tir_select(b, fits, each, zero));
    p->uncut = tir_cmp_gt(b, whole, zero);
    p->whole = tir_max(b, whole, one);
    p->full = tir_sub(b, p->batch, tir_mul(b, p->parts, att_plus(b, p->whole, -1)));
}

/* Sets how sequences are divided: p->payload, p->piece and p->equal, and for tiles p->whole and
 * p->uncut. */
static void choose_pieces(struct plan *p)
{
    struct tir_builder *b = &p->b;
    struct tir_value longest;
    const struct tir_value all_units = units_of_batch(p, &longest);
    const struct tir_value cost = tir_add(b, all_units, tir_mul(b, p->batch, p->cost));
    const struct tir_value share =
        tir_div(b, att_plus(b, tir_add(b, cost, p->parts), -1), p->parts);
    p->payload = tir_max(b, share, att_times(b, p->cost, 2));
    const struct tir_value piece = choose_piece(p, all_units, longest);
    p->equal = tir_cmp_gt(b, piece, tir_i32(b, 0));
    p->piece = tir_max(b, piece, tir_i32(b, 1));
    if (p->tiles)
        choose_whole(p, longest);
}

/* Sets c->part and c->last: the first and the last part that each sequence covers. They follow from
 * the sequences' starts on the line of costs. */
static void place_on_line(struct plan *p, struct chunk *c)
{
    struct tir_builder *b = &p->b;
    const struct tir_value payload = number(p, p->payload);
    const struct tir_value before = att_plus(b, tir_add(b, p->cost, p->least), -1);
    const struct tir_value begin = tir_add(b, c->start, number(p, before));
    const struct tir_value after = number(p, tir_sub(b, p->cost, p->least));
    const struct tir_value end = tir_add(b, tir_add(b, c->start, c->u), after);
    c->part = tir_min(b, tir_div(b, begin, payload), plus(p, number(p, p->parts), -1));
    c->last = tir_max(b, tir_div(b, end, payload), c->part);
}

/* Returns the index (i32 in each lane) of the part that has whole tile `tile`, a lane's index of a
 * tile. */
static struct tir_value part_of_tile(struct plan *p, struct tir_value tile)
{
    struct tir_builder *b = &p->b;
    const struct tir_value one = tir_i32(b, 1), less = att_plus(b, p->whole, -1);
    const struct tir_value in_full = tir_mul(b, p->full, p->whole);
    const struct tir_value after = tir_sub(b, tile, number(p, in_full));
    const struct tir_value later =
        tir_div(b, tir_max(b, after, constant(p, 0)), number(p, tir_max(b, less, one)));
    return tir_select(b, tir_cmp_lt(b, after, constant(p, 0)),
                      tir_div(b, tile, number(p, p->whole)), tir_add(b, number(p, p->full), later));
}

/* Returns the whole chunk from sequence `first` (i32) on: sizes, starts, and the parts that each
 * sequence covers. *start is the start of the chunk's first sequence, and is set to the start of
 * the next chunk's first sequence. With p->equal a start is a number of parts. */
static struct chunk place(struct plan *p, struct tir_value first, struct tir_value *start)
{
    struct tir_builder *b = &p->b;
    struct chunk c = measure(p, first);
    const struct tir_value one = constant(p, 1);
    c.length = tir_max(b, ceil_div(p, c.u, count_pieces(p, c.u, number(p, p->piece))), one);
    const struct tir_value pieces = count_pieces(p, c.u, c.length);
    const struct tir_value cost =
        where(p, c.there, tir_select(b, p->equal, pieces, tir_add(b, c.u, number(p, p->cost))));
    c.start = tir_add(b, att_scan_before(b, &p->scan, cost), number(p, *start));
    *start = tir_add(b, *start, total(p, cost));
    place_on_line(p, &c);
    if (p->tiles) {
        const struct tir_value list = part_of_tile(p, c.b);
        c.part = tir_select(b, p->uncut, list, c.part);
        c.last = tir_select(b, p->uncut, list, c.last);
    }
    c.part = tir_select(b, p->equal, c.start, c.part);
    c.last = tir_select(b, p->equal, tir_add(b, c.start, plus(p, pieces, -1)), c.last);
    c.n = where(p, c.there, plus(p, tir_sub(b, c.last, c.part), 1));
    return c;
}

/* Returns the end (i32) of loops that write an entry after the last sequence: the number of
 * sequences + 1. */
static struct tir_value chunks_end(struct plan *p) { return att_plus(&p->b, p->batch, 1); }

/* Returns the number of items of one KV head (i32 scalar; T). */
static struct tir_value count_items(struct plan *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0);
    struct tir_value sums[] = {zero, zero};
    struct tir_loop loop = tir_begin_for(b, zero, p->batch, tir_i32(b, LANES), sums, 2);
    const struct chunk c = place(p, loop.index, &sums[0]);
    sums[1] = tir_add(b, sums[1], total(p, c.n));
    tir_end_for(b, &loop, sums, 2);
    return sums[1];
}

/* Stores `a` in array argument `arg`, in the rows of the chunk's sequences; only wave 0 does so.
 * The array has n rows (i32) of `bytes` bytes, and `a` begins at byte `byte` of a row. */
static void store_rows(struct plan *p, const struct chunk *c, const char *arg, struct tir_value n,
                       int bytes, int byte, struct tir_value a)
{
    struct tir_builder *b = &p->b;
    const struct tir_value mine = tir_cmp_eq(b, p->wave, tir_i32(b, 0));
    const struct tir_value rows = tir_select(b, mine, n, tir_i32(b, 0));
    tir_tile_store(b, rows_of(p, arg, rows, bytes, byte), c->first, a);
}

/* The members of an item that do not depend on its piece, for each sequence of a chunk. Values are
 * i32 with an entry for each lane. */
struct sequence {
    /* i32: indices of the first item (I) and of the first partial row (R). */
    struct tir_value item, row;
    struct tir_value number; /* i32: index of the sequence, if the chunk has tiles of queries */
    /* i32: index of the first query, and of the query after the last one. */
    struct tir_value q_start, q_end;
    struct tir_value previous; /* i32: index of the last part of the previous sequence */
    /* i32: lists of the parts from previous + 1 to lists_end - 1 begin with this sequence. */
    struct tir_value lists_end;
};

/* Sets s->item and s->row, the indices at which the items and the partial results of each of the
 * chunk's sequences begin. Advances sums[]. The counts of pieces, and of pieces with partial
 * results, share a register. */
static void count_before(struct plan *p, const struct chunk *c, struct sequence *s,
                         struct tir_value sums[N_SUMS])
{
    struct tir_builder *b = &p->b;
    const struct tir_value half = constant(p, HALF), low = constant(p, (1 << HALF) - 1);
    const struct tir_value cut = tir_cmp_gt(b, c->n, constant(p, 1));
    const struct tir_value both =
        tir_or(b, c->n, tir_select(b, cut, tir_shl(b, c->n, half), constant(p, 0)));
    const struct tir_value before = att_scan_before(b, &p->scan, both);
    s->item = tir_add(b, tir_and(b, before, low), number(p, sums[SUM_ITEMS]));
    s->row = tir_add(b, tir_shr(b, before, half), number(p, sums[SUM_ROWS]));
    const struct tir_value all = total(p, both);
    sums[SUM_ITEMS] = tir_add(b, sums[SUM_ITEMS], tir_and(b, all, tir_i32(b, (1 << HALF) - 1)));
    sums[SUM_ROWS] = tir_add(b, sums[SUM_ROWS], tir_shr(b, all, tir_i32(b, HALF)));
}

/* Sets s->previous and s->lists_end, the range of parts whose lists begin with each sequence: the
 * parts after the previous sequence's last part, up to its own last part. Updates
 * sums[SUM_LAST]. */
static void find_lists(struct plan *p, const struct chunk *c, struct sequence *s,
                       struct tir_value sums[N_SUMS])
{
    struct tir_builder *b = &p->b;
    const struct tir_value first = tir_cmp_eq(b, c->b, number(p, c->first));
    s->previous =
        tir_select(b, first, number(p, sums[SUM_LAST]), att_scan_shift(b, &p->scan, c->last, 1));
    s->lists_end = plus(p, c->last, 1);
    const struct tir_value last = tir_select(b, c->there, c->last, constant(p, -1));
    sums[SUM_LAST] = tir_max(b, sums[SUM_LAST], largest(p, last));
}

/* Sets the number of each sequence, and the range of its queries in the batch. */
static void find_queries(struct plan *p, const struct chunk *c, struct sequence *s)
{
    struct tir_builder *b = &p->b;
    if (p->tiles) {
        s->number = tile_words(p, c, ATT_PLAN_SEQUENCE);
        s->q_start = tile_words(p, c, ATT_PLAN_Q_START);
        s->q_end = tile_words(p, c, ATT_PLAN_Q_END);
        return;
    }
    s->number = c->b;
    const struct tir_value null = att_is_null(b, ARG_QO_INDPTR);
    const struct tir_value start = entries(p, c, ARG_QO_INDPTR, 0);
    const struct tir_value end = entries(p, c, ARG_QO_INDPTR, 1);
    const struct tir_value same = tir_mul(b, c->b, number(p, p->queries));
    s->q_start = tir_select(b, null, same, start);
    s->q_end = tir_select(b, null, tir_add(b, same, number(p, p->queries)), end);
}

/* Returns the index of the key at which piece j (i32) of each sequence begins, counted from the
 * first key in the window. */
static struct tir_value cut(struct plan *p, const struct chunk *c, struct tir_value j)
{
    struct tir_builder *b = &p->b;
    const struct tir_value line =
        tir_sub(b, tir_mul(b, tir_add(b, c->part, j), number(p, p->payload)),
                tir_add(b, c->start, number(p, p->cost)));
    const struct tir_value at = tir_select(b, p->equal, tir_mul(b, j, c->length), line);
    const struct tir_value inside = tir_min(b, tir_shl(b, at, number(p, p->unit)), c->keys);
    const struct tir_value before = tir_cmp_lt(b, j, c->n);
    const struct tir_value none = tir_cmp_eq(b, j, constant(p, 0));
    return tir_select(b, none, constant(p, 0), tir_select(b, before, inside, c->keys));
}

/* Returns the byte offset (i64) of entry `index` of an array with entries of `bytes` bytes. Returns
 * -1 in lanes whose `write` (i1) is false, so that nothing is written. */
static struct tir_value address(struct plan *p, struct tir_value write, struct tir_value index,
                                int bytes)
{
    struct tir_builder *b = &p->b;
    const struct tir_value at = tir_convert(b, index, TIR_I64);
    return tir_select(b, write, tir_mul(b, at, tir_int_like(b, at, bytes)),
                      tir_int_like(b, at, -1));
}

/* Returns a tile with a row of eight numbers for each lane, of the eight columns c[]. */
static struct tir_value join(struct plan *p, struct tir_value c[INFO])
{
    struct tir_value t[INFO];
    for (int i = 0; i < INFO; i++)
        t[i] = c[i];
    for (int n = INFO; n > 1; n /= 2)
        for (int i = 0; i < n / 2; i++)
            t[i] = tir_stack(&p->b, t[2 * i], t[2 * i + 1]);
    return tir_join_blocks(&p->b, t[0], LANES);
}

/* Writes the items of piece j (i32) of every sequence, one for each KV head. Also writes the begin
 * of list j of the lists that begin with the sequence. */
static void write_piece(struct plan *p, const struct chunk *c, const struct sequence *s,
                        struct tir_value j)
{
    struct tir_builder *b = &p->b;
    const struct tir_value has = tir_and(b, c->there, tir_cmp_lt(b, j, c->n));
    const struct tir_value end = cut(p, c, plus(p, j, 1));
    const struct tir_value row = tir_mul(b, tir_add(b, s->row, j), number(p, p->queries));
    const struct tir_value whole = tir_cmp_eq(b, c->n, constant(p, 1));
    struct tir_value info[INFO] = {s->number, tir_select(b, whole, constant(p, -1), row),
                                   s->q_start, s->q_end};
    info[4] = tir_add(b, c->skip, cut(p, c, j));
    info[5] = tir_add(b, c->skip, end);
    info[6] = tir_sub(b, c->keys, end);
    const struct tir_value item = tir_add(b, s->item, j);

    const struct tir_value part = plus(p, tir_add(b, s->previous, j), 1);
    const struct tir_value single =
        tir_cmp_eq(b, tir_arg(b, ARG_PAIRS_PER_LIST, TIR_I32), tir_i32(b, 1));
    const struct tir_value limit = tir_select(b, single, s->lists_end, constant(p, 0));
    const struct tir_value begins = tir_and(b, c->there, tir_cmp_lt(b, part, limit));
    const struct tir_value inside =
        tir_min(b, tir_max(b, tir_sub(b, part, c->part), constant(p, 0)), c->n);
    const struct tir_value list_item = tir_add(b, s->item, inside);

    const struct tir_value zero = tir_i32(b, 0), group = tir_arg(b, ARG_GQA, TIR_I32);
    struct tir_loop head = tir_begin_for(b, zero, p->heads, tir_i32(b, 1), NULL, 0);
    const struct tir_value base = tir_mul(b, head.index, p->items);
    const struct tir_value from = tir_mul(b, head.index, group);
    const struct tir_value range =
        tir_or(b, from, tir_shl(b, tir_add(b, from, group), tir_i32(b, HALF)));
    info[7] = number(p, range);
    const struct tir_value at = address(p, has, tir_add(b, item, number(p, base)), INFO * 4);
    tir_tile_scatter(b, tir_arg(b, ARG_WORK_INFO, TIR_I64), at, zero, join(p, info));
    const struct tir_value pair = tir_add(b, part, number(p, tir_mul(b, head.index, p->parts)));
    tir_tile_scatter(b, tir_arg(b, ARG_WORK_INDPTR, TIR_I64), address(p, begins, pair, 4), zero,
                     tir_add(b, list_item, number(p, base)));
    tir_end_for(b, &head, NULL, 0);
}

/* Writes the items, lists and map rows of the chunk from sequence `first` (i32) on. sums[] are over
 * all chunks before it, and are advanced. */
static void write_chunk(struct plan *p, struct tir_value first, struct tir_value sums[N_SUMS])
{
    struct tir_builder *b = &p->b;
    const struct chunk c = place(p, first, &sums[SUM_START]);
    struct sequence s;
    count_before(p, &c, &s, sums);
    find_lists(p, &c, &s, sums);
    find_queries(p, &c, &s);
    store_rows(p, &c, ARG_REDUCE_INDPTR, att_plus(b, p->batch, 1), 4, 0, s.row);
    store_rows(p, &c, ARG_REDUCE_FINAL_MAP, p->batch, 8, 0, s.q_start);
    store_rows(p, &c, ARG_REDUCE_FINAL_MAP, p->batch, 8, 4, s.q_end);

    const struct tir_value lists =
        where(p, c.there, plus(p, tir_sub(b, s.lists_end, s.previous), -1));
    const struct tir_value rounds = largest(p, tir_max(b, c.n, lists));
    struct tir_loop piece = tir_begin_for(b, p->wave, rounds, tir_i32(b, p->waves), NULL, 0);
    write_piece(p, &c, &s, number(p, piece.index));
    tir_end_for(b, &piece, NULL, 0);
}

/* Writes make(p, i) as entry i of the i32 array argument `arg`, for i from `first` to n - 1. The
 * waves divide the entries. */
static void fill(struct plan *p, const char *arg, struct tir_value first, struct tir_value n,
                 struct tir_value (*make)(struct plan *p, struct tir_value index))
{
    struct tir_builder *b = &p->b;
    const struct tir_value begin = tir_add(b, first, att_times(b, p->wave, LANES));
    struct tir_loop loop = tir_begin_for(b, begin, n, tir_i32(b, p->waves * LANES), NULL, 0);
    const struct tir_value index = tir_add(b, tir_row_index(b, p->lane), number(p, loop.index));
    tir_tile_store(b, rows_of(p, arg, n, 4, 0), loop.index, make(p, index));
    tir_end_for(b, &loop, NULL, 0);
}

/* Returns the first row of partial result `index`: each has max_seqlen_q rows. */
static struct tir_value partial_row(struct plan *p, struct tir_value index)
{
    return tir_mul(&p->b, index, number(p, p->queries));
}

/* Returns the item at which work list `index` begins, if a list has all items of several heads.
 * Lists after the last head begin after all items. */
static struct tir_value list_begin(struct plan *p, struct tir_value index)
{
    struct tir_builder *b = &p->b;
    const struct tir_value per = tir_arg(b, ARG_PAIRS_PER_LIST, TIR_I32);
    return tir_mul(b, tir_min(b, tir_mul(b, index, number(p, per)), number(p, p->heads)),
                   number(p, p->items));
}

/* Returns one past the last item of the head to which list `index` belongs. */
static struct tir_value items_end(struct plan *p, struct tir_value index)
{
    struct tir_builder *b = &p->b;
    const struct tir_value head = tir_div(b, index, number(p, p->parts));
    return tir_mul(b, plus(p, head, 1), number(p, p->items));
}

/* Writes the begins of empty work lists: for each head, the lists after part `last`, the batch's
 * last part. A lane writes one list, since a small batch has many. If `single` (i1) is false, a
 * list has several pairs of head and part, and no list is empty. */
static void end_lists(struct plan *p, struct tir_value last, struct tir_value single)
{
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value left = tir_cmp_lt(b, att_plus(b, last, 1), p->parts);
    const struct tir_value heads = tir_select(b, tir_and(b, single, left), p->heads, zero);
    struct tir_loop head = tir_begin_for(b, zero, heads, tir_i32(b, 1), NULL, 0);
    const struct tir_value first = tir_mul(b, head.index, p->parts);
    fill(p, ARG_WORK_INDPTR, tir_add(b, first, att_plus(b, last, 1)), tir_add(b, first, p->parts),
         items_end);
    tir_end_for(b, &head, NULL, 0);
}

/* Returns the number of partial results of the batch (R[B]) in every lane, for any `index`:
 * reduce_indptr's entry for tiles after the last one. */
static struct tir_value all_rows(struct plan *p, struct tir_value index)
{
    (void)index;
    return number(p, p->rows);
}

/* Returns 0 in every lane, for any `index`. */
static struct tir_value nothing(struct plan *p, struct tir_value index)
{
    (void)index;
    return constant(p, 0);
}

/* Writes entries for empty tiles after the batch's last one, up to argument most_tiles. A tile has
 * one number in reduce_indptr and two in reduce_final_map. */
static void end_tiles(struct plan *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value most = tir_arg(b, ARG_MOST_TILES, TIR_I32);
    fill(p, ARG_REDUCE_INDPTR, chunks_end(p), att_plus(b, most, 1), all_rows);
    fill(p, ARG_REDUCE_FINAL_MAP, att_times(b, p->batch, 2), att_times(b, most, 2), nothing);
}

/* Writes the whole plan. */
static void write_plan(struct plan *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_value zero = tir_i32(b, 0);
    struct tir_value sums[N_SUMS] = {zero, zero, zero, tir_i32(b, -1)};
    /* The loop includes the sequence after the last one, which does not exist, since reduce_indptr
     * has an entry for it. */
    struct tir_loop loop = tir_begin_for(b, zero, chunks_end(p), tir_i32(b, LANES), sums, N_SUMS);
    write_chunk(p, loop.index, sums);
    tir_end_for(b, &loop, sums, N_SUMS);

    fill(p, ARG_REDUCE_PARTIAL_MAP, zero, sums[SUM_ROWS], partial_row);
    p->rows = sums[SUM_ROWS];
    if (p->tiles)
        end_tiles(p);
    /* If lists have more than one pair of head and part, the plan has one part. A list then begins
     * with the first item of a head. */
    const struct tir_value per = tir_arg(b, ARG_PAIRS_PER_LIST, TIR_I32);
    const struct tir_value single = tir_cmp_eq(b, per, tir_i32(b, 1));
    end_lists(p, sums[SUM_LAST], single);
    const struct tir_value begun = tir_select(b, single, tir_mul(b, p->heads, p->parts), zero);
    fill(p, ARG_WORK_INDPTR, begun, att_plus(b, tir_arg(b, ARG_WORKGROUPS, TIR_I32), 1),
         list_begin);
}

/* Sets the members of `p` that the arguments determine, and with tiles writes the tiles' words. */
static void prepare(struct plan *p)
{
    struct tir_builder *b = &p->b;
    const struct tir_layout column = tir_spread_column(b->f->machine, 1, LANES * WIDE);
    const struct tir_layout wide = tir_layout_transpose(&column);
    p->wide = tir_tile(b->f, TIR_I32, 1, LANES * WIDE, &wide);
    p->wave = tir_wave_id(b);
    p->scan = att_scan_begin(b);
    p->lane = p->scan.lane;
    p->batch =
        p->tiles ? att_plan_write_tiles(b, &p->scan, p->waves) : tir_arg(b, ARG_BATCH, TIR_I32);
    p->parts = tir_arg(b, ARG_PARTS, TIR_I32);
    p->queries = tir_arg(b, ARG_MAX_SEQLEN_Q, TIR_I32);
    p->heads = tir_arg(b, ARG_KV_HEADS, TIR_I32);
    p->cost = tir_arg(b, ARG_ITEM_COST, TIR_I32);
    p->least = p->tiles ? tir_sar(b, att_plus(b, p->cost, 1), tir_i32(b, 1)) : p->cost;
    p->rate = tir_arg(b, ARG_MERGE_RATE, TIR_I32);
    p->unit = tir_arg(b, ARG_UNIT_BITS, TIR_I32);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct plan p = {.b = tir_at_end(f, f->body), .waves = tile.waves, .tiles = v->q_tiles};
    struct tir_builder *b = &p.b;
    prepare(&p);
    choose_pieces(&p);
    p.items = count_items(&p);
    write_plan(&p);
    tir_return(b);
    *k = (struct att_kernel){
        .func = f,
        .grid = {{NULL, 1, 1}, {NULL, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d", tile.waves);
}

const struct att_template att_template_plan = {
    .name = "plan",
    .description = "lengths on the device become the work lists of decode",
    .takes = OP_TAKES_PLAN | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .fits = att_fits_waves,
    .check = att_check_tile,
    .build = build,
};
