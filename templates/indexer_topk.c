/* SPDX-License-Identifier: Apache-2.0
 *
 * The sparse indexer's scores and the selection of the largest, in one pass over the keys: a
 * workgroup has a query row, or the row and a part of its keys. index_score.h makes the scores,
 * select.h keeps the largest; no score goes to memory.
 */
#include "op_names.h"
#include "ir/bits.h"
#include "ir/builder.h"
#include "templates/index_score.h"
#include "templates/scalar.h"
#include "templates/select_list.h"

#include <stdio.h>
#include <string.h>

enum {
    EACH_MAX = 8, /* scores of a lane, in one round */
    LANES = ATT_SELECT_LANES,
    QUIET_NAN = 0x7fc00000,
};

struct indexer {
    struct tir_builder b;
    struct att_index index;
    struct att_select select, blocks; /* of keys, and of blocks of them */
    struct att_list list;
    unsigned top_blocks, block_size;
    bool listed;
    struct tir_value begin; /* the key that the walk begins with: groups are aligned */
    struct tir_value skip;  /* keys before the part's first */
    struct tir_value n;     /* keys of the walk */
};

static const struct att_tile tiles[] = {
    {.waves = 4, .waves_per_simd = 2, .why = "one workgroup selects while another scores"},
    {.waves = 8, .waves_per_simd = 2, .why = "two waves a SIMD: q stays in registers"},
    {.waves = 4,
     .waves_per_simd = 1,
     .why = "a wave a SIMD: it has registers for the q of 128 heads"},
};

/* Buffers of keys and of blocks, of which a round has fewer where the LDS is too small. */
struct sizes {
    struct att_select_size keys, blocks;
    unsigned bytes;
};

static struct sizes sizes_of(const struct att_variant *v, const struct att_tile *t,
                             const struct tir_machine *m)
{
    struct sizes s = {0};
    for (unsigned each = EACH_MAX; each >= EACH_MAX / 2; each /= 2) {
        const unsigned chunk = each * t->waves * LANES;
        const unsigned k = (unsigned)v->top_blocks;
        unsigned left = m->lds_bytes, taken = 0;
        if (k) {
            s.blocks = att_select_size(k, each, chunk / (unsigned)v->block_size, t->waves, 0);
            taken = att_select_beside_bytes(s.blocks.room, t->waves);
            left = taken < left ? left - taken : 0;
        }
        s.keys = att_select_size((unsigned)v->top_k, each, chunk, t->waves, left);
        s.bytes = att_select_lds_bytes(s.keys.room, t->waves) + taken;
        if (s.bytes <= m->lds_bytes)
            break;
    }
    return s;
}

/* Workgroups that share a compute unit. */
static unsigned beside(const struct att_tile *t) { return 4u * t->waves_per_simd / t->waves; }

/* Two waves of a SIMD have 256 registers each, of which q and weights of 128 heads take half. */
static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    enum { HEADS = 96 };
    if (v->index_heads > HEADS && t->waves_per_simd > 1)
        return att_reject(why, ATT_TILE, "%d waves a SIMD have no registers for the q of %d heads",
                          t->waves_per_simd, v->index_heads);
    const struct sizes s = sizes_of(v, t, m);
    const unsigned most = s.keys.room > s.blocks.room ? s.keys.room : s.blocks.room;
    if (!att_select_holds(most, t->waves))
        return att_reject(why, ATT_TILE, "%d waves have no registers for %u entries", t->waves,
                          most);
    if (s.bytes * beside(t) > m->lds_bytes)
        return att_reject(why, ATT_TOP_K, "top_k %d takes %u bytes of LDS, %s has %u", v->top_k,
                          s.bytes, m->name, m->lds_bytes);
    return true;
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
    if (!tir_is_power((unsigned)v->block_size))
        return att_reject(why, ATT_BLOCK_SIZE, "block_size %d is no power of two", v->block_size);
    if (v->listed && v->planned)
        return att_reject(why, ATT_PLANNED, "planned is set, and listed");
    if (v->listed && v->top_blocks)
        return att_reject(why, ATT_TOP_BLOCKS, "top_blocks is set, and listed");
    return att_find_tile(v, m, &tile, why) && att_index_check(v, m, why);
}

