/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the sparse indexer's scores and selects each query row's largest, in one pass over the
 * keys. A workgroup has a row, a part of a row's keys, or two rows of a sequence. index/score.h
 * computes scores, select/select.h keeps the largest, and no score is written to memory.
 */
#include "op_names.h"
#include "ir/bits.h"
#include "ir/builder.h"
#include "templates/index/pipelines/pipelines.h"
#include "templates/index/score.h"
#include "templates/workgroup/scalar.h"
#include "templates/select/list.h"

#include <stdio.h>
#include <string.h>

enum {
    EACH_MAX = 8,                  /* most scores of a lane in one round */
    N_STATE = ATT_SELECT_N,        /* values of a selection's state */
    ROWS_MAX = ATT_INDEX_ROWS_MAX, /* most rows of scores that share a walk over keys */
    QUIET_NAN = 0x7fc00000,        /* bits of an f32 NaN */
    INFINITE = 0x7f800000,         /* bits of an infinite f32 */
};

/* A row or part of a row of scores, with its selection. A walk is a pass over all rows' keys. */
struct own {
    struct att_list list;     /* the part's range of keys, and its output list */
    struct att_select select; /* buffer of the part's largest scores */
    struct tir_value skip;    /* i32: number of keys of the walk before the part's first key */
    struct tir_value n;       /* i32: number of keys of the walk up to the part's last key */
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct indexer {
    struct tir_builder b;
    struct att_index index;
    struct own row[ROWS_MAX];
    unsigned rows;                   /* number of rows that share the walk */
    struct att_select blocks;        /* selection of row 0's blocks of keys, if top_blocks */
    unsigned top_blocks, block_size; /* number of blocks to select, 0: none; keys of a block */
    bool listed;                     /* true: keys come from the row's list of candidate blocks */
    struct tir_value begin;          /* i32: first key of the walk, a multiple of a group */
    struct tir_value n;              /* i32: number of keys of the walk */
};

/* Index in att_tile.own: 1 if scores are computed in single precision although att_index.pairs
 * would serve them. */
enum { SINGLE };

static const struct att_tile tiles[] = {
    {.rows = 2, .waves = 4, .waves_per_simd = 2, .why = "two rows share the keys that are read"},
    {.rows = 1, .waves = 4, .waves_per_simd = 2, .why = "one selects while another scores"},
    {.rows = 1, .waves = 8, .waves_per_simd = 2, .why = "two waves a SIMD: q stays in registers"},
    {.rows = 1, .waves = 4, .waves_per_simd = 1, .why = "a wave a SIMD: registers for 128 heads"},
    {.rows = 1,
     .waves = 4,
     .waves_per_simd = 2,
     .own = {[SINGLE] = 1},
     .why = "scores as indexer_logits has them, and no clamp of v_cvt_pk_f16_f32"},
};

/* True if products are weighted two at a time, by packed operations (att_index.pairs). */
static bool has_pairs(const struct att_variant *v, const struct att_tile *t,
                      const struct tir_machine *m)
{
    return att_index_has_pairs(v, m) && !t->own[SINGLE];
}

/* Returns the number of workgroups of tile `t` that share a compute unit. */
static unsigned beside(const struct att_tile *t) { return 4u * t->waves_per_simd / t->waves; }

/* Sizes of the buffers for the largest keys and blocks. */
struct sizes {
    struct att_select_size keys, blocks; /* sizes of the buffers of one row */
    unsigned bytes;                      /* bytes of LDS for all rows */
};

/* Returns the buffer sizes for tile `t`. If LDS is too small, a round has half as many keys. */
static struct sizes sizes_of(const struct att_variant *v, const struct att_tile *t,
                             const struct tir_machine *m)
{
    struct sizes s = {0};
    for (unsigned each = EACH_MAX; each >= EACH_MAX / 2; each /= 2) {
        const unsigned chunk = each * t->waves * tir_lanes(m);
        const unsigned k = (unsigned)v->top_blocks;
        unsigned left = t->rows > 1 ? m->lds_bytes / (beside(t) * t->rows) : m->lds_bytes;
        unsigned taken = 0;
        if (k) {
            s.blocks = att_select_size(k, each, chunk / (unsigned)v->block_size, t->waves, 0);
            taken = att_select_beside_bytes(s.blocks.room, t->waves);
            left = taken < left ? left - taken : 0;
        }
        s.keys = att_select_size((unsigned)v->top_k, each, chunk, t->waves, left);
        s.keys.later = s.blocks.later = v->ties == ATT_TIES_LARGER;
        s.bytes = att_select_lds_bytes(s.keys.room, t->waves) + taken;
        for (unsigned row = 1; row < t->rows; row++)
            s.bytes += att_select_beside_bytes(s.keys.room, t->waves);
        if (s.bytes <= m->lds_bytes)
            break;
    }
    return s;
}

/* True if the tile's rows can share keys; if not, the reason is in `why`. Two rows need
 * att_index.pairs, which leaves registers for the q of both rows, of 64 heads each. */
static bool fits_rows(const struct att_variant *v, const struct att_tile *t,
                      const struct tir_machine *m, struct att_why *why)
{
    enum { HEADS = 64 };
    if (t->rows == 1)
        return true;
    if (v->planned || v->listed || v->top_blocks)
        return att_reject(why, ATT_TILE, "rows share no keys with planned, listed or top_blocks");
    if (!att_index_has_pairs(v, m) || v->index_heads > HEADS)
        return att_reject(why, ATT_TILE, "no registers for the q of %d rows of %d heads", t->rows,
                          v->index_heads);
    return true;
}

/* True if tile `t` serves the variant; if not, the reason is in `why`. Two waves a SIMD have 256
 * registers each; fp8 q and weights of 128 heads take half of them, 16-bit q twice as many. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const bool wide = v->index_keys == ATT_INDEX_KEYS_BF16 || v->index_keys == ATT_INDEX_KEYS_FP16;
    const int heads = wide ? 64 : 96;
    if (v->index_heads > heads && t->waves_per_simd > 1)
        return att_reject(why, ATT_TILE, "%d waves a SIMD have no registers for the q of %d heads",
                          t->waves_per_simd, v->index_heads);
    if (!fits_rows(v, t, m, why))
        return false;
    const struct sizes s = sizes_of(v, t, m);
    const unsigned most = s.keys.room > s.blocks.room ? s.keys.room : s.blocks.room;
    if (!att_select_holds(most, t->waves * tir_lanes(m)))
        return att_reject(why, ATT_TILE, "%d waves have no registers for %u entries", t->waves,
                          most);
    if (s.bytes * beside(t) > m->lds_bytes)
        return att_reject(why, ATT_TOP_K, "top_k %d takes %u bytes of LDS, %s has %u", v->top_k,
                          s.bytes, m->name, m->lds_bytes);
    if (t->own[SINGLE] && !att_index_has_pairs(v, m))
        return att_reject(why, ATT_TILE, "scores are of single precision in any case");
    return true;
}

/* True if the template serves the variant; if not, the reason is in `why`. */
static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    if (!tir_is_power((unsigned)v->block_size))
        return att_reject(why, ATT_BLOCK_SIZE, "block_size %d is no power of two", v->block_size);
    if (v->listed && v->planned)
        return att_reject(why, ATT_PLANNED, "planned is set, and listed");
    if (v->listed && v->top_blocks)
        return att_reject(why, ATT_TOP_BLOCKS, "top_blocks is set, and listed");
    if (v->planned && v->top_blocks && v->block_size > ATT_LIST_UNIT)
        return att_reject(why, ATT_BLOCK_SIZE, "a plan divides rows in multiples of %d keys",
                          ATT_LIST_UNIT);
    return att_find_tile(v, m, &tile, why) && att_index_check(v, m, why);
}

