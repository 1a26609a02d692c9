/* SPDX-License-Identifier: Apache-2.0 */
#include "templates/select/list.h"

#include "op_names.h"
#include "templates/cache/paging.h"
#include "templates/workgroup/scalar.h"

enum {
    NO_SCORE = -1, /* bits of the NaN that marks no score */
};

/* Returns this workgroup's part of row `row` (i32 index), a multiple of `unit` columns. `columns`
 * (i32) is the most columns of any row; no value: row_ends has the ends. */
static struct att_list part_of(struct tir_builder *b, struct tir_value row,
                               struct tir_value columns, unsigned unit)
{
    const struct tir_value zero = tir_i32(b, 0);
    struct att_list l = {.b = b, .row = row, .part = tir_block_id(b, 1)};
    const struct tir_value start = tir_max(b, att_entry_or(b, ARG_ROW_STARTS, l.row, zero), zero);
    struct tir_value end = att_entry_or(b, ARG_ROW_ENDS, l.row, columns.id ? columns : zero);
    if (columns.id)
        end = tir_min(b, end, columns);
    att_list_cut(&l, start, tir_max(b, tir_sub(b, end, start), zero), unit);
    return l;
}

struct att_list att_list_begin(struct tir_builder *b, struct tir_value columns, unsigned unit)
{
    return part_of(b, tir_block_id(b, 0), columns, unit);
}

struct att_list att_list_of_row(struct tir_builder *b, struct tir_value row)
{
    return part_of(b, row, (struct tir_value){0}, ATT_LIST_UNIT);
}

/* Implements the declaration in list.h. Columns after the row's end are not read, even if the
 * plan's item ends later. */
struct att_list att_list_of_item(struct tir_builder *b, struct tir_value item)
{
    enum { SEQUENCE = 0, PARTIAL = 1, FIRST_KEY = 4, END_KEY = 5, BYTE_BITS = 5 };
    const struct tir_value zero = tir_i32(b, 0);
    const struct tir_value at = tir_shl(b, att_wide(b, item), tir_i64(b, BYTE_BITS));
    const struct tir_value info = att_at(b, ARG_WORK_INFO, at);
    struct att_list l = {
        .b = b,
        .part = zero,
    };
    l.row = tir_scalar_load(b, info, tir_i32(b, 4 * SEQUENCE), TIR_I32);
    l.partial = tir_scalar_load(b, info, tir_i32(b, 4 * PARTIAL), TIR_I32);
    const struct tir_value first = tir_scalar_load(b, info, tir_i32(b, 4 * FIRST_KEY), TIR_I32);
    const struct tir_value end = tir_scalar_load(b, info, tir_i32(b, 4 * END_KEY), TIR_I32);
    l.start = tir_max(b, att_entry_or(b, ARG_ROW_STARTS, l.row, zero), zero);
    const struct tir_value row_end = att_entry_or(b, ARG_ROW_ENDS, l.row, zero);
    l.all = tir_max(b, tir_sub(b, row_end, l.start), zero);
    l.position = tir_min(b, first, l.all);
    l.n = tir_sub(b, tir_min(b, end, l.all), l.position);
    l.first = tir_add(b, l.start, l.position);
    return l;
}

/* Implements the declaration in list.h. The list merged from a run of lists has index
 * reduce_indptr[row] / 2 + part among the outputs. Indices do not collide, since a row has at least
 * two lists and at most half as many runs. */
struct att_list att_list_of_parts(struct tir_builder *b, unsigned k)
{
    const struct tir_value one = tir_i32(b, 1), zero = tir_i32(b, 0);
    struct att_list l = {.b = b, .row = tir_block_id(b, 0), .part = tir_block_id(b, 1)};
    const struct tir_value begin = att_entry(b, ARG_REDUCE_INDPTR, l.row, TIR_I32);
    const struct tir_value parts =
        tir_sub(b, att_entry(b, ARG_REDUCE_INDPTR, att_plus(b, l.row, 1), TIR_I32), begin);
    const struct tir_value made_of = tir_arg(b, ARG_LISTS_A_RUN, TIR_I32);
    const struct tir_value of_runs = tir_cmp_gt(b, made_of, zero);
    const struct tir_value up = tir_add(b, parts, att_plus(b, made_of, -1));
    const struct tir_value lists =
        tir_select(b, of_runs, tir_div(b, up, tir_max(b, made_of, one)), parts);
    const struct tir_value half = tir_shr(b, begin, one);
    const struct tir_value list = tir_select(b, of_runs, half, begin);
    const struct tir_value run = tir_arg(b, ARG_RUN_LISTS, TIR_I32);
    const struct tir_value before = tir_min(b, tir_mul(b, l.part, run), lists);
    const struct tir_value own = tir_min(b, run, tir_sub(b, lists, before));
    const struct tir_value whole = tir_cmp_eq(b, run, tir_i32(b, INT32_MAX));
    l.start = l.position = zero;
    l.first = att_times(b, tir_add(b, list, before), (int)k);
    l.n = l.all = att_times(b, own, (int)k);
    l.to = tir_select(b, whole, l.row, tir_add(b, half, l.part));
    return l;
}