/* The first key, of the part's, of lane 0 in a round: the j-th of its scores. */
static struct tir_value key_at(struct indexer *x, struct tir_value round, unsigned j)
{
    struct tir_builder *b = &x->b;
    const struct tir_value at = tir_add(b, round, att_select_place(&x->select, j));
    return tir_add(b, x->begin, at);
}

static struct att_index_walk walk_at(struct indexer *x, struct tir_value round)
{
    return (struct att_index_walk){
        .own = key_at(x, round, 0),
        .stride = (int)x->select.chunk,
        .groups = x->select.each * LANES / ATT_INDEX_GROUP,
    };
}

/* Values that the loop over rounds carries. The keys of the round before are appended between the
 * products of this one. Behind them: the state of the blocks' selection. */
enum {
    TO = ATT_SELECT_N,
    KEYS,
    WAY = KEYS + EACH_MAX,
    CARRIED_MAX = WAY + ATT_INDEX_CARRIED_MAX + ATT_SELECT_N
};

struct round {
    struct indexer *x;
    struct tir_value first;    /* of this round: a position of the walk */
    struct tir_value *carried; /* of the loop */
    struct tir_value keys[EACH_MAX], blocks[EACH_MAX], own;
};

/* Appends set j of the round that begins at `first`. */
static void append(struct indexer *x, struct tir_value *carried, unsigned j, struct tir_value first)
{
    const struct tir_value at = tir_add(&x->b, first, att_select_place(&x->select, j));
    carried[TO] = att_select_append(&x->select, carried[ATT_SELECT_LIMIT], carried[KEYS + j], at,
                                    carried[TO]);
}

static void append_former(void *context, unsigned j)
{
    struct round *r = context;
    append(r->x, r->carried, j, att_plus(&r->x->b, r->first, -(int)r->x->select.chunk));
}

/* A key for each block, in its first lane: absent scores are NaNs, which no maximum has. */
static struct tir_value block_keys(struct indexer *x, struct tir_value scores,
                                   struct tir_value there)
{
    struct tir_builder *b = &x->b;
    const struct tir_type t = tir_typeof(b->f, scores);
    const struct tir_value nan =
        tir_bitcast(b, tir_splat(b, tir_i32(b, QUIET_NAN), x->select.lane), t);
    const struct tir_value present = tir_select(b, there, scores, nan);
    const struct tir_value blocks = tir_join_blocks(b, present, x->block_size);
    const struct tir_value most =
        tir_broadcast(b, tir_col_max(b, blocks), tir_typeof(b->f, blocks));
    const struct tir_value inside = tir_and(
        b, x->select.lane_index, tir_splat(b, tir_i32(b, (int)x->block_size - 1), x->select.lane));
    const struct tir_value first = tir_cmp_eq(b, inside, tir_int_like(b, inside, 0));
    return att_select_key(b, tir_split_blocks(b, most, 1), tir_and(b, there, first));
}

static void take(void *context, unsigned j, struct tir_value scores)
{
    struct round *r = context;
    struct indexer *x = r->x;
    struct tir_builder *b = &x->b;
    const struct tir_value at = tir_add(b, r->first, att_select_place(&x->select, j));
    const struct tir_value position =
        tir_add(b, x->select.lane_index, tir_splat(b, at, x->select.lane));
    const struct tir_value there =
        tir_cmp_ult(b, tir_sub(b, position, tir_splat(b, x->skip, x->select.lane)),
                    tir_splat(b, tir_sub(b, x->n, x->skip), x->select.lane));
    r->keys[j] = att_select_key(b, scores, there);
    if (x->top_blocks)
        r->blocks[j] = block_keys(x, scores, there);
    r->own = tir_add(b, r->own,
                     att_select_passing(&x->select, r->carried[ATT_SELECT_LIMIT], r->keys[j]));
}

static unsigned carried_before_blocks(const struct indexer *x)
{
    return WAY + att_index_carried(&x->index);
}

static struct tir_value *blocks_state(const struct indexer *x, struct tir_value *carried)
{
    return carried + carried_before_blocks(x);
}

static void visit(struct indexer *x, struct tir_value first, struct tir_value *carried)
{
    const struct att_index_walk walk = walk_at(x, first);
    struct round r = {.x = x, .first = first, .carried = carried, .own = tir_i32(&x->b, 0)};
    att_index_score(&x->index, &walk, carried + WAY,
                    &(struct att_index_user){append_former, take, &r});
    memcpy(carried + KEYS, r.keys, x->select.each * sizeof(r.keys[0]));
    carried[TO] = att_select_reserve(&x->select, carried, r.keys, r.own);
    if (x->top_blocks)
        att_select_offer(&x->blocks, blocks_state(x, carried), r.blocks, first);
}