/* Returns the selection of row 0; the selections of all rows have its sizes. */
static const struct att_select *chunk_of(const struct indexer *x) { return &x->row[0].select; }

/* Returns the index (i32) of the key of lane 0's score j (index), in the round that begins at
 * position `round` (i32) of the walk. */
static struct tir_value key_at(struct indexer *x, struct tir_value round, unsigned j)
{
    struct tir_builder *b = &x->b;
    const struct tir_value at = tir_add(b, round, att_select_place(chunk_of(x), j));
    return tir_add(b, x->begin, at);
}

/* Returns the keys that the wave scores in the round at position `round` (i32) of the walk. */
static struct att_index_walk walk_at(struct indexer *x, struct tir_value round)
{
    return (struct att_index_walk){
        .own = key_at(x, round, 0),
        .stride = (int)chunk_of(x)->chunk,
        .groups = chunk_of(x)->each * x->index.lanes / x->index.group,
    };
}

/* Indices of a row's values among those that the loop over rounds carries: the selection's state,
 * the buffer entry at which to append, and the previous round's selection keys, appended meanwhile.
 * Loads in flight and the blocks' selection state follow all rows' values. */
enum {
    TO = N_STATE,
    KEYS,
    ROW_CARRIED = KEYS + EACH_MAX,
    CARRIED_MAX = ROWS_MAX * ROW_CARRIED + ATT_INDEX_CARRIED_MAX + N_STATE
};

/* Returns a pointer to the loads in flight among the loop's carried values. */
static struct tir_value *way_of(const struct indexer *x, struct tir_value *carried)
{
    return carried + x->rows * ROW_CARRIED;
}

/* Returns the number of carried values before the state of the blocks' selection. */
static unsigned carried_before_blocks(const struct indexer *x)
{
    return x->rows * ROW_CARRIED + att_index_carried(&x->index);
}

/* Returns a pointer to the state of the blocks' selection in the loop's carried values. */
static struct tir_value *blocks_state(const struct indexer *x, struct tir_value *carried)
{
    return carried + carried_before_blocks(x);
}

/* The maximum so far of a block of keys whose scores are in several sets. */
struct open_block {
    struct tir_value maxima;   /* f32: the largest score so far, in all lanes */
    struct tir_value position; /* i32: position of each lane's first key */
    struct tir_value there;    /* i1: the lane's first key exists */
};

