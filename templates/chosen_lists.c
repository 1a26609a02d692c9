/* SPDX-License-Identifier: Apache-2.0
 *
 * This file builds the kernel that writes the lists that attention reads, from the groups of tokens
 * that an indexer has chosen. An entry is a page of whole groups for paged decode, or a row of a
 * pool. The pool may also have a ring of rows for each sequence's window.
 *
 * A workgroup is one wave and writes 128 entries of one list. With more entries for each workgroup,
 * launches of few queries would take longer; with fewer, launches of many queries would.
 */
#include "ir/builder.h"
#include "ir/spread.h"
#include "templates/workgroup/scalar.h"
#include "templates/template.h"

#include <stdio.h>

enum {
    ROWS = 64 /* number of list entries of a tile of 64 lanes */,
    EACH = 2 /* number of tiles that a workgroup writes */,
    INT = 4 /* bytes of an i32 */
};

/* The kernel under construction: its builder, sizes, and values that several functions use. */
struct lists {
    struct tir_builder b;
    struct tir_type lane; /* type of a tile of list entries: i32, ROWS x 1, spread over the lanes */
    /* i32, indices: the list (a row of argument `lists`), and the query to which it belongs. */
    struct tir_value row, query;
    struct tir_value sequence; /* i32: index of the query's sequence */
    struct tir_value tokens;   /* i32: number of tokens that the query sees */
    /* i64: address of the row's list of chosen groups; of block_table if argument `chosen` is
     * NULL. */
    struct tir_value chosen;
    /* i1: argument `chosen` is not NULL; false: a list has all groups of its sequence. */
    struct tir_value lists_chosen;
    /* i32. groups: number of chosen groups of the list. open: 1 if the newest, incomplete group
     * follows the chosen ones, else 0. */
    struct tir_value groups, open;
    /* i32: index in the sequence of the newest group, after the last complete one. */
    struct tir_value newest;
    struct tir_value each; /* i32: number of list entries of each group */
    struct tir_value of_groups,
        window; /* i32: number of list entries of all groups, `open` included, and of the window */
};

/* Returns the scalar `scalar` (i32) as a tile of ROWS x 1. */
static struct tir_value number(struct lists *l, struct tir_value scalar)
{
    return tir_splat(&l->b, scalar, l->lane);
}

/* Returns the value (i32) of the argument with name `arg`. */
static struct tir_value argument(struct lists *l, const char *arg)
{
    return tir_arg(&l->b, arg, TIR_I32);
}

/* Returns entry `index` (i32) of the array of i32 at address `base` (i64). Returns `absent` (i32),
 * and loads nothing, if `there` (i1) is false. */
static struct tir_value entry_or(struct lists *l, struct tir_value base, struct tir_value index,
                                 struct tir_value there, struct tir_value absent)
{
    struct tir_builder *b = &l->b;
    const struct tir_type type = tir_scalar(TIR_I32);
    struct tir_if some = tir_begin_if(b, there, false, &type, 1);
    const struct tir_value found =
        tir_scalar_load(b, base, tir_shl(b, index, tir_i32(b, 2)), TIR_I32);
    tir_else(b, &some, &found);
    tir_end_if(b, &some, &absent);
    return absent;
}

/* Returns the number (i32) of list entries of the newest group that have no token, if the group has
 * only `rest` tokens (i32). The result is 0 if the group is complete, or if lists have complete
 * groups only. The page table may end before these entries. */
static struct tir_value empty_entries(struct lists *l, struct tir_value rest)
{
    struct tir_builder *b = &l->b;
    const struct tir_value one = tir_i32(b, 1), zero = tir_i32(b, 0);
    const struct tir_value tokens = tir_max(b, tir_div(b, argument(l, ARG_RATIO), l->each), one);
    const struct tir_value used = tir_div(b, att_plus(b, tir_add(b, rest, tokens), -1), tokens);
    const struct tir_value open =
        tir_and(b, tir_cmp_gt(b, rest, zero), tir_cmp_ne(b, argument(l, ARG_APPENDS_OPEN), zero));
    return tir_select(b, open, tir_sub(b, l->each, used), zero);
}

