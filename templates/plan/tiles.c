/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the tiles of queries of a batch on the device. A lane is a sequence, and the number of its
 * first tile is a prefix sum over the sequences. The waves write the first tiles of 64 sequences,
 * then their second ones.
 */
#include "templates/plan/tiles.h"

#include "op_names.h"
#include "templates/workgroup/scalar.h"

enum { WORD = 4, GRAIN = 16 /* keys before the window are a multiple of it */ };

/* Lengths and numbers of tiles of 64 sequences, a sequence in each lane; all i32. */
struct sequences {
    struct tir_value number, q_start, q_end, keys;
    struct tir_value tiles; /* 0 after the last sequence */
    struct tir_value first; /* index in the batch of the first tile */
};

/* Returns a tile with `scalar` (i32) in every lane, one lane for each of 64 sequences. */
static struct tir_value splat(const struct att_scan *scan, struct tir_builder *b,
                              struct tir_value scalar)
{
    return tir_splat(b, scalar, scan->lane);
}

/* Loads an i32 for each of 64 sequences, from entry `first` of the array `arg` with `count`
 * entries; 0 if the pointer is NULL. */
static struct tir_value load(const struct att_scan *scan, struct tir_builder *b, const char *arg,
                             struct tir_value first, struct tir_value count)
{
    const struct tir_value base = tir_arg(b, arg, TIR_I64);
    const struct tir_value there = tir_cmp_ne(b, base, tir_i64(b, 0));
    const struct tir_value rows = tir_select(b, there, count, tir_i32(b, 0));
    return tir_tile_load(b, att_view(b, base, rows, tir_i32(b, WORD), WORD, 0), first, scan->lane);
}

/* Sets the first query and the end of the queries of 64 sequences: from argument qo_indptr, or
 * max_seqlen_q queries for each sequence if qo_indptr is NULL. */
static void find_queries(const struct att_scan *scan, struct tir_builder *b, struct tir_value first,
                         struct sequences *s)
{
    const struct tir_value count = att_plus(b, tir_arg(b, ARG_BATCH, TIR_I32), 1);
    const struct tir_value given = att_is_given(b, ARG_QO_INDPTR);
    const struct tir_value each = splat(scan, b, tir_arg(b, ARG_Q_LEN, TIR_I32));
    const struct tir_value start = load(scan, b, ARG_QO_INDPTR, first, count);
    const struct tir_value end = load(scan, b, ARG_QO_INDPTR, att_plus(b, first, 1), count);
    const struct tir_value same = tir_mul(b, s->number, each);
    s->q_start = tir_select(b, given, start, same);
    s->q_end = tir_select(b, given, end, tir_add(b, same, each));
}

/* Returns queries, keys and number of tiles of the 64 sequences from number `first` (i32) on. */
static struct sequences measure(const struct att_scan *scan, struct tir_builder *b,
                                struct tir_value first)
{
    const struct tir_value batch = tir_arg(b, ARG_BATCH, TIR_I32), zero = tir_i32(b, 0);
    const struct tir_value size = splat(scan, b, tir_arg(b, ARG_Q_TILE, TIR_I32));
    const struct tir_value one = splat(scan, b, tir_i32(b, 1));
    struct sequences s = {.number =
                              tir_add(b, tir_row_index(b, scan->lane), splat(scan, b, first))};
    find_queries(scan, b, first, &s);
    s.keys = tir_max(b, load(scan, b, ARG_KV_LENS, first, batch), splat(scan, b, zero));
    const struct tir_value queries = tir_sub(b, s.q_end, s.q_start);
    const struct tir_value tiles = tir_div(b, tir_add(b, queries, tir_sub(b, size, one)), size);
    s.tiles = tir_select(b, tir_cmp_lt(b, s.number, splat(scan, b, batch)), tir_max(b, tiles, one),
                         splat(scan, b, zero));
    s.first = att_scan_before(b, scan, s.tiles);
    return s;
}

struct tir_value att_plan_tile_words(struct tir_builder *b, enum att_plan_word word)
{
    const struct tir_value most = tir_arg(b, ARG_MOST_TILES, TIR_I32);
    return att_at(b, ARG_TILE_INFO, att_wide(b, att_times(b, most, (int)word * WORD)));
}

/* Writes `a`, a number of kind `word` for each lane's tile, at byte offset `at` of tile_info; an
 * offset of -1 writes nothing. */