/* A round of scores in progress. */
struct round {
    struct indexer *x;
    struct tir_value first;    /* i32: position in the walk at which the round begins */
    struct tir_value *carried; /* the values that the loop carries */
    struct tir_value keys[ROWS_MAX][EACH_MAX], blocks[EACH_MAX], own[ROWS_MAX];
    struct open_block open;
};

/* Appends the selection keys of set `j` above row `row`'s limit to its buffer, and advances the
 * carried entry TO. `first` (i32): position in the walk at which the round begins. */
static void append(struct indexer *x, struct tir_value *carried, unsigned row, unsigned j,
                   struct tir_value first)
{
    const struct att_select *const s = &x->row[row].select;
    struct tir_value *const own = carried + row * ROW_CARRIED;
    const struct tir_value at = tir_add(&x->b, first, att_select_place(s, j));
    own[TO] = att_select_append(s, own[ATT_SELECT_LIMIT], own[KEYS + j], at, own[TO]);
}

/* Appends set `j` of the previous round's selection keys of row `row`: att_index_user.prepare. */
static void append_former(void *context, unsigned row, unsigned j)
{
    struct round *r = context;
    append(r->x, r->carried, row, j, att_plus(&r->x->b, r->first, -(int)chunk_of(r->x)->chunk));
}

/* Returns an i1 for each lane: true if its block is among the row's first or last ones, always
 * selected. `position` (i32) is the key's position in the walk. */
static struct tir_value is_pinned(struct indexer *x, struct tir_value position)
{
    struct tir_builder *b = &x->b;
    const struct own *const own = &x->row[0];
    const struct tir_type lane = own->select.lane;
    const int size = (int)x->block_size;
    const struct tir_value ahead = tir_sub(b, own->list.position, own->skip);
    const struct tir_value place = tir_add(b, position, tir_splat(b, ahead, lane));
    const struct tir_value whole =
        tir_and(b, att_plus(b, own->list.all, size - 1), tir_i32(b, -size));
    const struct tir_value last = att_times(b, tir_arg(b, ARG_LAST_BLOCKS, TIR_I32), size);
    const struct tir_value first = att_times(b, tir_arg(b, ARG_FIRST_BLOCKS, TIR_I32), size);
    return tir_or(b, tir_cmp_lt(b, place, tir_splat(b, first, lane)),
                  tir_cmp_ge(b, place, tir_splat(b, tir_sub(b, whole, last), lane)));
}

/* Returns the number of keys of a block in one set of scores: all, or as many as a wave has
 * lanes. */
static unsigned block_lanes(const struct indexer *x)
{
    return x->block_size < x->index.lanes ? x->block_size : x->index.lanes;
}

/* Returns the largest of `scores` (f32, a set) of each block, in all lanes of the block. Scores for
 * which `there` (i1) is false become NaNs, which a maximum ignores. */
static struct tir_value block_maxima(struct indexer *x, struct tir_value scores,
                                     struct tir_value there)
{
    struct tir_builder *b = &x->b;
    const struct tir_type t = tir_typeof(b->f, scores);
    const struct tir_value nan =
        tir_bitcast(b, tir_splat(b, tir_i32(b, QUIET_NAN), chunk_of(x)->lane), t);
    const struct tir_value present = tir_select(b, there, scores, nan);
    const struct tir_value blocks = tir_join_blocks(b, present, block_lanes(x));
    const struct tir_value most =
        tir_broadcast(b, tir_col_max(b, blocks), tir_typeof(b->f, blocks));
    return tir_split_blocks(b, most, 1);
}

/* Returns each block's selection key (i32) in its first key's lane, else the key of no score. Lanes
 * have the block's score `maxima` (f32), `position` (i32), and `there` (i1): the key exists. */
static struct tir_value block_keys(struct indexer *x, struct tir_value maxima,
                                   struct tir_value position, struct tir_value there)
{
    struct tir_builder *b = &x->b;
    const struct tir_type t = tir_typeof(b->f, maxima);
    const struct tir_value lane = chunk_of(x)->lane_index;
    const struct tir_value inside =
        tir_and(b, lane, tir_int_like(b, lane, (int)block_lanes(x) - 1));
    const struct tir_value first = tir_cmp_eq(b, inside, tir_int_like(b, inside, 0));
    const struct tir_value always =
        tir_bitcast(b, tir_splat(b, tir_i32(b, INFINITE), chunk_of(x)->lane), t);
    const struct tir_value score = tir_select(b, is_pinned(x, position), always, maxima);
    return att_select_key(b, score, tir_and(b, there, first));
}

/* Computes the selection keys of the blocks in set `j` of a round, inserted after the round. Lanes
 * have `scores` (f32), `position` in the walk (i32), `there` (i1): the key exists. If a block spans
 * several sets, its key is complete after the last and stored for the first. */
