/* SPDX-License-Identifier: Apache-2.0
 *
 * The sparse indexer's scores and the selection of the largest, in one pass over the keys: a
 * workgroup has a query row, or the row and a part of its keys. index_score.h makes the scores,
 * select.h keeps the largest; no score goes to memory.
 */
#include "op_names.h"
#include "ir/builder.h"
#include "templates/index_score.h"
#include "templates/scalar.h"
#include "templates/select_list.h"

#include <stdio.h>
#include <string.h>

enum {
    EACH = 8, /* scores of a lane, in one round */
    LANES = ATT_SELECT_LANES,
};

struct indexer {
    struct tir_builder b;
    struct att_index index;
    struct att_select select;
    struct att_list list;
    struct tir_value begin; /* the key that the walk begins with: groups are aligned */
    struct tir_value skip;  /* keys before the part's first */
    struct tir_value n;     /* keys of the walk */
};

static const struct att_tile tiles[] = {
    {.waves = 8, .why = "two waves a SIMD: q stays in registers"},
};

static const struct att_knob knobs[] = {
    {"waves", 2, {4, 16}},
};

static unsigned room_of(const struct att_variant *v, const struct att_tile *t,
                        const struct tir_machine *m)
{
    return att_select_room((unsigned)v->top_k, EACH, t->waves, m->lds_bytes);
}

static bool fits(const struct att_variant *v, const struct att_tile *t, const struct tir_machine *m,
                 struct att_why *why)
{
    const unsigned room = room_of(v, t, m), bytes = att_select_lds_bytes(room, t->waves);
    if (!att_select_holds(room, t->waves))
        return att_reject(why, ATT_TILE, "%d waves have no registers for %u entries", t->waves,
                          room);
    if (bytes > m->lds_bytes)
        return att_reject(why, ATT_TOP_K, "top_k %d takes %u bytes of LDS, %s has %u", v->top_k,
                          bytes, m->name, m->lds_bytes);
    return true;
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    struct att_tile tile;
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

/* What the loop over rounds carries. The keys of the round before are appended between the
 * products of this one. */
enum { TO = ATT_SELECT_N, KEYS, WAY = KEYS + EACH, CARRIED_MAX = WAY + ATT_INDEX_CARRIED_MAX };

struct round {
    struct indexer *x;
    struct tir_value first;    /* of this round: a position of the walk */
    struct tir_value *carried; /* of the loop */
    struct tir_value keys[EACH], own;
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
    r->own = tir_add(b, r->own,
                     att_select_passing(&x->select, r->carried[ATT_SELECT_LIMIT], r->keys[j]));
}

static void visit(struct indexer *x, struct tir_value first, struct tir_value *carried)
{
    const struct att_index_walk walk = walk_at(x, first);
    struct round r = {.x = x, .first = first, .carried = carried, .own = tir_i32(&x->b, 0)};
    att_index_score(&x->index, &walk, carried + WAY,
                    &(struct att_index_user){append_former, take, &r});
    memcpy(carried + KEYS, r.keys, sizeof(r.keys));
    carried[TO] = att_select_reserve(&x->select, carried, r.keys, r.own);
}

/* Goes through the part's keys; without any nothing is read. */
static struct tir_value select_keys(struct indexer *x, struct tir_value state[ATT_SELECT_N])
{
    struct tir_builder *b = &x->b;
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value end = tir_add(b, x->list.first, x->list.n);
    x->begin = tir_and(b, x->list.first, tir_i32(b, -ATT_INDEX_GROUP));
    x->skip = tir_sub(b, x->list.first, x->begin);
    x->n = tir_sub(b, end, x->begin);
    struct tir_type types[ATT_SELECT_N];
    for (int i = 0; i < ATT_SELECT_N; i++)
        types[i] = tir_scalar(TIR_I32);
    struct tir_if some =
        tir_begin_if(b, tir_cmp_gt(b, x->list.n, zero), false, types, ATT_SELECT_N);
    struct tir_value carried[CARRIED_MAX];
    att_index_row(&x->index, x->list.row, end);
    memcpy(carried, state, ATT_SELECT_N * sizeof(*carried));
    carried[TO] = zero;
    for (unsigned j = 0; j < EACH; j++)
        carried[KEYS + j] = att_select_no_key(&x->select);
    const struct att_index_walk walk = walk_at(x, zero);
    att_index_send(&x->index, &walk, carried + WAY);
    const unsigned n = WAY + att_index_carried(&x->index);
    const struct tir_value chunk = tir_i32(b, (int)x->select.chunk);
    struct tir_loop loop = tir_begin_for(b, zero, x->n, chunk, carried, n);
    visit(x, loop.index, carried);
    tir_end_for(b, &loop, carried, n);
    const struct tir_value rounds = tir_div(b, att_plus(b, x->n, -1), chunk);
    for (unsigned j = 0; j < EACH; j++)
        append(x, carried, j, tir_mul(b, rounds, chunk));
    tir_else(b, &some, carried);
    tir_end_if(b, &some, state);
    return att_select_end(&x->select, state);
}

static void name_entries(void *context, struct tir_value entry, struct tir_value out[2])
{
    struct indexer *x = context;
    struct tir_builder *b = &x->b;
    const struct tir_value walked = att_select_position(&x->select, entry);
    const struct tir_value found = tir_sub(b, walked, tir_splat(b, x->skip, x->select.lane));
    const struct tir_value own = tir_add(b, found, tir_splat(b, x->list.position, x->select.lane));
    out[0] = own;
    out[1] = att_select_score(&x->select, entry);
    if (!x->index.paged)
        return;
    const struct tir_value slots = tir_cmp_ne(b, tir_arg(b, ARG_AS_SLOTS, TIR_I32), tir_i32(b, 0));
    struct tir_if branch = tir_begin_if(b, slots, false, &x->select.lane, 1);
    const struct tir_value key = tir_add(b, found, tir_splat(b, x->list.first, x->select.lane));
    const struct tir_value slot = att_list_slots(&x->list, key);
    tir_else(b, &branch, &slot);
    tir_end_if(b, &branch, out);
}

static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    char name[ATT_NAME_MAX];
    att_variant_name(v, name);
    struct att_tile tile;
    att_find_tile(v, m, &tile, NULL);
    struct tir_func *f = tir_func_create(name, m, tile.waves);
    f->waves_per_simd = tile.waves / 4;
    struct indexer x = {.b = tir_at_end(f, f->body)};
    struct tir_value state[ATT_SELECT_N];
    x.index = att_index_begin(&x.b, v);
    x.select = att_select_begin(&x.b, (unsigned)v->top_k, EACH, room_of(v, &tile, m), state);
    x.list = att_list_begin(&x.b, (struct tir_value){0});
    const struct tir_value count = select_keys(&x, state);
    att_list_write(&x.list, &x.select, count, &(struct att_list_names){name_entries, &x});
    tir_return(&x.b);
    *k = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1, .interleave = 1},
        .grid = {{ARG_ROWS, 1, 1}, {ARG_SPLITS, 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d keys=%d", tile.waves,
             tile.waves * EACH * LANES);
}

const struct att_template att_template_indexer_topk = {
    .name = "indexer_topk",
    .description = "the sparse indexer: the keys that score highest against each query",
    .takes = OP_TAKES_INDEXER_TOPK | ATT_BIT(TILE),
    .tiles = tiles,
    .n_tiles = sizeof(tiles) / sizeof(tiles[0]),
    .knobs = knobs,
    .n_knobs = sizeof(knobs) / sizeof(knobs[0]),
    .fits = fits,
    .check = check,
    .build = build,
};
