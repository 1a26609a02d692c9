/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects the k largest scores of each row, and writes their positions. One workgroup reads a row,
 * or a part of it, once. select/select.h has the algorithm; this file loads scores and names the
 * results.
 */
#include "op_names.h"
#include "ir/bits.h"
#include "ir/builder.h"
#include "templates/workgroup/scalar.h"
#include "templates/select/list.h"
#include "templates/template.h"

#include <stdio.h>
#include <string.h>

enum {
    NO_SCORE = -1,              /* bits of the NaN that marks a missing score */
    INFINITY_BITS = 0x7f800000, /* bits of an infinite f32 */
    SAMPLE = 2, /* number of scores of a lane in a sample, which has as many runs of each wave */
};

/* Indices of att_tile.own. EACH: number of scores that a lane inserts at once. STEPS: number of
 * steps in which the waves insert these scores if the buffer has no room for all. The buffer is
 * small, so that two workgroups share a compute unit. */
enum { EACH, STEPS };

static const struct att_tile tiles[] = {
    {.waves = 16, .own = {[EACH] = 4, [STEPS] = 4}, .why = "a row is one workgroup's"},
};

static const struct att_knob knobs[] = {
    {"waves", 2, {4, 8}},
    {"each", 2, {2, 8}},
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct topk {
    struct tir_builder b;
    bool planned;             /* true: the launch merges the lists of rows that a plan divided */
    struct att_select select; /* buffer of the largest scores */
    struct att_list list;     /* the workgroup's row or part, and its output list */
    struct tir_type score;    /* type of a tile of scores: f32, lanes x 1 */
    /* i1: true if the argument source, block_table or values is NULL */
    struct tir_value by_position, no_slots, no_values;
};

/* Returns the sizes of the buffer, which fills at most half of the LDS, since two workgroups share
 * a compute unit. */
static struct att_select_size size_of(const struct att_variant *v, const struct att_tile *t,
                                      const struct tir_machine *m)
{
    const unsigned each = t->own[EACH], waves = t->waves, lanes = tir_lanes(m);
    const unsigned chunk = each * waves * lanes, most = chunk / t->own[STEPS];
    struct att_select_size size = att_select_size((unsigned)v->top_k, each, most, waves, 0);
    size.steps = t->own[STEPS];
    size.later = v->ties == ATT_TIES_LARGER;
    while (size.room < size.k + chunk / 2 &&
           att_select_lds_bytes(size.room + lanes, waves) <= m->lds_bytes / 2)
        size.room += lanes;
    return size;
}

/* True if tile `t` serves the variant; if not, the reason is in `why`. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned room = size_of(v, t, m).room, bytes = att_select_lds_bytes(room, t->waves);
    if (!att_select_holds(room, t->waves * tir_lanes(m)))
        return att_reject(why, ATT_TILE, "%d waves have no registers for %u entries", t->waves,
                          room);
    if (bytes > m->lds_bytes)
        return att_reject(why, ATT_TOP_K, "top_k %d takes %u bytes of LDS, %s has %u", v->top_k,
                          bytes, m->name, m->lds_bytes);
    return true;
}

/* Returns `scalar` (i32) in every lane. */
static struct tir_value number(struct topk *t, struct tir_value scalar)
{
    return tir_splat(&t->b, scalar, t->select.lane);
}

/* Returns the address (i64) of the part's first element in array argument `arg` [rows, columns] of
 * 32 bits. `stride` names the argument with its row stride; with a plan the lists are
 * contiguous. */
static struct tir_value part_of(struct topk *t, const char *arg, const char *stride)
{
    struct tir_builder *b = &t->b;
    const struct tir_value at = att_wide_times(b, t->list.first, 4);
    const struct tir_value base = tir_arg(b, arg, TIR_I64);
    if (t->planned)
        return tir_add(b, base, at);
    const struct tir_value row = att_offset(b, t->list.row, stride, 4);
    return tir_add(b, base, tir_add(b, row, at));
}

/* Issues the load of tile `j` of this wave's scores in the chunk that begins at column `first`
 * (i32) of the part. */
static struct tir_value load_scores(struct topk *t, struct tir_view scores, struct tir_value first,
                                    unsigned j)
{
    struct tir_builder *b = &t->b;
    return tir_tile_load(b, scores, tir_add(b, first, att_select_place(&t->select, j)), t->score);
}

/* Issues the loads of this wave's scores of the chunk that begins at column `first` (i32) of the
 * part into out[]. */
static void load_chunk(struct topk *t, struct tir_view scores, struct tir_value first,
                       struct tir_value out[ATT_SELECT_EACH_MAX])
{
    for (unsigned j = 0; j < t->select.each; j++)
        out[j] = load_scores(t, scores, first, j);
}

/* Returns the selection keys (i32) of a tile `score`, whose first lane has column `first` (i32) of
 * the part. Missing scores get att_select_no_key(). */
static struct tir_value key_of(struct topk *t, struct tir_value score, struct tir_value first)
{
    struct tir_builder *b = &t->b;
    const struct tir_value column = tir_add(b, t->select.lane_index, number(t, first));
    const struct tir_value bits = tir_bitcast(b, score, t->select.lane);
    return att_select_key(b, score,
                          tir_and(b, tir_cmp_lt(b, column, number(t, t->list.n)),
                                  tir_cmp_ne(b, bits, number(t, tir_i32(b, NO_SCORE)))));
}

/* Returns the selection keys of any scores from `key`, which att_select_number_key() made and which
 * is right only for numbers. Missing scores get att_select_no_key(), and NaNs att_select_nan_key().
 * The first lane has column `first` (i32). */
static struct tir_value mend_key(struct topk *t, struct tir_value key, struct tir_value first)
{
    struct tir_builder *b = &t->b;
    const struct tir_value none = number(t, tir_i32(b, INT32_MIN - NO_SCORE));
    const struct tir_value column = tir_add(b, t->select.lane_index, number(t, first));
    const struct tir_value there =
        tir_and(b, tir_cmp_lt(b, column, number(t, t->list.n)), tir_cmp_ne(b, key, none));
    const struct tir_value size = tir_max(b, key, tir_neg(b, key));
    const struct tir_value nan = tir_cmp_gt(b, size, number(t, tir_i32(b, INFINITY_BITS)));
    const struct tir_value any = tir_select(b, nan, att_select_nan_key(&t->select), key);
    return tir_select(b, there, any, att_select_no_key(&t->select));
}

/* Computes the keys[] of a chunk's scores[], and issues the loads of the next chunk into scores[].
 * Keys of numbers need fewer instructions than keys of any scores. A single test for the whole
 * chunk finds NaNs and the end of the part. `first` is the chunk's first column (i32). */
static void make_keys(struct topk *t, struct tir_view view, struct tir_value *scores,
                      struct tir_value first, struct tir_value *keys)
{
    struct tir_builder *b = &t->b;
    const struct att_select *const s = &t->select;
    const struct tir_value end = att_plus(b, first, (int)s->chunk);
    struct tir_value special = tir_cmp_gt(b, end, t->list.n), mended[ATT_SELECT_EACH_MAX];
    struct tir_type types[ATT_SELECT_EACH_MAX];
    struct tir_value nans = tir_i32(b, 0);
    for (unsigned j = 0; j < s->each; j++) {
        keys[j] = att_select_number_key(b, scores[j]);
        nans = tir_add(b, nans, tir_lane_count(b, tir_cmp_ne(b, scores[j], scores[j])));
        /* Anchors the key, so that it is computed before the score's register receives the next
         * load. */
        tir_anchor(b, keys[j]);
        scores[j] = load_scores(t, view, end, j);
        types[j] = s->lane;
    }
    special = tir_or(b, special, tir_cmp_gt(b, nans, tir_i32(b, 0)));
    struct tir_if branch = tir_begin_if(b, special, true, types, s->each);
    for (unsigned j = 0; j < s->each; j++)
        mended[j] = mend_key(t, keys[j], tir_add(b, first, att_select_place(s, j)));
    tir_else(b, &branch, mended);
    tir_end_if(b, &branch, keys);
}

/* Sets the limit of an empty buffer, in carried[], from a sample of the part, and issues the loads
 * of the first chunk into carried[]. A sample has SAMPLE runs of each wave, one score in each lane.
 * The limit's rank in the sample is the expected number of the k largest that the sample has, plus
 * an eighth, plus 24. The margin is at least 3.5 standard deviations. So few selections follow, or
 * none before the end. */
static void guess_limit(struct topk *t, struct tir_view scores, struct tir_value *carried)
{
    struct tir_builder *b = &t->b;
    const struct att_select *const s = &t->select;
    const unsigned runs = SAMPLE * b->f->waves;
    const struct tir_value n = t->list.n, of = tir_i32(b, (int)(runs * s->lanes * s->k));
    const struct tir_value share = tir_div(b, of, n);
    const struct tir_value rank =
        att_plus(b, tir_add(b, share, tir_shr(b, share, tir_i32(b, 3))), 24);
    const struct tir_value apart =
        tir_and(b, tir_shr(b, n, tir_i32(b, (int)tir_bits(runs))), tir_i32(b, -(int)s->lanes));
    struct tir_value sample[SAMPLE], at[SAMPLE];
    for (unsigned j = 0; j < SAMPLE; j++) {
        const struct tir_value run = att_plus(b, att_times(b, s->wave, SAMPLE), (int)j);
        at[j] = tir_mul(b, run, apart);
        sample[j] = tir_tile_load(b, scores, at[j], t->score);
    }
    load_chunk(t, scores, tir_i32(b, 0), carried + ATT_SELECT_N);
    att_select_begin_guess(s);
    for (unsigned j = 0; j < SAMPLE; j++)
        sample[j] = key_of(t, sample[j], at[j]);
    att_select_guess(s, carried, sample, SAMPLE, rank);
}

/* Inserts the chunks of a part of n scores (i32) into the buffer. carried[] has the selection's
 * state, and then the first chunk's scores. The next chunk is loaded while one is inserted. */
static void insert_part(struct topk *t, struct tir_view scores, struct tir_value n,
                        struct tir_value *carried)
{
    struct tir_builder *b = &t->b;
    const int chunk = (int)t->select.chunk;
    const unsigned each = t->select.each;
    struct tir_loop loop =
        tir_begin_for(b, tir_i32(b, 0), n, tir_i32(b, chunk), carried, ATT_SELECT_N + each);
    struct tir_value keys[ATT_SELECT_EACH_MAX];
    make_keys(t, scores, carried + ATT_SELECT_N, loop.index, keys);
    att_select_insert(&t->select, carried, keys, loop.index);
    tir_end_for(b, &loop, carried, ATT_SELECT_N + each);
}

/* Most values that the loop over scores carries. */
enum { CARRIED_MAX = ATT_SELECT_N + ATT_SELECT_EACH_MAX };

/* Sets types[] to the types of the values that the loop carries: the selection's state, and the
 * scores of a chunk in flight. */
static void carried_types(struct topk *t, struct tir_type types[CARRIED_MAX])
{
    for (int i = 0; i < CARRIED_MAX; i++)
        types[i] = i < ATT_SELECT_N ? tir_scalar(TIR_I32) : t->score;
}

/* Issues the loads of the first chunk into carried[], after the selection's state. For a part
 * longer than the buffer, a limit is guessed meanwhile. */
static void begin_long(struct topk *t, struct tir_view scores, struct tir_value *carried)
{
    struct tir_builder *b = &t->b;
    const unsigned n = ATT_SELECT_N + t->select.each;
    struct tir_type types[CARRIED_MAX];
    struct tir_value guessed[CARRIED_MAX];
    carried_types(t, types);
    memcpy(guessed, carried, ATT_SELECT_N * sizeof(*guessed));
    const struct tir_value many = tir_cmp_gt(b, t->list.n, tir_i32(b, (int)t->select.room));
    struct tir_if long_part = tir_begin_if(b, many, false, types, n);
    guess_limit(t, scores, guessed);
    tir_else(b, &long_part, guessed);
    load_chunk(t, scores, tir_i32(b, 0), carried + ATT_SELECT_N);
    tir_end_if(b, &long_part, carried);
}

/* Empties the buffer, removes the limit, and loads the first chunk into carried[] again, if `is`
 * (i1) is true. */
static void begin_again(struct topk *t, struct tir_view scores, struct tir_value *carried,
                        struct tir_value is)
{
    struct tir_builder *b = &t->b;
    const unsigned each = t->select.each;
    struct tir_type types[CARRIED_MAX];
    struct tir_value first[ATT_SELECT_EACH_MAX];
    carried_types(t, types);
    struct tir_if branch = tir_begin_if(b, is, true, types + ATT_SELECT_N, each);
    load_chunk(t, scores, tir_i32(b, 0), first);
    tir_else(b, &branch, first);
    tir_end_if(b, &branch, carried + ATT_SELECT_N);
    att_select_restart(&t->select, carried, is);
}

/* Selects from a part of several chunks, starting with the empty state[], and returns the number of
 * buffer entries (i32). Selects a second time without a limit if the guess excluded some of the k
 * largest. */
static struct tir_value select_long(struct topk *t, struct tir_view scores,
                                    const struct tir_value state[ATT_SELECT_N])
{
    struct tir_builder *b = &t->b;
    const struct att_select *const s = &t->select;
    const struct tir_value n = t->list.n, zero = tir_i32(b, 0), k = tir_i32(b, (int)s->k);
    struct tir_value carried[CARRIED_MAX];
    memcpy(carried, state, ATT_SELECT_N * sizeof(*carried));
    begin_long(t, scores, carried);
    struct tir_loop attempts =
        tir_begin_for(b, zero, tir_i32(b, 2), tir_i32(b, 1), carried, ATT_SELECT_N + s->each);
    const struct tir_value few = tir_cmp_lt(b, carried[ATT_SELECT_COUNT], tir_min(b, n, k));
    const struct tir_value again = tir_cmp_gt(b, attempts.index, zero);
    const struct tir_value needed = tir_or(b, few, tir_cmp_eq(b, attempts.index, zero));
    begin_again(t, scores, carried, tir_and(b, few, again));
    insert_part(t, scores, tir_select(b, needed, n, zero), carried);
    tir_end_for(b, &attempts, carried, ATT_SELECT_N + s->each);
    return att_select_end(s, carried);
}

/* Selects from the workgroup's part, starting with the empty state[], and returns the number of
 * buffer entries (i32). A part of one chunk is selected in registers. */
static struct tir_value select_part(struct topk *t, struct tir_value state[ATT_SELECT_N])
{
    struct tir_builder *b = &t->b;
    const struct tir_value zero = tir_i32(b, 0), chunk = tir_i32(b, (int)t->select.chunk);
    const struct tir_view scores =
        att_view(b, part_of(t, ARG_SCORES, ARG_SCORES_ROW_STRIDE), t->list.n, tir_i32(b, 4), 4, 0);
    const struct tir_type type = tir_scalar(TIR_I32);
    struct tir_value loaded[ATT_SELECT_EACH_MAX], keys[ATT_SELECT_EACH_MAX], count;
    struct tir_if one = tir_begin_if(b, tir_cmp_le(b, t->list.n, chunk), false, &type, 1);
    load_chunk(t, scores, zero, loaded);
    for (unsigned j = 0; j < t->select.each; j++)
        keys[j] = key_of(t, loaded[j], att_select_place(&t->select, j));
    count = att_select_whole(&t->select, keys);
    tir_else(b, &one, &count);
    struct tir_value several = select_long(t, scores, state);
    tir_end_if(b, &one, &several);
    return several;
}

/* Returns the output index (i32) for columns `column` (i32, one in each lane) of the part: the
 * position, or its entry of argument source if that is given. */
static struct tir_value name_columns(struct topk *t, struct tir_value column)
{
    struct tir_builder *b = &t->b;
    const struct tir_value own = tir_add(b, column, number(t, t->list.position));
    struct tir_value result = own;
    struct tir_if plain = tir_begin_if(b, t->by_position, false, &t->select.lane, 1);
    tir_else(b, &plain, &own);
    result =
        att_list_gather(&t->list, part_of(t, ARG_SOURCE, ARG_SOURCE_ROW_STRIDE), column, TIR_I32);
    tir_end_if(b, &plain, &result);
    return result;
}

/* Returns the cache slots (i32) of positions `at` (i32) if argument block_table is given, else the
 * positions. */
static struct tir_value slots_or_positions(struct topk *t, struct tir_value at)
{
    struct tir_value result = at;
    struct tir_if plain = tir_begin_if(&t->b, t->no_slots, false, &t->select.lane, 1);
    tir_else(&t->b, &plain, &at);
    result = att_list_slots(&t->list, at);
    tir_end_if(&t->b, &plain, &result);
    return result;
}

/* Returns the scores (f32) of buffer entries `entry` (index), which are at columns `column` (i32)
 * of the part. Zeros and NaNs are read again from memory, since the buffer does not distinguish
 * them. */
static struct tir_value score_of(struct topk *t, struct tir_value entry, struct tir_value column)
{
    struct tir_builder *b = &t->b;
    const struct tir_value held = att_select_score(&t->select, entry);
    const struct tir_value size = tir_abs(b, held);
    const struct tir_value plain = tir_cmp_gt(b, size, tir_float_like(b, size, 0.0f));
    const struct tir_value all =
        tir_cmp_eq(b, tir_lane_count(b, plain), tir_i32(b, (int)t->select.lanes));
    struct tir_value score = held;
    struct tir_if quick = tir_begin_if(b, tir_or(b, all, t->no_values), false, &t->score, 1);
    tir_else(b, &quick, &held);
    score =
        att_list_gather(&t->list, part_of(t, ARG_SCORES, ARG_SCORES_ROW_STRIDE), column, TIR_F32);
    tir_end_if(b, &quick, &score);
    return score;
}

/* Sets out[] to the output index (i32) and the score (f32) of buffer entry `entry`. The function is
 * att_list_names.name. */
static void name_entries(void *context, struct tir_value entry, struct tir_value out[2])
{
    struct topk *t = context;
    const struct tir_value column = att_select_position(&t->select, entry);
    out[0] = slots_or_positions(t, name_columns(t, column));
    out[1] = score_of(t, entry, column);
}

/* Selects the k largest scores of this workgroup's row, or part of a row, and writes their list.
 * state[] is the state of an empty selection. */
static void select_and_write(struct topk *t, struct tir_value state[ATT_SELECT_N])
{
    const struct tir_value count = select_part(t, state);
    t->by_position = att_is_null(&t->b, ARG_SOURCE);
    t->no_slots = att_is_null(&t->b, ARG_BLOCK_TABLE);
    t->no_values = att_is_null(&t->b, ARG_VALUES);
    att_list_write(&t->list, &t->select, count,
                   &(struct att_list_names){.name = name_entries,
                                            .context = t,
                                            .indices = ARG_INDICES,
                                            .values = ARG_VALUES,
                                            .counts = ARG_COUNTS});
}

/* Selects the k largest scores of a row that a plan has divided, from the lists of its parts. Rows
 * that the plan has not divided are already written. state[] is the state of an empty selection. */
static void merge_parts(struct topk *t, struct tir_value state[ATT_SELECT_N])
{
    struct tir_builder *b = &t->b;
    t->list = att_list_of_parts(b, t->select.k);
    struct tir_if some = att_begin_if(b, tir_cmp_gt(b, t->list.n, tir_i32(b, 0)));
    select_and_write(t, state);
    tir_end_if(b, &some, NULL);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves / 2);
    struct topk t = {.b = tir_at_end(f, f->body), .planned = v->planned};
    struct tir_value state[ATT_SELECT_N];
    const struct att_select_size size = size_of(v, &tile, m);
    t.select = att_select_begin(&t.b, &size, NULL, state);
    t.score = t.select.lane;
    t.score.dtype = TIR_F32;
    if (v->planned) {
        merge_parts(&t, state);
    } else {
        t.list = att_list_begin(&t.b, tir_arg(&t.b, ARG_COLUMNS, TIR_I32), ATT_LIST_UNIT);
        select_and_write(&t, state);
    }
    tir_return(&t.b);
    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_ROWS, 1, 1}, {ARG_SPLITS, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d each=%d", tile.waves, tile.own[EACH]);
}

const struct att_template att_template_topk = {
    .name = "topk",
    .description = "the positions of the largest scores of each row",
    .takes = OP_TAKES_TOPK | ATT_BIT(TILE),
    ATT_TILES(tiles, knobs),
    .own = {"each", "steps"},
    .renamed = {"turns", "steps"},
    .fits = fits,
    .check = att_check_tile,
    .build = build,
};