static void take_blocks(struct round *r, unsigned j, struct tir_value scores,
                        struct tir_value position, struct tir_value there)
{
    struct indexer *x = r->x;
    struct tir_builder *b = &x->b;
    const struct tir_value maxima = block_maxima(x, scores, there);
    if (x->block_size <= x->index.lanes) {
        r->blocks[j] = block_keys(x, maxima, position, there);
        return;
    }
    const unsigned tiles = x->block_size / x->index.lanes, tile = j % tiles;
    r->blocks[j] = att_select_no_key(&x->blocks);
    if (tile == 0)
        r->open = (struct open_block){maxima, position, there};
    else
        r->open.maxima = tir_max(b, r->open.maxima, maxima);
    if (tile == tiles - 1)
        r->blocks[j - tile] = block_keys(x, r->open.maxima, r->open.position, r->open.there);
}

/* Computes the selection keys of set `j` of row `row`'s scores, and counts the keys above the
 * limit: the consumer's att_index_user.take. */
static void take(void *context, unsigned row, unsigned j, struct tir_value scores)
{
    struct round *r = context;
    struct indexer *x = r->x;
    struct tir_builder *b = &x->b;
    const struct own *const own = &x->row[row];
    const struct att_select *const s = &own->select;
    const struct tir_value at = tir_add(b, r->first, att_select_place(s, j));
    const struct tir_value position = tir_add(b, s->lane_index, tir_splat(b, at, s->lane));
    const struct tir_value there =
        tir_cmp_ult(b, tir_sub(b, position, tir_splat(b, own->skip, s->lane)),
                    tir_splat(b, tir_sub(b, own->n, own->skip), s->lane));
    const struct tir_value limit = r->carried[row * ROW_CARRIED + ATT_SELECT_LIMIT];
    r->keys[row][j] = att_select_key(b, scores, there);
    if (x->top_blocks)
        take_blocks(r, j, scores, position, there);
    r->own[row] = tir_add(b, r->own[row], att_select_passing(s, limit, r->keys[row][j]));
}

/* Reserves entries of all rows' buffers for the keys of a round that exceed the limits. Updates the
 * rows' state in carried[], the values that the loop carries. */
static void reserve(struct indexer *x, struct round *r, struct tir_value *carried)
{
    const struct att_select *selects[ROWS_MAX];
    const struct tir_value *keys[ROWS_MAX];
    struct tir_value *state[ROWS_MAX], to[ROWS_MAX];
    for (unsigned row = 0; row < x->rows; row++) {
        selects[row] = &x->row[row].select;
        keys[row] = r->keys[row];
        state[row] = carried + row * ROW_CARRIED;
        memcpy(state[row] + KEYS, keys[row], selects[row]->each * sizeof(keys[row][0]));
    }
    if (x->rows == 2)
        att_select_reserve_both(selects, state, keys, r->own, to);
    else
        to[0] = att_select_reserve(selects[0], state[0], keys[0], r->own[0]);
    for (unsigned row = 0; row < x->rows; row++)
        state[row][TO] = to[row];
}

/* Computes the round that begins at position `first` (i32) of the walk. carried[]: the values that
 * the loop carries. */
static void visit(struct indexer *x, struct tir_value first, struct tir_value *carried)
{
    const struct att_index_walk walk = walk_at(x, first);
    struct round r = {.x = x, .first = first, .carried = carried};
    for (unsigned row = 0; row < x->rows; row++)
        r.own[row] = tir_i32(&x->b, 0);
    att_index_score(&x->index, &walk, way_of(x, carried),
                    &(struct att_index_user){append_former, take, &r});
    reserve(x, &r, carried);
    if (x->top_blocks)
        att_select_insert(&x->blocks, blocks_state(x, carried), r.blocks, first);
}

/* Appends the keys of the last round of `chunk` (i32) keys, and updates carried[]. */
static void append_last(struct indexer *x, struct tir_value *carried, struct tir_value chunk)
{
    struct tir_builder *b = &x->b;
    const struct tir_value rounds = tir_div(b, att_plus(b, x->n, -1), chunk);
    for (unsigned row = 0; row < x->rows; row++)
        for (unsigned j = 0; j < chunk_of(x)->each; j++)
            append(x, carried, row, j, tir_mul(b, rounds, chunk));
}

/* Returns the end (i32) of the range of keys that the rows' parts cover together. Sets x->begin,
 * x->n, and *seen to the range's first key. */
static struct tir_value span(struct indexer *x, struct tir_value *seen)
{
    struct tir_builder *b = &x->b;
    struct tir_value first = x->row[0].list.first, end = tir_add(b, first, x->row[0].list.n);
    for (unsigned row = 1; row < x->rows; row++) {
        const struct att_list *const l = &x->row[row].list;
        first = tir_min(b, first, l->first);
        end = tir_max(b, end, tir_add(b, l->first, l->n));
    }
    *seen = first;
    x->begin = tir_and(b, first, tir_i32(b, -(int)x->index.group));
    x->n = tir_sub(b, end, x->begin);
    for (unsigned row = 0; row < x->rows; row++) {
        struct own *const own = &x->row[row];
        own->skip = tir_sub(b, own->list.first, x->begin);
        own->n = tir_add(b, own->skip, own->list.n);
    }
    return end;
}

/* Sets carried[] to the loop's values before the first round, from the selection's state[], and
 * issues the first loads. Keys `first` to `end` - 1 (i32) may be read. */