/* Sets the members of `l` for the list (row of argument `lists`) that the workgroup writes. */
static void open_row(struct lists *l)
{
    struct tir_builder *b = &l->b;
    const struct tir_value zero = tir_i32(b, 0), one = tir_i32(b, 1);
    const struct tir_value ratio = argument(l, ARG_RATIO);
    l->row = tir_block_id(b, 0);
    l->query = tir_div(b, l->row, argument(l, ARG_KV_HEADS));
    l->tokens = tir_max(b, att_entry(b, ARG_KV_LENS, l->query, TIR_I32), zero);
    l->sequence = att_entry_or(b, ARG_ROW_SEQUENCES, l->query, l->query);
    l->newest = tir_div(b, l->tokens, ratio);
    l->lists_chosen = att_is_given(b, ARG_CHOSEN);
    l->groups = entry_or(l, tir_arg(b, ARG_COUNTS, TIR_I64), l->row, l->lists_chosen, l->newest);
    const struct tir_value chosen =
        att_row(b, tir_arg(b, ARG_CHOSEN, TIR_I64), l->row, ARG_CHOSEN_ROW_STRIDE, INT);
    l->chosen = tir_select(b, l->lists_chosen, chosen, tir_arg(b, ARG_BLOCK_TABLE, TIR_I64));
    const struct tir_value some = tir_and(b, l->lists_chosen, tir_cmp_gt(b, l->groups, zero));
    const struct tir_value last =
        entry_or(l, l->chosen, att_plus(b, l->groups, -1), some, tir_i32(b, -1));
    const struct tir_value rest = tir_rem(b, l->tokens, ratio);
    const struct tir_value adds =
        tir_and(b, tir_cmp_gt(b, rest, zero), tir_cmp_ne(b, last, l->newest));
    l->open = tir_and(b, tir_select(b, adds, one, zero), argument(l, ARG_APPENDS_OPEN));
    l->each = argument(l, ARG_GROUP_ENTRIES);
    l->of_groups =
        tir_sub(b, tir_mul(b, tir_add(b, l->groups, l->open), l->each), empty_entries(l, rest));
    l->window = tir_min(b, l->tokens, argument(l, ARG_WINDOW));
}

/* Writes the length of the row's list, in the row's first workgroup only. The length counts
 * entries, or tokens if argument ARG_APPENDS_OPEN is not 0. */
static void write_length(struct lists *l)
{
    struct tir_builder *b = &l->b;
    const struct tir_value zero = tir_i32(b, 0), ratio = argument(l, ARG_RATIO);
    const struct tir_value rest = tir_rem(b, l->tokens, ratio);
    const struct tir_value lacks =
        tir_select(b, tir_cmp_gt(b, rest, zero), tir_sub(b, ratio, rest), zero);
    const struct tir_value whole = tir_mul(b, tir_add(b, l->groups, l->open), ratio);
    const struct tir_value counts_tokens = tir_cmp_ne(b, argument(l, ARG_APPENDS_OPEN), zero);
    const struct tir_value n =
        tir_select(b, counts_tokens, tir_sub(b, whole, lacks), tir_add(b, l->of_groups, l->window));
    const struct tir_value base = att_at(b, ARG_LIST_LENS, att_wide_times(b, l->row, INT));
    const struct tir_value first = tir_cmp_eq(b, tir_block_id(b, 1), zero);
    const struct tir_value rows = tir_select(b, first, tir_i32(b, 1), zero);
    tir_tile_store(b, att_view(b, base, rows, tir_i32(b, INT), INT, 0), zero, number(l, n));
}

/* Loads an i32 for each lane of a tile from the array at address `base` (i64): entry `index` (ROWS
 * x 1), or entry 0 if `there` (i1, ROWS x 1) is false. */
static struct tir_value gather(struct lists *l, struct tir_value base, struct tir_value index,
                               struct tir_value there)
{
    struct tir_builder *b = &l->b;
    const struct tir_value wide = tir_convert(b, index, TIR_I64);
    const struct tir_value at = tir_mul(b, wide, att_like(b, tir_i64(b, INT), wide));
    const struct tir_value safe = tir_select(b, there, at, tir_int_like(b, at, 0));
    return tir_tile_gather(b, base, safe, tir_i32(b, 0), l->lane);
}

/* Returns the values (i32, ROWS x 1) of the list entries with indices `at` (i32, ROWS x 1) that
 * belong to chosen groups. If `there` (i1, ROWS x 1) is false, the entry's value is arbitrary. A
 * value is a place in the paged cache times the number of KV heads, plus the row's KV head. */
static struct tir_value group_entries(struct lists *l, struct tir_value at, struct tir_value there)
{
    struct tir_builder *b = &l->b;
    const struct tir_value each = number(l, l->each),
                           per = number(l, argument(l, ARG_PAGE_ENTRIES));
    const struct tir_value place = tir_div(b, at, each);
    const struct tir_value added = tir_cmp_ge(b, place, number(l, l->groups));
    const struct tir_value lists_it = tir_and(b, there,
                                              tir_and(b, tir_cmp_lt(b, place, number(l, l->groups)),
                                                      att_like(b, l->lists_chosen, there)));
    struct tir_value group = tir_select(b, lists_it, gather(l, l->chosen, place, lists_it), place);
    group = tir_select(b, added, number(l, l->newest), group);
    const struct tir_value i =
        tir_add(b, tir_mul(b, group, each), tir_sub(b, at, tir_mul(b, place, each)));
    const struct tir_value column = tir_div(b, i, per);
    const struct tir_value table =
        att_at(b, ARG_BLOCK_TABLE, att_offset(b, l->sequence, ARG_BLOCK_TABLE_STRIDE, INT));
    const struct tir_value page = gather(l, table, column, there);
    const struct tir_value inside = tir_sub(b, i, tir_mul(b, column, per));
    const struct tir_value unit = tir_add(b, tir_mul(b, page, per), inside);
    const struct tir_value heads = argument(l, ARG_KV_HEADS);
    const struct tir_value head = tir_sub(b, l->row, tir_mul(b, l->query, heads));
    return tir_add(b, tir_mul(b, unit, number(l, heads)), number(l, head));
}