void att_list_cut(struct att_list *l, struct tir_value start, struct tir_value all, unsigned unit)
{
    struct tir_builder *b = l->b;
    const struct tir_value splits = tir_arg(b, ARG_SPLITS, TIR_I32);
    const struct tir_value up = tir_add(b, all, att_plus(b, splits, -1));
    const struct tir_value even = att_plus(b, tir_div(b, up, splits), (int)unit - 1);
    const struct tir_value each = tir_and(b, even, tir_i32(b, -(int)unit));
    l->start = start;
    l->all = all;
    l->position = tir_min(b, tir_mul(b, each, l->part), all);
    l->n = tir_min(b, each, tir_sub(b, all, l->position));
    l->first = tir_add(b, start, l->position);
}

struct tir_value att_list_gather(const struct att_list *l, struct tir_value base,
                                 struct tir_value at, unsigned dtype)
{
    struct tir_builder *b = l->b;
    const struct tir_type type = tir_with_dtype(tir_typeof(b->f, at), dtype);
    const struct tir_value wide = tir_convert(b, at, TIR_I64);
    return tir_tile_gather(b, base, tir_mul(b, wide, tir_int_like(b, wide, 4)), tir_i32(b, 0),
                           type);
}

struct tir_value att_list_slots(const struct att_list *l, struct tir_value at)
{
    struct tir_builder *b = l->b;
    const struct tir_value sequence = att_entry_or(l->b, ARG_ROW_SEQUENCES, l->row, l->row);
    const struct tir_value table =
        att_at(b, ARG_BLOCK_TABLE, att_offset(b, sequence, ARG_BLOCK_TABLE_STRIDE, 4));
    const struct att_paging paging = att_paging_by_argument(b, false);
    const struct tir_value entry = att_page_of(&paging, at);
    const struct tir_value page = att_list_gather(l, table, entry, TIR_I32);
    const struct tir_value inside = tir_sub(b, at, att_page_first(&paging, entry));
    return tir_add(b, att_page_first(&paging, page), inside);
}

/* Returns the index (i64) of the part's list among the output lists. With a plan the index is the
 * row. Without a plan it is l->to if that is set, else splits * row + part. */
static struct tir_value list_number(const struct att_list *l)
{
    struct tir_builder *b = l->b;
    if (l->partial.id)
        return att_wide(b, l->row);
    if (l->to.id)
        return att_wide(b, l->to);
    const struct tir_value splits = att_wide(b, tir_arg(b, ARG_SPLITS, TIR_I32));
    return tir_add(b, tir_mul(b, att_wide(b, l->row), splits), att_wide(b, l->part));
}

/* Returns a view of the part's output list, `each` elements of 32 bits. The list is in array
 * argument `arg`, or with a plan and a row of several parts in array argument `of_parts`. The view
 * is empty if the array is NULL. */
static struct tir_view list_in(const struct att_list *l, const char *arg, const char *of_parts,
                               int each)
{
    struct tir_builder *b = l->b;
    struct tir_value list = list_number(l), base = tir_arg(b, arg, TIR_I64);
    if (l->partial.id) {
        const struct tir_value whole = tir_cmp_lt(b, l->partial, tir_i32(b, 0));
        const struct tir_value other = of_parts ? tir_arg(b, of_parts, TIR_I64) : tir_i64(b, 0);
        list = tir_select(b, whole, list, att_wide(b, l->partial));
        base = tir_select(b, whole, base, other);
    }
    const struct tir_value none = tir_cmp_eq(b, base, tir_i64(b, 0));
    const struct tir_value n = tir_select(b, none, tir_i32(b, 0), tir_i32(b, each));
    const struct tir_value at = tir_add(b, base, tir_mul(b, list, tir_i64(b, 4 * each)));
    return att_view(b, at, n, tir_i32(b, 4), 4, 0);
}

void att_list_write(const struct att_list *l, const struct att_select *s, struct tir_value count,
                    const struct att_list_names *names)
{
    struct tir_builder *b = l->b;
    const int k = (int)s->k, lanes = (int)s->lanes;
    const struct tir_view indices = list_in(l, names->indices, names->partial_indices, k);
    const struct tir_view values = list_in(l, names->values, names->partial_values, k);
    const struct tir_type score = tir_with_dtype(s->lane, TIR_F32);
    const struct tir_type types[] = {s->lane, score};
    const struct tir_value begin = att_times(b, s->wave, lanes);
    const struct tir_value step = tir_i32(b, lanes * (int)b->f->waves);
    struct tir_loop loop = tir_begin_for(b, begin, tir_i32(b, k), step, NULL, 0);
    const struct tir_value entry = tir_add(b, s->lane_index, tir_splat(b, loop.index, s->lane));
    const struct tir_value have = tir_cmp_lt(b, entry, tir_splat(b, count, s->lane));
    const struct tir_value none = tir_splat(b, tir_i32(b, NO_SCORE), s->lane);
    struct tir_value out[2] = {none, tir_bitcast(b, none, score)}, found[2];
    struct tir_if some = tir_begin_if(b, tir_any(b, have), false, types, 2);
    names->name(names->context, tir_select(b, have, entry, tir_int_like(b, entry, 0)), found);
    for (int i = 0; i < 2; i++)
        found[i] = tir_select(b, have, found[i], out[i]);
    tir_else(b, &some, found);
    tir_end_if(b, &some, out);
    tir_tile_store(b, indices, loop.index, out[0]);
    tir_tile_store(b, values, loop.index, out[1]);
    tir_end_for(b, &loop, NULL, 0);
    tir_tile_store(b, list_in(l, names->counts, NULL, 1), begin, tir_splat(b, count, s->lane));
}