static void begin_walk(struct indexer *x, const struct tir_value *state, struct tir_value first,
                       struct tir_value end, struct tir_value *carried)
{
    struct tir_value rows[ROWS_MAX];
    for (unsigned row = 0; row < x->rows; row++) {
        struct tir_value *const own = carried + row * ROW_CARRIED;
        rows[row] = x->row[row].list.row;
        memcpy(own, state + row * N_STATE, N_STATE * sizeof(*own));
        own[TO] = tir_i32(&x->b, 0);
        for (unsigned j = 0; j < EACH_MAX; j++)
            own[KEYS + j] = att_select_no_key(chunk_of(x));
    }
    att_index_rows(&x->index, rows, x->rows, first, end);
    memcpy(blocks_state(x, carried), state + x->rows * N_STATE, N_STATE * sizeof(*carried));
    const struct att_index_walk walk = walk_at(x, tir_i32(&x->b, 0));
    att_index_send(&x->index, &walk, way_of(x, carried));
}

/* Selects among the keys of the rows' parts; loads nothing without keys. Updates state[], the
 * states of the selections of rows and blocks. */
static void select_keys(struct indexer *x, struct tir_value *state)
{
    struct tir_builder *b = &x->b;
    const struct tir_value zero = tir_i32(b, 0);
    const unsigned n_state = x->rows * N_STATE + (x->top_blocks ? N_STATE : 0);
    struct tir_value first;
    const struct tir_value end = span(x, &first);
    struct tir_type types[(ROWS_MAX + 1) * N_STATE];
    for (unsigned i = 0; i < n_state; i++)
        types[i] = tir_scalar(TIR_I32);
    struct tir_if some =
        tir_begin_if(b, tir_cmp_gt(b, x->row[0].list.n, zero), false, types, n_state);
    struct tir_value carried[CARRIED_MAX], done[(ROWS_MAX + 1) * N_STATE];
    begin_walk(x, state, first, end, carried);
    const unsigned n = carried_before_blocks(x) + (x->top_blocks ? N_STATE : 0);
    const struct tir_value chunk = tir_i32(b, (int)chunk_of(x)->chunk);
    struct tir_loop loop = tir_begin_for(b, zero, x->n, chunk, carried, n);
    visit(x, loop.index, carried);
    tir_end_for(b, &loop, carried, n);
    append_last(x, carried, chunk);
    for (unsigned row = 0; row < x->rows; row++)
        memcpy(done + row * N_STATE, carried + row * ROW_CARRIED, N_STATE * sizeof(*done));
    memcpy(done + x->rows * N_STATE, blocks_state(x, carried), N_STATE * sizeof(*done));
    tir_else(b, &some, done);
    tir_end_if(b, &some, state);
}

/* The row whose buffer entries name_entries() or name_blocks() converts to output entries. */
struct named {
    struct indexer *x;
    const struct own *own;
};

/* Returns the position (i32) in its sequence of the key at position `walked` (i32) of the walk. */
static struct tir_value position_of(const struct named *w, struct tir_value walked)
{
    struct indexer *const x = w->x;
    struct tir_builder *b = &x->b;
    const struct att_list *const list = &w->own->list;
    const struct tir_type lane = chunk_of(x)->lane;
    const struct tir_value found = tir_sub(b, walked, tir_splat(b, w->own->skip, lane));
    const struct tir_value place = tir_add(b, found, tir_splat(b, list->position, lane));
    if (!x->listed)
        return place;
    const struct tir_value bits = tir_int_like(b, place, (int)tir_bits(x->block_size));
    const struct tir_value block =
        att_list_gather(list, x->index.list, tir_shr(b, place, bits), TIR_I32);
    const struct tir_value inside =
        tir_and(b, place, tir_int_like(b, place, (int)x->block_size - 1));
    return tir_add(b, tir_shl(b, block, bits), inside);
}

/* Sets out[] to the index and the score of buffer entry `entry`; see att_list_names. The index is a
 * position, or a slot of the cache. */
static void name_entries(void *context, struct tir_value entry, struct tir_value out[2])
{
    const struct named *const w = context;
    const struct att_list *const list = &w->own->list;
    const struct att_select *const s = &w->own->select;
    struct tir_builder *b = &w->x->b;
    const struct tir_value own = position_of(w, att_select_position(s, entry));
    out[0] = own;
    out[1] = att_select_score(s, entry);
    if (!w->x->index.paged)
        return;
    struct tir_value slots = tir_cmp_ne(b, tir_arg(b, ARG_AS_SLOTS, TIR_I32), tir_i32(b, 0));
    if (list->partial.id)
        slots = tir_and(b, slots, tir_cmp_lt(b, list->partial, tir_i32(b, 0)));
    struct tir_if branch = tir_begin_if(b, slots, false, &s->lane, 1);
    const struct tir_value key = tir_add(b, own, tir_splat(b, list->start, s->lane));
    const struct tir_value slot = att_list_slots(list, key);
    tir_else(b, &branch, &slot);
    tir_end_if(b, &branch, out);
}

/* Sets out[] to the number and the score of the block in buffer entry `entry`; see
 * att_list_names. */
