/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are selected from, and the lists that are made of them: arguments that topk and
 * indexer_topk share. Workgroup (t, p) has part p of row t; with a plan it has the items of a work
 * list, each part of a row, and lists of parts are merged to rows.
 */
#ifndef TEMPLATES_SELECT_LIST_H
#define TEMPLATES_SELECT_LIST_H

#include "templates/select/select.h"

/** A part of a row of scores, and the list of its largest ones that is written. */
struct att_list {
    struct tir_builder *b;
    struct tir_value row, part; /* numbers of the row, and of the part in it */
    struct tir_value start;     /* first column of the row: row_starts */
    struct tir_value all;       /* scores of the row */
    struct tir_value first;     /* column of the part's first score */
    struct tir_value position;  /* position of the part's first score in its row */
    struct tir_value n;         /* scores of the part; all members are i32 scalars */
    struct tir_value partial;   /* number of the part's list among a plan's; negative if the row has
                                  one part; id 0: there is no plan */
    struct tir_value to;        /* number of the output list; id 0: splits * row + part */
};

/** The unit, in columns, in which rows are divided, unless wider blocks are selected too. */
enum { ATT_LIST_UNIT = 64 };

/** Returns this workgroup's part of its row, by row_starts, row_ends and `splits`: a multiple of
 * `unit` columns. `columns` limits the ends of rows, and replaces row_ends if that is NULL; no
 * value: no limit. */
struct att_list att_list_begin(struct tir_builder *b, struct tir_value columns, unsigned unit);

/** Returns this workgroup's part of row `row`, in multiples of ATT_LIST_UNIT columns, with its
 * end by row_ends only. */
struct att_list att_list_of_row(struct tir_builder *b, struct tir_value row);

/** Returns the part of a row that is item `item` of a plan's work list. */
struct att_list att_list_of_item(struct tir_builder *b, struct tir_value item);

/** Returns, as one part, the lists that were made of a row's parts, or of a run of them. They
 * lie one after the other; n is 0 if there are none. */
struct att_list att_list_of_parts(struct tir_builder *b, unsigned k);

/** Divides a row of `all` scores, whose columns begin at `start`, into parts. Each is a multiple of
 * `unit` columns, a power of two, so that no block of adjacent columns is divided. */
void att_list_cut(struct att_list *l, struct tir_value start, struct tir_value all, unsigned unit);

/** Loads element `at` (i32, one for each lane) of a 32-bit array at `base`. */
struct tir_value att_list_gather(const struct att_list *l, struct tir_value base,
                                 struct tir_value at, unsigned dtype);

/** Returns the slots of tokens by block_table. `at` has positions that count from the sequence's
 * first token. */
struct tir_value att_list_slots(const struct att_list *l, struct tir_value at);

/** The outputs of a buffer's entries. `name` sets, in every lane, out[0] to the index (i32) and
 * out[1] to the value (f32) of entry `entry`. */
struct att_list_names {
    void (*name)(void *context, struct tir_value entry, struct tir_value out[2]);
    void *context;
    const char *indices, *values, *counts;        /* names of arguments */
    const char *partial_indices, *partial_values; /* names of arguments; with a plan only */
};

/** Writes the indices and values of the first `count` entries of the buffer, and `count`, to the
 * part's output list. */
void att_list_write(const struct att_list *l, const struct att_select *s, struct tir_value count,
                    const struct att_list_names *names);

#endif