static void append_last(struct indexer *x, struct tir_value *carried, struct tir_value chunk)
{
    struct tir_builder *b = &x->b;
    const struct tir_value rounds = tir_div(b, att_plus(b, x->n, -1), chunk);
    for (unsigned j = 0; j < x->select.each; j++)
        append(x, carried, j, tir_mul(b, rounds, chunk));
}

/* Goes through the part's keys; without any nothing is read. `state` is that of both selections. */
static void select_keys(struct indexer *x, struct tir_value state[2 * ATT_SELECT_N])
{
    enum { N = ATT_SELECT_N };
    struct tir_builder *b = &x->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value end = tir_add(b, x->list.first, x->list.n);
    const unsigned n_state = x->top_blocks ? 2 * N : N;
    x->begin = tir_and(b, x->list.first, tir_i32(b, -ATT_INDEX_GROUP));
    x->skip = tir_sub(b, x->list.first, x->begin);
    x->n = tir_sub(b, end, x->begin);
    struct tir_type types[2 * N];
    for (unsigned i = 0; i < 2 * N; i++)
        types[i] = tir_scalar(TIR_I32);
    struct tir_if some = tir_begin_if(b, tir_cmp_gt(b, x->list.n, zero), false, types, n_state);
    struct tir_value carried[CARRIED_MAX], done[2 * N];
    att_index_row(&x->index, x->list.row, end);
    memcpy(carried, state, N * sizeof(*carried));
    memcpy(blocks_state(x, carried), state + N, N * sizeof(*carried));
    carried[TO] = zero;
    for (unsigned j = 0; j < EACH_MAX; j++)
        carried[KEYS + j] = att_select_no_key(&x->select);
    const struct att_index_walk walk = walk_at(x, zero);
    att_index_send(&x->index, &walk, carried + WAY);
    const unsigned n = carried_before_blocks(x) + n_state - N;
    const struct tir_value chunk = tir_i32(b, (int)x->select.chunk);
    struct tir_loop loop = tir_begin_for(b, zero, x->n, chunk, carried, n);
    visit(x, loop.index, carried);
    tir_end_for(b, &loop, carried, n);
    append_last(x, carried, chunk);
    memcpy(done, carried, N * sizeof(*done));
    memcpy(done + N, blocks_state(x, carried), N * sizeof(*done));
    tir_else(b, &some, done);
    tir_end_if(b, &some, state);
}

/* The position of a place of the walk. */
static struct tir_value position_of(struct indexer *x, struct tir_value walked)
{
    struct tir_builder *b = &x->b;
    const struct tir_value found = tir_sub(b, walked, tir_splat(b, x->skip, x->select.lane));
    const struct tir_value place =
        tir_add(b, found, tir_splat(b, x->list.position, x->select.lane));
    if (!x->listed)
        return place;
    const struct tir_value bits = tir_int_like(b, place, (int)tir_bits(x->block_size));
    const struct tir_value block =
        att_list_gather(&x->list, x->index.list, tir_shr(b, place, bits), TIR_I32);
    const struct tir_value inside =
        tir_and(b, place, tir_int_like(b, place, (int)x->block_size - 1));
    return tir_add(b, tir_shl(b, block, bits), inside);
}

static void name_entries(void *context, struct tir_value entry, struct tir_value out[2])
{
    struct indexer *x = context;
    struct tir_builder *b = &x->b;
    const struct tir_value own = position_of(x, att_select_position(&x->select, entry));
    out[0] = own;
    out[1] = att_select_score(&x->select, entry);
    if (!x->index.paged)
        return;
    struct tir_value slots = tir_cmp_ne(b, tir_arg(b, ARG_AS_SLOTS, TIR_I32), tir_i32(b, 0));
    if (x->list.partial.id)
        slots = tir_and(b, slots, tir_cmp_lt(b, x->list.partial, tir_i32(b, 0)));
    struct tir_if branch = tir_begin_if(b, slots, false, &x->select.lane, 1);
    const struct tir_value key = tir_add(b, own, tir_splat(b, x->list.start, x->select.lane));
    const struct tir_value slot = att_list_slots(&x->list, key);
    tir_else(b, &branch, &slot);
    tir_end_if(b, &branch, out);
}