/* Returns the row index in the pool (i32) at which the ring of the row's sequence begins. */
static struct tir_value ring_of(struct lists *l)
{
    struct tir_builder *b = &l->b;
    const struct tir_value slot = att_entry_or(&l->b, ARG_WINDOW_SLOTS, l->sequence, tir_i32(b, 0));
    return tir_add(b, argument(l, ARG_WINDOW_FIRST),
                   tir_mul(b, slot, argument(l, ARG_WINDOW_STRIDE)));
}

/* Returns the row index (i32, ROWS x 1) of each token `token` (i32, ROWS x 1, index in the
 * sequence) of the window. The newest new_lens tokens are rows of the second source. Other tokens
 * are rows of the pool's ring, which begins at row `ring` (i32). */
static struct tir_value window_rows(struct lists *l, struct tir_value token, struct tir_value ring)
{
    struct tir_builder *b = &l->b;
    const struct tir_value own = tir_rem(b, tir_max(b, token, number(l, tir_i32(b, 0))),
                                         number(l, argument(l, ARG_RING_ROWS)));
    const struct tir_value fresh = att_entry_or(b, ARG_NEW_LENS, l->query, tir_i32(b, 0));
    const struct tir_value first = tir_sub(b, l->tokens, fresh);
    const struct tir_value own_row = tir_add(b, argument(l, ARG_SECOND_FIRST), l->query);
    const struct tir_value step = tir_sub(b, own_row, att_plus(b, l->tokens, -1));
    return tir_select(b, tir_cmp_lt(b, token, number(l, first)), tir_add(b, number(l, ring), own),
                      tir_add(b, token, number(l, step)));
}

/* Writes up to ROWS entries of the row's list from entry `first` (i32: index) on, up to the list's
 * end. `ring` is the result of ring_of(). */
static void write_entries(struct lists *l, struct tir_value first, struct tir_value ring)
{
    struct tir_builder *b = &l->b;
    const struct tir_value at = tir_add(b, tir_row_index(b, l->lane), number(l, first));
    const struct tir_value of_groups = number(l, l->of_groups);
    const struct tir_value in_group = tir_cmp_lt(b, at, of_groups);
    const struct tir_value before = number(l, tir_sub(b, l->tokens, l->window));
    const struct tir_value token = tir_add(b, before, tir_sub(b, at, of_groups));
    const struct tir_value entries =
        tir_select(b, in_group, group_entries(l, at, in_group), window_rows(l, token, ring));
    const struct tir_value all =
        tir_min(b, tir_add(b, l->of_groups, l->window), argument(l, ARG_ENTRIES));
    const struct tir_value base =
        att_row(b, tir_arg(b, ARG_LISTS, TIR_I64), l->row, ARG_LISTS_ROW_STRIDE, INT);
    tir_tile_store(b, att_view(b, base, all, tir_i32(b, INT), INT, 0), first, entries);
}

/* Builds the kernel of a variant into `k`. */
static void build(const struct att_variant *v, const struct tir_machine *m, struct att_kernel *k)
{
    struct tir_func *f = att_begin_kernel(v, m, 1, 4);
    struct lists l = {.b = tir_at_end(f, f->body)};
    struct tir_builder *b = &l.b;
    const struct tir_layout lane = tir_spread_column(m, 1, ROWS);
    l.lane = tir_tile(f, TIR_I32, ROWS, 1, &lane);
    open_row(&l);
    write_length(&l);
    const struct tir_value ring = ring_of(&l);
    const struct tir_value first = att_times(b, tir_block_id(b, 1), EACH * ROWS);
    for (int i = 0; i < EACH; i++)
        write_entries(&l, att_plus(b, first, i * ROWS), ring);
    tir_return(b);
    *k = (struct att_kernel){
        .func = f,
        .grid = {{ARG_ROWS, 1, 1}, {ARG_ENTRIES, EACH * ROWS, 1}, {NULL, 1, 1}},
    };
    snprintf(k->tuning, sizeof(k->tuning), "entries=%d", EACH * ROWS);
}

const struct att_template att_template_chosen_lists = {
    .name = "chosen_lists",
    .description = "what an indexer has chosen, as the pages or rows that attention reads",
    .takes = OP_TAKES_CHOSEN_LISTS,
    .check = att_check_none,
    .build = build,
};
