/* SPDX-License-Identifier: Apache-2.0
 *
 * This file declares rows of scores, and the output lists of the largest scores of each, which topk
 * and indexer_topk share. Without a plan workgroup (t, p) has part p of row t. With a plan it has
 * the items of a work list. Each item is a part of a row, and another launch merges the lists of a
 * row's parts.
 */
#ifndef TEMPLATES_SELECT_LIST_H
#define TEMPLATES_SELECT_LIST_H

#include "templates/select/select.h"

/** A part of a row of scores, and the place of the list of its largest scores. All values are i32
 * scalars. */
struct att_list {
    struct tir_builder *b;
    struct tir_value row, part; /* i32: index of the row, and of the part in the row */
    struct tir_value start;     /* i32: the row's first column, from argument row_starts */
    struct tir_value all;       /* i32: number of scores of the row */
    struct tir_value first;     /* i32: column of the part's first score */
    struct tir_value position;  /* i32: position of the part's first score in its row */
    struct tir_value n;         /* i32: number of scores of the part */
    /* i32: index of the part's list among a plan's lists of parts; negative: the row has one part;
     * no value: there is no plan. */
    struct tir_value partial;
    struct tir_value to; /* i32: index of the output list; no value: splits * row + part */
};

/** The number of columns of a part is a multiple of this number. If blocks of more columns are
 * selected, a block is used instead. */
enum { ATT_LIST_UNIT = 64 };

/** Returns this workgroup's part of its row by the arguments row_starts, row_ends and splits. A
 * part is a multiple of `unit` columns. `columns` (i32) is the most columns of any row, and the end
 * of every row if row_ends is NULL; no value: it sets no limit. */
struct att_list att_list_begin(struct tir_builder *b, struct tir_value columns, unsigned unit);

/** Returns this workgroup's part of row `row` (i32 index), a multiple of ATT_LIST_UNIT columns. The
 * row's end comes from argument row_ends. */
struct att_list att_list_of_row(struct tir_builder *b, struct tir_value row);

/** Returns the part of a row that item `item` (i32 index) of a plan's work list describes. */
struct att_list att_list_of_item(struct tir_builder *b, struct tir_value item);

/** Returns a part whose scores are lists of `k` entries that other workgroups made, for a launch
 * that merges these lists. The lists are contiguous: those for all parts of this workgroup's row,
 * or for a run of parts. The result's n is 0 if there are no lists. */
struct att_list att_list_of_parts(struct tir_builder *b, unsigned k);

/** Sets *l to this workgroup's part of a row of `all` scores, whose columns begin at `start` (both
 * i32). A part is a multiple of `unit` columns, a power of two, so that no block of adjacent
 * columns is divided. */
void att_list_cut(struct att_list *l, struct tir_value start, struct tir_value all, unsigned unit);

/** Returns elements `at` (i32 indices, one in each lane) of an array of 32-bit elements at address
 * `base` (i64), as `dtype` (enum tir_dtype). */
struct tir_value att_list_gather(const struct att_list *l, struct tir_value base,
                                 struct tir_value at, unsigned dtype);

/** Returns the cache slots (i32) of the tokens at positions `at` (i32), by argument block_table. A
 * position counts from the sequence's first token. */
struct tir_value att_list_slots(const struct att_list *l, struct tir_value at);

/** The contents and the arguments of the lists that att_list_write() writes. name() sets, in every
 * lane, out[0] to the index (i32) and out[1] to the value (f32) of entry `entry` (index). `context`
 * is its first argument. */
struct att_list_names {
    void (*name)(void *context, struct tir_value entry, struct tir_value out[2]);
    void *context;
    const char *indices, *values, *counts; /* names of the arguments for the lists */
    /* With a plan: names of the arguments for lists of parts of rows. */
    const char *partial_indices, *partial_values;
};

/** Writes the first `count` (i32) entries of the buffer of `s` to the part's output list, as
 * indices and values. Writes `count` to the array of counts. */
void att_list_write(const struct att_list *l, const struct att_select *s, struct tir_value count,
                    const struct att_list_names *names);

#endif
