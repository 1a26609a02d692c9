/* SPDX-License-Identifier: Apache-2.0
 *
 * The sparse indexer's scores and the selection of the largest, in one pass over the keys: a
 * workgroup has a query row, or the row and a part of its keys. index_score.h makes the scores,
 * select.h keeps the largest; no score goes to memory.
 */
#include "ir/builder.h"
#include "templates/index_score.h"
#include "templates/scalar.h"
#include "templates/select_list.h"

#include <stdio.h>
#include <string.h>

enum {
    WAVES = 8,
    CHUNKS = 3, /* of the buffer: so many keys in a row may pass before a selection */
    LANES = ATT_SELECT_LANES,
    SET = 2 * ATT_INDEX_CARRIED, /* values of 64 keys on their way */
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

/* Scores that a lane has at once: where q takes more registers, keys take fewer. */
static unsigned scores_each(const struct att_variant *v) { return v->index_heads > 64 ? 1 : 2; }

static unsigned room_of(const struct att_variant *v)
{
    return att_select_room((unsigned)v->top_k, scores_each(v), WAVES, CHUNKS);
}

static bool check(const struct att_variant *v, const struct tir_machine *m, struct att_why *why)
{
    const unsigned bytes = att_select_lds_bytes(room_of(v), WAVES);
    if (bytes > m->lds_bytes)
        return att_reject(why, ATT_TOP_K, "top_k %d takes %u bytes of LDS, %s has %u", v->top_k,
                          bytes, m->name, m->lds_bytes);
    return att_index_check(v, m, why);
}

/* The first key, of the part's, of lane 0 in a round: the j-th of its scores. */
static struct tir_value key_at(struct indexer *x, struct tir_value round, unsigned j)
{
    struct tir_builder *b = &x->b;
    const struct tir_value at = tir_add(b, round, att_select_place(&x->select, j));
    return tir_add(b, x->begin, at);
}

static void send_first(struct indexer *x, struct att_index_set *sets)
{
    struct tir_builder *b = &x->b;
    const struct tir_value chunk = tir_i32(b, (int)x->select.chunk);
    for (unsigned j = 0; j < x->select.each; j++)
        for (int i = 0; i < 2; i++) {
            const int at = i * ATT_INDEX_GROUP;
            att_index_send(&x->index, att_plus(b, key_at(x, tir_i32(b, 0), j), at),
                           att_plus(b, key_at(x, chunk, j), at), sets[j].carried[i]);
        }
}

static void visit(struct indexer *x, struct tir_value round, struct tir_value *state,
                  struct att_index_set *sets)
{
    struct tir_builder *b = &x->b;
    const int chunk = (int)x->select.chunk;
    struct tir_value scores[ATT_INDEX_SETS_MAX], keys[ATT_INDEX_SETS_MAX];
    struct tir_value there[ATT_INDEX_SETS_MAX];
    for (unsigned j = 0; j < x->select.each; j++) {
        sets[j].next = key_at(x, att_plus(b, round, chunk), j);
        sets[j].after = key_at(x, att_plus(b, round, 2 * chunk), j);
    }
    att_index_score(&x->index, sets, x->select.each, scores);
    for (unsigned j = 0; j < x->select.each; j++) {
        const struct tir_value at = tir_add(b, round, att_select_place(&x->select, j));
        const struct tir_value position =
            tir_add(b, x->select.lane_index, tir_splat(b, at, x->select.lane));
        keys[j] = att_select_key(b, scores[j]);
        there[j] = tir_and(b, tir_cmp_lt(b, position, tir_splat(b, x->n, x->select.lane)),
                           tir_cmp_ge(b, position, tir_splat(b, x->skip, x->select.lane)));
    }
    att_select_offer(&x->select, state, keys, there, round);
}

/* Collects the values that a loop carries for loads under way. Returns how many there are. */
static unsigned carry(const struct att_index_set *sets, unsigned n, struct tir_value *carried)
{
    for (unsigned j = 0; j < n; j++)
        memcpy(carried + j * SET, sets[j].carried, sizeof(sets[j].carried));
    return n * SET;
}

static void take(struct att_index_set *sets, unsigned n, const struct tir_value *carried)
{
    for (unsigned j = 0; j < n; j++)
        memcpy(sets[j].carried, carried + j * SET, sizeof(sets[j].carried));
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
    struct tir_value carried[ATT_SELECT_N + ATT_INDEX_SETS_MAX * SET];
    struct att_index_set sets[ATT_INDEX_SETS_MAX];
    att_index_row(&x->index, x->list.row, end);
    send_first(x, sets);
    memcpy(carried, state, ATT_SELECT_N * sizeof(*carried));
    const unsigned n_carried = ATT_SELECT_N + carry(sets, x->select.each, carried + ATT_SELECT_N);
    struct tir_loop loop =
        tir_begin_for(b, zero, x->n, tir_i32(b, (int)x->select.chunk), carried, n_carried);
    take(sets, x->select.each, carried + ATT_SELECT_N);
    visit(x, loop.index, carried, sets);
    carry(sets, x->select.each, carried + ATT_SELECT_N);
    tir_end_for(b, &loop, carried, n_carried);
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
    const struct tir_value slots = tir_cmp_ne(b, tir_arg(b, "as_slots", TIR_I32), tir_i32(b, 0));
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
    struct tir_func *f = tir_func_create(name, m, WAVES);
    f->waves_per_simd = WAVES / 4;
    struct indexer x = {.b = tir_at_end(f, f->body)};
    struct tir_value state[ATT_SELECT_N];
    x.index = att_index_begin(&x.b, v);
    x.select = att_select_begin(&x.b, (unsigned)v->top_k, scores_each(v), room_of(v), state);
    x.list = att_list_begin(&x.b, (struct tir_value){0});
    const struct tir_value count = select_keys(&x, state);
    att_list_write(&x.list, &x.select, count, &(struct att_list_names){name_entries, &x});
    tir_return(&x.b);
    *k = (struct att_kernel){
        .func = f,
        .schedule = {.stages = 1, .interleave = 1},
        .grid = {{"rows", 1, 1}, {"splits", 1, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "waves=%d keys=%d", WAVES,
             WAVES * (int)scores_each(v) * LANES);
}

const struct att_template att_template_indexer_topk = {
    .name = "indexer_topk",
    .description = "the sparse indexer: the keys that score highest against each query",
    .takes = OP_TAKES_INDEXER_TOPK,
    .check = check,
    .build = build,
};