static void name_blocks(void *context, struct tir_value entry, struct tir_value out[2])
{
    struct indexer *x = context;
    const struct tir_value own = position_of(x, att_select_position(&x->blocks, entry));
    out[0] = tir_shr(&x->b, own, tir_int_like(&x->b, own, (int)tir_bits(x->block_size)));
    out[1] = att_select_score(&x->blocks, entry);
}

/* Places of the row's list take the place of its keys: all of its blocks are whole but the last,
 * which may reach beyond the row's end. */
static void open_list(struct indexer *x)
{
    struct tir_builder *b = &x->b;
    const struct tir_value zero = tir_i32(b, 0);
    const int size = (int)x->block_size;
    const struct tir_value row =
        tir_mul(b, att_wide(b, x->list.row), att_stride(b, ARG_CANDIDATES_ROW_STRIDE, 4));
    x->index.list = tir_add(b, tir_arg(b, ARG_CANDIDATES, TIR_I64), row);
    x->index.start = x->list.start;
    const struct tir_value count = tir_scalar_load(b, tir_arg(b, ARG_CANDIDATE_COUNTS, TIR_I64),
                                                   tir_shl(b, x->list.row, tir_i32(b, 2)), TIR_I32);
    const struct tir_value last = tir_max(b, att_plus(b, count, -1), zero);
    const struct tir_value block =
        tir_scalar_load(b, x->index.list, tir_shl(b, last, tir_i32(b, 2)), TIR_I32);
    const struct tir_value over =
        tir_sub(b, att_times(b, att_plus(b, block, 1), size), x->list.all);
    const struct tir_value n = tir_sub(b, att_times(b, count, size), tir_max(b, over, zero));
    att_list_cut(&x->list, zero, tir_max(b, n, zero));
    x->list.start = x->index.start;
}

/* ---- kv_indptr ---- */

/* Counts the selected keys of each of 64 rows: those that it sees, top_k at most. */
static struct tir_value count_rows(struct indexer *x, struct tir_value first)
{
    struct tir_builder *b = &x->b;
    const struct tir_value rows = tir_arg(b, ARG_ROWS, TIR_I32), four = tir_i32(b, 4);
    const struct tir_value starts = tir_arg(b, ARG_ROW_STARTS, TIR_I64);
    const struct tir_value none = tir_cmp_eq(b, starts, tir_i64(b, 0));
    const struct tir_value n_starts = tir_select(b, none, tir_i32(b, 0), rows);
    const struct tir_value ends_at = tir_arg(b, ARG_ROW_ENDS, TIR_I64);
    const struct tir_value start =
        tir_tile_load(b, att_view(b, starts, n_starts, four, 4, 0), first, x->select.lane);
    const struct tir_value end =
        tir_tile_load(b, att_view(b, ends_at, rows, four, 4, 0), first, x->select.lane);
    const struct tir_value zero = tir_int_like(b, end, 0);
    const struct tir_value sees = tir_sub(b, end, tir_max(b, start, zero));
    return tir_min(b, tir_max(b, sees, zero), tir_int_like(b, end, (int)x->select.k));
}

/* The first wave of workgroup `group` 0 goes through all rows. */
static void write_indptr(struct indexer *x, struct tir_value group)
{
    struct tir_builder *b = &x->b;
    const struct tir_value out = tir_arg(b, ARG_KV_INDPTR, TIR_I64), zero = tir_i32(b, 0);
    const struct tir_value wave = tir_or(b, group, x->select.wave);
    const struct tir_value own =
        tir_and(b, tir_cmp_eq(b, wave, zero), tir_cmp_ne(b, out, tir_i64(b, 0)));
    const struct tir_value n = att_plus(b, tir_arg(b, ARG_ROWS, TIR_I32), 1);
    struct tir_if first = tir_begin_if(b, own, false, NULL, 0);
    const struct tir_view indptr = att_view(b, out, n, tir_i32(b, 4), 4, 0);
    struct tir_value total = zero;
    struct tir_loop loop = tir_begin_for(b, zero, n, tir_i32(b, LANES), &total, 1);
    const struct tir_value counts = count_rows(x, loop.index);
    const struct tir_value before = tir_lane_sum_below(b, counts);
    const struct tir_value last = tir_i32(b, LANES - 1);
    tir_tile_store(b, indptr, loop.index, tir_add(b, before, tir_splat(b, total, x->select.lane)));
    total = tir_add(b, total,
                    tir_add(b, tir_lane_read(b, before, last), tir_lane_read(b, counts, last)));
    tir_end_for(b, &loop, &total, 1);
    tir_end_if(b, &first, NULL);
}