static void name_blocks(void *context, struct tir_value entry, struct tir_value out[2])
{
    const struct named *const w = context;
    struct indexer *const x = w->x;
    const struct tir_value own = position_of(w, att_select_position(&x->blocks, entry));
    out[0] = tir_shr(&x->b, own, tir_int_like(&x->b, own, (int)tir_bits(x->block_size)));
    out[1] = att_select_score(&x->blocks, entry);
}

enum { HALVINGS = 27 }; /* bisection steps for a list of max_candidates, 2^26 */

/* Loads entry `n` (i32) of the row's list of candidate blocks. */
static struct tir_value load_candidate(struct indexer *x, struct tir_value n)
{
    return tir_scalar_load(&x->b, x->index.list, tir_shl(&x->b, n, tir_i32(&x->b, 2)), TIR_I32);
}

/* Drops the blocks of the row's list that begin after its `all` keys. Returns the number that
 * remain of `count` ascending blocks, and sets *block to the last of these. */
static struct tir_value drop_blocks(struct indexer *x, struct tir_value count, struct tir_value all,
                                    struct tir_value *block)
{
    struct tir_builder *b = &x->b;
    const struct tir_value zero = tir_i32(b, 0), one = tir_i32(b, 1);
    const struct tir_value shift = tir_i32(b, (int)tir_bits(x->block_size));
    const struct tir_value whole = tir_cmp_lt(b, tir_shl(b, *block, shift), all);
    const struct tir_value steps = tir_select(b, whole, zero, tir_i32(b, HALVINGS));
    struct tir_value range[] = {tir_select(b, whole, count, zero), count, *block};
    struct tir_loop loop = tir_begin_for(b, zero, steps, one, range, 3);
    const struct tir_value middle = tir_shr(b, tir_add(b, range[0], range[1]), one);
    const struct tir_value found = load_candidate(x, middle);
    const struct tir_value before = tir_cmp_lt(b, tir_shl(b, found, shift), all);
    range[0] = tir_select(b, before, tir_add(b, middle, one), range[0]);
    range[1] = tir_select(b, before, range[1], middle);
    range[2] = tir_select(b, before, found, range[2]);
    tir_end_for(b, &loop, range, 3);
    *block = range[2];
    return range[0];
}

/* Replaces the row's range of keys by positions in its list of candidate blocks. All blocks are
 * complete except the last one that the row sees, which may extend beyond the row's end. */
static void open_list(struct indexer *x)
{
    struct tir_builder *b = &x->b;
    struct att_list *const list = &x->row[0].list;
    const struct tir_value zero = tir_i32(b, 0);
    const int size = (int)x->block_size;
    const struct tir_value row = att_offset(b, list->row, ARG_CANDIDATES_ROW_STRIDE, 4);
    x->index.list = att_at(b, ARG_CANDIDATES, row);
    x->index.start = list->start;
    const struct tir_value all = att_entry(b, ARG_CANDIDATE_COUNTS, list->row, TIR_I32);
    struct tir_value block = load_candidate(x, tir_max(b, att_plus(b, all, -1), zero));
    const struct tir_value count = drop_blocks(x, all, list->all, &block);
    const struct tir_value over = tir_sub(b, att_times(b, att_plus(b, block, 1), size), list->all);
    const struct tir_value n = tir_sub(b, att_times(b, count, size), tir_max(b, over, zero));
    att_list_cut(list, zero, tir_max(b, n, zero), ATT_LIST_UNIT);
    list->start = x->index.start;
}

/* ---- kv_indptr ---- */

/* Returns the number of selected keys of each lane's row, from row `first` (i32) on: the visible
 * keys, at most top_k. */
static struct tir_value count_rows(struct indexer *x, struct tir_value first)
{
    struct tir_builder *b = &x->b;
    const struct tir_value rows = tir_arg(b, ARG_ROWS, TIR_I32), four = tir_i32(b, 4);
    const struct tir_value starts = tir_arg(b, ARG_ROW_STARTS, TIR_I64);
    const struct tir_value none = tir_cmp_eq(b, starts, tir_i64(b, 0));
    const struct tir_value n_starts = tir_select(b, none, tir_i32(b, 0), rows);
    const struct tir_value ends_at = tir_arg(b, ARG_ROW_ENDS, TIR_I64);
    const struct tir_value start =
        tir_tile_load(b, att_view(b, starts, n_starts, four, 4, 0), first, chunk_of(x)->lane);
    const struct tir_value end =
        tir_tile_load(b, att_view(b, ends_at, rows, four, 4, 0), first, chunk_of(x)->lane);
    const struct tir_value zero = tir_int_like(b, end, 0);
    const struct tir_value sees = tir_sub(b, end, tir_max(b, start, zero));
    return tir_min(b, tir_max(b, sees, zero), tir_int_like(b, end, (int)chunk_of(x)->k));
}

/* Writes kv_indptr for all rows. Only the first wave of the workgroup with `group` (i32) 0
 * writes. */