static void store(struct tir_builder *b, enum att_plan_word word, struct tir_value at,
                  struct tir_value a)
{
    tir_tile_scatter(b, att_plan_tile_words(b, word), at, tir_i32(b, 0), a);
}

/* Returns a tile's number (i32) among the `tiles` tiles of its sequence. `place`: number of tiles
 * with earlier queries. The first tile has number 0, the last one 1, the second one 2, and so on:
 * docs/planning.md. */
static struct tir_value number_of_tile(const struct att_scan *scan, struct tir_builder *b,
                                       struct tir_value place, struct tir_value tiles)
{
    const struct tir_value one = splat(scan, b, tir_i32(b, 1));
    const struct tir_value after = tir_sub(b, tir_sub(b, tiles, place), one);
    const struct tir_value odd = tir_add(b, tir_add(b, after, after), one);
    return tir_select(b, tir_cmp_le(b, place, after), tir_add(b, place, place), odd);
}

/* Writes tile j of each of 64 sequences: its queries, the keys that they see, and the keys
 * before the window. */
static void write_tile(const struct att_scan *scan, struct tir_builder *b,
                       const struct sequences *s, struct tir_value before, struct tir_value j)
{
    const struct tir_value zero = splat(scan, b, tir_i32(b, 0));
    const struct tir_value size = splat(scan, b, tir_arg(b, ARG_Q_TILE, TIR_I32));
    const struct tir_value right = splat(scan, b, tir_arg(b, ARG_WINDOW_RIGHT, TIR_I32));
    const struct tir_value reach = splat(scan, b, tir_arg(b, ARG_REACH, TIR_I32));
    const struct tir_value number = splat(scan, b, j);
    const struct tir_value start = tir_add(b, s->q_start, tir_mul(b, number, size));
    const struct tir_value end = tir_min(b, tir_add(b, start, size), s->q_end);
    const struct tir_value own = tir_sub(b, s->keys, tir_sub(b, s->q_end, end));
    const struct tir_value late = tir_max(b, tir_add(b, own, right), zero);
    const struct tir_value all = tir_min(b, s->keys, late);
    const struct tir_value some = tir_cmp_lt(b, start, end);
    const struct tir_value seen = tir_select(b, some, all, zero);
    const struct tir_value reached = tir_max(b, tir_min(b, seen, own), zero);
    const struct tir_value skip = tir_and(b, tir_max(b, tir_sub(b, reached, reach), zero),
                                          splat(scan, b, tir_i32(b, -GRAIN)));
    const struct tir_value there = tir_cmp_lt(b, number, s->tiles);
    const struct tir_value tile = tir_add(b, tir_add(b, s->first, splat(scan, b, before)),
                                          number_of_tile(scan, b, number, s->tiles));
    const struct tir_value wide = tir_convert(b, tile, TIR_I64);
    const struct tir_value at =
        tir_select(b, there, tir_shl(b, wide, tir_int_like(b, wide, 2)), tir_int_like(b, wide, -1));
    store(b, ATT_PLAN_SEQUENCE, at, s->number);
    store(b, ATT_PLAN_Q_START, at, start);
    store(b, ATT_PLAN_Q_END, at, end);
    store(b, ATT_PLAN_SKIP, at, skip);
    store(b, ATT_PLAN_KEYS, at, tir_sub(b, seen, skip));
}

struct tir_value att_plan_write_tiles(struct tir_builder *b, const struct att_scan *scan, int waves)
{
    const struct tir_value zero = tir_i32(b, 0), wave = tir_wave_id(b);
    struct tir_value count = zero;
    struct tir_loop loop = tir_begin_for(b, zero, tir_arg(b, ARG_BATCH, TIR_I32),
                                         tir_i32(b, ATT_SCAN_ROWS), &count, 1);
    const struct sequences s = measure(scan, b, loop.index);
    const struct tir_value most = tir_first_lane(b, tir_col_max(b, s.tiles));
    struct tir_loop tile = tir_begin_for(b, wave, most, tir_i32(b, waves), NULL, 0);
    write_tile(scan, b, &s, count, tile.index);
    tir_end_for(b, &tile, NULL, 0);
    count = tir_add(b, count, tir_first_lane(b, tir_col_sum(b, s.tiles)));
    tir_end_for(b, &loop, &count, 1);
    tir_wait_memory(b);
    tir_barrier(b);
    return count;
}