/* The part of a row that is open, from an empty state of both selections on. */
static void select_part(struct indexer *x, const struct tir_value empty[2 * ATT_SELECT_N])
{
    struct tir_value state[2 * ATT_SELECT_N];
    memcpy(state, empty, sizeof(state));
    select_keys(x, state);
    att_list_write(&x->list, &x->select, att_select_end(&x->select, state),
                   &(struct att_list_names){name_entries, x, ARG_INDICES, ARG_VALUES, ARG_COUNTS,
                                            ARG_PARTIAL_INDICES, ARG_PARTIAL_VALUES});
    if (x->top_blocks)
        att_list_write(&x->list, &x->blocks, att_select_end(&x->blocks, state + ATT_SELECT_N),
                       &(struct att_list_names){name_blocks, x, ARG_BLOCKS, ARG_BLOCK_VALUES,
                                                ARG_BLOCK_COUNTS, ARG_PARTIAL_BLOCKS,
                                                ARG_PARTIAL_BLOCK_VALUES});
}

/* All that the workgroup has; no item begins before the last one's entries have been read, since
 * waves meet before the first is appended. */
static void select_items(struct indexer *x, const struct tir_value empty[2 * ATT_SELECT_N])
{
    struct tir_builder *b = &x->b;
    const struct tir_value indptr = tir_arg(b, ARG_WORK_INDPTR, TIR_I64);
    const struct tir_value at = tir_shl(b, tir_block_id(b, 0), tir_i32(b, 2));
    const struct tir_value first = tir_scalar_load(b, indptr, at, TIR_I32);
    const struct tir_value end = tir_scalar_load(b, indptr, att_plus(b, at, 4), TIR_I32);
    struct tir_loop loop = tir_begin_for(b, first, end, tir_i32(b, 1), NULL, 0);
    x->list = att_list_of_item(b, loop.index);
    select_part(x, empty);
    tir_end_for(b, &loop, NULL, 0);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = att_begin_kernel(v, m, tile.waves, tile.waves_per_simd);
    struct indexer x = {.b = tir_at_end(f, f->body)};
    const struct sizes sizes = sizes_of(v, &tile, m);
    struct tir_value state[2 * ATT_SELECT_N];
    x.top_blocks = (unsigned)v->top_blocks;
    x.block_size = (unsigned)v->block_size;
    x.listed = v->listed;
    x.index = att_index_begin(&x.b, v);
    x.select = att_select_begin(&x.b, &sizes.keys, NULL, state);
    if (x.top_blocks)
        x.blocks = att_select_begin(&x.b, &sizes.blocks, &x.select, state + ATT_SELECT_N);
    const struct tir_value group = tir_or(&x.b, tir_block_id(&x.b, 0), tir_block_id(&x.b, 1));
    const bool early = x.top_blocks || v->planned; /* no scalar registers are left for it then */
    if (!v->planned)
        x.list = att_list_begin(&x.b, (struct tir_value){0});
    if (x.listed)
        open_list(&x);
    else if (early)
        write_indptr(&x, group);
    if (v->planned)
        select_items(&x, state);
    else
        select_part(&x, state);
    if (!x.listed && !early)
        write_indptr(&x, group);
    tir_return(&x.b);
    *k = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1, .interleave = 1},
        .grid = {{ARG_WORKGROUPS, 1, 1}, {ARG_SPLITS, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d keys=%d", tile.waves,
             tile.waves * (int)sizes.keys.each * LANES);
}

const struct att_template att_template_indexer_topk = {
    .name = "indexer_topk",
    .description = "the sparse indexer: the keys that score highest against each query",
    .takes = OP_TAKES_INDEXER_TOPK | ATT_BIT(TILE),
    .tiles = tiles,
    .n_tiles = sizeof(tiles) / sizeof(tiles[0]),
    .fits = fits,
    .check = check,
    .build = build,
};