static void write_indptr(struct indexer *x, struct tir_value group)
{
    struct tir_builder *b = &x->b;
    const struct tir_value out = tir_arg(b, ARG_KV_INDPTR, TIR_I64), zero = tir_i32(b, 0);
    const struct tir_value wave = tir_or(b, group, chunk_of(x)->wave);
    const struct tir_value own =
        tir_and(b, tir_cmp_eq(b, wave, zero), tir_cmp_ne(b, out, tir_i64(b, 0)));
    const struct tir_value n = att_plus(b, tir_arg(b, ARG_ROWS, TIR_I32), 1);
    struct tir_if first = att_begin_if(b, own);
    const struct tir_view indptr = att_view(b, out, n, tir_i32(b, 4), 4, 0);
    struct tir_value total = zero;
    struct tir_loop loop = tir_begin_for(b, zero, n, tir_i32(b, (int)x->index.lanes), &total, 1);
    const struct tir_value counts = count_rows(x, loop.index);
    const struct tir_value before = tir_lane_sum_below(b, counts);
    const struct tir_value last = tir_i32(b, (int)x->index.lanes - 1);
    tir_tile_store(b, indptr, loop.index,
                   tir_add(b, before, tir_splat(b, total, chunk_of(x)->lane)));
    total = tir_add(b, total,
                    tir_add(b, tir_lane_read(b, before, last), tir_lane_read(b, counts, last)));
    tir_end_for(b, &loop, &total, 1);
    tir_end_if(b, &first, NULL);
}

/* ---- Workgroups ---- */

/* Returns the unit, in keys, by which a plan divides rows into parts. A unit has whole blocks of
 * keys. */
static unsigned unit_of(const struct indexer *x)
{
    const bool large = x->top_blocks && x->block_size > ATT_LIST_UNIT;
    return large ? x->block_size : ATT_LIST_UNIT;
}

/* Selects for the parts of rows in x, beginning with the state `empty` of each selection, and
 * writes the results. */
static void select_parts(struct indexer *x, const struct tir_value empty[N_STATE])
{
    struct tir_value state[(ROWS_MAX + 1) * N_STATE];
    for (unsigned i = 0; i <= x->rows; i++)
        memcpy(state + i * N_STATE, empty, N_STATE * sizeof(*state));
    select_keys(x, state);
    for (unsigned row = 0; row < x->rows; row++) {
        struct named named = {x, &x->row[row]};
        const struct att_select *const s = &named.own->select;
        att_list_write(&named.own->list, s, att_select_end(s, state + row * N_STATE),
                       &(struct att_list_names){name_entries, &named, ARG_INDICES, ARG_VALUES,
                                                ARG_COUNTS, ARG_PARTIAL_INDICES,
                                                ARG_PARTIAL_VALUES});
    }
    struct named named = {x, &x->row[0]};
    if (x->top_blocks)
        att_list_write(&x->row[0].list, &x->blocks, att_select_end(&x->blocks, state + N_STATE),
                       &(struct att_list_names){name_blocks, &named, ARG_BLOCKS, ARG_BLOCK_VALUES,
                                                ARG_BLOCK_COUNTS, ARG_PARTIAL_BLOCKS,
                                                ARG_PARTIAL_BLOCK_VALUES});
}

/* Selects and writes the keys of all items of the workgroup, each from the empty state empty[]. A
 * barrier precedes an item's first append: all entries of the previous item are read by then. */
static void select_items(struct indexer *x, const struct tir_value empty[N_STATE])
{
    struct tir_builder *b = &x->b;
    const struct tir_value indptr = tir_arg(b, ARG_WORK_INDPTR, TIR_I64);
    const struct tir_value at = tir_shl(b, tir_block_id(b, 0), tir_i32(b, 2));
    const struct tir_value first = tir_scalar_load(b, indptr, at, TIR_I32);
    const struct tir_value end = tir_scalar_load(b, indptr, att_plus(b, at, 4), TIR_I32);
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, 1), NULL, 0);
    x->row[0].list = att_list_of_item(b, loop.index);
    select_parts(x, empty);
    tir_end_for(b, &loop, NULL, 0);
}

/* Returns an i1: true if the two consecutive rows l[] see almost the same keys of one sequence. */
static struct tir_value are_alike(struct indexer *x, const struct att_list *l)
{
    struct tir_builder *b = &x->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value ends[] = {tir_add(b, l[0].first, l[0].n),
                                     tir_add(b, l[1].first, l[1].n)};
    const struct tir_value all =
        tir_sub(b, tir_max(b, ends[0], ends[1]), tir_min(b, l[0].first, l[1].first));
    const struct tir_value more = tir_sub(b, all, tir_max(b, l[0].n, l[1].n));
    const struct tir_value fewer = tir_min(b, l[0].n, l[1].n);
    const struct tir_value most = tir_min(b, fewer, tir_i32(b, (int)chunk_of(x)->chunk - 1));
    const struct tir_value some = tir_cmp_gt(b, fewer, zero);
    const struct tir_value alike = tir_and(b, tir_cmp_le(b, more, most), some);
    if (!x->index.paged)
        return alike;
    const struct tir_value second = att_index_sequence(b, l[1].row);
    const struct tir_value first = att_index_sequence(b, l[0].row);
    return tir_and(b, alike, tir_cmp_eq(b, first, second));
}

/* Selects the keys of rows `first` to `end` - 1 (i32), one by one, from the empty state empty[]. */
static void select_each(struct indexer *x, struct tir_value first, struct tir_value end,
                        const struct tir_value empty[N_STATE])
{
    struct tir_builder *b = &x->b;
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, 1), NULL, 0);
    x->rows = 1;
    x->row[0].list = att_list_of_row(b, loop.index);
    select_parts(x, empty);
    tir_end_for(b, &loop, NULL, 0);
}

/* Selects rows in pairs, from the empty state empty[]. With half as many workgroups as rows,
 * workgroup i has rows 2i and 2i + 1. With as many workgroups as rows it has row i. */
static void select_pairs(struct indexer *x, const struct tir_value empty[N_STATE])
{
    struct tir_builder *b = &x->b;
    const struct tir_type bit = tir_scalar(TIR_I1);
    const struct tir_value one = tir_i32(b, 1), n = tir_arg(b, ARG_ROWS, TIR_I32);
    const struct tir_value paired = tir_cmp_le(b, tir_arg(b, ARG_ROW_HALVES, TIR_I32), n);
    const struct tir_value id = tir_block_id(b, 0);
    const struct tir_value first = tir_select(b, paired, tir_shl(b, id, one), id);
    const struct tir_value second =
        tir_select(b, paired, tir_min(b, att_plus(b, first, 1), att_plus(b, n, -1)), first);
    const struct tir_value no = tir_bool(b, false);
    struct tir_value share = no;
    struct tir_if two = tir_begin_if(b, tir_cmp_ne(b, first, second), false, &bit, 1);
    x->row[0].list = att_list_of_row(b, first);
    x->row[1].list = att_list_of_row(b, second);
    const struct tir_value alike =
        are_alike(x, (struct att_list[]){x->row[0].list, x->row[1].list});
    tir_else(b, &two, &alike);
    tir_end_if(b, &two, &share);
    struct tir_if both = att_begin_if(b, share);
    x->row[0].list = att_list_of_row(b, first);
    x->row[1].list = att_list_of_row(b, second);
    x->rows = ROWS_MAX;
    select_parts(x, empty);
    tir_else(b, &both, NULL);
    select_each(x, first, att_plus(b, second, 1), empty);
    tir_end_if(b, &both, NULL);
}

/* Selects and writes the workgroup's rows, from the state empty[]; `pairs`: by select_pairs(). */
static void select_all(struct indexer *x, const struct att_variant *v, bool pairs,
                       const struct tir_value empty[N_STATE])
{
    struct tir_builder *const b = &x->b;
    const struct tir_value group = tir_or(b, tir_block_id(b, 0), tir_block_id(b, 1));
    /* true: indptr is written first, since later no scalar registers are left for it */
    const bool early = x->top_blocks || v->planned || pairs;
    x->rows = 1;
    if (!v->planned && !pairs)
        x->row[0].list = att_list_begin(b, (struct tir_value){0}, unit_of(x));
    if (x->listed)
        open_list(x);
    else if (early)
        write_indptr(x, group);
    if (v->planned)
        select_items(x, empty);
    else if (pairs)
        select_pairs(x, empty);
    else
        select_parts(x, empty);
    if (!x->listed && !early)
        write_indptr(x, group);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct indexer x = {.b = tir_at_end(f, f->body)};
    const struct sizes sizes = sizes_of(v, &tile, m);
    struct tir_value state[N_STATE];
    x.top_blocks = (unsigned)v->top_blocks;
    x.block_size = (unsigned)v->block_size;
    x.listed = v->listed;
    x.index = att_index_begin(&x.b, v, has_pairs(v, &tile, m));
    for (unsigned row = 0; row < tile.rows; row++)
        x.row[row].select = att_select_begin(&x.b, &sizes.keys, row ? chunk_of(&x) : NULL, state);
    if (x.top_blocks)
        x.blocks = att_select_begin(&x.b, &sizes.blocks, chunk_of(&x), state);
    select_all(&x, v, tile.rows > 1, state);
    tir_return(&x.b);
    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_WORKGROUPS, 1, 1}, {ARG_SPLITS, 1, 1}, {NULL, 1, 1}},
    };
    if (tile.rows > 1)
        k->grid[0] = (struct att_grid){ARG_ROW_HALVES, 2, 1};
    snprintf(k->tuning, sizeof(k->tuning), "rows=%d waves=%d keys=%d%s", tile.rows, tile.waves,
             tile.waves * (int)(sizes.keys.each * tir_lanes(m)),
             tile.own[SINGLE] ? " precision=single" : "");
}

const struct att_template att_template_indexer_topk = {
    .name = "indexer_topk",
    .description = "the sparse indexer: the keys that score highest against each query",
    .takes = OP_TAKES_INDEXER_TOPK | ATT_BIT(TILE),
    .tiles = tiles,
    .n_tiles = sizeof(tiles) / sizeof(tiles[0]),
    .own = {"single"},
    .pipelines = att_index_pipelines,
    .fits = fits,
    .check = check,
    .build = build,
};
